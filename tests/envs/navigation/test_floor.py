"""The floor, distances and moves against slow and obvious ways to get the same."""

import heapq
from math import dist, inf, isclose, pi, sqrt

import numpy as np
import pytest

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN
from eqa.envs.house.build import build_floor
from eqa.envs.house.house import House, Opening, Room, Wall
from eqa.envs.navigation.floor import (
    Floor,
    distance_fields,
    distances_at,
    far_places,
    free_cells,
    goal_mask,
    sample_start,
    way_is_free,
)
from eqa.envs.navigation.occupancy import dilate, fill_polygon, largest_component, mark_instances
from eqa.envs.rendering.scene import Instances, Materials, Meshes, Scene
from eqa.envs.simulator import Goal

NUM_HEADINGS, STEP_M = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.step_m
STEP_X, STEP_Z = HOUSE_ACTIONS.step_x, HOUSE_ACTIONS.step_z
BOX_FACES = [
    (0, 1, 3),
    (0, 3, 2),
    (4, 5, 7),
    (4, 7, 6),
    (0, 1, 5),
    (0, 5, 4),
    (2, 3, 7),
    (2, 7, 6),
    (0, 2, 6),
    (0, 6, 4),
]
BOX_FACES += [(1, 3, 7), (1, 7, 5)]
UNIT_BOX = Meshes(
    np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32),
    np.zeros((8, 3), np.float32),
    np.zeros((8, 2), np.float32),
    np.array(BOX_FACES, np.int32),
    np.zeros(12, np.int32),
    np.array([[0, 8]], np.int32),
    np.array([[0, 12]], np.int32),
)
NO_MESHES = Meshes(*(np.zeros((0, *array.shape[1:]), array.dtype) for array in (
    UNIT_BOX.vertices, UNIT_BOX.normals, UNIT_BOX.uv, UNIT_BOX.faces, UNIT_BOX.face_slot, UNIT_BOX.vertex_range, UNIT_BOX.face_range,
)))  # fmt: skip


def scene_of(boxes) -> Scene:
    """Boxes (x0, x1, y0, y1, z0, z1), or with an angle about +Y behind it, as instances of one unit box."""
    count = len(boxes)
    rotation, translation = np.zeros((count, 3, 3), np.float32), np.zeros((count, 3), np.float32)
    sphere = np.zeros((count, 4), np.float32)
    for i, (x0, x1, y0, y1, z0, z1, *angle) in enumerate(boxes):
        size, low = np.array([x1 - x0, y1 - y0, z1 - z0]), np.array([x0, y0, z0])
        a = angle[0] if angle else 0.0
        turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
        middle = low + size / 2
        rotation[i] = turn * size
        translation[i] = middle - turn @ (size / 2)
        sphere[i] = *middle, np.linalg.norm(size) / 2
    zeros = np.zeros(count, np.int32)
    instances = Instances(zeros, rotation, translation, zeros, zeros, zeros, zeros, sphere)
    materials = Materials(np.zeros((1, 3), np.uint8), np.full(1, -1, np.int32), np.zeros(1, np.uint8))
    return Scene("boxes", NO_MESHES, materials, instances)


def square_house(side=4.0, walls=(), openings=()) -> House:
    corners = [(0.0, 0.0), (0.0, side), (side, side), (side, 0.0)]
    return House("square", "test", 2.7, [Room("kitchen", corners, "f", "w")], list(walls), list(openings))


def floor_of(free, cell_m=0.05, origin=(0.0, 0.0)) -> Floor:
    free = np.asarray(free, bool).copy()
    free[[0, -1]] = False
    free[:, [0, -1]] = False
    return Floor("grid", origin, cell_m, free)


def walls_of(side, thickness=0.05):
    t = thickness
    return [
        (0, t, 0, 2.5, 0, side),
        (side - t, side, 0, 2.5, 0, side),
        (0, side, 0, 2.5, 0, t),
        (0, side, 0, 2.5, side - t, side),
    ]


def dijkstra_any_angle(floor, goal_mask, pairs):
    """True geodesic metres: Dijkstra over the visibility graph of free cells given in `pairs` and the goal's cells."""
    nodes = [tuple(c) for c in np.argwhere(goal_mask)] + [tuple(p) for p in pairs]
    num_goals = int(goal_mask.sum())

    def visible(a, b):
        n = max(2 * int(dist(a, b)) + 2, 2)
        line = np.rint(np.linspace(a, b, 4 * n)).astype(int)
        return floor.free[line[:, 0], line[:, 1]].all()

    best = [0.0] * num_goals + [inf] * len(pairs)
    queue = [(0.0, i) for i in range(num_goals)]
    while queue:
        d, i = heapq.heappop(queue)
        if d > best[i]:
            continue
        for j in range(num_goals, len(nodes)):
            step = d + dist(nodes[i], nodes[j]) * floor.cell_m
            if step < best[j] and visible(nodes[i], nodes[j]):
                best[j] = step
                heapq.heappush(queue, (step, j))
    return np.array(best[num_goals:])


def test_distance_is_euclidean_in_an_open_room_straight_and_diagonal():
    floor = floor_of(np.ones((300, 300)), cell_m=0.02)
    field = distance_fields(floor, [Goal(((3.0, 0.0, 3.0, 0.0),), 0.25)])[0]
    centres = floor.centres
    true = np.hypot(*(centres - 3.0).T) - 0.25
    far = true > 1.0
    assert np.abs(field[far] / true[far] - 1).max() < 0.02
    assert np.abs(field[true > 2.5] / true[true > 2.5] - 1).max() < 0.01
    assert np.abs(field - np.maximum(true, 0)).max() < 0.03
    for x, z in ((5.5, 3.0), (3.0, 0.5), (5.0, 5.0), (1.0, 5.0)):
        straight = np.hypot(x - 3, z - 3) - 0.25
        assert isclose(distances_at(floor, field, np.array([[x, z]]))[0], straight, rel_tol=0.015)


def test_distance_round_corners_agrees_with_a_visibility_graph():
    free = np.ones((240, 240), bool)
    free[80:88, :160] = False
    free[160:168, 80:] = False
    floor = floor_of(free, cell_m=0.015)
    goal = Goal(((0.6, 0.0, 0.6, 0.0),), 0.1)
    mask = goal_mask(floor, goal)
    rng = np.random.default_rng(0)
    cells = [tuple(c) for c in rng.permutation(np.argwhere(floor.free))[:40]]
    corners = [(79, 160), (88, 160), (159, 79), (168, 79)]
    true = dijkstra_any_angle(floor, mask, corners + cells)[len(corners) :]
    found = floor.expand(distance_fields(floor, [goal])[0])[tuple(np.array(cells).T)]
    assert np.abs(found - true).max() < 0.06
    assert np.abs(found[true > 1] / true[true > 1] - 1).max() < 0.015


def test_a_batch_of_fields_equals_fields_one_by_one():
    rng = np.random.default_rng(1)
    free = largest_component((rng.random((80, 80)) > 0.2).astype(np.uint8))
    floor = floor_of(free)
    goals = [Goal(((float(x), 0.0, float(z), 0.0),), 0.2) for x, z in rng.permutation(floor.centres)[:5]]
    batch = distance_fields(floor, goals)
    assert np.isfinite(batch).all()
    for k, goal in enumerate(goals):
        assert (distance_fields(floor, [goal])[0] == batch[k]).all()


def test_a_goal_region_does_not_reach_through_a_wall():
    free = np.ones((60, 60), bool)
    free[:, 30] = False
    free[5, 30] = True
    floor = floor_of(free)
    mask = goal_mask(floor, Goal(((1.4, 0.0, 2.0, 0.0),), 0.25))
    assert mask.any() and not mask[:, 30:].any()


def test_an_unreachable_target_is_named():
    free = np.ones((60, 60), bool)
    free[20:40, 20:40] = False
    with pytest.raises(ValueError, match="unreachable target.*0.25 m"):
        distance_fields(floor_of(free), [Goal(((1.5, 0.0, 1.5, 0.0),), 0.25)])


def test_only_geometry_between_the_two_heights_blocks():
    boxes = walls_of(4.0) + [
        (0.5, 1.0, 0.0, 0.14, 0.5, 1.0),  # a doorstep
        (1.5, 2.0, 1.05, 2.0, 0.5, 1.0),  # a wall cupboard
        (2.5, 3.0, 0.0, 0.8, 0.5, 1.0),  # a drawer unit
        (0.5, 1.5, 0.7, 0.75, 2.0, 3.0),  # a table top
        (3.0, 3.1, 0.0, 2.5, 2.0, 2.1),  # a column
    ]
    floor = build_floor(square_house(), scene_of(boxes), UNIT_BOX, resolution=200)

    def stands(x, z):
        return bool(floor.is_free(np.array([[x, z]]))[0])

    assert stands(0.75, 0.75) and stands(1.75, 0.75)
    assert not stands(2.75, 0.55) and not stands(0.55, 2.5) and not stands(3.05, 2.05)
    assert stands(3.05, 2.05 - 0.05 - 0.1 - 0.05) and not stands(3.05, 2.05 - 0.05 - 0.1 + 0.03)


def test_occupancy_agrees_with_sampling_points_of_turned_boxes():
    rng = np.random.default_rng(3)
    boxes = []
    for _ in range(12):
        x, z, w, d = rng.uniform(0.5, 3.5, 2).tolist() + rng.uniform(0.05, 0.6, 2).tolist()
        boxes.append((x, x + w, 0.0, 0.9, z, z + d, float(rng.uniform(0, pi))))
    scene = scene_of(boxes)
    blocked = np.zeros((200, 200), np.uint8)
    mark_instances(
        blocked, scene.instances, UNIT_BOX, first_mesh=0, origin=(0.0, 0.0), cell_m=0.02, bottom_m=0.15, top_m=1.0
    )
    slow = np.zeros((200, 200), bool)
    for i in range(len(boxes)):
        edge = np.array([(a, 0.5, 0.0) for a in np.linspace(0, 1, 400)])
        outline = np.concatenate([edge, edge + [0, 0, 1], edge[:, [2, 1, 0]], edge[:, [2, 1, 0]] + [1, 0, 0]])
        world = outline @ scene.instances.rotation_scale[i].T + scene.instances.translation[i]
        cells = (world[:, [2, 0]] / 0.02).astype(int)
        cells = cells[((cells >= 0) & (cells < 200)).all(axis=1)]
        slow[cells[:, 0], cells[:, 1]] = True
    assert blocked[slow].all()
    corners = np.array([(x, 0.5, z) for x in (0, 1) for z in (0, 1)])
    for row, column in np.argwhere(blocked):
        centre = np.array([(column + 0.5) * 0.02, (row + 0.5) * 0.02])
        near = []
        for i in range(len(boxes)):
            world = (corners @ scene.instances.rotation_scale[i].T + scene.instances.translation[i])[:, [0, 2]]
            along, across = world[2] - world[0], world[1] - world[0]
            a = (centre - world[0]) @ along / np.linalg.norm(along)
            b = (centre - world[0]) @ across / np.linalg.norm(across)
            outside = max(-a, a - np.linalg.norm(along), 0), max(-b, b - np.linalg.norm(across), 0)
            near.append(np.hypot(*outside))
        assert min(near) <= 0.02 * sqrt(0.5) + 1e-6


def test_dilation_agrees_with_all_pairs_of_cells():
    blocked = (np.random.default_rng(0).random((40, 40)) > 0.97).astype(np.uint8)
    cells = np.argwhere(np.ones_like(blocked))
    near = np.sqrt(((cells[:, None] - np.argwhere(blocked)[None]) ** 2).sum(-1)).min(axis=1).reshape(40, 40)
    for radius in (1.0, 3.3, 6.66):
        assert (dilate(blocked, radius).astype(bool) == (near <= radius)).all()


def test_the_largest_component_agrees_with_a_flood_fill():
    for seed in range(5):
        free = (np.random.default_rng(seed).random((50, 60)) > 0.42).astype(np.uint8)
        free[[0, -1]] = 0
        free[:, [0, -1]] = 0
        left, components = {tuple(c) for c in np.argwhere(free)}, []
        while left:
            stack, component = [left.pop()], set()
            while stack:
                row, column = stack.pop()
                component.add((row, column))
                around = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & left
                left -= around
                stack += around
            components.append(component)
        found = {tuple(c) for c in np.argwhere(largest_component(free))}
        assert len(found) == max(map(len, components)) and found in components


def test_polygons_that_share_an_edge_leave_no_gap():
    inside = np.zeros((100, 100), np.uint8)
    for polygon in (
        [(3.3, 3.1), (3.3, 90.2), (41.7, 90.2), (50.2, 3.1)],
        [(50.2, 3.1), (41.7, 90.2), (95.5, 90.2), (95.5, 3.1)],
    ):
        fill_polygon(inside, np.array(polygon))
    assert inside[4:89, 4:94].all() and inside[:, :3].sum() == 0 and inside[:, 96:].sum() == 0


def test_rooms_whose_polygons_leave_the_wall_out_are_joined_by_their_doorway():
    rooms = [Room("kitchen", [(0.0, 0.0), (0.0, 4.0), (1.95, 4.0), (1.95, 0.0)], "f", "w")]
    rooms.append(Room("office", [(2.05, 0.0), (2.05, 4.0), (4.0, 4.0), (4.0, 0.0)], "f", "w"))
    wall = Wall((2.0, 4.0), (2.0, 0.0), 0.1, (0, 1))
    house = House("two", "test", 2.7, rooms, [wall], [Opening("doorway", 0, 2.0, 1.0, 0.0, 2.0)])
    boxes = walls_of(4.0) + [(1.95, 2.05, 0, 2.5, 0, 1.5), (1.95, 2.05, 0, 2.5, 2.5, 4.0)]
    floor = build_floor(house, scene_of(boxes), UNIT_BOX, resolution=200)
    assert floor.is_free(np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])).all()
    assert not floor.is_free(np.array([[2.0, 1.0], [2.0, 3.0]])).any()


def test_a_house_with_no_room_for_an_agent_is_refused():
    with pytest.raises(ValueError, match="nothing is free"):
        build_floor(
            square_house(1.0),
            scene_of([(0, 1, 0, 1, z, z + 0.05) for z in np.arange(0, 1, 0.1)]),
            UNIT_BOX,
            resolution=100,
        )


def test_a_free_cell_on_the_border_is_refused():
    with pytest.raises(ValueError, match="blocked border"):
        Floor("open", (0.0, 0.0), 0.1, np.ones((5, 5), bool))


def test_steps_go_a_quarter_metre_at_all_40_headings():
    for k in range(NUM_HEADINGS):
        angle = k * 2 * pi / NUM_HEADINGS
        assert np.allclose((STEP_X[k], STEP_Z[k]), (-STEP_M * np.sin(angle), -STEP_M * np.cos(angle)), atol=1e-14)
    assert (STEP_X[0], STEP_Z[0], STEP_X[10], STEP_Z[10]) == (0, -STEP_M, -STEP_M, 0)


def test_a_move_is_refused_where_any_cell_on_it_is_blocked():
    free = np.ones((100, 100), bool)
    free[48, :] = False
    floor = floor_of(free, cell_m=0.02)
    for k in range(NUM_HEADINGS):
        for z in (1.0, 1.1, 1.21, 1.5):
            got = way_is_free(floor.free, 0.0, 0.0, 0.02, 1.0, z, STEP_X[k], STEP_Z[k])
            assert got == (z + STEP_Z[k] >= 49 * 0.02)


def test_cells_are_numbered_in_row_major_order_of_free_cells():
    floor = floor_of(np.random.default_rng(0).random((70, 70)) > 0.5, origin=(-1.0, 2.0))
    assert free_cells(floor, floor.centres).tolist() == list(range(floor.num_free))
    blocked = np.argwhere(~floor.free)[:, ::-1] * 0.05 + 0.025 + [-1.0, 2.0]
    outside = np.array([[-50.0, 3.0], [0.0, 50.0], [np.nan, 3.0]])
    assert (free_cells(floor, np.concatenate([blocked, outside])) == -1).all()


def test_lookups_are_infinite_where_nobody_can_stand():
    floor = floor_of(np.ones((60, 60)))
    field = distance_fields(floor, [Goal(((1.5, 0.0, 1.5, 0.0),), 0.25)])[0]
    found = distances_at(floor, field, np.array([[1.5, 1.5], [0.01, 1.0], [9.0, 9.0]]))
    assert found[0] == 0 and np.isinf(found[1:]).all()


def test_far_starts_are_far_and_a_function_of_the_seed():
    floor = floor_of(np.ones((60, 60)))
    field = distance_fields(floor, [Goal(((0.5, 0.0, 0.5, 0.0),), 0.25)])[0]
    places = far_places(floor, field)
    starts = [sample_start(floor, np.random.default_rng(s), places) for s in range(50)]
    assert starts[7] == sample_start(floor, np.random.default_rng(7), places) and len(set(starts)) > 40
    distances = distances_at(floor, field, np.array(starts)[:, PLAN])
    assert distances.min() >= np.quantile(field, 0.8) and np.isfinite(distances).all()
    assert HOUSE_ACTIONS.heading_indices(np.array(starts)[:, 3]).std() > 5


def test_headings_between_two_turns_are_refused():
    assert HOUSE_ACTIONS.heading_indices(HOUSE_ACTIONS.headings_rad + 2 * pi).tolist() == list(range(NUM_HEADINGS))
    for wrong in (0.05, np.nan):
        with pytest.raises(ValueError, match="9 degrees"):
            HOUSE_ACTIONS.heading_indices(np.array([0.0, wrong]))


def test_poses_are_refused_where_places_in_the_plan_are_asked_for():
    with pytest.raises(ValueError, match=r"expected shape \(N, 2\) of x and z, got \(3, 4\)"):
        floor_of(np.ones((60, 60))).is_free(np.zeros((3, 4)))


def test_goals_without_view_points_or_radius_are_refused():
    with pytest.raises(ValueError, match="view point"):
        Goal((), 0.25)
    with pytest.raises(ValueError, match="radius"):
        Goal(((0.0, 0.0, 0.0, 0.0),), 0.0)
