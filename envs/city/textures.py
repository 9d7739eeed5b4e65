"""Textures of a city, drawn by code: facades, shop fronts, roads, pavements, leaves, and the boards of signs.

Walls are painted in each colour of the palette, windows are not. The font of names ships with Matplotlib.

Axes: H W image.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from eqa.envs.annotations import PALETTE

SIDE = 128
FINER = 2  # drawn this much larger, and averaged
SIGNS_EACH, SIGN_PX = 4, (128, 32)  # boards in one texture, below each other; width and height of each
LIGHT_SIGNS = ("white", "yellow", "orange", "pink")  # boards with dark letters
GLASS = (58, 76, 96)
Picture = UInt8[np.ndarray, "H W 3"]


class _Canvas:
    """A square that is drawn on in shares of its side, from its top left corner."""

    def __init__(self, base: tuple[int, int, int], *, grain: int = 6, seed: int = 0) -> None:
        self._size = SIDE * FINER
        noise = np.random.default_rng(seed).integers(-grain, grain + 1, (SIDE, SIDE, 1))
        pixels = np.clip(np.array(base) + noise, 0, 255).astype(np.uint8)
        self._image = Image.fromarray(np.repeat(np.repeat(pixels, FINER, 0), FINER, 1))
        self._unpainted = Image.new("L", self._image.size, 0)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, rgb: tuple[int, int, int], *, is_wall: bool = False
    ) -> None:
        """A rectangle; paint goes on it only if it is a part of the wall."""
        n = self._size
        corners = [round(x0 * n), round(y0 * n), round(x1 * n) - 1, round(y1 * n) - 1]
        ImageDraw.Draw(self._image).rectangle(corners, fill=rgb)
        ImageDraw.Draw(self._unpainted).rectangle(corners, fill=0 if is_wall else 255)

    def picture(self) -> Picture:
        return np.asarray(self._image.resize((SIDE, SIDE), Image.Resampling.BOX))

    def painted(self, rgb: tuple[int, int, int]) -> Picture:
        """The picture with its walls in a colour."""
        tinted = np.asarray(self._image, np.float64) * (np.array(rgb) / 255)
        kept = np.asarray(self._unpainted)[..., None] > 0
        image = Image.fromarray(np.where(kept, np.asarray(self._image), tinted.round().astype(np.uint8)))
        return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX))


def _window(
    c: _Canvas, x: float, y: float, w: float, h: float, *, pane: tuple, frame: tuple, bars: tuple[int, int]
) -> None:
    """A framed window with `bars` columns and rows of panes, and the sky in its upper part."""
    c.box(x - 0.012, y - 0.012, x + w + 0.012, y + h + 0.012, frame)
    columns, rows = bars
    for i in range(columns):
        for j in range(rows):
            x0, y0 = x + w * i / columns + 0.008, y + h * j / rows + 0.008
            x1, y1 = x + w * (i + 1) / columns - 0.008, y + h * (j + 1) / rows - 0.008
            c.box(x0, y0, x1, y1, pane)
            c.box(x0, y0, x1, y0 + (y1 - y0) * 0.35, tuple(min(255, p + 26) for p in pane))


def _grid(c: _Canvas, paint: Callable[[_Canvas, float, float, int], None]) -> _Canvas:
    """Two by two storeys' bays; `paint` draws the bay whose top left corner it is given, and its number."""
    for k in range(4):
        paint(c, 0.5 * (k % 2), 0.5 * (k // 2), k)
    return c


PANES = (GLASS, (74, 92, 110), (50, 62, 78), (92, 98, 96))
WHITE_FRAME, DARK_FRAME = (236, 236, 232), (64, 64, 68)


def _brick() -> _Canvas:
    c = _Canvas((226, 222, 218), grain=10, seed=1)
    for row in range(48):
        shade = 206 if row % 2 else 214
        c.box(0, row / 48, 1, row / 48 + 0.004, (shade, shade, shade), is_wall=True)
    return _grid(c, lambda c, x, y, k: (c.box(x + 0.11, y + 0.39, x + 0.39, y + 0.425, (238, 236, 230)),
        _window(c, x + 0.14, y + 0.1, 0.22, 0.28, pane=PANES[k], frame=WHITE_FRAME, bars=(2, 2))))  # fmt: skip


def _plaster() -> _Canvas:
    c = _Canvas((240, 240, 238), grain=4, seed=2)
    shutter = (150, 156, 150)

    def bay(c: _Canvas, x: float, y: float, k: int) -> None:
        c.box(x + 0.075, y + 0.1, x + 0.145, y + 0.38, shutter)
        c.box(x + 0.355, y + 0.1, x + 0.425, y + 0.38, shutter)
        _window(c, x + 0.16, y + 0.1, 0.18, 0.28, pane=PANES[(k * 3) % 4], frame=WHITE_FRAME, bars=(2, 1))

    return _grid(c, bay)


def _stone() -> _Canvas:
    c = _Canvas((232, 232, 230), grain=7, seed=3)
    for row in range(16):
        c.box(0, row / 16, 1, row / 16 + 0.006, (196, 196, 194), is_wall=True)
        for column in range(8):
            at = (column + 0.5 * (row % 2)) / 8
            c.box(at, row / 16, at + 0.005, (row + 1) / 16, (202, 202, 200), is_wall=True)
    return _grid(c, lambda c, x, y, k: (c.box(x + 0.11, y + 0.06, x + 0.39, y + 0.43, (246, 246, 244)),
        _window(c, x + 0.15, y + 0.1, 0.2, 0.3, pane=PANES[k], frame=(210, 210, 208), bars=(1, 2))))  # fmt: skip


def _office() -> _Canvas:
    c = _Canvas((234, 234, 236), grain=3, seed=4)

    def bay(c: _Canvas, x: float, y: float, k: int) -> None:
        c.box(x, y + 0.08, x + 0.5, y + 0.36, DARK_FRAME)
        for column in range(3):
            left = x + column / 6
            pane = PANES[(k + column) % 3]
            c.box(left + 0.008, y + 0.09, left + 0.159, y + 0.35, pane)
            c.box(left + 0.008, y + 0.09, left + 0.159, y + 0.15, tuple(p + 34 for p in pane))

    return _grid(c, bay)


def _glass() -> _Canvas:
    c = _Canvas((214, 216, 220), grain=2, seed=5)

    def bay(c: _Canvas, x: float, y: float, k: int) -> None:
        for column in range(2):
            left, shade = x + column / 4, (0, 14, -12, 22)[(k + 2 * column) % 4]
            c.box(left + 0.006, y + 0.02, left + 0.244, y + 0.38, (112 + shade, 146 + shade, 174 + shade))
            c.box(left + 0.006, y + 0.02, left + 0.244, y + 0.12, (150 + shade, 182 + shade, 206 + shade))
        c.box(x, y + 0.4, x + 0.5, y + 0.49, (226, 228, 232), is_wall=True)

    return _grid(c, bay)


def _concrete() -> _Canvas:
    c = _Canvas((214, 214, 210), grain=8, seed=6)

    def bay(c: _Canvas, x: float, y: float, k: int) -> None:
        c.box(x + 0.04, y + 0.05, x + 0.46, y + 0.42, (182, 182, 180), is_wall=True)
        _window(c, x + 0.09, y + 0.1, 0.32, 0.28, pane=PANES[k], frame=DARK_FRAME, bars=(3, 1))

    return _grid(c, bay)


def _balconies() -> _Canvas:
    c = _Canvas((240, 238, 234), grain=4, seed=7)

    def bay(c: _Canvas, x: float, y: float, k: int) -> None:
        _window(c, x + 0.1, y + 0.08, 0.3, 0.37, pane=PANES[(k + 1) % 4], frame=WHITE_FRAME, bars=(2, 1))
        c.box(x + 0.03, y + 0.45, x + 0.47, y + 0.485, (176, 176, 174))
        for rail in range(12):
            at = x + 0.04 + rail * 0.0382
            c.box(at, y + 0.3, at + 0.009, y + 0.46, (70, 72, 76))
        c.box(x + 0.03, y + 0.295, x + 0.47, y + 0.312, (70, 72, 76))

    return _grid(c, bay)


def _shop_front() -> _Canvas:
    """Two bays at street level: a door between large panes with goods in them, below plain space for a sign."""
    c = _Canvas((228, 228, 226), grain=3, seed=8)
    goods = ((206, 150, 90), (150, 170, 96), (196, 196, 204), (176, 96, 92), (110, 140, 176))
    for left, right in ((0.03, 0.40), (0.60, 0.97)):
        c.box(left, 0.30, right, 0.86, (88, 98, 108))
        c.box(left + 0.01, 0.31, right - 0.01, 0.85, (168, 176, 170))
        c.box(left + 0.01, 0.31, right - 0.01, 0.50, (198, 204, 198))
        for k in range(6):
            x, high = left + 0.025 + k * 0.056, 0.08 + 0.05 * ((k * 5 + int(left * 10)) % 4)
            c.box(x, 0.85 - high, x + 0.045, 0.85, goods[(k + int(left * 9)) % 5])
    c.box(0.43, 0.30, 0.57, 1.0, (70, 62, 56))
    c.box(0.445, 0.32, 0.555, 0.86, (110, 124, 134))
    c.box(0.54, 0.64, 0.55, 0.70, (220, 200, 120))
    c.box(0.0, 0.0, 1.0, 0.02, (180, 180, 178))
    c.box(0.0, 0.94, 0.43, 1.0, (120, 120, 118))
    c.box(0.57, 0.94, 1.0, 1.0, (120, 120, 118))
    return c


def _ground_windows() -> _Canvas:
    """Two bays at street level beside shops."""
    c = _Canvas((222, 220, 216), grain=6, seed=9)
    c.box(0, 0.84, 1, 1.0, (150, 150, 148))
    c.box(0, 0.03, 1, 0.07, (240, 240, 238))
    for x in (0.0, 0.5):
        _window(c, x + 0.12, 0.3, 0.26, 0.42, pane=GLASS, frame=WHITE_FRAME, bars=(2, 2))
    return c


def _entrance() -> _Canvas:
    """One bay with the door of a building."""
    c = _Canvas((222, 220, 216), grain=6, seed=10)
    c.box(0, 0.84, 1, 1.0, (150, 150, 148))
    c.box(0, 0.03, 1, 0.07, (240, 240, 238))
    c.box(0.2, 0.28, 0.8, 1.0, (238, 238, 234))
    c.box(0.27, 0.34, 0.73, 1.0, (70, 50, 40))
    for x in (0.3, 0.52):
        c.box(x, 0.38, x + 0.18, 0.62, (110, 128, 140))
        c.box(x, 0.67, x + 0.18, 0.95, (88, 64, 50))
    return c


def _road(lanes: int) -> Picture:
    """The width of a roadway, left to right, and 12 m of its length."""
    c = _Canvas((84, 85, 88), grain=5, seed=11)
    width_m = 17.4 if lanes == 4 else 11.4
    line = 0.14 / width_m
    white, yellow = (214, 214, 210), (214, 176, 60)
    for edge in (2.2, width_m - 2.2):  # parking lanes
        for k in range(2):
            c.box(edge / width_m - line / 2, k * 0.5, edge / width_m + line / 2, k * 0.5 + 0.25, white)
    if lanes == 4:
        for lane in (5.45, width_m - 5.45):
            c.box(lane / width_m - line / 2, 0.1, lane / width_m + line / 2, 0.4, white)
        for off in (-1.2, 0.5):
            c.box(0.5 + off * line, 0, 0.5 + (off + 0.7) * line, 1, yellow)
    else:
        for k in range(2):
            c.box(0.5 - line / 2, k * 0.5, 0.5 + line / 2, k * 0.5 + 0.25, white)
    return c.picture()


def _plain(base: tuple[int, int, int], grain: int, seed: int) -> Picture:
    return _Canvas(base, grain=grain, seed=seed).picture()


def _crossing() -> Picture:
    """Two stripes across, as long as the crossing is deep."""
    c = _Canvas((84, 85, 88), grain=5, seed=12)
    for x in (0.0, 0.5):
        c.box(x + 0.12, 0.0, x + 0.38, 1.0, (216, 216, 212))
    return c.picture()


def _paving() -> Picture:
    c = _Canvas((176, 172, 166), grain=7, seed=13)
    for k in range(4):
        c.box(0, k / 4, 1, k / 4 + 0.012, (146, 143, 138))
        c.box(k / 4, 0, k / 4 + 0.012, 1, (146, 143, 138))
    return c.picture()


def _mottled(base: tuple[int, int, int], spread: int, seed: int) -> Picture:
    """Grass or leaves: patches of three sizes."""
    rng, total = np.random.default_rng(seed), np.zeros((SIDE, SIDE))
    for size in (8, 32, 128):
        coarse = rng.random((size, size)) - 0.5
        total += np.repeat(np.repeat(coarse, SIDE // size, 0), SIDE // size, 1) * (1.0 if size > 8 else 0.5)
    return np.clip(np.array(base) + spread * total[..., None] * np.array([0.9, 1.0, 0.7]), 0, 255).astype(np.uint8)


def _roof() -> Picture:
    c = _Canvas((170, 168, 166), grain=10, seed=16)
    for k in range(4):
        c.box(0, k / 4, 1, k / 4 + 0.008, (150, 148, 146))
    return c.picture()


def _tiles() -> Picture:
    """A pitched roof."""
    c = _Canvas((170, 92, 70), grain=10, seed=17)
    for row in range(16):
        c.box(0, row / 16, 1, row / 16 + 0.016, (126, 64, 50))
        for column in range(16):
            at = (column + 0.5 * (row % 2)) / 16
            c.box(at, row / 16, at + 0.008, (row + 1) / 16, (140, 74, 56))
    return c.picture()


FACADES: dict[str, Callable[[], _Canvas]] = {
    "brick": _brick, "plaster": _plaster, "stone": _stone, "office": _office, "glass": _glass,
    "concrete": _concrete, "balconies": _balconies,
}  # fmt: skip
GROUND_FLOORS: dict[str, Callable[[], _Canvas]] = {
    "shop front": _shop_front,
    "ground windows": _ground_windows,
    "entrance": _entrance,
}
_OTHERS: dict[str, Callable[[], Picture]] = {
    "street": lambda: _road(2),
    "avenue": lambda: _road(4),
    "asphalt": lambda: _plain((84, 85, 88), 5, 14),
    "crossing": _crossing,
    "paving": _paving,
    "path": lambda: _plain((202, 186, 152), 8, 15),
    "grass": lambda: _mottled((96, 142, 70), 34, 18),
    "leaves": lambda: _mottled((74, 122, 54), 70, 19),
    "needles": lambda: _mottled((48, 92, 58), 54, 20),
    "fields": lambda: _mottled((142, 160, 108), 20, 21),
    "roof": _roof,
    "tiles": _tiles,
}


def paint_rgb(color: str) -> tuple[int, int, int]:
    """A palette colour as paint in daylight: less strong, nothing quite black."""
    if color == "white":
        return (250, 249, 245)
    share, light = (0.8, 226) if color != "black" else (0.8, 120)
    return tuple(round(share * c + (1 - share) * light) for c in PALETTE[color])


@cache
def pictures() -> dict[str, Picture]:
    """All textures by name; those of walls are called by the facade and its colour, as "brick red"."""
    painted = {
        f"{name} {color}": canvas.painted(paint_rgb(color))
        for name, draw in (FACADES | GROUND_FLOORS).items()
        for canvas in [draw()]
        for color in PALETTE
    }
    return painted | {name: draw() for name, draw in _OTHERS.items()}


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    from matplotlib import get_data_path

    return ImageFont.truetype(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf", size)


def sign_pictures(signs: Sequence[tuple[str, str]]) -> list[Picture]:
    """Textures of boards (name, colour), SIGNS_EACH in each, from the top."""
    made = []
    for first in range(0, len(signs), SIGNS_EACH):
        page = np.zeros((SIDE, SIDE, 3), np.uint8)
        for k, (name, color) in enumerate(signs[first : first + SIGNS_EACH]):
            page[k * SIGN_PX[1] : (k + 1) * SIGN_PX[1]] = _board(name, color)
        made.append(page)
    return made


@cache
def _board(name: str, color: str) -> Picture:
    finer = 4
    width, height = (side * finer for side in SIGN_PX)
    ink = (24, 24, 26) if color in LIGHT_SIGNS else (248, 248, 246)
    image = Image.new("RGB", (width, height), PALETTE[color])
    draw = ImageDraw.Draw(image)
    size = 27 * finer
    while _font(size).getlength(name) > width * 0.93:
        size -= 1
    draw.text((width / 2, height / 2), name, fill=ink, font=_font(size), anchor="mm")
    return np.asarray(image.resize(SIGN_PX, Image.Resampling.BOX))
