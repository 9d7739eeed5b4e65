"""One run of Weights & Biases or TensorBoard for a whole experiment: its stages' figures, its table, plans and films.

A stage's figures stand under its name, over steps of its own. Each class here is made once a run, is called for each
stage's Lightning logger, and is given the run's folder at the end.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from eqa.envs.files import fingerprint
from eqa.models.evaluation.run_tables import headings, read_rows, table_lines

RESULTS = "results"  # in place of a stage's name
PICTURES = {"plans": "plans/*.png", "films": "films/*.gif"}


@runtime_checkable
class RunLogger(Protocol):
    """Loggers of a run's stages that end with its results."""

    def __call__(self, *, save_dir: Path) -> Logger: ...

    def finish(self, folder: Path) -> None: ...


class WandbRun:
    """A run at wandb.ai, or kept in the run's folder if `offline`. The same folder goes on in the same run.

    ImportError, before any work, if wandb is not installed.
    """

    def __init__(self, *, project: str, offline: bool) -> None:
        _refuse_missing("wandb", "wandb")
        self.project, self.offline = project, offline

    def __call__(self, *, save_dir: Path) -> "WandbStage":
        return WandbStage(Path(save_dir), project=self.project, offline=self.offline)

    def finish(self, folder: Path) -> None:
        """Logs what the run has made, and ends it."""
        import wandb

        run = WandbStage(Path(folder) / RESULTS, project=self.project, offline=self.offline).experiment
        if rows := read_rows(folder):
            run.log({"results/table": wandb.Table(columns=headings(rows), data=table_lines(rows))})
        for name, pattern in PICTURES.items():
            if paths := sorted(Path(folder).glob(pattern)):
                pictures = [
                    wandb.Video(str(p), format="gif") if p.suffix == ".gif" else wandb.Image(str(p)) for p in paths
                ]
                run.log({f"results/{name}": pictures})
        run.finish()


class WandbStage(WandbLogger):
    """A stage's part of its experiment's run; `save_dir` is the stage's folder, `runs/<run>/<stage>`."""

    def __init__(self, save_dir: Path, *, project: str, offline: bool) -> None:
        run, self.stage = save_dir.resolve().parent, save_dir.name
        run.mkdir(parents=True, exist_ok=True)
        super().__init__(
            name=run.name, id=fingerprint(str(run)), resume="allow", save_dir=run, project=project, offline=offline
        )

    @property
    def experiment(self):
        """The run, in which this stage's figures have an axis of their own: wandb's own steps never go back."""
        import wandb

        if self._experiment is None and rank_zero_only.rank == 0:
            self._experiment = wandb.run or wandb.init(**self._wandb_init, mode="offline" if self._offline else None)
            if self.stage != RESULTS:
                self._experiment.define_metric(f"{self.stage}/step", hidden=True)
                self._experiment.define_metric(f"{self.stage}/*", step_metric=f"{self.stage}/step")
        return super().experiment

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        named = {f"{self.stage}/{name}": value for name, value in metrics.items()}
        self.experiment.log(named if step is None else {**named, f"{self.stage}/step": step})

    @rank_zero_only
    def log_hyperparams(self, params: dict) -> None:
        self.experiment.config.update({self.stage: _plain(params)}, allow_val_change=True)


class TensorBoardRun:
    """A run of TensorBoard in the run's folder; a run that goes on adds a file to it.

    ImportError, before any work, if TensorBoard is not installed.
    """

    name = "tensorboard"

    def __init__(self) -> None:
        _refuse_missing("tensorboard", "tensorboard")

    def __call__(self, *, save_dir: Path) -> "TensorBoardStage":
        stage = Path(save_dir)
        return TensorBoardStage(stage.parent, name=self.name, version="", prefix=stage.name, default_hp_metric=False)

    def finish(self, folder: Path) -> None:
        """Logs what the run has made: the table as text, plans and films as pictures."""
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(Path(folder) / self.name)) as writer:
            if (table := Path(folder) / "table.md").exists():
                writer.add_text("results/table", table.read_text())
            for name, pattern in PICTURES.items():
                for path in sorted(Path(folder).glob(pattern)):
                    writer.file_writer.add_summary(_picture(f"results/{name}/{path.stem}", path))


class TensorBoardStage(TensorBoardLogger):
    """A stage's part of its experiment's run."""

    LOGGER_JOIN_CHAR = "/"


def _picture(tag: str, path: Path):
    """A picture or film as it is in its file: browsers play the GIF."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    with Image.open(path) as picture:
        width, height = picture.size
    encoded = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes())
    return Summary(value=[Summary.Value(tag=tag, image=encoded)])


def _plain(params: object) -> dict:
    """Values as wandb's configuration takes them."""
    return {
        str(key): value if isinstance(value, int | float | str | None) else str(value) for key, value in params.items()
    }


def _refuse_missing(logger: str, package: str) -> None:
    if find_spec(package) is None:
        raise ImportError(
            f"logger={logger}: expected the package {package}, which is not installed; pip install {package}"
        )
