"""Functional programs: elementary operations composed as text, run over a house to an answer (paper, 3.1).

`parse("color(unique(inside(objects(OBJ), unique(rooms(ROOM)))))")` is a program with the slots OBJ and ROOM; `bind`
fills them, `run` answers in one house. `parse` checks types: an operation on the wrong type is a ValueError there, and
never turns up while questions are generated. A program without a single clear answer in a house raises `Undefined`. It
gives an Answer (a name or a colour), a Truth ("yes" or "no") or a Number.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from eqa.data.questions.operations import OPERATIONS, Operation, Sight, World
from eqa.data.questions.relations import RELATIONS
from eqa.envs.house.catalog import CLASSES
from eqa.envs.house.house import HouseObject

SLOT_TYPES = {"OBJ": "Category", "ROOM": "RoomType", "REL": "Relation"}
_SLOT = re.compile(rf"\b(?:{'|'.join(SLOT_TYPES)})\d*\b")  # all other names are in small letters


@dataclass(frozen=True)
class Slot:
    name: str  # a key of SLOT_TYPES, perhaps with a digit: OBJ, OBJ1, OBJ2

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
    """A program's answer, and the objects and rooms that it came across, those asked about first."""

    answer: str
    touched: tuple[HouseObject, ...]
    rooms: tuple[int, ...]
    sight: Sight


# Types that a program may give, and their wording.
SAID: dict[str, Callable[[object], str]] = {
    "Answer": str,
    "Truth": lambda true: "yes" if true else "no",
    "Number": str,
}


@dataclass(frozen=True)
class Program:
    """An expression that gives an Answer, a Truth or a Number. `str` of it can be parsed again."""

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

    def text(self, values: Mapping[str, str]) -> str:
        """`str` of the program with its slots filled, unchecked: much faster than `bind`."""
        return _SLOT.sub(lambda slot: f'"{values[slot[0]]}"', self._text)

    @cached_property
    def _text(self) -> str:
        return str(self)

    def run(self, world: World, names: Mapping[str, str] = MappingProxyType({})) -> Answered:
        """Answers in the world's house, as `bind(names)` would. Raises Undefined if there is no single clear answer."""
        if any(slot.name not in names for slot in self.slots):
            raise ValueError(f"program {self}: expected names for {[s.name for s in self.slots]}, got {sorted(names)}")
        world.forget()
        answer = SAID[self.expression.type](self.expression.run(world, names))
        return Answered(answer, *(tuple(dict.fromkeys(things)) for things in (world.touched, world.rooms)), world.sight)


def parse(text: str) -> Program:
    """Reads a program; ValueError if it does not parse, uses unknown names or mixes types."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"program {text!r}: {error.msg}") from None
    expression = _build(tree, text)
    if expression.type not in SAID:
        raise ValueError(f"program {text!r}: expected to give an {' or '.join(SAID)}, gives {expression.type}")
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
    """The type of a quoted name. Any other name is a room type, as houses come from several sources."""
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
