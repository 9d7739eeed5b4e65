"""Makes a question set with its houses, and shows its contents and its bias: tables, and a page of plots.

    python scripts/make_questions.py                  # the set that `python train.py` uses at scale=small
    python scripts/make_questions.py --scale paper
    python scripts/make_questions.py --houses 64 8 8 --questions 400 50 50 --seed 1
    python scripts/make_questions.py --style everyday # in homes of 40 to 250 m2
    python scripts/make_questions.py --scale paper --set all --balance paired    # every type, nothing to guess
    python scripts/make_questions.py --show FILE      # only shows

An existing set is checked and used again; a damaged one, or one of another version, is made anew. The sizes of a scale
stand in configs/scale/. Tables and plots show all splits; those about the balance leave out `human`, which is not
balanced. The file is read as a stream, so it may be longer than memory. The page and the tables are written to --out,
as `questions.png` and `questions.md`. The question-only baselines are those of `models.evaluation.blind`.
"""

import argparse
import sys
from pathlib import Path

import yaml

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.counts import count_file
from eqa.data.questions.storage import load_questions, read_header
from eqa.envs.files import atomic_write
from eqa.envs.house.generator import MIXED, SPLITS, STYLES
from eqa.envs.progress import console
from eqa.models.evaluation.question_plots import draw
from eqa.models.evaluation.question_tables import Sheet, blind_of, details, overview
from eqa.scripts.arguments import whole

SCALES = Path(__file__).resolve().parents[1] / "configs" / "scale"


def main() -> None:
    arguments = _arguments()
    try:
        path = arguments.show or _made(arguments)
        sheets = write_page(path, arguments.out)
    except ValueError as error:
        sys.exit(f"make_questions: {error}")
    console.print(f"\n{path}")
    for sheet in sheets:
        console.print(sheet.for_terminal())
    console.print(arguments.out / "questions.png", arguments.out / "questions.md")


def write_page(path: Path, out: Path) -> list[Sheet]:
    """Writes `questions.png` and `questions.md` about a question file; returns the tables of the latter."""
    counts = count_file(path)
    blind = blind_of(counts)
    sheets = [*overview(counts, blind, read_header(path)["steps"]), *details(counts)]
    draw(counts, blind, out / "questions.png", title=path.name)
    text = f"# Questions of {path.name}\n\n![plots](questions.png)\n\n" + "\n".join(s.for_markdown() for s in sheets)
    with atomic_write(out / "questions.md") as aside:
        aside.write_text(text)
    return sheets


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="small", help="name of a file in configs/scale (default: small)")
    for name in ("houses", "questions"):
        parser.add_argument(f"--{name}", type=whole(1), nargs=3, metavar=tuple(s.upper() for s in SPLITS))
    parser.add_argument("--set", default="eqa_v1", help="a set of data/questions/questions.yaml (default: eqa_v1)")
    parser.add_argument("--balance", default="paired", help="of answers: none, entropy or paired (default: paired)")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=MIXED, help="of the houses (default: mixed)")
    parser.add_argument("--show", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=Path("previews"), help="folder of the page (default: previews)")
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
    sizes["houses"]["style"] = arguments.style
    data = GeneratedEQA(seed=arguments.seed, **sizes, question_set=arguments.set, balance=arguments.balance)
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
