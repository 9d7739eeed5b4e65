"""How a navigator's scores become an action, the same for all navigators.

Axes: N agents, K things to choose from.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from envs.actions import NUM_ACTIONS, Action

START = NUM_ACTIONS  # what runs before the first action; an embedding row of its own


def choose(logits: Float[Tensor, "N K"], *, sample: bool) -> Int64[Tensor, " N"]:
    """The likeliest of each row, or a draw: the maximum after adding Gumbel noise follows the softmax."""
    if sample:
        logits = logits.float() - torch.empty_like(logits, dtype=torch.float32).exponential_().log()
    return logits.argmax(1)


def choose_action(logits: Float[Tensor, "N 4"], *, stop_odds: float, sample: bool) -> Int64[Tensor, " N"]:
    """Takes STOP once that times `stop_odds` is the likeliest; a draw follows the distribution as it is.

    At 1 (Das et al. 2018) an agent that takes the likeliest action stops late or never: where to stop is known to within
    some steps only, so at none of them STOP is the likeliest.
    """
    if not sample:
        odds = torch.zeros_like(logits)
        odds[:, Action.STOP] = math.log(stop_odds)
        logits = logits + odds
    return choose(logits, sample=sample)


def checked_odds(stop_odds: float) -> float:
    if not stop_odds > 0:
        raise ValueError(f"stop_odds: expected above 0, got {stop_odds}")
    return stop_odds
