"""Part of `scripts/bench.py` about cities: frames a second by height, and the times of distances, flights and steps."""

import argparse
import time

import numba
import numpy as np

from eqa.envs.city.airspace import Airspace
from eqa.envs.city.city import LOWEST_M
from eqa.envs.city.flights import FlightPlanner, distance_field
from eqa.envs.city.simulator import CityWorld
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import SENSORS, Renderer
from eqa.envs.simulator import Goal
from eqa.scripts.arguments import whole
from eqa.scripts.speed.render import measure


def free_poses(air: Airspace, level: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N, 4) poses at random free places of a level."""
    floor = air.floors[level]
    places = floor.centres[rng.integers(len(floor.centres), size=count)]
    return floor.stand(places, rng.choice(air.actions.headings_rad, count))


def bench_city(args: argparse.Namespace) -> None:
    world, rng = CityWorld.generated(seed=0), np.random.default_rng(0)
    start = time.perf_counter()
    ids = [f"city-train-{index:05d}" for index in range(args.cities)]
    scenes, airs = [], []
    for scene_id in ids:
        scenes.append(world.drawable(scene_id)[0])
        airs.append(world.airspace(scene_id))
    print(f"city: {(time.perf_counter() - start) / args.cities:.1f} s to make one twice, compiling included")
    renderer = Renderer(Camera(args.size, args.size, height_m=0.0), args.sensors)
    renderer.load(scenes)
    scene_index = np.arange(args.views) % args.cities
    for level in args.levels:
        poses = np.empty((args.views, 4))
        for k, air in enumerate(airs):
            here = scene_index == k
            poses[here] = free_poses(air, level, int(here.sum()), rng)
        out = renderer.render(scene_index, poses)
        for threads in args.threads:
            numba.set_num_threads(threads)
            best, median = measure(lambda poses=poses, out=out: renderer.render(scene_index, poses, out), args.repeats)
            before = time.process_time()
            renderer.render(scene_index, poses, out)
            cpu_ms = 1e3 * (time.process_time() - before) / args.views
            print(
                f"city {'+'.join(args.sensors)}: {args.views} views {LOWEST_M + level * world.actions.climb_m:g} m high in "
                f"{args.cities} cities, {args.size}x{args.size}, {threads} threads: {args.views / best:.0f} frames/s best, "
                f"{args.views / median:.0f} median; {cpu_ms:.2f} ms of processor time a frame"
            )
    _bench_flights(world, airs[0], ids[0], args, rng)


def _bench_flights(
    world: CityWorld, air: Airspace, scene_id: str, args: argparse.Namespace, rng: np.random.Generator
) -> None:
    ends, starts = (free_poses(air, 0, args.flights, rng) for _ in range(2))
    goals = [Goal((tuple(end),), world.actions.step_m, world.actions.turn_rad) for end in ends.tolist()]
    field_s, _ = measure(lambda: [distance_field(air, goal) for goal in goals], 1)
    flight_s, _ = measure(
        lambda: [
            FlightPlanner(air, goal).walk(tuple(start)) for goal, start in zip(goals, starts.tolist(), strict=True)
        ],
        1,
    )
    simulator = world.open([scene_id], num_agents=args.flights)
    simulator.reset(np.arange(args.flights), np.zeros(args.flights, np.int64), starts, goals)
    actions = rng.integers(0, len(world.actions), (100, args.flights))
    step_s, _ = measure(
        lambda: [(simulator.step(row), simulator.distance_m, simulator.region) for row in actions], args.repeats
    )
    print(
        f"city flights: {1e3 * field_s / args.flights:.0f} ms a distance field, {1e3 * flight_s / args.flights:.0f} ms a "
        f"shortest flight, {actions.size / step_s:.0f} steps/s (move, distance, region)"
    )


def add_city(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("city", help="cities: frames a second by height; distances, flights, steps")
    parser.add_argument("--views", type=whole(1), default=128, help="views in one call")
    parser.add_argument("--cities", type=whole(1), default=2)
    parser.add_argument("--levels", type=whole(0), nargs="+", default=[0, 1, 4, 8], help="flight levels, 10 m apart")
    parser.add_argument("--size", type=whole(1), default=224, help="width and height in pixels")
    parser.add_argument("--threads", type=whole(1), nargs="+", default=sorted({1, numba.config.NUMBA_NUM_THREADS}))
    parser.add_argument("--sensors", nargs="+", choices=list(SENSORS), default=list(SENSORS))
    parser.add_argument("--flights", type=whole(1), default=8)
    parser.add_argument("--repeats", type=whole(1), default=7)
    parser.set_defaults(run=bench_city)
