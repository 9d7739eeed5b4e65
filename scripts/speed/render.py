"""Part of `scripts/bench.py` about the renderer: frames a second, and the time of each stage."""

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np

from eqa.data.questions.view_points import ViewPointFinder
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import generate_house
from eqa.envs.house.house import House
from eqa.envs.navigation.action_search import shortest_walks
from eqa.envs.navigation.floor import Floor, distance_fields, far_places, sample_start
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.cpu_kernels import _place, _transform, draw
from eqa.envs.rendering.renderer import SENSORS, Renderer
from eqa.envs.rendering.room_culling import MAX_ROOMS
from eqa.envs.rendering.scene import Meshes, Scene
from eqa.envs.simulator import Goal
from eqa.scripts.arguments import whole


def measure(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Best and median seconds of `run`, after one run that does not count."""
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), float(np.median(seconds))


def furnished_houses(
    count: int, views: int, seed: int = 0, *, walking: bool = False
) -> tuple[list[Scene], np.ndarray, np.ndarray]:
    """Generated scenes, and for `views` views the scene index and a pose.

    A pose is on free floor, turned by a multiple of 9 degrees, or a random one of far shortest walks to things.
    """
    catalog, rng = load_catalog(), np.random.default_rng(seed)
    scenes, choice = [], []
    for index in range(count):
        house = generate_house(seed=seed, split="train", index=index)
        scenes.append(build_scene(house, catalog))
        floor = build_floor(house, scenes[-1], catalog.meshes, resolution=300)
        turned = np.repeat(np.arange(40) * np.radians(9), len(floor.centres))
        choice.append(
            walked_poses(house, floor, rng) if walking else floor.stand(np.tile(floor.centres, (40, 1)), turned)
        )
    scene_index = np.arange(views) % count
    return scenes, scene_index, np.stack([choice[k][rng.integers(len(choice[k]))] for k in scene_index])


def walked_poses(house: House, floor: Floor, rng: np.random.Generator, num_walks: int = 8) -> np.ndarray:
    """(T, 4) poses of shortest walks to things of the house from far away."""
    views = ViewPointFinder()(house, [(thing.id,) for thing in house.objects])
    goals = [Goal(poses, 0.25) for poses in views if poses][:num_walks]
    starts = [sample_start(floor, rng, far_places(floor, field)) for field in distance_fields(floor, goals)]
    walks = shortest_walks(floor, goals, starts, or_none=True)
    return np.concatenate([walk.poses for walk in walks if walk is not None])


@numba.njit(parallel=True)
def transform_again(world, lens, views, drawn, scratch):
    """Places and transforms the instances drawn[n] (-1: none) of every view n, and nothing else."""
    for n in numba.prange(len(views)):
        t = numba.get_thread_id()
        start = 0
        for i in drawn[n]:
            if i >= 0:
                m, whole = scratch.matrix[t], scratch.window[t, MAX_ROOMS]
                _place(world, i, views[n], lens, m)
                start += _transform(world, world.mesh[i], m, lens, whole, scratch.point[t], scratch.pixel[t], start)


def drawn_instances(renderer: Renderer, scene_index: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """(N, I) rows of the instances that each view draws, near first, -1 for none."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    scratch, rows = renderer._scratch, []
    for n in range(len(poses)):
        renderer.render(scene_index[n : n + 1], poses[n : n + 1])
        rows.append(np.where(scratch.vertex_start[0] >= 0, scratch.order[0], -1))
    numba.set_num_threads(threads)
    return np.array(rows)


def count_triangles(scene: Scene, shared: Meshes) -> int:
    counts = [np.diff(meshes.face_range, axis=1)[:, 0] for meshes in (shared, scene.meshes)]
    return int(np.concatenate(counts)[scene.instances.mesh].sum())


def bench_render(args: argparse.Namespace) -> None:
    scenes, scene_index, poses = furnished_houses(args.houses, args.views, walking=args.poses == "walk")
    renderer = Renderer(Camera(args.size, args.size), args.sensors)
    renderer.load(scenes)
    out = renderer.render(scene_index, poses)
    world, lens, scratch = renderer._world, renderer._lens, renderer._scratch
    views, nothing = renderer.camera.views(poses), np.zeros(4, np.bool_)
    unused = [np.empty((1,) * (2 if name == "rgb" else 3), kind) for name, kind in SENSORS.items()]
    unused[0] = np.empty((1, 1, 1), np.uint8)
    drawn = drawn_instances(renderer, scene_index, poses)
    catalog_meshes = load_catalog().meshes
    num_triangles = np.mean([count_triangles(scene, catalog_meshes) for scene in scenes])
    for threads in args.threads:
        numba.set_num_threads(threads)
        best, median = measure(lambda: renderer.render(scene_index, poses, out), args.repeats)
        transform, _ = measure(lambda: transform_again(world, lens, views, drawn, scratch), args.repeats)
        visible, _ = measure(
            lambda: draw(world, lens, scene_index, views, scratch, renderer._outside, nothing, *unused), args.repeats
        )
        split = [1e3 * s / args.views for s in (transform, visible - transform, best - visible)]
        print(
            f"render {'+'.join(args.sensors)}: {args.views} {args.poses} views of {args.houses} houses, {num_triangles:.0f} triangles "
            f"each, {args.size}x{args.size}, {threads} threads: {args.views / best:.0f} frames/s best, "
            f"{args.views / median:.0f} median; ms a frame: transform {split[0]:.3f}, raster {split[1]:.3f}, "
            f"shade {split[2]:.3f}"
        )


def add_render(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("render", help="frames a second of envs.rendering.renderer")
    parser.add_argument("--views", type=whole(1), default=64, help="views in one call")
    parser.add_argument("--poses", choices=("floor", "walk"), default="floor", help="anywhere, or on shortest walks")
    parser.add_argument("--houses", type=whole(1), default=4)
    parser.add_argument("--size", type=whole(1), default=224, help="width and height in pixels")
    parser.add_argument("--threads", type=whole(1), nargs="+", default=sorted({1, numba.config.NUMBA_NUM_THREADS}))
    parser.add_argument("--sensors", nargs="+", choices=list(SENSORS), default=list(SENSORS))
    parser.add_argument("--repeats", type=whole(1), default=10)
    parser.set_defaults(run=bench_render)
