"""`load_assets`: what all cities draw from: the street pack, the shapes of `shapes`, and the textures of `textures`."""

import functools
from dataclasses import dataclass

import numpy as np

from eqa.envs.city.catalog import load_street_catalog
from eqa.envs.city.mesh_builder import MeshBuilder
from eqa.envs.city.shapes import SHAPES
from eqa.envs.city.textures import pictures
from eqa.envs.rendering.assets import Catalog, build_pyramids
from eqa.envs.rendering.scene import Meshes, Textures


@dataclass(frozen=True, eq=False)
class CityAssets:
    """Implements `envs.rendering.scene.SharedAssets`: meshes and textures of the pack, then the city's own."""

    meshes: Meshes
    textures: Textures
    catalog: Catalog
    shape_mesh: dict[str, int]  # by name of a shape
    texture: dict[str, int]  # by name of a texture


@functools.cache
def load_assets() -> CityAssets:
    """The assets, made once in a process."""
    catalog, builder = load_street_catalog(), MeshBuilder()
    shape_mesh = {}
    for name, shape in SHAPES.items():
        shape.draw(builder)
        shape_mesh[name] = builder.end() + len(catalog.meshes.vertex_range)
    first = len(catalog.textures.offset)
    texture = {name: first + k for k, name in enumerate(pictures())}
    return CityAssets(
        _join_meshes(catalog.meshes, builder.meshes()),
        join_textures(catalog.textures, build_pyramids(list(pictures().values()))),
        catalog,
        shape_mesh,
        texture,
    )


def _join_meshes(one: Meshes, other: Meshes) -> Meshes:
    num_vertices, num_faces = np.int32(len(one.vertices)), np.int32(len(one.faces))
    return Meshes(
        np.concatenate([one.vertices, other.vertices]),
        np.concatenate([one.normals, other.normals]),
        np.concatenate([one.uv, other.uv]),
        np.concatenate([one.faces, other.faces + num_vertices]),
        np.concatenate([one.face_slot, other.face_slot]),
        np.concatenate([one.vertex_range, other.vertex_range + num_vertices]),
        np.concatenate([one.face_range, other.face_range + num_faces]),
        np.append(np.zeros(num_faces, np.bool_), other.one_sided),
    )


def join_textures(one: Textures, other: Textures) -> Textures:
    return Textures(
        np.concatenate([one.texels, other.texels]),
        np.concatenate([one.offset, other.offset + len(one.texels)]),
        np.concatenate([one.size_log2, other.size_log2]),
    )
