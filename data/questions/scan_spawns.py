"""`add_walks`: spawns and walks of questions in any world, from its distances and shortest walks alone.

The protocol is that of `data.questions.spawns`. Starts are drawn from places a metre apart; a world's own walks may
keep clear of things or not.

Axes: P places.
"""

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
from jaxtyping import Float32, Float64

from eqa.data.questions.spawns import FARTHEST_M, STARTS_TRIED, along, spawn_at
from eqa.data.questions.view_points import standing
from eqa.envs.episode import Episode, Pose, Spawn
from eqa.envs.house.house import House
from eqa.envs.navigation.walk import letters
from eqa.envs.simulator import Goal, Walk, World

FAR_SHARE = 0.2  # of the places, by distance, in which a walk begins


def add_walks(
    world: World, house: House, episodes: Sequence[Episode], places: Float64[np.ndarray, "P 3"]
) -> list[Episode | None]:
    """The episodes of one scene with spawns and the walk from "start"; None in place of one that cannot be walked.

    Those about the whole scene have no goal, so no walk. `house.id` is the scene's id.
    """
    rngs = [np.random.default_rng(crc32(episode.episode_id.encode())) for episode in episodes]
    rows = [row for row, episode in enumerate(episodes) if episode.view_points]
    goals = {row: Goal.of(episodes[row]) for row in rows}
    distinct = list(dict.fromkeys(goals.values()))
    fields = dict(zip(distinct, world.distances(house.id, distinct, [standing(places)] * len(distinct)), strict=True))
    wanted = [(goals[row], rngs[row], far(places, fields[goals[row]])) for row in rows]
    wanted += [(goals[row], rngs[row], places[fields[goals[row]] <= FARTHEST_M]) for row in rows]
    walks = _walks(world, house.id, wanted)
    left = iter(world.distances(house.id, [wanted[n][0] for n in walks], [walk.poses for walk in walks.values()]))
    left = {n: next(left) for n in walks}
    found: list[Episode | None] = list(episodes)
    for row in set(range(len(episodes))) - set(rows):
        drawn = {name: Spawn(_draw(world, rngs[row], places)) for name in ("start", "random")}
        found[row] = replace(episodes[row], spawns=drawn)
    for n, row in enumerate(rows):
        other = len(rows) + n
        if n not in walks or other not in walks:
            found[row] = None
            continue
        walk = walks[n].last(world.actions.max_steps)
        spawns = along(house, left[n][-len(walk.actions) :], walk)
        spawns["random"] = spawn_at(house, left[other], walks[other], len(walks[other].actions))
        found[row] = replace(episodes[row], spawns=spawns, walk=letters(walk.actions))
    return found


def far(places: Float64[np.ndarray, "P 3"], distance_m: Float32[np.ndarray, " P"]) -> Float64[np.ndarray, "F 3"]:
    """The far FAR_SHARE of the places within FARTHEST_M of a goal."""
    near = np.flatnonzero(distance_m <= FARTHEST_M)
    order = near[np.argsort(distance_m[near], kind="stable")]
    return places[order[int(len(order) * (1 - FAR_SHARE)) :]]


def _walks(
    world: World, scene_id: str, wanted: Sequence[tuple[Goal, np.random.Generator, Float64[np.ndarray, "_ 3"]]]
) -> dict[int, Walk]:
    """The walks that were found, by their places in `wanted`; a start without a walk is drawn anew, some times."""
    walks: dict[int, Walk] = {}
    for _ in range(STARTS_TRIED):
        open_ = [n for n, (_, _, places) in enumerate(wanted) if n not in walks and len(places)]
        if not open_:
            break
        starts = [_draw(world, *wanted[n][1:]) for n in open_]
        found = world.shortest_walks(scene_id, [wanted[n][0] for n in open_], starts, or_none=True)
        walks |= {n: walk for n, walk in zip(open_, found, strict=True) if walk is not None}
    return walks


def _draw(world: World, rng: np.random.Generator, places: Float64[np.ndarray, "_ 3"]) -> Pose:
    """A random pose at one of the places, with any heading."""
    x, y, z = places[rng.integers(len(places))].tolist()
    return x, y, z, float(world.actions.headings_rad[rng.integers(world.actions.num_headings)])
