"""`fill_grid`: how much light reaches each cell of a scene from six sides: open space near, sky, panes and lamps.

Surfaces fill cells of a grid. Radiance then sweeps through it along fixed directions, slice by slice. A cell takes it
from the four cells of the slice before that its ray falls between (discrete ordinates; Chandrasekhar 1950). So walls
stop light, doors pass it on, and shadows grow softer with distance. Two quantities are swept: nearness, which a surface
blocks and distance restores (ambient obscurance; Zhukov et al. 1998), and daylight, which only emitters have.

Six sides of each cell keep what arrives (the ambient cube of Half-Life 2; McTaggart 2004). A surface blends three of
them by its normal. Loops are serial and in a fixed order: any machine and any number of threads gives equal light.

Axes: Y Z X cells, the outermost all air; K directions along one axis; the six sides are +y -y +z -z +x -x.
"""

from math import ceil, exp, sqrt
from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

CELL_M = 0.15
MOST_CELLS = 450_000  # larger scenes have larger cells, so that baking takes no longer
REACH_M = 0.55  # distance at which a surface has lost 63 % of its shadow
LAMP = 0.45  # radiance of a glowing surface; that of the sky is 1
# Directions: all exchanges of coordinates and signs of these, 24 and 72. Fewer let a window throw rays on the floor.
_NEAR, _DAY = ((1, 1, 3),), ((1, 1, 3), (1, 2, 3))
_PAD = 2  # cells of air round the scene
_AIR, _SOLID, _LAMP, _SKY = 0, 1, 2, 3  # a greater one wins a cell

# Light of a cell's side: nearness x (indoors with no window in sight + daylight).
_INDOORS, _DAYLIGHT, _HALF_DAYLIGHT = 1.06, 0.40, 0.18
# The least nearness. Things seem to stand on a floor only where it is dark under them; ceilings are lit from below.
_DARKEST = (0.2, 0.7, 0.36, 0.36, 0.36, 0.36)
_LEAST, _LEAST_ON_CEILINGS = 0.55, 0.9  # of a place without air, as inside things or where a curtain touches
_OFF_CELLS = 0.75  # a surface takes the light of the air this far in front of it
_MUCH_AIR = 0.5  # with less air than this near by, the air aside counts

# No counts of references to slices, which cost more than the arithmetic on a row.
_SHARP = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
_INNER = {**_SHARP, "forceinline": True}


class LightGrid(NamedTuple):
    """Light of the air of a scene, as `level_at` reads it."""

    level: np.ndarray  # (Y, Z, X, 6) float32: share of full light on a surface that looks to that side
    is_air: np.ndarray  # (Y, Z, X) uint8
    origin: np.ndarray  # (3,) float64: x, y, z of the first cell's centre
    cell_m: float


def fill_grid(triangles: np.ndarray, kind: np.ndarray, backed: np.ndarray) -> LightGrid:
    """The light among triangles (T, 3, 3), in metres.

    kind (T,): 0 dull, 1 a lamp, 2 a pane that shows the sky. backed (T, 3): a step from the middle of the surface to
    its back where there is nothing to light, in cells; zeros for a thin sheet.
    """
    low, high = triangles.min(axis=(0, 1)).astype(np.float64), triangles.max(axis=(0, 1)).astype(np.float64)
    cell_m = max(CELL_M, float(np.prod(high - low + 4 * CELL_M) / MOST_CELLS) ** (1 / 3))
    # A floor at y = 0 lies in the middle of its cells, wherever the lowest thing is.
    first = np.floor(low / cell_m + 0.5) - _PAD
    last = np.floor(high / cell_m + 0.5) + _PAD
    shape = tuple(int(n) for n in (last - first + 1)[[1, 2, 0]])
    cells = np.zeros(shape, np.uint8)
    _mark(triangles, kind, backed, first, cell_m, cells)
    return LightGrid(_light(cells, cell_m), (cells == _AIR).astype(np.uint8), first * cell_m, cell_m)


def _light(cells: np.ndarray, cell_m: float) -> np.ndarray:
    """(Y, Z, X, 6) level of the air beside surfaces."""
    near, day = np.zeros((6, *cells.shape), np.float32), np.zeros((6, *cells.shape), np.float32)
    for axis in range(3):
        order = [(0, 1, 2), (1, 0, 2), (2, 1, 0)][axis]
        turned = np.ascontiguousarray(cells.transpose(order))
        air = (turned == _AIR).astype(np.float32)
        glow = np.array([0, 0, LAMP, 1], np.float32)[turned]
        nothing = np.zeros_like(air)
        for total, source, families, reach_m in ((near, nothing, _NEAR, REACH_M), (day, glow, _DAY, None)):
            part = np.zeros((6, *turned.shape), np.float32)
            for sense in (1, -1):
                ways = _directions(families, sense, cell_m, reach_m)
                slices = np.ones((2, len(ways[0]), *turned.shape[1:]), np.float32)
                _sweep(air, source, *ways, sense, slices, np.empty(turned.shape[2] - 2, np.float32), part)
            for side in range(6):
                total[2 * order[side // 2] + side % 2] += part[side].transpose(order)
    level = np.empty((*cells.shape, 6), np.float32)
    _combine(near, day, _cosines(_NEAR), _cosines(_DAY), level)
    return level


def _all_directions(families: tuple) -> list[tuple[float, float, float]]:
    """Unit vectors: every exchange of coordinates and signs of each triple, once."""
    found: dict[tuple[int, int, int], None] = {}
    for a, b, c in families:
        for one in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
            for signs in range(8):
                found[tuple(n if signs >> k & 1 else -n for k, n in enumerate(one))] = None
    return [tuple(n / sqrt(x * x + y * y + z * z) for n in (x, y, z)) for x, y, z in found]


def _cosines(families: tuple) -> float:
    """The sum over all directions of the cosine to a cell's side, where it is positive."""
    return sum(max(0.0, y) for y, _, _ in _all_directions(families))


def _directions(families: tuple, sense: int, cell_m: float, reach_m: float | None) -> tuple[np.ndarray, ...]:
    """Directions towards the light whose largest part is along the first axis: lateral steps, shares kept, cosines."""
    chosen = [d for d in _all_directions(families) if sense * d[0] > max(abs(d[1]), abs(d[2]))]
    lateral = np.array([(r / abs(s), c / abs(s)) for s, r, c in chosen], np.float32)
    keep = np.array([1.0 if reach_m is None else exp(-cell_m / abs(s) / reach_m) for s, _, _ in chosen], np.float32)
    return lateral, keep, np.array(chosen, np.float32)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _mark(triangles, kind, backed, first, cell_m, cells):
    """Marks the cells that triangles touch, by points at most half a cell apart, and the cell behind backed ones."""
    point = np.empty(3)
    for t in range(triangles.shape[0]):
        longest = 0.0
        for k in range(3):
            length = 0.0
            for axis in range(3):
                length += (triangles[t, k, axis] - triangles[t, (k + 1) % 3, axis]) ** 2
            longest = max(longest, length)
        steps = max(1, ceil(sqrt(longest) / (0.5 * cell_m)))
        mark = np.uint8(kind[t] + _SOLID)
        has_back = backed[t, 0] != 0 or backed[t, 1] != 0 or backed[t, 2] != 0
        for i in range(steps + 1):
            for j in range(steps + 1 - i):
                b, c = i / steps, j / steps
                for axis in range(3):
                    at = (1.0 - b - c) * triangles[t, 0, axis] + b * triangles[t, 1, axis] + c * triangles[t, 2, axis]
                    point[axis] = at / cell_m + 0.5 - first[axis]
                x, y, z = int(point[0]), int(point[1]), int(point[2])
                cells[y, z, x] = max(cells[y, z, x], mark)
                if has_back:
                    x, y, z = int(point[0] + backed[t, 0]), int(point[1] + backed[t, 1]), int(point[2] + backed[t, 2])
                    cells[y, z, x] = max(cells[y, z, x], np.uint8(_SOLID))


@njit(**_SHARP)
@no_type_check
def _sweep(air, source, lateral, keep, direction, sense, slices, arriving, total):
    """total[side] += what arrives at each cell from each direction, times its cosine to the side.

    Light comes from the end of the first axis that `sense` points to. A cell passes on what arrives if it is air, its
    own `source` if not. `slices` (2, K, rows, columns) of ones and `arriving` (columns - 2,) are working memory.
    """
    num, rows, columns = air.shape
    count = lateral.shape[0]
    one = np.float32(1)
    for step in range(1, num - 1):
        s = num - 1 - step if sense > 0 else step
        before, here = slices[step & 1], slices[1 - (step & 1)]
        for r in range(1, rows - 1):
            free, glow = air[s, r, 1 : columns - 1], source[s, r, 1 : columns - 1]
            for k in range(count):
                to_row, to_column = lateral[k, 0], lateral[k, 1]
                other, shift = (r + 1 if to_row > 0 else r - 1), (2 if to_column > 0 else 0)
                p, q = abs(to_row), abs(to_column)
                held, rest = keep[k], one - keep[k]
                w0, w1 = held * (one - p) * (one - q), held * (one - p) * q
                w2, w3 = held * p * (one - q), held * p * q
                _blend(before[k, r], before[k, other], shift, w0, w1, w2, w3, rest, arriving)
                _pass_on(free, glow, arriving, here[k, r, 1 : columns - 1])
                _add(abs(direction[k, 0]), arriving, total[0 if sense > 0 else 1, s, r, 1 : columns - 1])
                _add(abs(direction[k, 1]), arriving, total[2 if to_row > 0 else 3, s, r, 1 : columns - 1])
                _add(abs(direction[k, 2]), arriving, total[4 if to_column > 0 else 5, s, r, 1 : columns - 1])


# Each loop writes one array: the compiler vectorises only those.


@njit(**_INNER)
@no_type_check
def _blend(own, other, shift, w0, w1, w2, w3, rest, out):
    """out = the share of light from the four cells behind, and `rest`, for the cells between the first and the last."""
    for c in range(out.size):
        out[c] = w0 * own[c + 1] + w1 * own[c + shift] + w2 * other[c + 1] + w3 * other[c + shift] + rest


@njit(**_INNER)
@no_type_check
def _pass_on(free, glow, arriving, out):
    for c in range(out.size):
        out[c] = glow[c] + free[c] * arriving[c]


@njit(**_INNER)
@no_type_check
def _add(weight, arriving, total):
    for c in range(total.size):
        total[c] += weight * arriving[c]


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _combine(near, day, near_sum, day_sum, level):
    """level = nearness x (indoors + daylight), daylight with a soft limit."""
    per_near, per_day = np.float32(1 / near_sum), np.float32(1 / day_sum)
    indoors = np.float32(_INDOORS)
    daylight, half = np.float32(_DAYLIGHT), np.float32(_HALF_DAYLIGHT)
    for side in range(6):
        darkest = np.float32(_DARKEST[side])
        for y in range(level.shape[0]):
            for z in range(level.shape[1]):
                for x in range(level.shape[2]):
                    a, d = near[side, y, z, x] * per_near, day[side, y, z, x] * per_day
                    level[y, z, x, side] = (darkest + (np.float32(1) - darkest) * a) * (
                        indoors + daylight * d / (d + half)
                    )


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def level_at(grid, x, y, z, nx, ny, nz):
    """Share of full light at a point of a surface with the unit normal (nx, ny, nz).

    The air in front of the point counts, blended between cells; cells that hold surfaces do not. The air half
    a cell aside counts as well for places where surfaces meet. A point without air near takes the least light.
    """
    off, half = _OFF_CELLS, 0.5
    x, y, z = (x - grid.origin[0]) / grid.cell_m, (y - grid.origin[1]) / grid.cell_m, (z - grid.origin[2]) / grid.cell_m
    x, y, z = x + off * nx, y + off * ny, z + off * nz
    total, weight = _blend_air(grid, x, y, z, nx, ny, nz)
    if weight < _MUCH_AIR:
        for axis in range(3):
            for sign in (-half, half):
                if sign * (nx if axis == 0 else (ny if axis == 1 else nz)) < -0.1:
                    continue
                dx, dy, dz = sign * (axis == 0), sign * (axis == 1), sign * (axis == 2)
                light, air = _blend_air(grid, x + dx, y + dy, z + dz, nx, ny, nz)
                share = 0.5 * (_MUCH_AIR - weight)
                total += share * light
                weight += share * air
    if weight > 1e-3:
        return total / weight
    return _LEAST_ON_CEILINGS if ny < -0.5 else _LEAST


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _blend_air(grid, x, y, z, nx, ny, nz):
    """The sum of the levels of the air among the eight cells round a place, by nearness, and of their shares."""
    sx, sy, sz = 5 if nx < 0 else 4, 1 if ny < 0 else 0, 3 if nz < 0 else 2
    x = min(max(x, 0.0), grid.is_air.shape[2] - 1.001)
    y = min(max(y, 0.0), grid.is_air.shape[0] - 1.001)
    z = min(max(z, 0.0), grid.is_air.shape[1] - 1.001)
    ix, iy, iz = int(x), int(y), int(z)
    fx, fy, fz = x - ix, y - iy, z - iz
    total, weight = 0.0, 0.0
    for dy in range(2):
        wy = fy if dy else 1.0 - fy
        for dz in range(2):
            wyz = wy * (fz if dz else 1.0 - fz)
            for dx in range(2):
                if grid.is_air[iy + dy, iz + dz, ix + dx]:
                    share = wyz * (fx if dx else 1.0 - fx)
                    side_x, side_y = (
                        grid.level[iy + dy, iz + dz, ix + dx, sx],
                        grid.level[iy + dy, iz + dz, ix + dx, sy],
                    )
                    side_z = grid.level[iy + dy, iz + dz, ix + dx, sz]
                    weight += share
                    total += share * (nx * nx * side_x + ny * ny * side_y + nz * nz * side_z)
    return total, weight


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def brightness(x, y, z):
    """Share of full light in the open on a surface whose unit normal is (x, y, z): sky and floor glow, sun, a fill.

    The floor sends much of the light back: what looks down is almost as bright as what looks up.
    """
    ambient = 0.66 + (0.08 * y if y > 0 else -0.3 * y)
    sun = 0.24 * max(0.0, 0.40 * x + 0.80 * y + 0.45 * z)
    fill = 0.14 * max(0.0, -0.81 * x + 0.12 * y - 0.57 * z)
    return min(1.0, ambient + sun + fill)
