"""`lay_sheets`: the light of large flat surfaces as small grey images, which cost a frame no further triangles.

A sheet covers the faces of a mesh that lie in one plane and look alike: a floor, a wall round its windows. Its lumels
stand on the corners of a lattice, so that light is bilinear between them. Texture coordinates lead to places on it.

Axes: F faces, G meshes, K sheets, N lumels.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import UInt16
from numba import njit

from eqa.envs.rendering.light_grid import brightness, level_at
from eqa.envs.rendering.scene import Meshes

LUMEL_M = 0.15
_LEAST_M2 = 0.1  # smaller surfaces have light in their corners only
_SAME_M = 1e-4


class Sheets(NamedTuple):
    """Sheets of a scene's own meshes; only the side that the normals point to has one."""

    of_face: np.ndarray  # (F,) int32: sheet of a face, -1 for none
    place: np.ndarray  # (K, 6) float32: row and column on the sheet = (m0 u + m1 v + m2, m3 u + m4 v + m5)
    size: np.ndarray  # (K, 2) int32: rows and columns of lumels, at least 2 each
    start: np.ndarray  # (K,) int64: of its lumels, row after row
    lumels: np.ndarray  # (N,) uint8: 255 is full light


def lay_sheets(meshes: Meshes, chosen: np.ndarray, grid) -> Sheets:
    """Sheets for the meshes that are `chosen` (G,), which lie in the world's coordinates; none for an empty choice."""
    num_faces = len(meshes.faces)
    sheets = Sheets(
        np.full(num_faces, -1, np.int32),
        np.empty((num_faces, 6), np.float32),
        np.empty((num_faces, 2), np.int32),
        np.empty(num_faces, np.int64),
        np.empty(0, np.uint8),
    )
    if not len(chosen):
        return Sheets(sheets.of_face, *(array[:0] for array in sheets[1:]))
    arrays = meshes.vertices, meshes.normals, meshes.uv, meshes.faces, meshes.face_slot, meshes.face_range
    spacing_m = max(LUMEL_M, grid.cell_m)
    count, size = _lay(*arrays, chosen, grid, spacing_m, sheets)
    lumels = np.empty(size, np.uint8)
    _lay(*arrays, chosen, grid, spacing_m, sheets._replace(lumels=lumels))
    return Sheets(sheets.of_face, *(array[:count].copy() for array in sheets[1:4]), lumels)


def paired_lumels(sheets: Sheets) -> UInt16[np.ndarray, " pairs"]:
    """Each lumel and the one below it, as lumel | below << 8; those of the last row are alone. One is spare."""
    paired = np.zeros(len(sheets.lumels) + 1, np.uint16)
    _pair(sheets.size, sheets.start, sheets.lumels, paired)
    return paired


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _pair(size, start, lumels, paired):
    for k in range(len(start)):
        columns, first = size[k, 1], start[k]
        last = first + (size[k, 0] - 1) * columns
        for at in range(first, last + columns):
            paired[at] = np.uint16(lumels[at] | lumels[at + columns if at < last else at] << 8)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _lay(vertices, normals, uv, faces, slot, face_range, chosen, grid, spacing_m, sheets):
    """Fills `sheets`, its lumels if there is room for any; returns the numbers of sheets and of lumels."""
    done = np.zeros(len(faces), np.bool_)
    axes = np.empty((3, 3))  # two in the plane, and its point nearest to the origin
    count = size = 0
    for g in range(len(face_range)):
        for f in range(face_range[g, 0], face_range[g, 1] if chosen[g] else face_range[g, 0]):
            if done[f]:
                continue
            members = _coplanar(vertices, normals, faces, slot, f, face_range[g, 1], done)
            for k in members:
                done[k] = True
            if _area(vertices, faces, members) < _LEAST_M2:
                continue
            n = normals[faces[f, 0]]
            _plane_axes(n, vertices[faces[f, 0]], axes)
            flat = _flattened(vertices, faces, members, axes)
            to_uv = _texture_map(flat, uv, faces, members)
            determinant = to_uv[0, 0] * to_uv[1, 1] - to_uv[0, 1] * to_uv[1, 0]
            if not abs(determinant) > 1e-9:
                continue
            low_u, low_v = flat[:, :, 0].min(), flat[:, :, 1].min()
            wide, high = flat[:, :, 0].max() - low_u, flat[:, :, 1].max() - low_v
            rows, columns = 1 + max(1, int(np.ceil(high / spacing_m))), 1 + max(1, int(np.ceil(wide / spacing_m)))
            by_row, by_column = (rows - 1) / high, (columns - 1) / wide
            place = sheets.place[count]
            place[0], place[1] = -to_uv[0, 1] / determinant * by_row, to_uv[0, 0] / determinant * by_row
            place[3], place[4] = to_uv[1, 1] / determinant * by_column, -to_uv[1, 0] / determinant * by_column
            place[2] = -low_v * by_row - place[0] * to_uv[2, 0] - place[1] * to_uv[2, 1]
            place[5] = -low_u * by_column - place[3] * to_uv[2, 0] - place[4] * to_uv[2, 1]
            sheets.size[count, 0], sheets.size[count, 1], sheets.start[count] = rows, columns, size
            for k in members:
                sheets.of_face[k] = count
            if len(sheets.lumels):
                light = brightness(n[0], n[1], n[2])
                for row in range(rows):
                    for column in range(columns):
                        u, v = low_u + column / by_column, low_v + row / by_row
                        x = axes[2, 0] + axes[0, 0] * u + axes[1, 0] * v
                        y = axes[2, 1] + axes[0, 1] * u + axes[1, 1] * v
                        z = axes[2, 2] + axes[0, 2] * u + axes[1, 2] * v
                        level = min(1.0, light * level_at(grid, x, y, z, n[0], n[1], n[2]))
                        sheets.lumels[size + row * columns + column] = np.uint8(255.0 * level + 0.5)
            count += 1
            size += rows * columns
    return count, size


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _plane_axes(n, point, axes):
    """Two unit vectors at right angles to n, level and rising as far as they can, and the plane's nearest point."""
    axes[:] = 0.0
    level = np.sqrt(np.float64(n[0]) * n[0] + np.float64(n[2]) * n[2])
    if level < 1e-3:
        axes[0, 0] = axes[1, 2] = 1.0
    else:
        axes[0, 0], axes[0, 2] = n[2] / level, -n[0] / level
        axes[1, 0], axes[1, 1], axes[1, 2] = -n[0] * n[1] / level, level, -n[2] * n[1] / level
    away = _dot(point, n)
    for k in range(3):
        axes[2, k] = n[k] * away


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _flattened(vertices, faces, members, axes):
    """(faces, 3, 2): corners along the two axes."""
    flat = np.empty((len(members), 3, 2))
    for k in range(len(members)):
        for c in range(3):
            p = vertices[faces[members[k], c]]
            flat[k, c, 0], flat[k, c, 1] = _dot(p, axes[0]), _dot(p, axes[1])
    return flat


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _coplanar(vertices, normals, faces, slot, f, end, done):
    """The faces from f on, up to `end`, that lie in the plane of f and look as it does."""
    n, p = normals[faces[f, 0]], vertices[faces[f, 0]]
    count, found = 0, np.empty(end - f, np.int64)
    for other in range(f, end):
        m, q = normals[faces[other, 0]], vertices[faces[other, 0]]
        away = (q[0] - p[0]) * n[0] + (q[1] - p[1]) * n[1] + (q[2] - p[2]) * n[2]
        same = n[0] * m[0] + n[1] * m[1] + n[2] * m[2] > 0.99999 and abs(away) < _SAME_M
        if same and slot[other] == slot[f] and not done[other]:
            found[count] = other
            count += 1
    return found[:count]


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _area(vertices, faces, members):
    total = 0.0
    for f in members:
        a, b, c = vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]]
        ux, uy, uz, vx, vy, vz = b[0] - a[0], b[1] - a[1], b[2] - a[2], c[0] - a[0], c[1] - a[1], c[2] - a[2]
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        total += 0.5 * np.sqrt(x * x + y * y + z * z)
    return total


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _dot(a, b):
    return np.float64(a[0]) * b[0] + np.float64(a[1]) * b[1] + np.float64(a[2]) * b[2]


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _texture_map(flat, uv, faces, members):
    """Rows: uv per metre along each axis, and uv at the origin; NaN if no one map serves all corners."""
    out = np.full((3, 2), np.nan)
    best, chosen = 0.0, 0
    for t in range(len(flat)):
        a, b, c = flat[t, 0], flat[t, 1], flat[t, 2]
        size = abs((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
        if size > best:
            best, chosen = size, t
    a, b, c = flat[chosen, 0], flat[chosen, 1], flat[chosen, 2]
    size = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    for k in range(2):
        at = np.float64(uv[faces[members[chosen], 0], k])
        to_b, to_c = uv[faces[members[chosen], 1], k] - at, uv[faces[members[chosen], 2], k] - at
        out[0, k] = (to_b * (c[1] - a[1]) - to_c * (b[1] - a[1])) / size
        out[1, k] = (to_c * (b[0] - a[0]) - to_b * (c[0] - a[0])) / size
        out[2, k] = at - out[0, k] * a[0] - out[1, k] * a[1]
    for t in range(len(flat)):
        for c in range(3):
            for k in range(2):
                found = out[0, k] * flat[t, c, 0] + out[1, k] * flat[t, c, 1] + out[2, k]
                if not abs(found - uv[faces[members[t], c], k]) < 1e-3:
                    out[0, 0] = np.nan
    return out
