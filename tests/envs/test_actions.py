"""Sizes and names of actions, and walks replayed from them."""

from math import pi

import numpy as np
import pytest

from eqa.envs.actions import HOUSE_ACTIONS, ActionSet
from eqa.envs.episode import Episode, Spawn
from eqa.envs.navigation.walk import letters, replay
from tests.helpers.free_walks import walk_of

FLYING = ActionSet(("forward", "left", "right", "stop", "up", "down"), step_m=10.0, turn_rad=pi / 6, climb_m=2.5)


def test_houses_have_the_paper_s_moves() -> None:
    assert HOUSE_ACTIONS.names == ("forward", "left", "right", "stop") and len(HOUSE_ACTIONS) == 4
    assert (HOUSE_ACTIONS.step_m, HOUSE_ACTIONS.max_steps, HOUSE_ACTIONS.num_headings) == (0.25, 100, 40)
    assert np.degrees(HOUSE_ACTIONS.turn_rad) == pytest.approx(9)


@pytest.mark.parametrize("actions", [HOUSE_ACTIONS, FLYING])
def test_steps_are_as_long_as_they_should_be_and_straight_ones_exact(actions: ActionSet) -> None:
    step = np.stack([actions.step_x, actions.step_z], 1)
    ahead = np.stack([-np.sin(actions.headings_rad), -np.cos(actions.headings_rad)], 1)
    np.testing.assert_allclose(step, actions.step_m * ahead, atol=1e-13)
    quarter = actions.num_headings // 4
    assert step[0].tolist() == [0, -actions.step_m] and step[quarter].tolist() == [-actions.step_m, 0]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"names": ("forward", "stop", "left", "right")}, "names: expected"),
        ({"names": ("forward", "left", "right", "stop", "up")}, "names: expected"),
        ({"step_m": 0.0}, "step_m above 0"),
        ({"turn_rad": 7.0}, "turn_rad from 0 to 2 pi"),
        ({"turn_rad": 0.25}, "turn_rad: expected a whole part of a circle"),
        ({"climb_m": -1.0}, "climb_m of at least 0"),
        ({"max_steps": 0}, "max_steps: expected at least 1"),
    ],
)
def test_moves_that_make_no_sense_are_refused(settings: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ActionSet(**settings)


def test_a_walk_rises_and_falls_and_its_letters_come_back() -> None:
    taken = np.array([4, 0, 1, 1, 1, 0, 5, 5, 3], np.int8)
    walk = replay((1.0, 5.0, 2.0, 0.0), taken, FLYING)
    assert letters(taken) == "UFLLLFDDS"
    assert walk.poses[:, 1].tolist() == [5, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5, 5, 2.5]
    assert walk.poses[1, [0, 2]].tolist() == [1, 2] and walk.poses[2, [0, 2]].tolist() == [1, -8]
    np.testing.assert_allclose(walk.poses[-1], [-9, 2.5, -8, pi / 2])
    episode = Episode("e", "s", "what is it?", "a", "t", "x", spawns={"start": Spawn((1.0, 5.0, 2.0, 0.0))}, walk="UFS")
    assert walk_of(episode, FLYING).poses[2].tolist() == [1, 7.5, -8, 0]
    with pytest.raises(ValueError, match="walk: expected the actions .'forward', 'left', 'right', 'stop'., got UFS"):
        walk_of(episode, HOUSE_ACTIONS)


def test_names_of_a_configuration_are_those_of_the_code() -> None:
    names = ["forward", "left", "right", "stop", "up", "down"]
    assert ActionSet(names) == ActionSet(tuple(names)) and hash(ActionSet(names)) == hash(ActionSet(tuple(names)))
