"""Names on plans can be read: none lies on another or leaves the picture, and each room has its own."""

import numpy as np
import pytest
from shapely import Point, Polygon, box

from eqa.envs.annotations import Thing
from eqa.envs.rendering.plan_labels import middle_of, names_of_things, place_labels, smallest_first

PICTURE = (400.0, 300.0)


def placed(middles: np.ndarray, sizes: np.ndarray) -> list[Polygon]:
    """Rectangles of the labels that have a place."""
    corners = np.concatenate([middles - sizes / 2, middles + sizes / 2], axis=1)
    return [box(*one) for one in corners if not np.isnan(one[0])]


@pytest.mark.parametrize("reach", [np.inf, 2.0])
def test_labels_of_a_crowded_picture_overlap_neither_one_another_nor_what_is_taken(reach: float) -> None:
    rng = np.random.default_rng(0)
    anchors, sizes = rng.uniform(-20, 420, (90, 2)), rng.uniform((20, 9), (80, 14), (90, 2))
    taken = np.array([[50.0, 50, 120, 90], [200, 0, 210, 300]])
    middles = place_labels(anchors, sizes, np.full(90, reach), picture=PICTURE, taken=taken)
    labels = placed(middles, sizes)
    assert len(labels) == 90 if np.isinf(reach) else 10 < len(labels) < 90
    for i, label in enumerate(labels):
        assert box(0, 0, *PICTURE).contains(label)
        assert not any(label.intersection(other).area for other in labels[:i])
        assert not any(label.intersection(box(*other)).area for other in taken)


def test_a_label_stays_at_its_anchor_unless_it_would_hide_something() -> None:
    anchors, sizes, anywhere = np.array([[200.0, 150.0]]), np.array([[40.0, 10.0]]), np.array([np.inf])
    assert place_labels(anchors, sizes, anywhere, picture=PICTURE).tolist() == [[200, 150]]
    hidden = np.array([[190.0, 140, 210, 160]])
    (aside,) = place_labels(anchors, sizes, anywhere, picture=PICTURE, avoid=hidden)
    assert 0 < np.hypot(*(aside - anchors[0])) < 40
    assert not placed(aside[None], sizes)[0].intersection(box(*hidden[0])).area


def test_a_label_without_any_place_has_none() -> None:
    anchors, sizes = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[500.0, 10.0], [20.0, 10.0]])
    middles = place_labels(anchors, sizes, np.full(2, np.inf), picture=PICTURE)
    assert np.isnan(middles[0]).all() and not np.isnan(middles[1]).any()


def test_the_middle_of_a_room_lies_well_inside_it() -> None:
    square, bent = [(0, 0), (0, 4), (4, 4), (4, 0)], [(0, 0), (0, 9), (9, 9), (9, 8), (1, 8), (1, 0)]
    assert middle_of(square) == (2, 2)
    assert Polygon(bent).contains(Point(middle_of(bent)))
    assert Polygon(bent).exterior.distance(Point(middle_of(bent))) > 0.45
    assert smallest_first([bent, square, square]) == [1, 2, 0]


def test_neighbours_of_a_kind_share_a_name_and_what_stands_on_others_has_one_if_it_is_asked_about() -> None:
    def thing(name: str, x: float, *, region: int = 0, low_m: float = 0.0, asked: bool = False) -> Thing:
        outline = ((x, 0.0), (x, 0.5), (x + 0.5, 0.5), (x + 0.5, 0.0))
        return Thing(0, name, outline, region=region, low_m=low_m, asked=asked)

    things = [thing("chair", x) for x in (0.0, 1.0, 2.0, 9.0)]  # a row of three, and one far away
    things += [thing("chair", 2.5, region=1), thing("lamp", 0, low_m=2.0), thing("vase", 0, low_m=0.7, asked=True)]
    names = [(name.text, name.at[0], name.region) for name in names_of_things(things)]
    assert names == [("3 x chair", 1.25, 0), ("chair", 9.25, 0), ("chair", 2.75, 1), ("vase", 0.25, 0)]
