"""`summary`: what a run learned, in five sentences for its reader, each with what to hold it against.

Intervals are 95 %, over questions of one training, and draw whole scenes; they say nothing about another training.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from eqa.data.demonstrations.spawn_settings import HOUSE_SPAWNS
from eqa.data.questions.counts import Asked
from eqa.envs.metrics import bootstrap_interval
from eqa.models.agents.looking_round import looks_round
from eqa.models.evaluation.blind import is_even
from eqa.models.evaluation.run_tables import values_of

STRAIGHT, SHORTEST, ALONE = "forward only", "shortest path", "question only"


def summary(
    rows: Sequence[dict], agent: str, folder: Path, main: Sequence[str] = HOUSE_SPAWNS.main, words: Sequence[str] = ()
) -> list[str]:
    """Five sentences on the agent's line among all lines of the results table, from the `main` spawns.

    `words`: those of the command line that the next command repeats, as of another world.
    """
    spawns = [s for s in main if any(row["agent"] == agent and row["spawn"] == s for row in rows)]
    finetune = shlex.join(["python", "train.py", "+experiment=rl_finetune", *words])
    return [
        _walking(rows, agent, spawns),
        _answering(rows, agent, spawns),
        _beside_the_question(rows, agent, spawns),
        f"Look at {folder}/plans and {folder}/films; every line and number is in {folder}/table.md.",
        f"Type next: {finetune}, or python scripts/play.py --run {folder}",
    ]


def _walking(rows: Sequence[dict], agent: str, spawns: Sequence[str]) -> str:
    far = _each(_mean(rows, agent, s, "d_0") for s in spawns)
    ends = ", ".join(_with_interval(rows, agent, s, "d_T") for s in spawns)
    straight, best = (_each(_mean(rows, line, s, "d_T") for s in spawns) for line in (STRAIGHT, SHORTEST))
    return (
        f"Walking: put {far} m from the target ({', '.join(spawns)}), {agent} ends {ends} m from it. Walking straight "
        f"on ends {straight} m from it, the shortest path {best} m."
    )


def _answering(rows: Sequence[dict], agent: str, spawns: Sequence[str]) -> str:
    right = ", ".join(_with_interval(rows, agent, s, "correct", 100, 0) for s in spawns)
    alone = _with_interval(rows, ALONE, None, "correct", 100, 0)
    best = _each((_mean(rows, SHORTEST, s, "correct") for s in spawns[:1]), 100, 0)
    chance = _chance(rows)
    guessed = f"The question alone gives {alone} %" + ("" if chance is None else f" (chance is {100 * chance:.0f} %)")
    looks, turning = looks_round(agent), ""
    if _rows(rows, looks, spawns[0]):
        turning = (
            f"; {_each((_mean(rows, looks, s, 'correct') for s in spawns), 100, 0)} % if it looks round before it stops"
        )
    return f"Answering: {right} % of its answers are right{turning}. {guessed}, the shortest path's end {best} %."


def _beside_the_question(rows: Sequence[dict], agent: str, spawns: Sequence[str]) -> str:
    """The paired difference in right answers from the question-only line."""
    alone = {row["episode_id"]: row["correct"] for row in rows if row["agent"] == ALONE}
    found: dict[str, list[str]] = {"above": [], "below": [], "not shown to differ from": []}
    for spawn in spawns:
        own = _rows(rows, agent, spawn)
        less = np.array([row["correct"] - alone[row["episode_id"]] for row in own])
        low, high = bootstrap_interval(less, _scenes(own))
        word = "above" if low > 0 else "below" if high < 0 else "not shown to differ from"
        found[word].append(f"{spawn} ({100 * less.mean():+.0f} points, {100 * low:.0f} to {100 * high:.0f})")
    parts = [f"{word} the question alone from {', '.join(where)}" for word, where in found.items() if where]
    return (
        f"So its eyes count: its answers are {'; '.join(parts)}."
        if found["above"]
        else f"Its answers are {'; '.join(parts)}."
    )


def _chance(rows: Sequence[dict]) -> float | None:
    """The mean of 1/k over questions with k different answers; None for a set that is not paired."""
    asked: Asked = {}
    for row in rows:
        if row["agent"] == ALONE:
            asked.setdefault((row["question_type"], row["question"]), Counter())[row["answer"]] += 1
    if not asked or not is_even(asked) or min(map(len, asked.values())) < 2:
        return None
    return sum(answers.total() / len(answers) for answers in asked.values()) / sum(a.total() for a in asked.values())


def _rows(rows: Sequence[dict], agent: str, spawn: str | None) -> list[dict]:
    return [row for row in rows if row["agent"] == agent and row["spawn"] == spawn]


def _scenes(rows: Sequence[dict]) -> np.ndarray:
    return np.unique([row["scene_id"] for row in rows], return_inverse=True)[1]


def _mean(rows: Sequence[dict], agent: str, spawn: str | None, name: str) -> float:
    return float(values_of(rows, name, agent=agent, spawn=spawn).mean())


def _with_interval(
    rows: Sequence[dict], agent: str, spawn: str | None, name: str, factor: float = 1, decimals: int = 2
) -> str:
    values = factor * values_of(rows, name, agent=agent, spawn=spawn)
    low, high = bootstrap_interval(values, _scenes(_rows(rows, agent, spawn)))
    return f"{values.mean():.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def _each(values: Iterable[float], factor: float = 1, decimals: int = 2) -> str:
    return " / ".join(f"{factor * value:.{decimals}f}" for value in values)
