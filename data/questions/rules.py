"""`load_rules()`: questions.yaml as checked types: question types, names, blacklists, thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path

import yaml

from eqa.data.questions.relations import RELATIONS, Thresholds
from eqa.envs.house.catalog import CLASSES, QUERYABLE

RULES = Path(__file__).parent / "questions.yaml"
UNNAMED = "something"  # the category of a thing that could be any: it is no answer, and leaves others in doubt


@dataclass(frozen=True, slots=True)
class Balance:
    min_entropy: float
    min_houses: int
    max_per_house: int


@dataclass(frozen=True, slots=True)
class Form:
    """One wording of a question type and the program behind it, both with slots."""

    text: str
    program: str


@dataclass(frozen=True, slots=True)
class QuestionType:
    forms: tuple[Form, ...]
    skip: frozenset[str] = frozenset()  # object and room names that do not fill a slot
    also: tuple[str, ...] = ()  # classes that fill a slot besides the queryable ones
    absent: bool = False  # True: a slot may be filled with a thing that a house lacks
    share: float = 1.0  # of all combinations of names, the same ones in every house


@dataclass(frozen=True)
class Rules:
    sets: Mapping[str, Mapping[str, float]]  # name of a set -> share of each question type
    types: Mapping[str, QuestionType]
    rooms: tuple[str, ...]
    rooms_with_on: tuple[str, ...]
    plurals: tuple[str, ...]
    irregular_plurals: Mapping[str, str]
    articles: Mapping[str, str]
    confusable: Mapping[str, Sequence[str]]
    relations: tuple[str, ...]
    never_answers: tuple[str, ...]
    thresholds: Thresholds
    balance: Balance
    document: Mapping  # all of it as read, to tell one set of rules from another

    def __post_init__(self) -> None:
        for where, names, known in (
            ("rooms_with_on", self.rooms_with_on, self.rooms),
            ("plurals", self.plurals, CLASSES),
            ("relations", self.relations, RELATIONS),
            ("never_answers", self.never_answers, CLASSES),
            ("irregular_plurals", self.irregular_plurals, (*CLASSES, *self.rooms)),
            ("articles", self.articles, (*CLASSES, *self.rooms)),
            ("confusable", {*self.confusable, *chain(*self.confusable.values())}, CLASSES),
            *((f"types.{t}.skip", kind.skip, (*QUERYABLE, *self.rooms)) for t, kind in self.types.items()),
            *((f"types.{t}.also", kind.also, CLASSES) for t, kind in self.types.items()),
            *((f"sets.{s}", shares, self.types) for s, shares in self.sets.items()),
        ):
            if unknown := sorted(set(names) - set(known)):
                raise ValueError(f"question rules, {where}: unknown names {unknown}; expected some of {list(known)}")


def load_rules(path: Path = RULES) -> Rules:
    """Reads and checks a rules file; ValueError names the file, the key and what was expected."""
    try:
        document = yaml.safe_load(path.read_text())
        types = _exactly(document, Rules, "top level")["types"]
        return Rules(
            sets=document["sets"],
            types={name: _question_type(name, entry) for name, entry in types.items()},
            thresholds=Thresholds(**_exactly(document["thresholds"], Thresholds, "thresholds")),
            balance=Balance(**_exactly(document["balance"], Balance, "balance")),
            document=document,
            **{key: tuple(document[key]) for key in _LISTS},
            **{key: document[key] for key in ("irregular_plurals", "articles", "confusable")},
        )
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from None


_LISTS = ("rooms", "rooms_with_on", "plurals", "relations", "never_answers")


def _exactly(entry: dict, kind: type, where: str) -> dict:
    expected, found = {f.name for f in fields(kind)} - {"document"}, set(entry or {})
    if found != expected:
        raise ValueError(f"{where}: missing {sorted(expected - found)}, unknown {sorted(found - expected)}")
    return entry


def _question_type(name: str, entry: dict) -> QuestionType:
    if unknown := sorted(set(entry) - {"forms", "skip", "also", "absent", "share"}):
        raise ValueError(f"types.{name}: unknown {unknown}; expected forms and perhaps skip, also, absent, share")
    forms = tuple(Form(**_exactly(form, Form, f"types.{name}.forms")) for form in entry.get("forms", ()))
    if not forms:
        raise ValueError(f"types.{name}: expected at least one entry in forms")
    kind = QuestionType(
        forms=forms,
        skip=frozenset(entry.get("skip", ())),
        also=tuple(entry.get("also", ())),
        absent=entry.get("absent", False),
        share=entry.get("share", 1.0),
    )
    if not isinstance(kind.absent, bool) or not 0 < kind.share <= 1:
        raise ValueError(
            f"types.{name}: expected absent true or false and share above 0 up to 1, got {kind.absent!r}, {kind.share!r}"
        )
    return kind
