"""Who walks: a trained navigator, and the walks that a navigator has to beat or can at best equal.

All share one interface and play N episodes in lockstep. `begin` gives the questions and what was seen and done before
the spawn; `act` gives the next actions. Walkers that are blind get no frames, so none are rendered for them.

Axes: N episodes, T steps, F features, L words.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import nn

from envs.actions import Action


@dataclass(frozen=True, slots=True)
class Start:
    """N episodes at their spawns. Histories are padded behind their end; actions with -1."""

    questions: Int64[torch.Tensor, "N L"]
    features: Float[torch.Tensor, "N T F"]
    actions: Int64[torch.Tensor, "N T"]
    remaining: list[Int[np.ndarray, " R"]]  # what the demonstration does from here on


class NavigatorWalker:
    """Takes the likeliest action of a navigator, which first follows the history."""

    blind = False

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

    blind = True

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def begin(self, start: Start) -> None:
        pass

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        return self.rng.integers(Action.STOP, size=len(active))


class ForwardWalker:
    """Always forward: what momentum alone is worth when the spawn already looks along the path."""

    blind = True

    def begin(self, start: Start) -> None:
        pass

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        return np.full(len(active), Action.FORWARD, dtype=np.int64)


class ShortestPathWalker:
    """Follows the demonstration to its end: the upper bound for walking, and the oracle's view for answering."""

    blind = True

    def begin(self, start: Start) -> None:
        self.remaining, self.step = start.remaining, 0

    def act(self, features: None, active: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        step, self.step = self.step, self.step + 1
        return np.array([plan[step] if step < len(plan) else Action.STOP for plan in self.remaining])
