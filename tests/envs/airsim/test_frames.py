"""Poses go to AirSim's and CityEQA's frames and come back, and mean the same place and direction there."""

import numpy as np
import pytest

from eqa.envs.airsim.frames import from_city, from_ned, headings_of, to_city, to_ned


def random_poses(seed: int, count: int = 2000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(-500, 500, (count, 3)), rng.uniform(0, 2 * np.pi, count)])


@pytest.mark.parametrize("seed", range(3))
def test_poses_come_back_from_both_frames(seed: int) -> None:
    poses = random_poses(seed)
    for back in (from_ned(*to_ned(poses)), from_city(to_city(poses))):
        np.testing.assert_array_equal(back[:, :3], poses[:, :3])
        np.testing.assert_allclose(np.exp(1j * back[:, 3]), np.exp(1j * poses[:, 3]), atol=1e-12)
        assert (back[:, 3] >= 0).all() and (back[:, 3] < 2 * np.pi).all()


def test_a_step_forward_in_ours_is_one_along_the_quaternions_axis() -> None:
    poses = random_poses(7, 50)
    ahead = poses.copy()
    ahead[:, 0] -= np.sin(poses[:, 3])
    ahead[:, 2] -= np.cos(poses[:, 3])
    (here, quaternions), (there, _) = to_ned(poses), to_ned(ahead)
    for step, (w, *v) in zip(there - here, quaternions, strict=True):
        axis, forward = np.array(v), np.array([1.0, 0.0, 0.0])  # AirSim's bodies look along their first axis
        turned = forward + 2 * np.cross(axis, np.cross(axis, forward) + w * forward)
        np.testing.assert_allclose(step, turned, atol=1e-9)


def test_the_directions_of_the_wind_are_the_same_in_all_three() -> None:
    poses = np.array([[10.0, 2.0, -30.0, 0.0], [10.0, 2.0, -30.0, 1.5 * np.pi]])  # looks north, looks east
    ned, quaternions = to_ned(poses)
    assert ned.tolist() == [[30.0, 10.0, -2.0]] * 2  # 30 m north, 10 m east, 2 m up
    np.testing.assert_allclose(quaternions @ quaternions[0], [1, -np.cos(np.pi / 4)], atol=1e-12)
    np.testing.assert_allclose(to_city(poses), [[10, 30, 2, 0, 0, 0], [10, 30, 2, 0, 0, 90]], atol=1e-12)


def test_a_drone_that_is_tilted_has_the_heading_that_it_looks_along() -> None:
    yaw, pitch, roll = 0.7, 0.3, -0.2
    parts = [(np.cos(a / 2), np.sin(a / 2) * np.eye(3)[k]) for k, a in ((2, yaw), (1, pitch), (0, roll))]
    w, v = parts[0]
    for w2, v2 in parts[1:]:
        w, v = w * w2 - v @ v2, w * v2 + w2 * v + np.cross(v, v2)
    np.testing.assert_allclose(headings_of(np.array([[w, *v], [-w, *-v], [2 * w, *2 * v]])), 2 * np.pi - yaw)
