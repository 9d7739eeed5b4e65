"""Tables over several runs."""

import json
from pathlib import Path

import pytest

from models.report import COLUMNS
from scripts.compare import compare


def run(folder: Path, d_T: list[float], question: str = "what color is the sofa?") -> Path:
    folder.mkdir()
    rows = [
        {name: 0.5 for name, *_ in COLUMNS}
        | {"agent": "PACMAN+Q", "spawn": "T-10", "episode_id": str(n), "question": question, "d_T": value}
        for n, value in enumerate(d_T)
    ]
    rows += [dict.fromkeys([name for name, *_ in COLUMNS]) | {"agent": "majority", "spawn": None, "correct": 1.0}]
    rows[-1] |= {"episode_id": "0", "question": question, "rank": 1.0}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_cells_are_means_over_runs_with_the_deviation_between_them(tmp_path: Path) -> None:
    table = compare([run(tmp_path / "a", [1.0, 2.0]), run(tmp_path / "b", [2.0, 3.0]), run(tmp_path / "c", [0.0, 1.0])])
    pacman, majority = (line.strip("| ").split(" | ") for line in table.splitlines()[2:])
    assert pacman[:4] == ["PACMAN+Q", "T-10", "1.50 ± 1.00", "0.50"]
    assert majority == ["majority", "-", *["-"] * 9, "1.00", "100.0"]


def test_runs_of_other_questions_or_without_rows_are_refused(tmp_path: Path) -> None:
    first, other = run(tmp_path / "a", [1.0]), run(tmp_path / "b", [1.0], question="what color is the bed?")
    with pytest.raises(ValueError, match=r"b: expected the agents, spawns and questions of .*a, got others"):
        compare([first, other])
    with pytest.raises(ValueError, match=r"nothing: expected a run's folder"):
        compare([tmp_path / "nothing"])
