"""Spawns of questions: far away, 10, 30 and 50 actions before the end, and at random, with the distance from each.

The protocol of Das et al. (2018, Sec. 5): T-k is the pose with k actions of the shortest walk left, STOP included. A
walk begins in the far fifth of the floor within FARTHEST_M of the goal, drawn from the episode's own id. It is the
shortest of those that keep clear of things, if there are such: an agent that learned to graze corners gets stuck there.
A random spawn is anywhere within FARTHEST_M: from further away no agent arrives within an episode's actions.

Axes: T poses of a walk, P positions, C cells of a floor.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from zlib import crc32

import numpy as np
from jaxtyping import Float32, Float64, Int64

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN, Episode, Pose, Spawn
from eqa.envs.house.build import CLEARANCE_M, build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.action_search import shortest_walks
from eqa.envs.navigation.floor import Floor, distance_fields, distances_at, far_places, sample_start
from eqa.envs.navigation.walk import letters
from eqa.envs.simulator import Goal, Walk

# Adds spawns and walks to the episodes of one house; None in place of one that cannot be walked.
AddSpawns = Callable[[House, Sequence[Episode]], list[Episode | None]]

SPAWNS = (10, 30, 50)
STARTS_TRIED = 8
FARTHEST_M = 14.0  # walks start at most so far from their target: more takes over an episode's actions, and is cut off
ABOUT_M = 0.5  # how much nearer or farther than drawn a walk may begin


def add_spawns(house: House, episodes: Sequence[Episode]) -> list[Episode | None]:
    """The episodes with spawns and the walk from "start", which is drawn where an episode has none.

    Those about the whole house have no goal, so no walk and no distances. None in place of one that cannot be walked:
    its view points may lie where an agent fits, but quarter-metre moves do not lead.
    """
    floor, roomy = _floors(house)
    rngs = [np.random.default_rng(crc32(episode.episode_id.encode())) for episode in episodes]
    rows = [row for row, episode in enumerate(episodes) if episode.view_points]
    goals = [Goal.of(episodes[row]) for row in rows]
    distinct = {goal: index for index, goal in enumerate(dict.fromkeys(goals))}
    fields = distance_fields(floor, list(distinct))
    places = [far_places(floor, field, within_m=FARTHEST_M) for field in fields]

    def draw_from(row: int, candidates: Float64[np.ndarray, "P 2"]) -> Callable[[], Pose]:
        return lambda: _draw_pose(roomy, rngs[row], candidates)

    spread = [
        (
            goal,
            (lambda start=start: start) if (start := episodes[row].start) else draw_from(row, places[distinct[goal]]),
        )
        for row, goal in zip(rows, goals, strict=True)
    ]
    near = [floor.centres[field <= FARTHEST_M] for field in fields]
    anywhere = [(goal, draw_from(row, near[distinct[goal]])) for row, goal in zip(rows, goals, strict=True)]
    walks = _walks(floor, roomy, [*spread, *anywhere])
    with_spawns: list[Episode | None] = list(episodes)
    for row in set(range(len(episodes))) - set(rows):
        drawn = {name: Spawn(_draw_pose(roomy, rngs[row], floor.centres)) for name in ("start", "random")}
        with_spawns[row] = replace(episodes[row], spawns=drawn)
    for index, row in enumerate(rows):
        walk, long = walks[index], walks[len(rows) + index]
        if walk is None or long is None:
            with_spawns[row] = None
            continue
        walk = walk.last(HOUSE_ACTIONS.max_steps)
        field = fields[distinct[goals[index]]]
        spawns = along(house, _distances(floor, field, walk), walk)
        spawns["random"] = spawn_at(house, _distances(floor, field, long), long, len(long.actions))
        with_spawns[row] = replace(episodes[row], spawns=spawns, walk=letters(walk.actions))
    return with_spawns


def walk_anew(house: House, episodes: Sequence[Episode], number: int) -> list[Episode]:
    """The episodes of a house with another walk and the spawns along it; as they are where no such walk is found.

    Their ids and `number` draw the distance of a walk's start, all up to FARTHEST_M alike, so that many show what to do
    close to the target, looking anywhere. ValueError for an episode without a goal.
    """
    floor, roomy = _floors(house)
    goals = [Goal.of(episode) for episode in episodes]
    distinct = {goal: index for index, goal in enumerate(dict.fromkeys(goals))}
    fields = distance_fields(floor, list(distinct))

    def draw(rng: np.random.Generator, field: Float32[np.ndarray, " C"]) -> Pose:
        away = rng.uniform(0, min(FARTHEST_M, float(field[np.isfinite(field)].max())))
        return _draw_pose(roomy, rng, floor.centres[np.abs(field - away) <= ABOUT_M])

    rngs = [np.random.default_rng([crc32(episode.episode_id.encode()), number]) for episode in episodes]
    wanted = [(goal, partial(draw, rng, fields[distinct[goal]])) for rng, goal in zip(rngs, goals, strict=True)]
    walked = []
    for episode, goal, walk in zip(episodes, goals, _walks(floor, roomy, wanted), strict=True):
        if walk is not None:
            walk = walk.last(HOUSE_ACTIONS.max_steps)
            spawns = along(house, _distances(floor, fields[distinct[goal]], walk), walk)
            episode = replace(episode, spawns=spawns, walk=letters(walk.actions))
        walked.append(episode)
    return walked


def _floors(house: House) -> tuple[Floor, Floor]:
    """The floor for an agent, and the part of it that is clear of things."""
    meshes, scene = load_catalog().meshes, build_scene(house, load_catalog())
    return build_floor(house, scene, meshes), build_floor(house, scene, meshes, radius_m=CLEARANCE_M)


def _walks(floor: Floor, roomy: Floor, wanted: Sequence[tuple[Goal, Callable[[], Pose]]]) -> list[Walk | None]:
    """The shortest walk to each goal from a drawn pose, on the roomy floor where that is possible; None without one.

    A drawn place from which quarter-metre moves lead nowhere, between two chairs for instance, is drawn anew.
    """
    walks: list[Walk | None] = [None] * len(wanted)
    for _ in range(STARTS_TRIED):
        left = [i for i, walk in enumerate(walks) if walk is None]
        starts = {i: wanted[i][1]() for i in left}
        for ground in (roomy, floor):
            left = [i for i, walk in enumerate(walks) if walk is None]
            found = shortest_walks(ground, [wanted[i][0] for i in left], [starts[i] for i in left], or_none=True)
            for i, walk in zip(left, found, strict=True):
                walks[i] = walk
        if None not in walks:
            break
    return walks


def _draw_pose(roomy: Floor, rng: np.random.Generator, places: Float64[np.ndarray, "P 2"]) -> Pose:
    """The first of some draws that lies on the roomy floor, if one does."""
    drawn = [sample_start(roomy, rng, places) for _ in range(STARTS_TRIED)]
    return drawn[int(np.argmax(roomy.is_free(np.array(drawn)[:, PLAN])))]


def _distances(floor: Floor, field: Float32[np.ndarray, " C"], walk: Walk) -> Float32[np.ndarray, " T"]:
    return distances_at(floor, field, walk.poses[:, PLAN])


def along(house: House, distance_m: Float32[np.ndarray, " T"], walk: Walk) -> dict[str, Spawn]:
    """The spawns on a walk: its start, and those that it is long enough for; `distance_m` is left at each pose."""
    begins = {"start": len(walk.actions)} | {f"T-{k}": k for k in sorted(SPAWNS, reverse=True)}
    return {name: spawn_at(house, distance_m, walk, k) for name, k in begins.items() if k <= len(walk.actions)}


def spawn_at(house: House, distance_m: Float32[np.ndarray, " T"], walk: Walk, num_actions: int) -> Spawn:
    """The pose of the walk with so many actions left."""
    return Spawn(
        pose=walk.before_end(num_actions),
        num_actions=num_actions,
        distance_m=round(float(distance_m[-num_actions]), 3),
        num_rooms=len(np.unique(rooms_at(house, walk.last(num_actions).poses))),
    )


def rooms_at(house: House, poses: Float64[np.ndarray, "T 4"]) -> Int64[np.ndarray, " T"]:
    """Index of the room that each pose is in; inside a wall between rooms the last one, at first the next."""
    rooms = np.full(len(poses), -1)
    for index, room in enumerate(house.rooms):
        rooms[inside_polygon(poses[:, PLAN], room.polygon)] = index
    known = np.flatnonzero(rooms >= 0)
    before = np.maximum(np.searchsorted(known, np.arange(len(poses)), side="right") - 1, 0)
    return rooms[known[before]] if len(known) else rooms
