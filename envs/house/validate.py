"""`validate`: refuses an impossible house, and names the faulty element and the reason."""

from collections.abc import Iterator
from math import hypot, isfinite

import numpy as np
from shapely import LinearRing, LineString, Polygon
from shapely.validation import explain_validity

from eqa.envs.annotations import PALETTE
from eqa.envs.house.catalog import BUILDING, CLASSES, load_catalog
from eqa.envs.house.geometry import (
    Point,
    contains,
    door_leaf,
    inner_outline,
    is_open_border,
    room_sides,
    signed_area,
    wall_point,
)
from eqa.envs.house.house import House, HouseObject, check_sizes

_TOLERANCE_M = 0.01
_FLAT_M = 0.06  # rugs may lie under furniture
_SHARED_M2 = 0.01  # area that two rooms may share, as corners are rounded
KINDS = ("door", "doorway", "window", "entrance")


def validate(house: House, *, overlaps: bool = False) -> None:
    """ValueError for the first fault found: numbers, rooms, walls, openings, objects, overlaps, unreachable rooms.

    `overlaps` lets objects run into each other, as people draw them: chairs pushed under a table, a sink in a worktop.
    """
    _check_numbers(house)
    try:
        check_sizes(house)
    except ValueError as error:
        raise ValueError(f"{house.id}: {error}") from None
    _check_rooms(house)
    outlines = _check_walls(house)
    _check_openings(house)
    _check_objects(house, outlines)
    found = next(overlapping(house), None)
    if found and not overlaps:
        raise ValueError(f"{house.id}: {found}")
    _check_leaves(house)
    _check_connected(house)


def _check_numbers(house: House) -> None:
    for field in ("height_m", "rooms", "walls", "openings", "objects"):
        for name, value in _not_finite(getattr(house, field)):
            raise ValueError(f"{house.id}: {field}{name}: expected a finite number, got {value}")


def _not_finite(value: object) -> Iterator[tuple[str, float]]:
    """Places in a value of numbers that are not finite, and these numbers."""
    if isinstance(value, float):
        if not isfinite(value):
            yield "", value
    elif isinstance(value, (list, tuple)):
        for place, entry in enumerate(value):
            if not isinstance(entry, float) or not isfinite(entry):
                for name, faulty in _not_finite(entry):
                    yield f"[{place}]{name}", faulty
    elif hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            for name, faulty in _not_finite(getattr(value, field)):
                yield f".{field}{name}", faulty


def _check_rooms(house: House) -> None:
    """Refuses outlines that cross themselves, run the wrong way round or overlap, and unknown surfaces."""
    if not house.rooms:
        raise ValueError(f"{house.id}: expected rooms, got none")
    areas = []
    for place, room in enumerate(house.rooms):
        name = f"{house.id}: rooms[{place}] ({room.type})"
        area = Polygon(room.polygon) if len(room.polygon) > 2 else Polygon()
        if area.is_empty or not area.is_valid:
            why = explain_validity(area) if len(room.polygon) > 2 else f"{len(room.polygon)} corners"
            raise ValueError(f"{name}: expected a polygon that does not cross or touch itself, got {why}")
        if signed_area(room.polygon) <= 0:
            raise ValueError(f"{name}: expected a polygon counter-clockwise seen from above; turn its corners' order")
        for other, before in enumerate(areas):
            shared = area.intersection(before).area
            if shared > _SHARED_M2:
                raise ValueError(f"{name}: overlaps rooms[{other}] ({house.rooms[other].type}) by {shared:.2f} m2")
        areas.append(area)
        for surface in ("floor", "wall", "ceiling"):
            _check_surface(getattr(room, surface), f"{name}: {surface}")


def _check_surface(surface: str | None, name: str) -> None:
    try:
        if surface is not None:
            load_catalog().surface_material(surface)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check_walls(house: House) -> list[list[Point]]:
    """The visible outline of each room."""
    count = len(house.rooms)
    rings = [LinearRing(room.polygon) for room in house.rooms]
    for place, wall in enumerate(house.walls):
        name = f"{house.id}: walls[{place}]"
        if hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1]) < 5e-4 or wall.thickness_m <= 0:
            raise ValueError(f"{name}: expected a length and a thickness above 0")
        if not all(-1 <= room < count for room in wall.rooms) or wall.rooms == (-1, -1):
            raise ValueError(f"{name}: expected rooms of {count} or one of them -1, got {wall.rooms}")
        if wall.height_m is not None and not 0 < wall.height_m <= house.height_m:
            raise ValueError(f"{name}: expected a height up to the house's {house.height_m} m, got {wall.height_m}")
        _check_surface(wall.surface, f"{name}: surface")
        line = LineString([wall.start, wall.end])
        if wall.rooms[0] == wall.rooms[1]:
            if not Polygon(house.rooms[wall.rooms[0]].polygon).buffer(_TOLERANCE_M).covers(line):
                raise ValueError(f"{name}: expected it within rooms[{wall.rooms[0]}], where it stands free")
            continue
        for room in wall.rooms:
            if room >= 0 and not rings[room].buffer(_TOLERANCE_M).covers(line):
                raise ValueError(f"{name}: expected it on the outline of rooms[{room}] ({house.rooms[room].type})")
    outlines = []
    for room in range(count):
        try:
            outlines.append(inner_outline(room_sides(house, room)))
        except ValueError as error:
            raise ValueError(f"{house.id}: {error}") from None
    return outlines


def _check_openings(house: House) -> None:
    for place, opening in enumerate(house.openings):
        name = f"{house.id}: openings[{place}] ({opening.kind})"
        if opening.kind not in KINDS:
            raise ValueError(f"{name}: kind: expected one of {', '.join(KINDS)}, got {opening.kind!r}")
        if not 0 <= opening.wall < len(house.walls):
            raise ValueError(f"{name}: expected a wall of {len(house.walls)}, got {opening.wall}: it is in no wall")
        wall = house.walls[opening.wall]
        length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        if opening.width_m <= 0:
            raise ValueError(f"{name}: expected a width above 0, got {opening.width_m}")
        if opening.offset_m - opening.width_m / 2 < -1e-6 or opening.offset_m + opening.width_m / 2 > length + 1e-6:
            raise ValueError(f"{name}: expected it within its wall of {length:.2f} m, got centre {opening.offset_m}")
        if wall.height_m is not None:
            raise ValueError(f"{name}: expected it in a wall as high as the house, got one of {wall.height_m} m")
        if not 0 <= opening.bottom_m < opening.top_m <= house.height_m:
            raise ValueError(f"{name}: expected 0 <= bottom < top <= {house.height_m}")
        if opening.kind in ("door", "entrance") and opening.bottom_m > 0:
            raise ValueError(f"{name}: expected it to reach down to the floor, got a bottom of {opening.bottom_m} m")
        outdoors = [room < 0 or house.rooms[room].ceiling is None for room in wall.rooms]
        if opening.kind == "entrance" and -1 not in wall.rooms or opening.kind == "window" and not any(outdoors):
            raise ValueError(f"{name}: expected it in a wall to the outside, got one between rooms {wall.rooms}")
        if opening.kind in ("door", "doorway") and -1 in wall.rooms:
            raise ValueError(f"{name}: expected it between two rooms, got a wall to the outside")
        for other_place, other in enumerate(house.openings[:place]):
            apart = abs(other.offset_m - opening.offset_m) - (other.width_m + opening.width_m) / 2
            if other.wall == opening.wall and apart < -1e-6:
                raise ValueError(f"{name}: overlaps openings[{other_place}]")


def _check_objects(house: House, outlines: list[list[Point]]) -> None:
    models = load_catalog().models
    places = [[outline, *_beyond(house, room, outlines)] for room, outline in enumerate(outlines)]
    for place, thing in enumerate(house.objects):
        name = f"{house.id}: objects[{place}] ({thing.category})"
        if thing.id != place + 1:
            raise ValueError(f"{name}: expected id {place + 1}, got {thing.id}; ids are 1, 2, 3, ... in this order")
        if thing.category not in CLASSES[len(BUILDING) :]:
            raise ValueError(f"{name}: category: expected one of catalog.CLASSES, got {thing.category!r}")
        if thing.model not in models:
            raise ValueError(f"{name}: model {thing.model!r} is not in the catalogue; assets/ATTRIBUTION.md lists all")
        if thing.color is not None and thing.color not in PALETTE or thing.recolored and thing.color is None:
            raise ValueError(f"{name}: color: expected one of {', '.join(PALETTE)}, got {thing.color!r}")
        if not 0 <= thing.room < len(house.rooms):
            raise ValueError(f"{name}: expected a room of {len(house.rooms)}, got {thing.room}")
        if min(thing.size_m) <= 0 or thing.position[1] < -1e-6:
            raise ValueError(f"{name}: expected sizes above 0 and a place on or above the floor")
        if thing.position[1] + thing.size_m[1] > house.height_m + _TOLERANCE_M:
            raise ValueError(f"{name}: reaches through the ceiling")
        x, z = thing.position[0], thing.position[2]
        corners = [(x + (a - x) * 0.98, z + (b - z) * 0.98) for a, b in thing.footprint()]
        if not all(any(contains(area, corner) for area in places[thing.room]) for corner in [(x, z), *corners]):
            raise ValueError(f"{name}: expected it inside rooms[{thing.room}] ({house.rooms[thing.room].type})")
        if thing.on is not None and (not 1 <= thing.on <= len(house.objects) or thing.on == thing.id):
            raise ValueError(f"{name}: stands on object {thing.on}, which there is not")


def _beyond(house: House, room: int, outlines: list[list[Point]]) -> list[list[Point]]:
    """Areas that a thing of the room may also reach into: across an open border, and the recess of its windows."""
    areas = []
    for opening in house.openings:
        wall = house.walls[opening.wall]
        if room not in wall.rooms:
            continue
        if opening.kind == "window" or is_open_border(house, opening):
            start, end = (opening.offset_m + side * opening.width_m / 2 for side in (-1, 1))
            half = wall.thickness_m / 2 + _TOLERANCE_M
            corners = ((start, -half), (end, -half), (end, half), (start, half))
            areas.append([wall_point(wall, along, out) for along, out in corners])
        if is_open_border(house, opening):
            areas.append(outlines[sum(wall.rooms) - room])
    return areas


def overlapping(house: House) -> Iterator[str]:
    """Each pair of objects that run into each other, in words."""
    footprints = [thing.footprint() for thing in house.objects]
    places = np.array([(thing.position[0], thing.position[2]) for thing in house.objects]).reshape(-1, 2)
    reaches = np.array([hypot(thing.size_m[0], thing.size_m[2]) / 2 for thing in house.objects])
    apart = np.abs(places[:, None] - places).max(axis=2, initial=0)
    for place, other in np.argwhere(np.tril(apart <= reaches[:, None] + reaches, -1)).tolist():
        a, b = house.objects[place], house.objects[other]
        if _may_share_a_place(a, b) or not _overlap_in_height(a, b):
            continue
        if _footprints_overlap(footprints[place], footprints[other]):
            yield f"objects[{place}] ({a.category}): intersects objects[{other}] ({b.category})"


def _check_leaves(house: House) -> None:
    leaves = [door_leaf(house.walls[o.wall], o) for o in house.openings if o.kind == "door"]
    for place, thing in enumerate(house.objects):
        x, z = thing.position[0], thing.position[2]
        reach, footprint = hypot(thing.size_m[0], thing.size_m[2]) / 2, thing.footprint()
        for hinge, tip in leaves:
            if _is_flat(thing) or thing.position[1] > 2.0 or hypot(hinge[0] - x, hinge[1] - z) > reach + 1.5:
                continue
            if _crosses(footprint, hinge, tip):
                raise ValueError(f"{house.id}: objects[{place}] ({thing.category}): stands in an open door's leaf")


def _is_flat(thing: HouseObject) -> bool:
    return thing.position[1] < 0.01 and thing.size_m[1] <= _FLAT_M


def _may_share_a_place(a: HouseObject, b: HouseObject) -> bool:
    """True for a rug and a thing on it, and for a thing and its support (whose box may reach higher than its top)."""
    return _is_flat(a) != _is_flat(b) or a.id == b.on or b.id == a.on


def _overlap_in_height(a: HouseObject, b: HouseObject) -> bool:
    low = max(a.position[1], b.position[1])
    return low + _TOLERANCE_M < min(a.position[1] + a.size_m[1], b.position[1] + b.size_m[1])


def _footprints_overlap(a: list[Point], b: list[Point]) -> bool:
    """Test by separating axes: turned rectangles meet unless one lies wholly beyond some side of the other."""
    for polygon in (a, b):
        for i in range(4):
            nx, nz = polygon[i][1] - polygon[i - 1][1], polygon[i - 1][0] - polygon[i][0]
            length = hypot(nx, nz)
            spans = [[(x * nx + z * nz) / length for x, z in corners] for corners in (a, b)]
            gap = max(min(spans[0]), min(spans[1])) - min(max(spans[0]), max(spans[1]))
            if gap > -_TOLERANCE_M:
                return False
    return True


def _crosses(corners: list[Point], start: Point, end: Point) -> bool:
    points = [(start[0] + (end[0] - start[0]) * i / 20, start[1] + (end[1] - start[1]) * i / 20) for i in range(21)]
    ring = corners if signed_area(corners) > 0 else corners[::-1]
    return any(contains(ring, point) for point in points)


def _check_connected(house: House) -> None:
    pairs = [house.walls[o.wall].rooms for o in house.openings if o.kind in ("door", "doorway") and o.bottom_m < 0.2]
    reached = {0}
    for _ in house.rooms:
        reached |= {room for pair in pairs if reached & set(pair) for room in pair}
    missing = [room for room in range(len(house.rooms)) if room not in reached]
    if missing:
        raise ValueError(f"{house.id}: rooms[{missing[0]}] ({house.rooms[missing[0]].type}): no way leads to it")
