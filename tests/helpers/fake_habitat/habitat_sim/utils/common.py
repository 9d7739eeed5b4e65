"""Rotations of the stand-in."""


def quat_from_angle_axis(angle, axis):
    """The angle itself: here all turns are about Y."""
    return angle
