"""Leaving things out by rooms and openings changes no pixel."""

from dataclasses import replace

import numba
import numpy as np
import pytest

from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.room_graph import room_graph
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.room_culling import EVERYWHERE, rooms_of_instances
from tests.helpers.generated_house import house_and_scene
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house, thing


def scattered_poses(scene, num: int, rng: np.random.Generator) -> np.ndarray:
    """Anywhere in the house's bounding rectangle and a little outside: rooms, walls, furniture, doorways."""
    low, high = scene.rooms.edge[:, :2].min(axis=0) - 0.5, scene.rooms.edge[:, :2].max(axis=0) + 0.5
    return on_floor(np.column_stack([rng.uniform(low, high, (num, 2)), rng.uniform(-np.pi, np.pi, num)]))


def differing_views(scene, camera: Camera, poses: np.ndarray) -> list[list[float]]:
    """Poses from which the scene looks different without its rooms."""
    renderer = Renderer(camera)
    renderer.load([scene, replace(scene, rooms=None)])
    culled, full = (renderer.render(np.full(len(poses), k), poses) for k in range(2))
    same = np.ones(len(poses), bool)
    for name, image in culled.items():
        same &= (image == full[name]).reshape(len(poses), -1).all(axis=1)
    return poses[~same].tolist()


@pytest.mark.parametrize(
    "camera",
    [
        Camera(64, 64),
        Camera(40, 96, 100.0, height_m=1.6, pitch_rad=-0.5),
        Camera(48, 48, 120.0, height_m=0.3, near_m=0.3, pitch_rad=0.9),
        Camera(48, 48, 110.0, height_m=2.2, pitch_rad=0.8),
        Camera(64, 64, height_m=6.0, pitch_rad=-1.2),
    ],
)
def test_thousands_of_views_of_generated_houses_look_the_same_with_and_without_rooms(camera):
    rng = np.random.default_rng(7)
    for index in range(2):
        _, scene = house_and_scene(3, index)
        assert not differing_views(scene, camera, scattered_poses(scene, 600, rng))


def test_views_in_and_beside_a_doorway_look_the_same_with_and_without_rooms():
    scene = build_scene(small_house(), load_catalog())
    x, z, heading = np.meshgrid(4 + np.linspace(-0.2, 0.2, 9), np.linspace(1.2, 2.8, 9), np.linspace(-3, 3, 9))
    poses = on_floor(np.column_stack([x.ravel(), z.ravel(), heading.ravel()]))
    assert not differing_views(scene, Camera(56, 56, 80.0), poses)


def test_thing_that_stands_through_a_wall_is_seen_from_both_rooms():
    house = small_house(objects=False)
    house = replace(house, objects=[thing(1, "refrigerator", 4.0, 0.7, room=0)])
    scene = build_scene(house, load_catalog())
    rng = np.random.default_rng(0)
    assert not differing_views(scene, Camera(56, 56), scattered_poses(scene, 300, rng))
    renderer = Renderer(Camera(56, 56), ("instance_id",))
    renderer.load([scene])
    poses = on_floor([[2.0, 0.7, -np.pi / 2], [6.0, 0.7, np.pi / 2]])
    assert (renderer.render(np.zeros(2, np.int64), poses)["instance_id"] == 1).any(axis=(1, 2)).all()


def test_instances_behind_a_closed_wall_are_not_drawn():
    scene = build_scene(small_house(), load_catalog())
    renderer = Renderer(Camera(56, 56))
    renderer.load([scene])
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        renderer.render(np.zeros(1, np.int64), on_floor([[1.0, 2.0, np.pi / 2]]))
    finally:
        numba.set_num_threads(threads)
    drawn = renderer._scratch.order[0][renderer._scratch.vertex_start[0] >= 0]
    assert len(drawn) and (renderer._world.room_bits[drawn] == 1).all()


def test_rooms_join_through_doorways_and_low_walls_but_not_through_windows_or_the_entrance():
    house = small_house()
    rooms = room_graph(house)
    assert rooms.portal_rooms.tolist() == [[0, 1]] and not rooms.sees_out.any()
    np.testing.assert_allclose(rooms.portal, [[4.0, 2.5, 4.0, 1.5, 0.0, 2.1]])
    low = replace(house, walls=[replace(wall, height_m=1.0) for wall in house.walls])
    rooms = room_graph(low)
    assert rooms.portal_rooms.tolist() == [[0, 1], [0, 1]] and rooms.sees_out.all()
    assert rooms.portal[1, 4] == 1.0


def test_instance_outside_every_room_and_scene_without_rooms_are_always_drawn():
    scene = build_scene(small_house(), load_catalog())
    scene.instances.room[-1] = -1
    bounds = np.zeros((len(scene.instances.mesh), 6))
    num_shared = len(load_catalog().meshes.vertex_range)
    assert rooms_of_instances(scene, bounds, num_shared)[-1] == EVERYWHERE
    assert (rooms_of_instances(replace(scene, rooms=None), bounds, num_shared) == EVERYWHERE).all()
