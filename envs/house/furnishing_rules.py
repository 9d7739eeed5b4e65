"""`furnishing_rules`: what `furnishing.yaml` says, checked, and `matching`: the models of one of its kinds."""

import functools
from pathlib import Path
from typing import Any

import yaml

from eqa.envs.house.catalog import CLASSES
from eqa.envs.house.placing import PLACES
from eqa.envs.rendering.assets import Catalog, Model

_FILE = Path(__file__).parent / "furnishing.yaml"
_SIDES = {"width": 0, "height": 1, "depth": 2}
_KIND_WORDS = {"category", *_SIDES, "elevation", "names", "without", "aside"}
_RULE_WORDS = {
    "item", "group", "chance", "area", "lacks", "if_missing", "rooms", "count", "every", "each", "must", "at", "of",
    "front", "back", "windows", "chimney", "gap", "height", "middle", "tall", "centre", "match", "scale", "aspect",
}  # fmt: skip
_RANGES = ("area", "count", "scale", "aspect")
_NEEDS_OF = ("front", "opposite", "beside", "around", "ends", "atop", "above", "over", "under")


@functools.cache
def furnishing_rules() -> dict:
    """`furnishing.yaml` as it stands. ValueError names the rule that is not well formed."""
    rules = yaml.safe_load(_FILE.read_text())
    check(rules)
    return rules


def check(rules: dict) -> None:
    """ValueError for the first word, name or number that nothing is done with."""
    for kind, rule in rules["kinds"].items():
        _known(rule, _KIND_WORDS, f"kinds: {kind}")
        _known([rule["category"]], CLASSES, f"kinds: {kind}: category")
    for part in ("groups", "rooms"):
        for name, members in rules[part].items():
            for place, rule in enumerate(members):
                _check_rule(rules, rule, f"{part}: {name}: rule {place + 1} ({rule.get('item', rule.get('group'))})")
    for kind, rule in rules["fill"].items():
        _known([kind], rules["rooms"], "fill")
        _known(rule, ("share", "rules"), f"fill: {kind}")
        for place, further in enumerate(rule["rules"]):
            name = f"fill: {kind}: rule {place + 1} ({further.get('item', further.get('group'))})"
            _check_rule(rules, further, name)
    for place, rule in enumerate(rules["house"]):
        name = f"house: rule {place + 1} ({rule.get('item', rule.get('group'))})"
        _check_rule(rules, rule, name)
        if "rooms" not in rule:
            raise ValueError(f"{name}: expected rooms, a weight for each room type that it may be in")


def _check_rule(rules: dict, rule: dict, name: str) -> None:
    things = {*rules["kinds"], *CLASSES}
    _known(rule, _RULE_WORDS, name)
    if ("item" in rule) == ("group" in rule):
        raise ValueError(f"{name}: expected either item or group")
    if "item" in rule:
        _known(rule["item"], things, f"{name}: item")
        _known([rule.get("at")], {*PLACES, "run"}, f"{name}: at")
        if rule["at"] in _NEEDS_OF and "of" not in rule:
            raise ValueError(f"{name}: expected of, as it stands {rule['at']} something")
    else:
        _known(rule["group"], rules["groups"], f"{name}: group")
    _known(rule.get("of", []), things, f"{name}: of")
    _known(rule.get("rooms", {}), rules["rooms"], f"{name}: rooms")
    _known(rule.get("tall", []), things, f"{name}: tall")
    _known(rule.get("lacks", []), rules["rooms"], f"{name}: lacks")
    if "if_missing" in rule:
        _known(rule["if_missing"], things, f"{name}: if_missing")
    if not 0 < rule.get("chance", 1) <= 1:
        raise ValueError(f"{name}: chance: expected more than 0, up to 1, got {rule['chance']}")
    for word in _RANGES:
        low, high = rule.get(word, (0, 1))
        if not 0 <= low <= high:
            raise ValueError(f"{name}: {word}: expected [least, most], got {rule[word]}")


def _known(found: Any, allowed: Any, name: str) -> None:
    """ValueError for a name, or one of several, that is not `allowed`."""
    for one in [found] if isinstance(found, str) else found:
        if one not in allowed:
            raise ValueError(f"{name}: expected one of {', '.join(sorted(allowed))}, got {one!r}")


@functools.cache
def matching(catalog: Catalog, kind: str) -> tuple[Model, ...]:
    """Models of a kind of `furnishing.yaml`, or of a category; weak ones only where there are no good ones."""
    rule = furnishing_rules()["kinds"].get(kind, {"category": kind})

    def suits(model: Model) -> bool:
        if any(n in rule and not rule[n][0] <= model.size_m[axis] <= rule[n][1] for n, axis in _SIDES.items()):
            return False
        low, high = rule.get("elevation", (-1, 9))
        name, names = model.key + model.name, rule.get("names")
        if any(part in name for part in rule.get("without", [])):
            return False
        return low <= model.elevation_m <= high and (not names or any(part in name for part in names))

    models = [model for model in catalog.models_of(rule["category"]) if suits(model)]
    good = [model for model in models if model.quality == "good"]
    return tuple(sorted(good or models, key=lambda model: model.key))
