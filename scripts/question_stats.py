"""Statistics of a set of questions, beside the paper's: tables, a page of plots, and what can be answered blindly.

    python scripts/question_stats.py                      # the newest set
    python scripts/question_stats.py FILE --out previews  # writes previews/questions.png and questions.md

Counted are all splits; what is about the balance leaves out `human`, which has no say in it. The file is read as a
stream, so it may be longer than memory. The models that answer without looking are those of `models.blind`.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data.question_counts import count_file
from data.question_file import REBUILD, read_header
from envs.files import data_root, written_aside
from envs.progress import console
from models.question_page import draw
from models.question_tables import Sheet, blind_of, details, overview


def write_page(path: Path, out: Path, *, seed: int = 0) -> list[Sheet]:
    """Writes `questions.png` and `questions.md` about a question file; the tables of the latter."""
    counts = count_file(path)
    blind = blind_of(counts, seed=seed)
    sheets = [*overview(counts, blind, read_header(path)["steps"]), *details(counts)]
    draw(counts, blind, out / "questions.png", title=path.name)
    text = f"# Questions of {path.name}\n\n![plots](questions.png)\n\n" + "\n".join(s.for_markdown() for s in sheets)
    with written_aside(out / "questions.md") as aside:
        aside.write_text(text)
    return sheets


def _newest() -> Path:
    found = sorted((data_root() / "questions").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ValueError(f"{data_root() / 'questions'}: expected a question file, got none; {REBUILD}")
    return found[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=Path("previews"))
    parser.add_argument("--seed", type=int, default=0, help="of the models that answer without looking")
    arguments = parser.parse_args()
    try:
        path = arguments.file or _newest()
        sheets = write_page(path, arguments.out, seed=arguments.seed)
    except ValueError as error:
        sys.exit(f"question_stats: {error}")
    console.print(f"\n{path}")
    for sheet in sheets:
        console.print(sheet.for_terminal())
    console.print(arguments.out / "questions.png", arguments.out / "questions.md")


if __name__ == "__main__":
    main()
