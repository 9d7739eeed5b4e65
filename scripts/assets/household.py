"""Cutting boards, chessboards, a fish bowl and a saucepan, built from primitives for more than one look of each.

Front along +Z, standing on y = 0, metres; materials named "paint" are the main ones. `shapes.SHAPES` lists them.
"""

import numpy as np

from eqa.scripts.assets.builder import Builder, ellipse
from eqa.scripts.assets.sources import Shape

DARK, WOOD = (36, 36, 40), (150, 98, 56)


def _rounded(width: float, depth: float, *, corner: float = 0.03) -> list[tuple[float, float]]:
    w, d = width / 2, depth / 2
    corners = [(w, d - corner), (w - corner, d), (corner - w, d), (-w, d - corner)]
    return corners + [(-x, -z) for x, z in corners]


def paddle_cutting_board() -> Shape:
    """Board with a handle; a knife, half a cucumber with its slices, and tomatoes on it."""
    b = Builder()
    b.slot("paint", WOOD)
    b.slot("dark", DARK)
    b.slot("metal", (206, 208, 212))
    b.slot("tomato", (206, 36, 30))
    b.slot("cucumber", (42, 118, 50))
    b.slot("flesh", (186, 216, 130))
    b.prism("paint", _rounded(0.34, 0.24), 0.0, 0.025)
    b.prism(
        "paint", [(0.16, -0.04), (0.2, -0.025), (0.29, -0.03), (0.29, 0.03), (0.2, 0.025), (0.16, 0.04)], 0.0, 0.025
    )
    b.prism("dark", ellipse(0.022, 0.022, sides=8, centre=(0.268, 0)), 0.0, 0.0265)
    ball = [(0.015, 0.0), (0.036, 0.014), (0.04, 0.034), (0.03, 0.058), (0.008, 0.066), (0.0, 0.062)]
    b.lathe("tomato", ball, sides=10, centre=(-0.11, 0.025, -0.06))
    b.lathe("tomato", ball[:3] + [(0.0, 0.036)], sides=10, centre=(-0.02, 0.025, -0.07))
    b.tube("cucumber", [(-0.14, 0.045, 0.03), (-0.05, 0.047, 0.03), (0.0, 0.047, 0.03)], 0.022, sides=8)
    for x in (0.001, 0.028, 0.052, 0.076):
        b.tube("cucumber", [(x, 0.047, 0.03), (x + 0.006, 0.047, 0.03)], 0.0225, sides=8)
        b.tube("flesh", [(x + 0.006, 0.047, 0.03), (x + 0.008, 0.047, 0.03)], 0.02, sides=8)
    b.prism("metal", [(-0.05, 0.075), (0.1, 0.07), (0.1, 0.1), (-0.02, 0.1)], 0.026, 0.03)
    b.box("dark", (0.1, 0.025, 0.075), (0.21, 0.045, 0.098))
    return b.shape()


def bread_cutting_board() -> Shape:
    """Round board with a loaf, two slices cut off it and a bread knife."""
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("crust", (204, 142, 70))
    b.slot("crumb", (244, 224, 180))
    b.slot("metal", (206, 208, 212))
    b.slot("dark", DARK)
    b.prism("paint", ellipse(0.36, 0.30, sides=24), 0.0, 0.022)
    loaf = [(0.024, -0.05), (0.07, -0.056), (0.10, -0.035), (0.112, 0.0), (0.10, 0.035), (0.07, 0.056), (0.024, 0.05)]
    crumb = [(0.024 + 0.88 * (y - 0.024) + 0.005, 0.88 * z - 0.02) for y, z in loaf]
    loaf = [(y, z - 0.02) for y, z in loaf]
    b.prism("crust", loaf, -0.13, 0.03, axis=0)
    b.prism("crumb", crumb, 0.03, 0.033, axis=0)
    for x in (0.055, 0.085):
        b.prism("crust", loaf, x, x + 0.012, axis=0)
        b.prism("crumb", crumb, x + 0.012, x + 0.015, axis=0)
    for x in (-0.1, -0.06, -0.02):
        b.box("crumb", (x, 0.108, -0.045), (x + 0.008, 0.115, 0.005))
    b.box("metal", (-0.11, 0.022, 0.07), (0.06, 0.027, 0.095))
    b.box("dark", (0.06, 0.022, 0.07), (0.16, 0.042, 0.092))
    return b.shape()


def standing_cutting_boards() -> Shape:
    """A broad board with a grip hole and a round-headed one before it, upright in a block."""
    b = Builder()
    b.slot("paint", WOOD)
    b.slot("maple", (226, 192, 140))
    b.slot("hole", (44, 38, 34))
    b.box("paint", (-0.15, 0.0, -0.055), (0.15, 0.035, 0.075))
    broad = [(x, y + 0.205) for x, y in _rounded(0.36, 0.38)]
    b.prism("paint", broad, -0.035, -0.015, axis=2)
    b.prism("hole", [(x, y + 0.355) for x, y in _rounded(0.11, 0.028, corner=0.012)], -0.036, -0.0135, axis=2)
    head = [(0.09 * np.cos(a), 0.17 + 0.09 * np.sin(a)) for a in np.linspace(-0.2, np.pi + 0.2, 9)]
    b.prism("maple", [(0.09, 0.03), *head, (-0.09, 0.03)], 0.025, 0.043, axis=2)
    b.box("maple", (-0.018, 0.25, 0.025), (0.018, 0.335, 0.043))
    b.prism("hole", ellipse(0.016, 0.016, sides=8, centre=(0, 0.315)), 0.024, 0.0445, axis=2)
    return b.shape()


SQUARES = 8


def _chess_squares(b: Builder, light: str, side: float, height: float) -> None:
    """The 32 light squares as flat quads; the surface below them gives the dark ones."""
    step = side / SQUARES
    places = [(i, k) for i in range(SQUARES) for k in range(SQUARES) if (i + k) % 2]
    corners = np.array([(i + di, k + dk) for i, k in places for di, dk in ((0, 0), (1, 0), (1, 1), (0, 1))])
    points = np.insert(corners * step - side / 2, 1, height, axis=1)
    first = 4 * np.arange(len(places))[:, None, None]
    b.add(light, points, (first + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3))


PAWN = [(0.34, 0.0), (0.15, 0.4), (0.26, 0.75), (0.0, 0.95)]
KING = [(0.38, 0.0), (0.18, 0.6), (0.34, 1.5), (0.0, 1.85)]
ROOK = [(0.36, 0.0), (0.22, 0.4), (0.22, 0.85), (0.36, 0.95), (0.34, 1.2)]


def _chess_pieces(b: Builder, slot: str, side: float, height: float, places: list[tuple[int, int, list]]) -> None:
    step = side / SQUARES
    for column, row, profile in places:
        centre = ((column + 0.5) * step - side / 2, height, (row + 0.5) * step - side / 2)
        b.lathe(slot, [(r * step, 1.35 * y * step) for r, y in profile], sides=5, centre=centre)


def box_chessboard() -> Shape:
    """A box with a frame round the squares and a drawer in front, a game half played."""
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("light", (222, 190, 138))
    b.slot("ivory", (244, 240, 226))
    b.slot("ebony", (26, 24, 24))
    b.box("paint", (-0.2, 0.012, -0.2), (0.2, 0.07, 0.2))
    for x in (-0.17, 0.14):
        for z in (-0.17, 0.14):
            b.box("ebony", (x, 0, z), (x + 0.03, 0.012, z + 0.03))
    for x in (-0.1, 0.1):
        b.box("ebony", (x - 0.088, 0.022, 0.198), (x + 0.088, 0.06, 0.2015))
        b.box("paint", (x - 0.085, 0.025, 0.198), (x + 0.085, 0.057, 0.204))
        b.prism("ivory", ellipse(0.016, 0.016, sides=6, centre=(x, 0.041)), 0.2, 0.214, axis=2)
    _chess_squares(b, "light", 0.34, 0.0712)
    white = [(0, 6, PAWN), (2, 5, PAWN), (3, 4, PAWN), (5, 6, PAWN), (6, 6, PAWN), (6, 7, KING), (0, 7, ROOK)]
    black = [(1, 1, PAWN), (3, 3, PAWN), (4, 2, PAWN), (6, 1, PAWN), (7, 1, PAWN), (5, 0, KING), (3, 0, ROOK)]
    _chess_pieces(b, "ivory", 0.34, 0.07, [*white, (4, 4, KING)])
    _chess_pieces(b, "ebony", 0.34, 0.07, [*black, (5, 2, KING)])
    return b.shape()


def round_chessboard() -> Shape:
    """Squares set into a round plate, tall pieces drawn up in two rows."""
    b = Builder()
    b.slot("paint", (42, 138, 60))
    b.slot("light", (232, 210, 164))
    b.slot("ivory", (246, 240, 222))
    b.slot("ebony", (120, 30, 28))
    b.lathe("paint", [(0.17, 0.0), (0.225, 0.012), (0.23, 0.024), (0.22, 0.03), (0.0, 0.03)], sides=28)
    _chess_squares(b, "light", 0.29, 0.0312)
    for slot, back, front in (("ivory", 7, 6), ("ebony", 0, 1)):
        tall = [(0, back, ROOK), (3, back, KING), (4, back, KING), (7, back, ROOK)]
        _chess_pieces(b, slot, 0.29, 0.03, tall + [(k, front, PAWN) for k in (0, 2, 3, 5, 7)])
    return b.shape()


def fish_bowl() -> Shape:
    """Round glass full of water on gravel, goldfish and weed near its wall."""
    b = Builder()
    b.slot("paint", (150, 202, 226))
    b.slot("rim", (214, 236, 244))
    b.slot("gravel", (214, 190, 140))
    b.slot("fish", (244, 120, 24))
    b.slot("weed", (44, 140, 60))
    profile = [(0.09, 0.0), (0.14, 0.05), (0.165, 0.12), (0.155, 0.19), (0.12, 0.24)]
    b.lathe("gravel", [*profile[:2], (0.151, 0.07)], sides=20)
    b.lathe("paint", [(0.149, 0.07), *profile[2:], (0.0, 0.24)], sides=20)
    b.lathe("rim", [(0.112, 0.24), (0.105, 0.262), (0.13, 0.28), (0.112, 0.272), (0.098, 0.262), (0.1, 0.24)], sides=20)
    for turn, y, flip in ((0.0, 0.13, 1), (1.35, 0.17, -1), (2.7, 0.11, 1), (-1.2, 0.12, -1), (-2.3, 0.17, 1)):
        _on_bowl(b, "fish", _FISH, turn, y, flip, 0.004)
    for turn in (0.55, 1.9, 3.4, 5.4):
        _on_bowl(b, "weed", 1.35 * _WEED, turn, 0.06, 1, 0.003)
    return b.shape()


_FISH = np.array([(0.045, 0.0), (0.02, 0.02), (-0.012, 0.014), (-0.045, 0.026), (-0.038, 0.0), (-0.045, -0.024),
                  (-0.012, -0.012), (0.02, -0.016)])  # fmt: skip
_WEED = np.array([(0.0, 0.0), (0.012, 0.0), (0.02, 0.05), (0.006, 0.11), (0.0, 0.06), (-0.016, 0.085), (-0.014, 0.04)])


def _on_bowl(b: Builder, slot: str, outline: np.ndarray, turn: float, y: float, flip: int, out: float) -> None:
    """Lays a flat outline (along the wall, upwards) on the bowl's wall, which bulges most at 0.12 m."""
    height = y + outline[:, 1]
    radius = np.interp(height, [0.0, 0.05, 0.12, 0.19, 0.24], [0.09, 0.14, 0.165, 0.155, 0.12]) + out
    angle = turn + flip * outline[:, 0] / 0.16
    points = np.column_stack([radius * np.sin(angle), height, radius * np.cos(angle)])
    points = np.concatenate([points, points.mean(axis=0, keepdims=True)])
    count = len(outline)
    b.add(slot, points, np.array([(count, k, (k + 1) % count) for k in range(count)]))


def saucepan() -> Shape:
    """Deep pan with a long handle and a lid with a knob."""
    b = Builder()
    b.slot("paint", (192, 28, 34))
    b.slot("metal", (186, 188, 192))
    b.slot("dark", DARK)
    b.lathe("paint", [(0.0, 0.0), (0.095, 0.0), (0.105, 0.015), (0.107, 0.12)], sides=20)
    b.lathe("metal", [(0.114, 0.118), (0.114, 0.126), (0.07, 0.145), (0.0, 0.15)], sides=20)
    b.lathe("dark", [(0.008, 0.148), (0.01, 0.16), (0.022, 0.17), (0.02, 0.182), (0.0, 0.185)], sides=10)
    b.tube("dark", [(0.1, 0.095, 0), (0.16, 0.105, 0), (0.31, 0.115, 0)], 0.014, sides=7)
    return b.shape()


SHAPES = (
    paddle_cutting_board,
    bread_cutting_board,
    standing_cutting_boards,
    box_chessboard,
    round_chessboard,
    fish_bowl,
    saucepan,
)
