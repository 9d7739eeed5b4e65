"""The short page of results: several spawns in a cell, claims apart from hints, every run with its command."""

import json
from pathlib import Path

import pytest

from eqa.models.evaluation.comparison import default_pairs, differences, estimates, gather
from eqa.models.evaluation.results_page import results_page
from eqa.models.evaluation.runs import read_runs
from tests.models.evaluation.test_comparison import rows_of, run

SPAWNS = ("T-10", "T-30", "T-50", "random")


def page_of(folders: list[Path]) -> str:
    runs = read_runs(folders)
    lines = gather(runs)
    found = differences(lines, default_pairs(lines.agents, lines.relations), resamples=50)
    return results_page(runs, lines, estimates(lines, resamples=50), found, command="python report.py runs/* --page P")


def part(page: str, title: str) -> str:
    return page.split(f"## {title}")[1].split("\n## ")[0]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    others = rows_of("forward only", d_T=(3.0, 3.0, 4.0, 5.0), spawns=SPAWNS) + rows_of("question only", spawns=[None])
    made = [
        run(
            tmp_path / f"il_{seed}",
            rows_of("PACMAN+Q", d_T=(1.0, 2.0, 1.0, 0.5 + seed / 10), spawns=SPAWNS) + others,
            seed=seed,
        )
        for seed in range(3)
    ]
    return [*made, run(tmp_path / "pacman", rows_of("PACMAN", spawns=SPAWNS), row_name="PACMAN")]


def test_a_line_has_its_spawns_side_by_side_and_its_seeds_beside_its_name(folders: list[Path]) -> None:
    known = part(page_of(folders), "With the walk before the spawn")
    assert "T-10 / T-30 / T-50: 4 / 4 / 4 questions in 2 houses" in known
    assert "| PACMAN+Q (3 seeds) | 1.15 ± 0.03 / 1.15 ± 0.03 / 1.15 ± 0.03 |" in known
    assert "| forward only (3 seeds) | 3.75 / 3.75 / 3.75 |" in known
    assert "| question only (3 seeds) | - / - / - |" in known


def test_what_three_seeds_show_stands_apart_from_what_one_hints_at(folders: list[Path]) -> None:
    page = page_of(folders)
    shown, hinted = part(page, "Differences over 3 seeds"), part(page, "Differences over fewer seeds")
    assert "| PACMAN+Q | forward only | T-10 | **-2.60** (" in shown and "PACMAN+Q | PACMAN |" not in shown
    assert "| PACMAN+Q | PACMAN | " in hinted and "**" not in hinted and "forward only" not in hinted


def test_every_run_stands_on_the_page_with_what_repeats_it(folders: list[Path]) -> None:
    runs = part(page_of(folders), "Runs")
    assert all(f"| {folder} |" in runs.replace("\\_", "_") for folder in folders)
    assert runs.count(json.loads((folders[0] / "run.json").read_text())["command"]) == len(folders)


def test_prose_of_the_page_is_narrow(folders: list[Path]) -> None:
    assert all(len(line) <= 120 for line in page_of(folders).splitlines() if not line.startswith("|"))
