"""`CityWorld`, which opens cities, and `CitySimulator`, which flies and draws N agents in K cities in one call each.

Axes: N agents, M of them, K cities, V views, G grid side, L levels, C coarse side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from numba import njit
from torch import Tensor

from eqa.envs.actions import ActionSet
from eqa.envs.annotations import Annotations
from eqa.envs.city.airspace import (
    CEILING_M,
    CELL_M,
    COARSE,
    ORIGIN,
    Airspace,
    build_airspace,
    height_at,
    region_at,
    way_is_clear,
)
from eqa.envs.city.build import build_scene
from eqa.envs.city.city import CITY_ACTIONS, CLASSES, FIRST_THING, LOWEST_M, City
from eqa.envs.city.flights import FlightPlanner, distance_field, distances_at, shortest_flights
from eqa.envs.city.generator import generate_city, identity_of, parse_city_id
from eqa.envs.city.names import SHOP_KINDS
from eqa.envs.episode import PLAN, Pose
from eqa.envs.navigation.field_rows import FieldRows
from eqa.envs.navigation.floor import FORWARD, LEFT, RIGHT, Floor, side_by_side
from eqa.envs.navigation.walk import replay
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.drawn_agents import DrawnAgents
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.simulator import Goal, Planner, Walk, check_reset, checked_actions

CITIES_IN_MEMORY = 64  # about 10 MB each
CITY_CAMERA = Camera(height_m=0.0)  # a pose's y is that of the camera


@dataclass(frozen=True, slots=True)
class ReadyCity:
    """A city with all that a simulator prepares for it, to be reused."""

    city: City
    scene: Scene
    air: Airspace


def ready(city: City, actions: ActionSet = CITY_ACTIONS) -> ReadyCity:
    return ReadyCity(city, build_scene(city), build_airspace(city, actions))


class CityWorld:
    """Implements `envs.simulator.World` for generated cities; some stay prepared in memory.

    It is a `data.batches.frames.DrawnWorld` as well.
    """

    coordinate_frames, scenes_at_once = ("city",), None
    class_names, region_names = CLASSES, ("block", "park", "street", *(kind.lower() for kind in SHOP_KINDS))
    first_thing, first_asked, seen_from_m, repainted = FIRST_THING, FIRST_THING, (3.0, 16.0), ()
    loaded_at_once = 16  # loading takes a quarter of a second each

    def __init__(self, *, seed: int, camera: Camera | None = None, actions: ActionSet = CITY_ACTIONS) -> None:
        self.seed, self.camera, self.actions = seed, camera or CITY_CAMERA, actions
        self.identity = identity_of(seed)
        self._ready = lru_cache(CITIES_IN_MEMORY)(lambda scene_id: ready(self.city(scene_id), actions))

    @classmethod
    def generated(cls, *, seed: int, camera: Camera | None = None, actions: ActionSet = CITY_ACTIONS) -> "CityWorld":
        """The cities of a seed, each made when it is first asked for."""
        return cls(seed=seed, camera=camera, actions=actions)

    def city(self, scene_id: str) -> City:
        """The city with an id such as city-train-00003; ValueError for an id that no city has."""
        split, index = parse_city_id(scene_id)
        return generate_city(split, index, seed=self.seed)

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: Camera | None = None) -> "CitySimulator":
        """See `envs.simulator.World`."""
        return CitySimulator([self._ready(i) for i in scene_ids], num_agents=num_agents, camera=camera or self.camera)

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        """See `envs.simulator.World`: ids that are not of a city."""
        return {scene_id for scene_id in scene_ids if not _is_city(scene_id)}

    def annotations(self, scene_id: str) -> Annotations:
        """Blocks, streets and all things of a city."""
        return self._ready(scene_id).city.annotations

    def drawable(self, scene_id: str) -> tuple[Scene, Annotations, Floor]:
        """A city to draw views of, its annotations, and the free places of its lowest level."""
        made = ready(self.city(scene_id), self.actions)
        return made.scene, made.city.annotations, made.air.floors[0]

    def airspace(self, scene_id: str) -> Airspace:
        """The free air of a city."""
        return self._ready(scene_id).air

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """See `envs.simulator.World`; equal goals share a distance field."""
        air = self.airspace(scene_id)
        distinct = list(dict.fromkeys(goals))
        fields = dict(zip(distinct, side_by_side(lambda goal: distance_field(air, goal), distinct), strict=True))
        return [distances_at(air, fields[goal], at) for goal, at in zip(goals, poses, strict=True)]

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """See `envs.simulator.World`: shortest flights."""
        return shortest_flights(self.airspace(scene_id), goals, starts, or_none=or_none)

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """See `envs.simulator.World`; equal goals share a search."""
        air = self.airspace(scene_id)
        distinct = {goal: FlightPlanner(air, goal) for goal in dict.fromkeys(goals)}
        return [distinct[goal].walk for goal in goals]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """See `envs.simulator.World`; the flights are known to be free."""
        return [replay(start, taken, self.actions) for start, taken in zip(starts, actions, strict=True)]


def _is_city(scene_id: str) -> bool:
    try:
        parse_city_id(scene_id)
    except ValueError:
        return False
    return True


class CitySimulator(DrawnAgents):
    """Implements `envs.simulator.Simulator` for generated cities.

    A renderer on the CPU draws the observations. `num_fields` distance fields are kept, at least one per agent (2 MB
    each with levels 10 m apart). The least recently used one makes way; agents with the same city and goal share one.
    """

    kind = "city"

    def __init__(
        self, cities: Sequence[ReadyCity], *, num_agents: int, camera: Camera | None = None, num_fields: int = 16
    ) -> None:
        if num_agents < 1:
            raise ValueError(f"num_agents: expected at least 1, got {num_agents}")
        if not cities:
            raise ValueError("cities: expected at least one, got none")
        self.num_agents, self.num_fields = num_agents, max(num_fields, num_agents)
        self.cities, self.actions = [one.city for one in cities], cities[0].air.actions
        self.renderer = Renderer(camera or CITY_CAMERA, ("rgb",))
        self._index = {city.id: k for k, city in enumerate(self.cities)}
        if len(self._index) != len(self.cities):
            raise ValueError("cities: expected different ids, got one twice")
        self.airs = [one.air for one in cities]
        self.renderer.load([one.scene for one in cities])
        self._heights = np.stack([air.height_m for air in self.airs])
        self._regions = np.stack([air.region for air in self.airs])
        shape = (self.airs[0].num_levels, *self.airs[0].coarse_height_m.shape)
        self._fields = np.zeros((self.num_fields, *shape), np.float32)
        self._kept = FieldRows(self._fields)
        self._ready = np.zeros(num_agents, np.bool_)
        self._scene, self._slot = np.zeros(num_agents, np.int64), np.full(num_agents, -1, np.int64)
        self._position, self._heading = np.zeros((num_agents, 3)), np.zeros(num_agents, np.int64)
        self._climbs = np.array([self.actions.climb(action) for action in range(len(self.actions))])

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses and gives each its goal; missing distance fields are computed side by side.

        ValueError, before anything changes, for a pose in a building, outside the city or between two levels, a heading
        between two turns, and a goal that cannot be reached.
        """
        check_reset(agents, scenes, poses, goals)
        if not np.isin(scenes, np.arange(len(self.cities))).all():
            raise ValueError(f"scenes: expected 0 to {len(self.cities) - 1}, got {scenes}")
        headings = self.actions.heading_indices(poses[:, 3])
        for k in np.unique(scenes):
            air, here = self.airs[k], poses[scenes == k]
            level = air.is_on_level(here[:, 1])
            if not level.all():
                raise ValueError(
                    f"city {air.scene_id}: expected y on a level, {LOWEST_M:g} m and each {self.actions.climb_m:g} m above "
                    f"up to {CEILING_M:g} m, got {here[~level][0, 1]:g}"
                )
            free = air.is_free(here)
            if not free.all():
                bad = tuple(here[~free][0].tolist())
                raise ValueError(
                    f"city {air.scene_id}: an agent cannot be at {bad}, in a building or outside the city; start it in a street"
                )
        others = np.setdiff1d(np.flatnonzero(self._ready), agents)
        wanted = [(int(k), goal) for k, goal in zip(scenes, goals, strict=True)]
        slots = self._kept.rows(wanted, pinned=self._slot[others].tolist(), compute=self._compute)
        self._scene[agents], self._slot[agents], self._heading[agents] = scenes, slots, headings
        self._position[agents] = poses[:, :3]
        self._ready[agents] = True

    def _compute(self, missing: list[tuple[int, Goal]]) -> list[Float32[np.ndarray, "L C C"]]:
        """Distance fields of goals, side by side."""
        return side_by_side(lambda key: distance_field(self.airs[key[0]], key[1]), missing)

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent; True for refused moves: forward into something, down on it, over the ceiling."""
        actions = checked_actions(actions, num_agents=self.num_agents, known=self.actions)
        self._check_ready()
        refused = np.zeros(self.num_agents, np.bool_)
        _move(
            self._position, self._heading, refused, actions, self._scene, self._heights, self._climbs,
            self.actions.step_x, self.actions.step_z,
        )  # fmt: skip
        return torch.from_numpy(refused)

    def _poses(self) -> Float64[np.ndarray, "N 4"]:
        return np.column_stack([self._position, self.actions.headings_rad[self._heading]])

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Metres of flight to each agent's goal, 0 inside its goal region, NaN for an agent that was not placed yet."""
        cells = np.floor((self._position[:, PLAN] - np.array(ORIGIN)) / (CELL_M * COARSE)).astype(np.int64)
        column, row = np.clip(cells, 0, self._fields.shape[2] - 1).T
        climb_m = self.actions.climb_m or 1.0
        level = np.clip(np.rint((self._position[:, 1] - LOWEST_M) / climb_m), 0, self._fields.shape[1] - 1).astype(
            np.int64
        )
        found = self._fields[np.maximum(self._slot, 0), level, row, column]
        return torch.from_numpy(np.where(self._slot < 0, np.float32(np.nan), found))

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """Index in the annotations' regions of the block, park or street that each agent is over."""
        regions = np.empty(self.num_agents, np.int64)
        for k in np.unique(self._scene):
            here = self._scene == k
            regions[here] = region_at(self._regions[k], self._position[here][:, PLAN])
        return torch.from_numpy(regions)


@njit(cache=True, error_model="numpy")
@no_type_check
def _move(position, heading, refused, actions, scene, heights, climbs, step_x, step_z):
    for n in range(actions.size):
        action, x, y, z = actions[n], position[n, 0], position[n, 1], position[n, 2]
        height = heights[scene[n]]
        if action == LEFT:
            heading[n] = (heading[n] + 1) % step_x.size
        elif action == RIGHT:
            heading[n] = (heading[n] + step_x.size - 1) % step_x.size
        elif action == FORWARD:
            h = heading[n]
            if way_is_clear(height, x, y, z, step_x[h], step_z[h]):
                position[n, 0], position[n, 2] = x + step_x[h], z + step_z[h]
            else:
                refused[n] = True
        elif climbs[action] != 0.0:
            above = y + climbs[action]
            if above <= CEILING_M and height_at(height, x, z) <= above:
                position[n, 1] = above
            else:
                refused[n] = True
