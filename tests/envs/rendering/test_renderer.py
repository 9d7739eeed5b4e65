"""The renderer against Embree (depth, ids) and against a NumPy ray caster (colour), and its edge cases."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from embreex import rtcore_scene
from embreex.mesh_construction import TriangleMesh

from eqa.envs.house.build import build_floor
from eqa.envs.house.catalog import load_catalog
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.cpu_kernels import _polygon_spans, _triangle_spans
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Instances, Materials, Meshes, Scene, Textures
from tests.helpers.generated_house import house_and_scene
from tests.helpers.poses import on_floor

TEXTURE_LOG2 = 5


def make_meshes(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]) -> Meshes:
    """Meshes from (vertices, normals, uv, faces relative to the part)."""
    num_v, num_f = (np.cumsum([0] + [len(part[k]) for part in parts]) for k in (0, 3))

    def join(k: int, kind: type, width: int) -> np.ndarray:
        return np.concatenate([np.empty((0, width), kind), *(part[k] for part in parts)]).astype(kind)

    faces = [part[3] + first for part, first in zip(parts, num_v, strict=False)]
    return Meshes(
        vertices=join(0, np.float32, 3),
        normals=join(1, np.float32, 3),
        uv=join(2, np.float32, 2),
        faces=np.concatenate([np.empty((0, 3), np.int32), *faces]).astype(np.int32),
        face_slot=np.zeros(num_f[-1], np.int32),
        vertex_range=np.stack([num_v[:-1], num_v[1:]], axis=1).astype(np.int32),
        face_range=np.stack([num_f[:-1], num_f[1:]], axis=1).astype(np.int32),
    )


def box(size=(1.0, 1.0, 1.0), center=(0.0, 0.0, 0.0)):
    """An axis-aligned box; each side has its own corners, normal, and a texture once over."""
    vertices, normals, uv, faces = [], [], [], []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                corner = np.zeros(3)
                corner[axis], corner[(axis + 1) % 3], corner[(axis + 2) % 3] = sign, a, b
                vertices.append(corner / 2 * size + center)
                normals.append(np.eye(3)[axis] * sign)
                uv.append(((a + 1) / 2, (b + 1) / 2))
            n = len(vertices)
            faces += [(n - 4, n - 3, n - 2), (n - 4, n - 2, n - 1)]
    return np.array(vertices), np.array(normals), np.array(uv), np.array(faces)


def soup(rng: np.random.Generator, num: int, size: float = 0.4):
    """Random triangles in the unit cube, with random unit normals."""
    vertices = (rng.uniform(-0.5, 0.5, (num, 1, 3)) + rng.normal(0, size, (num, 3, 3)) * 0.5).reshape(-1, 3)
    normals = rng.normal(size=vertices.shape)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return vertices, normals, rng.uniform(0, 2, (3 * num, 2)), np.arange(3 * num).reshape(-1, 3)


def pyramid(image: np.ndarray) -> np.ndarray:
    """Packed texels of a square RGB image and its smaller copies, as `Textures` lays them out."""
    levels = []
    image = image.astype(np.float64)
    while True:
        r, g, b = np.moveaxis(np.rint(image).astype(np.uint32), -1, 0)
        levels.append((r | g << 8 | b << 16 | np.uint32(255 << 24)).ravel())
        if len(image) == 1:
            return np.concatenate(levels)
        image = image.reshape(len(image) // 2, 2, len(image) // 2, 2, 3).mean(axis=(1, 3))


def make_assets(parts, images=None) -> SimpleNamespace:
    if images is None:
        images = [np.full((1 << TEXTURE_LOG2, 1 << TEXTURE_LOG2, 3), 200)]
    texels = [pyramid(image) for image in images]
    offset = np.cumsum([0] + [len(t) for t in texels])[:-1].astype(np.int64)
    log2 = np.array([int(np.log2(len(image))) for image in images], np.int32)
    return SimpleNamespace(meshes=make_meshes(parts), textures=Textures(np.concatenate(texels), offset, log2))


def make_scene(assets, items, own=(), rgb=None, texture=None, unlit=None) -> Scene:
    """items: (mesh, rotation_scale, translation); instance k has id k + 1, class k % 100 + 1 and material k."""
    n = len(items)
    meshes = make_meshes(list(own))
    sphere = np.zeros((n, 4))
    num_shared = len(assets.meshes.vertex_range)
    for k, (mesh, rotation_scale, translation) in enumerate(items):
        source, row = (assets.meshes, mesh) if mesh < num_shared else (meshes, mesh - num_shared)
        points = source.vertices[slice(*source.vertex_range[row])] @ np.transpose(rotation_scale) + translation
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        sphere[k] = *middle, np.linalg.norm(points - middle, axis=1).max() + 1e-3
    rgb = np.full((n, 3), 200) if rgb is None else rgb
    return Scene(
        scene_id="test",
        meshes=meshes,
        materials=Materials(
            rgb=np.asarray(rgb, np.uint8),
            texture=np.full(n, -1, np.int32) if texture is None else np.asarray(texture, np.int32),
            unlit=np.zeros(n, np.uint8) if unlit is None else np.asarray(unlit, np.uint8),
        ),
        instances=Instances(
            mesh=np.array([item[0] for item in items], np.int32),
            rotation_scale=np.array([item[1] for item in items], np.float32).reshape(-1, 3, 3),
            translation=np.array([item[2] for item in items], np.float32).reshape(-1, 3),
            material=np.arange(n, dtype=np.int32),
            class_id=np.arange(n, dtype=np.int32) % 100 + 1,
            instance_id=np.arange(n, dtype=np.int32) + 1,
            room=np.zeros(n, np.int32),
            sphere=sphere.astype(np.float32),
        ),
        assets=assets,
    )


def random_turn(rng: np.random.Generator) -> np.ndarray:
    """A random rotation times a non-uniform scale, mirrored half of the time."""
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return q @ np.diag(rng.uniform(0.3, 1.5, 3))


def random_room(rng: np.random.Generator, num_items: int = 40):
    """Assets of a box, a fine soup and a coarse soup; a scene of a room, inner walls and instances of them."""
    assets = make_assets([box(), soup(rng, 400, 0.05), soup(rng, 12, 0.5)])
    walls = [box((10, 2.7, 8), (0, 1.35, 0)), box((0.1, 2.7, 5), (1, 1.35, -1)), box((4, 2.7, 0.1), (-2, 1.35, 1))]
    items = [(3 + k, np.eye(3), np.zeros(3)) for k in range(len(walls))]
    for _ in range(num_items):
        where = rng.uniform((-4.5, 0, -3.5), (4.5, 2.5, 3.5))
        items.append((int(rng.integers(3)), random_turn(rng) * rng.uniform(0.2, 1.0), where))
    return assets, make_scene(assets, items, walls)


def world_triangles(assets, scene: Scene):
    """(T, 3, 3) corners in the world, and per triangle its instance row and its face row and source meshes."""
    triangles, owner = [], []
    num_shared = len(assets.meshes.vertex_range)
    for i, mesh in enumerate(scene.instances.mesh):
        source, row = (assets.meshes, mesh) if mesh < num_shared else (scene.meshes, mesh - num_shared)
        faces = np.arange(*source.face_range[row])
        points = source.vertices[source.faces[faces]].astype(np.float64)
        turn = scene.instances.rotation_scale[i].astype(np.float64)
        triangles.append(points @ turn.T + scene.instances.translation[i])
        owner += [(i, source, f) for f in faces]
    return np.concatenate(triangles), owner


def pixel_rays(camera: Camera, pose: np.ndarray):
    """Origin (3,) and directions (H, W, 3) whose part along the optical axis is one, so that distance is planar depth."""
    right, down, forward, origin = camera.views(pose[None])[0].reshape(4, 3)
    x = (np.arange(camera.width_px) + 0.5 - camera.width_px / 2) / camera.focal_px
    y = (np.arange(camera.height_px) + 0.5 - camera.height_px / 2) / camera.focal_px
    return origin, forward + x[None, :, None] * right + y[:, None, None] * down


class Embree:
    """Triangles (T, 3, 3) to send rays at."""

    def __init__(self, triangles: np.ndarray) -> None:
        self._scene = rtcore_scene.EmbreeScene()
        vertices = triangles.reshape(-1, 3).astype(np.float32)
        self._mesh = TriangleMesh(self._scene, vertices, np.arange(len(vertices), dtype=np.int32).reshape(-1, 3))

    def run(self, start: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of directions up to the first hit, 0 where there is none, and its triangle, -1 there."""
        hit = self._scene.run(start.astype(np.float32), directions.astype(np.float32), output=1)
        return np.where(hit["primID"] >= 0, hit["tfar"], 0.0), hit["primID"]


def embree(traced: Embree, camera: Camera, pose: np.ndarray):
    """Planar depth (H, W), 0 where nothing is hit, and triangle (H, W), -1 there; what lies before the near plane is cut."""
    origin, directions = pixel_rays(camera, pose)
    directions = directions.reshape(-1, 3)
    length, triangle = traced.run(origin + directions * camera.near_m, directions)
    shape = (camera.height_px, camera.width_px)
    return np.where(triangle >= 0, length + camera.near_m, 0.0).reshape(shape), triangle.reshape(shape)


def one_box(distance: float = 2.0, size: float = 1.0) -> tuple[SimpleNamespace, Scene]:
    """A box whose front side is `distance` before a camera that stands at the origin with heading 0."""
    assets = make_assets([box((size, size, size))])
    return assets, make_scene(assets, [(0, np.eye(3), (0.0, 1.0, -distance - size / 2))])


def one_view(renderer: Renderer, x=0.0, z=0.0, heading=0.0) -> dict[str, np.ndarray]:
    images = renderer.render(np.zeros(1, np.int32), np.array([[x, 0.0, z, heading]]))
    return {name: image[0] for name, image in images.items()}


@pytest.mark.parametrize("camera", [Camera(), Camera(90, 160, 100.0, height_m=1.7, near_m=0.2, pitch_rad=-0.4)])
def test_depth_and_instances_agree_with_embree_in_random_rooms(camera):
    rng = np.random.default_rng(5)
    pixels = close = same = 0
    for _ in range(3):
        assets, scene = random_room(rng)
        renderer = Renderer(camera)
        renderer.load([scene])
        places = np.stack([rng.uniform(-4.5, 4.5, 8), rng.uniform(-3.5, 3.5, 8), rng.uniform(-4, 4, 8)], axis=1)
        poses = on_floor(places)
        poses[4:, 1] = rng.uniform(-0.4, 0.4, 4)
        images = renderer.render(np.zeros(8, np.int32), poses)
        triangles, owner = world_triangles(assets, scene)
        traced = Embree(triangles)
        instance = np.array([0] + [scene.instances.instance_id[i] for i, _, _ in owner])
        for n, pose in enumerate(poses):
            depth, triangle = embree(traced, camera, pose)
            pixels += depth.size
            close += (np.abs(images["depth"][n] - depth) < 1e-3).sum()
            same += (images["instance_id"][n] == instance[triangle + 1]).sum()
            assert (images["class_id"][n] == (images["instance_id"][n] - 1) % 100 + 1).all()
    assert close / pixels >= 0.999
    assert same / pixels >= 0.995


@pytest.mark.parametrize("index", range(3))
def test_generated_house_agrees_with_embree(index):
    catalog = load_catalog()
    house, scene = house_and_scene(0, index)
    free = build_floor(house, scene, catalog.meshes, resolution=200).centres
    rng = np.random.default_rng(0)
    poses = on_floor(np.column_stack([rng.choice(free, 12), rng.integers(0, 40, 12) * np.radians(9)]))
    renderer = Renderer()
    renderer.load([scene])
    images = renderer.render(np.zeros(12, np.int32), poses)
    triangles, owner = world_triangles(catalog, scene)
    rows = np.array([i for i, _, _ in owner])
    traced = Embree(triangles)
    hits = [embree(traced, Camera(), pose) for pose in poses]
    assert np.mean([np.abs(images["depth"][n] - depth) < 1e-3 for n, (depth, _) in enumerate(hits)]) >= 0.999
    for name in ("instance_id", "class_id"):
        expected = np.append(getattr(scene.instances, name)[rows], 0)
        assert np.mean([images[name][n] == expected[triangle] for n, (_, triangle) in enumerate(hits)]) >= 0.995


def test_triangles_that_share_edges_leave_no_gap_whatever_the_order_of_their_corners():
    rng = np.random.default_rng(1)
    steps = np.linspace(-5, 5, 40)
    x, y = np.meshgrid(steps, steps)
    vertices = np.stack([x.ravel(), y.ravel(), rng.uniform(-3.2, -3, x.size)], axis=1)
    k = (np.arange(39)[:, None] * 40 + np.arange(39)).ravel()
    faces = np.concatenate([np.stack([k, k + 1, k + 41], 1), np.stack([k, k + 41, k + 40], 1)])
    sheet = vertices, np.tile((0, 0, 1.0), (1600, 1)), vertices[:, :2], rng.permuted(faces, axis=1)
    assets = make_assets([sheet])
    renderer = Renderer(Camera(), ("depth",))
    renderer.load([make_scene(assets, [(0, np.eye(3), (0, 0, 0))])])
    poses = on_floor(np.stack([rng.uniform(-1, 1, 20), rng.uniform(-1, 0, 20), rng.uniform(-0.3, 0.3, 20)], axis=1))
    assert renderer.render(np.zeros(20, np.int32), poses)["depth"].all()


def cast_colours(assets, scene: Scene, images, camera: Camera, pose: np.ndarray) -> np.ndarray:
    """Colour of every pixel, by meeting its ray with every triangle in double precision. Slow and obvious.

    Mip level: that whose texel is nearest to the pixel's wider side on the triangle. Background stays -1.
    """
    triangles, owner = world_triangles(assets, scene)
    origin, directions = pixel_rays(camera, pose)
    a, e1, e2 = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]

    def barycentric(ray):
        p = np.cross(ray, e2)
        with np.errstate(all="ignore"):
            inverse = 1 / (p * e1).sum(axis=1)
            b1 = ((origin - a) * p).sum(axis=1) * inverse
            q = np.cross(origin - a, e1)
            return b1, (q @ ray) * inverse, (q * e2).sum(axis=1) * inverse

    out = np.full((camera.height_px, camera.width_px, 3), -1.0)
    right, down = camera.views(pose[None])[0].reshape(4, 3)[:2] / camera.focal_px
    for row, column in np.ndindex(out.shape[:2]):
        ray = directions[row, column]
        b1, b2, depth = barycentric(ray)
        hit = (b1 >= 0) & (b2 >= 0) & (b1 + b2 <= 1) & (depth >= camera.near_m)
        if not hit.any():
            continue
        t = int(np.argmin(np.where(hit, depth, np.inf)))
        i, source, face = owner[t]
        corners = source.faces[face]

        def at(values, ray=ray, t=t, corners=corners):
            b1, b2, _ = (b[t] for b in barycentric(ray))
            return (
                values[corners] @ [1 - b1 - b2, b1, b2] if values.ndim == 1 else [1 - b1 - b2, b1, b2] @ values[corners]
            )

        normals = source.normals @ np.linalg.inv(scene.instances.rotation_scale[i].astype(np.float64))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        normal = np.cross(e1[t], e2[t])
        normal *= np.sign(normal @ normals[corners].sum(axis=0))
        x, y, z = np.sign(-normal @ ray) * normals.T
        sun, fill = np.maximum(0, 0.4 * x + 0.8 * y + 0.45 * z), np.maximum(0, -0.81 * x + 0.12 * y - 0.57 * z)
        ambient = 0.66 + 0.08 * np.maximum(0, y) + 0.3 * np.maximum(0, -y)
        light = at(np.minimum(1, ambient + 0.24 * sun + 0.14 * fill))
        material = scene.instances.material[i] + source.face_slot[face]
        colour = np.array([1.0, 1.0, 1.0])
        if scene.materials.texture[material] >= 0:
            image = images[scene.materials.texture[material]].astype(np.float64)
            here = at(source.uv)
            spread = [np.linalg.norm(at(source.uv, ray + step) - here) * len(image) for step in (right, down)]
            level = int(np.clip(np.rint(np.log2(max(spread))), 0, np.log2(len(image))))
            size = len(image) >> level
            small = image.reshape(size, 1 << level, size, 1 << level, 3).mean(axis=(1, 3))
            colour = small[int(np.floor((1 - here[1]) * size)) % size, int(np.floor(here[0] * size)) % size] / 255
        light = 1.0 if scene.materials.unlit[material] else light
        out[row, column] = colour * scene.materials.rgb[material] * light
    return out


def test_colours_agree_with_a_ray_caster_on_flat_textured_tinted_and_unlit_surfaces():
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    smooth = np.stack([128 + 100 * np.sin(x / 16 * np.pi), 128 + 100 * np.cos(y / 16 * np.pi), 4 * x + 2 * y], axis=-1)
    noise = rng.integers(0, 256, (16, 16, 3))
    assets = make_assets([box(), soup(rng, 6, 0.6)], [smooth, noise])
    items = [(2, np.eye(3), (0, 0, 0))]
    for k in range(7):
        items.append((k % 2, random_turn(rng), rng.uniform((-2, 0.3, -4), (2, 1.8, -2))))
    scene = make_scene(
        assets,
        items,
        [box((8, 2.6, 10), (0, 1.3, 0))],
        rgb=rng.integers(60, 256, (8, 3)),
        texture=[0, -1, 0, 1, 0, 1, -1, 0],
        unlit=[0, 0, 0, 0, 1, 0, 1, 0],
    )
    camera = Camera(40, 52)
    renderer = Renderer(camera, ("rgb",))
    renderer.load([scene])
    place = (0.3, 1.0, 0.15)
    expected = cast_colours(assets, scene, [smooth, noise], camera, on_floor(place))
    difference = np.abs(one_view(renderer, *place)["rgb"] - expected).max(axis=-1)
    assert (expected >= 0).all()
    assert (difference <= 4).mean() > 0.9  # the rest: texels at a border, another mip level near its switch
    assert np.median(difference) <= 2


def four_colours() -> np.ndarray:
    """A picture of a red, a green, a blue and a white quarter, row by row."""
    quarters = np.array([[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 255)]], float)
    return quarters.repeat(16, axis=0).repeat(16, axis=1)


def test_texture_stands_upright_and_is_not_mirrored():
    corners = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0.0)])
    sheet = corners, np.tile((0, 0, 1.0), (4, 1)), (corners[:, :2] + 1) / 2, np.array([(0, 1, 2), (0, 2, 3)])
    assets = make_assets([sheet], [four_colours()])
    renderer = Renderer(Camera(64, 64), ("rgb",))
    renderer.load([make_scene(assets, [(0, np.eye(3), (0, 1, -2))], rgb=[(255,) * 3], texture=[0], unlit=[1])])
    rgb = one_view(renderer)["rgb"]
    found = [rgb[row, column].tolist() for row in (20, 44) for column in (20, 44)]
    assert found == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]


def test_box_ahead_has_its_size_and_depth_in_the_image():
    _assets, scene = one_box(distance=2.0)
    renderer = Renderer()
    renderer.load([scene])
    images = one_view(renderer)
    seen = images["instance_id"] == 1
    side = 2 * round(0.25 * Camera().focal_px)
    assert abs(int(seen.sum()) - side**2) <= 4 * side
    np.testing.assert_allclose(images["depth"][seen], 2.0, atol=1e-5)
    assert not images["depth"][~seen].any() and not images["class_id"][~seen].any()


def test_left_turn_moves_what_is_ahead_to_the_right():
    _assets, scene = one_box()
    renderer = Renderer()
    renderer.load([scene])
    columns = np.flatnonzero(one_view(renderer, heading=np.radians(9))["instance_id"].any(axis=0))
    assert columns.mean() > 112


def test_wall_close_to_the_near_plane_is_cut_exactly():
    camera = Camera(64, 96, near_m=0.5)
    assets = make_assets([box((1, 2.7, 20))])
    scene = make_scene(assets, [(0, np.eye(3), (-0.8, 1.35, 0))])
    renderer = Renderer(camera, ("depth",))
    renderer.load([scene])
    traced = Embree(world_triangles(assets, scene)[0])
    for pose in ((0.0, 0.0, 0.0), (-0.2, 3.0, 0.3), (-0.28, 3.0, 1.2)):
        depth, _ = embree(traced, camera, on_floor(pose))
        drawn = one_view(renderer, *pose)["depth"]
        assert (np.abs(drawn - depth) < 1e-3).mean() > 0.995, pose
        assert drawn[drawn > 0].min() >= 0.5 - 1e-5


def test_camera_inside_a_box_sees_its_far_sides():
    _assets, scene = one_box(distance=-0.5)
    renderer = Renderer()
    renderer.load([scene])
    images = one_view(renderer)
    assert (images["instance_id"] == 1).all()
    np.testing.assert_allclose(images["depth"], 0.5, atol=1e-5)


def test_looking_along_a_wall_through_its_plane_draws_nothing_wild():
    corners = np.array([(0, 0, 0), (0, 0, -9), (0, 2.7, -9), (0, 2.7, 0.0)])
    sheet = corners, np.tile((1.0, 0, 0), (4, 1)), corners[:, 1:], np.array([(0, 1, 2), (0, 2, 3)])
    assets = make_assets([sheet])
    renderer = Renderer(Camera(64, 64))
    renderer.load([make_scene(assets, [(0, np.eye(3), (0, 0, 0))])])
    for x in (0.0, 1e-7, 1e-4, -1e-4):
        depth = one_view(renderer, x, 0.0)["depth"]
        assert np.isfinite(depth).all() and depth.max() <= 9.001
        assert (depth > 0).mean() < 0.05


def test_degenerate_triangles_draw_nothing_and_harm_nothing():
    line = np.array([(0, 0, 0), (1, 1, 0), (0.5, 0.5, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0.0)])
    bad = line, np.tile((0, 1.0, 0), (6, 1)), np.zeros((6, 2)), np.array([(0, 1, 2), (3, 4, 5), (1, 1, 2)])
    assets = make_assets([box(), bad])
    items = [(0, np.eye(3), (0, 1, -3.0))]
    plain, mixed = make_scene(assets, items), make_scene(assets, [*items, (1, np.eye(3), (0, 1, -2.0))])
    renderer = Renderer()
    renderer.load([plain, mixed])
    images = renderer.render(np.array([0, 1]), np.zeros((2, 4)))
    assert (images["instance_id"][0] == images["instance_id"][1]).mean() > 0.99
    assert np.isfinite(images["depth"]).all()


def test_empty_scene_shows_the_outside_with_depth_class_and_instance_zero():
    assets, _ = one_box()
    renderer = Renderer()
    renderer.load([make_scene(assets, [])])
    images = one_view(renderer)
    assert not any(images[name].any() for name in ("depth", "class_id", "instance_id"))
    assert images["rgb"].min() > 40 and images["rgb"][0, 0, 2] > images["rgb"][-1, 0, 2]


def test_views_of_several_scenes_in_one_call_equal_each_scene_alone():
    rng = np.random.default_rng(8)
    assets, first = random_room(rng, 10)
    second = make_scene(assets, [(0, random_turn(rng), (0, 1, -2.0))])
    third = make_scene(assets, [(3, np.eye(3), (0, 1, -1.0)), (2, np.eye(3), (0, 1, -3.0))], [box((0.3, 0.3, 0.3))])
    poses = on_floor(rng.uniform(-1, 1, (9, 3)))
    order = np.array([2, 0, 1, 1, 2, 0, 0, 2, 1])
    renderer = Renderer(Camera(60, 80))
    renderer.load([first, second, third])
    together = renderer.render(order, poses)
    for k, scene in enumerate((first, second, third)):
        renderer.load([scene])
        alone = renderer.render(np.zeros(3, np.int32), poses[order == k])
        for name, image in alone.items():
            np.testing.assert_array_equal(together[name][order == k], image)


def test_hidden_objects_and_their_order_change_no_bit_of_the_image():
    rng = np.random.default_rng(6)
    assets, scene = random_room(rng, 60)
    items = scene.instances
    shuffled = [
        (items.mesh[k], items.rotation_scale[k], items.translation[k]) for k in rng.permutation(len(items.mesh))
    ]
    behind = [(0, random_turn(rng), rng.uniform((-30, 0, 5), (30, 3, 20))) for _ in range(60)]
    renderer = Renderer(Camera(120, 120), ("depth",))
    parts = [box((10, 2.7, 8), (0, 1.35, 0)), box((0.1, 2.7, 5), (1, 1.35, -1)), box((4, 2.7, 0.1), (-2, 1.35, 1))]
    renderer.load([scene, make_scene(assets, shuffled, parts), make_scene(assets, [*shuffled, *behind], parts)])
    poses = on_floor(np.column_stack([rng.uniform(-3, 3, (20, 2)), rng.uniform(-3, 3, 20)]))
    one, other, more = (renderer.render(np.full(20, k), poses)["depth"] for k in range(3))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, more)


def test_output_does_not_depend_on_the_number_of_threads_or_on_what_was_drawn_before():
    """In a process of its own, since those of the tests may have one core each."""
    call = f"from {__name__} import assert_alike_with_threads; assert_alike_with_threads(3)"
    environment = {**os.environ, "NUMBA_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", call], cwd=Path(__file__).parents[3], env=environment, check=True)


def assert_alike_with_threads(most: int) -> None:
    rng = np.random.default_rng(2)
    _assets, scene = random_room(rng)
    renderer = Renderer(Camera(100, 100))
    renderer.load([scene])
    poses = on_floor(rng.uniform(-3, 3, (7, 3)))
    assert numba.get_num_threads() == most
    expected = renderer.render(np.zeros(7, np.int32), poses)
    for num in range(1, most + 1):
        numba.set_num_threads(num)
        renderer.render(np.zeros(5, np.int32), poses[::-1][:5])
        for name, image in renderer.render(np.zeros(7, np.int32), poses).items():
            np.testing.assert_array_equal(image, expected[name])


def test_only_the_asked_modalities_are_given_and_they_equal_the_full_set():
    rng = np.random.default_rng(4)
    _assets, scene = random_room(rng, 5)
    full = Renderer(Camera(50, 50))
    full.load([scene])
    expected = one_view(full)
    for name in expected:
        part = Renderer(Camera(50, 50), (name,))
        part.load([scene])
        images = one_view(part)
        assert list(images) == [name]
        np.testing.assert_array_equal(images[name], expected[name])


def test_given_output_arrays_are_filled_and_returned():
    _assets, scene = one_box()
    renderer = Renderer(Camera(32, 32))
    renderer.load([scene])
    expected = renderer.render(np.zeros(2, np.int32), np.zeros((2, 4)))
    out = {name: np.full_like(image, 7) for name, image in expected.items()}
    given = renderer.render(np.zeros(2, np.int32), np.zeros((2, 4)), out)
    for name, image in expected.items():
        assert given[name] is out[name]
        np.testing.assert_array_equal(out[name], image)


def test_surface_looks_the_same_whichever_way_its_triangles_wind():
    vertices, normals, uv, faces = box()
    assets = make_assets([(vertices, normals, uv, faces), (vertices, normals, uv, faces[:, ::-1])])
    renderer = Renderer(Camera(64, 64), ("rgb",))
    turn = random_turn(np.random.default_rng(0))
    renderer.load([make_scene(assets, [(k, turn, (0, 1, -2.0))]) for k in range(2)])
    images = renderer.render(np.array([0, 1]), np.zeros((2, 4)))["rgb"]
    assert (np.abs(images[0].astype(int) - images[1]).max(axis=-1) <= 1).mean() > 0.99


@pytest.mark.parametrize("mirror", [1.0, -1.0])
@pytest.mark.parametrize("step", [1, -1])
def test_one_sided_faces_are_seen_from_their_front_alone_whichever_way_they_wind(step: int, mirror: float) -> None:
    vertices, normals, uv, faces = box()
    assets = make_assets([(vertices, normals, uv, faces[:, ::step])])
    place = random_turn(np.random.default_rng(0)) * np.array([mirror, 1.0, 1.0])
    scene = make_scene(assets, [(0, place, (0, 1, -2.0))])
    one_sided = replace(assets.meshes, one_sided=np.ones(len(faces), np.bool_))
    single = replace(scene, assets=SimpleNamespace(meshes=one_sided, textures=assets.textures))
    renderer, inside = Renderer(Camera(64, 64)), np.array([[0.0, 0.0, -2.0, 0.0]])
    renderer.load([scene])
    expected = one_view(renderer)
    assert (expected["instance_id"] == 1).any() and (
        renderer.render(np.zeros(1, np.int32), inside)["instance_id"] == 1
    ).all()
    renderer.load([single])
    for name, image in one_view(renderer).items():
        np.testing.assert_array_equal(image, expected[name])
    assert (renderer.render(np.zeros(1, np.int32), inside)["instance_id"] == 0).all()


@pytest.mark.parametrize(
    ("scene_index", "poses", "message"),
    [
        (np.zeros(2, np.int32), np.zeros((2, 3)), r"poses: expected shape \(N, 4\)"),
        (np.zeros(1, np.int32), np.zeros((2, 4)), "scene_index: expected 2 integers"),
        (np.zeros(1), np.zeros((1, 4)), "scene_index: expected 1 integers"),
        (np.zeros(2, np.int32), np.array([[0, 0, 0, 0], [0, np.nan, 0, 0]]), "poses: expected finite numbers.*row 1"),
        (np.array([1]), np.zeros((1, 4)), "scene_index: expected 0 to 0"),
        (np.array([-1]), np.zeros((1, 4)), "scene_index: expected 0 to 0"),
    ],
)
def test_wrong_input_to_render_is_refused_with_what_was_expected(scene_index, poses, message):
    _assets, scene = one_box()
    renderer = Renderer(Camera(16, 16))
    with pytest.raises(ValueError, match="call load"):
        renderer.render(scene_index, poses)
    renderer.load([scene])
    with pytest.raises(ValueError, match=message):
        renderer.render(scene_index, poses)


def test_scene_that_points_outside_its_arrays_is_refused():
    _assets, scene = one_box()
    renderer = Renderer(Camera(16, 16))
    for name, value in (("mesh", 9), ("material", 1), ("class_id", 256), ("instance_id", -1)):
        array = getattr(scene.instances, name)
        kept, array[0] = array[0], value
        with pytest.raises(ValueError, match=f"scene test: instances.{name}"):
            renderer.load([scene])
        array[0] = kept
    scene.materials.texture[0] = 5
    with pytest.raises(ValueError, match="scene test: materials.texture"):
        renderer.load([scene])


def test_wrong_construction_is_refused():
    assets, _ = one_box()
    with pytest.raises(ValueError, match="sensors: expected some of rgb, depth, class_id, instance_id"):
        Renderer(sensors=("rgb", "normals"))
    with pytest.raises(ValueError, match="vertical_fov_deg"):
        Camera(vertical_fov_deg=180.0)
    with pytest.raises(ValueError, match="height_px"):
        Camera(height_px=0)
    renderer = Renderer(Camera(16, 16), ("rgb",))
    renderer.load([make_scene(assets, [])])
    with pytest.raises(
        ValueError, match=r"out\['rgb'\]: expected a C-contiguous uint8 array of shape \(1, 16, 16, 3\)"
    ):
        renderer.render(np.zeros(1, np.int32), np.zeros((1, 4)), {"rgb": np.zeros((1, 16, 16, 4), np.uint8)})


@pytest.mark.parametrize("corners", [3, 4])
def test_a_sliver_less_high_than_rounding_stays_between_its_corners(corners: int) -> None:
    """The row at 0.5 is taken for one of the face's by rounding, where its first edge is already far beyond its end."""
    y = np.float32(0.500003)
    points = [(0, y), (30, np.nextafter(y, np.float32(1))), (28, 0.6), (2, 0.6)][:corners]
    corner = np.ones((3, 5), np.float32)
    corner[:2, :corners] = np.array(points, np.float32).T
    left, right = np.zeros(256, np.int32), np.zeros(256, np.int32)
    offset, everything = np.float32(-111.5), np.array([0, 224, 0, 224], np.float32)
    arguments = (offset, offset, everything, left, right)
    first, end = _triangle_spans(corner, *arguments) if corners == 3 else _polygon_spans(corner, 4, *arguments)
    assert (first, end) == (112, 113)
    assert 111 <= left[112] <= right[112] <= 143


@pytest.mark.parametrize("samples", [2, 3])
def test_samples_are_pixels_of_a_larger_frame_whose_colours_are_averaged(samples):
    scene = make_scene(make_assets([box()]), [(0, np.eye(3), np.array([0.3, 0.9, -2.0]))])
    camera = Camera(20, 24, samples=samples)
    poses = np.array([(0.0, 0.0, 0.0, 0.1 * n) for n in range(19)])
    images = []
    for one in (camera, camera.fine()):
        renderer = Renderer(one)
        renderer.load([scene])
        images.append(renderer.render(np.zeros(19, np.int64), poses))
    coarse, fine = images
    for n in (0, 17):
        for row, column in ((3, 5), (10, 12), (11, 7), (19, 23)):
            block = np.s_[n, row * samples : (row + 1) * samples, column * samples : (column + 1) * samples]
            mean = np.floor(fine["rgb"][block].reshape(-1, 3).mean(axis=0) + 0.5)
            np.testing.assert_array_equal(coarse["rgb"][n, row, column], mean)
            for name in ("depth", "class_id", "instance_id"):
                assert coarse[name][n, row, column] == fine[name][block][samples // 2, samples // 2]
    assert coarse["instance_id"].any() and not coarse["instance_id"].all()
