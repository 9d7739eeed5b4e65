"""A second, slow and obvious way to answer a question, from its text and the house's JSON. It shares no code with
data/.

`possible_answers(document, question)` gives the set of defensible answers. A good question has one.
"""

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

RULES = yaml.safe_load((Path(__file__).parents[2] / "data" / "questions" / "questions.yaml").read_text())
RELATIONS = "on|above|below|under|next to"
PLACE = r"(?: (?:in|on) the (?P<room>.+))"
NAME = r"(?:an? )?(?P<thing>.+?)"
PATTERNS = (
    ("location", r"what room (?:is|are) the (?P<thing>.+) located in\?"),
    ("color", rf"what color (?:is|are) the (?P<thing>.+?){PLACE}?\?"),
    ("preposition", rf"what is (?P<relation>{RELATIONS}) the (?P<thing>.+?){PLACE}?\?"),
    ("logical", rf"(?:is|are) there {NAME} (?P<word>and|or) (?:an? )?(?P<other>.+?){PLACE}\?"),
    ("existence", rf"(?:is|are) there {NAME}{PLACE}\?"),
    ("count rooms with", r"how many rooms in the house have (?P<things>.+) in them\?"),
    ("count rooms", r"how many (?P<rooms>.+) are in the house\?"),
    ("count", rf"how many (?P<things>.+?) are{PLACE}\?"),
    ("distance", rf"(?:is|are) the (?P<thing>.+?) closer to the (?P<near>.+?) than to the (?P<far>.+?){PLACE}\?"),
    ("distance", rf"(?:is|are) the (?P<thing>.+?) farther from the (?P<far>.+?) than from the (?P<near>.+?){PLACE}\?"),
)


def possible_answers(house: dict, question: str) -> set[str]:
    for kind, pattern in PATTERNS:
        if match := re.fullmatch(pattern, question):
            asked = match.groupdict()
            if kind == "count rooms":
                return {str(sum(room["type"] == singular(asked["rooms"]) for room in house["rooms"]))}
            if kind == "count rooms with":
                return rooms_with(house, singular(asked["things"]))
            rooms = [i for i, room in enumerate(house["rooms"]) if asked.get("room") in (None, room["type"])]
            if kind in ("location", "color", "preposition"):
                meant = [t for t in called(house, asked["thing"]) if t["room"] in rooms]
                return {a for thing in meant for a in describe(house, kind, asked, thing)}
            return {answer for room in rooms for answer in in_room(house, kind, asked, room)}
    raise ValueError(f"no pattern fits {question!r}")


def called(house: dict, name: str) -> list[dict]:
    return [thing for thing in house["objects"] if thing["category"] == name]


def describe(house: dict, kind: str, asked: dict, thing: dict) -> set[str]:
    if kind == "location":
        return {house["rooms"][thing["room"]]["type"]}
    return {thing["color"]} if kind == "color" else related(house, asked["relation"], thing)


def in_room(house: dict, kind: str, asked: dict, room: int) -> set[str]:
    def here(name: str) -> list[dict]:
        return [thing for thing in called(house, name) if thing["room"] == room]

    def there(name: str) -> set[bool]:
        if here(name):
            return {True} if all(math.prod(thing["size_m"]) >= 0.0005 for thing in here(name)) else {True, False}
        return {True, False} if any(here(other) for other in taken_for(name)) else {False}

    if kind == "existence":
        return {"yes" if found else "no" for found in there(asked["thing"])}
    if kind == "logical":
        pairs = itertools.product(there(asked["thing"]), there(asked["other"]))
        return {"yes" if (one and other if asked["word"] == "and" else one or other) else "no" for one, other in pairs}
    if kind == "count":
        name = singular(asked["things"])
        sure, perhaps = len(here(name)), sum(len(here(other)) for other in taken_for(name))
        return {str(sure + more) for more in range(perhaps + 1)}
    triples = itertools.product(here(asked["thing"]), here(asked["near"]), here(asked["far"]))
    return {answer for triple in triples for answer in nearer(*triple)}


def nearer(thing: dict, near: dict, far: dict) -> Iterator[str]:
    """Compares the gaps between the two and their centres, each time with half a metre of doubt."""
    for measure in (lambda a, b: distance(corners(a, 0.0), corners(b, 0.0)), middle_distance):
        difference = measure(thing, far) - measure(thing, near)
        yield from ["yes"] * (difference > -0.5) + ["no"] * (difference < 0.5)


def middle_distance(one: dict, other: dict) -> float:
    return math.dist(one["position"][::2], other["position"][::2])


def rooms_with(house: dict, name: str) -> set[str]:
    sure = {thing["room"] for thing in called(house, name)}
    perhaps = {thing["room"] for other in taken_for(name) for thing in called(house, other)} - sure
    return {str(len(sure) + more) for more in range(len(perhaps) + 1)}


def taken_for(name: str) -> list[str]:
    return RULES["confusable"].get(name, [])


def singular(name: str) -> str:
    if name in ("plates", "bookshelves"):
        return {"plates": "plates", "bookshelves": "bookshelf"}[name]
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-2] if name.endswith(("xes", "ches", "shes", "sses")) else name[:-1]


def related(house: dict, relation: str, anchor: dict) -> set[str]:
    """Categories of all objects that might be said to stand in the relation to the anchor."""
    others = [t for t in house["objects"] if t["room"] == anchor["room"] and t["id"] != anchor["id"]]
    if relation == "on":
        found = [t for t in others if touches(t, anchor)]
    elif relation == "above":
        found = [t for t in others if touches(t, anchor) or hovers(t, anchor)]
    elif relation == "below":
        found = [t for t in others if touches(anchor, t)]
    elif relation == "under":
        found = [t for t in others if touches(anchor, t) or hovers(anchor, t)]
    else:
        found = [t for t in others if beside(t, anchor)]
    return {f"{t['category']} {t['id']}" for t in found} if len(found) > 1 else {t["category"] for t in found}


def touches(upper: dict, lower: dict) -> bool:
    if upper["on"] == lower["id"]:
        return True
    return abs(upper["position"][1] - top(lower)) <= 0.03 and covered(upper, lower, 0.0) > 0.1


def hovers(upper: dict, lower: dict) -> bool:
    gap = upper["position"][1] - top(lower)
    return 0.03 < gap <= 3.0 and covered(upper, lower, 0.2) > 0.1


def beside(one: dict, other: dict) -> bool:
    if one["on"] == other["id"] or other["on"] == one["id"]:
        return False
    if any(thing["position"][1] <= 0.03 and thing["size_m"][1] <= 0.05 for thing in (one, other)):
        return False
    shared = min(top(one), top(other)) - max(one["position"][1], other["position"][1])
    if shared <= 0.1 * min(one["size_m"][1], other["size_m"][1]):
        return False
    return distance(corners(one, 0.0), corners(other, 0.0)) <= 0.6


def top(thing: dict) -> float:
    return thing["position"][1] + thing["size_m"][1]


def corners(thing: dict, grown_m: float) -> list[tuple[float, float]]:
    """Turned rectangle by the turn's matrix: model +X goes to (cos, -sin), model +Z to (sin, cos) in (x, z)."""
    c, s = math.cos(thing["heading_rad"]), math.sin(thing["heading_rad"])
    w, d = thing["size_m"][0] / 2 + grown_m, thing["size_m"][2] / 2 + grown_m
    x, _, z = thing["position"]
    return [(x + u * w * c + v * d * s, z - u * w * s + v * d * c) for u, v in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def covered(upper: dict, lower: dict, grown_m: float) -> float:
    own, other = corners(upper, 0.0), corners(lower, grown_m)
    return area(clip(own, other)) / min(area(own), area(other))


def area(points: list[tuple[float, float]]) -> float:
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in edges(points))) / 2


def edges(points: list[tuple[float, float]]) -> list[tuple]:
    return list(zip(points, points[1:] + points[:1]))


def clip(points: list, window: list) -> list:
    """The part of a convex polygon inside another, by Sutherland-Hodgman."""
    cx, cz = sum(p[0] for p in window) / 4, sum(p[1] for p in window) / 4
    for (ax, az), (bx, bz) in edges(window):
        inward = math.copysign(1.0, (bx - ax) * (cz - az) - (bz - az) * (cx - ax))
        side = [inward * ((bx - ax) * (z - az) - (bz - az) * (x - ax)) for x, z in points]
        kept = []
        for i, point in enumerate(points):
            before, was, now = points[i - 1], side[i - 1], side[i]
            if was * now < 0:
                t = was / (was - now)
                kept.append((before[0] + t * (point[0] - before[0]), before[1] + t * (point[1] - before[1])))
            if now >= 0:
                kept.append(point)
        points = kept
    return points


def distance(one: list, other: list) -> float:
    """Distance of convex polygons: 0 if they overlap, else the least distance of a corner to an edge."""
    if area(clip(one, other)) > 0:
        return 0.0
    pairs = [(p, e) for p in one for e in edges(other)] + [(p, e) for p in other for e in edges(one)]
    return min(to_segment(p, a, b) for p, (a, b) in pairs)


def to_segment(p: tuple, a: tuple, b: tuple) -> float:
    ux, uz = b[0] - a[0], b[1] - a[1]
    t = max(0.0, min(1.0, ((p[0] - a[0]) * ux + (p[1] - a[1]) * uz) / (ux * ux + uz * uz)))
    return math.hypot(p[0] - a[0] - t * ux, p[1] - a[1] - t * uz)
