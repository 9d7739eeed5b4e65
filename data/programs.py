"""Functional programs: typed elementary operations, composed as text, run over a house to an answer (paper, 3.1).

`parse("color(unique(inside(objects(OBJ), unique(rooms(ROOM)))))")` is a program with the slots OBJ and ROOM; `bind` fills
them, `run` answers in one house. Types are checked when a program is parsed: an operation that is asked for what it
cannot take is a ValueError there, and never turns up while questions are generated. A program that has no single clear
answer in a house (two sofas, an unclear relation, an object without a nameable colour) raises `Undefined`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from data.relations import CLEAR, RELATIONS, UNCLEAR, Relations, volume_m3
from data.rules import Rules
from envs.house.catalog import CLASSES
from envs.house.house import House, HouseObject


class Undefined(Exception):
    """The program has no single clear answer in this house; the message is the reason."""


@dataclass
class World:
    """A house and the rules that programs run under; `touched` collects the objects that a run singled out, in order."""

    house: House
    rules: Rules
    touched: list[HouseObject] = field(default_factory=list)

    @cached_property
    def relations(self) -> Relations:
        return Relations(self.house, self.rules.thresholds)


@dataclass(frozen=True)
class Operation:
    takes: tuple[str, ...]
    gives: str
    run: Callable


# Several operations may share a name and differ in what they take.
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
def objects(world: World, category: str) -> list[HouseObject]:
    return [thing for thing in world.house.objects if thing.category == category]


@operation("Objects, Room -> Objects")
def inside(world: World, things: list[HouseObject], room: int) -> list[HouseObject]:
    return [thing for thing in things if thing.room == room]


@operation("Rooms -> Room")
def unique_of_rooms(world: World, found: list[int]) -> int:
    if len(found) != 1:
        raise Undefined(f"{len(found)} such rooms")
    return found[0]


@operation("Objects -> Object")
def unique_of_objects(world: World, found: list[HouseObject]) -> HouseObject:
    """The only one. Tiny objects count as others do, for they make "the cup" ambiguous, but are never singled out."""
    if len(found) != 1:
        raise Undefined(f"{len(found)} such objects")
    if volume_m3(found[0]) < world.rules.thresholds.min_volume_m3:
        raise Undefined("too small")
    world.touched.append(found[0])
    return found[0]


@operation("Object, Relation -> Objects")
def related(world: World, anchor: HouseObject, relation: str) -> list[HouseObject]:
    """What stands in the relation to the anchor; undefined if people could disagree about any object."""
    near = [thing for thing in world.house.objects if thing.room == anchor.room]
    verdicts = [(world.relations.judge(relation, thing, anchor), thing) for thing in near]
    if any(verdict is UNCLEAR for verdict, _ in verdicts):
        raise Undefined("unclear relation")
    return [thing for verdict, thing in verdicts if verdict is CLEAR]


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
    if thing.category in world.rules.never_answers:
        raise Undefined("a name that is never an answer")
    return thing.category


SLOT_TYPES = {"OBJ": "Category", "ROOM": "RoomType", "REL": "Relation"}


@dataclass(frozen=True)
class Slot:
    name: str  # a key of SLOT_TYPES, perhaps with a digit behind: OBJ, OBJ1, OBJ2

    @property
    def type(self) -> str:
        return SLOT_TYPES[self.name.rstrip("0123456789")]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Value:
    value: str
    type: str

    def __str__(self) -> str:
        return f'"{self.value}"'


@dataclass(frozen=True)
class Call:
    name: str
    operation: Operation
    arguments: tuple["Call | Slot | Value", ...]

    @property
    def type(self) -> str:
        return self.operation.gives

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"

    def run(self, world: World, names: Mapping[str, str]) -> object:
        values = [
            a.run(world, names) if isinstance(a, Call) else names[a.name] if isinstance(a, Slot) else a.value
            for a in self.arguments
        ]
        return self.operation.run(world, *values)


Expression = Call | Slot | Value


@dataclass(frozen=True)
class Answered:
    """What a program found: the answer and the objects that it singled out on the way, the one asked about first."""

    answer: str
    touched: tuple[HouseObject, ...]


@dataclass(frozen=True)
class Program:
    """An expression that gives an answer. `str` of it can be parsed again."""

    expression: Call

    def __str__(self) -> str:
        return str(self.expression)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Its slots in the order of their first use."""
        return tuple(dict.fromkeys(_slots(self.expression)))

    def bind(self, values: Mapping[str, str]) -> "Program":
        """The program with its slots filled; ValueError for a slot without a value or a name of the wrong kind."""
        if missing := [slot.name for slot in self.slots if slot.name not in values]:
            raise ValueError(f"program {self}: no value for the slots {missing}")
        return Program(_bind(self.expression, values))

    def run(self, world: World, names: Mapping[str, str] = MappingProxyType({})) -> Answered:
        """Answers in the world's house, as `bind(names)` would. Raises Undefined if there is no single clear answer."""
        if any(slot.name not in names for slot in self.slots):
            raise ValueError(f"program {self}: expected names for {[s.name for s in self.slots]}, got {sorted(names)}")
        world.touched.clear()
        answer = self.expression.run(world, names)
        return Answered(answer, tuple(world.touched))


def parse(text: str) -> Program:
    """Reads a program; ValueError where it does not parse, names what does not exist or mixes types."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"program {text!r}: {error.msg}") from None
    expression = _build(tree, text)
    if expression.type != "Answer":
        raise ValueError(f"program {text!r}: expected to give an Answer, gives {expression.type}")
    return Program(expression)


def _build(node: ast.expr, program: str) -> Expression:
    if isinstance(node, ast.Name):
        slot = Slot(node.id)
        if node.id.rstrip("0123456789") not in SLOT_TYPES:
            raise ValueError(f"program {program!r}: unknown slot {node.id}; expected one of {list(SLOT_TYPES)}")
        return slot
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Value(node.value, _type_of(node.value))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        raise ValueError(f"program {program!r}: expected operations, slots and quoted names, got {ast.unparse(node)}")
    if node.func.id not in OPERATIONS:
        raise ValueError(f"program {program!r}: unknown operation {node.func.id}; expected one of {list(OPERATIONS)}")
    arguments = tuple(_build(argument, program) for argument in node.args)
    given = tuple(argument.type for argument in arguments)
    for candidate in OPERATIONS[node.func.id]:
        if candidate.takes == given:
            return Call(node.func.id, candidate, arguments)
    wanted = " or ".join(str(candidate.takes) for candidate in OPERATIONS[node.func.id])
    raise ValueError(f"program {program!r}: {node.func.id} takes {wanted}, got {given}")


def _type_of(name: str) -> str:
    """What a quoted name is. Room types are open, for houses come from several sources."""
    return "Category" if name in CLASSES else "Relation" if name in RELATIONS else "RoomType"


def _slots(expression: Expression) -> Iterator[Slot]:
    if isinstance(expression, Slot):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _slots(argument)


def _bind(expression: Expression, values: Mapping[str, str]) -> Expression:
    if isinstance(expression, Slot):
        value = Value(values[expression.name], _type_of(values[expression.name]))
        if value.type != expression.type:
            raise ValueError(f"slot {expression}: expected a {expression.type}, got {value}, a {value.type}")
        return value
    if isinstance(expression, Call):
        return Call(expression.name, expression.operation, tuple(_bind(a, values) for a in expression.arguments))
    return expression
