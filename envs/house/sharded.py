"""`make_part`: the houses of a split that one of several machines makes.

It stands beside `envs.house.generator`, whose code is part of the houses' identity.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from eqa.envs.house.generator import PAPER, generate_house, house_path
from eqa.envs.shards import Shard
from eqa.envs.workers import in_workers


def make_part(
    root: Path,
    *,
    split: str,
    count: int,
    shard: Shard,
    seed: int = 0,
    style: str = PAPER,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Makes a shard's part of what `make_houses` makes, and gives the paths of all; files that exist are kept."""
    paths = [house_path(root, seed=seed, split=split, index=index, style=style) for index in range(count)]
    own = shard.of(range(count))
    missing = [index for index in own if not paths[index].is_file()]
    done = len(own) - len(missing)
    progress(done, len(own))
    for _ in in_workers(partial(_make_one, paths, seed, style, split), missing, workers=workers):
        done += 1
        progress(done, len(own))
    return paths


def _make_one(paths: list[Path], seed: int, style: str, split: str, index: int) -> None:
    generate_house(seed=seed, split=split, index=index, style=style).save(paths[index])
