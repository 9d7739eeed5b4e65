"""eval.py plays a scripted agent alone, without any checkpoint."""

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from eqa.envs.actions import LETTERS
from eqa.eval import main, other_data
from eqa.models.evaluation.comparison import estimates, gather
from eqa.models.evaluation.runs import read_run

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    toy = f"hydra.searchpath=[file://{ROOT / 'tests' / 'helpers' / 'toy'}]"
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        main(compose("eval", [toy, "agent=frontier", "data=boxes", "scale=tiny", f"run_folder={folder}"]))
    return folder


def test_its_rows_have_walks_and_no_answers_and_tables_say_so(played: Path) -> None:
    rows = [json.loads(text) for text in (played / "metrics.jsonl").read_text().splitlines()]
    assert {row["agent"] for row in rows} == {"nearest frontier"} and all(len(row["poses"]) > 1 for row in rows)
    assert all(row[name] is None for row in rows for name in ("predicted", "correct", "rank"))
    line = next(text for text in (played / "table.md").read_text().splitlines() if "| T-10 |" in text)
    assert line.startswith("| nearest frontier | T-10 |") and line.endswith("| - | - |")
    record = json.loads((played / "run.json").read_text())
    assert record["name"] == "nearest frontier" and "checkpoint" not in record["data"]


def test_recorded_walks_and_answers_are_measured_as_ours_are(tmp_path: Path) -> None:
    """Walks of the shortest path, and straight ones: the distances left of each, and its answers."""
    toy = f"hydra.searchpath=[file://{ROOT / 'tests' / 'helpers' / 'toy'}]"
    words = [toy, "data=boxes", "scale=tiny", "split=test"]
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        source = instantiate(compose("eval", words).data)
        names = source.world.actions.names
        letters = dict(zip(LETTERS, names, strict=True))
        walks = [
            {"episode_id": one.episode_id, "actions": [letters[a] for a in one.walk][: 3 if n % 2 else None]}
            | {"answer": one.answer if n % 2 else "nothing"}
            for n, one in enumerate(source.demonstrations("test").episodes)
        ]
        file = tmp_path / "walks.jsonl"
        file.write_text("".join(json.dumps(walk) + "\n" for walk in walks))
        main(compose("eval", [*words, "agent=recorded", f"agent.walks={file}", f"run_folder={tmp_path / 'run'}"]))
    rows = {
        row["episode_id"]: row for row in map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
    }
    assert len(rows) == len(walks) and {row["spawn"] for row in rows.values()} == {"start"}
    for n, walk in enumerate(walks):
        row = rows[walk["episode_id"]]
        assert row["correct"] == n % 2 and row["predicted"] == walk["answer"]
        assert [names[a] for a in row["actions"]] == walk["actions"] + ["stop"] * (walk["actions"][-1] != "stop")
        assert (row["d_T"] == 0) == (n % 2 == 0)


def test_a_report_takes_such_a_run(played: Path) -> None:
    shown = estimates(gather([read_run(played)]))
    assert {entry["agent"] for entry in shown} == {"nearest frontier"}


def test_other_data_than_those_of_the_training_are_named_and_older_houses_are_the_paper_s() -> None:
    older, newer = {"data": {"seed": 0}}, {"data": {"seed": 0}, "env": {"style": "paper"}}
    everyday = {"data": {"seed": 1}, "env": {"style": "everyday"}}
    assert list(other_data(older, newer)) == []
    lines = ["trained with data.seed 0, played with 1", "trained with env.style paper, played with everyday"]
    assert list(other_data(older, everyday)) == list(other_data(newer, everyday)) == lines
