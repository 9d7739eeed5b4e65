"""From where objects can be seen, alone and together."""

import numpy as np
import pytest

from data.view_points import ViewPointFinder
from envs.actions import TURN_RAD
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.rasterizer import Camera, Renderer
from tests.small_house import small_house

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
        assert 1 <= len(found[target]) <= 8
        for pose in found[target]:
            assert (pixels(pose)[list(target)] > 0.01).all(), (target, pose)


def worst_nearby(pixels, pose):
    """The least that the sofa fills of a view within 0.2 m of a pose."""
    angles = np.arange(12) * np.pi / 6
    around = [(pose[0] + 0.2 * np.cos(a), pose[1] + 0.2 * np.sin(a), pose[2]) for a in angles]
    return min(pixels(near)[SOFA] for near in [pose, *around])


def test_a_view_is_good_from_wherever_near_it_a_walk_ends_and_the_best_is_first(found, pixels):
    shares = [min(worst_nearby(pixels, pose), 0.15) for pose in found[SOFA,]]
    assert min(shares) > 0.0075 and shares[0] >= 0.7 * max(shares)


def test_what_cannot_be_seen_together_has_no_view(found):
    assert found[SOFA, REFRIGERATOR] is None


def test_headings_are_ones_that_an_agent_can_have(found):
    headings = np.array([pose[2] for poses in found.values() if poses for pose in poses]) / TURN_RAD
    assert np.abs(headings - np.round(headings)).max() < 1e-9


def test_view_points_do_not_depend_on_what_else_is_asked(house, found):
    assert ViewPointFinder()(house, [(RUG, SOFA)]) == [found[RUG, SOFA]]
    assert ViewPointFinder()(house, []) == []


@pytest.mark.parametrize("target", [(5,), (0,), (SOFA, 9), ()])
def test_unknown_objects_are_refused(house, target):
    with pytest.raises(ValueError, match="objects 1 to 4"):
        ViewPointFinder()(house, [target])
