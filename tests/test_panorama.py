"""Panoramas against Embree's rays, and how they turn with the pose."""

import numpy as np

from envs.house.panorama import PanoramaRenderer
from envs.house.rasterizer import MODALITIES
from tests.test_rasterizer import Embree, make_scene, one_box, random_room, world_triangles

HEIGHT_M = 1.0


def test_panorama_shows_what_rays_in_its_pixels_directions_meet():
    rng = np.random.default_rng(3)
    assets, scene = random_room(rng, 25)
    renderer = PanoramaRenderer(192, ("depth", "instance_id"), assets=assets, near_m=0.01)
    renderer.load([scene])
    pose = np.array([0.4, 2.6, 0.7])
    images = renderer.render(np.zeros(1, np.int64), pose[None])
    heading = pose[2] + np.pi - (np.arange(384) + 0.5) * np.pi / 192
    elevation = np.pi / 2 - (np.arange(192)[:, None] + 0.5) * np.pi / 192
    level = np.cos(elevation)
    directions = np.stack(
        [-level * np.sin(heading), np.sin(elevation) + 0 * heading, -level * np.cos(heading)], axis=-1
    )
    triangles, owner = world_triangles(assets, scene)
    rays = directions.reshape(-1, 3)
    start = np.tile([pose[0], HEIGHT_M, pose[1]], (len(rays), 1))
    distance, triangle = (found.reshape(192, 384) for found in Embree(triangles).run(start, rays))
    instance = np.array([0] + [scene.instances.instance_id[i] for i, _, _ in owner])[triangle + 1]
    assert (images["instance_id"][0] == instance).mean() > 0.95  # a pixel's ray and the cube's differ by half a pixel
    assert np.median(np.abs(images["depth"][0] - distance)) < 0.005
    assert (np.abs(images["depth"][0] - distance) < 0.03 * distance + 1e-3).mean() > 0.95


def test_panorama_rolls_by_a_quarter_when_the_pose_turns_by_a_quarter():
    assets, scene = random_room(np.random.default_rng(5), 10)
    renderer = PanoramaRenderer(64, assets=assets)
    renderer.load([scene])
    images = renderer.render(np.zeros(2, np.int64), np.array([[1.5, 2.0, 0.3], [1.5, 2.0, 0.3 + np.pi / 2]]))
    assert list(images) == list(MODALITIES)
    for name in ("class_id", "instance_id"):
        turned = np.roll(images[name][0], 32, axis=1)
        assert (images[name][1] == turned).mean() > 0.99, name


def test_panorama_outside_has_sky_above_the_horizon_and_no_depth():
    assets, _ = one_box()
    renderer = PanoramaRenderer(32, ("rgb", "depth"), assets=assets)
    renderer.load([make_scene(assets, [])])
    images = renderer.render(np.zeros(1, np.int64), np.zeros((1, 3)))
    assert images["rgb"].shape == (1, 32, 64, 3) and not images["depth"].any()
    assert (images["rgb"] == images["rgb"][:, :, :1]).all()
    assert images["rgb"][0, 0, 0, 2] > images["rgb"][0, -1, 0, 2]
    assert images["rgb"][0, 15, 0].min() > images["rgb"][0, 16, 0].min()


def test_panorama_gives_only_the_asked_modalities():
    assets, scene = one_box()
    renderer = PanoramaRenderer(16, ("rgb",), assets=assets)
    renderer.load([scene])
    assert list(renderer.render(np.zeros(3, np.int64), np.zeros((3, 3)))) == ["rgb"]
