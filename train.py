"""Fits what an experiment names, stage after stage, and ends with what the experiment makes of it.

    python train.py +experiment=il                  # houses, questions, demonstrations, navigator, answerer, results table
    python train.py +experiment=cnn_pretrain        # the encoder that all else sees through
    python train.py +experiment=il scale=tiny seed=1

Everything lands in one run folder, named by the command's words. The same command again continues a run that was cut
off, and starts a new folder if the last one came to its end.
"""

import logging
import warnings
from pathlib import Path

import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint

from envs.progress import console
from models.progress import StageProgress

FINISHED = "finished"


def run_name(words: str) -> str:
    """The command's words, fit to be typed again; numbered if a run of that name came to its end.

    `+experiment=il scale=tiny` runs in runs/il_scale-tiny, and the next time in runs/il_scale-tiny.2.
    """
    name = words.replace("+", "").replace("experiment=", "").replace(",", "_").replace("=", "-").replace("/", "-")
    number = 1
    while (Path("runs") / (unnumbered := name if number == 1 else f"{name}.{number}") / FINISHED).exists():
        number += 1
    return unnumbered


OmegaConf.register_new_resolver("run_name", run_name, replace=True)


def build(model: DictConfig, sizes: dict) -> pl.LightningModule:
    """The module to fit. It gets plain values, since those are what a checkpoint may hold."""
    return instantiate(model, _partial_=True, _convert_="all")(**sizes)


def fit(name: str, stage: DictConfig, cfg: DictConfig, source: object, run: Path) -> pl.LightningModule:
    """Fits one stage, from its last checkpoint if there is one; gives the module with its best weights on validation."""
    console.rule(f"[bold]{name}")
    folder = run / name
    data = instantiate(stage.data, _partial_=True)(source=source)
    data.prepare_data()
    data.setup("fit")
    model = build(stage.model, data.sizes)
    best = ModelCheckpoint(folder, filename="best", monitor=stage.monitor, mode=stage.mode, save_last=True)
    trainer = instantiate(cfg.trainer, _partial_=True)(
        max_epochs=stage.max_epochs,
        logger=instantiate(cfg.logger, _partial_=True)(save_dir=folder),
        callbacks=[best, StageProgress(name)],
        default_root_dir=folder,
    )
    last = folder / "last.ckpt"
    trainer.fit(model, data, ckpt_path=last if last.exists() else None, weights_only=True)
    return type(model).load_from_checkpoint(best.best_model_path, weights_only=True)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    run = Path(cfg.run_folder)
    console.print(f"run folder: {run}")
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    source = instantiate(cfg.data)
    configuration = OmegaConf.to_container(cfg, resolve=True)
    finish = instantiate(cfg.finish, _partial_=True)(source=source, folder=run, configuration=configuration)
    finish({name: fit(name, stage, cfg, source, run) for name, stage in cfg.stages.items()})
    (run / FINISHED).touch()
    console.print(f"run folder: {run}")


if __name__ == "__main__":
    main()
