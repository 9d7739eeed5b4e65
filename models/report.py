"""Turns the rows of an evaluation into what a person looks at: the results table, its intervals, learning curves.

A row is one question played by one agent from one spawn (`metrics.jsonl`); `models.evaluation` says what it holds.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from rich.table import Table

from envs.files import written_aside
from envs.metrics import bootstrap_interval

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# name in a row, heading, factor for display, decimals
NAVIGATION = (
    ("d_T", "d_T (m)", 1, 2),
    ("d_delta", "d_Δ (m)", 1, 2),
    ("d_min", "d_min (m)", 1, 2),
    ("r_T", "%r_T", 100, 0),
    ("r_e", "%r_e", 100, 0),
    ("stop", "%stop", 100, 0),
)
ANSWER = (("rank", "mean rank", 1, 2), ("correct", "accuracy %", 100, 1))
COLUMNS = NAVIGATION + ANSWER


def write_rows(path: Path, rows: Iterable[dict]) -> None:
    with written_aside(path) as aside:
        aside.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _agents(rows: Sequence[dict]) -> list[str]:
    return list(dict.fromkeys(row["agent"] for row in rows))


def _spawns(rows: Sequence[dict]) -> list[int]:
    return sorted({row["spawn"] for row in rows if row["spawn"] is not None})


def _values(rows: Sequence[dict], column: str, **where: object) -> np.ndarray:
    chosen = (r[column] for r in rows if all(r[k] == v for k, v in where.items()))
    return np.array([v for v in chosen if v is not None], dtype=np.float64)


def _cell(rows: Sequence[dict], agent: str, spawns: Sequence[int], column: tuple) -> str:
    name, _, factor, decimals = column
    of_agent = [r for r in rows if r["agent"] == agent]
    settings = spawns if any(r["spawn"] is not None for r in of_agent) else [None]
    means = [_values(of_agent, name, spawn=spawn) for spawn in settings]
    return " / ".join(f"{factor * m.mean():.{decimals}f}" if len(m) else "-" for m in means)


def results_table(rows: Sequence[dict], title: str) -> Table:
    """The paper's Table 1 over `rows`: one line an agent, each cell a mean at T-10 / T-30 / T-50."""
    spawns = _spawns(rows)
    table = Table(title=title, caption="cells: " + " / ".join(f"T-{s}" for s in spawns))
    table.add_column("agent", no_wrap=True)
    for _, heading, _, _ in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for agent in _agents(rows):
        table.add_row(agent, *(_cell(rows, agent, spawns, column) for column in COLUMNS))
    return table


def intervals(rows: Sequence[dict]) -> list[dict]:
    """Long form: agent, spawn, question type ("all" or one), metric, mean, 95 % bootstrap interval, number of questions."""
    out = []
    for agent in _agents(rows):
        for spawn in dict.fromkeys(r["spawn"] for r in rows if r["agent"] == agent):
            here = [r for r in rows if r["agent"] == agent and r["spawn"] == spawn]
            for question_type in ["all", *sorted({r["question_type"] for r in here})]:
                subset = [r for r in here if question_type in ("all", r["question_type"])]
                for name in ("d_0", *(c[0] for c in COLUMNS)):
                    values = _values(subset, name)
                    if len(values):
                        low, high = bootstrap_interval(values)
                        out.append(
                            {"agent": agent, "spawn": spawn, "question_type": question_type, "metric": name}
                            | {"mean": values.mean(), "low": low, "high": high, "questions": len(values)}
                        )
    return out


def _markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(headings)
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *lines))


def write_tables(folder: Path, rows: Sequence[dict], title: str) -> None:
    """Writes `table.md` (means, then answer accuracy by question type) and `table.csv` (long form with intervals)."""
    spawns, long = _spawns(rows), intervals(rows)
    means = ([a, *(_cell(rows, a, spawns, c) for c in COLUMNS)] for a in _agents(rows))
    types = sorted({r["question_type"] for r in rows})
    accuracy = {(r["agent"], r["spawn"], r["question_type"]): r for r in long if r["metric"] == "correct"}
    by_type = (
        [agent, "-" if spawn is None else f"T-{spawn}"]
        + [_interval(accuracy.get((agent, spawn, kind))) for kind in ("all", *types)]
        for agent, spawn in dict.fromkeys((r["agent"], r["spawn"]) for r in long)
    )
    text = (
        f"# {title}\n\nMeans at {' / '.join(f'T-{s}' for s in spawns)}, over the same questions in every line.\n\n"
        + _markdown(["agent", *(c[1] for c in COLUMNS)], means)
        + "\n\n## Answer accuracy in %, by question type, with 95 % bootstrap intervals over questions\n\n"
        + _markdown(["agent", "spawn", "all", *types], by_type)
        + "\n"
    )
    with written_aside(folder / "table.md") as aside:
        aside.write_text(text)
    with written_aside(folder / "table.csv") as aside, aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(long[0]))
        writer.writeheader()
        writer.writerows(long)


def _interval(entry: dict | None) -> str:
    if entry is None:
        return "-"
    return f"{100 * entry['mean']:.0f} [{100 * entry['low']:.0f}, {100 * entry['high']:.0f}] (n={entry['questions']})"


def learning_curves(metrics_csv: Path, picture: Path) -> None:
    """Plots every metric of a CSV log over epochs: one panel a metric, training and validation in the same panel."""
    with metrics_csv.open() as file:
        entries = list(csv.DictReader(file))
    series: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for entry in entries:
        for key, value in entry.items():
            if value and "/" in key and not key.endswith("_step"):
                part, name = key.removesuffix("_epoch").split("/", 1)
                series.setdefault(name, {}).setdefault(part, []).append((float(entry["epoch"]), float(value)))
    if not series:
        return
    figure, axes = plt.subplots(1, len(series), figsize=(4 * len(series), 3.2), squeeze=False, layout="constrained")
    for axis, (name, parts) in zip(axes[0], sorted(series.items()), strict=True):
        for part, points in sorted(parts.items()):
            axis.plot(*zip(*points, strict=True), marker=".", label=part)
        axis.set(title=name.replace("_", " "), xlabel="epoch")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(picture, dpi=110)
    plt.close(figure)
