"""`draw_plan`: rooms, walls and openings of a single-storey house, as people draw them.

Rooms lie along a corridor, straight or bent, or around a lobby; a large room may close an end. Rooms differ in depth,
and a bathroom may be cut out of a bedroom, so that outlines and rooms are not mere rectangles. Patio and balcony are
added outside. Sizes and materials come from `rooms.yaml`. Plans are laid out in whole numbers on a grid of 0.1 m, so
they are exact on every machine.

Plan directions: x to the right, z downwards (seen from above).
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from eqa.envs.house.canvas import EMPTY, Canvas, crop, has_narrow_part, outline_of, touches_at_a_corner, walls_of
from eqa.envs.house.house import Opening, Room, Wall
from eqa.envs.house.openings import OUTDOORS, add_doors, add_windows
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.surfaces import choose_surfaces

HEIGHT_M = 2.7
AREA_M2 = (300.0, 800.0)  # of rooms with a ceiling: EQA v1's houses (Das et al. 2018, Sec. 3)
_NARROWEST = 12  # cells: of rooms, and of gaps between their outer walls; the leaf of a door is shorter
_WHOLE = ("bathroom", "garage", "kitchen", "elevator")  # rooms that stay rectangles

Plan = tuple[list[Room], list[Wall], list[Opening]]
OpeningsOf = Callable[[Dice, list[str], list[Wall], list], list[Opening] | None]
Frame = Callable[[int, int, int, int], tuple[int, int, int, int]]  # (u0, u1, v0, v1) along and away from a corridor


@functools.cache
def room_rules() -> dict:
    """`rooms.yaml` as it stands."""
    return yaml.safe_load((Path(__file__).parent / "rooms.yaml").read_text())


def draw_plan(dice: Dice) -> Plan:
    """Draws until a plan works: all rooms whole and reachable, the total area within AREA_M2."""
    for _ in range(500):
        plan = _attempt(dice)
        if plan is not None:
            return plan
    raise AssertionError("no floor plan worked out in 500 attempts")


@dataclass(slots=True)
class _Slot:
    type: str
    width: int
    depth: int


def _attempt(dice: Dice) -> Plan | None:
    program = _program(dice)
    canvas = Canvas()
    shape = dice.weighted({"straight": 3.0, "bent": 3.0, "lobby": 2.0})
    if shape == "bent":
        _lay_out_bent(dice, canvas, program)
    else:
        _lay_out_straight(dice, canvas, program, around_lobby=shape == "lobby")
    if not AREA_M2[0] <= float((canvas.labels >= 0).sum()) / 100 <= AREA_M2[1]:
        return None
    return finished(dice, canvas, room_rules()["types"], _openings, style="paper")


def finished(
    dice: Dice, canvas: Canvas, outdoors: Mapping[str, dict], openings_of: OpeningsOf, *, style: str
) -> Plan | None:
    """The painted rooms as a plan: with patio and balcony by the rules `outdoors`, turned, with openings and surfaces.

    `openings_of(dice, types, walls, polygons)` may be None, where some room cannot be reached; then the plan is None.
    """
    types = canvas.types
    labels = _add_outdoors(dice, crop(canvas.labels), types, outdoors)
    if dice.chance(0.5):
        labels = labels[::-1]
    if dice.chance(0.5):
        labels = labels[:, ::-1]
    if dice.chance(0.5):
        labels = labels.T
    if has_narrow_part(labels, _NARROWEST) or touches_at_a_corner(labels):
        return None
    polygons = [outline_of(labels, label) for label in range(len(types))]
    if None in polygons:
        return None
    walls = _parapets(dice, walls_of(labels), types)
    openings = openings_of(dice, types, walls, polygons)
    if openings is None:
        return None
    finishes = choose_surfaces(dice, types, room_rules(), style=style)
    rooms = [
        Room(kind, polygon, finish.floor, finish.wall, finish.ceiling)
        for kind, polygon, finish in zip(types, polygons, finishes, strict=True)
    ]
    return rooms, walls, openings


def _openings(dice: Dice, types: list[str], walls: list[Wall], _: list) -> list[Opening] | None:
    doors = add_doors(dice, types, walls)
    return None if doors is None else doors + add_windows(dice, types, walls, doors, room_rules()["types"])


def _program(dice: Dice) -> list[str]:
    """Room types of a house, without the corridor and the places that are open to the sky."""
    rules = room_rules()
    indoors = {kind: rule["chance"] for kind, rule in rules["types"].items() if kind not in OUTDOORS}
    while True:
        types = [kind for kind, chances in indoors.items() for chance in chances if dice.chance(chance)]
        if rules["min_rooms"] <= len(types) <= rules["max_rooms"]:
            return types


def _in_order(dice: Dice, program: list[str]) -> list[str]:
    """The rooms from the public end of the corridor to the private one."""
    public = dice.shuffled([kind for kind in program if kind in ("dining room", "kitchen")])
    middle = dice.shuffled([kind for kind in program if kind in ("lobby", "office", "gym")])
    private = [kind for kind in program if kind in ("bedroom", "bathroom", "garage", "elevator")]
    if dice.chance(0.3):
        private += middle[1:]
        middle = middle[:1]
    return public + middle + dice.shuffled(private)


def _slots(dice: Dice, types: list[str], scale: float) -> list[_Slot]:
    """Widths along the corridor and depths away from it for a row of rooms."""
    row_depth = dice.integer(52, 70)
    slots = []
    for kind in types:
        rule = room_rules()["types"][kind]
        area = dice.uniform(*rule["area"]) * 100 * scale
        least = round(rule["min_width"] * 10)
        depth = row_depth if kind != "garage" else max(row_depth, 60)
        width = max(least, round(area / depth))
        if kind == "elevator":
            depth = round(area / width)
        elif dice.chance(0.6) and kind != "garage":
            depth = min(max(round(area / width), row_depth - 12, least), row_depth + 16)
        slots.append(_Slot(kind, width, depth))
    return slots


def _length(slots: list[_Slot]) -> int:
    return sum(slot.width for slot in slots)


def _stretch(slots: list[_Slot], length: int) -> None:
    """Widens a row of rooms by up to a fifth towards the length that it should have."""
    missing = min(length - _length(slots), _length(slots) // 5)
    for place, slot in enumerate(slots):
        share = missing // (len(slots) - place)
        slot.width += share
        missing -= share


def _paint_row(dice: Dice, canvas: Canvas, frame: Frame, slots: list[_Slot], start: int) -> None:
    """Paints a row. The space behind a bathroom or elevator may go to the neighbour, which becomes L-shaped."""
    labels: list[int] = []
    ends = []
    u = start
    for slot in slots:
        ends.append((u, u + slot.width))
        u += slot.width
    shallow = {place for place, slot in enumerate(slots) if slot.type == "elevator"}
    shallow |= {place for place, slot in enumerate(slots) if slot.type == "bathroom" and dice.chance(0.65)}
    for place, slot in enumerate(slots):
        depth = min(slot.depth, max(28, 1300 // slot.width)) if place in shallow else slot.depth
        labels.append(canvas.paint(slot.type, frame(*ends[place], 0, depth)))
        slot.depth = depth
    for place in sorted(shallow):
        slot = slots[place]
        for near in (place - 1, place + 1):
            if 0 <= near < len(slots) and slots[near].type not in _WHOLE and slots[near].depth >= slot.depth + 20:
                canvas.paint(slots[near].type, frame(*ends[place], slot.depth, slots[near].depth), labels[near])
                break


def _deal(dice: Dice, slots_of: Callable[[list[str]], list[_Slot]], types: list[str]) -> tuple[list, list]:
    """Two rows of about the same length, in the given order."""
    rows: tuple[list[_Slot], list[_Slot]] = ([], [])
    together = dice.chance(0.5)
    for place, slot in enumerate(slots_of(types)):
        shorter = 0 if _length(rows[0]) <= _length(rows[1]) else 1
        rows[0 if place == 1 and together else shorter].append(slot)
    return rows


def _lay_out_straight(dice: Dice, canvas: Canvas, program: list[str], *, around_lobby: bool) -> None:
    """A straight corridor, or a long lobby, with a row of rooms on both sides and perhaps a room at each end."""
    scale = dice.uniform(0.9, 1.6)
    across = dice.integer(36, 48) if around_lobby else dice.integer(15, 24)
    apart = ("living room", "lobby") if around_lobby else ("living room",)
    order = _in_order(dice, [kind for kind in program if kind not in apart])
    last = order.pop() if len(order) > 5 and order[-1] not in ("bathroom", "elevator") and dice.chance(0.8) else None
    living_in_row = dice.chance(0.25)
    if living_in_row:
        order.insert(0, "living room")
    north, south = _deal(dice, lambda types: _slots(dice, types, scale), order)
    length = max(_length(north), _length(south))
    for row in (north, south):
        _stretch(row, length)
    canvas.paint("lobby" if around_lobby else "hallway", (0, length, 0, across))
    _paint_row(dice, canvas, lambda u0, u1, v0, v1: (u0, u1, -v1, -v0), north, 0)
    _paint_row(dice, canvas, lambda u0, u1, v0, v1: (u0, u1, across + v0, across + v1), south, 0)
    if not living_in_row:
        width, before, after = _cap(dice, "living room", across, scale, (north[0].depth, south[0].depth))
        canvas.paint("living room", (-width, 0, -before, across + after))
    if last is not None:
        width, before, after = _cap(dice, last, across, scale, (north[-1].depth, south[-1].depth))
        canvas.paint(last, (length, length + width, -before, across + after))


def _cap(dice: Dice, kind: str, across: int, scale: float, limit: tuple[int, int]) -> tuple[int, int, int]:
    """A room that closes a corridor's end: its length along the corridor, and how far it reaches to either side."""
    rule = room_rules()["types"][kind]
    area = dice.uniform(*rule["area"]) * 100 * scale
    least = round(rule["min_width"] * 10)
    side = area**0.5
    wanted = max(least, round(side * dice.uniform(0.85, 1.25))) - across
    before = min(max(dice.integer(0, max(0, wanted)), 0), limit[0])
    after = min(max(wanted - before, 0), limit[1])
    return max(least, round(area / (before + across + after))), before, after


def _lay_out_bent(dice: Dice, canvas: Canvas, program: list[str]) -> None:
    """A corridor with a right angle: rows outside and inside of both arms, the living room at the first end."""
    scale = dice.uniform(0.9, 1.6)
    across, down = dice.integer(15, 24), dice.integer(15, 24)
    order = _in_order(dice, [kind for kind in program if kind != "living room"])
    half = (len(order) + 1) // 2
    north, south = _deal(dice, lambda types: _slots(dice, types, scale), order[:half])
    outer, inner = _deal(dice, lambda types: _slots(dice, types, scale), order[half:])
    length = max(_length(north), _length(south) + down)
    _stretch(north, length)
    _stretch(south, length - down)
    inner_start = across + (max(slot.depth for slot in south[-1:]) if south else 0)
    arm = max(_length(outer), inner_start + _length(inner))
    _stretch(outer, arm)
    _stretch(inner, arm - inner_start)
    hall = canvas.paint("hallway", (0, length, 0, across))
    canvas.paint("hallway", (length - down, length, across, arm), hall)
    _paint_row(dice, canvas, lambda u0, u1, v0, v1: (u0, u1, -v1, -v0), north, 0)
    south_start = length - down - _length(south)
    _paint_row(dice, canvas, lambda u0, u1, v0, v1: (u0, u1, across + v0, across + v1), south, south_start)
    _paint_row(dice, canvas, lambda u0, u1, v0, v1: (length + v0, length + v1, u0, u1), outer, 0)
    _paint_row(
        dice, canvas, lambda u0, u1, v0, v1: (length - down - v1, length - down - v0, u0, u1), inner, inner_start
    )
    before = north[0].depth if north else 40
    width, before, after = _cap(dice, "living room", across, scale, (before, 40))
    canvas.paint("living room", (-width, 0, -before, across + after))


def _add_outdoors(dice: Dice, labels: np.ndarray, types: list[str], rules: Mapping[str, dict]) -> np.ndarray:
    """Labels with a patio and a balcony before outer walls, if there is room; adds their `types`."""
    for kind in OUTDOORS:
        rule = rules[kind]
        if not dice.chance(*rule["chance"]):
            continue
        depth = round(dice.uniform(*rule["depth"]) * 10)
        width = min(max(round(dice.uniform(*rule["area"]) * 100 / depth), round(rule["min_width"] * 10)), 120)
        labels = np.pad(labels, depth, constant_values=EMPTY)
        for window in _places_outside(dice, labels, types, rule, (width, depth)):
            if (labels[window] == EMPTY).all():
                labels[window] = len(types)
                types.append(kind)
                break
        labels = crop(labels)
    return labels


def _places_outside(
    dice: Dice, labels: np.ndarray, types: list[str], rule: dict, size: tuple[int, int]
) -> Iterator[tuple[slice, slice]]:
    """Rectangles along the outer wall of a room that leads there, most wanted rooms first."""
    width, depth = size
    outer = [wall for wall in walls_of(labels) if -1 in wall.rooms and types[max(wall.rooms)] in rule["onto"]]
    order = {kind: place for place, kind in enumerate(rule["onto"])}
    for wall in sorted(dice.shuffled(outer), key=lambda wall: order[types[max(wall.rooms)]]):
        (x0, z0), (x1, z1) = ((round(x * 10), round(z * 10)) for x, z in (wall.start, wall.end))
        length = x1 - x0 + z1 - z0
        along = min(width, length)
        if along < round(rule["min_width"] * 10):
            continue
        first = dice.integer(0, length - along)
        before = -depth if wall.rooms[0 if x1 > x0 else 1] == -1 else 0
        if x1 > x0:
            yield slice(z0 + before, z0 + before + depth), slice(x0 + first, x0 + first + along)
        else:
            yield slice(z0 + first, z0 + first + along), slice(x0 + before, x0 + before + depth)


def _parapets(dice: Dice, walls: list[Wall], types: list[str]) -> list[Wall]:
    """The walls; those without a ceiling on either side are low."""
    styles = {
        kind: {
            "height_m": round(dice.uniform(*room_rules()["types"][kind]["parapet"]), 2),
            "surface": dice.weighted(room_rules()["parapets"][kind]),
        }
        for kind in OUTDOORS
    }
    low = []
    for wall in walls:
        kinds = [types[room] for room in wall.rooms if room >= 0]
        low.append(replace(wall, **styles[kinds[0]]) if all(kind in OUTDOORS for kind in kinds) else wall)
    return low
