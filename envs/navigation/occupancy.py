"""Occupancy grids: a house's triangles drawn onto a grid, dilated by a body's radius, reduced to one connected area.

Real triangles between two heights decide, not boxes. So an agent can walk under a high table and between a door's open
leaf and its frame.

Axes: G grid side (rows follow z, columns follow x), I instances, F faces, P polygon corners.
"""

from math import sqrt
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float64, UInt8
from numba import njit

from eqa.envs.rendering.scene import Instances, Meshes


def mark_instances(
    blocked: UInt8[np.ndarray, "G G"],
    instances: Instances,
    meshes: Meshes,
    *,
    first_mesh: int,
    origin: tuple[float, float],
    cell_m: float,
    bottom_m: float,
    top_m: float,
) -> None:
    """Sets every cell to 1 that a triangle of `meshes` touches between the two heights.

    `first_mesh` is the value of `instances.mesh` that stands for the first of `meshes`; other instances are left out.
    """
    shape = [array.view() for array in (meshes.vertices, meshes.faces, meshes.face_range)]
    for view in shape:  # the catalogue's are read-only: for Numba a type of its own, to be compiled once
        view.flags.writeable = False
    _mark(
        blocked, instances.mesh, instances.rotation_scale, instances.translation, instances.sphere,
        *shape, first_mesh, *origin, cell_m, bottom_m, top_m,
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
@no_type_check
def _mark(
    blocked,
    mesh,
    rotation,
    translation,
    sphere,
    vertices,
    faces,
    face_range,
    first,
    origin_x,
    origin_z,
    cell_m,
    low,
    high,
):
    row_min, row_max = np.empty(blocked.shape[0]), np.empty(blocked.shape[0])
    corner, clipped = np.empty((8, 3)), np.empty((8, 3))
    for i in range(mesh.shape[0]):
        g = mesh[i] - first
        if g < 0 or g >= face_range.shape[0]:
            continue
        if sphere[i, 1] + sphere[i, 3] < low or sphere[i, 1] - sphere[i, 3] > high:
            continue
        r, t = rotation[i], translation[i]
        for f in range(face_range[g, 0], face_range[g, 1]):
            y_min, y_max = np.inf, -np.inf
            for k in range(3):
                v = vertices[faces[f, k]]
                y = r[1, 0] * v[0] + r[1, 1] * v[1] + r[1, 2] * v[2] + t[1]
                corner[k, 0] = (r[0, 0] * v[0] + r[0, 1] * v[1] + r[0, 2] * v[2] + t[0] - origin_x) / cell_m
                corner[k, 1] = y
                corner[k, 2] = (r[2, 0] * v[0] + r[2, 1] * v[1] + r[2, 2] * v[2] + t[2] - origin_z) / cell_m
                y_min, y_max = min(y_min, y), max(y_max, y)
            if y_max <= low or y_min >= high:
                continue
            if y_min >= low and y_max <= high:
                _fill_convex(blocked, corner, 3, row_min, row_max)
            else:
                n = _clip(corner, 3, clipped, low, 1.0)
                n = _clip(clipped, n, corner, high, -1.0)
                _fill_convex(blocked, corner, n, row_min, row_max)


@njit(cache=True, error_model="numpy")
@no_type_check
def _clip(source, n, target, height, sign):
    """Keeps the part of a polygon above `height` (sign 1) or below it (sign -1); returns its number of corners."""
    kept = 0
    for a in range(n):
        b = (a + 1) % n
        da, db = sign * (source[a, 1] - height), sign * (source[b, 1] - height)
        if da >= 0:
            for k in range(3):
                target[kept, k] = source[a, k]
            kept += 1
        if (da >= 0) != (db >= 0):
            for k in range(3):
                target[kept, k] = source[a, k] + (source[b, k] - source[a, k]) * (da / (da - db))
            kept += 1
    return kept


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill_convex(blocked, corner, n, row_min, row_max):
    """Sets each cell that a convex polygon (x and z in cells) touches; a line or a point counts as a polygon."""
    if n == 0:
        return
    rows, columns = blocked.shape
    z_min, z_max = corner[0, 2], corner[0, 2]
    for k in range(1, n):
        z_min, z_max = min(z_min, corner[k, 2]), max(z_max, corner[k, 2])
    if z_max < 0 or z_min >= rows:
        return
    first, last = max(int(z_min), 0), min(int(z_max), rows - 1)
    for row in range(first, last + 1):
        row_min[row], row_max[row] = np.inf, -np.inf
    for k in range(n):
        xa, za, xb, zb = corner[k, 0], corner[k, 2], corner[(k + 1) % n, 0], corner[(k + 1) % n, 2]
        if za > zb:
            xa, za, xb, zb = xb, zb, xa, za
        slope = (xb - xa) / (zb - za) if zb > za else 0.0
        for row in range(max(int(za), 0) if za > 0 else 0, min(int(zb) if zb >= 0 else -1, rows - 1) + 1):
            x0 = xa if za >= row else xa + (row - za) * slope
            x1 = xb if zb <= row + 1 else xa + (row + 1 - za) * slope
            row_min[row] = min(row_min[row], x0, x1)
            row_max[row] = max(row_max[row], x0, x1)
    for row in range(first, last + 1):
        if row_max[row] >= 0 and row_min[row] < columns:
            for column in range(max(int(row_min[row]), 0), min(int(row_max[row]), columns - 1) + 1):
                blocked[row, column] = 1


@njit(cache=True, error_model="numpy")
@no_type_check
def fill_polygon(inside: UInt8[np.ndarray, "G G"], corners: Float64[np.ndarray, "P 2"]) -> None:
    """Sets cells with a centre inside the polygon (in cells) to 1. Polygons that share an edge leave no gap."""
    n = corners.shape[0]
    crossing = np.empty(n)
    for row in range(inside.shape[0]):
        z, found = row + 0.5, 0
        for a in range(n):
            xa, za, xb, zb = corners[a, 0], corners[a, 1], corners[(a + 1) % n, 0], corners[(a + 1) % n, 1]
            if (za <= z) != (zb <= z):
                x, k = xa + (z - za) * (xb - xa) / (zb - za), found
                while k > 0 and crossing[k - 1] > x:
                    crossing[k] = crossing[k - 1]
                    k -= 1
                crossing[k] = x
                found += 1
        for k in range(0, found - 1, 2):
            start, stop = int(np.ceil(crossing[k] - 0.5)), int(np.ceil(crossing[k + 1] - 0.5))
            for column in range(max(start, 0), min(stop, inside.shape[1])):
                inside[row, column] = 1


@njit(cache=True, error_model="numpy")
@no_type_check
def dilate(blocked: UInt8[np.ndarray, "G G"], radius: float) -> UInt8[np.ndarray, "G G"]:
    """Cells whose centre is at most `radius` cells from the centre of a blocked cell."""
    rows, columns = blocked.shape
    reach = int(radius)
    far = np.uint8(min(reach + 1, 255))
    along = np.empty((rows, columns), np.uint8)  # distance to the next blocked cell of the same row
    for row in range(rows):
        gap = far
        for column in range(columns):
            gap = np.uint8(0) if blocked[row, column] else min(np.uint8(gap + 1), far)
            along[row, column] = gap
        gap = far
        for column in range(columns - 1, -1, -1):
            gap = np.uint8(0) if blocked[row, column] else min(np.uint8(gap + 1), far)
            along[row, column] = min(along[row, column], gap)
    result = np.zeros((rows, columns), np.uint8)
    for row in range(rows):
        for other in range(max(row - reach, 0), min(row + reach, rows - 1) + 1):
            width = np.uint8(sqrt(radius * radius - (other - row) * (other - row)))
            for column in range(columns):
                result[row, column] |= along[other, column] <= width
    return result


@njit(cache=True, error_model="numpy")
@no_type_check
def largest_component(free: UInt8[np.ndarray, "G G"]) -> Bool[np.ndarray, "G G"]:
    """The largest set of free cells that are connected by edges; the grid's border is never part of it.

    Runs of free cells in a row are the nodes of a union-find; they are several times fewer than cells.
    """
    rows, columns = free.shape
    most = rows * (columns // 2 + 1)
    run_row, run_start, run_stop = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    parent = np.empty(most, np.int32)
    count, above, above_end = 0, 0, 0
    for row in range(1, rows - 1):
        here, column = count, 1
        while column < columns - 1:
            if not free[row, column]:
                column += 1
                continue
            start = column
            while column < columns - 1 and free[row, column]:
                column += 1
            run_row[count], run_start[count], run_stop[count], parent[count] = row, start, column, count
            while above < above_end and run_stop[above] <= start:
                above += 1
            other = above
            while other < above_end and run_start[other] < column:
                a, b = _root(parent, count), _root(parent, other)
                parent[max(a, b)] = min(a, b)
                other += 1
            count += 1
        above, above_end = here, count
    size = np.zeros(count + 1, np.int64)
    best = 0
    for run in range(count):
        root = _root(parent, run)
        size[root] += run_stop[run] - run_start[run]
        if size[root] > size[best]:
            best = root
    result = np.zeros((rows, columns), np.bool_)
    for run in range(count):
        if _root(parent, run) == best:
            for column in range(run_start[run], run_stop[run]):
                result[run_row[run], column] = True
    return result


@njit(cache=True, error_model="numpy")
@no_type_check
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node
