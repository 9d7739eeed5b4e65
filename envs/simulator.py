"""`Simulator`: what a world has to offer so that the task can be played in it, for all agents at once.

Axes: N agents, M of them, K scenes. Poses are (x, z, heading_rad), see `envs.episode`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from eqa.envs.episode import Episode, Pose


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a walk should end: within `radius_m` of a view point, looking its way or up to `turn_rad` beside it."""

    view_points: tuple[Pose, ...]
    radius_m: float
    turn_rad: float = 0.0

    def __post_init__(self):
        if not self.view_points:
            raise ValueError("goal: expected at least one view point, got none; drop targets that nobody can see")
        if not self.radius_m > 0:
            raise ValueError(f"goal: expected a radius above 0 m, got {self.radius_m}")
        if not 0 <= self.turn_rad < pi:
            raise ValueError(f"goal: expected turn_rad from 0 to less than pi, got {self.turn_rad}")

    @classmethod
    def of(cls, episode: Episode) -> "Goal":
        """The goal of an episode; ValueError where its source did not say where to look from."""
        if not episode.view_points or episode.goal_radius_m is None:
            raise ValueError(
                f"episode {episode.episode_id!r}: has no view points or goal radius, so no goal to walk to"
            )
        return cls(episode.view_points, episode.goal_radius_m, episode.goal_turn_rad or 0.0)


@runtime_checkable
class Simulator(Protocol):
    """N agents in K loaded scenes. Agents do not see or touch each other, so many may share a scene."""

    num_agents: int
    image_size: tuple[int, int]  # height and width of what `render` gives, pixels

    def scene_index(self, scene_id: str) -> int:
        """Place of a loaded scene; ValueError names a scene that is not loaded."""
        ...

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 3"],
        goals: Sequence[Any],
    ) -> None:
        """Puts agents somewhere and gives each a goal, in the world's own terms, from which distances are measured."""
        ...

    def step(self, actions: Int64[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """Moves every agent by a primitive action (`envs.actions`; STOP stays); True where a forward move was refused."""
        ...

    def render(self, agents: Int64[np.ndarray, " M"] | None = None) -> dict[str, np.ndarray]:
        """What the agents see: rgb (M, H, W, 3) uint8 and what else was asked for; all agents by default."""
        ...

    @property
    def poses(self) -> Float64[np.ndarray, "N 3"]: ...

    @property
    def distance_m(self) -> Float32[np.ndarray, " N"]:
        """Geodesic metres from each agent to its goal, 0 inside the goal region."""
        ...

    @property
    def room(self) -> Int64[np.ndarray, " N"]:
        """Index of the scene's room that each agent is in, -1 for none."""
        ...
