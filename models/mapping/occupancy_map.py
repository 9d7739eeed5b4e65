"""Occupancy maps: the floor that each of many agents has seen, as a grid built from depth images alone.

A pixel below the horizon is a point of the world. Points lower than an agent's foothold are floor; higher ones are in
its way (all are lower than the camera, so lower than the agent). A camera looks over the floor right before its feet.
The area under its lowest rays counts as free until something is seen there or a move is refused.

A cell's state only ever rises, in the order of the states below, so an obstacle anywhere in a cell blocks it.

Axes: N agents, S grid side (rows follow z, columns follow x, the spawn is in the middle), H W image,
R C rows and columns of the pixels in use.
"""

from math import ceil, cos, sin, sqrt
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from numba import njit

from eqa.envs.rendering.camera import Camera

UNKNOWN, PASSED_OVER, FREE, BLOCKED = 0, 1, 2, 3
CELL_M = 0.1
RANGE_M = 5.0  # beyond, rows of pixels lie further apart than cells
BOTTOM_M, TOP_M = 0.15, 1.0  # things between these heights are in the way, as in `envs.house.build.build_floor`
LEVEL_M = 0.01  # two points of a column of pixels whose heights differ by no more are on one surface
GAP_M = 0.5  # largest distance between two such points
SAMPLE_M = 0.07  # between the points of a line that is marked
SPARSE = 2  # above the rows that see the floor within range, every so many-th row is used
FARTHEST_M = 25.0  # from the spawn: as far as a house's 100 steps lead
SIDE = 2 * ceil((FARTHEST_M + RANGE_M + 1) / CELL_M) + 1
WIDE = 2  # a clearance: nothing in the way within two cells

# Without `_nrt`, passing an array costs no reference counting; a call would copy the many fields of each array.
_SHARP = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
_INNER = {**_SHARP, "forceinline": True}


class Rays(NamedTuple):
    """The pixels of a camera in use, the lowest row first, and their directions for each metre of depth."""

    eye_m: float
    rows: Int64[np.ndarray, " R"]
    columns: Int64[np.ndarray, " C"]
    down: Float64[np.ndarray, " R"]
    across: Float64[np.ndarray, " C"]

    @classmethod
    def of(cls, camera: Camera) -> "Rays":
        """Rows whose floor is a sample apart, columns half a cell apart at full range; all of a coarse camera's."""
        below = np.arange(camera.height_px - 1, (camera.height_px - 1) // 2, -1)
        floor_m = np.minimum(camera.height_m * camera.focal_px / (below + 0.5 - camera.height_px / 2), RANGE_M)
        rows, last = [], -np.inf
        for row, away in zip(below.tolist(), floor_m.tolist(), strict=True):
            if away - last >= SAMPLE_M or rows[-1] - row >= SPARSE:
                rows.append(row)
                last = away
        columns = np.arange(0, camera.width_px, max(1, round(CELL_M / 2 / RANGE_M * camera.focal_px)))
        rows = np.array(rows, np.int64)
        offsets = (rows + 0.5 - camera.height_px / 2, columns + 0.5 - camera.width_px / 2)
        return cls(camera.height_m, rows, columns, *(offset / camera.focal_px for offset in offsets))


def empty_maps(
    num: int, *, within_m: float = FARTHEST_M + RANGE_M
) -> tuple[UInt8[np.ndarray, "N S S"], UInt8[np.ndarray, "N S S"]]:
    """States of the cells, and their clearance: 0 in or beside a blocked cell, 1 two cells away, else WIDE.

    Cells further than `within_m` from the spawn, along either axis, are blocked.

    The centre of an agent in a cell of clearance 1 is at least a cell's side, its radius, away from all blocked cells.
    """
    state = np.full((num, SIDE, SIDE), UNKNOWN, np.uint8)
    clearance = np.full((num, SIDE, SIDE), WIDE, np.uint8)
    wide = max(SIDE // 2 - round(within_m / CELL_M), 2)
    for edge in (np.s_[:, :wide], np.s_[:, -wide:], np.s_[:, :, :wide], np.s_[:, :, -wide:]):
        state[edge], clearance[edge] = BLOCKED, 0
    return state, clearance


@njit(**_INNER)
@no_type_check
def cell_of(metres):
    """Row or column of a coordinate relative to the spawn, at most FARTHEST_M and RANGE_M away."""
    return int(metres * (1 / CELL_M) + 0.5 * SIDE)


@njit(**_INNER)
@no_type_check
def metres_of(cell):
    """Coordinate of the middle of a row or column, relative to the spawn."""
    return (cell + 0.5 - 0.5 * SIDE) * CELL_M


@njit(**_SHARP)
@no_type_check
def _block(state, clearance, row, column):
    state[row, column] = BLOCKED
    for i in range(-2, 3):
        for j in range(-2, 3):
            near = np.uint8(0 if -1 <= i <= 1 and -1 <= j <= 1 else 1)
            clearance[row + i, column + j] = min(clearance[row + i, column + j], near)


@njit(**_INNER)
@no_type_check
def _mark(state, clearance, x, z, kind):
    """Raises the state of the cell at (x, z), in metres from the spawn, to `kind`."""
    row, column = cell_of(z), cell_of(x)
    if state[row, column] < kind:
        if kind == BLOCKED:
            _block(state, clearance, row, column)
        else:
            state[row, column] = kind


@njit(**_INNER)
@no_type_check
def _mark_line(state, clearance, x, z, dx, dz, length, kind):
    """Marks the line from a place to just before `length` times (dx, dz) from it."""
    samples = int(length * sqrt(dx * dx + dz * dz) * (1 / SAMPLE_M)) + 1
    part = 1 / samples
    for k in range(samples):
        along = length * k * part
        _mark(state, clearance, x + along * dx, z + along * dz, kind)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def add_views(state, clearance, depth, active, places, rays):
    """Adds each active agent's view: depth (N, H, W) as the renderer gives it, places (N, 4) of x, y, z, heading_rad.

    Places are relative to the spawn, headings are not. The camera is level. `rays` are its `Rays`.
    """
    column = np.empty((5, rays.columns.size))
    for n in range(active.size):
        if active[n]:
            x, z = places[n, 0], places[n, 2]
            for i in range(-1, 2):
                for j in range(-1, 2):
                    _mark(state[n], clearance[n], x + j * CELL_M, z + i * CELL_M, PASSED_OVER)
            _add_column(state[n], clearance[n], depth[n], x, z, places[n, 3], rays, column)


@njit(**_SHARP)
@no_type_check
def _add_column(state, clearance, depth, x, z, heading, rays, column):
    """Adds a column's rows from the lowest up to the horizon, so that near points come before far ones.

    Between two floor points of a column lies floor: an obstacle would have met the ray to the farther one. The same
    holds for two points of one level surface. A ray that hits nothing has passed over the end of the floor.

    `column` (5, C) is working memory: the direction of a column, and the kind, depth and height of its last point.
    """
    way_x, way_z, last_kind, last_d, last_y = column[0], column[1], column[2], column[3], column[4]
    s, c = sin(heading), cos(heading)
    for k in range(rays.columns.size):
        way_x[k], way_z[k] = -s + rays.across[k] * c, -c - rays.across[k] * s
        last_kind[k] = UNKNOWN
    for r in range(rays.rows.size):
        image, down = depth[rays.rows[r]], rays.down[r]
        for k in range(rays.columns.size):
            dx, dz, d = way_x[k], way_z[k], float(image[rays.columns[k]])
            y = rays.eye_m - d * down
            kind = np.uint8(FREE if y < BOTTOM_M else BLOCKED)
            if d <= 0:
                d, y, kind = rays.eye_m / down, 0.0, np.uint8(BLOCKED)
            if d * d * (dx * dx + dz * dz) > RANGE_M * RANGE_M:
                last_kind[k] = UNKNOWN
                continue
            further = d - last_d[k]
            if r == 0:
                _mark_line(state, clearance, x, z, dx, dz, d, np.uint8(PASSED_OVER))
            elif kind == last_kind[k] and further > SAMPLE_M:
                level = further < GAP_M and abs(y - last_y[k]) < LEVEL_M
                if kind == FREE or level:
                    from_x, from_z = x + last_d[k] * dx, z + last_d[k] * dz
                    _mark_line(state, clearance, from_x, from_z, dx, dz, further, kind)
            _mark(state, clearance, x + d * dx, z + d * dz, kind)
            last_kind[k], last_d[k], last_y[k] = kind, d, y


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def block_ahead(state, clearance, refused, places, reach_m):
    """Marks the place `reach_m` ahead of the agents whose forward move was refused as blocked."""
    for n in range(refused.size):
        if refused[n]:
            x, _, z, heading = places[n]
            _mark(state[n], clearance[n], x - reach_m * sin(heading), z - reach_m * cos(heading), np.uint8(BLOCKED))
