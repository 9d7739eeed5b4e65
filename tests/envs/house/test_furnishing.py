"""Furniture: rules that are refused, groups that face each other, floors that are furnished and stay walkable."""

import copy
from math import cos, sin

import numpy as np
import pytest

from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.furnishing_rules import check, furnishing_rules, matching
from eqa.envs.house.generator import generate_house
from eqa.envs.house.geometry import contains, furnished_share, inner_outline, room_sides
from eqa.envs.house.house import House, HouseObject
from eqa.envs.house.openings import OUTDOORS
from eqa.envs.house.room_space import Space
from eqa.envs.house.validate import validate
from eqa.envs.house.walk_grid import WalkGrid
from tests.helpers.small_rooms import WIDTHS_M, one_room, small_rooms

HEIGHT_M = 2.4


@pytest.fixture(scope="module")
def rooms() -> list[House]:
    """Rooms of the sizes that homes have, one a house."""
    return [house for seed in range(3) for house in small_rooms(seed, HEIGHT_M)]


@pytest.fixture(scope="module")
def halls() -> list[House]:
    """Houses of the paper's size."""
    return [generate_house(seed=3, split="train", index=index) for index in range(5)]


@pytest.fixture(scope="module")
def homes() -> list[House]:
    """Everyday homes."""
    return [generate_house(seed=3, split="train", index=index, style="everyday") for index in range(12)]


def things(house: House, *categories: str, room: int = 0) -> list[HouseObject]:
    return [thing for thing in house.objects if thing.room == room and thing.category in categories]


def of_type(houses: list[House], kind: str) -> list[tuple[House, int]]:
    """Places of such rooms; of the small houses only the first room counts."""
    return [
        (house, place)
        for house in houses
        for place, room in enumerate(house.rooms)
        if room.type == kind and (place == 0 or house.generator != "by hand")
    ]


def facing(thing: HouseObject) -> np.ndarray:
    return np.array([sin(thing.heading_rad), cos(thing.heading_rad)])


def middle(thing: HouseObject) -> np.ndarray:
    return np.array(thing.position)[[0, 2]]


def angle_deg(thing: HouseObject, target: HouseObject) -> float:
    """Between where the thing looks and where the target is."""
    away = middle(target) - middle(thing)
    return float(np.degrees(np.arccos(np.clip(facing(thing) @ away / np.linalg.norm(away), -1, 1))))


def test_every_kind_that_the_rules_name_has_models() -> None:
    for kind in furnishing_rules()["kinds"]:
        assert matching(load_catalog(), kind), kind


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["rooms"]["bedroom"][2].update(colour="red"), r"rooms: bedroom: rule 3 \(wardrobe\).*'colour'"),
        (lambda r: r["rooms"]["bedroom"][2].update(item="sofaa"), r"rooms: bedroom: rule 3 \(sofaa\): item.*'sofaa'"),
        (lambda r: r["rooms"]["bedroom"][2].update(at="sky"), r"rooms: bedroom: rule 3 \(wardrobe\): at.*'sky'"),
        (lambda r: r["rooms"]["bedroom"][2].update(at="beside"), r"rule 3 \(wardrobe\): expected of"),
        (
            lambda r: r["rooms"]["bedroom"][2].update(group="desk"),
            r"rule 3 \(wardrobe\): expected either item or group",
        ),
        (lambda r: r["rooms"]["bedroom"][2].update(chance=1.5), r"rule 3 \(wardrobe\): chance.*1\.5"),
        (lambda r: r["rooms"]["bedroom"][2].update(area=[9, 4]), r"rule 3 \(wardrobe\): area.*\[9, 4\]"),
        (lambda r: r["groups"]["desk"][1].update(of=["dask"]), r"groups: desk: rule 2 \(office chair\): of.*'dask'"),
        (lambda r: r["kinds"]["bath"].update(length=[1, 2]), r"kinds: bath: expected one of.*'length'"),
        (lambda r: r["house"][0].pop("rooms"), r"house: rule 1 \(piano\): expected rooms"),
        (lambda r: r["fill"]["bedroom"].update(shares=1), r"fill: bedroom: expected one of.*'shares'"),
        (lambda r: r["fill"]["bedroom"]["rules"][2].update(at="sky"), r"fill: bedroom: rule 3 \(wardrobe\): at.*'sky'"),
    ],
)
def test_a_rule_that_is_not_well_formed_is_refused_by_its_name(change, message: str) -> None:
    rules = copy.deepcopy(furnishing_rules())
    change(rules)
    with pytest.raises(ValueError, match=message):
        check(rules)


def test_rooms_as_low_as_homes_have_them_are_valid_and_nothing_pokes_through_the_ceiling(rooms: list[House]) -> None:
    for house in rooms:
        validate(house)
        assert all(thing.position[1] + thing.size_m[1] <= HEIGHT_M + 1e-3 for thing in house.objects)


def test_the_television_and_a_sofa_look_at_each_other(rooms: list[House], halls: list[House]) -> None:
    found = 0
    for house, room in of_type(rooms + halls, "living room"):
        for television in things(house, "television", room=room):
            sofas = things(house, "sofa", room=room)
            assert any(angle_deg(sofa, television) < 12 and angle_deg(television, sofa) < 12 for sofa in sofas)
            found += 1
    assert found >= 8


def test_chairs_at_a_table_look_at_it(rooms: list[House]) -> None:
    found = 0
    for house, _ in of_type(rooms, "dining room"):
        tables = [thing.footprint()[::-1] for thing in things(house, "table")]
        for chair in things(house, "chair"):
            reaches = [middle(chair) + facing(chair) * (chair.size_m[2] / 2 + 0.1)]
            reaches += [middle(chair) + side * np.array([0.35, 0]) for side in (-1, 1)]
            reaches += [middle(chair) + side * np.array([0, 0.35]) for side in (-1, 1)]
            at_table = [any(contains(table, tuple(point)) for table in tables) for point in reaches]
            assert at_table[0] or not any(at_table)
            found += at_table[0]
    assert found >= 16


def test_night_stands_are_beside_the_head_of_the_bed(rooms: list[House]) -> None:
    found = 0
    for house, _ in of_type(rooms, "bedroom"):
        (bed,) = things(house, "bed")
        along = facing(bed)[::-1] * (1, -1)
        for stand in things(house, "bedside table"):
            away = middle(stand) - middle(bed)
            backs = away @ facing(bed) + (bed.size_m[2] - stand.size_m[2]) / 2
            gap = abs(away @ along) - (bed.size_m[0] + stand.size_m[0]) / 2
            assert abs(backs) < 0.05 and 0 < gap < 0.35 and angle_deg(bed, stand) > 90
            found += 1
    assert found >= 8


def test_kitchens_have_a_sink_and_an_oven_and_bathrooms_a_sink_and_a_toilet(rooms: list[House]) -> None:
    for kind, needs in (("kitchen", ("sink", "range oven")), ("bathroom", ("sink", "toilet"))):
        for house, _ in of_type(rooms, kind):
            assert all(things(house, name) for name in needs), house.rooms[0].polygon


def test_a_bathroom_has_a_toilet_and_a_basin_before_a_tub_and_its_ceramics_share_a_colour(
    rooms: list[House], homes: list[House]
) -> None:
    tubs = 0
    for house, room in of_type(rooms + homes, "bathroom"):
        if things(house, "bathtub", room=room):
            tubs += 1
            assert things(house, "toilet", room=room) and things(house, "sink", room=room), house.id
        painted = {t.color for t in things(house, "bathtub", "toilet", "sink", "bidet", room=room) if t.recolored}
        assert len(painted) < 2, (house.id, painted)
    assert tubs > 4


@pytest.mark.parametrize("kind", ["living room", "bedroom"])
def test_no_room_of_a_large_house_is_a_bare_hall(kind: str, halls: list[House]) -> None:
    shares = [furnished_share(house, room) for house, room in of_type(halls, kind)]
    assert min(shares) > 0.11 and np.mean(np.array(shares) > 0.15) > 0.8, shares


@pytest.mark.parametrize("kind", ["living room", "bedroom"])
def test_rooms_are_furnished_as_far_as_homes_are(kind: str, rooms: list[House], halls: list[House]) -> None:
    for houses, least in ((rooms, 0.25), (halls, 0.15)):
        assert np.mean([furnished_share(house, room) for house, room in of_type(houses, kind)]) > least


def test_the_furnished_share_is_that_of_points_with_something_on_them(rooms: list[House]) -> None:
    house = rooms[0]
    outline = inner_outline(room_sides(house, 0))
    low, high = np.min(outline, axis=0), np.max(outline, axis=0)
    points = np.random.default_rng(0).uniform(low, high, (600, 2))
    standing = [t.footprint()[::-1] for t in house.objects if t.position[1] == 0 and t.size_m[1] > 0.06]
    covered = np.mean([any(contains(shape, tuple(point)) for shape in standing) for point in points])
    assert furnished_share(house, 0) == pytest.approx(covered, abs=0.05)


def test_what_belongs_outdoors_stays_there(rooms: list[House], halls: list[House]) -> None:
    for house in rooms + halls:
        for thing in house.objects:
            if house.rooms[thing.room].type not in OUTDOORS:
                assert thing.category not in ("deck chair", "parasol", "lawn mower") or thing.room in _garages(house)
                assert not any(part in thing.model for part in ("concrete-bench", "painted-bench", "rattan"))


def test_appliances_and_radiators_stay_indoors_and_a_towel_radiator_in_the_bathroom(
    halls: list[House], homes: list[House]
) -> None:
    indoors = ("washer", "dryer", "water dispenser", "heater", "towel rack", "vacuum cleaner", "fish tank", "bathtub")
    for house in halls + homes:
        for thing in house.objects:
            kind = house.rooms[thing.room].type
            assert thing.category not in indoors or kind not in OUTDOORS
            assert thing.category not in ("bathtub", "toilet") or kind == "bathroom"
            assert "bathroomRadiator" not in thing.model or kind == "bathroom"


def _garages(house: House) -> list[int]:
    return [place for place, room in enumerate(house.rooms) if room.type == "garage"]


def test_only_curtains_and_low_things_stand_before_windows(rooms: list[House]) -> None:
    for house in rooms:
        window = house.openings[1]
        left, right = window.offset_m - window.width_m / 2, window.offset_m + window.width_m / 2
        width = max(x for x, _ in house.rooms[0].polygon)
        for thing in house.objects:
            xs, zs = zip(*thing.footprint(), strict=True)
            before = min(zs) < 0.25 and min(xs) < width - left - 0.01 and max(xs) > width - right + 0.01
            if before and thing.category != "curtain" and thing.on is None:
                assert thing.position[1] + thing.size_m[1] <= window.bottom_m + 0.031


def test_chimneys_meet_the_ceiling_away_from_windows_and_pictures_hang_clear_of_them(
    rooms: list[House], halls: list[House], homes: list[House]
) -> None:
    fires = hung = 0
    for house, room in [(home, place) for home in rooms + halls + homes for place in range(len(home.rooms))]:
        windows = [zone for zone, _, _ in Space.of(house, room).windows]
        for thing in things(house, "fireplace", room=room):
            fires += 1
            assert not any(_overlap(_around(thing, 0.14), zone) for zone in windows)
            assert thing.size_m[1] < 1.8 or thing.size_m[1] == pytest.approx(house.height_m, abs=1e-3)
        for thing in things(house, "picture frame", room=room):
            if thing.on is None:
                hung += 1
                assert not any(_overlap(_around(thing, 0.12), zone) for zone in windows), (house.id, thing)
    assert fires > 3 and hung > 100


def _around(thing: HouseObject, far_m: float) -> tuple[float, float, float, float]:
    """The rectangle of the thing with as much more at its left and right."""
    (xs, zs), along = zip(*thing.footprint(), strict=True), np.abs(facing(thing)[::-1]) * far_m
    return min(xs) - along[0], max(xs) + along[0], min(zs) - along[1], max(zs) + along[1]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] - 1e-6 and b[0] < a[1] - 1e-6 and a[2] < b[3] - 1e-6 and b[2] < a[3] - 1e-6


def test_pictures_hang_at_eye_height(rooms: list[House]) -> None:
    heights = [t.position[1] + t.size_m[1] / 2 for h in rooms for t in things(h, "picture frame") if t.on is None]
    assert len(heights) > 20
    assert 1.45 <= np.median(heights) <= 1.6 and min(heights) >= 1.45


def test_things_on_tops_have_the_top_below_each_of_their_corners(rooms: list[House], halls: list[House]) -> None:
    catalog = load_catalog()
    meshes = catalog.meshes
    placed = [(house, thing) for house in rooms + halls for thing in house.objects if thing.on is not None]
    assert len(placed) > 60
    for house, thing in placed[::3]:
        support = house.objects[thing.on - 1]
        model = catalog.models[support.model]
        triangles = meshes.vertices[meshes.faces[slice(*meshes.face_range[model.mesh])]]
        triangles = triangles * (np.array(support.size_m) / model.size_m)
        top = triangles[np.abs(triangles[..., 1] - (thing.position[1] - support.position[1])).max(axis=1) < 0.06]
        for corner in [(thing.position[0], thing.position[2]), *thing.footprint()]:
            dx, dz = corner[0] - support.position[0], corner[1] - support.position[2]
            c, s = cos(support.heading_rad), sin(support.heading_rad)
            assert _is_over(top[..., [0, 2]], np.array([c * dx - s * dz, s * dx + c * dz])), (support, thing)


def _is_over(triangles: np.ndarray, point: np.ndarray) -> bool:
    """True if the point lies in one of the triangles (T, 3, 2), or a centimetre beside."""
    around = point + 0.01 * np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])
    edges = np.roll(triangles, -1, axis=1) - triangles
    away = around[:, None, None] - triangles
    crosses = edges[..., 0] * away[..., 1] - edges[..., 1] * away[..., 0]
    return bool(((crosses >= -1e-9).all(-1) | (crosses <= 1e-9).all(-1)).any())


def test_walking_is_judged_as_a_slow_flood_judges_it() -> None:
    rng = np.random.default_rng(2)
    outline = [(0.0, 3.0), (4.0, 3.0), (4.0, 0.0), (0.0, 0.0)]
    seeds = [(0.6, 2.6), (3.4, 0.4)]
    seen = set()
    for _ in range(60):
        rects = []
        for _ in range(5):
            (x, z), (w, d) = rng.uniform(0.3, (3.7, 2.7)), rng.uniform(0.2, 1.3, 2)
            rects.append((x - w / 2, x + w / 2, z - d / 2, z + d / 2))
        grid = WalkGrid(outline, seeds)
        grid.stand(rects[:-1])
        seen.add(grid.walkable(rects[-1]))
        assert grid.walkable(rects[-1]) == _slowly_walkable(rects, seeds)
    assert seen == {True, False}


def _slowly_walkable(rects: list[tuple[float, float, float, float]], seeds: list[tuple[float, float]]) -> bool:
    cells = {(r, c): (0.05 + 0.1 * c, 0.05 + 0.1 * r) for r in range(31) for c in range(41)}
    free = {
        cell
        for cell, (x, z) in cells.items()
        if 0.25 <= x <= 3.75 and 0.25 <= z <= 2.75
        if not any(a - 0.27 < x < b + 0.27 and c - 0.27 < z < d + 0.27 for a, b, c, d in rects)
    }
    starts = [(int(z / 0.1), int(x / 0.1)) for x, z in seeds]
    reached, edge = set(), {starts[0]} & free
    while edge:
        reached |= edge
        edge = {(r + i, c + j) for r, c in edge for i, j in ((0, 1), (1, 0), (0, -1), (-1, 0))} & free - reached
    near = [
        any(a - 0.55 < cells[cell][0] < b + 0.55 and c - 0.55 < cells[cell][1] < d + 0.55 for cell in reached)
        for a, b, c, d in rects
    ]
    empty, edge = set(), {starts[0]}
    inside = {cell for cell, (x, z) in cells.items() if 0.25 <= x <= 3.75 and 0.25 <= z <= 2.75}
    while edge:
        empty |= edge
        edge = {(r + i, c + j) for r, c in edge for i, j in ((0, 1), (1, 0), (0, -1), (-1, 0))} & inside - empty
    assert empty == inside  # a room without a nook: all that is lost is cut off by things
    return set(starts) <= reached and all(near) and len(free - reached) <= 8


def test_the_way_to_the_wall_ahead_is_measured_in_every_direction() -> None:
    space = Space.of(one_room("office", *WIDTHS_M["office"][0]), 0)
    ahead = [space.ahead_m((1.0, 1.2), quarter) for quarter in range(4)]
    assert ahead == pytest.approx([3.4 - 0.07 - 1.2, 2.6 - 0.07 - 1.0, 1.2 - 0.07, 1.0 - 0.07])
