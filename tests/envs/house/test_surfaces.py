"""Surfaces of rooms: by their type or not, and how textures lie on floors."""

from collections import Counter
from math import log2

import numpy as np
import pytest

from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.openings import OUTDOORS
from eqa.envs.house.plan import room_rules
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.surfaces import choose_surfaces
from eqa.tests.envs.house.test_generator import two_rooms

INDOORS = [kind for kind in room_rules()["types"] if kind not in OUTDOORS]


def information(pairs: list[tuple[str, str]]) -> float:
    """Bits that one of two names tells about the other, by their frequencies."""
    both, first, second = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    return sum(n / len(pairs) * log2(n * len(pairs) / (first[a] * second[b])) for (a, b), n in both.items())


@pytest.mark.parametrize("by_room, low, high", [(1, 0.8, 9.0), (0, 0.0, 0.06)])
def test_floors_and_walls_tell_a_rooms_type_in_the_one_sort_of_house_only(by_room, low, high):
    rules = {**room_rules(), "by_room": {"here": by_room}}
    rooms = [
        (kind, finish)
        for house in range(800)
        for kind, finish in zip(INDOORS, choose_surfaces(Dice([house]), INDOORS, rules, style="here"), strict=True)
    ]
    for name in ("floor", "wall"):
        assert low <= information([(kind, getattr(finish, name)) for kind, finish in rooms]) <= high


def test_paper_houses_draw_facade_floor_wall_and_ceiling_and_nothing_else():
    rules, types = room_rules(), ["kitchen", "patio", "gym"]
    for seed in range(30):
        dice, others = Dice([seed]), Dice([seed])
        found = choose_surfaces(dice, types, rules, style="paper")
        facade = others.weighted(rules["walls"]["facade"])
        for kind, finish in zip(types, found, strict=True):
            rule = rules["types"][kind]
            assert finish.floor == others.weighted(rules["floors"][rule["floor"]])
            inside = kind not in OUTDOORS
            assert finish.wall == (others.weighted(rules["walls"][rule["wall"]]) if inside else facade)
            assert finish.ceiling == (others.weighted(rules["ceilings"]) if inside else None)
        assert dice.uniform() == others.uniform()


def test_about_four_in_ten_everyday_houses_go_by_the_rooms_types():
    tiled, kinds = room_rules()["walls"]["wet"], ["bathroom"] * 6
    houses = [choose_surfaces(Dice([house]), kinds, room_rules(), style="everyday") for house in range(1000)]
    assert 0.35 < np.mean([all(finish.wall in tiled for finish in house) for house in houses]) < 0.47


def test_every_surface_of_the_rules_is_in_the_catalogue():
    rules = room_rules()
    lists = [*rules["floors"].values(), *rules["walls"].values(), *rules["parapets"].values()]
    lists += [rules["anywhere"]["floors"], rules["anywhere"]["walls"], rules["ceilings"]]
    for name in {name for weights in lists for name in weights}:
        load_catalog().surface_material(name)


def test_planks_run_along_the_longer_side_of_a_room_and_textures_keep_their_scale():
    wide = two_rooms()
    size_m = np.array(load_catalog().surfaces["wooden_floor"].size_m)
    deep = two_rooms()
    for room in deep.rooms[:1]:
        room.polygon[:] = [(x, z + 2 * (z > 1)) for x, z in room.polygon]
    for house, turned in ((wide, False), (deep, True)):
        vertices, uv = _floor_of(house)
        metres = (uv - uv[0]) * size_m
        along = (vertices - vertices[0])[:, [2, 0] if turned else [0, 2]]
        np.testing.assert_allclose(np.abs(metres), np.abs(along), atol=1e-4)


def _floor_of(house) -> tuple[np.ndarray, np.ndarray]:
    """Corners and texture coordinates of the first room's floor."""
    scene = build_scene(house, load_catalog())
    items = scene.instances
    row = np.flatnonzero((items.class_id == CLASSES.index("floor")) & (items.room == 0))[0]
    corners = slice(*scene.meshes.vertex_range[items.mesh[row] - len(load_catalog().models)])
    return scene.meshes.vertices[corners], scene.meshes.uv[corners]
