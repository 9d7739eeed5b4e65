"""`World` and `Simulator`: the interface of a world in which the task can be played, for all agents at once.

A world opens scenes and knows their contents; a simulator holds agents in some of its scenes. Arrays of a simulator are
torch tensors on its device. Those on the CPU share their memory with NumPy.

Axes: N agents, M of them, K scenes, V views, H W image. Poses are (x, y, z, heading_rad), see `envs.episode`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from math import pi
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from torch import Tensor

from eqa.envs.actions import ActionSet
from eqa.envs.annotations import Annotations
from eqa.envs.episode import Episode, Pose

# Images by sensor: rgb (M, H, W, 3) uint8, depth (M, H, W) float32 metres, instance_id (M, H, W); pose (M, 4) float64.
Observation = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Goal:
    """The end of a walk: within `radius_m` of a view point, with its heading or up to `turn_rad` beside it."""

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
        """The goal of an episode; ValueError if its source has no view points."""
        if not episode.view_points or episode.goal_radius_m is None:
            raise ValueError(
                f"episode {episode.episode_id!r}: has no view points or goal radius, so no goal to walk to"
            )
        return cls(episode.view_points, episode.goal_radius_m, episode.goal_turn_rad or 0.0)


@dataclass(frozen=True, slots=True)
class Walk:
    """Actions and poses. Frame t is seen at pose t, before action t; the last action is STOP and moves nothing."""

    actions: Int8[np.ndarray, " T"]
    poses: Float64[np.ndarray, "T 4"]

    def last(self, num_actions: int) -> "Walk":
        """Its last `num_actions` actions, all of them if it is shorter."""
        return Walk(self.actions[-num_actions:], self.poses[-num_actions:])

    def before_end(self, num_actions: int) -> Pose:
        """The pose with `num_actions` left, STOP included: EmbodiedQA's spawns T-10, T-30, T-50 (Sec. 5)."""
        if not 1 <= num_actions <= len(self.actions):
            raise ValueError(f"num_actions: expected 1 to {len(self.actions)}, this walk's length, got {num_actions}")
        return tuple(self.poses[-num_actions].tolist())


class SceneFailed(RuntimeError):
    """A simulator of another project died or hung twice at the same question about a scene."""

    def __init__(self, scene_id: str, message: str) -> None:
        super().__init__(message)
        self.scene_id = scene_id


Planner = Callable[[Pose], Walk]  # the shortest walk from a pose; ValueError if there is none


@runtime_checkable
class Simulator(Protocol):
    """N agents in K loaded scenes. Agents do not see or touch each other, so many may share a scene."""

    actions: ActionSet
    num_agents: int
    scene_ids: Sequence[str]
    image_size: tuple[int, int]  # height and width of the frames, pixels
    device: torch.device

    def scene_index(self, scene_id: str) -> int:
        """Index of a loaded scene; ValueError names a scene that is not loaded."""
        ...

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses and gives each a goal, from which distances are measured.

        ValueError, before anything changes, for a pose where an agent cannot be and a goal that cannot be reached.
        """
        ...

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent by a primitive action (STOP stays); True for moves that were refused."""
        ...

    def observe(self, agents: Int64[np.ndarray, " M"] | None = None, sensors: Sequence[str] = ("rgb",)) -> Observation:
        """Observations of some agents, all by default, by sensor; only `sensors` are drawn."""
        ...

    def look(
        self, scenes: Int64[np.ndarray, " V"], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str] = ("rgb",)
    ) -> Observation:
        """Observations of an agent at any poses of loaded scenes."""
        ...

    @property
    def poses(self) -> Float64[Tensor, "N 4"]: ...

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Geodesic metres from each agent to its goal, 0 inside the goal region."""
        ...

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """Index of the scene's region (in a house, the room) that each agent is in, -1 for none."""
        ...


@runtime_checkable
class World(Protocol):
    """Scenes by their ids, and knowledge about them."""

    actions: ActionSet
    identity: str  # changes with all that its scenes depend on, so a file that is made in it can tell
    camera: object  # its own, which `open` takes by default
    coordinate_frames: Sequence[str]  # of the episodes that it can play, keys of `envs.episode.FRAMES`
    scenes_at_once: int | None  # scenes in which agents may walk side by side; None for any number

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: object = None) -> Simulator:
        """A simulator with these scenes, each loaded once; `camera` is the world's own by default."""
        ...

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        """Those of the scenes that it has no files of, and cannot make."""
        ...

    def annotations(self, scene_id: str) -> Annotations:
        """Objects and regions of a scene."""
        ...

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """Geodesic metres to each goal from the poses at the same index; inf where an agent cannot be."""
        ...

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """The walk of a demonstration from each start to the goal at the same index.

        ValueError names a start from which no walk leads to its goal; with `or_none` it gives None instead.
        """
        ...

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """The expert for each goal, as a function of any pose: the search over the scene is made once."""
        ...

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """The walk that known actions make from each start, STOP included."""
        ...


def check_reset(agents: Sized, scenes: Sized, poses: Sized, goals: Sized) -> None:
    """ValueError unless each agent that a simulator resets has a scene, a pose and a goal."""
    if not len(agents) == len(scenes) == len(poses) == len(goals):
        raise ValueError(
            f"reset: expected as many scenes, poses and goals as agents, got {len(scenes)}, {len(poses)}, {len(goals)} "
            f"for {len(agents)}"
        )


def checked_actions(actions: Tensor | np.ndarray, *, num_agents: int, known: ActionSet) -> Int64[np.ndarray, " N"]:
    """Actions of all agents of a simulator; ValueError for another number of them, and for an unknown id."""
    actions = torch.as_tensor(actions)
    whole = actions.shape == (num_agents,) and not (actions.is_floating_point() or actions.dtype == torch.bool)
    if not whole or not ((actions >= 0) & (actions < len(known))).all():
        raise ValueError(f"actions: expected {num_agents} whole numbers from 0 to {len(known) - 1}, got {actions!r}")
    return actions.cpu().numpy().astype(np.int64)


def in_windows(scene_ids: Sequence[str], size: int, most: int | None) -> Iterator[range]:
    """Episodes to play side by side, by the scene of each: at most `size` in a row, in a world's `scenes_at_once`.

    A world that loads a scene in seconds would load some anew at every step, if agents walked in more.
    """
    begin, most = 0, most or len(scene_ids)
    for end in range(1, len(scene_ids) + 1):
        full = end - begin == size
        if end == len(scene_ids) or full or len({*scene_ids[begin : end + 1]}) > most:
            yield range(begin, end)
            begin = end


def enter(world: World, scene_ids: Sequence[str]) -> tuple[Simulator, Int64[np.ndarray, " N"]]:
    """A simulator with one agent for each id, in the scene of that name, and each agent's scene; scenes load once."""
    simulator = world.open(list(dict.fromkeys(scene_ids)), num_agents=len(scene_ids))
    return simulator, np.array([simulator.scene_index(i) for i in scene_ids])
