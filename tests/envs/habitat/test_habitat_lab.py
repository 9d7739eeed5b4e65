"""Our questions in habitat-lab: its data set class loads them, and its task EQA-v0 plays them.

python -m pytest -m habitat. Needs the interpreter HABITAT_PYTHON with habitat_sim and habitat (habitat-lab).
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from eqa.data.benchmarks.mp3d_eqa import read_mp3d_eqa, write_mp3d_eqa
from eqa.data.questions.generate import make_questions
from eqa.data.questions.spawns import add_spawns
from eqa.data.questions.view_points import view_points_of
from eqa.data.vocabulary import Vocabulary, tokenize
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Episode
from eqa.envs.habitat.export import write_house
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import generate_house
from eqa.eval import CONFIGS
from eqa.eval import main as evaluate
from tests.helpers import habitat_lab_player

PYTHON = os.environ.get("HABITAT_PYTHON")
SPLIT, QUESTIONS, HOUSES = "train", 24, 2
PLAYER = Path(habitat_lab_player.__file__)
HAS_IT = "import importlib.util, sys; sys.exit(importlib.util.find_spec('habitat') is None)"

pytestmark = [pytest.mark.habitat, pytest.mark.skipif(PYTHON is None, reason="HABITAT_PYTHON is not set")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that habitat-lab runs in, with exported houses."""
    if subprocess.run([PYTHON, "-c", HAS_IT], check=False).returncode:
        pytest.skip("the interpreter HABITAT_PYTHON does not have habitat-lab")
    return tmp_path_factory.mktemp("habitat-lab")


@pytest.fixture(scope="module")
def episodes(folder: Path) -> list[Episode]:
    """Questions about generated houses, which are exported and written as docs/question-formats.md says."""
    houses = [generate_house(seed=0, split=SPLIT, index=index, style="mixed") for index in range(HOUSES)]
    for house in houses:
        write_house(house, folder / "data/scene_datasets/eqa", load_catalog())
    made = make_questions(
        {SPLIT: houses},
        counts={SPLIT: QUESTIONS},
        seed=0,
        visible=view_points_of,
        add_spawns=add_spawns,
        balance="none",
    )
    asked = [episode for episode in made.episodes[SPLIT] if episode.walk]
    write_mp3d_eqa(stored(folder), asked, vocabulary=Vocabulary.of(asked))
    return asked


@pytest.fixture(scope="module")
def played(folder: Path, episodes: list[Episode]) -> list[dict]:
    command = [PYTHON, str(PLAYER), SPLIT, "saved.json.gz"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    report = json.loads(found.stdout.splitlines()[-1])
    assert report["task"] == "EQATask"
    rows = report["episodes"]
    print(
        f"habitat-lab {report['version']}: {len(rows)} questions, {sum(row['right'] for row in rows)} true answers and "
        f"{sum(row['wrong'] for row in rows)} wrong ones scored right; {sum(row['apart_m'] <= 0.01 for row in rows)} "
        f"walks end within 1 cm; distance_to_goal is finite in {sum(np.isfinite(row['end_m']) for row in rows)}"
    )
    return rows


@pytest.fixture
def measured(folder: Path, played: list[dict], monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Rows of eval.py of what was played there."""
    monkeypatch.setenv("EQA_DATA", str(folder / "eqa"))
    names, walks = HOUSE_ACTIONS.names, folder / "walks.jsonl"
    told = [{"episode_id": r["id"], "actions": [names[a] for a in r["taken"]], "answer": r["answer"]} for r in played]
    walks.write_text("".join(json.dumps(one) + "\n" for one in told))
    words = ["agent=recorded", f"agent.walks={walks}", "data=mp3d_eqa", f"data.path={stored(folder).parents[1]}"]
    words += ["env=house", "env.style=mixed", f"split={SPLIT}", f"run_folder={folder / 'run'}"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        evaluate(compose("eval", words))
    return [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]


def stored(folder: Path) -> Path:
    return folder / "data/datasets/eqa/ours" / SPLIT / f"{SPLIT}.json.gz"


def test_it_asks_our_questions_and_scores_answers_as_we_do(episodes: list[Episode], played: list[dict]) -> None:
    assert len(episodes) >= QUESTIONS / 2
    assert [row["id"] for row in played] == [episode.episode_id for episode in episodes]
    assert [row["words"] for row in played] == [tokenize(episode.question) for episode in episodes]
    assert [row["answer"] for row in played] == [episode.answer for episode in episodes]
    assert [row["right"] for row in played] == [1] * len(episodes)
    assert [row["wrong"] for row in played] == [0] * len(episodes)


def test_most_stored_walks_end_where_ours_do(played: list[dict]) -> None:
    """The others meet an obstacle that stands a little further out in habitat-sim's navmesh."""
    apart = np.array([row["apart_m"] for row in played])
    assert np.mean(apart <= 0.01) >= 0.8
    assert all(row["collisions"] for row in played if row["apart_m"] > 0.01)


def test_walks_lead_towards_goals(played: list[dict]) -> None:
    start, end = (np.array([row[name] for row in played]) for name in ("start_m", "end_m"))
    assert np.isfinite(start).all() and np.isfinite(end).all()
    assert np.median(end) < 0.5 * np.median(start)


def test_what_it_saves_is_read_as_the_same_episodes(folder: Path, episodes: list[Episode], played: list[dict]) -> None:
    saved = read_mp3d_eqa(folder / "saved.json.gz")
    assert len(saved) == len(played) and saved == read_mp3d_eqa(stored(folder))
    assert [episode.question for episode in saved] == [episode.question for episode in episodes]


def test_what_was_played_there_is_measured_as_our_agents_are(played: list[dict], measured: list[dict]) -> None:
    rows = {row["episode_id"]: row for row in measured}
    assert len(rows) == len(played) and {row["agent"] for row in measured} == {"recorded"}
    for one in played:
        row = rows[one["id"]]
        assert (row["actions"], row["predicted"], row["correct"], row["d_T"]) == (one["taken"], one["answer"], 1, 0)
