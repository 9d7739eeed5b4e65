"""Who walks: a trained navigator, and the walks that a navigator has to beat or can at best equal.

All share one interface and play N episodes in lockstep. `begin` gives the questions and what was seen and done before
the spawn; `act` gives the next actions from what the walker `needs` to see: "features" of the frames, "depth" (see
`Depth`), or "nothing" (then nothing is rendered).

Axes: N episodes, T steps, F features, L words, H W image.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import nn

from envs.actions import Action


@dataclass(frozen=True, slots=True)
class Start:
    """N episodes at their spawns. Histories are padded behind their end; actions with -1."""

    questions: Int64[torch.Tensor, "N L"]
    features: Float[torch.Tensor, "N T F"]
    actions: Int64[torch.Tensor, "N T"]
    remaining: list[Int[np.ndarray, " _"]]  # the shortest walk from here on, as the demonstration has it where it does
    poses: Float64[np.ndarray, "N 3"]  # where they spawn
    best_view: list[Int[np.ndarray, " _"]] | None = None  # the shortest walk to the best view point, for who needs it


@dataclass(frozen=True, slots=True)
class Depth:
    """What those who need depth see before an action. Rows of agents that have stopped may hold anything."""

    depth_m: Float32[np.ndarray, "N H W"]  # along the optical axis, 0 where there is nothing
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
    """Follows the demonstration to its end: the upper bound for walking, and the oracle's view for answering."""

    needs = "nothing"

    def begin(self, start: Start) -> None:
        self._follow(start.remaining)

    def _follow(self, plans: list[Int[np.ndarray, " _"]]) -> None:
        self.plans, self.step = plans, 0

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        step, self.step = self.step, self.step + 1
        return np.array([plan[step] if step < len(plan) else Action.STOP for plan in self.plans], np.int64)


class BestViewWalker(ShortestPathWalker):
    """Follows the shortest walk to the best view point: what the answerer makes of the best last frames."""

    def begin(self, start: Start) -> None:
        if start.best_view is None:
            raise ValueError("start: expected walks to the best views, got none; data.plans.to_best_views plans them")
        self._follow(start.best_view)
