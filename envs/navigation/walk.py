"""Walks read from and written to the letters of an `Episode`, and the poses that actions lead through.

Axes: T actions of a walk including STOP.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int8

from eqa.envs.actions import LETTERS, Action, ActionSet
from eqa.envs.episode import Episode, Pose
from eqa.envs.simulator import Walk, World


def letters(actions: Int8[np.ndarray, " T"]) -> str:
    """Actions as the letters of an `Episode`."""
    return "".join(LETTERS[action] for action in actions.tolist())


def walks_of(world: World, scene_id: str, episodes: Sequence[Episode]) -> list[Walk]:
    """The walks of a scene's episodes, replayed there; ValueError for one without, or with an unknown action."""
    return world.replay(scene_id, [e.start for e in episodes], [actions_of(e, world.actions) for e in episodes])


def actions_of(episode: Episode, actions: ActionSet) -> Int8[np.ndarray, " T"]:
    """The actions of an episode's walk from its start; ValueError if it has none, or an action that is not known."""
    if episode.walk is None or episode.start is None:
        raise ValueError(
            f"episode {episode.episode_id!r}: has no walk; python scripts/make_questions.py makes sets that do"
        )
    ids = np.array([LETTERS.index(letter) for letter in episode.walk], np.int8)
    if ids.max() >= len(actions):
        raise ValueError(
            f"episode {episode.episode_id!r}: walk: expected the actions {actions.names}, got {episode.walk}"
        )
    return ids


def replay(start: Pose, taken: Int8[np.ndarray, " T"], actions: ActionSet) -> Walk:
    """The poses of a walk that is known to be free, by the additions that the simulator makes.

    ValueError if `start` does not look along a whole turn.
    """
    poses = np.empty((len(taken), 4))
    (x, y, z), heading = start[:3], int(actions.heading_indices(np.array(start[3:]))[0])
    headings_rad, step_x, step_z = actions.headings_rad, actions.step_x, actions.step_z
    for t, action in enumerate(taken.tolist()):
        poses[t] = x, y, z, headings_rad[heading]
        if action == Action.FORWARD:
            x, z = x + step_x[heading], z + step_z[heading]
        elif action in (Action.LEFT, Action.RIGHT):
            heading = (heading + (1 if action == Action.LEFT else -1)) % actions.num_headings
        elif action != Action.STOP:
            y += actions.climb(action)
    return Walk(taken, poses)
