"""Parts of `scripts/bench.py` about the pipeline: making demonstrations, learning from them, playing agents."""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from eqa.data.batches.curriculum import length_batches
from eqa.data.batches.imitation import LastFrames, Walks
from eqa.data.batches.sampling import num_decisions
from eqa.data.demonstrations.record import Recorder
from eqa.data.demonstrations.storage import Demonstrations, Recording, build
from eqa.data.questions.spawns import add_spawns
from eqa.data.questions.view_points import ViewPointFinder
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import Action
from eqa.envs.episode import Episode
from eqa.envs.house.generator import generate_house
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseSimulator, HouseWorld
from eqa.envs.simulator import Goal
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.encoders.cnn import WEIGHTS, Encoder, load_encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.learning.imitation import AnswererImitation, NavigatorImitation
from eqa.models.navigators.pacman import Pacman
from eqa.scripts.arguments import whole

ANSWERED = 20  # batches of the answerer for each of the navigator, which take that much longer


class Timed:
    """A function that adds up the seconds spent in it."""

    def __init__(self, function: Callable) -> None:
        self.function, self.seconds, self.calls = function, 0.0, 0

    def __call__(self, *args: object, **kwargs: object) -> object:
        start = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.calls += 1


def make_extractor() -> FeatureExtractor:
    return FeatureExtractor(load_encoder() if WEIGHTS.exists() else Encoder())


def some_episodes(house: House, count: int) -> list[Episode]:
    """Episodes in a house about the first visible objects, still without walks."""
    targets = [(thing.id,) for thing in house.objects]
    seen = [(t[0], v) for t, v in zip(targets, ViewPointFinder()(house, targets), strict=True) if v][:count]
    return [
        Episode(
            f"{house.id}-{i}",
            house.id,
            "what color is it?",
            "red",
            "color",
            "bench",
            view_points=views,
            goal_radius_m=0.25,
        )
        for i, views in seen
    ]


def record(args: argparse.Namespace) -> tuple[list[Recording], dict[str, float]]:
    """Demonstrations of a few houses, and the seconds that each step took."""
    houses = {h.id: h for h in (generate_house(seed=0, split="train", index=k) for k in range(args.houses + 1))}
    world = HouseWorld(houses.__getitem__)
    recorder, walk = Recorder(world, make_extractor()), Timed(add_spawns)
    asked = [some_episodes(house, args.episodes) for house in houses.values()]
    first = next(iter(houses.values()))
    recorder(first.id, add_spawns(first, asked[0]))  # compiles
    episodes = [walk(house, of_house) for house, of_house in list(zip(houses.values(), asked, strict=True))[1:]]
    recorder.encode, world.distances, world.open = (Timed(f) for f in (recorder.encode, world.distances, world.open))
    recorder = Timed(recorder)
    recordings = [recorder(of_house[0].scene_id, of_house) for of_house in episodes]
    seconds = {"distances": world.distances.seconds, "encode": recorder.function.encode.seconds}
    return recordings, {"walk": walk.seconds, **seconds, "render": recorder.seconds - sum(seconds.values())}


def bench_demos(args: argparse.Namespace) -> None:
    recordings, seconds = record(args)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for number, recording in enumerate(recordings):
            recording.save(Path(folder) / f"{number}.h5", {})
        seconds["store"] = time.perf_counter() - start
    frames = sum(len(r.actions) for r in recordings)
    print(
        f"demos: {sum(len(r.episodes) for r in recordings)} walks of {frames} frames in {args.houses} houses, "
        f"{frames / sum(seconds.values()):.0f} frames/s; ms a frame: "
        + ", ".join(f"{name} {1e3 * s / frames:.2f}" for name, s in seconds.items())
    )


def bench_learn(args: argparse.Namespace) -> None:
    recordings, _ = record(args)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.h5"
        parts = {r.episodes[0].scene_id: r for r in recordings}
        list(build(path, [e for r in recordings for e in r.episodes], lambda i, _: parts[i], configuration={}))
        demos = Demonstrations.open(path)
        vocabulary = Vocabulary.of(demos.episodes)
        walks = Walks([demos], vocabulary)
        batches = length_batches(walks.sizes, args.batch, rng=np.random.default_rng(0)) * args.repeats
        decisions = num_decisions(demos.actions, demos.offsets)
        padding = [
            1 - sum(n.sum() for n in of) / sum(n.max() * len(n) for n in of)
            for of in ([demos.lengths[batch] for batch in batches], [decisions[batch] for batch in batches])
        ]
        padded = f"; padding: {padding[0]:.0%} of the frames, {padding[1]:.0%} of the planner's decisions"
        navigator = NavigatorImitation(len(vocabulary.words), demos.features.shape[1])
        _print_learning(
            f"navigator, batch {args.batch} of {demos.lengths.mean():.0f} actions", navigator, walks, batches, padded
        )
        frames = LastFrames(demos, vocabulary, num_frames=5)
        answerer = AnswererImitation(len(vocabulary.words), len(vocabulary.answers), demos.features.shape[1])
        _print_learning(f"answerer, batch {args.batch}", answerer, frames, batches * ANSWERED)


def _print_learning(
    what: str,
    learner: NavigatorImitation | AnswererImitation,
    data: Dataset,
    batches: Sequence[np.ndarray],
    more: str = "",
) -> None:
    optimizer = learner.configure_optimizers()
    learner.log = learner.log_dict = lambda *_, **__: None

    def step(batch: dict) -> None:
        optimizer.zero_grad()
        learner.training_step(learner.on_before_batch_transfer(batch, 0), 0).backward()
        optimizer.step()

    fetch, learn = Timed(data.__getitems__), Timed(step)
    step(data.__getitems__(batches[0].tolist()))
    for batch in batches:
        learn(fetch(batch.tolist()))
    print(
        f"learn: {what}, {learn.calls} batches: ms a batch: data {1e3 * fetch.seconds / fetch.calls:.1f}, "
        f"learning {1e3 * learn.seconds / learn.calls:.1f}{more}"
    )


def bench_play(args: argparse.Namespace) -> None:
    house = generate_house(seed=0, split="train", index=0)
    extractor = make_extractor()
    episode = some_episodes(house, 1)[0]
    navigator = Pacman(64, extractor.encoder.feature_size)
    for num in args.agents:
        simulator = HouseSimulator([house], num_agents=num)
        floor = simulator.floors[0]
        places = floor.centres[np.linspace(0, floor.num_free - 1, num).astype(int)]
        poses = floor.stand(places, np.zeros(num))
        simulator.reset(np.arange(num), np.zeros(num, np.int64), poses, [Goal.of(episode)] * num)
        see_again = Timed(extractor)
        agent = NavigatorAgent(navigator, see_again)
        nothing = torch.empty(num, 0, dtype=torch.int64)
        questions, ids = ["what is it?"] * num, torch.ones((num, 8), dtype=torch.int64)
        agent.reset(EpisodeBatch(questions, ids, torch.empty(num, 0, 1), nothing, poses, [], None, []))
        parts = {"render": simulator.observe, "act": agent.act, "simulate": simulator.step}
        for timed in (False, True):  # the first round compiles
            parts = {name: Timed(part.function if isinstance(part, Timed) else part) for name, part in parts.items()}
            see_again.seconds = 0.0
            for _ in range(args.steps if timed else 2):
                actions = parts["act"](parts["render"](), np.arange(num))
                parts["simulate"](np.where(actions == Action.STOP, Action.LEFT, actions))
        split = {name: part.seconds for name, part in parts.items()}
        split["encode"] = see_again.seconds
        split["policy"] = split.pop("act") - see_again.seconds
        print(
            f"play: {num} agents: {num * args.steps / sum(split.values()):.0f} actions/s; ms an action: "
            + ", ".join(f"{name} {1e3 * seconds / num / args.steps:.2f}" for name, seconds in split.items())
        )


def add_pipeline(parts: argparse._SubParsersAction) -> None:
    demos = parts.add_parser("demos", help="demonstrations: walk, render, encode, store")
    learn = parts.add_parser("learn", help="imitation: waiting for data, and learning")
    play = parts.add_parser("play", help="agents in lockstep: render, encode, policy, simulate")
    for parser, run in ((demos, bench_demos), (learn, bench_learn), (play, bench_play)):
        parser.set_defaults(run=run)
    for parser in (demos, learn):
        parser.add_argument("--houses", type=whole(1), default=4)
        parser.add_argument("--episodes", type=whole(1), default=7, help="walks in each house")
    learn.add_argument("--batch", type=whole(1), default=20)
    learn.add_argument("--repeats", type=whole(1), default=4)
    play.add_argument("--agents", type=whole(1), nargs="+", default=[1, 8, 48])
    play.add_argument("--steps", type=whole(1), default=10)
