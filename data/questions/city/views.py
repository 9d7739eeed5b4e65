"""`CityViews`: view points of targets in a city, from free places round each, found by drawing what they show.

A place is tried at a few distances, bearings and heights, looking as straight at the target as whole turns allow. It
counts if the target and all other things of the answer are large enough in the picture. Writing must be near enough,
and before its front. A walk may end at a view point's own heading only, as a turn of a drone is half a picture wide.

Axes: T targets, V views, H W picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, pi, radians

import numpy as np
from jaxtyping import Bool, Float64

from eqa.data.questions.city.facts import Fact, before
from eqa.data.questions.city.rules import Limits
from eqa.envs.annotations import Annotations, Thing
from eqa.envs.episode import PLAN, Pose
from eqa.envs.metrics import target_shares
from eqa.envs.simulator import Goal, World

PICTURE_PX = 64  # side of the pictures that are tried
DISTANCES_M = (5.0, 8.0, 11.0, 15.0, 20.0)
NUM_BEARINGS = 16
NUM_HEIGHTS = 2  # flight levels, from the lowest on
ENOUGH_SHARE, LEAST_SHARE, LEAST_OTHER_SHARE = 0.03, 0.01, 0.002  # of the picture
CLEAR_SIGN, CLEAR = 0.6, 0.25  # of the rectangle round its box, at least so much is to be seen of a sign, of a thing
TOO_LARGE = 0.35
FACING = cos(radians(55))  # of the angle between a front and the way to the eye, at least
KEPT, KEPT_WORTH = 24, 0.6  # view points at most, with so much of the best one's worth
VIEWS_AT_ONCE = 256
LOOK_M = 0.5  # free places keep so far from the outlines of things


@dataclass(frozen=True, slots=True)
class CityViews:
    """Finds view points in one city; `lowest_m` is the height of its lowest flight level."""

    world: World
    annotations: Annotations
    limits: Limits
    lowest_m: float

    def __call__(self, facts: Sequence[Fact]) -> list[tuple[Pose, ...] | None]:
        """The poses that show all of each fact, best first; None for one that is not to be seen."""
        alike = [(fact.touched, fact.legible, fact.before_m) for fact in facts]
        first = {key: facts[n] for n, key in reversed(list(enumerate(alike)))}  # facts that need the same views
        seen = dict(zip(first, self._found(list(first.values())), strict=True))
        return [seen[key] for key in alike]

    def _found(self, facts: Sequence[Fact]) -> list[tuple[Pose, ...] | None]:
        things = {thing.id: thing for thing in self.annotations.things}
        tried = [self._tried(things[fact.touched[0]], fact) for fact in facts]
        poses = np.concatenate([np.empty((0, 4)), *tried])
        free = np.flatnonzero(free_poses(self.world, self.annotations, poses))
        of_fact = np.repeat(np.arange(len(facts)), [len(some) for some in tried])
        shares = self._shares(poses[free], [facts[n].touched for n in of_fact[free].tolist()])
        found: list[tuple[Pose, ...] | None] = []
        for number, fact in enumerate(facts):
            mine = free[of_fact[free] == number]
            seen = shares[of_fact[free] == number]
            worth = self._worths(things[fact.touched[0]], fact, poses[mine], seen)
            order = np.argsort(-worth, kind="stable")[:KEPT]
            order = order[(worth[order] > 0) & (worth[order] >= KEPT_WORTH * worth.max(initial=0))]
            found.append(tuple(map(tuple, poses[mine[order]].tolist())) or None)
        return found

    def _tried(self, target: Thing, fact: Fact) -> Float64[np.ndarray, "V 4"]:
        """Poses round a target that look at it; those behind a front that must be seen are left out."""
        bearings = np.arange(NUM_BEARINGS) * 2 * pi / NUM_BEARINGS
        heights = self.lowest_m + np.arange(NUM_HEIGHTS) * self.world.actions.climb_m
        away, bearing, height = (a.ravel() for a in np.meshgrid(DISTANCES_M, bearings, heights, indexing="ij"))
        x, z = target.middle
        at = np.stack([x - away * np.sin(bearing), z - away * np.cos(bearing)], 1)
        turn = self.world.actions.turn_rad
        heading = np.rint((bearing + pi) / turn).astype(np.int64) % self.world.actions.num_headings
        poses = np.column_stack([at[:, 0], height, at[:, 1], self.world.actions.headings_rad[heading]])
        keep = np.ones(len(poses), np.bool_)
        if target.front_rad is not None and (fact.legible or fact.before_m):
            ahead, _ = before(target, at).T
            keep &= ahead >= FACING * away
            keep &= ahead >= fact.before_m
        if fact.legible:
            middle = (target.low_m + target.high_m) / 2
            keep &= np.hypot(away, height - middle) <= self.limits.legible_m
        return poses[keep]

    def _shares(
        self, poses: Float64[np.ndarray, "V 4"], wanted: Sequence[tuple[int, ...]]
    ) -> Float64[np.ndarray, "V 2"]:
        """The picture's share of each view's target, and of the smallest of the other things (1 without any)."""
        shares = np.ones((len(poses), 2))
        camera = replace(self.world.camera, height_px=PICTURE_PX, width_px=PICTURE_PX)
        simulator = self.world.open([self.annotations.scene_id], num_agents=1, camera=camera)
        longest = max(map(len, wanted), default=0)
        for first in range(0, len(poses), VIEWS_AT_ONCE):
            rows = np.arange(first, min(first + VIEWS_AT_ONCE, len(poses)))
            seen = simulator.look(np.zeros(len(rows), np.int64), poses[rows], ("instance_id",))["instance_id"]
            seen = seen.cpu().numpy()
            for rank in range(longest):
                some = [n for n, row in enumerate(rows.tolist()) if rank < len(wanted[row])]
                share = target_shares(seen[some], np.array([wanted[rows[n]][rank] for n in some], np.int64))
                column = min(rank, 1)
                shares[rows[some], column] = np.minimum(shares[rows[some], column], share)
        return shares

    def _worths(
        self, target: Thing, fact: Fact, poses: Float64[np.ndarray, "V 4"], seen: Float64[np.ndarray, "V 2"]
    ) -> Float64[np.ndarray, " V"]:
        """Scores of views; 0 for those that do not show enough."""
        large = np.minimum(seen[:, 0] / ENOUGH_SHARE, 1) * TOO_LARGE / np.maximum(seen[:, 0], TOO_LARGE)
        within, share = self._box_in_view(target, poses)
        is_sign = fact.legible or fact.before_m > 0
        clear = seen[:, 0] >= (CLEAR_SIGN if is_sign else CLEAR) * share
        if is_sign:
            clear &= within
        worth = large * (clear & (seen[:, 0] >= LEAST_SHARE) & (seen[:, 1] >= LEAST_OTHER_SHARE))
        aim = np.arctan2(poses[:, 0] - target.middle[0], poses[:, 2] - target.middle[1])
        worth = worth * np.cos((aim - poses[:, 3] + pi) % (2 * pi) - pi)
        if target.front_rad is not None and fact.legible:
            ahead, aside = before(target, poses[:, PLAN]).T
            worth = worth * ahead / np.maximum(np.hypot(ahead, aside), 1e-9)
        return np.round(worth, 6)  # equal on machines whose last bits of an arctangent differ

    def _box_in_view(
        self, target: Thing, poses: Float64[np.ndarray, "V 4"]
    ) -> tuple[Bool[np.ndarray, " V"], Float64[np.ndarray, " V"]]:
        """True for views that hold all of a thing's box, and the picture's share of the rectangle round its part."""
        camera = self.world.camera
        corners = np.array([(x, y, z) for x, z in target.outline for y in (target.low_m, target.high_m)])
        rows = camera.views(poses)
        away = corners - rows[:, None, 9:]
        right, down, ahead = (np.einsum("vcd,vd->vc", away, rows[:, k : k + 3]) for k in (0, 3, 6))
        ahead = np.maximum(ahead, 0.1)
        half = np.tan(np.radians(camera.vertical_fov_deg) / 2)
        ends = []
        for offset, edge in ((right / ahead, half * camera.width_px / camera.height_px), (down / ahead, half)):
            ends.append((offset.min(1) / edge, offset.max(1) / edge))
        within = np.all([(low > -1) & (high < 1) for low, high in ends], axis=0)
        sides = [np.clip(high, -1, 1) - np.clip(low, -1, 1) for low, high in ends]
        return within, sides[0] * sides[1] / 4


def free_poses(world: World, annotations: Annotations, poses: Float64[np.ndarray, "V 4"]) -> Bool[np.ndarray, " V"]:
    """True for poses in which an agent can be, and between which it can move: the largest part of the city."""
    free = ~in_things(annotations, poses)
    candidates = np.flatnonzero(free)
    for first in candidates[:: max(len(candidates) // 16, 1)].tolist():
        try:
            goal = Goal((tuple(poses[first].tolist()),), world.actions.step_m / 2)
            (away,) = world.distances(annotations.scene_id, [goal], [poses[candidates]])
        except ValueError:  # an agent cannot be there after all
            continue
        reached = np.isfinite(away)
        if reached.mean() > 0.5:
            free[candidates] = reached
            return free
    return np.zeros(len(poses), np.bool_)


def in_things(annotations: Annotations, poses: Float64[np.ndarray, "V 4"]) -> Bool[np.ndarray, " V"]:
    """True for poses within the boxes round things: a quick first look, before the world is asked."""
    inside, by_x = np.zeros(len(poses), np.bool_), np.argsort(poses[:, 0], kind="stable")
    x, y, z = poses[by_x, :3].T
    for thing in annotations.things:
        corners = np.array(thing.outline)
        low, high = corners.min(0) - LOOK_M, corners.max(0) + LOOK_M
        if thing.high_m - thing.low_m < LOOK_M:  # a park, or a mark on the ground
            continue
        near = slice(np.searchsorted(x, low[0], "right"), np.searchsorted(x, high[0], "left"))
        within = (z[near] > low[1]) & (z[near] < high[1])
        within &= (y[near] > thing.low_m - LOOK_M) & (y[near] < thing.high_m + LOOK_M)
        inside[by_x[near]] |= within
    return inside
