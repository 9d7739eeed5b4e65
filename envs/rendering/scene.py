"""The world state that the renderer and the navigation work on: every array with its meaning, unit and axes.

Furniture is instanced. One `Meshes` holds every catalogue model once; a house adds its own walls, floors and ceilings
as further meshes, and places meshes by `Instances`. So a house costs little memory, loads in milliseconds, and many
views share it.

Axes: V vertices, F faces, G meshes, I instances, M materials, R rooms, E edges, S solid pieces, P portals, T textures.
Metres, X right, Y up.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64, UInt8, UInt32

if TYPE_CHECKING:
    from eqa.envs.rendering.lighting import Baked


@dataclass(frozen=True, slots=True)
class Meshes:
    """Triangle meshes end to end. Indices in `faces` are absolute rows of `vertices`. Winding has no meaning.

    The front of a face is the side that its vertices' normals point to.
    """

    vertices: Float32[np.ndarray, "V 3"]
    normals: Float32[np.ndarray, "V 3"]  # unit length
    uv: Float32[np.ndarray, "V 2"]  # texture repeats; image row grows as v falls
    faces: Int32[np.ndarray, "F 3"]
    face_slot: Int32[np.ndarray, " F"]  # material slot inside its mesh: material = instance_material + slot
    vertex_range: Int32[np.ndarray, "G 2"]  # first and one past the last vertex of a mesh
    face_range: Int32[np.ndarray, "G 2"]
    # Faces whose back nobody can see, as of closed solids: it is not drawn. None: of all faces both sides are drawn.
    one_sided: Bool[np.ndarray, " F"] | None = None


@dataclass(frozen=True, slots=True)
class Textures:
    """Square mip pyramids, end to end in one array.

    Texture t is `1 << size_log2[t]` texels wide and high. Its levels follow one another from `offset[t]`: level 0 is
    the full size, each next level half as wide, the last is one texel. So with s = size_log2[t], level k starts at
    `offset[t] + (4**(s + 1) - 4**(s + 1 - k)) // 3`, and row r, column c of it lie `r * (1 << (s - k)) + c` further.
    Rows run downwards: v = 0 is below the last row, r = floor((1 - v) * rows), c = floor(u * columns), both modulo
    size. A texel is r | g << 8 | b << 16 | 255 << 24.
    """

    texels: UInt32[np.ndarray, " P"]
    offset: Int64[np.ndarray, " T"]
    size_log2: Int32[np.ndarray, " T"]


@runtime_checkable
class SharedAssets(Protocol):
    """Models and textures that many scenes draw from; `envs.rendering.assets.Catalog` is one."""

    meshes: Meshes
    textures: Textures


@dataclass(frozen=True, slots=True)
class Materials:
    """Flat or textured surfaces. Colour shown = (texel or white) * rgb * light."""

    rgb: UInt8[np.ndarray, "M 3"]
    texture: Int32[np.ndarray, " M"]  # row in the catalogue's textures, -1 for none
    unlit: UInt8[np.ndarray, " M"]  # 1: drawn at full brightness (lamps); 2: shows the outside (panes)


@dataclass(frozen=True, slots=True)
class Instances:
    """Placed meshes: objects, and each room's floor, ceiling and walls."""

    mesh: Int32[np.ndarray, " I"]
    rotation_scale: Float32[np.ndarray, "I 3 3"]  # world = rotation_scale @ model + translation
    translation: Float32[np.ndarray, "I 3"]
    material: Int32[np.ndarray, " I"]  # row of the mesh's slot 0 in `Materials`
    class_id: Int32[np.ndarray, " I"]  # index into the world's list of classes
    instance_id: Int32[np.ndarray, " I"]  # HouseObject.id, 0 for the building itself
    room: Int32[np.ndarray, " I"]  # -1 for outside
    sphere: Float32[np.ndarray, "I 4"]  # bounding sphere in the world: centre x, y, z and radius


@dataclass(frozen=True, slots=True)
class Rooms:
    """Rooms and the portals between them, in plan coordinates (x, z), on the centre lines of walls."""

    edge: Float32[np.ndarray, "E 4"]  # outlines: x, z of one end, x, z of the other
    edge_range: Int32[np.ndarray, "R 2"]
    solid: Float32[np.ndarray, "S 4"]  # walls between their holes, ends as in `edge`
    portal: Float32[np.ndarray, "P 6"]  # upright holes: x, z of one end, x, z of the other, bottom, top
    portal_rooms: Int32[np.ndarray, "P 2"]  # on the left and right of the way from one end to the other
    sees_out: Bool[np.ndarray, " R"]  # over a low wall, or through a hole to the outside
    height_m: float  # of full walls and of ceilings
    wall_m: float  # thickness of the thickest wall


@dataclass(slots=True, eq=False)
class Light:
    """A scene's wish for light from its own panes and lamps. `lighting.light_of` bakes it once and keeps it here."""

    kept: "Baked | None" = None


@dataclass(frozen=True, slots=True)
class Scene:
    """Something to draw and to walk in.

    `meshes` holds the scene's own meshes only; `instances.mesh` counts the meshes of `assets` first and the scene's own
    after them. `materials.texture` counts textures in the same way. No room hides another in a scene without `rooms`. A
    scene without `assets` can be walked in, not drawn.
    """

    scene_id: str
    meshes: Meshes
    materials: Materials
    instances: Instances
    rooms: Rooms | None = None
    assets: SharedAssets | None = None
    light: Light | None = None  # None: the direction of a surface alone tells its brightness
    textures: Textures | None = None  # the scene's own, such as signs
    # Distances of the camera from an instance's box, least and greatest, between which it is drawn.
    # None: all are drawn at any distance.
    shown_m: Float32[np.ndarray, "I 2"] | None = None


def nearest_level(scene: Scene) -> Scene:
    """The scene with every instance at its finest level of detail, at any distance."""
    if scene.shown_m is None:
        return scene
    rows = np.flatnonzero(scene.shown_m[:, 0] == 0)
    kept = Instances(*(getattr(scene.instances, name)[rows] for name in Instances.__dataclass_fields__))
    return replace(scene, instances=kept, shown_m=None)
