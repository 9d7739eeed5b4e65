"""`Agent`: the interface of all that walks and answers, and `EpisodeBatch`, the episodes that it plays.

`Walker` and `PlanFollower` are bases of agents that only walk.

Axes: N episodes, W of them that walk, T steps of the longest history, F features, L words, R steps that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int, Int64

from eqa.envs.actions import HOUSE_ACTIONS, Action, ActionSet
from eqa.envs.episode import Episode
from eqa.envs.simulator import Observation, World


@dataclass(frozen=True, slots=True)
class EpisodeBatch:
    """N episodes at their spawns. Histories are padded at their end; actions with -1.

    Only oracles may use the fields after `poses`.
    """

    questions: list[str]
    question_ids: Int64[torch.Tensor, "N L"]  # words of the agent's vocabulary
    features: Float[torch.Tensor, "N T F"]  # of the frames before the spawn
    actions: Int64[torch.Tensor, "N T"]
    poses: Float64[np.ndarray, "N 4"]  # the spawns
    episodes: list[Episode]
    world: World | None
    remaining: list[Int[np.ndarray, " _"] | None]  # the rest of the demonstration; None for spawns off it

    @property
    def action_set(self) -> ActionSet:
        """The actions of the world; those of houses without a world."""
        return HOUSE_ACTIONS if self.world is None else self.world.actions


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in words, with scores over the vocabulary's answers if there are any."""

    text: str
    scores: Float32[np.ndarray, " A"] | None = None


@runtime_checkable
class Agent(Protocol):
    """Plays N episodes side by side, driven by `envs.task.play`."""

    name: str  # its line of the results table
    sensors: Sequence[str]  # keys of the observation that it uses; nothing else is drawn

    def reset(self, batch: EpisodeBatch) -> None:
        """Starts other episodes at their spawns."""
        ...

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        """The next actions of the episodes that still walk; rows of the observation are theirs."""
        ...

    def answer(self) -> list[Answer] | None:
        """The answers after the walks; None for an agent that only walks and leaves answering to an answerer."""
        ...


class Walker:
    """An agent that only walks."""

    name: str = "agent"  # its line of the results table
    sensors: Sequence[str] = ()
    played_from: Sequence[str] = ()  # the only spawn settings that it can be played from, if there are any

    def reset(self, batch: EpisodeBatch) -> None:
        """Does nothing: there is no state."""

    def answer(self) -> None:
        """None: an answerer answers for it."""


class PlanFollower(Walker):
    """Follows a plan in each episode, which `reset` has made, and stops at its end."""

    plans: list[Sequence[int] | Int[np.ndarray, " _"]]  # actions of each episode
    step: int  # that all have come to

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        step, self.step = self.step, self.step + 1
        plans = (self.plans[n] for n in agents.tolist())
        return np.array([plan[step] if step < len(plan) else Action.STOP for plan in plans], np.int64)
