"""`facts_of`: all that can be asked about the things of a city, each with its one clear answer.

A fact has a target, a phrase for it, a question and its answer. It holds wherever the agent starts; the sentences
around it, with the sides of the compass, come later (`data.questions.city.places`). A shop is known by its sign, so the
sign is its target. Things before a shop and their side are said as by a person who faces it.

Axes: N things, B buildings, S signs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from eqa.data.questions.city.rules import CityRules
from eqa.data.questions.city.sentences import SIDES
from eqa.envs.annotations import Annotations, Thing
from eqa.envs.metrics import inside_polygon

LANDMARK, SHOP_SIGN = "building", "sign"
WALL_VIEW_M = 5.0  # several signs of a wall are seen from at least so far before it
WALL_M = 1.5  # behind the middle of a sign there is its building


@dataclass(frozen=True, slots=True)
class Fact:
    """A question about a target, without the way to it."""

    kind: str  # a key of the rules' types
    category: str
    target: str
    asked: str
    answer: str
    touched: tuple[int, ...]  # ids of things to be seen, the target first
    like: frozenset[int]  # ids of all things that the phrase may mean, the target among them
    legible: bool = False  # the answer is written on the target
    before_m: float = 0.0  # what lies so far before the target must be in view as well


def facts_of(annotations: Annotations, rules: CityRules) -> list[Fact]:
    """All facts, in a fixed order."""
    things = [thing for thing in annotations.things if thing.asked]
    return [*_of_vehicles(things, rules), *_of_shops(things, rules)]


def _of_vehicles(things: list[Thing], rules: CityRules) -> Iterator[Fact]:
    vehicles = [thing for thing in things if thing.name in rules.vehicles]
    for one in vehicles:
        like = _maybe_like(vehicles, one, "color")
        if one.color is not None:
            words = {"color": one.color}
            yield _fact(rules, "vehicle_kind", one, like, one.name, **words)
            for kind, answers in (("many_people", rules.carries_many), ("wheels", rules.wheels)):
                if one.name in answers:
                    yield _fact(rules, kind, one, like, answers[one.name], **words)
        alike = _maybe_like(vehicles, one, "name")
        if one.color is not None:
            yield _fact(rules, "vehicle_color", one, alike, one.color, name=one.name)
        if one.name in rules.pointed and (side := side_of(one, rules)):
            yield _fact(rules, "facing", one, alike, side, name=one.name)


def _of_shops(things: list[Thing], rules: CityRules) -> Iterator[Fact]:
    signs = [thing for thing in things if thing.name == SHOP_SIGN and thing.label and thing.front_rad is not None]
    walls = np.array([_behind(sign) for sign in signs], np.float64).reshape(-1, 2)
    buildings = [thing for thing in things if thing.name == LANDMARK]
    holds = np.zeros((len(buildings), len(signs)), np.bool_)
    for row, building in enumerate(buildings):
        holds[row] = inside_polygon(walls, building.outline)
    places = np.array([thing.middle for thing in things], np.float64).reshape(-1, 2)
    names = np.array([thing.name for thing in things])
    for number, sign in enumerate(signs):
        first, *_, last = sign.label.lower().split() if " " in sign.label else (None, sign.label.lower())
        if sign.color is not None:
            said = frozenset(one.id for one in signs if one.label.lower().split()[-1] == last)
            yield _fact(rules, "sign_color", sign, said, sign.color, legible=True, word=last)
            like = _maybe_like(signs, sign, "color")
            words = {"color": sign.color}
            yield _fact(rules, "shop_kind", sign, like, last, legible=True, **words)
            if first is not None:
                yield _fact(rules, "shop_name", sign, like, first, legible=True, **words)
            if last in rules.meals:
                yield _fact(rules, "food", sign, like, rules.meals[last], legible=True, **words)
            yield from _of_its_building(number, signs, holds, like, rules)
            yield from _next_shops(sign, signs, like, rules)
            yield from _before(sign, things, names, before(sign, places), like, rules)


def _of_its_building(
    number: int, signs: list[Thing], holds: Bool[np.ndarray, "B S"], like: frozenset[int], rules: CityRules
) -> Iterator[Fact]:
    """The number of shops on the wall of a building; `holds`: which buildings the signs hang on."""
    sign, its_own = signs[number], np.flatnonzero(holds[:, number])
    if len(its_own) != 1:
        return
    row = [one for one, on in zip(signs, holds[its_own[0]], strict=True) if on and one.front_rad == sign.front_rad]
    if len(row) < rules.limits.count_below:
        others = [one.id for one in row if one.id != sign.id]
        yield _fact(
            rules, "shops_of_building", sign, like, str(len(row)), *others, color=sign.color, before_m=WALL_VIEW_M
        )


def _behind(sign: Thing) -> tuple[float, float]:
    """A point in the wall that a sign hangs on."""
    x, z = sign.middle
    return x + WALL_M * np.sin(sign.front_rad), z + WALL_M * np.cos(sign.front_rad)


def _next_shops(sign: Thing, signs: list[Thing], like: frozenset[int], rules: CityRules) -> Iterator[Fact]:
    """Signs beside a shop, on the same wall."""
    along = before(sign, np.array([one.middle for one in signs], np.float64))
    for side, sense in (("left", -1), ("right", 1)):
        row = [
            (aside * sense, one)
            for (ahead, aside), one in zip(along, signs, strict=True)
            if abs(ahead) < 1.0 and 0 < aside * sense <= rules.limits.next_m and one.front_rad == sign.front_rad
        ]
        if row and (nearest := min(row, key=lambda pair: pair[0])[1]).color is not None:
            yield _fact(
                rules,
                "next_shop",
                sign,
                like,
                nearest.color,
                nearest.id,
                color=sign.color,
                side=side,
                before_m=WALL_VIEW_M,
            )


def _before(
    sign: Thing,
    things: list[Thing],
    names: Shaped[np.ndarray, " N"],
    at: Float64[np.ndarray, "N 2"],
    like: frozenset[int],
    rules: CityRules,
) -> Iterator[Fact]:
    """Things in front of a shop: of which kind, how many, whether any, and on which side."""
    limits = rules.limits
    ahead, aside = at[:, 0], np.abs(at[:, 1])
    inside = (ahead > 0.2) & (ahead <= limits.deep_m) & (aside <= limits.aside_m)
    perhaps = (ahead > 0.2) & (ahead <= limits.deep_m + limits.unclear_m) & (aside <= limits.aside_m + limits.unclear_m)
    words = {"color": sign.color, "before_m": limits.deep_m}
    kinds = sorted(set(names[perhaps].tolist()) & set(rules.before_shops))
    if len(kinds) == 1 and inside[names == kinds[0]].any():
        seen = [things[n].id for n in np.flatnonzero(inside & (names == kinds[0]))[:1]]
        yield _fact(rules, "in_front", sign, like, kinds[0], *seen, **words)
    for name in rules.counted:
        here, unclear = inside & (names == name), perhaps & ~inside & (names == name)
        ids = [things[n].id for n in np.flatnonzero(here)]
        if unclear.any():
            continue
        if 0 < len(ids) < limits.count_below:
            yield _fact(rules, "count", sign, like, str(len(ids)), *ids, names=rules.plural(name), **words)
        if len(ids) < 2:
            yield _fact(rules, "exist", sign, like, "yes" if ids else "no", *ids, name=name, **words)
    for name in rules.sides_of:
        found = np.flatnonzero(perhaps & (names == name))
        if len(found) == 1 and inside[found[0]] and aside[found[0]] >= limits.clear_side_m:
            answer = "right" if at[found[0], 1] > 0 else "left"
            yield _fact(rules, "which_side", sign, like, answer, things[found[0]].id, name=name, **words)


def _fact(
    rules: CityRules,
    kind: str,
    target: Thing,
    like: frozenset[int],
    answer: str,
    *others: int,
    legible: bool = False,
    before_m: float = 0.0,
    **names: str,
) -> Fact:
    touched = (target.id, *others)
    return Fact(kind, *rules.wording(kind, **names), answer, touched, like, legible=legible, before_m=before_m)


def _maybe_like(things: list[Thing], one: Thing, field: str) -> frozenset[int]:
    """Ids of the things with the same value, or an unknown one."""
    return frozenset(other.id for other in things if getattr(other, field) in (None, getattr(one, field)))


def before(thing: Thing, places: Float64[np.ndarray, "N 2"]) -> Float64[np.ndarray, "N 2"]:
    """Metres of places ahead of a thing's front, and to the right as seen by one who faces it."""
    front = thing.front_rad
    out, right = (-np.sin(front), -np.cos(front)), (-np.cos(front), np.sin(front))
    away = places - np.array(thing.middle)
    return np.stack([away @ np.array(out), away @ np.array(right)], axis=1)


def side_of(thing: Thing, rules: CityRules) -> str | None:
    """The side of the compass to which a front points; None if it is none or unclear."""
    if thing.front_rad is None:
        return None
    for side, (x, z) in SIDES.items():
        off = (thing.front_rad - np.arctan2(-x, -z) + pi) % (2 * pi) - pi
        if abs(off) <= rules.limits.clear_front_rad:
            return side
    return None
