"""Rows of rooms along a hallway, in cells of 0.1 m: put in line, made equally long, and painted.

u runs along a row, v away from the hallway. `everyday.yaml` names the kinds of rooms; "entrance" is the part of a
hallway that lies in a row and leads to the front door.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from eqa.envs.house.canvas import Canvas
from eqa.envs.house.random_stream import Dice

DOOR = 12  # of a wall that a door needs, with its corners
NOOK = 13  # least depth of the part of a room behind another
SHALLOW = 28  # a row up to this depth has no bedrooms
WET = ("bathroom", "toilet")
STIFF = ("entrance", "lobby", *WET)  # rooms that get nothing of what is left over
_RECESS = 14  # least length of a step in the outline
_STRETCH = 0.2  # by which a row may be widened

Frame = Callable[[int, int, int, int], tuple[int, int, int, int]]  # (u0, u1, v0, v1) on the canvas


@functools.cache
def everyday_rules() -> dict:
    """`everyday.yaml` as it stands."""
    return yaml.safe_load((Path(__file__).parent / "everyday.yaml").read_text())


@dataclass(slots=True)
class Slot:
    """A room in a row: the area that it should have, its place [u0, u1), and the label that it is painted with."""

    kind: str
    area: int
    width: int
    u0: int = 0
    label: int = -1

    @property
    def u1(self) -> int:
        return self.u0 + self.width


def least_width(kind: str) -> int:
    """Least width of a kind of room."""
    return round(everyday_rules()["types"][kind]["min_width"] * 10)


def room_type(kind: str) -> str:
    """The type of a kind of room: a studio is a living room."""
    return everyday_rules()["types"][kind].get("type", kind)


def slot_of(kind: str, area: int, depth: int) -> Slot:
    """A room of about that area in a row of that depth."""
    return Slot(kind, area, max(least_width(kind), round(area / depth)))


def length_of(row: list[Slot]) -> int:
    """Length of all rooms of a row."""
    return sum(slot.width for slot in row)


def put_in_line(row: list[Slot]) -> int:
    """Puts the rooms of a row side by side; returns its length."""
    u = 0
    for slot in row:
        slot.u0 = u
        u += slot.width
    return u


def make_level(row: list[Slot], other: list[Slot], *, ahead: int = 0) -> bool:
    """Puts two rows in line and makes them end together; `other` begins `ahead` cells before `row`.

    False where a step in the outline is left that is too short to build.
    """
    gap = length_of(other) - ahead - length_of(row)
    short = row if gap > 0 else other
    stretch = min(abs(gap), int(_STRETCH * length_of(short)))
    _widen(short, stretch)
    put_in_line(row)
    put_in_line(other)
    return abs(gap) == stretch or abs(gap) - stretch >= _RECESS


def _widen(row: list[Slot], by: int) -> None:
    """Widens a row's rooms, the large ones by more."""
    weights = [slot.width if slot.kind not in STIFF else slot.width // 3 for slot in row]
    total = sum(weights)
    for slot, weight in zip(row, weights, strict=True):
        share = by * weight // total
        by, total = by - share, total - weight
        slot.width += share


def paint(canvas: Canvas, frame: Frame, slot: Slot, depth: int) -> None:
    """Paints a room from the hallway to `depth`."""
    slot.label = canvas.paint(room_type(slot.kind), frame(slot.u0, slot.u1, 0, depth))


def paint_row(dice: Dice, canvas: Canvas, frame: Frame, row: list[Slot], depth: int) -> None:
    """Paints a row. The space behind wet rooms may go to a neighbour, which becomes L-shaped; entrances may recede."""
    wet = [place for place, slot in enumerate(row) if slot.kind in WET]
    for slot in row:
        if slot.kind == "entrance":
            recess = dice.integer(6, 16) if dice.chance(0.4) and depth > SHALLOW else 0
            canvas.paint("", frame(slot.u0, slot.u1, 0, depth - recess), 0)
        elif slot.kind not in WET:
            paint(canvas, frame, slot, depth)
    behind = _neighbour(dice, row, wet)
    shallow = max([18, *(round(row[place].area / row[place].width) for place in wet)])
    if behind is None or depth <= SHALLOW or depth - shallow < NOOK:
        shallow = depth
    for place in wet:
        paint(canvas, frame, row[place], shallow)
    if shallow < depth:
        canvas.paint("", frame(row[wet[0]].u0, row[wet[-1]].u1, shallow, depth), behind.label)


def _neighbour(dice: Dice, row: list[Slot], wet: list[int]) -> Slot | None:
    """A room beside the wet ones, if these lie together and are wide enough for the space behind them to be used."""
    if not wet or wet[-1] - wet[0] >= len(wet) or not 18 <= sum(row[place].width for place in wet) <= 45:
        return None
    beside = [row[place] for place in (wet[0] - 1, wet[-1] + 1) if 0 <= place < len(row)]
    beside = [slot for slot in beside if slot.kind not in STIFF]
    return dice.pick(beside) if beside else None


def last_of(rows: tuple[list[Slot], ...]) -> Slot:
    """The room that gets what is left of the hallway's length: the one that ends and begins last, if it can take it."""
    return max((row[-1] for row in rows if row), key=lambda slot: (slot.kind not in STIFF, slot.u1, slot.u0))


def hall_end(dice: Dice, rows: tuple[list[Slot], ...]) -> int:
    """End of a hallway with a door to each room; its rest goes to `last_of` the rows."""
    last = last_of(rows)
    if last.kind in STIFF:
        return last.u1
    end = max([last.u0, *(row[-1].u0 + DOOR for row in rows if row and row[-1] is not last)])
    end = max([end, *(slot.u1 for row in rows for slot in row if slot.kind in ("entrance", "lobby"))])
    return last.u1 if end > last.u0 and last.u1 - end < NOOK or dice.chance(0.1) else end
