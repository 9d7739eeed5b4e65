"""Poses of ours in the frames of AirSim and of CityEQA, and back.

- Ours is (x, y, z, heading_rad): X right or east, Y up, Z south; heading 0 looks north, a left turn adds to it.
- AirSim's NED is (north, east, down) = (-z, x, -y) and a quaternion (w, x, y, z); yaw 0 looks north, a right turn adds.
- CityEQA's is [x, y, z, pitch, roll, yaw]: east, north and up in metres, degrees; its yaw is AirSim's.

An agent of ours stays level. So pitch and roll are 0 on the way out, and dropped on the way in.

Axes: N poses.
"""

import numpy as np
from jaxtyping import Float64

TURN = 2 * np.pi


def to_ned(poses: Float64[np.ndarray, "N 4"]) -> tuple[Float64[np.ndarray, "N 3"], Float64[np.ndarray, "N 4"]]:
    """Positions and quaternions (w, x, y, z) of AirSim's."""
    half, zero = -poses[:, 3] / 2, np.zeros(len(poses))
    return ned_points(poses[:, :3]), np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)


def from_ned(
    positions: Float64[np.ndarray, "N 3"], quaternions: Float64[np.ndarray, "N 4"]
) -> Float64[np.ndarray, "N 4"]:
    """Poses of ours, with headings from 0 to less than a circle; what tilts the quaternions is dropped."""
    return np.column_stack([own_points(positions), headings_of(quaternions)])


def ned_points(points: Float64[np.ndarray, "N 3"]) -> Float64[np.ndarray, "N 3"]:
    """Points of ours as AirSim's."""
    x, y, z = points.T
    return np.stack([-z, x, -y], axis=1)


def own_points(points: Float64[np.ndarray, "N 3"]) -> Float64[np.ndarray, "N 3"]:
    """AirSim's points as ours."""
    north, east, down = points.T
    return np.stack([east, -down, -north], axis=1)


def headings_of(quaternions: Float64[np.ndarray, "N 4"]) -> Float64[np.ndarray, " N"]:
    """Headings from quaternions of any length above 0."""
    w, x, y, z = quaternions.T
    yaw = np.arctan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)
    return within_circle(-yaw)


def within_circle(headings_rad: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " N"]:
    """The same headings from 0 to less than a circle."""
    turned = np.asarray(headings_rad) % TURN
    return np.where(turned >= TURN, 0.0, turned) + 0.0


def to_city(poses: Float64[np.ndarray, "N 4"]) -> Float64[np.ndarray, "N 6"]:
    """Poses of CityEQA's: east, north, up, and pitch, roll and yaw in degrees."""
    x, y, z, heading = poses.T
    zero = np.zeros(len(poses))
    return np.stack([x, -z, y, zero, zero, np.degrees(within_circle(-heading))], axis=1)


def from_city(poses: Float64[np.ndarray, "N 6"]) -> Float64[np.ndarray, "N 4"]:
    """Poses of ours from CityEQA's; pitch and roll are dropped."""
    east, north, up, _, _, yaw_deg = poses.T
    return np.stack([east, up, -north, within_circle(-np.radians(yaw_deg))], axis=1)
