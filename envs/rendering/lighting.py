"""`light_of`: the light of a scene, baked once for both sides of every vertex of its placed meshes, and for walls.

A scene that asks for it (`Scene.light`) is lit by its panes, lamps and the sky, and darkened where surfaces are near
(`light_grid`). Its walls, floors and ceilings, which have few vertices, carry small images of light (`light_sheets`).
Light is baked when something first needs a scene's colours, and kept with the scene. Other scenes are lit by the
direction of surfaces alone.

Furniture has sheets and uneven winding, so only a view tells the side that it shows: the light of both is kept.

Axes: I instances, L lights (one per vertex of every instance), T triangles.
"""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, UInt8
from numba import njit

from eqa.envs.rendering.light_grid import LightGrid, brightness, fill_grid, level_at
from eqa.envs.rendering.light_sheets import Sheets, lay_sheets
from eqa.envs.rendering.scene import Instances, Materials, Meshes, Scene

_BACK_CELLS = 0.6  # this far behind a wall's face there is nothing to light
_BRIGHT = LightGrid(np.ones((2, 2, 2, 6), np.float32), np.ones((2, 2, 2), np.uint8), np.zeros(3), 1.0)


@dataclass(frozen=True, slots=True)
class Baked:
    """The light of a scene. 255 is full light."""

    light: UInt8[np.ndarray, "L 2"]  # of the side that a vertex's normal points to, and of the other
    sheets: Sheets  # of large flat surfaces among the scene's own meshes
    source: tuple[Meshes, Materials, Instances]  # of the scene that it was baked for


def light_of(scene: Scene) -> Baked:
    """The light of a scene; equal for equal scenes on any number of threads."""
    source = scene.meshes, scene.materials, scene.instances
    if scene.light is None:
        return Baked(vertex_light(scene, _BRIGHT), lay_sheets(scene.meshes, np.zeros(0, np.bool_), _BRIGHT), source)
    kept = scene.light.kept
    if kept is None or any(one is not other for one, other in zip(kept.source, source, strict=True)):
        grid = fill_grid(*surfaces(scene))
        sheets = lay_sheets(scene.meshes, placed_once(scene), grid)
        kept = scene.light.kept = Baked(vertex_light(scene, grid), sheets, source)
    return kept


def placed_once(scene: Scene) -> Bool[np.ndarray, " G"]:
    """True for each own mesh of which one instance is placed, as it is: its vertices lie in the world's coordinates."""
    items, num_shared = scene.instances, len(scene.assets.meshes.vertex_range)
    own = items.mesh - num_shared
    unmoved = (items.rotation_scale == np.eye(3)).all(axis=(1, 2)) & (items.translation == 0).all(axis=1) & (own >= 0)
    num_meshes = len(scene.meshes.vertex_range)
    return (np.bincount(own[own >= 0], minlength=num_meshes) == 1) & (
        np.bincount(own[unmoved], minlength=num_meshes) == 1
    )


def surfaces(scene: Scene) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arguments of `fill_grid`: every placed triangle, what it gives off, and the way to its back if it has one."""
    items, num_shared = scene.instances, len(scene.assets.meshes.vertex_range)
    has_back = (items.instance_id == 0) & (items.mesh >= num_shared)
    parts = []
    for is_own, meshes in ((False, scene.assets.meshes), (True, scene.meshes)):
        rows = np.flatnonzero((items.mesh >= num_shared) == is_own)
        mesh = items.mesh[rows] - num_shared * is_own
        total = int(np.diff(meshes.face_range, axis=1)[:, 0][mesh].sum())
        out = np.empty((total, 3, 3), np.float32), np.empty(total, np.uint8), np.zeros((total, 3), np.float32)
        _place_triangles(
            meshes.vertices, meshes.normals, meshes.faces, meshes.face_slot, meshes.face_range, mesh,
            items.rotation_scale[rows], items.translation[rows], items.material[rows], scene.materials.unlit,
            has_back[rows], *out,
        )  # fmt: skip
        parts.append(out)
    return tuple(np.concatenate(pair) for pair in zip(*parts, strict=True))


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _place_triangles(
    vertices, normals, faces, slot, face_range, mesh, rotation_scale, translation, material, unlit, has_back,
    triangles, kind, backed,
):  # fmt: skip
    t = 0
    for i in range(mesh.size):
        m = rotation_scale[i]
        for f in range(face_range[mesh[i], 0], face_range[mesh[i], 1]):
            for k in range(3):
                v = vertices[faces[f, k]]
                for axis in range(3):
                    triangles[t, k, axis] = (
                        m[axis, 0] * v[0] + m[axis, 1] * v[1] + m[axis, 2] * v[2] + translation[i, axis]
                    )
            kind[t] = unlit[material[i] + slot[f]]
            if has_back[i]:
                for axis in range(3):
                    backed[t, axis] = np.float32(-_BACK_CELLS) * normals[faces[f, 0], axis]
            t += 1


def vertex_light(scene: Scene, grid: LightGrid) -> UInt8[np.ndarray, "L 2"]:
    """Light of both sides of every vertex of every instance."""
    items, num_shared = scene.instances, len(scene.assets.meshes.vertex_range)
    ranges = np.concatenate([scene.assets.meshes.vertex_range, scene.meshes.vertex_range])[items.mesh]
    counts = ranges[:, 1] - ranges[:, 0]
    light = np.empty((int(counts.sum()), 2), np.uint8)
    start = np.cumsum(counts) - counts
    normal_matrix = np.swapaxes(np.linalg.inv(items.rotation_scale.astype(np.float64)), 1, 2)
    for is_own, meshes in ((False, scene.assets.meshes), (True, scene.meshes)):
        rows = np.flatnonzero((items.mesh >= num_shared) == is_own)
        bake_light(
            meshes.vertices, meshes.normals, meshes.vertex_range, items.mesh[rows] - num_shared * is_own,
            items.rotation_scale[rows], items.translation[rows], normal_matrix[rows], start[rows], grid, light,
        )  # fmt: skip
    return light


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def bake_light(
    vertices, normals, vertex_range, mesh, rotation_scale, translation, normal_matrix, start, grid, light
):  # fmt: skip
    """Fills `light` (L, 2) for both sides of every vertex of instances; see `brightness` and `level_at`."""
    for i in range(mesh.size):
        first, last = vertex_range[mesh[i], 0], vertex_range[mesh[i], 1]
        m, r = normal_matrix[i], rotation_scale[i]
        for v in range(first, last):
            x = m[0, 0] * normals[v, 0] + m[0, 1] * normals[v, 1] + m[0, 2] * normals[v, 2]
            y = m[1, 0] * normals[v, 0] + m[1, 1] * normals[v, 1] + m[1, 2] * normals[v, 2]
            z = m[2, 0] * normals[v, 0] + m[2, 1] * normals[v, 1] + m[2, 2] * normals[v, 2]
            scale = 1.0 / max(np.sqrt(x * x + y * y + z * z), 1e-12)
            x, y, z = x * scale, y * scale, z * scale
            px = r[0, 0] * vertices[v, 0] + r[0, 1] * vertices[v, 1] + r[0, 2] * vertices[v, 2] + translation[i, 0]
            py = r[1, 0] * vertices[v, 0] + r[1, 1] * vertices[v, 1] + r[1, 2] * vertices[v, 2] + translation[i, 1]
            pz = r[2, 0] * vertices[v, 0] + r[2, 1] * vertices[v, 1] + r[2, 2] * vertices[v, 2] + translation[i, 2]
            row = start[i] + v - first
            for side in range(2):
                level = min(1.0, brightness(x, y, z) * level_at(grid, px, py, pz, x, y, z))
                light[row, side] = np.uint8(255.0 * level + 0.5)
                x, y, z = -x, -y, -z
