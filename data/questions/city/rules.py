"""`load_city_rules()`: city.yaml as checked types: wordings, names that questions use, and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import yaml

from eqa.data.questions.city.sentences import Asking

RULES = Path(__file__).with_name("city.yaml")
CATEGORIES = (
    "object_recognition",
    "attribute_recognition",
    "counting",
    "existence_judgement",
    "spatial_reasoning",
    "world_knowledge",
)


@dataclass(frozen=True, slots=True)
class Wording:
    category: str
    target: str
    asked: str


@dataclass(frozen=True, slots=True)
class Limits:
    deep_m: float
    aside_m: float
    unclear_m: float
    count_below: int
    next_m: float
    clear_side_m: float
    clear_front_rad: float
    ahead_m: tuple[float, float]
    beside_m: tuple[float, float]
    unclear_beside_m: tuple[float, float]
    away_m: tuple[float, float]
    legible_m: float


@dataclass(frozen=True)
class CityRules:
    sets: Mapping[str, Mapping[str, float]]  # name of a set -> share of each category
    types: Mapping[str, Wording]
    vehicles: tuple[str, ...]
    pointed: tuple[str, ...]
    before_shops: tuple[str, ...]
    counted: tuple[str, ...]
    sides_of: tuple[str, ...]
    plurals: Mapping[str, str]
    articles: Mapping[str, str]
    carries_many: Mapping[str, str]
    wheels: Mapping[str, str]
    meals: Mapping[str, str]
    limits: Limits
    document: Mapping  # all of it as read, to tell one set of rules from another

    def wording(self, kind: str, **names: str) -> tuple[str, str, str]:
        """Category, target and question of a type with its names filled in; `a_` before a name adds its article."""
        wording = self.types[kind]
        words = names | {f"a_{key}": self.with_article(name) for key, name in names.items()}
        return wording.category, wording.target.format_map(words), wording.asked.format_map(words)

    def with_article(self, name: str) -> str:
        return f"{self.articles.get(name, 'an' if name[0] in 'aeiou' else 'a')} {name}"

    def plural(self, name: str) -> str:
        return self.plurals.get(name, f"{name}s")


def load_city_rules(path: Path = RULES) -> CityRules:
    """Reads and checks a rules file; ValueError names the file, the key and what was expected."""
    try:
        document = yaml.safe_load(path.read_text())
        _exactly(document, CityRules, "top level")
        limits = _exactly(document["limits"], Limits, "limits")
        rules = CityRules(
            sets=document["sets"],
            types={name: Wording(*entry) for name, entry in document["types"].items()},
            limits=Limits(**{name: tuple(v) if isinstance(v, list) else v for name, v in limits.items()}),
            document=document,
            **{name: tuple(document[name]) for name in ("vehicles", "pointed", "before_shops", "counted", "sides_of")},
            **{name: document[name] for name in ("plurals", "articles", "carries_many", "wheels", "meals")},
        )
        _check(rules)
    except (TypeError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from None
    return rules


@cache
def city_rules() -> CityRules:
    """The package's own rules, read once."""
    return load_city_rules()


def _exactly(entry: dict, kind: type, where: str) -> dict:
    expected, found = {f.name for f in fields(kind)} - {"document"}, set(entry or {})
    if found != expected:
        raise ValueError(f"{where}: missing {sorted(expected - found)}, unknown {sorted(found - expected)}")
    return entry


def _check(rules: CityRules) -> None:
    for name, wording in rules.types.items():
        if wording.category not in CATEGORIES:
            raise ValueError(f"types.{name}: expected one of {list(CATEGORIES)}, got {wording.category!r}")
        asking = Asking("north", "east", wording.target, wording.asked)
        if Asking.parse(asking.text) != asking:
            raise ValueError(f"types.{name}: expected words that fit the sentences of a question, got {asking.text!r}")
    for name, shares in rules.sets.items():
        if not shares or set(shares) - set(CATEGORIES):
            raise ValueError(f"sets.{name}: expected shares of some of {list(CATEGORIES)}, got {sorted(shares)}")
