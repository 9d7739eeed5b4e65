"""Maps from above against Embree's parallel rays, and their colours against a pinhole that is far away."""

import numpy as np
import pytest

from eqa.envs.house.catalog import load_catalog
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.top_down import render_top_down
from tests.envs.rendering.test_renderer import (
    Embree,
    box,
    four_colours,
    make_assets,
    make_scene,
    random_room,
    world_triangles,
)
from tests.helpers.generated_house import house_and_scene

Frame = tuple[float, float, float]


def trace(triangles: np.ndarray, frame: Frame, size_px: int, cut_height_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Metres below the cut (H, W), 0 where nothing is hit, and triangle (H, W), -1 there, by rays straight down."""
    left, top, metres = frame
    x, z = np.meshgrid(*(start + (np.arange(size_px) + 0.5) * metres for start in (left, top)))
    start = np.stack([x, np.full_like(x, cut_height_m), z], axis=-1).reshape(-1, 3)
    depth, triangle = Embree(triangles).run(start, np.tile([0.0, -1.0, 0.0], (len(start), 1)))
    return depth.reshape(x.shape), triangle.reshape(x.shape)


def agreement(scene: Scene, assets, size_px: int, cut_height_m: float) -> tuple[float, float, float]:
    """Shares of pixels whose depth is within 1 mm, and whose instance and class are those of Embree."""
    images, frame = render_top_down(scene, size_px, cut_height_m=cut_height_m)
    triangles, owner = world_triangles(assets, scene)
    depth, triangle = trace(triangles, frame, size_px, cut_height_m)
    rows = np.array([i for i, _, _ in owner])
    instance, kind = (
        np.append(labels[rows], 0)[triangle] for labels in (scene.instances.instance_id, scene.instances.class_id)
    )
    close = np.abs(images["depth"] - depth) < 1e-3
    return close.mean(), (images["instance_id"] == instance).mean(), (images["class_id"] == kind).mean()


@pytest.fixture(scope="module")
def generated() -> Scene:
    return house_and_scene(0, 0)[1]


@pytest.mark.parametrize(("size_px", "cut_height_m"), [(660, 2.0), (97, 1.2), (256, 50.0)])
def test_map_of_a_generated_house_agrees_with_parallel_rays(generated, size_px, cut_height_m):
    depth, instance, kind = agreement(generated, load_catalog(), size_px, cut_height_m)
    assert depth >= 0.999 and instance >= 0.995 and kind >= 0.995


def test_maps_of_random_rooms_full_of_slanted_faces_agree_with_parallel_rays():
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(3):
        assets, scene = random_room(rng)
        shares.append(agreement(scene, assets, 300, 1.8))
    depth, instance, kind = np.mean(shares, axis=0)
    assert depth >= 0.999 and instance >= 0.995 and kind >= 0.995


def test_colours_are_those_that_a_pinhole_sees_from_far_above(generated):
    size_px, altitude_m, cut_height_m = 330, 10_000.0, 1.99  # no model's top lies there: its depth would be 0
    images, (left, top, metres) = render_top_down(generated, size_px, cut_height_m=cut_height_m)
    half_m = size_px * metres / 2
    fov = np.degrees(2 * np.arctan(half_m / altitude_m))
    far = Renderer(Camera(size_px, size_px, fov, near_m=altitude_m - cut_height_m), ("rgb", "instance_id"))
    far.load([generated])
    view = np.array([[1, 0, 0, 0, 0, 1, 0, -1, 0, left + half_m, altitude_m, top + half_m]])
    expected = {name: image[0] for name, image in far.draw(np.zeros(1, np.int64), view).items()}
    inside = images["depth"] > 0
    assert (images["rgb"][~inside] == 255).all() and not images["class_id"][~inside].any()
    difference = np.abs(images["rgb"].astype(int) - expected["rgb"]).max(axis=-1)[inside]
    assert (difference <= 3).mean() > 0.99


def test_texture_of_a_slanted_sheet_lies_where_its_corners_say_and_north_is_up():
    corners = np.array([(-1, 0, 1), (1, 0, 1), (1, 1.5, -1), (-1, 1.5, -1.0)])
    sheet = corners, np.tile((0, 1.0, 0), (4, 1)), np.array([(0, 0), (1, 0), (1, 1), (0, 1)]), [(0, 1, 2), (0, 2, 3)]
    sheet = *sheet[:3], np.array(sheet[3])
    assets = make_assets([sheet], [four_colours()])
    scene = make_scene(assets, [(0, np.eye(3), (5, 0, -3))], rgb=[(255,) * 3], texture=[0], unlit=[1])
    images, (x, z, metres) = render_top_down(scene, 208)
    assert (x, z, metres) == pytest.approx((5 - 1.04, -3 - 1.04, 0.01))
    found = [images["rgb"][row, column].tolist() for row in (102, 105) for column in (102, 105)]
    assert found == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]
    np.testing.assert_allclose(images["depth"][[5, 202], 104], [0.5 + 0.75 * 0.015, 2 - 0.75 * 0.015], atol=1e-4)


def test_map_cuts_the_ceiling_away_and_maps_pixels_to_plan_coordinates():
    assets = make_assets([box((0.5, 0.5, 0.5))])
    scene = make_scene(
        assets, [(1, np.eye(3), (0, 0, 0)), (0, np.eye(3), (2, 0.5, -1))], [box((8, 2.7, 6), (0, 1.35, 0))]
    )
    scene.instances.instance_id[:] = 0, 1
    images, (x, z, pixel_m) = render_top_down(scene, 256)
    rows, columns = np.nonzero(images["instance_id"] == 1)
    assert abs(x + (columns.mean() + 0.5) * pixel_m - 2) < 0.02
    assert abs(z + (rows.mean() + 0.5) * pixel_m + 1) < 0.02
    assert abs((np.ptp(columns) + 1) * pixel_m - 0.5) <= pixel_m
    assert abs((np.ptp(rows) + 1) * pixel_m - 0.5) <= pixel_m
    np.testing.assert_allclose(images["depth"][rows, columns], 2.0 - 0.75, atol=1e-4)


def test_what_cannot_be_mapped_is_refused():
    assets = make_assets([box()])
    with pytest.raises(ValueError, match="scene test: expected at least one vertex"):
        render_top_down(make_scene(assets, []))
    with pytest.raises(ValueError, match="size_px: expected 1 to 8192, got 0"):
        render_top_down(make_scene(assets, [(0, np.eye(3), (0, 0, 0))]), 0)
