"""Baked light: shadows where things touch, walls that keep light in, panes that show one outside."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.light_grid import _DARKEST, fill_grid, level_at
from eqa.envs.rendering.lighting import light_of
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Light, Scene
from tests.envs.rendering.test_renderer import box, make_assets, make_scene
from tests.helpers.small_house import small_house

KINDS = ("room", "table", "lamp")


def room_with(*items, lamp=None, own=()) -> Scene:
    """A closed room, 6 m x 2.7 m x 4 m, with boxes (size, centre); `lamp` is the one that glows."""
    walls = [box((6, 2.7, 4), (0, 1.35, 0)), *(box(size, centre) for size, centre in (*items, *own))]
    vertices, normals, uv, faces = walls[0]
    walls[0] = vertices, -normals, uv, faces
    glows = np.zeros(len(walls), np.uint8)
    if lamp is not None:
        glows[1 + lamp] = 1
    assets = make_assets([box()])
    placed = [(1 + k, np.eye(3), np.zeros(3)) for k in range(len(walls))]
    return replace(make_scene(assets, placed, walls, unlit=glows), light=Light())


def floor_levels(scene: Scene, places) -> list[float]:
    """Light of the floor at places (x, z), by the sheet of light that the renderer reads."""
    renderer = Renderer(Camera(33, 33, 20.0, height_m=0.3, pitch_rad=-np.pi / 2), ("rgb",))
    renderer.load([scene])
    poses = np.array([(x, 0.0, z, 0.0) for x, z in places])
    return renderer.render(np.zeros(len(poses), np.int64), poses)["rgb"][:, 16, 16, 0].tolist()


@cache
def house() -> Scene:
    return build_scene(small_house(), load_catalog())


def test_floor_is_darker_under_a_table_and_in_a_corner_than_in_the_open():
    scene = room_with(((1.2, 0.1, 0.8), (-1.5, 0.5, 0)), ((0.3, 0.3, 0.3), (1, 2.4, 0)), lamp=1)
    table, corner, wide = floor_levels(scene, [(-1.5, 0.0), (2.9, -1.9), (0.8, 0.5)])
    assert table < 0.9 * wide and corner < 0.9 * wide


def test_light_does_not_leak_through_a_thin_wall():
    wall = ((0.1, 2.7, 4), (0, 1.35, 0))
    lamp, dark = ((0.5, 0.5, 0.5), (-2, 1.5, 0)), ((0.5, 0.5, 0.5), (-2, 1.5, 0))
    lit = floor_levels(room_with(wall, lamp, lamp=1), [(1.0, 0.4), (0.15, 0.4), (-0.3, 0.4)])
    unlit = floor_levels(room_with(wall, dark), [(1.0, 0.4), (0.15, 0.4), (-0.3, 0.4)])
    assert lit[:2] == unlit[:2]
    assert lit[2] > unlit[2] + 3


def test_openness_agrees_with_rays_sent_in_all_directions():
    """Nearness is one minus the mean of exp(-distance / reach) over the hemisphere, weighted by the cosine."""
    scene = room_with(lamp=None)
    triangles = scene.meshes.vertices[scene.meshes.faces]
    count = len(triangles)
    grid = fill_grid(triangles, np.zeros(count, np.uint8), np.zeros((count, 3), np.float32))
    rng, half = np.random.default_rng(0), np.array([3.0, 1.35, 2.0])
    ways = rng.normal(size=(20000, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    ways[:, 1] = np.abs(ways[:, 1])
    for place in ([0.0, 0.15, 0.0], [2.4, 0.15, 0.0], [2.4, 0.15, -1.5]):
        at = np.array(place) - [0, 1.35, 0]
        distance = (np.where(ways > 0, half - at, -half - at) / ways).min(axis=1)
        near = 1 - np.average(np.exp(-distance / 0.55), weights=ways[:, 1])
        level = level_at(grid, place[0], 0.0, place[2], 0.0, 1.0, 0.0)
        assert abs(level - (_DARKEST[0] + (1 - _DARKEST[0]) * near) * 1.06) < 0.1


def test_light_is_baked_when_colours_are_first_asked_for_and_kept():
    scene = replace(house(), light=Light())
    renderer = Renderer(Camera(16, 16), ("depth",))
    renderer.load([scene])
    pose = np.array([[2.0, 0.0, 2.0, 0.3]])
    before = renderer.render(np.zeros(1, np.int64), pose)
    assert scene.light.kept is None
    late = renderer.render(np.zeros(1, np.int64), pose, sensors=("rgb", "depth"))
    kept = scene.light.kept
    assert kept is not None and light_of(scene) is kept
    np.testing.assert_array_equal(late["depth"], before["depth"])
    full = Renderer(Camera(16, 16), ("rgb",))
    full.load([scene])
    np.testing.assert_array_equal(full.render(np.zeros(1, np.int64), pose)["rgb"], late["rgb"])


def test_another_scene_with_the_same_wish_for_light_is_baked_anew():
    scene = house()
    first = light_of(scene)
    changed = replace(scene, materials=replace(scene.materials, unlit=np.zeros_like(scene.materials.unlit)))
    assert light_of(changed) is not first
    assert (light_of(changed).light != first.light).any()


def test_light_does_not_depend_on_the_number_of_threads():
    call = "from tests.envs.rendering.test_lighting import house, light_of; b = light_of(house()); import zlib; "
    call += "print(zlib.crc32(b.light), zlib.crc32(b.sheets.lumels))"
    root, said = Path(__file__).parents[3], []
    for threads in ("1", "2"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads}
        said.append(subprocess.check_output([sys.executable, "-c", call], cwd=root, env=environment))
    assert said[0] == said[1]


def test_a_sheet_shows_its_light_at_every_pixel():
    """Against the level at each pixel's own point, for the exact columns and those between."""
    scene = room_with(((1.0, 0.5, 1.0), (-1, 0.25, -1)))
    camera = Camera()
    renderer = Renderer(camera)
    renderer.load([scene])
    images = renderer.render(np.zeros(1, np.int64), np.array([[1.0, 0.0, 1.5, 0.5]]))
    lit = light_of(scene)
    of_floor = [
        f for f in range(len(scene.meshes.faces)) if (scene.meshes.vertices[scene.meshes.faces[f], 1] == 0).all()
    ]
    sheet = lit.sheets.of_face[of_floor[0]]
    rows, columns = lit.sheets.size[sheet]
    lumels = lit.sheets.lumels[lit.sheets.start[sheet] :][: rows * columns].reshape(rows, columns).astype(float)
    right, down, forward, origin = camera.views(np.array([[1.0, 0.0, 1.5, 0.5]]))[0].reshape(4, 3)
    place = (np.arange(224) + 0.5 - 112) / camera.focal_px
    points = origin + images["depth"][0][..., None] * (forward + place[:, None, None] * down + place[:, None] * right)
    on_floor = (np.abs(points[..., 1]) < 1e-3) & (images["instance_id"][0] == 1)
    i, j = (points[..., 2] + 2) / 4 * (rows - 1), (points[..., 0] + 3) / 6 * (columns - 1)
    expected = []
    for a, b in zip(i[on_floor], j[on_floor], strict=True):
        r, c = min(max(int(a), 0), rows - 2), min(max(int(b), 0), columns - 2)
        (p, q), (s, t) = lumels[r : r + 2, c : c + 2]
        expected.append((p * (1 - b + c) + q * (b - c)) * (1 - a + r) + (s * (1 - b + c) + t * (b - c)) * (a - r))
    difference = np.abs(images["rgb"][0][on_floor][:, 0] - 200 / 255 * np.array(expected))
    assert on_floor.sum() > 500 and np.median(difference) <= 2 and (difference <= 12).mean() > 0.95


def test_panes_and_what_is_open_show_one_outside_whose_horizon_is_at_the_height_of_the_camera():
    wall = room_with()
    panes = replace(wall, materials=replace(wall.materials, unlit=np.full_like(wall.materials.unlit, 2)))
    nothing = make_scene(wall.assets, [])
    for height_m, pitch_rad in ((0.5, 0.0), (1.9, -0.3)):
        renderer = Renderer(Camera(48, 60, 70.0, height_m=height_m, pitch_rad=pitch_rad))
        renderer.load([panes, nothing])
        poses = np.array([(0.0, 0.0, 0.0, 0.7)] * 2)
        images = renderer.render(np.array([0, 1]), poses)
        assert images["instance_id"][0].all() and not images["instance_id"][1].any()
        np.testing.assert_array_equal(*images["rgb"])
        rows = np.arange(48) + 0.5 - 24
        elevation = pitch_rad - np.arctan(rows / renderer.camera.focal_px)
        sky = images["rgb"][1, :, 30, 2].astype(int) > images["rgb"][1, :, 30, 1]
        assert sky[elevation > 0.12].all() and not sky[elevation < -0.02].any()
