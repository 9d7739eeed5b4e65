"""`write_house`: a house as GLB and as the stage of a scene data set that habitat-sim reads, with its semantics.

The semantics take the form of HM3D: a mesh whose vertex colours stand for instances, and a text that names them. The
files follow habitat-sim's readers at commit 57ee494: `HM3DSemanticScene.cpp` for the text,
`GenericSemanticMeshData.cpp` for the mesh, `StageAttributesManager.cpp` and `SceneDatasetAttributesManager.cpp` for the
configurations.

Axes: V vertices, F faces.
"""

import json
from pathlib import Path

import numpy as np

from eqa.envs.files import atomic_write
from eqa.envs.habitat.settings import STAGE
from eqa.envs.house.build import build_scene
from eqa.envs.house.export import (
    COPYRIGHT,
    GENERATOR,
    Label,
    check_id,
    credits_of,
    house_glb,
    labels,
    linear,
    room_nodes,
)
from eqa.envs.house.export_meshes import local_mesh
from eqa.envs.house.house import House
from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.gltf import Glb
from eqa.envs.rendering.scene import Scene

DATASET = "eqa.scene_dataset_config.json"
_SPREAD = 0x9E3779  # odd, so that multiples of it are different for all ids of 24 bits
_UP, _FRONT = [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]


def write_house(house: House, folder: Path, catalog: Catalog, *, relightable: bool = False) -> list[Path]:
    """Writes all files of a house into `folder`, and those that its houses share; returns the paths, GLB first.

    `relightable`: the first GLB comes without our light, for the lamps of a viewer. The stage has our light anyway.
    ValueError for a house whose id is no file name.
    """
    check_id(house)
    scene = build_scene(house, catalog)
    named = labels(house, scene)
    contents = {
        f"{house.id}.glb": house_glb(house, scene, catalog, relightable=relightable),
        f"{house.id}.stage.glb": house_glb(house, scene, catalog, for_habitat=True),
        f"{house.id}.semantic.glb": semantic_glb(house, scene, catalog),
        f"{house.id}.semantic.txt": semantic_text(named).encode(),
        f"{house.id}{STAGE}": _json(stage_config(house.id)),
        DATASET: _json({"stages": {"paths": {".json": [f"*{STAGE}"]}}}),
        **{name: text.encode() for name, text in credits_of(house).items()},
    }
    for name, content in contents.items():
        with atomic_write(folder / name) as aside:
            aside.write_bytes(content)
    return [folder / name for name in contents]


def semantic_color(instance_id: int) -> tuple[int, int, int]:
    """The sRGB colour that stands for an instance: another for each, neighbours far apart, black for 0 alone."""
    mixed = instance_id * _SPREAD & 0xFFFFFF
    return mixed >> 16, mixed >> 8 & 255, mixed & 255


def semantic_text(named: list[Label]) -> str:
    """HM3D's list of instances: id, colour, category and room."""
    lines = [f'{one.id},{bytes(semantic_color(one.id)).hex().upper()},"{one.category}",{one.room}' for one in named]
    return "\n".join(["HM3D Semantic Annotations", *lines]) + "\n"


def semantic_glb(house: House, scene: Scene, catalog: Catalog) -> bytes:
    """The house in world coordinates, each instance in its colour; nodes are named as in `house_glb`.

    Faces show both sides, as habitat-sim culls back faces. Vertex colours are linear light, which it turns into sRGB.
    """
    glb = Glb(GENERATOR, COPYRIGHT)
    named = labels(house, scene)
    placed = []
    for i, label in enumerate(named):
        mesh = local_mesh(scene, catalog, int(scene.instances.mesh[i]))
        turn, shift = scene.instances.rotation_scale[i], scene.instances.translation[i]
        vertices = (mesh.vertices.astype(np.float64) @ turn.T.astype(np.float64) + shift).astype(np.float32)
        sides = [mesh.faces, mesh.faces[:, ::-1]]
        attributes = {
            "POSITION": glb.add_vertices(vertices, bounds=True),
            "COLOR_0": glb.add_vertices(np.tile(linear(np.array(semantic_color(label.id)) / 255), (len(vertices), 1))),
        }
        indices = glb.add_indices(np.concatenate([*sides, _links(vertices, mesh.faces)]))
        placed.append({"mesh": glb.add_mesh(label.name, [{"attributes": attributes, "indices": indices}])})
    return glb.to_bytes(room_nodes(glb, house, named, placed))


def _links(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Triangles without area that join the outermost vertices along each axis.

    habitat-sim takes the bounding box of an object from the largest connected piece of its colour. Joined by these
    triangles, that piece is the whole object.
    """
    used = np.unique(faces)
    ends = used[np.concatenate([vertices[used].argmin(0), vertices[used].argmax(0)])]
    return np.stack([ends[:-1], ends[:-1], ends[1:]], axis=1)


def stage_config(house_id: str) -> dict[str, object]:
    """The configuration of a stage for habitat-sim. Axes are written out, as a GLB alone counts as having Z up."""
    return {
        "render_asset": f"{house_id}.stage.glb",
        "collision_asset": f"{house_id}.stage.glb",
        "semantic_asset": f"{house_id}.semantic.glb",
        "semantic_descriptor_filename": f"{house_id}.semantic.txt",
        "has_semantic_textures": False,
        "up": _UP,
        "front": _FRONT,
        "semantic_up": _UP,
        "semantic_front": _FRONT,
        "origin": [0.0, 0.0, 0.0],
        "units_to_meters": 1.0,
        "force_flat_shading": True,
    }


def _json(document: dict) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
