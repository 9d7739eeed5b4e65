"""`draw_everyday_plan`: floor plans of dwellings as most people have them, from a studio to a villa, on one storey.

A small flat has one or two rooms before a row with bathroom, hallway and kitchen. A larger home has two rows along a
hallway: living room, kitchen and dining room near the entrance, bedrooms at the other end, wet rooms side by side. The
hallway of a large home may turn, with bedrooms along its second arm. A hallway is as long as its doors need; its rest
goes to the rooms at its ends. So outlines and rooms are rectangles or L-shaped. `everyday.yaml` has sizes, chances and
their sources. Lengths are in cells of 0.1 m.

Plan directions: x to the right, from the public end to the private one; z downwards.
"""

import functools
from dataclasses import dataclass

import numpy as np

from eqa.envs.house.canvas import Canvas
from eqa.envs.house.everyday_openings import add_openings
from eqa.envs.house.everyday_rows import (
    DOOR,
    NOOK,
    SHALLOW,
    WET,
    Slot,
    everyday_rules,
    hall_end,
    last_of,
    least_width,
    length_of,
    make_level,
    paint,
    paint_row,
    put_in_line,
    slot_of,
)
from eqa.envs.house.plan import Plan, finished
from eqa.envs.house.random_stream import Dice

_TRIES = 40  # layouts of one list of rooms
_REACH = 400  # of the canvas; no home is as long
_LONGEST = 1.9  # length of a house with a straight hallway, in its widths

Rows = tuple[list[Slot], list[Slot]]


@dataclass(frozen=True, slots=True)
class _Home:
    """Wishes of a plan: `kinds` of everyday.yaml with their areas in cells; 0 bedrooms are a studio's."""

    bedrooms: int
    kinds: dict[str, list[int]]
    outdoors: tuple[str, ...]

    def has(self, kind: str) -> bool:
        return kind in self.kinds

    def slots(self, kind: str, depth: int) -> list[Slot]:
        return [slot_of(kind, area, depth) for area in self.kinds.get(kind, [])]


def draw_everyday_plan(dice: Dice) -> Plan:
    """Draws until a plan works: areas, widths, daylight and ways as `everyday.yaml` wants them."""
    for _ in range(50):
        home = _home(dice)
        for _ in range(_TRIES):
            plan = _attempt(dice, home)
            if plan is not None:
                return plan
    raise AssertionError("no everyday plan worked out in 50 lists of rooms")


def draw_height_m(dice: Dice) -> float:
    """Height of a home's ceilings."""
    low, high = everyday_rules()["height"]
    return dice.integer(round(low * 20), round(high * 20)) / 20


def _home(dice: Dice) -> _Home:
    rules = everyday_rules()
    bedrooms = dice.weighted(rules["bedrooms"])
    comfort = min(1.0, dice.uniform(0.0, 0.45) + 0.11 * bedrooms)
    extra = [kind for kind, chances in rules["chances"].items() if dice.chance(chances[bedrooms])]
    if bedrooms < 4 and "patio" in extra and "balcony" in extra:
        extra.remove("balcony")
    kinds = ["bathroom", *(("kitchen", "living room") if bedrooms else ("kitchenette", "studio"))]
    kinds += ["main bedroom"] * (bedrooms > 0) + ["bedroom"] * (bedrooms - 1)
    kinds += [kind for kind in extra if kind not in rules["outdoors"]]
    areas: dict[str, list[int]] = {}
    for kind in kinds:
        low, high = rules["types"][kind]["area"]
        share = 0.6 * comfort + 0.4 * dice.uniform()
        areas.setdefault(kind, []).append(round(100 * (low + share * (high - low))))
    return _Home(bedrooms, areas, tuple(kind for kind in extra if kind in rules["outdoors"]))


def _attempt(dice: Dice, home: _Home) -> Plan | None:
    canvas = Canvas(_REACH)
    if home.bedrooms == 0 or home.bedrooms == 1 and dice.chance(0.6):
        slots = _lay_out_compact(dice, canvas, home)
    elif home.bedrooms >= 3 and dice.chance(0.25 * home.bedrooms - 0.4):
        slots = _lay_out_bent(dice, canvas, home)
    else:
        slots = _lay_out_straight(dice, canvas, home)
    if slots is None or not _sizes_fit(canvas, slots):
        return None
    rules = everyday_rules()
    outdoors = {kind: {**rule, "chance": [float(kind in home.outdoors)]} for kind, rule in rules["outdoors"].items()}
    return finished(dice, canvas, outdoors, functools.partial(add_openings, rules), style="everyday")


def _sizes_fit(canvas: Canvas, slots: list[Slot]) -> bool:
    """True if the home and each of its rooms is neither too small nor too large."""
    rules = everyday_rules()
    counts = np.bincount(canvas.labels[canvas.labels >= 0], minlength=len(canvas.types)).tolist()
    for slot in slots:
        rule = rules["types"][slot.kind]
        if not 88 * rule["area"][0] <= counts[slot.label] <= 100 * rule["most"]:
            return False
    low, high = (100 * limit for limit in rules["area"])
    total, hall = sum(counts), counts[0]
    return low <= total <= high and hall <= 100 * rules["types"]["hallway"]["most"] and hall * 5 <= total


def _north(u0: int, u1: int, v0: int, v1: int) -> tuple[int, int, int, int]:
    return u0, u1, -v1, -v0


def _lay_out_compact(dice: Dice, canvas: Canvas, home: _Home) -> list[Slot] | None:
    """One room, or bedroom and living room, behind a row with bathroom, hallway and kitchen."""
    deep, back = dice.integer(42, 56), dice.integer(19, 26)
    rooms = [slot for kind in ("main bedroom", "living room", "studio") for slot in home.slots(kind, deep)]
    total = put_in_line(rooms)
    (bath,), (kitchen,) = home.slots("bathroom", back), home.slots("kitchen" if home.bedrooms else "kitchenette", back)
    if home.bedrooms:  # the hallway has a door to either room
        bath.width = min(bath.width + 6, rooms[0].width - DOOR)
        hall_from, hall_to = bath.width, rooms[0].width + dice.integer(DOOR, DOOR + 6)
        kitchen.u0 = hall_to
    else:
        hall = dice.integer(13, 20)
        hall_from = bath.width if dice.chance(0.6) else 0
        hall_to = hall_from + hall
        bath.u0 = hall if hall_from == 0 else 0
        kitchen.u0 = bath.width + hall
    left = total - kitchen.u0
    if bath.width < least_width("bathroom") or left < least_width(kitchen.kind):
        return None
    if left - kitchen.width < NOOK:
        kitchen.width = left
    canvas.paint("hallway", (hall_from, hall_to, -back, 0))
    for slot in (bath, kitchen):
        paint(canvas, _north, slot, back)
    for slot in rooms:
        paint(canvas, lambda u0, u1, v0, v1: (u0, u1, v0, v1), slot, deep)
    canvas.paint("", (kitchen.u1, total, -back, 0), rooms[-1].label)
    return [*rooms, bath, kitchen]


def _across(dice: Dice, home: _Home) -> int:
    """Width of a hallway."""
    low, high = everyday_rules()["wide_hall" if home.bedrooms >= 4 else "hall"]
    return dice.integer(round(low * 10), round(high * 10))


def _public(dice: Dice, home: _Home, depths: tuple[int, int], way_in: str, *, shallow: bool) -> Rows:
    """Kitchen, living room, dining room and the way in, in the two rows."""
    rows = home.slots("kitchen", depths[0]), home.slots("living room", depths[1])
    if home.has("dining room"):
        place = 1 if dice.chance(0.35) else 0
        rows[place].insert(0 if place == 0 and dice.chance(0.4) else 1, home.slots("dining room", depths[place])[0])
    if way_in != "gable":
        place = 0 if shallow or dice.chance(0.75) else 1
        area = 0 if way_in == "entrance" else home.kinds["lobby"][0]
        width = dice.integer(13, 18) if way_in == "entrance" else max(18, round(area / depths[place]))
        rows[place].append(Slot(way_in, area, width))
    return rows


def _wet(dice: Dice, home: _Home, depth: int) -> list[Slot]:
    """Bathrooms and toilet, side by side; narrow ones in a shallow row, else wide ones with space behind them."""
    slots = dice.shuffled([slot for kind in WET for slot in home.slots(kind, depth)])
    if depth > SHALLOW:
        for slot in slots:
            slot.width = least_width(slot.kind) + (
                dice.integer(0, 7) if slot.kind == "bathroom" else dice.integer(0, 3)
            )
    return slots


def _others(dice: Dice, home: _Home) -> list[tuple[str, int]]:
    """Rooms that may lie anywhere along the hallway, the main bedroom first."""
    others = [(kind, area) for kind in ("bedroom", "office", "gym") for area in home.kinds.get(kind, [])]
    return [("main bedroom", home.kinds["main bedroom"][0]), *dice.shuffled(others)]


def _way_in(dice: Dice, home: _Home) -> str:
    return "lobby" if home.has("lobby") else "gable" if dice.chance(0.25) else "entrance"


def _hall_start(way_in: str, rows: Rows) -> int:
    """Begin of a hallway with a door to each room that needs one; the living room gets what is before it."""
    north, south = rows
    start = south[0].u1
    for slot in (*north, *south[1:]):
        if slot.kind not in ("kitchen", "dining room"):
            start = min(start, slot.u0 if slot.kind in ("entrance", "lobby") else slot.u1 - DOOR)
    return 0 if way_in == "gable" or start < 20 else start


def _lay_out_straight(dice: Dice, canvas: Canvas, home: _Home) -> list[Slot] | None:
    """Two rows along a hallway at z = 0; the living room begins the southern one."""
    across = _across(dice, home)
    shallow = home.bedrooms <= 2 and not home.has("dining room") and dice.chance(0.5)
    depths = (dice.integer(20, SHALLOW - 2) if shallow else dice.integer(31, 42)), dice.integer(36, 47)
    way_in = _way_in(dice, home)
    rows = _public(dice, home, depths, way_in, shallow=shallow)
    place = 0 if shallow or dice.chance(0.75) else 1
    rows[place].extend(_wet(dice, home, depths[place]))
    for kind, area in _others(dice, home):
        place = 1 if shallow or length_of(rows[1]) < length_of(rows[0]) else 0
        rows[place].append(slot_of(kind, area, depths[place]))
    if not make_level(*rows):
        return None
    wide = sum(depths) + across
    if not 0.7 * wide < max(length_of(row) for row in rows) < _LONGEST * wide:
        return None
    start, end = _hall_start(way_in, rows), hall_end(dice, rows)
    if end - start < 2 * DOOR:
        return None
    canvas.paint("hallway", (start, end, 0, across))
    frames = (_north, lambda u0, u1, v0, v1: (u0, u1, across + v0, across + v1))
    for row, frame, depth in zip(rows, frames, depths, strict=True):
        paint_row(dice, canvas, frame, row, depth)
    canvas.paint("", (0, start, 0, across), rows[1][0].label)
    last = last_of(rows)
    canvas.paint("", (end, last.u1, 0, across), last.label)
    return _rooms(rows) + _add_garage(dice, canvas, home, depths[0])


def _lay_out_bent(dice: Dice, canvas: Canvas, home: _Home) -> list[Slot] | None:
    """A hallway that turns south, with the bedrooms along its second arm: an outer row in the east, an inner one."""
    across, down = _across(dice, home), _across(dice, home)
    depths = dice.integer(33, 42), dice.integer(38, 48)
    outer_depth, inner_depth = dice.integer(33, 42), dice.integer(31, 40)
    way_in = _way_in(dice, home)
    rows = _public(dice, home, depths, way_in, shallow=False)
    ahead = across + depths[1]
    inner, outer = [], _wet(dice, home, outer_depth)
    for kind, area in _others(dice, home):
        short = length_of(outer) <= ahead + length_of(inner)
        row, depth = (outer, outer_depth) if short else (inner, inner_depth)
        if kind in ("office", "gym") and length_of(rows[0]) < length_of(rows[1]) + down:
            row, depth = rows[0], depths[0]
        row.append(slot_of(kind, area, depth))
    if not inner or not make_level(rows[1], rows[0], ahead=down) or not make_level(inner, outer, ahead=ahead):
        return None
    for slot in inner:
        slot.u0 += ahead
    corner, arm = length_of(rows[1]), (inner, outer)
    start, end = _hall_start(way_in, rows), hall_end(dice, arm)
    if rows[0][-1].u0 > corner + down - DOOR or rows[0][-1].u1 < corner:
        return None
    east = corner + down
    canvas.paint("hallway", (start, east, 0, across))
    canvas.paint("", (corner, east, across, end), 0)
    paint_row(dice, canvas, _north, rows[0], depths[0])
    paint_row(dice, canvas, lambda u0, u1, v0, v1: (u0, u1, across + v0, across + v1), rows[1], depths[1])
    paint_row(dice, canvas, lambda u0, u1, v0, v1: (east + v0, east + v1, u0, u1), outer, outer_depth)
    paint_row(dice, canvas, lambda u0, u1, v0, v1: (corner - v1, corner - v0, u0, u1), inner, inner_depth)
    canvas.paint("", (0, start, 0, across), rows[1][0].label)
    last = last_of(arm)
    canvas.paint("", (corner, east, end, last.u1), last.label)
    return [*_rooms(rows), *_rooms(arm), *_add_garage(dice, canvas, home, depths[0])]


def _rooms(rows: Rows) -> list[Slot]:
    return [slot for row in rows for slot in row if slot.kind != "entrance"]


def _add_garage(dice: Dice, canvas: Canvas, home: _Home, north: int) -> list[Slot]:
    """A garage at the public end, beside the kitchen; it may stand forward of the house."""
    if not home.has("garage"):
        return []
    depth = dice.integer(56, 64)
    (slot,) = home.slots("garage", depth)
    z = -north - dice.integer(-20, 20)
    slot.label = canvas.paint("garage", (-slot.width, 0, z, z + depth))
    return [slot]
