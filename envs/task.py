"""`Task` and `play`: the one loop that plays episodes, with any actor, and records them.

An episode ends with STOP or after its world's largest number of actions (Das et al. 2018, Sec. 5). Evaluation,
reinforcement learning, DAgger, the page on which a person walks and the Gymnasium environment all move agents by
`Task.step`.

Axes: N episodes, one for each agent of the simulator, W of them that walk, S actions of the longest walk.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int, Int64
from torch import Tensor

from eqa.envs.actions import PADDED_ACTION, Action
from eqa.envs.simulator import Goal, Observation, Simulator


@runtime_checkable
class Actor(Protocol):
    """Chooses actions for the episodes of a task; see also `models.agents.agent.Agent`."""

    sensors: Sequence[str]  # sensors that it uses; nothing else is drawn

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        """The next actions of some episodes; rows of the observation are theirs."""
        ...


@dataclass(frozen=True, slots=True)
class Trajectories:
    """N recorded walks, padded: the spawn and the pose after each action, the last one included."""

    scenes: Int64[np.ndarray, " N"]
    poses: Float64[np.ndarray, "N S1 4"]  # the last one repeats after the end
    distances_m: Float64[np.ndarray, "N S1"]
    regions: Int64[np.ndarray, "N S1"]
    actions: Int64[np.ndarray, "N S"]  # PADDED_ACTION after the end
    refused: Bool[np.ndarray, "N S"]  # moves that ran into something

    @property
    def num_actions(self) -> Int[np.ndarray, " N"]:
        return (self.actions != PADDED_ACTION).sum(1)

    @property
    def stopped(self) -> Bool[np.ndarray, " N"]:
        """True for walks that ended by STOP."""
        return (self.actions == Action.STOP).any(1)

    @property
    def num_views(self) -> Int[np.ndarray, " N"]:
        """Number of frames that each has seen; STOP adds none."""
        return self.num_actions + ~self.stopped

    @property
    def path_m(self) -> Float64[np.ndarray, " N"]:
        """Length of each path, metres."""
        return np.linalg.norm(np.diff(self.poses[:, :, :-1], axis=1), axis=2).sum(1)

    @property
    def ends(self) -> Float64[np.ndarray, "N P"]:
        """The last poses."""
        return self.poses[np.arange(len(self.poses)), self.num_actions]


class Task:
    """Episodes in a simulator, one for each of its agents, and a record of their walks."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        max_steps: int | None = None,
        clock: Callable[[str], AbstractContextManager] = nullcontext,
    ) -> None:
        """`clock` is entered with "render" and "simulate" during these operations."""
        self.simulator, self.clock = simulator, clock
        self.max_steps = simulator.actions.max_steps if max_steps is None else max_steps
        if self.max_steps < 1:
            raise ValueError(f"max_steps: expected at least 1, got {self.max_steps}")
        num, longest = simulator.num_agents, self.max_steps
        self.steps = np.zeros(num, np.int64)
        self.walking = np.zeros(num, np.bool_)
        self._scenes = np.zeros(num, np.int64)
        self._actions = np.full((num, longest), PADDED_ACTION, np.int64)
        self._refused = np.zeros((num, longest), np.bool_)
        self._poses = np.zeros((num, longest + 1, 4))
        self._distances = np.zeros((num, longest + 1))
        self._regions = np.zeros((num, longest + 1), np.int64)

    def begin(
        self,
        agents: Int64[np.ndarray, " W"],
        scenes: Int64[np.ndarray, " W"],
        poses: Float64[np.ndarray, "W 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Starts an episode for each of some agents; ValueError as in `Simulator.reset`."""
        self.simulator.reset(agents, scenes, poses, goals)
        self.steps[agents], self.walking[agents], self._scenes[agents] = 0, True, scenes
        self._actions[agents], self._refused[agents] = PADDED_ACTION, False
        for record, values in zip((self._poses, self._distances, self._regions), self._now(), strict=True):
            record[agents, 0] = values[agents]

    def _now(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Poses, distances and regions of all agents."""
        simulator = self.simulator
        return tuple(values.cpu().numpy() for values in (simulator.poses, simulator.distance_m, simulator.region))

    def observe(self, agents: Int64[np.ndarray, " W"], sensors: Sequence[str]) -> Observation:
        """Observations of some agents; nothing is drawn without sensors."""
        if not sensors or not len(agents):
            return {}
        with self.clock("render"):
            return self.simulator.observe(agents, sensors)

    def step(
        self, agents: Int64[np.ndarray, " W"], actions: Int64[Tensor, " W"] | Int[np.ndarray, " W"]
    ) -> Bool[np.ndarray, " W"]:
        """Moves some agents, each by its action; the others stay. True for those whose episodes end with it.

        ValueError for an agent whose episode has not begun or is over, and for an unknown action.
        """
        if not self.walking[agents].all():
            raise ValueError(f"agents {agents[~self.walking[agents]].tolist()}: no episode goes on; call begin() first")
        actions = np.asarray(actions)
        if actions.shape != agents.shape:
            raise ValueError(f"actions: expected {len(agents)}, one for each agent, got shape {actions.shape}")
        everybody = np.full(len(self.steps), int(Action.STOP), actions.dtype)
        everybody[agents] = actions
        with self.clock("simulate"):
            refused = self.simulator.step(torch.from_numpy(everybody)).cpu().numpy()[agents]
            now = self._now()
        at = self.steps[agents]
        self._actions[agents, at], self._refused[agents, at] = actions, refused
        for record, values in zip((self._poses, self._distances, self._regions), now, strict=True):
            record[agents, at + 1] = values[agents]
        self.steps[agents] += 1
        over = (actions == Action.STOP) | (self.steps[agents] >= self.max_steps)
        self.walking[agents[over]] = False
        return over

    @property
    def distance_m(self) -> Float64[np.ndarray, " N"]:
        """Geodesic distance of each agent to its goal, from its present pose."""
        return self._distances[np.arange(len(self.steps)), self.steps]

    @property
    def scenes(self) -> Int64[np.ndarray, " N"]:
        """The scene that each episode is in, by its place in the simulator's `scene_ids`."""
        return self._scenes

    @property
    def refused(self) -> Bool[np.ndarray, " N"]:
        """True for agents whose last move ran into something."""
        return self._refused[np.arange(len(self.steps)), self.steps - 1] & (self.steps > 0)

    def trajectories(self) -> Trajectories:
        """All walks so far."""
        longest = int(self.steps.max(initial=0))
        at = np.minimum(np.arange(longest + 1), self.steps[:, None])
        who = np.arange(len(self.steps))[:, None]
        return Trajectories(
            self._scenes.copy(),
            self._poses[who, at],
            self._distances[who, at],
            self._regions[who, at],
            self._actions[:, :longest].copy(),
            self._refused[:, :longest].copy(),
        )


def play(
    task: Task,
    actor: Actor,
    *,
    at_once: int | None = None,
    scenes_at_once: int | None = None,
    min_active_share: float = 0.0,
) -> Int64[np.ndarray, " C"]:
    """Plays all episodes of a task to their ends, `at_once` at a time (default: all): as one ends, the next begins.

    Those that walk at one time are in at most `scenes_at_once` scenes (default: any number), see `World`.
    `min_active_share` cuts off the last ones: fewer than that share of those that walked when the last one began. The
    episodes that were cut off are returned.
    """
    waiting = np.flatnonzero(task.walking)
    walking, at_once = waiting[:0], at_once or len(waiting)
    while len(walking) or len(waiting):
        num = _num_entering(task.scenes, walking, waiting[: at_once - len(walking)], scenes_at_once)
        fresh, waiting = np.split(waiting, [num])
        walking = np.concatenate([walking, fresh])
        if len(fresh):
            full = len(walking)
        # An episode that has just begun has seen nothing yet to answer from.
        elif not len(waiting) and len(walking) < min_active_share * full:
            break
        actions = actor.act(task.observe(walking, actor.sensors), walking)
        walking = walking[~task.step(walking, actions)]
    return walking


def _num_entering(
    scenes: Int64[np.ndarray, " N"],
    walking: Int64[np.ndarray, " W"],
    waiting: Int64[np.ndarray, " _"],
    most: int | None,
) -> int:
    """The number of waiting episodes, in their order, that can join without more than `most` scenes at once."""
    if most is None or not len(waiting):
        return len(waiting)
    first = np.unique(np.concatenate([scenes[walking], scenes[waiting]]), return_index=True)[1]
    beyond = np.sort(first)[most:]
    return int(beyond[0]) - len(walking) if len(beyond) else len(waiting)
