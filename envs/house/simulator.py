"""`HouseWorld`, which opens houses, and `HouseSimulator`, which moves and draws N agents in K houses in one call each.

Axes: N agents, M of them, K houses, G grid side, B blocks of the grid, S distance fields kept, C free cells of the
house with most, E polygon corners of all rooms of all houses.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import no_type_check

import gymnasium as gym
import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from numba import njit
from torch import Tensor

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.annotations import Annotations
from eqa.envs.episode import PLAN, Episode, Pose
from eqa.envs.eqa import EQAVectorEnv
from eqa.envs.files import data_root
from eqa.envs.house.build import CLEARANCE_M, annotations, build_floor, build_scene
from eqa.envs.house.catalog import BUILDING, CLASSES, QUERYABLE, load_catalog
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, generate_house, house_path, identity_of, load_house
from eqa.envs.house.house import House
from eqa.envs.house.plan import room_rules
from eqa.envs.navigation.action_search import costs_to_go, shortest_walks
from eqa.envs.navigation.field_rows import FieldRows
from eqa.envs.navigation.floor import (
    FORWARD,
    LEFT,
    RIGHT,
    Floor,
    cell_at,
    distance_fields,
    distances_at,
    free_index,
    way_is_free,
)
from eqa.envs.navigation.walk import replay
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.drawn_agents import DrawnAgents
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.simulator import Goal, Planner, Walk, check_reset, checked_actions

ENV_ID = "EQA-House-v1"
HOUSES_IN_MEMORY = 1024  # 1.5 MB each; reinforcement learning returns to all of them in turns
FLOORS_IN_MEMORY = 64
RESOLUTION = 1000  # floor cells a side (Das et al. 2018, Sec. 3)
COARSE_RESOLUTION = 300  # enough to know where one can stand


@dataclass(frozen=True, slots=True)
class ReadyHouse:
    """A house with all that a simulator prepares for it, to be reused."""

    house: House
    scene: Scene
    floor: Floor


def ready(house: House, *, resolution: int = RESOLUTION) -> ReadyHouse:
    """Prepares a house; ValueError if nobody can stand in it."""
    scene = build_scene(house, load_catalog())
    return ReadyHouse(house, scene, build_floor(house, scene, load_catalog().meshes, resolution=resolution))


class HouseWorld:
    """Implements `envs.simulator.World` for houses; `house` gives one by its id. Some stay prepared in memory.

    It is a `data.batches.frames.DrawnWorld` as well.
    """

    actions, coordinate_frames, scenes_at_once = HOUSE_ACTIONS, ("house",), None
    class_names, region_names = CLASSES, tuple(room_rules()["types"])
    first_thing, first_asked, seen_from_m = len(BUILDING), len(CLASSES) - len(QUERYABLE), None
    repainted, loaded_at_once = ("wall", "floor", "ceiling", "door"), 8

    def __init__(
        self, house: Callable[[str], House], *, identity: str = "houses", camera: Camera | None = None
    ) -> None:
        self.house, self.identity, self.camera = house, identity, camera or Camera()
        self._ready = lru_cache(HOUSES_IN_MEMORY)(lambda scene_id: ready(house(scene_id)))
        self._clear = lru_cache(FLOORS_IN_MEMORY)(self._build_clear)

    @classmethod
    def generated(cls, *, seed: int, style: str = PAPER, camera: Camera | None = None) -> "HouseWorld":
        """The houses of a seed and style, each made when it is first asked for, and the homes that people designed.

        ValueError for a style that is not one of `generator.STYLES`.
        """
        return cls(partial(_generated, data_root(), seed, style), identity=identity_of(seed, style), camera=camera)

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: Camera | None = None) -> "HouseSimulator":
        """See `envs.simulator.World`; ValueError names a house in which nobody can stand."""
        ready_houses = [self._ready(i) for i in scene_ids]
        return HouseSimulator(ready_houses, num_agents=num_agents, camera=camera or self.camera)

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        """See `envs.simulator.World`: houses are made when they are first asked for."""
        return set()

    def annotations(self, scene_id: str) -> Annotations:
        """Rooms, objects and walls of a house."""
        return annotations(self.house(scene_id))

    def drawable(self, scene_id: str) -> tuple[Scene, Annotations, Floor]:
        """A house to draw views of, its annotations, and a coarse floor; nothing of it stays in memory."""
        made = ready(self.house(scene_id), resolution=COARSE_RESOLUTION)
        return made.scene, annotations(made.house), made.floor

    def places(self, scene_id: str, spacing_m: float) -> Float64[np.ndarray, "V 3"]:
        """Free places (x, y, z) of a house, about `spacing_m` apart."""
        return self._ready(scene_id).floor.places(spacing_m)

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """See `envs.simulator.World`; equal goals share a distance field."""
        floor, distinct = self._ready(scene_id).floor, {goal: k for k, goal in enumerate(dict.fromkeys(goals))}
        fields = distance_fields(floor, list(distinct))
        return [distances_at(floor, fields[distinct[goal]], at[:, PLAN]) for goal, at in zip(goals, poses, strict=True)]

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """See `envs.simulator.World`; walks keep clear of things if possible."""
        known = self._ready(scene_id)
        walks = shortest_walks(self._clear(scene_id), goals, starts, or_none=True)
        left = [n for n, walk in enumerate(walks) if walk is None]
        close = [goals[n] for n in left], [starts[n] for n in left]
        for n, walk in zip(left, shortest_walks(known.floor, *close, or_none=or_none), strict=True):
            walks[n] = walk
        return walks

    def _build_clear(self, scene_id: str) -> Floor:
        known = self._ready(scene_id)
        return build_floor(known.house, known.scene, load_catalog().meshes, radius_m=CLEARANCE_M)

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """See `envs.simulator.World`; equal goals share a search."""
        distinct = list(dict.fromkeys(goals))
        costs = dict(zip(distinct, costs_to_go(self._ready(scene_id).floor, distinct), strict=True))
        return [costs[goal].walk for goal in goals]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """See `envs.simulator.World`; the walks are known to be free."""
        return [replay(start, taken, self.actions) for start, taken in zip(starts, actions, strict=True)]


def _generated(root: Path, seed: int, style: str, house_id: str) -> House:
    """The house with an id such as train-00003; ValueError for an id that no house has."""
    split, _, index = house_id.partition("-")
    if split not in (*SPLITS, HUMAN) or not (index.isascii() and index.isdigit()):
        raise ValueError(f"house {house_id!r}: expected an id such as train-00003, of the splits {(*SPLITS, HUMAN)}")
    numbers = {"seed": seed, "split": split, "index": int(index), "style": style}
    path = house_path(root, **numbers)
    if split != HUMAN and not path.is_file():
        generate_house(**numbers).save(path)
    return load_house(root, **numbers)


class HouseSimulator(DrawnAgents):
    """Implements `envs.simulator.Simulator` for generated houses.

    A renderer on the CPU draws the observations. `num_fields` distance fields are kept, at least one per agent (2 MB
    each for a house of 200 m2). The least recently used one makes way; agents with the same house and goal share one.
    """

    actions, kind = HOUSE_ACTIONS, "house"

    def __init__(
        self,
        houses: Sequence[House | ReadyHouse],
        *,
        num_agents: int,
        camera: Camera | None = None,
        resolution: int = RESOLUTION,
        num_fields: int = 64,
    ) -> None:
        if num_agents < 1:
            raise ValueError(f"num_agents: expected at least 1, got {num_agents}")
        self.num_agents = num_agents
        self.num_fields = max(num_fields, num_agents)
        self.resolution = resolution
        self.renderer = Renderer(camera or Camera(), ("rgb",))
        self.load(houses)

    def load(self, houses: Sequence[House | ReadyHouse]) -> None:
        """Replaces the houses; every agent needs a reset afterwards. ValueError names a house without room to stand."""
        if not houses:
            raise ValueError("houses: expected at least one, got none")
        made = [h if isinstance(h, ReadyHouse) else ready(h, resolution=self.resolution) for h in houses]
        self.houses = [one.house for one in made]
        self._index = {house.id: k for k, house in enumerate(self.houses)}
        if len(self._index) != len(self.houses):
            raise ValueError("houses: expected different ids, got one twice")
        self.renderer.load([one.scene for one in made])
        self._free = np.stack([one.floor.free for one in made])
        self.floors = [replace(one.floor, free=free) for one, free in zip(made, self._free)]
        self._starts = np.stack([floor.block_start for floor in self.floors])
        self._origin = np.array([floor.origin for floor in self.floors])
        self._cell_m = np.array([floor.cell_m for floor in self.floors])
        self._rooms = _pack_rooms(self.houses)
        self._fields = np.empty((self.num_fields, max(floor.num_free for floor in self.floors)), np.float32)
        self._kept = FieldRows(self._fields)
        self._ready = np.zeros(self.num_agents, np.bool_)
        self._scene, self._slot = np.zeros(self.num_agents, np.int64), np.full(self.num_agents, -1, np.int64)
        self._position, self._height = np.zeros((self.num_agents, 2)), np.zeros(self.num_agents)
        self._heading = np.zeros(self.num_agents, np.int64)

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses and gives each its goal; missing distance fields are computed side by side.

        ValueError, before anything changes, for a pose where an agent cannot stand, a heading between two turns, and a
        goal that cannot be reached.
        """
        check_reset(agents, scenes, poses, goals)
        if not np.isin(scenes, np.arange(len(self.houses))).all():
            raise ValueError(f"scenes: expected 0 to {len(self.houses) - 1}, got {scenes}")
        headings = self.actions.heading_indices(poses[:, 3])
        ground = np.array([floor.y_m for floor in self.floors])[scenes]
        if not (np.abs(poses[:, 1] - ground) < 1e-3).all():
            raise ValueError(f"poses: expected y on the ground, {ground.tolist()} m, got {poses[:, 1].tolist()}")
        for k in np.unique(scenes):
            stands = self.floors[k].is_free(poses[scenes == k][:, PLAN])
            if not stands.all():
                bad = tuple(poses[scenes == k][~stands][0].tolist())
                raise ValueError(f"house {self.houses[k].id}: an agent cannot stand at {bad}; start it on free floor")
        others = np.setdiff1d(np.flatnonzero(self._ready), agents)
        wanted = [(int(k), goal) for k, goal in zip(scenes, goals)]
        slots = self._kept.rows(wanted, pinned=self._slot[others].tolist(), compute=self._compute)
        self._scene[agents], self._slot[agents], self._heading[agents] = scenes, slots, headings
        self._position[agents], self._height[agents] = poses[:, PLAN], ground
        self._ready[agents] = True

    def _compute(self, missing: list[tuple[int, Goal]]) -> list[Float32[np.ndarray, " _"]]:
        """Distance fields of goals, those of a house side by side."""
        found = {}
        for k in dict.fromkeys(k for k, _ in missing):
            here = [key for key in missing if key[0] == k]
            found.update(zip(here, distance_fields(self.floors[k], [goal for _, goal in here])))
        return [found[key] for key in missing]

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent; True for forward moves that were refused. ValueError for an unknown id."""
        actions = checked_actions(actions, num_agents=self.num_agents, known=self.actions)
        self._check_ready()
        collided = np.zeros(self.num_agents, np.bool_)
        _move(
            self._position, self._heading, collided, actions, self._scene,
            self._free, self._origin, self._cell_m, self.actions.step_x, self.actions.step_z,
        )  # fmt: skip
        return torch.from_numpy(collided)

    def _poses(self) -> Float64[np.ndarray, "N 4"]:
        x, z = self._position.T
        return np.stack([x, self._height, z, self.actions.headings_rad[self._heading]], axis=1)

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Geodesic metres to each agent's goal, 0 inside its goal region, NaN for an agent that was not placed yet."""
        distances = np.empty(self.num_agents, np.float32)
        _look_up(
            distances, self._position, self._scene, self._slot, self._fields,
            self._free, self._starts, self._origin, self._cell_m,
        )  # fmt: skip
        return torch.from_numpy(distances)

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """Index in `House.rooms` of each agent's room; -1 inside a wall's thickness where rooms end before it."""
        rooms = np.empty(self.num_agents, np.int64)
        _find_rooms(rooms, self._position, self._scene, *self._rooms)
        return torch.from_numpy(rooms)


def make_house_env(
    num_envs: int,
    *,
    houses: Sequence[House],
    episodes: Sequence[Episode],
    encode: Callable[[str], Sequence[int]],
    num_words: int,
    camera: Camera | None = None,
    max_steps: int | None = None,
) -> EQAVectorEnv:
    """The task in generated houses, for `gymnasium.make_vec("EQA-House-v1", num_envs=…, houses=…, …)`."""
    simulator = HouseSimulator(houses, num_agents=num_envs, camera=camera)
    return EQAVectorEnv(simulator, episodes=episodes, encode=encode, num_words=num_words, max_steps=max_steps)


if ENV_ID not in gym.registry:
    gym.register(ENV_ID, vector_entry_point=make_house_env)


def _pack_rooms(houses):
    """Corners of all rooms end to end (E 2), the first corner of each room, and the first room of each house."""
    polygons = [np.asarray(room.polygon, np.float64) for house in houses for room in house.rooms]
    corner_start = np.cumsum([0] + [len(polygon) for polygon in polygons])
    room_start = np.cumsum([0] + [len(house.rooms) for house in houses])
    return np.concatenate(polygons), corner_start, room_start


@njit(cache=True, error_model="numpy")
@no_type_check
def _move(position, heading, collided, actions, scene, free, origin, cell_m, step_x, step_z):
    for n in range(actions.size):
        if actions[n] == LEFT:
            heading[n] = (heading[n] + 1) % step_x.size
        elif actions[n] == RIGHT:
            heading[n] = (heading[n] + step_x.size - 1) % step_x.size
        elif actions[n] == FORWARD:
            k, h = scene[n], heading[n]
            x, z = position[n, 0], position[n, 1]
            if way_is_free(free[k], origin[k, 0], origin[k, 1], cell_m[k], x, z, step_x[h], step_z[h]):
                position[n, 0], position[n, 1] = x + step_x[h], z + step_z[h]
            else:
                collided[n] = True


@njit(cache=True, error_model="numpy")
@no_type_check
def _look_up(out, position, scene, slot, fields, free, starts, origin, cell_m):
    for n in range(out.size):
        if slot[n] < 0:
            out[n] = np.nan
            continue
        k = scene[n]
        cell = cell_at(free[k], origin[k, 0], origin[k, 1], cell_m[k], position[n, 0], position[n, 1])
        out[n] = fields[slot[n], free_index(free[k], starts[k], cell)]


@njit(cache=True, error_model="numpy")
@no_type_check
def _find_rooms(out, position, scene, corners, corner_start, room_start):
    for n in range(out.size):
        x, z = position[n, 0], position[n, 1]
        out[n] = -1
        for room in range(room_start[scene[n]], room_start[scene[n] + 1]):
            first, last = corner_start[room], corner_start[room + 1]
            inside = False
            for a in range(first, last):
                b = a + 1 if a + 1 < last else first
                if (corners[a, 1] <= z) != (corners[b, 1] <= z):
                    edge = corners[a, 0] + (z - corners[a, 1]) * (corners[b, 0] - corners[a, 0]) / (
                        corners[b, 1] - corners[a, 1]
                    )
                    inside ^= x < edge
            if inside:
                out[n] = room - room_start[scene[n]]
                break
