"""Walks to the best view of a target, for an agent that knows the scene.

A demonstration leads to any place from which its target is seen well enough. The walk to the best view ends with the
whole target in view, and with other things of its room.

Axes: N walks, V views.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, degrees, radians, tan

import numpy as np
from jaxtyping import Float64, Int8, Int64

from eqa.envs.episode import Episode
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, World

INNER_PX = 64  # side of an agent's view, within a picture twice as wide and high
WIDE = Camera(
    height_px=2 * INNER_PX,
    width_px=2 * INNER_PX,
    vertical_fov_deg=degrees(2 * atan(2 * tan(radians(Camera().vertical_fov_deg) / 2))),
)
VIEWS_AT_ONCE = 64
LARGE_ENOUGH, TOO_LARGE = 0.06, 0.25  # shares of a view
LEAST_SEEN, MANY_OTHERS = 0.003, 5


def to_best_views(
    world: World, scene_id: str, episodes: Sequence[Episode], spawn_poses: Float64[np.ndarray, "N 4"]
) -> list[Int8[np.ndarray, " _"]]:
    """The actions, STOP last, from each pose to the best view of its episode's target, with exactly its heading.

    If quarter-metre moves do not lead to the best view point, the next best is taken. All walks end in the episode's
    goal. ValueError for an episode without view points, and for a pose from which no walk leads to any.
    """
    return _planned(world, scene_id, best_views(world, scene_id, episodes), spawn_poses)


def best_views(world: World, scene_id: str, episodes: Sequence[Episode]) -> list[list[Goal]]:
    """One goal for each view point of each episode, the best first: within the goal's radius, and in the view's
    heading.

    The best view shows the whole target, large enough to name its colour and small enough to leave room. It also shows
    other things of the target's room. Those of generated questions come in about this order; others may come in any.
    """
    goals = [Goal.of(episode) for episode in episodes]
    poses = np.array([view for goal in goals for view in goal.view_points]).reshape(-1, 4)
    of_episode = np.repeat(np.arange(len(goals)), [len(goal.view_points) for goal in goals])
    targets = np.array([episode.target_object or 0 for episode in episodes])[of_episode]
    scores = worths(view_contents(world, scene_id, poses, targets))
    ranked = []
    for number, goal in enumerate(goals):
        order = np.argsort(-scores[of_episode == number], kind="stable")
        ranked.append([Goal((goal.view_points[place],), goal.radius_m) for place in order])
    return ranked


@dataclass(frozen=True, slots=True)
class ViewContents:
    """Contents of views, relative to their targets."""

    share: Float64[np.ndarray, " V"]  # of the view's pixels
    whole: Float64[np.ndarray, " V"]  # the view's share of what a wider view shows of the target
    others: Int64[np.ndarray, " V"]  # other things that fill at least `LEAST_SEEN` of the view


def view_contents(
    world: World, scene_id: str, poses: Float64[np.ndarray, "V 4"], targets: Int64[np.ndarray, " V"]
) -> ViewContents:
    """Contents of the views at `poses`, with targets' ids (0 for none); a wider picture shows their surroundings."""
    simulator = world.open([scene_id], num_agents=1, camera=WIDE)
    share, whole = np.zeros((2, len(poses)))
    others = np.zeros(len(poses), np.int64)
    inner = slice((WIDE.height_px - INNER_PX) // 2, (WIDE.height_px + INNER_PX) // 2)
    for begin in range(0, len(poses), VIEWS_AT_ONCE):
        part = slice(begin, begin + VIEWS_AT_ONCE)
        seen = simulator.look(np.zeros(len(poses[part]), np.int64), poses[part], ("instance_id",))
        wide = seen["instance_id"].cpu().numpy()
        view = wide[:, inner, inner]
        shown, around = ((ids == targets[part, None, None]).sum((1, 2)) for ids in (view, wide))
        share[part], whole[part] = shown / INNER_PX**2, shown / np.maximum(around, 1)
        pixels = np.zeros((len(view), 1 + max(int(view.max(initial=0)), int(targets.max(initial=0)))), np.int64)
        np.add.at(pixels, (np.arange(len(view))[:, None], view.reshape(len(view), -1)), 1)
        pixels[:, 0], pixels[np.arange(len(view)), targets[part]] = 0, 0
        others[part] = (pixels >= LEAST_SEEN * INNER_PX**2).sum(1)
    return ViewContents(share, whole, others)


def worths(seen: ViewContents) -> Float64[np.ndarray, " V"]:
    """Scores of views; the higher the better."""
    large = np.minimum(seen.share / LARGE_ENOUGH, 1)
    too_large = np.maximum(seen.share - TOO_LARGE, 0)
    return seen.whole + large + 0.1 * np.minimum(seen.others, MANY_OTHERS) - 5 * too_large


def _planned(
    world: World, scene_id: str, choices: Sequence[Sequence[Goal]], spawn_poses: Float64[np.ndarray, "N 4"]
) -> list[Int8[np.ndarray, " _"]]:
    """Plans to the first reachable goal of each list."""
    if len(choices) != len(spawn_poses):
        raise ValueError(f"spawn_poses: expected one for each of {len(choices)} goals, got {len(spawn_poses)}")
    starts = [tuple(pose) for pose in np.asarray(spawn_poses, np.float64).tolist()]
    found: list[Int8[np.ndarray, " _"] | None] = [None] * len(starts)
    for rank in range(max(map(len, choices), default=0)):
        left = [n for n, plan in enumerate(found) if plan is None and rank < len(choices[n])]
        goals = [choices[n][rank] for n in left]
        walks = world.shortest_walks(scene_id, goals, [starts[n] for n in left], or_none=True)
        for n, walk in zip(left, walks, strict=True):
            found[n] = None if walk is None else walk.actions
    for start, plan, goals in zip(starts, found, choices, strict=True):
        if plan is None:
            raise ValueError(
                f"{scene_id}: no walk from {start} to {goals[0].view_points}; drop this spawn or take another"
            )
    return found
