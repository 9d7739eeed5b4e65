"""A world of streets by hand, in which every thing is its box; cars, signs and people differ from city to city.

Agents fly 4 m, turn by quarters and climb 10 m. Flights are found by trying all moves, breadth first.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import no_type_check

import numpy as np
import torch
from numba import njit

from eqa.envs.actions import Action, ActionSet
from eqa.envs.annotations import PALETTE, Annotations
from eqa.envs.episode import Pose
from eqa.envs.navigation.walk import replay
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Planner, Walk
from tests.helpers.hand_city import BAKERY, BENCH, BOOKS, BUS, CAR, PERSON, TOYS, box, hand_city

ACTIONS = ActionSet(("forward", "left", "right", "stop", "up", "down"), 4.0, np.pi / 2, 10.0, max_steps=60)
EDGE_M, LOWEST_M, HIGHEST_M = 60.0, 2.0, 12.0
COLORS = ("red", "blue", "yellow", "green")


@cache
def block_city(scene_id: str) -> Annotations:
    """The street by hand with colours, shops and things that follow from the last digits of the id."""
    n = int(scene_id[-5:]) + 7 * len(scene_id)
    things = {thing.id: thing for thing in hand_city().things}

    def color(k: int) -> str:
        return COLORS[(n // 4**k + k) % 4]

    changed = [
        replace(things[CAR], color=color(0), name=("car", "van")[n % 2], front_rad=(n % 4) * np.pi / 2),
        replace(things[BUS], color=color(1), name=("bus", "car")[n // 2 % 2]),
        replace(things[BOOKS], color=color(0), label=("ALMA BOOKS", "ALMA CAFE")[n % 2]),
        replace(things[BAKERY], color=color(1), label=("LEO BAKERY", "LEO TOYS")[n // 2 % 2]),
        replace(things[TOYS], color=color(2), label=("ZOE TOYS", "ZOE PIZZA")[n // 4 % 2]),
        replace(things[BENCH], outline=box(-16 + 4 * (n % 2), -7, 1.6, 0.6)),
        replace(things[PERSON], outline=box(-25 + 60 * (n // 2 % 2), -7, 0.5, 0.5)),
    ]
    city = hand_city(**{f"t{thing.id}": thing for thing in changed})
    return replace(city, scene_id=scene_id)


class BlockSimulator:
    """Draws; nothing else is needed to make questions."""

    def __init__(self, scene_ids: Sequence[str], camera: Camera) -> None:
        self.scene_ids, self.camera = list(scene_ids), camera
        things = [block_city(scene_id).things for scene_id in scene_ids]
        self.ids = [np.array([thing.id for thing in of_scene]) for of_scene in things]
        self.table = np.full((100, 3), 90, np.uint8)  # colours by id: those of the last scene
        for thing in (thing for of_scene in things for thing in of_scene):
            self.table[thing.id] = PALETTE.get(thing.color, (200, 200, 200))

    def look(self, scenes, poses, sensors=("rgb",)) -> dict[str, torch.Tensor]:
        drawn = np.zeros((len(poses), self.camera.height_px, self.camera.width_px), np.int32)
        for n, (scene, pose) in enumerate(zip(scenes.tolist(), poses, strict=True)):
            low, high = _boxes(self.scene_ids[scene])
            _draw(drawn[n], pose, low, high, self.ids[scene], self.camera.focal_px)
        images = {"instance_id": torch.from_numpy(drawn), "rgb": torch.from_numpy(self.table[drawn])}
        return {name: images[name] for name in sensors}


@njit(cache=True)
@no_type_check
def _draw(out, pose, low, high, ids, focal):
    """The id of the nearest box along each pixel's ray, 0 for the ground and the sky. Corners are (x, z, y)."""
    height, width = out.shape
    x, y, z, heading = pose
    sin, cos = np.sin(heading), np.cos(heading)
    for i in range(height):
        for j in range(width):
            across, up = (j + 0.5 - width / 2) / focal, -(i + 0.5 - height / 2) / focal
            ray, eye, nearest = (across * cos - sin, -across * sin - cos, up), (x, z, y), np.inf
            for k in range(len(ids)):
                enter, leave = 0.0, nearest
                for axis in range(3):
                    slope = ray[axis] if ray[axis] != 0 else 1e-12
                    a, b = (low[k, axis] - eye[axis]) / slope, (high[k, axis] - eye[axis]) / slope
                    enter, leave = max(enter, min(a, b)), min(leave, max(a, b))
                if 0 < enter < leave:
                    nearest, out[i, j] = enter, ids[k]


class BlockWorld:
    """The parts of `envs.simulator.World` that making questions needs."""

    actions, identity, camera, coordinate_frames, scenes_at_once = ACTIONS, "blocks", Camera(), ("city",), None

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: Camera | None = None) -> BlockSimulator:
        return BlockSimulator(scene_ids, camera or self.camera)

    def missing(self, scene_ids) -> set[str]:
        return set()

    def annotations(self, scene_id: str) -> Annotations:
        return block_city(scene_id)

    def distances(self, scene_id, goals, poses) -> list[np.ndarray]:
        return [
            np.where(is_free(scene_id, at), away(goal, at), np.inf).astype(np.float32)
            for goal, at in zip(goals, poses, strict=True)
        ]

    def shortest_walks(self, scene_id, goals, starts, *, or_none=False) -> list[Walk | None]:
        return [fly(scene_id, goal, start) for goal, start in zip(goals, starts, strict=True)]

    def planners(self, scene_id, goals) -> list[Planner]:
        return [partial(fly, scene_id, goal) for goal in goals]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[np.ndarray]) -> list[Walk]:
        return [replay(start, taken, ACTIONS) for start, taken in zip(starts, actions, strict=True)]


@cache
def _boxes(scene_id: str) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest corner (x, z, y) of each thing's box."""
    boxes = [(np.array(thing.outline), thing.low_m, thing.high_m) for thing in block_city(scene_id).things]
    low = [(*corners.min(0), bottom) for corners, bottom, _ in boxes]
    high = [(*corners.max(0), top) for corners, _, top in boxes]
    return np.array(low, np.float64), np.array(high, np.float64)


def is_free(scene_id: str, poses: np.ndarray) -> np.ndarray:
    """True for poses (V, 4) outside all boxes and inside the city."""
    low, high = (corner + room for corner, room in zip(_boxes(scene_id), (-0.4, 0.4), strict=True))
    at = np.asarray(poses, np.float64).reshape(-1, 4)[:, [0, 2, 1]]
    inside = ((at[:, None] > low) & (at[:, None] < high)).all(2).any(1)
    in_city = (np.abs(at[:, :2]) <= EDGE_M).all(1) & (at[:, 2] >= LOWEST_M) & (at[:, 2] <= HIGHEST_M)
    return in_city & ~inside


def away(goal: Goal, poses: np.ndarray) -> np.ndarray:
    """Metres in a straight line to the goal's nearest place, and up or down."""
    views, at = np.array(goal.view_points), np.asarray(poses)[:, None]
    flat = np.maximum(np.hypot(views[:, 0] - at[..., 0], views[:, 2] - at[..., 2]) - goal.radius_m, 0)
    return (flat + np.abs(views[:, 1] - at[..., 1])).min(1)


@cache
def fly(scene_id: str, goal: Goal, start: Pose) -> Walk | None:
    """The first walk of a breadth-first search that ends in the goal with a view point's heading.

    A state is whole steps along X and Z from the start, quarter turns and a level.
    """
    side, levels = int(2 * EDGE_M / ACTIONS.step_m), (LOWEST_M, HIGHEST_M)
    steps = np.arange(-side, side + 1) * ACTIONS.step_m
    x, z, turn, y = np.meshgrid(start[0] + steps, start[2] + steps, ACTIONS.headings_rad, levels, indexing="ij")
    poses = np.stack([x, y, z, turn], -1)
    free = is_free(scene_id, poses.reshape(-1, 4)).reshape(x.shape)
    ends = np.zeros(x.shape, np.bool_)
    for view in goal.view_points:
        turned = np.abs((turn - view[3] + np.pi) % (2 * np.pi) - np.pi) < 1e-3
        ends |= turned & (np.hypot(x - view[0], z - view[2]) <= goal.radius_m) & (np.abs(y - view[1]) < 1e-6)
    first = (side, side, int(ACTIONS.heading_indices(np.array([start[3]]))[0]), levels.index(start[1]))
    before: dict[tuple, tuple] = {first: ()}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        if ends[state]:
            actions = [int(Action.STOP)]
            while before[state]:
                state, action = before[state]
                actions.append(action)
            return replay(start, np.array(actions[::-1], np.int8), ACTIONS)
        i, j, k, level = state
        ahead = (i + (0, -1, 0, 1)[k], j + (-1, 0, 1, 0)[k], k, level)
        moves = (
            ahead,
            (i, j, (k + 1) % 4, level),
            (i, j, (k - 1) % 4, level),
            None,
            (i, j, k, level + 1),
            (i, j, k, level - 1),
        )
        for action, after in enumerate(moves):
            if after is None or not (0 <= after[0] <= 2 * side and 0 <= after[1] <= 2 * side and 0 <= after[3] <= 1):
                continue
            if after not in before and free[after]:
                before[after] = (state, action)
                queue.append(after)
    return None
