"""`play`: every episode to its end, no more of them and no more scenes side by side than asked for."""

import numpy as np
import pytest

from eqa.envs.actions import Action
from eqa.envs.simulator import Goal, enter
from eqa.envs.task import Task, play
from tests.helpers.box_world import SCENES, BoxWorld

NUM = 12


class _Turns:
    """Turns n + 1 times in episode n and stops; notes who walks side by side."""

    sensors = ()

    def __init__(self) -> None:
        self.steps, self.walked = np.zeros(NUM, np.int64), []

    def act(self, observation, agents: np.ndarray) -> np.ndarray:
        self.walked.append(agents.tolist())
        self.steps[agents] += 1
        return np.where(self.steps[agents] > agents + 1, int(Action.STOP), int(Action.LEFT))


@pytest.fixture
def task() -> Task:
    """Twelve episodes, three in each of four scenes, scene by scene."""
    simulator, scenes = enter(BoxWorld(), [SCENES[n // 3] for n in range(NUM)])
    task = Task(simulator)
    pose = (4.0, 0.0, 6.0, 0.0)
    task.begin(np.arange(NUM), scenes, np.tile(pose, (NUM, 1)), [Goal((pose,), 0.5)] * NUM)
    return task


@pytest.mark.parametrize(("at_once", "scenes"), [(None, None), (5, None), (None, 2), (5, 2), (12, 1), (1, 1)])
def test_all_are_played_in_few_enough_scenes(task: Task, at_once: int | None, scenes: int | None) -> None:
    actor = _Turns()
    assert not len(play(task, actor, at_once=at_once, scenes_at_once=scenes))
    assert task.trajectories().num_actions.tolist() == [n + 2 for n in range(NUM)]
    assert max(map(len, actor.walked)) == min(at_once or NUM, 3 * (scenes or 4))
    assert max(len({n // 3 for n in some}) for some in actor.walked) <= (scenes or 4)
    firsts = [min(k for k, some in enumerate(actor.walked) if n in some) for n in range(NUM)]
    assert firsts == sorted(firsts)  # they begin in their order


def test_the_last_ones_are_cut_off_by_their_share_of_those_that_walked_when_the_last_one_began(task: Task) -> None:
    cut = play(task, _Turns(), scenes_at_once=1, min_active_share=0.5)
    assert cut.tolist() == [NUM - 1]  # three walked in the last scene: one is too few
    assert task.trajectories().num_actions.tolist() == [*range(2, NUM + 1), NUM]
