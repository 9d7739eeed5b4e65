"""Demonstrations of a world with only a few numbers per frame, and stages that learn from them in a second."""

import csv
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from eqa import train
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import Action
from eqa.envs.episode import Episode

CONFIGS = Path(__file__).parents[2] / "configs"
TOY = [f"hydra.searchpath=[file://{Path(__file__).parent / 'toy'}]", "+experiment=toy"]  # arguments of `train.py`


class ToySource(GeneratedEQA):
    """Walks that turn as the question says, in place of rendered ones in houses; nothing is on disk.

    It ignores the configuration's settings of houses.
    """

    seed, style = 0, "paper"

    encode = SimpleNamespace(map_shape=(1, 2, 3), place_names=None)
    walks = 1

    def __init__(self, num_train: int = 25, num_val: int = 9, **of_houses: object) -> None:
        self._parts = {"train": _walks(num_train, seed=0), "val": _walks(num_val, seed=1)}

    def build(self) -> None:
        """Does nothing: all data exist from the start."""

    def fingerprints(self) -> dict:
        return {"questions": "toy"}

    def demonstrations(self, split: str) -> Demonstrations:
        return self._parts[split]

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self._parts["train"].episodes)


class ToyResults:
    """Leaves the weights of all stages in the run's folder."""

    def __init__(self, *, folder: Path, **of_others: object) -> None:
        self.folder = folder

    def __call__(self, fitted: dict[str, pl.LightningModule]) -> None:
        torch.save({stage: module.state_dict() for stage, module in fitted.items()}, self.folder / "weights.pt")


class Cut(pl.Callback):
    """Stops the process in the middle of an epoch, as a crash would."""

    def __init__(self, epoch: int, batch: int) -> None:
        self.place = (epoch, batch)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *rest: object) -> None:
        if (trainer.current_epoch, rest[-1]) == self.place:
            raise RuntimeError("cut")


def _walks(num: int, seed: int) -> Demonstrations:
    rng = np.random.default_rng(seed)
    episodes, actions, features = [], [], []
    for i in range(num):
        side = rng.choice(["left", "right"])
        ahead, turns = rng.integers(3, 16), rng.integers(1, 7)
        turn = Action.LEFT if side == "left" else Action.RIGHT
        walk = [Action.FORWARD] * ahead + [turn] * turns + [Action.STOP]
        seen = rng.standard_normal((len(walk), 6)).astype(np.float16)
        seen[:, 0] = [action == turn for action in walk]
        question = f"what is {side} of the sofa?"
        episodes.append(Episode(f"e{i}", "house", question, str(rng.choice(["red", "blue"])), "color", "toy"))
        actions.append(np.array(walk, np.int8))
        features.append(seen)
    ends = np.cumsum([0, *map(len, actions)])
    return Demonstrations(
        path=Path("toy"),
        episodes=episodes,
        offsets=ends,
        features=np.concatenate(features),
        actions=np.concatenate(actions),
        poses=np.zeros((ends[-1], 4)),
        distance_m=np.zeros(ends[-1], np.float32),
        targets=np.concatenate(actions),
    )


def configured(folder: Path, *words: str) -> DictConfig:
    """The configuration that `train.py` composes from TOY and `words`, to run in `folder`."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", overrides=[*TOY, f"run_folder={folder}", *words])


def fit(cfg: DictConfig, stage: str, *, callbacks: Sequence[pl.Callback] = ()) -> pl.LightningModule:
    """Fits one stage as `train.run` does."""
    data = instantiate(cfg.stages[stage].data, _partial_=True)(source=ToySource())
    data.setup("fit")
    return train.fit(stage, cfg, data, loggers=instantiate(cfg.logger), callbacks=list(callbacks))


def logged(folder: Path) -> list[dict[str, str]]:
    """All rows of a stage's CSV logs, start after start; rows that were logged twice have to be equal."""
    rows = []
    for path in sorted((folder / "log").glob("version_*/metrics.csv"), key=lambda p: int(p.parent.name.split("_")[1])):
        with path.open() as file:
            rows += [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
    return sorted({str(sorted(row.items())): row for row in rows}.values(), key=lambda r: (int(r["step"]), sorted(r)))
