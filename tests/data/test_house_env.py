"""eqa/House-v1 without arguments of one's own: sensors, answers as actions, one agent or many, and a learner on top."""

import runpy
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from eqa.data import house_env
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import Episode, Spawn
from eqa.envs.eqa import RIGHT
from eqa.envs.house.simulator import HouseWorld
from tests.helpers.small_house import small_house

ROOT = Path(__file__).parents[2]
ENV = "eqa/House-v1"
HEADINGS_RAD = HOUSE_ACTIONS.headings_rad
GOAL = ((1.5, 0.0, 2.0, 0.0),)


def episode(number: int, question: str, answer: str) -> Episode:
    spawns = {"start": Spawn((6.0, 0.0, 2.5, float(HEADINGS_RAD[10]))), "T-10": Spawn((2.0, 0.0, 2.0, 0.0))}
    return Episode(
        f"e{number}", "small-0", question, answer, "color", "test", view_points=GOAL, goal_radius_m=0.25, spawns=spawns
    )


class TwoQuestions:
    """In place of generated data, whose questions take a minute to make."""

    world = HouseWorld(small_house)
    splits = ("train", "test")

    def episodes(self, split: str) -> list[Episode]:
        longer = episode(1, "what color is the sofa in the living room?", "white")
        return [episode(0, "what color is the sofa?", "red"), longer] if split == "train" else [longer]

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.episodes("train"))


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(house_env, "_source", lambda *_: TwoQuestions())
    yield
    house_env._prepared.cache_clear()
    house_env._longest.cache_clear()


@pytest.mark.parametrize("options", [{}, {"answer": True, "sensors": ("rgb", "depth", "class", "instance", "pose")}])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_s_checker_passes(options: dict) -> None:
    check_env(gym.make(ENV, image_size=(24, 24), **options).unwrapped)


def test_sensors_come_by_name_and_are_those_of_the_vector_environment_whatever_the_split() -> None:
    sensors = ("depth", "class", "instance", "pose")
    one = gym.make(ENV, sensors=sensors, image_size=(24, 32), split="test")
    many = gym.make_vec(ENV, num_envs=2, sensors=sensors, image_size=(24, 32))
    assert one.observation_space == many.single_observation_space and set(one.observation_space) == {
        *sensors,
        "question",
    }
    alone, _ = one.reset(seed=0)
    together, info = many.reset(options={"episodes": [1, 1]})
    assert all((alone[name] == together[name][1]).all() for name in alone)
    assert alone["depth"].shape == (24, 32) and alone["depth"].max() > 1 and (alone["pose"] == info["pose"][0]).all()
    with pytest.raises(ValueError, match="expected some of rgb.*got \\['smell'\\]"):
        gym.make(ENV, sensors=("smell",))


def test_an_answer_ends_the_episode_and_only_the_right_one_is_a_success() -> None:
    envs = gym.make_vec(ENV, num_envs=4, answer=True, image_size=(24, 24))
    assert envs.answers == ("red", "white") and envs.single_action_space.n == 6
    envs.reset(options={"episodes": [0, 0, 1, 1]})
    _, rewards, terminated, _, info = envs.step(np.array([4, 5, Action.STOP, Action.LEFT]))
    assert terminated.tolist() == [True, True, True, False]
    assert np.allclose(rewards, [RIGHT, 0, 0, 0])
    assert info["final_info"]["success"].tolist() == [True, False, False, False] and not info["success"].any()
    for wrong in ([6, 0, 0, 0], [-1, 0, 0, 0]):
        with pytest.raises(ValueError, match="from 0 to 5"):
            envs.step(np.array(wrong))


def test_without_answers_stop_is_a_success_at_the_goal_alone() -> None:
    env = gym.make(ENV, image_size=(24, 24), spawn="T-10")
    env.reset(seed=0)
    away = env.step(Action.STOP)[4]
    env.unwrapped.reset(options={"episode": 0})
    for action in [Action.LEFT] * 10 + [Action.FORWARD] * 2:
        info = env.unwrapped.step(action)[4]
    assert info["distance_m"] == 0 and not away["success"] and env.unwrapped.step(Action.STOP)[4]["success"]


def test_wrong_arguments_are_refused_with_what_is_known() -> None:
    with pytest.raises(ValueError, match="spawn: expected one of T-10, start, got 'T-11'"):
        gym.make(ENV, spawn="T-11")
    with pytest.raises(ValueError, match="options: expected 'episode' or nothing"):
        gym.make(ENV).reset(options={"house": 3})
    with pytest.raises(ValueError, match="scale: expected one of paper, small, tiny, got 'huge'"):
        house_env._sizes("huge")


def test_wrappers_of_gymnasium_run() -> None:
    flat = FlattenObservation(gym.make(ENV, image_size=(24, 24)))
    assert flat.reset(seed=0)[0].shape == flat.observation_space.shape
    counted = RecordEpisodeStatistics(gym.make_vec(ENV, num_envs=2, answer=True, image_size=(24, 24)))
    counted.reset(seed=0)
    assert counted.step(np.full(2, 4))[4]["episode"]["l"].tolist() == [1, 1]
    assert gym.make_vec(ENV, num_envs=2, vectorization_mode="sync", image_size=(24, 24)).reset(seed=0)


def test_importing_the_package_makes_the_environment_known_and_loads_none_of_it() -> None:
    said = "import sys, eqa, gymnasium; print(gymnasium.spec('eqa/House-v1').id, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["eqa/House-v1", "False"]


@pytest.mark.slow
@pytest.mark.usefixtures("single_thread")
def test_the_ppo_of_the_docs_learns_to_stop_and_answer(capsys: pytest.CaptureFixture) -> None:
    settings = {"num_envs": 8, "num_steps": 16, "total_steps": 8 * 16 * 25, "epochs": 4, "minibatches": 4, "seed": 0}
    rates = {"lr": 1e-3, "gamma": 0.9, "gae_lambda": 0.95, "clip": 0.2, "entropy": 0.01, "value": 0.5, "max_norm": 0.5}
    main = runpy.run_path(str(ROOT / "docs" / "ppo_example.py"))["main"]
    rewards = main(Namespace(**settings, **rates, scale="tiny", spawn="T-10"))
    assert np.mean(rewards[-3:]) > 3 * np.mean(rewards[:3])
    assert "right" in capsys.readouterr().out
