"""`draw_props`: what stands in the streets and parks of a city: vehicles, trees, lamps, benches, bins and people.

Vehicles drive on the right. They stand at the curb, and in the lanes before crossings. Sizes are the pack's.
"""

from dataclasses import dataclass, field
from math import ceil, pi

from eqa.envs.city.catalog import load_street_catalog
from eqa.envs.city.city import (
    CURB_M,
    QUARTER_RAD,
    Block,
    Building,
    Prop,
    Rect,
    Street,
    along_side,
    bounds_of,
    overlap,
    side_length,
)
from eqa.envs.city.streets import SIDEWALK_M
from eqa.envs.house.random_stream import Dice

# Sizes (width, height, depth) of shapes that are drawn by `shapes`.
SHAPE_SIZES = {
    "street tree": (3.4, 6.4, 3.4), "broad tree": (5.6, 7.6, 5.6), "pine tree": (3.8, 8.6, 3.8),
    "tall lamp": (0.4, 6.2, 2.0), "fountain": (6.0, 2.4, 6.0), "person": (0.56, 1.76, 0.36),
}  # fmt: skip
CARS = ("seat_leon", "peugeot-308", "suv", "chevrolet", "fordFocus")
CAR_COLORS = {
    "white": 2.0, "black": 1.6, "gray": 2.0, "red": 1.8, "blue": 1.8, "green": 1.0, "yellow": 1.0, "orange": 0.7,
    "brown": 0.5, "purple": 0.3,
}  # fmt: skip
BUS_COLORS = {"red": 1.0, "yellow": 1.0, "green": 1.0, "blue": 1.0, "white": 1.0, "orange": 0.6}
SHIRTS = ("black", "white", "gray", "brown", "red", "orange", "yellow", "green", "blue", "purple", "pink")
PARKED = {"none": 6.0, "car": 3.2, "van": 0.5, "truck": 0.2, "motorbike": 0.35, "bicycle": 0.0}
SLOT_M, CORNER_M = 6.4, 9.0  # room for one car at the curb, and the part of a block's side that is kept free
LANE_M = {"street": 3.5, "avenue": 3.25}
STOP_M = 7.0  # from the block's corner line to the front of a vehicle that waits before a crossing
LAMP_EVERY_M, PEOPLE_EVERY_M = 27.0, 26.0
GAP_M = 0.3  # between things
FURNITURE = {"bench": 1.0, "trash can": 1.2, "fire hydrant": 0.7, "mailbox": 0.6, "bicycle": 1.0}
MODELS = {
    "van": ("van",), "truck": ("truck",), "bus": ("bus", "cityBus"), "motorbike": ("scooter2",),
    "bicycle": ("bicycle",), "bench": ("painted-bench", "wood_bank"), "trash can": ("park-trashcan",),
    "fire hydrant": ("fire-hydrant",), "mailbox": ("mofx_mailbox",), "car": CARS,
}  # fmt: skip
COLORS = {
    "car": CAR_COLORS, "van": CAR_COLORS, "truck": CAR_COLORS, "bus": BUS_COLORS, "motorbike": CAR_COLORS,
"bench": {"brown": 3, "green": 1, "white": 1},
    "trash can": {"green": 1, "gray": 1, "blue": 0.5}, "fire hydrant": {"red": 2, "yellow": 1},
    "mailbox": {"blue": 2, "red": 1, "green": 0.5},
}  # fmt: skip


@dataclass
class Placing:
    """Things that stand already, by cells of 8 m, so that none is put into another."""

    props: list[Prop] = field(default_factory=list)
    _near: dict[tuple[int, int], list[Rect]] = field(default_factory=dict)

    def add(self, prop: Prop) -> bool:
        """Puts a thing down unless another is in its way."""
        rect = bounds_of([(*corner, *corner) for corner in prop.footprint()])
        cells = [
            (i, j)
            for i in range(int(rect[0] // 8), int(rect[2] // 8) + 1)
            for j in range(int(rect[1] // 8), int(rect[3] // 8) + 1)
        ]
        if any(overlap(rect, other, gap_m=GAP_M) for cell in cells for other in self._near.get(cell, ())):
            return False
        for cell in cells:
            self._near.setdefault(cell, []).append(rect)
        self.props.append(prop)
        return True


def draw_props(
    dice: Dice, streets: tuple[Street, ...], blocks: tuple[Block, ...], buildings: list[Building]
) -> list[Prop]:
    """All props with ids 0; `Prop.region` counts blocks first, then streets."""
    placing = Placing()
    for number, block in enumerate(blocks):
        if block.kind == "park":
            _fill_park(dice, placing, block, number)
        for side in range(4):
            street = _street_at(streets, block, side)
            region = len(blocks) + street
            _park_vehicles(dice, placing, block, side, region)
            _wait_at_crossing(dice, placing, block, side, streets[street], region)
            _line_sidewalk(dice, placing, block, side, region)
        if block.kind != "park":
            _fill_yard(dice, placing, block, number, [one for one in buildings if one.block == number])
    return placing.props


def _street_at(streets: tuple[Street, ...], block: Block, side: int) -> int:
    """Index of the street along a side of a block."""
    axis, edge = side % 2, block.rect[(1, 0, 3, 2)[side]]
    for k, street in enumerate(streets):
        low, high = street.rect[1 - axis], street.rect[3 - axis]
        if street.axis == axis and abs((high if side < 2 else low) - edge) < 0.01:
            return k
    raise AssertionError("a block without a street")


def _prop(
    dice: Dice, name: str, at: tuple[float, float], y: float, heading_rad: float, region: int, model: str | None = None
) -> Prop:
    """A thing of the pack in one of its usual colours; a bicycle has no colour that one could name from afar."""
    model = model or dice.pick(MODELS[name])
    size_m = tuple(round(float(s), 3) for s in load_street_catalog().models[model].size_m)
    return Prop(
        0,
        name,
        model,
        (at[0], y, at[1]),
        round(heading_rad % (2 * pi), 6),
        size_m,
        dice.weighted(COLORS[name]) if name in COLORS else None,
        region,
    )


def _shape(name: str, model: str, at: tuple[float, float], heading_rad: float, region: int, color: str | None) -> Prop:
    place = (at[0], CURB_M, at[1])
    return Prop(0, name, model, place, round(heading_rad % (2 * pi), 6), SHAPE_SIZES[model], color, region)


def _driving_rad(side: int) -> float:
    """Heading of traffic beside a side of a block: counter-clockwise round it, as it drives on the right."""
    return (side + 1) * QUARTER_RAD


def _park_vehicles(dice: Dice, placing: Placing, block: Block, side: int, region: int) -> None:
    length = side_length(block.rect, side)
    start = CORNER_M + 4.0
    slots = int((length - 2 * start) / SLOT_M)
    slot = 0
    while slot < slots:
        kind = dice.weighted(PARKED)
        at = along_side(block.rect, side, start + (slot + 0.5) * SLOT_M + dice.uniform(-0.4, 0.4), SIDEWALK_M + 1.3)
        if kind == "motorbike":
            placing.add(_prop(dice, kind, at, 0.0, _driving_rad(side) + 0.9, region))
        elif kind != "none":
            placing.add(_prop(dice, kind, at, 0.0, _driving_rad(side), region))
        slot += 1
    if dice.chance(0.12):  # a bus at its stop
        at = along_side(block.rect, side, length / 2, SIDEWALK_M + 2.2 + 1.6)
        placing.add(_prop(dice, "bus", at, 0.0, _driving_rad(side), region))


def _wait_at_crossing(dice: Dice, placing: Placing, block: Block, side: int, street: Street, region: int) -> None:
    """Vehicles that stand in the lanes beside a block, where traffic leaves it."""
    length = side_length(block.rect, side)
    goes_up = side in (1, 2)  # traffic beside it drives towards greater x (south side) or z (west side)
    lanes = 2 if street.kind == "avenue" else 1
    for lane in range(lanes):
        if not dice.chance(0.22):
            continue
        kind = dice.weighted({"car": 6.0, "van": 1.0, "bus": 0.8, "truck": 0.5})
        prop = _prop(dice, kind, (0.0, 0.0), 0.0, _driving_rad(side), region)
        behind = STOP_M + prop.size_m[2] / 2
        out = SIDEWALK_M + 2.2 + (lane + 0.5) * LANE_M[street.kind]
        at = along_side(block.rect, side, length - behind if goes_up else behind, out)
        placing.add(Prop(0, kind, prop.model, (at[0], 0.0, at[1]), prop.heading_rad, prop.size_m, prop.color, region))


def _line_sidewalk(dice: Dice, placing: Placing, block: Block, side: int, region: int) -> None:
    """Lamps and trees in turns near the curb, furniture between them, people anywhere."""
    length = side_length(block.rect, side)
    has_trees = block.kind == "park" or dice.chance(0.65)
    count = max(2, round(length / LAMP_EVERY_M))
    for k in range(count):
        place = (k + 0.5) * length / count
        at = along_side(block.rect, side, place, SIDEWALK_M - 0.6)
        placing.add(_shape("street lamp", "tall lamp", at, side * QUARTER_RAD, region, "gray"))
        if has_trees and k + 1 < count and block.kind != "park":
            at = along_side(block.rect, side, place + length / count / 2, SIDEWALK_M - 0.9)
            placing.add(_shape("tree", "street tree", at, 0.0, region, "green"))
        if dice.chance(0.7):
            kind = dice.weighted(FURNITURE)
            at = along_side(block.rect, side, place + dice.uniform(2.0, length / count - 2.0), SIDEWALK_M - 0.75)
            turn = 1 if kind == "bicycle" else 2 if kind == "bench" else 0
            placing.add(_prop(dice, kind, at, CURB_M, (side + turn) * QUARTER_RAD, region))
    for _ in range(ceil(length / PEOPLE_EVERY_M)):
        at = along_side(block.rect, side, dice.uniform(1.0, length - 1.0), dice.uniform(1.0, 2.6))
        placing.add(_person(dice, at, region))


def _person(dice: Dice, at: tuple[float, float], region: int) -> Prop:
    return _shape("person", "person", at, dice.integer(0, 23) * pi / 12, region, dice.pick(SHIRTS))


def _fill_park(dice: Dice, placing: Placing, block: Block, number: int) -> None:
    """A fountain in the middle, benches and people on the paths that cross there, trees on the grass."""
    x0, z0, x1, z1 = block.rect
    middle = round((x0 + x1) / 2, 3), round((z0 + z1) / 2, 3)
    placing.add(_shape("fountain", "fountain", middle, 0.0, number, None))
    for _ in range(dice.integer(5, 8)):
        along, out = dice.uniform(8.0, 22.0) * dice.pick((-1, 1)), PATH_M / 2 - 0.45
        side = dice.pick((-1, 1))
        if dice.chance(0.5):
            at, heading = (middle[0] + along, middle[1] + side * out), 0.0 if side > 0 else pi
        else:
            at, heading = (middle[0] + side * out, middle[1] + along), QUARTER_RAD if side > 0 else -QUARTER_RAD
        placing.add(_prop(dice, "bench", (round(at[0], 3), round(at[1], 3)), CURB_M, heading, number))
    for _ in range(dice.integer(6, 10)):
        at = round(dice.uniform(x0 + 3, x1 - 3), 3), round(dice.uniform(z0 + 3, z1 - 3), 3)
        placing.add(_person(dice, at, number))
    for _ in range(60):
        model = dice.weighted({"broad tree": 3.0, "pine tree": 1.2})
        at = round(dice.uniform(x0 + 4, x1 - 4), 3), round(dice.uniform(z0 + 4, z1 - 4), 3)
        from_paths = min(abs(at[0] - middle[0]), abs(at[1] - middle[1]))
        if from_paths > PATH_M / 2 + 1.8:
            placing.add(_shape("tree", model, at, dice.integer(0, 11) * pi / 6, number, "green"))


PATH_M = 4.0  # width of the paths of a park


def _fill_yard(dice: Dice, placing: Placing, block: Block, number: int, buildings: list[Building]) -> None:
    """Trees in the courtyard and between buildings."""
    x0, z0, x1, z1 = block.rect
    for _ in range(14):
        at = round(dice.uniform(x0 + 4, x1 - 4), 3), round(dice.uniform(z0 + 4, z1 - 4), 3)
        tree = _shape("tree", "broad tree", at, dice.integer(0, 11) * pi / 6, number, "green")
        rect = bounds_of([(*corner, *corner) for corner in tree.footprint()])
        if not any(overlap(rect, box.rect, gap_m=0.8) for one in buildings for box in one.boxes):
            placing.add(tree)
