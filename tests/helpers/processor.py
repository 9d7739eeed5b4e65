"""Abilities of this machine's processor."""

import pytest
import torch


def lstm_takes_bfloat16() -> bool:
    """PyTorch's LSTM has no bfloat16 kernel for processors without AVX-512."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError:
        return False
    return True


needs_bfloat16_lstm = pytest.mark.skipif(
    not lstm_takes_bfloat16(), reason="PyTorch's LSTM computes no bfloat16 on this processor"
)
