"""Callbacks of every stage of training, for repeatable results, resumed stages and a progress bar."""

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping

from eqa.envs.progress import progress


class Reseed(pl.Callback):
    """Makes the randomness of a step (dropout) a function of (seed, epoch, batch, process).

    A resumed stage thus draws as without the break; a checkpoint holds no state of random numbers.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: pl.Trainer, module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        place = [self.seed, trainer.current_epoch, batch_idx, trainer.global_rank]
        torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1)[0]))


class ResumableEarlyStopping(EarlyStopping):
    """Early stopping that keeps to its decision: a stopped stage does not learn on when it is resumed."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


class StageProgress(pl.Callback):
    """Progress bar over all training steps, followed by the last figures of validation and of learning.

    Resumed stages start at their step.
    """

    def __init__(self, name: str) -> None:
        self.name, self.shown, self.done = name, None, 0

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.shown, self.done = progress(self.name, self._expected(trainer)), 0
        self.advance = self.shown.__enter__()

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.advance(0, total=self._expected(trainer))

    def _expected(self, trainer: pl.Trainer) -> int:
        """Steps, if all epochs to come are as long as this one."""
        return self.done + int(trainer.num_training_batches * (trainer.max_epochs - trainer.current_epoch))

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: object) -> None:
        self.done += 1
        figures = {k: v for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
        figures |= getattr(module, "latest", {})  # of its last step, where a step tells something
        self.advance(
            1, note=f"epoch {trainer.current_epoch + 1} " + " ".join(f"{k} {v:.3f}" for k, v in figures.items())
        )

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self.shown is not None:
            self.shown.__exit__(None, None, None)
            self.shown = None
