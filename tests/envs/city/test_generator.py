"""Cities: the same for equal numbers, whole, annotated exactly, and refused where parts overlap."""

from dataclasses import replace

import numpy as np
import pytest

from eqa.envs.annotations import PALETTE
from eqa.envs.city.airspace import build_airspace, region_at
from eqa.envs.city.build import build_scene
from eqa.envs.city.city import CITY_ACTIONS, CLASSES, LOWEST_M, City, sign_rect
from eqa.envs.city.generator import SPLITS, generate_city, parse_city_id
from eqa.envs.city.validate import validate
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer


@pytest.fixture(scope="module")
def city() -> City:
    return generate_city("train", 0, seed=0)


def test_a_city_depends_on_seed_split_and_index_alone(city: City) -> None:
    assert generate_city("train", 0, seed=0) == city
    others = [generate_city("train", 1, seed=0), generate_city("val", 0, seed=0), generate_city("train", 0, seed=1)]
    assert all(other.buildings != city.buildings for other in others)


@pytest.mark.parametrize("split", SPLITS)
def test_cities_are_large_and_have_what_questions_need(split: str) -> None:
    city = generate_city(split, 3, seed=5)
    x0, z0, x1, z1 = city.rect
    assert x1 - x0 > 400 and z1 - z0 > 400
    names = {thing.name for thing in city.annotations.things}
    assert {"building", "shop", "sign", "park", "car", "bus", "tree", "bench", "street lamp", "person"} <= names
    assert len(city.shops) > 100 and len(city.buildings) > 100


def test_annotations_name_each_thing_with_its_color_label_and_front(city: City) -> None:
    things = city.annotations.things
    assert [thing.id for thing in things] == list(range(1, len(things) + 1))
    assert all(thing.color is None or thing.color in PALETTE for thing in things)
    shop = city.shops[0]
    sign, front = things[shop.sign_id - 1], things[shop.id - 1]
    assert (sign.name, sign.label, sign.color) == ("sign", shop.name, shop.sign_color)
    assert (front.name, front.label, front.color) == ("shop", shop.name, shop.color)
    building = city.buildings[shop.building]
    middle = np.array(things[building.id - 1].middle)
    outward = np.array([-np.sin(sign.front_rad), -np.cos(sign.front_rad)])
    assert (np.array(sign.middle) - middle) @ outward > 3
    assert city.annotations.regions[sign.region].name == "block"


def test_what_is_drawn_bears_the_ids_and_classes_of_the_annotations(city: City) -> None:
    items = build_scene(city).instances
    for thing in city.annotations.things:
        classes = set(items.class_id[items.instance_id == thing.id].tolist())
        assert classes == {CLASSES.index(thing.name)}, thing


def test_levels_of_detail_of_a_thing_follow_one_another_without_gap_or_overlap(city: City) -> None:
    scene = build_scene(city)
    for thing in city.annotations.things:
        shown = scene.shown_m[scene.instances.instance_id == thing.id]
        shown = shown[np.argsort(shown[:, 0])]
        assert shown[0, 0] == 0 and (shown[1:, 0] == shown[:-1, 1]).all(), thing


def test_backs_that_are_not_drawn_could_not_be_seen(city: City) -> None:
    """A pixel in ten thousand may change: faces that only touch leave gaps, in which the back behind them showed."""
    scene, air, rng = build_scene(city), build_airspace(city, CITY_ACTIONS), np.random.default_rng(0)
    assert scene.meshes.one_sided.mean() > 0.8 and scene.assets.meshes.one_sided.any()
    levels = [air.floors[level] for level in (0, 1, 4, 8)]
    poses = np.concatenate(
        [
            floor.stand(
                floor.centres[rng.integers(len(floor.centres), size=16)], rng.choice(CITY_ACTIONS.headings_rad, 16)
            )
            for floor in levels
        ]
    )
    assets = replace(scene.assets, meshes=replace(scene.assets.meshes, one_sided=None))
    images = []
    for drawn in (scene, replace(scene, assets=assets, meshes=replace(scene.meshes, one_sided=None))):
        renderer = Renderer(Camera(128, 128, height_m=0.0), ("rgb", "instance_id"))
        renderer.load([drawn])
        images.append(renderer.render(np.zeros(len(poses), np.int64), poses))
    one, other = images
    assert (one["instance_id"] != other["instance_id"]).mean() < 1e-4
    assert (one["rgb"] != other["rgb"]).any(axis=-1).mean() < 1e-4


def test_regions_of_the_airspace_are_those_of_the_annotations(city: City) -> None:
    air = build_airspace(city, CITY_ACTIONS)
    for thing in city.annotations.things:
        if thing.name in ("building", "park", "street lamp", "car"):
            assert region_at(air.region, np.array([thing.middle]))[0] == thing.region, thing
    assert air.height_m.min() == LOWEST_M


def test_validate_names_what_overlaps_or_leaves_its_place(city: City) -> None:
    one, two = city.buildings[0], city.buildings[1]
    with pytest.raises(ValueError, match="building 1 overlaps building 0"):
        validate(replace(city, buildings=(one, replace(two, block=one.block, boxes=one.boxes), *city.buildings[2:])))
    car = next(prop for prop in city.props if prop.name == "car")
    others = tuple(prop for prop in city.props if prop is not car)
    with pytest.raises(ValueError, match=f"car {car.id}: expected inside the city"):
        validate(replace(city, props=(*others, replace(car, position=(900.0, 0.0, 0.0)))))
    ground = next(box.rect for box in one.boxes if box.low_m < 1)  # a building may be an L
    x, z = (ground[0] + ground[2]) / 2, (ground[1] + ground[3]) / 2
    with pytest.raises(ValueError, match="stands in building"):
        validate(replace(city, props=(replace(car, position=(x, 0.0, z)),)))
    with pytest.raises(ValueError, match="color: expected one of"):
        validate(replace(city, buildings=(replace(one, color="beige"), *city.buildings[1:])))
    with pytest.raises(ValueError, match="name of its own"):
        validate(replace(city, shops=(city.shops[0], replace(city.shops[1], name=city.shops[0].name), *city.shops[2:])))


def test_signs_stand_apart_from_each_other(city: City) -> None:
    rects = [sign_rect(shop) for shop in city.shops]
    assert len(set(rects)) == len(rects)


@pytest.mark.parametrize("scene_id", ["city-train", "train-00001", "city-other-00001", "city-train-x", ""])
def test_ids_that_no_city_has_are_refused(scene_id: str) -> None:
    with pytest.raises(ValueError, match="expected an id such as city-train-00003"):
        parse_city_id(scene_id)


def test_unknown_splits_and_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="split"):
        generate_city("human", 0, seed=0)
    with pytest.raises(ValueError, match="seed and index"):
        generate_city("train", -1, seed=0)
