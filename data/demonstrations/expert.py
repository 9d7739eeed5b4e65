"""`Expert`: the action of the shortest walk from any pose, as a label for agents that walk by themselves.

Axes: N agents.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from eqa.envs.actions import Action
from eqa.envs.navigation.floor import side_by_side
from eqa.envs.simulator import Planner, Walk

SAME_PLACE = 1e-6  # metres and radians: largest difference between an agent's pose and one of its plan


class Expert:
    """Actions of the shortest walks from N agents to their goals. An agent on its plan costs no new search."""

    def __init__(self, planners: Sequence[Planner]) -> None:
        self.planners = list(planners)
        self.plans: list[Walk | None] = [None] * len(self.planners)
        self.step = [0] * len(self.planners)

    def __call__(self, poses: Float64[np.ndarray, "N 4"], active: Bool[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
        """The next action of each agent: STOP at the goal and for inactive agents. ValueError if no walk leads on."""
        lost = [n for n in np.flatnonzero(active).tolist() if not self._on_plan(n, poses[n])]
        for n, walk in zip(lost, side_by_side(lambda n: self.planners[n](tuple(poses[n].tolist())), lost)):
            self.plans[n], self.step[n] = walk, 0
        actions = np.full(len(poses), int(Action.STOP), np.int64)
        for n in np.flatnonzero(active).tolist():
            actions[n] = self.plans[n].actions[self.step[n]]
        return actions

    def _on_plan(self, n: int, pose: np.ndarray) -> bool:
        """True if an agent is at its plan's pose, or one step further; its place in the plan is updated."""
        plan = self.plans[n]
        if plan is None:
            return False
        for step in (self.step[n], self.step[n] + 1):
            if step < len(plan.poses) and np.abs(plan.poses[step] - pose).max() < SAME_PLACE:
                self.step[n] = step
                return True
        return False
