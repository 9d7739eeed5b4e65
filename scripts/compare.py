"""One table over several runs, for instance of three seeds: python scripts/compare.py runs/il runs/il_seed-1 runs/il_seed-2

Each cell is the mean over runs of what that run's table says, and behind ± the standard deviation between runs. Prints
Markdown. All runs must have played the same questions.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from models.report import COLUMNS, HEADINGS, markdown, values_of


def compare(runs: Sequence[Path]) -> str:
    """The table; ValueError for a folder without rows, or whose questions are others than the first one's."""
    played, of_runs = None, []
    for run in runs:
        path = run / "metrics.jsonl"
        if not path.is_file():
            raise ValueError(f"{run}: expected a run's folder with metrics.jsonl; python eval.py writes one")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        questions = {(row["agent"], row["spawn"], row["episode_id"], row["question"]) for row in rows}
        if played is not None and questions != played:
            raise ValueError(f"{run}: expected the agents, spawns and questions of {runs[0]}, got others")
        played = questions
        of_runs.append(rows)
    lines = []
    for agent, spawn in dict.fromkeys((row["agent"], row["spawn"]) for row in of_runs[0]):
        line = [agent, spawn or "-"]
        for name, _, factor, decimals in COLUMNS:
            values = [values_of(rows, name, agent=agent, spawn=spawn) for rows in of_runs]
            known = all(len(of_run) for of_run in values)
            line.append(_cell(factor * np.array([v.mean() for v in values]), decimals) if known else "-")
        lines.append(line)
    return markdown(HEADINGS, lines)


def _cell(values: np.ndarray, decimals: int) -> str:
    """Mean ± standard deviation; the deviation is left out where all runs agree, as for who does not learn."""
    spread = f"{values.std(ddof=1) if len(values) > 1 else 0:.{decimals}f}"
    return f"{values.mean():.{decimals}f}" + (f" ± {spread}" if float(spread) else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    try:
        print(compare(parser.parse_args().runs))
    except ValueError as error:
        sys.exit(f"compare: {error}")
