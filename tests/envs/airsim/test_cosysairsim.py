"""Cosys-AirSim's own Python client flies in the stand-in server; skipped where it is not installed."""

import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')
airsim = pytest.importorskip("cosysairsim", reason="needs Cosys-AirSim's client: pip install cosysairsim")

from eqa.envs.airsim.flight import Flight
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from tests.helpers.airsim_serving import HOST, Serving
from tests.helpers.small_house import small_house

CAMERA = Camera(height_px=24, width_px=32, vertical_fov_deg=60.0)
START = (2.0, 0.0, 2.0, 0.0)


@pytest.fixture(scope="module")
def world() -> HouseWorld:
    return HouseWorld(small_house, camera=CAMERA)


@pytest.fixture(scope="module")
def client(world: HouseWorld) -> Iterator[object]:
    serving = Serving()
    port = serving.start(Flight(world, "small-0", start=START, clock_speed=200.0))
    made = airsim.MultirotorClient(HOST, port, timeout_value=20)
    yield made
    made.client.close()
    serving.close()


@pytest.fixture
def drone(client: object) -> object:
    client.reset()
    return client


def pose(x: float, y: float, z: float, yaw: float) -> object:
    return airsim.Pose(airsim.Vector3r(x, y, z), airsim.euler_to_quaternion(0, 0, yaw))


def test_it_connects_and_finds_its_version(drone: object, capsys: pytest.CaptureFixture) -> None:
    drone.confirmConnection()
    assert "Connected!" in capsys.readouterr().out
    assert drone.ping() is True and drone.getServerVersion() == 4 and "stand-in" in drone.getSettingsString()


def test_it_goes_where_it_is_set_as_cityeqa_sets_it(drone: object) -> None:
    drone.simSetVehiclePose(pose(-1.75, 1.0, 0.0, math.pi / 2), True)
    found = drone.simGetGroundTruthKinematics()
    assert (found.position.x_val, found.position.y_val) == (-1.75, 1.0)
    _, _, yaw = airsim.quaternion_to_euler_angles(found.orientation)
    assert yaw == pytest.approx(math.pi / 2)
    assert drone.simGetVehiclePose().position.y_val == 1.0
    with pytest.raises(Exception, match="expected a free place"):
        drone.simSetVehiclePose(pose(500.0, 0.0, 0.0, 0.0), True)


def test_its_images_are_what_the_world_draws(drone: object, world: HouseWorld) -> None:
    drone.simSetVehiclePose(pose(-2.0, 2.0, 0.0, 0.0), True)
    kinds = airsim.ImageType
    scene, depth, things = drone.simGetImages(
        [
            airsim.ImageRequest("0", kinds.Scene, False, False),
            airsim.ImageRequest("0", kinds.DepthPlanar, True, False),
            airsim.ImageRequest("front_center", kinds.Segmentation, False, False),
        ]
    )
    simulator = world.open(["small-0"], num_agents=1)
    wanted = simulator.look(np.zeros(1, int), np.array([START]), ("rgb", "depth", "instance_id"))
    bgr = np.frombuffer(scene.image_data_uint8, np.uint8).reshape(scene.height, scene.width, 3)
    np.testing.assert_array_equal(bgr[..., ::-1], wanted["rgb"][0])
    metres = np.array(depth.image_data_float, np.float32).reshape(depth.height, depth.width)
    np.testing.assert_array_equal(metres, wanted["depth"][0])
    assert scene.time_stamp == depth.time_stamp == things.time_stamp and things.image_type == kinds.Segmentation
    assert drone.simGetImage("0", kinds.Scene)[:4] == b"\x89PNG"


def test_it_reads_cameras_and_things(drone: object) -> None:
    assert drone.simGetCameraInfo("0").fov == pytest.approx(75.178, abs=1e-3)
    assert drone.simListSceneObjects("sofa.*") == ["sofa_1"]
    assert drone.simGetObjectPose("sofa_1").position.y_val == pytest.approx(1.5)
    assert drone.simSetSegmentationObjectID("sofa_1", 20) is True and drone.simGetSegmentationObjectID("sofa_1") == 20
    drone.simSetSegmentationObjectID("sofa_1", 1)


def test_it_flies_and_turns_and_is_stopped_by_walls(drone: object) -> None:
    drone.enableApiControl(True)
    assert drone.isApiControlEnabled() is True and drone.armDisarm(True) is True
    assert drone.moveToPositionAsync(-2.0, 3.0, 0.0, 1.0).get() is True
    assert drone.simGetVehiclePose().position.y_val == 3.0
    assert drone.rotateToYawAsync(45).get() is True
    assert drone.moveToPositionAsync(-20.0, 3.0, 0.0, 5.0).get() is False
    assert drone.simGetCollisionInfo().has_collided is True
    drone.simPause(True)
    assert drone.simIsPause() is True
    drone.simPause(False)


def test_what_the_stand_in_has_not_is_an_error_in_the_client(drone: object) -> None:
    errors: ModuleType = pytest.importorskip("msgpackrpc.error")
    with pytest.raises(errors.RPCError, match="this stand-in has it not"):
        drone.takeoffAsync().get()
    assert drone.ping() is True
