"""Agents without learning: lower and upper bounds for a navigator.

Axes: N episodes, W of them that walk.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int64

from eqa.data.demonstrations.plans import to_best_views
from eqa.envs.actions import Action
from eqa.envs.simulator import Goal, Observation
from eqa.models.agents.agent import EpisodeBatch, PlanFollower, Walker


class RandomAgent(Walker):
    """Takes all actions but STOP with equal probability; the draws are a function of the seed."""

    name = "random walk"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def reset(self, batch: EpisodeBatch) -> None:
        self.num, self.num_actions = len(batch.questions), len(batch.action_set)

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        drawn = self.rng.integers(self.num_actions - 1, size=self.num)[agents]
        return drawn + (drawn >= Action.STOP)


class ForwardAgent(Walker):
    """Always moves forward: the worth of momentum alone, for a spawn that already looks along the path."""

    name = "forward only"

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        return np.full(len(agents), int(Action.FORWARD), dtype=np.int64)


class ShortestPathAgent(PlanFollower):
    """Follows the demonstration to its end, or from a spawn off it the shortest walk.

    It is the upper bound for walking, and for answering from the frames on the way.
    """

    name = "shortest path"

    def reset(self, batch: EpisodeBatch) -> None:
        beside = [n for n, left in enumerate(batch.remaining) if left is None]
        self.plans, self.step = list(batch.remaining), 0
        for scene_id, places in _by_scene(batch, beside):
            goals = [Goal.of(batch.episodes[n]) for n in places]
            starts = [tuple(pose) for pose in batch.poses[places].tolist()]
            for n, walk in zip(places, batch.world.shortest_walks(scene_id, goals, starts), strict=True):
                self.plans[n] = walk.actions


class BestViewAgent(ShortestPathAgent):
    """Follows the shortest walk to the best view point: the upper bound for answering from the last frames."""

    name = "best view"

    def reset(self, batch: EpisodeBatch) -> None:
        self.plans, self.step = [None] * len(batch.poses), 0
        for scene_id, places in _by_scene(batch, range(len(batch.poses))):
            found = to_best_views(batch.world, scene_id, [batch.episodes[n] for n in places], batch.poses[places])
            for n, plan in zip(places, found, strict=True):
                self.plans[n] = plan


def _by_scene(batch: EpisodeBatch, chosen: Iterable[int]) -> list[tuple[str, list[int]]]:
    """The chosen episodes, grouped by scene."""
    groups: dict[str, list[int]] = {}
    for n in chosen:
        groups.setdefault(batch.episodes[n].scene_id, []).append(n)
    return list(groups.items())
