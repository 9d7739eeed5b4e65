"""The frontier walker in a house of two rooms: what its map says, where it goes, when it ends."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import PLAN
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal
from eqa.envs.task import Task
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.frontier import FrontierAgent, turned
from eqa.models.agents.oracles import ForwardAgent, RandomAgent
from eqa.models.mapping.occupancy_map import BLOCKED, CELL_M, FREE, PASSED_OVER, UNKNOWN
from tests.helpers.episode_batches import batch_of
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

CAMERA = Camera(112, 112)
SPAWNS = np.array(
    [
        [x, 0.0, z, HOUSE_ACTIONS.headings_rad[k]]
        for x, z, k in [(2.0, 2.0, 0), (0.5, 2.4, 10), (3.5, 3.5, 25), (5.0, 2.0, 30), (6.5, 3.4, 3)]
    ]
)


def steps(
    simulator: HouseSimulator, walker: object, spawns: np.ndarray, most: int = 100
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Plays as the evaluation does; gives poses and actions (-1 for who has stopped) before each is done."""
    num = len(spawns)
    task = Task(simulator, max_steps=most)
    task.begin(np.arange(num), np.zeros(num, np.int64), spawns, [Goal(((2.0, 0.0, 2.0, 0.0),), 0.25)] * num)
    walker.reset(batch_of(spawns))
    while task.walking.any():
        who, chosen = np.flatnonzero(task.walking), np.full(num, -1)
        chosen[who] = walker.act(task.observe(who, walker.sensors), who)
        yield simulator.poses.numpy(), chosen
        task.step(who, chosen[who])


def world(num_agents: int, *, objects: bool = True) -> HouseSimulator:
    return HouseSimulator([small_house(objects=objects)], num_agents=num_agents, camera=CAMERA, resolution=500)


@pytest.fixture(scope="module")
def furnished() -> HouseSimulator:
    return world(len(SPAWNS))


def bare_floor(top_m: float) -> Floor:
    """Where nothing is in the way up to a height: the floor of an agent without width."""
    house, catalog = small_house(), load_catalog()
    scene = build_scene(house, catalog)
    return build_floor(house, scene, catalog.meshes, resolution=500, radius_m=1e-6, top_m=top_m)


def walked(simulator: HouseSimulator, walker: object, most: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Poses (N, K, 4) and actions (N, K)."""
    poses, actions = zip(*steps(simulator, walker, SPAWNS, most), strict=True)
    return np.stack(poses, 1), np.stack(actions, 1)


def positions(cells: np.ndarray, spawn: np.ndarray) -> np.ndarray:
    """Middles (x, z) of a map's cells where the mask is set."""
    middle = cells.shape[0] // 2
    return (np.argwhere(cells)[:, ::-1] - middle) * CELL_M + spawn[PLAN]


def share_free(floor: Floor, centres: np.ndarray, reach_m: float) -> np.ndarray:
    """Which part of the square `reach_m` around each place is free."""
    offsets = np.linspace(-reach_m, reach_m, 11)
    around = np.stack(np.meshgrid(offsets, offsets), -1).reshape(-1, 2)
    return floor.is_free((centres[:, None] + around).reshape(-1, 2)).reshape(len(centres), -1).mean(1)


def test_the_map_agrees_with_the_house_to_a_cell(furnished: HouseSimulator) -> None:
    """Floor under a table top is floor to whoever has not yet seen the top."""
    walker, low, high = FrontierAgent(CAMERA), bare_floor(0.3), bare_floor(1.0)
    walked(furnished, walker)
    for state, spawn in zip(walker.state, SPAWNS, strict=True):
        free, blocked = positions(state == FREE, spawn), positions(state == BLOCKED, spawn)
        blocked = blocked[(blocked > [0, 0]).all(1) & (blocked < [7, 4]).all(1)]
        assert len(free) > 1000 and len(blocked) > 300
        assert (share_free(low, free, 1.5 * CELL_M) > 0).all()
        assert (share_free(high, free, 0.5 * CELL_M) > 0).mean() > 0.98
        assert (share_free(high, blocked, 0.6 * CELL_M) < 1).mean() > 0.98


def test_it_sees_nearly_all_the_floor_then_turns_round_once_and_stops() -> None:
    simulator, walker = world(len(SPAWNS), objects=False), FrontierAgent(CAMERA)
    _, actions = walked(simulator, walker, 400)
    for n, spawn in enumerate(SPAWNS):
        done = actions[n][actions[n] >= 0].tolist()
        assert done[-HOUSE_ACTIONS.num_headings - 1 :] == [Action.LEFT] * HOUSE_ACTIONS.num_headings + [Action.STOP]
        cells = ((simulator.floors[0].centres - spawn[PLAN]) / CELL_M + 0.5 * len(walker.state[n])).astype(int)
        known = walker.state[n][cells[:, 1], cells[:, 0]]
        assert ((known == FREE) | (known == PASSED_OVER)).mean() > 0.97


def floor_visited(floor: Floor, poses: np.ndarray) -> float:
    """Share of the floor within half a metre of a walk."""
    near = [((floor.centres - place) ** 2).sum(1) < 0.25 for place in np.unique(poses[:, PLAN], axis=0)]
    return float(np.any(near, axis=0).mean())


def test_it_visits_more_floor_than_a_random_walk_and_than_straight_on(furnished: HouseSimulator) -> None:
    visited = {
        type(walker).__name__: [floor_visited(furnished.floors[0], poses) for poses in walked(furnished, walker)[0]]
        for walker in (FrontierAgent(CAMERA), RandomAgent(0), ForwardAgent())
    }
    explorer = np.array(visited["FrontierAgent"])
    assert (explorer > visited["ForwardAgent"]).all() and (explorer > visited["RandomAgent"]).all()


def test_it_enters_both_rooms_within_an_episode(furnished: HouseSimulator) -> None:
    rooms = [furnished.region.numpy() for _ in steps(furnished, FrontierAgent(CAMERA), SPAWNS)]
    assert all(set(of_agent.tolist()) >= {0, 1} for of_agent in np.stack(rooms, 1))


def test_it_never_walks_into_what_it_knows_and_hardly_into_anything(furnished: HouseSimulator) -> None:
    walker, forward, refused, before = FrontierAgent(CAMERA), 0, 0, None
    for poses, actions in steps(furnished, walker, SPAWNS):
        if before is not None:
            refused += ((poses == before[0]).all(1) & (before[1] == Action.FORWARD)).sum()
        for n in np.flatnonzero(actions == Action.FORWARD):
            x, _, z, heading = poses[n]
            away = np.linspace(0, HOUSE_ACTIONS.step_m, 26)[1:]
            line = np.stack([x - away * np.sin(heading), z - away * np.cos(heading)], 1) - SPAWNS[n, PLAN]
            cells = np.floor(line / CELL_M + 0.5 * len(walker.state[n])).astype(int)
            assert not np.isin(walker.state[n][cells[:, 1], cells[:, 0]], (UNKNOWN, BLOCKED)).any()
            forward += 1
        before = poses, actions
    assert forward > 100 and refused < 0.02 * forward


def test_a_refused_move_blocks_what_lies_ahead() -> None:
    simulator, walker = world(1, objects=False), FrontierAgent(CAMERA)
    spawn = on_floor([[2.0, 3.0, 0.0]])
    for poses, actions in steps(simulator, walker, spawn):
        if actions[0] == Action.FORWARD:
            break
    row, column = np.floor((poses[0, 2::-2] - spawn[0, 2::-2]) / CELL_M + 0.5 * len(walker.state[0])).astype(int)
    heading = poses[0, 3]
    row, column = row + round(-2.5 * np.cos(heading)), column + round(-2.5 * np.sin(heading))
    around = np.s_[row - 1 : row + 2, column - 1 : column + 2]
    assert not (walker.state[0][around] == BLOCKED).any()
    again = walker.act({**simulator.observe(sensors=("depth",)), "pose": torch.from_numpy(poses)}, np.array([0]))
    assert (walker.state[0][around] == BLOCKED).any() and again[0] != Action.FORWARD


def test_agents_side_by_side_walk_as_each_alone(furnished: HouseSimulator) -> None:
    together = walked(furnished, FrontierAgent(CAMERA))
    simulator, walker = world(1), FrontierAgent(CAMERA)
    for n, spawn in enumerate(SPAWNS):
        poses, actions = zip(*steps(simulator, walker, spawn[None]), strict=True)
        assert (np.concatenate(poses) == together[0][n, : len(poses)]).all()
        assert (np.concatenate(actions) == together[1][n, : len(actions)]).all()


def test_a_tilted_or_high_camera_and_images_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="level"):
        FrontierAgent(Camera(pitch_rad=-0.2))
    with pytest.raises(ValueError, match="1.0 m high"):
        FrontierAgent(Camera(height_m=1.5))
    walker = FrontierAgent(CAMERA)
    walker.reset(batch_of(SPAWNS[:1]))
    spawn, alone = torch.from_numpy(SPAWNS[:1]), np.array([0])
    with pytest.raises(ValueError, match="112"):
        walker.act({"depth": torch.ones(1, 224, 224), "pose": spawn}, alone)
    with pytest.raises(ValueError, match="begin anew"):
        walker.act({"depth": torch.ones(1, 112, 112), "pose": spawn + torch.tensor([30.0, 0, 0, 0])}, alone)


def test_a_spawn_may_look_anywhere(furnished: HouseSimulator) -> None:
    by_rad = np.array([0.0, 0.05, 0.07, -0.05, -0.02])  # below half a turn, so that maps have the same cells

    class Elsewhere(FrontierAgent):
        """Is told of a world that is turned about its origin, differently for each agent."""

        def reset(self, batch: EpisodeBatch) -> None:
            super().reset(replace(batch, poses=turned(batch.poses, -by_rad)))

        def act(self, observation: dict, agents: np.ndarray) -> np.ndarray:
            poses = turned(observation["pose"].numpy(), -by_rad[agents])
            return super().act({**observation, "pose": torch.from_numpy(poses)}, agents)

    (_, straight), (_, aslant) = (walked(furnished, walker(CAMERA), most=40) for walker in (FrontierAgent, Elsewhere))
    assert len(np.unique(straight)) > 2 and (straight == aslant).all()
