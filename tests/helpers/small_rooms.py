"""Single rooms of the sizes that homes have, empty, with a door in one wall and a window in the wall across."""

from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.furnish import furnish
from eqa.envs.house.house import House, Opening, Room, Wall
from eqa.envs.house.random_stream import Dice

WIDTHS_M = {
    "living room": ((3.6, 4.6), (4.2, 5.2), (5.0, 6.4)),
    "bedroom": ((2.6, 3.6), (3.2, 3.8), (3.8, 4.6)),
    "kitchen": ((2.2, 3.4), (2.8, 4.2)),
    "bathroom": ((1.8, 2.6), (2.4, 3.0)),
    "office": ((2.6, 3.4), (3.2, 4.0)),
    "dining room": ((3.0, 3.8), (3.8, 4.4)),
    "hallway": ((1.4, 4.0),),
}


def small_rooms(seed: int, height_m: float = 2.4) -> list[House]:
    """A house of one furnished room for each size."""
    return [
        furnish(Dice([seed, place]), one_room(kind, *sides, height_m), load_catalog())
        for place, (kind, sides) in enumerate((kind, sides) for kind in WIDTHS_M for sides in WIDTHS_M[kind])
    ]


def one_room(kind: str, width_m: float, depth_m: float, height_m: float = 2.4) -> House:
    """The room, and beside a living room a bedroom that is too narrow for a bed, so that it is not a studio's."""
    corners = [(0.0, depth_m), (width_m, depth_m), (width_m, 0.0), (0.0, 0.0)]
    walls = [Wall(corners[i], corners[(i + 1) % 4], 0.14, (0, -1)) for i in range(4)]
    openings = [
        Opening("entrance", 0, 0.7, 0.8, 0.0, 2.1),
        Opening("window", 2, width_m / 2, min(1.4, width_m - 0.8), 0.9, 2.1),
    ]
    rooms = [Room(kind, corners, "wooden_floor", "#f0f0f0")]
    if kind == "living room":
        beyond = [(width_m, depth_m), (width_m + 0.9, depth_m), (width_m + 0.9, 0.0), (width_m, 0.0)]
        rooms.append(Room("bedroom", beyond, "wooden_floor", "#f0f0f0"))
        walls[1] = Wall(corners[1], corners[2], 0.14, (0, 1))
        walls += [Wall(beyond[i], beyond[i + 1], 0.14, (1, -1)) for i in range(3)]
        openings.append(Opening("doorway", 1, 0.7, 0.8, 0.0, 2.1))
    return House(f"one {kind}", "by hand", height_m, rooms, walls, openings)
