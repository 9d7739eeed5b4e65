"""The sentences at the end of a run say what its rows say."""

from pathlib import Path

import pytest

from eqa.data.demonstrations.spawn_settings import WITH_HISTORY
from eqa.models.evaluation.summary import summary

ANSWERS = ("red", "blue")


def row(agent: str, spawn: str | None, n: int, correct: float, end_m: float | None = None) -> dict:
    """The n-th of 40 questions, in ten houses; two strings, each with both answers as often."""
    asked = {"question": f"what color is thing {n % 2}?", "question_type": "color", "answer": ANSWERS[n // 2 % 2]}
    walked = {"d_0": 4.0, "d_T": end_m, "scene_id": f"house-{n % 10}"}
    return {"agent": agent, "spawn": spawn, "episode_id": str(n), "correct": correct, **asked, **walked}


@pytest.fixture
def rows() -> list[dict]:
    """The agent is always right from T-10, half of the time from T-30 as the question alone, and never from T-50."""
    right = {"T-10": lambda n: 1.0, "T-30": lambda n: float(n % 2), "T-50": lambda n: 0.0}
    found = [row("PACMAN+Q", spawn, n, right[spawn](n), 1.0) for spawn in WITH_HISTORY for n in range(40)]
    found += [row("forward only", spawn, n, 0.0, 3.0) for spawn in WITH_HISTORY for n in range(40)]
    found += [row("shortest path", spawn, n, 1.0, 0.0) for spawn in WITH_HISTORY for n in range(40)]
    return found + [row("question only", None, n, float(n % 2)) for n in range(40)]


def test_each_figure_stands_beside_what_it_is_held_against(rows: list[dict]) -> None:
    walking, answering, beside, look, then = summary(rows, "PACMAN+Q", Path("runs/il"))
    assert "ends 1.00 (1.00 to 1.00), 1.00 (1.00 to 1.00), 1.00 (1.00 to 1.00) m" in walking
    assert "straight on ends 3.00 / 3.00 / 3.00 m from it, the shortest path 0.00 / 0.00 / 0.00 m" in walking
    assert answering.startswith("Answering: 100 (100 to 100), 50 (") and "the shortest path's end 100 %" in answering
    assert "chance is 50 %" in answering
    assert "above the question alone from T-10 (+50 points," in beside
    assert "below the question alone from T-50 (-50 points," in beside
    assert "not shown to differ from the question alone from T-30 (+0 points, 0 to 0)" in beside
    assert "runs/il/table.md" in look
    assert then == "Type next: python train.py +experiment=rl_finetune, or python scripts/play.py --run runs/il"


def test_the_next_command_repeats_the_words_of_the_world(rows: list[dict]) -> None:
    *_, then = summary(rows, "PACMAN+Q", Path("runs/city"), words=["env=city", "env.actions.names=[forward, stop]"])
    assert "rl_finetune env=city 'env.actions.names=[forward, stop]', or python" in then


def test_chance_is_left_out_where_it_is_not_defined(rows: list[dict]) -> None:
    """A string has one answer only, or one of them more often."""
    once = [{**r, "question": f"what color is thing {r['episode_id']}?"} for r in rows]
    more = [{**r, "answer": "red"} if r["episode_id"] == "2" else r for r in rows]
    for changed in (once, more):
        assert "chance" not in summary(changed, "PACMAN+Q", Path("runs/il"))[1]


def test_what_looking_round_brings_stands_beside_it_where_it_was_played(rows: list[dict]) -> None:
    assert "looks round" not in summary(rows, "PACMAN+Q", Path("runs/il"))[1]
    rows += [row("PACMAN+Q, looks round", s, n, float(n % 4 > 0), 1.0) for s in WITH_HISTORY for n in range(40)]
    answering = summary(rows, "PACMAN+Q", Path("runs/il"))[1]
    assert "are right; 75 / 75 / 75 % if it looks round before it stops. The question alone" in answering
