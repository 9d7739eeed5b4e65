"""The choice of an action from a navigator's scores, the same for all navigators.

Axes: N agents, A actions, K things to choose from, D size of a vector.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import Action

START = -1  # stands for the previous action before the first one; its embedding is the last row


class ActionEmbedding(nn.Embedding):
    """Vectors of the previous action: a row for each action of the world, and a last one for START."""

    def __init__(self, num_actions: int, size: int):
        super().__init__(num_actions + 1, size)

    def forward(self, previous_action: Int64[Tensor, "*N"]) -> Float[Tensor, "*N D"]:
        return super().forward(previous_action % self.num_embeddings)


def choose(logits: Float[Tensor, "N K"], noise: Float[Tensor, " N"] | None) -> Int64[Tensor, " N"]:
    """The likeliest choice of each row, or with `noise`, uniform in 0..1, a draw from the softmax by inverse transform.

    A draw depends on its own row alone, whatever else is in the batch.
    """
    if noise is None:
        return logits.argmax(1)
    below = logits.float().softmax(1).cumsum(1)[:, :-1]
    return (below <= noise[:, None]).sum(1)


def choose_action(
    logits: Float[Tensor, "N A"], *, stop_odds: float, noise: Float[Tensor, " N"] | None
) -> Int64[Tensor, " N"]:
    """Takes STOP if its probability times `stop_odds` is the largest. Draws follow the unchanged distribution.

    At 1 (Das et al. 2018) an agent that takes the likeliest action stops late or never. The right step to stop is known
    only to within some steps, so STOP is the likeliest at none of them.
    """
    if noise is None:
        odds = torch.zeros_like(logits)
        odds[:, Action.STOP] = math.log(stop_odds)
        logits = logits + odds
    return choose(logits, noise)


@torch.no_grad()
def sharpen(heads: Iterable[nn.Linear], *, num_actions: int, temperature: float, stop_odds: float) -> None:
    """Changes a navigator's last layers, so that it draws from its distribution at a `temperature`.

    Heads over all `num_actions` make STOP `stop_odds` times as likely before the temperature applies. The likeliest
    action under these `stop_odds` is then the likeliest without.
    """
    for head in heads:
        if head.out_features == num_actions:
            head.bias[Action.STOP] += math.log(stop_odds)
        head.weight /= temperature
        head.bias /= temperature


def checked_odds(stop_odds: float) -> float:
    if not stop_odds > 0:
        raise ValueError(f"stop_odds: expected above 0, got {stop_odds}")
    return stop_odds
