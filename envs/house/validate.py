"""`validate`: refuses a house that cannot be, and names the element that is wrong and why."""

from math import hypot, isfinite

from envs.house.geometry import Point, contains, door_leaf, inner_outline, room_sides, signed_area
from envs.house.house import House, HouseObject

_TOLERANCE_M = 0.01
_FLAT_M = 0.06  # rugs may lie under furniture


def validate(house: House) -> None:
    """ValueError for the first fault found: numbers, walls, openings, objects, overlaps, unreachable rooms."""
    _check_numbers(house)
    outlines = _check_walls(house)
    _check_openings(house)
    _check_objects(house, outlines)
    _check_overlaps(house)
    _check_connected(house)


def _check_numbers(house: House) -> None:
    def walk(name: str, value: object) -> None:
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{house.id}: {name}: expected a finite number, got {value}")
        if isinstance(value, (list, tuple)):
            for place, entry in enumerate(value):
                walk(f"{name}[{place}]", entry)
        elif hasattr(value, "__dataclass_fields__"):
            for field in value.__dataclass_fields__:
                walk(f"{name}.{field}", getattr(value, field))

    for field in ("height_m", "rooms", "walls", "openings", "objects"):
        walk(field, getattr(house, field))


def _check_walls(house: House) -> list[list[Point]]:
    count = len(house.rooms)
    for place, wall in enumerate(house.walls):
        if hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1]) < 1e-3 or wall.thickness_m <= 0:
            raise ValueError(f"{house.id}: walls[{place}]: expected a length and a thickness above 0")
        if not all(-1 <= room < count for room in wall.rooms) or wall.rooms[0] == wall.rooms[1]:
            raise ValueError(f"{house.id}: walls[{place}]: expected two different rooms of {count}, got {wall.rooms}")
    outlines = []
    for room in range(count):
        if signed_area(house.rooms[room].polygon) <= 0:
            raise ValueError(f"{house.id}: rooms[{room}]: expected a polygon counter-clockwise seen from above")
        try:
            outlines.append(inner_outline(room_sides(house, room)))
        except ValueError as error:
            raise ValueError(f"{house.id}: {error}") from None
    return outlines


def _check_openings(house: House) -> None:
    for place, opening in enumerate(house.openings):
        name = f"{house.id}: openings[{place}] ({opening.kind})"
        if not 0 <= opening.wall < len(house.walls):
            raise ValueError(f"{name}: expected a wall of {len(house.walls)}, got {opening.wall}")
        wall = house.walls[opening.wall]
        length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        if opening.offset_m - opening.width_m / 2 < 0 or opening.offset_m + opening.width_m / 2 > length:
            raise ValueError(f"{name}: expected it within its wall of {length:.2f} m, got centre {opening.offset_m}")
        if not 0 <= opening.bottom_m < opening.top_m <= house.height_m:
            raise ValueError(f"{name}: expected 0 <= bottom < top <= {house.height_m}")
        outdoors = [room < 0 or house.rooms[room].ceiling is None for room in wall.rooms]
        if opening.kind == "entrance" and -1 not in wall.rooms or opening.kind == "window" and not any(outdoors):
            raise ValueError(f"{name}: expected it in a wall to the outside, got one between rooms {wall.rooms}")
        if opening.kind in ("door", "doorway") and -1 in wall.rooms:
            raise ValueError(f"{name}: expected it between two rooms, got a wall to the outside")
        for other_place, other in enumerate(house.openings[:place]):
            apart = abs(other.offset_m - opening.offset_m) - (other.width_m + opening.width_m) / 2
            if other.wall == opening.wall and apart < 0:
                raise ValueError(f"{name}: overlaps openings[{other_place}]")


def _check_objects(house: House, outlines: list[list[Point]]) -> None:
    for place, thing in enumerate(house.objects):
        name = f"{house.id}: objects[{place}] ({thing.category})"
        if thing.id != place + 1:
            raise ValueError(f"{name}: expected id {place + 1}, got {thing.id}")
        if not 0 <= thing.room < len(house.rooms):
            raise ValueError(f"{name}: expected a room of {len(house.rooms)}, got {thing.room}")
        if min(thing.size_m) <= 0 or thing.position[1] < -1e-6:
            raise ValueError(f"{name}: expected sizes above 0 and a place on or above the floor")
        if thing.position[1] + thing.size_m[1] > house.height_m + _TOLERANCE_M:
            raise ValueError(f"{name}: reaches through the ceiling")
        x, z = thing.position[0], thing.position[2]
        corners = [(x + (a - x) * 0.98, z + (b - z) * 0.98) for a, b in thing.footprint()]
        if not all(contains(outlines[thing.room], corner) for corner in [(x, z), *corners]):
            raise ValueError(f"{name}: expected it inside rooms[{thing.room}] ({house.rooms[thing.room].type})")
        if thing.on is not None and not 1 <= thing.on <= len(house.objects):
            raise ValueError(f"{name}: stands on object {thing.on}, which there is not")


def _check_overlaps(house: House) -> None:
    leaves = [door_leaf(house.walls[o.wall], o) for o in house.openings if o.kind == "door"]
    footprints = [thing.footprint() for thing in house.objects]
    reaches = [hypot(thing.size_m[0], thing.size_m[2]) / 2 for thing in house.objects]
    for place, thing in enumerate(house.objects):
        name = f"{house.id}: objects[{place}] ({thing.category})"
        x, z = thing.position[0], thing.position[2]
        for other in house.objects[:place]:
            near = reaches[place] + reaches[other.id - 1]
            if (
                abs(other.position[0] - x) > near
                or abs(other.position[2] - z) > near
                or _may_share_a_place(thing, other)
            ):
                continue
            if _overlap_in_height(thing, other) and _footprints_overlap(footprints[place], footprints[other.id - 1]):
                raise ValueError(f"{name}: intersects objects[{other.id - 1}] ({other.category})")
        for hinge, tip in leaves:
            if _is_flat(thing) or thing.position[1] > 2.0 or hypot(hinge[0] - x, hinge[1] - z) > reaches[place] + 1.5:
                continue
            if _crosses(footprints[place], hinge, tip):
                raise ValueError(f"{name}: stands in an open door's leaf")


def _is_flat(thing: HouseObject) -> bool:
    return thing.position[1] < 0.01 and thing.size_m[1] <= _FLAT_M


def _may_share_a_place(a: HouseObject, b: HouseObject) -> bool:
    """A rug and what stands on it, or a thing and its support (whose box may reach higher than its top)."""
    return _is_flat(a) != _is_flat(b) or a.id == b.on or b.id == a.on


def _overlap_in_height(a: HouseObject, b: HouseObject) -> bool:
    low = max(a.position[1], b.position[1])
    return low + _TOLERANCE_M < min(a.position[1] + a.size_m[1], b.position[1] + b.size_m[1])


def _footprints_overlap(a: list[Point], b: list[Point]) -> bool:
    """Separating axes: turned rectangles meet unless some side of one has the other wholly beyond it."""
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
    if not house.rooms:
        raise ValueError(f"{house.id}: expected rooms, got none")
    pairs = [house.walls[o.wall].rooms for o in house.openings if o.kind in ("door", "doorway")]
    reached = {0}
    for _ in house.rooms:
        reached |= {room for pair in pairs if reached & set(pair) for room in pair}
    missing = [room for room in range(len(house.rooms)) if room not in reached]
    if missing:
        raise ValueError(f"{house.id}: rooms[{missing[0]}] ({house.rooms[missing[0]].type}): no way leads to it")
