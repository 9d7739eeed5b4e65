"""Results table, intervals and learning curves from the rows of an evaluation.

A row is one question played by one agent from one spawn (`metrics.jsonl`); `models.evaluation.evaluate` describes it.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from rich import box
from rich.table import Table

from eqa.envs.files import atomic_write
from eqa.envs.metrics import bootstrap_interval

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# name in a row, heading, factor for display, decimals
NAVIGATION = (
    ("d_T", "d_T", 1, 2),
    ("d_delta", "d_Δ", 1, 2),
    ("d_min", "d_min", 1, 2),
    ("r_T", "%r_T", 100, 0),
    ("r_e", "%r_e", 100, 0),
    ("stop", "%stop", 100, 0),
    ("seen", "%see", 100, 0),
    ("success", "%succ", 100, 0),
    ("spl", "SPL", 1, 2),
    ("collisions", "coll", 1, 1),
)
ANSWER = (("rank", "rank", 1, 2), ("correct", "acc %", 100, 1))
COLUMNS = NAVIGATION + ANSWER
# CityEQA's, of questions whose source has a judge: QAA, NE, NE as the released code has it, and MTS.
CITY = (("qaa", "QAA", 1, 2), ("ne_m", "NE", 1, 1), ("ne_l1_m", "NE L1", 1, 1), ("num_steps", "MTS", 1, 1))
ON_SCREEN = tuple(column for column in COLUMNS if column[0] not in ("success", "collisions", "rank"))  # fits 80 columns
OFF_SCREEN = ("d_delta", "r_e", "ne_l1_m")  # left out where CityEQA's columns take their room


def columns_of(rows: Sequence[dict], columns: Sequence[tuple] = COLUMNS) -> tuple[tuple, ...]:
    """The columns of a table over `rows`: CityEQA's stand behind the others where a row has them."""
    return (*columns, *(column for column in CITY if any(row.get(column[0]) is not None for row in rows)))


def _shown(rows: Sequence[dict]) -> tuple[tuple, ...]:
    """The columns that fit a terminal with 80 columns and a name of 20 letters."""
    columns = columns_of(rows, ON_SCREEN)
    with_city = len(columns) > len(ON_SCREEN)
    return tuple(column for column in columns if not (with_city and column[0] in OFF_SCREEN))


def headings(rows: Sequence[dict]) -> list[str]:
    """The headings of `table_lines`."""
    return ["agent", "spawn", *(column[1] for column in columns_of(rows))]


def write_rows(path: Path, rows: Iterable[dict]) -> None:
    with atomic_write(path) as aside:
        aside.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(folder: Path) -> list[dict]:
    """The rows that a run has written; none if it plays no questions."""
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _agents(rows: Sequence[dict]) -> list[str]:
    return list(dict.fromkeys(row["agent"] for row in rows))


def values_of(rows: Sequence[dict], column: str, **where: object) -> np.ndarray:
    """A column of the rows that agree with `where`; rows without a value are left out."""
    chosen = (r.get(column) for r in rows if all(r[k] == v for k, v in where.items()))
    return np.array([v for v in chosen if v is not None], dtype=np.float64)


def table_lines(rows: Sequence[dict], columns: Sequence[tuple] | None = None) -> list[list[str]]:
    """One line for each agent and spawn: the means over its questions, of all `columns_of` the rows by default."""
    lines, columns = [], columns or columns_of(rows)
    for agent, spawn in dict.fromkeys((row["agent"], row["spawn"]) for row in rows):
        line = [agent, spawn or "-"]
        for name, _, factor, decimals in columns:
            values = values_of(rows, name, agent=agent, spawn=spawn)
            line.append(f"{factor * values.mean():.{decimals}f}" if len(values) else "-")
        lines.append(line)
    return lines


def results_table(rows: Sequence[dict], title: str) -> Table:
    """The paper's Table 1 over `rows`: one line for each agent and spawn, each cell a mean over the same questions."""
    table = Table(title=title, box=box.SIMPLE, padding=0, pad_edge=False)
    columns = _shown(rows)
    for heading in ["agent", "spawn", *(column[1] for column in columns)]:
        agent = heading == "agent"  # names wrap if there is no room, so that every number shows
        table.add_column(heading, justify="left" if agent else "right", no_wrap=not agent, overflow="fold")
    before = None
    for line in table_lines(rows, columns):
        if before not in (None, line[0]):
            table.add_section()
        table.add_row("" if line[0] == before else line[0], *line[1:])
        before = line[0]
    return table


def intervals(rows: Sequence[dict]) -> list[dict]:
    """Long form: agent, spawn, question type ("all" or one), metric, mean, 95 % interval, number of questions.

    Intervals draw whole houses, as those over several runs do (`models.evaluation.statistics`).
    """
    out = []
    for agent in _agents(rows):
        for spawn in dict.fromkeys(r["spawn"] for r in rows if r["agent"] == agent):
            here = [r for r in rows if r["agent"] == agent and r["spawn"] == spawn]
            for question_type in ["all", *sorted({r["question_type"] for r in here})]:
                subset = [r for r in here if question_type in ("all", r["question_type"])]
                for name in ("d_0", *(c[0] for c in columns_of(rows))):
                    valid = [r for r in subset if r.get(name) is not None]
                    if valid:
                        values, houses = values_of(valid, name), np.array([r["scene_id"] for r in valid])
                        low, high = bootstrap_interval(values, np.unique(houses, return_inverse=True)[1])
                        out.append(
                            {"agent": agent, "spawn": spawn, "question_type": question_type, "metric": name}
                            | {"mean": values.mean(), "low": low, "high": high, "questions": len(values)}
                        )
    return out


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""
    rule = ["---"] * len(headings)
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *lines))


def write_tables(folder: Path, rows: Sequence[dict], title: str) -> None:
    """Writes `table.md` (means, then answer accuracy by question type) and `table.csv` (long form with intervals)."""
    long = intervals(rows)
    types = sorted({r["question_type"] for r in rows})
    accuracy = {(r["agent"], r["spawn"], r["question_type"]): r for r in long if r["metric"] == "correct"}
    by_type = (
        [agent, spawn or "-"] + [_interval(accuracy.get((agent, spawn, kind))) for kind in ("all", *types)]
        for agent, spawn in dict.fromkeys((r["agent"], r["spawn"]) for r in long)
    )
    text = (
        f"# {title}\n\nMeans over the same questions in every line; distances in metres.\n\n"
        + markdown(headings(rows), table_lines(rows))
        + "\n\n## Answer accuracy in %, by question type, with 95 % intervals over houses\n\n"
        + markdown(["agent", "spawn", "all", *types], by_type)
        + "\n"
    )
    with atomic_write(folder / "table.md") as aside:
        aside.write_text(text)
    with atomic_write(folder / "table.csv") as aside, aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(long[0]))
        writer.writeheader()
        writer.writerows(long)


def _interval(entry: dict | None) -> str:
    if entry is None:
        return "-"
    return f"{100 * entry['mean']:.0f} [{100 * entry['low']:.0f}, {100 * entry['high']:.0f}] (n={entry['questions']})"


def logged(logs: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Content of a stage's CSV logs, in the order of writing: metric -> part (train, val) -> (finished epochs, value).

    `logs` has a folder version_N for each start of the stage.
    """
    entries = []
    for path in sorted(logs.glob("version_*/metrics.csv"), key=lambda p: int(p.parent.name.split("_")[1])):
        with path.open() as file:
            entries += list(csv.DictReader(file))
    series: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for entry in entries:
        for key, value in entry.items():
            if value and "/" in key and not key.endswith("_step"):
                part, name = key.removesuffix("_epoch").split("/", 1)
                finished = float(entry["epoch"]) + (entry["step"] != "0")
                series.setdefault(name, {}).setdefault(part, []).append((finished, float(value)))
    return series


def learning_curves(logs: Path, picture: Path) -> None:
    """Plots every metric of a stage's CSV logs over epochs: one panel a metric, with training and validation.

    There is no picture without any log.
    """
    series = logged(logs)
    if not series:
        return
    columns = min(len(series), 6)
    rows = -(-len(series) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 3.2 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(series) :]:
        axis.axis("off")
    for axis, (name, parts) in zip(axes.flat, sorted(series.items()), strict=False):
        for part, points in sorted(parts.items()):
            axis.plot(*zip(*points, strict=True), marker=".", label=part)
        axis.set(title=name.replace("_", " "), xlabel="finished epochs")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(picture, dpi=110)
    plt.close(figure)
