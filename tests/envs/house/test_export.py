"""Exported houses, read by trimesh and by a reader that does what habitat-sim's source does, against our renderer."""

import dataclasses
import io
import json
import struct
import sys

import numpy as np
import pytest
import trimesh

from eqa.envs.habitat.export import DATASET, semantic_color, semantic_glb, semantic_text, write_house
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.export import house_glb, labels
from eqa.envs.house.export_meshes import light_by_instance, lit_mesh, local_mesh
from eqa.envs.rendering.lighting import light_of
from eqa.envs.rendering.renderer import Renderer
from eqa.scripts import export_house
from tests.helpers.generated_house import house_and_scene
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

NUMBERS = {5121: np.uint8, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
SIDE_PX, FOV_DEG, EYE_M, NEAR_M = 224, 60.0, 1.0, 0.05  # what docs/export.md tells users of other viewers


@pytest.fixture(scope="module")
def exported():
    """A furnished house, its scene, and poses where an agent may stand."""
    catalog = load_catalog()
    house, scene = house_and_scene(0, 1)
    free = build_floor(house, scene, catalog.meshes, resolution=200).centres
    rng = np.random.default_rng(0)
    return house, scene, on_floor(np.column_stack([rng.choice(free, 5), rng.uniform(0, 2 * np.pi, 5)]))


@pytest.fixture(scope="module")
def glb(exported) -> bytes:
    return house_glb(*exported[:2], load_catalog())


@pytest.fixture(scope="module")
def semantic(exported) -> bytes:
    return semantic_glb(*exported[:2], load_catalog())


@pytest.fixture(scope="module")
def ours(exported) -> dict[str, np.ndarray]:
    """What our renderer shows from the poses."""
    _, scene, poses = exported
    return drawn(scene, poses)


def drawn(scene, poses) -> dict[str, np.ndarray]:
    renderer = Renderer()
    renderer.load([scene])
    return renderer.render(np.zeros(len(poses), np.int32), poses)


def rays(pose) -> tuple[np.ndarray, np.ndarray]:
    """Origin (3,) and directions (pixels, 3) as the documentation describes the camera; one metre deep each."""
    x, _, z, heading = pose
    tangent = np.tan(np.radians(FOV_DEG / 2))
    place = (np.arange(SIDE_PX) + 0.5) / SIDE_PX * 2 - 1
    right, down = np.meshgrid(place * tangent, place * tangent)
    local = np.stack([right, -down, -np.ones_like(right)], axis=-1).reshape(-1, 3)
    c, s = np.cos(heading), np.sin(heading)
    return np.array([x, EYE_M, z]), local @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]).T


def hits(mesh: trimesh.Trimesh, pose) -> tuple[np.ndarray, np.ndarray]:
    """Planar depth (H, W), 0 where nothing is, and the face hit (H, W), -1 there."""
    origin, directions = rays(pose)
    start = origin + NEAR_M * directions
    faces, of_ray, places = mesh.ray.intersects_id(start, directions, multiple_hits=False, return_locations=True)
    depth, face = np.zeros(len(directions)), np.full(len(directions), -1)
    unit = directions[of_ray] / (directions[of_ray] ** 2).sum(axis=1, keepdims=True)
    depth[of_ray], face[of_ray] = ((places - origin) * unit).sum(axis=1), faces
    return depth.reshape(SIDE_PX, SIDE_PX), face.reshape(SIDE_PX, SIDE_PX)


def chunks(glb: bytes) -> tuple[dict, bytes]:
    """The JSON and the binary chunk, with the container's rules checked."""
    magic, version, length = struct.unpack_from("<4sII", glb)
    assert (magic, version, length) == (b"glTF", 2, len(glb))
    size, kind = struct.unpack_from("<I4s", glb, 12)
    assert kind == b"JSON" and size % 4 == 0
    binary_size, kind = struct.unpack_from("<I4s", glb, 20 + size)
    assert kind == b"BIN\0" and binary_size % 4 == 0 and 28 + size + binary_size == len(glb)
    return json.loads(glb[20 : 20 + size]), glb[28 + size :]


def accessor(document: dict, binary: bytes, index: int) -> np.ndarray:
    entry = document["accessors"][index]
    start, width = document["bufferViews"][entry["bufferView"]]["byteOffset"], WIDTHS[entry["type"]]
    kind = np.dtype(NUMBERS[entry["componentType"]])
    return np.frombuffer(binary, kind, entry["count"] * width, start).reshape(-1, width)


def read_semantics(glb: bytes, text: str) -> tuple[trimesh.Trimesh, np.ndarray]:
    """All triangles, and the instance of each: linear vertex colours to 8-bit sRGB, looked up in the text's colours."""
    header, *lines = text.splitlines()
    assert header == "HM3D Semantic Annotations"
    id_of = {}
    for line in lines:
        before, _category, _room = line.split('"')
        number, colour = before.split(",")[:2]
        id_of[int(colour, 16)] = int(number)
    document, binary = chunks(glb)
    corners, ids = [], []
    for mesh in document["meshes"]:
        (part,) = mesh["primitives"]
        faces = accessor(document, binary, part["indices"]).reshape(-1, 3)
        linear = accessor(document, binary, part["attributes"]["COLOR_0"]).astype(np.float64)
        srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
        packed = np.rint(255 * srgb).astype(int) @ [1 << 16, 1 << 8, 1]
        assert (packed == packed[0]).all()
        corners.append(accessor(document, binary, part["attributes"]["POSITION"])[faces])
        ids += [id_of[int(packed[0])]] * len(faces)
    triangles = np.concatenate(corners)
    return trimesh.Trimesh(**trimesh.triangles.to_kwargs(triangles), process=False), np.array(ids)


def facing(mesh: trimesh.Trimesh, pose) -> np.ndarray:
    """Which faces a renderer draws from a pose if it culls those that turn their back."""
    a, b, c = mesh.triangles.swapaxes(0, 1)
    return (np.cross(b - a, c - a) * (rays(pose)[0] - a)).sum(axis=1) > 0


def test_depth_of_the_glb_read_by_trimesh_is_our_depth(exported, glb, ours):
    mesh = trimesh.load_scene(io.BytesIO(glb), file_type="glb", process=False).to_mesh()
    close = [np.abs(hits(mesh, pose)[0] - depth) < 1e-3 for pose, depth in zip(exported[2], ours["depth"], strict=True)]
    assert np.mean(close) >= 0.999


def test_depth_of_the_stage_with_back_faces_culled_is_our_depth(exported, ours):
    house, scene, poses = exported
    stage = house_glb(house, scene, load_catalog(), for_habitat=True)
    mesh = trimesh.load_scene(io.BytesIO(stage), file_type="glb", process=False).to_mesh()
    close = []
    for pose, depth in zip(poses, ours["depth"], strict=True):
        front = trimesh.Trimesh(mesh.vertices, mesh.faces[facing(mesh, pose)], process=False)
        close.append(np.abs(hits(front, pose)[0] - depth) < 1e-3)
    assert np.mean(close) >= 0.999


def test_semantic_files_read_as_habitat_reads_them_give_our_instances_with_back_faces_culled(exported, semantic, ours):
    house, scene, poses = exported
    mesh, ids = read_semantics(semantic, semantic_text(labels(house, scene)))
    same, close = [], []
    for n, pose in enumerate(poses):
        front = facing(mesh, pose)
        depth, face = hits(trimesh.Trimesh(mesh.vertices, mesh.faces[front], process=False), pose)
        found = np.where(face >= 0, ids[front][face], 0)
        same.append(np.where(found > len(house.objects), 0, found) == ours["instance_id"][n])
        close.append(np.abs(depth - ours["depth"][n]) < 1e-3)
    assert np.mean(close) >= 0.999
    assert np.mean(same) >= 0.995


def colour_errors(pieces: list[trimesh.Trimesh], shapes: trimesh.Trimesh, ours: np.ndarray, pose, *, mirrored=False):
    """Per pixel, how far our colour is from the file's texture there on its best level; whether that is an image.

    `shapes` is all pieces in one.
    """
    ends = np.cumsum([0] + [len(piece.faces) for piece in pieces])
    uv = np.concatenate([piece.visual.uv[piece.faces] for piece in pieces])
    depth, face = (image.ravel() for image in hits(shapes, pose))
    origin, directions = rays(pose)
    weights = trimesh.triangles.points_to_barycentric(shapes.triangles[face], origin + directions * depth[:, None])
    u, v = (uv[face] * weights[:, :, None]).sum(axis=1).T
    row_share = v if mirrored else 1 - v  # trimesh turns glTF's v round
    errors, is_image = np.full(len(face), np.inf), np.zeros(len(face), bool)
    for piece, first, end in zip(pieces, ends, ends[1:], strict=False):
        image = np.asarray(piece.visual.material.baseColorTexture.convert("RGB")).astype(float)
        pixels = np.flatnonzero((face >= first) & (face < end))
        is_image[pixels] = len(image) > 1
        while True:
            size = len(image)
            row, column = (np.floor(share[pixels] * size).astype(int) % size for share in (row_share, u))
            difference = np.abs(image[row, column] - ours.reshape(-1, 3)[pixels]).max(axis=1)
            errors[pixels] = np.minimum(errors[pixels], difference)
            if size == 1:
                break
            image = image.reshape(size // 2, 2, size // 2, 2, 3).mean(axis=(1, 3))
    return errors[face >= 0], is_image[face >= 0]


def unlit_views(glb: bytes, scene, poses, *, mirrored: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """`colour_errors` of all poses, of the house without light."""
    pieces = trimesh.load_scene(io.BytesIO(glb), file_type="glb", process=False).dump()
    shapes = trimesh.util.concatenate([trimesh.Trimesh(piece.vertices, piece.faces, process=False) for piece in pieces])
    materials = dataclasses.replace(scene.materials, unlit=np.ones_like(scene.materials.unlit))
    ours = drawn(dataclasses.replace(scene, materials=materials), poses)["rgb"]
    views = [
        colour_errors(pieces, shapes, image, pose, mirrored=mirrored) for image, pose in zip(ours, poses, strict=True)
    ]
    errors, is_image = (np.concatenate(images) for images in zip(*views, strict=True))
    return errors, is_image


def test_colours_of_the_glb_are_ours(exported, glb):
    _, scene, poses = exported
    errors, is_image = unlit_views(glb, scene, poses[:3])
    assert is_image.any()
    assert (errors <= 3).mean() >= 0.99


def test_textures_of_the_glb_stand_upright():
    house = small_house()
    before_window_and_over_floor = on_floor([[0.7, 2.0, np.pi / 2], [3.0, 3.0, 0.6]])
    scene = build_scene(house, load_catalog())
    view = house_glb(house, scene, load_catalog()), scene, before_window_and_over_floor
    errors, is_image = unlit_views(*view)
    assert (errors[is_image] <= 3).mean() >= 0.99
    errors, is_image = unlit_views(*view, mirrored=True)
    assert (errors[is_image] <= 3).mean() < 0.2


def test_every_accessor_lies_in_its_view_is_aligned_and_says_its_bounds(glb, semantic):
    for content in (glb, semantic):
        document, binary = chunks(content)
        assert document["buffers"] == [{"byteLength": len(binary)}]
        for view in document["bufferViews"]:
            assert view["byteOffset"] % 4 == 0 and view["byteOffset"] + view["byteLength"] <= len(binary)
        for index, entry in enumerate(document["accessors"]):
            values = accessor(document, binary, index)
            assert values.nbytes == document["bufferViews"][entry["bufferView"]]["byteLength"]
            if "min" in entry:
                assert (values.min(0) == entry["min"]).all() and (values.max(0) == entry["max"]).all()
        for mesh in document["meshes"]:
            for part in mesh["primitives"]:
                count = document["accessors"][part["attributes"]["POSITION"]]["count"]
                assert all(document["accessors"][a]["count"] == count for a in part["attributes"].values())
                assert accessor(document, binary, part["indices"]).max() < count


def test_nodes_name_every_object_below_its_room_and_equal_models_share_their_vertices(exported, glb):
    house, scene, _ = exported
    document, _ = chunks(glb)
    nodes = document["nodes"]
    by_id = {node["extras"]["id"]: node for node in nodes if "mesh" in node}
    assert len(by_id) == len({node["name"] for node in by_id.values()}) == len(scene.instances.mesh)
    for thing in house.objects:
        name = "_".join([str(thing.id), *(w.replace(" ", "_") for w in (thing.category, thing.color) if w)])
        extras = by_id[thing.id]["extras"]
        assert by_id[thing.id]["name"] == name
        assert (extras["category"], extras["room"], extras["color"]) == (thing.category, thing.room, thing.color)
    rooms = [nodes[root] for root in document["scenes"][0]["nodes"]]
    assert {(room["extras"]["room"], nodes[c]["extras"]["id"]) for room in rooms for c in room["children"]} == {
        (node["extras"]["room"], number) for number, node in by_id.items()
    }
    positions = {part["attributes"]["POSITION"] for mesh in document["meshes"] for part in mesh["primitives"]}
    assert len(positions) == len(np.unique(scene.instances.mesh)) < len(scene.instances.mesh)


def test_materials_are_unlit_but_for_a_relightable_house_and_all_show_both_sides(exported, glb):
    relightable = house_glb(*exported[:2], load_catalog(), relightable=True)
    unlit = []
    for content in (glb, relightable):
        document, _ = chunks(content)
        assert document["extensionsUsed"] == ["KHR_materials_unlit"]
        assert all(material["doubleSided"] for material in document["materials"])
        unlit.append(np.mean(["extensions" in material for material in document["materials"]]))
    assert unlit[0] == 1 and 0 < unlit[1] < 1
    assert b"COLOR_0" not in relightable


def test_vertex_colours_of_furniture_are_its_light_made_linear_and_glowing_parts_have_none(exported, glb):
    _, scene, _ = exported
    document, binary = chunks(glb)
    meshes = {node["extras"]["id"]: document["meshes"][node["mesh"]] for node in document["nodes"] if "mesh" in node}
    start = 0
    for i, row in enumerate(scene.instances.mesh):
        meshes_of = load_catalog().meshes if row < len(load_catalog().meshes.vertex_range) else scene.meshes
        own = row - (0 if meshes_of is load_catalog().meshes else len(load_catalog().meshes.vertex_range))
        count = int(np.diff(meshes_of.vertex_range[own])[0])
        front = light_of(scene).light[start : start + count, 0] / 255
        start += count
        if not scene.instances.instance_id[i]:
            continue
        slots = np.unique(meshes_of.face_slot[slice(*meshes_of.face_range[own])])
        for part, slot in zip(meshes[int(scene.instances.instance_id[i])]["primitives"], slots, strict=True):
            glows = bool(scene.materials.unlit[scene.instances.material[i] + slot])
            assert glows == ("COLOR_0" not in part["attributes"])
            if not glows:
                shown = accessor(document, binary, part["attributes"]["COLOR_0"])[:, :3] / 255
                assert np.abs(shown - (((front + 0.055) / 1.055) ** 2.4)[:, None]).max() <= 0.5 / 255 + 1e-6


def test_cut_faces_cover_the_same_area_with_the_same_texture(exported):
    _, scene, _ = exported
    catalog, baked = load_catalog(), light_of(exported[1])
    lights = light_by_instance(scene, catalog, baked)
    for i in np.flatnonzero(scene.instances.instance_id == 0):
        row = int(scene.instances.mesh[i])
        whole, (cut, light) = local_mesh(scene, catalog, row), lit_mesh(scene, catalog, row, lights[i], baked.sheets)
        assert len(light) == len(cut.vertices)
        for points, least in (("vertices", 1e-3), ("uv", 1e-2)):
            areas = []
            for mesh in (whole, cut):
                values = getattr(mesh, points).astype(np.float64)
                a, b, c = (np.pad(values, ((0, 0), (0, 3 - values.shape[1])))[mesh.faces[:, k]] for k in range(3))
                areas.append(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)
            assert areas[1] == pytest.approx(areas[0], rel=least, abs=least)


def test_each_semantic_colour_is_one_connected_piece_so_that_habitat_boxes_the_whole_object(semantic):
    document, binary = chunks(semantic)
    for mesh in document["meshes"]:
        (part,) = mesh["primitives"]
        faces = accessor(document, binary, part["indices"]).reshape(-1, 3)
        points = accessor(document, binary, part["attributes"]["POSITION"])
        edges = np.concatenate([faces[:, :2], faces[:, 1:]])
        pieces = [points[piece] for piece in trimesh.graph.connected_components(edges, min_len=1)]
        low, high = points[np.unique(faces)].min(0), points[np.unique(faces)].max(0)
        assert any((piece.min(0) == low).all() and (piece.max(0) == high).all() for piece in pieces)


def test_semantic_colours_are_all_different_and_only_nothing_is_black():
    colours = {semantic_color(number) for number in range(1 << 16)}
    assert len(colours) == 1 << 16
    assert semantic_color(0) == (0, 0, 0)


def test_a_folder_of_houses_is_one_data_set_whose_configurations_name_files_that_are_there(tmp_path):
    for name in ("small-0", "small-1"):
        write_house(small_house(name), tmp_path, load_catalog())
    found = json.loads((tmp_path / DATASET).read_text())
    stages = sorted(tmp_path.glob(found["stages"]["paths"][".json"][0]))
    assert [stage.name for stage in stages] == ["small-0.stage_config.json", "small-1.stage_config.json"]
    for stage in stages:
        config = json.loads(stage.read_text())
        for key in ("render_asset", "collision_asset", "semantic_asset", "semantic_descriptor_filename"):
            assert (tmp_path / config[key]).is_file()
        assert (config["up"], config["front"]) == ([0, 1, 0], [0, 0, -1])
    assert (tmp_path / "ATTRIBUTION.md").is_file()


def test_homes_that_people_designed_are_exported_with_their_authors_up_to_the_last(tmp_path, monkeypatch, capsys):
    command = ["export_house.py", "--split", "human", "--out", str(tmp_path), "--first"]
    monkeypatch.setattr(sys, "argv", [*command, "4"])
    export_house.main()
    assert "human-00004" in (tmp_path / "ATTRIBUTION.homes.md").read_text(encoding="utf-8")
    assert chunks((tmp_path / "human-00004.glb").read_bytes())[0]["asset"]["version"] == "2.0"
    monkeypatch.setattr(sys, "argv", [*command, "5"])
    with pytest.raises(SystemExit):
        export_house.main()
    assert "expected some of 0 to 4" in capsys.readouterr().err


def test_the_semantic_text_lists_objects_under_their_ids_and_the_building_behind_them():
    house = small_house()
    scene = build_scene(house, load_catalog())
    lines = semantic_text(labels(house, scene)).splitlines()[1:]
    entries = {int(line.split(",")[0]): line.split('"')[1:] for line in lines}
    assert sorted(entries) == list(range(1, len(scene.instances.mesh) + 1))
    assert {number: entries[number] for number in (1, 4)} == {1: ["sofa", ",0"], 4: ["refrigerator", ",1"]}
    assert {entries[number][0] for number in entries if number > 4} <= set(CLASSES[1:6])


def test_a_house_whose_id_is_no_file_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="house id: expected .*, got '../away'"):
        write_house(small_house("../away"), tmp_path, load_catalog())
