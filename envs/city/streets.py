"""`draw_streets`: the plan of a city, a grid of streets and avenues with blocks and parks between them.

Blocks differ in size. Their sides are whole numbers of windows, so that facades fill them.
"""

from itertools import accumulate

from eqa.envs.city.city import BAY_M, Block, Rect, Street
from eqa.envs.city.names import PARKS, STREETS
from eqa.envs.house.random_stream import Dice

COLUMNS, ROWS = 5, 5  # of blocks
BAYS = (15, 19)  # least and most of a block's side
ROAD_M = {"street": 11.4, "avenue": 17.4}  # two lanes of 3.5 m or four of 3.25 m, and two of 2.2 m to park on
SIDEWALK_M = 4.0
NUM_PARKS = (2, 4)


def draw_streets(dice: Dice) -> tuple[tuple[Street, ...], tuple[Block, ...], Rect]:
    """Streets (those along X first), blocks row by row, and the rectangle that they fill, centred on (0, 0)."""
    names = dice.shuffled(STREETS)
    places = [_places(dice, count) for count in (ROWS, COLUMNS)]  # along z, then along x
    (z_streets, z_blocks, deep), (x_streets, x_blocks, wide) = places
    streets = []
    for axis, (lines, length) in enumerate(((z_streets, wide), (x_streets, deep))):
        for low, high, kind in lines:
            rect = (-length / 2, low, length / 2, high) if axis == 0 else (low, -length / 2, high, length / 2)
            name = f"{names.pop()} {kind.capitalize()}"
            streets.append(Street(name, kind, axis, _rounded(rect), ROAD_M[kind]))
    rects = [_rounded((x0, z0, x1, z1)) for z0, z1 in z_blocks for x0, x1 in x_blocks]
    parks = _draw_parks(dice)
    park_names = dice.shuffled(PARKS)
    blocks = [
        Block("park", rect, f"{park_names.pop()} Park") if k in parks else Block("block", rect)
        for k, rect in enumerate(rects)
    ]
    return tuple(streets), tuple(blocks), _rounded((-wide / 2, -deep / 2, wide / 2, deep / 2))


def _places(dice: Dice, count: int):
    """Along one axis: (low, high, kind) of `count` + 1 streets, (low, high) of the blocks between, and the length."""
    avenue = dice.integer(1, count - 1)
    kinds = ["avenue" if k == avenue else "street" for k in range(count + 1)]
    widths = [dice.integer(*BAYS) * BAY_M for _ in range(count)]
    spans = []
    for kind, width in zip(kinds, [*widths, 0.0], strict=True):
        spans += [ROAD_M[kind] + 2 * SIDEWALK_M, width]
    length = sum(spans)
    edges = [edge - length / 2 for edge in accumulate(spans, initial=0.0)]
    streets = [(edges[2 * k], edges[2 * k + 1], kind) for k, kind in enumerate(kinds)]
    return streets, [(edges[2 * k + 1], edges[2 * k + 2]) for k in range(count)], length


def _draw_parks(dice: Dice) -> list[int]:
    """Indices of blocks that are parks, no two side by side."""
    parks: list[int] = []
    wanted = dice.integer(*NUM_PARKS)
    for k in dice.shuffled(range(ROWS * COLUMNS)):
        row, column = divmod(k, COLUMNS)
        if len(parks) < wanted and all(abs(row - p // COLUMNS) + abs(column - p % COLUMNS) > 1 for p in parks):
            parks.append(k)
    return parks


def _rounded(rect: Rect) -> Rect:
    return tuple(round(edge, 3) for edge in rect)
