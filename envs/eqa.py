"""`EQAVectorEnv`: embodied question answering as a Gymnasium vector environment, over any `Simulator`.

Axes: N agents, L words of the longest question, H W image.
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
Info = dict[str, Any]


class EQAVectorEnv(VectorEnv):
    """N agents, each walking a house until it can answer, then stopping.

    Observation: rgb (N, H, W, 3) uint8, egocentric; question (N, L) int64 word ids, right-padded with 0.

    Action: MultiDiscrete([A] * N) for the A actions of the world, see `envs.actions`. In houses A is 4, FORWARD is
    0.25 m and a turn is 9 degrees.

    Reward: `SHAPING` times the geodesic metres by which the action brought the agent nearer to its goal. The learner
    adds the reward for an answer, since it knows the answer given.

    Ends: terminated by STOP, truncated after `max_steps`.

    Autoreset: SAME_STEP, so the observation after an end is the next episode's first one. `final_obs` and `final_info`
    hold the last ones of the ended episode.

    Info, each with its mask `_key`:

    - `distance_m`: geodesic distance to the goal;
    - `collided`: FORWARD was refused;
    - `region`: index of the agent's room, -1 for none;
    - `pose`;
    - `episode_index`: index of the episode in `episodes`.

    Agents take the episodes in a random order, all of them before one repeats. `reset(options={"episodes": indices})`
    starts agent n with episode indices[n] instead.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"]}

    def __init__(
        self,
        simulator: Simulator,
        *,
        episodes: Sequence[Episode],
        encode: Callable[[str], Sequence[int]],
        num_words: int,
        max_steps: int | None = None,
    ) -> None:
        """`encode` turns a question into word ids below `num_words`, as `data.vocabulary` does; 0 is left for padding.

        ValueError for an episode without start or goal, in a house that is not loaded, or with words that cannot be
        encoded.
        """
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
        self._questions = _encode([episode.question for episode in self.episodes], encode, num_words)
        self._upcoming: list[int] = []
        self._everybody = np.arange(self.num_envs)
        self._episode = np.zeros(self.num_envs, np.int64)
        self._frames: np.ndarray | None = None
        self._set_spaces(num_words)

    def _set_spaces(self, num_words):
        height, width = self.simulator.image_size
        self.single_observation_space = gym.spaces.Dict(
            {
                "rgb": gym.spaces.Box(0, 255, (height, width, 3), np.uint8),
                "question": gym.spaces.Box(0, num_words - 1, self._questions.shape[1:], np.int64),
            }
        )
        self.single_action_space = gym.spaces.Discrete(len(self.simulator.actions))
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
        return self._observation(), self._info(everybody, np.zeros(self.num_envs, np.bool_))

    def step(
        self, actions: Int64[np.ndarray, " N"]
    ) -> tuple[dict[str, np.ndarray], Float64[np.ndarray, " N"], Bool[np.ndarray, " N"], Bool[np.ndarray, " N"], Info]:
        """Moves each agent by one action. ValueError before `reset`, and for an unknown id."""
        if self._frames is None:
            raise ValueError("step: no episode has begun; call reset() first")
        actions, before_m = np.asarray(actions), self.task.distance_m
        ended = self.task.step(self._everybody, actions)
        rewards = SHAPING * (before_m - self.task.distance_m)
        terminated = actions == Action.STOP
        truncated = ended & ~terminated
        collided = self.task.refused
        self._frames = frames = self._see(self._everybody)
        info: Info = {}
        if ended.any():
            last = self._info(ended, collided)
            info |= {"final_info": last, "_final_info": ended.copy(), "final_obs": self._final_observations(ended)}
            info["_final_obs"] = ended.copy()
            agents = np.flatnonzero(ended)
            self._begin(agents, self._draw(len(agents)))
            frames[agents] = self._see(agents)
        everybody = np.ones(self.num_envs, np.bool_)
        return self._observation(), rewards, terminated, truncated, info | self._info(everybody, collided & ~ended)

    def render(self) -> tuple[np.ndarray, ...]:
        """The agents' present frames."""
        if self._frames is None:
            raise ValueError("render: no episode has begun; call reset() first")
        return tuple(self._frames)

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
        return self.task.observe(agents, ("rgb",))["rgb"].cpu().numpy()

    def _observation(self):
        return {"rgb": self._frames.copy(), "question": self._questions[self._episode]}

    def _final_observations(self, ended):
        final = np.full(self.num_envs, None, object)
        for n in np.flatnonzero(ended):  # Gymnasium wants one observation object for each agent that ended
            final[n] = {"rgb": self._frames[n].copy(), "question": self._questions[self._episode[n]]}
        return final

    def _info(self, agents, collided):
        values = {
            "distance_m": self.task.distance_m,
            "collided": collided.copy(),
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


def _encode(questions, encode, num_words):
    """All questions' word ids (E, L), right-padded with 0."""
    encoded = [list(encode(question)) for question in questions]
    padded = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
    for row, question, ids in zip(padded, questions, encoded):
        if not ids or min(ids) < 1 or max(ids) >= num_words:
            raise ValueError(f"question {question!r}: expected word ids from 1 to {num_words - 1}, got {ids}")
        row[: len(ids)] = ids
    return padded
