"""`draw_ground`: roads with crossings, sidewalks, yards, parks, and the fields round a city."""

from collections.abc import Callable
from itertools import pairwise

from eqa.envs.city.city import CURB_M, Block, City, Rect, Street
from eqa.envs.city.mesh_builder import MeshBuilder
from eqa.envs.city.props import PATH_M
from eqa.envs.city.streets import SIDEWALK_M

CROSSING_M = 3.4  # depth of a crossing, from the roadway that it stands beside
LANE_REPEAT_M, STRIPES_REPEAT_M, PAVING_REPEAT_M, GRASS_REPEAT_M = 12.0, 2.0, 2.4, 8.0
CURB_RGB = (150, 148, 144)
SQUARE_M = 13.0  # side of the paved square in the middle of a park
# Rings of fields round the city: how far out they reach, and their colour: far away that of the panorama.
FIELDS = ((45.0, None), (150.0, (150, 166, 120)), (400.0, (160, 171, 136)), (1600.0, (167, 175, 148)))

# Adds an instance of the mesh that was just ended: its materials (colour, texture), class and instance id.
Place = Callable[[list, str, int], None]


def draw_ground(builder: MeshBuilder, place: Place, city: City) -> None:
    for block in city.blocks:
        _draw_block(builder, place, block)
    rows = [s for s in city.streets if s.axis == 0]
    columns = [s for s in city.streets if s.axis == 1]
    for row in rows:
        for column in columns:
            (x0, x1), (z0, z1) = roadway(column), roadway(row)
            builder.floor((x0, z0, x1, z1), 0.0, 0, (0, 0, (x1 - x0) / 6, (z1 - z0) / 6))
            _end(builder, place, [((255, 255, 255), "asphalt")], "road")
    for street, others in [*((s, columns) for s in rows), *((s, rows) for s in columns)]:
        for one, other in pairwise(others):
            _draw_road(builder, place, street, roadway(one)[1], roadway(other)[0])
    _draw_rim(builder, place, city.rect)
    _draw_fields(builder, place, city.rect)


def _end(builder: MeshBuilder, place: Place, slots: list, name: str, instance: int = 0) -> None:
    builder.end()
    place(slots, name, instance)


def roadway(street: Street) -> tuple[float, float]:
    """The coordinates across a street between which its roadway lies."""
    low, high = street.rect[1 - street.axis], street.rect[3 - street.axis]
    return low + SIDEWALK_M, high - SIDEWALK_M


def _strip(builder: MeshBuilder, axis: int, along: tuple[float, float], across: tuple[float, float], uv: tuple) -> None:
    """A level quad whose texture runs along a street: u across it, v along."""
    (start, end), (low, high) = along, across
    if axis == 1:
        corners = [(low, 0.0, end), (high, 0.0, end), (high, 0.0, start), (low, 0.0, start)]
    else:
        corners = [(start, 0.0, low), (start, 0.0, high), (end, 0.0, high), (end, 0.0, low)]
    builder.quad(corners, 0, uv)


def _draw_road(builder: MeshBuilder, place: Place, street: Street, start: float, end: float) -> None:
    """A road between two others, with a crossing at either end."""
    across = roadway(street)
    stripes = (across[1] - across[0]) / STRIPES_REPEAT_M
    for piece in ((start, start + CROSSING_M), (end - CROSSING_M, end)):
        _strip(builder, street.axis, piece, across, (0, 0, stripes, 1))
        _end(builder, place, [((255, 255, 255), "crossing")], "crossing")
    inner = start + CROSSING_M, end - CROSSING_M
    _strip(builder, street.axis, inner, across, (0, 0, 1, (inner[1] - inner[0]) / LANE_REPEAT_M))
    _end(builder, place, [((255, 255, 255), street.kind)], "road")


def _tiled(builder: MeshBuilder, rect: Rect, y: float, slot: int, repeat_m: float) -> None:
    builder.floor(rect, y, slot, (0, 0, (rect[2] - rect[0]) / repeat_m, (rect[3] - rect[1]) / repeat_m))


def _frame(inner: Rect, outer: Rect) -> list[Rect]:
    """The four rectangles between two."""
    x0, z0, x1, z1 = inner
    a0, b0, a1, b1 = outer
    return [(a0, b0, a1, z0), (a0, z1, a1, b1), (a0, z0, x0, z1), (x1, z0, a1, z1)]


def grown(rect: Rect, by: float) -> Rect:
    return rect[0] - by, rect[1] - by, rect[2] + by, rect[3] + by


def _draw_block(builder: MeshBuilder, place: Place, block: Block) -> None:
    outer = grown(block.rect, SIDEWALK_M)
    for part in _frame(block.rect, outer):
        _tiled(builder, part, CURB_M, 0, PAVING_REPEAT_M)
    for side in range(4):
        builder.wall(outer, side, 0.0, CURB_M, 1)
    _end(builder, place, [((255, 255, 255), "paving"), (CURB_RGB, None)], "sidewalk")
    if block.kind != "park":
        _tiled(builder, block.rect, CURB_M, 0, GRASS_REPEAT_M)
        _end(builder, place, [((255, 255, 255), "grass")], "yard")
        return
    x0, z0, x1, z1 = block.rect
    x, z, half, square = (x0 + x1) / 2, (z0 + z1) / 2, PATH_M / 2, SQUARE_M / 2
    paved = (x - square, z - square, x + square, z + square)
    paths = [
        (x - half, z0, x + half, paved[1]), (x - half, paved[3], x + half, z1),
        (x0, z - half, paved[0], z + half), (paved[2], z - half, x1, z + half), paved,
    ]  # fmt: skip
    for path in paths:
        _tiled(builder, path, CURB_M, 1, 4.0)
    for low_x, high_x, near_x, far_x in ((x0, x - half, x0, paved[0]), (x + half, x1, paved[2], x1)):
        for low_z, high_z, near_z, far_z in ((z0, z - half, z0, paved[1]), (z + half, z1, paved[3], z1)):
            _tiled(builder, (low_x, near_z, high_x, far_z), CURB_M, 0, GRASS_REPEAT_M)
            between_z = (far_z, high_z) if low_z == z0 else (low_z, near_z)
            _tiled(builder, (near_x, between_z[0], far_x, between_z[1]), CURB_M, 0, GRASS_REPEAT_M)
    _end(builder, place, [((255, 255, 255), "grass"), ((255, 255, 255), "path")], "park", block.id)


def _draw_rim(builder: MeshBuilder, place: Place, rect: Rect) -> None:
    """The outer sidewalk of the streets at the edge."""
    inner = grown(rect, -SIDEWALK_M)
    for side, part in enumerate(_frame(inner, rect)):
        _tiled(builder, part, CURB_M, 0, PAVING_REPEAT_M)
        builder.wall(inner, (0, 2, 1, 3)[side], 0.0, CURB_M, 1, both_sides=True)
        _end(builder, place, [((255, 255, 255), "paving"), (CURB_RGB, None)], "sidewalk")


def _draw_fields(builder: MeshBuilder, place: Place, rect: Rect) -> None:
    inner = rect
    for reach_m, rgb in FIELDS:
        outer = grown(rect, reach_m)
        for part in _frame(inner, outer):
            _tiled(builder, part, CURB_M, 0, 14.0)
            _end(builder, place, [((255, 255, 255), "fields") if rgb is None else (rgb, None)], "grass")
        inner = outer
