"""Builds houses, questions and demonstrations of one scale ahead of training: python scripts/make_demos.py scale=paper

Takes the same overrides as train.py and skips existing files; train.py builds missing ones by itself.
"""

import sys

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig

from eqa.models.learning.run_settings import refuse_old_words, refuse_wrong_settings


@hydra.main(version_base="1.3", config_path="../configs", config_name="demos")
def main(cfg: DictConfig) -> None:
    refuse_wrong_settings(cfg)
    instantiate(cfg.data).build()


if __name__ == "__main__":
    refuse_old_words(sys.argv[1:])
    main()
