"""Returns and advantages of episodes.

A decision's credit is the reward of the step that it decides, and all later ones. (The released code of Das et al. 2018
was off by one: earlier planner decisions got the returns of later ones.)

Axes: M episodes, T steps.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def returns_to_go(rewards: Float[Tensor, "M T"], gamma: float) -> Float[Tensor, "M T"]:
    """Return of each step: its reward plus `gamma` times the return of the next. Padding adds nothing."""
    returns = torch.zeros_like(rewards)
    ahead = torch.zeros_like(rewards[:, 0])
    for t in range(rewards.shape[1] - 1, -1, -1):
        ahead = rewards[:, t] + gamma * ahead
        returns[:, t] = ahead
    return returns


def generalized_advantages(
    rewards: Float[Tensor, "M T"],
    values: Float[Tensor, "M T"],
    counts: Bool[Tensor, "M T"],
    *,
    gamma: float,
    gae_lambda: float,
) -> Float[Tensor, "M T"]:
    """GAE (Schulman et al. 2016) over the steps that `counts`; an episode's value after its last one is 0.

    gae_lambda=1 gives the return minus the value, 0 the one-step error.
    """
    values = values * counts
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    return returns_to_go((rewards + gamma * following - values) * counts, gamma * gae_lambda)


def with_truncated_ends(
    rewards: Float[Tensor, "M T"],
    counts: Bool[Tensor, "M T"],
    truncated: Bool[Tensor, " M"],
    values: Float[Tensor, "M T"],
) -> tuple[Float[Tensor, "M T"], Bool[Tensor, "M T"]]:
    """Rewards and counts in which truncated episodes end with an estimate of their further rewards.

    The value at the last step replaces its reward; the step itself no longer counts.
    """
    after = torch.cat([counts[:, 1:], torch.zeros_like(counts[:, :1])], 1)
    last = counts & ~after & truncated[:, None]
    return torch.where(last, values, rewards), counts & ~last


def leave_one_out(rewards: Float[Tensor, "M T"], samples: int) -> Float[Tensor, "M T"]:
    """Further reward from each step on, if the episode came to the mean total of the other samples of its spawn.

    It is that mean less the reward so far. Samples of a spawn lie side by side. ValueError for one sample.
    """
    if samples < 2:
        raise ValueError(f"baseline: expected at least 2 samples of each spawn to compare, got {samples}")
    groups = rewards.sum(1).unflatten(0, (-1, samples))
    others = ((groups.sum(1, keepdim=True) - groups) / (samples - 1)).flatten()
    return others[:, None] - (rewards.cumsum(1) - rewards)
