"""`build_scene` and `build_floor`: arrays for drawing and walking, made from a house and the furniture catalogue.

Axes: Q quads, F faces, I instances.
"""

from dataclasses import dataclass, replace
from math import cos, hypot, sin
from zlib import crc32

import numpy as np

from eqa.envs.annotations import Annotations, Edge, Region, Thing
from eqa.envs.house.catalog import CLASSES, QUERYABLE
from eqa.envs.house.house import House, HouseObject
from eqa.envs.house.room_graph import room_graph
from eqa.envs.house.shell import HORIZON_M, Part, shell_parts, texture_axes
from eqa.envs.navigation.floor import Floor
from eqa.envs.navigation.occupancy import dilate, fill_polygon, largest_component, mark_instances
from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.scene import Instances, Light, Materials, Meshes, Scene

_CLASS_ID = {name: number for number, name in enumerate(CLASSES)}
CLEARANCE_M = 0.25  # walks keep their middle this far from things where they can; an agent's radius is 0.1 m
_DARKEST_RGB = 46  # black paint sends back 3 % of light, so that faces differ
_SKY_SIZE_M = (9.0, 3.4)
_GLOWING = {"unlit": 1, "pane": 2}  # prefixes of materials, and their `Materials.unlit`


def build_scene(house: House, catalog: Catalog) -> Scene:
    """The house's own meshes and one instance for each part of the building and each object.

    ValueError where an object's model or category, or a room's surface, is not in the catalogue.
    """
    parts = shell_parts(house)
    materials: list[Materials] = []
    rows: list[tuple] = []  # mesh, rotation_scale, translation, first material, class, id, room, sphere
    num_materials = 0
    first_mesh = len(catalog.meshes.vertex_range)
    meshes = _part_meshes(parts, [_laying(house, part) for part in parts], catalog)
    for place, part in enumerate(parts):
        own = [_material(catalog, name, part) for name in part.materials]
        lo, hi = meshes.vertex_range[place]
        corners = meshes.vertices[lo:hi]
        centre = (corners.min(0) + corners.max(0)) / 2
        radius = float(np.sqrt(((corners - centre) ** 2).sum(1).max()))
        rows.append(
            (first_mesh + place, np.eye(3), np.zeros(3), num_materials, _CLASS_ID[part.class_name], 0, part.room,
             (*centre, radius))
        )  # fmt: skip
        materials += own
        num_materials += len(own)
    for thing in house.objects:
        row, own = _object(thing, catalog, num_materials)
        rows.append(row)
        materials.append(own)
        num_materials += len(own.texture)
    return Scene(house.id, meshes, _join(materials), _instances(rows), room_graph(house), catalog, Light())


def _material(catalog: Catalog, name: str, part: Part) -> Materials:
    try:
        material = catalog.surface_material(_surface_name(name))
    except ValueError as error:
        raise ValueError(f"rooms[{part.room}], {part.class_name}: {error}") from None
    kind = _GLOWING.get(name.partition(":")[0])
    return material if kind is None else replace(material, unlit=np.full_like(material.unlit, kind))


def _surface_name(name: str) -> str:
    """The surface or paint of a name among `Part.materials`."""
    kind, colon, surface = name.partition(":")
    return surface if colon and kind in _GLOWING else name


def _object(thing: HouseObject, catalog: Catalog, first_material: int) -> tuple[tuple, Materials]:
    model = catalog.models.get(thing.model)
    if model is None:
        raise ValueError(
            f"objects[{thing.id - 1}]: model {thing.model!r} is not in the catalogue; "
            "python scripts/make_houses.py makes houses from the models that there are"
        )
    if thing.category not in _CLASS_ID:
        raise ValueError(f"objects[{thing.id - 1}]: expected a category of catalog.CLASSES, got {thing.category!r}")
    c, s = cos(thing.heading_rad), sin(thing.heading_rad)
    scale = np.array(thing.size_m) / np.array(model.size_m) * ((-1 if thing.mirrored else 1), 1, 1)
    rotation_scale = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) * scale
    w, h, d = thing.size_m
    x, y, z = thing.position
    sphere = (x, y + h / 2, z, 0.5 * (w * w + h * h + d * d) ** 0.5)
    row = (
        model.mesh, rotation_scale, thing.position, first_material, _CLASS_ID[thing.category], thing.id, thing.room,
        sphere,
    )  # fmt: skip
    return row, catalog.materials(thing.model, thing.color if thing.recolored else None)


def _instances(rows: list[tuple]) -> Instances:
    mesh, rotation_scale, translation, material, class_id, instance_id, room, sphere = zip(*rows, strict=True)
    return Instances(
        mesh=np.array(mesh, np.int32),
        rotation_scale=np.array(rotation_scale, np.float32),
        translation=np.array(translation, np.float32),
        material=np.array(material, np.int32),
        class_id=np.array(class_id, np.int32),
        instance_id=np.array(instance_id, np.int32),
        room=np.array(room, np.int32),
        sphere=np.array(sphere, np.float32),
    )


def _join(materials: list[Materials]) -> Materials:
    rgb = np.concatenate([m.rgb for m in materials])
    lift = np.maximum(0, _DARKEST_RGB - rgb.max(axis=1, keepdims=True).astype(np.int64))
    return Materials(
        (rgb + lift).astype(np.uint8),
        np.concatenate([m.texture for m in materials]),
        np.concatenate([m.unlit for m in materials]),
    )


@dataclass(frozen=True, slots=True)
class _Laying:
    """The way in which a texture is laid: turned by 90 degrees, and moved by shares of its width and height."""

    turned: bool
    shift: tuple[float, float]


def _laying(house: House, part: Part) -> _Laying:
    """Planks run along the longer side of their room, and each room shows another part of a texture.

    Textures of walls stand on the floor, so they are moved sideways only; those of windows and doors stay.
    """
    if part.class_name not in ("floor", "wall") or part.room < 0:
        return _Laying(False, (0.0, 0.0))
    number = crc32(f"{house.id}/{part.room}".encode())
    across, along = number % 256 / 256, number // 256 % 256 / 256
    if part.class_name == "wall":
        return _Laying(False, (across, 0.0))
    xs, zs = zip(*house.rooms[part.room].polygon, strict=True)
    return _Laying(max(zs) - min(zs) > max(xs) - min(xs), (across, along))


def _part_meshes(parts: list[Part], laid: list[_Laying], catalog: Catalog) -> Meshes:
    """Quads of all parts as triangles, with flat normals and texture coordinates in metres along the world's axes."""
    quads = np.array([quad for part in parts for quad in part.quads], np.float64)  # Q 4 3
    slots = np.array([slot for part in parts for slot in part.slots], np.int32)
    counts = np.array([len(part.quads) for part in parts])
    normal = np.cross(quads[:, 1] - quads[:, 0], quads[:, 2] - quads[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    thin = length[:, 0] < 1e-12
    normal = np.where(thin[:, None], np.cross(quads[:, 2] - quads[:, 0], quads[:, 3] - quads[:, 0]), normal)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    uv = _texture_coordinates(parts, laid, quads, normal, catalog)
    corner = np.arange(len(quads), dtype=np.int32)[:, None] * 4
    faces = np.stack([corner + [0, 1, 2], corner + [0, 2, 3]], 1).reshape(-1, 3).astype(np.int32)
    is_face = (quads[:, 2] != quads[:, 3]).any(1)  # a triangle is a quad whose last corners coincide
    keep = np.stack([np.ones_like(is_face), is_face], 1).ravel()
    face_counts = np.add.reduceat(keep.reshape(-1, 2).sum(1), np.cumsum(counts) - counts)
    return Meshes(
        vertices=quads.reshape(-1, 3).astype(np.float32),
        normals=np.repeat(normal, 4, axis=0).astype(np.float32),
        uv=uv.reshape(-1, 2).astype(np.float32),
        faces=faces[keep],
        face_slot=np.repeat(slots, 2)[keep],
        vertex_range=_ranges(counts * 4),
        face_range=_ranges(face_counts),
    )


def _texture_coordinates(
    parts: list[Part], laid: list[_Laying], quads: np.ndarray, normal: np.ndarray, catalog: Catalog
) -> np.ndarray:
    sizes, lift = [], []
    for part in parts:
        names = [_surface_name(name) for name in part.materials]
        surfaces = [catalog.surface(name) for name in names]
        of_slot = [(1.0, 1.0) if s is None else _SKY_SIZE_M if s.kind == "sky" else s.size_m for s in surfaces]
        of_lift = [HORIZON_M if s is not None and s.kind == "sky" else 0.0 for s in surfaces]
        sizes += [of_slot[slot] for slot in part.slots]
        lift += [of_lift[slot] for slot in part.slots]
    first, second = texture_axes(normal)
    u = np.take_along_axis(quads, first[:, None, None], axis=2)[..., 0]
    v = np.take_along_axis(quads, second[:, None, None], axis=2)[..., 0]
    v = np.where((second == 2)[:, None], -v, v - np.array(lift)[:, None])
    counts = [len(part.quads) for part in parts]
    turned = np.repeat([way.turned for way in laid], counts)[:, None]
    shift = np.repeat([way.shift for way in laid], counts, axis=0)
    u, v = np.where(turned, v, u), np.where(turned, -u, v)
    size = np.array(sizes)
    return np.stack([u / size[:, :1] + shift[:, :1], v / size[:, 1:] + shift[:, 1:]], axis=2)


def _ranges(counts: np.ndarray) -> np.ndarray:
    ends = np.cumsum(counts)
    return np.stack([ends - counts, ends], 1).astype(np.int32)


def build_floor(
    house: House,
    scene: Scene,
    furniture: Meshes,
    *,
    resolution: int = 1000,
    radius_m: float = 0.1,
    bottom_m: float = 0.15,
    top_m: float = 1.0,
) -> Floor:
    """The floor of a house for a cylinder `top_m` high that stands on everything lower than `bottom_m`.

    The grid is the square around the house's rooms. `furniture` are the catalogue's meshes, which `scene` counts first.
    Heights and radius are House3D's. ValueError where no cell is left.
    """
    corners = np.concatenate([np.asarray(room.polygon, np.float64) for room in house.rooms])
    low, high = corners.min(axis=0), corners.max(axis=0)
    cell_m = float((high - low).max()) / resolution
    origin = (float(low[0]), float(low[1]))
    blocked = np.zeros((resolution, resolution), np.uint8)
    limits = {"origin": origin, "cell_m": cell_m, "bottom_m": bottom_m, "top_m": top_m}
    mark_instances(blocked, scene.instances, furniture, first_mesh=0, **limits)
    mark_instances(blocked, scene.instances, scene.meshes, first_mesh=len(furniture.face_range), **limits)
    free = np.zeros_like(blocked)
    for area in [room.polygon for room in house.rooms] + passages(house):
        fill_polygon(free, (np.asarray(area, np.float64) - origin) / cell_m)
    free &= dilate(blocked, radius_m / cell_m) ^ 1
    return Floor(house.id, origin, cell_m, largest_component(free))


def passages(house: House) -> list[list[tuple[float, float]]]:
    """The rectangle of floor inside each door and doorway; it joins rooms whose polygons leave the wall out."""
    areas = []
    for opening in house.openings:
        if opening.kind not in ("door", "doorway"):
            continue
        wall = house.walls[opening.wall]
        start, end = np.asarray(wall.start), np.asarray(wall.end)
        along = (end - start) / hypot(*(end - start))
        across = np.array([-along[1], along[0]]) * (wall.thickness_m / 2 + 0.02)
        a, b = (start + along * (opening.offset_m + side * opening.width_m / 2) for side in (-1, 1))
        areas.append([tuple(p) for p in (a - across, b - across, b + across, a + across)])
    return areas


def annotations(house: House) -> Annotations:
    """Rooms, objects with their footprints, walls and what is in them."""
    edges = [Edge("wall", wall.start, wall.end) for wall in house.walls]
    for opening in house.openings:
        wall = house.walls[opening.wall]
        (x, z), (to_x, to_z) = wall.start, wall.end
        length = hypot(to_x - x, to_z - z)
        reach = [opening.offset_m + side * opening.width_m / 2 for side in (-1, 1)]
        a, b = ((x + (to_x - x) / length * along, z + (to_z - z) / length * along) for along in reach)
        kind = opening.kind if opening.kind in ("window", "entrance") else "opening"
        edges.append(Edge(kind, a, b))
    things = tuple(
        Thing(
            thing.id,
            thing.category,
            tuple(thing.footprint()),
            color=thing.color,
            region=thing.room,
            low_m=thing.position[1],
            high_m=thing.position[1] + thing.size_m[1],
            asked=thing.category in QUERYABLE,
        )
        for thing in house.objects
    )
    regions = tuple(Region(room.type, tuple(room.polygon)) for room in house.rooms)
    return Annotations(house.id, regions, things, tuple(edges))
