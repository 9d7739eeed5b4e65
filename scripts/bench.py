"""Measures speed; one subcommand per part, one line per setting.

    python scripts/bench.py render                 # frames a second, and the time of each stage
    python scripts/bench.py render --size 84 --sensors rgb --threads 1 2 --views 256
    python scripts/bench.py render --poses walk    # views along shortest walks, as demonstrations draw them
    python scripts/bench.py city                   # cities: frames a second at street level and from above, flights
    python scripts/bench.py growth --out FOLDER    # speed by views, triangles, resolution, threads: table, plot
    python scripts/bench.py navigate               # floor, distance fields, shortest walks, simulator
    python scripts/bench.py encode                 # the encoder as it was trained and as it is used
    python scripts/bench.py demos                  # walking, drawing, encoding and storing demonstrations
    python scripts/bench.py learn                  # time that training waits for its data
    python scripts/bench.py play                   # agents in lockstep, and the time of each stage
    python scripts/bench.py rl                     # learning by walking, beside the encoder alone
    python scripts/bench.py airsim                 # a scene in process and through AirSim servers; needs msgpack

PARTS lists functions that take the subparsers and add a part. Every figure is the median of `--repeats` runs beside the
best, since machines are shared.
"""

import argparse
from pathlib import Path

import numba
import numpy as np
import torch

from eqa.data.questions.view_points import ViewPointFinder
from eqa.envs.episode import Pose
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import generate_house
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.navigation.action_search import costs_to_go
from eqa.envs.navigation.floor import distance_fields, far_places, sample_start
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.simulator import Goal
from eqa.models.encoders.cnn import WEIGHTS, Encoder, load_encoder
from eqa.models.encoders.features import own_gpu
from eqa.scripts.arguments import whole
from eqa.scripts.speed.airsim import add_airsim
from eqa.scripts.speed.city import add_city
from eqa.scripts.speed.growth import add_growth
from eqa.scripts.speed.pipeline import add_pipeline
from eqa.scripts.speed.render import add_render, furnished_houses, measure
from eqa.scripts.speed.rl import add_rl, wait_for


def bench_encode(args: argparse.Namespace) -> None:
    device = own_gpu() if args.device == "auto" else torch.device(args.device)
    encoder = (load_encoder(args.encoder) if args.encoder.exists() else Encoder().eval()).to(device)
    scenes, scene_index, poses = furnished_houses(2, args.batch)
    renderer = Renderer(Camera(encoder.height_px, encoder.width_px), ("rgb",))
    renderer.load(scenes)
    rgb = torch.from_numpy(renderer.render(scene_index, poses)["rgb"]).to(device)
    forms = {"as trained": encoder} | {f"frozen {p}": encoder.for_inference(p) for p in ("float32", "bfloat16")}
    with torch.inference_mode():
        exact = encoder(rgb)
        for threads in args.threads:
            torch.set_num_threads(threads)
            for name, form in forms.items():
                best, median = measure(lambda form=form: wait_for(form(rgb).device), args.repeats)
                error = float((form(rgb) - exact).norm() / exact.norm())
                print(
                    f"encode, {name}: {device}, batch {args.batch}, {threads} threads: {args.batch / best:.0f} frames/s best, "
                    f"{args.batch / median:.0f} median; relative error {error:.4f}"
                )


def add_encode(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("encode", help="frames a second of an encoder, with the error of each form")
    parser.add_argument("--encoder", type=Path, default=WEIGHTS, help="its safetensors file")
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto: a GPU if there is one")
    parser.add_argument("--batch", type=whole(1), default=32)
    parser.add_argument("--threads", type=whole(1), nargs="+", default=sorted({1, torch.get_num_threads()}))
    parser.add_argument("--repeats", type=whole(1), default=10)
    parser.set_defaults(run=bench_encode)


def bench_house(house: House, finder: ViewPointFinder, args: argparse.Namespace) -> tuple[list[Goal], list[Pose]]:
    """Prints the times of a house's floor and of the walks in it; returns goals and far starts in it."""
    catalog, rng = load_catalog(), np.random.default_rng(0)
    scene = build_scene(house, catalog)
    floor = build_floor(house, scene, catalog.meshes, resolution=args.resolution)
    targets = [(thing.id,) for thing in house.objects]
    goals = [Goal(poses, 0.25) for poses in finder(house, targets) if poses][: args.targets]
    starts = [sample_start(floor, rng, far_places(floor, field)) for field in distance_fields(floor, goals)]
    searches = costs_to_go(floor, goals)
    length = np.mean([len(search.walk(start).actions) for search, start in zip(searches, starts)])
    parts = {
        "floor": (lambda: build_floor(house, scene, catalog.meshes, resolution=args.resolution), 1),
        "view points": (lambda: finder(house, targets), len(targets)),
        "distance field": (lambda: distance_fields(floor, goals), len(goals)),
        "cost-to-go": (lambda: costs_to_go(floor, goals), len(goals)),
        "walk": (lambda: [search.walk(start) for search, start in zip(searches, starts)], len(goals)),
    }
    figures = [f"{name} {1e3 * measure(run, args.repeats)[0] / count:.1f}" for name, (run, count) in parts.items()]
    print(
        f"navigate {house.id}: {floor.num_free * floor.cell_m**2:.0f} m2 free in {args.resolution}^2 cells, walks of "
        f"{length:.0f} actions, {numba.get_num_threads()} threads; best ms each: {', '.join(figures)}"
    )
    return goals, starts


def bench_navigate(args: argparse.Namespace) -> None:
    finder, rng = ViewPointFinder(), np.random.default_rng(0)
    for index in range(args.houses):
        house = generate_house(seed=0, split="train", index=index)
        goals, starts = bench_house(house, finder, args)
    simulator = HouseSimulator([house], num_agents=args.agents, camera=Camera(8, 8), resolution=args.resolution)
    goal_of = np.arange(args.agents) % len(goals)
    scenes = np.zeros(args.agents, np.int64)
    simulator.reset(np.arange(args.agents), scenes, np.array(starts)[goal_of], [goals[k] for k in goal_of])
    actions = rng.choice(3, (100, args.agents), p=[0.6, 0.2, 0.2])
    best, _ = measure(
        lambda: [(simulator.step(row), simulator.distance_m, simulator.region) for row in actions], args.repeats
    )
    print(f"simulate {args.agents} agents: {actions.size / best:.0f} steps/s (move, distance, room; one thread)")


def add_navigate(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("navigate", help="floor, distance fields, shortest walks, simulator steps")
    parser.add_argument("--houses", type=whole(1), default=2)
    parser.add_argument("--targets", type=whole(1), default=16, help="targets a house")
    parser.add_argument("--resolution", type=whole(1), default=1000)
    parser.add_argument("--agents", type=whole(1), default=64)
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.set_defaults(run=bench_navigate)


PARTS = (add_render, add_city, add_airsim, add_growth, add_encode, add_navigate, add_pipeline, add_rl)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True, metavar="PART")
    for add in PARTS:
        add(parts)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
