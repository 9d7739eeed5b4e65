"""Compares the same agent in two worlds, question by question: python scripts/compare_worlds.py runs/habitat runs/il

Reads each run's metrics.jsonl. For each agent and spawn that both have, it prints means over the questions that both
have: distance at the end, right answers, and the share of walks with the same actions. ValueError if they share none.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from eqa.envs.progress import console
from eqa.envs.reading import named, parsed, read_lines

Line = tuple[str, str]  # agent and spawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN")
    arguments = parser.parse_args()
    try:
        console.print(compared(*arguments.runs))
    except ValueError as error:
        sys.exit(f"compare_worlds: {error}")


def compared(first: Path, second: Path) -> Table:
    """The table of two run folders; each cell has the first run's mean and the second's."""
    table = Table("agent", "spawn", "questions", "d_T, m", "right, %", "same actions, %")
    for (agent, spawn), pairs in in_both(walked(first), walked(second)).items():
        sides = list(zip(*pairs, strict=True))
        distances, right = (
            " / ".join(f"{scale * np.mean([row[name] for row in side]):.{digits}f}" for side in sides)
            for name, scale, digits in (("d_T", 1, 2), ("correct", 100, 0))
        )
        alike = 100 * np.mean([a["actions"] == b["actions"] for a, b in pairs])
        table.add_row(agent, spawn, str(len(pairs)), distances, right, f"{alike:.0f}")
    if not table.row_count:
        raise ValueError(f"expected walks of the same agent and questions, {first} and {second} share none")
    return table


def walked(folder: Path) -> dict[tuple[str, str, str], dict]:
    """Rows of a run that walked and answered, by agent, spawn and question."""
    path = folder / "metrics.jsonl"
    with named(path, "not the rows of a run", "evaluate again with python eval.py"):
        rows = [parsed(line) for line in read_lines(path)]
    return {(r["agent"], r["spawn"], r["episode_id"]): r for r in rows if r["actions"] and r["correct"] is not None}


def in_both(
    first: Mapping[tuple[str, str, str], dict], second: Mapping[tuple[str, str, str], dict]
) -> dict[Line, Sequence[tuple[dict, dict]]]:
    """Pairs of rows about the same question, by line."""
    found: dict[Line, list[tuple[dict, dict]]] = {}
    for key, row in first.items():
        if key in second and row["question"] == second[key]["question"]:
            found.setdefault(key[:2], []).append((row, second[key]))
    return found


if __name__ == "__main__":
    main()
