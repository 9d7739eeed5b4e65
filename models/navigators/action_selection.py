"""How a navigator's scores become an action, the same for all navigators.

Axes: N agents, K things to choose from.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import NUM_ACTIONS, Action

START = NUM_ACTIONS  # the previous action of an agent that has taken none; an embedding row of its own


def choose(logits: Float[Tensor, "N K"], noise: Float[Tensor, " N"] | None) -> Int64[Tensor, " N"]:
    """The likeliest of each row, or with `noise`, uniform in 0..1, what the softmax has where they fall.

    So a draw depends on its own row alone, whatever else is in the batch.
    """
    if noise is None:
        return logits.argmax(1)
    below = logits.float().softmax(1).cumsum(1)[:, :-1]
    return (below <= noise[:, None]).sum(1)


def choose_action(
    logits: Float[Tensor, "N 4"], *, stop_odds: float, noise: Float[Tensor, " N"] | None
) -> Int64[Tensor, " N"]:
    """Takes STOP once that times `stop_odds` is the likeliest; a draw follows the distribution as it is.

    At 1 (Das et al. 2018) an agent that takes the likeliest action stops late or never: where to stop is known to within
    some steps only, so at none of them STOP is the likeliest.
    """
    if noise is None:
        odds = torch.zeros_like(logits)
        odds[:, Action.STOP] = math.log(stop_odds)
        logits = logits + odds
    return choose(logits, noise)


@torch.no_grad()
def sharpen(heads: Iterable[nn.Linear], *, temperature: float, stop_odds: float) -> None:
    """Changes a navigator's last layers so that draws come from what they are now at a `temperature`, STOP being `stop_odds`
    times as likely before. What is likeliest with these `stop_odds` is then the likeliest without."""
    for head in heads:
        if head.out_features == NUM_ACTIONS:
            head.bias[Action.STOP] += math.log(stop_odds)
        head.weight /= temperature
        head.bias /= temperature


def checked_odds(stop_odds: float) -> float:
    if not stop_odds > 0:
        raise ValueError(f"stop_odds: expected above 0, got {stop_odds}")
    return stop_odds
