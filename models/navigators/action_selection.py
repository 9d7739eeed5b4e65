"""How a navigator's scores become an action, the same for all navigators.

Axes: N agents, K things to choose from.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import NUM_ACTIONS, Action

START = NUM_ACTIONS  # what runs before the first action; an embedding row of its own


def choose(logits: Float[Tensor, "N K"], draws: Float[Tensor, " N"] | None) -> Int64[Tensor, " N"]:
    """The likeliest of each row, or with `draws`, uniform in 0..1, what the softmax has where they fall.

    So a draw depends on its own row alone, whatever else is in the batch.
    """
    if draws is None:
        return logits.argmax(1)
    below = logits.float().softmax(1).cumsum(1)[:, :-1]
    return (below <= draws[:, None]).sum(1)


def choose_action(
    logits: Float[Tensor, "N 4"], *, stop_odds: float, draws: Float[Tensor, " N"] | None
) -> Int64[Tensor, " N"]:
    """Takes STOP once that times `stop_odds` is the likeliest; a draw follows the distribution as it is.

    At 1 (Das et al. 2018) an agent that takes the likeliest action stops late or never: where to stop is known to within
    some steps only, so at none of them STOP is the likeliest.
    """
    if draws is None:
        odds = torch.zeros_like(logits)
        odds[:, Action.STOP] = math.log(stop_odds)
        logits = logits + odds
    return choose(logits, draws)


@torch.no_grad()
def sharpen(heads: Iterable[nn.Linear], *, temperature: float, stop_odds: float) -> None:
    """Changes a navigator's last layers so that draws come from what they are now at a `temperature`, STOP being `stop_odds`
    times as likely before. What is likeliest with these `stop_odds` is then the likeliest without."""
    for head in heads:
        if head.out_features == NUM_ACTIONS:
            head.bias[Action.STOP] += math.log(stop_odds)
        head.weight /= temperature
        head.bias /= temperature


def first_of(draws: Float[Tensor, "N 2"] | None) -> Float[Tensor, " N"] | None:
    """What those use who decide once a step."""
    return None if draws is None else draws[:, 0]


def checked_odds(stop_odds: float) -> float:
    if not stop_odds > 0:
        raise ValueError(f"stop_odds: expected above 0, got {stop_odds}")
    return stop_odds
