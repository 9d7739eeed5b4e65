"""The batched simulator against one agent at a time, and what it refuses."""

import numpy as np
import pytest

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import PLAN
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.navigation.floor import distance_fields, distances_at, way_is_free
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

GOAL = Goal(((5.5, 0.0, 2.0, 0.0),), 0.25)
OTHER = Goal(((1.5, 0.0, 2.0, 0.0),), 0.25)
NUM_HEADINGS, HEADINGS_RAD = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.headings_rad
STEP_X, STEP_Z = HOUSE_ACTIONS.step_x, HOUSE_ACTIONS.step_z
CAMERA = Camera(height_px=24, width_px=32)


def simulator(num_agents, houses=None, **options):
    return HouseSimulator(houses or [small_house()], num_agents=num_agents, camera=CAMERA, resolution=250, **options)


def place(sim, poses, goal=GOAL, scenes=None):
    count = len(poses)
    scenes = np.zeros(count, np.int64) if scenes is None else np.asarray(scenes)
    sim.reset(np.arange(count), scenes, on_floor(poses), [goal] * count)


@pytest.fixture(scope="module")
def world():
    return simulator(8, [small_house("small-0"), small_house("small-1", objects=False)])


def random_poses(floor, rng, count):
    places = floor.centres[rng.integers(floor.num_free, size=count)]
    return floor.stand(places, HEADINGS_RAD[rng.integers(NUM_HEADINGS, size=count)])


def test_a_thousand_random_actions_equal_those_of_single_agents(world):
    rng = np.random.default_rng(0)
    scenes = np.arange(8) % 2
    poses = np.concatenate([random_poses(world.floors[k], rng, 1) for k in scenes])
    goals = [GOAL, OTHER] * 4
    world.reset(np.arange(8), scenes, poses, goals)
    fields = {(k, goal): distance_fields(world.floors[k], [goal])[0] for k in (0, 1) for goal in (GOAL, OTHER)}
    slow = [[x, z, round(heading / HEADINGS_RAD[1])] for x, _, z, heading in poses]
    refused = 0
    for _ in range(1000):
        actions = rng.choice(4, 8, p=[0.6, 0.25, 0.1, 0.05])
        collided = world.step(actions)
        for n, (pose, action) in enumerate(zip(slow, actions)):
            floor, hit = world.floors[scenes[n]], False
            if action == Action.FORWARD:
                dx, dz = STEP_X[pose[2]], STEP_Z[pose[2]]
                hit = not way_is_free(floor.free, *floor.origin, floor.cell_m, pose[0], pose[1], dx, dz)
                if not hit:
                    pose[0] += dx
                    pose[1] += dz
            elif action != Action.STOP:
                pose[2] = (pose[2] + (1 if action == Action.LEFT else -1)) % NUM_HEADINGS
            assert collided[n] == hit
            refused += hit
        expected = on_floor([[x, z, HEADINGS_RAD[k]] for x, z, k in slow])
        assert (world.poses.numpy() == expected).all()
        distances = [
            distances_at(world.floors[k], fields[k, g], expected[n : n + 1, PLAN])[0]
            for n, (k, g) in enumerate(zip(scenes, goals))
        ]
        assert (world.distance_m.numpy() == distances).all() and np.isfinite(distances).all()
    assert refused > 100


def test_headings_do_not_drift_over_thousands_of_turns():
    sim = simulator(1)
    place(sim, [[2.0, 2.0, HEADINGS_RAD[7]]])
    for action in [Action.LEFT] * 4000 + [Action.RIGHT] * 4000:
        sim.step(np.array([action]))
    assert sim.poses.tolist() == [[2.0, 0.0, 2.0, HEADINGS_RAD[7]]]


def test_forward_goes_the_same_way_as_the_camera_looks(world):
    """Walking towards what is in the middle of the view lowers its depth by the step."""
    sim = HouseSimulator([small_house(objects=False)], num_agents=NUM_HEADINGS, camera=Camera(33, 33))
    place(sim, [[2.0, 2.0, heading] for heading in HEADINGS_RAD])
    before = sim.observe(sensors=("depth",))["depth"].numpy()[:, 16, 16]
    collided = sim.step(np.zeros(NUM_HEADINGS, np.int64))
    after = sim.observe(sensors=("depth",))["depth"].numpy()[:, 16, 16]
    near = before < 2.4  # a wall of the room, not what is seen through its doorway or window
    assert not collided.any() and near.sum() > 20
    assert np.allclose((before - after)[near], 0.25, atol=0.06)


def test_a_refused_move_leaves_the_agent_where_it_is(world):
    place(world, [[0.3, 2.0, HEADINGS_RAD[10]]] * 8)
    assert world.step(np.zeros(8, np.int64)).all()
    assert (world.poses.numpy()[:, PLAN] == [0.3, 2.0]).all()


def test_rooms_are_told_apart_and_a_doorway_belongs_to_one_of_them(world):
    place(world, [[2.0, 2.0, 0.0]] * 4 + [[5.0, 2.0, 0.0]] * 3 + [[4.0, 2.0, 0.0]])
    assert world.region.tolist()[:7] == [0, 0, 0, 0, 1, 1, 1] and world.region[7] in (0, 1)


def test_agents_can_be_drawn_some_at_a_time(world):
    rng = np.random.default_rng(1)
    world.reset(np.arange(8), np.zeros(8, np.int64), random_poses(world.floors[0], rng, 8), [GOAL] * 8)
    everybody = world.observe()["rgb"].numpy()
    assert everybody.shape == (8, 24, 32, 3) and everybody.dtype == np.uint8
    chosen = np.array([6, 1])
    assert (world.observe(chosen)["rgb"].numpy() == everybody[chosen]).all()


def test_fields_are_shared_kept_and_make_way_for_new_ones():
    sim = simulator(2, num_fields=3)
    goals = [Goal(((x, 0.0, 2.0, 0.0),), 0.25) for x in (1.0, 2.0, 3.0, 5.0, 5.5, 6.0)]
    poses = on_floor([[2.0, 2.0, 0.0], [3.0, 1.5, 0.0]])
    rng = np.random.default_rng(0)
    for _ in range(60):
        pair = [goals[k] for k in rng.integers(len(goals), size=2)]
        agent = rng.integers(2)
        if rng.random() < 0.5:
            sim.reset(np.arange(2), np.zeros(2, np.int64), poses, pair)
            present = list(pair)
        elif sim._ready.all():
            sim.reset(np.array([agent]), np.zeros(1, np.int64), poses[[agent]], pair[:1])
            present[agent] = pair[0]
        if sim._ready.all():
            fields = distance_fields(sim.floors[0], present)
            assert sim.distance_m.tolist() == [
                distances_at(sim.floors[0], f, poses[[n]][:, PLAN])[0] for n, f in enumerate(fields)
            ]
            rows = list(sim._kept._row_of.values())
            assert len(set(rows)) == len(rows) <= 3


def test_what_cannot_be_is_refused_before_anything_changes(world):
    place(world, [[2.0, 2.0, 0.0]] * 8)
    before = world.poses.numpy()
    one, zero = np.array([0]), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="cannot stand at"):
        world.reset(one, zero, on_floor([[1.5, 0.6, 0.0]]), [GOAL])
    with pytest.raises(ValueError, match="9 degrees"):
        world.reset(one, zero, on_floor([[2.0, 2.0, 0.1]]), [GOAL])
    with pytest.raises(ValueError, match="unreachable target"):
        world.reset(one, zero, on_floor([[2.0, 2.0, 0.0]]), [Goal(((1.5, 0.0, 0.6, 0.0),), 0.05)])
    with pytest.raises(ValueError, match="y on the ground"):
        world.reset(one, zero, np.array([[2.0, 0.2, 2.0, 0.0]]), [GOAL])
    with pytest.raises(ValueError, match="as many"):
        world.reset(one, zero, on_floor([[2.0, 2.0, 0.0]]), [])
    for wrong in (np.full(8, 4), np.full(8, -1), np.zeros(7, np.int64)):
        with pytest.raises(ValueError, match="actions"):
            world.step(wrong)
    with pytest.raises(ValueError, match="house 'atlantis'"):
        world.scene_index("atlantis")
    assert (world.poses.numpy() == before).all()


def test_agents_that_are_nowhere_yet_and_wrong_sizes_are_refused():
    sim = simulator(2)
    with pytest.raises(ValueError, match="reset them first"):
        sim.step(np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="num_agents"):
        simulator(0)
    with pytest.raises(ValueError, match="one twice"):
        simulator(1, [small_house(), small_house()])
