"""Views for people: each room from its doorway first, into the room, and plans on which its name can be read."""

import numpy as np
from shapely import LineString, Point, Polygon, box

from eqa.envs.house.build import build_floor
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.plan_picture import FOOT_PX, labels_of, plan_picture
from eqa.envs.house.views import _ray_lengths, views_of
from tests.helpers.generated_house import house_and_scene
from tests.helpers.small_house import small_house


def depth_m(polygon: Polygon, place: tuple[float, float], heading: float) -> float:
    """Metres from a place to the outline, by a line that is cut there."""
    x, z = place
    line = LineString([place, (x - 100 * np.sin(heading), z - 100 * np.cos(heading))])
    return line.intersection(polygon.exterior).distance(Point(place))


def test_each_room_is_first_seen_from_a_doorway_and_in_depth() -> None:
    house, scene = house_and_scene(0, 0)
    floor = build_floor(house, scene, load_catalog().meshes)
    views = views_of(house, floor, 40)
    first = views[: len(house.rooms)]
    assert [view.room for view in first] == list(range(len(house.rooms)))
    ways = ("the door", "the doorway", "the entrance")
    assert all(view.place in ways for view in first) and not all(view.place in ways for view in views)
    assert len({view.pose for view in views}) == len(views) > len(house.rooms)
    for view in views:
        polygon, (x, _, z, heading) = Polygon(house.rooms[view.room].polygon), view.pose
        assert polygon.contains(Point(x, z)) and floor.is_free(np.array([[x, z]]))[0]
        across = np.ptp(house.rooms[view.room].polygon, axis=0).min()
        assert depth_m(polygon, (x, z), heading) > 0.5 * across


def test_rays_are_as_long_as_lines_that_are_cut_at_the_outline() -> None:
    bent = [(0.0, 0.0), (0.0, 9.0), (9.0, 8.0), (5.0, 4.0), (1.5, 5.0), (1.0, 0.0)]
    lengths = _ray_lengths(np.array([*zip(bent, bent[1:] + bent[:1])]), (0.7, 4.0))
    slow = [depth_m(Polygon(bent), (0.7, 4.0), turn) for turn in np.radians(np.arange(360))]
    assert np.allclose(lengths, slow, atol=1e-9)


def test_the_plan_of_a_full_house_names_each_room_and_no_two_names_overlap() -> None:
    house, scene = house_and_scene(0, 0)
    corners = np.array([corner for room in house.rooms for corner in room.polygon])
    low, scale = corners.min(axis=0), 380 / np.ptp(corners, axis=0).max()
    taken = np.array([[100.0, 100, 118, 118]])
    labels = labels_of(
        house, lambda p: (np.asarray(p) - low) * scale, (400.0, 400.0), taken=taken, things=True, font_px=15
    )
    rooms = {label.room: label.text for label in labels if label.room is not None}
    assert [rooms[i].split("\n")[0] for i in range(len(house.rooms))] == [room.type for room in house.rooms]
    assert len(labels) > len(rooms)
    boxes = [box(*label.box) for label in labels]
    for i, one in enumerate(boxes):
        assert box(0, 0, 400, 400).contains(one) and not one.intersection(box(*taken[0])).area
        assert not any(one.intersection(other).area for other in boxes[:i])

    picture = np.asarray(plan_picture(house, scene, width_px=300, height_px=240, views=[(*corners[0], 0.0, 0.0)]))
    assert picture.shape == (240, 300, 3)
    assert (picture[:-FOOT_PX] < 60).all(axis=2).mean() > 0.01  # walls are dark


def test_a_plan_writes_the_area_that_one_works_out_by_hand() -> None:
    labels = labels_of(small_house(), np.asarray, (500.0, 500.0), taken=np.empty((0, 4)), things=False, font_px=12)
    assert [label.text for label in labels] == ["kitchen\n12 m2", "living room\n16 m2"]
