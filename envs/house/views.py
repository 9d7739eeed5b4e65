"""`views_of`: places from which people see the rooms of a house: doorways first, then seats, beds and desks.

Each view looks about at the middle of its room, where the most of the room is before it. Plan coordinates are (x, z),
metres.

Axes: C free cells of the floor, H headings, R rays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, radians

import numpy as np
import shapely
from jaxtyping import Float64
from shapely import Polygon

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Pose
from eqa.envs.house.geometry import Point, wall_point
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.plan_labels import middle_of

SEATS = ("sofa", "bed", "desk", "armchair", "office chair", "chair", "bench", "piano", "toilet")
INSIDE_M = 0.2  # from a room's outline: past the wall that a doorway is in
ASIDE_RAD = radians(40)  # between a view and the way to the room's middle
NEAR_M = 1.0  # at the middle already: any heading will do
HALF_FOV_RAD = radians(36)
FAR_M = 6.0  # what is farther away adds nothing to a view
STEPS_M = np.arange(1, 7) * 0.2  # ahead of a view, where furniture would stand in its way
NUM_RAYS = 360
SAME_M, SAME_RAD = 1.0, radians(30)  # two views of a room that differ less are one


@dataclass(frozen=True, slots=True)
class View:
    """A pose in a room, of which it shows as much as it can; `place` says where it stands, as "the door"."""

    pose: Pose
    room: int
    place: str


def views_of(house: House, floor: Floor, count: int) -> list[View]:
    """Up to `count` views: one from a doorway into each room, then from seats and further doorways, room after room.

    Rooms that an agent cannot enter have none.
    """
    rooms = [_views_in(house, floor, room) for room in range(len(house.rooms))]
    ordered = [views[turn] for turn in range(max(map(len, rooms), default=0)) for views in rooms if turn < len(views)]
    return ordered[:count]


def _views_in(house: House, floor: Floor, room: int) -> list[View]:
    """Views in a room: the doorway that shows the most, seats by SEATS, other doorways."""
    polygon = Polygon(house.rooms[room].polygon)
    cells = _cells(polygon, floor)
    if not len(cells):
        return []
    doors = [_view(polygon, cells, floor, room, at, place) for at, place in _doorways(house, room)]
    doors.sort(key=lambda found: -found[1])
    seats = sorted(
        (thing for thing in house.objects if thing.room == room and thing.category in SEATS),
        key=lambda thing: (SEATS.index(thing.category), thing.id),
    )
    others = [(thing.position[0], thing.position[2]) for thing in seats]
    found = [view for view, _ in doors[:1]]
    found += [_view(polygon, cells, floor, room, at, f"the {thing.category}")[0] for at, thing in zip(others, seats)]
    found += [view for view, _ in doors[1:]]
    if not found:  # a room that is joined to others by nothing but open borders, without seats
        found = [_view(polygon, cells, floor, room, middle_of(house.rooms[room].polygon), "its middle")[0]]
    kept: list[View] = []
    for view in found:
        if not any(_is_same(view, other) for other in kept):
            kept.append(view)
    return kept


def _cells(polygon: Polygon, floor: Floor) -> Float64[np.ndarray, "C 2"]:
    """Free places in a room, away from its outline where it is wide enough."""
    x, z = floor.centres.T
    left, top, right, bottom = polygon.bounds
    near = floor.centres[(x > left) & (x < right) & (z > top) & (z < bottom)]
    for area in (polygon.buffer(-INSIDE_M), polygon):
        inside = near[shapely.contains_xy(area, *near.T)]
        if len(inside):
            return inside
    return inside


def _doorways(house: House, room: int) -> list[tuple[Point, str]]:
    """Middles of the room's doorways, and what they are called."""
    ways = [way for way in house.openings if way.kind != "window" and room in house.walls[way.wall].rooms]
    return [(wall_point(house.walls[way.wall], way.offset_m), f"the {way.kind}") for way in ways]


def _view(
    polygon: Polygon, cells: Float64[np.ndarray, "C 2"], floor: Floor, room: int, at: Point, place: str
) -> tuple[View, float]:
    """The view from the free place nearest to a point, and the area of the room before it, m2.

    The area counts less where furniture stands close ahead.
    """
    x, z = cells[np.argmin(((cells - at) ** 2).sum(axis=1))].tolist()
    middle = middle_of(list(polygon.exterior.coords)[:-1])
    to_middle = np.arctan2(x - middle[0], z - middle[1])
    headings = HOUSE_ACTIONS.headings_rad
    areas = _areas_in_view(polygon, (x, z), headings)
    if np.hypot(x - middle[0], z - middle[1]) > NEAR_M:
        turn = np.abs((headings - to_middle + np.pi) % (2 * np.pi) - np.pi)
        areas = np.where(turn <= ASIDE_RAD, areas * np.cos(turn), -1.0)
    best = int(np.argmax(areas))
    ahead = np.array([-np.sin(headings[best]), -np.cos(headings[best])]) * STEPS_M[:, None] + (x, z)
    score = float(areas[best] * floor.is_free(ahead).mean())
    return View((x, floor.y_m, z, float(headings[best])), room, place), score


def _areas_in_view(polygon: Polygon, place: Point, headings: Float64[np.ndarray, " H"]) -> Float64[np.ndarray, " H"]:
    """Square metres of a room within FAR_M and the width of a view from a place in it, by heading."""
    depths = np.minimum(_ray_lengths(list(polygon.exterior.coords), place), FAR_M)
    turns = np.arange(NUM_RAYS) * (2 * np.pi / NUM_RAYS)
    apart = np.abs((turns - headings[:, None] + np.pi) % (2 * np.pi) - np.pi)
    return ((apart <= HALF_FOV_RAD) * depths**2).sum(axis=1) * np.pi / NUM_RAYS


def _ray_lengths(ring: Sequence[Point], place: Point) -> Float64[np.ndarray, " R"]:
    """Metres from a place within a ring to the ring, by heading, one ray a degree."""
    turns = np.arange(NUM_RAYS) * (2 * np.pi / NUM_RAYS)
    dx, dz = -np.sin(turns)[:, None], -np.cos(turns)[:, None]
    corners = np.asarray(ring, np.float64) - place
    (ax, az), (ex, ez) = corners[:-1].T, np.diff(corners, axis=0).T
    cross = dx * ez - dz * ex
    with np.errstate(divide="ignore", invalid="ignore"):
        along = (ax * ez - az * ex) / cross  # along the ray, metres
        share = (ax * dz - az * dx) / cross  # along the edge
    met = (np.abs(cross) > 1e-12) & (along >= 0) & (share >= -1e-9) & (share <= 1 + 1e-9)
    return np.where(met, along, np.inf).min(axis=1)


def _is_same(view: View, other: View) -> bool:
    (x, _, z, heading), (to_x, _, to_z, to_heading) = view.pose, other.pose
    turn = abs((heading - to_heading + np.pi) % (2 * np.pi) - np.pi)
    return hypot(x - to_x, z - to_z) < SAME_M and turn < SAME_RAD
