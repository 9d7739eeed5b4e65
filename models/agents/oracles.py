"""Agents without learning: walks that a navigator has to beat or can at best equal.

Axes: N episodes, W of them that walk.
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int64

from eqa.data.demonstrations.plans import to_best_views
from eqa.envs.actions import Action
from eqa.envs.simulator import Goal, Observation
from eqa.models.agents.agent import EpisodeBatch, Walker


class RandomAgent(Walker):
    """Forward, left and right with equal chance, never stopping; the draws are a function of the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def reset(self, batch: EpisodeBatch) -> None:
        self.num = len(batch.questions)

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        return self.rng.integers(Action.STOP, size=self.num)[agents]


class ForwardAgent(Walker):
    """Always forward: what momentum alone is worth when the spawn already looks along the path."""

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        return np.full(len(agents), int(Action.FORWARD), dtype=np.int64)


class ShortestPathAgent(Walker):
    """Follows the demonstration to its end, beside it the shortest walk: the upper bound for walking, and for answering
    from what one sees on the way."""

    def reset(self, batch: EpisodeBatch) -> None:
        beside = [n for n, left in enumerate(batch.remaining) if left is None]
        self.plans, self.step = list(batch.remaining), 0
        for scene_id, places in _by_scene(batch, beside):
            goals = [Goal.of(batch.episodes[n]) for n in places]
            starts = [tuple(pose) for pose in batch.poses[places].tolist()]
            for n, walk in zip(places, batch.world.shortest_walks(scene_id, goals, starts), strict=True):
                self.plans[n] = walk.actions

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        step, self.step = self.step, self.step + 1
        plans = (self.plans[n] for n in agents.tolist())
        return np.array([plan[step] if step < len(plan) else Action.STOP for plan in plans], np.int64)


class BestViewAgent(ShortestPathAgent):
    """Follows the shortest walk to the best view point: what the answerer makes of the best last frames."""

    def reset(self, batch: EpisodeBatch) -> None:
        self.plans, self.step = [None] * len(batch.poses), 0
        for scene_id, places in _by_scene(batch, range(len(batch.poses))):
            found = to_best_views(batch.world, scene_id, [batch.episodes[n] for n in places], batch.poses[places])
            for n, plan in zip(places, found, strict=True):
                self.plans[n] = plan


def _by_scene(batch: EpisodeBatch, chosen: Iterable[int]) -> list[tuple[str, list[int]]]:
    """Some of the episodes, those of a scene together."""
    groups: dict[str, list[int]] = {}
    for n in chosen:
        groups.setdefault(batch.episodes[n].scene_id, []).append(n)
    return list(groups.items())
