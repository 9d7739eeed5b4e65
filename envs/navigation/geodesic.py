"""Geodesic distance in true metres over a grid: the length of the walk to the nearest goal cell, round the corners.

`march` solves the eikonal equation (Sethian 1996, first-order upwind differences). It marches in groups of cells that
one threshold finalises (Kim 2001) instead of a heap, and corrects a cell again if its value still falls. The result is
the same fixed point as fast marching's, in time linear in the cells.

Axes: G grid side, C free cells in row-major order.
"""

from math import sqrt
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float32
from numba import njit

# In cells: half of the least growth of a value from one cell to the next. Groups as wide as that growth need more
# corrections than their fewer passes save.
GROUP = np.float32(sqrt(0.125))
TOLERANCE = np.float32(1e-4)  # in cells; a smaller improvement is not passed on


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def march(
    free: Bool[np.ndarray, "G G"], goal: Bool[np.ndarray, "G G"], field: Float32[np.ndarray, " C"], cell_m: float
) -> None:
    """Writes each free cell's distance from the nearest goal cell to `field`, in metres; inf for cells without a way.

    The border of `free` must be blocked. Goal cells that are not free do not count. Runs without Python's lock.
    """
    values = _march(free.ravel(), goal.ravel(), free.shape[1])
    k = 0
    flat = free.ravel()
    for cell in range(flat.size):
        if flat[cell]:
            field[k] = values[cell] * np.float32(cell_m)
            k += 1


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _march(free, goal, width):
    values = np.full(free.size, np.float32(np.inf))
    listed = np.zeros(free.size, np.uint8)
    active, later = np.empty(free.size, np.int32), np.empty(free.size, np.int32)
    count = 0
    for cell in range(free.size):
        if goal[cell] and free[cell]:
            values[cell] = 0
            listed[cell] = 1
            active[count] = cell
            count += 1
    threshold = np.float32(0)
    while count:
        kept = 0
        for a in range(count):
            cell = active[a]
            if values[cell] > threshold:
                later[kept] = cell
                kept += 1
                continue
            listed[cell] = 0
            for step in (-width, -1, 1, width):
                n = cell + step
                if not free[n] or values[n] <= values[cell]:
                    continue
                value = _upwind(min(values[n - 1], values[n + 1]), min(values[n - width], values[n + width]))
                if value < values[n] - TOLERANCE:
                    values[n] = value
                    if not listed[n]:
                        listed[n] = 1
                        later[kept] = n
                        kept += 1
        active, later = later, active
        count = kept
        threshold += GROUP
    return values


@njit(inline="always", error_model="numpy")
@no_type_check
def _upwind(a, b):
    """The value of a cell of side 1 whose smaller neighbours along the two axes have the values a and b."""
    gap = a - b
    if gap >= 1:
        return b + np.float32(1)
    if gap <= -1:
        return a + np.float32(1)
    return np.float32(0.5) * (a + b + sqrt(np.float32(2) - gap * gap))
