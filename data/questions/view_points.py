"""View points: the poses that see an object well, at which a walk to it should end.

All objects of a house are looked at together. Four small views from each place of a coarse grid give the whole round,
and the share of a view that each object fills at any heading. A place is good if it shows the whole object, large
enough to name its colour, with other things and floor of its room around it. It must do so both straight ahead and a
little to the side. So a walk may end as soon as it comes to such a place with the object before it. EmbodiedQA's code
takes one random near place and the heading with most pixels; with few poses to end at, our walks passed their target
and turned.

Axes: P places, V those near one target, Q points, E edges, D headings, H those that a walk may end with, N middle ones,
I instance ids (0 is the building), T objects of one target, R C image.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from math import pi

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int64, Integer
from numpy.lib.stride_tricks import sliding_window_view

from eqa.data.questions.surroundings import (
    DRAWN,
    FLOOR,
    HEADINGS_RAD,
    LEAST_SEEN,
    NUM_HEADINGS,
    VIEW_RAD,
    VIEW_SR,
    Around,
    look_around,
)
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN, Pose
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.house import House, HouseObject
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Instances, Scene

GOAL_RADIUS_M = 0.2  # a walk may end this far beside a view point,
GOAL_TURNS = 1  # and turned this far to either side: the target is in view all the same
MANY_PLACES = 80  # most in one room, before they are thinned out
ENOUGH_SHARE, TOO_LARGE = 0.05, 0.3  # of a view: a target need not be larger than the first, nor should than the second
MANY_OTHERS, OTHERS_WORTH = 4, 0.25  # other things: how many are enough, what each is worth
MUCH_FLOOR, FLOOR_WORTH = 0.1, 0.1  # floor: the share of a view that is enough, what it is worth
CLEAR = 0.7  # of the largest part of its box that an object fills from anywhere: it is hidden where it fills less
ASIDE_WORTH = 0.95  # of a view that looks a turn beside its target
FLOOR_CLASS = CLASSES.index("floor")
OVERVIEW_POINTS = 40  # of a room's floor, and places to look at them from

ViewPoints = tuple[Pose, ...] | None
Target = tuple[int, ...]  # ids of objects to be seen in one view, the one to look at first; or an `overview`

# Draws the instance ids that poses see, in one of the groups of rooms that were begun with.
Look = Callable[[tuple[int, ...], Float64[np.ndarray, "N 4"]], Integer[np.ndarray, "N R C"]]

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
    within_m: float = 3.25,
    keep: int = 48,
    least_share: float = 0.015,
) -> list[ViewPoints]:
    """The poses that see each target well, best first; None for a target that is hardly visible.

    A target is the object ids that a question needs to see in one view. The poses look at the first one or a turn
    beside it, from at most `within_m` away. `renderer` gives instance ids. All of the objects must fill at least
    `least_share` of a view (of its solid angle), and half of that at headings up to GOAL_TURNS turns beside the pose's.
    Poses compare by `worths`, less where something hides a part of the first object. A pose is kept with at least three
    quarters of the best one's score. Large rooms have fewer places. The result does not depend on the other targets.
    ValueError names an id that the house does not have.
    """
    if "instance_id" not in renderer.sensors:
        raise ValueError(f"renderer: expected one that gives instance_id, got {renderer.sensors}")
    places = floor.places(spacing_m)
    grid = places[:, PLAN]

    def begin(groups: Sequence[tuple[int, ...]]) -> Look:
        renderer.load([_visible_in(scene, rooms, len(house.objects)) for rooms in groups])

        def look(rooms: tuple[int, ...], poses: Float64[np.ndarray, "N 4"]) -> Integer[np.ndarray, "N R C"]:
            return renderer.render(np.full(len(poses), groups.index(rooms), np.int32), poses)["instance_id"]

        return look

    return seen_from(
        house,
        places,
        targets,
        in_room=lambda room: thinned(inside_polygon(grid, house.rooms[room].polygon), grid, spacing_m),
        begin=begin,
        within_m=within_m,
        keep=keep,
        least_share=least_share,
    )


def seen_from(
    house: House,
    places: Float64[np.ndarray, "P 3"],
    targets: Sequence[Target],
    *,
    in_room: Callable[[int], Bool[np.ndarray, " P"]],
    begin: Callable[[Sequence[tuple[int, ...]]], Look],
    eye_m: float = DRAWN.height_m,
    within_m: float = 3.25,
    keep: int = 48,
    least_share: float = 0.015,
) -> list[ViewPoints]:
    """As `view_points`, from any places where an agent can stand, with its eyes `eye_m` above them.

    `in_room` tells which of the places count for a room. `begin` is given the groups of rooms that targets are in, and
    gives the function that draws instance ids, those of the house, for one of the groups.
    """
    groups: dict[tuple[int, ...], list[int]] = {}  # by the rooms that a target's objects are in
    for place, target in enumerate(targets):
        if not target or not all(1 <= i <= len(house.objects) for i in target):
            raise ValueError(f"targets: house {house.id} has objects 1 to {len(house.objects)}, got {target}")
        groups.setdefault(tuple(sorted({house.objects[i - 1].room for i in target})), []).append(place)
    if not groups:
        return []
    draw, grid = begin(list(groups)), places[:, PLAN]
    room_has = {room: in_room(room) for room in sorted(set().union(*groups))}
    found: list[ViewPoints] = [None] * len(targets)
    for rooms, wanted in groups.items():
        firsts = [house.objects[i - 1] for i in sorted({targets[place][0] for place in wanted})]
        near = {thing.id: room_has[thing.room] & _near(thing, grid, within_m) for thing in firsts}
        used = np.flatnonzero(np.any(list(near.values()), axis=0))
        column_of = _columns(house, rooms)
        around = look_around(partial(draw, rooms), standing(places[used]), column_of)
        for place in wanted:
            target = targets[place]
            thing, columns = house.objects[target[0] - 1], column_of[np.asarray(target)]
            stand = np.flatnonzero(near[thing.id][used])
            at = places[used[stand]]
            heading, score = _best_turned(around, stand, _toward(thing, at[:, PLAN]), columns, least_share)
            clear = _clear(around.whole[stand, columns[0]], _box_share(thing, at, eye_m))
            score = np.round(score * clear, 6)  # equal on machines whose last bits of an arctangent differ
            order = np.argsort(-score, kind="stable")
            order = order[score[order] > max(0.75 * score.max(initial=0), 0)][:keep]
            found[place] = tuple(map(tuple, standing(at, HEADINGS_RAD[heading])[order].tolist())) or None
    return found


def standing(places: Float64[np.ndarray, "V 3"], headings_rad: Float64[np.ndarray, " V"] | float = 0.0) -> np.ndarray:
    """Poses (V, 4) at places."""
    return np.column_stack([places, np.broadcast_to(headings_rad, len(places))])


def _best_turned(
    around: Around,
    stand: Int64[np.ndarray, " V"],
    straight: Int64[np.ndarray, " V"],
    columns: Int64[np.ndarray, " T"],
    least_share: float,
) -> tuple[Int64[np.ndarray, " V"], Float[np.ndarray, " V"]]:
    """The best heading at each place, straight at a target's first object or a turn aside, and its score.

    The score is 0 where one of the objects, given by their columns, is hardly visible.
    """
    turns = np.arange(-GOAL_TURNS - 1, GOAL_TURNS + 2)
    beside = (straight[:, None] + turns) % NUM_HEADINGS
    seen = around.share[stand[:, None, None], beside[:, :, None], columns]
    least = seen.min(axis=2)
    whole = (seen / np.maximum(around.whole[stand[:, None], columns], 1e-6)[:, None]).min(axis=2)
    middle = slice(GOAL_TURNS, -GOAL_TURNS)
    heading, at = beside[:, middle], stand[:, None]
    others = around.others[at, heading] - (seen[:, middle] >= LEAST_SEEN).sum(axis=2)
    visible = (least[:, middle] >= least_share) & (_ends(least) >= least_share / 2).all(axis=2)
    score = worths(_ends(least), _ends(whole), seen[:, middle, 0], others, around.share[at, heading, FLOOR])
    score = np.where(visible, score, 0) * np.where(turns[middle] == 0, 1, ASIDE_WORTH)
    best = score.argmax(axis=1)[:, None]
    return np.take_along_axis(heading, best, 1)[:, 0], np.take_along_axis(score, best, 1)[:, 0]


def _ends(seen: Float32[np.ndarray, "V D"]) -> Float32[np.ndarray, "V N H"]:
    """Values at neighbouring headings, for each of the N middle ones at the H that a walk may end with."""
    return sliding_window_view(seen, 2 * GOAL_TURNS + 1, axis=1)


def worths(
    least: Float32[np.ndarray, "*B H"],
    whole: Float32[np.ndarray, "*B H"],
    first: Float32[np.ndarray, "*B"],
    others: Int64[np.ndarray, "*B"],
    floor: Float32[np.ndarray, "*B"],
) -> Float[np.ndarray, "*B"]:
    """Scores of views; the higher the better.

    `least`: the share of a view that the smallest of the target's objects fills. `whole`: the part of an object in
    sight that the view's edges leave in, of the one with the smallest part. Both stand for the headings that a walk may
    end with; the worst one counts. `first`, `others` and `floor`: the first object's share straight ahead, the number
    of other things, and the share of floor.
    """
    large = np.minimum(least.min(axis=-1) / ENOUGH_SHARE, 1)
    small = TOO_LARGE / np.maximum(first, TOO_LARGE)
    room = 1 + OTHERS_WORTH * np.minimum(others, MANY_OTHERS) + FLOOR_WORTH * np.minimum(floor / MUCH_FLOOR, 1)
    return large * small * whole.min(axis=-1) ** 2 * room


def _clear(seen: Float32[np.ndarray, " V"], box: Float64[np.ndarray, " V"]) -> Float64[np.ndarray, " V"]:
    """1 where an object fills about as much of its box as from elsewhere, less where things before it hide a part."""
    filled = seen / box
    return np.minimum(filled / max(CLEAR * filled.max(initial=0), 1e-9), 1)


def _box_share(thing: HouseObject, places: Float64[np.ndarray, "V 3"], eye_m: float) -> Float64[np.ndarray, " V"]:
    """The share of a view's solid angle between the bearings and heights of an object's box, as seen from places."""
    toward = np.array(thing.position[::2]) - places[:, PLAN]
    corners = np.array(thing.footprint()) - places[:, None, PLAN]
    aside = corners[..., 0] * toward[:, None, 1] - corners[..., 1] * toward[:, None, 0]
    bearing = np.arctan2(aside, (corners * toward[:, None]).sum(axis=2))
    away_m = np.maximum(np.hypot(*toward.T), 0.1)
    bottom, top = (thing.position[1] + h - (places[:, 1] + eye_m) for h in (0, thing.size_m[1]))
    high = top / np.hypot(top, away_m) - bottom / np.hypot(bottom, away_m)
    return np.ptp(bearing, axis=1) * high / VIEW_SR


class ViewPointFinder:
    """`view_points` and `overviews` for houses that nobody has loaded yet: finder(house, targets)."""

    def __init__(self) -> None:
        self.renderer = Renderer(DRAWN, ("instance_id",))

    def __call__(self, house: House, targets: Sequence[Target]) -> list[ViewPoints]:
        catalog = load_catalog()
        scene = build_scene(house, catalog)
        floor = build_floor(house, scene, catalog.meshes)
        objects = [target for target in targets if not is_overview(target)]
        rooms = [-1 - target[0] for target in targets if is_overview(target)]
        found = iter(view_points(house, scene, floor, self.renderer, objects))
        over = iter(overviews(house, floor, rooms))
        return [next(over if is_overview(target) else found) for target in targets]


@cache
def _finder() -> ViewPointFinder:
    return ViewPointFinder()


def view_points_of(house: House, targets: Sequence[Target]) -> list[ViewPoints]:
    """Poses by a `ViewPointFinder`; one serves each process."""
    return _finder()(house, targets)


def is_overview(target: Target) -> bool:
    """True for the target of a question about a room, of index -1 - target[0]."""
    return len(target) == 1 and target[0] < 0


def overviews(
    house: House, floor: Floor, rooms: Sequence[int], *, keep: int = 48, enough_share: float = 0.75
) -> list[ViewPoints]:
    """The poses in each room that have most of its floor before them, best first; None for a room nobody can stand in.

    A pose is kept if it sees `enough_share` of the best one's view. Furniture hides nothing here: it is the thing that
    one looks for, and an agent can step round it.
    """

    def free(points: Float64[np.ndarray, "Q 2"]) -> Float64[np.ndarray, "P 3"]:
        return floor.stand(points, np.zeros(len(points)))[floor.is_free(points), :3]

    return [overview_from(house.rooms[r].polygon, free, keep=keep, enough_share=enough_share) for r in rooms]


def overview_from(
    corners: Sequence[tuple[float, float]],
    free: Callable[[Float64[np.ndarray, "Q 2"]], Float64[np.ndarray, "P 3"]],
    *,
    keep: int = 48,
    enough_share: float = 0.75,
) -> ViewPoints:
    """As `overviews`, for one room; `free` gives places where an agent can stand, for points of the room's floor."""
    polygon = np.asarray(corners, np.float64)
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    step_m = max(float(np.sqrt(np.prod(high - low) / OVERVIEW_POINTS)), 0.2)
    axes = [np.arange(a + step_m / 2, b, step_m) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[inside_polygon(points, corners)]
    stand = free(points)
    if not len(stand):
        return None
    places = stand[:, PLAN]
    toward = points - places[:, None]
    bearing = np.arctan2(-toward[..., 0], -toward[..., 1])
    off = np.abs((bearing[:, None] - HEADINGS_RAD[:, None] + pi) % (2 * pi) - pi)
    before = (off <= VIEW_RAD / 2) & _in_sight(places, points, polygon)[:, None] & (toward != 0).any(-1)[:, None]
    score = before.mean(axis=2)
    order = np.argsort(-score, axis=None, kind="stable")
    order = order[score.ravel()[order] >= enough_share * score.max()][:keep]
    place, heading = np.unravel_index(order, score.shape)
    return tuple(map(tuple, standing(stand[place], HEADINGS_RAD[heading]).tolist()))


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


def _visible_in(scene: Scene, rooms: tuple[int, ...], num_objects: int) -> Scene:
    """The scene with only one room's things and walls, which alone can show or hide them in it. All for more rooms.

    Floors have an id of their own, `num_objects` + 1.
    """
    parts = scene.instances
    ids = np.where(parts.class_id == FLOOR_CLASS, np.int32(num_objects + 1), parts.instance_id)
    chosen = parts.room == rooms[0] if len(rooms) == 1 else np.ones_like(parts.room, bool)
    items = {part.name: getattr(parts, part.name)[chosen] for part in fields(Instances)} | {"instance_id": ids[chosen]}
    return replace(scene, instances=Instances(**items))


def _columns(house: House, rooms: tuple[int, ...]) -> Int64[np.ndarray, " I"]:
    """The columns of instance ids: of the building and other rooms' things, of floors, of each thing in the rooms."""
    ids = [thing.id for thing in house.objects if thing.room in rooms]
    column_of = np.zeros(len(house.objects) + 2, np.int64)
    column_of[ids] = np.arange(FLOOR + 1, FLOOR + 1 + len(ids))
    column_of[-1] = FLOOR
    return column_of


def thinned(
    inside: Bool[np.ndarray, " P"], grid: Float64[np.ndarray, "P 2"], spacing_m: float
) -> Bool[np.ndarray, " P"]:
    """The places in a room. Of very many, every second one, as on a chessboard: a hall is seen well from few."""
    if np.count_nonzero(inside) <= MANY_PLACES:
        return inside
    cells = np.floor((grid - grid.min(axis=0)) / spacing_m + 0.5).astype(np.int64)
    return inside & (cells.sum(axis=1) % 2 == 0)


def _near(thing: HouseObject, grid: Float64[np.ndarray, "P 2"], within_m: float) -> Bool[np.ndarray, " P"]:
    """The places not too far from an object: a long one is seen whole from farther away."""
    away_m = np.hypot(*(grid - np.array(thing.position[::2])).T)
    return away_m <= within_m + max(thing.size_m[0], thing.size_m[2]) / 2


def _toward(thing: HouseObject, places: Float64[np.ndarray, "V 2"]) -> Int64[np.ndarray, " V"]:
    """The headings, of those that an agent can have, that look most straight at an object."""
    x, z = (places - np.array(thing.position[::2])).T
    return np.round(np.arctan2(x, z) % (2 * pi) / HOUSE_ACTIONS.turn_rad).astype(np.int64) % NUM_HEADINGS
