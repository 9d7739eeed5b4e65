"""Who walks: a trained navigator, and the walks that a navigator has to beat or can at best equal.

All share one interface and play N episodes in lockstep. `begin` gives the questions and what was seen and done before
the spawn; `act` gives the next actions. `needs` says what a walker is shown at each step, so that nothing is drawn in
vain: "nothing", "features" of the frozen encoder, or "depth" with the agents' poses.

Axes: N episodes, T steps, R steps that are left, F features, L words, H W image.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import nn

from data.expert import shortest_walks
from envs.actions import Action
from envs.episode import Pose
from envs.house.navigation import Floor, Goal


@dataclass(frozen=True, slots=True)
class Start:
    """N episodes at their spawns. Histories are padded behind their end; actions with -1."""

    questions: Int64[torch.Tensor, "N L"]
    features: Float[torch.Tensor, "N T F"]
    actions: Int64[torch.Tensor, "N T"]
    poses: Float64[np.ndarray, "N 3"]  # the spawns
    floors: list[Floor]  # for oracles, each episode's
    goals: list[Goal]  # for oracles
    best_views: list[Pose]  # for oracles, whence the target is seen best
    remaining: list[
        Int[np.ndarray, " R"] | None
    ]  # for oracles, what the demonstration does from here on; None beside it


@dataclass(frozen=True, slots=True)
class Depth:
    """What a walker that needs depth is shown. Rows of agents that have stopped hold anything."""

    depth_m: Float32[np.ndarray, "N H W"]  # along the view's axis, see `envs.house.rasterizer`
    poses: Float64[np.ndarray, "N 3"]


class NavigatorWalker:
    """Takes the likeliest action of a navigator, which first follows the history."""

    needs = "features"

    def __init__(self, navigator: nn.Module) -> None:
        self.navigator = navigator.eval()

    @torch.inference_mode()
    def begin(self, start: Start) -> None:
        self.state = self.navigator.initial_state(start.questions)
        for t in range(start.actions.shape[1]):
            taken = start.actions[:, t]
            self.state, _ = self.navigator.act(
                self.state, start.features[:, t], forced=taken.clamp(min=0), active=taken >= 0
            )

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
    what one sees from there."""

    needs = "nothing"

    def begin(self, start: Start) -> None:
        beside = [n for n, left in enumerate(start.remaining) if left is None]
        plans = plan([start.floors[n] for n in beside], [start.goals[n] for n in beside], start.poses[beside])
        self.plans, self.step = list(start.remaining), 0
        for n, actions in zip(beside, plans, strict=True):
            self.plans[n] = actions

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        step, self.step = self.step, self.step + 1
        return np.array([actions[step] if step < len(actions) else Action.STOP for actions in self.plans])


def plan(
    floors: Sequence[Floor], goals: Sequence[Goal], poses: Float64[np.ndarray, "N 3"]
) -> list[Int[np.ndarray, " R"]]:
    """Actions of the shortest walk from each pose to its goal, STOP included; ValueError where there is none."""
    plans: list = [None] * len(goals)
    for floor in {id(floor): floor for floor in floors}.values():
        here = [n for n in range(len(goals)) if floors[n] is floor]
        starts = [tuple(poses[n].tolist()) for n in here]
        for n, walk in zip(here, shortest_walks(floor, [goals[n] for n in here], starts), strict=True):
            plans[n] = walk.actions
    return plans
