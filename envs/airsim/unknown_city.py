"""`UnknownCity`, a world of which nothing is known but that one can fly in it, and `FreeFlight`, agents in it.

Moves are those of an `ActionSet`, and nothing stands in their way. Distances are straight lines, less a goal's radius.
There are no annotations, no regions, no walks and no images; `envs.airsim.simulator` adds a server's images.

Axes: N agents, M of them, K scenes, V views.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from torch import Tensor

from eqa.envs.actions import Action, ActionSet
from eqa.envs.airsim.frames import within_circle
from eqa.envs.annotations import Annotations
from eqa.envs.episode import Pose
from eqa.envs.files import fingerprint
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Planner, Walk, check_reset, checked_actions

VERSION = "airsim-1"  # raise with every change of moves or frames


class UnknownCity:
    """Implements `envs.simulator.World`, but for what cannot be known: shortest walks are errors that say so."""

    coordinate_frames, scenes_at_once = ("city",), None

    def __init__(self, *, actions: ActionSet, camera: Camera, scene_id: str = "embodied-city") -> None:
        self.actions, self.camera, self.scene_id = actions, camera, scene_id
        self.identity = f"{VERSION} {scene_id} {fingerprint([asdict(actions), asdict(camera)])}"

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: object = None) -> "FreeFlight":
        """See `envs.simulator.World`; ValueError for another scene."""
        if unknown := self.missing(scene_ids):
            raise ValueError(f"scene {min(unknown)!r}: expected {self.scene_id!r}; env.knows.scene_id names the city")
        return FreeFlight(scene_ids, num_agents=num_agents, actions=self.actions, camera=camera or self.camera)

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        return set(scene_ids) - {self.scene_id}

    def annotations(self, scene_id: str) -> Annotations:
        """None are known."""
        return Annotations(scene_id, (), ())

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """Straight metres to the nearest view point of each goal, less its radius."""
        return [straight_m(goal, at) for goal, at in zip(goals, poses, strict=True)]

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """None of them; ValueError unless `or_none`."""
        if not or_none and len(goals):
            raise ValueError(f"scene {scene_id!r}: no walks are known, as nothing is known of what stands in the way")
        return [None] * len(goals)

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """Planners that raise ValueError."""
        return [lambda start, goal=goal: self.shortest_walks(scene_id, [goal], [start])[0] for goal in goals]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """See `envs.simulator.World`."""
        return [
            self._replayed(np.array([start], np.float64), taken) for start, taken in zip(starts, actions, strict=True)
        ]

    def _replayed(self, pose: Float64[np.ndarray, "1 4"], taken: Int8[np.ndarray, " T"]) -> Walk:
        poses = [pose]
        for action in taken[:-1].tolist():
            poses.append(moved(poses[-1], np.array([action]), self.actions))
        return Walk(taken, np.concatenate(poses))


def straight_m(goal: Goal, poses: Float64[np.ndarray, "M 4"]) -> Float32[np.ndarray, " M"]:
    """Metres from each pose to the nearest view point of a goal, in all three directions, less the goal's radius."""
    points = np.array(goal.view_points)[:, :3]
    away = np.linalg.norm(poses[:, None, :3] - points, axis=2).min(1) - goal.radius_m
    return np.maximum(away, 0.0).astype(np.float32)


def moved(
    poses: Float64[np.ndarray, "N 4"], actions: Int64[np.ndarray, " N"], moves: ActionSet
) -> Float64[np.ndarray, "N 4"]:
    """Poses after one action each, with nothing in the way."""
    x, y, z, heading = poses.T
    step_m = moves.step_m * (actions == Action.FORWARD)
    turn = moves.turn_rad * ((actions == Action.LEFT).astype(np.float64) - (actions == Action.RIGHT))
    climb_m = np.array([moves.climb(action) for action in range(len(moves))])[actions]
    place = x - step_m * np.sin(heading), y + climb_m, z - step_m * np.cos(heading)
    return np.stack([*place, np.where(turn != 0, within_circle(heading + turn), heading)], axis=1)


class FreeFlight:
    """Implements `envs.simulator.Simulator` for moves alone: the only sensor is "pose"."""

    device = torch.device("cpu")

    def __init__(self, scene_ids: Sequence[str], *, num_agents: int, actions: ActionSet, camera: Camera) -> None:
        if num_agents < 1:
            raise ValueError(f"num_agents: expected at least 1, got {num_agents}")
        self.scene_ids, self.num_agents, self.actions = list(scene_ids), num_agents, actions
        self.image_size = camera.height_px, camera.width_px
        self._poses, self._goals = np.full((num_agents, 4), np.nan), [None] * num_agents

    def scene_index(self, scene_id: str) -> int:
        """Index of the scene; ValueError for another one."""
        if scene_id not in self.scene_ids:
            raise ValueError(f"scene {scene_id!r}: not among the opened ones, {', '.join(self.scene_ids)}")
        return self.scene_ids.index(scene_id)

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses. ValueError for one that is not finite; others are taken, as nothing is known."""
        check_reset(agents, scenes, poses, goals)
        if not np.isfinite(poses).all():
            raise ValueError(f"poses: expected finite numbers, got {poses[~np.isfinite(poses).all(1)][0].tolist()}")
        self.place(agents, poses)
        for agent, goal in zip(agents.tolist(), goals, strict=True):
            self._goals[agent] = goal

    def place(self, agents: Int64[np.ndarray, " M"], poses: Float64[np.ndarray, "M 4"]) -> None:
        """Sets agents at poses; their goals stay."""
        self._poses[agents] = poses

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent; nothing is refused. ValueError for an unknown id."""
        actions = checked_actions(actions, num_agents=self.num_agents, known=self.actions)
        if not np.isfinite(self._poses).all():
            raise ValueError("some agents are nowhere yet; reset them first")
        self._poses = moved(self._poses, actions, self.actions)
        return torch.zeros(self.num_agents, dtype=torch.bool)

    def observe(
        self, agents: Int64[np.ndarray, " M"] | None = None, sensors: Sequence[str] = ("pose",)
    ) -> dict[str, Tensor]:
        """Poses of some agents, all by default."""
        chosen = np.arange(self.num_agents) if agents is None else agents
        return self.look(np.zeros(len(chosen), np.int64), self._poses[chosen], sensors)

    def look(
        self, scenes: Int64[np.ndarray, " V"], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str] = ("pose",)
    ) -> dict[str, Tensor]:
        """The poses themselves; ValueError for another sensor."""
        if set(sensors) - {"pose"}:
            raise ValueError(f"sensors: expected pose alone, got {list(sensors)}")
        return {name: torch.from_numpy(poses.copy()) for name in sensors}

    @property
    def poses(self) -> Float64[Tensor, "N 4"]:
        return torch.from_numpy(self._poses.copy())

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Straight metres to each agent's goal, NaN for an agent that was not placed yet."""
        away = [
            np.float32(np.nan) if goal is None else straight_m(goal, pose[None])[0]
            for goal, pose in zip(self._goals, self._poses, strict=True)
        ]
        return torch.from_numpy(np.array(away, np.float32))

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """-1: none is known."""
        return torch.full((self.num_agents,), -1, dtype=torch.int64)
