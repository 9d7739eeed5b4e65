"""The comparison of two worlds: only questions that both runs have count."""

import json
from pathlib import Path

import pytest

from eqa.scripts.compare_worlds import compared


def run(folder: Path, *rows: tuple) -> Path:
    folder.mkdir()
    names = ("agent", "spawn", "episode_id", "question", "d_T", "correct", "actions")
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    )
    return folder


def test_means_are_over_the_questions_that_both_have(tmp_path: Path) -> None:
    first = run(
        tmp_path / "first",
        ("PACMAN", "T-10", "a", "what?", 1.0, 1, [0, 3]),
        ("PACMAN", "T-10", "b", "what?", 2.0, 0, [0, 3]),
        ("PACMAN", "T-10", "c", "where?", 9.0, 0, [3]),
        ("majority", None, "a", "what?", None, 1, None),
    )
    second = run(
        tmp_path / "second",
        ("PACMAN", "T-10", "b", "what?", 4.0, 1, [0, 3]),
        ("PACMAN", "T-10", "a", "what?", 2.0, 1, [1, 3]),
        ("PACMAN", "T-10", "c", "what?", 0.0, 1, [3]),  # another question under the same id
        ("PACMAN", "T-30", "a", "what?", 0.0, 1, [3]),
    )
    cells = [list(column.cells) for column in compared(first, second).columns]
    assert cells == [["PACMAN"], ["T-10"], ["2"], ["1.50 / 3.00"], ["50 / 100"], ["50"]]


def test_runs_that_share_nothing_are_refused(tmp_path: Path) -> None:
    first, second = (
        run(tmp_path / name, ("PACMAN", "T-10", name, "what?", 1.0, 1, [3])) for name in ("first", "second")
    )
    with pytest.raises(ValueError, match="share none"):
        compared(first, second)
