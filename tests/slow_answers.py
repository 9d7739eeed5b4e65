"""A second, slow and obvious way to answer a question: from its text and the house's JSON, sharing no code with data/.

`possible_answers(document, question)` gives the set of answers that somebody could defend. A good question has one.
"""

import math
import re

RELATIONS = "on|above|below|under|next to"
PATTERNS = (
    ("location", r"what room (?:is|are) the (?P<thing>.+) located in\?"),
    ("color", r"what color (?:is|are) the (?P<thing>.+?)(?: (?:in|on) the (?P<room>.+))?\?"),
    ("preposition", rf"what is (?P<relation>{RELATIONS}) the (?P<thing>.+?)(?: (?:in|on) the (?P<room>.+))?\?"),
)


def possible_answers(house: dict, question: str) -> set[str]:
    for kind, pattern in PATTERNS:
        if match := re.fullmatch(pattern, question):
            asked = match.groupdict()
            meant = [thing for thing in house["objects"] if thing["category"] == asked["thing"]]
            if asked.get("room"):
                meant = [thing for thing in meant if house["rooms"][thing["room"]]["type"] == asked["room"]]
            if kind == "location":
                return {house["rooms"][thing["room"]]["type"] for thing in meant}
            if kind == "color":
                return {thing["color"] for thing in meant}
            return {a for thing in meant for a in related(house, asked["relation"], thing)}
    raise ValueError(f"no pattern fits {question!r}")


def related(house: dict, relation: str, anchor: dict) -> set[str]:
    """Categories of all objects that somebody might say stand in the relation to the anchor."""
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
    """Sutherland-Hodgman: what of a convex polygon lies in another."""
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
    """Between convex polygons: 0 if they overlap, else the least distance of a corner to an edge."""
    if area(clip(one, other)) > 0:
        return 0.0
    pairs = [(p, e) for p in one for e in edges(other)] + [(p, e) for p in other for e in edges(one)]
    return min(to_segment(p, a, b) for p, (a, b) in pairs)


def to_segment(p: tuple, a: tuple, b: tuple) -> float:
    ux, uz = b[0] - a[0], b[1] - a[1]
    t = max(0.0, min(1.0, ((p[0] - a[0]) * ux + (p[1] - a[1]) * uz) / (ux * ux + uz * uz)))
    return math.hypot(p[0] - a[0] - t * ux, p[1] - a[1] - t * uz)
