"""Spawn settings: how far back on a demonstration an episode begins, and what it is told of the way there."""

import numpy as np
import pytest

from eqa.data.demonstrations.spawn_settings import CITY_SPAWNS, HOUSE_SPAWNS, spawn_point
from tests.helpers.box_world import ACTIONS, BoxSource


def test_start_is_the_first_pose_without_history_and_with_the_whole_walk_left() -> None:
    demos = BoxSource().demonstrations("train")
    for row in range(len(demos)):
        found = spawn_point(demos, row, "start", ACTIONS)
        assert found.pose == tuple(demos.poses[demos.offsets[row]]) == demos.episodes[row].start
        assert (found.known, found.left) == (0, demos.lengths[row])


def test_settings_of_a_city_are_nearer_and_all_are_known() -> None:
    demos = BoxSource().demonstrations("train")
    for settings in (HOUSE_SPAWNS, CITY_SPAWNS):
        assert set(settings.main) <= set(settings.all) and settings.shown in settings.all
        assert settings.validated == settings.main[:2]
        for name in settings.all:
            spawn_point(demos, 0, name, ACTIONS)
    five = spawn_point(demos, 0, "T-5", ACTIONS)
    assert five.left == 5 and five.known == demos.lengths[0] - 5
    assert np.allclose(five.pose, demos.poses[demos.offsets[1] - 5])
    with pytest.raises(ValueError, match="spawn setting: expected one of .*'start'.*, got 'begin'"):
        spawn_point(demos, 0, "begin", ACTIONS)
