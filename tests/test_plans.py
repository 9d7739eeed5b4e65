"""Planned walks replayed in the simulator: they end in the goal, and the best view's walk looks straight at it."""

import numpy as np
import pytest
import torch

from data.plans import best_views, plans, to_best_views
from data.spawns import place
from data.walks import walk_of
from envs.actions import TURN_RAD, Action
from envs.episode import Episode
from envs.house.navigation import HEADINGS_RAD, Goal
from envs.house.simulator import HouseSimulator
from models.walkers import BestViewWalker, ShortestPathWalker, Start
from tests.small_house import small_house

BEST = (6.3, 2.2, 0.0)
OTHERS = ((5.0, 1.0, HEADINGS_RAD[33]), (4.6, 2.0, HEADINGS_RAD[32]))
EPISODE = Episode(
    "small-0",
    "small-0",
    "what color is the refrigerator?",
    "white",
    "color",
    "by hand",
    target_object=4,
    target_room=1,
    view_points=(BEST, *OTHERS),
    goal_radius_m=0.2,
    goal_turn_rad=TURN_RAD,
)
SPAWNS = np.array(
    [[1.0, 2.0, 0.0], [3.5, 3.5, HEADINGS_RAD[13]], [5.0, 3.0, HEADINGS_RAD[20]], [6.3, 3.5, HEADINGS_RAD[39]]]
)


@pytest.fixture(scope="module")
def simulator() -> HouseSimulator:
    return HouseSimulator([small_house()], num_agents=len(SPAWNS))


def replayed(simulator: HouseSimulator, walker: ShortestPathWalker, start: Start) -> np.ndarray:
    """Where a walker ends; no move is refused."""
    num = len(SPAWNS)
    simulator.reset(np.arange(num), np.zeros(num, np.int64), SPAWNS, [Goal.of(EPISODE)] * num)
    walker.begin(start)
    for _ in range(200):
        actions = walker.act(None, np.ones(num, bool))
        assert not simulator.step(actions).any()
        if (actions == Action.STOP).all():
            return simulator.poses
    raise AssertionError("no end after 200 actions")


def start_of() -> Start:
    """Spawns that lie on no demonstration."""
    num = len(SPAWNS)
    nothing = torch.empty((num, 0), dtype=torch.int64)
    questions = torch.ones((num, 2), dtype=torch.int64)
    return Start(
        questions, torch.empty(num, 0, 1), nothing, SPAWNS, [EPISODE] * num, [small_house()] * num, [None] * num
    )


def turned(headings: np.ndarray, to: float) -> np.ndarray:
    return np.abs((headings - to + np.pi) % (2 * np.pi) - np.pi)


def test_plans_end_in_the_goal_looking_as_it_wants(simulator: HouseSimulator) -> None:
    planned = plans(small_house(), [Goal.of(EPISODE)] * len(SPAWNS), SPAWNS)
    ends = replayed(simulator, ShortestPathWalker(), start_of())
    assert all(plan[-1] == Action.STOP and (plan[:-1] != Action.STOP).all() for plan in planned)
    assert (simulator.distance_m == 0).all()
    for x, z, heading in ends:
        near = [np.hypot(x - view[0], z - view[1]) < 0.21 for view in EPISODE.view_points]
        beside = [turned(heading, view[2]) < TURN_RAD + 1e-6 for view in EPISODE.view_points]
        assert any(np.logical_and(near, beside))


def test_walks_to_the_best_view_end_there_looking_straight_at_it(simulator: HouseSimulator) -> None:
    planned = to_best_views(small_house(), [EPISODE] * len(SPAWNS), SPAWNS)
    anywhere = plans(small_house(), [Goal.of(EPISODE)] * len(SPAWNS), SPAWNS)
    ends = replayed(simulator, BestViewWalker(), start_of())
    assert (simulator.distance_m == 0).all()
    assert (np.hypot(*(ends[:, :2] - BEST[:2]).T) < 0.21).all()
    assert (turned(ends[:, 2], BEST[2]) < 1e-6).all()
    assert all(len(best) >= len(any_) for best, any_ in zip(planned, anywhere, strict=True))
    assert sum(map(len, planned)) > sum(map(len, anywhere))


def test_a_plan_is_as_long_as_what_is_left_of_the_demonstration() -> None:
    (episode,) = place(small_house(), [EPISODE])
    walk = walk_of(episode)
    left = [10, len(walk.actions) // 2, len(walk.actions)]
    planned = plans(small_house(), [Goal.of(episode)] * 3, np.array([walk.before_end(k) for k in left]))
    assert [len(plan) for plan in planned] == left


def test_a_best_view_that_no_walk_leads_to_makes_way_for_the_next() -> None:
    (wall, *others) = ((4.0, 0.5, 0.0), *OTHERS)
    episode = Episode.from_dict(EPISODE.to_dict() | {"view_points": (wall, *others)})
    first, second = best_views(episode)[:2]
    assert first.view_points == (wall,)
    (planned,) = to_best_views(small_house(), [episode], SPAWNS[:1])
    assert planned.tolist() == plans(small_house(), [second], SPAWNS[:1])[0].tolist()
    with pytest.raises(ValueError, match="no walk from"):
        plans(small_house(), [first], SPAWNS[:1])


def test_poses_in_walls_between_headings_and_of_another_number_are_refused() -> None:
    goal = Goal.of(EPISODE)
    with pytest.raises(ValueError, match=r"no walk from \(4.0, 0.5"):
        plans(small_house(), [goal], np.array([[4.0, 0.5, 0.0]]))
    with pytest.raises(ValueError, match="heading"):
        plans(small_house(), [goal], np.array([[2.0, 2.0, 0.1]]))
    with pytest.raises(ValueError, match="spawn_poses"):
        plans(small_house(), [goal], SPAWNS)
    assert plans(small_house(), [], np.empty((0, 3))) == []
