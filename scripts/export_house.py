"""Writes houses as GLB, for Blender and other viewers, and as a scene data set for habitat-sim (docs/export.md).

python scripts/export_house.py HOUSE.json [...] --out exported
python scripts/export_house.py --split train --first 0 --count 4 --out exported
python scripts/export_house.py --split human --count 5 --out exported
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from eqa.envs.habitat.export import write_house
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import HUMAN, SPLITS, generate_house, human_homes
from eqa.envs.house.house import House
from eqa.scripts.arguments import whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="HOUSE.json", help="house files; without any, a split's")
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--first", type=whole(0), default=0, help="index of the first house")
    parser.add_argument("--count", type=whole(1), default=1, help="houses of the split")
    parser.add_argument("--out", type=Path, default=Path("exported"))
    arguments = parser.parse_args()
    if arguments.split == HUMAN and not arguments.files:
        arguments.files = human_homes()[arguments.first : arguments.first + arguments.count]
        if len(arguments.files) < arguments.count:
            parser.error(f"--first and --count: expected some of 0 to {len(human_homes()) - 1} for the split {HUMAN!r}")
    for path in arguments.files:
        if not path.is_file():
            parser.error(f"{path}: expected a house file, found none; python scripts/make_houses.py makes some")
    arguments.out.mkdir(parents=True, exist_ok=True)
    catalog = load_catalog()
    for house in _houses(arguments):
        start = perf_counter()
        paths = write_house(house, arguments.out, catalog)
        seconds = perf_counter() - start
        sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in paths if path.suffix == ".glb")
        print(f"{arguments.out}: {sizes}; {len(paths)} files in {seconds:.2f} s")


def _houses(arguments: argparse.Namespace) -> Iterator[House]:
    if arguments.files:
        yield from (House.load(path) for path in arguments.files)
        return
    for index in range(arguments.first, arguments.first + arguments.count):
        yield generate_house(seed=arguments.seed, split=arguments.split, index=index)


if __name__ == "__main__":
    main()
