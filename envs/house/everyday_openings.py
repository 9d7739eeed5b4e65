"""`add_openings`: doors and windows of an everyday plan.

The hallway leads to the rooms along it; living room, dining room and kitchen open into each other. Nobody walks through
a bedroom or a bathroom, except to a bathroom of the bedroom's own. Rooms to live in have windows by their area.
"""

from collections.abc import Mapping
from math import fsum

from eqa.envs.house.geometry import door_leaf, signed_area, wall_point
from eqa.envs.house.house import Opening, Wall
from eqa.envs.house.openings import DOOR_TOP_M, OUTDOORS, longest_shared, wall_length_m, way_out
from eqa.envs.house.random_stream import Dice

_CORNER_M = 0.16  # least distance of an opening from the end of its wall, which is on the next wall's centre line
_CLEAR_M = 0.7  # before and behind an opening, free of the leaves of other doors
_BESIDE_M = 0.4  # of an open leaf that stands along a wall, from the wall's middle
_WALL_M = 1.07  # least length of a wall with a door
_LIVING = ("living room", "dining room", "kitchen")
_LIT = (*_LIVING, "bedroom", "office", "gym")
_THROUGH = ("hallway", "lobby", "living room", "dining room", "kitchen", "office", "gym")  # ways to others, best first

Pair = tuple[int, int]


def add_openings(
    rules: Mapping, dice: Dice, types: list[str], walls: list[Wall], polygons: list[list[tuple[float, float]]]
) -> list[Opening] | None:
    """All openings; None where a room cannot be reached, or one to live in cannot be lit."""
    shared = longest_shared(walls, above_m=_WALL_M)
    areas = [signed_area(polygon) for polygon in polygons]
    pairs = _pairs(dice, types, areas, walls, shared)
    entrance = None if pairs is None else _entrance(dice, types, walls, polygons, rules["doors"])
    if entrance is None:
        return None
    openings: list[Opening] = []
    for pair in pairs:
        made = _passage(dice, types, walls, shared[pair], openings, rules["doors"])
        if made is None:
            return None
        openings.append(made)
    openings.append(entrance)
    for room, kind in enumerate(types):
        if kind == "garage":
            gate = _gate(walls, room)
            if gate is None:
                return None
            openings.append(gate)
    for room, kind in enumerate(types):
        if kind in OUTDOORS:
            continue
        found = _windows(dice, room, kind, areas[room], types, walls, openings, rules)
        if kind in _LIT and not found:
            return None
        openings += found
    return openings


def _pairs(
    dice: Dice, types: list[str], areas: list[float], walls: list[Wall], shared: Mapping[Pair, int]
) -> list[Pair] | None:
    """Rooms that an opening joins."""
    chosen: list[Pair] = []
    hubs = [room for room, kind in enumerate(types) if kind in ("hallway", "lobby")]
    bathrooms = [room for room, kind in enumerate(types) if kind == "bathroom"]
    joined = [pair for pair in shared if all(types[room] in _LIVING for room in pair) and dice.chance(0.8)]
    chosen += joined
    for room, kind in enumerate(types):
        if kind in OUTDOORS:
            ways = [pair for pair in shared if pair[1] == room and types[pair[0]] not in OUTDOORS]
            if not ways:
                return None
            chosen.append(way_out(room, types, walls, shared))
            continue
        beds = [bed for bed, other in enumerate(types) if other == "bedroom" and _pair(bed, room) in shared]
        own = kind == "bathroom" and len(bathrooms) > 1 and beds and areas[room] > 3.5 and dice.chance(0.5)
        if own and not any(_pair(bed, other) in chosen for bed in beds for other in bathrooms):
            chosen.append(_pair(beds[0], room))
            continue
        found = [_pair(hub, room) for hub in hubs if hub != room and _pair(hub, room) in shared]
        open_already = kind in ("kitchen", "dining room") and any(room in pair for pair in joined)
        if found and found[0] not in chosen and not (open_already and dice.chance(0.8)):
            chosen.append(found[0])
    return _complete(types, shared, chosen)


def _pair(a: int, b: int) -> Pair:
    return (min(a, b), max(a, b))


def _complete(types: list[str], shared: Mapping[Pair, int], chosen: list[Pair]) -> list[Pair] | None:
    """Adds ways, through the least private rooms, until every room is reached; None where only a bedroom leads on."""
    while True:
        reached = {0}
        grown = True
        while grown:
            new = {room for pair in chosen if (pair[0] in reached) != (pair[1] in reached) for room in pair} - reached
            reached |= new
            grown = bool(new)
        if len(reached) == len(types):
            return chosen if _private(types, chosen) else None
        ways = []
        for pair in shared:
            if (pair[0] in reached) != (pair[1] in reached):
                here, there = pair if pair[0] in reached else pair[::-1]
                if types[here] in _THROUGH:
                    ways.append((_THROUGH.index(types[here]), pair))
                elif types[here] == "bedroom" and types[there] == "bathroom":
                    ways.append((len(_THROUGH), pair))
        if not ways:
            return None
        chosen.append(min(ways)[1])


def _private(types: list[str], chosen: list[Pair]) -> bool:
    """True if some bathroom is reached without walking through a bedroom."""
    return any(
        types[a] == "bathroom" and types[b] != "bedroom" or types[b] == "bathroom" and types[a] != "bedroom"
        for a, b in chosen
    )


def _passage(
    dice: Dice, types: list[str], walls: list[Wall], place: int, others: list[Opening], widths: Mapping
) -> Opening | None:
    """A door or an opening without one; None where leaves of doors would stand in the way at each place.

    A door swings into the more private room, and its leaf towards the corner.
    """
    wall, length = walls[place], wall_length_m(walls[place])
    kinds = [types[room] for room in wall.rooms]
    room_for = length - 2 * _CORNER_M
    name, leaf = _kind_of_way(dice, kinds)
    low, high = widths[name]
    width = round(min(dice.uniform(low, min(high, max(low, 0.6 * room_for))), room_for), 2)
    slack = length / 2 - _CORNER_M - width / 2
    shift = dice.uniform(-1, 1)
    if name in ("bathroom", "other") and dice.chance(0.8):
        shift = 1.0 if shift > 0 else -1.0
    into_right = _privacy(kinds[1]) > _privacy(kinds[0])
    top = DOOR_TOP_M if leaf or dice.chance(0.5) else 2.25
    for kind in ("door", "doorway") if leaf else ("doorway",):
        made = [
            Opening(kind, place, round(length / 2 + at * slack, 2), width, 0.0, top, at_end, into_right)
            for at in (shift, -shift, 0.0)
            for at_end in (at > 0, at <= 0)
        ]
        made = [
            one for one in made if not any(_in_the_way(walls, *two) for o in others for two in ((one, o), (o, one)))
        ]
        if made:
            return next((one for one in made if _leans_on_a_wall(walls, one)), made[0])
    return None


def _leans_on_a_wall(walls: list[Wall], door: Opening) -> bool:
    """True if a wall runs along the open leaf, so that it stands in nobody's way."""
    room = walls[door.wall].rooms[1 if door.into_right else 0]
    leaf = door_leaf(walls[door.wall], door)
    middle = [(a + b) / 2 for a, b in zip(*leaf, strict=True)]
    axis = 0 if abs(leaf[0][0] - leaf[1][0]) > abs(leaf[0][1] - leaf[1][1]) else 1  # that the leaf runs along
    return any(
        wall.start[1 - axis] == wall.end[1 - axis]
        and abs(wall.start[1 - axis] - middle[1 - axis]) < _BESIDE_M
        and min(wall.start[axis], wall.end[axis]) < middle[axis] < max(wall.start[axis], wall.end[axis])
        for wall in walls
        if room in wall.rooms
    )


def _kind_of_way(dice: Dice, kinds: list[str]) -> tuple[str, bool]:
    """The entry of `doors` in everyday.yaml for an opening between these types, and whether it has a door."""
    if any(kind in OUTDOORS for kind in kinds):
        return "outdoors", False
    if not all(kind in (*_LIVING, "hallway", "lobby") for kind in kinds):
        return "bathroom" if "bathroom" in kinds else "other", True
    between_rooms = all(kind in (*_LIVING, "lobby") for kind in kinds)
    if "lobby" not in kinds and dice.chance(0.2 if between_rooms else 0.6):
        return "other", True
    return "wide" if between_rooms or "lobby" in kinds else "passage", False


def _in_the_way(walls: list[Wall], door: Opening, other: Opening) -> bool:
    """True if the open leaf of `door` stands before or behind another opening, or meets the leaf there."""
    if door.kind != "door":
        return False
    leaf = door_leaf(walls[door.wall], door)
    wall, half = walls[other.wall], other.width_m / 2
    deep = _CLEAR_M + (other.width_m if other.kind == "door" else 0.2)  # to pass between two leaves
    corners = [wall_point(wall, other.offset_m + side * half, -side * deep) for side in (-1, 1)]
    return all(
        min(a[axis] for a in leaf) < max(a[axis] for a in corners) + 0.05
        and min(a[axis] for a in corners) - 0.05 < max(a[axis] for a in leaf)
        for axis in (0, 1)
    )


def _privacy(kind: str) -> int:
    return _THROUGH.index(kind) if kind in _THROUGH else len(_THROUGH)


def _entrance(dice: Dice, types: list[str], walls: list[Wall], polygons: list, widths: Mapping) -> Opening | None:
    """The front door: in the lobby if there is one, else in the hallway's outer wall nearest to the living room."""
    corners = polygons[types.index("living room")]
    x, z = (fsum(corner[axis] for corner in corners) / len(corners) for axis in (0, 1))
    for kind in ("lobby", "hallway"):
        outer = [
            place
            for place, wall in enumerate(walls)
            if -1 in wall.rooms and types[max(wall.rooms)] == kind and wall_length_m(wall) >= 1.2
        ]
        if outer:
            place = min(outer, key=lambda place: abs(walls[place].start[0] - x) + abs(walls[place].start[1] - z))
            length = wall_length_m(walls[place])
            width = round(min(dice.uniform(*widths["entrance"]), length - 2 * _CORNER_M), 2)
            slack = length / 2 - _CORNER_M - width / 2
            return Opening(
                "entrance", place, round(length / 2 + slack * dice.uniform(-1, 1), 2), width, 0.0, DOOR_TOP_M
            )
    return None


def _gate(walls: list[Wall], room: int) -> Opening | None:
    """A garage's gate, in the middle of its longest narrow side that faces outdoors."""
    outer = [place for place, wall in enumerate(walls) if set(wall.rooms) == {room, -1}]
    outer = [place for place in outer if wall_length_m(walls[place]) >= 2.8]
    if not outer:
        return None
    place = min(outer, key=lambda place: (wall_length_m(walls[place]), place))
    length = wall_length_m(walls[place])
    return Opening("entrance", place, round(length / 2, 2), 4.6 if length >= 5.4 else 2.4, 0.0, DOOR_TOP_M)


def _windows(
    dice: Dice,
    room: int,
    kind: str,
    area_m2: float,
    types: list[str],
    walls: list[Wall],
    doors: list[Opening],
    rules: Mapping,
) -> list[Opening]:
    """Windows in the room's outer walls, the longest first, until there is enough glass."""
    rule = rules["types"][kind]
    wanted_m2 = area_m2 * rules["daylight"] if kind in _LIT else 0.1 if dice.chance(0.75) else 0.0
    bottom, top = rule["window"]
    if kind in ("living room", "dining room") and dice.chance(0.4):
        bottom = 0.15
    found: list[Opening] = []
    for place, start, end in sorted(_free(room, types, walls, doors), key=lambda span: (span[1] - span[2], span[0])):
        glass_m2 = fsum(window.width_m * (window.top_m - window.bottom_m) for window in found)
        if glass_m2 >= wanted_m2 and not (kind in _LIT and dice.chance(0.3)):
            continue
        low, high = rule["glass"]
        most = int((end - start + 0.4) / (low + 0.4))
        missing = max(wanted_m2 - glass_m2, 0.5 * low)
        count = min(max(1, most), 1 + int(missing / (high * (top - bottom))))
        part = (end - start) / count
        for number in range(count):
            width = round(min(max(missing / count / (top - bottom), dice.uniform(low, high)), high, part - 0.1), 2)
            centre = start + part * (number + 0.5)
            found.append(Opening("window", place, round(centre, 2), width, bottom, top))
    return found


def _free(room: int, types: list[str], walls: list[Wall], doors: list[Opening]) -> list[tuple[int, float, float]]:
    """Pieces of the room's outer walls in which a window fits: (wall, from, to), clear of doors."""
    spans = []
    for place, wall in enumerate(walls):
        other = sum(wall.rooms) - room
        if room not in wall.rooms or not (other == -1 or types[other] in OUTDOORS):
            continue
        start = 0.2
        taken = [(d.offset_m - d.width_m / 2, d.offset_m + d.width_m / 2) for d in doors if d.wall == place]
        length = wall_length_m(wall)
        for low, high in [*sorted(taken), (length + 0.0, length)]:
            if low - 0.2 - start >= 0.6:
                spans.append((place, start, low - 0.2))
            start = high + 0.2
    return spans
