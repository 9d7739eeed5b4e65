"""Imitation learning of navigator and answerers from demonstrations.

This is the "Independent Pretraining" of Das et al. (2018, Sec. 4.1). The navigator mimics shortest walks under teacher
forcing; the answerer sees their last frames. Batches come from `data.batches.imitation`. The arguments are plain
values, so that Lightning's own checkpoint rebuilds a module.
"""

import copy
import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eqa.data.batches.imitation import NO_ANSWER
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.models.agents.neural import ANSWERERS, NAVIGATORS
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.distributed import add_up, over_processes
from eqa.models.navigators.pacman import Pacman

CLASSES = {navigator.__name__: navigator for navigator in NAVIGATORS}
ANSWERING = {answerer.__name__: answerer for answerer in ANSWERERS}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamax": torch.optim.Adamax, "adamw": torch.optim.AdamW}
WEIGHTS = tuple(2 ** (k / 4) for k in range(-16, 9))  # of an answerer's scores beside the question's prior
SCHEDULES = ("constant", "cosine")  # of the learning rate; cosine falls to 0 at the end of the last epoch


def share_of_rate(schedule: str, trainer: pl.Trainer, batch_idx: int) -> float:
    """The share of a learning rate at a batch, by epochs and not by steps: DAgger adds steps to each epoch."""
    if schedule == "constant":
        return 1.0
    over = (trainer.current_epoch + batch_idx / trainer.num_training_batches) / trainer.max_epochs
    return (1 + math.cos(math.pi * over)) / 2


class _Imitation(pl.LightningModule):
    """An optimizer by name, whose learning rate follows `schedule`."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return OPTIMIZERS[self.hparams.optimizer](self.parameters(), lr=self.hparams.lr)

    def on_train_batch_start(self, batch: dict, batch_idx: int) -> None:
        share = share_of_rate(self.hparams.schedule, self.trainer, batch_idx)
        for group in self.optimizers(use_pl_optimizer=False).param_groups:
            group["lr"] = self.hparams.lr * share


class NavigatorImitation(_Imitation):
    """Cross-entropy on the decisions that the demonstrations ask of a navigator.

    `navigator` names a class, `options` are its further arguments. Logs, for train and val: loss, and a loss and an
    accuracy of each part (planner_loss, controller_loss, ...; action_loss if there is one part). Each is a mean over
    decisions, not over batches.
    """

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        map_shape: Sequence[int] | None = None,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
        lr: float = 1e-3,
        optimizer: str = "adamax",
        schedule: str = "constant",
        navigator: str = Pacman.__name__,
        options: dict | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        known("optimizer", optimizer, OPTIMIZERS)
        known("schedule", schedule, SCHEDULES)
        known("navigator", navigator, CLASSES)
        sizes = {
            "vocabulary_size": vocabulary_size,
            "feature_size": feature_size,
            "map_shape": map_shape,
            "num_actions": num_actions,
        }
        self.navigator = fitting(CLASSES[navigator], sizes, options)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Parts of an agent that it fits."""
        return {"navigator": self.navigator}

    def on_before_batch_transfer(self, batch: dict, dataloader_idx: int) -> dict:
        return self.navigator.prepare(batch)

    def training_step(self, batch: dict, batch_idx: int) -> Tensor:
        return self._step(batch, "train")

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        self._step(batch, "val")

    def _step(self, batch: dict, stage: str) -> Tensor:
        parts = self.navigator.loss(batch)["parts"]
        wholes = over_processes(parts)
        for name, whole in wholes.items():
            if whole.count:
                values = {f"{stage}/{name}_loss": whole.loss, f"{stage}/{name}_accuracy": whole.accuracy}
                self.log_dict(values, on_step=False, on_epoch=True, batch_size=whole.count)
        loss, count = sum(whole.loss for whole in wholes.values()), next(iter(wholes.values())).count
        self.log(f"{stage}/loss", loss, on_step=False, on_epoch=True, batch_size=count)
        return sum(whole.weight * parts[name].loss for name, whole in wholes.items())


class AnswererImitation(_Imitation):
    """Cross-entropy of the answer, given the last frames of a shortest walk.

    The answerer's scores are added to the prior of the question (`Vocabulary.log_prior`): it learns what frames say
    beyond the question. Each look at val also finds the `weight` of the scores with the least loss there
    (temperature scaling; Guo et al. 2017). The fitted answerer has its scores multiplied by it. So one that sees
    nothing of use falls back to what the question allows.

    `answerer` names a class, `options` are its further arguments; it takes the sizes among its arguments. Logs, for
    train and val: loss, accuracy; for val also the weight and the calibrated_loss with it.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        feature_size: int,
        map_shape: Sequence[int] | None = None,
        name_counts: Sequence[int] | None = None,
        asks_colors: bool = False,
        *,
        lr: float = 3e-4,
        optimizer: str = "adam",
        schedule: str = "constant",
        answerer: str = Answerer.__name__,
        options: dict | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        known("optimizer", optimizer, OPTIMIZERS)
        known("schedule", schedule, SCHEDULES)
        known("answerer", answerer, ANSWERING)
        kind = ANSWERING[answerer]
        sizes = {
            "vocabulary_size": vocabulary_size,
            "num_answers": num_answers,
            "feature_size": feature_size,
            "map_shape": map_shape,
            "name_counts": name_counts,
            "asks_colors": asks_colors,
        }
        self.answerer = fitting(kind, sizes, options)
        self.register_buffer("weight", torch.ones(()))
        self._val: list[tuple[Tensor, Tensor, Tensor]] = []  # scores, prior and answers of the epoch's batches

    def setup(self, stage: str) -> None:
        """Gives an answerer that reads names those of the data's encoder. Weights of a checkpoint come after that."""
        if stage == "fit" and isinstance(self.answerer, NamingAnswerer):
            source = self.trainer.datamodule.source
            self.answerer.begin(source.encode.place_names, source.vocabulary)

    @property
    def parts(self) -> dict[str, nn.Module]:
        """Parts of an agent that it fits."""
        answerer = copy.deepcopy(self.answerer)
        answerer.scale_scores(self.weight)
        return {"answerer": answerer}

    def training_step(self, batch: dict, batch_idx: int) -> Tensor:
        return self._step(batch, "train")

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        self._step(batch, "val")

    def on_validation_epoch_end(self) -> None:
        scores, prior, answers = (torch.cat(parts) for parts in zip(*self._val, strict=True))
        self._val.clear()
        losses = add_up(torch.stack([self._loss(weight * scores + prior, answers) for weight in WEIGHTS]))
        self.weight.fill_(WEIGHTS[int(losses.argmin())])
        count = add_up((answers != NO_ANSWER).sum().float())
        self.log_dict({"val/weight": self.weight, "val/calibrated_loss": losses.min() / count})

    @staticmethod
    def _loss(logits: Tensor, answers: Tensor) -> Tensor:
        """Sum over a batch; an answer that train never gave to questions of that kind costs much, not all."""
        return F.cross_entropy(logits.clamp(min=-1e4), answers, reduction="sum", ignore_index=NO_ANSWER)

    def _step(self, batch: dict, stage: str) -> Tensor:
        scores, answers = self.answerer(batch["features"], batch["questions"], batch.get("mask")), batch["answers"]
        logits = scores + batch["prior"]
        if stage == "val":
            self._val.append((scores.detach().float(), batch["prior"], answers))
        count = int((answers != NO_ANSWER).sum())
        loss = self._loss(logits, answers) / max(count, 1)
        accuracy = (logits.argmax(1) == answers).sum() / max(count, 1)
        whole = over_processes({"answer": (loss, accuracy, count)})["answer"]
        values = {f"{stage}/loss": whole.loss, f"{stage}/accuracy": whole.accuracy}
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=whole.count)
        return whole.weight * loss


def fitting(kind: Callable[..., nn.Module], sizes: Mapping[str, object], options: Mapping | None) -> nn.Module:
    """A network of a kind, with those of the data's sizes that it takes, and its options."""
    taken = inspect.signature(kind).parameters
    return kind(**{name: size for name, size in sizes.items() if name in taken}, **(options or {}))


def known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise ValueError(f"{what}: expected one of {sorted(known)}, got {name!r}")
