"""`walked_in`: walks of questions from elsewhere, in the world that they are to be played in.

A benchmark's stored walk is kept where the world's own moves lead along it into the goal. Another step, turn or body
makes it miss; then the world's shortest walk takes its place.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eqa.envs.episode import Episode, Spawn
from eqa.envs.navigation.walk import letters, walks_of
from eqa.envs.progress import console, progress
from eqa.envs.simulator import Goal, World


def walked_in(world: World, episodes: Sequence[Episode], *, title: str) -> list[Episode]:
    """Those of the episodes that can be walked there, with their walks. It prints how many are walked anew."""
    by_scene: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_scene.setdefault(episode.scene_id, []).append(_with_goal(world, episode))
    found: list[Episode] = []
    kept = 0
    with progress(f"walks, {title}", len(by_scene)) as advance:
        for scene_id, here in by_scene.items():
            lead = _leading(world, scene_id, here)
            kept += sum(lead)
            anew = [episode for episode, leads in zip(here, lead, strict=True) if not leads]
            found += [episode for episode, leads in zip(here, lead, strict=True) if leads]
            found += _anew(world, scene_id, anew)
            advance(1)
    stored = sum(episode.walk is not None for episode in episodes)
    console.print(
        f"{title}: {kept} of {stored} stored walks reach their goals with this world's moves ({world.actions.step_m:g} m, "
        f"{np.degrees(world.actions.turn_rad):g} degrees); {len(found) - kept} questions are walked anew",
        soft_wrap=True,
    )
    order = {episode.episode_id: n for n, episode in enumerate(episodes)}
    return sorted(found, key=lambda episode: order[episode.episode_id])


def _with_goal(world: World, episode: Episode) -> Episode:
    """The episode with a goal region: a step around its view points if the benchmark does not say."""
    if episode.goal_radius_m is not None:
        return episode
    turn_rad = world.actions.turn_rad if episode.goal_turn_rad is None else episode.goal_turn_rad
    return replace(episode, goal_radius_m=world.actions.step_m, goal_turn_rad=turn_rad)


def _leading(world: World, scene_id: str, episodes: Sequence[Episode]) -> list[bool]:
    """True for episodes whose stored walk ends in its goal here, and keeps to where agents can be."""
    stored = [n for n, episode in enumerate(episodes) if episode.walk is not None]
    walks = walks_of(world, scene_id, [episodes[n] for n in stored])
    goals, poses = [Goal.of(episodes[n]) for n in stored], [walk.poses for walk in walks]
    distances = world.distances(scene_id, goals, poses) if stored else []
    reached = {n for n, way in zip(stored, distances, strict=True) if way[-1] == 0 and np.isfinite(way).all()}
    return [n in reached for n in range(len(episodes))]


def _anew(world: World, scene_id: str, episodes: Sequence[Episode]) -> list[Episode]:
    """Those of the episodes that a shortest walk leads to the goal of, with it."""
    goals, starts = [Goal.of(e) for e in episodes], [e.start for e in episodes]
    walks = world.shortest_walks(scene_id, goals, starts, or_none=True) if episodes else []
    return [
        replace(e, walk=letters(walk.actions), spawns={"start": Spawn(e.start, num_actions=len(walk.actions))})
        for e, walk in zip(episodes, walks, strict=True)
        if walk is not None
    ]
