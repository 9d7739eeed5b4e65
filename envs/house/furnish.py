"""`furnish`: furniture for a floor plan's rooms, by the rules in `furnishing.yaml`.

Rules of a room type are tried in order, then those of the whole house. The latter place categories that a house has
once, in a room drawn by weight, and so give most questions one right answer. Things that do not fit (`Space.fits`) are
left out.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from eqa.envs.house.house import House, HouseObject
from eqa.envs.house.placing import candidates
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.room_space import Box, Space, Stretch, free_spans
from eqa.envs.rendering.assets import Catalog, Model

# Quarter turns as radians with few digits, so that the document reads well and is the same everywhere.
HEADINGS_RAD = (0.0, 1.570796, 3.141593, -1.570796)
_STANDING_TOP_M = (0.3, 1.3)  # heights that small things are put at: in sight of a camera 1 m high


@functools.cache
def furnishing_rules() -> dict:
    """`furnishing.yaml` as it stands."""
    return yaml.safe_load((Path(__file__).parent / "furnishing.yaml").read_text())


def furnish(dice: Dice, house: House, catalog: Catalog) -> House:
    """The house with its objects, numbered from 1 room by room."""
    rules = furnishing_rules()
    workers = [_Furnisher(dice, Space.of(house, room), catalog) for room in range(len(house.rooms))]
    for worker in workers:
        for rule in rules["rooms"].get(worker.space.type, []):
            worker.apply(rule)
    for rule in rules["house"]:
        _somewhere(dice, workers, rule)
    objects: list[HouseObject] = []
    for room, worker in enumerate(workers):
        objects += worker.objects(room, first_id=len(objects) + 1)
    return replace(house, objects=objects)


def _somewhere(dice: Dice, workers: list["_Furnisher"], rule: dict) -> None:
    """Tries the rule in rooms drawn by weight until it works in one."""
    if not dice.chance(rule.get("chance", 1)):
        return
    if rule.get("if_missing") and any(box.category == rule["item"] for w in workers for box in w.space.boxes):
        return
    types = [worker.space.type for worker in workers]
    weights = {i: rule["rooms"][kind] / types.count(kind) for i, kind in enumerate(types) if kind in rule["rooms"]}
    while weights:
        chosen = dice.weighted(weights)
        if workers[chosen].place(rule):
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

    def __init__(self, dice: Dice, space: Space, catalog: Catalog) -> None:
        self.dice, self.space, self.catalog = dice, space, catalog
        self.looks: list[_Look] = []

    def apply(self, rule: dict) -> None:
        if not self.dice.chance(rule.get("chance", 1)):
            return
        if rule["at"] == "run":
            self._run(rule)
            return
        shared: dict[str, _Look] = {}
        if rule.get("each"):
            for anchor in self._anchors(rule):
                if self.dice.chance(0.8):
                    self.place(rule, shared, [anchor])
            return
        count = self.dice.integer(*rule["count"]) if "count" in rule else 2 if rule.get("both") else 1
        if "every" in rule:
            count = int(self.space.area_m2 / rule["every"] + self.dice.uniform())
        for _ in range(count):
            self.place(rule, shared)

    def place(self, rule: dict, shared: dict[str, _Look] | None = None, anchors: list[int] | None = None) -> bool:
        """Places one thing. `shared` holds the looks of the same rule's earlier things."""
        if anchors is None:
            anchors = self._anchors(rule) if "of" in rule else [None]
        for kind, look in self._looks(rule, shared):
            model = look.model
            size = tuple(round(side * look.scale * bend, 3) for side, bend in zip(model.size_m, look.bend, strict=True))
            y0 = rule.get("height", model.elevation_m)
            for anchor in anchors:
                for box in candidates(self.dice, self.space, rule, size, y0, anchor):
                    box.kind, box.category = kind, model.category
                    box.top_m = None if model.top_m is None else model.top_m * look.scale
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
        self.space.add(box)
        self.looks.append(look)

    def _anchors(self, rule: dict) -> list[int]:
        names = rule["of"]
        found = [i for i, box in enumerate(self.space.boxes) if box.kind in names or box.category in names]
        if rule["at"] == "atop":
            boxes = self.space.boxes
            low, high = _STANDING_TOP_M
            found = [i for i in found if boxes[i].top_m is not None and low <= boxes[i].y0 + boxes[i].top_m <= high]
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
        return _Look(model, scale, bend, self.dice.weighted(rules[name]), True)

    def _run(self, rule: dict) -> None:
        """Modules side by side along the longest free walls."""
        spans = sorted(free_spans(self.space, depth_m=0.75), key=lambda span: span[1] - span[2])
        if len(spans) > 1 and spans[1][2] - spans[1][1] > 2.4 and self.dice.chance(0.3):
            spans[:2] = spans[1::-1]
        modules = [kind for kind, chance in rule["item"].items() for _ in range(int(chance + self.dice.uniform()))]
        modules = _cabinets_between(modules)
        if self.dice.chance(0.5):
            modules.reverse()
        shared: dict[str, _Look] = {}
        previous: int | None = None
        for stretch, start, end in spans:
            s = start + 0.03
            while modules and s < end:
                box, look = self._module(modules[0], stretch, s, rule, shared)
                box.parent = previous
                if s + box.size_m[0] < end - 0.02 and self.space.fits(box):
                    self._add(box, look)
                    previous = len(self.space.boxes) - 1
                    s = round(s + box.size_m[0] + 0.004, 3)
                    modules.pop(0)
                else:
                    s = round(s + 0.05, 3)

    def _module(self, kind: str, stretch: Stretch, s: float, rule: dict, shared: dict) -> tuple[Box, _Look]:
        if kind not in shared:
            shared[kind] = self._look(self.dice.pick(matching(self.catalog, kind)), {"at": "run", "scale": (1, 1)})
        look = shared[kind]
        size = look.model.size_m
        x, z = stretch.point(s + size[0] / 2, 0.02 + size[2] / 2)
        box = Box(round(x, 3), round(z, 3), look.model.elevation_m, size, stretch.quarter, rule["front"])
        box.against_wall, box.kind, box.category, box.top_m = True, kind, look.model.category, look.model.top_m
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


def matching(catalog: Catalog, kind: str) -> list[Model]:
    """Models of a kind of `furnishing.yaml`, or of a category; weak ones only where there are no good ones."""
    rule = furnishing_rules()["kinds"].get(kind, {"category": kind})
    limits = {"width": 0, "height": 1, "depth": 2}

    def suits(model: Model) -> bool:
        if any(n in rule and not rule[n][0] <= model.size_m[axis] <= rule[n][1] for n, axis in limits.items()):
            return False
        low, high = rule.get("elevation", (-1, 9))
        names = rule.get("names")
        return low <= model.elevation_m <= high and (not names or any(n in model.key + model.name for n in names))

    models = [model for model in catalog.models_of(rule["category"]) if suits(model)]
    good = [model for model in models if model.quality == "good"]
    return sorted(good or models, key=lambda model: model.key)
