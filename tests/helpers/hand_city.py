"""A street by hand: two buildings north of it with shops, one south of it, and what stands before them.

North is -Z. The street runs along X at z = 0; the northern buildings look south.
"""

from math import pi

from eqa.envs.annotations import Annotations, Region, Thing

SOUTH, NORTH, EAST = pi, 0.0, 3 * pi / 2  # headings in which fronts face
BOOKS, BAKERY, TOYS, CAR, BUS, BENCH, LAMP, PERSON, HIDDEN = 11, 12, 13, 21, 22, 23, 24, 25, 26


def box(x: float, z: float, wide: float, deep: float) -> tuple:
    """The outline of a rectangle by its middle and sides."""
    a, b = wide / 2, deep / 2
    return ((x - a, z - b), (x - a, z + b), (x + a, z + b), (x + a, z - b))


def sign(number: int, x: float, color: str | None, label: str) -> Thing:
    return Thing(number, "sign", box(x, -9.8, 6.0, 0.4), color, 0, 3.0, 4.2, label=label, front_rad=SOUTH)


def hand_city(**changes: Thing) -> Annotations:
    """The street; `changes` replace or add things by id, `t21=Thing(...)`, or take one away, `t21=None`."""
    things = {
        1: Thing(1, "building", box(-20, -20, 24, 20), "brown", 0, 0, 20, front_rad=SOUTH),  # x -32 to -8, z -30 to -10
        2: Thing(2, "building", box(20, -20, 24, 20), "gray", 0, 0, 15, front_rad=SOUTH),  # x 8 to 32
        3: Thing(3, "building", box(0, 25, 30, 20), "white", 1, 0, 12, front_rad=NORTH),  # x -15 to 15, z 15 to 35
        BOOKS: sign(BOOKS, -26, "red", "ALMA BOOKS"),
        BAKERY: sign(BAKERY, -14, "blue", "LEO BAKERY"),
        TOYS: sign(TOYS, 20, "red", "ZOE TOYS"),
        CAR: Thing(CAR, "car", box(-26, -4, 4, 2), "yellow", 2, 0, 1.5, front_rad=EAST),
        BUS: Thing(BUS, "bus", box(20, 2, 10, 2.5), "green", 2, 0, 3, front_rad=EAST),
        BENCH: Thing(BENCH, "bench", box(-16, -7, 1.6, 0.6), "brown", 2, 0, 0.8, front_rad=SOUTH),
        LAMP: Thing(LAMP, "street lamp", box(4, -7, 0.4, 0.4), None, 2, 0, 6),
        PERSON: Thing(PERSON, "person", box(-25, -7, 0.5, 0.5), "pink", 2, 0, 1.7, front_rad=SOUTH),
        HIDDEN: Thing(HIDDEN, "person", box(-27, -7, 0.5, 0.5), "red", 2, 0, 1.7, front_rad=SOUTH, asked=False),
    }  # fmt: skip
    for name, thing in changes.items():
        things[int(name[1:])] = thing
    whole = tuple(thing for _, thing in sorted(things.items()) if thing is not None)
    regions = (
        Region("block", box(0, -20, 64, 20)),
        Region("block", box(0, 25, 30, 20)),
        Region("street", box(0, 0, 80, 30)),
    )
    return Annotations("hand", regions, whole)
