"""Makes a question set, with the houses under it, and prints what is in it.

    python scripts/make_questions.py                  # the set that `python train.py` uses at scale=small
    python scripts/make_questions.py --scale paper
    python scripts/make_questions.py --houses 64 8 8 --questions 400 50 50 --seed 1
    python scripts/make_questions.py --show FILE      # only prints

A set that is there already is checked and used again; one that is damaged or of another version is made anew. The sizes
of a scale stand in configs/scale/.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml
from rich.table import Table

from data.balance import MajorityBaseline
from data.generated import GeneratedEQA
from data.questions import load_questions, read_header
from data.vocabulary import Vocabulary
from envs.episode import Episode
from envs.house.generator import SPLITS
from envs.progress import console

SCALES = Path(__file__).resolve().parents[1] / "configs" / "scale"


def main() -> None:
    arguments = _arguments()
    try:
        path = arguments.show or _made(arguments)
        episodes = {split: load_questions(path, split) for split, types in read_header(path)["counts"].items() if types}
    except ValueError as error:
        sys.exit(f"make_questions: {error}")
    console.print(f"\n{path}")
    for table in tables(episodes, read_header(path)["steps"]):
        console.print(table)


def tables(episodes: Mapping[str, Sequence[Episode]], steps: Mapping[str, Mapping[str, int]]) -> list[Table]:
    """What a set holds: sizes, types with the accuracy of answering without looking, answers, and what steps removed."""
    return [_sizes(episodes), _types(episodes), _answers(episodes), _steps(steps, list(episodes))]


def _sizes(episodes: Mapping[str, Sequence[Episode]]) -> Table:
    table = Table("split", "houses", "questions", "unique", "per house", "objects", "rooms", title="sizes")
    for split, found in episodes.items():
        per_house = Counter(e.scene_id for e in found).values()
        objects = {e.program.split('objects("')[1].split('"')[0] for e in found if e.program}
        table.add_row(
            split,
            f"{len(per_house)}",
            f"{len(found)}",
            f"{len({e.question for e in found})}",
            f"{len(found) / len(per_house):.1f} ({min(per_house)} to {max(per_house)})",
            f"{len(objects)}",
            f"{len({e.answer for e in found if e.question_type == 'location'})}",
        )
    return table


def _types(episodes: Mapping[str, Sequence[Episode]]) -> Table:
    """The majority column is the accuracy of train's most frequent answer to the same question string."""
    columns = [name for split in episodes for name in (split, "share", "majority")]
    table = Table("type", *columns, title="types; majority: right without looking, most frequent answer in train")
    baseline = MajorityBaseline(episodes["train"], Vocabulary.of(episodes["train"]))
    for kind in (*dict.fromkeys(e.question_type for e in episodes["train"]), None):
        row = []
        for found in episodes.values():
            of_kind = [e for e in found if kind in (None, e.question_type)]
            right = f"{baseline.accuracy(of_kind):.1%}" if of_kind else "-"
            row += [f"{len(of_kind)}", f"{len(of_kind) / len(found):.1%}", right]
        table.add_row(kind or "all", *row, end_section=kind is None)
    return table


def _answers(episodes: Mapping[str, Sequence[Episode]]) -> Table:
    table = Table("type", "answers", "how often in train", title="answers")
    for kind in dict.fromkeys(e.question_type for e in episodes["train"]):
        counts = Counter(e.answer for e in episodes["train"] if e.question_type == kind)
        table.add_row(kind, f"{len(counts)}", ", ".join(f"{name} {number}" for name, number in counts.most_common()))
    return table


def _steps(steps: Mapping[str, Mapping[str, int]], splits: Sequence[str]) -> Table:
    table = Table("questions left after", *splits, title="steps")
    for step, numbers in steps.items():
        table.add_row(step, *(f"{numbers.get(split, 0)}" for split in splits))
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="small", help="name of a file in configs/scale (default: small)")
    for name in ("houses", "questions"):
        parser.add_argument(f"--{name}", type=int, nargs=3, metavar=tuple(s.upper() for s in SPLITS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=Path, metavar="FILE")
    return parser.parse_args()


def _made(arguments: argparse.Namespace) -> Path:
    known = sorted(path.stem for path in SCALES.glob("*.yaml"))
    if arguments.scale not in known:
        raise ValueError(f"--scale: expected one of {known}, got {arguments.scale!r}")
    scale = yaml.safe_load((SCALES / f"{arguments.scale}.yaml").read_text())
    sizes = {
        name: dict(zip(SPLITS, chosen)) if (chosen := getattr(arguments, name)) else scale[name]
        for name in ("houses", "questions")
    }
    data = GeneratedEQA(seed=arguments.seed, **sizes)
    if data.questions_file.exists():
        try:
            for split in SPLITS:
                load_questions(data.questions_file, split)
        except ValueError as error:
            console.print(f"{error}: making it anew")
            data.questions_file.unlink()
    return data.questions_path


if __name__ == "__main__":
    main()
