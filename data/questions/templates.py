"""Question templates: every question with a clear answer, from each type's wordings and the names that a house has.

`Generator(rules, types).generate(house)` gives every question about one house that has exactly one clear answer there.
Balance over houses and visibility of answers come after it (`data.questions.balance`, `data.questions.generate`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from zlib import crc32

from eqa.data.questions.operations import Sight, Undefined, World
from eqa.data.questions.programs import Program, Slot, parse
from eqa.data.questions.rules import UNNAMED, Rules
from eqa.envs.annotations import PALETTE
from eqa.envs.house.catalog import CLASSES, QUERYABLE
from eqa.envs.house.house import House


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one house with its objects and rooms. Object ids are those of the house."""

    scene_id: str
    number: int  # its place among all questions that `generate` asks about the house
    type: str
    text: str
    answer: str
    program: str
    touched: tuple[int, ...]  # every object that the answer depends on, the one asked about first
    rooms: tuple[int, ...]  # likewise; with objects, their rooms
    sight: Sight

    @property
    def target_object(self) -> int | None:
        """The object that is asked about, None if that is a room."""
        return self.touched[0] if self.sight == "objects" else None

    @property
    def room(self) -> int | None:
        """The room that is asked about, or that the target is in; None if that is the house."""
        return self.rooms[0] if self.sight != "house" else None


@dataclass(frozen=True)
class Template:
    """One wording of a question type. ValueError at once if text and program do not have the same slots."""

    type: str
    text: str
    program: Program
    rules: Rules

    def __post_init__(self) -> None:
        for slot in self.program.slots:
            if not any(f"{{{form}}}" in self.text for form in _forms(slot)):
                raise ValueError(
                    f"question type {self.type}: the program uses {slot.name}, the text {self.text!r} does not"
                )
        self.wording({slot.name: "thing" for slot in self.program.slots})

    def wording(self, values: Mapping[str, str]) -> str:
        """The text with its slots filled; {is} agrees with the first object, {in} with the room."""
        names = [values[slot.name] for slot in self.program.slots if slot.type == "Category"]
        words = {
            "is": "are" if names and names[0] in self.rules.plurals else "is",
            "in": "on" if values.get("ROOM") in self.rules.rooms_with_on else "in",
        }
        for slot in self.program.slots:
            name = values[slot.name]
            words |= zip(_forms(slot), (name, self._with_article(name), self._plural(name)), strict=True)
        try:
            return self.text.format_map(words)
        except (KeyError, IndexError) as error:
            raise ValueError(f"question type {self.type}: {self.text!r} uses {error}, the program does not") from None

    def _with_article(self, name: str) -> str:
        if name in self.rules.plurals:
            return name
        return f"{self.rules.articles.get(name, 'an' if name[0] in 'aeiou' else 'a')} {name}"

    def _plural(self, name: str) -> str:
        """The name with its last word in the plural; regular forms as English spells them."""
        if name in self.rules.plurals:
            return name
        if name in self.rules.irregular_plurals:
            return self.rules.irregular_plurals[name]
        if name[-1] == "y" and name[-2] not in "aeiou":
            return f"{name[:-1]}ies"
        return f"{name}es" if name.endswith(("s", "x", "sh", "ch")) else f"{name}s"


def _forms(slot: Slot) -> tuple[str, str, str]:
    """Placeholders of a slot in a text: plain, with its article, in the plural."""
    return slot.name, f"a {slot.name}", f"{slot.name}S"


class Generator:
    """The templates of a set's question types, parsed and checked once."""

    def __init__(self, rules: Rules, types: Sequence[str]) -> None:
        if unknown := [name for name in types if name not in rules.types]:
            raise ValueError(f"question types: expected some of {list(rules.types)}, got {unknown}")
        self.rules = rules
        self.templates = [
            Template(name, form.text, parse(form.program), rules) for name in types for form in rules.types[name].forms
        ]
        # of a template's place and rooms: combinations of names, by their first one
        self._drawn: dict[tuple[int, tuple[str, ...]], dict[str, list[tuple[str, ...]]]] = {}

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
                questions.append(
                    Question(
                        scene_id=house.id,
                        number=len(questions),
                        type=template.type,
                        text=template.wording(values),
                        answer=found.answer,
                        program=template.program.text(values),
                        touched=tuple(thing.id for thing in found.touched),
                        rooms=tuple(dict.fromkeys((*(thing.room for thing in found.touched), *found.rooms))),
                        sight=found.sight,
                    )
                )
        return questions

    def _fillings(self, template: Template, house: House) -> Iterator[dict[str, str]]:
        """Every combination of names that may have an answer in the house, less those that the type leaves out."""
        kind, slots = self.rules.types[template.type], template.program.slots
        types = {room.type for room in house.rooms}
        num_rooms = sum(slot.type == "RoomType" for slot in slots)
        order = sorted(range(len(slots)), key=lambda i: slots[i].type != "RoomType")  # of the names in a combination
        for rooms in product([name for name in self.rules.rooms if name in types], repeat=num_rooms):
            there = _categories(house, rooms)
            there = [name for name in (*QUERYABLE, *kind.also) if kind.absent or name in there]
            for names in self._combinations(template, rooms, there):
                yield {slots[i].name: name for i, name in zip(order, (*rooms, *names), strict=True)}

    def _combinations(
        self, template: Template, rooms: tuple[str, ...], there: Sequence[str]
    ) -> Iterable[tuple[str, ...]]:
        """Names for a template's other slots. A type with a share has the same ones in every house, so drawn once."""
        kind = self.rules.types[template.type]
        categories = (*QUERYABLE, *kind.also) if kind.share < 1 else there
        names = {"Category": categories, "Relation": self.rules.relations}
        choices = [[n for n in names[s.type] if n not in kind.skip] for s in template.program.slots if s.type in names]
        if kind.share == 1:
            return (chosen for chosen in product(*choices) if len(set(chosen)) == len(chosen))
        key = id(template), rooms
        if key not in self._drawn:
            drawn = self._drawn[key] = defaultdict(list)
            for chosen in product(*choices):
                label = ",".join((*rooms, *chosen)).encode()
                if len(set(chosen)) == len(chosen) and crc32(label) < kind.share * 2**32:
                    drawn[chosen[0]].append(chosen)
        known = {*there, *self.rules.relations}
        return (c for name in self._drawn[key] if name in known for c in self._drawn[key][name] if known.issuperset(c))


def _categories(house: House, rooms: Sequence[str]) -> set[str]:
    """Categories in the house, or in one of the rooms if any are named."""
    return {thing.category for thing in house.objects if not rooms or house.rooms[thing.room].type in rooms}


def check_annotations(house: House) -> None:
    """ValueError naming the fault if a house's annotations cannot be asked about."""
    for place, thing in enumerate(house.objects, start=1):
        where = f"house {house.id}, object {thing.id} ({thing.category})"
        if thing.id != place:
            raise ValueError(f"{where}: expected ids 1, 2, ... in order, got {thing.id} at place {place}")
        if thing.category not in (*CLASSES, UNNAMED):
            raise ValueError(f"{where}: unknown category; expected one of catalog.CLASSES")
        if not 0 <= thing.room < len(house.rooms):
            raise ValueError(f"{where}: expected a room from 0 to {len(house.rooms) - 1}, got {thing.room}")
        if thing.color is not None and thing.color not in PALETTE:
            raise ValueError(f"{where}: unknown color {thing.color!r}; expected one of {list(PALETTE)} or none")
        if thing.on is not None and not (1 <= thing.on <= len(house.objects) and thing.on != thing.id):
            raise ValueError(f"{where}: expected to stand on another object, got id {thing.on}")
        if min(thing.size_m) <= 0:
            raise ValueError(f"{where}: expected a size above 0, got {thing.size_m}")
