"""Who walks: a trained navigator, and the walks that a navigator has to beat or can at best equal.

All share one interface and play N episodes in lockstep. `begin` gives the questions and what was seen and done before
the spawn; `act` gives the next actions. `needs` says what a walker is shown at each step, so that nothing is drawn in
vain: "nothing", "features" of the frozen encoder, or "depth" with the agents' poses.

Axes: N episodes, T steps, R steps that are left, F features, L words, H W image.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import nn

from eqa.data.demonstrations.plans import plans, to_best_views
from eqa.envs.actions import Action
from eqa.envs.episode import Episode
from eqa.envs.house.house import House
from eqa.envs.simulator import Goal


@dataclass(frozen=True, slots=True)
class Start:
    """N episodes at their spawns. Histories are padded behind their end; actions with -1."""

    questions: Int64[torch.Tensor, "N L"]
    features: Float[torch.Tensor, "N T F"]
    actions: Int64[torch.Tensor, "N T"]
    poses: Float64[np.ndarray, "N 3"]  # the spawns
    episodes: list[Episode]  # this and the rest is for oracles
    houses: list[House]  # each episode's
    remaining: list[Int[np.ndarray, " _"] | None]  # what the demonstration does from here on; None beside it


@dataclass(frozen=True, slots=True)
class Depth:
    """What a walker that needs depth is shown. Rows of agents that have stopped hold anything."""

    depth_m: Float32[np.ndarray, "N H W"]  # along the optical axis, 0 where there is nothing
    poses: Float64[np.ndarray, "N 3"]


class NavigatorWalker:
    """Takes the likeliest action of a navigator, which first follows the history."""

    needs = "features"

    def __init__(self, navigator: nn.Module) -> None:
        self.navigator = navigator.eval()

    @torch.inference_mode()
    def begin(self, start: Start) -> None:
        self.state = self.navigator.warm_up(start.questions, start.features, start.actions)

    @torch.inference_mode()
    def act(self, features: Float[torch.Tensor, "N F"] | None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        self.state, actions = self.navigator.act(self.state, features, active=torch.from_numpy(active))
        return actions.numpy()


class RandomWalker:
    """Forward, left and right with equal chance, never stopping; the draws are a function of the seed."""

    needs = "nothing"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def begin(self, start: Start) -> None:
        pass

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        return self.rng.integers(Action.STOP, size=len(active))


class ForwardWalker:
    """Always forward: what momentum alone is worth when the spawn already looks along the path."""

    needs = "nothing"

    def begin(self, start: Start) -> None:
        pass

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        return np.full(len(active), Action.FORWARD, dtype=np.int64)


class ShortestPathWalker:
    """Follows the demonstration to its end, beside it the shortest walk: the upper bound for walking, and for answering
    from what one sees on the way."""

    needs = "nothing"

    def begin(self, start: Start) -> None:
        beside = [n for n, left in enumerate(start.remaining) if left is None]
        self.plans, self.step = list(start.remaining), 0
        for house, places in _by_house(start, beside):
            goals = [Goal.of(start.episodes[n]) for n in places]
            for n, plan in zip(places, plans(house, goals, start.poses[places]), strict=True):
                self.plans[n] = plan

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        step, self.step = self.step, self.step + 1
        return np.array([plan[step] if step < len(plan) else Action.STOP for plan in self.plans], np.int64)


class BestViewWalker(ShortestPathWalker):
    """Follows the shortest walk to the best view point: what the answerer makes of the best last frames."""

    def begin(self, start: Start) -> None:
        self.plans, self.step = [None] * len(start.poses), 0
        for house, places in _by_house(start, range(len(start.poses))):
            found = to_best_views(house, [start.episodes[n] for n in places], start.poses[places])
            for n, plan in zip(places, found, strict=True):
                self.plans[n] = plan


def _by_house(start: Start, chosen: Iterable[int]) -> list[tuple[House, list[int]]]:
    """Some of the episodes, those of a house together."""
    groups: dict[str, tuple[House, list[int]]] = {}
    for n in chosen:
        groups.setdefault(start.houses[n].id, (start.houses[n], []))[1].append(n)
    return list(groups.values())
