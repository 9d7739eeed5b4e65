"""`EQAVectorEnv`: embodied question answering as a Gymnasium vector environment, over any `Simulator`.

Axes: N agents, L words of the longest question, A actions of the world, H W image.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Bool, Float64, Int64

from eqa.envs.actions import Action
from eqa.envs.episode import Episode
from eqa.envs.simulator import Goal, Simulator
from eqa.envs.task import Task

SHAPING = 0.005  # reward for each metre nearer (Das et al. 2018, Sec. 5)
RIGHT = 5.0  # reward for the right answer (ibid.)
FRAMES_PER_SECOND = 4  # of films
# Names of images and of the pose: the simulator's name, type, shape behind H and W, and largest value.
SENSORS = {
    "rgb": ("rgb", np.uint8, (3,), 255),
    "depth": ("depth", np.float32, (), np.inf),
    "class": ("class_id", np.uint8, (), 255),
    "instance": ("instance_id", np.uint16, (), 65535),
}
POSE = "pose"
Info = dict[str, Any]


class EQAVectorEnv(VectorEnv):
    """N agents, each walking a house until it can answer, then stopping.

    Observation: question (N, L) int64 word ids, right-padded with 0, and the chosen sensors: rgb (N, H, W, 3) uint8,
    egocentric; depth (N, H, W) float32, metres along the view; class and instance (N, H, W); pose (N, 4) float64.

    Action: MultiDiscrete([A] * N) for the A actions of the world, see `envs.actions`. In houses A is 4, FORWARD is
    0.25 m and a turn is 9 degrees. With `answers`, action A + k stops and gives answer k.

    Reward: `SHAPING` times the geodesic metres by which the action brought the agent nearer to its goal, and `RIGHT`
    for the right answer. Without `answers` the learner adds the latter, since it knows the answer given.

    Ends: terminated by STOP and by an answer, truncated after `max_steps`.

    Autoreset: SAME_STEP, so the observation after an end is the next episode's first one. `final_obs` and `final_info`
    hold the last ones of the ended episode.

    Info, each with its mask `_key`:

    - `distance_m`: geodesic distance to the goal;
    - `collided`: FORWARD was refused;
    - `success`: the episode ended with the right answer, or without `answers` with STOP at the goal;
    - `region`: index of the agent's room, -1 for none;
    - `pose`;
    - `episode_index`: index of the episode in `episodes`.

    Agents take the episodes in a random order, all of them before one repeats. `reset(options={"episodes": indices})`
    starts agent n with episode indices[n] instead.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(
        self,
        simulator: Simulator,
        *,
        episodes: Sequence[Episode],
        encode: Callable[[str], Sequence[int]],
        num_words: int,
        max_steps: int | None = None,
        sensors: Sequence[str] = ("rgb",),
        answers: Sequence[str] = (),
        question_length: int = 0,
    ) -> None:
        """`encode` turns a question into word ids below `num_words`, as `data.vocabulary` does; 0 is left for padding.

        L is at least `question_length`. ValueError for an episode without start or goal, in a house that is not loaded,
        or with words that cannot be encoded, and for an unknown sensor.
        """
        if unknown := set(sensors) - {*SENSORS, POSE}:
            raise ValueError(f"sensors: expected some of {', '.join((*SENSORS, POSE))}, got {sorted(unknown)}")
        if not episodes:
            raise ValueError("episodes: expected at least one, got none")
        self.task = Task(simulator, max_steps=max_steps)
        self.simulator = simulator
        self.num_envs = simulator.num_agents
        self.render_mode = "rgb_array"
        self.episodes = list(episodes)
        self.max_steps = self.task.max_steps
        self._goals = [Goal.of(episode) for episode in self.episodes]
        self._scenes = np.array([simulator.scene_index(episode.scene_id) for episode in self.episodes])
        self._starts = np.array([_start(episode) for episode in self.episodes])
        self._questions = _encode([episode.question for episode in self.episodes], encode, num_words, question_length)
        self.sensors, self.answers = tuple(sensors), tuple(answers)
        self._drawn = list(dict.fromkeys([*(name for name in self.sensors if name != POSE), "rgb"]))
        place = {answer: k for k, answer in enumerate(self.answers)}
        self._right = np.array([place.get(episode.answer, -1) for episode in self.episodes])
        self._upcoming: list[int] = []
        self._everybody = np.arange(self.num_envs)
        self._episode = np.zeros(self.num_envs, np.int64)
        self._frames: dict[str, np.ndarray] | None = None
        self._set_spaces(num_words)

    def _set_spaces(self, num_words):
        spaces = {"question": gym.spaces.Box(0, num_words - 1, self._questions.shape[1:], np.int64)}
        for name in self.sensors:
            if name == POSE:
                spaces[name] = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
            else:
                _, kind, channels, most = SENSORS[name]
                spaces[name] = gym.spaces.Box(0, most, (*self.simulator.image_size, *channels), kind)
        self.single_observation_space = gym.spaces.Dict(spaces)
        self.single_action_space = gym.spaces.Discrete(len(self.simulator.actions) + len(self.answers))
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, np.ndarray], Info]:
        """Starts an episode for every agent; `seed` fixes the order of the episodes from here on."""
        super().reset(seed=seed)
        unknown = set(options or ()) - {"episodes"}
        if unknown:
            raise ValueError(f"options: expected 'episodes' or nothing, got {sorted(unknown)}")
        if seed is not None:
            self._upcoming = []
        chosen = (options or {}).get("episodes")
        chosen = self._draw(self.num_envs) if chosen is None else np.asarray(chosen)
        if chosen.shape != (self.num_envs,) or not ((chosen >= 0) & (chosen < len(self.episodes))).all():
            raise ValueError(
                f"episodes: expected {self.num_envs} indices from 0 to {len(self.episodes) - 1}, got {chosen}"
            )
        everybody = np.ones(self.num_envs, np.bool_)
        self._begin(self._everybody, chosen)
        self._frames = self._see(self._everybody)
        nobody = ~everybody
        return self._observation(), self._info(everybody, collided=nobody, success=nobody)

    def step(
        self, actions: Int64[np.ndarray, " N"]
    ) -> tuple[dict[str, np.ndarray], Float64[np.ndarray, " N"], Bool[np.ndarray, " N"], Bool[np.ndarray, " N"], Info]:
        """Moves each agent by one action. ValueError before `reset`, and for an unknown id."""
        if self._frames is None:
            raise ValueError("step: no episode has begun; call reset() first")
        moves, right = self._moves(np.asarray(actions))
        before_m = self.task.distance_m
        ended = self.task.step(self._everybody, moves)
        rewards = SHAPING * (before_m - self.task.distance_m) + RIGHT * right
        terminated = moves == Action.STOP
        success = right if self.answers else terminated & (self.task.distance_m == 0)
        truncated = ended & ~terminated
        collided = self.task.refused
        self._frames = self._see(self._everybody)
        info: Info = {}
        if ended.any():
            last = self._info(ended, collided=collided, success=success)
            info |= {"final_info": last, "_final_info": ended.copy(), "final_obs": self._final_observations(ended)}
            info["_final_obs"] = ended.copy()
            agents = np.flatnonzero(ended)
            self._begin(agents, self._draw(len(agents)))
            for name, images in self._see(agents).items():
                self._frames[name][agents] = images
        everybody = np.ones(self.num_envs, np.bool_)
        now = self._info(everybody, collided=collided & ~ended, success=np.zeros_like(ended))
        return self._observation(), rewards, terminated, truncated, info | now

    def _moves(self, actions):
        """The world's actions, and True for agents that give the right answer; an answer stops."""
        first = len(self.simulator.actions)
        if not self.answers or actions.dtype.kind not in "iu" or actions.shape != (self.num_envs,):
            return actions, np.zeros(self.num_envs, np.bool_)  # the task refuses what is wrong
        if not ((actions >= 0) & (actions < first + len(self.answers))).all():
            last = first + len(self.answers) - 1
            raise ValueError(f"actions: expected {self.num_envs} whole numbers from 0 to {last}, got {actions}")
        given = actions - first
        return np.where(given >= 0, int(Action.STOP), actions), (given >= 0) & (given == self._right[self._episode])

    def render(self) -> tuple[np.ndarray, ...]:
        """The agents' present frames."""
        if self._frames is None:
            raise ValueError("render: no episode has begun; call reset() first")
        return tuple(self._frames["rgb"].copy())

    def _draw(self, num: int) -> Int64[np.ndarray, " M"]:
        while len(self._upcoming) < num:
            self._upcoming += self.np_random.permutation(len(self.episodes)).tolist()
        drawn, self._upcoming = self._upcoming[:num], self._upcoming[num:]
        return np.array(drawn, np.int64)

    def _begin(self, agents, episodes):
        goals = [self._goals[k] for k in episodes]
        self.task.begin(agents, self._scenes[episodes], self._starts[episodes], goals)
        self._episode[agents] = episodes

    def _see(self, agents):
        """Images of some agents by the sensors' names, with rgb for `render`."""
        seen = self.task.observe(agents, [SENSORS[name][0] for name in self._drawn])
        return {name: seen[SENSORS[name][0]].cpu().numpy() for name in self._drawn}

    def _observation(self):
        seen = {"question": self._questions[self._episode]}
        for name in self.sensors:
            seen[name] = self.simulator.poses.cpu().numpy() if name == POSE else self._frames[name].copy()
        return seen

    def _final_observations(self, ended):
        final, seen = np.full(self.num_envs, None, object), self._observation()
        for n in np.flatnonzero(ended):  # Gymnasium wants one observation object for each agent that ended
            final[n] = {name: values[n].copy() for name, values in seen.items()}
        return final

    def _info(self, agents, *, collided, success):
        values = {
            "distance_m": self.task.distance_m,
            "collided": collided.copy(),
            "success": success.copy(),
            "region": self.simulator.region.cpu().numpy(),
            "pose": self.simulator.poses.cpu().numpy(),
            "episode_index": self._episode.copy(),
        }
        return values | {f"_{name}": agents.copy() for name in values}


def _start(episode):
    if episode.start is None:
        raise ValueError(
            f"episode {episode.episode_id!r}: has no start pose; give it one, for instance from a walk's end"
        )
    return episode.start


def _encode(questions, encode, num_words, length):
    """All questions' word ids (E, L), right-padded with 0."""
    encoded = [list(encode(question)) for question in questions]
    padded = np.zeros((len(encoded), max(length, *map(len, encoded))), np.int64)
    for row, question, ids in zip(padded, questions, encoded):
        if not ids or min(ids) < 1 or max(ids) >= num_words:
            raise ValueError(f"question {question!r}: expected word ids from 1 to {num_words - 1}, got {ids}")
        row[: len(ids)] = ids
    return padded
