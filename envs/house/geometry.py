"""Faces of walls: the outline that is visible from inside a room, and the openings along it.

A room's polygon runs on the centre lines of its walls. `room_sides` gives each wall's visible face, counter-clockwise
round the room (seen from above), the room on the left. Plan coordinates are (x, z), metres.
"""

from dataclasses import dataclass, replace
from math import atan2, fsum, hypot

from shapely import Polygon, make_valid, union_all

from eqa.envs.house.house import House, HouseObject, Opening, Wall

Point = tuple[float, float]
FLAT_M = 0.06  # lower things on the floor may be walked and stood on: rugs
_STANDS_M = 0.03  # things whose underside is lower stand on the floor; people's drawings leave small gaps
_MITRE_M = 1.0  # faces that would cross farther than this from a wall's end are joined by a step


@dataclass(frozen=True, slots=True)
class Side:
    """One wall as seen from a room. `start` and `end` are on the visible face, `inward` points into the room."""

    wall: int
    start: Point
    end: Point
    centre_start: Point  # the same ends on the wall's centre line
    centre_end: Point
    inward: Point
    thickness_m: float
    openings: tuple[tuple[int, float, float], ...]  # (index in House.openings, from, to): metres from `start`
    is_free: bool = False  # of a wall that stands free in the room

    @property
    def length_m(self) -> float:
        """Length of the face; not above 0 for a short wall that its neighbours hide."""
        along = self.along
        return (self.end[0] - self.start[0]) * along[0] + (self.end[1] - self.start[1]) * along[1]

    @property
    def along(self) -> Point:
        return (-self.inward[1], self.inward[0])

    def heading_rad(self) -> float:
        """Heading of an object with its back to this wall, which looks into the room (front +Z at 0)."""
        return _heading_of(self.inward)


def _heading_of(direction: Point) -> float:
    return atan2(direction[0], direction[1])


def room_sides(house: House, room: int) -> list[Side]:
    """The room's walls in order, then both faces of those that stand free in it. ValueError where they leave a gap."""
    chain = _chain(house, room)
    count = len(chain)
    faces = [_offset(start, end, house.walls[wall].thickness_m / 2) for wall, start, end in chain]
    joints = [_joint(faces[i - 1], faces[i]) for i in range(count)]
    sides = []
    for i, (wall, start, end) in enumerate(chain):
        first, last = joints[i][1], joints[(i + 1) % count][0]
        sides.append(_side(house, wall, (start, end), (first, last)))
    for place, wall in enumerate(house.walls):
        if wall.rooms == (room, room):
            for ends in ((wall.start, wall.end), (wall.end, wall.start)):
                sides.append(replace(_side(house, place, ends, _offset(*ends, wall.thickness_m / 2)), is_free=True))
    return sides


def inner_outline(sides: list[Side]) -> list[Point]:
    """Corners of the visible outline, counter-clockwise; walls that stand free are left out."""
    corners: list[Point] = []
    for side in sides:
        if side.is_free:
            continue
        for point in (side.start, side.end):
            if not corners or hypot(point[0] - corners[-1][0], point[1] - corners[-1][1]) > 1e-6:
                corners.append(point)
    if hypot(corners[0][0] - corners[-1][0], corners[0][1] - corners[-1][1]) <= 1e-6:
        corners.pop()
    return corners


def signed_area(polygon: list[Point]) -> float:
    """Square metres; positive where the corners run counter-clockwise seen from above."""
    following = polygon[1:] + polygon[:1]
    return fsum(b[0] * a[1] - a[0] * b[1] for a, b in zip(polygon, following, strict=True)) / 2


def contains(polygon: list[Point], point: Point) -> bool:
    """True for a point inside the polygon (crossing rule)."""
    x, z = point
    inside = False
    for (ax, az), (bx, bz) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if (az > z) != (bz > z) and x < ax + (z - az) / (bz - az) * (bx - ax):
            inside = not inside
    return inside


def furnished_share(house: House, room: int) -> float:
    """Share of the room's visible floor that is under things standing on it; rugs and curtains do not count."""
    floor = make_valid(Polygon(inner_outline(room_sides(house, room))))  # drawn homes have faces that cross
    covered = union_all(
        [Polygon(thing.footprint()) for thing in house.objects if thing.room == room and _stands(thing)]
    )
    return covered.intersection(floor).area / floor.area


def _stands(thing: HouseObject) -> bool:
    on_floor = thing.on is None and thing.position[1] < _STANDS_M
    return on_floor and thing.size_m[1] > FLAT_M and thing.category != "curtain"


def wall_point(wall: Wall, offset_m: float, to_left_m: float = 0.0) -> Point:
    """A point `offset_m` along the wall's centre line and `to_left_m` to the left of it."""
    dx, dz = _direction(wall.start, wall.end)
    return (wall.start[0] + dx * offset_m + dz * to_left_m, wall.start[1] + dz * offset_m - dx * to_left_m)


def is_open_border(house: House, opening: Opening) -> bool:
    """True if nothing stands between the rooms on both sides of the opening's wall: no wall, no lintel."""
    wall = house.walls[opening.wall]
    length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
    return opening.kind == "doorway" and opening.width_m > length - 0.01 and opening.top_m > house.height_m - 0.01


def door_leaf(wall: Wall, door: Opening) -> tuple[Point, Point]:
    """An open door's leaf as a line from the hinge into the room, at right angles to the wall."""
    hinge = door.offset_m + (door.width_m / 2 - 0.03) * (1 if door.hinge_at_end else -1)
    side = -1 if door.into_right else 1
    face = wall.thickness_m / 2
    return wall_point(wall, hinge, side * face), wall_point(wall, hinge, side * (face + door.width_m - 0.06))


def _direction(start: Point, end: Point) -> Point:
    length = hypot(end[0] - start[0], end[1] - start[1])
    return ((end[0] - start[0]) / length, (end[1] - start[1]) / length)


def _chain(house: House, room: int) -> list[tuple[int, Point, Point]]:
    """(wall, start, end) with the room on the left, in order round the room."""
    follow: dict[tuple[int, int], tuple[int, Point, Point]] = {}
    for place, wall in enumerate(house.walls):
        for own, ends in ((wall.rooms[0], (wall.start, wall.end)), (wall.rooms[1], (wall.end, wall.start))):
            if own == room and wall.rooms[0] != wall.rooms[1]:
                if _key(ends[0]) in follow:
                    raise ValueError(f"rooms[{room}]: two of its walls begin at {ends[0]}; expected one ring of walls")
                follow[_key(ends[0])] = (place, *ends)
    if not follow:
        raise ValueError(f"rooms[{room}]: expected walls round it, got none")
    first = next(iter(follow.values()))
    chain = [first]
    while _key(chain[-1][2]) != _key(first[1]):
        following = follow.get(_key(chain[-1][2]))
        if following is None or len(chain) > len(follow):
            raise ValueError(f"rooms[{room}]: no wall goes on from {chain[-1][2]}; expected one closed ring of walls")
        chain.append(following)
    if len(chain) != len(follow):
        raise ValueError(f"rooms[{room}]: expected one closed ring of walls, got more than one")
    return chain


def _key(point: Point) -> tuple[int, int]:
    return round(point[0] * 1000), round(point[1] * 1000)


def _offset(start: Point, end: Point, distance: float) -> tuple[Point, Point]:
    """A segment moved to its left."""
    dx, dz = _direction(start, end)
    return (
        (start[0] + dz * distance, start[1] - dx * distance),
        (end[0] + dz * distance, end[1] - dx * distance),
    )


def _joint(before: tuple[Point, Point], after: tuple[Point, Point]) -> tuple[Point, Point]:
    """The end of one face and the start of the next: their crossing, or a step if both run in the same direction."""
    (ax, az), (bx, bz) = before
    (cx, cz), (dx, dz) = after
    ux, uz, vx, vz = bx - ax, bz - az, dx - cx, dz - cz
    cross = ux * vz - uz * vx
    if abs(cross) < 1e-9 * hypot(ux, uz) * hypot(vx, vz) + 1e-12:
        return before[1], after[0]
    t = ((cx - ax) * vz - (cz - az) * vx) / cross
    point = (ax + t * ux, az + t * uz)
    if hypot(point[0] - bx, point[1] - bz) > _MITRE_M:
        return before[1], after[0]
    return point, point


def _side(house: House, place: int, centre: tuple[Point, Point], face: tuple[Point, Point]) -> Side:
    wall = house.walls[place]
    dx, dz = _direction(*centre)
    forward = centre[0] == wall.start
    length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
    shift = (face[0][0] - centre[0][0]) * dx + (face[0][1] - centre[0][1]) * dz
    spans = []
    for index, opening in enumerate(house.openings):
        if opening.wall == place:
            middle = (opening.offset_m if forward else length - opening.offset_m) - shift
            spans.append((index, middle - opening.width_m / 2, middle + opening.width_m / 2))
    spans.sort(key=lambda span: span[1])
    return Side(place, *face, *centre, (dz, -dx), wall.thickness_m, tuple(spans))
