"""House files as people write them: the documented example is good, and each mistake is refused by name."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.house import House
from eqa.envs.house.validate import validate
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer

ROOT = Path(__file__).parents[3]


def example() -> dict:
    """The house that the documentation shows."""
    text = (ROOT / "docs" / "house-format.md").read_text(encoding="utf-8")
    return json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL).group(1))


def load(document: object, folder: Path) -> House:
    path = folder / "mine.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    house = House.load(path)
    validate(house)
    return house


def seen(house: House, x: float, z: float) -> set[str]:
    """Classes seen when turning round on the spot."""
    renderer = Renderer(Camera(64, 64), ("class_id",))
    renderer.load([build_scene(house, load_catalog())])
    poses = np.array([(x, 0.0, z, turn * np.pi / 2) for turn in range(4)])
    return set(np.array(CLASSES)[np.unique(renderer.render(np.zeros(4, np.int32), poses)["class_id"])])


def test_the_documented_house_is_valid_can_be_walked_and_shows_what_is_in_it(tmp_path: Path) -> None:
    house = load(example(), tmp_path)
    assert seen(house, 2.2, 2.3) >= {"bed", "table", "vase", "floor", "ceiling", "wall", "window", "door"}
    catalog = load_catalog()
    floor = build_floor(house, build_scene(house, catalog), catalog.meshes)
    assert floor.is_free(np.array([(2.2, 2.3), (4.6, 2.4)])).all()


def test_the_documented_keys_are_those_that_are_read() -> None:
    text = (ROOT / "docs" / "house-format.md").read_text(encoding="utf-8")
    for name in ("rooms", "walls", "openings", "objects"):
        for key in House.__dataclass_fields__[name].type.__args__[0].__dataclass_fields__:
            assert f"`{key}`" in text


def change(*keys: object, to: object = None, drop: bool = False) -> Callable[[dict], None]:
    def apply(document: dict) -> None:
        entry = document
        for key in keys[:-1]:
            entry = entry[key]
        if drop:
            del entry[keys[-1]]
        else:
            entry[keys[-1]] = to

    return apply


BED = ("objects", 0)
WRONG = {
    "a missing key": (change("walls", 1, "rooms", drop=True), r"walls\[1\]: expected the key 'rooms'"),
    "an unknown key": (change("rooms", 0, "color", to="red"), r"rooms\[0\]: expected no key 'color'"),
    "a missing list": (change("openings", drop=True), "expected the key 'openings'"),
    "an unknown list": (change("stairs", to=[]), "house: expected no key 'stairs'"),
    "an older version": (change("version", to=1), "expected format eqa-house version 2, got eqa-house version 1"),
    "a text for a number": (change("height_m", to="2.6"), "height_m: expected a finite number, got \"2.6\""),
    "true for a number": (change("walls", 0, "thickness_m", to=True), r"walls\[0\]\.thickness_m: expected a finite"),
    "a number for a text": (change("rooms", 1, "type", to=3), r"rooms\[1\]\.type: expected a text, got 3"),
    "a fraction for a place": (change("openings", 0, "wall", to=1.5), r"openings\[0\]\.wall: expected a whole number"),
    "a list for an object": (change(*BED, to=[1]), r"objects\[0\]: expected an object"),
    "a number for a list": (change("rooms", to=2), "rooms: expected a list, got 2"),
    "a corner of three": (change("rooms", 0, "polygon", 2, to=[1, 2, 3]), r"rooms\[0\]\.polygon\[2\]: expected 2"),
    "a number without end": (change(*BED, "heading_rad", to=1e999), "expected finite numbers, got Infinity"),
    "no number": (change("walls", 0, "start", 0, to=float("nan")), "expected finite numbers, got NaN"),
    "no rooms": (change("rooms", to=[]), "expected rooms, got none"),
    "overlapping rooms": (
        change("rooms", 1, "polygon", to=[[3, 0], [3, 3], [6, 3], [6, 0]]),
        r"rooms\[1\] \(bathroom\): overlaps rooms\[0\] \(bedroom\) by 3.00 m2",
    ),
    "a crossing polygon": (
        change("rooms", 0, "polygon", to=[[0, 0], [4, 3], [0, 3], [4, 0]]),
        r"rooms\[0\] \(bedroom\): expected a polygon that does not cross or touch itself, got Self-intersection",
    ),
    "two corners": (change("rooms", 0, "polygon", to=[[0, 0], [4, 3]]), r"rooms\[0\].*got 2 corners"),
    "a polygon the other way": (
        change("rooms", 0, "polygon", to=[[4, 0], [4, 3], [0, 3], [0, 0]]),
        r"rooms\[0\].*counter-clockwise",
    ),
    "an unknown floor": (change("rooms", 0, "floor", to="lava"), r"rooms\[0\] \(bedroom\): floor: .*lava"),
    "a wall off its room": (change("walls", 4, "end", to=[7, 3]), r"walls\[4\]: expected it on the outline of rooms\[1\]"),
    "a free wall elsewhere": (change("walls", 4, "rooms", to=[0, 0]), r"walls\[4\]: expected it within rooms\[0\]"),
    "a wall of no room": (change("walls", 4, "rooms", to=[-1, -1]), r"walls\[4\]: expected rooms of 2"),
    "a wall without length": (change("walls", 4, "end", to=[4, 3]), r"walls\[4\]: expected a length"),
    "a wall too high": (change("walls", 4, "height_m", to=3), r"walls\[4\]: expected a height up to"),
    "a window in a low wall": (change("walls", 0, "height_m", to=1), r"openings\[1\] \(window\): .*as high as the house"),
    "a gap in the walls": (change("walls", 4, drop=True), r"rooms\[1\]: no wall goes on"),
    "an opening of no kind": (change("openings", 1, "kind", to="hole"), r"openings\[1\] \(hole\): kind: expected one of"),
    "a door in no wall": (change("openings", 0, "wall", to=7), r"openings\[0\] \(door\): expected a wall of 7, got 7"),
    "a door past its wall": (change("openings", 0, "offset_m", to=2.9), r"openings\[0\].*within its wall of 3.00 m"),
    "a door outside": (change("openings", 0, "wall", to=0), r"openings\[0\] \(door\): expected it between two rooms"),
    "a door in the air": (change("openings", 0, "bottom_m", to=0.5), r"openings\[0\].*reach down to the floor"),
    "a window inside": (change("openings", 1, "wall", to=2), r"openings\[1\] \(window\): .*to the outside"),
    "overlapping openings": (
        change("openings", 1, to={"kind": "door", "wall": 2, "offset_m": 1, "width_m": 0.9, "bottom_m": 0, "top_m": 2}),
        r"openings\[1\] \(door\): overlaps openings\[0\]",
    ),
    "no way in": (change("openings", 0, drop=True), r"rooms\[1\] \(bathroom\): no way leads to it"),
    "the same id twice": (change("objects", 1, "id", to=1), r"objects\[1\] \(table\): expected id 2, got 1"),
    "an unknown model": (change(*BED, "model", to="eTeks#throne"), r"objects\[0\] \(bed\): model 'eTeks#throne' is not"),
    "an unknown category": (change(*BED, "category", to="throne"), r"objects\[0\] \(throne\): category: expected one"),
    "an unknown colour": (change(*BED, "color", to="teal"), r"objects\[0\] \(bed\): color: expected one of black"),
    "an object in a wall": (change(*BED, "position", 0, to=0.3), r"objects\[0\] \(bed\): expected it inside rooms\[0\]"),
    "an object in another": (change("objects", 1, "position", 0, to=2.0), r"objects\[1\] \(table\): intersects objects\[0\]"),
    "an object in a leaf": (change("objects", 3, "position", to=[4.6, 0, 2.45]), r"objects\[3\].*stands in an open door"),
    "an object on nothing": (change("objects", 2, "on", to=9), r"objects\[2\] \(vase\): stands on object 9"),
    "an object under the floor": (change(*BED, "position", 1, to=-1), r"objects\[0\].*on or above the floor"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_refused_and_the_element_named(mistake: str, tmp_path: Path) -> None:
    document = example()
    apply, message = WRONG[mistake]
    apply(document)
    with pytest.raises(ValueError, match=message):
        load(document, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "null", '{"format": "eqa-house"}', "[" * 100_000])
def test_what_is_no_house_at_all_is_refused_with_the_page_that_says_what_is(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mine\.json: not a house file.*docs/house-format\.md"):
        load(text, tmp_path)


def test_a_wall_may_stand_free_in_a_room_and_blocks_the_way_and_the_view(tmp_path: Path) -> None:
    document = example()
    document["objects"] = []
    before = load(document, tmp_path)
    screen = {"start": [1.0, 1.5], "end": [3.0, 1.5], "thickness_m": 0.1, "rooms": [0, 0]}
    document["walls"].append(screen)
    after = load(document, tmp_path)
    catalog = load_catalog()
    places = np.array([(2.0, 1.5), (2.0, 2.3), (0.5, 1.5)])
    free = [build_floor(h, build_scene(h, catalog), catalog.meshes).is_free(places).tolist() for h in (before, after)]
    assert free == [[True, True, True], [False, True, True]]
    renderer = Renderer(Camera(32, 32), ("depth",))
    renderer.load([build_scene(before, catalog), build_scene(after, catalog)])
    depth = renderer.render(np.array([0, 1], np.int32), np.array([(2.0, 0.0, 2.3, 0.0)] * 2))["depth"][:, 16, 16]
    assert depth == pytest.approx([2.2, 0.75], abs=0.03)


def test_between_rooms_with_an_open_border_nothing_stands_and_a_thing_may_reach_across(tmp_path: Path) -> None:
    document = example()
    document["openings"][0] = {
        "kind": "doorway", "wall": 2, "offset_m": 1.5, "width_m": 3, "bottom_m": 0, "top_m": 2.6,
    }  # fmt: skip
    document["walls"][2]["thickness_m"] = 0.02
    document["objects"] = [{**document["objects"][1], "id": 1, "position": [4.2, 0, 0.6]}]
    house = load(document, tmp_path)
    renderer = Renderer(Camera(32, 32), ("class_id", "depth"))
    renderer.load([build_scene(house, load_catalog())])
    image = renderer.render(np.zeros(1, np.int32), np.array([(1.0, 0.0, 2.0, -np.pi / 2)]))
    assert image["depth"][0, 16, 16] == pytest.approx(4.9, abs=0.05)


def test_a_mirrored_thing_shows_the_mirror_image(tmp_path: Path) -> None:
    document = example()
    sofa = {**document["objects"][0], "category": "sofa", "model": "eTeks#cornerSofa", "size_m": [2.33, 0.87, 1.68]}
    pictures = []
    for mirrored in (False, True):
        document["objects"] = [{**sofa, "position": [2.0, 0, 0.95], "mirrored": mirrored}]
        renderer = Renderer(Camera(64, 64), ("instance_id",))
        renderer.load([build_scene(load(document, tmp_path), load_catalog())])
        image = renderer.render(np.zeros(1, np.int32), np.array([(2.0, 0.0, 2.7, 0.0)]))
        pictures.append(image["instance_id"][0] == 1)
    assert (pictures[0] == pictures[1][:, ::-1]).mean() > 0.99
    assert (pictures[0] == pictures[1]).mean() < 0.97


def test_the_script_says_what_is_wrong_or_what_is_in_a_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    document = example()
    good.write_text(json.dumps(document))
    document["objects"][0]["model"] = "eTeks#throne"
    bad.write_text(json.dumps(document))
    command = [sys.executable, str(ROOT / "scripts" / "check_house.py"), str(good), str(bad)]
    ran = subprocess.run(
        [*command, "--preview", str(tmp_path), "--views", "2"], check=False, capture_output=True, text=True
    )
    output = " ".join(ran.stdout.split())
    assert ran.returncode == 1
    assert "good: 2 rooms 7 walls 3 openings 4 objects, 18 m2" in output and "'eTeks#throne' is not" in output
    assert (tmp_path / "good.png").stat().st_size > 1000 and not (tmp_path / "bad.png").exists()
