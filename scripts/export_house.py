"""Writes houses as GLB, as scenes for habitat-sim, or each as a web page to walk through (docs/export.md).

python scripts/export_house.py HOUSE.json [...] --out exported
python scripts/export_house.py --split train --first 0 --count 4 --out exported
python scripts/export_house.py --split human --count 5 --out exported
python scripts/export_house.py --html                 # a page with the house and some questions, to open from disk
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from eqa.data.questions.generate import make_questions
from eqa.data.questions.spawns import add_spawns
from eqa.data.questions.view_points import view_points_of
from eqa.envs.episode import Episode
from eqa.envs.habitat.export import write_house
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, STYLES, generate_house, human_homes
from eqa.envs.house.house import House
from eqa.envs.house.web_page import write_page
from eqa.scripts.arguments import whole

NUM_QUESTIONS = 20  # of a page


def main() -> None:
    arguments = _arguments()
    try:
        catalog = load_catalog()
        arguments.out.mkdir(parents=True, exist_ok=True)
        for house in _houses(arguments):
            start = perf_counter()
            if arguments.html:
                paths = [write_page(house, arguments.out, catalog, _questions(house, arguments))]
            else:
                paths = write_house(house, arguments.out, catalog, relightable=arguments.relightable)
            seconds = perf_counter() - start
            large = [path for path in paths if path.suffix in (".glb", ".html")]
            sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in large)
            print(f"{arguments.out}: {sizes}; {len(paths)} files in {seconds:.2f} s")
    except (ValueError, OSError) as error:
        sys.exit(f"export_house: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="HOUSE.json", help="house files; without any, a split's")
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=PAPER, help="of the houses (default: paper)")
    parser.add_argument("--first", type=whole(0), default=0, help="index of the first house")
    parser.add_argument("--count", type=whole(1), default=1, help="houses of the split")
    parser.add_argument("--out", type=Path, default=Path("exported"))
    parser.add_argument("--html", action="store_true", help="write web pages instead, one for each house")
    parser.add_argument("--relightable", action="store_true", help="<id>.glb without our light, for a viewer's lamps")
    parser.add_argument(
        "--questions", type=whole(0), metavar="N", help=f"questions of a page, 0 for none (default: {NUM_QUESTIONS})"
    )
    arguments = parser.parse_args()
    if arguments.questions is not None and not arguments.html:
        parser.error("--questions: expected only with --html, as the other files hold no questions")
    if arguments.relightable and arguments.html:
        parser.error("--relightable: expected only without --html, as a page has no lamps of its own")
    if arguments.split == HUMAN and not arguments.files:
        arguments.files = human_homes()[arguments.first : arguments.first + arguments.count]
        if len(arguments.files) < arguments.count:
            parser.error(f"--first and --count: expected some of 0 to {len(human_homes()) - 1} for the split {HUMAN!r}")
    for path in arguments.files:
        if not path.is_file():
            parser.error(f"{path}: expected a house file, found none; python scripts/make_houses.py makes some")
    return arguments


def _houses(arguments: argparse.Namespace) -> Iterator[House]:
    if arguments.files:
        yield from (House.load(path) for path in arguments.files)
        return
    for index in range(arguments.first, arguments.first + arguments.count):
        yield generate_house(seed=arguments.seed, split=arguments.split, index=index, style=arguments.style)


def _questions(house: House, arguments: argparse.Namespace) -> list[Episode]:
    """Questions about the house alone, not balanced over houses; ValueError if it allows none."""
    count = NUM_QUESTIONS if arguments.questions is None else arguments.questions
    if not count:
        return []
    try:
        made = make_questions(
            {"train": [house]},
            counts={"train": count},
            seed=arguments.seed,
            visible=view_points_of,
            add_spawns=add_spawns,
            balance="none",
        )
    except ValueError as error:
        raise ValueError(f"house {house.id}: {error}; --questions 0 writes its page without any") from None
    return [episode for episode in made.episodes["train"] if episode.walk]


if __name__ == "__main__":
    main()
