"""`Camera`: a pinhole at eye height, and its transform of the world for each pose.

Axes: N poses. Metres, X right, Y up; heading 0 looks along -Z and grows counter-clockwise.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole with square pixels, `height_m` above the pose's y; a positive pitch looks up.

    A pixel's colour is the mean of `samples` x `samples` smaller ones: smooth edges for people, at as many times the
    work. Its depth, class and instance are those of one of these, below and right of its middle.
    """

    height_px: int = 224
    width_px: int = 224
    vertical_fov_deg: float = 60.0
    height_m: float = 1.0
    near_m: float = 0.05
    pitch_rad: float = 0.0
    samples: int = 1

    def __post_init__(self) -> None:
        for name, most in (("height_px", 8192), ("width_px", 8192), ("samples", 4)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name}: expected 1 to {most}, got {getattr(self, name)}")
        if self.samples * max(self.height_px, self.width_px) > 8192:
            raise ValueError(
                f"samples: expected at most 8192 of them in a row, got {self.samples} for each of "
                f"{max(self.height_px, self.width_px)} pixels"
            )
        if not 0 < self.vertical_fov_deg < 180:
            raise ValueError(f"vertical_fov_deg: expected more than 0 and less than 180, got {self.vertical_fov_deg}")
        if not self.near_m > 0:
            raise ValueError(f"near_m: expected more than 0, got {self.near_m}")

    @property
    def focal_px(self) -> float:
        return self.height_px / 2 / np.tan(np.radians(self.vertical_fov_deg) / 2)

    def fine(self) -> "Camera":
        """The camera whose pixels are the samples of this one's."""
        size = {"height_px": self.samples * self.height_px, "width_px": self.samples * self.width_px}
        return replace(self, samples=1, **size)

    def views(self, poses: Float[np.ndarray, "N 4"]) -> Float[np.ndarray, "N 12"]:
        """Rows right, down, forward in the world, then the position, for poses (x, y, z, heading)."""
        x, y, z, heading = poses.T
        c, s = np.cos(heading), np.sin(heading)
        cp, sp = np.full_like(x, np.cos(self.pitch_rad)), np.full_like(x, np.sin(self.pitch_rad))
        zero = np.zeros_like(x)
        return np.stack([c, zero, -s, -s * sp, -cp, -c * sp, -s * cp, sp, -c * cp, x, y + self.height_m, z], axis=1)
