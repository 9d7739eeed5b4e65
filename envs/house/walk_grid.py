"""`WalkGrid`: a room's floor as cells, and a test that people still get everywhere when one more thing stands there.

Passages of about 0.55 m must join all doors, come close to every piece of furniture, and cut off no part of the floor.
"""

from typing import no_type_check

import numba
import numpy as np

from eqa.envs.house.geometry import Point

Rect = tuple[float, float, float, float]  # x0, x1, z0, z1

_CELL_M = 0.1
_WALL_M = 0.25  # the middle of a person stays this far from walls
_PASSAGE_M = 0.27  # half of the width that must stay free
_REACH_M = 0.55  # a person must come this near to every piece of furniture
_LOST_CELLS = 8  # that things may cut off: behind a plant in a corner


class WalkGrid:
    """Cells of a room that a person can stand on, and a flood from the first door over them."""

    def __init__(self, outline: list[Point], seeds: list[Point]) -> None:
        xs, zs = [x for x, _ in outline], [z for _, z in outline]
        self.x0, self.z0 = min(xs), min(zs)
        columns = int((max(xs) - self.x0) / _CELL_M) + 1
        rows = int((max(zs) - self.z0) / _CELL_M) + 1
        self.x = self.x0 + (np.arange(columns) + 0.5) * _CELL_M
        self.z = self.z0 + (np.arange(rows) + 0.5) * _CELL_M
        edges = np.array([(*a, *b) for a, b in zip(outline, outline[1:] + outline[:1], strict=True)])
        self._room = _room_cells(self.x, self.z, edges, _WALL_M)
        self._free = self._room
        self._rects = np.empty((0, 4))
        self.seeds = np.array([self._cell(point) for point in seeds], np.int64).reshape(-1, 2)
        empty = _reached(self._room, self.seeds) == 1
        self._most_lost = int(empty.sum()) + _LOST_CELLS

    def _cell(self, point: Point) -> tuple[int, int]:
        row = int((point[1] - self.z0) / _CELL_M)
        column = int((point[0] - self.x0) / _CELL_M)
        return min(max(row, 0), len(self.z) - 1), min(max(column, 0), len(self.x) - 1)

    def stand(self, rects: list[Rect]) -> None:
        """Says what stands in the room."""
        self._rects = np.array(rects, np.float64).reshape(-1, 4)
        self._free = self._room.copy()
        for rect in self._rects:
            _block(self._free, self.x, self.z, rect, _PASSAGE_M)

    def walkable(self, rect: Rect) -> bool:
        """True if people get everywhere with one more thing in the room, and near to that as well."""
        if not len(self.seeds):
            return True
        more = np.array(rect)
        left = self._free.copy()
        _block(left, self.x, self.z, more, _PASSAGE_M)
        return _all_reached(left, self.x, self.z, self.seeds, self._rects, more, _REACH_M, self._most_lost)


@numba.njit(cache=True)
@no_type_check
def _room_cells(x, z, edges, margin):
    """Cells (rows z, columns x) inside the outline and at least `margin` from its edges (E, 4), along x or z."""
    free = np.zeros((len(z), len(x)), np.bool_)
    for r in range(len(z)):
        for c in range(len(x)):
            inside = False
            near = False
            for e in range(len(edges)):
                ax, az, bx, bz = edges[e]
                if (az > z[r]) != (bz > z[r]) and x[c] < ax + (z[r] - az) / (bz - az) * (bx - ax):
                    inside = not inside
                dx = max(min(ax, bx) - x[c], 0.0, x[c] - max(ax, bx))
                dz = max(min(az, bz) - z[r], 0.0, z[r] - max(az, bz))
                near = near or max(dx, dz) < margin
            free[r, c] = inside and not near
    return free


@numba.njit(cache=True)
@no_type_check
def _block(free, x, z, rect, passage):
    """Takes the cells from `free` whose middle is within `passage` of the rectangle."""
    for r in range(len(z)):
        if rect[2] - passage < z[r] < rect[3] + passage:
            for c in range(len(x)):
                if rect[0] - passage < x[c] < rect[1] + passage:
                    free[r, c] = False


@numba.njit(cache=True)
@no_type_check
def _is_near(reached, x, z, rect, reach):
    for r in range(len(z)):
        if rect[2] - reach < z[r] < rect[3] + reach:
            for c in range(len(x)):
                if reached[r, c] == 2 and rect[0] - reach < x[c] < rect[1] + reach:
                    return True
    return False


@numba.njit(cache=True)
@no_type_check
def _reached(free, seeds):
    """The cells (rows z, columns x): 0 blocked, 1 free, 2 free and reached by a flood from the first of the seeds."""
    rows, columns = free.shape
    state = free.astype(np.uint8)
    if not len(seeds) or state[seeds[0, 0], seeds[0, 1]] == 0:
        return state
    stack = np.empty((rows * columns, 2), np.int32)
    stack[0] = seeds[0]
    state[seeds[0, 0], seeds[0, 1]] = 2
    top = 1
    while top:
        top -= 1
        r, c = stack[top]
        for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            i, j = r + dr, c + dc
            if 0 <= i < rows and 0 <= j < columns and state[i, j] == 1:
                state[i, j] = 2
                stack[top] = i, j
                top += 1
    return state


@numba.njit(cache=True)
@no_type_check
def _all_reached(left, x, z, seeds, rects, more, reach, most_lost):
    """True if a flood over the cells `left` meets every seed, and nearly all cells, and comes near every rectangle.

    The rectangles are those of `rects` and `more`.
    """
    state = _reached(left, seeds)
    for s in range(len(seeds)):
        if state[seeds[s, 0], seeds[s, 1]] != 2:
            return False
    if (state == 1).sum() > most_lost or not _is_near(state, x, z, more, reach):
        return False
    for k in range(len(rects)):
        if not _is_near(state, x, z, rects[k], reach):
            return False
    return True
