"""What an agent that knows the house does from any pose: the shortest walks to a goal, and to the best view of a target.

Walks are those of the demonstrations: the shortest that keep clear of things, where there are such. A demonstration leads to
wherever its target is seen well enough; the walk to the best view leads to where it is seen best, and looks straight at it.

Axes: N walks.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int8

from data.expert import shortest_walks
from data.spawns import CLEARANCE_M
from envs.episode import Episode
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.house import House
from envs.house.navigation import Floor, Goal, build_floor, heading_indices


def plans(house: House, goals: Sequence[Goal], spawn_poses: Float64[np.ndarray, "N 3"]) -> list[Int8[np.ndarray, " _"]]:
    """The actions, STOP last, that lead from each pose to the goal of the same place in the list.

    ValueError names the house and a pose from which no walk leads to its goal.
    """
    return _planned(house, [[goal] for goal in goals], spawn_poses)


def to_best_views(
    house: House, episodes: Sequence[Episode], spawn_poses: Float64[np.ndarray, "N 3"]
) -> list[Int8[np.ndarray, " _"]]:
    """The actions, STOP last, that lead from each pose to the best view of its episode's target, in exactly its heading.

    Where quarter-metre moves do not lead to the best view point, the next best is taken. All end in the episode's goal.
    ValueError for an episode without view points, and for a pose from which no walk leads to any.
    """
    return _planned(house, [best_views(episode) for episode in episodes], spawn_poses)


def best_views(episode: Episode) -> list[Goal]:
    """One goal for each view point, the best first: as near to it as the episode's goal asks, but looking its way."""
    goal = Goal.of(episode)
    return [Goal((view,), goal.radius_m) for view in goal.view_points]


def _planned(
    house: House, choices: Sequence[Sequence[Goal]], spawn_poses: Float64[np.ndarray, "N 3"]
) -> list[Int8[np.ndarray, " _"]]:
    """Plans to the first goal of each list that can be reached."""
    if len(choices) != len(spawn_poses):
        raise ValueError(f"spawn_poses: expected one for each of {len(choices)} goals, got {len(spawn_poses)}")
    heading_indices(np.asarray(spawn_poses).reshape(-1, 3)[:, 2])
    starts = [tuple(pose) for pose in np.asarray(spawn_poses, np.float64).tolist()]
    found: list[Int8[np.ndarray, " _"] | None] = [None] * len(starts)
    grounds = _grounds(house)
    for rank in range(max(map(len, choices), default=0)):
        for ground in grounds:
            left = [n for n, plan in enumerate(found) if plan is None and rank < len(choices[n])]
            walks = shortest_walks(ground, [choices[n][rank] for n in left], [starts[n] for n in left], or_none=True)
            for n, walk in zip(left, walks, strict=True):
                found[n] = None if walk is None else walk.actions
    for start, plan, goals in zip(starts, found, choices, strict=True):
        if plan is None:
            raise ValueError(
                f"house {house.id}: no walk from {start} to {goals[0].view_points}; drop this spawn or take another"
            )
    return found


def _grounds(house: House) -> tuple[Floor, Floor]:
    """Where an agent keeps clear of things, and where it just fits."""
    catalog = load_catalog()
    scene = build_scene(house, catalog)
    return build_floor(house, scene, catalog.meshes, radius_m=CLEARANCE_M), build_floor(house, scene, catalog.meshes)
