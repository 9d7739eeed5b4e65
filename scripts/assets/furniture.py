"""Ironing boards, shoe racks, dressing tables and a whiteboard, built from primitives: the libraries have one or none.

Front along +Z, standing on y = 0, metres; materials named "paint" are the main ones. `shapes.SHAPES` lists them.
"""

import numpy as np

from eqa.scripts.assets.builder import Builder, ellipse, mirror_image, rectangle
from eqa.scripts.assets.sources import Shape

DARK, METAL, WOOD = (36, 36, 40), (178, 180, 184), (150, 98, 56)


def _ironing_legs(b: Builder, height: float) -> None:
    for x0, x1, z in ((-0.42, 0.38, 0.1), (0.42, -0.38, 0.07)):
        for side in (-1, 1):
            b.tube("metal", [(x0, 0.02, side * z * 1.6), (x1, height, side * z)], 0.012)
        b.tube("metal", [(x0, 0.02, -z * 2), (x0, 0.02, z * 2)], 0.014)


def _iron(b: Builder, x: float, y: float) -> None:
    sole = [(x - 0.12, -0.055), (x - 0.12, 0.055), (x + 0.02, 0.055), (x + 0.1, 0.025), (x + 0.14, 0.0)]
    sole += [(x + 0.1, -0.025), (x + 0.02, -0.055)]
    b.prism("metal", sole, y, y + 0.012)
    b.prism("iron", [(x + (px - x) * 0.92, pz * 0.9) for px, pz in sole], y + 0.012, y + 0.06)
    b.tube(
        "iron",
        [(x - 0.1, y + 0.06, 0), (x - 0.1, y + 0.12, 0), (x + 0.03, y + 0.13, 0), (x + 0.07, y + 0.06, 0)],
        0.016,
    )


def _board_outline(length: float, half_width: float) -> list[tuple[float, float]]:
    """Outline from a square end at 0 to a rounded nose at `length`, along the first axis."""
    w = half_width
    nose = [(0.78 * length, w), (0.89 * length, 0.76 * w), (0.975 * length, 0.4 * w), (length, 0.0)]
    side = [(0.0, 0.88 * w), (0.025, w), *nose]
    return side + [(along, -across) for along, across in side[-2::-1]]


def ironing_board() -> Shape:
    """Board with a rounded nose on crossed legs, an iron on it."""
    b = Builder()
    b.slot("paint", (34, 84, 186))
    b.slot("metal", (176, 178, 182))
    b.slot("iron", (235, 235, 238))
    nose = [(0.42, -0.17), (0.56, -0.13), (0.65, -0.07), (0.68, 0.0), (0.65, 0.07), (0.56, 0.13), (0.42, 0.17)]
    b.prism("paint", [(-0.55, 0.17), (-0.58, 0.15), (-0.58, -0.15), (-0.55, -0.17), *nose], 0.86, 0.90)
    b.tube("metal", [(-0.58, 0.87, -0.14), (-0.76, 0.87, -0.12), (-0.76, 0.87, 0.12), (-0.58, 0.87, 0.14)], 0.01)
    _ironing_legs(b, 0.86)
    _iron(b, -0.3, 0.90)
    return b.shape()


def folded_ironing_board() -> Shape:
    """Stood up on its square end with the nose above, its folded legs to the front with the iron hung between them."""
    b = Builder()
    b.slot("paint", (42, 138, 60))
    b.slot("metal", METAL)
    b.slot("iron", (238, 238, 240))
    b.slot("dark", DARK)
    b.prism("paint", [(x, y + 0.12) for y, x in _board_outline(1.3, 0.19)], 0.0, 0.04, axis=2)
    for side in (-1, 1):
        b.tube("metal", [(side * 0.14, 0.3, 0.06), (-side * 0.09, 1.15, 0.075)], 0.017, sides=6)
        b.tube("metal", [(side * 0.13, 0.12, 0.03), (side * 0.13, 0.0, 0.03)], 0.012, sides=6)
    for y, half in ((0.3, 0.2), (1.15, 0.15)):
        b.tube("metal", [(-half, y, 0.065), (half, y, 0.065)], 0.017, sides=6)
        for x in (-half - 0.02, half - 0.02):
            b.box("dark", (x, y - 0.022, 0.043), (x + 0.04, y + 0.022, 0.087))
    b.tube("metal", [(-0.13, 0.13, 0.02), (-0.13, 0.02, 0.06), (0.13, 0.02, 0.06), (0.13, 0.13, 0.02)], 0.01, sides=6)
    sole = [(0.0, 0.93), (-0.065, 0.8), (-0.085, 0.58), (0.085, 0.58), (0.065, 0.8)]
    b.prism("dark", sole, 0.085, 0.1, axis=2)
    b.prism("iron", [(0.88 * x, 0.6 + 0.9 * (y - 0.58)) for x, y in sole], 0.1, 0.14, axis=2)
    b.tube("iron", [(0, 0.63, 0.13), (0, 0.63, 0.19), (0, 0.77, 0.2), (0, 0.82, 0.13)], 0.02, sides=5)
    return b.shape()


def steam_ironing_board() -> Shape:
    """Broad board on two pillars with feet, a steam tank with its iron at one end, a shirt laid over the nose."""
    b = Builder()
    b.slot("paint", (120, 52, 152))
    b.slot("metal", METAL)
    b.slot("iron", (60, 64, 72))
    b.slot("shirt", (240, 240, 236))
    b.prism("paint", [(x - 0.55, z) for x, z in _board_outline(1.25, 0.22)], 0.84, 0.9)
    for x in (-0.42, 0.28):
        b.box("metal", (x - 0.025, 0.03, -0.04), (x + 0.025, 0.86, 0.04))
        b.box("metal", (x - 0.03, 0.0, -0.24), (x + 0.03, 0.04, 0.24))
    b.box("metal", (-0.42, 0.3, -0.015), (0.28, 0.33, 0.015))
    b.box("metal", (-0.8, 0.86, -0.16), (-0.5, 0.875, 0.16))
    b.box("paint", (-0.78, 0.875, -0.14), (-0.56, 0.98, 0.14))
    _iron(b, -0.64, 0.985)
    b.box("shirt", (0.12, 0.895, -0.225), (0.42, 0.91, 0.225))
    b.box("shirt", (0.12, 0.56, 0.222), (0.42, 0.905, 0.235))
    b.box("shirt", (0.0, 0.66, 0.225), (0.16, 0.78, 0.24), turn_z_deg=40)
    b.box("shirt", (0.38, 0.66, 0.225), (0.54, 0.78, 0.24), turn_z_deg=-40)
    for y in (0.64, 0.72, 0.80):
        b.box("iron", (0.26, y, 0.235), (0.28, y + 0.02, 0.24))
    return b.shape()


def shoe_shelf() -> Shape:
    """Three boards between two sides; the shoes are put on it by the curation table."""
    b = Builder()
    b.slot("paint", WOOD)
    for x in (-0.40, 0.38):
        b.box("paint", (x, 0, -0.17), (x + 0.02, 0.66, 0.17))
    for y in (0.06, 0.30, 0.54):
        b.box("paint", (-0.39, y, -0.17), (0.39, y + 0.02, 0.17))
    b.box("paint", (-0.39, 0.62, -0.17), (0.39, 0.66, -0.15))
    return b.shape()


def _pair_of_shoes(b: Builder, slot: str, x: float, y: float, *, rise: float = 0.0, shaft: float = 0.0) -> None:
    """Two shoes, toes to the front. `rise`: height of the heels above the toes; `shaft`: height of a boot's leg."""
    sections = ((-0.125, 0.026, 0.075), (-0.04, 0.036, 0.085), (0.04, 0.04, 0.055), (0.125, 0.026, 0.03))
    for side in (-0.05, 0.05):
        rings = []
        for z, half, top in sections:
            base = y + rise * (0.125 - z) / 0.25
            ring = [(-half, 0), (-half, 0.6 * top), (0, 1.05 * top), (half, 0.6 * top), (half, 0)]
            rings.append([(x + side + px, base + py, z) for px, py in ring])
        b.rings(slot, np.array(rings))
        heel = y + rise * 0.8
        if shaft:
            b.box(slot, (x + side - 0.03, heel, -0.12), (x + side + 0.03, heel + shaft, -0.03))
        else:
            opening = [(-0.022, 0.081, -0.115), (0.022, 0.081, -0.115), (0.022, 0.092, -0.03), (-0.022, 0.092, -0.03)]
            b.add("inside", np.array(opening) + (x + side, heel, 0), np.array([(0, 1, 2), (0, 2, 3)]))


SHOE_COLORS = {"scarlet": (192, 28, 34), "black": DARK, "sand": (200, 160, 104), "navy": (34, 60, 130)}


def _shoe_slots(b: Builder) -> None:
    b.slot("inside", (226, 224, 216))
    for name, rgb in SHOE_COLORS.items():
        b.slot(name, rgb)


def slanted_shoe_rack() -> Shape:
    """Two hoops of bent tube hold three shelves that slope to the front, with shoes on them."""
    b = Builder()
    b.slot("paint", (128, 129, 132))
    _shoe_slots(b)
    for x in (-0.41, 0.41):
        hoop = [(x, 0, -0.14), (x, 0.68, -0.14), (x, 0.76, -0.08), (x, 0.76, 0.08), (x, 0.68, 0.14), (x, 0, 0.14)]
        b.tube("paint", hoop, 0.016, sides=6)
    pairs = ((("scarlet", 0), ("black", 0), ("navy", 0)), (("sand", 0), ("scarlet", 0), ("black", 0)))
    pairs += ((("black", 0.2), ("navy", 0), ("sand", 0)),)
    for y, row in zip((0.12, 0.34, 0.56), pairs, strict=True):
        b.box("paint", (-0.40, y - 0.012, -0.17), (0.40, y + 0.012, 0.17), turn_x_deg=15)
        b.box("paint", (-0.40, y - 0.045, 0.155), (0.40, y + 0.0, 0.17))
        for x, (slot, shaft) in zip((-0.26, 0.0, 0.26), row, strict=True):
            _pair_of_shoes(b, slot, x, y - 0.018, rise=0.066, shaft=shaft)
    return b.shape()


def shoe_bench() -> Shape:
    """A bench with a cushion to sit on, over two rows of shoes."""
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("cushion", (214, 202, 180))
    _shoe_slots(b)
    for x in (-0.5, 0.47):
        b.box("paint", (x, 0, -0.17), (x + 0.03, 0.62, 0.17))
        b.box("paint", (x - 0.005, 0.60, -0.18), (x + 0.035, 0.64, 0.18))
    for y in (0.05, 0.23, 0.41):
        b.box("paint", (-0.48, y, -0.17), (0.48, y + 0.025, 0.17))
    b.box("cushion", (-0.465, 0.435, -0.165), (0.465, 0.50, 0.175))
    for y, row in ((0.075, ("black", "sand", "scarlet")), (0.255, ("navy", "scarlet", "black"))):
        for x, slot in zip((-0.3, 0.0, 0.3), row, strict=True):
            _pair_of_shoes(b, slot, x, y)
    return b.shape()


def _pouf(b: Builder, z: float, height: float) -> None:
    for x in (-0.1, 0.1):
        for side in (-0.1, 0.1):
            b.tube("brass", [(1.3 * x, 0, z + 1.3 * side), (x, height - 0.06, z + side)], 0.012, sides=5)
    pouf = [(0.17, height - 0.08), (0.185, height - 0.03), (0.16, height)]
    b.lathe("cushion", pouf, sides=14, centre=(0, 0, z))


def round_mirror_dressing_table() -> Shape:
    """Table with two drawers on slender legs, a round mirror on it, a stool before it, bottles on top."""
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("brass", (200, 164, 84))
    b.slot("cushion", (226, 190, 196))
    b.slot("glass", image=mirror_image())
    b.box("paint", (-0.5, 0.72, -0.21), (0.5, 0.75, 0.21))
    b.box("paint", (-0.47, 0.57, -0.19), (0.47, 0.72, 0.18))
    for x in (-0.235, 0.235):
        b.box("paint", (x - 0.22, 0.585, 0.18), (x + 0.22, 0.708, 0.195))
        b.box("brass", (x - 0.04, 0.64, 0.195), (x + 0.04, 0.655, 0.215))
        for z in (-0.15, 0.15):
            b.tube("paint", [(1.9 * x, 0, 1.1 * z), (1.8 * x, 0.58, z)], 0.02, sides=6)
    angle = np.linspace(0, 2 * np.pi, 23)
    b.tube("paint", [(0.3 * np.cos(a), 1.1 + 0.3 * np.sin(a), -0.17) for a in angle], 0.022, sides=4)
    b.prism("paint", ellipse(0.58, 0.58, sides=20, centre=(0, 1.1)), -0.185, -0.172, axis=2)
    b.pane("glass", ellipse(0.58, 0.58, sides=24, centre=(0, 1.1)), -0.165)
    b.box("paint", (-0.2, 0.75, -0.2), (0.2, 0.82, -0.15))
    b.lathe("cushion", [(0.025, 0.75), (0.025, 0.83), (0.01, 0.85), (0.01, 0.88)], sides=8, centre=(0.36, 0, -0.08))
    b.lathe("brass", [(0.03, 0.75), (0.03, 0.80), (0.0, 0.81)], sides=8, centre=(-0.36, 0, -0.06))
    _pouf(b, 0.28, 0.45)
    return b.shape()


def lit_mirror_dressing_table() -> Shape:
    """Two stacks of drawers with room for the knees between, a square mirror framed by bulbs above."""
    b = Builder()
    b.slot("paint", (242, 242, 240))
    b.slot("brass", (200, 164, 84))
    b.slot("bulb", (255, 240, 200), unlit=True)
    b.slot("glass", image=mirror_image())
    b.box("paint", (-0.58, 0.73, -0.22), (0.58, 0.76, 0.22))
    b.box("paint", (-0.2, 0.62, -0.2), (0.2, 0.73, 0.19))
    for x in (-0.38, 0.38):
        b.box("paint", (x - 0.18, 0.0, -0.21), (x + 0.18, 0.73, 0.19))
        for y in (0.06, 0.29, 0.52):
            b.box("paint", (x - 0.165, y, 0.19), (x + 0.165, y + 0.2, 0.205))
            b.box("brass", (x - 0.06, y + 0.12, 0.205), (x + 0.06, y + 0.135, 0.225))
    for x in (-0.5, 0.4):
        b.box("paint", (x, 0.76, -0.2), (x + 0.1, 1.5, -0.14))
    for y in (0.76, 1.4):
        b.box("paint", (-0.5, y, -0.2), (0.5, y + 0.1, -0.14))
    b.box("paint", (-0.42, 0.8, -0.2), (0.42, 1.45, -0.18))
    b.pane("glass", rectangle(0.8, 0.86, 1.4), -0.17)
    places = [(side * 0.45, y) for side in (-1, 1) for y in (0.95, 1.1, 1.25, 1.45)]
    places += [(x, 1.45) for x in (-0.2, 0.0, 0.2)]
    for x, y in places:
        b.rings("bulb", np.array([[(px, py, z) for px, py in ellipse(size, size, sides=6, centre=(x, y))]
                                  for size, z in ((0.05, -0.14), (0.062, -0.12), (0.03, -0.1))]))  # fmt: skip
    return b.shape()


def three_mirror_dressing_table() -> Shape:
    """Kneehole table on turned legs with three mirrors, the outer two swung forward, each with a rounded head."""
    b = Builder()
    b.slot("paint", (150, 98, 56))
    b.slot("brass", (200, 164, 84))
    b.slot("glass", image=mirror_image())
    b.box("paint", (-0.6, 0.70, -0.23), (0.6, 0.74, 0.23))
    b.box("paint", (-0.2, 0.58, -0.21), (0.2, 0.70, 0.2))
    for x in (-0.4, 0.4):
        b.box("paint", (x - 0.18, 0.36, -0.21), (x + 0.18, 0.70, 0.2))
        for y in (0.38, 0.54):
            b.box("paint", (x - 0.165, y, 0.2), (x + 0.165, y + 0.14, 0.212))
            b.prism("brass", ellipse(0.035, 0.035, sides=8, centre=(x, y + 0.07)), 0.21, 0.235, axis=2)
        for dx in (-0.15, 0.15):
            for z in (-0.17, 0.16):
                b.lathe("paint", [(0.014, 0.0), (0.032, 0.36)], sides=6, centre=(x + dx, 0, z))
    _arched_mirror(b, 0.0, -0.19, 0.44, 1.46, 0.0)
    for side in (-1, 1):
        _arched_mirror(b, side * 0.36, -0.12, 0.32, 1.28, -side * 32.0)
    return b.shape()


def _arched_mirror(b: Builder, x: float, z: float, width: float, top: float, turn_deg: float) -> None:
    """Stands on the table at 0.74 m; turned about the vertical."""
    c, s = np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg))
    for slot, inset, low, out in (("paint", 0.0, 0.74, 0.0), ("glass", 0.035, 0.78, 0.014)):
        half, bend = width / 2 - inset, top - 0.45 * width
        arch = [(half * np.cos(a), bend + (0.45 * width - inset) * np.sin(a)) for a in np.linspace(0, np.pi, 9)]
        outline = np.array([(half, low), *arch, (-half, low)])
        if slot == "paint":
            flat = np.array([[(px, py, pz) for px, py in outline] for pz in (-0.012, 0.012)])
            b.rings(slot, flat @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) + (x, 0, z))
        else:
            flat = np.column_stack([outline, np.full(len(outline), out)])
            points = flat @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) + (x, 0, z)
            faces = np.array([(0, k, k + 1) for k in range(1, len(points) - 1)])
            b.add(slot, points, faces, (outline - outline.min(axis=0)) / np.ptp(outline, axis=0))


def easel_whiteboard() -> Shape:
    """A tall board on three legs with a tray of pens, a curve and a list drawn on it."""
    b = Builder()
    b.slot("paint", (150, 153, 158))
    b.slot("board", (250, 250, 250))
    inks = [(34, 84, 186), (192, 28, 34), (42, 138, 60)]
    for number, rgb in enumerate(inks):
        b.slot(f"ink{number}", rgb)
    b.box("board", (-0.35, 0.82, 0.0), (0.35, 1.8, 0.02))
    for x in (-0.37, 0.35):
        b.box("paint", (x, 0.8, -0.005), (x + 0.02, 1.84, 0.03))
    b.box("paint", (-0.37, 1.8, -0.005), (0.37, 1.84, 0.03))
    b.box("paint", (-0.37, 0.78, -0.005), (0.37, 0.82, 0.09))
    for x in (-0.33, 0.33):
        b.tube("paint", [(1.25 * x, 0, 0.2), (x, 0.8, 0.01)], 0.02, sides=6)
    b.tube("paint", [(0, 0, -0.35), (0, 1.4, -0.02)], 0.02, sides=6)
    for number in range(3):
        b.box(f"ink{number}", (-0.25 + 0.16 * number, 0.82, 0.04), (-0.13 + 0.16 * number, 0.838, 0.06))
        y = 1.68 - 0.1 * number
        b.prism(f"ink{number}", ellipse(0.03, 0.03, sides=8, centre=(-0.25, y)), 0.02, 0.023, axis=2)
        b.box("ink0", (-0.2, y - 0.009, 0.02), (0.22 - 0.12 * (number % 2), y + 0.009, 0.023))
    b.box("ink2", (-0.26, 0.98, 0.02), (0.26, 0.992, 0.023))
    b.box("ink2", (-0.26, 0.98, 0.02), (-0.248, 1.36, 0.023))
    curve = [(-0.22, 1.02, 0.02), (-0.1, 1.1, 0.02), (0.0, 1.08, 0.02), (0.12, 1.24, 0.02), (0.24, 1.34, 0.02)]
    b.tube("ink1", curve, 0.009, sides=4)
    return b.shape()


SHAPES = (
    ironing_board,
    folded_ironing_board,
    steam_ironing_board,
    shoe_shelf,
    slanted_shoe_rack,
    shoe_bench,
    round_mirror_dressing_table,
    lit_mirror_dressing_table,
    three_mirror_dressing_table,
    easel_whiteboard,
)
