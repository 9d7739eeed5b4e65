"""Builds houses, questions and demonstrations of one scale ahead of training: python scripts/make_demos.py scale=paper

Takes the same overrides as train.py and skips existing files; train.py builds missing ones by itself. With shard=3/8 it
makes the third of eight parts, on any machine that sees the same data folder. A part waits for nobody: it makes what it
can, and names the commands that have to come before the rest. All parts at once, four times in a row, make everything:
houses, views, spawns, demonstrations. The bytes are those of one process.
"""

import shlex
import sys

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig

from eqa.data.source import Source
from eqa.envs.progress import console
from eqa.envs.shards import Shard
from eqa.models.learning.run_settings import refuse_old_words, refuse_wrong_settings


@hydra.main(version_base="1.3", config_path="../configs", config_name="demos")
def main(cfg: DictConfig) -> None:
    refuse_wrong_settings(cfg)
    source = instantiate(cfg.data)
    if cfg.shard is None:
        source.build()
    else:
        _build(source, Shard.parse(cfg.shard))


def _build(source: Source, shard: Shard) -> None:
    """Ends with an error if there was nothing to make and other shards are missing."""
    try:
        missing = source.build_shard(shard) - {shard}
    except ValueError as error:
        sys.exit(str(error))
    if not missing:
        console.print(f"shard {shard}: all is there")
        return
    words = [word for word in sys.argv[1:] if not word.startswith("shard=")]
    told = [
        f"  {shlex.join(['python', 'scripts/make_demos.py', *words, f'shard={other}'])}" for other in sorted(missing)
    ]
    console.print(f"shard {shard} is made as far as it can be; these come first, then the same command again:")
    console.print("\n".join(told), soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    refuse_old_words(sys.argv[1:])
    main()
