"""Question templates: fills each type's wordings and programs with the names that a house has, and asks what has an
answer.

`Generator(rules, types).generate(house)` gives every question about one house that has exactly one clear answer there. Balance over
houses, and whether the answer can be seen, come after it (`data.balance`, `data.questions`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from data.programs import Program, Undefined, World, parse
from data.rules import Rules
from envs.house.catalog import CLASSES, PALETTE, QUERYABLE
from envs.house.house import House


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one house and what it is about. Object ids are those of the house."""

    scene_id: str
    number: int  # its place among all questions that `generate` asks about the house
    type: str
    text: str
    answer: str
    program: str
    target_object: int  # the object that the question names first
    touched: tuple[int, ...]  # every object singled out on the way to the answer, the target first
    room: int  # of the target


@dataclass(frozen=True)
class Template:
    """One wording of a question type. ValueError at once if text and program do not have the same slots."""

    type: str
    text: str
    program: Program
    skip: frozenset[str]

    def __post_init__(self) -> None:
        for slot in self.program.slots:
            if f"{{{slot.name}}}" not in self.text:
                raise ValueError(
                    f"question type {self.type}: the program uses {slot.name}, the text {self.text!r} does not"
                )
        self.wording({slot.name: "" for slot in self.program.slots}, (), ())

    def wording(self, values: dict[str, str], plurals: Sequence[str], rooms_with_on: Sequence[str]) -> str:
        """The text with its slots filled; {is} agrees with the first object, {in} with the room."""
        names = [values[slot.name] for slot in self.program.slots if slot.type == "Category"]
        agreeing = {
            "is": "are" if names and names[0] in plurals else "is",
            "in": "on" if values.get("ROOM") in rooms_with_on else "in",
        }
        try:
            return self.text.format(**agreeing, **values)
        except (KeyError, IndexError) as error:
            raise ValueError(f"question type {self.type}: {self.text!r} uses {error}, the program does not") from None


class Generator:
    """The templates of a set's question types, parsed and checked once."""

    def __init__(self, rules: Rules, types: Sequence[str]) -> None:
        if unknown := [name for name in types if name not in rules.types]:
            raise ValueError(f"question types: expected some of {list(rules.types)}, got {unknown}")
        self.rules = rules
        self.templates = [
            Template(name, form.text, parse(form.program), rules.types[name].skip)
            for name in types
            for form in rules.types[name].forms
        ]

    def generate(self, house: House) -> list[Question]:
        """Every question about the house with one clear answer, in a fixed order. ValueError for a faulty house."""
        check_annotations(house)
        world = World(house, self.rules)
        questions: list[Question] = []
        for template in self.templates:
            for values in self._fillings(template, house):
                try:
                    found = template.program.run(world, values)
                except Undefined:
                    continue
                text = template.wording(values, self.rules.plurals, self.rules.rooms_with_on)
                program, touched = str(template.program.bind(values)), tuple(thing.id for thing in found.touched)
                room, number = found.touched[0].room, len(questions)
                questions.append(
                    Question(house.id, number, template.type, text, found.answer, program, touched[0], touched, room)
                )
        return questions

    def _fillings(self, template: Template, house: House) -> Iterator[dict[str, str]]:
        """Every combination of the house's names, less those that the type skips."""
        names = {
            "Category": [n for n in QUERYABLE if any(thing.category == n for thing in house.objects)],
            "RoomType": [n for n in self.rules.rooms if any(room.type == n for room in house.rooms)],
            "Relation": list(self.rules.relations),
        }
        slots = template.program.slots
        choices = [[n for n in names[slot.type] if n not in template.skip] for slot in slots]
        for chosen in product(*choices):
            if len(set(chosen)) == len(chosen):
                yield dict(zip((slot.name for slot in slots), chosen))


def check_annotations(house: House) -> None:
    """ValueError naming what is wrong if a house's annotations cannot be asked about."""
    for place, thing in enumerate(house.objects, start=1):
        where = f"house {house.id}, object {thing.id} ({thing.category})"
        if thing.id != place:
            raise ValueError(f"{where}: expected ids 1, 2, ... in order, got {thing.id} at place {place}")
        if thing.category not in CLASSES:
            raise ValueError(f"{where}: unknown category; expected one of catalog.CLASSES")
        if not 0 <= thing.room < len(house.rooms):
            raise ValueError(f"{where}: expected a room from 0 to {len(house.rooms) - 1}, got {thing.room}")
        if thing.color is not None and thing.color not in PALETTE:
            raise ValueError(f"{where}: unknown color {thing.color!r}; expected one of {list(PALETTE)} or none")
        if thing.on is not None and not (1 <= thing.on <= len(house.objects) and thing.on != thing.id):
            raise ValueError(f"{where}: expected to stand on another object, got id {thing.on}")
        if min(thing.size_m) <= 0:
            raise ValueError(f"{where}: expected a size above 0, got {thing.size_m}")
