"""Handwritten and random houses for tests of the question engine. They need no catalogue model and no renderer."""

from dataclasses import replace
from math import pi

import numpy as np

from eqa.data.questions.rules import Rules
from eqa.data.questions.templates import Generator
from eqa.envs.house.house import House, HouseObject, Room

V1 = ["location", "color", "color_room", "preposition"]


def thing(category, x, z, *, room=0, size=(1.0, 1.0, 1.0), y=0.0, heading=0.0, color="red", on=None) -> HouseObject:
    position, size = (float(x), float(y), float(z)), tuple(float(s) for s in size)
    return HouseObject(0, category, "any", position, heading, size, color, True, room, on)


def house_of(*things: HouseObject, rooms=("living room", "kitchen"), id="train-00000") -> House:
    """Rooms of 10 m x 10 m side by side along X; objects get ids in order."""
    shapes = [
        [(10.0 * i, 0.0), (10.0 * i, 10.0), (10.0 * i + 10, 10.0), (10.0 * i + 10, 0.0)] for i in range(len(rooms))
    ]
    numbered = [replace(one, id=i) for i, one in enumerate(things, start=1)]
    return House(id, "hand", 2.7, [Room(t, p, "wood", "#ffffff") for t, p in zip(rooms, shapes)], [], [], numbered)


def asked(house: House, rules: Rules, types: list[str] = V1) -> dict[str, str]:
    return {q.text: q.answer for q in Generator(rules, types).generate(house)}


def furnished(seed: int, split: str = "train") -> House:
    """A house of four rooms full of random furniture, some of it stacked, hung, tilted or tiny."""
    rng = np.random.default_rng([seed, len(split)])
    rooms = ("living room", "kitchen", "bedroom", "hallway")
    kinds = ("sofa", "table", "rug", "vase", "cup", "plates", "bed", "tv stand", "lamp", "desk", "mirror", "fruit bowl")
    colors = ("red", "blue", "green", None)
    things: list[HouseObject] = []
    for _ in range(18):
        kind, room = str(rng.choice(kinds)), int(rng.integers(len(rooms)))
        size = (0.3, 0.02, 0.3) if kind == "plates" else tuple(float(s) for s in rng.uniform(0.05, 1.5, 3))
        x, z = float(10 * room + rng.uniform(1, 4)), float(rng.uniform(1, 4))
        below = [(i, t) for i, t in enumerate(things, start=1) if t.room == room]
        y, on = float(rng.choice([0.0, 0.0, 1.4])), None
        if below and rng.random() < 0.4:
            i, under = below[rng.integers(len(below))]
            x, y, z = under.position[0], under.position[1] + under.size_m[1], under.position[2]
            on = i if rng.random() < 0.5 else None
        color = colors[rng.integers(4)]
        turn = float(rng.choice([0, pi / 2, rng.uniform(0, 6)]))
        things.append(thing(kind, x, z, room=room, size=size, y=y, heading=turn, color=color, on=on))
    return house_of(*things, rooms=rooms, id=f"{split}-{seed:05d}")
