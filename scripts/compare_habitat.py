"""Compares habitat-sim with our own world on the same exported houses, and prints tables: agreement and speed.

    python scripts/compare_habitat.py --python ~/miniconda3/envs/habitat/bin/python
    python scripts/compare_habitat.py --python ... --split test --style mixed --count 4 --views 256
    python scripts/compare_habitat.py --python ... --questions --repeats 0     # what is asked about their semantics

Houses of a split are exported to a folder that is deleted at the end. Both worlds then draw the same poses, measure the
same ways, and take the same actions. Speeds are medians of `--repeats` runs, ours and habitat-sim's in turns.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from jaxtyping import Float64, Int64
from rich.table import Table

from eqa.data.questions.journal import Journal
from eqa.data.questions.rules import load_rules
from eqa.data.questions.scan_names import load_scan_names
from eqa.data.questions.scans import Scans
from eqa.data.questions.templates import Generator
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.habitat.export import write_house
from eqa.envs.habitat.simulator import HabitatWorld
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import PAPER, SPLITS, STYLES, generate_house
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.progress import console, progress
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Simulator
from eqa.scripts.arguments import whole

BODY = {"navmesh": "made", "collisions": "refuse", "height_m": 1.0, "climb_m": 0.15}  # as our houses' agents
STEPS, TURNS, MOVES = 100, 15, 8  # of a walk by chance: up to so many turns to one side, then up to so many moves
WITHIN_M = (0.001, 0.01, 0.02)
GOAL_RADIUS_M = 0.2
SPACING_M = 0.1  # between the places that poses are drawn from
SENSORS = {"RGB": ("rgb",), "RGB + depth + instances": ("rgb", "depth", "instance_id")}


@dataclass(frozen=True, slots=True)
class Both:
    """The same house in both worlds, with poses where agents of both can be, and the goals that both reach."""

    house_id: str
    ours: HouseWorld
    habitat: HabitatWorld
    poses: Float64[np.ndarray, "V 4"]
    goal: Goal

    def simulators(self, num_agents: int) -> tuple[Simulator, Simulator]:
        """Agents at the first poses, with the goal."""
        opened = tuple(world.open([self.house_id], num_agents=num_agents) for world in (self.ours, self.habitat))
        for simulator in opened:
            here = np.arange(num_agents)
            simulator.reset(here, np.zeros(num_agents, np.int64), self.poses[:num_agents], [self.goal] * num_agents)
        return opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="the interpreter that has habitat_sim (default: this one)")
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--style", choices=STYLES, default=PAPER)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--count", type=whole(1), default=2, help="houses, of which both worlds open all")
    parser.add_argument("--views", type=whole(16), default=128, help="poses in each house")
    parser.add_argument("--repeats", type=whole(0), default=5, help="runs of each speed, 0 for agreement alone")
    parser.add_argument("--questions", action="store_true", help="ask about the scenes as about scans, minutes a house")
    arguments = parser.parse_args()
    houses = [
        generate_house(seed=arguments.seed, split=arguments.split, index=index, style=arguments.style)
        for index in range(arguments.count)
    ]
    try:
        with tempfile.TemporaryDirectory() as folder:
            for house in houses:
                write_house(house, Path(folder), load_catalog())
            console.print(agreement(houses, Path(folder), arguments))
            if arguments.questions:
                console.print(questions(houses, Path(folder), arguments))
            if arguments.repeats:
                console.print(speed(houses, Path(folder), arguments))
    except ValueError as error:
        sys.exit(f"compare_habitat: {error}")


def worlds(
    houses: list[House], folder: Path, python: str | None, size: int, processes: int
) -> tuple[HouseWorld, HabitatWorld]:
    """Our world and habitat-sim's with a camera of `size` pixels a side."""
    by_id, camera = {house.id: house for house in houses}, Camera(size, size)
    ours = HouseWorld(by_id.__getitem__, camera=camera)
    theirs = HabitatWorld.at(folder, camera=camera, actions=HOUSE_ACTIONS, python=python, processes=processes, **BODY)
    return ours, theirs


def both_of(house: House, ours: HouseWorld, theirs: HabitatWorld, views: int, rng: np.random.Generator) -> Both:
    """Poses of free floor at headings that agents have; ValueError if too few of them are on habitat-sim's navmesh."""
    places = rng.permutation(ours.places(house.id, SPACING_M))[: 4 * views]
    poses = np.column_stack([places, rng.choice(HOUSE_ACTIONS.headings_rad, len(places))])
    for first in range(0, len(poses), views):  # a goal on the island that most poses are on
        goal = Goal((tuple(poses[first].tolist()),), GOAL_RADIUS_M)
        reached = np.isfinite(theirs.distances(house.id, [goal], [poses])[0])
        reached &= np.isfinite(ours.distances(house.id, [goal], [poses])[0])
        if reached.sum() >= views:
            return Both(house.id, ours, theirs, poses[reached][:views], goal)
    raise ValueError(f"{house.id}: expected {views} poses that both worlds reach, found fewer; lower --views")


def agreement(houses: list[House], folder: Path, arguments: argparse.Namespace) -> Table:
    """The same poses, ways and actions in both worlds."""
    rng, ours_and_theirs = np.random.default_rng(arguments.seed), worlds(houses, folder, arguments.python, 224, 1)
    found: list[dict[str, np.ndarray]] = []
    with progress("agreement", len(houses)) as advance:
        for house in houses:
            both = both_of(house, *ours_and_theirs, arguments.views, rng)
            found.append({**seen(both), **measured(both), **walked(both, rng)})
            advance(1)
    ours_and_theirs[1].close()
    parts = {name: np.concatenate([of_house[name] for of_house in found]) for name in found[0]}
    table = Table("agreement", "", title=f"{len(houses)} houses, {arguments.views} views each, 224 x 224")
    for limit in WITHIN_M:
        table.add_row(f"depth within {1000 * limit:g} mm", f"{100 * (parts['depth'] <= limit).mean():.3f} % of pixels")
    table.add_row("instance ids", f"{100 * parts['instance'].mean():.3f} % of pixels")
    colour = parts["colour"]
    table.add_row("colour, mean and median difference", f"{colour.mean():.1f} and {np.median(colour):.1f} of 255")
    low, middle, high = np.percentile(100 * parts["way"], (2.5, 50, 97.5))
    table.add_row("way to a goal, theirs less ours", f"{middle:+.2f} % (95 % of ways: {low:+.2f} to {high:+.2f})")
    table.add_row(
        "moves refused by both or neither", f"{100 * parts['refused'].mean():.2f} % of {len(parts['refused'])}"
    )
    table.add_row("refused in either", f"{100 * parts['either'].mean():.2f} %")
    table.add_row(f"walks of {STEPS} actions that end within 1 cm", f"{100 * (parts['apart'] <= 0.01).mean():.0f} %")
    return table


def seen(both: Both) -> dict[str, np.ndarray]:
    """Differences of the pictures, pixel by pixel; depth only where both see something.

    The building, with its windows and doors, has ids there, and 0 here.
    """
    here = np.zeros(len(both.poses), np.int64)
    ours, theirs = (
        {
            name: image.numpy()
            for name, image in opened.look(here, both.poses, SENSORS["RGB + depth + instances"]).items()
        }
        for opened in both.simulators(1)
    )
    things = [thing.id for thing in both.ours.annotations(both.house_id).things]
    instances = np.where(np.isin(theirs["instance_id"], things), theirs["instance_id"], 0)
    solid = np.isfinite(ours["depth"]) & (ours["depth"] > 0) & (theirs["depth"] > 0)
    return {
        "depth": np.abs(ours["depth"] - theirs["depth"])[solid],
        "instance": (ours["instance_id"] == instances).ravel(),
        "colour": np.abs(ours["rgb"].astype(np.int16) - theirs["rgb"]).mean(3).ravel(),
    }


def measured(both: Both) -> dict[str, np.ndarray]:
    """Relative differences of ways of at least two metres."""
    ours, theirs = (
        world.distances(both.house_id, [both.goal], [both.poses])[0].astype(float)
        for world in (both.ours, both.habitat)
    )
    far = ours >= 2
    return {"way": (theirs - ours)[far] / ours[far]}


def walked(both: Both, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The same actions by chance from the same poses; moves are compared while two agents are at the same place."""
    agents = min(16, len(both.poses))
    ours, theirs = both.simulators(agents)
    taken = np.stack([by_chance(rng) for _ in range(agents)], 1)
    alike, either = [], []
    for actions in taken:
        together = np.linalg.norm(ours.poses.numpy()[:, :3] - theirs.poses.numpy()[:, :3], axis=1) <= 0.01
        refused = ours.step(actions).numpy(), theirs.step(actions).numpy()
        moved = together & (actions == Action.FORWARD)
        alike.append((refused[0] == refused[1])[moved])
        either.append((refused[0] | refused[1])[moved])
    apart = np.linalg.norm(ours.poses.numpy()[:, :3] - theirs.poses.numpy()[:, :3], axis=1)
    return {"refused": np.concatenate(alike), "either": np.concatenate(either), "apart": apart}


def by_chance(rng: np.random.Generator) -> Int64[np.ndarray, " S"]:
    """The actions of a walk: turns to one side and moves ahead, again and again."""
    actions: list[int] = []
    while len(actions) < STEPS:
        actions += [int(rng.choice([Action.LEFT, Action.RIGHT]))] * int(rng.integers(1, TURNS + 1))
        actions += [int(Action.FORWARD)] * int(rng.integers(1, MOVES + 1))
    return np.array(actions[:STEPS], np.int64)


def questions(houses: list[House], folder: Path, arguments: argparse.Namespace) -> Table:
    """Questions with one clear answer, by type: the house's own, and those about its scene's semantics and pixels."""
    _, theirs = worlds(houses, folder, arguments.python, 224, 1)
    scans = Scans(theirs, load_scan_names(), Journal(folder / "scans", configuration={}))
    rules, found = load_rules(), Counter()
    with progress("questions", len(houses)) as advance:
        for house in houses:
            scene = scans.house(house.id)
            for name in rules.types:
                engine = Generator(rules, [name])
                own, asked = ({q.text: q.answer for q in engine.generate(one)} for one in (house, scene))
                shared = own.keys() & asked.keys()
                found.update({(name, "own"): len(own), (name, "asked"): len(asked), (name, "both"): len(shared)})
                found[name, "same"] += sum(own[text] == asked[text] for text in shared)
            advance(1)
    theirs.close()
    table = Table("type", "of the house", "of its scene", "of both", "with the same answer", title="questions")
    for name in rules.types:
        table.add_row(name, *(str(found[name, part]) for part in ("own", "asked", "both", "same")))
    return table


def speed(houses: list[House], folder: Path, arguments: argparse.Namespace) -> Table:
    """Frames and steps of episodes a second, by picture size, sensors, and threads of ours or processes of theirs."""
    most = numba.config.NUMBA_NUM_THREADS
    table = Table("a second", "ours", "habitat-sim", "times", title=f"medians of {arguments.repeats} runs in turns")
    for parallel in sorted({1, min(2, most, len(houses))}):
        for size in (128, 224):
            some = houses[:parallel]  # a scene in each process, or they would load it again and again
            world = worlds(some, folder, arguments.python, size, parallel)
            numba.set_num_threads(parallel)
            for name, runs, count in tasks(some, world, arguments):
                ours, theirs = (count / seconds for seconds in in_turns(runs, arguments.repeats))
                title = f"{name}, {size} px, {parallel} threads or processes"
                table.add_row(title, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}")
            world[1].close()
    numba.set_num_threads(most)
    return table


def tasks(
    houses: list[House], world: tuple[HouseWorld, HabitatWorld], arguments: argparse.Namespace
) -> Iterator[tuple[str, list[Callable[[], object]], int]]:
    """Each task by its name: what it runs in our world and theirs, and its number of frames or steps."""
    rng = np.random.default_rng(arguments.seed)
    places = [both_of(house, *world, 16, rng) for house in houses]
    poses = np.concatenate([both.poses for both in places])
    scenes = np.repeat(np.arange(len(houses)), 16)
    ids, goals = [house.id for house in houses], [both.goal for both in places for _ in range(16)]
    opened = [one.open(ids, num_agents=len(poses)) for one in world]
    for simulator in opened:
        simulator.reset(np.arange(len(poses)), scenes, poses, goals)
    for name, sensors in SENSORS.items():
        yield f"frames, {name}", [lambda s=s, n=sensors: s.look(scenes, poses, n) for s in opened], len(poses)
    around = np.full(len(poses), Action.LEFT, np.int64)
    yield "steps of episodes, with RGB", [lambda s=s: stepped(s, around) for s in opened], len(poses)


def stepped(simulator: Simulator, actions: Int64[np.ndarray, " N"]) -> None:
    """A step of all agents as a task takes it: move, distance, region, view."""
    simulator.step(actions), simulator.distance_m, simulator.region, simulator.observe()


def in_turns(runs: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each, run in turns; the first round does not count."""
    seconds = np.empty((repeats + 1, len(runs)))
    for round_ in seconds:
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            round_[k] = time.perf_counter() - start
    return np.median(seconds[1:], axis=0).tolist()


if __name__ == "__main__":
    main()
