"""Further looks of appliances and consoles, built from primitives, as the libraries have one model of each.

Front along +Z, standing on y = 0, metres; materials named "paint" are the main ones. `shapes.SHAPES` lists them.
"""

import numpy as np

from eqa.scripts.assets.builder import Builder, ellipse
from eqa.scripts.assets.sources import Shape

DARK, METAL, WHITE = (36, 36, 40), (178, 180, 184), (242, 242, 240)
RED, YELLOW, GREEN, BLUE, PINK = (192, 28, 34), (244, 208, 44), (42, 138, 60), (34, 84, 186), (244, 142, 178)


def _laundry_window(b: Builder, middle: float, radius: float, z: float) -> None:
    """A round door in the front, with coloured laundry behind its glass."""
    for slot, size, out in (("metal", 1.0, 0.02), ("dark", 0.8, 0.028)):
        b.prism(slot, ellipse(2 * radius * size, 2 * radius * size, sides=16, centre=(0, middle)), z, z + out, axis=2)
    heap = ((RED, -0.35, -0.35), (YELLOW, 0.3, -0.42), (BLUE, 0.02, -0.1), (WHITE, 0.42, -0.05))
    for number, (rgb, x, y) in enumerate(heap):
        b.slot(f"cloth{number}", rgb)
        cloth = ellipse(0.7 * radius, 0.5 * radius, sides=7, centre=(x * radius, middle + y * radius))
        b.prism(f"cloth{number}", cloth, z, z + 0.03 + 0.002 * number, axis=2)


def _knob(b: Builder, slot: str, x: float, y: float, z: float, radius: float) -> None:
    b.prism(slot, ellipse(2 * radius, 2 * radius, sides=12, centre=(x, y)), z, z + 0.025, axis=2)


def console_dryer() -> Shape:
    """Broad dryer with its controls on a ridge behind, a square door and a lint grille."""
    b = Builder()
    b.slot("paint", WHITE)
    b.slot("dark", DARK)
    b.slot("metal", METAL)
    b.box("paint", (-0.34, 0, -0.33), (0.34, 0.91, 0.33))
    b.prism("paint", [(0.91, -0.33), (1.1, -0.33), (1.1, -0.26), (0.91, -0.2)], -0.34, 0.34, axis=0)
    b.box("dark", (-0.31, 0.935, -0.3), (0.31, 1.075, -0.19))
    for x, radius in ((-0.22, 0.035), (-0.1, 0.035), (0.18, 0.06)):
        _knob(b, "metal", x, 1.005, -0.19, radius)
    b.box("dark", (-0.27, 0.22, 0.32), (0.27, 0.80, 0.334))
    b.box("paint", (-0.26, 0.23, 0.32), (0.26, 0.79, 0.35))
    _laundry_window(b, 0.51, 0.19, 0.35)
    b.box("metal", (-0.245, 0.43, 0.35), (-0.225, 0.59, 0.375))
    for row in range(3):
        b.box("dark", (-0.12, 0.06 + 0.04 * row, 0.33), (0.12, 0.075 + 0.04 * row, 0.335))
    return b.shape()


def vented_dryer() -> Shape:
    """Dryer with a silver exhaust hose that rises beside it and leaves through the wall."""
    b = Builder()
    b.slot("paint", WHITE)
    b.slot("dark", DARK)
    b.slot("metal", METAL)
    b.slot("groove", (120, 122, 126))
    b.box("paint", (-0.3, 0.03, -0.28), (0.3, 0.85, 0.28))
    b.box("dark", (-0.27, 0, -0.25), (0.27, 0.03, 0.25))
    b.box("dark", (-0.28, 0.73, 0.27), (0.28, 0.83, 0.288))
    _knob(b, "metal", 0.2, 0.78, 0.288, 0.035)
    for x in (-0.22, -0.15, -0.08):
        _knob(b, "metal", x, 0.78, 0.285, 0.018)
    _laundry_window(b, 0.40, 0.25, 0.28)
    hose = [(0.29, 0.25, -0.12), (0.38, 0.26, -0.12), (0.41, 0.36, -0.12), (0.41, 1.1, -0.12)]
    hose += [(0.41, 1.2, -0.15), (0.41, 1.24, -0.22), (0.41, 1.24, -0.29)]
    b.tube("metal", hose, 0.055, sides=8)
    for row in range(5):
        b.lathe("groove", [(0.062, 0.42 + 0.14 * row), (0.062, 0.46 + 0.14 * row)], sides=8, centre=(0.41, 0, -0.12))
    b.prism("metal", ellipse(0.17, 0.17, sides=12, centre=(0.41, 1.24)), -0.29, -0.27, axis=2)
    return b.shape()


def _dishwasher_front(b: Builder) -> None:
    """The case on a dark plinth; its fronts are for others to lay on z = 0.28."""
    b.slot("paint", WHITE)
    b.slot("dark", DARK)
    b.slot("metal", METAL)
    b.slot("light", (96, 190, 230))
    b.box("paint", (-0.3, 0.1, -0.3), (0.3, 0.85, 0.27))
    b.box("dark", (-0.28, 0.0, -0.28), (0.28, 0.1, 0.22))
    b.box("dark", (-0.298, 0.105, 0.27), (0.298, 0.845, 0.28))


def _bar_handle(b: Builder, y: float, z: float) -> None:
    b.box("metal", (-0.23, y, z + 0.02), (0.23, y + 0.025, z + 0.04))
    for x in (-0.21, 0.19):
        b.box("metal", (x, y, z), (x + 0.02, y + 0.025, z + 0.02))


def drawer_dishwasher() -> Shape:
    """Two drawers over each other, shut, each with a bar to pull and a strip of buttons."""
    b = Builder()
    _dishwasher_front(b)
    for low, high in ((0.115, 0.465), (0.485, 0.835)):
        b.box("paint", (-0.293, low, 0.28), (0.293, high, 0.305))
        b.box("dark", (-0.28, high - 0.06, 0.305), (0.28, high - 0.015, 0.309))
        for number in range(4):
            b.box("light", (0.06 + 0.05 * number, high - 0.048, 0.309), (0.09 + 0.05 * number, high - 0.028, 0.312))
        _bar_handle(b, high - 0.12, 0.305)
    return b.shape()


def panel_dishwasher() -> Shape:
    """Its door is shut below a dark panel with a display, a knob and buttons; a bar to pull runs across the door."""
    b = Builder()
    _dishwasher_front(b)
    b.box("paint", (-0.293, 0.115, 0.28), (0.293, 0.7, 0.31))
    b.box("dark", (-0.293, 0.715, 0.28), (0.293, 0.84, 0.312))
    b.box("light", (-0.06, 0.75, 0.312), (0.08, 0.805, 0.315))
    _knob(b, "metal", -0.2, 0.777, 0.312, 0.035)
    for number in range(4):
        b.box("metal", (0.12 + 0.04 * number, 0.765, 0.312), (0.145 + 0.04 * number, 0.79, 0.318))
    _bar_handle(b, 0.64, 0.31)
    for row in range(4):
        b.box("dark", (-0.1, 0.16 + 0.03 * row, 0.31), (0.1, 0.17 + 0.03 * row, 0.312))
    return b.shape()


def tower_water_dispenser() -> Shape:
    """A tower with the bottle inside: a lit niche, a cold and a hot tap, a glass on its tray, a drop on the door."""
    b = Builder()
    b.slot("paint", WHITE)
    b.slot("dark", DARK)
    b.slot("metal", METAL)
    b.slot("cold", (40, 110, 220))
    b.slot("hot", (214, 40, 36))
    b.slot("glass", (176, 214, 240))
    b.box("paint", (-0.17, 0.02, -0.18), (0.17, 0.64, 0.18))
    b.box("dark", (-0.15, 0.0, -0.16), (0.15, 0.02, 0.16))
    b.box("paint", (-0.17, 0.64, -0.18), (0.17, 0.98, -0.02))
    for x in (-0.17, 0.145):
        b.box("paint", (x, 0.64, -0.03), (x + 0.025, 0.98, 0.18))
    b.prism("paint", [(0.98, -0.18), (0.98, 0.18), (1.06, 0.18), (1.12, 0.1), (1.12, -0.18)], -0.17, 0.17, axis=0)
    b.box("dark", (-0.145, 0.64, -0.03), (0.145, 0.98, -0.01))
    b.box("metal", (-0.14, 0.64, 0.0), (0.14, 0.655, 0.19))
    for slot, x in (("cold", -0.07), ("hot", 0.07)):
        b.box(slot, (x - 0.03, 0.89, 0.06), (x + 0.03, 0.98, 0.16))
        b.box("metal", (x - 0.012, 0.85, 0.09), (x + 0.012, 0.89, 0.12))
        _knob(b, slot, x, 1.02, 0.16, 0.025)
    b.lathe("glass", [(0.028, 0.655), (0.036, 0.76), (0.0, 0.75)], sides=10, centre=(-0.07, 0, 0.1))
    drop = [(0.0, 0.47), (-0.05, 0.37), (-0.06, 0.31), (-0.035, 0.265), (0.0, 0.25)]
    drop += [(-x, y) for x, y in drop[-2:0:-1]]
    b.prism("cold", drop, 0.18, 0.188, axis=2)
    b.box("dark", (-0.16, 0.6, 0.178), (0.16, 0.608, 0.183))
    return b.shape()


def crock_water_dispenser() -> Shape:
    """A bottle upside down in a ceramic pot with a tap, on a wooden stand."""
    b = Builder()
    b.slot("paint", (242, 242, 240))
    b.slot("water", (96, 150, 220))
    b.slot("metal", METAL)
    for x in (-0.16, 0.12):
        for z in (-0.16, 0.12):
            b.box("paint", (x, 0, z), (x + 0.04, 0.74, z + 0.04))
    for y in (0.2, 0.68):
        b.box("paint", (-0.16, y, -0.16), (0.16, y + 0.04, 0.16))
    pot = [(0.0, 0.71), (0.12, 0.71), (0.16, 0.78), (0.165, 0.92), (0.14, 1.0), (0.15, 1.02), (0.0, 1.02)]
    b.lathe("paint", pot, sides=18)
    bottle = [(0.05, 1.02), (0.13, 1.09), (0.13, 1.17), (0.12, 1.18), (0.13, 1.19), (0.13, 1.35), (0.11, 1.38)]
    b.lathe("water", bottle, sides=16)
    b.tube("metal", [(0, 0.79, 0.15), (0, 0.79, 0.23)], 0.016, sides=6)
    b.tube("metal", [(0, 0.79, 0.22), (0, 0.75, 0.22)], 0.016, sides=6)
    b.box("water", (-0.03, 0.805, 0.205), (0.03, 0.82, 0.235))
    return b.shape()


def _gamepad(b: Builder, x: float, z: float) -> None:
    """Stands on its grips and looks to the front: a cross, two sticks, four coloured buttons."""
    half = [(0.0, 0.1), (0.04, 0.11), (0.07, 0.105), (0.088, 0.07), (0.09, 0.02), (0.075, 0.0), (0.06, 0.01)]
    half += [(0.04, 0.042), (0.0, 0.042)]
    outline = [(x + px, y) for px, y in half] + [(x - px, y) for px, y in half[-2:0:-1]]
    b.prism("pad", outline, z - 0.02, z + 0.02, axis=2)
    for px, y, width, height in ((-0.055, 0.078, 0.036, 0.012), (-0.055, 0.078, 0.012, 0.036)):
        b.box("dark", (x + px - width / 2, y - height / 2, z), (x + px + width / 2, y + height / 2, z + 0.025))
    for px in (-0.025, 0.025):
        b.prism("dark", ellipse(0.026, 0.026, sides=8, centre=(x + px, 0.058)), z, z + 0.032, axis=2)
    for slot, px, py in (("green", 0, 0.016), ("red", 0.016, 0), ("blue", 0, -0.016), ("pink", -0.016, 0)):
        b.prism(slot, ellipse(0.015, 0.015, sides=6, centre=(x + 0.055 + px, 0.078 + py)), z, z + 0.026, axis=2)


def _pad_slots(b: Builder, rgb: tuple[int, int, int]) -> None:
    b.slot("pad", rgb)
    for name, color in (("green", GREEN), ("red", RED), ("blue", BLUE), ("pink", PINK)):
        b.slot(name, color)


def winged_console() -> Shape:
    """Upright: two curved wings round a dark core with a line of light, a gamepad before it."""
    b = Builder()
    b.slot("paint", WHITE)
    b.slot("dark", DARK)
    b.slot("light", (90, 160, 255), unlit=True)
    _pad_slots(b, (232, 232, 232))
    b.box("dark", (-0.032, 0.012, -0.115), (0.032, 0.37, 0.11))
    b.prism("dark", ellipse(0.17, 0.17, sides=16), 0.0, 0.014)
    for side in (-1, 1):
        rings = []
        for t in np.linspace(0, 1, 7):
            outer = 0.042 + 0.03 * (2 * t - 0.8) ** 2
            front, back = 0.125 + 0.02 * t, -0.125 + 0.035 * (1 - t)
            rings.append([(side * (outer - 0.012), front), (side * outer, front), (side * outer, back)])
            rings[-1].append((side * (outer - 0.012), back))
        y = np.linspace(0.012, 0.40, 7)
        b.rings("paint", np.array([[(x, h, z) for x, z in ring] for ring, h in zip(rings, y, strict=True)]))
        b.box("light", (side * 0.036 - 0.003, 0.03, 0.108), (side * 0.036 + 0.003, 0.36, 0.116))
    _gamepad(b, 0.1, 0.16)
    return b.shape()


def disc_console() -> Shape:
    """Low grey box whose round lid stands open over a disc, a gamepad before it."""
    b = Builder()
    b.slot("paint", (150, 151, 154))
    b.slot("dark", DARK)
    b.slot("disc", (196, 200, 226))
    _pad_slots(b, (150, 151, 154))
    b.box("paint", (-0.14, 0.006, -0.1), (0.14, 0.062, 0.1))
    b.box("dark", (-0.13, 0.0, -0.09), (0.13, 0.03, 0.102))
    for x in (-0.07, 0.03):
        b.box("paint", (x - 0.03, 0.01, 0.1), (x + 0.07, 0.028, 0.106))
    b.lathe("dark", [(0.084, 0.062), (0.084, 0.066)], sides=20, centre=(0, 0, 0.005))
    b.lathe("disc", [(0.074, 0.066), (0.074, 0.072), (0.02, 0.073), (0.0, 0.073)], sides=20, centre=(0, 0, 0.005))
    b.lathe("dark", [(0.014, 0.073), (0.01, 0.08), (0, 0.08)], sides=8, centre=(0, 0, 0.005))
    b.prism("paint", ellipse(0.18, 0.18, sides=20, centre=(0, 0.152)), -0.1, -0.085, axis=2)
    b.prism("dark", ellipse(0.05, 0.05, sides=12, centre=(0, 0.152)), -0.1, -0.08, axis=2)
    for x in (-0.11, 0.11):
        b.lathe("paint", [(0.02, 0.062), (0.02, 0.072), (0, 0.072)], sides=10, centre=(x, 0, 0.065))
    _gamepad(b, 0.065, 0.135)
    return b.shape()


def electric_kettle() -> Shape:
    """Jug on a base plate, spout in front and a handle like a D behind, turned to be seen from the side."""
    b = Builder()
    b.slot("paint", (192, 28, 34))
    b.slot("dark", DARK)
    b.slot("metal", METAL)
    b.lathe("dark", [(0.085, 0.0), (0.085, 0.018), (0.075, 0.022)], sides=18)
    b.lathe("paint", [(0.08, 0.022), (0.082, 0.05), (0.062, 0.19), (0.058, 0.21)], sides=18)
    b.lathe("metal", [(0.0735, 0.14), (0.0695, 0.17)], sides=18)
    b.lathe("dark", [(0.06, 0.208), (0.05, 0.225), (0.015, 0.23), (0.015, 0.245), (0.0, 0.247)], sides=14)
    b.prism("paint", [(-0.05, -0.03), (-0.05, 0.03), (-0.1, 0.0)], 0.165, 0.205)
    handle = [(0.05, 0.205, 0), (0.1, 0.215, 0), (0.128, 0.19, 0), (0.125, 0.1, 0), (0.105, 0.05, 0), (0.075, 0.045, 0)]
    b.tube("dark", handle, 0.014, sides=7)
    return b.shape()


def stove_pipe() -> Shape:
    """The pipe of a stove that goes up to the ceiling, with a ring round each joint and a plate at the end."""
    b = Builder()
    b.slot("paint", (60, 61, 64))
    b.lathe("paint", [(0.0, 0.0), (0.085, 0.0), (0.085, 1.26), (0.0, 1.26)], sides=14)
    for y in (0.02, 0.6):
        b.lathe("paint", [(0.085, y), (0.1, y + 0.01), (0.1, y + 0.04), (0.085, y + 0.05)], sides=14)
    b.lathe("paint", [(0.085, 1.225), (0.15, 1.235), (0.15, 1.26), (0.0, 1.26)], sides=14)
    return b.shape()


SHAPES = (
    console_dryer,
    vented_dryer,
    drawer_dishwasher,
    panel_dishwasher,
    stove_pipe,
    tower_water_dispenser,
    crock_water_dispenser,
    winged_console,
    disc_console,
    electric_kettle,
)
