"""The expert's walks against exhaustive search over the simulator's own moves, and replayed move by move."""

import numpy as np
import pytest

from eqa.envs.actions import HOUSE_ACTIONS, Action, ActionSet
from eqa.envs.episode import PLAN
from eqa.envs.navigation.action_search import costs_to_go, shortest_walks
from eqa.envs.navigation.floor import (
    Floor,
    distance_fields,
    distances_at,
    far_places,
    goal_mask,
    sample_start,
    way_is_free,
)
from eqa.envs.navigation.occupancy import largest_component
from eqa.envs.simulator import Goal

OTHER_ACTIONS = ActionSet(step_m=0.3, turn_rad=np.pi / 6)


def floor_of(free, cell_m, actions=HOUSE_ACTIONS) -> Floor:
    free = np.asarray(free, np.uint8).copy()
    free[[0, -1]] = 0
    free[:, [0, -1]] = 0
    return Floor("grid", (0.5, -1.0), cell_m, largest_component(free), y_m=2.5, actions=actions)


def tiny_floor(actions) -> Floor:
    """1.2 m x 1.2 m with a post in the middle."""
    free = np.ones((60, 60))
    free[25:36, 25:36] = 0
    return floor_of(free, 0.02, actions)


def rooms_floor(actions=HOUSE_ACTIONS) -> Floor:
    """4 m x 4 m: two walls with a gap each, some clutter."""
    free = np.ones((200, 200))
    free[60:65, :150] = 0
    free[130:135, 45:] = 0
    for row, column in np.random.default_rng(0).integers(0, 180, (12, 2)):
        free[row : row + 12, column : column + 12] = 0
    free[95:105] = 1
    return floor_of(free, 0.02, actions)


def random_pose(rng, floor):
    return sample_start(floor, rng, floor.centres)


def at_goal(floor, goal, x, z, heading):
    for view in goal.view_points:
        away = abs(floor.actions.headings_rad[heading] - view[3]) % (2 * np.pi)
        if min(away, 2 * np.pi - away) <= goal.turn_rad + 1e-6:
            mask = goal_mask(floor, Goal((view,), goal.radius_m))
            if mask[int((z - floor.origin[1]) / floor.cell_m), int((x - floor.origin[0]) / floor.cell_m)]:
                return True
    return False


def fewest_moves(floor, goal, start, limit):
    """Breadth-first search over real moves; poses within a tenth of a millimetre are one. None beyond the limit."""
    moves = floor.actions
    layer = [(*start[PLAN], int(moves.heading_indices(np.array(start[3:]))[0]))]
    seen = set()
    for depth in range(limit + 1):
        following = []
        for x, z, heading in layer:
            if at_goal(floor, goal, x, z, heading):
                return depth
            for turn in (1, moves.num_headings - 1):
                following.append((x, z, (heading + turn) % moves.num_headings))
            step = moves.step_x[heading], moves.step_z[heading]
            if way_is_free(floor.free, *floor.origin, floor.cell_m, x, z, *step):
                following.append((x + step[0], z + step[1], heading))
        layer = []
        for pose in following:
            key = (round(pose[0] * 1e4), round(pose[1] * 1e4), pose[2])
            if key not in seen:
                seen.add(key)
                layer.append(pose)
    return None


@pytest.mark.parametrize("actions", [HOUSE_ACTIONS, OTHER_ACTIONS], ids=["house", "other"])
def test_walks_are_as_short_as_an_exhaustive_search_finds(actions):
    floor, rng = tiny_floor(actions), np.random.default_rng(0)
    compared = 0
    for _ in range(60):
        turn_rad = rng.integers(3) * actions.turn_rad
        goal, start = Goal((random_pose(rng, floor), random_pose(rng, floor)), 0.1, turn_rad), random_pose(rng, floor)
        fewest = fewest_moves(floor, goal, start, limit=11)
        if fewest is not None:
            (walk,) = shortest_walks(floor, [goal], [start])
            assert len(walk.actions) - 1 == fewest
            compared += 1
    assert compared >= 8


@pytest.mark.parametrize("actions", [HOUSE_ACTIONS, OTHER_ACTIONS], ids=["house", "other"])
def test_walks_replay_move_by_move_and_end_in_the_goal_looking_the_right_way(actions):
    floor, rng = rooms_floor(actions), np.random.default_rng(1)
    goals = [Goal(tuple(random_pose(rng, floor) for _ in range(3)), 0.25, k % 3 * actions.turn_rad) for k in range(12)]
    fields = distance_fields(floor, goals)
    starts = [sample_start(floor, rng, far_places(floor, field)) for field in fields]
    walks = shortest_walks(floor, goals, starts)
    for walk, goal, field, start in zip(walks, goals, fields, starts):
        assert walk.actions[-1] == Action.STOP and (walk.actions[:-1] != Action.STOP).all()
        assert len(walk.poses) == len(walk.actions)
        (x, y, z), heading = start[:3], int(actions.heading_indices(np.array(start[3:]))[0])
        assert y == 2.5
        for pose, action in zip(walk.poses, walk.actions):
            assert pose.tolist() == [x, y, z, actions.headings_rad[heading]]
            if action == Action.FORWARD:
                step = actions.step_x[heading], actions.step_z[heading]
                assert way_is_free(floor.free, *floor.origin, floor.cell_m, x, z, *step)
                x, z = x + step[0], z + step[1]
            elif action != Action.STOP:
                heading = (heading + (1 if action == Action.LEFT else -1)) % actions.num_headings
        assert at_goal(floor, goal, x, z, heading)
        distances = distances_at(floor, field, walk.poses[:, PLAN])
        assert distances[-1] == 0 and distances[0] > 1
        metres = actions.step_m * (walk.actions == Action.FORWARD).sum()
        assert metres >= distances[0] - 0.05
        assert metres <= 1.3 * distances[0] + 1.5


def test_the_first_search_predicts_the_length_of_the_second():
    floor, rng = rooms_floor(), np.random.default_rng(2)
    goal = Goal((random_pose(rng, floor),), 0.25)
    (search,) = costs_to_go(floor, [goal])
    for _ in range(50):
        start = random_pose(rng, floor)
        cost = search.estimate(start)
        assert abs(len(search.walk(start).actions) - 1 - cost) <= max(3, 0.1 * cost)


def test_asking_action_by_action_gives_a_walk_as_short_as_the_whole():
    floor, rng = rooms_floor(), np.random.default_rng(3)
    goal = Goal((random_pose(rng, floor),), 0.25)
    (search,) = costs_to_go(floor, [goal])
    for _ in range(5):
        start = random_pose(rng, floor)
        walk = search.walk(start)
        rest = [len(search.walk(tuple(pose.tolist())).actions) for pose in walk.poses]
        assert all(got <= len(walk.actions) - t + 1 for t, got in enumerate(rest))
        assert search.action(tuple(walk.poses[-1].tolist())) == Action.STOP


def test_a_batch_equals_walks_one_by_one_and_equal_goals_are_searched_together():
    floor, rng = rooms_floor(), np.random.default_rng(4)
    goals = [Goal((random_pose(rng, floor),), 0.25) for _ in range(3)] * 2
    starts = [random_pose(rng, floor) for _ in goals]
    for walk, goal, start in zip(shortest_walks(floor, goals, starts), goals, starts):
        (alone,) = shortest_walks(floor, [goal], [start])
        assert (walk.actions == alone.actions).all() and (walk.poses == alone.poses).all()


def test_a_start_in_the_goal_stops_at_once():
    floor = rooms_floor()
    pose = (2.5, 2.5, 1.0, float(HOUSE_ACTIONS.headings_rad[3]))
    (walk,) = shortest_walks(floor, [Goal((pose,), 0.25)], [pose])
    assert walk.actions.tolist() == [Action.STOP] and walk.poses.tolist() == [list(pose)]


def test_spawns_count_actions_from_the_end_with_stop_among_them():
    floor, rng = rooms_floor(), np.random.default_rng(5)
    goal, start = Goal((random_pose(rng, floor),), 0.25), random_pose(rng, floor)
    (walk,) = shortest_walks(floor, [goal], [start])
    assert walk.before_end(1) == tuple(walk.poses[-1]) and walk.before_end(len(walk.actions)) == start
    for wrong in (0, len(walk.actions) + 1):
        with pytest.raises(ValueError, match="num_actions"):
            walk.before_end(wrong)


def test_what_cannot_be_reached_is_named():
    floor = rooms_floor()
    inside, wall = (2.5, 2.5, 1.0, 0.0), (0.5 + 0.2, 2.5, -1.0 + 1.25, 0.0)
    with pytest.raises(ValueError, match="unreachable start.*stand"):
        shortest_walks(floor, [Goal((inside,), 0.25)], [wall])
    with pytest.raises(ValueError, match="unreachable target"):
        shortest_walks(floor, [Goal((wall,), 0.25)], [inside])
    with pytest.raises(ValueError, match="starts"):
        shortest_walks(floor, [Goal((inside,), 0.25)], [])


@pytest.mark.parametrize("part", ["_backward", "CostToGo.walk"])
def test_only_what_cannot_be_reached_is_passed_over(monkeypatch, part):
    def faulty(*_):
        raise ValueError("fault")

    floor = rooms_floor()
    inside, wall = (2.5, 2.5, 1.0, 0.0), (0.5 + 0.2, 2.5, -1.0 + 1.25, 0.0)
    goals, starts = [Goal((inside,), 0.25), Goal((wall,), 0.25), Goal((inside,), 0.25)], [wall, inside, inside]
    assert [walk is None for walk in shortest_walks(floor, goals, starts, or_none=True)] == [True, True, False]
    monkeypatch.setattr(f"eqa.envs.navigation.action_search.{part}", faulty)
    with pytest.raises(ValueError, match="fault"):
        shortest_walks(floor, goals, starts, or_none=True)


def test_more_headings_than_the_search_has_bits_for_are_refused():
    floor = rooms_floor(ActionSet(turn_rad=2 * np.pi / 65))
    with pytest.raises(ValueError, match="at most 64 headings"):
        costs_to_go(floor, [Goal((sample_start(floor, np.random.default_rng(0), floor.centres),), 0.25)])
