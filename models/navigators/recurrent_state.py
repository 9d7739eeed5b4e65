"""`RecurrentState`: the state of agents between steps, for any navigator, and functions that select or join its rows.

Axes: N agents, T steps.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


class RecurrentState:
    """A dataclass of tensors, tuples of them, or other such states, whose first axis counts agents."""

    __slots__ = ()

    @property
    def num_steps(self) -> int:
        """Length of the part that grows with each step (`Transformer`); 0 if none does."""
        return 0

    def aligned(self, steps: int) -> "RecurrentState":
        """The same with room for `steps` steps."""
        return self

    def acted(self, actions: Int64[Tensor, " N"], active: Bool[Tensor, " N"]) -> "RecurrentState":
        """The state after the active agents took `actions`."""
        return self


State = TypeVar("State", bound=RecurrentState)


def rows(state: State, agents: Int64[Tensor, " M"]) -> State:
    """The state of some agents, in the given order."""
    return _mapped(lambda tensor: tensor[agents], state)


def joined(first: State, second: State) -> State:
    """The states of both groups of agents, one after the other."""
    steps = max(first.num_steps, second.num_steps)
    return _mapped(lambda *tensors: torch.cat(tensors), first.aligned(steps), second.aligned(steps))


def _mapped(function: Callable[..., Tensor], *states: State) -> State:
    def one(*values: object) -> object:
        if isinstance(values[0], tuple):
            return tuple(function(*tensors) for tensors in zip(*values, strict=True))
        return _mapped(function, *values) if isinstance(values[0], RecurrentState) else function(*values)

    kind = type(states[0])
    return kind(**{f.name: one(*(getattr(state, f.name) for state in states)) for f in fields(kind)})
