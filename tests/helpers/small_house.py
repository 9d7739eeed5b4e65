"""A house written by hand for tests: a living room and a kitchen beside it, joined by a doorway."""

from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House, HouseObject, Opening, Room, Wall


def thing(number: int, category: str, x: float, z: float, *, room: int, heading_rad: float = 0.0) -> HouseObject:
    """The catalogue's first model of a category, as it ships."""
    model = load_catalog().models_of(category)[0]
    position = (x, model.elevation_m, z)
    return HouseObject(number, category, model.key, position, heading_rad, model.size_m, model.color, False, room)


def small_house(house_id: str = "small-0", objects: bool = True) -> House:
    """A living room, 4 m x 4 m (room 0), and a kitchen, 3 m x 4 m (room 1), on its right; the doorway is 1 m wide."""
    floor, wall = "wooden_floor", "#e0d8c8"
    living = Room("living room", [(0.0, 0.0), (0.0, 4.0), (4.0, 4.0), (4.0, 0.0)], floor, wall)
    kitchen = Room("kitchen", [(4.0, 0.0), (4.0, 4.0), (7.0, 4.0), (7.0, 0.0)], "grey_tile", wall)
    walls = [
        Wall((0.0, 0.0), (0.0, 4.0), 0.1, (0, -1)),
        Wall((0.0, 4.0), (4.0, 4.0), 0.1, (0, -1)),
        Wall((4.0, 4.0), (4.0, 0.0), 0.1, (0, 1)),
        Wall((4.0, 0.0), (0.0, 0.0), 0.1, (0, -1)),
        Wall((4.0, 4.0), (7.0, 4.0), 0.1, (1, -1)),
        Wall((7.0, 4.0), (7.0, 0.0), 0.1, (1, -1)),
        Wall((7.0, 0.0), (4.0, 0.0), 0.1, (1, -1)),
    ]
    openings = [
        Opening("doorway", 2, 2.0, 1.0, 0.0, 2.1),
        Opening("window", 0, 2.0, 1.2, 0.9, 2.2),
        Opening("entrance", 5, 1.0, 0.9, 0.0, 2.1),
    ]
    things = [
        thing(1, "sofa", 1.5, 0.6, room=0),
        thing(2, "rug", 1.5, 2.2, room=0),
        thing(3, "table", 1.2, 3.3, room=0),
        thing(4, "refrigerator", 6.3, 0.6, room=1),
    ]
    return House(house_id, "by hand", 2.7, [living, kitchen], walls, openings, things if objects else [])
