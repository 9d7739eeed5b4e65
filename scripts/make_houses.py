"""Makes the houses of one or more splits under the data folder; existing ones are kept.

python scripts/make_houses.py --train 643 --val 67 --test 57 --seed 0
python scripts/make_houses.py --train 643 --val 67 --test 57 --style everyday
python scripts/make_houses.py --train 643 --val 67 --test 57 --shard 3/8    # on one of eight machines
"""

import argparse
from pathlib import Path

from eqa.envs.files import data_root
from eqa.envs.house.generator import GENERATOR, MIXED, SPLITS, STYLES, house_path, make_houses
from eqa.envs.house.sharded import make_part
from eqa.envs.progress import absolute, progress
from eqa.scripts.arguments import part, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for split in SPLITS:
        what = f"houses of the {split} split"
        parser.add_argument(f"--{split}", type=whole(0), default=0, metavar="COUNT", help=what)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=MIXED, help="of the houses (default: mixed)")
    parser.add_argument("--root", type=Path, default=None, help="data folder (default: $EQA_DATA, else ~/.cache/eqa)")
    parser.add_argument("--workers", type=whole(1), default=None, help="processes (default: one per core)")
    parser.add_argument("--shard", type=part, default=None, help="3/8: makes the third of eight parts (default: all)")
    arguments = parser.parse_args()
    counts = {split: getattr(arguments, split) for split in SPLITS}
    if not any(counts.values()):
        parser.error("expected a number of houses above 0 for at least one of --train, --val, --test")
    root = arguments.root or data_root()
    for split, count in counts.items():
        if count:
            _make(root, split, count, arguments)
    print(house_path(root, seed=arguments.seed, split=split, index=0).parents[2], GENERATOR)


def _make(root: Path, split: str, count: int, arguments: argparse.Namespace) -> None:
    with progress(f"houses, {split}", count) as advance:
        report = absolute(advance)
        numbers = {"split": split, "count": count, "seed": arguments.seed, "style": arguments.style}
        numbers |= {"workers": arguments.workers, "progress": report}
        if arguments.shard is None:
            make_houses(root, **numbers)
        else:
            make_part(root, **numbers, shard=arguments.shard)


if __name__ == "__main__":
    main()
