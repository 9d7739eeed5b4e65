"""The state that agents carry from step to step, whichever navigator they have: some agents' rows of it, more rows.

Axes: N agents, T steps.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


class RecurrentState:
    """A dataclass of tensors, or tuples of them, whose first axis counts agents."""

    __slots__ = ()

    @property
    def num_steps(self) -> int:
        """Length of what grows with each step (`Transformer`); 0 where nothing does."""
        return 0

    def aligned(self, steps: int) -> "RecurrentState":
        """The same with room for so many steps."""
        return self

    def acted(self, actions: Int64[Tensor, " N"], active: Bool[Tensor, " N"]) -> "RecurrentState":
        """The same after the active agents have taken actions."""
        return self


State = TypeVar("State", bound=RecurrentState)


def rows(state: State, agents: Int64[Tensor, " M"]) -> State:
    """The state of some of the agents, in that order."""
    return _mapped(lambda tensor: tensor[agents], state)


def joined(first: State, second: State) -> State:
    """The agents of both, one after the other."""
    steps = max(first.num_steps, second.num_steps)
    return _mapped(lambda *tensors: torch.cat(tensors), first.aligned(steps), second.aligned(steps))


def _mapped(function: Callable[..., Tensor], *states: State) -> State:
    def one(*values: object) -> object:
        if isinstance(values[0], tuple):
            return tuple(function(*tensors) for tensors in zip(*values, strict=True))
        return function(*values)

    kind = type(states[0])
    return kind(**{f.name: one(*(getattr(state, f.name) for state in states)) for f in fields(kind)})
