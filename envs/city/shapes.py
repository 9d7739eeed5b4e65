"""`SHAPES`: trees, lamps, people, a fountain and plain far vehicles, built from simple solids.

A shape stands on y = 0, centred on x = z = 0, its front looks along +Z, like the models of the pack. Its slots are
(colour, texture): a colour of None is the thing's own.

Axes: V vertices, F faces, K corners of an outline.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
from jaxtyping import Float64, Int64

from eqa.envs.city.mesh_builder import MeshBuilder

Slots = tuple[tuple[tuple[int, int, int] | None, str | None], ...]
BARK, IRON, SKIN, TROUSERS, SHOES, HAIR = (
    (92, 70, 50),
    (66, 68, 72),
    (222, 178, 148),
    (50, 56, 74),
    (38, 34, 32),
    (58, 42, 32),
)
GLASS, TIRES, WATER, STONE, LAMP = (46, 54, 62), (36, 36, 38), (110, 160, 190), (186, 182, 174), (250, 244, 220)
WHITE = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class Shape:
    slots: Slots
    draw: Callable[[MeshBuilder], None]


def _ring(radius: float, y: float, sides: int, *, squash: float = 1.0) -> Float64[np.ndarray, "K 3"]:
    angle = np.arange(sides) * (2 * pi / sides) + pi / sides
    return np.column_stack([radius * np.cos(angle), np.full(sides, y), squash * radius * np.sin(angle)])


def _lathe(
    b: MeshBuilder, rings: Sequence[tuple[float, float]], slot: int, *, sides: int = 6, at: tuple[float, float] = (0.0, 0.0),
    squash: float = 1.0, repeats: float = 1.0, both_sides: bool = False,
) -> None:  # fmt: skip
    """Rings (radius, height) joined by smooth walls, closed at the top; `both_sides` where one can see inside."""
    points = np.concatenate([_ring(r, y, sides, squash=squash) for r, y in rings])
    count = len(rings)
    slopes = np.gradient(
        np.array([r for r, _ in rings]), np.maximum(np.array([y for _, y in rings]), 1e-9) + np.arange(count) * 1e-6
    )
    outward = np.concatenate([_ring(1.0, -float(np.clip(s, -3, 3)), sides) for s in slopes])
    normals = outward / np.linalg.norm(outward, axis=1, keepdims=True)
    u = np.tile(np.arange(sides) / sides * 2, count) * repeats
    v = np.repeat([y for _, y in rings], sides) * 0.5 * repeats
    faces = []
    for k in range(count - 1):
        for i in range(sides):
            j = (i + 1) % sides
            a, c = k * sides + i, k * sides + j
            faces += [(a, c, c + sides), (a, c + sides, a + sides)]
    points = points + np.array([at[0], 0.0, at[1]])
    b.mesh(points, normals, np.column_stack([u, v]), np.array(faces), slot, both_sides=both_sides)
    top = points[-sides:]
    cap = np.array([(0, i + 1, i) for i in range(1, sides - 1)])
    b.mesh(top, np.tile([0.0, 1.0, 0.0], (sides, 1)), np.column_stack([u, v])[-sides:], cap, slot)


_T = (1 + 5**0.5) / 2
_ICOSAHEDRON = np.array(
    [(-1, _T, 0), (1, _T, 0), (-1, -_T, 0), (1, -_T, 0), (0, -1, _T), (0, 1, _T), (0, -1, -_T), (0, 1, -_T),
     (_T, 0, -1), (_T, 0, 1), (-_T, 0, -1), (-_T, 0, 1)], np.float64,
) / np.hypot(1, _T)  # fmt: skip
_ICOSAHEDRON_FACES = np.array(
    [(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6), (7, 1, 8),
     (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7), (9, 8, 1)]
)  # fmt: skip


def _ball(*, finer: bool) -> tuple[Float64[np.ndarray, "V 3"], Int64[np.ndarray, "F 3"]]:
    """A unit sphere of 20 or 80 triangles."""
    points, faces = _ICOSAHEDRON, _ICOSAHEDRON_FACES
    if not finer:
        return points, faces
    points, middle, smaller = list(points), {}, []

    def halfway(i: int, j: int) -> int:
        key = (min(i, j), max(i, j))
        if key not in middle:
            middle[key] = len(points)
            point = points[i] + points[j]
            points.append(point / np.linalg.norm(point))
        return middle[key]

    for a, b, c in faces.tolist():
        ab, bc, ca = halfway(a, b), halfway(b, c), halfway(c, a)
        smaller += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
    return np.array(points), np.array(smaller)


def _blob(
    b: MeshBuilder, middle: tuple[float, float, float], radii: tuple[float, float, float], slot: int, *, finer: bool,
    rough: float = 0.0,
) -> None:  # fmt: skip
    """An ellipsoid, dented a little if it is rough."""
    points, faces = _ball(finer=finer)
    dents = 1 + rough * np.sin(7.1 * points[:, 0] + 3.3 * points[:, 1] + 5.7 * points[:, 2] + 9 * middle[1])[:, None]
    uv = np.column_stack([np.arctan2(points[:, 2], points[:, 0]) / pi * 1.5, points[:, 1] * 1.2]) + middle[0]
    b.mesh(points * dents * np.array(radii) + np.array(middle), points, uv, faces, slot)


def _street_tree(finer: bool) -> Callable[[MeshBuilder], None]:
    def draw(b: MeshBuilder) -> None:
        _lathe(b, [(0.17, 0.0), (0.12, 2.8)], 0, sides=6 if finer else 3)
        _blob(b, (0.0, 4.4, 0.0), (1.65, 2.0, 1.65), 1, finer=finer, rough=0.06)

    return draw


def _broad_tree(finer: bool) -> Callable[[MeshBuilder], None]:
    def draw(b: MeshBuilder) -> None:
        _lathe(b, [(0.3, 0.0), (0.2, 3.2)], 0, sides=6 if finer else 3)
        if finer:
            _blob(b, (0.7, 4.6, 0.3), (1.9, 1.7, 1.9), 1, finer=True, rough=0.08)
            _blob(b, (-0.8, 4.9, -0.4), (1.9, 1.6, 1.8), 1, finer=True, rough=0.08)
            _blob(b, (0.0, 6.0, 0.2), (1.7, 1.5, 1.7), 1, finer=True, rough=0.08)
        else:
            _blob(b, (0.0, 5.2, 0.0), (2.6, 2.2, 2.5), 1, finer=False)

    return draw


def _pine_tree(finer: bool) -> Callable[[MeshBuilder], None]:
    def draw(b: MeshBuilder) -> None:
        sides = 8 if finer else 5
        _lathe(b, [(0.2, 0.0), (0.16, 2.0)], 0, sides=4)
        for low, high, radius in ((1.6, 4.6, 1.9), (3.3, 6.4, 1.5), (5.2, 8.6, 1.1)) if finer else ((1.6, 8.6, 1.7),):
            _lathe(b, [(radius, low), (0.03, high)], 1, sides=sides, both_sides=True)  # seen from below

    return draw


def _lamp(finer: bool) -> Callable[[MeshBuilder], None]:
    def draw(b: MeshBuilder) -> None:
        if finer:
            _lathe(b, [(0.15, 0.0), (0.12, 0.7), (0.07, 0.8), (0.05, 6.0)], 0)
        else:
            b.box((-0.06, -0.06, 0.06, 0.06), 0.0, 6.0, 0)
        b.box((-0.045, -0.05, 0.045, 0.75), 5.92, 6.02, 0, bottom=True)
        b.box((-0.14, 0.4, 0.14, 1.0), 6.02, 6.16, 0, bottom=True)
        b.box((-0.12, 0.45, 0.12, 0.95), 5.96, 6.02, 1, bottom=True)

    return draw


def _person(finer: bool) -> Callable[[MeshBuilder], None]:
    """Slots: shirt, trousers, skin, hair, shoes."""

    def draw(b: MeshBuilder) -> None:
        sides = 8 if finer else 4
        for side in (-1, 1):
            x = 0.095 * side
            _lathe(b, [(0.075, 0.06), (0.07, 0.45), (0.095, 0.86)], 1, sides=6 if finer else 4, at=(x, 0.0))
            b.box((x - 0.055, -0.09, x + 0.055, 0.17), 0.0, 0.09, 4)
            _lathe(b, [(0.04, 0.86), (0.05, 1.15), (0.065, 1.42)], 0, sides=6 if finer else 4, at=(0.25 * side, 0.0))
            _blob(b, (0.25 * side, 0.82, 0.02), (0.045, 0.07, 0.05), 2, finer=False)
        _lathe(b, [(0.18, 0.82), (0.17, 1.05), (0.22, 1.36), (0.14, 1.46), (0.06, 1.49)], 0, sides=sides, squash=0.62)
        _lathe(b, [(0.055, 1.44), (0.055, 1.54)], 2, sides=6)
        _blob(b, (0.0, 1.62, 0.01), (0.095, 0.125, 0.11), 2, finer=finer)
        _blob(b, (0.0, 1.66, -0.025), (0.103, 0.105, 0.108), 3, finer=finer)

    return draw


def _fountain(b: MeshBuilder) -> None:
    """Slots: stone, water."""
    _lathe(b, [(3.0, 0.0), (3.0, 0.55), (2.75, 0.56)], 0, sides=12)
    _lathe(b, [(2.74, 0.4), (2.74, 0.57)], 1, sides=12)
    _lathe(b, [(0.5, 0.4), (0.35, 0.7), (0.28, 1.5), (1.1, 1.75), (1.15, 1.85)], 0, sides=10)
    _lathe(b, [(1.0, 1.8), (1.0, 1.87)], 1, sides=10)
    _lathe(b, [(0.2, 1.8), (0.16, 2.2), (0.05, 2.4)], 0, sides=8)


def _far_car(b: MeshBuilder) -> None:
    """A car of 1 x 1 x 1 m, to be stretched. Slots: paint, glass, tires."""
    b.box((-0.5, -0.5, 0.5, 0.5), 0.16, 0.58, 0)
    low, high = [(-0.46, -0.42), (0.46, 0.24)], [(-0.38, -0.3), (0.38, 0.08)]
    (x0, z0), (x1, z1) = low
    (u0, w0), (u1, w1) = high
    b.quad([(x0, 0.58, z1), (x1, 0.58, z1), (u1, 0.96, w1), (u0, 0.96, w1)], 1)
    b.quad([(x1, 0.58, z0), (x0, 0.58, z0), (u0, 0.96, w0), (u1, 0.96, w0)], 1)
    b.quad([(x1, 0.58, z1), (x1, 0.58, z0), (u1, 0.96, w0), (u1, 0.96, w1)], 1)
    b.quad([(x0, 0.58, z0), (x0, 0.58, z1), (u0, 0.96, w1), (u0, 0.96, w0)], 1)
    b.floor((u0, w0, u1, w1), 0.97, 0)
    for z in (-0.33, 0.3):
        b.box((-0.49, z - 0.08, 0.49, z + 0.08), 0.0, 0.3, 2)


def _far_van(b: MeshBuilder) -> None:
    """A van or bus of 1 x 1 x 1 m, to be stretched. Slots: paint, glass, tires."""
    b.box((-0.5, -0.5, 0.5, 0.5), 0.12, 0.5, 0)
    b.box((-0.5, -0.49, 0.5, 0.49), 0.5, 0.8, 1)
    b.box((-0.5, -0.5, 0.5, 0.5), 0.8, 1.0, 0)
    for z in (-0.33, 0.33):
        b.box((-0.49, z - 0.07, 0.49, z + 0.07), 0.0, 0.22, 2)


def _shadow(b: MeshBuilder) -> None:
    """A dark patch of 1 x 1 m on the ground."""
    b.mesh(
        _ring(0.5, 0.0, 8),
        np.tile([0.0, 1.0, 0.0], (8, 1)),
        np.zeros((8, 2)),
        np.array([(0, k, k + 1) for k in range(1, 7)]),
        0,
    )


def _shadow_box(b: MeshBuilder) -> None:
    b.floor((-0.5, -0.5, 0.5, 0.5), 0.0, 0)


_TREE: Slots = ((BARK, None), (WHITE, "leaves"))
_PERSON: Slots = ((None, None), (TROUSERS, None), (SKIN, None), (HAIR, None), (SHOES, None))
_VEHICLE: Slots = ((None, None), (GLASS, None), (TIRES, None))
FAR = " far"  # ends the name of a shape's plain form
SHAPES: dict[str, Shape] = {
    "street tree": Shape(_TREE, _street_tree(True)),
    "street tree far": Shape(_TREE, _street_tree(False)),
    "broad tree": Shape(_TREE, _broad_tree(True)),
    "broad tree far": Shape(_TREE, _broad_tree(False)),
    "pine tree": Shape(((BARK, None), (WHITE, "needles")), _pine_tree(True)),
    "pine tree far": Shape(((BARK, None), (WHITE, "needles")), _pine_tree(False)),
    "tall lamp": Shape(((IRON, None), (LAMP, None)), _lamp(True)),
    "tall lamp far": Shape(((IRON, None), (LAMP, None)), _lamp(False)),
    "person": Shape(_PERSON, _person(True)),
    "person far": Shape(_PERSON, _person(False)),
    "fountain": Shape(((STONE, None), (WATER, None)), _fountain),
    "car far": Shape(_VEHICLE, _far_car),
    "van far": Shape(_VEHICLE, _far_van),
    "round shadow": Shape(((None, None),), _shadow),
    "square shadow": Shape(((None, None),), _shadow_box),
}
