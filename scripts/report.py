"""Results tables and plots over several runs: python scripts/report.py runs/il runs/il_seed-1 runs/lstm_q

Reads each run's metrics.jsonl (and run.json). Each agent and spawn is one line, with intervals over houses and seeds,
deviations between seeds, and tests of the differences between lines, beside the paper's numbers. Writes results.md,
results.csv, results-differences.csv, results.tex and plots, and prints a summary. Runs with other questions, with other
data, or with the same seed but other numbers are refused. A folder with a report of lines that these runs lack is
refused, too, unless --force writes over it. --keep FOLDER stores the rows there, packed and small; FOLDER gives the
same report. --page FILE writes a short page of the results. Without --out, each choice of runs has a folder of its own
under previews/. Files that git keeps are written over with --force alone.
"""

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from eqa.envs.files import atomic_write
from eqa.envs.progress import console
from eqa.models.evaluation.comparison import REFERENCE, default_pairs, differences, estimates, gather
from eqa.models.evaluation.plots import draw_distances, draw_ratio, draw_training
from eqa.models.evaluation.results_page import results_page
from eqa.models.evaluation.runs import keep, read_runs
from eqa.models.evaluation.tables import grids, terminal_tables, write_csv
from eqa.scripts.arguments import whole


def report(
    folders: Sequence[Path],
    out: Path,
    *,
    compare_with: str = REFERENCE,
    pairs: Sequence[tuple[str, str]] = (),
    resamples: int = 2000,
    force: bool = False,
    page: Path | None = None,
) -> list[Table]:
    """Writes everything into `out`, and returns the summary for a terminal. `page` is the file of the short page.

    ValueError for runs that cannot be compared, and for a report in `out` that has other lines, unless `force`.
    """
    runs = read_runs(folders)
    lines = gather(runs)
    if (others := _reported(out) - set(lines.agents)) and not force:
        raise ValueError(
            f"--out {out}: expected no report, or one of these lines; it has one with {len(others)} others, such as "
            f"{min(others)!r}; name another folder, or write over it with --force"
        )
    unknown = {name for pair in pairs for name in pair} - set(lines.agents)
    unknown |= {compare_with} - {REFERENCE, *lines.agents}
    if unknown:
        raise ValueError(f"expected agents of these runs ({', '.join(lines.agents)}), got {', '.join(sorted(unknown))}")
    means = estimates(lines, resamples=resamples)
    different = differences(
        lines, list(pairs) or default_pairs(lines.agents, lines.relations, compare_with), resamples=resamples
    )
    tables = grids(runs, lines, means, different)
    pictures = {path: f"Training, {stage}" for path, stage in draw_training(runs, lines, out).items()}
    if draw_ratio(lines, means, out / "results-ratio.png"):
        pictures[out / "results-ratio.png"] = "How much of the way to the target each line walked"
    told = "Distance to the target after each action, with 95 % bands; who has stopped stays"
    pictures |= dict.fromkeys(draw_distances(lines, out, resamples=resamples), told)
    _write(out / "results.md", "# Results\n\n" + "\n".join(grid.markdown() for grid in tables) + _shown(pictures))
    _write(out / "results.tex", "% needs the packages booktabs and graphicx\n" + "\n\n".join(g.latex() for g in tables))
    write_csv(out / "results.csv", means)
    if different:
        write_csv(out / "results-differences.csv", different)
    if page:
        short = results_page(
            runs, lines, means, different, command=f"python scripts/report.py {_typed(folders)} --page {page} --force"
        )
        _write(page, short)
    return terminal_tables(lines, means, different, None if pairs else compare_with)


def own_folder(folders: Sequence[Path]) -> Path:
    """The folder of a report on these runs: `previews/report_il`, `previews/report_il_and_5_more`."""
    first, others = folders[0].resolve().name, len(folders) - 1
    return Path("previews") / (f"report_{first}_and_{others}_more" if others else f"report_{first}")


def refuse_tracked(out: Path, *, page: Path | None, kept: Path | None, runs: Sequence[Path]) -> None:
    """ValueError if git keeps a file that a report would write over."""
    planned = [out / name for name in ("results.md", "results.csv", "results.tex", "results-differences.csv")]
    planned += [page] * (page is not None) + [kept / run.name for run in runs if kept is not None]
    for path in planned:
        parent = next(folder for folder in path.resolve().parents if folder.is_dir())
        git = ["git", "-C", str(parent), "ls-files", "--", str(path.resolve())]
        if subprocess.run(git, check=False, capture_output=True, text=True).stdout:
            raise ValueError(
                f"{path}: expected a place for a new file, got one that git keeps; name another with --out, --page or "
                "--keep, or write over it with --force"
            )


def _typed(folders: Sequence[Path]) -> str:
    """The folders as one would type them: all that are in one folder are a star."""
    (parent, *others) = dict.fromkeys(folder.parent for folder in folders)
    everything = not others and sorted(folders) == sorted(path for path in parent.iterdir() if path.is_dir())
    return f"{parent}/*" if everything else " ".join(map(str, folders))


def _reported(out: Path) -> set[str]:
    """The lines of the existing report."""
    path = out / "results.csv"
    if not path.is_file():
        return set()
    with path.open(newline="") as file:
        return {row.get("agent", "") for row in csv.DictReader(file)}


def _shown(pictures: dict[Path, str]) -> str:
    return "".join(f"\n![{caption}]({path.name})\n\n*{caption}.*\n" for path, caption in pictures.items())


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as aside:
        aside.write_text(text.rstrip("\n") + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--out", type=Path, help="folder for tables and plots (default: one under previews/)")
    parser.add_argument(
        "--page", type=Path, help="file for a short page of the results, beside the full tables of --out"
    )
    parser.add_argument("--keep", type=Path, help="folder to store the runs' rows in, packed, to report on them again")
    parser.add_argument("--compare-with", default=REFERENCE, help="the agent that every line is compared with")
    parser.add_argument("--pair", nargs=2, action="append", default=[], metavar="AGENT", help="these differences only")
    parser.add_argument("--resamples", type=whole(1), default=2000)
    parser.add_argument(
        "--force", action="store_true", help="write over a report of other lines, and over files that git keeps"
    )
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    out = arguments.out or own_folder(arguments.runs)
    try:
        if not arguments.force:
            refuse_tracked(out, page=arguments.page, kept=arguments.keep, runs=arguments.runs)
        shown = report(
            arguments.runs,
            out,
            compare_with=arguments.compare_with,
            pairs=[(first, second) for first, second in arguments.pair],
            resamples=arguments.resamples,
            force=arguments.force,
            page=arguments.page,
        )
        kept = [keep(run, arguments.keep) for run in arguments.runs] if arguments.keep else []
    except ValueError as error:
        sys.exit(f"report: {error}")
    for table in shown:
        console.print(table)
    if kept:
        console.print(f"kept: {arguments.keep}")
    console.print(f"written: {out / 'results.md'}, and .csv, .tex and plots beside it")


if __name__ == "__main__":
    main()
