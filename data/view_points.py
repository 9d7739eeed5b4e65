"""From where an object can be seen: the poses at which a walk to it should end.

All of a house is looked at once: from places on a coarse grid six views, drawn small, give the whole round, and from it how
much of a view each object fills at any heading. A place is good if the object is seen well looking its way and a little
beside it, so a walk may end as soon as it comes to such a place with the object before it. EmbodiedQA's code takes one
random near place and the heading with most pixels; with few poses to end at, our walks passed their target and turned.

Axes: P places, D headings, C columns all round, I instances (0 is the building), V views.
"""

from collections.abc import Sequence
from math import pi, radians, tan
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float32, Float64
from numba import njit

from envs.actions import NUM_HEADINGS, TURN_RAD
from envs.episode import Pose
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.house import House
from envs.house.navigation import HEADINGS_RAD, Floor, build_floor
from envs.house.rasterizer import Camera, Renderer
from envs.metrics import inside_polygon

VIEW_PX = 56
GOAL_RADIUS_M = 0.2  # a walk may end this far beside a view point,
GOAL_TURNS = 1  # and turned this far to either side: the target is in view all the same
VIEW_RAD = radians(60)
NUM_VIEWS = 6  # that close the round
COLUMNS_A_TURN = 6
NUM_COLUMNS = NUM_HEADINGS * COLUMNS_A_TURN
COLUMNS_A_VIEW = NUM_COLUMNS // NUM_VIEWS
PLACES_AT_ONCE = 64


def view_points(
    house: House,
    floor: Floor,
    renderer: Renderer,
    targets: Sequence[tuple[int, ...]],
    *,
    scene_index: int = 0,
    spacing_m: float = 0.3,
    within_m: float = 3.0,
    keep: int = 48,
    least_share: float = 0.015,
    enough_share: float = 0.15,
) -> list[tuple[Pose, ...] | None]:
    """For each target the poses from which it is seen well, best first; None where it is hardly seen.

    A target is the object ids that a question needs, to be seen in one view; it is the first one that the poses look at.
    `renderer` has the house loaded as `scene_index` and gives instance ids. All of the objects must fill at least
    `least_share` of a view (of its solid angle), and half of that when the agent looks up to GOAL_TURNS turns beside
    the first. A pose is kept if in the worst of these views the first object fills at least three quarters of what it
    fills in the best pose's; more than `enough_share` counts as that much, since nearer is no better. A function of the
    house and the target.
    ValueError names an id that the house does not have.
    """
    for target in targets:
        if not target or not all(1 <= i <= len(house.objects) for i in target):
            raise ValueError(f"targets: house {house.id} has objects 1 to {len(house.objects)}, got {target}")
    if "instance_id" not in renderer.modalities:
        raise ValueError(f"renderer: expected one that gives instance_id, got {renderer.modalities}")
    grid = _grid(floor, spacing_m)
    near = {first: _near(house, first, grid, within_m) for first in sorted({target[0] for target in targets})}
    used = np.flatnonzero(np.any([np.zeros(len(grid), bool), *near.values()], axis=0))
    shares = look_around(renderer, scene_index, grid[used], len(house.objects))
    place_of = np.full(len(grid), -1)
    place_of[used] = np.arange(len(used))
    found = []
    for target in targets:
        places = np.flatnonzero(near[target[0]])
        x, z = house.objects[target[0] - 1].position[::2]
        toward = np.arctan2(grid[places, 0] - x, grid[places, 1] - z)
        heading = np.round(toward % (2 * pi) / TURN_RAD).astype(np.int64) % NUM_HEADINGS
        beside = (heading[:, None] + np.arange(-GOAL_TURNS, GOAL_TURNS + 1)) % NUM_HEADINGS
        seen = shares[place_of[places][:, None, None], beside[:, :, None], np.asarray(target)]
        visible = (seen[:, GOAL_TURNS] >= least_share).all(1) & (seen >= least_share / 2).all((1, 2))
        score = np.where(visible, np.minimum(seen[:, :, 0].min(axis=1), enough_share), 0)
        order = np.argsort(-score, kind="stable")
        order = order[score[order] > max(0.75 * score.max(initial=0), 0)][:keep]
        poses = np.column_stack([grid[places], HEADINGS_RAD[heading]])[order]
        found.append(tuple(map(tuple, poses.tolist())) or None)
    return found


class ViewPointFinder:
    """`view_points` for houses that nobody has loaded yet: finder(house, targets)."""

    def __init__(self) -> None:
        self.renderer = Renderer(Camera(height_px=VIEW_PX, width_px=VIEW_PX), ("instance_id",))

    def __call__(self, house: House, targets: Sequence[tuple[int, ...]]) -> list[tuple[Pose, ...] | None]:
        catalog = load_catalog()
        scene = build_scene(house, catalog)
        self.renderer.load([scene])
        return view_points(house, build_floor(house, scene, catalog.meshes), self.renderer, targets)


def _grid(floor: Floor, spacing_m: float) -> Float64[np.ndarray, "P 2"]:
    """Free places (x, z) about `spacing_m` apart."""
    stride = max(round(spacing_m / floor.cell_m), 1)
    rows, columns = np.nonzero(floor.free[::stride, ::stride])
    return (np.stack([columns, rows], axis=1) * stride + 0.5) * floor.cell_m + np.asarray(floor.origin)


def _near(house: House, object_id: int, grid: Float64[np.ndarray, "P 2"], within_m: float) -> Bool[np.ndarray, " P"]:
    """The places in an object's room and not too far from it."""
    thing = house.objects[object_id - 1]
    return inside_polygon(grid, house.rooms[thing.room].polygon) & (
        np.hypot(*(grid - np.array(thing.position[::2])).T) <= within_m
    )


def look_around(
    renderer: Renderer, scene_index: int, places: Float64[np.ndarray, "P 2"], num_objects: int
) -> Float32[np.ndarray, "P D I"]:
    """The share of a view's solid angle that each instance fills, from each place at each heading that an agent can have.

    Off the axis of the drawn views a little less of floor and ceiling is in them than in the view that is asked for.
    """
    size = renderer.camera.width_px
    across = (2 * (np.arange(size) + 0.5) / size - 1) * tan(VIEW_RAD / 2)
    column = np.floor(-np.arctan(across) / (2 * pi) * NUM_COLUMNS).astype(np.int64)
    weight = (1 + across**2 + across[:, None] ** 2) ** -1.5
    turns = np.arange(NUM_VIEWS) * 2 * pi / NUM_VIEWS
    shares = np.empty((len(places), NUM_HEADINGS, num_objects + 1), np.float32)
    for first in range(0, len(places), PLACES_AT_ONCE):
        part = slice(first, first + PLACES_AT_ONCE)
        poses = np.column_stack([np.repeat(places[part], NUM_VIEWS, 0), np.tile(turns, len(places[part]))])
        seen = renderer.render(np.full(len(poses), scene_index, np.int32), poses)["instance_id"]
        _share(shares[part], seen, column, weight / weight.sum())
    return shares


@njit(cache=True, error_model="numpy")
@no_type_check
def _share(out, seen, column, weight):
    """Adds pixels up by instance and column of the round, then columns up to the views at each heading."""
    round_ = np.empty((NUM_COLUMNS, out.shape[2]), np.float32)
    for p in range(out.shape[0]):
        round_[:] = 0
        for v in range(NUM_VIEWS):
            image = seen[p * NUM_VIEWS + v]
            for i in range(image.shape[0]):
                for j in range(image.shape[1]):
                    c = (column[j] + v * COLUMNS_A_VIEW) % NUM_COLUMNS
                    round_[c, image[i, j]] += weight[i, j]
        for d in range(out.shape[1]):
            out[p, d] = 0
            for c in range(COLUMNS_A_VIEW):
                out[p, d] += round_[(d * COLUMNS_A_TURN - COLUMNS_A_VIEW // 2 + c) % NUM_COLUMNS]
