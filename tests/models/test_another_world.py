"""A world that is no house, with moves of its own, trains by imitation, DAgger and REINFORCE, and plays every line of the table."""

import json
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from eqa import train
from eqa.data.source import Source
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.simulator import Simulator, World
from eqa.models.agents.neural import NeuralAgent
from tests.helpers.box_world import ACTIONS, SCENES, UP, VIEW_M, BoxSource
from tests.helpers.toy_walks import CONFIGS

pytestmark = pytest.mark.usefixtures("single_thread")

TOY = Path(__file__).parents[1] / "helpers" / "toy"
NETWORK = [
    f"++stages.navigator.model.options.{name}={size}"
    for name, size in (("planner_hidden", 32), ("controller_hidden", 64), ("image_size", 64), ("question_hidden", 16))
]
LINES = {
    "random walk",
    "forward only",
    "nearest frontier",
    "PACMAN+Q",
    "shortest path",
    "best view",
    "majority",
    "question only",
}


def fitted(folder: Path, *words: str) -> list[dict]:
    """The rows of a run that train.py makes of an experiment in this world."""
    fixed = [f"hydra.searchpath=[file://{TOY}]", "data=boxes", "scale=tiny", "trainer.accelerator=cpu", "logger=off"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose("train", overrides=[*fixed, f"run_folder={folder}", *words])
    folder.mkdir(parents=True)
    train.run(cfg, folder)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def mean(rows: list[dict], agent: str, spawn: str, metric: str) -> float:
    return float(np.mean([row[metric] for row in rows if (row["agent"], row["spawn"]) == (agent, spawn)]))


@pytest.fixture(scope="module")
def imitated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    folder = tmp_path_factory.mktemp("boxes") / "il"
    epochs = ["stages.navigator.max_epochs=250", "stages.answerer.max_epochs=200"]
    return folder, fitted(
        folder,
        "+experiment=il_paper",
        "name=PACMAN+Q",
        "variant_of=null",
        *NETWORK,
        *epochs,
        "stages.navigator.data.curriculum_step=50",
        "stages.navigator.model.lr=5e-3",
    )


def test_it_offers_what_worlds_offer() -> None:
    source = BoxSource()
    assert isinstance(source, Source) and isinstance(source.world, World)
    assert isinstance(source.world.open(SCENES, num_agents=2), Simulator)


def test_every_line_of_the_table_is_played_and_imitation_learns_to_walk_and_to_answer(imitated: tuple) -> None:
    folder, rows = imitated
    assert {row["agent"] for row in rows} == LINES
    for name in ("shortest path", "best view"):
        assert mean(rows, name, "T-10", "d_T") < 0.05 and mean(rows, name, "T-10", "correct") == 1
    assert mean(rows, "PACMAN+Q", "T-10", "d_T") < 0.5 < mean(rows, "random walk", "random", "d_T")
    assert mean(rows, "PACMAN+Q", "T-10", "stop") == 1 and mean(rows, "PACMAN+Q", "T-10", "r_T") == 1
    agent = NeuralAgent.load(folder / "agent.ckpt")
    assert agent.name == "PACMAN+Q" and agent.navigator.planner_head.out_features == len(ACTIONS) == 6
    own = [row for row in rows if row["agent"] == "PACMAN+Q" and row["spawn"] == "T-10"]
    assert all(UP in row["actions"] for row in own) and all(row["poses"][-1][1] == VIEW_M for row in own)
    longest = max(len(row["actions"]) for row in rows if row["actions"])
    assert longest == ACTIONS.max_steps < HOUSE_ACTIONS.max_steps
    assert (folder / "table.md").exists()


def test_an_agent_of_this_world_is_refused_in_houses(imitated: tuple) -> None:
    navigator = NeuralAgent.load(imitated[0] / "agent.ckpt").navigator
    with pytest.raises(ValueError, match="expected a world of 6 actions, got one of 4: forward, left, right, stop"):
        navigator.check_actions(HOUSE_ACTIONS)


def test_dagger_and_reinforce_go_on_from_there(imitated: tuple, tmp_path: Path) -> None:
    start = f"checkpoint={imitated[0] / 'agent.ckpt'}"
    helped = fitted(
        tmp_path / "dagger", "+experiment=pacman_q_dagger", start, *NETWORK, "stages.navigator.max_epochs=3"
    )
    assert {(row["agent"], row["variant_of"]) for row in helped} == {("PACMAN+Q, DAgger", "PACMAN+Q")}
    assert len(list((tmp_path / "dagger" / "navigator" / "own_walks").glob("*.h5"))) == 2
    walked = fitted(tmp_path / "rl", "+experiment=ppo", start, "stages.navigator.model.lr=1e-3")
    assert {("PACMAN+Q", None), ("PACMAN-RL+Q, PPO", "PACMAN+Q")} <= {
        (row["agent"], row["finetuned_from"]) for row in walked
    }
    assert list((tmp_path / "rl" / "navigator").rglob("*.png"))
