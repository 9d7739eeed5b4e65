"""Elementary operations of question programs: their types and their effect in a house (paper, 3.1).

An operation is a function marked `@operation("Objects, Room -> Objects")`. The types are names;
`data.questions.programs.parse` checks that they agree in compositions. A function gets the `World` first. It raises
`Undefined` if people would not agree on one answer (two sofas, an unclear relation, an object without a nameable
colour).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot
from typing import Literal

from eqa.data.questions.relations import CLEAR, UNCLEAR, Relations, volume_m3
from eqa.data.questions.rules import UNNAMED, Rules
from eqa.envs.house.house import House, HouseObject

# Places that show an answer: views of all touched objects, views of most of the room (for a missing thing), or no one
# place.
Sight = Literal["objects", "room", "house"]


class Undefined(Exception):
    """The program has no single clear answer in this house; the message is the reason."""


@dataclass
class World:
    """A house, the rules that programs run under, and the objects and rooms that a run has come across, in order."""

    house: House
    rules: Rules
    touched: list[HouseObject] = field(default_factory=list)  # objects that were singled out, counted or found
    rooms: list[int] = field(default_factory=list)  # likewise
    sight: Sight = "objects"

    @cached_property
    def relations(self) -> Relations:
        return Relations(self.house, self.rules.thresholds)

    @cached_property
    def _categories(self) -> dict[str, list[HouseObject]]:
        return _grouped(self.house.objects, lambda thing: thing.category)

    @cached_property
    def _rooms(self) -> dict[int, list[HouseObject]]:
        return _grouped(self.house.objects, lambda thing: thing.room)

    def of_category(self, category: str) -> list[HouseObject]:
        return self._categories.get(category, [])

    def in_room(self, room: int) -> list[HouseObject]:
        return self._rooms.get(room, [])

    def forget(self) -> None:
        """Prepares for another run."""
        self.touched, self.rooms, self.sight = [], [], "objects"


def _grouped(things: list[HouseObject], key: Callable[[HouseObject], Hashable]) -> dict[Hashable, list[HouseObject]]:
    groups: dict[Hashable, list[HouseObject]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects of one name; `doubtful` ones have another, but people could call them so."""

    sure: list[HouseObject]
    doubtful: list[HouseObject] = field(default_factory=list)


@dataclass(frozen=True)
class Operation:
    takes: tuple[str, ...]
    gives: str
    run: Callable


# Several operations may share a name and differ in their arguments' types.
OPERATIONS: dict[str, list[Operation]] = {}


def operation(signature: str) -> Callable[[Callable], Callable]:
    """Registers an operation under its function's name. `signature` is like "Objects, Room -> Objects"."""

    def register(run: Callable) -> Callable:
        takes, gives = signature.split(" -> ")
        name = run.__name__.split("_of_")[0]
        OPERATIONS.setdefault(name, []).append(Operation(tuple(takes.split(", ")), gives, run))
        return run

    return register


@operation("RoomType -> Rooms")
def rooms(world: World, kind: str) -> list[int]:
    return [i for i, room in enumerate(world.house.rooms) if room.type == kind]


@operation("Category -> Objects")
def objects(world: World, category: str) -> Objects:
    also = (*world.rules.confusable.get(category, ()), UNNAMED)
    return Objects(world.of_category(category), [thing for name in also for thing in world.of_category(name)])


@operation("Objects, Room -> Objects")
def inside(world: World, things: Objects, room: int) -> Objects:
    return Objects(*([thing for thing in part if thing.room == room] for part in (things.sure, things.doubtful)))


@operation("Rooms -> Room")
def unique_of_rooms(world: World, found: list[int]) -> int:
    if len(found) != 1:
        raise Undefined(f"{len(found)} such rooms")
    world.rooms.append(found[0])
    return found[0]


@operation("Objects -> Object")
def unique_of_objects(world: World, found: Objects) -> HouseObject:
    """The only object. Tiny ones count, as they make "the cup" ambiguous, but are never singled out."""
    if len(found.sure) != 1:
        raise Undefined(f"{len(found.sure)} such objects")
    _refuse_tiny(world, found.sure)
    world.touched.append(found.sure[0])
    return found.sure[0]


def _refuse_tiny(world: World, found: list[HouseObject]) -> None:
    if any(volume_m3(thing) < world.rules.thresholds.min_volume_m3 for thing in found):
        raise Undefined("too small")


@operation("Object, Relation -> Objects")
def related(world: World, anchor: HouseObject, relation: str) -> Objects:
    """The objects in the relation to the anchor; undefined if people could disagree about any object."""
    verdicts = [(world.relations.judge(relation, thing, anchor), thing) for thing in world.in_room(anchor.room)]
    if any(verdict is UNCLEAR for verdict, _ in verdicts):
        raise Undefined("unclear relation")
    return Objects([thing for verdict, thing in verdicts if verdict is CLEAR])


@operation("Object -> Answer")
def room(world: World, thing: HouseObject) -> str:
    kind = world.house.rooms[thing.room].type
    if kind not in world.rules.rooms:
        raise Undefined("a room that is not asked about")
    return kind


@operation("Object -> Answer")
def color(world: World, thing: HouseObject) -> str:
    if thing.color is None:
        raise Undefined("no color that a person would name")
    return thing.color


@operation("Object -> Answer")
def name(world: World, thing: HouseObject) -> str:
    if thing.category in (*world.rules.never_answers, UNNAMED):
        raise Undefined("a name that is never an answer")
    return thing.category


@operation("Rooms -> Number")
def count_of_rooms(world: World, found: list[int]) -> int:
    world.rooms += found
    world.sight = "house"
    return _few(world, len(found))


@operation("Objects -> Number")
def count_of_objects(world: World, found: Objects) -> int:
    _refuse_tiny(world, found.sure)
    if found.doubtful:
        raise Undefined("something that could be counted, too")
    world.touched += found.sure
    return _few(world, len(found.sure))


def _few(world: World, number: int) -> int:
    if not 0 < number < world.rules.thresholds.count_below:
        raise Undefined(f"{number}: nothing to count, or tedious")
    return number


@operation("Objects -> Rooms")
def rooms_with(world: World, found: Objects) -> list[int]:
    """The rooms that things are in."""
    _refuse_tiny(world, found.sure)
    rooms = {thing.room for thing in found.sure}
    if any(thing.room not in rooms for thing in found.doubtful):
        raise Undefined("something in another room that could be taken for it")
    world.touched += found.sure
    return sorted(rooms)


@operation("Objects -> Truth")
def exist(world: World, found: Objects) -> bool:
    """True if there is one, which the largest shows. An absence shows only in a view of most of the room."""
    if not found.sure and found.doubtful:
        raise Undefined("something that could be taken for it")
    _refuse_tiny(world, found.sure)
    if found.sure:
        world.touched.append(max(found.sure, key=volume_m3))
    else:
        world.sight = "room"
    return bool(found.sure)


@operation("Truth, Truth -> Truth")
def both(world: World, one: bool, other: bool) -> bool:
    return one and other


@operation("Truth, Truth -> Truth")
def either(world: World, one: bool, other: bool) -> bool:
    """True if one is there. A missing thing need not be looked for once the other is seen."""
    if one or other:
        world.sight = "objects"
    return one or other


@operation("Object, Object -> Length")
def distance(world: World, one: HouseObject, other: HouseObject) -> tuple[float, float]:
    """Metres between footprints, and between their middles: people may mean either."""
    if one.room != other.room:
        raise Undefined("in two rooms")
    between = world.relations.footprints[one.id].distance(world.relations.footprints[other.id])
    return between, hypot(one.position[0] - other.position[0], one.position[2] - other.position[2])


@operation("Length, Length -> Truth")
def less(world: World, one: tuple[float, float], other: tuple[float, float]) -> bool:
    """True if `one` is less by both measures, which must show the difference clearly; undefined otherwise."""
    limits = world.rules.thresholds
    for near, far in zip(*sorted((one, other)), strict=True):
        if far - near < limits.distance_gap_m or far < limits.distance_ratio * near:
            raise Undefined("about as far")
    return one < other
