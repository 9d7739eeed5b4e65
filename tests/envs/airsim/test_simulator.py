"""The world behind AirSim servers: what agents see and do there is what they see and do in process, whatever is lost."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')

from eqa.envs.actions import Action, ActionSet
from eqa.envs.airsim import drones
from eqa.envs.airsim.flight import Flight
from eqa.envs.airsim.simulator import AirSimWorld
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.metrics import walk_metrics
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, SceneFailed, Simulator, World, enter
from eqa.envs.task import Task, play
from tests.helpers.airsim_serving import HOST, HOUSES, Serving, served_houses

CAMERA = Camera(height_px=24, width_px=32, vertical_fov_deg=60.0)
START = (2.0, 0.0, 2.0, 0.0)
GOAL = Goal(((6.0, 0.0, 2.0, 0.0),), 0.3)
MOVES = ActionSet(("forward", "left", "right", "stop", "up", "down"), 0.5, np.pi / 6, 0.5, max_steps=20)
SENSORS = ("rgb", "depth", "instance_id", "pose")
QUICK = {"tries": 3, "pause_s": 0.01, "timeout_s": 5.0}


@pytest.fixture(scope="module")
def house() -> HouseWorld:
    return served_houses(CAMERA)


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    made = Serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def port(serving: Serving, house: HouseWorld) -> int:
    return serving.start(Flight(house, "small-0", start=START))


@pytest.fixture
def world(port: int, house: HouseWorld) -> Iterator[AirSimWorld]:
    made = AirSimWorld.at(HOST, port, knows=house, **QUICK)
    yield made
    made.close()


def foreign(port: int, **settings: object) -> AirSimWorld:
    """The same server, as if nothing were known about what it shows."""
    return AirSimWorld.at(HOST, port, camera=CAMERA, actions=MOVES, **{**QUICK, **settings})


def placed(world: World, *scene_ids: str, at: tuple = START) -> Simulator:
    simulator, scenes = enter(world, scene_ids)
    agents = np.arange(len(scene_ids))
    simulator.reset(agents, scenes, np.array([at] * len(agents)), [GOAL] * len(agents))
    return simulator


class Recorded:
    """An actor that keeps all it saw, and takes actions by chance until it stops."""

    sensors = SENSORS

    def __init__(self) -> None:
        self.rng, self.seen, self.taken = np.random.default_rng(3), [], 0

    def act(self, observation, agents: np.ndarray) -> np.ndarray:
        self.seen.append({name: image.clone() for name, image in observation.items()})
        self.taken += 1
        chosen = self.rng.choice(3, len(agents), p=[0.6, 0.2, 0.2])
        return np.full(len(agents), int(Action.STOP)) if self.taken == 25 else chosen


def played(world: World, *scene_ids: str) -> tuple[list[dict], dict]:
    """All that agents saw on walks by chance, and the metrics of these walks."""
    simulator, scenes = enter(world, scene_ids)
    task, actor = Task(simulator), Recorded()
    agents = np.arange(len(scene_ids))
    task.begin(agents, scenes, np.array([START] * len(agents)), [GOAL] * len(agents))
    play(task, actor)
    done = task.trajectories()
    in_room = done.regions == 1
    return actor.seen, walk_metrics(done.distances_m, in_room, done.actions, done.num_actions, done.path_m)


def test_it_offers_what_worlds_offer(world: AirSimWorld) -> None:
    assert isinstance(world, World) and isinstance(placed(world, "small-0"), Simulator)
    assert world.identity == world.knows.identity  # what was made in process can be used with servers


def test_the_same_episodes_are_the_same_in_process_and_through_servers(
    world: AirSimWorld, house: HouseWorld, port: int, serving: Serving
) -> None:
    second = serving.start(Flight(house, "small-1"))
    both = AirSimWorld.at(servers=[f"{HOST}:{port}", f"{HOST}:{second}"], knows=house, **QUICK)
    scenes = ("small-0", "small-1", "small-0")
    here, known = played(house, *scenes)
    assert known["d_0"][0] > 0 and (known["ep_len"] == 25).all()
    for one in (world, both):
        there, found = played(one, *scenes)
        assert len(there) == len(here) == 25
        for ours, theirs in zip(here, there, strict=True):
            for name in SENSORS:
                assert torch.equal(ours[name].double(), theirs[name].double()), name
        for name, values in known.items():
            np.testing.assert_array_equal(values, found[name], err_msg=name)
    both.close()
    serving.stop(second)


def test_what_is_known_of_a_scene_is_what_the_world_that_is_served_knows(world: AirSimWorld, house: HouseWorld) -> None:
    assert world.annotations("small-0") == house.annotations("small-0")
    (walk,), (ours,) = (one.shortest_walks("small-0", [GOAL], [START]) for one in (world, house))
    np.testing.assert_array_equal(walk.poses, ours.poses)
    np.testing.assert_array_equal(world.planners("small-0", [GOAL])[0](START).actions, walk.actions)
    assert world.distances("small-0", [GOAL], [np.array([START])])[0][0] > 3
    np.testing.assert_array_equal(world.replay("small-0", [START], [walk.actions])[0].poses, walk.poses)
    assert world.missing(["small-0", "small-9"]) == {"small-9"}


def test_a_pose_inside_of_something_is_refused_before_anything_changes(world: AirSimWorld) -> None:
    simulator = placed(world, "small-0")
    with pytest.raises(ValueError, match="cannot stand"):
        simulator.reset(np.zeros(1, int), np.zeros(1, int), np.array([(1.5, 0.0, 0.6, 0.0)]), [GOAL])
    assert simulator.poses[0].tolist() == list(START)
    with pytest.raises(ValueError, match="expected some of rgb"):
        simulator.observe(sensors=("class_id",))


def test_pictures_of_another_camera_are_drawn_here(world: AirSimWorld) -> None:
    simulator = world.open(["small-0"], num_agents=1, camera=Camera(height_px=8, width_px=8))
    assert simulator.look(np.zeros(1, int), np.array([START]))["rgb"].shape == (1, 8, 8, 3)


def test_a_lost_server_that_comes_back_is_not_noticed_by_agents(
    serving: Serving, house: HouseWorld, capsys: pytest.CaptureFixture
) -> None:
    at = serving.start(Flight(house, "small-0", start=START))
    world = AirSimWorld.at(HOST, at, knows=house, tries=8, pause_s=0.02)
    simulator = placed(world, "small-1")
    before = simulator.observe(sensors=SENSORS)
    serving.stop(at)
    back = threading.Timer(0.1, serving.start, (Flight(house, "small-0", start=START), at))
    back.start()
    after = simulator.observe(sensors=SENSORS)
    back.join()
    assert all(torch.equal(before[name], after[name]) for name in SENSORS)
    assert f"airsim at {HOST}:{at}" in capsys.readouterr().out
    world.close()
    serving.stop(at)


def test_a_server_that_stays_away_fails_the_scene_and_never_shows_black(serving: Serving, house: HouseWorld) -> None:
    at = serving.start(Flight(house, "small-0", start=START))
    world = AirSimWorld.at(HOST, at, knows=house, **QUICK)
    simulator = placed(world, "small-0")
    serving.stop(at)
    with pytest.raises(SceneFailed, match="asked 3 times: .*refused") as failed:
        simulator.observe()
    assert failed.value.scene_id == "small-0"


def test_a_server_that_does_not_answer_is_given_up_in_time(house: HouseWorld, port: int) -> None:
    world = AirSimWorld.at(HOST, port, knows=house, tries=2, pause_s=0.01, timeout_s=0.2)
    simulator = placed(world, "small-0")
    with socket.create_server((HOST, 0)) as silent:
        world.drones[0].client.close()
        world.drones[0].client.port = silent.getsockname()[1]
        with pytest.raises(SceneFailed, match="asked 2 times: no answer to ping in 0.2 s"):
            simulator.observe()


def test_a_server_of_nonsense_is_given_up_too(house: HouseWorld, port: int) -> None:
    world = AirSimWorld.at(HOST, port, knows=house, **QUICK)
    simulator = placed(world, "small-0")
    with socket.create_server((HOST, 0)) as rubbish:

        def answer() -> None:
            for _ in range(3):
                one, _ = rubbish.accept()
                one.recv(100)
                one.sendall(b"\xc1HTTP/1.1 400 Bad Request")
                one.close()

        talking = threading.Thread(target=answer)
        talking.start()
        world.drones[0].client.close()
        world.drones[0].client.port = rubbish.getsockname()[1]
        with pytest.raises(SceneFailed, match="expected msgpack"):
            simulator.observe()
        talking.join()


def test_frames_of_another_place_are_asked_for_again(world: AirSimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = placed(world, "small-0")
    right = simulator.observe()["rgb"]
    client, late = world.drones[0].client, []
    call = client.call

    def moved_by_another(method: str, *arguments: object) -> object:
        found = call(method, *arguments)
        if method == "simSetVehiclePose" and len(late) < 1:
            late.append(method)
            call(method, drones.pose((-2.5, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0)), True, "")
        return found

    monkeypatch.setattr(client, "call", moved_by_another)
    monkeypatch.setattr(drones, "LOOKS", 2)
    assert torch.equal(simulator.observe()["rgb"], right) and late
    monkeypatch.setattr(world.drones[0], "settings", replace(world.settings, tries=1))
    late.clear()
    with pytest.raises(SceneFailed, match="showed another place"):
        simulator.observe()


def test_a_server_that_is_not_the_one_that_was_meant_is_an_error_at_once(port: int, house: HouseWorld) -> None:
    other = HouseWorld(HOUSES.__getitem__, identity="houses of another seed", camera=CAMERA)
    wide = HouseWorld(HOUSES.__getitem__, camera=replace(CAMERA, vertical_fov_deg=80.0))
    for knows, why in ((other, "World: expected 'houses of another seed'"), (wide, "Camera: expected .*80.0")):
        with pytest.raises(ValueError, match=why):
            AirSimWorld.at(HOST, port, knows=knows, **QUICK).open(["small-0"], num_agents=1)
    with socket.create_server((HOST, 0)) as nobody:
        free = nobody.getsockname()[1]
    with pytest.raises(ValueError, match="expected an AirSim server, got Connection refused; start"):
        AirSimWorld.at(HOST, free, knows=house, **QUICK).open(["small-0"], num_agents=1)
    with pytest.raises(ValueError, match="camera 'down': .*expected one of '0'"):
        AirSimWorld.at(HOST, port, knows=house, camera_name="down", **QUICK).open(["small-0"], num_agents=1)
    with pytest.raises(ValueError, match="expected addresses such as"):
        AirSimWorld.at(servers=["localhost"], knows=house)


@pytest.mark.parametrize("version", (0, 5, "4", None))
def test_a_server_of_another_version_is_an_error_at_once(
    world: AirSimWorld, version: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.drones[0].client
    call = client.call
    monkeypatch.setattr(client, "call", lambda m, *a: version if m == "getServerVersion" else call(m, *a))
    with pytest.raises(ValueError, match="expected an AirSim server of version 1 to 4"):
        world.open(["small-0"], num_agents=1)


def test_a_foreign_city_is_flown_by_the_actions_and_nothing_is_made_up(port: int) -> None:
    world = foreign(port, scene="downtown")
    simulator = placed(world, "downtown", "downtown")
    seen = simulator.observe(sensors=SENSORS)
    assert seen["rgb"].any() and seen["depth"].any() and seen["instance_id"].any()
    simulator.step(torch.tensor([int(Action.LEFT), 3]))
    np.testing.assert_allclose(simulator.poses[0], [2.0, 0.0, 2.0, np.pi / 6])
    assert not torch.equal(simulator.observe()["rgb"][0], seen["rgb"][0])
    np.testing.assert_allclose(simulator.distance_m, [3.7, 3.7], rtol=1e-6)  # straight, through the wall
    assert simulator.region.tolist() == [-1, -1] and not world.annotations("downtown").things
    assert world.shortest_walks("downtown", [GOAL], [START], or_none=True) == [None]
    with pytest.raises(ValueError, match="nothing is known of what stands in the way"):
        world.planners("downtown", [GOAL])[0](START)
    with pytest.raises(ValueError, match="scene 'uptown': expected 'downtown'"):
        world.open(["uptown"], num_agents=1)
    (walk,) = world.replay("downtown", [START], [np.array([0, 4, 1, 0, 3], np.int8)])
    np.testing.assert_allclose(walk.poses[3], [2.0, 0.5, 1.5, np.pi / 6])
    np.testing.assert_allclose(walk.poses[4], [2.0 - 0.25, 0.5, 1.5 - 0.5 * np.cos(np.pi / 6), np.pi / 6])


def test_a_foreign_server_refuses_moves_if_it_is_asked(port: int) -> None:
    world = foreign(port, collisions="ask")
    simulator = placed(world, "embodied-city")
    refused = [bool(simulator.step(torch.tensor([0]))[0]) for _ in range(6)]
    assert refused == [False] + [True] * 5  # half a metre north, then the sofa
    np.testing.assert_allclose(simulator.poses[0], [2.0, 0.0, 1.5, 0.0])
    assert simulator.step(torch.tensor([4])).tolist() == [True]  # in a house nobody flies


def test_a_foreign_server_with_images_of_another_size_is_an_error(port: int) -> None:
    large = Camera(height_px=48, width_px=64, vertical_fov_deg=60.0)
    world = AirSimWorld.at(HOST, port, camera=large, actions=MOVES, **QUICK)
    with pytest.raises(ValueError, match="expected images of 64 x 48 pixels, got 32 x 24"):
        placed(world, "embodied-city").observe()
    wide = replace(CAMERA, vertical_fov_deg=80.0)
    with pytest.raises(ValueError, match="expected a camera of 96.42 degrees .* got 75.18"):
        AirSimWorld.at(HOST, port, camera=wide, actions=MOVES, **QUICK).open(["embodied-city"], num_agents=1)
    with pytest.raises(ValueError, match="expected that of the servers"):
        foreign(port).open(["embodied-city"], num_agents=1, camera=large)
