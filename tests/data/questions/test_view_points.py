"""From where objects can be seen, alone and together."""

from dataclasses import replace

import numpy as np
import pytest
from shapely import LineString, Point, Polygon

from eqa.data.questions.view_points import (
    DRAWN,
    GOAL_RADIUS_M,
    GOAL_TURNS,
    ViewPointFinder,
    look_around,
    overview,
    overviews,
)
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

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


@pytest.fixture(scope="module")
def pixels(house):
    """How many pixels each object has from a pose, drawn larger than the finder does."""
    renderer = Renderer(Camera(), ("instance_id",))
    renderer.load([build_scene(house, load_catalog())])

    def count(pose) -> np.ndarray:
        seen = renderer.render(np.zeros(1, np.int32), np.array([pose]))["instance_id"]
        return np.bincount(seen.ravel(), minlength=5) / seen.size

    return count


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


def test_the_best_view_is_first(found, pixels):
    sides = np.array([-GOAL_TURNS, 0, GOAL_TURNS]) * TURN_RAD
    shares = [min(0.15, *(pixels((*place, a + side))[SOFA] for side in sides)) for *place, a in found[SOFA,]]
    assert shares[0] >= 0.8 * max(shares)


def test_looking_around_sees_what_each_heading_sees(house):
    around_renderer, renderer = Renderer(DRAWN, ("instance_id",)), Renderer(Camera(56, 56), ("instance_id",))
    for one in (around_renderer, renderer):
        one.load([build_scene(house, load_catalog())])
    place = on_floor([[2.0, 2.5, 0.0]])
    around = look_around(around_renderer, 0, place, np.arange(5))[0]
    np.testing.assert_allclose(around.sum(axis=1), 1, atol=0.03)
    poses = np.column_stack([np.repeat(place[:, :3], NUM_HEADINGS, axis=0), HEADINGS_RAD])
    drawn = renderer.render(np.zeros(NUM_HEADINGS, np.int32), poses)["instance_id"]
    across = (2 * (np.arange(56) + 0.5) / 56 - 1) * np.tan(np.pi / 6)
    angle = (1 + across**2 + across[:, None] ** 2) ** -1.5
    for heading in range(NUM_HEADINGS):
        direct = np.bincount(drawn[heading].ravel(), angle.ravel(), minlength=5) / angle.sum()
        np.testing.assert_allclose(around[heading], direct, atol=0.04)
    assert around[:, SOFA].max() > 0.05  # there is something to see


def test_what_cannot_be_seen_together_has_no_view(found):
    assert found[SOFA, REFRIGERATOR] is None


def test_headings_are_ones_that_an_agent_can_have(found):
    headings = np.array([pose[3] for poses in found.values() if poses for pose in poses]) / TURN_RAD
    assert np.abs(headings - np.round(headings)).max() < 1e-9


def test_view_points_do_not_depend_on_what_else_is_asked(house, found):
    assert ViewPointFinder()(house, [(RUG, SOFA)]) == [found[RUG, SOFA]]
    assert ViewPointFinder()(house, []) == []


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
