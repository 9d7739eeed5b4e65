"""Walks read from and written to the letters of an `Episode`, and the poses that actions lead through.

Axes: T actions of a walk including STOP.
"""

import numpy as np
from jaxtyping import Int8

from eqa.envs.actions import LETTERS, NUM_HEADINGS, Action
from eqa.envs.episode import Episode, Pose
from eqa.envs.navigation.floor import FORWARD, HEADINGS_RAD, LEFT, STEP_X, STEP_Z, heading_indices
from eqa.envs.simulator import Walk


def letters(actions: Int8[np.ndarray, " T"]) -> str:
    """Actions as the letters of an `Episode`."""
    return "".join(LETTERS[action] for action in actions.tolist())


def walk_of(episode: Episode) -> Walk:
    """The walk of an episode, replayed from its start; ValueError if it has none."""
    if episode.walk is None or episode.start is None:
        raise ValueError(
            f"episode {episode.episode_id!r}: has no walk; python scripts/make_questions.py makes sets that do"
        )
    actions = np.array([LETTERS.index(letter) for letter in episode.walk], np.int8)
    return replay(episode.start, actions)


def replay(start: Pose, actions: Int8[np.ndarray, " T"]) -> Walk:
    """The poses of a walk that is known to be free, by the additions that the simulator makes.

    ValueError if `start` does not look along a whole turn.
    """
    poses = np.empty((len(actions), 3))
    x, z, heading = start[0], start[1], int(heading_indices(np.array(start[2:]))[0])
    for t, action in enumerate(actions):
        poses[t] = x, z, HEADINGS_RAD[heading]
        if action == FORWARD:
            x, z = x + STEP_X[heading], z + STEP_Z[heading]
        elif action != Action.STOP:
            heading = (heading + (1 if action == LEFT else -1)) % NUM_HEADINGS
    return Walk(actions, poses)
