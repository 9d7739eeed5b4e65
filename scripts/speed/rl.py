"""Part of `scripts/bench.py` about learning by walking: whole updates beside the encoder alone on the same batches.

Lightning makes the updates, as in training: houses, walks, answers and learning. The encoder alone follows each update
with the batches that it encoded (`models.encoders.seen_frames`), so that both see the same noise of a shared machine.
"""

import argparse
import logging
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

from eqa.data.demonstrations.storage import Demonstrations, build
from eqa.data.source import Source
from eqa.envs.actions import Action
from eqa.envs.episode import Episode
from eqa.envs.house.generator import generate_house
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.progress import console
from eqa.models.agents.neural import NeuralAgent
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.learning.reinforce import NavigatorReinforcement
from eqa.models.learning.rl_data import RolloutData
from eqa.models.navigators.pacman import Pacman
from eqa.models.run_record import held_memory_gb, peak_memory
from eqa.scripts.arguments import positive, whole
from eqa.scripts.speed.pipeline import make_extractor, record

STAGE = Path(__file__).parents[2] / "configs" / "stage" / "reinforce.yaml"
PARTS = ("scenes", "history", "render", "encode", "policy", "simulate", "answer", "learn")


def house(house_id: str) -> House:
    """A generated house by its id."""
    split, index = house_id.split("-")
    return generate_house(seed=0, split=split, index=int(index))


class FewHouses(Source):
    """Some houses with their questions and demonstrations, without a data folder."""

    splits = ("train", "val")

    def __init__(self, demos: Demonstrations, encode: FeatureExtractor) -> None:
        self.encode, self._demos, self._world = encode, demos, HouseWorld(house)

    @property
    def world(self) -> HouseWorld:
        return self._world

    def episodes(self, split: str) -> list[Episode]:
        return self._demos.episodes

    def demonstrations(self, split: str) -> Demonstrations:
        return self._demos

    def fingerprints(self) -> dict:
        return {"questions": "of a bench"}


def wait_for(device: torch.device) -> None:
    """Returns once a GPU has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Watched:
    """A feature extractor that remembers the number of frames in each batch, and the largest batch."""

    def __init__(self, extractor: FeatureExtractor) -> None:
        self.extractor, self.encoder, self.frames, self.sizes = extractor, extractor.encoder, np.empty(0), []

    def __call__(self, rgb: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(rgb))
        self.frames = rgb if len(rgb) > len(self.frames) else self.frames
        return self.extractor(rgb)

    def again(self) -> float:
        """Seconds for the batches since the last time, which are forgotten."""
        begin = time.perf_counter()
        for size in self.sizes:
            features = self.extractor(self.frames[:size])
            wait_for(features.device)
        self.sizes = []
        return time.perf_counter() - begin


class Turns(pl.Callback):
    """Updates and the encoder alone in turns. The first turn compiles and does not count."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.rows, self.parts = watched, [], Counter()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: object) -> None:
        wait_for(module.device)
        end, rollouts = time.perf_counter(), trainer.datamodule.rollouts["train"]
        if trainer.global_step > 1:
            encoded = sum(self.watched.sizes)
            self.rows.append((rollouts.num_steps, encoded, end - self.begin, self.watched.again()))
            self.parts.update(rollouts.clock.seconds)
        self.watched.again()
        rollouts.num_steps = 0
        rollouts.clock.seconds.clear()
        self.begin = time.perf_counter()


def untrained(source: FewHouses, *, stops: float) -> NeuralAgent:
    """An agent with untrained networks of the paper's sizes.

    STOP is `stops` times as likely as the other actions: at equal odds it would end a walk at once.
    """
    torch.manual_seed(0)
    sizes = len(source.vocabulary.words), source.encode.encoder.feature_size
    navigator = Pacman(*sizes)
    with torch.no_grad():
        navigator.planner_head.bias[Action.STOP] += float(np.log(stops))
    answerer = Answerer(sizes[0], len(source.vocabulary.answers), sizes[1])
    return NeuralAgent(source.encode.encoder, navigator, answerer, source.vocabulary, config={"name": "PACMAN+Q"})


def updates(source: FewHouses, agent: Path, num_envs: int, args: argparse.Namespace) -> tuple[Turns, float]:
    """Updates with so many environments, and the gigabytes that they hold at the most beside what was held before."""
    before_gb = held_memory_gb()
    stage = OmegaConf.to_container(OmegaConf.load(STAGE), resolve=False)
    of_data, of_model = ({k: v for k, v in stage[part].items() if k != "_target_"} for part in ("data", "model"))
    given = {
        "questions": max(args.walks, num_envs) // of_data["samples"],
        "houses": args.houses,
        "updates": args.repeats + 1,
        "num_envs": num_envs,
        "spawn": {"start": args.spawn, "step": 0, "random_heading": 0.0},
        "val_questions": 1,
        "checkpoint": str(agent),
        "seed": 0,
    }
    data = RolloutData(source, **{**of_data, **given})
    data.setup("fit")
    rollouts = data.rollouts["train"]
    frames = rollouts.frames
    frames.extractor = Watched(frames.extractor)
    turns = Turns(frames.extractor)
    trainer = pl.Trainer(
        max_epochs=1,
        limit_val_batches=0,
        devices=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[turns],
    )
    torch.manual_seed(0)
    with peak_memory() as peak_gb:
        trainer.fit(NavigatorReinforcement(**data.sizes, **of_model, draw_every=1000), data)
    return turns, peak_gb() - before_gb


def line(num_envs: int, turns: Turns, added_gb: float) -> str:
    steps, encoded, update, alone = np.array(turns.rows).T
    own, encoder = steps / update, encoded / alone
    total = sum(update)
    split = " ".join(f"{turns.parts[name] / total:>8.1%}" for name in PARTS)
    return (
        f"{num_envs:>5} {steps.mean():>6.0f} {np.median(own):>7.0f} {own.max():>6.0f} {encoded.sum() / steps.sum():>7.0%} "
        f"{np.median(encoder):>8.0f} {encoder.max():>6.0f} {np.median(update):>8.2f} {split} "
        f"{1 - sum(turns.parts.values()) / total:>7.1%} {1e3 * added_gb:>6.0f}"
    )


def bench_rl(args: argparse.Namespace) -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    console.quiet = True
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    extractor = make_extractor()
    recordings, _ = record(args)
    with tempfile.TemporaryDirectory() as folder:
        parts = {r.episodes[0].scene_id: r for r in recordings}
        path, agent = Path(folder) / "train.h5", Path(folder) / "agent.ckpt"
        list(build(path, [e for r in recordings for e in r.episodes], lambda i, _: parts[i], configuration={}))
        source = FewHouses(Demonstrations.open(path), extractor)
        untrained(source, stops=args.stops).save(agent)
        print(
            f"rl: updates of at least {args.walks} walks in {args.houses} houses, {extractor.device}, {torch.get_num_threads()} "
            f"threads, {args.precision}; medians of {args.repeats} beside the best, the encoder's frames alone, shares of an update's time, MB that it adds"
        )
        print(
            f"{'envs':>5} {'steps':>6} {'steps/s':>7} {'best':>6} {'encoded':>7} {'frames/s':>8} {'best':>6} {'update s':>8} "
            + " ".join(f"{name:>8}" for name in (*PARTS, "other"))
            + f" {'MB':>5}"
        )
        for num_envs in args.envs:
            print(line(num_envs, *updates(source, agent, num_envs, args)), flush=True)


def add_rl(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("rl", help="learning by walking: whole updates beside the encoder alone")
    parser.add_argument("--envs", type=whole(1), nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--walks", type=whole(1), default=64, help="of an update, at least one for each environment")
    parser.add_argument("--houses", type=whole(1), default=4, help="of an update")
    parser.add_argument("--episodes", type=whole(1), default=7, help="questions in each house")
    parser.add_argument("--spawn", type=whole(1), default=10, help="actions before the end, at most")
    parser.add_argument("--stops", type=positive, default=0.3, help="odds of STOP against other actions")
    parser.add_argument("--precision", default="32-true", help="of learning: bf16-mixed on CPUs that have it")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.set_defaults(run=bench_rl)
