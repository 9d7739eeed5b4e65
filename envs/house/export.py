"""`house_glb`: a furnished house as a binary glTF file, in the coordinates that everything else here uses.

glTF has our axes (metres, right-handed, Y up), so positions are written unchanged. Two things differ: v grows
downwards there, and colour factors are linear light. So v is mirrored, and every colour is a texture, paint as one of a
single texel. Tints are then exactly ours, both in viewers that convert colours and in viewers that do not.

Our renderer multiplies sRGB texels by the light, glTF multiplies linear ones. A share f of light is written as f made
linear, which shows what we show to within 2.4 levels of 255 on average, 8 at most, of all texels and light above 0.2.

Axes: V vertices, I instances.
"""

import functools
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from eqa.envs.house.catalog import ASSETS, CLASSES
from eqa.envs.house.export_meshes import LocalMesh, light_by_instance, lit_mesh, local_mesh
from eqa.envs.house.generator import HUMAN_HOMES
from eqa.envs.house.house import House
from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.gltf import Glb
from eqa.envs.rendering.lighting import light_of
from eqa.envs.rendering.scene import Scene

GENERATOR = "eqa envs.house.export"
COPYRIGHT = "Furniture and textures: Sweet Home 3D libraries, CC0 and CC BY 3.0, changed; authors: ATTRIBUTION.md"


@dataclass(frozen=True, slots=True)
class Label:
    """The name of an instance. Objects keep their id; parts of the building count on behind the last object."""

    id: int
    category: str
    room: int  # -1 for outside
    name: str  # "12_sofa_red", "80_wall_kitchen"
    extras: dict[str, object]  # custom properties of its node


def house_glb(
    house: House, scene: Scene, catalog: Catalog, *, relightable: bool = False, for_habitat: bool = False
) -> bytes:
    """A node for each object and part of the building, below a node for its room; equal things share their vertices.

    Materials are unlit and vertex colours hold the scene's light, as linear shares. A `relightable` house has neither:
    it waits for the lamps of a viewer. `for_habitat` suits a flat shader that converts no colours and culls even
    double-sided materials: shares are those of sRGB, and all faces come a second time, turned round.
    """
    glb = Glb(GENERATOR, COPYRIGHT)
    writer = _SceneWriter(glb, scene, catalog, relightable, for_habitat)
    placed = [{"mesh": writer.mesh(i), **_placement(scene, i)} for i in range(len(scene.instances.mesh))]
    return glb.to_bytes(room_nodes(glb, house, labels(house, scene), placed))


def linear(share: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Linear light of sRGB values, 0 to 1 (IEC 61966-2-1)."""
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def check_id(house: House) -> None:
    """ValueError for a house whose id is no file name."""
    if Path(house.id).name != house.id:
        raise ValueError(f"house id: expected a file name without folders, got {house.id!r}; rename it in its file")


def credits_of(house: House) -> dict[str, str]:
    """Authors and licences of a house's furniture, and of the house if people designed it: texts by file names."""
    credits = {"ATTRIBUTION.md": ASSETS}
    if (HUMAN_HOMES / f"{house.id}.json").is_file():
        credits["ATTRIBUTION.homes.md"] = HUMAN_HOMES
    return {name: (source / "ATTRIBUTION.md").read_text(encoding="utf-8") for name, source in credits.items()}


def labels(house: House, scene: Scene) -> list[Label]:
    """One label for each instance of the scene, in their order. Ids and names are unique in a house."""
    found, last = [], len(house.objects)
    items = scene.instances
    for instance_id, class_id, room in zip(items.instance_id, items.class_id, items.room, strict=True):
        category, room = CLASSES[class_id], int(room)
        room_type = house.rooms[room].type if room >= 0 else "outside"
        extras = {"category": category, "room": room, "room_type": room_type}
        if instance_id:
            number, thing = int(instance_id), house.objects[instance_id - 1]
            words = [category, thing.color]
            extras |= {"color": thing.color, "model": thing.model, "on": thing.on}
        else:
            last += 1
            number, words = last, [category, room_type]
        name = "_".join([str(number), *(word.replace(" ", "_") for word in words if word)])
        found.append(Label(number, category, room, name, {"id": number, **extras}))
    return found


def room_nodes(glb: Glb, house: House, named: list[Label], placed: list[dict]) -> list[int]:
    """Adds a node for each label with the fields in `placed`, and one above them for each room; returns the latter."""
    children: dict[int, list[int]] = {}
    for label, fields in zip(named, placed, strict=True):
        children.setdefault(label.room, []).append(glb.add_node(name=label.name, extras=label.extras, **fields))
    roots = []
    for room, nodes in sorted(children.items()):
        kind = house.rooms[room].type if room >= 0 else "outside"
        name = f"room_{room}_{kind.replace(' ', '_')}" if room >= 0 else kind
        roots.append(glb.add_node(name=name, extras={"room": room, "room_type": kind}, children=nodes))
    return roots


def _placement(scene: Scene, instance: int) -> dict[str, list[float]]:
    """A node's matrix, column after column; nothing where the mesh lies in the world's coordinates already."""
    matrix = np.eye(4)
    matrix[:3, :3] = scene.instances.rotation_scale[instance]
    matrix[:3, 3] = scene.instances.translation[instance]
    return {} if (matrix == np.eye(4)).all() else {"matrix": matrix.T.ravel().tolist()}


class _SceneWriter:
    """Writer that adds meshes, materials and textures to a file, each once."""

    def __init__(self, glb: Glb, scene: Scene, catalog: Catalog, relightable: bool, for_habitat: bool) -> None:
        self._glb, self._scene, self._catalog = glb, scene, catalog
        self._num_shared = len(catalog.meshes.vertex_range)
        self._names = {model.mesh: key for key, model in catalog.models.items()}
        self._baked = None if relightable else light_of(scene)
        self._light = None if self._baked is None else light_by_instance(scene, catalog, self._baked)
        shares = np.arange(256) / 255
        self._colours = np.rint(255 * (shares if for_habitat else linear(shares))).astype(np.uint8)
        self._both_sides = for_habitat
        self._geometry: dict[int, tuple[dict[str, int], dict[int, int]]] = {}
        self._textures: dict[tuple, int] = {}
        self._materials: dict[tuple, int] = {}
        self._meshes: dict[tuple, int] = {}

    def mesh(self, instance: int) -> int:
        """The mesh of an instance in its own materials and light."""
        row, first = int(self._scene.instances.mesh[instance]), int(self._scene.instances.material[instance])
        light = self._light[instance] if self._light else None
        if row >= self._num_shared and light is not None:
            mesh, light = lit_mesh(self._scene, self._catalog, row, light, self._baked.sheets)
            self._geometry[row] = self._add_geometry(row, mesh)
        elif row not in self._geometry:
            self._geometry[row] = self._add_geometry(row, local_mesh(self._scene, self._catalog, row))
        attributes, indices = self._geometry[row]
        glows = {slot: bool(self._scene.materials.unlit[first + slot]) for slot in indices}
        lit = attributes
        if light is not None and not all(glows.values()):
            lit = {**attributes, "COLOR_0": self._glb.add_vertices(self._rgba(light))}
        painted = [(slot, accessor, self._material(first + slot)) for slot, accessor in indices.items()]
        key = (row, lit.get("COLOR_0"), *(material for *_, material in painted))
        if key not in self._meshes:
            primitives = [
                {"attributes": attributes if glows[slot] else lit, "indices": accessor, "material": material}
                for slot, accessor, material in painted
            ]
            name = self._names.get(row, f"part_{row - self._num_shared}")
            self._meshes[key] = self._glb.add_mesh(name, primitives)
        return self._meshes[key]

    def _rgba(self, light: UInt8[np.ndarray, " V"]) -> UInt8[np.ndarray, "V 4"]:
        """Vertex colours of full opacity. Four bytes a vertex are aligned, three are not."""
        rgba = np.full((len(light), 4), 255, np.uint8)
        rgba[:, :3] = self._colours[light][:, None]
        return rgba

    def _add_geometry(self, row: int, mesh: LocalMesh) -> tuple[dict[str, int], dict[int, int]]:
        """Accessors of the vertices, and of the faces of each slot."""
        attributes = {
            "POSITION": self._glb.add_vertices(mesh.vertices, bounds=True),
            "NORMAL": self._glb.add_vertices(mesh.normals),
            "TEXCOORD_0": self._glb.add_vertices(mesh.uv * [1, -1] + [0, 1]),
        }
        indices = {}
        for slot in np.unique(mesh.slots).tolist():
            faces = mesh.faces[mesh.slots == slot]
            indices[slot] = self._glb.add_indices(
                np.concatenate([faces, faces[:, ::-1]]) if self._both_sides else faces
            )
        return attributes, indices

    def _material(self, row: int) -> int:
        source = self._scene.materials
        rgb, texture = tuple(source.rgb[row].tolist()), int(source.texture[row])
        unlit = self._baked is not None or bool(source.unlit[row])
        key = (rgb, texture, unlit)
        if key not in self._materials:
            name = "_".join([f"#{bytes(rgb).hex()}", *([f"texture_{texture}"] if texture >= 0 else [])])
            if (rgb, texture) not in self._textures:
                image = _png(self._catalog, texture, rgb)
                self._textures[rgb, texture] = self._glb.add_texture(image, name)
            name += "_unlit" if unlit else ""
            self._materials[key] = self._glb.add_material(name, self._textures[rgb, texture], unlit=unlit)
        return self._materials[key]


@functools.lru_cache(maxsize=512)  # houses share most of their surfaces
def _png(catalog: Catalog, texture: int, rgb: tuple[int, ...]) -> bytes:
    """A texture in full size, tinted as the renderer tints it; for -1 a single texel of the colour."""
    if texture < 0:
        image = np.array([[rgb]], np.uint8)
    else:
        pixels, side = catalog.textures, 1 << int(catalog.textures.size_log2[texture])
        packed = pixels.texels[pixels.offset[texture] :][: side * side].reshape(side, side, 1)
        tint = np.array(rgb, np.uint32)
        image = (((packed >> np.array([0, 8, 16], np.uint32)) & 255) * (tint + (tint >> 7)) >> 8).astype(np.uint8)
    with io.BytesIO() as file:
        Image.fromarray(image).save(file, "PNG", compress_level=4)
        return file.getvalue()
