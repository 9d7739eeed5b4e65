"""`HouseSimulator`: N agents in K houses, moved and drawn in one call each, without a loop over agents.

Axes: N agents, M of them, K houses, G grid side, B blocks of the grid, S distance fields kept, C free cells of the house
with most, E polygon corners of all rooms of all houses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import no_type_check

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numba import njit

from eqa.envs.actions import MAX_EPISODE_ACTIONS, NUM_ACTIONS, NUM_HEADINGS
from eqa.envs.episode import Episode
from eqa.envs.eqa import EQAVectorEnv
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import (
    FORWARD,
    HEADINGS_RAD,
    LEFT,
    RIGHT,
    STEP_X,
    STEP_Z,
    Floor,
    cell_at,
    distance_fields,
    free_index,
    heading_indices,
    way_is_free,
)
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.simulator import Goal

ENV_ID = "EQA-House-v1"
RESOLUTION = 1000  # floor cells a side (Das et al. 2018, Sec. 3)


@dataclass(frozen=True, slots=True)
class ReadyHouse:
    """A house with what a simulator makes of it first, for those who come back to it."""

    house: House
    scene: Scene
    floor: Floor


def ready(house: House, *, resolution: int = RESOLUTION) -> ReadyHouse:
    """ValueError for a house in which nobody can stand."""
    scene = build_scene(house, load_catalog())
    return ReadyHouse(house, scene, build_floor(house, scene, load_catalog().meshes, resolution=resolution))


class HouseSimulator:
    """Implements `envs.simulator.Simulator` for generated houses.

    `num_fields` distance fields are kept (2 MB each for a house of 200 m2), the least recently used one makes way; agents
    with the same house and goal share one. At least one an agent is kept.
    """

    def __init__(
        self,
        houses: Sequence[House | ReadyHouse],
        *,
        num_agents: int,
        camera: Camera | None = None,
        sensors: Sequence[str] = ("rgb",),
        resolution: int = RESOLUTION,
        num_fields: int = 64,
    ) -> None:
        if num_agents < 1:
            raise ValueError(f"num_agents: expected at least 1, got {num_agents}")
        self.num_agents = num_agents
        self.num_fields = max(num_fields, num_agents)
        self.resolution = resolution
        self.renderer = Renderer(camera or Camera(), sensors)
        self.image_size = (self.renderer.camera.height_px, self.renderer.camera.width_px)
        self.load(houses)

    def load(self, houses: Sequence[House | ReadyHouse]) -> None:
        """Replaces the houses; every agent has to be reset afterwards. ValueError names a house in which none can stand."""
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
        self._slot_of: dict[tuple[int, Goal], int] = {}  # least recently used first
        self._ready = np.zeros(self.num_agents, np.bool_)
        self._scene, self._slot = np.zeros(self.num_agents, np.int64), np.full(self.num_agents, -1, np.int64)
        self._position = np.zeros((self.num_agents, 2))
        self._heading = np.zeros(self.num_agents, np.int64)

    def scene_index(self, scene_id: str) -> int:
        """Place of a loaded house; ValueError names one that is not loaded."""
        if scene_id not in self._index:
            raise ValueError(
                f"house {scene_id!r}: not among the {len(self.houses)} loaded houses; pass it to the simulator"
            )
        return self._index[scene_id]

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 3"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses and gives each its goal; missing distance fields are computed side by side.

        ValueError, before anything changes, for a pose where an agent cannot stand, a heading between two turns, and a goal
        that cannot be reached.
        """
        if not len(agents) == len(scenes) == len(poses) == len(goals):
            raise ValueError(
                f"reset: expected as many scenes, poses and goals as agents, got {len(scenes)}, {len(poses)}, {len(goals)} "
                f"for {len(agents)}"
            )
        if not np.isin(scenes, np.arange(len(self.houses))).all():
            raise ValueError(f"scenes: expected 0 to {len(self.houses) - 1}, got {scenes}")
        headings = heading_indices(poses[:, 2])
        for k in np.unique(scenes):
            stands = self.floors[k].is_free(poses[scenes == k])
            if not stands.all():
                bad = tuple(poses[scenes == k][~stands][0].tolist())
                raise ValueError(f"house {self.houses[k].id}: an agent cannot stand at {bad}; start it on free floor")
        slots = self._slots(agents, [(int(k), goal) for k, goal in zip(scenes, goals)])
        self._scene[agents], self._slot[agents], self._heading[agents] = scenes, slots, headings
        self._position[agents] = poses[:, :2]
        self._ready[agents] = True

    def _slots(self, agents, wanted):
        """Rows of `_fields` that hold what is wanted, after computing what is missing."""
        others = np.setdiff1d(np.flatnonzero(self._ready), agents)
        pinned = set(self._slot[others].tolist())
        for key in dict.fromkeys(wanted):
            if key in self._slot_of:
                self._slot_of[key] = self._slot_of.pop(key)
                pinned.add(self._slot_of[key])
        missing = [key for key in dict.fromkeys(wanted) if key not in self._slot_of]
        computed = {}
        for k in dict.fromkeys(k for k, _ in missing):
            here = [key for key in missing if key[0] == k]
            computed.update(zip(here, distance_fields(self.floors[k], [goal for _, goal in here])))
        unused = [slot for slot in range(self.num_fields) if slot not in self._slot_of.values()]
        unused += [slot for slot in self._slot_of.values() if slot not in pinned]
        owner = {slot: key for key, slot in self._slot_of.items()}
        for key, slot in zip(missing, unused):
            self._slot_of.pop(owner.get(slot), None)
            self._fields[slot, : len(computed[key])] = computed[key]
            self._slot_of[key] = slot
        return [self._slot_of[key] for key in wanted]

    def step(self, actions: Int64[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """Moves every agent; True where a forward move was refused. ValueError for an id that is no action."""
        actions = np.asarray(actions)
        whole = actions.shape == (self.num_agents,) and np.issubdtype(actions.dtype, np.integer)
        if not whole or not ((actions >= 0) & (actions < NUM_ACTIONS)).all():
            raise ValueError(
                f"actions: expected {self.num_agents} whole numbers from 0 to {NUM_ACTIONS - 1}, got {actions!r}"
            )
        self._check_ready()
        collided = np.zeros(self.num_agents, np.bool_)
        _move(
            self._position, self._heading, collided, actions.astype(np.int64), self._scene,
            self._free, self._origin, self._cell_m, STEP_X, STEP_Z,
        )  # fmt: skip
        return collided

    def render(self, agents: Int64[np.ndarray, " M"] | None = None) -> dict[str, np.ndarray]:
        """What the agents see, as `Renderer.render` gives it; all agents by default."""
        self._check_ready(agents)
        chosen = slice(None) if agents is None else agents
        return self.renderer.render(self._scene[chosen].astype(np.int32), self.poses[chosen])

    @property
    def poses(self) -> Float64[np.ndarray, "N 3"]:
        return np.concatenate([self._position, HEADINGS_RAD[self._heading][:, None]], axis=1)

    @property
    def distance_m(self) -> Float32[np.ndarray, " N"]:
        """Geodesic metres to each agent's goal, 0 inside its goal region, NaN for an agent that is nowhere yet."""
        distances = np.empty(self.num_agents, np.float32)
        _look_up(
            distances, self._position, self._scene, self._slot, self._fields,
            self._free, self._starts, self._origin, self._cell_m,
        )  # fmt: skip
        return distances

    @property
    def room(self) -> Int64[np.ndarray, " N"]:
        """Index in `House.rooms` of the room that each agent is in; -1 inside a wall's thickness where rooms end before it."""
        rooms = np.empty(self.num_agents, np.int64)
        _find_rooms(rooms, self._position, self._scene, *self._rooms)
        return rooms

    def _check_ready(self, agents=None):
        ready = self._ready if agents is None else self._ready[agents]
        if not ready.all():
            raise ValueError(f"{np.count_nonzero(~ready)} agents are nowhere yet; reset them first")


def enter(
    scene_ids: Sequence[str], house: Callable[[str], House | ReadyHouse]
) -> tuple[HouseSimulator, Int64[np.ndarray, " N"]]:
    """A simulator with one agent for each id in the houses of that name, each loaded once; and the scene of each agent."""
    simulator = HouseSimulator([house(i) for i in dict.fromkeys(scene_ids)], num_agents=len(scene_ids))
    return simulator, np.array([simulator.scene_index(i) for i in scene_ids])


def make_house_env(
    num_envs: int,
    *,
    houses: Sequence[House],
    episodes: Sequence[Episode],
    encode: Callable[[str], Sequence[int]],
    num_words: int,
    camera: Camera | None = None,
    max_steps: int = MAX_EPISODE_ACTIONS,
) -> EQAVectorEnv:
    """What `gymnasium.make_vec("EQA-House-v1", num_envs=…, houses=…, …)` calls: the task in generated houses."""
    simulator = HouseSimulator(houses, num_agents=num_envs, camera=camera)
    return EQAVectorEnv(simulator, episodes=episodes, encode=encode, num_words=num_words, max_steps=max_steps)


if ENV_ID not in gym.registry:
    gym.register(ENV_ID, vector_entry_point=make_house_env)


def _pack_rooms(houses):
    """All rooms' corners end to end (E 2), where each room's begin, and where each house's rooms begin."""
    polygons = [np.asarray(room.polygon, np.float64) for house in houses for room in house.rooms]
    corner_start = np.cumsum([0] + [len(polygon) for polygon in polygons])
    room_start = np.cumsum([0] + [len(house.rooms) for house in houses])
    return np.concatenate(polygons), corner_start, room_start


@njit(cache=True, error_model="numpy")
@no_type_check
def _move(position, heading, collided, actions, scene, free, origin, cell_m, step_x, step_z):
    for n in range(actions.size):
        if actions[n] == LEFT:
            heading[n] = (heading[n] + 1) % NUM_HEADINGS
        elif actions[n] == RIGHT:
            heading[n] = (heading[n] + NUM_HEADINGS - 1) % NUM_HEADINGS
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
