"""`build_scene`: what the renderer draws of a city: plain shapes far away, and small things not at all.

A thing has one instance for each level. They share its class and instance id, and do not overlap in distance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import cos, inf, pi, sin

import numpy as np

from eqa.envs.annotations import PALETTE
from eqa.envs.city.assets import CityAssets, load_assets
from eqa.envs.city.catalog import MIDDLE
from eqa.envs.city.city import CLASSES, City, Prop, Rect
from eqa.envs.city.facades import draw_building, draw_shop, draw_sign
from eqa.envs.city.ground import FIELDS, draw_ground, grown
from eqa.envs.city.mesh_builder import MeshBuilder
from eqa.envs.city.shapes import FAR, SHAPES, SKIN
from eqa.envs.city.textures import SIGNS_EACH, sign_pictures
from eqa.envs.house.random_stream import Dice
from eqa.envs.rendering.assets import build_pyramids
from eqa.envs.rendering.scene import Instances, Materials, Scene

# Greatest distances, in metres, of the finest level, the middle one if there is one, and the last.
REACH_M = {
    "tree": (45.0, 45.0, inf), "street lamp": (35.0, 35.0, 160.0), "fountain": (200.0, 200.0, 200.0),
    "person": (28.0, 28.0, 130.0), "car": (16.0, 42.0, 320.0), "van": (18.0, 45.0, 320.0),
    "truck": (20.0, 45.0, 320.0), "bus": (38.0, 38.0, 320.0), "motorbike": (10.0, 50.0, 50.0),
}  # fmt: skip
SMALL_REACH_M = (9.0, 60.0, 60.0)
SIGN_REACH_M = 170.0
SHADOW_REACH_M = {"car": 60.0, "van": 60.0, "truck": 60.0, "bus": 60.0, "tree": 60.0, "person": 25.0}
SHADOWS = {True: (62, 63, 66), False: (134, 131, 126), None: (74, 110, 56)}  # on roads, pavements, grass
TROUSERS = ((50, 56, 74), (40, 40, 44), (96, 84, 70), (110, 112, 118), (70, 82, 110))
SKINS = (SKIN, (150, 104, 76), (238, 200, 172), (110, 74, 54), (196, 148, 112))
HAIRS = ((58, 42, 32), (26, 24, 24), (150, 112, 60), (120, 120, 118), (104, 60, 36))
OUTER_TREES = 170


@dataclass
class _Rows:
    """Instances and materials that grow; equal runs of materials are kept once."""

    assets: CityAssets
    instances: list[tuple] = field(default_factory=list)
    shown: list[tuple[float, float]] = field(default_factory=list)
    rgb: list[tuple[int, int, int]] = field(default_factory=list)
    texture: list[int] = field(default_factory=list)
    _first: dict[tuple, int] = field(default_factory=dict)

    def material(self, slots: Sequence[tuple[tuple[int, int, int], int]]) -> int:
        """Row of the first of some slots (colour, texture row)."""
        key = tuple(slots)
        if key not in self._first:
            self._first[key] = len(self.rgb)
            self.rgb += [rgb for rgb, _ in key]
            self.texture += [row for _, row in key]
        return self._first[key]

    def texture_row(self, name: str | None) -> int:
        return -1 if name is None else self.assets.texture[name]

    def named(self, slots: Sequence[tuple[tuple[int, int, int], str | None]]) -> int:
        return self.material([(tuple(rgb), self.texture_row(name)) for rgb, name in slots])

    def add(
        self, mesh: int, material: int, name: str, thing: int, *, at: tuple[float, float, float] = (0.0, 0.0, 0.0),
        turn_rad: float = 0.0, scale: tuple[float, float, float] = (1.0, 1.0, 1.0), shown: tuple[float, float] = (0.0, inf),
    ) -> None:  # fmt: skip
        if shown[0] < shown[1]:
            self.instances.append((mesh, material, CLASSES.index(name), thing, at, turn_rad, scale))
            self.shown.append(shown)


def build_scene(city: City) -> Scene:
    """The scene of a city; its signs are textures of its own."""
    assets = load_assets()
    builder, rows = MeshBuilder(), _Rows(assets)
    num_shared, num_shared_textures = len(assets.meshes.vertex_range), len(assets.textures.offset)
    count = 0

    def place(slots: list, name: str, thing: int) -> None:
        nonlocal count
        rows.add(num_shared + count, rows.named(slots), name, thing)
        count += 1

    draw_ground(builder, place, city)
    shops_of: dict[int, list] = {}
    for shop in city.shops:
        shops_of.setdefault(shop.building, []).append(shop)
    for k, building in enumerate(city.buildings):
        slots = draw_building(builder, building, shops_of.get(k, []))
        builder.end()
        place(slots, "building", building.id)
    for k, shop in enumerate(city.shops):
        slots = draw_shop(builder, shop)
        builder.end()
        place(slots, "shop", shop.id)
        builder_slots = _draw_sign(builder, shop, k, num_shared_textures)
        rows.add(num_shared + count, rows.material(builder_slots), "sign", shop.sign_id, shown=(0.0, SIGN_REACH_M))
        count += 1
    for prop in city.props:
        _add_prop(rows, prop)
    _add_outer_trees(rows, city.rect)
    meshes = builder.meshes()
    signs = build_pyramids(sign_pictures([(shop.name, shop.sign_color) for shop in city.shops])) if city.shops else None
    materials = Materials(
        np.array(rows.rgb, np.uint8), np.array(rows.texture, np.int32), np.zeros(len(rows.rgb), np.uint8)
    )
    shown = np.array(rows.shown, np.float32)
    return Scene(city.id, meshes, materials, _instances(rows, meshes), None, assets, textures=signs, shown_m=shown)


def _draw_sign(builder: MeshBuilder, shop, k: int, first_texture: int) -> list:

    draw_sign(builder, shop, k % SIGNS_EACH)
    builder.end()
    return [((255, 255, 255), first_texture + k // SIGNS_EACH), (PALETTE[shop.sign_color], -1)]


def _add_prop(rows: _Rows, prop: Prop) -> None:
    turn = prop.heading_rad + pi
    near, middle, far = REACH_M.get(prop.name, SMALL_REACH_M)
    _add_shadow(rows, prop)
    if prop.model in SHAPES:
        _add_shape(rows, prop, prop.model, (0.0, near if prop.model + FAR in SHAPES else far))
        if prop.model + FAR in SHAPES:
            _add_shape(rows, prop, prop.model + FAR, (near, far))
        return
    catalog = rows.assets.catalog
    has_middle = prop.model + MIDDLE in catalog.models
    for key, shown in ((prop.model, (0.0, near)), (prop.model + MIDDLE, (near, middle))):
        if key == prop.model or has_middle:
            model, painted = catalog.models[key], catalog.materials(key, prop.color)
            slots = [
                (tuple(rgb), texture)
                for rgb, texture in zip(painted.rgb.tolist(), painted.texture.tolist(), strict=True)
            ]
            end = shown[1] if has_middle or far <= middle else near
            scale = tuple(a / b for a, b in zip(prop.size_m, model.size_m, strict=True))
            rows.add(
                model.mesh, rows.material(slots), prop.name, prop.id, at=prop.position, turn_rad=turn, scale=scale,
                shown=(shown[0], end),
            )  # fmt: skip
    if far > middle:
        plain = "car far" if prop.name == "car" else "van far"
        _add_shape(rows, prop, plain, (middle if has_middle else near, far), scale=prop.size_m)


def _add_shape(
    rows: _Rows, prop: Prop, name: str, shown: tuple[float, float], scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> None:
    own = PALETTE[prop.color] if prop.color else (200, 200, 200)
    slots = [[own if rgb is None else rgb, texture] for rgb, texture in SHAPES[name].slots]
    if prop.name == "person":
        for place, options in ((1, TROUSERS), (2, SKINS), (3, HAIRS)):
            slots[place][0] = options[(prop.id * (3 + place)) % len(options)]
    if prop.name == "tree":
        size = 0.85 + 0.05 * (prop.id * 7 % 7)
        scale = (size, size, size)
        tint = 214 + prop.id * 5 % 42
        slots[1][0] = (tint, 255, tint - 20)
    mesh = rows.assets.shape_mesh[name]
    turn = prop.heading_rad + pi
    rows.add(
        mesh, rows.named([tuple(slot) for slot in slots]), prop.name, prop.id, at=prop.position, turn_rad=turn, scale=scale,
        shown=shown,
    )  # fmt: skip


def _add_shadow(rows: _Rows, prop: Prop) -> None:
    """A dark patch under a thing, which makes it stand on the ground."""
    if prop.name not in SHADOW_REACH_M:
        return
    on_road = prop.position[1] == 0.0
    grass = prop.name == "tree" and prop.model != "street tree"
    name = "square shadow" if on_road else "round shadow"
    width, _, depth = prop.size_m
    scale = (width * (1.06 if on_road else 0.8), 1.0, depth * (1.06 if on_road else 0.8))
    x, y, z = prop.position
    rgb = SHADOWS[None if grass else on_road]
    rows.add(
        rows.assets.shape_mesh[name], rows.named([(rgb, None)]), "road" if on_road else "grass" if grass else "sidewalk", 0,
        at=(x, y + 0.02, z), turn_rad=prop.heading_rad, scale=scale, shown=(0.0, SHADOW_REACH_M[prop.name]),
    )  # fmt: skip


def _add_outer_trees(rows: _Rows, rect: Rect) -> None:
    """Trees in the fields round the city, which are no things of it."""
    dice = Dice([round(abs(edge) * 10) for edge in rect])
    x0, z0, x1, z1 = grown(rect, FIELDS[0][0] - 4.0)
    slots = [((92, 70, 50), None), ((236, 255, 226), "leaves")]
    near, _, far = REACH_M["tree"]
    for _ in range(OUTER_TREES):
        x, z = dice.uniform(x0, x1), dice.uniform(z0, z1)
        if dice.chance(0.5):
            x = dice.pick((x0, x1)) + dice.uniform(-18, 18)
        else:
            z = dice.pick((z0, z1)) + dice.uniform(-18, 18)
        size, turn = dice.uniform(0.9, 1.5), dice.uniform(0, 6)
        for name, shown in (("broad tree", (0.0, near)), ("broad tree far", (near, far))):
            rows.add(
                rows.assets.shape_mesh[name], rows.named(slots), "tree", 0, at=(x, 0.0, z), turn_rad=turn,
                scale=(size, size, size), shown=shown,
            )  # fmt: skip


def _instances(rows: _Rows, own) -> Instances:
    mesh, material, class_id, thing, at, turn, scale = (list(column) for column in zip(*rows.instances, strict=True))
    c, s = np.array([cos(t) for t in turn]), np.array([sin(t) for t in turn])
    zero, one = np.zeros_like(c), np.ones_like(c)
    rotation = np.stack([np.stack([c, zero, s], 1), np.stack([zero, one, zero], 1), np.stack([-s, zero, c], 1)], axis=1)
    matrix = rotation * np.array(scale)[:, None, :]
    at = np.array(at)
    spheres = np.concatenate([_mesh_spheres(rows.assets.meshes), _mesh_spheres(own)])[mesh]
    middle = np.einsum("ijk,ik->ij", matrix, spheres[:, :3]) + at
    radius = spheres[:, 3] * np.array(scale).max(axis=1)
    return Instances(
        np.array(mesh, np.int32),
        matrix.astype(np.float32),
        at.astype(np.float32),
        np.array(material, np.int32),
        np.array(class_id, np.int32),
        np.array(thing, np.int32),
        np.full(len(mesh), -1, np.int32),
        np.column_stack([middle, radius + 1e-3]).astype(np.float32),
    )


def _mesh_spheres(meshes) -> np.ndarray:
    """(G, 4) bounding spheres of meshes."""
    spheres = np.zeros((len(meshes.vertex_range), 4))
    for g, (first, end) in enumerate(meshes.vertex_range):
        if end > first:
            points = meshes.vertices[first:end].astype(np.float64)
            middle = (points.min(axis=0) + points.max(axis=0)) / 2
            spheres[g] = *middle, np.linalg.norm(points - middle, axis=1).max()
    return spheres
