"""`FrontierAgent`: walks to the nearest frontier of the area that it has seen (Yamauchi 1997), ignoring the question.

It measures the worth of exploration alone: a navigator that uses the question should find its target sooner. Each agent
draws a map of its own from its depth images, relative to its spawn; it knows nothing of the house. It needs depth and
poses without noise, which the worlds give.

Axes: N agents, W of them that walk, H W image.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from eqa.envs.actions import HOUSE_ACTIONS, Action, ActionSet
from eqa.envs.episode import PLAN
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Observation
from eqa.models.agents.agent import EpisodeBatch, Walker
from eqa.models.mapping.frontier_search import NOTHING_LEFT, PER_CELL, Moves, choose, working_memory
from eqa.models.mapping.occupancy_map import CELL_M, FARTHEST_M, TOP_M, Rays, add_views, block_ahead, empty_maps


class FrontierAgent(Walker):
    """Walks to the nearest frontier, looks again after each action, and stops after a full turn with no frontier left.

    `per_turn_m` is the distance that a frontier costs extra for each 9 degrees to turn to look at it. At 0 the plain
    nearest counts, and most of an episode is spent turning: Yamauchi's robot saw all round, a camera sees 60 degrees.
    A spawn may look anywhere: its map is turned so that headings in it are whole turns. A frontier counts if at least
    `smallest` of the nine cells around its unknown one are unknown. `camera` is the one that takes the depth images.
    """

    name, sensors = "nearest frontier", ("depth", "pose")

    def __init__(self, camera: Camera | None = None, *, per_turn_m: float = 2.0, smallest: int = 4) -> None:
        self.camera = camera or Camera()
        if self.camera.pitch_rad != 0 or self.camera.height_m > TOP_M:
            raise ValueError(
                f"camera: expected a level one at most {TOP_M} m high, as all that it sees below counts as in the way, "
                f"got a pitch of {self.camera.pitch_rad} rad and a height of {self.camera.height_m} m"
            )
        self.rays, self.unit_m = Rays.of(self.camera), 1.0  # metres of the world in one of the map
        self.memory = working_memory()
        self.per_turn_m, self.smallest = per_turn_m, smallest

    def fits(self, actions: ActionSet) -> bool:
        """True if no episode leads off the map."""
        return actions.max_steps * actions.step_m <= FARTHEST_M

    def reset(self, batch: EpisodeBatch) -> None:
        """Starts with empty maps; ValueError for a world whose episodes may lead off them."""
        actions = batch.action_set
        if not self.fits(actions):
            raise ValueError(
                f"actions: expected steps that lead at most {FARTHEST_M} m away, got {actions.max_steps} of {actions.step_m} m"
            )
        self.actions, self.moves = actions, Moves.of(replace(actions, step_m=actions.step_m / self.unit_m))
        of_turn_m = self.per_turn_m * actions.turn_rad / HOUSE_ACTIONS.turn_rad
        self.per_turn = round(of_turn_m / CELL_M * PER_CELL)
        self.spawns = batch.poses
        turns = self.spawns[:, 3] / actions.turn_rad
        self.aslant = (turns - np.rint(turns)) * actions.turn_rad  # of the spawn's heading beside whole turns
        self.aslant[np.abs(self.aslant) < 1e-3 * actions.turn_rad] = 0.0
        self.maps = self.state, self.clearance = empty_maps(len(batch.poses))
        self.before = np.full_like(batch.poses, np.nan)
        self.moved = np.full(len(batch.poses), Action.STOP, np.int64)
        self.aims, self.sought = np.full((2, len(batch.poses)), -1, np.int64)
        self.looked_round = np.zeros(len(batch.poses), np.int64)

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        """The next actions; ValueError for images of another size than the camera's."""
        seen, now = (observation[name].cpu().numpy() for name in self.sensors)
        size = (self.camera.height_px, self.camera.width_px)
        if seen.shape[1:] != size:
            raise ValueError(f"depth: expected the camera's {size}, got {seen.shape[1:]}; pass this camera")
        active = np.zeros(len(self.spawns), np.bool_)
        active[agents] = True
        depth, poses = np.zeros((len(active), *size), np.float32), self.spawns.copy()
        depth[agents], poses[agents] = seen, now
        self.moved, self.before = self._chosen(depth, poses, active), poses
        return self.moved[agents]

    def _chosen(
        self, depth: Float32[np.ndarray, "N H W"], poses: Float64[np.ndarray, "N 4"], active: Bool[np.ndarray, " N"]
    ) -> Int64[np.ndarray, " N"]:
        """Actions of all agents, STOP for those that are not active."""
        actions = self._explored(depth, poses, active)
        done = actions == NOTHING_LEFT
        self.looked_round += done
        actions[done] = np.where(self.looked_round[done] > self.actions.num_headings, Action.STOP, Action.LEFT)
        return actions

    def _explored(
        self, depth: Float32[np.ndarray, "N H W"], poses: Float64[np.ndarray, "N 4"], active: Bool[np.ndarray, " N"]
    ) -> Int64[np.ndarray, " N"]:
        """Adds what active agents see to their maps: actions to their frontiers, or NOTHING_LEFT."""
        places = turned(poses - self.spawns * [1, 1, 1, 0], self.aslant) / [self.unit_m, 1, self.unit_m, 1]
        if not (np.abs(places[:, PLAN]) <= FARTHEST_M).all():
            raise ValueError(
                f"poses: expected at most {FARTHEST_M * self.unit_m:g} m from the spawn, got one further; begin anew"
            )
        refused = active & (self.moved == Action.FORWARD) & (poses == self.before).all(1)
        block_ahead(*self.maps, refused, places, self.moves.step_m)
        if self.unit_m != 1:
            depth = depth / np.float32(self.unit_m)
        add_views(*self.maps, depth, active, places, self.rays)
        actions = np.full(len(active), Action.STOP, np.int64)
        headings, options = self.actions.heading_indices(places[:, 3]), (self.per_turn, self.smallest)
        choose(actions, self.aims, self.sought, *self.maps, active, places, headings, self.moves, *options, self.memory)
        return actions


def turned(places: Float64[np.ndarray, "N 4"], by_rad: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, "N 4"]:
    """Places seen from frames that are turned to the left about the origin, those of no turn bit for bit."""
    x, y, z, heading = places.T
    sin, cos = np.sin(by_rad), np.cos(by_rad)
    across = np.stack([x * cos - z * sin, y, z * cos + x * sin, heading - by_rad], 1)
    return np.where(by_rad[:, None] == 0, places, across)
