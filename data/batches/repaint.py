"""`Repaint`: other colours for surfaces of some frames, such as walls, for encoders that learn from them.

Generated houses have the surfaces of their generator, so an encoder can know a room by its floor and a wall by its
tint. Homes of people have others (domain randomisation; Tobin et al. 2017). Light and shade stay; texture is kept in
part. Names of things, colours of things, rooms and depth are the same after it.

Axes: B batch, H W frame, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import UInt8
from matplotlib.colors import hsv_to_rgb
from numba import njit, prange

LEAST_VALUE = 0.12  # of a new colour, as hue, saturation, value
CONTRAST = (0.3, 1.0)  # share of a surface's shade and texture that stays


@dataclass(frozen=True, slots=True)
class Repaint:
    """`share` of the frames get new colours; in those, each class of `classes` is repainted with odds of one half.

    ValueError for a share outside 0 to 1, and for a class that `class_names` lacks.
    """

    share: float
    classes: Sequence[str]

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"repaint.share: expected a share from 0 to 1, got {self.share}")

    def numbers(self, class_names: Sequence[str]) -> list[int]:
        """Values of the sensor class_id to repaint."""
        if unknown := set(self.classes) - set(class_names):
            raise ValueError(f"repaint.classes: expected some of {tuple(class_names)}, got {sorted(unknown)}")
        return [class_names.index(name) for name in self.classes]

    def __call__(
        self,
        rgb: UInt8[np.ndarray, "B H W 3"],
        class_id: UInt8[np.ndarray, "B H W"],
        *,
        class_names: Sequence[str],
        rng: np.random.Generator,
    ) -> None:
        """Repaints `rgb` in place; the same `rng` gives the same colours."""
        shape = len(rgb), len(class_names)
        chosen = np.zeros(shape, np.bool_)
        chosen[:, self.numbers(class_names)] = True
        chosen &= (rng.random(len(rgb)) < self.share)[:, None] & (rng.random(shape) < 0.5)
        hue, saturation, value = rng.random(shape), rng.random(shape) ** 2, rng.uniform(LEAST_VALUE, 1, shape)
        color = 255 * hsv_to_rgb(np.stack([hue, saturation, value], axis=-1))
        _repaint(rgb, class_id, chosen, color.astype(np.float32), rng.uniform(*CONTRAST, shape).astype(np.float32))


@njit(cache=True, parallel=True, error_model="numpy", nogil=True)
@no_type_check
def _repaint(rgb, class_id, chosen, color, contrast):
    """A chosen class's pixels become `color` times their brightness, beside the mean of the class in that frame."""
    num, height, width = class_id.shape
    for b in prange(num):
        total, count = np.zeros(chosen.shape[1]), np.zeros(chosen.shape[1])
        for y in range(height):
            for x in range(width):
                c = class_id[b, y, x]
                total[c] += int(rgb[b, y, x, 0]) + int(rgb[b, y, x, 1]) + int(rgb[b, y, x, 2])
                count[c] += 1
        for y in range(height):
            for x in range(width):
                c = class_id[b, y, x]
                if chosen[b, c]:
                    bright = int(rgb[b, y, x, 0]) + int(rgb[b, y, x, 1]) + int(rgb[b, y, x, 2])
                    gain = 1 + contrast[b, c] * (bright * count[c] / max(total[c], 1.0) - 1)
                    for k in range(3):
                        rgb[b, y, x, k] = np.uint8(min(max(gain * color[b, c, k], 0.0), 255.0))
