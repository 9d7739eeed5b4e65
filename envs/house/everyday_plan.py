"""`draw_everyday_plan`: floor plans of dwellings as most people have them, from a studio to a villa, on one storey.

A small flat has one or two rooms before a row with bathroom, hallway and kitchen. A larger home has two rows along a
hallway: living room, kitchen and dining room are near the entrance, bedrooms at the other end, wet rooms side by side.
The hallway is as long as its doors need; what is left of it goes to the rooms at its ends. So outlines are rectangles or
L-shaped, and rooms as well. `everyday.yaml` has sizes, chances and their sources. Lengths are in cells of 0.1 m.

Plan directions: x to the right, from the public end to the private one; z downwards. u runs along a row, v away from
the hallway.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from eqa.envs.house.canvas import Canvas
from eqa.envs.house.everyday_openings import add_openings
from eqa.envs.house.plan import Plan, finished
from eqa.envs.house.random_stream import Dice

_DOOR = 12  # of a wall that a door needs, with its corners
_NOOK = 13  # least depth of the part of a room behind another
_RECESS = 14  # least length of a step in the outline
_SHALLOW = 28  # a row up to this depth has no bedrooms
_STRETCH = 0.22  # by which a row may be widened
_WET = ("bathroom", "toilet")
_STIFF = ("entrance", "lobby", *_WET)  # rooms that get nothing of what is left over
_TRIES = 40  # layouts of one list of rooms

Frame = Callable[[int, int, int, int], tuple[int, int, int, int]]  # (u0, u1, v0, v1) on the canvas


@functools.cache
def everyday_rules() -> dict:
    """`everyday.yaml` as it stands."""
    return yaml.safe_load((Path(__file__).parent / "everyday.yaml").read_text())


@dataclass(frozen=True, slots=True)
class _Home:
    """What a plan must have: `kinds` of everyday.yaml with their areas in cells; 0 bedrooms are a studio's."""

    bedrooms: int
    kinds: dict[str, list[int]]
    outdoors: tuple[str, ...]

    def has(self, kind: str) -> bool:
        return kind in self.kinds


@dataclass(slots=True)
class _Slot:
    """A room in a row: its place [u0, u1) and how deep it is."""

    kind: str
    area: int
    width: int = 0
    depth: int = 0
    u0: int = 0
    label: int = -1

    @property
    def u1(self) -> int:
        return self.u0 + self.width

    @property
    def least(self) -> int:
        return _least(self.kind)


def draw_everyday_plan(dice: Dice) -> Plan:
    """Draws until a plan works: areas, widths, daylight and ways as `everyday.yaml` wants them."""
    for _ in range(50):
        home = _home(dice)
        for _ in range(_TRIES):
            plan = _attempt(dice, home)
            if plan is not None:
                return plan
    raise AssertionError("no everyday plan worked out in 50 lists of rooms")


def _home(dice: Dice) -> _Home:
    rules = everyday_rules()
    bedrooms = dice.weighted(rules["bedrooms"])
    comfort = min(1.0, dice.uniform(0.0, 0.45) + 0.11 * bedrooms)
    extra = [kind for kind, chances in rules["chances"].items() if dice.chance(chances[bedrooms])]
    kinds = ["kitchen", "bathroom", "living room" if bedrooms else "studio"]
    kinds += ["main bedroom"] * (bedrooms > 0) + ["bedroom"] * (bedrooms - 1)
    kinds += [kind for kind in extra if kind not in rules["outdoors"]]
    areas: dict[str, list[int]] = {}
    for kind in kinds:
        low, high = rules["types"][kind]["area"]
        share = 0.6 * comfort + 0.4 * dice.uniform()
        areas.setdefault(kind, []).append(round(100 * (low + share * (high - low))))
    return _Home(bedrooms, areas, tuple(kind for kind in extra if kind in rules["outdoors"]))


def _attempt(dice: Dice, home: _Home) -> Plan | None:
    canvas = Canvas()
    compact = home.bedrooms == 0 or home.bedrooms == 1 and dice.chance(0.6)
    slots = _lay_out_compact(dice, canvas, home) if compact else _lay_out_spine(dice, canvas, home)
    if slots is None or not _sizes_fit(canvas, slots):
        return None
    rules = everyday_rules()
    outdoors = {kind: {**rule, "chance": [float(kind in home.outdoors)]} for kind, rule in rules["outdoors"].items()}
    return finished(dice, canvas, outdoors, functools.partial(add_openings, rules))


def _sizes_fit(canvas: Canvas, slots: list[_Slot]) -> bool:
    """True if the home and each of its rooms is neither too small nor too large."""
    rules = everyday_rules()
    counts = np.bincount(canvas.labels[canvas.labels >= 0], minlength=len(canvas.types)).tolist()
    for slot in slots:
        rule = rules["types"][slot.kind]
        if not 88 * rule["area"][0] <= counts[slot.label] <= 100 * rule["most"]:
            return False
    low, high = (100 * limit for limit in rules["area"])
    hall = counts[0]
    return low <= sum(counts) <= high and hall <= 100 * rules["types"]["hallway"]["most"] and hall * 5 <= sum(counts)


def _least(kind: str) -> int:
    return round(everyday_rules()["types"][kind]["min_width"] * 10) if kind != "entrance" else 13


def _type(kind: str) -> str:
    return everyday_rules()["types"][kind].get("type", kind)


def _slot(kind: str, area: int, depth: int) -> _Slot:
    return _Slot(kind, area, max(_least(kind), round(area / depth)), depth)


def _paint(canvas: Canvas, frame: Frame, slot: _Slot, depth: int) -> None:
    slot.depth = depth
    slot.label = canvas.paint(_type(slot.kind), frame(slot.u0, slot.u1, 0, depth))


def _north(u0: int, u1: int, v0: int, v1: int) -> tuple[int, int, int, int]:
    return u0, u1, -v1, -v0


# Small flats: rooms in the south, a row with the hallway in the north. z = 0 is the wall between them.


def _lay_out_compact(dice: Dice, canvas: Canvas, home: _Home) -> list[_Slot] | None:
    """One room, or bedroom and living room, behind bathroom, hallway and kitchen."""
    deep, back = dice.integer(42, 56), dice.integer(19, 26)
    rooms = [
        _slot(kind, home.kinds[kind][0], deep) for kind in ("main bedroom", "living room", "studio") if home.has(kind)
    ]
    total = _in_line(rooms)
    border = rooms[0].width if home.bedrooms else None
    bath, kitchen = (_slot(kind, home.kinds[kind][0], back) for kind in ("bathroom", "kitchen"))
    if border is None:
        hall = dice.integer(13, 20)
        bath_first = dice.chance(0.6)
        bath.u0, hall_u0 = (0, bath.width) if bath_first else (hall, 0)
        end = bath.width + hall
    else:
        bath.width = min(bath.width + 6, border - _DOOR)
        hall_u0 = bath.width
        end = border + dice.integer(_DOOR, _DOOR + 6)
        hall = end - hall_u0
    kitchen.u0 = end
    left = total - end
    if bath.width < bath.least or left < kitchen.least:
        return None
    if left - kitchen.width < _NOOK:
        kitchen.width = left
    canvas.paint("hallway", (hall_u0, hall_u0 + hall, -back, 0))
    for slot in (bath, kitchen):
        _paint(canvas, _north, slot, back)
    for slot in rooms:
        _paint(canvas, lambda u0, u1, v0, v1: (u0, u1, v0, v1), slot, deep)
    canvas.paint("", (kitchen.u1, total, -back, 0), rooms[-1].label)
    return [*rooms, bath, kitchen]


# Larger homes: the hallway lies at z = 0 to `across`, one row of rooms north of it and one south.


def _lay_out_spine(dice: Dice, canvas: Canvas, home: _Home) -> list[_Slot] | None:
    """Two rows along a hallway; the living room begins the southern one."""
    rules = everyday_rules()
    low, high = rules["wide_hall" if home.bedrooms >= 4 else "hall"]
    across = dice.integer(round(low * 10), round(high * 10))
    shallow = home.bedrooms <= 2 and not home.has("dining room") and dice.chance(0.5)
    depths = (dice.integer(20, _SHALLOW - 2) if shallow else dice.integer(31, 42)), dice.integer(36, 47)
    entrance = "lobby" if home.has("lobby") else "gable" if dice.chance(0.25) else "entrance"
    north, south = _deal(dice, home, depths, entrance, shallow=shallow)
    length = _level(north, south)
    if length is None or not 0.9 * sum(depths) < length + across + 20 or length > 2.4 * (sum(depths) + across):
        return None
    for row in (north, south):
        _in_line(row)
    span = _hall_span(dice, north, south, gable=entrance == "gable")
    if span is None:
        return None
    start, end = span
    canvas.paint("hallway", (start, end, 0, across))
    frames = (_north, lambda u0, u1, v0, v1: (u0, u1, across + v0, across + v1))
    for row, frame, depth in zip((north, south), frames, depths, strict=True):
        if not _paint_row(dice, canvas, frame, row, depth):
            return None
    canvas.paint("", (0, start, 0, across), south[0].label)
    last = max((row[-1] for row in (north, south)), key=lambda slot: (slot.kind not in _STIFF, slot.u1, slot.u0))
    canvas.paint("", (end, last.u1, 0, across), last.label)
    slots = [slot for slot in (*north, *south) if slot.kind != "entrance"]
    return slots + _add_garage(dice, canvas, home, depths[0])


def _deal(
    dice: Dice, home: _Home, depths: tuple[int, int], entrance: str, *, shallow: bool
) -> tuple[list[_Slot], list[_Slot]]:
    """The rooms of both rows, from the public end to the private one."""
    north, south = (
        [_slot(kind, home.kinds[kind][0], depth)] for kind, depth in zip(("kitchen", "living room"), depths)
    )
    rows = (north, south)
    if home.has("dining room"):
        place = 1 if dice.chance(0.35) else 0
        dining = _slot("dining room", home.kinds["dining room"][0], depths[place])
        rows[place].insert(0 if place == 0 and dice.chance(0.4) else 1, dining)
    if entrance != "gable":
        place = 0 if shallow or dice.chance(0.75) else 1
        width = (
            dice.integer(13, 18) if entrance == "entrance" else max(18, round(home.kinds["lobby"][0] / depths[place]))
        )
        rows[place].append(_Slot(entrance, width * depths[place], width, depths[place]))
    wet = [_slot(kind, area, depths[0]) for kind in _WET for area in home.kinds.get(kind, [])]
    place = 0 if shallow or dice.chance(0.75) else 1
    for slot in dice.shuffled(wet):
        slot.depth = depths[place]
        slot.width = slot.least + (
            dice.integer(0, 4) if not shallow else max(0, round(slot.area / depths[0]) - slot.least)
        )
        rows[place].append(slot)
    others = [(kind, area) for kind in ("bedroom", "office", "gym") for area in home.kinds.get(kind, [])]
    private = [("main bedroom", home.kinds["main bedroom"][0]), *dice.shuffled(others)]
    for kind, area in private:
        place = 1 if shallow or _length(south) < _length(north) else 0
        rows[place].append(_slot(kind, area, depths[place]))
    return north, south


def _length(row: list[_Slot]) -> int:
    return sum(slot.width for slot in row)


def _in_line(row: list[_Slot]) -> int:
    """Puts the rooms of a row side by side; returns its length."""
    u = 0
    for slot in row:
        slot.u0 = u
        u += slot.width
    return u


def _level(north: list[_Slot], south: list[_Slot]) -> int | None:
    """Makes the rows equally long, or leaves a step in the outline that is worth building; None for a smaller one."""
    short, long = sorted((north, south), key=_length)
    gap = _length(long) - _length(short)
    stretch = min(gap, int(_STRETCH * _length(short)))
    if 0 < gap - stretch < _RECESS:
        return None
    _widen(short, stretch)
    return _length(long)


def _widen(row: list[_Slot], by: int) -> None:
    """Widens a row's rooms, the large ones by more."""
    weights = [slot.width if slot.kind not in _STIFF else slot.width // 3 for slot in row]
    total = sum(weights)
    for slot, weight in zip(row, weights, strict=True):
        share = by * weight // total
        by, total = by - share, total - weight
        slot.width += share


def _hall_span(dice: Dice, north: list[_Slot], south: list[_Slot], *, gable: bool) -> tuple[int, int] | None:
    """From where to where the hallway reaches, so that a door fits between it and each room that needs one."""
    start = south[0].u1
    for slot in (*north, *south[1:]):
        if slot.kind not in ("kitchen", "dining room"):
            start = min(start, slot.u0 if slot.kind in ("entrance", "lobby") else slot.u1 - _DOOR)
    if gable or start < 20:
        start = 0
    last = max((row[-1] for row in (north, south)), key=lambda slot: (slot.kind not in _STIFF, slot.u1, slot.u0))
    if last.kind in _STIFF:
        return start, last.u1
    end = max([last.u0] + [row[-1].u0 + _DOOR for row in (north, south) if row[-1] is not last])
    end = max([end] + [slot.u1 for row in (north, south) for slot in row if slot.kind in ("entrance", "lobby")])
    if end > last.u0 and last.u1 - end < _NOOK or dice.chance(0.1):
        end = last.u1
    return (start, end) if end - start >= 2 * _DOOR else None


def _paint_row(dice: Dice, canvas: Canvas, frame: Frame, row: list[_Slot], depth: int) -> bool:
    """Paints a row. What lies behind wet rooms goes to a neighbour, which becomes L-shaped; False where that fails."""
    wet = [place for place, slot in enumerate(row) if slot.kind in _WET]
    shallow = depth
    if wet and depth > _SHALLOW:
        shallow = max(round(row[place].area / row[place].width) for place in wet)
        shallow = min(max(shallow, 18), depth)
    for slot in row:
        if slot.kind == "entrance":
            recess = dice.integer(6, 16) if dice.chance(0.4) and depth > _SHALLOW else 0
            canvas.paint("", frame(slot.u0, slot.u1, 0, depth - recess), 0)
        elif slot.kind not in _WET:
            _paint(canvas, frame, slot, depth)
    neighbours = [place for place in ((wet[0] - 1, wet[-1] + 1) if wet else ()) if 0 <= place < len(row)]
    neighbours = [place for place in neighbours if row[place].kind not in _STIFF]
    if depth - shallow < _NOOK or not neighbours or sum(row[place].width for place in wet) < 18:
        shallow = depth
    for place in wet:
        _paint(canvas, frame, row[place], shallow)
    if shallow < depth:
        behind = row[dice.pick(neighbours)]
        canvas.paint("", frame(row[wet[0]].u0, row[wet[-1]].u1, shallow, depth), behind.label)
    return True


def _add_garage(dice: Dice, canvas: Canvas, home: _Home, north: int) -> list[_Slot]:
    """A garage at the public end, beside the kitchen; it may stand forward of the house."""
    if not home.has("garage"):
        return []
    slot = _Slot("garage", home.kinds["garage"][0], depth=dice.integer(56, 64))
    slot.width = max(slot.least, round(slot.area / slot.depth))
    before = dice.integer(-20, 20)
    slot.label = canvas.paint("garage", (-slot.width, 0, -north - before, -north - before + slot.depth))
    return [slot]
