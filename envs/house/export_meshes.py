"""`local_mesh` and `lit_mesh`: a placed mesh of a scene, ready to be written to a file, without and with its light.

Walls, floors and ceilings have few vertices; their light lies on sheets (`rendering/light_sheets.py`), which files of
glTF cannot hold as lightmaps. So `lit_mesh` cuts them along lines of their sheets: close ones where light bends, few
where it changes evenly.

Axes: V vertices, F faces, R C rows and columns of a sheet.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, UInt8

from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.light_sheets import Sheets
from eqa.envs.rendering.lighting import Baked
from eqa.envs.rendering.scene import Meshes, Scene

MOST_OFF = 8  # levels of 255 by which light may bend between two lines
_SAME_LUMEL = 1e-3  # a corner this near to a line lies on it

Corner = tuple[float, ...]  # row and column on a sheet, x y z, u v


@dataclass(frozen=True, slots=True)
class LocalMesh:
    """One mesh with rows counted from 0; faces run counter-clockwise on the side that their normals point to."""

    vertices: Float32[np.ndarray, "V 3"]
    normals: Float32[np.ndarray, "V 3"]
    uv: Float32[np.ndarray, "V 2"]
    faces: Int32[np.ndarray, "F 3"]
    slots: Int32[np.ndarray, " F"]


def local_mesh(scene: Scene, catalog: Catalog, row: int) -> LocalMesh:
    """Mesh `row` of the scene, which counts the catalogue's meshes first and the house's own after them."""
    source, row = _source(scene, catalog, row)
    vertices, faces = slice(*source.vertex_range[row]), slice(*source.face_range[row])
    corners = np.where(_inward(source, faces)[:, None], source.faces[faces][:, ::-1], source.faces[faces])
    return LocalMesh(
        source.vertices[vertices],
        source.normals[vertices],
        source.uv[vertices],
        (corners - vertices.start).astype(np.int32),
        source.face_slot[faces],
    )


def light_by_instance(scene: Scene, catalog: Catalog, baked: Baked) -> list[UInt8[np.ndarray, " V"]]:
    """For each instance the light of its vertices, on the side that their normals point to."""
    ranges = np.concatenate([catalog.meshes.vertex_range, scene.meshes.vertex_range])[scene.instances.mesh]
    return np.split(baked.light[:, 0], np.cumsum(ranges[:, 1] - ranges[:, 0])[:-1])


def lit_mesh(
    scene: Scene, catalog: Catalog, row: int, light: UInt8[np.ndarray, " V"], sheets: Sheets
) -> tuple[LocalMesh, UInt8[np.ndarray, " W"]]:
    """`local_mesh` with its faces on sheets cut into smaller ones, and the light of its W vertices.

    `light` is that of the mesh's own vertices. Surfaces, normals and texture coordinates stay as they are.
    """
    mesh = local_mesh(scene, catalog, row)
    if row < len(catalog.meshes.vertex_range):
        return mesh, light
    source, own = _source(scene, catalog, row)
    sheet_of_face = sheets.of_face[slice(*source.face_range[own])]
    plain = sheet_of_face < 0
    used, corners = np.unique(mesh.faces[plain], return_inverse=True)
    parts = [
        LocalMesh(
            mesh.vertices[used],
            mesh.normals[used],
            mesh.uv[used],
            corners.reshape(-1, 3).astype(np.int32),
            mesh.slots[plain],
        )
    ]
    lights = [light[used]]
    for sheet in np.unique(sheet_of_face[~plain]).tolist():
        part, part_light = _cut(mesh, np.flatnonzero(sheet_of_face == sheet), sheets, sheet)
        parts.append(part)
        lights.append(part_light)
    return _joined(parts), np.concatenate(lights)


def _source(scene: Scene, catalog: Catalog, row: int) -> tuple[Meshes, int]:
    num_shared = len(catalog.meshes.vertex_range)
    return (catalog.meshes, row) if row < num_shared else (scene.meshes, row - num_shared)


def _inward(meshes: Meshes, faces: slice) -> Bool[np.ndarray, " F"]:
    """True for faces whose winding points against the normals of their corners, which tell the front."""
    corners = meshes.faces[faces]
    a, b, c = (meshes.vertices[corners[:, k]] for k in range(3))
    return (np.cross(b - a, c - a) * meshes.normals[corners].sum(axis=1)).sum(axis=1) < 0


def _joined(parts: list[LocalMesh]) -> LocalMesh:
    first = np.cumsum([0] + [len(part.vertices) for part in parts])
    return LocalMesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate([part.faces + start for part, start in zip(parts, first, strict=False)]).astype(np.int32),
        np.concatenate([part.slots for part in parts]),
    )


def _cut(mesh: LocalMesh, chosen: np.ndarray, sheets: Sheets, sheet: int) -> tuple[LocalMesh, UInt8[np.ndarray, " V"]]:
    """The chosen faces of a mesh, all of one sheet, cut along lines of it; corners in one place become one."""
    faces, place, (rows, columns) = mesh.faces[chosen], sheets.place[sheet].reshape(2, 3), sheets.size[sheet].tolist()
    start = int(sheets.start[sheet])
    lumels = sheets.lumels[start : start + rows * columns].reshape(rows, columns).astype(np.float64)
    uv = mesh.uv[faces].astype(np.float64)
    at = uv @ place[:, :2].T.astype(np.float64) + place[:, 2]
    corners = [[tuple(c) for c in face] for face in np.concatenate([at, mesh.vertices[faces], uv], axis=2).tolist()]
    by_row, by_column = bends(lumels), bends(lumels.T)
    polygons = [
        cell
        for face in corners
        for strip in _slices(face, 0, by_row)
        for cell in _slices(strip, 1, by_column)
    ]  # fmt: skip
    flat = np.array([corner for polygon in polygons for corner in polygon])
    _, kept, number = np.unique(np.rint(flat[:, :2] / _SAME_LUMEL), axis=0, return_index=True, return_inverse=True)
    number, first, triangles = number.ravel(), 0, []
    for polygon in polygons:
        triangles += [(first, first + k, first + k + 1) for k in range(1, len(polygon) - 1)]
        first += len(polygon)
    cut = number[np.array(triangles)]
    cut = cut[(cut[:, 0] != cut[:, 1]) & (cut[:, 1] != cut[:, 2]) & (cut[:, 2] != cut[:, 0])]
    part = LocalMesh(
        flat[kept, 2:5].astype(np.float32),
        np.tile(mesh.normals[faces[0, 0]], (len(kept), 1)),
        flat[kept, 5:7].astype(np.float32),
        cut.astype(np.int32),
        np.full(len(cut), mesh.slots[chosen[0]], np.int32),
    )
    return part, np.rint(lumel_at(lumels, flat[kept, :2])).astype(np.uint8)


def bends(lumels: Float[np.ndarray, "R C"]) -> list[int]:
    """Rows inside a sheet between which all its columns change evenly, but for MOST_OFF levels."""
    found, start = [], 0
    for end in range(2, len(lumels)):
        share = ((np.arange(start + 1, end) - start) / (end - start))[:, None]
        even = lumels[start] + share * (lumels[end] - lumels[start])
        if np.abs(lumels[start + 1 : end] - even).max() > MOST_OFF:
            start = end - 1
            found.append(start)
    return found


def lumel_at(lumels: Float[np.ndarray, "R C"], at: Float[np.ndarray, "V 2"]) -> Float[np.ndarray, " V"]:
    """Light at rows and columns of a sheet, bilinear between lumels."""
    at = at.clip(0, np.array(lumels.shape) - 1)
    row, column = np.minimum(at.astype(np.int64), np.array(lumels.shape) - 2).T
    down, right = at[:, 0] - row, at[:, 1] - column
    upper = lumels[row, column] * (1 - right) + lumels[row, column + 1] * right
    lower = lumels[row + 1, column] * (1 - right) + lumels[row + 1, column + 1] * right
    return upper * (1 - down) + lower * down


def _slices(polygon: list[Corner], axis: int, lines: list[int]) -> list[list[Corner]]:
    """A convex polygon cut at lines of a coordinate."""
    pieces = []
    for line in lines:
        below, polygon = _halves(polygon, axis, line)
        if below:
            pieces.append(below)
        if not polygon:
            return pieces
    return [*pieces, polygon]


def _halves(polygon: list[Corner], axis: int, line: float) -> tuple[list[Corner], list[Corner]]:
    """The parts of a convex polygon below and above a line; one of them is empty if the other is all of it."""
    off = [corner[axis] - line for corner in polygon]
    if max(off) <= _SAME_LUMEL:
        return polygon, []
    if min(off) >= -_SAME_LUMEL:
        return [], polygon
    below, above = [], []
    for k, (corner, here) in enumerate(zip(polygon, off, strict=True)):
        before, there = polygon[k - 1], off[k - 1]
        if min(here, there) < -_SAME_LUMEL and max(here, there) > _SAME_LUMEL:
            share = there / (there - here)
            crossing = tuple(a + share * (b - a) for a, b in zip(before, corner, strict=True))
            below.append(crossing)
            above.append(crossing)
        if here <= _SAME_LUMEL:
            below.append(corner)
        if here >= -_SAME_LUMEL:
            above.append(corner)
    return below, above
