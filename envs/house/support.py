"""`top_of`: where on a model small things may stand, from its triangles.

A table's top may be round, a desk may carry a shelf, and a cabinet's top may be inside of it. Axes: R rows along the
model's depth from its back, C columns along its width, V vertices, F faces.
"""

import functools
from dataclasses import dataclass
from math import ceil, floor
from typing import no_type_check

import numba
import numpy as np
from jaxtyping import Float64

from eqa.envs.rendering.assets import Catalog, Model

_CELL_M = 0.03
_SAMPLE_M = 0.01  # triangles are sampled this finely
_LEVEL_M = 0.015  # triangles up to this far above the top belong to it
_SUNK_M = 0.03  # triangles up to this far below belong to it too: the plates of a stove stand out a little
_EDGE_M = 0.02  # things stay this far from the edge


@dataclass(frozen=True, slots=True)
class Top:
    """The top of a model of `size_m`. `room_m` is the height that is free above each cell, 0 where there is no top."""

    size_m: tuple[float, float, float]
    room_m: Float64[np.ndarray, "R C"]

    def holds(
        self,
        scaled_m: tuple[float, float, float],
        place_m: tuple[float, float],
        thing_m: tuple[float, float, float],
    ) -> bool:
        """True if a thing fits `place_m` (to the right and to the front of the middle) of a model `scaled_m` large."""
        rows, columns = self.room_m.shape
        c0, c1 = (
            (place_m[0] + sign * (thing_m[0] / 2 + _EDGE_M)) / scaled_m[0] * columns + columns / 2 for sign in (-1, 1)
        )
        r0, r1 = ((place_m[1] + sign * (thing_m[2] / 2 + _EDGE_M)) / scaled_m[2] * rows + rows / 2 for sign in (-1, 1))
        if min(c0, r0) < 0 or c1 > columns or r1 > rows:
            return False
        free_m = self.room_m[floor(r0) : ceil(r1), floor(c0) : ceil(c1)].min() * scaled_m[1] / self.size_m[1]
        return bool(free_m > thing_m[1] + 0.005)


@functools.cache
def top_of(catalog: Catalog, model: Model) -> Top | None:
    """The model's top, None where nothing may stand on it."""
    if model.top_m is None:
        return None
    meshes = catalog.meshes
    faces = meshes.faces[slice(*meshes.face_range[model.mesh])]
    corners = meshes.vertices[faces].astype(np.float64)
    columns, rows = (max(3, round(model.size_m[axis] / _CELL_M)) for axis in (0, 2))
    room_m = np.zeros((rows, columns))
    _sample(corners, model.top_m, model.size_m[0], model.size_m[2], room_m)
    return Top(model.size_m, room_m)


@numba.njit(cache=True)
@no_type_check
def _sample(corners, top, width, depth, room):
    """Writes the free height above the cells of `room` (R, C) that some of the triangles (F, 3, 3) covers at `top`."""
    rows, columns = room.shape
    is_top = np.zeros((rows, columns), np.bool_)
    above = np.full((rows, columns), np.inf)
    for f in range(len(corners)):
        a, b, c = corners[f]
        longest = max(np.sqrt(((b - a) ** 2).sum()), np.sqrt(((c - a) ** 2).sum()), np.sqrt(((c - b) ** 2).sum()))
        n = int(longest / _SAMPLE_M) + 1
        if max(a[1], b[1], c[1]) < top - _SUNK_M:
            continue
        for i in range(n + 1):
            for j in range(n + 1 - i):
                p = a + (b - a) * (i / n) + (c - a) * (j / n)
                column = min(max(int((p[0] / width + 0.5) * columns), 0), columns - 1)
                row = min(max(int((p[2] / depth + 0.5) * rows), 0), rows - 1)
                if -_SUNK_M <= p[1] - top <= _LEVEL_M:
                    is_top[row, column] = True
                elif p[1] > top:
                    above[row, column] = min(above[row, column], p[1] - top)
    for r in range(rows):
        for c in range(columns):
            room[r, c] = above[r, c] if is_top[r, c] else 0.0
