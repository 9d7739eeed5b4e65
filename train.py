"""Fits an experiment's stages, one after the other, and then calls its `on_finish`.

    python train.py                                 # lists the experiments
    python train.py +experiment=il                  # houses, questions, demonstrations, navigator, answerer, results
    python train.py +experiment=cnn_pretrain        # the encoder for all experiments
    python train.py +experiment=il scale=tiny seed=1
    python train.py -m +experiment=il seed=0,1,2    # one run after the other; hydra/launcher=... elsewhere, at once

Everything lands in one run folder, named by the command's words. The same command again continues an interrupted run,
with the same numbers as without the break. If the last run is complete, it starts a new folder; a sweep (-m) skips
complete runs.
"""

import hashlib
import logging
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import hydra
import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import rank_zero_only

from eqa.envs.progress import console
from eqa.models.learning.callbacks import Reseed, ResumableEarlyStopping, StageProgress
from eqa.models.learning.checkpoint_files import CheckpointsAside, newest_checkpoint
from eqa.models.learning.command_line import experiments, in_one_line, refuse_missing_launcher
from eqa.models.learning.preemption import StopOnSignals, stop_on_signals
from eqa.models.learning.run_loggers import RunLogger
from eqa.models.learning.run_settings import forget_variant_of, refuse_old_words, refuse_wrong_settings
from eqa.models.run_record import RunRecord, UpdateRunRecord

CONFIGS = Path(__file__).resolve().parent / "configs"
FINISHED = "finished"
LONGEST_NAME = 200  # most file systems take 255 bytes, and numbers and ends come behind


def plain_name(words: str) -> str:
    """The command's words as a folder's name: `+experiment=il scale=tiny` runs in runs/il_scale-tiny.

    Eight digits replace the end of names that are too long for a folder.
    """
    name = words.replace("+", "").replace("experiment=", "").replace(",", "_").replace("=", "-").replace("/", "-")
    name = name.replace("'", "").replace('"', "").replace(" ", "-")
    if len(name.encode()) > LONGEST_NAME:
        digits = hashlib.sha256(words.encode()).hexdigest()[:8]
        name = f"{name.encode()[: LONGEST_NAME - 9].decode(errors='ignore')}_{digits}"
    return name


def run_name(words: str) -> str:
    """`plain_name`, numbered (il_scale-tiny.2) if a run of that name is complete."""
    name, number = plain_name(words), 1
    while (Path("runs") / (numbered := name if number == 1 else f"{name}.{number}") / FINISHED).exists():
        number += 1
    return numbered


OmegaConf.register_new_resolver("plain_name", plain_name, replace=True)
OmegaConf.register_new_resolver("run_name", run_name, replace=True)


def build(model: DictConfig, sizes: dict) -> pl.LightningModule:
    """The module to fit. It gets plain values, since a checkpoint may hold no others."""
    return instantiate(model, _partial_=True, _convert_="all")(**sizes)


def fit(
    name: str, cfg: DictConfig, data: pl.LightningDataModule, *, loggers: Mapping, callbacks: list[pl.Callback]
) -> pl.LightningModule:
    """Fits one stage, from its last checkpoint if there is one.

    Returns the module with the best weights on validation.
    """
    stage, folder = cfg.stages[name], Path(cfg.run_folder) / name
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    model = build(stage.model, data.sizes)
    if cfg.compile:
        for network in model.children():
            network.compile(backend="inductor" if cfg.compile is True else cfg.compile)
    chosen = {"monitor": stage.monitor, "mode": stage.mode}
    best = ModelCheckpoint(
        folder, "best_{epoch:02d}", **chosen, save_top_k=cfg.save_top_k, auto_insert_metric_name=False
    )
    # A callback of its own: with `save_last` Lightning 2.6 keeps the last of the best epochs, not the last epoch.
    last = ModelCheckpoint(folder, "last", enable_version_counter=False, save_on_train_epoch_end=True)
    callbacks = [*callbacks, best, last, Reseed(cfg.seed), StageProgress(name)]
    if cfg.patience is not None:
        callbacks.append(ResumableEarlyStopping(**chosen, patience=cfg.patience))
    trainer = instantiate(cfg.trainer, _partial_=True)(
        max_epochs=stage.max_epochs,
        logger=[logger(save_dir=folder) for logger in loggers.values()],
        callbacks=callbacks,
        plugins=[CheckpointsAside()],
        default_root_dir=folder,
    )
    before = newest_checkpoint(folder)
    if stage.get("validate_first") and before is None:
        trainer.validate(model, data, verbose=False)
    trainer.fit(model, data, ckpt_path=before, weights_only=True)
    return type(model).load_from_checkpoint(best.best_model_path, weights_only=True)


def run(cfg: DictConfig, folder: Path) -> None:
    """Runs all stages, then `on_finish` in the first of several processes alone."""
    loggers, source = instantiate(cfg.logger), instantiate(cfg.data)
    configuration = OmegaConf.to_container(cfg, resolve=True)
    facts = {"name": cfg.name, "seed": cfg.seed, "configuration": configuration, "data": source.fingerprints()}
    record = RunRecord(folder, **facts)
    on_finish = instantiate(cfg.on_finish, _partial_=True)(source=source, folder=folder, configuration=configuration)
    fitted = {}
    for name, stage in cfg.stages.items():
        console.rule(f"[bold]{name}")
        data = instantiate(stage.data, _partial_=True)(source=source)
        data.fitted = fitted  # for data that an earlier stage's module makes
        with record.stage("data"):
            data.prepare_data()
            data.setup("fit")
        with record.stage(name):
            fitted[name] = fit(name, cfg, data, loggers=loggers, callbacks=[UpdateRunRecord(record), StopOnSignals()])
    if rank_zero_only.rank == 0:
        with record.stage("results"):
            on_finish(fitted)
        for logger in loggers.values():
            if isinstance(logger, RunLogger):
                logger.finish(folder)
        (folder / FINISHED).touch()


@in_one_line
def task(cfg: DictConfig) -> None:
    """One run, from its composed configuration."""
    forget_variant_of(cfg, HydraConfig.get().overrides.task)
    refuse_wrong_settings(cfg)
    folder = Path(cfg.run_folder)
    console.quiet = rank_zero_only.rank > 0
    if (folder / FINISHED).exists():
        console.print(f"came to its end before: {folder}")
        return
    console.print(f"run folder: {folder}")
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    stop_on_signals()
    run(cfg, folder)
    console.print(f"run folder: {folder}")


# Two names: a launcher of Hydra sends `task` to other processes by its name, and that must not be the decorated one's.
main = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")(task)


def command() -> None:
    """`python train.py` or `eqa-train` with the words of sys.argv; lists the experiments if there are none."""
    if not sys.argv[1:]:
        console.print(
            "Pick an experiment, such as +experiment=il, and perhaps scale=tiny; docs/commands.md has more.\n"
        )
        console.print(experiments(CONFIGS))
        return
    refuse_old_words(sys.argv[1:])
    refuse_missing_launcher(sys.argv[1:])
    main()


if __name__ == "__main__":
    from eqa.train import command  # other processes find `eqa.train.task`, but not that of a script

    command()
