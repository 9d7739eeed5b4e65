"""The task as Gymnasium expects it: spaces, seeds, ends, autoreset, and its checker through an adapter for one agent."""

import gymnasium as gym
import jaxtyping
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import Episode, Spawn
from eqa.envs.eqa import EQAVectorEnv
from eqa.envs.house.simulator import ENV_ID
from eqa.envs.rendering.camera import Camera
from tests.helpers.small_house import small_house

WORDS = ["<pad>", "what", "color", "is", "the", "sofa", "refrigerator", "in", "kitchen"]
HEADINGS_RAD = HOUSE_ACTIONS.headings_rad
KITCHEN = (((5.0, 0.0, 2.0, float(HEADINGS_RAD[35])),), 0.25)
LIVING = (((1.5, 0.0, 2.0, 0.0),), 0.25)


def encode(question):
    return [WORDS.index(word) for word in question.split()]


def episode(number, question, goal, start, **changes):
    fields = {"scene_id": "small-0", "answer": "white", "question_type": "color", "source": "test"}
    fields |= {"view_points": goal[0], "goal_radius_m": goal[1], "spawns": start and {"start": Spawn(start)}} | changes
    return Episode(f"e{number}", question=question, **fields)


def episodes():
    return [
        episode(0, "what color is the refrigerator", KITCHEN, (2.0, 0.0, 2.0, float(HEADINGS_RAD[30]))),
        episode(1, "what color is the sofa", LIVING, (6.0, 0.0, 2.5, float(HEADINGS_RAD[10]))),
        episode(2, "what color is the refrigerator in the kitchen", KITCHEN, (3.0, 0.0, 1.5, 0.0)),
        episode(3, "what color is the sofa", LIVING, (3.5, 0.0, 3.5, float(HEADINGS_RAD[5]))),
    ]


def make(num_envs, **options):
    settings = {"houses": [small_house()], "episodes": episodes(), "encode": encode, "num_words": len(WORDS)}
    settings |= {"camera": Camera(height_px=24, width_px=24)} | options
    return gym.make_vec(ENV_ID, num_envs=num_envs, **settings)


class OneAgent(gym.Env):
    """A single agent as a plain environment, without autoreset as far as its caller can tell."""

    def __init__(self):
        self.metadata = {"render_modes": ["rgb_array"]}
        self.render_mode = "rgb_array"
        self.envs = make(1)
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observation, _info = self.envs.reset(seed=seed, options=options)
        return {name: value[0] for name, value in observation.items()}, {}

    def step(self, action):
        observation, reward, terminated, truncated, info = self.envs.step(np.array([action]))
        last = info["final_obs"][0] if "final_obs" in info else {name: value[0] for name, value in observation.items()}
        return last, float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self):
        return self.envs.render()[0]


@pytest.fixture(scope="module")
def envs():
    return make(3)


def test_make_vec_gives_an_environment_whose_observations_are_in_its_spaces(envs):
    assert isinstance(envs, EQAVectorEnv) and envs.num_envs == 3
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observation, _ = envs.reset(seed=0)
    assert observation["rgb"].shape == (3, 24, 24, 3) and observation["question"].shape == (3, 8)
    assert envs.observation_space.contains(observation)
    envs.action_space.seed(0)
    for _ in range(120):
        observation, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(observation)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        for name in ("distance_m", "collided", "region", "pose", "episode_index"):
            assert len(info[name]) == 3 and info[f"_{name}"].all()
        for n in np.flatnonzero(terminated | truncated):
            assert envs.single_observation_space.contains(info["final_obs"][n])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_own_checker_passes_for_one_agent():
    check_env(OneAgent(), skip_render_check=True)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(envs):
    def run(seed):
        observation, info = envs.reset(seed=seed)
        record = [observation["rgb"], observation["question"], info["episode_index"]]
        actions = np.random.default_rng(0).integers(4, size=(60, 3))
        for row in actions:
            observation, rewards, terminated, truncated, info = envs.step(row)
            record += [
                observation["rgb"],
                observation["question"],
                rewards,
                terminated,
                truncated,
                info["pose"],
                info["episode_index"],
            ]
        return record

    first = run(0)
    assert all((a == b).all() for a, b in zip(first, run(0)))
    assert any((a != b).any() for a, b in zip(first, run(1)))


def test_stop_terminates_and_the_hundredth_action_truncates(envs):
    envs.reset(options={"episodes": [0, 1, 2]})
    for t in range(1, 101):
        actions = np.full(3, Action.LEFT)
        actions[1] = Action.STOP if t == 5 else Action.LEFT
        _, _, terminated, truncated, info = envs.step(actions)
        assert terminated.tolist() == [False, t == 5, False]
        assert truncated.tolist() == [t == 100, False, t == 100]
    assert info["_final_info"].tolist() == [True, False, True]


def test_stop_as_the_last_action_terminates_and_does_not_truncate():
    short = make(1, max_steps=3)
    short.reset(options={"episodes": [0]})
    for action in (Action.LEFT, Action.LEFT, Action.STOP):
        _, _, terminated, truncated, _ = short.step(np.array([action]))
    assert terminated.all() and not truncated.any()


def test_an_end_shows_the_next_start_at_once_and_keeps_the_last_frame(envs):
    envs.reset(seed=3, options={"episodes": [0, 0, 0]})
    for _ in range(3):
        envs.step(np.zeros(3, np.int64))
    before, distance_m = envs.simulator.observe()["rgb"].numpy(), envs.simulator.distance_m[0]
    observation, _, _, _, info = envs.step(np.array([Action.STOP, Action.LEFT, Action.LEFT]))
    assert (info["final_obs"][0]["rgb"] == before[0]).all() and info["final_obs"][1] is None
    assert info["final_info"]["distance_m"][0] == distance_m and info["final_info"]["episode_index"][0] == 0
    following = envs.episodes[info["episode_index"][0]]
    assert info["pose"][0].tolist() == list(following.start)
    assert observation["question"][0].tolist()[: len(encode(following.question))] == encode(following.question)
    assert (observation["rgb"] == envs.simulator.observe()["rgb"].numpy()).all()


def test_every_episode_comes_once_before_one_comes_again():
    envs = make(2)
    seen = envs.reset(seed=0)[1]["episode_index"].tolist()
    while len(seen) < 12:
        seen += envs.step(np.full(2, Action.STOP))[4]["episode_index"].tolist()
    for first in (0, 4, 8):
        assert sorted(seen[first : first + 4]) == [0, 1, 2, 3]


def test_rewards_add_up_to_the_distance_gained(envs):
    _, info = envs.reset(options={"episodes": [0, 1, 3]})
    start, total = info["distance_m"].copy(), np.zeros(3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        _, rewards, _, _, info = envs.step(rng.choice(3, 3, p=[0.8, 0.1, 0.1]))
        total += rewards
    assert np.allclose(total, 0.005 * (start - info["distance_m"])) and (total != 0).any()


def test_observations_do_not_change_behind_their_holders_back(envs):
    observation, _ = envs.reset(seed=0)
    kept = observation["rgb"].copy()
    envs.step(np.zeros(3, np.int64))
    assert (observation["rgb"] == kept).all()


def test_episodes_that_cannot_be_played_are_refused_at_the_door():
    good = episodes()[0]
    wrong = {
        "no start pose": episode(9, good.question, KITCHEN, None),
        "no view points": episode(9, good.question, KITCHEN, good.start, view_points=None),
        "not among the 1 loaded": episode(9, good.question, KITCHEN, good.start, scene_id="atlantis"),
    }
    for message, bad in wrong.items():
        with pytest.raises(ValueError, match=message):
            make(1, episodes=[good, bad])
    with pytest.raises(ValueError, match="episodes"):
        make(1, episodes=[])
    with pytest.raises(ValueError, match="word ids"):
        make(1, num_words=4)


def test_wrong_calls_are_refused():
    envs = make(2)
    with pytest.raises(ValueError, match="reset"):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="options"):
        envs.reset(options={"house": 1})
    for indices in ([0], [0, 9], [-1, 0]):
        with pytest.raises(ValueError, match="episodes"):
            envs.reset(options={"episodes": indices})


def test_gymnasium_s_own_wrappers_run(envs):
    counted = RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    for t in range(6):
        *_, info = counted.step(np.full(3, Action.STOP if t == 5 else Action.LEFT))
    assert info["episode"]["l"].tolist() == [6, 6, 6] and (info["episode_index"] >= 0).all()


@pytest.mark.parametrize("actions", [[0.5, 0, 0], [True, False, True], [0.0, 1.0, 2.0], [0, 1, 4], [0, 1]])
def test_actions_that_are_no_whole_numbers_of_actions_are_refused(envs, actions, monkeypatch):
    envs.reset(seed=0)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as where users run it
    with pytest.raises(ValueError, match="actions: expected 3"):
        envs.step(np.array(actions))
