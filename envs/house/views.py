"""`views_of`: places from which people see the rooms of a house: doorways first, then seats, beds and desks.

Each view looks about at the middle of its room, where the most of the room is before it. Plan coordinates are (x, z),
metres.

Axes: C free cells of the floor, H headings, R rays, S lines.
"""

from dataclasses import dataclass
from functools import partial
from math import atan2, hypot, radians

import numpy as np
import shapely
from jaxtyping import Float64
from shapely import Polygon

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Pose
from eqa.envs.house.geometry import Point, contains, door_leaf, wall_point
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.plan_labels import middle_of

SEATS = ("sofa", "bed", "desk", "armchair", "office chair", "chair", "bench", "piano", "toilet")
INSIDE_M = 0.2  # from a room's outline: past the wall that a doorway is in
ASIDE_RAD = radians(40)  # between a view and the way to the room's middle
NEAR_M = 1.0  # at the middle already: any heading will do
HALF_FOV_RAD = radians(36)
FAR_M = 6.0  # what is farther away adds nothing to a view
EYE_M = 1.0  # things that reach higher hide what is behind them
FROM_DOOR_M = {0.0: 1.0, 0.5: 0.9, 1.0: 0.8}  # places behind a doorway, and the weights of their views
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
    cells = _cells(Polygon(house.rooms[room].polygon), floor)
    if not len(cells):
        return []
    look = partial(_view, _screens(house, room), cells, floor, room, middle_of(house.rooms[room].polygon))
    doors = [look(points, place) for points, place in _doorways(house, room)]
    doors.sort(key=lambda found: -found[1])
    seats = sorted(
        (thing for thing in house.objects if thing.room == room and thing.category in SEATS),
        key=lambda thing: (SEATS.index(thing.category), thing.id),
    )
    found = doors[:1]
    found += [look({(seat.position[0], seat.position[2]): 1.0}, f"the {seat.category}") for seat in seats]
    found += doors[1:]
    if not found:  # no doorway and no seat: a room joined to others by nothing but what is not there
        found = [look({middle_of(house.rooms[room].polygon): 1.0}, "its middle")]
    kept: list[View] = []
    for view, _ in found:
        if not any(_is_same(view, other) for other in kept):
            kept.append(view)
    return kept


def _screens(house: House, room: int) -> Float64[np.ndarray, "S 2 2"]:
    """Lines that end a look: the room's outline, its doors' open leaves, the footprints of high things."""
    rings = [list(house.rooms[room].polygon)]
    rings += [
        thing.footprint()
        for thing in house.objects
        if thing.room == room and thing.position[1] < EYE_M < thing.position[1] + thing.size_m[1]
    ]
    lines = [line for ring in rings for line in zip(ring, ring[1:] + ring[:1], strict=True)]
    ways = [way for way in house.openings if way.kind == "door" and room in house.walls[way.wall].rooms]
    lines += [door_leaf(house.walls[way.wall], way) for way in ways]
    return np.array(lines, np.float64)


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


def _doorways(house: House, room: int) -> list[tuple[dict[Point, float], str]]:
    """Places behind each of the room's doorways, with their weights, and what the doorway is called."""
    polygon = house.rooms[room].polygon
    found = []
    for way in house.openings:
        wall = house.walls[way.wall]
        if way.kind != "window" and room in wall.rooms:
            side = 1 if contains(polygon, wall_point(wall, way.offset_m, wall.thickness_m + 0.05)) else -1
            points = {wall_point(wall, way.offset_m, side * far): weight for far, weight in FROM_DOOR_M.items()}
            found.append((points, f"the {way.kind}"))
    return found


def _view(
    screens: Float64[np.ndarray, "S 2 2"],
    cells: Float64[np.ndarray, "C 2"],
    floor: Floor,
    room: int,
    middle: Point,
    points: dict[Point, float],
    place: str,
) -> tuple[View, float]:
    """The best view from a free place nearest to one of the points; the weighted area that it shows, m2."""
    headings = HOUSE_ACTIONS.headings_rad
    best: tuple[View, float] | None = None
    for at, weight in points.items():
        x, z = cells[np.argmin(((cells - at) ** 2).sum(axis=1))].tolist()
        areas = weight * _areas_in_view(screens, (x, z), headings)
        if hypot(x - middle[0], z - middle[1]) > NEAR_M:
            turn = headings - atan2(x - middle[0], z - middle[1])
            turn = np.abs((turn + np.pi) % (2 * np.pi) - np.pi)
            areas = np.where(turn <= ASIDE_RAD, areas * np.cos(turn), -1.0)
        i = int(np.argmax(areas))
        if best is None or areas[i] > best[1]:
            best = View((x, floor.y_m, z, float(headings[i])), room, place), float(areas[i])
    return best


def _areas_in_view(
    screens: Float64[np.ndarray, "S 2 2"], place: Point, headings: Float64[np.ndarray, " H"]
) -> Float64[np.ndarray, " H"]:
    """Square metres of a room within FAR_M and the width of a view from a place in it, by heading."""
    depths = np.minimum(_ray_lengths(screens, place), FAR_M)
    turns = np.arange(NUM_RAYS) * (2 * np.pi / NUM_RAYS)
    apart = np.abs((turns - headings[:, None] + np.pi) % (2 * np.pi) - np.pi)
    return ((apart <= HALF_FOV_RAD) * depths**2).sum(axis=1) * np.pi / NUM_RAYS


def _ray_lengths(lines: Float64[np.ndarray, "S 2 2"], place: Point) -> Float64[np.ndarray, " R"]:
    """Metres from a place to the nearest line, by heading, one ray a degree; inf where a ray meets none."""
    turns = np.arange(NUM_RAYS) * (2 * np.pi / NUM_RAYS)
    dx, dz = -np.sin(turns)[:, None], -np.cos(turns)[:, None]
    (ax, az), (ex, ez) = (lines[:, 0] - place).T, (lines[:, 1] - lines[:, 0]).T
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
