"""The stand-in server: AirSim's calls do what AirSim's do, and nothing that it is sent ends it."""

import io
import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')

from eqa.envs.airsim.calls import CALLS
from eqa.envs.airsim.client import Client
from eqa.envs.airsim.flight import Flight
from eqa.envs.airsim.frames import from_ned, to_ned
from eqa.envs.airsim.protocol import (
    DEPTH,
    SCENE,
    SEGMENTATION,
    Malformed,
    Refused,
    image_request,
    pose,
    read_pose,
    request,
)
from eqa.envs.airsim.server import MAX_CONNECTIONS, MAX_WRONG, camera_of
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from tests.helpers.airsim_serving import HOST, Serving, served_houses

ROOT = Path(__file__).parents[3]
CAMERA = Camera(height_px=24, width_px=32, vertical_fov_deg=60.0)
START = (2.0, 0.0, 2.0, 0.0)


@pytest.fixture(scope="module")
def world() -> HouseWorld:
    return served_houses(CAMERA)


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    made = Serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def port(serving: Serving, world: HouseWorld) -> int:
    return serving.start(Flight(world, "small-0", start=START, clock_speed=200.0))


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    made = Client(HOST, port, timeout_s=20.0)
    made.call("simLoadLevel", "small-0")
    made.call("simPause", False)
    yield made
    made.close()


def at(x: float, z: float, heading: float = 0.0, y: float = 0.0) -> dict:
    (position,), (turn,) = to_ned(np.array([[x, y, z, heading]]))
    return pose(position, turn)


def where(client: Client) -> np.ndarray:
    position, turn = read_pose(client.call("simGetVehiclePose", ""))
    return from_ned(position[None], turn[None])[0]


def test_it_says_its_versions_and_that_it_stands_in_for_airsim(client: Client) -> None:
    client.confirm()
    assert [client.call(f"get{name}Version") for name in ("Server", "Client", "MinRequiredServer")] == [4, 4, 1]
    told = json.loads(client.call("getSettingsString"))
    assert told["Eqa"]["Scene"] == "small-0" and "not AirSim" in told["Eqa"]["Server"]
    assert told["CameraDefaults"]["CaptureSettings"][0]["Width"] == 32
    assert client.call("listVehicles") == ["drone"]


def test_a_drone_is_where_it_was_set_and_starts_again_at_reset(client: Client) -> None:
    client.call("simSetVehiclePose", at(1.0, 1.75, 2.5), True, "")
    np.testing.assert_allclose(where(client), [1.0, 0.0, 1.75, 2.5], atol=1e-12)
    found = client.call("simGetGroundTruthKinematics", "drone")
    assert found["position"] == {"x_val": -1.75, "y_val": 1.0, "z_val": -0.0}
    assert set(found["linear_velocity"].values()) == {0.0}
    client.call("simSetVehiclePose", {**at(2.0, 2.5), "orientation": at(0, 0, math.nan)["orientation"]}, True, "")
    np.testing.assert_allclose(where(client), [2.0, 0.0, 2.5, 2.5], atol=1e-12)  # not a number: left as it was
    client.call("reset")
    np.testing.assert_allclose(where(client), START, atol=1e-12)


@pytest.mark.parametrize(("x", "z", "y"), ((-50.0, 2.0, 0.0), (1.5, 0.6, 0.0), (2.0, 2.0, 30.0), (1e300, 0, 0)))
def test_a_place_where_nobody_can_be_is_refused_and_the_drone_stays(
    client: Client, x: float, z: float, y: float
) -> None:
    before = where(client)
    with pytest.raises(Refused, match="expected a free place inside of small-0|expected finite"):
        client.call("simSetVehiclePose", at(x, z, y=y), True, "")
    np.testing.assert_array_equal(where(client), before)


def test_images_of_one_request_are_what_the_world_draws_there(client: Client, world: HouseWorld) -> None:
    simulator = world.open(["small-0"], num_agents=1)
    for heading in (0.0, 1.0, 4.0):
        client.call("simSetVehiclePose", {**at(2.0, 2.0, heading), "heading_rad": heading}, True, "")
        wanted = simulator.look(
            np.zeros(1, np.int64), np.array([[2.0, 0, 2.0, heading]]), ("rgb", "depth", "instance_id")
        )
        rgb, depth, things = client.images("0", (SCENE, DEPTH, SEGMENTATION))
        np.testing.assert_array_equal(rgb.pixels[..., ::-1], wanted["rgb"][0])
        np.testing.assert_array_equal(depth.pixels, wanted["depth"][0])
        np.testing.assert_array_equal(things.pixels[..., 0], wanted["instance_id"][0])
        assert not things.pixels[..., 1:].any() and rgb.time_ns == depth.time_ns


def test_compressed_images_are_pngs_of_the_same_colours(client: Client) -> None:
    client.call("simSetVehiclePose", at(2.0, 2.0, 1.0), True, "")
    (plain_one,) = client.images("0", (SCENE,))
    (packed,) = client.call("simGetImages", [{**image_request("0", SCENE), "compress": True}], "")
    for file in (packed.pixels, client.call("simGetImage", "0", SCENE, "", "")):
        np.testing.assert_array_equal(np.asarray(Picture.open(io.BytesIO(file))), plain_one.pixels[..., ::-1])


def test_things_have_names_poses_and_numbers_in_segmentation(client: Client) -> None:
    assert client.call("simListSceneObjects", ".*") == ["sofa_1", "rug_2", "table_3", "refrigerator_4"]
    assert client.call("simListSceneObjects", "r.*g.*") == ["rug_2", "refrigerator_4"]
    assert client.call("simListSceneObjects", "sofa") == []
    found, _ = read_pose(client.call("simGetObjectPose", "sofa_1", True))
    np.testing.assert_allclose(found[:2], [-0.6, 1.5], atol=1e-9)
    assert math.isnan(client.call("simGetObjectPose", "ship_9", True)["position"]["x_val"])
    assert client.call("simSetSegmentationObjectID", "sofa.*", 70000, True) is True
    assert client.call("simGetSegmentationObjectID", "sofa_1") == 70000
    client.call("simSetVehiclePose", at(2.0, 2.5, 0.0), True, "")
    (things,) = client.images("0", (SEGMENTATION,))
    seen = things.pixels.astype(int) @ [1, 256, 65536]
    assert 70000 in seen and 1 not in seen
    assert client.call("simSetSegmentationObjectID", "sofa_1", 1, False) is True
    assert client.call("simSetSegmentationObjectID", "ship_9", 1, False) is False


def test_the_camera_is_above_the_drone_and_as_wide_as_it_says(client: Client) -> None:
    client.call("simSetVehiclePose", at(2.0, 2.0), True, "")
    told = client.call("simGetCameraInfo", "front_center", "")
    assert told["fov"] == pytest.approx(math.degrees(2 * math.atan(math.tan(math.radians(30)) * 32 / 24)))
    place, _ = read_pose(told["pose"])
    np.testing.assert_allclose(place, [-2.0, 2.0, -CAMERA.height_m], atol=1e-12)
    (image,) = client.images("0", (SCENE,))
    assert image.position == told["pose"]["position"] and image.orientation == told["pose"]["orientation"]


def fly(client: Client, x: float, z: float, speed: float = 2.0, limit: float = 1e38, forward: int = 0) -> bool:
    mode = {"is_rate": True, "yaw_or_rate": 0.0}
    return client.call("moveToPosition", -z, x, 0.0, speed, limit, forward, mode, -1, 1, "")


def test_motions_need_control_and_end_where_they_should(client: Client) -> None:
    with pytest.raises(Refused, match="enableApiControl"):
        fly(client, 3.0, 2.0)
    assert client.call("armDisarm", True, "") is False
    client.call("enableApiControl", True, "")
    assert client.call("isApiControlEnabled", "") is True and client.call("armDisarm", True, "") is True
    assert fly(client, 3.0, 2.0, forward=1) is True
    np.testing.assert_allclose(where(client), [3.0, 0.0, 2.0, 1.5 * np.pi], atol=1e-9)
    assert client.call("rotateToYaw", -90.0, 1e38, 5, "") is True
    np.testing.assert_allclose(where(client), [3.0, 0.0, 2.0, 0.5 * np.pi], atol=1e-9)


def test_a_flight_ends_at_what_stands_in_its_way(client: Client) -> None:
    client.call("enableApiControl", True, "")
    client.call("armDisarm", True, "")
    assert client.call("simGetCollisionInfo", "")["has_collided"] is False
    assert fly(client, 2.0, -3.0) is False
    x, _, z, _ = where(client)
    assert x == 2.0 and 0.5 < z < 2.0
    hit = client.call("simGetCollisionInfo", "")
    assert hit["has_collided"] is True and hit["position"]["x_val"] == pytest.approx(-z)
    assert client.call("simGetCollisionInfo", "")["has_collided"] is False  # told once
    client.call("simSetVehiclePose", at(2.0, 2.0), True, "")
    client.call("simSetVehiclePose", at(-9.0, 2.0), False, "")  # up to the wall, no further
    assert 0.0 < where(client)[0] < 1.0 and client.call("simGetCollisionInfo", "")["has_collided"] is True


def test_a_flight_takes_its_time_and_no_more_than_its_limit(client: Client, port: int) -> None:
    client.call("enableApiControl", True, "")
    client.call("armDisarm", True, "")
    assert fly(client, 3.0, 2.0, speed=0.5, limit=1.0) is False
    assert where(client)[0] == pytest.approx(2.5)
    client.call("simPause", True)
    other = Client(HOST, port, timeout_s=20.0)
    waiting = socket.create_connection((HOST, port))
    waiting.sendall(request(1, "moveToPosition", -2.0, 3.0, 0.0, 1.0, 1e38, 0, None, -1, 1, ""))
    while not other.call("simGetGroundTruthKinematics", "")["linear_velocity"]["y_val"]:
        pass
    assert where(other)[0] == pytest.approx(2.5) and other.call("simIsPaused") is True  # others are served meanwhile
    other.call("reset")
    assert waiting.recv(100) == b"\x94\x01\x01\xc0\xc2"  # its answer: false
    waiting.close()
    other.close()


def test_other_scenes_of_the_world_are_levels(client: Client) -> None:
    assert client.call("simLoadLevel", "small-1") is True
    assert client.images("0", (SCENE,))[0].message == "small-1"
    with pytest.raises(Refused, match="none of that name"):
        client.call("simLoadLevel", "../../etc/passwd")


WRONG = (
    ("simSpawnObject", ("cube",), "stand-in has it not"),
    ("__class__", (), "stand-in has it not"),
    ("ping", (1, 2), "number of arguments"),
    ("simGetVehiclePose", ("Car1",), "vehicle"),
    ("simGetImages", ([image_request("downward", SCENE)], ""), "camera"),
    ("simGetImages", ([image_request("0", 7)], ""), "image_type"),
    ("simGetImages", ([{**image_request("0", DEPTH), "pixels_as_float": False}], ""), "pixels_as_float"),
    ("simGetImages", ([image_request("0", SCENE)] * 17, ""), "1 to 16"),
    ("simGetImages", ([], ""), "1 to 16"),
    ("simListSceneObjects", ("(a+)+$",), "expected letters"),
    ("simSetVehiclePose", ({"position": 3}, True, ""), "x_val"),
    ("simSetVehiclePose", ({**at(2, 2), "orientation": at(0, 0)["position"]}, True, ""), "w_val"),
    ("simPause", ("yes",), "true or false"),
    ("simSetSegmentationObjectID", ("sofa_1", -3, False), "object_id"),
    ("simGetImage", ("0", DEPTH, "", ""), "pixels_as_float"),
)


@pytest.mark.parametrize(("method", "arguments", "why"), WRONG)
def test_a_wrong_call_is_answered_with_what_was_expected(
    client: Client, method: str, arguments: tuple, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        client.call(method, *arguments)
    assert client.call("ping") is True


def test_a_stream_of_nonsense_is_told_so_and_closed(port: int) -> None:
    with socket.create_connection((HOST, port), 20) as one:
        one.sendall(b"\x01" * 1000)
        said = b""
        while chunk := one.recv(4096):
            said += chunk
    assert said.count(b"expected [0, id, method, arguments]") == MAX_WRONG
    with socket.create_connection((HOST, port), 20) as one:
        one.sendall(b"\xc1")
        assert b"expected msgpack" in one.recv(4096) and one.recv(1) == b""


def test_a_message_that_never_ends_takes_no_more_than_its_bound(port: int, client: Client) -> None:
    with socket.create_connection((HOST, port), 20) as one:
        one.sendall(b"\xdd\xff\xff\xff\xff")
        one.sendall(b"\x01" * 2**19)
        assert client.call("ping") is True
        with pytest.raises(OSError):
            for _ in range(100):
                one.sendall(b"\x01" * 2**16)
                client.call("ping")
    assert client.call("ping") is True


def test_connections_are_bounded_and_free_again_when_closed(port: int, client: Client) -> None:
    crowd = [socket.create_connection((HOST, port), 20) for _ in range(MAX_CONNECTIONS)]
    late = [one for one in crowd if _told_to_wait(one)]
    assert late and len(crowd) - len(late) >= MAX_CONNECTIONS - 2
    for one in crowd:
        one.close()
    assert client.call("ping") is True
    again = Client(HOST, port, timeout_s=20.0)
    for _ in range(100):
        try:
            assert again.call("ping") is True
            break
        except (OSError, Malformed):
            continue
    again.close()


def _told_to_wait(one: socket.socket) -> bool:
    one.settimeout(0.05)
    try:
        return b"close others first" in one.recv(200)
    except TimeoutError:
        return False


def nonsense(rng: np.random.Generator, depth: int = 0) -> object:
    """A random plain value, such as nobody sends."""
    some = (None, True, -1, 2**63, 1.5, math.nan, math.inf, "", "0", "drone", ".*", b"\0\xff", "x" * 300)
    kind = rng.integers(0, 4 if depth < 3 else 2)
    if kind == 0:
        return some[rng.integers(len(some))]
    if kind == 1:
        return int(rng.integers(-5, 5))
    if kind == 2:
        return [nonsense(rng, depth + 1) for _ in range(rng.integers(0, 4))]
    names = ("position", "orientation", "x_val", "camera_name", "image_type", "compress", "heading_rad", "w_val")
    return {names[rng.integers(len(names))]: nonsense(rng, depth + 1) for _ in range(rng.integers(0, 4))}


def attack(rng: np.random.Generator) -> bytes:
    """Random bytes, a damaged request, or a call of a real method with random arguments."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return rng.bytes(rng.integers(1, 40))
    names = [name for name in CALLS if name != "simPause"]
    whole = request(1, names[rng.integers(len(names))], *[nonsense(rng) for _ in range(rng.integers(0, 5))])
    if kind == 1:
        return whole
    damaged = bytearray(whole)
    for place in rng.integers(0, len(whole), rng.integers(1, 4)):
        damaged[place] = rng.integers(0, 256)
    return bytes(damaged if kind == 2 else damaged[: rng.integers(1, len(whole) + 1)])


def test_ten_thousand_malformed_messages_leave_it_serving(port: int, client: Client) -> None:
    rng = np.random.default_rng(0)
    for number in range(10_000):
        with socket.create_connection((HOST, port), 20) as one:
            one.sendall(attack(rng))
            one.shutdown(socket.SHUT_WR)
            while one.recv(2**16):  # until the server has had enough of it
                pass
        if number % 500 == 0:
            assert client.call("ping") is True
    client.call("simLoadLevel", "small-0")
    client.call("simSetVehiclePose", at(2.0, 2.0, 1.0), True, "")
    assert client.images("0", (SCENE,))[0].pixels.any()


def test_a_port_in_use_takes_one_line(port: int) -> None:
    command = [sys.executable, "-m", "eqa.envs.airsim.server", "--port", str(port)]
    taken = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert taken.returncode == 1 and taken.stderr.count("\n") == 1
    assert f"port {port} of 127.0.0.1 is in use" in taken.stderr


def test_a_camera_is_named_as_in_the_configuration() -> None:
    assert camera_of(["width_px=64", "pitch_rad=-0.5"], CAMERA) == replace(CAMERA, width_px=64, pitch_rad=-0.5)
    for words, why in ((["size=3"], "expected some of height_px"), (["width_px=wide"], "width_px: expected a number")):
        with pytest.raises(ValueError, match=why):
            camera_of(words, CAMERA)
