"""`add_doors` and `add_windows`: the openings in the walls of a floor plan.

The corridor or lobby leads to every room that touches it. Living room, dining room and kitchen also open into each
other.
"""

from eqa.envs.house.house import Opening, Wall
from eqa.envs.house.random_stream import Dice

DOOR_TOP_M = 2.1
OUTDOORS = ("patio", "balcony")  # room types that are open to the sky
_CORNER_M = 0.25  # least distance of an opening from the end of its wall
_PUBLIC = ("living room", "dining room", "kitchen", "lobby", "hallway")
_PASSAGE_ORDER = ("hallway", "lobby", "living room", "dining room", "kitchen", "office", "gym", "bedroom", "garage")


def wall_length_m(wall: Wall) -> float:
    """Length of a wall that runs along x or z, exact to the centimetre."""
    return round(abs(wall.end[0] - wall.start[0]) + abs(wall.end[1] - wall.start[1]), 2)


def add_doors(dice: Dice, types: list[str], walls: list[Wall]) -> list[Opening] | None:
    """Doors, doorways, the entrance and a garage's gate; None where some room cannot be reached."""
    shared = longest_shared(walls)
    chosen = _pairs_to_connect(dice, types, walls, shared)
    if chosen is None:
        return None
    openings: list[Opening] = []
    for a, b in chosen:
        openings.append(_passage(dice, types, walls, shared[a, b], openings))
    entrance = _entrance(dice, types, walls)
    if entrance is None:
        return None
    openings.append(entrance)
    for room, kind in enumerate(types):
        if kind == "garage":
            gates = [i for i, wall in enumerate(walls) if set(wall.rooms) == {room, -1} and wall_length_m(wall) >= 3.2]
            if not gates:
                return None
            gate = gates[0] if len(gates) == 1 else dice.pick(gates)
            openings.append(_in_middle(gate, walls, 4.6 if wall_length_m(walls[gate]) >= 5.6 else 2.4))
    return openings


def longest_shared(walls: list[Wall], *, above_m: float = 1.49) -> dict[tuple[int, int], int]:
    """The longest wall between each pair of rooms, if it is longer than a door needs."""
    longest: dict[tuple[int, int], int] = {}
    for place, wall in enumerate(walls):
        pair = (min(wall.rooms), max(wall.rooms))
        best = wall_length_m(walls[longest[pair]]) if pair in longest else above_m
        if pair[0] >= 0 and wall_length_m(wall) > best:
            longest[pair] = place
    return longest


def _pairs_to_connect(
    dice: Dice, types: list[str], walls: list[Wall], shared: dict[tuple[int, int], int]
) -> list[tuple[int, int]] | None:
    centre = 0  # the corridor or lobby is drawn first
    chosen: list[tuple[int, int]] = []
    bathrooms = [room for room, kind in enumerate(types) if kind == "bathroom"]
    for room in range(1, len(types)):
        if types[room] in OUTDOORS:
            chosen.append(way_out(room, types, walls, shared))
            continue
        beds = [b for b, kind in enumerate(types) if kind == "bedroom" and (min(room, b), max(room, b)) in shared]
        if len(bathrooms) > 1 and room == bathrooms[-1] and beds and dice.chance(0.6):
            chosen.append((min(room, beds[0]), max(room, beds[0])))
        elif (centre, room) in shared:
            chosen.append((centre, room))
    for a, b in shared:
        kinds = {types[a], types[b]}
        open_plan = kinds <= {"living room", "dining room", "kitchen", "lobby"} and centre not in (a, b)
        side_door = kinds in ({"garage", "kitchen"}, {"office", "living room"}, {"bedroom", "office"})
        if (a, b) not in chosen and (open_plan and dice.chance(0.85) or side_door and dice.chance(0.3)):
            chosen.append((a, b))
    return _complete(types, shared, chosen)


def way_out(outdoors: int, types: list[str], walls: list[Wall], shared: dict[tuple[int, int], int]) -> tuple[int, int]:
    """The pair of a patio or balcony and the room that it has the longest wall with."""
    inside = [pair for pair in shared if pair[1] == outdoors and types[pair[0]] not in OUTDOORS]
    return max(inside, key=lambda pair: wall_length_m(walls[shared[pair]]))


def _complete(types: list[str], shared: dict, chosen: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Adds passages, through the least private rooms, until every room is reached."""
    while True:
        reached = {0}
        grown = True
        while grown:
            new = {room for a, b in chosen if (a in reached) != (b in reached) for room in (a, b)} - reached
            reached |= new
            grown = bool(new)
        if len(reached) == len(types):
            return chosen
        bridges = [(a, b) for a, b in shared if (a in reached) != (b in reached)]
        bridges = [(a, b) for a, b in bridges if types[a if a in reached else b] in _PASSAGE_ORDER]
        if not bridges:
            return None
        chosen.append(min(bridges, key=lambda p: _PASSAGE_ORDER.index(types[p[0] if p[0] in reached else p[1]])))


def _passage(dice: Dice, types: list[str], walls: list[Wall], place: int, others: list[Opening]) -> Opening:
    """A door or doorway in the wall; a door swings into the more private room and its leaf lies towards the corner."""
    wall = walls[place]
    kinds = [types[room] for room in wall.rooms]
    room_for = wall_length_m(wall) - 2 * _CORNER_M
    outdoors = any(kind in OUTDOORS for kind in kinds)
    public = all(kind in _PUBLIC for kind in kinds) or outdoors or "elevator" in kinds
    open_plan = public and not any(kind in ("hallway", "elevator") for kind in kinds)
    if open_plan and room_for > 1.6:
        widest = 2.6 if outdoors else 4.6
        width = round(dice.uniform(1.4, min(widest, 0.7 * room_for) if room_for > 2.2 else 1.5), 2)
    elif "elevator" in kinds:
        width = min(1.1, round(room_for, 2))
    elif public:
        width = round(dice.uniform(1.0, min(1.8, room_for)), 2)
    else:
        width = round(dice.uniform(0.9, 1.0), 2)
    slack = wall_length_m(wall) / 2 - _CORNER_M - width / 2
    shift = dice.uniform(-1, 1)
    if "elevator" in kinds:
        shift = 0.0
    elif not public and dice.chance(0.75):
        shift = 1.0 if shift > 0 else -1.0
    offset = round(wall_length_m(wall) / 2 + shift * slack, 2)
    leaf = not public and dice.chance(0.8) or any(kind in ("bathroom", "garage") for kind in kinds)
    into_right = _privacy(kinds[1]) > _privacy(kinds[0])
    top = DOOR_TOP_M if leaf or "elevator" in kinds or dice.chance(0.5) else 2.3
    kind = "door" if leaf and not _crowded(walls, place, offset, others) else "doorway"
    return Opening(kind, place, offset, width, 0.0, top, hinge_at_end=shift > 0, into_right=into_right)


def _privacy(kind: str) -> int:
    return _PASSAGE_ORDER.index(kind) if kind in _PASSAGE_ORDER else len(_PASSAGE_ORDER)


def _point(wall: Wall, offset_m: float) -> tuple[float, float]:
    share = offset_m / wall_length_m(wall)
    return tuple(a + (b - a) * share for a, b in zip(wall.start, wall.end, strict=True))


def _crowded(walls: list[Wall], place: int, offset: float, others: list[Opening]) -> bool:
    """True if the leaf could swing into that of another door."""
    x, z = _point(walls[place], offset)
    near = [_point(walls[other.wall], other.offset_m) for other in others if other.kind == "door"]
    return any(max(abs(x - a), abs(z - b)) < 1.7 for a, b in near)


def _in_middle(place: int, walls: list[Wall], width_m: float) -> Opening:
    return Opening("entrance", place, round(wall_length_m(walls[place]) / 2, 2), width_m, 0.0, DOOR_TOP_M)


def _entrance(dice: Dice, types: list[str], walls: list[Wall]) -> Opening | None:
    """The front door, in the lobby if there is one with an outer wall."""
    for kind in ("lobby", "hallway", "living room"):
        outer = [
            place
            for place, wall in enumerate(walls)
            if -1 in wall.rooms and types[max(wall.rooms)] == kind and wall_length_m(wall) >= 1.3
        ]
        if outer:
            place = dice.pick(outer)
            length = wall_length_m(walls[place])
            slack = length / 2 - 0.15 - 0.5
            offset = round(length / 2 + max(0.0, slack) * dice.uniform(-1, 1), 2)
            return Opening("entrance", place, offset, 0.95, 0.0, DOOR_TOP_M)
    return None


def add_windows(dice: Dice, types: list[str], walls: list[Wall], doors: list[Opening], rules: dict) -> list[Opening]:
    """Windows in outer walls, spread along each wall, clear of entrances."""
    windows: list[Opening] = []
    lit: set[int] = set()  # rooms that have a window
    tall: set[int] = set()  # rooms with windows almost to the floor in one wall; furniture wants the others
    for place in dice.shuffled(range(len(walls))):
        wall, length = walls[place], wall_length_m(walls[place])
        inside = [room for room in wall.rooms if room >= 0 and types[room] not in OUTDOORS]
        if len(inside) != 1 or types[inside[0]] == "elevator" or length < 1.3:
            continue
        room, kind = inside[0], types[inside[0]]
        if room in lit and dice.chance(0.35):
            continue
        if kind in ("bathroom", "garage", "hallway") and length > 1.8 and dice.chance(0.4):
            continue
        lit.add(room)
        bottom, top = rules[kind]["window"]
        if kind in ("living room", "dining room", "lobby") and room not in tall and dice.chance(0.45):
            bottom = 0.15
            tall.add(room)
        widths = {"living room": (1.3, 2.3), "bathroom": (0.6, 0.9), "garage": (0.7, 1.1), "hallway": (0.7, 1.0)}
        low, high = widths.get(kind, (0.9, 1.7))
        count = 1 if kind in ("bathroom", "garage") else max(1, round(length / 3.4))
        for number in range(count):
            width = round(min(dice.uniform(low, high), length / count - 0.5), 2)
            slack = (length / count - width - 0.5) / 2
            centre = round(length * (number + 0.5) / count + dice.uniform(-1, 1) * slack, 2)
            clear = all(
                door.wall != place or abs(door.offset_m - centre) > (door.width_m + width) / 2 + 0.2 for door in doors
            )
            if clear and width >= 0.6:
                windows.append(Opening("window", place, centre, width, bottom, top))
    return sorted(windows, key=lambda window: (window.wall, window.offset_m))
