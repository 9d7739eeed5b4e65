"""A drone in our city is the same in process and through the stand-in server, whoever asks."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')

from eqa.envs.airsim.client import Client
from eqa.envs.airsim.frames import to_ned
from eqa.envs.airsim.protocol import Refused, pose
from eqa.envs.airsim.server import WORLDS
from eqa.envs.airsim.simulator import AirSimWorld
from eqa.envs.simulator import Goal, World
from eqa.envs.task import Task
from tests.helpers.airsim_serving import HOST, Serving

SCENE = "city-test-00000"
WORDS = ("height_px=32", "width_px=40")
FORWARD, LEFT, RIGHT, STOP, UP, DOWN = range(6)
FLIGHT = (UP, FORWARD, LEFT, FORWARD, DOWN, RIGHT, UP, FORWARD, STOP)
SENSORS = ("rgb", "depth", "instance_id", "pose")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[World, int, tuple]]:
    serving, flight = Serving(), WORLDS["city"].flight(0, WORDS)
    yield flight.world, serving.start(flight), flight.pose
    serving.close()


def flown(world: World, start: tuple) -> tuple[list[dict], np.ndarray]:
    """All that is seen on a flight, and the distances to its goal."""
    task = Task(world.open([SCENE], num_agents=1))
    agents, (x, y, z, _) = np.arange(1), start
    task.begin(agents, np.zeros(1, int), np.array([start]), [Goal(((x, y, z - 40.0, 0.0),), 15.0)])
    seen = []
    for action in FLIGHT:
        seen.append(task.observe(agents, SENSORS))
        task.step(agents, np.array([action]))
    done = task.trajectories()
    return seen, np.concatenate([done.distances_m, done.poses.reshape(1, -1), done.refused], axis=1)


def test_a_flight_is_the_same_in_process_and_through_the_server(served: tuple[World, int, tuple]) -> None:
    city, port, start = served
    here, known = flown(city, start)
    remote = AirSimWorld.at(HOST, port, knows=city)
    there, found = flown(remote, start)
    np.testing.assert_array_equal(known, found)
    assert len({frame["rgb"].numpy().tobytes() for frame in here}) > 6  # one move is refused
    for ours, theirs in zip(here, there, strict=True):
        for name in SENSORS:
            assert torch.equal(ours[name].double(), theirs[name].double()), name
    remote.close()


def test_any_height_is_free_above_the_houses_and_none_inside_of_them(served: tuple[World, int, tuple]) -> None:
    city, port, _ = served
    client, things = Client(HOST, port, timeout_s=20.0), city.annotations(SCENE).things
    tallest = max((thing for thing in things if thing.name == "building"), key=lambda thing: thing.high_m)
    (x, z), above = tallest.middle, tallest.high_m + 3.3
    for y, free in ((above, True), (tallest.high_m / 2, False), (1e4, False)):
        (position,), (turn,) = to_ned(np.array([[x, y, z, 1.0]]))
        if free:
            client.call("simSetVehiclePose", pose(position, turn), True, "")
            assert client.call("simGetVehiclePose", "")["position"]["z_val"] == pytest.approx(-above)
        else:
            with pytest.raises(Refused, match="expected a free place inside of city-test-00000"):
                client.call("simSetVehiclePose", pose(position, turn), True, "")
    client.call("enableApiControl", True, "")
    client.call("armDisarm", True, "")
    assert client.call("moveToPosition", -z, x, 0.0, 1e6, 60.0, 0, None, -1, 1, "") is False  # down to the roof
    assert -client.call("simGetVehiclePose", "")["position"]["z_val"] == pytest.approx(tallest.high_m, abs=1.5)
    client.close()
