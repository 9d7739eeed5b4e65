"""Frames of noise, and an encoder with used batch norms."""

import numpy as np
import torch

from eqa.models.encoders.cnn import Encoder


def frames(num: int, size: int = 224, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (num, size, size, 3), np.uint8))


def lived_in(encoder: Encoder) -> Encoder:
    """Gives batch norms statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(1)
    for norm in encoder.norms:
        for tensor, low, high in (
            (norm.weight.data, 0.5, 1.5),
            (norm.bias.data, -0.3, 0.3),
            (norm.running_mean, -0.2, 0.2),
            (norm.running_var, 0.01, 0.1),
        ):
            tensor.uniform_(low, high, generator=generator)
    return encoder.eval()
