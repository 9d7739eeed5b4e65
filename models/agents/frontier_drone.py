"""`FrontierDrone`: `FrontierAgent` for drones, which explores one flight level of a city at a time.

It first goes down as far as it can, as questions are about things in streets. It goes up a level where nothing is left,
as in a yard, and begins a new map there. Further on it tries to go down again.

Axes: N agents, H W image.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from eqa.envs.actions import CLIMBS, Action, ActionSet
from eqa.envs.rendering.camera import Camera
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.frontier import FrontierAgent
from eqa.models.mapping.frontier_search import PAST
from eqa.models.mapping.occupancy_map import BOTTOM_M, CELL_M, FARTHEST_M, PASSED_OVER, SIDE, Rays, empty_maps

CITY_M = 500.0  # a map leads so far from the spawn along either axis, or as far as an episode
UNDER_M = 0.5  # things that end so far below a drone are not in its way
SINKS_EVERY, SINKS = 4, 3  # moves forward before it tries to go down again, and tries in vain at a level
AROUND = 2 * PAST  # cells of the square that a drone gives up with what it flew past


def frontier_agent(camera: Camera, *, per_turn_m: float = 2.0, smallest: int = 4) -> FrontierAgent:
    """The frontier agent for a camera. That of a drone is at the height of its pose."""
    kind = FrontierDrone if camera.height_m == 0 else FrontierAgent
    return kind(camera, per_turn_m=per_turn_m, smallest=smallest)


class FrontierDrone(FrontierAgent):
    """Flies to the nearest frontier of its level. A frontier costs extra for turns as for who walks, in map units.

    A drone's step may lead past what it seeks, again and again. It gives that up where it has been before.
    """

    def fits(self, actions: ActionSet) -> bool:
        """True: the map ends where the drone turns back."""
        return True

    def reset(self, batch: EpisodeBatch) -> None:
        """Starts with empty maps, whose unit follows from the length of the world's episodes."""
        actions, num = batch.action_set, len(batch.poses)
        self.unit_m = max(min(actions.max_steps * actions.step_m, CITY_M) / FARTHEST_M, 1.0)
        self.rays = Rays.of(replace(self.camera, height_m=BOTTOM_M + UNDER_M / self.unit_m))
        super().reset(batch)
        self.unseen = empty_maps(1, within_m=FARTHEST_M - 2 * CELL_M)  # so that no place beyond is entered
        self._begin_maps(np.full(num, True))
        climbs = CLIMBS[0] in actions.names
        self.up, self.down = map(actions.names.index, CLIMBS) if climbs else (Action.STOP, Action.STOP)
        self.sinking, self.in_vain = np.full(num, climbs), np.full(num, 0 if climbs else SINKS)
        self.flown = np.zeros(num, np.int64)
        self.begun = np.full((num, actions.max_steps, 4), np.nan)  # poses from which it flew on

    def _begin_maps(self, which: Bool[np.ndarray, " N"]) -> None:
        for values, unseen in zip(self.maps, self.unseen, strict=True):
            values[which] = unseen
        self.looked_round[which] = 0

    def _chosen(
        self, depth: Float32[np.ndarray, "N H W"], poses: Float64[np.ndarray, "N 4"], active: Bool[np.ndarray, " N"]
    ) -> Int64[np.ndarray, " N"]:
        stays, sank, rose = (poses == self.before).all(1), self.moved == self.down, self.moved == self.up
        self.in_vain[active & sank & stays] += 1
        self._begin_maps(active & (sank | rose) & ~stays)
        self.in_vain[active & (sank | rose) & ~stays] = 0
        self.sinking &= ~(sank & stays)
        actions = super()._chosen(depth, poses, active & ~self.sinking)
        ended = active & ~self.sinking & (actions == Action.STOP)
        actions[ended & ~(rose & stays)] = self.up  # which the ceiling refuses
        actions[active & self.sinking] = self.down
        moving = actions == Action.FORWARD
        self._give_up_circles(moving, poses)
        self.flown += moving
        self.sinking |= moving & (self.flown % SINKS_EVERY == 0) & (self.in_vain < SINKS)
        return actions

    def _give_up_circles(self, moving: Bool[np.ndarray, " N"], poses: Float64[np.ndarray, "N 4"]) -> None:
        again = moving & (np.abs(self.begun - poses[:, None]) < 0.01 * self.unit_m * CELL_M).all(2).any(1)
        who = np.flatnonzero(again)
        row, column = (place[:, None] for place in np.divmod(self.sought[who], SIDE))
        around = np.arange(-AROUND, AROUND + 1)
        square = np.s_[who[:, None, None], row[:, :, None] + around[:, None], column[:, :, None] + around]
        self.state[square] = np.maximum(self.state[square], PASSED_OVER)
        self.begun = np.roll(self.begun, 1, axis=1)
        self.begun[:, 0] = np.where(moving[:, None], poses, np.nan)
