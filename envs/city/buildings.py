"""`fill_block`: the buildings and shops of a block, in rows along its four sides round a courtyard."""

from collections.abc import Sequence
from math import hypot

from eqa.envs.city.city import (
    BAY_M,
    CURB_M,
    FLOOR_M,
    GROUND_FLOOR_M,
    Block,
    Box,
    Building,
    Rect,
    Shop,
    along_side,
    bounds_of,
    side_length,
)
from eqa.envs.city.names import SHOP_KINDS, SHOP_NAMES
from eqa.envs.house.random_stream import Dice

LOT_BAYS = (4, 7)  # width of a building
DEPTH_BAYS = (4, 5)
SHOP_BAYS, SHOP_OUT_M = 2, 0.15
TALL_WITHIN_M = 110.0  # of the middle of the city, where towers stand
GAP_CHANCE, SHOP_CHANCE = 0.06, 0.62
SHAPES = {"box": 0.45, "stepped": 0.3, "L": 0.25}
FACADES = {"brick": 1.2, "plaster": 1.2, "stone": 0.8, "office": 1.0, "glass": 0.7, "concrete": 0.7, "balconies": 0.9}
COLORS = {
    "brown": 3.0, "white": 2.5, "gray": 2.5, "red": 2.5, "yellow": 2.0, "orange": 1.5, "green": 1.0, "blue": 1.3,
    "pink": 1.0, "purple": 0.4, "black": 0.4,
}  # fmt: skip
SIGN_COLORS = ("black", "white", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown")


class ShopNames:
    """Names of shops, none twice."""

    def __init__(self, dice: Dice) -> None:
        self._left = dice.shuffled([(name, kind) for name in SHOP_NAMES for kind in SHOP_KINDS])

    def draw(self) -> tuple[str, str]:
        """A whole name, and its kind."""
        name, kind = self._left.pop()
        return f"{name} {kind}", kind.lower()


def fill_block(
    dice: Dice, block: Block, number: int, names: ShopNames, first: int
) -> tuple[list[Building], list[Shop]]:
    """Buildings and shops of block `number`, all ids 0 as yet; `first` is the index of its first building."""
    buildings: list[Building] = []
    shops: list[Shop] = []
    for side, row in _rows(dice, block.rect):
        at = 0.0
        for bays in _lots(dice, round(side_length(row, side) / BAY_M)):
            lot = _part(row, side, at, at + bays * BAY_M)
            at += bays * BAY_M
            if dice.chance(GAP_CHANCE):
                continue
            building = _draw_building(dice, lot, side, number)
            shops += _draw_shops(dice, building, first + len(buildings), names)
            buildings.append(building)
    return buildings, shops


def _rows(dice: Dice, rect: Rect) -> list[tuple[int, Rect]]:
    """Strips along the four sides: north and south have the corners."""
    x0, z0, x1, z1 = rect
    north, south, west, east = (dice.integer(*DEPTH_BAYS) * BAY_M for _ in range(4))
    return [
        (0, (x0, z0, x1, z0 + north)),
        (2, (x0, z1 - south, x1, z1)),
        (1, (x0, z0 + north, x0 + west, z1 - south)),
        (3, (x1 - east, z0 + north, x1, z1 - south)),
    ]


def _lots(dice: Dice, bays: int) -> list[int]:
    """Widths of lots that fill a row, in bays."""
    lots = []
    least, most = LOT_BAYS
    while bays > most:
        width = dice.integer(least, min(most, bays - least))
        lots.append(width)
        bays -= width
    return [*lots, bays]


def _part(row: Rect, side: int, start: float, end: float) -> Rect:
    """A piece of a row between two places along its side."""
    x0, z0, x1, z1 = row
    part = (x0 + start, z0, x0 + end, z1) if side % 2 == 0 else (x0, z0 + start, x1, z0 + end)
    return tuple(round(edge, 3) for edge in part)


def _draw_building(dice: Dice, lot: Rect, side: int, block: int) -> Building:
    x, z = (lot[0] + lot[2]) / 2, (lot[1] + lot[3]) / 2
    is_central = hypot(x, z) < TALL_WITHIN_M
    floors = dice.integer(5, 12) if is_central else dice.integer(2, 6)
    facade, color = dice.weighted(FACADES), dice.weighted(COLORS)
    shape = dice.weighted(SHAPES)
    if floors <= 3 and dice.chance(0.7):
        return Building(
            0, block, "house", (_box(lot, floors),), "plaster" if dice.chance(0.5) else "brick", color, side, 3.2
        )
    boxes = {"box": _plain, "stepped": _stepped, "L": _bent}[shape](dice, lot, side, floors)
    return Building(0, block, shape if len(boxes) > 1 else "box", boxes, facade, color, side)


def _box(rect: Rect, floors: int, *, over: int = 0) -> Box:
    """Floors `over` + 1 to `floors` above a rectangle; the first is higher."""
    heights = [CURB_M + GROUND_FLOOR_M + (count - 1) * FLOOR_M for count in (over, floors)]
    return Box(tuple(round(e, 3) for e in rect), round(heights[0], 3) if over else CURB_M, round(heights[1], 3))


def _plain(dice: Dice, lot: Rect, side: int, floors: int) -> tuple[Box, ...]:
    return (_box(lot, floors),)


def _stepped(dice: Dice, lot: Rect, side: int, floors: int) -> tuple[Box, ...]:
    """A base with a narrower tower on it; higher than other shapes."""
    base = dice.integer(2, max(2, floors // 2))
    inset = dice.pick((1.8, 2.7, 3.6))
    tower = (lot[0] + inset, lot[1] + inset, lot[2] - inset, lot[3] - inset)
    top = max(floors + dice.integer(1, 3), base + 1)
    return _box(lot, base), _box(tower, top, over=base)


def _bent(dice: Dice, lot: Rect, side: int, floors: int) -> tuple[Box, ...]:
    """A bar along the street and a wing behind it, lower or as high."""
    depth, wing = 2 * BAY_M, 2 * BAY_M
    length = side_length(lot, side)
    place = 0.0 if dice.chance(0.5) else length - wing
    x0, z0, x1, z1 = lot
    bar, rear = {
        0: ((x0, z0, x1, z0 + depth), (x0 + place, z0 + depth, x0 + place + wing, z1)),
        1: ((x0, z0, x0 + depth, z1), (x0 + depth, z0 + place, x1, z0 + place + wing)),
        2: ((x0, z1 - depth, x1, z1), (x0 + place, z0, x0 + place + wing, z1 - depth)),
        3: ((x1 - depth, z0, x1, z1), (x0, z0 + place, x1 - depth, z0 + place + wing)),
    }[side]
    return _box(bar, floors), _box(rear, max(1, floors - dice.integer(0, 2)))


def _draw_shops(dice: Dice, building: Building, index: int, names: ShopNames) -> list[Shop]:
    """Shops of two bays along the front, at least one bay left for the entrance."""
    front = building.rect
    bays = round(side_length(front, building.side) / BAY_M)
    most = (bays - 1) // SHOP_BAYS
    count = sum(dice.chance(SHOP_CHANCE) for _ in range(most))
    widths = dice.shuffled([SHOP_BAYS] * count + [1] * (bays - count * SHOP_BAYS))
    shops, at = [], 0.0
    for width in widths:
        if width == SHOP_BAYS:
            name, kind = names.draw()
            ends = [
                along_side(front, building.side, at + place, out)
                for place, out in ((0.2, 0.0), (width * BAY_M - 0.2, SHOP_OUT_M))
            ]
            rect = bounds_of([(*end, *end) for end in ends])
            colors = dice.pick(SIGN_COLORS), dice.pick(SIGN_COLORS)
            shops.append(Shop(0, 0, index, name, kind, rect, building.side, *colors))
        at += width * BAY_M
    return shops


def entrance_bays(building: Building, shops: Sequence[Shop]) -> list[int]:
    """Bays of the front that no shop takes; the middle one of these has the entrance."""
    bays = round(side_length(building.rect, building.side) / BAY_M)
    start = building.rect[0] if building.side % 2 == 0 else building.rect[1]
    taken = set()
    for shop in shops:
        low = shop.rect[0] if building.side % 2 == 0 else shop.rect[1]
        first = int((low - start) / BAY_M)
        taken |= set(range(first, first + SHOP_BAYS))
    return [bay for bay in range(bays) if bay not in taken]
