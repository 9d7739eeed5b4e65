"""Shows the time left of a whole stage of training, not of one epoch of it."""

import pytorch_lightning as pl

from envs.progress import progress


class StageProgress(pl.Callback):
    """A bar over all training steps with the last validation figures behind it; resumed stages start where they were."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        epochs = trainer.max_epochs - trainer.current_epoch
        self.shown = progress(self.name, int(trainer.num_training_batches * epochs))
        self.advance = self.shown.__enter__()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: object) -> None:
        figures = {k: v for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
        self.advance(
            1, note=f"epoch {trainer.current_epoch + 1} " + " ".join(f"{k} {v:.3f}" for k, v in figures.items())
        )

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.shown.__exit__(None, None, None)
