"""Part of `scripts/bench.py` about AirSim's protocol: frames a second of one scene in process and through servers."""

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from eqa.envs.airsim.drones import KINDS
from eqa.envs.airsim.flight import Flight, ned_of
from eqa.envs.airsim.server import WORLDS
from eqa.envs.airsim.simulator import AirSimWorld
from eqa.envs.simulator import World
from eqa.scripts.arguments import whole

ROOT = Path(__file__).parents[2]
SENSORS = {"RGB": ("rgb",), "RGB + depth": ("rgb", "depth"), "RGB + depth + instances": ("rgb", "depth", "instance_id")}


@contextmanager
def servers(arguments: list[str], count: int) -> Iterator[list[int]]:
    """Ports of stand-in servers, each in a process of its own."""
    command = [sys.executable, "-m", "eqa.envs.airsim.server", "--port", "0", *arguments]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield [int(re.search(r":(\d+),", process.stdout.readline())[1]) for process in started]
    finally:
        for process in started:
            process.terminate()
            process.wait()


def free_poses(flight: Flight, count: int, rng: np.random.Generator) -> Float64[np.ndarray, "V 4"]:
    """Poses in the scene of a flight, at headings of the world's actions."""
    corners = np.array([corner for region in flight.place.things.regions for corner in region.outline])
    height_m = flight.pose[1]
    found = []
    while len(found) < count:
        x, z = rng.uniform(corners.min(0), corners.max(0))
        pose = (float(x), height_m, float(z), float(rng.choice(flight.world.actions.headings_rad)))
        if flight.is_free(np.array([pose]))[0]:
            found.append(pose)
    return np.array(found)


def looked(world: World, scene_id: str, poses: Float64[np.ndarray, "V 4"], sensors: tuple[str, ...]) -> Callable:
    """Looking at each pose, one after the other, as a single agent does."""
    simulator, first = world.open([scene_id], num_agents=1), np.zeros(1, np.int64)
    return lambda: [simulator.look(first, pose[None], sensors) for pose in poses]


def cosys(port: int, poses: Float64[np.ndarray, "V 4"], sensors: tuple[str, ...]) -> Callable:
    """The same with Cosys-AirSim's client."""
    import cosysairsim

    client = cosysairsim.MultirotorClient("127.0.0.1", port)
    asked = [cosysairsim.ImageRequest("0", KINDS[name], name == "depth", False) for name in sensors]

    def look() -> None:
        for pose in poses:
            (x, y, z), (w, *turn) = ned_of(tuple(pose.tolist()))
            at = cosysairsim.Pose(cosysairsim.Vector3r(float(x), float(y), float(z)))
            at.orientation = cosysairsim.Quaternionr(*map(float, turn), float(w))
            client.simSetVehiclePose(at, True)
            for image in client.simGetImages(asked):
                if image.pixels_as_float:
                    np.array(image.image_data_float, np.float32)
                else:
                    np.frombuffer(image.image_data_uint8, np.uint8)

    return look


def bench_airsim(args: argparse.Namespace) -> None:
    flight = WORLDS[args.world].flight(args.seed, args.camera)
    world, scene_id = flight.world, flight.scene_id
    poses = free_poses(flight, args.views, np.random.default_rng(args.seed))
    camera = ["--camera", *args.camera] if args.camera else []
    with servers(["--world", args.world, "--seed", str(args.seed), *camera], args.servers) as ports:
        one = AirSimWorld.at(port=ports[0], knows=world)
        several = AirSimWorld.at(servers=[f"127.0.0.1:{port}" for port in ports], knows=world)
        for name, sensors in SENSORS.items():
            ways = {
                "in process": looked(world, scene_id, poses, sensors),
                "a server": looked(one, scene_id, poses, sensors),
            }
            if args.servers > 1:
                simulator, here = several.open([scene_id], num_agents=1), np.zeros(len(poses), np.int64)
                ways[f"{args.servers} servers"] = lambda s=simulator, n=sensors: s.look(here, poses, n)  # noqa: B023
            if importlib.util.find_spec("cosysairsim") is not None:
                ways["a server, cosysairsim"] = cosys(ports[0], poses, sensors)
            size = f"{world.camera.width_px}x{world.camera.height_px}"
            for way, seconds in in_turns(ways, args.repeats).items():
                print(
                    f"airsim {scene_id}, {name}, {size}, {way}: {len(poses) / min(seconds):.0f} frames/s best, "
                    f"{len(poses) / np.median(seconds):.0f} median"
                )


def in_turns(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, after one run that does not count; in turns, as the load of a machine changes."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats + 1):
        for way, look in ways.items():
            start = time.perf_counter()
            look()
            seconds[way].append(time.perf_counter() - start)
    return {way: of_way[1:] for way, of_way in seconds.items()}


def add_airsim(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("airsim", help="frames a second in process and through AirSim's protocol")
    parser.add_argument("--world", choices=WORLDS, default=next(iter(WORLDS)))
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--camera", nargs="+", default=[], metavar="NAME=VALUE", help="as env.camera.NAME")
    parser.add_argument("--views", type=whole(1), default=64)
    parser.add_argument("--servers", type=whole(1), default=2, help="processes that draw side by side")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.set_defaults(run=bench_airsim)
