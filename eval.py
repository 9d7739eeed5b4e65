"""Plays a trained agent through a split, and writes the results table that training ends with.

Examples:

    python eval.py checkpoint=runs/il/agent.ckpt
    python eval.py checkpoint=... split=val scale=tiny
"""

import sys
from pathlib import Path

import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from eqa.envs.files import file_fingerprint
from eqa.envs.progress import console
from eqa.models.agents.neural import NeuralAgent
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.results import write_results
from eqa.models.learning.run_settings import refuse_old_words, refuse_wrong_settings
from eqa.models.run_record import RunRecord


@hydra.main(version_base="1.3", config_path="configs", config_name="eval")
def main(cfg: DictConfig) -> None:
    refuse_wrong_settings(cfg)
    agent = NeuralAgent.load(Path(cfg.checkpoint))
    asked = OmegaConf.to_container(cfg, resolve=True)
    for group, name in (("scale", "name"), ("data", "question_set"), ("data", "balance"), ("data", "seed")):
        trained, played = (configuration.get(group, {}).get(name) for configuration in (agent.config, asked))
        if trained != played:
            console.print(f"[yellow]trained with {group}.{name} {trained}, played with {played}")
    compare_with = [] if cfg.compare_with is None else [NeuralAgent.load(Path(cfg.compare_with))]
    if cfg.stop_odds is not None:
        agent.set_stop_odds(cfg.stop_odds)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    extractor = FeatureExtractor(agent.encoder)
    source = instantiate(cfg.data, encode=extractor)
    folder = Path(cfg.run_folder)
    data = {**source.fingerprints(), "checkpoint": file_fingerprint(Path(cfg.checkpoint))}
    record = RunRecord(folder, name=agent.name, seed=cfg.seed, configuration=asked, data=data)
    with record.stage("results"):
        write_results(
            agent,
            source,
            folder=folder,
            split=cfg.split,
            seed=cfg.seed,
            extractor=extractor,
            lines=cfg.lines,
            compare_with=compare_with,
        )
    console.print(f"results: {cfg.run_folder}")


if __name__ == "__main__":
    refuse_old_words(sys.argv[1:])
    main()
