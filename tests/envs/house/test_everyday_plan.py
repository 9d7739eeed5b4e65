"""Everyday plans are homes: in size, ways, doors and windows. Styles of houses keep apart, and `mixed` has both."""

from collections import Counter
from dataclasses import asdict, replace
from math import hypot
from pathlib import Path

import numpy as np
import pytest
from shapely import Geometry, Polygon, union_all

from eqa.data.generated import GeneratedEQA
from eqa.envs.files import fingerprint
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.everyday_plan import draw_everyday_plan
from eqa.envs.house.everyday_rows import everyday_rules
from eqa.envs.house.generator import STYLES, generate_house, house_path, identity_of, load_house, make_houses
from eqa.envs.house.geometry import signed_area
from eqa.envs.house.house import House, Opening, Room, Wall
from eqa.envs.house.plan import HEIGHT_M, Plan, draw_plan
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.house.validate import validate
from eqa.envs.metrics import inside_polygon

NUM_PLANS, NUM_HOUSES = 300, 4
PRIVATE = ("bedroom", "bathroom")
NOT_COUNTED = ("bathroom", "hallway", "lobby", "garage", "patio", "balcony")  # as rooms, by censuses
TO_LIVE_IN = ("living room", "dining room", "kitchen", "bedroom", "office", "gym")
SMALLEST_M2 = {"living room": 11, "bedroom": 7, "kitchen": 3.9, "bathroom": 1.9, "hallway": 2, "garage": 15.8}


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw_everyday_plan(Dice([7, index])) for index in range(NUM_PLANS)]


@pytest.fixture(scope="module")
def houses() -> list[House]:
    return [generate_house(seed=3, split="val", index=index, style="everyday") for index in range(NUM_HOUSES)]


def digest(plan: Plan) -> str:
    """A fingerprint of all but the rooms' surfaces, whose lists may grow."""
    rooms, walls, openings = plan
    bare = [replace(room, floor="", wall="", ceiling=room.ceiling and "") for room in rooms]
    return fingerprint([asdict(thing) for part in (bare, walls, openings) for thing in part])[:12]


def joined(rooms: list[Room], walls: list[Wall], openings: list[Opening], leaving_out: tuple[str, ...]) -> bool:
    """True if all rooms of other types can be walked through from the first of them."""
    ways = [walls[opening.wall].rooms for opening in openings if opening.kind in ("door", "doorway")]
    left = {place for place, room in enumerate(rooms) if room.type not in leaving_out}
    reached = {min(left)}
    for _ in rooms:
        reached |= {b for way in ways for a, b in (way, way[::-1]) if a in reached and b in left}
    return reached == left


def test_everyday_plans_are_whole_and_have_the_size_and_the_rooms_of_homes(plans: list[Plan]) -> None:
    bedrooms: Counter[int] = Counter()
    for place, (rooms, walls, openings) in enumerate(plans):
        if place % 4 == 0:
            validate(House("plan", "test", HEIGHT_M, rooms, walls, openings))
        types = Counter(room.type for room in rooms)
        assert 40 <= sum(signed_area(room.polygon) for room in rooms if room.ceiling) <= 250
        assert 1 <= sum(types[kind] for kind in types if kind not in NOT_COUNTED) <= 10
        assert types["living room"] == types["kitchen"] == types["hallway"] == 1 and types["bathroom"] >= 1
        for room in rooms:
            assert signed_area(room.polygon) >= SMALLEST_M2.get(room.type, 0), room
        bedrooms[types["bedroom"]] += 1
    assert set(bedrooms) == set(everyday_rules()["bedrooms"]) and bedrooms[2] + bedrooms[3] > NUM_PLANS / 3


def test_outlines_and_rooms_are_not_all_rectangles(plans: list[Plan]) -> None:
    corners = [len(room.polygon) for rooms, _, _ in plans for room in rooms]
    assert set(corners) >= {4, 6, 8} and 0.1 < np.mean(np.array(corners) > 4) < 0.5


def test_nobody_walks_through_a_bedroom_or_a_bathroom_except_to_a_bathroom_of_its_own(plans: list[Plan]) -> None:
    for plan in plans:
        assert joined(*plan, leaving_out=(*PRIVATE, "balcony")) and joined(*plan, leaving_out=("bathroom", "balcony"))


def test_doors_are_as_wide_as_those_of_dwellings_and_the_front_door_leads_into_the_hallway(plans: list[Plan]) -> None:
    for rooms, walls, openings in plans:
        doors = [opening for opening in openings if opening.kind == "door"]
        assert doors and all(0.75 <= door.width_m <= 0.9 for door in doors)
        assert all(0.74 <= way.width_m <= 2.4 for way in openings if way.kind == "doorway")
        into = [rooms[max(walls[opening.wall].rooms)].type for opening in openings if opening.kind == "entrance"]
        assert sorted(set(into) - {"garage"}) in (["hallway"], ["lobby"]) and len(into) - into.count("garage") == 1


def test_rooms_to_live_in_have_windows_to_the_outside_by_their_area(plans: list[Plan]) -> None:
    shares = []
    for rooms, walls, openings in plans:
        glass_m2 = np.zeros(len(rooms))
        for window in (opening for opening in openings if opening.kind == "window"):
            inside = [room for room in walls[window.wall].rooms if room >= 0 and rooms[room].ceiling]
            assert len(inside) == 1
            glass_m2[inside[0]] += window.width_m * (window.top_m - window.bottom_m)
        shares += [
            glass / signed_area(room.polygon)
            for room, glass in zip(rooms, glass_m2, strict=True)
            if room.type in TO_LIVE_IN
        ]
    assert min(shares) > 0.03 and np.mean(np.array(shares) >= 0.12) > 0.8 and np.median(shares) < 0.25


def test_walls_are_long_enough_for_what_is_in_them_and_leave_corners_free(plans: list[Plan]) -> None:
    for _, walls, openings in plans:
        for opening in openings:
            wall = walls[opening.wall]
            length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
            assert abs(opening.offset_m - length / 2) + opening.width_m / 2 <= length / 2 - 0.14


def test_the_same_numbers_give_the_same_everyday_plan_on_every_machine(plans: list[Plan]) -> None:
    assert [digest(plan) for plan in plans[:4]] == ["9d49066b07eb", "8a936c92db81", "096c9d0d5fcc", "65ccede5a3f9"]
    assert plans[5] == draw_everyday_plan(Dice([7, 5])) != plans[6]


def test_plans_in_the_paper_s_style_are_those_of_older_versions_unless_they_had_a_narrow_part() -> None:
    older = ["606422b9117a", "9f2c0add28ba", "b457caf9ba93"]
    assert [digest(draw_plan(Dice([0, index % 3, index]))) for index in (1, 2, 3)] == older


def test_no_room_and_no_gap_between_walls_is_narrower_than_a_hallway(plans: list[Plan]) -> None:
    for rooms, _, _ in [*plans[:100], *(draw_plan(Dice([7, 1, index])) for index in range(195, 225))]:
        areas = [Polygon(room.polygon) for room in rooms]
        for area in areas:
            assert _moved(_moved(area, -0.595), 0.595).area == pytest.approx(area.area)
        whole = union_all(areas)
        assert _moved(_moved(whole, 0.595), -0.595).area == pytest.approx(whole.area)


def _moved(area: Geometry, out_m: float) -> Geometry:
    """The area with its outline farther out, its corners as sharp as before."""
    return area.buffer(out_m, join_style="mitre", mitre_limit=10)


def test_an_agent_gets_into_every_room_of_an_everyday_house(houses: list[House]) -> None:
    catalog = load_catalog()
    for house in houses:
        floor = build_floor(house, build_scene(house, catalog), catalog.meshes, resolution=300)
        for room in house.rooms:
            free_m2 = inside_polygon(floor.centres, room.polygon).sum() * floor.cell_m**2
            assert free_m2 > 0.02 * signed_area(room.polygon), (house.id, room.type)


def test_mixed_houses_are_those_of_both_styles_in_turns(houses: list[House], tmp_path: Path) -> None:
    numbers = {"seed": 3, "split": "val"}
    made = make_houses(tmp_path, count=2, style="mixed", workers=1, **numbers)
    assert made == [
        house_path(tmp_path, index=index, style=style, **numbers) for index, style in enumerate(("paper", "everyday"))
    ]
    assert generate_house(index=1, style="mixed", **numbers) == houses[1] == House.load(made[1])
    assert load_house(tmp_path, index=0, style="mixed", **numbers) == generate_house(index=0, **numbers)
    assert houses[1].generator == identity_of(3, "everyday") != identity_of(3)


def test_an_unknown_style_is_refused_and_so_is_a_world_of_another(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path))
    for ask in (
        lambda: generate_house(seed=0, split="val", index=0, style="villa"),
        lambda: HouseWorld.generated(seed=0, style="villa"),
        lambda: _source("villa"),
    ):
        with pytest.raises(ValueError, match="style: expected one of paper, everyday, mixed, got 'villa'"):
            ask()
    for style in STYLES:
        world = HouseWorld.generated(seed=0, style=style)
        assert _source(style, world).world is world
    with pytest.raises(ValueError, match="expected the houses .* paper seed 0, got .* mixed seed 0; set data.seed and"):
        _source(None, world)
    assert len({_source(style).questions_file for style in STYLES}) == 3
    assert _source(None).questions_file == _source("paper").questions_file


def _source(style: str | None, world: HouseWorld | None = None) -> GeneratedEQA:
    houses = {"train": 1, "val": 1, "test": 1} | ({} if style is None else {"style": style})
    return GeneratedEQA(seed=0, houses=houses, questions={"train": 1, "val": 1, "test": 1}, world=world)
