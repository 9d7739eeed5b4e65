"""Statistics of houses, on one that was drawn by hand."""

from pathlib import Path

import numpy as np
from PIL import Image

from eqa.scripts.house_stats import LINES, PLACES, draw, measure, pooled, table
from tests.helpers.small_house import small_house


def test_a_house_drawn_by_hand_is_measured_as_it_was_drawn(tmp_path: Path) -> None:
    house = small_house()
    measured = measure(house)
    corners = np.concatenate([np.array(room.polygon) for room in house.rooms])
    across = float(np.hypot(*np.ptp(corners, axis=0)))
    assert measured.values["rooms"] == len(house.rooms) == sum(measured.room_types.values())
    assert measured.values["area"] == 28
    assert measured.values["objects"] == len(house.objects)
    assert sum(measured.categories.values()) == measured.values["objects that are asked about"]
    walks, sight = measured.values["walking distance"], measured.values["sight line"]
    assert len(walks) == 4 * PLACES and np.isfinite(walks).all() and walks.min() >= 0 and walks.max() < 2 * across
    assert len(sight) == 2 * PLACES and 0 < sight.min() and sight.max() < across + 0.5
    assert measured.values["triangles"] > 0

    assert table([measured, measured]).row_count == len(LINES)
    assert len(pooled([measured, measured], "area")) == 2
    draw([measured, measured], tmp_path / "out" / "stats.png")
    assert Image.open(tmp_path / "out" / "stats.png").size[0] > 1000
