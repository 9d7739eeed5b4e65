"""Logging to Weights & Biases; imported only with `logger=wandb` or `logger=wandb_offline`."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from eqa.envs.files import fingerprint


def logger_of_stages(*, project: str, offline: bool) -> Callable[..., WandbLogger]:
    """Returns `StageLogger` but for its `save_dir`; ImportError before any work if wandb is not installed."""
    if find_spec("wandb") is None:
        raise ImportError("logger=wandb: expected the package wandb, which is not installed; pip install wandb")
    return partial(StageLogger, project=project, offline=offline)


class StageLogger(WandbLogger):
    """One run of wandb for each stage, in a group with the run's other stages; a resumed stage continues the same one.

    `save_dir` is the stage's folder, `runs/<run>/<stage>`.
    """

    def __init__(self, *, save_dir: Path, project: str, offline: bool) -> None:
        folder = Path(save_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        group, stage = folder.parent.name, folder.name
        super().__init__(
            name=f"{group}/{stage}",
            group=group,
            id=fingerprint(str(folder)),
            resume="allow",
            save_dir=folder,
            project=project,
            offline=offline,
        )

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Ends the run, as the next stage is one of its own."""
        super().finalize(status)
        if self._experiment is not None:
            self._experiment.finish(exit_code=0 if status == "success" else 1)
            self._experiment = None
