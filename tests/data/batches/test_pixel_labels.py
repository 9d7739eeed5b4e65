"""Names of colours and types of rooms that a view shows, beside classes."""

from dataclasses import replace

import numpy as np
import pytest

from eqa.data.batches.frames import Frames
from eqa.data.batches.pixel_labels import COLORS, UNNAMED, Surroundings, points, sampled
from eqa.envs.house.build import annotations, build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

pytestmark = pytest.mark.usefixtures("single_thread")
CAMERA = Camera(96, 128)
SOFA, REFRIGERATOR = 1, 4
ROOMS = HouseWorld.region_names
LIVING, KITCHEN = ROOMS.index("living room"), ROOMS.index("kitchen")


def painted_house() -> House:
    house = small_house()
    things = [replace(house.objects[0], color="purple"), replace(house.objects[1], color=None), *house.objects[2:]]
    return replace(house, objects=things)


def views(house: House, poses: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    renderer = Renderer(CAMERA, ("depth", "class_id", "instance_id"))
    renderer.load([build_scene(house, load_catalog())])
    frames = renderer.render(np.zeros(len(poses), np.int64), poses)
    seen = Surroundings.of(annotations(house), ROOMS).seen(
        poses, frames["instance_id"], frames["depth"], CAMERA, every=4
    )
    return {name: sampled(frame, 4) for name, frame in frames.items()}, *seen


def test_a_things_pixels_have_its_colour_and_room_and_no_colour_where_none_is_named() -> None:
    frames, color, room = views(painted_house(), on_floor([[1.5, 2.0, 0.0], [5.5, 2.0, 0.0], [1.5, 3.0, 0.0]]))
    things = frames["instance_id"]
    assert (color[things == SOFA] == COLORS.index("purple")).all() and (things == SOFA).sum() > 20
    assert (color[things == 2] == UNNAMED).all() and (things == 2).any()
    assert (color[things == 0] == UNNAMED).all()
    assert (room[things == SOFA] == LIVING).all()
    assert (room[things == REFRIGERATOR] == KITCHEN).all() and (things == REFRIGERATOR).any()


def test_floors_and_walls_are_in_the_room_that_their_surface_is_in() -> None:
    through_the_doorway = on_floor([[2.0, 2.0, -np.pi / 2]])
    frames, _, room = views(small_house(objects=False), through_the_doorway)
    flat = (frames["class_id"] == CLASSES.index("floor")) & (frames["depth"] > 0)
    near, far = flat & (frames["depth"] < 1.8), flat & (frames["depth"] > 2.2)
    assert near.any() and (room[near] == LIVING).all()
    assert far.any() and (room[far] == KITCHEN).all()
    walls = frames["class_id"] == CLASSES.index("wall")
    assert {LIVING, KITCHEN} == set(room[walls].tolist())


def test_points_are_where_the_view_meets_the_plane_ahead() -> None:
    poses = on_floor([[1.0, 5.0, 0.0], [1.0, 5.0, np.pi / 2]])
    x, z = points(poses, np.full((2, 24, 32), 2.0), CAMERA, every=4)
    np.testing.assert_allclose(z[0], 3.0)
    np.testing.assert_allclose(x[1], -1.0)
    half_width = 2.0 * (CAMERA.width_px / 2 - 1.5) / CAMERA.focal_px
    assert x[0, 0, -1] - 1.0 == pytest.approx(half_width) and x[0, 0, 0] < x[0, 0, -1]
    assert z[1, 0, 0] > z[1, 0, -1]


def test_what_lies_outside_the_plan_is_in_no_room() -> None:
    found = Surroundings.of(annotations(small_house()), ROOMS).rooms_at(
        np.array([-3.0, 1.0, 5.0, 400.0]), np.array([1.0, 1.0, 1.0, 1.0])
    )
    assert found.tolist() == [UNNAMED, LIVING, KITCHEN, UNNAMED]


def test_frames_bring_surroundings_in_the_order_of_their_views_and_only_on_demand() -> None:
    houses = {"small-0": painted_house(), "small-1": small_house("small-1")}
    world = HouseWorld(houses.__getitem__)
    options = {"num_batches": 2, "batch_size": 6, "seed": [0, 0], "camera": CAMERA}
    plain, named = (list(Frames(world, list(houses), **options, surroundings_every=every)) for every in (None, 4))
    assert set(plain[0]) == {"rgb", "depth", "class_id"}
    assert set(named[0]) == {"rgb", "depth", "class_id", "color_id", "room_id"}
    purple = []
    for with_names, without in zip(named, plain, strict=True):
        assert (with_names["rgb"] == without["rgb"]).all()
        assert with_names["color_id"].shape == with_names["room_id"].shape == (6, 24, 32)
        sofa = with_names["class_id"][:, 2::4, 2::4] == CLASSES.index("sofa")
        purple += (with_names["color_id"][sofa] == COLORS.index("purple")).tolist()
    assert any(purple) and not all(purple)
