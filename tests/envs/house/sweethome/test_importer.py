"""Homes drawn with Sweet Home 3D: what is read, what it becomes, and what is refused or reported."""

import subprocess
import sys
import zipfile
from collections import Counter
from math import pi
from pathlib import Path

import numpy as np
import pytest
from shapely import Point, Polygon, contains_xy

from eqa.data.generated import GeneratedEQA
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import HUMAN, human_homes, load_house
from eqa.envs.house.geometry import signed_area
from eqa.envs.house.house import House
from eqa.envs.house.sweethome import reader
from eqa.envs.house.sweethome.furniture import nearest_color
from eqa.envs.house.sweethome.importer import import_home
from eqa.envs.house.sweethome.names import Report, best_key, names, plain
from eqa.envs.house.sweethome.plan import chords
from eqa.envs.house.validate import validate

WALL = "<wall id='{}' xStart='{}' yStart='{}' xEnd='{}' yEnd='{}' height='250' thickness='{}' {}/>"
DOOR = "<doorOrWindow catalogId='eTeks#{}' name='{}' x='{}' y='{}' angle='{}' width='{}' depth='{}' height='{}' {}/>"
PIECE = "<pieceOfFurniture catalogId='{}' name='{}' x='{}' y='{}' angle='{}' width='{}' depth='{}' height='{}' {}/>"


def room(label: str, *corners: tuple[float, float], more: str = "") -> str:
    points = "".join(f"<point x='{x}' y='{y}'/>" for x, y in corners)
    return f"<room name='{label}' floorColor='FF806040' {more}>{points}</room>"


def walls() -> list[str]:
    """A house of 8 m x 4 m: outer walls 20 cm thick, one of 10 cm across at x = 5 m, drawn short of both."""
    return [
        WALL.format("north", 0, 0, 800, 0, 20, "rightSideColor='FFE0C0A0'"),
        WALL.format("east", 800, 0, 800, 400, 20, ""),
        WALL.format("south", 800, 400, 0, 400, 20, ""),
        WALL.format("west", 0, 400, 0, 0, 20, ""),
        WALL.format("across", 500, 12, 500, 388, 10, ""),
    ]


ROOMS = [
    room("Salon", (10, 10), (495, 10), (495, 390), (10, 390)),
    room("Chambre 1", (505, 10), (790, 10), (790, 390), (505, 390)),
]
DOORS = [
    DOOR.format("door", "Porte", 500, 200, pi / 2, 90, 14, 208, ""),
    DOOR.format("window85x123", "Small window", 250, 0, 0, 91, 35, 134, "elevation='87'"),
    DOOR.format("frontDoor", "Front door", 0, 200, 3 * pi / 2, 100, 20, 208, ""),
]
PIECES = [
    PIECE.format("eTeks#sofa", "Sofa", 150, 60, 0, 147, 87, 87, ""),
    PIECE.format("eTeks#bed90x190", "Bed", 730, 280, pi, 108, 208, 70, ""),
]


def written(folder: Path, *parts: str, name: str = "Home.xml", head: str = "") -> Path:
    path = folder / name
    text = f"<?xml version='1.0' encoding='UTF-8'?>{head}<home version='5500' wallHeight='250'>{''.join(parts)}</home>"
    path.write_text(text, encoding="utf-8")
    return path


def imported(folder: Path, *parts: str) -> tuple[House, Report]:
    house, report = import_home(written(folder, *parts), "home")
    validate(house, overlaps=True)
    return house, report


def the(house: House, category: str):
    (thing,) = [thing for thing in house.objects if thing.category == category]
    return thing


def test_a_home_becomes_a_valid_house_that_can_be_walked(tmp_path: Path) -> None:
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, *PIECES)
    assert [room.type for room in house.rooms] == ["bedroom", "living room"]
    assert [Polygon(room.polygon).bounds for room in house.rooms] == [(5, 0, 8, 4), (0, 0, 5, 4)]
    assert all(signed_area(room.polygon) > 0 for room in house.rooms)
    assert Counter(opening.kind for opening in house.openings) == {"door": 1, "window": 1, "entrance": 1}
    assert the(house, "sofa").model == "eTeks#sofa" and the(house, "sofa").position == (1.5, 0.0, 0.6)
    assert report.notes == [] and all(what == "placed" for _, what, _ in report.pieces)
    catalog = load_catalog()
    floor = build_floor(house, build_scene(house, catalog), catalog.meshes)
    assert floor.is_free(np.array([(2.5, 2.5), (5.6, 0.5)])).all()
    assert not floor.is_free(np.array([(-0.05, 2.0), (5.0, 0.5)])).any()


def test_a_sh3d_archive_is_read_like_the_xml_in_it(tmp_path: Path) -> None:
    path = written(tmp_path, *walls(), *ROOMS, *DOORS, *PIECES)
    archive = tmp_path / "Home.sh3d"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(path, "Home.xml")
        file.writestr("Home", b"java")
    assert import_home(archive, "home")[0] == import_home(path, "home")[0]


def test_an_archive_with_only_the_java_object_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "old.sh3d"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("Home", b"java")
    with pytest.raises(ValueError, match=r"old\.sh3d: .*only the Java object `Home`; open it with Sweet Home 3D 5\.3"):
        import_home(path, "home")


def test_what_unpacks_to_more_than_a_home_is_never_unpacked(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "bomb.sh3d"
    monkeypatch.setattr(reader, "MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("Home.xml", b"<home>" + b" " * (8 << 20) + b"</home>")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match="expected Home.xml of at most 1 MB, got more"):
        import_home(path, "home")


ODD = {
    "an entity": ("", "<!DOCTYPE home [<!ENTITY a 'aaaa'>]>", "expected no document type or entities"),
    "no walls": ("<label x='1' y='1'/>", "", "expected walls or rooms on the ground level, got none"),
    "open walls": ("".join(walls()[:2]), "", "expected rooms that walls enclose, got none"),
    "a wall to nowhere": (WALL.format("w", 0, 0, "NaN", 0, 10, ""), "", "<wall w> xEnd: expected a finite number"),
    "a wall without an end": ("<wall id='w' xStart='0' yStart='0'/>", "", "<wall w> xEnd: expected a finite number"),
    "a far wall": (WALL.format("w", 0, 0, 1e9, 0, 10, ""), "", "<wall w> xEnd: expected"),
    "a flat wall": (WALL.format("w", 0, 0, 100, 0, 0, ""), "", "<wall w> thickness: expected more than 0"),
    "a sofa of no width": (
        "".join(walls()) + PIECE.format("eTeks#sofa", "Sofa", 1, 1, 0, -5, 87, 87, ""), "", "<pieceOfFurniture Sofa> width",
    ),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_home_is_refused_and_the_element_named(odd: str, tmp_path: Path) -> None:
    body, head, message = ODD[odd]
    with pytest.raises(ValueError, match=rf"Home\.xml: .*{message}"):
        import_home(written(tmp_path, body, head=head), "home")


@pytest.mark.parametrize("content", [b"", b"no xml", b"<plan/>", b"<home>", "<home name='\xe9'/>".encode("latin-1")])
def test_what_is_no_home_is_refused_by_the_file_s_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "Home.xml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"Home\.xml: not a Sweet Home 3D home that can be read"):
        import_home(path, "home")


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("Bedroom #2", "bedroom"), ("Salle de bains", "bathroom"), ("WC", "bathroom"), ("Küche", "kitchen"),
        ("Salle à manger", "dining room"), ("Wohnzimmer", "living room"), ("Entrée", "lobby"), ("Corridor", "hallway"),
        ("Terrasse", "patio"), ("Chambre 1", "bedroom"), ("Studio", "office"), ("Kid's room", "bedroom"), ("xyz", None),
    ],
)  # fmt: skip
def test_labels_in_many_languages_name_the_type_of_a_room(label: str, kind: str | None) -> None:
    assert best_key(plain(label), names()["rooms"]) == kind


def test_a_room_without_a_label_is_what_stands_in_it_and_the_report_says_so(tmp_path: Path) -> None:
    _, report = imported(tmp_path, *walls(), *ROOMS[:1], *DOORS, *PIECES)
    (row,) = [row for row in report.rooms if row[0] == "-"]
    assert row[1] == "bedroom" and "a bed in it; no label; enclosed by walls, not drawn as a room" in row[2]


def test_angles_are_turned_and_mirrors_sizes_and_colours_kept(tmp_path: Path) -> None:
    blue = "<material name='iris' color='FF00376B'/>"
    sofa = PIECE.format("eTeks#armchair", "Armchair", 200, 200, pi / 2, 80, 90, 85, "modelMirrored='true'")
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, sofa.replace("/>", f">{blue}</pieceOfFurniture>"))
    thing = the(house, "armchair")
    assert thing.heading_rad == pytest.approx(-pi / 2)  # clockwise from above, so that it looks along -X
    assert "1 pieces with colours of their own: painted in the nearest of the eleven colours" in report.notes
    assert (thing.size_m, thing.mirrored, thing.color, thing.recolored) == ((0.8, 0.85, 0.9), True, "blue", True)


def test_a_piece_is_substituted_by_the_nearest_of_its_kind_or_left_out_and_both_are_reported(tmp_path: Path) -> None:
    pieces = [
        PIECE.format("", "Tapis", 250, 200, 0.3, 180, 120, 1, "color='FF8D0700'"),
        PIECE.format("eTeks#cornerBunkBed90x190", "Corner bunk bed", 640, 280, 0, 110, 210, 180, ""),
        PIECE.format("eTeks#texturableBox", "Box", 250, 300, 0, 50, 50, 50, ""),
        PIECE.format("x#1", "Quaxomat", 250, 300, 0, 50, 50, 50, ""),
        PIECE.format("", "Sofa", 250, 300, 0, 10, 10, 10, ""),
        PIECE.format("eTeks#sofa", "Sofa", 250, 300, 0, 147, 87, 87, "pitch='1'"),
        PIECE.format("eTeks#sofa", "Sofa", 250, 300, 0, 147, 87, 87, "visible='false'"),
        PIECE.format("eTeks#sofa", "Sofa", 2500, 300, 0, 147, 87, 87, ""),
    ]
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, *pieces)
    assert {thing.category for thing in house.objects} == {"rug", "bed"}
    assert "unk" in the(house, "bed").model and the(house, "rug").color == "red"
    why = [remark for _, what, remark in report.pieces if what == "left out"]
    assert why[0] == "nothing like it in the catalogue" and "unknown name" in why[1] and "no sofa of about" in why[2]
    assert why[3:] == ["leans or is turned over", "hidden by its author", "stands in no room"]


def test_furniture_that_stands_in_a_wall_is_moved_out_and_what_stands_on_it_is_known(tmp_path: Path) -> None:
    table = PIECE.format("eTeks#squareTable", "Table", 200, 45, 0, 100, 90, 74, "")
    vase = PIECE.format("Scopia#vase1", "Vase", 200, 60, 0, 22, 22, 30, "elevation='74'")
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, table, vase)
    assert the(house, "table").position[2] == pytest.approx(0.55, abs=0.011)
    assert report.pieces[0][2].startswith("moved ") and the(house, "vase").on == the(house, "table").id


def test_a_door_in_no_wall_is_left_out_and_reported(tmp_path: Path) -> None:
    lost = DOOR.format("door", "Lost door", 250, 200, 0, 90, 14, 208, "")
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, lost)
    assert len(house.openings) == 3
    assert ("Lost door", "left out", "is in no wall of a room") in report.openings


def test_a_door_opens_to_the_side_that_was_drawn(tmp_path: Path) -> None:
    sash = "<sash xAxis='0.05' yAxis='0.5' width='0.9' startAngle='0' endAngle='-1.5707964'/>"
    for mirrored, near in ((False, 1.58), (True, 2.42)):
        more = "modelMirrored='true'" if mirrored else ""
        door = DOOR.format("door", "Door", 500, 200, pi / 2, 90, 14, 208, more).replace("/>", f">{sash}</doorOrWindow>")
        house, _ = imported(tmp_path, *walls(), *ROOMS, door, DOORS[2])
        (leaf,) = [opening for opening in house.openings if opening.kind == "door"]
        wall = house.walls[leaf.wall]
        assert (
            house.rooms[wall.rooms[leaf.into_right]].type == "living room"
        )  # turned by 90 degrees, its front looks at -X
        hinge = leaf.offset_m + (0.42 if leaf.hinge_at_end else -0.42)
        z = wall.start[1] + hinge * (1 if wall.end[1] > wall.start[1] else -1)
        assert z == pytest.approx(near, abs=0.03)


def test_a_door_whose_leaf_would_stand_in_furniture_is_hung_another_way(tmp_path: Path) -> None:
    sash = "<sash xAxis='0.05' yAxis='0.5' width='0.9' startAngle='0' endAngle='-1.5707964'/>"
    door = DOORS[0].replace("/>", f">{sash}</doorOrWindow>")
    table = PIECE.format("eTeks#squareTable", "Table", 430, 160, 0, 60, 30, 74, "")
    before, _ = imported(tmp_path, *walls(), *ROOMS, door, DOORS[2])
    after, report = imported(tmp_path, *walls(), *ROOMS, door, DOORS[2], table)
    ways = [next(o for o in house.openings if o.kind == "door") for house in (before, after)]
    assert (ways[0].hinge_at_end, ways[0].into_right) != (ways[1].hinge_at_end, ways[1].into_right)
    assert any("hung the other way: furniture" in note for note in report.notes)


def test_rooms_without_a_wall_between_them_are_joined_by_an_open_border(tmp_path: Path) -> None:
    rooms = [
        room("Living room", (10, 10), (500, 10), (500, 390), (10, 390)),
        room("Kitchen", (500, 10), (790, 10), (790, 390), (500, 390)),
    ]
    house, _ = imported(tmp_path, *walls()[:4], *rooms, DOORS[2])
    (border,) = [opening for opening in house.openings if opening.kind == "doorway"]
    assert border.width_m == pytest.approx(4.0, abs=0.01) and border.top_m == house.height_m
    assert sorted(Polygon(room.polygon).area for room in house.rooms) == pytest.approx([12, 20], abs=0.1)


def test_a_wall_that_ends_in_a_room_stands_free_in_it_and_a_low_one_stays_low(tmp_path: Path) -> None:
    stub = WALL.format("stub", 250, 10, 250, 150, 10, "").replace("height='250'", "height='110'")
    house, _ = imported(tmp_path, *walls(), stub, *ROOMS, *DOORS[::2])
    (free,) = [wall for wall in house.walls if wall.rooms[0] == wall.rooms[1]]
    assert house.rooms[free.rooms[0]].type == "living room" and free.height_m == 1.1
    assert {free.start, free.end} == {(2.5, 0.0), (2.5, 1.5)}


def test_a_round_wall_becomes_chords_on_its_arc() -> None:
    wall = reader.HomeWall("round", (6.5, 9.19), (0.04, 10.42), 0.2, 2.5, 0.698, (None, None))
    points = [line.start for line in chords(wall)] + [wall.end]
    middle = np.mean([wall.start, wall.end], axis=0)
    radius = 0.5 * np.hypot(6.46, 1.23) / np.sin(0.349)
    centre = middle + (radius * np.cos(0.349)) * np.array([-0.187, -0.982])
    assert len(points) > 5
    assert [Point(*point).distance(Point(*centre)) for point in points] == pytest.approx(
        [radius] * len(points), abs=0.02
    )


def test_a_balcony_has_no_ceiling_and_is_closed_where_nothing_was_drawn(tmp_path: Path) -> None:
    balcony = room("Balcon", (810, 100), (950, 100), (950, 300), (810, 300), more="ceilingVisible='false'")
    french = DOOR.format("frenchWindow85x200", "French window", 800, 200, pi / 2, 90, 35, 210, "elevation='5'")
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS, balcony, french)
    (outside,) = [place for place, room in enumerate(house.rooms) if room.type == "balcony"]
    assert house.rooms[outside].ceiling is None
    edges = [wall for wall in house.walls if set(wall.rooms) == {outside, -1}]
    assert edges and all(wall.height_m == 1.0 for wall in edges)
    assert any("closed by a parapet" in note for note in report.notes)
    assert ("French window", "doorway", "a window that one walks through stands open") in report.openings


def test_only_the_ground_level_is_read_and_the_rest_counted(tmp_path: Path) -> None:
    levels = (
        "<level id='up' name='1' elevation='262' height='250'/><level id='down' name='0' elevation='0' height='250'/>"
    )
    ground = [part.replace(" ", " level='down' ", 1) for part in (*walls(), *ROOMS, *DOORS, *PIECES)]
    upstairs = [part.replace(" ", " level='up' ", 1) for part in (*walls()[:4], PIECES[0])]
    house, report = imported(tmp_path, levels, *ground, *upstairs)
    assert len(house.rooms) == 2 and len(house.objects) == 2
    assert "4 x <wall> on other levels: only the ground level is read" in report.notes


def test_a_room_that_no_door_leads_to_counts_as_outside_and_is_reported(tmp_path: Path) -> None:
    house, report = imported(tmp_path, *walls(), *ROOMS, *DOORS[1:], *PIECES)
    assert [room.type for room in house.rooms] == ["living room"]
    assert any("no door leads to it" in note for note in report.notes)
    assert ("Bed", "left out", "stands in no room") in report.pieces


@pytest.mark.parametrize(
    ("paint", "color"),
    [
        ("#8d0700", "red"), ("#00376b", "blue"), ("#680098", "purple"), ("#010101", "black"), ("#fcfcff", "white"),
        ("#6f6f6f", "gray"), ("#623e06", "brown"), ("#ff9fa4", "pink"), ("#406d00", "green"), ("#f4d02c", "yellow"),
        ("#f07a14", "orange"),
    ],
)  # fmt: skip
def test_a_paint_is_called_what_a_person_would_call_it(paint: str, color: str) -> None:
    assert nearest_color(paint) == color


def test_the_script_writes_the_house_and_goes_on_after_a_home_that_it_cannot_read(tmp_path: Path) -> None:
    good = written(tmp_path, *walls(), *ROOMS, *DOORS, *PIECES)
    bad = written(tmp_path, name="bad.xml")
    script = Path(__file__).parents[4] / "scripts" / "import_home.py"
    command = [sys.executable, str(script), str(bad), str(good), "--out", str(tmp_path / "homes")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "expected walls or rooms" in " ".join(ran.stdout.split()) and "2 placed, 0 substituted" in ran.stdout
    validate(House.load(tmp_path / "homes" / "Home.json"), overlaps=True)


def test_the_homes_of_the_split_human_are_valid_and_every_room_can_be_walked() -> None:
    catalog = load_catalog()
    assert len(human_homes()) == 5
    for index in range(5):
        house = load_house(Path("nowhere"), seed=3, split=HUMAN, index=index)
        assert house.id == f"human-{index:05d}"
        validate(house, overlaps=True)
        floor = build_floor(house, build_scene(house, catalog), catalog.meshes)
        cells = floor.centres
        for room in house.rooms:
            assert contains_xy(Polygon(room.polygon), *cells.T).sum() * floor.cell_m**2 > 0.3
    with pytest.raises(ValueError, match="index: expected 0 to 4 for the split 'human', got 5"):
        load_house(Path("nowhere"), seed=0, split=HUMAN, index=5)


def test_a_source_of_houses_gives_homes_of_the_split_human_by_their_id(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path))
    sizes = {"train": 1, "val": 1, "test": 1}
    source = GeneratedEQA(seed=0, houses=sizes, questions=sizes)
    assert source.house("human-00003").id == "human-00003"
