"""`choose_surfaces`: floor, wall and ceiling of each room of a floor plan, from the lists in `rooms.yaml`.

Rooms of most homes can be told by their floors and walls: tiles in the bathroom, wood in the living room. Houses of
the other sort have the same lists for all rooms, so that only furniture and shape tell what a room is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eqa.envs.house.openings import OUTDOORS
from eqa.envs.house.random_stream import Dice


@dataclass(frozen=True, slots=True)
class Finish:
    """The surfaces of a room, as in `house.Room`."""

    floor: str
    wall: str
    ceiling: str | None


def choose_surfaces(dice: Dice, types: Sequence[str], rules: dict, *, style: str) -> list[Finish]:
    """A finish for each room type. `rules` is `rooms.yaml`, whose `by_room` has the share for each style.

    A house goes by its rooms' types with that probability, which takes no die where it is 1. Rooms that are open to
    the sky have the facade in either sort of house.
    """
    by_room = rules["by_room"][style]
    lists, goes_by_room = rules["anywhere"], by_room == 1 or dice.chance(by_room)
    own = {} if goes_by_room else {name: dice.weighted(lists[name]) for name in ("floors", "walls")}
    facade = dice.weighted(rules["walls"]["facade"])
    finishes = []
    for kind in types:
        rule = rules["types"][kind]
        if kind in OUTDOORS:
            finishes.append(Finish(dice.weighted(rules["floors"][rule["floor"]]), facade, None))
            continue
        if goes_by_room:
            floor = dice.weighted(rules["floors"][rule["floor"]])
            wall = dice.weighted(rules["walls"][rule["wall"]])
        else:
            floor, wall = (_throughout(dice, lists, name, own[name]) for name in ("floors", "walls"))
        finishes.append(Finish(floor, wall, dice.weighted(rules["ceilings"])))
    return finishes


def _throughout(dice: Dice, lists: dict, name: str, own: str) -> str:
    """The house's own surface in a share of the rooms, another one elsewhere."""
    return own if dice.chance(lists["same"]) else dice.weighted(lists[name])
