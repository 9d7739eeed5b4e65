"""The LSTM that learns in bfloat16 against PyTorch's in float32."""

import pytest
import torch
from torch import nn

from eqa.models.navigators.bf16_lstm import LSTM
from tests.helpers.processor import needs_bfloat16_lstm


def both(seed: int) -> tuple[LSTM, nn.LSTM]:
    torch.manual_seed(seed)
    ours, theirs = LSTM(6, 16), nn.LSTM(6, 16, batch_first=True)
    for values in ours.parameters():
        nn.init.normal_(values)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def learned(network: nn.LSTM, steps, state, wanted) -> list[torch.Tensor]:
    """Results and gradients of everything that has one, for a loss in which every result counts."""
    leaves = [value.clone().requires_grad_() for value in (steps, *(state or ()))]
    outputs, (hidden, cell) = network(leaves[0], tuple(leaves[1:]) or None)
    loss = (
        (outputs.float() * wanted).sum() + (hidden.float() * wanted[:, 0]).sum() + (cell.float() * wanted[:, 1]).sum()
    )
    gradients = torch.autograd.grad(loss, [*network.parameters(), *leaves])
    return [outputs.detach(), hidden.detach(), cell.detach(), *gradients]


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("num_steps", [2, 9])
def test_results_and_all_gradients_in_bfloat16_are_those_of_pytorchs_lstm_in_float32(with_state, num_steps):
    ours, theirs = both(0)
    steps, wanted = torch.randn(5, num_steps, 6), torch.randn(5, num_steps, 16)
    state = (torch.randn(1, 5, 16).tanh(), torch.randn(1, 5, 16)) if with_state else None
    expected = learned(theirs, steps, state, wanted)
    with torch.autocast("cpu", torch.bfloat16):
        found = learned(ours, steps, state, wanted)
    for name, here, there in zip(range(99), found, expected, strict=False):
        assert here.dtype == torch.float32, name
        assert (here - there).norm() <= 0.02 * there.norm(), name
    assert not all(torch.equal(here, there) for here, there in zip(found, expected, strict=True))  # it did run


@needs_bfloat16_lstm
def test_without_autocast_or_without_gradients_it_is_pytorchs_own():
    ours, theirs = both(1)
    steps, wanted = torch.randn(3, 4, 6), torch.randn(3, 4, 16)
    assert all(map(torch.equal, learned(ours, steps, None, wanted), learned(theirs, steps, None, wanted)))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours(steps)[0], theirs(steps)[0])
