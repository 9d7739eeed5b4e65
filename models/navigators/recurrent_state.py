"""What agents carry from step to step, whichever navigator they have: some agents' rows of it, more rows, rows after a history.

A navigator's state is a dataclass of tensors, or tuples of them, whose first axis counts agents. One that grows with each
step (`Transformer`) has `aligned`, which brings it to a given number of steps.

Axes: N agents, T steps, F features, L words.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

State = TypeVar("State")


def rows(state: State, agents: Int64[Tensor, " M"]) -> State:
    """The state of some of the agents, in that order."""
    return _mapped(lambda tensor: tensor[agents], state)


def joined(first: State, second: State) -> State:
    """The agents of both, one after the other."""
    if hasattr(first, "aligned"):
        steps = max(first.num_steps, second.num_steps)
        first, second = first.aligned(steps), second.aligned(steps)
    return _mapped(lambda *tensors: torch.cat(tensors), first, second)


@torch.no_grad()
def after_history(
    navigator: nn.Module,
    questions: Int64[Tensor, "N L"],
    features: Float[Tensor, "N T F"],
    actions: Int64[Tensor, "N T"],
) -> object:
    """The state of agents that have walked given histories, each padded behind its end with actions of -1."""
    if hasattr(navigator, "follow"):
        return navigator.follow(questions, features, actions)
    state = navigator.initial_state(questions)
    for t in range(actions.shape[1]):
        taken = actions[:, t]
        state, _ = navigator.act(state, features[:, t].float(), forced=taken.clamp(min=0), active=taken >= 0)
    return state


def asked(state: object) -> Bool[Tensor, " N"] | None:
    """Whose planner chose the last action; None for navigators without one."""
    return state.repeats == 1 if hasattr(state, "repeats") else None


def _mapped(function: Callable[..., Tensor], *states: State) -> State:
    def one(*values: object) -> object:
        if isinstance(values[0], tuple):
            return tuple(function(*tensors) for tensors in zip(*values, strict=True))
        return function(*values)

    kind = type(states[0])
    return kind(**{f.name: one(*(getattr(state, f.name) for state in states)) for f in fields(kind)})
