"""Plays a trained or a scripted agent through a split, and writes the results table that training ends with.

Examples:

    python eval.py                                   # the agent that comes with the package
    python eval.py checkpoint=runs/il/agent.ckpt lines=all spawns=all
    python eval.py checkpoint=... split=val scale=tiny
    python eval.py agent=frontier                    # a scripted agent alone, without any checkpoint
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from eqa.envs.files import file_fingerprint
from eqa.envs.progress import console
from eqa.models.agents.neural import NeuralAgent, file_of_weights
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.results import write_results, write_walks
from eqa.models.learning.command_line import in_one_line
from eqa.models.learning.run_settings import refuse_old_words, refuse_wrong_settings
from eqa.models.run_record import RunRecord

CONFIGS = Path(__file__).resolve().parent / "configs"
# Settings by which the data of playing may differ from those of training, where both have them.
PLAYED_AS_TRAINED = (
    ("scale", "name"),
    ("data", "_target_"),
    ("data", "question_set"),
    ("data", "balance"),
    ("data", "seed"),
    ("data", "path"),
    ("env", "style"),
)
UNSAID = {"style": "paper"}  # of configurations that are older than the setting


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="eval")
@in_one_line
def main(cfg: DictConfig) -> None:
    refuse_wrong_settings(cfg)
    agent = instantiate(cfg.agent)
    asked = OmegaConf.to_container(cfg, resolve=True)
    if isinstance(agent, NeuralAgent):
        play_trained(agent, cfg, asked)
    else:
        pl.seed_everything(cfg.seed, workers=True, verbose=False)
        source, folder = instantiate(cfg.data), Path(cfg.run_folder)
        record = RunRecord(folder, name=agent.name, seed=cfg.seed, configuration=asked, data=source.fingerprints())
        with record.stage("results"):
            write_walks(
                agent, source, folder=folder, split=cfg.split, spawns=cfg.spawns, seed=cfg.seed, scale=cfg.scale.name
            )
    console.print(f"results: {cfg.run_folder}")


def play_trained(agent: NeuralAgent, cfg: DictConfig, asked: Mapping) -> None:
    """Plays a trained agent and the lines beside it; says where its data were others than `asked`."""
    for line in other_data(agent.config, asked):
        console.print(f"[yellow]{line}")
    compare_with = [] if cfg.compare_with is None else [NeuralAgent.load(Path(cfg.compare_with))]
    if cfg.stop_odds is not None:
        agent.set_stop_odds(cfg.stop_odds)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    extractor = FeatureExtractor(agent.encoder)
    source = instantiate(cfg.data, encode=extractor)
    folder = Path(cfg.run_folder)
    data = {**source.fingerprints(), "checkpoint": file_fingerprint(file_of_weights(cfg.checkpoint))}
    seed = agent.config.get("seed", cfg.seed)  # of its training: reports tell trainings apart by it
    record = RunRecord(folder, name=agent.name, seed=seed, configuration=asked, data=data)
    with record.stage("results"):
        write_results(
            agent,
            source,
            folder=folder,
            split=cfg.split,
            seed=cfg.seed,
            extractor=extractor,
            lines=cfg.lines,
            spawns=cfg.spawns,
            compare_with=compare_with,
        )


def other_data(trained: Mapping, played: Mapping) -> Iterator[str]:
    """A line for each setting of the data in which two configurations differ, if both have it."""
    for group, name in PLAYED_AS_TRAINED:
        said = {name: UNSAID[name]} if name in UNSAID else {}
        groups = [said | configuration.get(group, {}) for configuration in (trained, played)]
        first, second = (_last_word(settings.get(name)) for settings in groups)
        if first != second and all(name in settings for settings in groups):
            yield f"trained with {group}.{name} {first}, played with {second}"


def _last_word(setting: object) -> object:
    """A class without the module that it is in, which older versions had elsewhere; other settings as they are."""
    return setting.rsplit(".", 1)[-1] if isinstance(setting, str) and setting.startswith(("eqa.", "data.")) else setting


def command() -> None:
    """`python eval.py` or `eqa-eval` with the words of sys.argv."""
    refuse_old_words(sys.argv[1:])
    main()


if __name__ == "__main__":
    command()
