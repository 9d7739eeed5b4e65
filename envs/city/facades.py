"""`draw_building`, `draw_shop`, `draw_sign`: walls with windows by textures, roofs, shop fronts and boards."""

from collections.abc import Sequence

import numpy as np

from eqa.envs.city.buildings import entrance_bays
from eqa.envs.city.city import (
    BAY_M,
    CURB_M,
    FLOOR_M,
    GROUND_FLOOR_M,
    SIGN_HIGH_M,
    SIGN_LOW_M,
    Box,
    Building,
    Rect,
    Shop,
    side_length,
    sign_rect,
)
from eqa.envs.city.mesh_builder import MeshBuilder, side_ends
from eqa.envs.city.textures import SIGNS_EACH, paint_rgb

PARAPET_M = 0.7
ROOFS = ((168, 170, 174), (206, 194, 176), (150, 158, 168), (190, 168, 154), (160, 172, 152))  # paint on roofs
AWNING_M, AWNING_HIGH_M, AWNING_LOW_M = 1.1, 3.1, 2.6
_WALL, _GROUND, _ENTRANCE, _ROOF, _PLAIN, _TILES, _METAL = range(7)
RGB = tuple[int, int, int]


def draw_building(builder: MeshBuilder, building: Building, shops: Sequence[Shop]) -> list[tuple[RGB, str | None]]:
    """Adds the walls and roofs; returns the slots' colours and textures."""
    for box in building.boxes:
        _draw_walls(builder, building, box, shops)
        if building.shape == "house":
            _draw_gable(builder, box, building.side, building.ridge_m)
        else:
            _draw_flat_roof(builder, building, box)
    color, white = building.color, (255, 255, 255)
    return [
        (white, f"{building.facade} {color}"), (white, f"ground windows {color}"), (white, f"entrance {color}"),
        (ROOFS[building.id % len(ROOFS)], "roof"), (paint_rgb(color), None), (white, "tiles"), ((150, 152, 156), None),
    ]  # fmt: skip


def _draw_walls(builder: MeshBuilder, building: Building, box: Box, shops: Sequence[Shop]) -> None:
    stands = box.low_m <= CURB_M
    low = box.low_m + (GROUND_FLOOR_M if stands else 0.0)
    floors = max(round((box.high_m - low) / FLOOR_M), 0)
    front = building.rect
    for side in range(4):
        length = side_length(box.rect, side)
        bays = max(round(length / BAY_M), 1)
        if floors:
            builder.wall(box.rect, side, low, box.high_m, _WALL, (0, 0, bays / 2, floors / 2))
        if not stands:
            continue
        if side == building.side and _same_edge(box.rect, front, side):
            _draw_front(builder, building, box.rect, shops)
        else:
            builder.wall(box.rect, side, box.low_m, low, _GROUND, (0, 0, bays / 2, 1))


def _same_edge(rect: Rect, front: Rect, side: int) -> bool:
    edge = (1, 0, 3, 2)[side]
    return abs(rect[edge] - front[edge]) < 1e-6 and abs(side_length(rect, side) - side_length(front, side)) < 1e-6


def _draw_front(builder: MeshBuilder, building: Building, rect: Rect, shops: Sequence[Shop]) -> None:
    """The street side at street level: an entrance in one bay, windows in the others."""
    free = entrance_bays(building, shops)
    entrance = free[len(free) // 2] if free else -1
    bays = round(side_length(rect, building.side) / BAY_M)
    start = 0
    for bay in (entrance, bays):
        for first, end, slot in ((start, bay, _GROUND), (bay, bay + 1, _ENTRANCE)):
            if 0 <= first < end <= bays:
                part = _piece(rect, building.side, first * BAY_M, end * BAY_M)
                repeats = (end - first) / 2 if slot == _GROUND else 1
                builder.wall(part, building.side, CURB_M, CURB_M + GROUND_FLOOR_M, slot, (0, 0, repeats, 1))
        start = max(bay + 1, 0)


def _piece(rect: Rect, side: int, start: float, end: float) -> Rect:
    x0, z0, x1, z1 = rect
    return (x0 + start, z0, x0 + end, z1) if side % 2 == 0 else (x0, z0 + start, x1, z0 + end)


def _draw_flat_roof(builder: MeshBuilder, building: Building, box: Box) -> None:
    """A roof behind a parapet, with a staircase or a machine on some."""
    x0, z0, x1, z1 = box.rect
    builder.floor(box.rect, box.high_m, _ROOF, (0, 0, (x1 - x0) / 8, (z1 - z0) / 8))
    for side in range(4):
        builder.wall(box.rect, side, box.high_m, box.high_m + PARAPET_M, _PLAIN, both_sides=True)
    if x1 - x0 > 9 and z1 - z0 > 9 and box.high_m == max(one.high_m for one in building.boxes):
        turn = building.id * 7 % 4
        x, z = x0 + (x1 - x0) * (0.3, 0.7, 0.3, 0.6)[turn], z0 + (z1 - z0) * (0.3, 0.4, 0.65, 0.6)[turn]
        builder.box((x - 1.6, z - 1.3, x + 1.6, z + 1.3), box.high_m, box.high_m + 2.4, _PLAIN, top=_ROOF)
        x, z = x0 + x1 - x, z0 + z1 - z
        builder.box((x - 1.1, z - 0.8, x + 1.1, z + 0.8), box.high_m, box.high_m + 1.1, _METAL)


def _draw_gable(builder: MeshBuilder, box: Box, side: int, ridge_m: float) -> None:
    """A pitched roof whose ridge runs along the street."""
    x0, z0, x1, z1 = box.rect
    low, high = box.high_m, box.high_m + ridge_m
    out = 0.4
    if side % 2 == 0:
        z = (z0 + z1) / 2
        ends = [((x0, z1), (x0, z0), (x0, z)), ((x1, z0), (x1, z1), (x1, z))]
        slopes = [
            [(x0, low, z1 + out), (x1, low, z1 + out), (x1, high, z), (x0, high, z)],
            [(x1, low, z0 - out), (x0, low, z0 - out), (x0, high, z), (x1, high, z)],
        ]
    else:
        x = (x0 + x1) / 2
        ends = [((x0, z0), (x1, z0), (x, z0)), ((x1, z1), (x0, z1), (x, z1))]
        slopes = [
            [(x1 + out, low, z1), (x1 + out, low, z0), (x, high, z0), (x, high, z1)],
            [(x0 - out, low, z0), (x0 - out, low, z1), (x, high, z1), (x, high, z0)],
        ]
    length, rise = side_length(box.rect, side), side_length(box.rect, side + 1) / 2
    for slope in slopes:
        builder.quad(slope, _TILES, (0, 0, length / 4, rise / 4), both_sides=True)
    for a, b, top in ends:
        points = np.array([(a[0], low, a[1]), (b[0], low, b[1]), (top[0], high, top[1])])
        middle = np.array([(x0 + x1) / 2, low, (z0 + z1) / 2])
        normal = np.cross(points[1] - points[0], points[2] - points[0])
        normal *= np.sign(normal @ (points[0] + points[1] - 2 * middle)) / np.linalg.norm(normal)
        builder.mesh(points, np.tile(normal, (3, 1)), np.zeros((3, 2)), np.array([(0, 1, 2)]), _PLAIN)


def draw_shop(builder: MeshBuilder, shop: Shop) -> list[tuple[RGB, str | None]]:
    """Adds a shop front, and an awning for every other shop."""
    builder.wall(shop.rect, shop.side, CURB_M, SIGN_HIGH_M, 0)
    for side in ((shop.side + 1) % 4, (shop.side + 3) % 4):
        builder.wall(shop.rect, side, CURB_M, SIGN_HIGH_M, 1)
    builder.floor(shop.rect, SIGN_HIGH_M, 1)
    if shop.id // 2 % 2:
        _draw_awning(builder, shop)
    return [((255, 255, 255), f"shop front {shop.color}"), (paint_rgb(shop.color), None)]


def _draw_awning(builder: MeshBuilder, shop: Shop) -> None:
    (ax, az), (bx, bz) = side_ends(shop.rect, shop.side)
    dx, dz = ((0, -1), (-1, 0), (0, 1), (1, 0))[shop.side]
    dx, dz = dx * AWNING_M, dz * AWNING_M
    low = AWNING_LOW_M
    builder.quad(
        [(ax + dx, low, az + dz), (bx + dx, low, bz + dz), (bx, AWNING_HIGH_M, bz), (ax, AWNING_HIGH_M, az)],
        1,
        both_sides=True,
    )
    builder.quad(
        [
            (ax + dx, low - 0.22, az + dz),
            (bx + dx, low - 0.22, bz + dz),
            (bx + dx, low, bz + dz),
            (ax + dx, low, az + dz),
        ],
        1,
        both_sides=True,
    )


def draw_sign(builder: MeshBuilder, shop: Shop, place: int) -> None:
    """Adds the board: its name in slot 0, the `place`-th of its texture, its sides in slot 1."""
    rect = sign_rect(shop)
    high = 1 - place / SIGNS_EACH
    builder.wall(rect, shop.side, SIGN_LOW_M, SIGN_HIGH_M, 0, (0, high - 1 / SIGNS_EACH, 1, high))
    for side in ((shop.side + 1) % 4, (shop.side + 3) % 4):
        builder.wall(rect, side, SIGN_LOW_M, SIGN_HIGH_M, 1)
    builder.floor(rect, SIGN_HIGH_M, 1)
    x0, z0, x1, z1 = rect
    builder.quad([(x0, SIGN_LOW_M, z0), (x1, SIGN_LOW_M, z0), (x1, SIGN_LOW_M, z1), (x0, SIGN_LOW_M, z1)], 1)
