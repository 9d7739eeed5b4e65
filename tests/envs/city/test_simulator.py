"""Flights in cities: moves, refusals, distances beside a slow search, shortest flights replayed move by move."""

import heapq
from functools import cache
from math import hypot, pi

import numpy as np
import pytest

from eqa.envs.actions import Action, ActionSet
from eqa.envs.city.airspace import CEILING_M, COARSE, ORIGIN, Airspace
from eqa.envs.city.city import CITY_ACTIONS, LOWEST_M
from eqa.envs.city.flights import FlightPlanner, NoFlight, distance_field
from eqa.envs.city.simulator import CitySimulator, CityWorld
from eqa.envs.episode import Pose
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Simulator, World
from eqa.envs.task import Task, play

SCENE = "city-val-00001"
UP, DOWN = 4, 5
SMALL = Camera(24, 24, height_m=0.0)


@cache
def world() -> CityWorld:
    return CityWorld.generated(seed=0, camera=SMALL)


def random_poses(count: int, *, seed: int, level: int = 0) -> list[Pose]:
    floor, rng = world().airspace(SCENE).floors[level], np.random.default_rng(seed)
    places = floor.centres[rng.integers(len(floor.centres), size=count)]
    headings = CITY_ACTIONS.headings_rad[rng.integers(CITY_ACTIONS.num_headings, size=count)]
    return [tuple(pose) for pose in floor.stand(places, headings).tolist()]


def simulator(starts: list[Pose], goals: list[Goal]) -> CitySimulator:
    sim = world().open([SCENE], num_agents=len(starts))
    sim.reset(np.arange(len(starts)), np.zeros(len(starts), np.int64), np.array(starts), goals)
    return sim


def pairs(count: int, *, seed: int, radius_m: float = 10.0) -> tuple[list[Pose], list[Goal]]:
    starts, ends = random_poses(count, seed=seed), random_poses(count, seed=seed + 1)
    return starts, [Goal((end,), radius_m, pi / 6) for end in ends]


def test_it_is_a_world_and_a_simulator() -> None:
    starts, goals = pairs(1, seed=0)
    assert isinstance(world(), World) and isinstance(simulator(starts, goals), Simulator)
    assert world().missing([SCENE, "train-00000"]) == {"train-00000"}


def test_shortest_flights_are_moves_that_the_simulator_makes_and_end_at_their_goals() -> None:
    starts, goals = pairs(6, seed=2)
    walks = world().shortest_walks(SCENE, goals, starts)
    sim = simulator(starts, goals)
    for t in range(max(len(walk.actions) for walk in walks)):
        poses = sim.poses.numpy()
        for k, walk in enumerate(walks):
            if t < len(walk.actions):
                assert (poses[k] == walk.poses[t]).all()
        taken = [walk.actions[t] if t < len(walk.actions) else Action.STOP for walk in walks]
        assert not sim.step(np.array(taken, np.int64)).any()
    assert (sim.distance_m == 0).all()
    assert {int(walk.actions[-1]) for walk in walks} == {Action.STOP}


def slow_fewest_moves(air: Airspace, planner: FlightPlanner, start: Pose) -> int:
    """Breadth first over all moves, with the simulator's rules written out again."""
    moves, ends = air.actions, planner._ends
    first = (*start[:3], int(moves.heading_indices(np.array(start[3:]))[0]))

    def height(x: float, z: float) -> float:
        return float(air.height_m[int(z - ORIGIN[1]), int(x - ORIGIN[0])])

    def ended(x: float, y: float, z: float, h: int) -> bool:
        level = round((y - LOWEST_M) / moves.climb_m)
        bits = ends.get(level)
        cell = int((z - ORIGIN[1]) / COARSE), int((x - ORIGIN[0]) / COARSE)
        return bits is not None and bool(int(bits[cell]) >> h & 1)

    layer, seen, count = [first], {first}, 0
    while layer:
        if any(ended(*state) for state in layer):
            return count
        after = []
        for x, y, z, h in layer:
            new = [(x, y, z, (h + 1) % moves.num_headings), (x, y, z, (h - 1) % moves.num_headings)]
            dx, dz = float(moves.step_x[h]), float(moves.step_z[h])
            number = int(np.ceil(hypot(dx, dz)))
            if all(height(x + dx * i / number, z + dz * i / number) <= y for i in range(1, number + 1)):
                new.append((x + dx, y, z + dz, h))
            if y + moves.climb_m <= CEILING_M:
                new.append((x, y + moves.climb_m, z, h))
            if height(x, z) <= y - moves.climb_m:
                new.append((x, y - moves.climb_m, z, h))
            for state in new:
                if state not in seen:
                    seen.add(state)
                    after.append(state)
        layer, count = after, count + 1
    return -1


def test_a_planner_that_began_nearby_finds_the_same_flights_from_far_away() -> None:
    starts, (goal,) = random_poses(6, seed=11), pairs(1, seed=12)[1]
    air = world().airspace(SCENE)
    alone = [FlightPlanner(air, goal).walk(start) for start in starts]
    order = sorted(range(len(starts)), key=lambda n: len(alone[n].actions))
    planner = FlightPlanner(air, goal)
    for n in order:
        assert (planner.walk(starts[n]).actions == alone[n].actions).all()
    assert len(alone[order[-1]].actions) > len(alone[order[0]].actions) + 8
    together = world().shortest_walks(SCENE, [goal] * len(starts), starts)
    assert all((one.actions == other.actions).all() for one, other in zip(together, alone, strict=True))


def test_no_flight_is_shorter_than_the_planners_with_turns_of_a_quarter() -> None:
    actions = ActionSet(CITY_ACTIONS.names, step_m=10.0, turn_rad=pi / 2, climb_m=10.0)
    air = Airspace(SCENE, world().airspace(SCENE).height_m, world().airspace(SCENE).region, actions)
    starts, ends = random_poses(6, seed=11), random_poses(6, seed=12)
    for start, end in zip(starts, ends, strict=True):
        start, end = (*start[:3], round(start[3] / (pi / 2)) % 4 * pi / 2), (*end[:3], 0.0)
        planner = FlightPlanner(air, Goal((end,), 10.0))
        walk = planner.walk(start)
        assert len(walk.actions) - 1 == slow_fewest_moves(air, planner, start)


def slow_distance(air: Airspace, field_zero: np.ndarray, start: tuple[int, int, int], *, limit: float) -> float:
    """Dijkstra's distance from a coarse cell to a cell of field 0, over the 16 nearest directions and levels."""
    free = np.stack([floor.free for floor in air.floors])
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    steps += [(a * i, b * j) for i, j in ((1, 2), (2, 1)) for a in (-1, 1) for b in (-1, 1)]
    best, queue = {start: 0.0}, [(0.0, start)]
    while queue:
        length, (level, i, j) = heapq.heappop(queue)
        if field_zero[level, i, j]:
            return length
        if length > best[level, i, j] or length > limit:
            continue
        around = [((level, i + a, j + b), COARSE * hypot(a, b)) for a, b in steps]
        around += [((level + up, i, j), air.actions.climb_m) for up in (-1, 1) if 0 <= level + up < len(free)]
        for state, cost in around:
            if free[state] and length + cost < best.get(state, np.inf):
                best[state] = length + cost
                heapq.heappush(queue, (length + cost, state))
    return np.inf


def test_distances_are_those_of_a_slow_search_over_cells_and_levels() -> None:
    air = world().airspace(SCENE)
    starts, goals = pairs(4, seed=21)
    starts[1:3] = random_poses(2, seed=23, level=2)
    for start, goal in zip(starts, goals, strict=True):
        field = distance_field(air, goal)
        cell = air.level_of(start[1]), int((start[2] - ORIGIN[1]) / COARSE), int((start[0] - ORIGIN[0]) / COARSE)
        slow = slow_distance(air, field == 0, cell, limit=2000)
        assert field[cell] == pytest.approx(slow, rel=0.06, abs=4.0)
        found = world().distances(SCENE, [goal], [np.array([start])])[0][0]
        assert found == field[cell]


def test_moves_into_buildings_the_ground_and_the_ceiling_are_refused_and_change_nothing() -> None:
    air = world().airspace(SCENE)
    starts, goals = pairs(200, seed=31)
    sim = simulator(starts, goals)
    before = sim.poses.numpy().copy()
    assert sim.step(np.full(200, DOWN)).all()
    assert (sim.poses.numpy() == before).all()
    refused = sim.step(np.full(200, int(Action.FORWARD))).numpy()
    after = sim.poses.numpy()
    assert 0 < refused.sum() < 200
    assert (after[refused] == before[refused]).all() and (after[~refused] != before[~refused]).any()
    assert air.is_free(after).all()
    for _ in range(air.num_levels - 1):
        assert not sim.step(np.full(200, UP)).any()
    assert sim.step(np.full(200, UP)).all()
    assert (sim.poses.numpy()[:, 1] == CEILING_M).all()


def test_agents_never_leave_free_air_however_they_move() -> None:
    starts, goals = pairs(64, seed=41)
    sim, air, rng = simulator(starts, goals), world().airspace(SCENE), np.random.default_rng(0)
    for _ in range(60):
        sim.step(rng.choice(6, 64, p=[0.5, 0.1, 0.1, 0.0, 0.15, 0.15]))
        assert air.is_free(sim.poses.numpy()).all()
        assert np.isfinite(sim.distance_m.numpy()).all()


def test_a_batch_of_agents_moves_as_each_would_alone() -> None:
    starts, goals = pairs(5, seed=51)
    together, alone = simulator(starts, goals), [simulator([s], [g]) for s, g in zip(starts, goals, strict=True)]
    rng = np.random.default_rng(1)
    for _ in range(20):
        actions = rng.integers(0, 6, 5)
        together.step(actions)
        for k, sim in enumerate(alone):
            sim.step(actions[k : k + 1])
            assert (sim.poses[0] == together.poses[k]).all()
            assert sim.distance_m[0] == together.distance_m[k] and sim.region[0] == together.region[k]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pose: (pose[0], 7.0, pose[2], pose[3]), "expected y on a level"),
        (lambda pose: (900.0, pose[1], pose[2], pose[3]), "in a building or outside the city"),
        (lambda pose: (pose[0], pose[1], pose[2], 0.1), "heading: expected a multiple"),
    ],
)
def test_poses_where_nobody_can_be_are_refused(change, message: str) -> None:
    starts, goals = pairs(1, seed=61)
    with pytest.raises(ValueError, match=message):
        simulator([change(starts[0])], goals)


def test_goals_in_buildings_are_refused() -> None:
    building = world().city(SCENE).buildings[0]
    x, z = (building.rect[0] + building.rect[2]) / 2, (building.rect[1] + building.rect[3]) / 2
    starts, _ = pairs(1, seed=62)
    with pytest.raises(NoFlight, match="unreachable target"):
        simulator(starts, [Goal(((x, LOWEST_M, z, 0.0),), 1.0)])
    assert world().shortest_walks(SCENE, [Goal(((x, LOWEST_M, z, 0.0),), 1.0)], starts, or_none=True) == [None]


class Expert:
    """Follows the planners."""

    sensors = ("rgb", "pose")

    def __init__(self, planners: list) -> None:
        self.planners = planners

    def act(self, observation, agents: np.ndarray) -> np.ndarray:
        poses = observation["pose"].numpy()
        return np.array(
            [self.planners[k](tuple(pose)).actions[0] for k, pose in zip(agents, poses, strict=True)], np.int64
        )


def test_an_expert_that_plans_anew_at_each_pose_plays_episodes_to_their_goals() -> None:
    starts, goals = pairs(1, seed=71)
    task = Task(world().open([SCENE], num_agents=1))
    task.begin(np.arange(1), np.zeros(1, np.int64), np.array(starts), goals)
    play(task, Expert(world().planners(SCENE, goals)))
    done = task.trajectories()
    assert done.stopped.all() and not done.refused.any()
    assert (task.distance_m == 0).all()
    lengths = [len(walk.actions) for walk in world().shortest_walks(SCENE, goals, starts)]
    assert done.num_actions.tolist() == lengths


def test_small_moves_have_more_levels_and_fly_to_their_goals() -> None:
    actions = ActionSet(CITY_ACTIONS.names, step_m=2.0, turn_rad=pi / 18, climb_m=2.0)
    fine = CityWorld.generated(seed=0, camera=SMALL, actions=actions)
    air = fine.airspace(SCENE)
    assert air.num_levels == 41
    start = random_poses(1, seed=81)[0]
    start = (*start[:3], 0.0)
    view = fine.replay(SCENE, [start], [np.array([UP, Action.STOP], np.int8)])[0].poses[-1]
    goal = Goal((tuple(view.tolist()),), 2.0, pi / 18)
    assert [walk.actions.tolist() for walk in fine.shortest_walks(SCENE, [goal], [start])] == [[UP, Action.STOP]]
