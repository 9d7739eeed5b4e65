"""Planned walks replayed in the simulator: they end in the goal, and the best view's walk looks straight at it."""

import numpy as np
import pytest

from eqa.data.demonstrations.plans import ViewContents, best_views, to_best_views, view_contents, worths
from eqa.data.questions.spawns import add_spawns
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import PLAN, Episode
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.simulator import HouseSimulator, HouseWorld
from eqa.envs.metrics import target_shares
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.simulator import Goal
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.oracles import BestViewAgent, ShortestPathAgent
from tests.helpers.episode_batches import batch_of
from tests.helpers.free_walks import walk_of
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

TURN_RAD, HEADINGS_RAD = HOUSE_ACTIONS.turn_rad, HOUSE_ACTIONS.headings_rad
BEST = (6.3, 0.0, 2.2, 0.0)
OTHERS = ((5.0, 0.0, 1.0, HEADINGS_RAD[33]), (4.6, 0.0, 2.0, HEADINGS_RAD[32]))
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
SPAWNS = on_floor(
    [[1.0, 2.0, 0.0], [3.5, 3.5, HEADINGS_RAD[13]], [5.0, 3.0, HEADINGS_RAD[20]], [6.3, 3.5, HEADINGS_RAD[39]]]
)


WORLD = HouseWorld(lambda _: small_house())


@pytest.fixture(scope="module")
def simulator() -> HouseSimulator:
    return HouseSimulator([small_house()], num_agents=len(SPAWNS))


def replayed(simulator: HouseSimulator, walker: ShortestPathAgent, start: EpisodeBatch) -> np.ndarray:
    """Where a walker ends; no move is refused."""
    num = len(SPAWNS)
    simulator.reset(np.arange(num), np.zeros(num, np.int64), SPAWNS, [Goal.of(EPISODE)] * num)
    walker.reset(start)
    for _ in range(200):
        actions = walker.act({}, np.arange(num))
        assert not simulator.step(actions).any()
        if (actions == Action.STOP).all():
            return simulator.poses.numpy()
    raise AssertionError("no end after 200 actions")


def start_of() -> EpisodeBatch:
    """Spawns that lie on no demonstration."""
    return batch_of(SPAWNS, episodes=[EPISODE] * len(SPAWNS), world=WORLD)


def plans(goals: list[Goal], spawns: np.ndarray) -> list[np.ndarray]:
    """The actions of the shortest walks to the goals."""
    starts = [tuple(pose) for pose in spawns.tolist()]
    return [walk.actions for walk in WORLD.shortest_walks("small-0", goals, starts)]


def turned(headings: np.ndarray, to: float) -> np.ndarray:
    return np.abs((headings - to + np.pi) % (2 * np.pi) - np.pi)


def test_plans_end_in_the_goal_looking_as_it_wants(simulator: HouseSimulator) -> None:
    planned = plans([Goal.of(EPISODE)] * len(SPAWNS), SPAWNS)
    ends = replayed(simulator, ShortestPathAgent(), start_of())
    assert all(plan[-1] == Action.STOP and (plan[:-1] != Action.STOP).all() for plan in planned)
    assert (simulator.distance_m == 0).all()
    for x, _, z, heading in ends:
        near = [np.hypot(x - view[0], z - view[2]) < 0.21 for view in EPISODE.view_points]
        beside = [turned(heading, view[3]) < TURN_RAD + 1e-6 for view in EPISODE.view_points]
        assert any(np.logical_and(near, beside))


def test_walks_to_the_best_view_end_there_looking_straight_at_it(simulator: HouseSimulator) -> None:
    planned = to_best_views(WORLD, "small-0", [EPISODE] * len(SPAWNS), SPAWNS)
    anywhere = plans([Goal.of(EPISODE)] * len(SPAWNS), SPAWNS)
    ends = replayed(simulator, BestViewAgent(), start_of())
    (best,) = best_views(WORLD, "small-0", [EPISODE])[0][0].view_points
    assert (simulator.distance_m == 0).all()
    assert (np.hypot(*(ends[:, PLAN] - best[PLAN]).T) < 0.21).all()
    assert (turned(ends[:, 3], best[3]) < 1e-6).all()
    assert all(len(straight) >= len(any_) for straight, any_ in zip(planned, anywhere, strict=True))
    assert sum(map(len, planned)) > sum(map(len, anywhere))


def test_what_a_view_shows_is_what_the_agent_s_camera_and_a_wider_one_see() -> None:
    house, rng = small_house(), np.random.default_rng(0)
    floor = build_floor(house, build_scene(house, load_catalog()), load_catalog().meshes)
    rows, columns = np.nonzero(floor.free)
    chosen = rng.integers(len(rows), size=40)
    x, z = (floor.origin[k] + (n[chosen] + 0.5) * floor.cell_m for k, n in enumerate((columns, rows)))
    poses = on_floor(np.column_stack([x, z, HEADINGS_RAD[rng.integers(40, size=40)]]))
    targets = rng.integers(1, len(house.objects) + 1, size=40)
    found = view_contents(WORLD, "small-0", poses, targets)
    near = Renderer(Camera(), ("instance_id",))
    near.load([build_scene(house, load_catalog())])
    pictures = near.render(np.zeros(40, np.int32), poses)["instance_id"]
    share = target_shares(pictures, targets)
    assert np.abs(found.share - share).max() < 0.01 and (share > 0.02).sum() > 3
    cut = (found.whole > 0) & (found.whole < 0.9)
    assert cut.any() and (found.whole[(found.share > 0) & ~cut] > 0.9).any() and (found.whole <= 1).all()
    for n, picture in enumerate(pictures):
        there = {i for i in np.unique(picture).tolist() if i not in (0, targets[n]) and (picture == i).mean() > 0.006}
        assert len(there) <= found.others[n]


def test_a_view_is_better_the_more_it_shows_until_the_target_is_all_of_it() -> None:
    def worth(share: float, whole: float, others: int) -> float:
        return float(worths(ViewContents(np.array([share]), np.array([whole]), np.array([others])))[0])

    assert worth(0.1, 1.0, 2) > worth(0.1, 0.5, 2) and worth(0.1, 1.0, 2) > worth(0.1, 1.0, 1)
    assert worth(0.1, 1.0, 2) > worth(0.02, 1.0, 2) and worth(0.1, 1.0, 2) == worth(0.2, 1.0, 2)
    assert worth(0.1, 1.0, 0) > worth(0.6, 1.0, 5)


def test_a_plan_is_as_long_as_what_is_left_of_the_demonstration() -> None:
    (episode,) = add_spawns(small_house(), [EPISODE])
    walk = walk_of(episode, HOUSE_ACTIONS)
    left = [10, len(walk.actions) // 2, len(walk.actions)]
    planned = plans([Goal.of(episode)] * 3, np.array([walk.before_end(k) for k in left]))
    assert [len(plan) for plan in planned] == left


def test_a_best_view_that_no_walk_leads_to_makes_way_for_the_next() -> None:
    (wall, *others) = ((4.0, 0.0, 0.5, 0.0), *OTHERS)
    episode = Episode.from_dict(EPISODE.to_dict() | {"view_points": (wall, *others)})
    (ranked,) = best_views(WORLD, "small-0", [episode])
    (first,) = (goal for goal in ranked if goal.view_points == (wall,))
    reached = [goal for goal in ranked if goal is not first]
    assert len(ranked) == 3
    (planned,) = to_best_views(WORLD, "small-0", [episode], SPAWNS[:1])
    assert planned.tolist() == plans([reached[0]], SPAWNS[:1])[0].tolist()
    with pytest.raises(ValueError, match="no walk|unreachable"):
        plans([first], SPAWNS[:1])


def test_poses_in_walls_between_headings_and_of_another_number_are_refused() -> None:
    goal = Goal.of(EPISODE)
    with pytest.raises(ValueError, match=r"cannot stand at \(4.0, 0.0, 0.5"):
        plans([goal], on_floor([[4.0, 0.5, 0.0]]))
    with pytest.raises(ValueError, match="heading"):
        plans([goal], on_floor([[2.0, 2.0, 0.1]]))
    with pytest.raises(ValueError, match="starts: expected one for each of 1 goals, got 4"):
        plans([goal], SPAWNS)
    assert plans([], np.empty((0, 4))) == []
