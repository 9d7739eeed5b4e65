"""Learning in several processes at once: each takes a part of every batch, and all learn from the mean over the whole.

The mean over a batch's decisions is not the mean of its parts' means, as parts differ in their number of decisions.
Sums and counts are therefore added up over all processes. Each process weights its loss so that the gradient averaged
by DDP is that of the whole batch's mean. A single process has weight 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch import distributed as dist

Part = tuple[Tensor, Tensor, int]  # mean loss and accuracy over so many decisions


@dataclass(frozen=True, slots=True)
class Whole:
    """A part of a loss over all processes; `weight` is the factor of this process's own mean in its loss."""

    loss: Tensor
    accuracy: Tensor
    count: int
    weight: float


def add_up(values: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The sum over all processes; `values` itself if there is one. All of them must call it at the same time."""
    if not _several():
        return values
    values = values.clone()
    dist.all_reduce(values)
    return values


def mean_over_processes(values: Shaped[Tensor, " N"]) -> Tensor:
    """The mean over the values of all processes."""
    total = add_up(torch.stack([values.sum(), values.new_tensor(float(len(values)))]))
    return total[0] / total[1]


def over_processes(parts: Mapping[str, Part]) -> dict[str, Whole]:
    """Each part of a loss (planner, controller, ...) over all processes, with one all-reduce for all of them.

    A process without decisions has a count of 0, and raises nothing.
    """
    if not _several():
        return {name: Whole(loss.detach(), right, count, 1.0) for name, (loss, right, count) in parts.items()}
    rows = [torch.stack([loss.detach(), right, torch.ones_like(loss)]) * count for loss, right, count in parts.values()]
    return {
        name: Whole(
            loss=loss / total.clamp(min=1),
            accuracy=right / total.clamp(min=1),
            count=int(total),
            weight=dist.get_world_size() * count / max(int(total), 1),
        )
        for (name, (_, _, count)), (loss, right, total) in zip(parts.items(), add_up(torch.stack(rows)), strict=True)
    }


def _several() -> bool:
    return dist.is_available() and dist.is_initialized()
