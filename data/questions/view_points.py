"""View points: the poses that see an object well, at which a walk to it should end.

All objects of a house are looked at together. Four small views from each place of a coarse grid give the whole round,
and the share of a view that each object fills at any heading. A place is good if it sees the object well both straight
ahead and a little to the side. So a walk may end as soon as it comes to such a place with the object before it.
EmbodiedQA's code takes one random near place and the heading with most pixels; with few poses to end at, our walks
passed their target and turned.

Axes: P places, Q points, E edges, D headings, C columns all round, I instance ids (0 is the building), O objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache
from math import asin, atan, degrees, pi, radians, sin, tan
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from numba import njit

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Pose
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.floor import Floor, side_by_side
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Instances, Scene

GOAL_RADIUS_M = 0.2  # a walk may end this far beside a view point,
GOAL_TURNS = 1  # and turned this far to either side: the target is in view all the same
VIEW_RAD = radians(60)  # an agent's view, as wide as it is high
NUM_HEADINGS, HEADINGS_RAD = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.headings_rad
COLUMNS_A_TURN = 6
NUM_COLUMNS = NUM_HEADINGS * COLUMNS_A_TURN
COLUMNS_A_VIEW = round(NUM_COLUMNS * VIEW_RAD / (2 * pi))
NUM_DRAWN = 4  # pictures that close the round, 90 degrees wide; high enough for the whole view in their corners
DRAWN = Camera(height_px=52, width_px=64, vertical_fov_deg=degrees(2 * atan(52 / 64)))
PLACES_AT_ONCE = 64
MANY_PLACES = 80  # most in one room, before they are thinned out
OVERVIEW_POINTS = 40  # of a room's floor, and places to look at them from

ViewPoints = tuple[Pose, ...] | None
Target = tuple[int, ...]  # ids of objects to be seen in one view, the one to look at first; or an `overview`

# A function of a house and targets that gives the poses which see each, best first, None for an invisible one.
Visible = Callable[[House, Sequence[Target]], Sequence[ViewPoints]]


def overview(room: int) -> Target:
    """The target of a question that needs a view of a room rather than of a thing, as the thing is not in it."""
    return (-1 - room,)


def view_points(
    house: House,
    scene: Scene,
    floor: Floor,
    renderer: Renderer,
    targets: Sequence[Target],
    *,
    spacing_m: float = 0.5,
    within_m: float = 3.0,
    keep: int = 48,
    least_share: float = 0.015,
    enough_share: float = 0.15,
) -> list[ViewPoints]:
    """The poses that see each target well, best first; None for a target that is hardly visible.

    A target is the object ids that a question needs to see in one view; the poses look at the first one. `renderer`
    gives instance ids. All of the objects must fill at least `least_share` of a view (of its solid angle), and half of
    that at headings up to GOAL_TURNS turns beside the first object. Poses compare by the first object's share in the
    worst of these views: a pose is kept with at least three quarters of the best one's. Shares above `enough_share`
    count as that much, since nearer is no better. Large rooms have fewer places, thinned out among those near any
    target. So the result also depends on the other targets of the same rooms.
    ValueError names an id that the house does not have.
    """
    groups: dict[tuple[int, ...], list[int]] = {}  # by the rooms that a target's objects are in
    for place, target in enumerate(targets):
        if not target or not all(1 <= i <= len(house.objects) for i in target):
            raise ValueError(f"targets: house {house.id} has objects 1 to {len(house.objects)}, got {target}")
        groups.setdefault(tuple(sorted({house.objects[i - 1].room for i in target})), []).append(place)
    if "instance_id" not in renderer.sensors:
        raise ValueError(f"renderer: expected one that gives instance_id, got {renderer.sensors}")
    if not groups:
        return []
    renderer.load([_visible_in(scene, rooms) for rooms in groups])
    grid = _grid(floor, spacing_m)
    found: list[tuple[Pose, ...] | None] = [None] * len(targets)
    for index, places in enumerate(groups.values()):
        of_group = [targets[place] for place in places]
        near = {first: _near(house, first, grid, within_m) for first in sorted({target[0] for target in of_group})}
        used = np.flatnonzero(_thinned(np.any(list(near.values()), axis=0), grid, spacing_m))
        ids = sorted({i for target in of_group for i in target})
        column_of = np.zeros(len(house.objects) + 1, np.int64)
        column_of[ids] = np.arange(1, len(ids) + 1)
        shares = look_around(renderer, index, floor.stand(grid[used], np.zeros(len(used))), column_of)
        place_of = np.full(len(grid), -1)
        place_of[used] = np.arange(len(used))
        for place in places:
            target = targets[place]
            stand = np.flatnonzero(near[target[0]] & (place_of >= 0))
            x, z = house.objects[target[0] - 1].position[::2]
            toward = np.arctan2(grid[stand, 0] - x, grid[stand, 1] - z)
            heading = np.round(toward % (2 * pi) / HOUSE_ACTIONS.turn_rad).astype(np.int64) % NUM_HEADINGS
            beside = (heading[:, None] + np.arange(-GOAL_TURNS, GOAL_TURNS + 1)) % NUM_HEADINGS
            seen = shares[place_of[stand][:, None, None], beside[:, :, None], column_of[np.asarray(target)]]
            visible = (seen[:, GOAL_TURNS] >= least_share).all(1) & (seen >= least_share / 2).all((1, 2))
            score = np.where(visible, np.minimum(seen[:, :, 0].min(axis=1), enough_share), 0)
            order = np.argsort(-score, kind="stable")
            order = order[score[order] > max(0.75 * score.max(initial=0), 0)][:keep]
            poses = floor.stand(grid[stand], HEADINGS_RAD[heading])[order]
            found[place] = tuple(map(tuple, poses.tolist())) or None
    return found


class ViewPointFinder:
    """`view_points` and `overviews` for houses that nobody has loaded yet: finder(house, targets)."""

    def __init__(self) -> None:
        self.renderer = Renderer(DRAWN, ("instance_id",))

    def __call__(self, house: House, targets: Sequence[Target]) -> list[ViewPoints]:
        catalog = load_catalog()
        scene = build_scene(house, catalog)
        floor = build_floor(house, scene, catalog.meshes)
        objects = [target for target in targets if not _is_overview(target)]
        rooms = [-1 - target[0] for target in targets if _is_overview(target)]
        found = iter(view_points(house, scene, floor, self.renderer, objects))
        over = iter(overviews(house, floor, rooms))
        return [next(over if _is_overview(target) else found) for target in targets]


@cache
def _finder() -> ViewPointFinder:
    return ViewPointFinder()


def view_points_of(house: House, targets: Sequence[Target]) -> list[ViewPoints]:
    """Poses by a `ViewPointFinder`; one serves each process."""
    return _finder()(house, targets)


def _is_overview(target: Target) -> bool:
    return len(target) == 1 and target[0] < 0


def overviews(
    house: House, floor: Floor, rooms: Sequence[int], *, keep: int = 48, enough_share: float = 0.75
) -> list[ViewPoints]:
    """The poses in each room that have most of its floor before them, best first; None for a room nobody can stand in.

    A pose is kept if it sees `enough_share` of the best one's view. Furniture hides nothing here: it is the thing that
    one looks for, and an agent can step round it.
    """
    return [_overview(house.rooms[room].polygon, floor, keep, enough_share) for room in rooms]


def _overview(corners: Sequence[tuple[float, float]], floor: Floor, keep: int, enough_share: float) -> ViewPoints:
    polygon = np.asarray(corners, np.float64)
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    step_m = max(float(np.sqrt(np.prod(high - low) / OVERVIEW_POINTS)), 0.2)
    axes = [np.arange(a + step_m / 2, b, step_m) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[inside_polygon(points, corners)]
    places = points[floor.is_free(points)]
    if not len(places):
        return None
    toward = points - places[:, None]
    bearing = np.arctan2(-toward[..., 0], -toward[..., 1])
    off = np.abs((bearing[:, None] - HEADINGS_RAD[:, None] + pi) % (2 * pi) - pi)
    before = (off <= VIEW_RAD / 2) & _in_sight(places, points, polygon)[:, None] & (toward != 0).any(-1)[:, None]
    score = before.mean(axis=2)
    order = np.argsort(-score, axis=None, kind="stable")
    order = order[score.ravel()[order] >= enough_share * score.max()][:keep]
    place, heading = np.unravel_index(order, score.shape)
    return tuple(map(tuple, floor.stand(places[place], HEADINGS_RAD[heading]).tolist()))


def _in_sight(
    places: Float64[np.ndarray, "P 2"], points: Float64[np.ndarray, "Q 2"], polygon: Float64[np.ndarray, "E 2"]
) -> Bool[np.ndarray, "P Q"]:
    """True if the straight line between two points inside a polygon crosses none of its edges."""

    def side(a, b, c):
        return np.sign(
            (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
        )

    a, b = places[:, None, None], points[None, :, None]
    c, d = polygon[None, None], np.roll(polygon, -1, axis=0)[None, None]
    crossed = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    return ~crossed.any(axis=2)


def _visible_in(scene: Scene, rooms: tuple[int, ...]) -> Scene:
    """The scene with only one room's things and walls, which alone can show or hide them in it. All for more rooms."""
    if len(rooms) > 1:
        return scene
    chosen = scene.instances.room == rooms[0]
    items = {part.name: getattr(scene.instances, part.name)[chosen] for part in fields(Instances)}
    return replace(scene, instances=Instances(**items))


def _grid(floor: Floor, spacing_m: float) -> Float64[np.ndarray, "P 2"]:
    """Free places (x, z) about `spacing_m` apart."""
    stride = max(round(spacing_m / floor.cell_m), 1)
    rows, columns = np.nonzero(floor.free[::stride, ::stride])
    return (np.stack([columns, rows], axis=1) * stride + 0.5) * floor.cell_m + np.asarray(floor.origin)


def _thinned(
    chosen: Bool[np.ndarray, " P"], grid: Float64[np.ndarray, "P 2"], spacing_m: float
) -> Bool[np.ndarray, " P"]:
    """Every second place, as on a chessboard, if there are very many: a hall is seen well from few."""
    if np.count_nonzero(chosen) <= MANY_PLACES:
        return chosen
    cells = np.floor((grid - grid.min(axis=0)) / spacing_m + 0.5).astype(np.int64)
    return chosen & (cells.sum(axis=1) % 2 == 0)


def _near(house: House, object_id: int, grid: Float64[np.ndarray, "P 2"], within_m: float) -> Bool[np.ndarray, " P"]:
    """The places in an object's room and not too far from it."""
    thing = house.objects[object_id - 1]
    return inside_polygon(grid, house.rooms[thing.room].polygon) & (
        np.hypot(*(grid - np.array(thing.position[::2])).T) <= within_m
    )


def look_around(
    renderer: Renderer, scene_index: int, places: Float64[np.ndarray, "P 4"], column_of: Int64[np.ndarray, " I"]
) -> Float32[np.ndarray, "P D O"]:
    """The share of a view's solid angle that objects fill, from each place at each heading that an agent can have.
    The places' own headings do not count.

    `column_of` gives each instance id's place on the last axis. A view's upper and lower edges count as equally far
    from the horizon all along, at their mean. `renderer` has the camera DRAWN.
    """
    across = 2 * (np.arange(DRAWN.width_px) + 0.5) / DRAWN.width_px - 1
    down = (np.arange(DRAWN.height_px) + 0.5 - DRAWN.height_px / 2) * 2 / DRAWN.width_px
    column = np.floor(-np.arctan(across) / (2 * pi) * NUM_COLUMNS).astype(np.int64)
    steepest = tan(VIEW_RAD / 2) * sin(VIEW_RAD / 2) / (VIEW_RAD / 2)
    in_view = np.abs(down[:, None]) <= steepest * np.hypot(1, across)
    pixel = (2 / DRAWN.width_px) ** 2 * (1 + across**2 + down[:, None] ** 2) ** -1.5
    weight = in_view * pixel / (4 * asin(sin(VIEW_RAD / 2) ** 2))  # of the view's solid angle
    turns = np.arange(NUM_DRAWN) * 2 * pi / NUM_DRAWN
    shares = np.empty((len(places), NUM_HEADINGS, column_of.max() + 1), np.float32)
    for first in range(0, len(places), PLACES_AT_ONCE):
        part = slice(first, first + PLACES_AT_ONCE)
        poses = np.repeat(places[part], NUM_DRAWN, 0)
        poses[:, 3] = np.tile(turns, len(places[part]))
        seen = renderer.render(np.full(len(poses), scene_index, np.int32), poses)["instance_id"]
        rounds = seen.reshape(-1, NUM_DRAWN, *seen.shape[1:])
        halves = zip(np.array_split(shares[part], 2), np.array_split(rounds, 2), strict=True)
        side_by_side(lambda half: _share(*half, column_of, column, weight), halves)
    return shares


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _share(out, seen, column_of, column, weight):
    """Adds pixels up by object and column of the round, then columns up to the views at each heading."""
    before = np.empty(
        (NUM_COLUMNS + COLUMNS_A_VIEW + 1, out.shape[2])
    )  # sums over all earlier columns, round once more
    for p in range(out.shape[0]):
        before[:] = 0
        for v in range(NUM_DRAWN):
            image = seen[p, v]
            for i in range(image.shape[0]):
                for j in range(image.shape[1]):
                    c = (column[j] + v * (NUM_COLUMNS // NUM_DRAWN) + COLUMNS_A_VIEW // 2) % NUM_COLUMNS
                    before[c + 1, column_of[image[i, j]]] += weight[i, j]
        before[NUM_COLUMNS + 1 :] = before[1 : COLUMNS_A_VIEW + 1]
        for c in range(NUM_COLUMNS + COLUMNS_A_VIEW):
            before[c + 1] += before[c]
        for d in range(out.shape[1]):
            first = d * COLUMNS_A_TURN
            out[p, d] = before[first + COLUMNS_A_VIEW] - before[first]
