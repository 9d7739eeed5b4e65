"""`prepare_meshes`: a mesh set in the layout of the rasteriser's kernels: coordinates apart, quads as one face, boxes.

Axes: V vertices, F faces, G meshes.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Int32
from numba import njit

from eqa.envs.rendering.scene import Meshes


def prepare_meshes(meshes: Meshes, face_sheet: Int32[np.ndarray, " F"] | None = None) -> dict[str, np.ndarray]:
    """A mesh set in the layout of `World`: faces relative to their mesh, two triangles as a quad if it looks the same.

    `face_sheet`: the sheet of light of each face, the same for two triangles that look the same; -1 for none. Meshes
    and their faces stand in order and without gaps, as `Meshes` requires. ValueError for a face that leaves its mesh.
    """
    counts = np.diff(meshes.face_range, axis=1)[:, 0]
    faces = np.ascontiguousarray(meshes.faces - np.repeat(meshes.vertex_range[:, 0], counts)[:, None], np.int32)
    if (faces < 0).any() or (faces >= np.repeat(np.diff(meshes.vertex_range, axis=1)[:, 0], counts)[:, None]).any():
        raise ValueError("meshes.faces: expected rows inside the vertex range of the face's mesh, got one outside")
    max_slot = np.zeros(len(counts), np.int64)
    for g, (begin, end) in enumerate(meshes.face_range):
        max_slot[g] = meshes.face_slot[begin:end].max(initial=0)
    inward = np.empty(len(faces), np.bool_)
    _face_inward(meshes.vertices, meshes.normals, meshes.faces, inward)
    ends_quad = np.zeros(len(faces) + 1, np.bool_)
    starts = np.zeros(len(faces) + 1, np.bool_)
    starts[meshes.face_range[:, 0]] = True
    _pair_faces(meshes.vertices, meshes.normals, meshes.uv, meshes.faces, meshes.face_slot, starts, ends_quad)
    kept, fourth = ~ends_quad[:-1], np.where(ends_quad[1:], np.roll(faces[:, 2], -1), faces[:, 2])
    return {
        "xyz": np.ascontiguousarray(meshes.vertices.T),
        "uv": meshes.uv,
        "faces": np.column_stack([faces, fourth])[kept],
        "face_slot": meshes.face_slot[kept],
        "face_sheet": np.full(kept.sum(), -1, np.int32) if face_sheet is None else face_sheet[kept],
        "face_inward": inward[kept],
        "one_sided": np.zeros(kept.sum(), np.bool_) if meshes.one_sided is None else meshes.one_sided[kept],
        "vertex_range": meshes.vertex_range.astype(np.int64),
        "face_range": np.append(0, np.cumsum(kept))[meshes.face_range].astype(np.int64),
        "box": _boxes(meshes),
        "max_slot": max_slot,
    }


def _boxes(meshes: Meshes) -> np.ndarray:
    """(G, 6) float32: centre and half size, a little too large."""
    box = np.zeros((len(meshes.vertex_range), 6), np.float32)
    for g, (begin, end) in enumerate(meshes.vertex_range):
        if end > begin:
            low, high = meshes.vertices[begin:end].min(axis=0), meshes.vertices[begin:end].max(axis=0)
            box[g] = *((low + high) / 2), *((high - low) / 2 * np.float32(1.00001) + np.float32(1e-6))
    return box


@njit(cache=True, error_model="numpy")
@no_type_check
def _face_inward(vertices, normals, faces, out):
    """out[f] = True if the cross product of face f's edges points against its vertex normals."""
    for f in range(faces.shape[0]):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        x, y, z = _cross(_step(vertices, a, b), _step(vertices, a, c))
        nx = normals[a, 0] + normals[b, 0] + normals[c, 0]
        ny = normals[a, 1] + normals[b, 1] + normals[c, 1]
        nz = normals[a, 2] + normals[b, 2] + normals[c, 2]
        out[f] = x * nx + y * ny + z * nz < 0


@njit(cache=True, error_model="numpy")
@no_type_check
def _pair_faces(vertices, normals, uv, faces, slot, starts, out):
    """out[f] = True if faces f - 1 and f of one mesh are drawn as one; `starts` are the first faces of meshes."""
    for f in range(1, faces.shape[0]):
        a, b, c, d = faces[f, 0], faces[f - 1, 1], faces[f, 1], faces[f, 2]
        follows = faces[f - 1, 0] == a and faces[f - 1, 2] == c and slot[f] == slot[f - 1]
        if follows and not out[f - 1] and not starts[f]:
            out[f] = _is_flat_quad(vertices, normals, uv, a, b, c, d)


@njit(cache=True, error_model="numpy")
@no_type_check
def _is_flat_quad(vertices, normals, uv, a, b, c, d):
    """True if a, b, c, d make a flat convex quad that is lit and textured like a triangle through a, b, c."""
    ab, ac, ad = _step(vertices, a, b), _step(vertices, a, c), _step(vertices, a, d)
    bc, cd = _step(vertices, b, c), _step(vertices, c, d)
    normal, other = _cross(ab, ac), _cross(ac, ad)
    size = _dot(normal, normal)
    if not (size > 1e-18 and size > 0.01 * _dot(other, other)):
        return False
    turns = min(_dot(_cross(ab, bc), normal), _dot(_cross(bc, cd), normal))
    turns = min(turns, min(_dot(_cross(ad, cd), normal), _dot(_cross(ab, ad), normal)))
    off_plane_m = abs(_dot(normal, ad)) / np.sqrt(size)
    if turns < 1e-4 * size or off_plane_m > 1e-6 * np.sqrt(max(_dot(ab, ab), _dot(ac, ac))):
        return False
    along_b, along_c = _dot(_cross(ad, ac), normal) / size, _dot(_cross(ab, ad), normal) / size
    same = True
    for k in range(3):
        same &= normals[b, k] == normals[a, k] and normals[c, k] == normals[a, k] and normals[d, k] == normals[a, k]
    for k in range(2):
        at = uv[a, k] + along_b * (uv[b, k] - uv[a, k]) + along_c * (uv[c, k] - uv[a, k])
        same &= abs(at - uv[d, k]) < 1e-4
    return same


@njit(cache=True, error_model="numpy")
@no_type_check
def _step(vertices, a, b):
    return (
        np.float64(vertices[b, 0]) - np.float64(vertices[a, 0]),
        np.float64(vertices[b, 1]) - np.float64(vertices[a, 1]),
        np.float64(vertices[b, 2]) - np.float64(vertices[a, 2]),
    )


@njit(cache=True, error_model="numpy")
@no_type_check
def _cross(u, v):
    return u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]


@njit(cache=True, error_model="numpy")
@no_type_check
def _dot(u, v):
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
