"""The frontier agent as a drone: its map beside the city, the levels that it flies at, circles that it leaves."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from eqa.envs.actions import Action
from eqa.envs.city.airspace import region_at
from eqa.envs.city.city import CITY_ACTIONS, LOWEST_M
from eqa.envs.city.simulator import CityWorld
from eqa.envs.episode import PLAN
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal
from eqa.envs.task import Task
from eqa.models.agents.agent import Walker
from eqa.models.agents.frontier import FrontierAgent
from eqa.models.agents.frontier_drone import CITY_M, FrontierDrone, frontier_agent
from eqa.models.agents.oracles import RandomAgent
from eqa.models.mapping.occupancy_map import BLOCKED, CELL_M, FARTHEST_M, FREE, UNKNOWN
from tests.helpers.episode_batches import batch_of

SCENE = "city-val-00001"
CAMERA = Camera(112, 112, height_m=0.0)
UP, DOWN = 4, 5


@cache
def world() -> CityWorld:
    return CityWorld.generated(seed=0, camera=CAMERA)


def spawns(level: int, num: int = 6) -> np.ndarray:
    floor, rng = world().airspace(SCENE).floors[level], np.random.default_rng(level)
    places = floor.centres[rng.integers(len(floor.centres), size=num)]
    return floor.stand(places, CITY_ACTIONS.headings_rad[rng.integers(CITY_ACTIONS.num_headings, size=num)])


def yard() -> np.ndarray:
    """A place at the lowest level that no way at that level leads out of, with room for a few moves."""
    floor = world().airspace(SCENE).floors[0]
    left, parts = {tuple(cell) for cell in np.argwhere(floor.free).tolist()}, []
    while left:
        part, edge = [], [left.pop()]
        while edge:
            row, column = edge.pop()
            part.append((row, column))
            near = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & left
            left -= near
            edge += near
        parts.append(np.array(sorted(part)))
    small = min((part for part in parts if len(part) * floor.cell_m**2 > 900.0), key=len)
    assert len(small) < max(map(len, parts))
    middle = small[((small - small.mean(0)) ** 2).sum(1).argmin()]
    return floor.stand(((middle[::-1] + 0.5) * floor.cell_m + floor.origin)[None], np.zeros(1))


def steps(walker: Walker, starts: np.ndarray, most: int = 100) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Poses and actions (-1 for who has stopped) before each is done."""
    num = len(starts)
    simulator = world().open([SCENE], num_agents=num)
    task = Task(simulator, max_steps=most)
    task.begin(np.arange(num), np.zeros(num, np.int64), starts, [Goal((tuple(starts[0].tolist()),), 10.0)] * num)
    walker.reset(batch_of(starts, world=world()))
    while task.walking.any():
        who, chosen = np.flatnonzero(task.walking), np.full(num, -1)
        chosen[who] = walker.act(task.observe(who, walker.sensors), who)
        yield simulator.poses.numpy().copy(), chosen
        task.step(who, chosen[who])


def test_a_camera_at_the_height_of_its_pose_is_a_drones() -> None:
    assert type(frontier_agent(CAMERA)) is FrontierDrone and type(frontier_agent(Camera(112, 112))) is FrontierAgent


def test_its_map_agrees_with_the_airspace_of_its_level() -> None:
    drone = frontier_agent(CAMERA)
    starts = spawns(0)
    *_, (poses, _) = steps(drone, starts, 40)
    air = world().airspace(SCENE)
    cell_m, found = CELL_M * drone.unit_m, {FREE: [], BLOCKED: []}
    for state, start, pose in zip(drone.state, starts, poses, strict=True):
        assert pose[1] == LOWEST_M
        for kind in (FREE, BLOCKED):
            places = (np.argwhere(state == kind)[:, ::-1] + 0.5 - 0.5 * len(state)) * cell_m + start[PLAN]
            places = places[region_at(air.region, places) >= 0]  # in the city
            around = places[:, None] + cell_m * np.array([(0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)])
            there = np.zeros((around[..., 0].size, 4))
            there[:, PLAN], there[:, 1] = around.reshape(-1, 2), LOWEST_M
            found[kind].append(air.is_free(there).reshape(-1, 5))
    free, blocked = map(np.concatenate, found.values())
    assert len(free) > 5000 and free.any(1).mean() > 0.98
    assert len(blocked) > 500 and (~blocked).any(1).mean() > 0.9


def test_the_edge_of_its_map_keeps_it_from_where_the_map_ends() -> None:
    drone = frontier_agent(CAMERA)
    drone.reset(batch_of(spawns(0), world=world()))
    open_cells = np.argwhere(drone.state[0] != BLOCKED)
    assert len(open_cells) and (np.abs(open_cells + 0.5 - 0.5 * len(drone.state[0])).max() + 0.5) * CELL_M < FARTHEST_M
    assert FARTHEST_M * drone.unit_m == CITY_M


def test_it_goes_down_first_and_never_flies_into_what_it_knows() -> None:
    drone, starts, before, flown = frontier_agent(CAMERA), spawns(3), None, 0
    for poses, actions in steps(drone, starts):
        if before is None:
            assert (actions == DOWN).all()
        for n in np.flatnonzero(actions == Action.FORWARD):
            heading = poses[n, 3]
            away = np.linspace(0, CITY_ACTIONS.step_m, 41)[1:] / drone.unit_m
            line = np.stack([-away * np.sin(heading), -away * np.cos(heading)], 1)
            line += (poses[n, PLAN] - starts[n, PLAN]) / drone.unit_m
            cells = np.floor(line / CELL_M + 0.5 * len(drone.state[n])).astype(int)
            assert not np.isin(drone.state[n][cells[:, 1], cells[:, 0]], (UNKNOWN, BLOCKED)).any()
            flown += 1
        before = poses
    assert flown > 100 and (before[:, 1] == LOWEST_M).mean() > 0.5


def test_it_leaves_a_yard_over_the_roofs_and_goes_down_to_the_street() -> None:
    heights = np.array([poses[0, 1] for poses, _ in steps(frontier_agent(CAMERA), yard())])
    above = np.flatnonzero(heights > LOWEST_M)
    assert len(above) and (heights[above[-1] :] == LOWEST_M).any()


def test_it_sees_more_places_than_random_moves_and_leaves_circles() -> None:
    visited = {}
    for walker in (frontier_agent(CAMERA), RandomAgent(0)):
        places = np.stack([poses[:, PLAN] for poses, _ in steps(walker, spawns(0))], 1)
        visited[walker.name] = np.array([len(np.unique(np.floor(walk / 20.0), axis=0)) for walk in places])
        if isinstance(walker, FrontierDrone):
            poses = walker.begun[:, :, PLAN]
            counts = [np.unique(np.round(one[~np.isnan(one[:, 0])], 2), axis=0, return_counts=True)[1] for one in poses]
            assert max(map(max, counts)) <= 6
    assert (visited["nearest frontier"] > visited["random walk"]).mean() > 0.8
