"""Statistics of houses, on one that was drawn by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eqa.envs.house.statistics import (
    PLACES,
    RoomFacts,
    measure,
    of_type,
    paints_of,
    pooled,
    room_facts,
    shares_of_pairs,
    shares_with,
)
from eqa.scripts.house_plots import draw
from eqa.scripts.house_stats import LINES, tables
from tests.helpers.small_house import small_house


def test_a_house_drawn_by_hand_is_measured_as_it_was_drawn(tmp_path: Path) -> None:
    house = small_house()
    measured = measure(house)
    corners = np.concatenate([np.array(room.polygon) for room in house.rooms])
    across = float(np.hypot(*np.ptp(corners, axis=0)))
    assert measured.values["rooms"] == len(house.rooms) == len(measured.rooms)
    assert measured.values["area"] == 28 and measured.values["area of a room"].tolist() == [16, 12]
    assert measured.values["objects"] == len(house.objects) == measured.values["objects that are asked about"]
    assert measured.things == Counter(["sofa", "rug", "table", "refrigerator"])
    assert measured.models == {thing.model for thing in house.objects}
    walks, sight = measured.values["walking distance"], measured.values["sight line"]
    assert len(walks) == 4 * PLACES and np.isfinite(walks).all() and walks.min() >= 0 and walks.max() < 2 * across
    assert len(sight) == 2 * PLACES and 0 < sight.min() and sight.max() < across + 0.5
    assert measured.values["triangles"] > 0

    assert len(pooled([measured, measured], "area")) == 2
    assert tables([measured], [measured, measured])[0].row_count == len(LINES)
    draw([measured, measured], [measured], tmp_path / "out" / "stats.png")
    assert Image.open(tmp_path / "out" / "stats.png").size[0] > 1000


def test_rooms_are_counted_as_one_counts_them_by_hand() -> None:
    house = small_house()
    living, kitchen = room_facts(house)
    assert (living.type, living.area_m2, kitchen.type, kitchen.area_m2) == ("living room", 16, "kitchen", 12)
    assert living.things == Counter(["sofa", "rug", "table"]) and kitchen.things == Counter(["refrigerator"])
    sofa, _, table, refrigerator = (thing.size_m[0] * thing.size_m[2] for thing in house.objects)
    assert living.furnished == pytest.approx((sofa + table) / (3.9 * 3.9))  # a rug leaves the floor free
    assert kitchen.furnished == pytest.approx(refrigerator / (2.9 * 3.9))


def test_shares_pairs_and_colours_are_those_of_a_tally() -> None:
    beds = [Counter(bed=1, lamp=2), Counter(bed=1, lamp=1, chair=4), Counter(chair=1), Counter(bed=2)]
    rooms = [RoomFacts("bedroom", 12.0, 0.5, things) for things in beds] + [RoomFacts("hallway", 4.0, 0.0, Counter())]
    assert {kind: len(some) for kind, some in of_type(rooms).items()} == {"bedroom": 4, "hallway": 1}
    assert shares_with(of_type(rooms)["bedroom"]) == {"bed": 0.75, "chair": 0.5, "lamp": 0.5}
    pairs = {("bed", "lamp"): 0.4, ("bed", "chair"): 0.2, ("chair", "lamp"): 0.2}
    assert list(shares_of_pairs(rooms).items()) == list(pairs.items())

    house = small_house()
    red = [replace(thing, color="red" if thing.category in ("sofa", "rug") else None) for thing in house.objects]
    blue = [replace(thing, color="blue" if thing.category == "rug" else None) for thing in house.objects]
    measured = [measure(replace(house, objects=things)) for things in (red, blue)]
    assert paints_of(measured) == {"rug": Counter(red=1, blue=1), "sofa": Counter(red=1)}
