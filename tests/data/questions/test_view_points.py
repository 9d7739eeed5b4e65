"""From where objects can be seen, alone and together."""

from dataclasses import replace
from math import atan, degrees, radians, tan

import numpy as np
import pytest
from shapely import LineString, Point, Polygon

from eqa.data.questions.surroundings import DRAWN, FLOOR, LEAST_SEEN, VIEW_SR, look_around
from eqa.data.questions.view_points import (
    GOAL_RADIUS_M,
    GOAL_TURNS,
    ViewPointFinder,
    overview,
    overviews,
    worths,
)
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import CLASSES, load_catalog
from eqa.envs.house.house import Wall
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house, thing

NUM_HEADINGS, TURN_RAD = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.turn_rad
HEADINGS_RAD = HOUSE_ACTIONS.headings_rad
SOFA, RUG, TABLE, REFRIGERATOR = 1, 2, 3, 4


@pytest.fixture(scope="module")
def house():
    return small_house()


@pytest.fixture(scope="module")
def found(house):
    targets = [(SOFA,), (TABLE,), (REFRIGERATOR,), (RUG, SOFA), (SOFA, REFRIGERATOR)]
    return dict(zip(targets, ViewPointFinder()(house, targets), strict=True))


WIDE = Camera(224, 224, vertical_fov_deg=2 * degrees(atan(2 * tan(radians(30)))))  # twice as wide and high as a view
INNER = slice(56, 168)


class Seen:
    """Pixels of a house's things from a pose, drawn larger than the finder does, with what lies round the view."""

    def __init__(self, house):
        self.renderer = Renderer(WIDE, ("instance_id", "class_id"))
        self.renderer.load([build_scene(house, load_catalog())])
        self.num = len(house.objects) + 1

    def __call__(self, pose):
        """The share of the view that each thing fills, that share of a picture twice as wide, and that of floor."""
        drawn = self.renderer.render(np.zeros(1, np.int32), np.array([pose]))
        wide, view = drawn["instance_id"][0], drawn["instance_id"][0, INNER, INNER]
        share, around = (np.bincount(ids.ravel(), minlength=self.num) / view.size for ids in (view, wide))
        return share, around, (drawn["class_id"][0, INNER, INNER] == CLASSES.index("floor")).mean()

    def score(self, pose, target):
        """The score of a view by counting pixels."""
        turns = np.arange(-GOAL_TURNS, GOAL_TURNS + 1) * TURN_RAD
        beside = [self((*pose[:3], pose[3] + turn)) for turn in turns]
        share, _, floor = beside[GOAL_TURNS]
        least = [[one[target] for one, _, _ in beside]]
        whole = [[one[target] / max(around[target], 1e-9) for one, around, _ in beside]]
        others = (np.delete(share, [0, target]) >= LEAST_SEEN).sum()
        return worths(*map(np.float32, (least, whole, [share[target]])), np.array([others]), np.float32([floor]))[0]


@pytest.fixture(scope="module")
def seen(house):
    return Seen(house)


@pytest.fixture(scope="module")
def pixels(seen):
    return lambda pose: seen(pose)[0]


def test_every_object_of_a_target_is_in_every_view(found, pixels):
    for target in ((SOFA,), (TABLE,), (REFRIGERATOR,), (RUG, SOFA)):
        assert 1 <= len(found[target]) <= 48
        for pose in found[target]:
            assert (pixels(pose)[list(target)] > 0.01).all(), (target, pose)


def ends(pose, rng, num):
    """Poses at which a walk to a view point may end."""
    angle, away = rng.uniform(0, 2 * np.pi, num), GOAL_RADIUS_M * np.sqrt(rng.uniform(0, 1, num))
    turned = pose[3] + rng.integers(-GOAL_TURNS, GOAL_TURNS + 1, num) * TURN_RAD
    return on_floor(np.column_stack([pose[0] + away * np.cos(angle), pose[2] + away * np.sin(angle), turned]))


def test_the_target_is_in_view_wherever_a_walk_may_end(house, found, pixels):
    catalog, rng = load_catalog(), np.random.default_rng(0)
    floor = build_floor(house, build_scene(house, catalog), catalog.meshes)
    for target in (SOFA, TABLE, REFRIGERATOR):
        poses = np.concatenate([ends(pose, rng, 3) for pose in found[target,]])
        shares = np.array([pixels(pose)[target] for pose in poses[floor.is_free(poses[:, PLAN])]])
        assert (shares > 0.0075).mean() > 0.97, target


def test_the_best_view_is_the_best_of_the_room_by_counting_pixels(house, found, seen):
    floor, rng = build_floor(house, build_scene(house, load_catalog()), load_catalog().meshes), np.random.default_rng(0)
    for target in (SOFA, TABLE, REFRIGERATOR):
        x, z = house.objects[target - 1].position[::2]
        places = floor.centres[inside_polygon(floor.centres, house.rooms[house.objects[target - 1].room].polygon)]
        places = places[rng.integers(len(places), size=30)]
        heading = np.round(np.arctan2(places[:, 0] - x, places[:, 1] - z) / TURN_RAD) * TURN_RAD
        anywhere = [seen.score(pose, target) for pose in floor.stand(places, heading)]
        scores = [seen.score(pose, target) for pose in found[target,]]
        assert scores[0] >= 0.9 * max(anywhere), target
        assert np.mean(np.array(scores) >= 0.65 * max(anywhere)) > 0.9, target


def solid_angles(house, camera, poses):
    """What each thing fills of views, by the solid angle of each pixel, as shares of an agent's view."""
    renderer = Renderer(camera, ("instance_id",))
    renderer.load([build_scene(house, load_catalog())])
    drawn = renderer.render(np.zeros(len(poses), np.int32), poses)["instance_id"]
    across = ((np.arange(camera.width_px) + 0.5) - camera.width_px / 2) / camera.focal_px
    angle = (1 + across**2 + across[:, None] ** 2) ** -1.5 / camera.focal_px**2
    return np.array([np.bincount(image.ravel(), angle.ravel(), minlength=5) / VIEW_SR for image in drawn])


def test_looking_around_sees_what_each_heading_sees_and_what_is_beyond_its_view(house):
    renderer = Renderer(DRAWN, ("instance_id",))
    renderer.load([build_scene(house, load_catalog())])
    place = on_floor([[2.0, 2.5, 0.0]])

    def draw(poses):
        return renderer.render(np.zeros(len(poses), np.int32), poses)["instance_id"]

    around = look_around(draw, place, np.array([0, 2, 3, 4, 5]))  # no column of its own for floor
    share, whole = around.share[0][:, [0, 2, 3, 4, 5]], around.whole[0, 2:]
    assert not around.share[:, :, FLOOR].any()
    np.testing.assert_allclose(share.sum(axis=1), 1, atol=0.03)
    poses = np.column_stack([np.repeat(place[:, :3], NUM_HEADINGS, axis=0), HEADINGS_RAD])
    direct = solid_angles(house, Camera(56, 56), poses)
    np.testing.assert_allclose(share, direct, atol=0.04)
    differ = np.abs(around.others[0] - (direct[:, 1:] >= LEAST_SEEN).sum(axis=1))
    assert differ.max() <= 1 and (differ == 0).mean() >= 0.8
    wide = solid_angles(house, Camera(160, 160, vertical_fov_deg=90), poses)[:, 1:].max(axis=0)
    np.testing.assert_allclose(whole[[SOFA - 1, TABLE - 1]], wide[[SOFA - 1, TABLE - 1]], rtol=0.1)
    assert (share[:, SOFA].max() < 0.95 * whole[SOFA - 1]) and share[:, SOFA].max() > 0.05  # there is something to see


def test_what_cannot_be_seen_together_has_no_view(found):
    assert found[SOFA, REFRIGERATOR] is None


def test_headings_are_ones_that_an_agent_can_have(found):
    headings = np.array([pose[3] for poses in found.values() if poses for pose in poses]) / TURN_RAD
    assert np.abs(headings - np.round(headings)).max() < 1e-9


def test_view_points_do_not_depend_on_what_else_is_asked(house, found):
    assert ViewPointFinder()(house, [(RUG, SOFA)]) == [found[RUG, SOFA]]
    assert ViewPointFinder()(house, []) == []


def hall(*things):
    """A house of one room, 12 m x 12 m, large enough to be looked at from every second place only."""
    house = small_house()
    corners = [(0.0, 0.0), (0.0, 12.0), (12.0, 12.0), (12.0, 0.0)]
    walls = [Wall(a, b, 0.1, (0, -1)) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]
    return replace(house, rooms=[replace(house.rooms[0], polygon=corners)], walls=walls, openings=[], objects=[*things])


def test_view_points_in_a_hall_do_not_depend_on_what_else_is_asked():
    house = hall(thing(1, "sofa", 6.0, 6.0, room=0), thing(2, "table", 2.0, 9.0, room=0))
    assert ViewPointFinder()(house, [(1,), (2,)])[:1] == ViewPointFinder()(house, [(1,)])


def test_a_large_thing_is_seen_whole_from_afar_and_a_small_one_from_near():
    house = hall(thing(1, "wardrobe cabinet", 6.0, 0.5, room=0), thing(2, "table", 3.0, 6.0, room=0))
    wardrobe = replace(house.objects[0], size_m=(2.4, 2.2, 0.6))
    table = house.objects[1]
    kettle = replace(thing(3, "kettle", 3.0, 6.0, room=0), position=(3.0, table.size_m[1], 6.0), on=2)
    house = replace(house, objects=[wardrobe, table, kettle])
    (large, *_), (small, *_) = ViewPointFinder()(house, [(1,), (3,)])
    share, around, _ = Seen(house)(large)
    assert share[1] >= 0.97 * around[1] and 0.03 < share[1] < 0.4
    assert np.hypot(large[0] - 6.0, large[2] - 0.5) > 2.4
    assert np.hypot(small[0] - 3.0, small[2] - 6.0) < 1.5


def test_the_best_view_shows_other_things_of_the_room():
    corner = [thing(2, "table", 3.0, 0.6, room=0), thing(3, "refrigerator", 0.6, 0.6, room=0)]
    house = hall(thing(1, "sofa", 1.8, 0.6, room=0), *corner)
    ((best, *_),) = ViewPointFinder()(house, [(1,)])
    assert (Seen(house)(best)[0][2:] >= LEAST_SEEN).all()


def test_views_look_past_things_that_hide_a_part_of_the_target():
    house = hall(thing(1, "refrigerator", 6.0, 0.6, room=0), thing(2, "sofa", 6.0, 1.8, room=0))
    (poses,) = ViewPointFinder()(house, [(1,)])
    seen, alone = Seen(house), Seen(replace(house, objects=house.objects[:1]))
    parts = np.array([seen(pose)[0][1] / alone(pose)[0][1] for pose in poses])
    assert parts[0] > 0.9 and (parts > 0.7).mean() > 0.8


def test_a_view_is_better_the_more_it_shows_until_the_target_is_all_of_it():
    def worth(share=0.1, whole=1.0, others=2, floor=0.1):
        ends = (np.full((1, 3), value, np.float32) for value in (share, whole))
        return worths(*ends, np.float32([share]), np.array([others]), np.float32([floor]))[0]

    assert worth() > worth(whole=0.8) and worth() > worth(others=1) and worth() > worth(floor=0.02)
    assert worth() > worth(share=0.03) and worth() == worth(share=0.25) and worth() > worth(share=0.6)


@pytest.mark.parametrize("target", [(5,), (0,), (SOFA, 9), ()])
def test_unknown_objects_are_refused(house, target):
    with pytest.raises(ValueError, match="objects 1 to 4"):
        ViewPointFinder()(house, [target])


def slow_share(polygon, pose, points):
    """Of a room's floor, what lies within 30 degrees of straight ahead with no wall of the room in between."""
    room, seen = Polygon(polygon).buffer(1e-6), 0
    for point in points:
        ahead = np.array([-np.sin(pose[3]), -np.cos(pose[3])]) @ (point - pose[PLAN])
        away = np.hypot(*(point - pose[PLAN]))
        seen += away > 0 and ahead >= away * np.cos(np.pi / 6) and room.covers(LineString([pose[PLAN], point]))
    return seen / len(points)


def test_an_overview_has_most_of_a_room_before_it(house):
    corner = [(0.0, 0.0), (0.0, 6.0), (3.0, 6.0), (3.0, 3.0), (7.0, 3.0), (7.0, 0.0)]
    rng = np.random.default_rng(0)
    for polygon in (corner, *(room.polygon for room in house.rooms)):
        one = replace(house, rooms=[replace(house.rooms[0], polygon=polygon)])
        cells = np.stack(np.meshgrid(*[np.arange(-0.45, 12, 0.1)] * 2), axis=-1)
        floor = Floor("one", (-0.5, -0.5), 0.1, inside_polygon(cells, polygon))
        low, high = np.min(polygon, axis=0), np.max(polygon, axis=0)
        points = rng.uniform(low, high, (300, 2))
        points = points[[Polygon(polygon).covers(Point(p)) for p in points]]
        (poses,) = overviews(one, floor, [0])
        shares = [slow_share(polygon, np.array(pose), points) for pose in poses[:6]]
        anywhere = [slow_share(polygon, on_floor([*p, h]), points) for p in points[:12] for h in HEADINGS_RAD[::5]]
        assert min(shares) >= 0.65 * max(anywhere), (polygon, shares, max(anywhere))
        assert floor.is_free(np.array(poses)[:, PLAN]).all() and 1 <= len(poses) <= 48


def test_a_room_and_an_object_are_asked_for_together(house, found):
    floor = build_floor(house, build_scene(house, load_catalog()), load_catalog().meshes)
    both = ViewPointFinder()(house, [overview(1), (SOFA,), overview(0)])
    assert both == [overviews(house, floor, [1])[0], found[SOFA,], overviews(house, floor, [0])[0]]
