"""Objects that the libraries lack, or have too few looks of, built from primitives.

`SHAPES` maps a name to a function that gives its `Shape`. Front along +Z, standing on y = 0, metres. Materials named
"paint" are the main ones.
"""

from collections.abc import Callable

import numpy as np

from eqa.scripts.assets import furniture, household, machines, pictures
from eqa.scripts.assets.builder import Builder, ellipse, mirror_image, rectangle
from eqa.scripts.assets.sources import Shape


def wall_mirror() -> Shape:
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("glass", image=mirror_image())
    for x in (-0.37, 0.31):
        b.box("paint", (x, 0, 0), (x + 0.06, 1.0, 0.04))
    for y in (0, 0.94):
        b.box("paint", (-0.37, y, 0), (0.37, y + 0.06, 0.04))
    b.box("paint", (-0.33, 0.03, 0), (0.33, 0.97, 0.01))
    b.pane("glass", rectangle(0.62, 0.06, 0.94), 0.02)
    return b.shape()


def round_mirror() -> Shape:
    b = Builder()
    b.slot("paint", (150, 120, 60))
    b.slot("glass", image=mirror_image())
    angle = np.linspace(0, 2 * np.pi, 33)
    b.tube("paint", [(0.36 * np.cos(a), 0.36 * np.sin(a), 0.03) for a in angle], 0.03, sides=6)
    b.prism("paint", ellipse(0.7, 0.7), 0.0, 0.015, axis=2)
    b.pane("glass", ellipse(0.68, 0.68), 0.03)
    return b.shape()


def standing_mirror() -> Shape:
    b = Builder()
    b.slot("paint", (112, 68, 36))
    b.slot("glass", image=mirror_image())
    for x in (-0.30, 0.30):
        b.tube("paint", [(x, 0.04, 0), (x, 1.25, 0)], 0.018)
        b.tube("paint", [(x, 0.02, -0.25), (x, 0.06, 0), (x, 0.02, 0.25)], 0.02)
    b.tube("paint", [(-0.3, 0.12, 0), (0.3, 0.12, 0)], 0.015)
    outline = ellipse(0.54, 1.5, centre=(0, 0.95))
    b.tube("paint", [(x, y, 0.0) for x, y in [*outline, outline[0]]], 0.025, sides=6)
    b.prism("paint", ellipse(0.52, 1.46, centre=(0, 0.95)), -0.012, 0.0, axis=2)
    b.pane("glass", ellipse(0.52, 1.46, centre=(0, 0.95)), 0.008)
    return b.shape()


def canister_vacuum() -> Shape:
    """Sledge with wheels and a dust bin, a hose over its top, a bent tube and a floor head in front."""
    b = Builder()
    b.slot("paint", (192, 28, 34))
    b.slot("dark", (40, 40, 44))
    b.slot("metal", (178, 180, 184))
    b.prism("paint", ellipse(0.27, 0.40, centre=(0, -0.15)), 0.05, 0.17)
    b.lathe("paint", [(0.13, 0.17), (0.11, 0.21), (0.06, 0.24), (0.0, 0.245)], centre=(0, 0, -0.15))
    b.prism("dark", ellipse(0.275, 0.405, centre=(0, -0.15)), 0.09, 0.105)
    for x in (-0.15, 0.13):
        wheel = ellipse(0.18, 0.18, sides=16, centre=(0.09, -0.26))
        b.prism("dark", wheel, x, x + 0.025, axis=0)
    b.tube("dark", [(0.05, 0.2, -0.33), (0.05, 0.27, -0.25), (0.05, 0.275, -0.05), (0.05, 0.23, 0.02)], 0.012)
    hose = [(0, 0.2, 0.0), (0, 0.3, 0.06), (0.02, 0.5, 0.1), (0.06, 0.72, 0.08), (0.1, 0.88, 0.12), (0.12, 0.93, 0.2)]
    b.tube("dark", hose, 0.02)
    b.tube("metal", [(0.12, 0.93, 0.2), (0.12, 0.88, 0.27), (0.12, 0.06, 0.62)], 0.017)
    b.prism("paint", [(-0.03, 0.58), (0.27, 0.58), (0.27, 0.66), (0.2, 0.69), (0.04, 0.69), (-0.03, 0.66)], 0.0, 0.055)
    return b.shape()


def upright_vacuum() -> Shape:
    """Floor head, slanting body with a dust bag, a long handle with a loop."""
    b = Builder()
    b.slot("paint", (34, 84, 186))
    b.slot("dark", (44, 44, 48))
    b.slot("metal", (178, 180, 184))
    b.box("paint", (-0.16, 0.015, 0.0), (0.16, 0.11, 0.26))
    b.box("dark", (-0.165, 0.0, 0.22), (0.165, 0.045, 0.28))
    for x in (-0.185, 0.16):
        b.prism("dark", ellipse(0.13, 0.13, sides=16, centre=(0.065, 0.02)), x, x + 0.025, axis=0)
    body = [(0.1, -0.02), (0.1, 0.12), (0.62, -0.02), (0.70, -0.08), (0.66, -0.16), (0.3, -0.1)]
    b.prism("paint", body, -0.10, 0.10, axis=0)
    b.prism("dark", [(0.16, 0.11), (0.2, 0.14), (0.55, 0.045), (0.56, 0.0)], -0.075, 0.075, axis=0)
    b.tube("metal", [(0, 0.62, -0.1), (0, 1.0, -0.21)], 0.016)
    loop = [(0, 0.98, -0.2), (0, 1.1, -0.2), (0, 1.16, -0.26), (0, 1.12, -0.32), (0, 1.0, -0.25)]
    b.tube("dark", loop, 0.018)
    return b.shape()


def frying_pan() -> Shape:
    b = Builder()
    b.slot("paint", (52, 52, 56))
    b.slot("inside", (34, 34, 36))
    b.slot("grip", (30, 30, 32))
    b.lathe("paint", [(0.0, 0.0), (0.105, 0.0), (0.14, 0.05), (0.134, 0.05), (0.10, 0.006), (0.0, 0.006)], sides=28)
    b.lathe("inside", [(0.098, 0.0065), (0.0, 0.007)], sides=28)
    b.tube("grip", [(0.13, 0.043, 0), (0.2, 0.062, 0), (0.33, 0.07, 0)], 0.013)
    return b.shape()


def game_console() -> Shape:
    """Low two-tone box with a slot and a round light, and a gamepad on top."""
    b = Builder()
    b.slot("paint", (46, 46, 48))
    b.slot("grill", (18, 18, 20))
    b.slot("light", (245, 250, 245), unlit=True)
    b.slot("green", (60, 190, 60), unlit=True)
    b.box("paint", (-0.165, 0.004, -0.13), (0.0, 0.08, 0.135))
    b.box("grill", (0.0, 0.004, -0.13), (0.165, 0.08, 0.135))
    b.box("grill", (-0.14, 0.052, 0.13), (-0.03, 0.058, 0.137))
    b.prism("light", ellipse(0.03, 0.03, sides=14, centre=(0.14, 0.055)), 0.13, 0.138, axis=2)
    pad = [(-0.075, 0.055), (-0.085, 0.0), (-0.06, -0.045), (0.06, -0.045), (0.085, 0.0), (0.075, 0.055)]
    pad += [(0.045, 0.06), (0.03, 0.025), (-0.03, 0.025), (-0.045, 0.06)]
    b.prism("paint", pad, 0.082, 0.112)
    b.prism("green", ellipse(0.02, 0.02, sides=12, centre=(0.0, -0.028)), 0.112, 0.117)
    for x, z in ((-0.045, -0.01), (0.022, 0.008)):
        b.lathe("grill", [(0.009, 0.11), (0.009, 0.124), (0.0, 0.125)], sides=10, centre=(x, 0, z))
    return b.shape()


def tower_console() -> Shape:
    """Upright box with a glowing vent on top and a disc slot."""
    b = Builder()
    b.slot("paint", (44, 44, 46))
    b.slot("green", (60, 190, 60), unlit=True)
    b.slot("grill", (16, 16, 18))
    b.slot("light", (245, 250, 245), unlit=True)
    b.box("paint", (-0.075, 0.0, -0.075), (0.075, 0.30, 0.075))
    b.prism("green", ellipse(0.125, 0.125, sides=20), 0.30, 0.301)
    b.prism("grill", ellipse(0.108, 0.108, sides=20), 0.3, 0.302)
    b.box("grill", (-0.05, 0.06, 0.07), (-0.044, 0.2, 0.076))
    b.prism("light", ellipse(0.022, 0.022, sides=12, centre=(-0.047, 0.265)), 0.07, 0.077, axis=2)
    return b.shape()


def _speaker(height: float, cones: list[tuple[float, float]]) -> Shape:
    """A box with round drivers (height of the middle, radius) in its front."""
    b = Builder()
    b.slot("paint", (92, 56, 32))
    b.slot("front", (34, 34, 36))
    b.slot("ring", (150, 152, 156))
    b.slot("cone", (70, 70, 74))
    b.slot("cap", (22, 22, 24))
    b.box("paint", (-0.11, 0, -0.13), (0.11, height, 0.12))
    b.box("front", (-0.10, 0.01, 0.10), (0.10, height - 0.01, 0.127))
    for middle, radius in cones:
        for slot, size, z in (("ring", 1.0, 0.134), ("cone", 0.86, 0.137), ("cap", 0.34, 0.142)):
            b.prism(slot, ellipse(2 * radius * size, 2 * radius * size, sides=22, centre=(0, middle)), 0.12, z, axis=2)
    return b.shape()


def shelf_speaker() -> Shape:
    return _speaker(0.36, [(0.12, 0.078), (0.27, 0.036)])


def tower_speaker() -> Shape:
    return _speaker(0.95, [(0.2, 0.085), (0.44, 0.085), (0.66, 0.07), (0.83, 0.035)])


def cube_ottoman() -> Shape:
    b = Builder()
    b.slot("paint", (120, 52, 152))
    b.slot("wood", (70, 44, 26))
    for x in (-0.24, 0.19):
        for z in (-0.24, 0.19):
            b.box("wood", (x, 0, z), (x + 0.05, 0.09, z + 0.05))
    b.box("paint", (-0.27, 0.08, -0.27), (0.27, 0.33, 0.27))
    rim = [(0.25, 0.34), (0.285, 0.36), (0.285, 0.42), (0.25, 0.45)]
    rings = [[(-r, -r), (r, -r), (r, r), (-r, r)] for r, _ in rim]
    b.rings("paint", np.array([[(x, y, z) for x, z in ring] for ring, (_, y) in zip(rings, rim, strict=True)]))
    return b.shape()


def wall_clock() -> Shape:
    b = Builder()
    b.slot("paint", (30, 30, 32))
    b.slot("face", (248, 248, 244))
    b.slot("hands", (20, 20, 22))
    angle = np.linspace(0, 2 * np.pi, 29)
    b.tube("paint", [(0.15 * np.cos(a), 0.15 * np.sin(a), 0.02) for a in angle], 0.018, sides=6)
    b.prism("face", ellipse(0.3, 0.3), 0.0, 0.02, axis=2)
    for hour in range(12):
        x, y = 0.118 * np.sin(hour * np.pi / 6), 0.118 * np.cos(hour * np.pi / 6)
        b.box("hands", (x - 0.004, y - 0.012, 0.02), (x + 0.004, y + 0.012, 0.024), turn_z_deg=-30 * hour)
    b.box("hands", (-0.007, -0.01, 0.022), (0.007, 0.075, 0.027), turn_z_deg=0)
    b.box("hands", (-0.01, -0.006, 0.022), (0.095, 0.006, 0.027), turn_z_deg=20)
    return b.shape()


def shower_cabin() -> Shape:
    """Tray, two tiled walls, chrome posts, a head on a rail; open to the front, so that people recognise it."""
    b = Builder()
    b.slot("paint", (236, 238, 240))
    b.slot("metal", (150, 154, 160))
    b.slot("tiles", (168, 200, 214))
    b.slot("dark", (90, 94, 100))
    b.box("paint", (-0.45, 0, -0.45), (0.45, 0.12, 0.45))
    b.box("dark", (-0.40, 0.118, -0.40), (0.40, 0.122, 0.40))
    b.box("tiles", (-0.45, 0.12, -0.45), (0.45, 2.0, -0.43))
    b.box("tiles", (-0.45, 0.12, -0.45), (-0.43, 2.0, 0.45))
    for x, z in ((-0.44, 0.44), (0.44, -0.44), (0.44, 0.44)):
        b.box("metal", (x - 0.015, 0.1, z - 0.015), (x + 0.015, 2.02, z + 0.015))
    b.box("metal", (-0.455, 1.98, 0.425), (0.455, 2.02, 0.455))
    b.box("metal", (0.425, 1.98, -0.455), (0.455, 2.02, 0.455))
    b.tube("metal", [(0, 0.95, -0.4), (0, 1.9, -0.4), (0, 1.96, -0.34), (0, 1.95, -0.14)], 0.013)
    b.lathe("metal", [(0.02, 1.95), (0.1, 1.91), (0.1, 1.9), (0.0, 1.9)], sides=18, centre=(0, 0, -0.12))
    b.box("metal", (-0.1, 1.02, -0.43), (0.1, 1.07, -0.36))
    return b.shape()


def wall_whiteboard() -> Shape:
    b = Builder()
    b.slot("paint", (150, 153, 158))
    b.slot("board", (250, 250, 250))
    for k, rgb in enumerate([(34, 84, 186), (192, 28, 34), (42, 138, 60), (30, 30, 32)]):
        b.slot(f"ink{k}", rgb)
    b.box("board", (-0.75, 0.04, 0.0), (0.75, 1.0, 0.02))
    for low, high in (((-0.78, 0, 0), (-0.75, 1.03, 0.03)), ((0.75, 0, 0), (0.78, 1.03, 0.03))):
        b.box("paint", low, high)
    b.box("paint", (-0.78, 1.0, 0), (0.78, 1.03, 0.03))
    b.box("paint", (-0.78, 0.0, 0), (0.78, 0.04, 0.09))
    for k in range(4):
        b.box(f"ink{k}", (-0.3 + 0.16 * k, 0.04, 0.04), (-0.18 + 0.16 * k, 0.058, 0.06))
    for row, (ink, start, stop) in enumerate([(0, -0.6, 0.0), (0, -0.6, -0.15), (1, -0.6, 0.1), (3, -0.6, -0.3)]):
        y = 0.86 - 0.13 * row
        b.box(f"ink{ink}", (start, y, 0.02), (stop, y + 0.018, 0.022))
    for k, height in enumerate((0.12, 0.26, 0.18, 0.34)):
        b.box(f"ink{k}", (0.24 + 0.1 * k, 0.3, 0.02), (0.31 + 0.1 * k, 0.3 + height, 0.023))
    return b.shape()


SHAPES: dict[str, Callable[[], Shape]] = {
    function.__name__.replace("_", " "): function
    for function in (
        wall_mirror,
        round_mirror,
        standing_mirror,
        canister_vacuum,
        upright_vacuum,
        frying_pan,
        game_console,
        tower_console,
        shelf_speaker,
        tower_speaker,
        cube_ottoman,
        wall_clock,
        shower_cabin,
        wall_whiteboard,
        *furniture.SHAPES,
        *household.SHAPES,
        *machines.SHAPES,
    )
} | pictures.SHAPES
