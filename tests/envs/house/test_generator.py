"""Houses: generation, validation, files, and the scene arrays that are built from them."""

import json
import subprocess
import sys
from dataclasses import replace
from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest

from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import CLASSES, QUERYABLE, load_catalog
from eqa.envs.house.generator import SPLITS, generate_house, house_path, load_house, make_houses
from eqa.envs.house.geometry import contains, inner_outline, room_sides, signed_area
from eqa.envs.house.house import House, HouseObject, Opening, Room, Wall
from eqa.envs.house.openings import OUTDOORS
from eqa.envs.house.shell import triangulate
from eqa.envs.house.validate import validate
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer

ALWAYS = {"kitchen", "living room", "dining room", "bedroom"}
NUM_HOUSES = 20


@pytest.fixture(scope="module")
def data_root(tmp_path_factory) -> Path:
    """Houses as the script makes them, in a process of its own."""
    root = tmp_path_factory.mktemp("data")
    script = Path(__file__).parents[3] / "scripts" / "make_houses.py"
    command = [sys.executable, str(script), "--root", str(root), "--train", str(NUM_HOUSES), "--seed", "5"]
    command += ["--style", "paper"]
    subprocess.run(command, check=True, capture_output=True)
    return root


@pytest.fixture(scope="module")
def houses(data_root: Path) -> list[House]:
    return [load_house(data_root, seed=5, split="train", index=index) for index in range(NUM_HOUSES)]


def two_rooms() -> House:
    """An office and a gym of 4 by 3 m each, side by side, with a door between them, a window and a way out."""
    rooms = [
        Room("office", [(0.0, 3.0), (4.0, 3.0), (4.0, 0.0), (0.0, 0.0)], "wooden_floor", "#f0f0f0"),
        Room("gym", [(4.0, 3.0), (8.0, 3.0), (8.0, 0.0), (4.0, 0.0)], "grey_tile", "#c0d0e0"),
    ]
    walls = [
        Wall((0.0, 3.0), (4.0, 3.0), 0.2, (0, -1)),
        Wall((4.0, 3.0), (4.0, 0.0), 0.1, (0, 1)),
        Wall((4.0, 0.0), (0.0, 0.0), 0.2, (0, -1)),
        Wall((0.0, 0.0), (0.0, 3.0), 0.2, (0, -1)),
        Wall((4.0, 3.0), (8.0, 3.0), 0.2, (1, -1)),
        Wall((8.0, 3.0), (8.0, 0.0), 0.2, (1, -1)),
        Wall((8.0, 0.0), (4.0, 0.0), 0.2, (1, -1)),
    ]
    openings = [
        Opening("door", 1, 1.5, 0.9, 0.0, 2.1),
        Opening("window", 2, 2.0, 1.0, 0.9, 2.0),
        Opening("entrance", 4, 2.0, 0.95, 0.0, 2.1),
    ]
    desk = HouseObject(1, "desk", "eTeks#desk", (1.0, 0.0, 2.4), pi, (1.4, 0.77, 0.68), "red", True, 0)
    return House("hand-made", "by hand", 2.7, rooms, walls, openings, [desk])


def test_the_same_numbers_give_the_same_house_in_another_process_and_other_numbers_another(houses: list[House]) -> None:
    assert generate_house(seed=5, split="train", index=7) == houses[7]
    assert houses[6].rooms != houses[7].rooms
    for seed, split in ((6, "train"), (5, "val")):
        assert generate_house(seed=seed, split=split, index=7).rooms != houses[7].rooms


def test_every_house_has_the_rooms_that_people_need_and_the_size_of_the_papers_houses(houses: list[House]) -> None:
    for house in houses:
        assert {room.type for room in house.rooms} >= ALWAYS
        assert 300 <= sum(signed_area(room.polygon) for room in house.rooms if room.ceiling) <= 800
        assert 7 <= len([room for room in house.rooms if room.type != "hallway"]) <= 13
        assert 90 <= len(house.objects) <= 240


def test_toilets_are_white_in_most_houses_and_sofas_are_of_many_colours(houses: list[House]) -> None:
    colors = {
        name: [thing.color for house in houses for thing in house.objects if thing.category == name]
        for name in ("toilet", "sofa")
    }
    assert len(colors["toilet"]) >= 20 and colors["toilet"].count("white") > 0.6 * len(colors["toilet"])
    assert len(set(colors["sofa"])) >= 5


def test_patios_and_balconies_are_open_to_the_sky_behind_a_low_wall_and_one_can_walk_out(houses: list[House]) -> None:
    seen = set()
    for house in houses:
        for place, room in enumerate(house.rooms):
            assert (room.ceiling is None) == (room.type in OUTDOORS)
            if room.type not in OUTDOORS:
                continue
            seen.add(room.type)
            around = [wall for wall in house.walls if place in wall.rooms]
            assert all((wall.height_m or 9) < 1 for wall in around if -1 in wall.rooms)
            ways = [o for o in house.openings if o.kind == "doorway" and place in house.walls[o.wall].rooms]
            assert ways and max(way.width_m for way in ways) >= 1.4
    assert seen == set(OUTDOORS)


def test_from_a_patio_one_sees_the_sky_above_and_the_house_behind(houses: list[House]) -> None:
    house = next(h for h in houses if any(room.type == "patio" for room in h.rooms))
    room = next(room for room in house.rooms if room.type == "patio")
    x, z = np.mean(room.polygon, axis=0)
    headings = np.arange(4) * pi / 2
    renderer = Renderer(Camera(64, 64), ("class_id",))
    renderer.load([build_scene(house, load_catalog())])
    poses = np.column_stack([np.full(4, x), np.zeros(4), np.full(4, z), headings])
    classes = renderer.render(np.zeros(4, np.int32), poses)["class_id"]
    upper = (classes[:, :24] == CLASSES.index("outside")).mean(axis=(1, 2))
    assert upper.max() > 0.6 and upper.min() < 0.6
    assert not (classes == CLASSES.index("ceiling")).all(axis=(1, 2)).any()
    assert (classes == CLASSES.index("wall")).any(axis=(1, 2)).all()


def test_walls_enclose_each_room_and_its_visible_outline_lies_within_its_polygon(houses: list[House]) -> None:
    for house in houses:
        for place, room in enumerate(house.rooms):
            outline = inner_outline(room_sides(house, place))
            assert 0 < signed_area(outline) < signed_area(room.polygon)
            assert all(contains(room.polygon, point) for point in outline)


def test_doors_are_wide_enough_and_stay_clear_on_both_sides(houses: list[House]) -> None:
    for house in houses:
        for opening in house.openings:
            if opening.kind in ("window", "entrance"):
                continue
            assert opening.width_m >= 0.9
            wall = house.walls[opening.wall]
            length = np.hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
            along = np.subtract(wall.end, wall.start) / length
            for side in (-1, 1):
                for ahead in np.linspace(0.1, 0.9, 9):
                    point = np.array(wall.start) + along * opening.offset_m + side * ahead * along[::-1] * (1, -1)
                    standing = [o for o in house.objects if o.position[1] < 1 and o.size_m[1] > 0.06]
                    assert not any(_covers(thing, point) for thing in standing)


def _covers(thing: HouseObject, point: np.ndarray) -> bool:
    c, s = cos(thing.heading_rad), sin(thing.heading_rad)
    x, z = point[0] - thing.position[0], point[1] - thing.position[2]
    return abs(c * x - s * z) < thing.size_m[0] / 2 and abs(s * x + c * z) < thing.size_m[2] / 2


def test_things_stand_on_the_floor_on_their_support_or_hang_on_a_wall(houses: list[House]) -> None:
    catalog = load_catalog()
    for house in houses:
        for thing in house.objects:
            if thing.on is None:
                continue
            support = house.objects[thing.on - 1]
            scale = support.size_m[1] / catalog.models[support.model].size_m[1]
            top = support.position[1] + catalog.models[support.model].top_m * scale
            assert thing.position[1] == pytest.approx(top, abs=0.01)
            assert _covers(support, np.array(thing.position)[[0, 2]])
            assert thing.room == support.room


def test_most_categories_that_can_be_asked_for_occur_within_twenty_houses(houses: list[House]) -> None:
    available = {name for name in QUERYABLE if load_catalog().models_of(name)}
    found = {thing.category for house in houses for thing in house.objects}
    assert len(available - found) <= 4


def test_a_house_survives_being_written_and_read(houses: list[House], tmp_path) -> None:
    path = tmp_path / "house.json"
    houses[0].save(path)
    assert House.load(path) == houses[0]


@pytest.mark.parametrize("damage", ["cut", "older", "missing", "extra"])
def test_a_damaged_or_older_file_is_refused_with_the_command_that_rebuilds_it(damage: str, tmp_path) -> None:
    path = tmp_path / "house.json"
    two_rooms().save(path)
    document = json.loads(path.read_text())
    if damage == "older":
        document["version"] = 0
    elif damage == "missing":
        del document["walls"]
    elif damage == "extra":
        document["rooms"][0]["windows"] = 3
    text = json.dumps(document)
    path.write_text(text[: len(text) // 2] if damage == "cut" else text)
    with pytest.raises(ValueError, match=r"house\.json.*make_houses\.py"):
        House.load(path)


def test_a_house_written_by_hand_is_valid_and_becomes_a_scene() -> None:
    validate(two_rooms())
    scene = build_scene(two_rooms(), load_catalog())
    assert set(np.array(CLASSES)[scene.instances.class_id]) == {"wall", "floor", "ceiling", "door", "window", "desk"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: replace(h, height_m=float("nan")), "height_m: expected a finite number"),
        (lambda h: replace(h, walls=h.walls[:-1]), r"rooms\[1\].*closed ring"),
        (lambda h: replace(h, openings=h.openings[1:]), r"rooms\[1\] \(gym\): no way leads to it"),
        (lambda h: _with_opening(h, 0, wall=9), r"openings\[0\] \(door\): expected a wall"),
        (lambda h: _with_opening(h, 1, offset_m=3.9), r"openings\[1\] \(window\): expected it within its wall"),
        (lambda h: _with_opening(h, 2, wall=1), r"openings\[2\] \(entrance\): expected it in a wall to the outside"),
        (lambda h: _with_opening(h, 0, top_m=9.0), r"openings\[0\].*bottom < top"),
        (lambda h: _with_desk(h, position=(5.0, 0.0, 2.0)), r"objects\[0\] \(desk\): expected it inside rooms\[0\]"),
        (lambda h: _with_desk(h, position=(1.0, 2.5, 2.4)), r"objects\[0\].*ceiling"),
        (lambda h: _with_desk(h, id=4), r"objects\[0\].*expected id 1"),
        (lambda h: _with_desk(h, position=(3.2, 0.0, 2.0)), r"objects\[0\] \(desk\): stands in an open door"),
        (
            lambda h: replace(h, objects=[*h.objects, replace(h.objects[0], id=2)]),
            r"objects\[1\].*intersects objects\[0\]",
        ),
    ],
)
def test_validation_names_the_element_that_is_wrong(change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate(change(two_rooms()))


def _with_opening(house: House, place: int, **changes: object) -> House:
    openings = list(house.openings)
    openings[place] = replace(openings[place], **changes)
    return replace(house, openings=openings)


def _with_desk(house: House, **changes: object) -> House:
    return replace(house, objects=[replace(house.objects[0], **changes)])


def test_a_scene_has_an_instance_for_every_object_in_the_right_place(houses: list[House]) -> None:
    catalog = load_catalog()
    for house in houses[:4]:
        scene = build_scene(house, catalog)
        items = scene.instances
        for thing in house.objects:
            row = int(np.flatnonzero(items.instance_id == thing.id)[0])
            assert CLASSES[items.class_id[row]] == thing.category
            model = catalog.models[thing.model]
            vertices = catalog.meshes.vertices[slice(*catalog.meshes.vertex_range[model.mesh])]
            world = vertices @ items.rotation_scale[row].T + items.translation[row]
            corners = np.array(thing.footprint())
            low, high = corners.min(0) - 1e-3, corners.max(0) + 1e-3
            assert (world[:, [0, 2]] >= low).all() and (world[:, [0, 2]] <= high).all()
            assert np.linalg.norm(world - items.sphere[row, :3], axis=1).max() <= items.sphere[row, 3] + 1e-3
        slots = scene.meshes.face_slot
        assert len(scene.materials.rgb) == len(scene.materials.texture) and slots.min() == 0
        lengths = np.linalg.norm(scene.meshes.normals, axis=1)
        assert np.allclose(lengths, 1, atol=1e-4)


def test_floors_cover_exactly_the_rooms_and_face_upwards(houses: list[House]) -> None:
    house = houses[0]
    scene = build_scene(house, load_catalog())
    first_mesh = len(load_catalog().meshes.vertex_range)
    for row in np.flatnonzero(scene.instances.class_id == CLASSES.index("floor")):
        faces = scene.meshes.faces[slice(*scene.meshes.face_range[scene.instances.mesh[row] - first_mesh])]
        a, b, c = (scene.meshes.vertices[faces[:, k]] for k in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
        assert area == pytest.approx(signed_area(house.rooms[scene.instances.room[row]].polygon), rel=1e-4)
        assert (scene.meshes.normals[faces][..., 1] > 0.99).all()


def test_an_unknown_model_or_surface_is_refused_by_name() -> None:
    house = _with_desk(two_rooms(), model="nobody:desk#1")
    with pytest.raises(ValueError, match=r"objects\[0\].*nobody:desk#1.*make_houses"):
        build_scene(house, load_catalog())
    house = two_rooms()
    house.rooms[1] = replace(house.rooms[1], floor="lava")
    with pytest.raises(ValueError, match=r"rooms\[1\], floor.*lava"):
        build_scene(house, load_catalog())


def test_triangulation_of_an_l_shape_covers_its_area() -> None:
    polygon = [(0.0, 4.0), (6.0, 4.0), (6.0, 2.0), (2.0, 2.0), (2.0, 0.0), (0.0, 0.0)]
    triangles = triangulate(polygon)
    assert len(triangles) == 4
    assert sum(signed_area([polygon[i] for i in t]) for t in triangles) == pytest.approx(16.0)


def test_making_houses_goes_on_where_it_was_and_replaces_damaged_files(data_root: Path) -> None:
    paths = [house_path(data_root, seed=5, split="train", index=index) for index in range(3)]
    before = [path.read_bytes() for path in paths]
    stamp = paths[0].stat().st_mtime_ns
    paths[1].write_text("{")
    paths[2].unlink()
    calls: list[tuple[int, int]] = []
    made = make_houses(data_root, split="train", count=3, seed=5, progress=lambda *call: calls.append(call))
    assert made == paths
    assert [path.read_bytes() for path in paths] == before
    assert paths[0].stat().st_mtime_ns == stamp
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_wrong_splits_and_missing_files_are_named(tmp_path) -> None:
    with pytest.raises(ValueError, match=f"split: expected one of {', '.join(SPLITS)}, got 'training'"):
        generate_house(seed=0, split="training", index=0)
    path = house_path(tmp_path, seed=0, split="val", index=4)
    with pytest.raises(ValueError, match=r"val-00004\.json: no such house; python scripts/make_houses\.py"):
        load_house(tmp_path, seed=0, split="val", index=4)
    assert path.name == "val-00004.json"
