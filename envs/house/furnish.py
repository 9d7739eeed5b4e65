"""`furnish`: furniture for a floor plan's rooms, by the rules in `furnishing.yaml`.

Rules of a room type are tried in order, then those of the whole house. The latter place categories that a house has
once, in a room drawn by weight, and so give most questions one right answer. Things that do not fit (`Space.fits`) are
left out. A group is placed as one: where something that it must have finds no place, another spot is tried for all.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from eqa.envs.house.furnishing_rules import furnishing_rules, matching
from eqa.envs.house.house import House, HouseObject
from eqa.envs.house.placing import candidates
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.room_space import Box, Space, Stretch, free_spans
from eqa.envs.house.support import top_of
from eqa.envs.rendering.assets import Catalog, Model

# Quarter turns as radians with few digits, so that the document reads well and is the same everywhere.
HEADINGS_RAD = (0.0, 1.570796, 3.141593, -1.570796)
_STANDING_TOP_M = (0.3, 1.3)  # heights that small things are put at: in sight of a camera 1 m high
_SPOTS = 5  # tried for a group
_HEAD_M = 1.8  # a hood hangs lower
_FILLING = ("base cabinet", "high cabinet", "dishwasher")  # parts of a kitchen that it can do without, these first


def furnish(dice: Dice, house: House, catalog: Catalog) -> House:
    """The house with its objects, numbered from 1 room by room."""
    rules = furnishing_rules()
    types = {room.type for room in house.rooms}
    workers = [_Furnisher(dice, Space.of(house, room), catalog, types) for room in range(len(house.rooms))]
    for worker in workers:
        for rule in rules["rooms"].get(worker.space.type, []):
            worker.apply(rule)
    for rule in rules["house"]:
        _somewhere(dice, workers, rule)
    for worker in workers:
        worker.fill(rules["fill"].get(worker.space.type, {}))
    objects: list[HouseObject] = []
    for room, worker in enumerate(workers):
        objects += worker.objects(room, first_id=len(objects) + 1)
    return replace(house, objects=objects)


def _somewhere(dice: Dice, workers: list["_Furnisher"], rule: dict) -> None:
    """Tries the rule in rooms drawn by weight until it works in one."""
    if not dice.chance(rule.get("chance", 1)):
        return
    if "if_missing" in rule and any(worker.has(rule["if_missing"]) for worker in workers):
        return
    types = [worker.space.type for worker in workers]
    weights = {i: rule["rooms"][kind] / types.count(kind) for i, kind in enumerate(types) if kind in rule["rooms"]}
    weights = {i: weight for i, weight in weights.items() if workers[i].suits(rule)}
    while weights:
        chosen = dice.weighted(weights)
        if workers[chosen].place_one(rule):
            return
        del weights[chosen]


@dataclass(frozen=True, slots=True)
class _Look:
    model: Model
    scale: float
    bend: tuple[float, float, float]  # of the sides, on top of the scale
    color: str | None
    recolored: bool


class _Furnisher:
    """One room being furnished: its `Space` and how each of its boxes looks."""

    def __init__(self, dice: Dice, space: Space, catalog: Catalog, room_types: set[str]) -> None:
        self.dice, self.space, self.catalog, self.room_types = dice, space, catalog, room_types
        self.looks: list[_Look] = []
        self.groups: set[str] = set()  # that are in the room
        self.suites: dict[str, str] = {}  # the colour of a set that is alike in the room

    def suits(self, rule: dict) -> bool:
        """True if the rule is for rooms of this size, in houses with these rooms."""
        low, high = rule.get("area", (0, inf))
        return low <= self.space.area_m2 < high and self.room_types.isdisjoint(rule.get("lacks", ()))

    def has(self, name: str) -> bool:
        """True if something of this kind or category is in the room."""
        return any(name in (box.kind, box.category) for box in self.space.boxes)

    def apply(self, rule: dict, *, since: int = 0, half: bool = False) -> bool:
        """Places what the rule of a room or group asks for. False where fewer find a place than the rule says must.

        Things stand by boxes from number `since` on. `half`: half of those that must are enough.
        """
        must = rule.get("must", 0)
        if not self.suits(rule) or not self.dice.chance(rule.get("chance", 1)):
            return must == 0
        if "if_missing" in rule and self.has(rule["if_missing"]):
            return must == 0
        if rule.get("at") == "run":
            self._run(rule)
            return True
        shared: dict[str, _Look] = {}
        if rule.get("each"):
            for anchor in self._anchors(rule, since):
                if self.dice.chance(0.8):
                    self.place(rule, shared, anchors=[anchor])
            return True
        count, placed = self._count(rule), 0
        if rule.get("at") == "around":  # the seats are spread for so many
            rule = rule | {"count": [count, count]}
        while placed < count and self.place_one(rule, shared, since=since):
            placed += 1
        must = min(must, count)
        return placed >= (-(-must // 2) if half else must)

    def fill(self, rule: dict) -> None:
        """Follows further rules until things stand on enough of the floor."""
        for further in rule.get("rules", []):
            if self.space.furnished >= rule["share"]:
                return
            self.apply(further)

    def _count(self, rule: dict) -> int:
        if "every" in rule:
            return int(self.space.area_m2 / rule["every"] + self.dice.uniform())
        if rule.get("at") == "window":
            return len(self.space.windows)
        count = self.dice.integer(*rule["count"]) if "count" in rule else 1
        return count + count % 2 if rule.get("at") == "around" else count

    def place_one(self, rule: dict, shared: dict[str, _Look] | None = None, *, since: int = 0) -> bool:
        """Places one thing or group. `shared` holds the looks of the same rule's earlier things."""
        if "group" in rule:
            return self._place_group(rule)
        anchors = self._anchors(rule, since) if "of" in rule else [None]
        return self.place(rule, shared, anchors=anchors)

    def _place_group(self, rule: dict) -> bool:
        """Places one of the groups of the rule: the drawn one, or another where that finds no place.

        A room has a group once.
        """
        names = rule["group"] if isinstance(rule["group"], dict) else {rule["group"]: 1}
        weights = {name: weight for name, weight in names.items() if name not in self.groups}
        while weights:
            name = self.dice.weighted(weights)
            del weights[name]
            first, *members = furnishing_rules()["groups"][name]
            first = first | {word: rule[word] for word in ("rooms",) if word in rule}
            if any(self._stands_with(first, members, is_last=spot == _SPOTS - 1) for spot in range(_SPOTS)):
                self.groups.add(name)
                return True
        return False

    def _stands_with(self, first: dict, members: list[dict], *, is_last: bool) -> bool:
        """Places a group's first thing and the others by it; takes all away where one that it must have is missing.

        In the last spot that is tried half of them are enough.
        """
        start = len(self.space.boxes)
        if not self.place_one(first):
            return False
        for member in members:
            if not self.apply(member, since=start, half=is_last):
                self._cut(start)
                return False
        return True

    def place(self, rule: dict, shared: dict[str, _Look] | None, *, anchors: list[int | None]) -> bool:
        """Places one thing by one of the anchors, if it fits."""
        for kind, look in self._looks(rule, shared):
            model = look.model
            size = tuple(round(side * look.scale * bend, 3) for side, bend in zip(model.size_m, look.bend, strict=True))
            y0 = rule["middle"] - size[1] / 2 if "middle" in rule else rule.get("height", model.elevation_m)
            if model.size_m[1] > rule.get("chimney", inf):
                size = (size[0], round(self.space.height_m - y0, 3), size[2])
            aside_m = furnishing_rules()["kinds"].get(kind, {}).get("aside", 0.0)
            for anchor in anchors:
                for box in candidates(self.dice, self.space, rule, size, y0, anchor):
                    box.kind, box.category, box.aside_m = kind, model.category, aside_m
                    if self._is_new(box, rule) and self.space.fits(box):
                        self._add(box, look)
                        if shared is not None and rule.get("match"):
                            shared[kind] = look
                        return True
        return False

    def _is_new(self, box: Box, rule: dict) -> bool:
        """A room holds a category once, unless the rule asks for several or belongs to the room."""
        return "rooms" not in rule or all(other.category != box.category for other in self.space.boxes)

    def _add(self, box: Box, look: _Look) -> None:
        model = look.model
        box.top_m = None if model.top_m is None else model.top_m * box.size_m[1] / model.size_m[1]
        self.space.add(box)
        self.looks.append(look)

    def _cut(self, count: int) -> None:
        self.space.cut(count)
        del self.looks[count:]

    def _anchors(self, rule: dict, since: int = 0) -> list[int]:
        names = rule["of"]
        found = [i for i, box in enumerate(self.space.boxes) if i >= since and {box.kind, box.category} & set(names)]
        if rule["at"] == "atop":
            boxes = self.space.boxes
            low, high = _STANDING_TOP_M
            found = [i for i in found if boxes[i].top_m is not None and low <= boxes[i].y0 + boxes[i].top_m <= high]
            for i in found:
                boxes[i].top = top_of(self.catalog, self.looks[i].model)
        return found if rule.get("each") else self.dice.shuffled(found)

    def _looks(self, rule: dict, shared: dict[str, _Look] | None) -> Iterator[tuple[str, _Look]]:
        """Some models of the drawn kind to try, more for a required thing; or a matching rule's earlier choice."""
        items = rule["item"]
        for _ in range(3 if "chance" in rule else 8):
            kind = self.dice.weighted(items) if isinstance(items, dict) else items
            if shared and kind in shared:
                yield kind, shared[kind]
                return
            models = matching(self.catalog, kind)
            if not models:
                continue
            yield kind, self._look(self.dice.pick(models), rule)

    def _look(self, model: Model, rule: dict) -> _Look:
        scale = round(self.dice.uniform(*rule.get("scale", (0.95, 1.05))), 2)
        wide = round(self.dice.uniform(*rule["aspect"]) ** 0.5, 3) if "aspect" in rule else 1.0
        bend = (wide, 1 / wide, 1.0) if rule["at"] in ("hang", "above") else (wide, 1.0, 1 / wide)
        rules = furnishing_rules()["colors"]
        if not model.recolorable or model.color is not None and self.dice.chance(rules["as_shipped"]):
            return _Look(model, scale, bend, model.color, False)
        name = next((name for name, members in rules["sets"].items() if model.category in members), "default")
        color = self.suites[name] if name in self.suites else self.dice.weighted(rules[name])
        if name in rules["alike"]:
            self.suites[name] = color
        return _Look(model, scale, bend, color, True)

    def _run(self, rule: dict) -> None:
        """Modules side by side along the longest free walls: as many as leave place for those that a kitchen needs."""
        spans = sorted(free_spans(self.space, depth_m=0.75), key=lambda span: span[1] - span[2])
        if len(spans) > 1 and spans[1][2] - spans[1][1] > 2.4 and self.dice.chance(0.3):
            spans[:2] = spans[1::-1]
        modules = [kind for kind, chance in rule["item"].items() for _ in range(int(chance + self.dice.uniform()))]
        rows = [modules]
        while spare := next((kind for kind in _FILLING if kind in rows[-1]), None):
            rows.append(list(rows[-1]))
            rows[-1].remove(spare)
        turned, start, shared, best = self.dice.chance(0.5), len(self.looks), {}, None
        for tall, row in itertools.product((rule.get("tall", ()), ()), rows):
            lay = functools.partial(self._lay, row, spans, rule | {"tall": tall}, shared, turned=turned)
            left = lay()
            self._cut(start)
            missing = sum(kind not in _FILLING for kind in left)
            if best is None or (missing, len(left) - len(row)) < best[:2]:
                best = (missing, len(left) - len(row), lay)
            if not missing:
                break
        best[2]()

    def _lay(
        self, modules: list[str], spans: list, rule: dict, shared: dict[str, "_Look"], *, turned: bool
    ) -> list[str]:
        """Puts modules along the spans, at each place the first that fits there; returns those that are left."""
        previous: int | None = None
        left = _cabinets_between(modules)[:: -1 if turned else 1]
        for number, (stretch, start, end) in enumerate(spans):
            s, first, before = start + 0.03, len(self.looks), previous
            while left and s < end:
                for kind in dict.fromkeys(left):
                    box, look = self._module(kind, stretch, s, rule, shared)
                    box.parent = previous
                    clear = kind not in rule["tall"] or self.space.clear_of_windows(box, _HEAD_M)
                    if s + box.size_m[0] < end - 0.02 and clear and self.space.fits(box):
                        self._add(box, look)
                        previous = len(self.space.boxes) - 1
                        s = round(s + box.size_m[0] + 0.004, 3)
                        left.remove(kind)
                        break
                else:
                    s = round(s + 0.05, 3)
            if number and len(self.looks) == first + 1 and self.space.boxes[first].kind in _FILLING:
                self._cut(first)  # nobody has one cabinet at a wall of its own
                previous = before
        return left

    def _module(self, kind: str, stretch: Stretch, s: float, rule: dict, shared: dict) -> tuple[Box, _Look]:
        if kind not in shared:
            shared[kind] = self._look(self.dice.pick(matching(self.catalog, kind)), {"at": "run", "scale": (1, 1)})
        look = shared[kind]
        size = look.model.size_m
        x, z = stretch.point(s + size[0] / 2, 0.02 + size[2] / 2)
        box = Box(round(x, 3), round(z, 3), look.model.elevation_m, size, stretch.quarter, rule["front"])
        box.against_wall, box.kind, box.category = True, kind, look.model.category
        return box, look

    def objects(self, room: int, *, first_id: int) -> list[HouseObject]:
        return [
            HouseObject(
                id=first_id + place,
                category=box.category,
                model=look.model.key,
                position=(box.x, round(box.y0, 3), box.z),
                heading_rad=HEADINGS_RAD[box.quarter],
                size_m=tuple(round(side, 3) for side in box.size_m),
                color=look.color,
                recolored=look.recolored,
                room=room,
                on=None if box.on is None else first_id + box.on,
            )
            for place, (box, look) in enumerate(zip(self.space.boxes, self.looks, strict=True))
        ]


def _cabinets_between(modules: list[str]) -> list[str]:
    """Appliances in their order, with the cabinets spread among them."""
    others = [kind for kind in modules if kind != "base cabinet"]
    cabinets = len(modules) - len(others)
    row = []
    for place, kind in enumerate(others):
        row.append(kind)
        row += ["base cabinet"] * (cabinets * (place + 1) // len(others) - cabinets * place // len(others))
    return row
