"""CityEQA's metrics stand in rows, tables and comparisons where a source has a judge, and nowhere else."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqa.data.source import Judge
from eqa.envs.episode import Entity
from eqa.models.agents.agent import Answer, EpisodeBatch
from eqa.models.agents.oracles import ForwardAgent, ShortestPathAgent
from eqa.models.evaluation.comparison import by_line, estimates, gather
from eqa.models.evaluation.evaluate import Evaluation
from eqa.models.evaluation.judges import ExactMatch
from eqa.models.evaluation.run_tables import columns_of, headings, results_table, table_lines, write_rows, write_tables
from eqa.models.evaluation.runs import keep, read_run
from tests.helpers.box_world import BoxSource

pytestmark = pytest.mark.usefixtures("single_thread")
CITY = ("qaa", "ne_m", "ne_l1_m", "num_steps")


@contextmanager
def of_boxes(judge: Judge | None) -> Iterator[BoxSource]:
    """The source of boxes whose targets have places, but for the last one, with a judge."""
    source = BoxSource()
    source.judge = judge
    box = Entity("object", "box", (1.0, 0.0, 3.0), (2.0, 2.0, 5.0), 1, True)
    source._demos.episodes[:] = [replace(e, touched=(box,)) for e in source._demos.episodes[:-1]] + [
        source._demos.episodes[-1]
    ]
    yield source


def played(judge: Judge | None) -> tuple[list[dict], BoxSource]:
    with of_boxes(judge) as source:
        evaluation = Evaluation(None, source, "test", extractor=source.encode)
        return evaluation.play({a.name: a for a in (ForwardAgent(), ShortestPathAgent())}, ("start", "T-10")), source


def test_errors_are_from_the_last_pose_to_the_middle_of_the_target_and_steps_are_counted() -> None:
    rows, source = played(ExactMatch())
    assert {row["spawn"] for row in rows} == {"start", "T-10"}
    last = source._demos.episodes[-1].episode_id
    for row in rows:
        assert row["qaa"] is None  # nobody answered
        assert row["num_steps"] == row["ep_len"] == len(row["actions"])
        if row["episode_id"] == last:
            assert row["ne_m"] is row["ne_l1_m"] is None
            continue
        x, y, z, _ = row["poses"][-1]
        assert row["ne_m"] == pytest.approx(float(np.linalg.norm([x - 1.5, y - 1.0, z - 4.0])), abs=1e-3)
        assert row["ne_l1_m"] == pytest.approx(abs(x - 1.5) + abs(z - 4.0), abs=1e-3)


def test_rows_without_a_judge_have_none_of_them() -> None:
    rows, _ = played(None)
    assert not set(CITY) & set(rows[0]) and columns_of(rows) == columns_of([])
    assert "QAA" not in headings(rows)


class SaysRed(ShortestPathAgent):
    def reset(self, batch: EpisodeBatch) -> None:
        super().reset(batch)
        self.num = len(batch.questions)

    def answer(self) -> list[Answer]:
        return [Answer("red")] * self.num


def test_answers_are_marked_by_the_judge_also_where_nobody_walked() -> None:
    with of_boxes(lambda question, truth, answer: 4 if answer == truth else 2) as source:
        evaluation = Evaluation(None, source, "test", extractor=source.encode)
        rows = evaluation.play({"says red": SaysRed()}, ("start",)) + evaluation.blind()
    assert {row["agent"] for row in rows} == {"says red", "majority", "question only"}
    assert all(row["qaa"] == (4 if row["correct"] else 2) for row in rows) and {row["qaa"] for row in rows} == {2, 4}


def test_tables_intervals_and_comparisons_have_columns_for_them(tmp_path: Path) -> None:
    rows, _ = played(ExactMatch())
    rows = [row | {"predicted": row["answer"], "correct": 1.0, "qaa": 5, "rank": 1.0} for row in rows]
    assert headings(rows)[-4:] == ["QAA", "NE", "NE L1", "MTS"]
    (line,) = (one for one in table_lines(rows) if one[:2] == ["shortest path", "start"])
    there = [row for row in rows if (row["agent"], row["spawn"]) == ("shortest path", "start")]
    assert line[-4] == "5.00" and line[-1] == f"{np.mean([row['num_steps'] for row in there]):.1f}"
    assert line[-3] == f"{np.mean([row['ne_m'] for row in there if row['ne_m'] is not None]):.1f}"
    write_rows(tmp_path / "metrics.jsonl", rows)
    write_tables(tmp_path, rows, "boxes")
    assert "| MTS |" in (tmp_path / "table.md").read_text()
    results_table(rows, "boxes")
    with (tmp_path / "table.csv").open() as file:
        long = [row for row in csv.DictReader(file) if row["metric"] == "ne_m" and row["question_type"] == "all"]
    assert len(long) == 4 and all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in long)
    kept = keep(tmp_path, tmp_path / "kept")
    for run in (read_run(tmp_path), read_run(kept)):
        found = by_line(estimates(gather([run]), resamples=50))["shortest path", "start"]
        assert found["qaa"]["mean"] == 5 and found["num_steps"]["mean"] == pytest.approx(float(line[-1]), abs=0.06)
