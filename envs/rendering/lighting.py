"""Light of a house: baked once per vertex of every placed mesh, for both sides of its surface.

Furniture has sheets and uneven winding, so only a view tells the side that it shows: the light of both is kept.
"""

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
@no_type_check
def bake_light(normals, vertex_range, mesh, normal_matrix, start, light):
    """Fills `light` (L, 2) for both sides of every vertex of every instance; see `_brightness`."""
    for i in range(mesh.size):
        first, last = vertex_range[mesh[i], 0], vertex_range[mesh[i], 1]
        m = normal_matrix[i]
        for v in range(first, last):
            x = m[0, 0] * normals[v, 0] + m[0, 1] * normals[v, 1] + m[0, 2] * normals[v, 2]
            y = m[1, 0] * normals[v, 0] + m[1, 1] * normals[v, 1] + m[1, 2] * normals[v, 2]
            z = m[2, 0] * normals[v, 0] + m[2, 1] * normals[v, 1] + m[2, 2] * normals[v, 2]
            scale = 1.0 / max(np.sqrt(x * x + y * y + z * z), 1e-12)
            x, y, z = x * scale, y * scale, z * scale
            row = start[i] + v - first
            light[row, 0] = np.uint8(255.0 * _brightness(x, y, z) + 0.5)
            light[row, 1] = np.uint8(255.0 * _brightness(-x, -y, -z) + 0.5)


@njit(cache=True, error_model="numpy")
@no_type_check
def _brightness(x, y, z):
    """Share of full light, 0 to 1, on a surface whose unit normal is (x, y, z): sky and floor glow, sun, and a fill."""
    ambient = 0.66 + 0.08 * y
    sun = 0.24 * max(0.0, 0.40 * x + 0.80 * y + 0.45 * z)
    fill = 0.14 * max(0.0, -0.81 * x + 0.12 * y - 0.57 * z)
    return min(1.0, ambient + sun + fill)
