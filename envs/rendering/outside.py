"""The outside of all scenes: a panorama of sky, far trees and fields by the direction of view, endlessly far away.

Windows and what is open to the sky show the same outside. Its horizon is as high as the camera, wherever that stands.
A pixel's place in the panorama is known beforehand up to the heading of the view, which shifts the column.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int32, UInt8

from eqa.envs.rendering.camera import Camera

COLUMNS, ROWS = 1024, 256  # of the panorama: all round, and from the nadir to the zenith, finer near the horizon

# sRGB at elevation -90, just below 0, just above 0 and 90 degrees.
_GROUND, _FIELDS, _HAZE, _ZENITH = (118, 132, 92), (168, 176, 150), (214, 228, 240), (112, 164, 222)
_HILLS, _TREES, _TREES_AGAIN = (166, 184, 190), (112, 136, 96), (92, 116, 80)


class Outside(NamedTuple):
    """Places in the panorama for the pixels of one camera, row after row, some spare ones at the end."""

    place: np.ndarray  # (H * W + spare,) int32: in `texels`, at heading 0
    texels: np.ndarray  # packed colours r | g << 8 | b << 16, row after row; the number of columns is a power of two
    num_columns: int


def outside_of(camera: Camera, spare: int) -> Outside:
    """The outside as a camera sees it that is level sideways; all of its views share it."""
    rows = np.arange(camera.height_px)[:, None] + 0.5 - camera.height_px / 2
    columns = np.arange(camera.width_px) + 0.5 - camera.width_px / 2
    x, y, z = columns / camera.focal_px, -rows / camera.focal_px, np.ones((1, 1))
    up = y * np.cos(camera.pitch_rad) + z * np.sin(camera.pitch_rad)
    ahead = z * np.cos(camera.pitch_rad) - y * np.sin(camera.pitch_rad)
    right = np.arctan2(np.broadcast_to(x, (camera.height_px, camera.width_px)), ahead)
    column = np.floor(right / (2 * np.pi) * COLUMNS).astype(np.int32) % COLUMNS
    row = _row_of(np.arcsin(up / np.sqrt(x * x + y * y + z * z)))
    place = np.append((row * COLUMNS + column).ravel(), np.zeros(spare, np.int32))
    return Outside(place, panorama(), COLUMNS)


def plain_outside(packed: int, num_pixels: int) -> Outside:
    """An outside of one colour."""
    return Outside(np.zeros(num_pixels, np.int32), np.full(1, packed, np.int32), 1)


def _row_of(elevation_rad: Float[np.ndarray, "..."]) -> Int32[np.ndarray, "..."]:
    share = np.sign(elevation_rad) * np.sqrt(np.abs(elevation_rad) / (np.pi / 2))
    return np.clip(np.floor((share + 1) * (ROWS / 2)), 0, ROWS - 1).astype(np.int32)


@lru_cache(1)
def panorama() -> Int32[np.ndarray, " texels"]:
    """Packed colours, from the nadir's row to the zenith's; column 0 is at heading 0, and they run clockwise."""
    share = ((np.arange(ROWS) + 0.5) / (ROWS / 2) - 1)[:, None, None]
    azimuth = np.arange(COLUMNS) * (2 * np.pi / COLUMNS)
    degrees = (np.sign(share) * share * share * 90)[..., 0]
    ground = _between(_FIELDS, _GROUND, np.minimum(1, np.abs(share)))
    sky = _between(_HAZE, _ZENITH, np.abs(share)) + _clouds(share[..., 0], azimuth)[..., None]
    image = np.where(share < 0, ground, sky)
    hills = 1.6 + _waves(azimuth, (2, 3, 5, 9), (0.8, 0.5, 0.4, 0.2))
    image = np.where(((degrees >= 0) & (degrees < hills))[..., None], np.array(_HILLS), image)
    trees = (
        0.9
        + _waves(azimuth, (3, 4, 7, 11), (0.5, 0.4, 0.3, 0.2))
        + 0.12 * np.abs(_waves(azimuth, (83, 131, 197, 311), (1, 1, 0.8, 0.6)))
    )
    shade = np.clip(0.5 + 0.4 * _waves(azimuth, (37, 59, 101, 173), (0.6, 0.6, 0.6, 0.6)), 0, 1)[:, None]
    is_tree = (degrees >= -0.35) & (degrees < np.maximum(trees, 0.25))
    image = np.where(is_tree[..., None], _between(_TREES, _TREES_AGAIN, shade), image)
    r, g, b = np.moveaxis(np.rint(np.clip(image, 0, 255)).astype(np.int32), -1, 0)
    texels = (r | g << 8 | b << 16).ravel()
    texels.setflags(write=False)
    return texels


def outside_colours(up: Float[np.ndarray, "..."]) -> UInt8[np.ndarray, "... 3"]:
    """sRGB of sky and ground alone in unit directions whose upward part is `up`."""
    share = np.arcsin(up)[..., None] / (np.pi / 2)
    ground, sky = (_between(*ends, np.sqrt(np.abs(share))) for ends in ((_FIELDS, _GROUND), (_HAZE, _ZENITH)))
    return np.rint(np.where(share < 0, ground, sky)).astype(np.uint8)


def _between(one: tuple, other: tuple, share: np.ndarray) -> np.ndarray:
    return np.array(one, np.float64) + (np.array(other, np.float64) - np.array(one, np.float64)) * share


def _waves(azimuth: np.ndarray, numbers: tuple, heights: tuple) -> np.ndarray:
    """A sum of waves that go round whole numbers of times."""
    return sum(h * np.sin(n * azimuth + 1.7 * n * n) for n, h in zip(numbers, heights, strict=True))


def _clouds(share: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
    """Brightness that faint clouds add: smooth noise of four sizes (Perlin 1985), where it is above its mean."""
    dice, total = np.random.default_rng(0), 0.0
    for size in range(4):
        rows, columns = 6 << size, 9 << size
        total = (
            total + _noise(dice.random((rows + 2, columns)), share * rows, azimuth / (2 * np.pi) * columns) / 2**size
        )
    return 40 * np.clip(1.6 * (total - 1.0), 0, 1) * np.clip(6 * share * (1 - share), 0, 1)


def _noise(grid: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Values of a grid, smooth between its points; it is endless sideways."""
    row = np.clip(row, 0, len(grid) - 2)
    i, j = np.floor(row).astype(int), np.floor(column).astype(int)
    down, right = (3 * t**2 - 2 * t**3 for t in (row - i, column - j))
    upper, lower = (grid[i + k, j] * (1 - right) + grid[i + k, (j + 1) % grid.shape[1]] * right for k in (0, 1))
    return upper * (1 - down) + lower * down
