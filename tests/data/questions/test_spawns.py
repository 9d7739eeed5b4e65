"""Starts of walks, and the distances from there."""

from dataclasses import replace

import numpy as np
import pytest

from eqa.data.questions import spawns
from eqa.data.questions.spawns import CLEARANCE_M, add_spawns, rooms_at, walk_anew
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN, Episode, Spawn
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.action_search import costs_to_go, shortest_walks
from eqa.envs.navigation.floor import distance_fields, distances_at
from eqa.envs.simulator import Goal
from tests.helpers.free_walks import walk_of
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house


def episode(number: int, **changes: object) -> Episode:
    goal = {"target_object": 4, "target_room": 1, "view_points": ((6.3, 0.0, 2.2, 0.0),), "goal_radius_m": 0.25}
    return Episode(f"small-{number}", "small-0", "what color is it?", "red", "color", "test", **(goal | changes))


@pytest.fixture(scope="module")
def floors():
    house, meshes = small_house(), load_catalog().meshes
    scene = build_scene(house, load_catalog())
    return [build_floor(house, scene, meshes, radius_m=radius) for radius in (0.1, CLEARANCE_M)]


@pytest.fixture(scope="module")
def with_spawns():
    return add_spawns(small_house(), [episode(number) for number in range(12)])


def test_spawns_lie_on_the_walk_and_know_how_far_it_is(with_spawns, floors):
    field = distance_fields(floors[0], [Goal.of(with_spawns[0])])[0]
    polygons = [room.polygon for room in small_house().rooms]
    long = 0
    for e in with_spawns:
        walk = walk_of(e, HOUSE_ACTIONS)
        assert e.spawns["start"].pose == tuple(walk.poses[0]) and e.spawns["start"].num_actions == len(e.walk)
        assert e.walk == "".join("FLRS"[action] for action in walk.actions) and e.walk.index("S") == len(e.walk) - 1
        for k in (10, 30, 50):
            assert (f"T-{k}" in e.spawns) == (len(walk.actions) >= k)
        for name, spawn in e.spawns.items():
            assert spawn.distance_m == pytest.approx(
                distances_at(floors[0], field, np.array([spawn.pose[PLAN]]))[0], abs=1e-3
            )
            if name != "random":
                left = walk.poses[len(walk.poses) - spawn.num_actions :]
                assert spawn.pose == tuple(left[0])
                through = {
                    i for i, polygon in enumerate(polygons) for pose in left if inside_polygon(pose[PLAN], polygon)
                }
                assert spawn.num_rooms == len(through)
        long += "T-30" in e.spawns
    assert long > 3 and len({e.spawns["random"].pose for e in with_spawns}) == 12


def test_a_random_spawn_has_the_length_of_the_shortest_walk(with_spawns, floors):
    for e in with_spawns[:4]:
        found = [costs_to_go(floor, [Goal.of(e)])[0] for floor in floors]
        spawn = e.spawns["random"]
        ground = found[1] if floors[1].is_free(np.array([spawn.pose[PLAN]]))[0] else found[0]
        assert len(ground.walk(spawn.pose).actions) == spawn.num_actions


def test_places_are_a_function_of_the_episode_alone(with_spawns):
    again = add_spawns(small_house(), [episode(5)])
    assert again == [with_spawns[5]]


def test_a_question_walked_anew_begins_elsewhere_and_ends_at_its_goal(with_spawns, floors, monkeypatch):
    twice, thrice = (walk_anew(small_house(), with_spawns, number) for number in (1, 2))
    assert twice[5] == walk_anew(small_house(), with_spawns[5:6], 1)[0] == walk_anew(small_house(), twice[5:6], 1)[0]
    assert sum(len({a.start, b.start, c.start}) == 3 for a, b, c in zip(with_spawns, twice, thrice, strict=True)) > 9
    field = distance_fields(floors[0], [Goal.of(with_spawns[0])])[0]
    for before, after in zip(with_spawns, twice, strict=True):
        same = {"spawns": before.spawns, "walk": before.walk}
        assert replace(after, **same) == before and set(after.spawns) - {"start", "T-50", "T-30", "T-10"} == set()
        walk = walk_of(after, HOUSE_ACTIONS)
        assert after.start == tuple(walk.poses[0])
        assert distances_at(floors[0], field, walk.poses[-1:, PLAN])[0] == 0
        assert all(s.pose == tuple(walk.poses[-s.num_actions]) for s in after.spawns.values())
    many = [
        e.spawns["start"].distance_m for number in range(1, 9) for e in walk_anew(small_house(), with_spawns, number)
    ]
    counts, farthest = np.histogram(many, 4)[0], field[np.isfinite(field)].max()
    assert min(counts) > 10 and max(many) > 0.9 * farthest and min(many) < 0.1 * farthest  # 24 a quarter on average
    monkeypatch.setattr(spawns, "shortest_walks", lambda floor, goals, starts, or_none=False: [None] * len(goals))
    assert walk_anew(small_house(), with_spawns, 1) == with_spawns


def test_a_given_start_is_kept_and_a_question_without_a_goal_only_spawned(floors):
    given = episode(0, spawns={"start": Spawn((1.0, 0.0, 2.0, 0.0))})
    aimless = episode(1, target_object=None, target_room=None, view_points=None, goal_radius_m=None)
    first, second = add_spawns(small_house(), [given, aimless])
    assert first.start == (1.0, 0.0, 2.0, 0.0) and first.walk
    assert second.walk is None and set(second.spawns) == {"start", "random"}
    assert all(s.distance_m is None and s.num_actions is None for s in second.spawns.values())
    assert floors[0].is_free(np.array([s.pose[PLAN] for s in second.spawns.values()])).all()


def test_a_start_that_leads_nowhere_is_drawn_again_unless_the_episode_asks_for_it(monkeypatch):
    asked = []

    def unlucky(floor, goals, starts, or_none=False):
        asked.append(starts)
        return [None] * len(goals) if len(asked) <= 4 else shortest_walks(floor, goals, starts, or_none=or_none)

    monkeypatch.setattr(spawns, "shortest_walks", unlucky)
    (found,) = add_spawns(small_house(), [episode(0)])
    assert asked[0] == asked[1] != asked[2] == asked[3] != asked[4]
    assert found.start == asked[4][0] and found.spawns["random"].pose == asked[4][1]
    monkeypatch.setattr(spawns, "shortest_walks", lambda floor, goals, starts, or_none=False: [None] * len(goals))
    assert add_spawns(small_house(), [replace(episode(1), spawns={"start": Spawn((1.0, 0.0, 2.0, 0.0))})]) == [None]


def test_a_pose_in_a_wall_counts_to_the_room_before_it():
    house = small_house()
    (ax, az), (bx, bz) = (np.mean(room.polygon, axis=0) for room in house.rooms[:2])
    poses = on_floor([[ax, az, 0.0], [-50.0, 0.0, 0.0], [bx, bz, 0.0], [-50.0, 0.0, 0.0]])
    assert rooms_at(house, poses).tolist() == [0, 0, 1, 1]
    assert rooms_at(house, poses[1:]).tolist() == [1, 1, 1]
