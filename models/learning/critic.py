"""`Critic`: a learned baseline that knows what the simulator knows, so that a few hundred walks teach it.

An agent has to see where it is; the critic is told (asymmetric actor-critic, Pinto et al. 2018, arXiv 1710.06542). It
is needed in training alone, learns no features of frames, and fits every navigator.

Axes: M episodes, T steps of history and walk, S1 own poses, the spawn included, K facts.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64
from torch import Tensor, nn

from eqa.envs.metrics import LEAST_SHARE
from eqa.envs.simulator import Goal

FACTS = (
    "geodesic metres to the goal",
    "the same after one action less",
    "metres to the nearest view point, ahead",
    "and to the right",
    "and upwards",
    "cosine of its heading, seen from the agent's",
    "and sine",
    "whether the agent is in the target's room",
    "share of the largest number of actions that is spent",
    "root of the share of the view that the target fills, if it is watched",
    "whether that is enough to be seen",
)
METRES = 4.0  # that make 1, about the way from T-30


def facts_of(
    poses: Float64[np.ndarray, "M S1 4"],
    distances_m: Float64[np.ndarray, "M S1"],
    in_room: Bool[np.ndarray, "M S1"],
    shares: Float32[np.ndarray, "M S1"],
    goals: Sequence[Goal],
    max_steps: int,
) -> Float32[np.ndarray, "M S1 K"]:
    """`FACTS` of each pose of some walks; lengths in units of `METRES`."""
    nearest = np.empty_like(poses)
    for n, goal in enumerate(goals):
        points = np.array(goal.view_points)
        away = ((poses[n, :, None, :3] - points[:, :3]) ** 2).sum(2)
        nearest[n] = points[away.argmin(1)]
    x, up, z = np.moveaxis(nearest - poses, 2, 0)[:3]
    heading, turn = poses[..., 3], nearest[..., 3] - poses[..., 3]
    lengths = [
        distances_m,
        np.concatenate([distances_m[:, :1], distances_m[:, :-1]], 1),
        -x * np.sin(heading) - z * np.cos(heading),
        x * np.cos(heading) - z * np.sin(heading),
        up,
    ]
    spent = np.broadcast_to(np.arange(poses.shape[1]) / max_steps, distances_m.shape)
    facts = [*(metres / METRES for metres in lengths), np.cos(turn), np.sin(turn), in_room, spent]
    facts += [np.sqrt(shares), shares >= LEAST_SHARE]
    return np.stack(facts, 2).astype(np.float32)


class Critic(nn.Module):
    """A perceptron over the facts of a step."""

    def __init__(self, num_facts: int = len(FACTS), *, hidden_size: int = 128):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_facts, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU()
        )
        self.head = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, facts: Float32[Tensor, "M T K"]) -> Float[Tensor, "M T"]:
        """The return from each step on."""
        return self.head(self.layers(facts.to(self.head.weight.dtype))).squeeze(-1)
