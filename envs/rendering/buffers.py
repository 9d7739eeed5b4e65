"""Buffers of the rasteriser's kernels: loaded scenes as one `World`, working memory as one `Scratch`.

Axes: S scenes, V vertices, F faces, G meshes, I instances, M materials, T textures, P texels, L lights (one per vertex
of every instance), K sheets of light, N lumels, R rooms (in `World`) or records (triangles drawn in a view), E edges,
C solid pieces, O openings,
H W image, TH TW its tiles.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from eqa.envs.rendering.light_sheets import Sheets, paired_lumels
from eqa.envs.rendering.lighting import light_of
from eqa.envs.rendering.meshes import prepare_meshes
from eqa.envs.rendering.room_culling import MAX_ROOMS, NO_ROOMS, rooms_of_instances
from eqa.envs.rendering.scene import Scene, SharedAssets, Textures

PAD = 16  # spare elements at the end, for loops over whole vector registers
TILE = 8  # pixels; the depth test of whole objects and small triangles looks at the farthest depth of such squares


class World(NamedTuple):
    """Everything that can be drawn. Rows of all scenes stand end to end; `scene_range` gives each scene's."""

    xyz: np.ndarray  # (3, V) float32
    uv: np.ndarray  # (V, 2) float32
    faces: (
        np.ndarray
    )  # (F, 4) int32, relative to the mesh's first vertex: convex and flat, a triangle's third corner twice
    face_slot: np.ndarray  # (F,) int32
    face_sheet: np.ndarray  # (F,) int32: sheet with the light of the face's front, -1 for none
    face_inward: np.ndarray  # (F,) bool: the winding points against the vertex normals
    one_sided: np.ndarray  # (F,) bool: the back is not drawn
    vertex_range: np.ndarray  # (G, 2) int64
    face_range: np.ndarray  # (G, 2) int64
    box: np.ndarray  # (G, 6) float32: centre, half size
    scene_range: np.ndarray  # (S, 2) int64: instances
    mesh: np.ndarray  # (I,) int64
    rotation_scale: np.ndarray  # (I, 3, 3) float64
    translation: np.ndarray  # (I, 3) float64
    mirrored: np.ndarray  # (I,) bool
    material: np.ndarray  # (I,) int64
    class_id: np.ndarray  # (I,) uint8
    instance_id: np.ndarray  # (I,) uint16
    sphere: np.ndarray  # (4, I) float64: centre, radius
    bounds: np.ndarray  # (I, 6) float64: least and greatest corner in the world
    shown: np.ndarray  # (I, 2) float64: squares of the distances of `bounds` from which on and below which it is drawn
    light_start: np.ndarray  # (I,) int64
    light: np.ndarray  # (L, 2) uint8: of the side that the normal points to, and of the other
    sheet_place: np.ndarray  # (K, 6) float32: see `Sheets`
    sheet_size: np.ndarray  # (K, 2) int32
    sheet_start: np.ndarray  # (K,) int64
    lumels: np.ndarray  # (N + S,) uint16: see `paired_lumels`
    room_bits: np.ndarray  # (I,) uint64: rooms that the instance reaches into, counted from its scene's first
    room_range: np.ndarray  # (S, 2) int64: rooms; none for a scene whose rooms are not known
    edge_range: np.ndarray  # (R, 2) int64
    edge: np.ndarray  # (E, 4) float32: outlines of rooms in the plan
    sees_out: np.ndarray  # (R,) bool
    solid_range: np.ndarray  # (S, 2) int64
    solid: np.ndarray  # (C, 4) float32: walls between their holes
    portal_range: np.ndarray  # (S, 2) int64
    portal: np.ndarray  # (O, 6) float32: x, z, x, z, bottom, top
    portal_rooms: np.ndarray  # (O, 2) int64, counted from the scene's first room
    wall_size: np.ndarray  # (S, 2) float64: height and greatest thickness
    rgb: np.ndarray  # (M, 3) uint8
    texture: np.ndarray  # (M,) int32
    unlit: np.ndarray  # (M,) uint8
    texels: np.ndarray  # (P,) uint32
    texel_start: np.ndarray  # (T,) int64
    size_log2: np.ndarray  # (T,) int32


class Scratch(NamedTuple):
    """Working memory, first axis one per thread."""

    inverse_depth: np.ndarray  # (threads, H * W + PAD) float32, 0 where nothing was hit
    record: np.ndarray  # (threads, H * W + PAD) int32, -1 there
    tile: np.ndarray  # (threads, TH, TW) float32: least 1/z in the tile
    painted: np.ndarray  # (threads, TH) int64: pixels of the row of tiles that were painted since `tile` was found
    span: np.ndarray  # (threads, 2, H + PAD) int32: first column and one past the last, for the triangle being filled
    clip: np.ndarray  # (threads, 3, 5) float32: column, row, 1/z of the corners of a face, cut at the near plane
    part: np.ndarray  # (threads, 4) int32: part of the image that shows a room through one opening
    window: np.ndarray  # (threads, rooms, 4) int32: columns and rows in which a room can show: first, one past the last
    order: np.ndarray  # (threads, I) int64: instances in view, near first
    scissor: np.ndarray  # (threads, I, 4) int32: like `window`, for the instances of `order`
    key: np.ndarray  # (threads, I) float64
    inside: np.ndarray  # (threads, I) uint8: 1 for an instance whose sphere reaches into the image
    candidate: np.ndarray  # (threads, I + 1) int32: these instances, counted from the scene's first
    matrix: np.ndarray  # (threads, 12) float32
    vertex_start: np.ndarray  # (threads, I) int64: of a drawn instance's vertices in `point`, -1 for hidden ones
    point: np.ndarray  # (threads, 6, V) float32: f*right, f*down, forward, column, row, 1/forward
    pixel: (
        np.ndarray
    )  # (threads, V) int32: first column | row << 16 whose centre is not before the vertex; see `BEHIND`
    chosen: np.ndarray  # (threads, F) int32: faces of one mesh that may cover a pixel
    plane: np.ndarray  # (threads, R, 3) float32 of 1/z
    attribute: np.ndarray  # (threads, R, 9) float32: planes of light/z, u/z, v/z
    on_sheet: np.ndarray  # (threads, R, 6) float32: planes of row/z and column/z on the face's sheet of light
    face: np.ndarray  # (threads, R) int32
    rank: np.ndarray  # (threads, R) int32: of the instance in `order`
    state: (
        np.ndarray
    )  # (threads, R) uint8: bit 0 attributes are computed; bit 1 back side is seen; bit 2 evenly lit; bit 3
    # lit by a sheet
    even_light: np.ndarray  # (threads, R) uint8: light of a face whose corners are lit alike
    changed: (
        np.ndarray
    )  # (threads, (W + PAD) / 8) uint64: a byte for each pixel of the row, 1 where the next starts a run
    row_float: np.ndarray  # (threads, W + PAD) float32: depth of the row being shaded
    row_int: (
        np.ndarray
    )  # (threads, 8, W + PAD) int32: its texel, class | instance << 8, where its runs start, its light and the light
    # that it shares; record, first column and one past the last of runs that share it
    kept: np.ndarray  # (threads, 3) int64: next and number of these runs; 1 in a row that others share


class Lens(NamedTuple):
    width: int
    height: int
    focal_px: float
    near_m: float


_PREPARED: dict[int, tuple[SharedAssets, dict[str, np.ndarray]]] = {}  # of few assets: a world has one


def shared_assets(scenes: Sequence[Scene]) -> SharedAssets:
    """The assets of all the scenes; ValueError where they do not share them."""
    if not scenes:
        raise ValueError("scenes: expected at least one, got none")
    for scene in scenes:
        if scene.assets is None or scene.assets is not scenes[0].assets:
            raise ValueError(
                f"scene {scene.scene_id}: expected the assets of scene {scenes[0].scene_id}, got "
                f"{'none' if scene.assets is None else 'others'}; scenes that are drawn together share their assets"
            )
    return scenes[0].assets


def _prepared(assets: SharedAssets) -> dict[str, np.ndarray]:
    """The assets' meshes as kernels read them, made once."""
    kept = _PREPARED.pop(id(assets), None)
    if kept is None or kept[0] is not assets:
        kept = assets, prepare_meshes(assets.meshes)
    _PREPARED[id(assets)] = kept
    while len(_PREPARED) > 4:
        del _PREPARED[next(iter(_PREPARED))]
    return kept[1]


def build_world(scenes: Sequence[Scene], *, coloured: bool = True) -> World:
    """Joins scenes: their meshes behind those of the shared assets, their instances and materials end to end.

    A world that is not `coloured` has no light, which saves baking it. ValueError for scenes that draw from no assets
    or from different ones, and for one with an index outside its arrays.
    """
    assets = shared_assets(scenes)
    shared = _prepared(assets)
    parts = [shared, *(prepare_meshes(scene.meshes) for scene in scenes)]
    textures, texture_rows = _join_textures(assets.textures, scenes)
    for scene, part in zip(scenes, parts[1:], strict=True):
        _check_scene(scene, (shared, part), len(assets.textures.offset))
    baked = [light_of(scene) for scene in scenes] if coloured else []
    for k, one in enumerate(baked):
        parts[k + 1] = prepare_meshes(scenes[k].meshes, one.sheets.of_face)
    sheets = _join_sheets([one.sheets for one in baked], parts[1:])
    meshes = _join_meshes(parts)
    rows = _join_instances(scenes, parts)
    rotation_scale, mesh = rows["rotation_scale"], rows["mesh"]
    num_lights = np.diff(meshes["vertex_range"], axis=1)[:, 0][mesh]
    light = [one.light for one in baked] if coloured else [np.zeros((num_lights.sum(), 2), np.uint8)]
    bounds = _bounds(meshes["box"][mesh].astype(np.float64), rotation_scale, rows["translation"])
    return World(
        **meshes,
        **rows,
        **sheets,
        **_join_rooms(scenes, bounds, rows["scene_range"], len(shared["box"])),
        bounds=bounds,
        shown=_join([_shown(scene) for scene in scenes], np.float64, 2),
        mirrored=np.linalg.det(rotation_scale) < 0,
        light_start=np.cumsum(num_lights) - num_lights,
        light=_join(light, np.uint8, 2),
        rgb=_join([scene.materials.rgb for scene in scenes], np.uint8, 3),
        texture=_join(texture_rows, np.int32),
        unlit=_join([scene.materials.unlit for scene in scenes], np.uint8),
        texels=_read_only(textures.texels),
        texel_start=_read_only(textures.offset),
        size_log2=_read_only(textures.size_log2),
    )


def _join_textures(shared: Textures, scenes: Sequence[Scene]) -> tuple[Textures, list[np.ndarray]]:
    """The assets' textures with the scenes' own behind them, and the row of each scene's materials among them."""
    own = [scene.textures for scene in scenes if scene.textures is not None]
    if not own:
        return shared, [scene.materials.texture for scene in scenes]
    parts, num_shared = [shared, *own], len(shared.offset)
    first_texel = np.cumsum([0] + [len(part.texels) for part in parts])
    joined = Textures(
        np.concatenate([part.texels for part in parts]),
        np.concatenate([part.offset + first for part, first in zip(parts, first_texel, strict=False)]),
        np.concatenate([part.size_log2 for part in parts]),
    )
    rows, behind = [], 0
    for scene in scenes:
        row = scene.materials.texture
        rows.append(np.where(row < num_shared, row, row + behind))
        behind += 0 if scene.textures is None else len(scene.textures.offset)
    return joined, rows


def _shown(scene: Scene) -> np.ndarray:
    """(I, 2) squares of the distances between which instances are drawn."""
    if scene.shown_m is None:
        return np.tile([0.0, np.inf], (len(scene.instances.mesh), 1))
    return scene.shown_m.astype(np.float64) ** 2


def _check_scene(scene: Scene, parts: tuple[dict[str, np.ndarray], ...], num_shared_textures: int) -> None:
    """ValueError for a scene that makes the unchecked kernels read outside an array or lose a number."""
    items, num_materials = scene.instances, len(scene.materials.rgb)
    num_textures = num_shared_textures + (0 if scene.textures is None else len(scene.textures.offset))
    if scene.shown_m is not None and scene.shown_m.shape != (len(items.mesh), 2):
        raise ValueError(
            f"scene {scene.scene_id}: shown_m: expected two distances for each of {len(items.mesh)} instances, got "
            f"shape {scene.shown_m.shape}"
        )
    slots = np.concatenate([part["max_slot"] for part in parts])
    last_material = items.material + slots[items.mesh.clip(0, len(slots) - 1)] if len(slots) else items.material
    limits = (
        ("instances.mesh", items.mesh, 0, len(slots)),
        ("instances.material, with the mesh's slots,", np.append(items.material, last_material), 0, num_materials),
        ("instances.class_id", items.class_id, 0, 1 << 8),
        ("instances.instance_id", items.instance_id, 0, 1 << 16),
        ("materials.texture", scene.materials.texture, -1, num_textures),
    )
    for name, values, low, end in limits:
        if len(values) and not (low <= values.min() and values.max() < end):
            raise ValueError(
                f"scene {scene.scene_id}: {name} expected from {low} to {end - 1}, "
                f"got {values.min()} to {values.max()}; build the scene with the catalogue that it is drawn with"
            )
    if not (np.abs(np.linalg.det(items.rotation_scale.astype(np.float64))) > 1e-12).all():
        raise ValueError(f"scene {scene.scene_id}: instances.rotation_scale has a matrix that flattens its mesh")


def _bounds(box: np.ndarray, rotation_scale: np.ndarray, translation: np.ndarray) -> np.ndarray:
    """(I, 6) least and greatest world coordinates of the placed boxes (I, 6) of centre and half size."""
    centre = np.einsum("ijk,ik->ij", rotation_scale, box[:, :3]) + translation
    half = np.einsum("ijk,ik->ij", np.abs(rotation_scale), box[:, 3:])
    return np.concatenate([centre - half, centre + half], axis=1)


def _join_meshes(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Mesh sets end to end; the ranges count on."""
    joined = {name: [part[name] for part in parts] for name in parts[0] if name != "max_slot"}
    for name, per_row in (("vertex_range", "uv"), ("face_range", "faces")):
        starts = np.cumsum([0] + [len(rows) for rows in joined[per_row]])
        joined[name] = [rows + start for rows, start in zip(joined[name], starts, strict=False)]
    return {name: np.concatenate(rows, axis=1 if name == "xyz" else 0) for name, rows in joined.items()}


def _join_sheets(sheets: list[Sheets], parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Sheets end to end; those of the faces of `parts` count on."""
    first_sheet = np.cumsum([0] + [len(one.start) for one in sheets])
    first_lumel = np.cumsum([0] + [len(one.lumels) + 1 for one in sheets])
    for part, first in zip(parts, first_sheet, strict=False):
        part["face_sheet"] = np.where(part["face_sheet"] < 0, -1, part["face_sheet"] + first).astype(np.int32)
    return {
        "sheet_place": _join([one.place for one in sheets], np.float32, 6),
        "sheet_size": _join([one.size for one in sheets], np.int32, 2),
        "sheet_start": _join([one.start + first_lumel[k] for k, one in enumerate(sheets)], np.int64),
        "lumels": _join([paired_lumels(one) for one in sheets], np.uint16),
    }


def _join_instances(scenes: Sequence[Scene], parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Instances end to end; their meshes and materials become rows of the joined arrays."""
    items = [scene.instances for scene in scenes]
    num_meshes = np.cumsum([len(part["box"]) for part in parts])
    num_materials = np.cumsum([0] + [len(scene.materials.rgb) for scene in scenes])
    num_instances = np.cumsum([0] + [len(item.mesh) for item in items])
    shift = [np.where(item.mesh < num_meshes[0], 0, num_meshes[k] - num_meshes[0]) for k, item in enumerate(items)]
    return {
        "scene_range": np.stack([num_instances[:-1], num_instances[1:]], axis=1).astype(np.int64),
        "mesh": _join([item.mesh + by for item, by in zip(items, shift, strict=True)], np.int64),
        "material": _join([item.material + num_materials[k] for k, item in enumerate(items)], np.int64),
        "rotation_scale": _join([item.rotation_scale for item in items], np.float64, 3, 3),
        "translation": _join([item.translation for item in items], np.float64, 3),
        "class_id": _join([item.class_id for item in items], np.uint8),
        "instance_id": _join([item.instance_id for item in items], np.uint16),
        "sphere": np.ascontiguousarray(_join([item.sphere for item in items], np.float64, 4).T),
    }


def _join_rooms(
    scenes: Sequence[Scene], bounds: np.ndarray, scene_range: np.ndarray, num_shared_meshes: int
) -> dict[str, np.ndarray]:
    """Rooms and openings end to end; the ranges count on."""
    rooms = [scene.rooms or NO_ROOMS for scene in scenes]

    def ranges(lengths: list[int]) -> np.ndarray:
        ends = np.cumsum(lengths, dtype=np.int64)
        return np.stack([ends - lengths, ends], axis=1)

    bits = [
        rooms_of_instances(scene, bounds[slice(*own)], num_shared_meshes)
        for scene, own in zip(scenes, scene_range, strict=True)
    ]
    first_edge = np.cumsum([0] + [len(room.edge) for room in rooms])
    return {
        "room_bits": _join(bits, np.uint64),
        "room_range": ranges([len(room.edge_range) for room in rooms]),
        "edge_range": _join([room.edge_range + first_edge[k] for k, room in enumerate(rooms)], np.int64, 2),
        "edge": _join([room.edge for room in rooms], np.float32, 4),
        "sees_out": _join([room.sees_out for room in rooms], np.bool_),
        "solid_range": ranges([len(room.solid) for room in rooms]),
        "solid": _join([room.solid for room in rooms], np.float32, 4),
        "portal_range": ranges([len(room.portal) for room in rooms]),
        "portal": _join([room.portal for room in rooms], np.float32, 6),
        "portal_rooms": _join([room.portal_rooms for room in rooms], np.int64, 2),
        "wall_size": np.array([(room.height_m, room.wall_m) for room in rooms]).reshape(-1, 2),
    }


def _join(arrays: list[np.ndarray], kind: type, *width: int) -> np.ndarray:
    return np.concatenate([np.empty((0, *width), kind), *(np.asarray(array, kind) for array in arrays)])


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view with one Numba type for arrays of any origin, so that nothing is compiled twice."""
    view = array.view()
    view.flags.writeable = False
    return view


def make_scratch(world: World, lens: Lens, old: Scratch | None) -> Scratch:
    """Working memory for the world's largest scene; the old one if it is large enough."""
    vertices = faces = instances = 1
    for first, last in world.scene_range:
        rows = world.mesh[first:last]
        vertices = max(vertices, int(np.diff(world.vertex_range[rows], axis=1).sum()))
        faces = max(faces, int(np.diff(world.face_range[rows], axis=1).sum()))
        instances = max(instances, int(last - first))
    if old and old.point.shape[2] >= vertices and len(old.state[0]) >= faces and len(old.key[0]) >= instances:
        return old
    threads = numba.config.NUMBA_NUM_THREADS

    def rows(kind: type, *shape: int) -> np.ndarray:
        return np.empty((threads, *shape), kind)

    return Scratch(
        inverse_depth=rows(np.float32, lens.height * lens.width + PAD),
        record=rows(np.int32, lens.height * lens.width + PAD),
        tile=rows(np.float32, -(-lens.height // TILE), -(-lens.width // TILE)),
        painted=rows(np.int64, -(-lens.height // TILE)),
        span=rows(np.int32, 2, lens.height + PAD),
        clip=rows(np.float32, 3, 5),
        window=rows(np.int32, MAX_ROOMS + 1, 4),
        part=rows(np.int32, 4),
        scissor=rows(np.int32, instances, 4),
        order=rows(np.int64, instances),
        key=rows(np.float64, instances),
        inside=rows(np.uint8, instances),
        candidate=rows(np.int32, instances + 1),
        matrix=rows(np.float32, 12),
        vertex_start=rows(np.int64, instances),
        point=rows(np.float32, 6, vertices),
        pixel=rows(np.int32, vertices),
        chosen=rows(np.int32, faces + 1),
        plane=rows(np.float32, faces, 3),
        attribute=rows(np.float32, faces, 9),
        on_sheet=rows(np.float32, faces, 6),
        face=rows(np.int32, faces),
        rank=rows(np.int32, faces),
        state=rows(np.uint8, faces),
        even_light=rows(np.uint8, faces),
        changed=rows(np.uint64, (lens.width + PAD) // 8),
        row_float=rows(np.float32, lens.width + PAD),
        row_int=rows(np.int32, 8, lens.width + PAD),
        kept=rows(np.int64, 3),
    )
