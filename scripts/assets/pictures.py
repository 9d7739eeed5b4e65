"""Framed pictures for walls, painted by code. `shapes.SHAPES` lists them.

Metres, front along +Z, standing on y = 0. The frame is the material "frame", the picture "canvas".
"""

import io
from collections.abc import Callable
from functools import partial

import numpy as np

from eqa.scripts.assets.builder import Builder, rectangle
from eqa.scripts.assets.sources import Shape

SIDE_PX = 128
RGB = tuple[int, int, int]


def _ground(top: RGB, bottom: RGB) -> np.ndarray:
    share = np.linspace(0, 1, SIDE_PX)[:, None, None]
    return np.broadcast_to(np.array(top) * (1 - share) + np.array(bottom) * share, (SIDE_PX, SIDE_PX, 3)).copy()


def _places() -> tuple[np.ndarray, np.ndarray]:
    """x to the right and y downwards, from 0 to 1, for each pixel."""
    y, x = np.mgrid[0:SIDE_PX, 0:SIDE_PX] / (SIDE_PX - 1)
    return x, y


def hills() -> np.ndarray:
    """Ridges that grow darker towards the viewer, below a low sun."""
    x, y = _places()
    image = _ground((246, 208, 160), (236, 150, 110))
    image[np.hypot(x - 0.68, y - 0.36) < 0.1] = (252, 240, 206)
    for place, (level, waves, color) in enumerate(
        (
            (0.45, 2.1, (150, 132, 150)),
            (0.58, 3.0, (98, 104, 124)),
            (0.72, 1.7, (52, 72, 84)),
            (0.86, 2.6, (28, 44, 50)),
        )
    ):
        ridge = level + 0.06 * np.sin(waves * 2 * np.pi * x + place) + 0.03 * np.sin(5.3 * np.pi * x + 2 * place)
        image[y > ridge] = color
    return image


def sea() -> np.ndarray:
    """A calm sea with a sail."""
    x, y = _places()
    image = _ground((150, 190, 222), (230, 236, 232))
    water = y > 0.55
    image[water] = _ground((70, 130, 160), (24, 64, 104))[water]
    image[water & (np.sin(90 * y + 6 * np.sin(9 * x)) > 0.93)] = (150, 190, 205)
    image[(np.abs(x - 0.36 - (y - 0.3) * 0.18) < (y - 0.2) * 0.3) & (y > 0.22) & (y < 0.56)] = (246, 242, 230)
    image[(np.abs(x - 0.4) < 0.15 - (y - 0.57) * 1.6) & (y >= 0.57) & (y < 0.62)] = (120, 66, 40)
    return image


def blocks() -> np.ndarray:
    """Rectangles of plain colours between black bars."""
    x, y = _places()
    image = _ground((238, 234, 222), (238, 234, 222))
    for x0, x1, y0, y1, color in (
        (0.0, 0.3, 0.0, 0.42, (198, 48, 40)), (0.62, 1.0, 0.72, 1.0, (34, 74, 150)), (0.0, 0.3, 0.72, 1.0, (236, 190, 50)),
        (0.62, 0.8, 0.0, 0.2, (236, 190, 50)),
    ):  # fmt: skip
        image[(x >= x0) & (x < x1) & (y >= y0) & (y < y1)] = color
    for at in (0.3, 0.62):
        image[np.abs(x - at) < 0.018] = (26, 26, 28)
    for at in (0.42, 0.72):
        image[np.abs(y - at) < 0.018] = (26, 26, 28)
    image[(np.abs(y - 0.2) < 0.018) & (x > 0.62)] = (26, 26, 28)
    return image


def circles() -> np.ndarray:
    """Overlapping discs that darken one another."""
    x, y = _places()
    image = _ground((240, 228, 208), (240, 228, 208))
    for cx, cy, radius, color in (
        (0.34, 0.4, 0.26, (214, 120, 84)), (0.6, 0.56, 0.28, (104, 146, 150)), (0.44, 0.7, 0.16, (226, 186, 92)),
        (0.74, 0.26, 0.11, (70, 78, 98)),
    ):  # fmt: skip
        inside = np.hypot(x - cx, y - cy) < radius
        image[inside] = image[inside] * np.array(color) / 235
    return image


def leaf() -> np.ndarray:
    """A branch with leaves on pale paper."""
    x, y = _places()
    image = _ground((244, 242, 234), (236, 234, 224))
    stem = np.abs(x - 0.5 - 0.08 * np.sin(3 * y)) < 0.008
    image[stem & (y > 0.12) & (y < 0.92)] = (70, 94, 66)
    for place in range(6):
        middle = 0.2 + 0.12 * place
        for side in (-1, 1):
            p, q = (x - 0.5) * side - 0.17, y - middle + 0.04 * side
            along, across = 0.86 * p - 0.5 * q, 0.5 * p + 0.86 * q
            inside = (along / 0.16) ** 2 + (across / 0.055) ** 2 < 1
            image[inside] = (74 + 8 * place, 118 + 6 * place, 84) if side > 0 else (92, 132 + 4 * place, 98)
    return image


def bands() -> np.ndarray:
    """Soft fields of colour above one another, as painters of colour fields leave them."""
    x, y = _places()
    image = _ground((146, 58, 44), (120, 44, 40))
    for low, high, color in ((0.08, 0.46, (226, 140, 58)), (0.52, 0.72, (200, 92, 52)), (0.77, 0.93, (92, 34, 46))):
        edge = np.minimum.reduce([x - 0.07, 0.93 - x, y - low, high - y])
        share = (edge / 0.03).clip(0, 1)[..., None] * 0.92
        image = image * (1 - share) + np.array(color) * share
    return image


def _hung(paint: Callable[[], np.ndarray], frame: RGB) -> Shape:
    """A picture of 0.50 by 0.36 m in a frame."""
    from PIL import Image

    with io.BytesIO() as file:
        Image.fromarray(paint().clip(0, 255).astype(np.uint8)).save(file, "PNG")
        image = file.getvalue()
    b = Builder()
    b.slot("frame", frame)
    b.slot("canvas", image=image)
    for x in (-0.25, 0.228):
        b.box("frame", (x, 0, 0), (x + 0.022, 0.36, 0.022))
    for y in (0, 0.338):
        b.box("frame", (-0.228, y, 0), (0.228, y + 0.022, 0.022))
    b.pane("canvas", [(x, y) for x, y in rectangle(0.456, 0.022, 0.338)], 0.012)
    return b.shape()


FRAMES: dict[str, tuple[Callable[[], np.ndarray], RGB]] = {
    "hung hills": (hills, (40, 38, 38)),
    "hung sea": (sea, (226, 222, 212)),
    "hung blocks": (blocks, (34, 34, 36)),
    "hung circles": (circles, (178, 138, 92)),
    "hung leaf": (leaf, (150, 106, 66)),
    "hung bands": (bands, (236, 234, 228)),
}
SHAPES: dict[str, Callable[[], Shape]] = {name: partial(_hung, *drawn) for name, drawn in FRAMES.items()}
