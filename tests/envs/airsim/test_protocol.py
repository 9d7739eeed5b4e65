"""Messages of AirSim's protocol survive any cutting of the stream, images come back as they were, and nonsense is refused."""

import math

import numpy as np
import pytest

msgpack = pytest.importorskip("msgpack", reason='needs msgpack: pip install -e ".[airsim]"')

from eqa.envs.airsim.protocol import (
    DEPTH,
    FAR_M,
    SCENE,
    Image,
    Malformed,
    Messages,
    Refused,
    answer_of,
    failure,
    image_request,
    plain,
    pose,
    read_pose,
    request,
    response,
)

PLACE = pose((1.0, 2.0, -3.0), (1.0, 0.0, 0.0, 0.0))


def image(pixels: np.ndarray, kind: int = SCENE) -> Image:
    height, width = pixels.shape[:2]
    return Image(kind, pixels, width, height, "0", PLACE["position"], PLACE["orientation"], 5, "here")


def test_a_request_is_a_list_of_four() -> None:
    assert plain(request(7, "simGetImages", [image_request("0", DEPTH)], "")) == [
        0,
        7,
        "simGetImages",
        [
            [
                {
                    "camera_name": "0",
                    "image_type": 1,
                    "pixels_as_float": True,
                    "compress": False,
                    "annotation_name": "",
                }
            ],
            "",
        ],
    ]


@pytest.mark.parametrize("size", (1, 3, 64, 10_000))
def test_messages_are_whole_again_however_the_stream_is_cut(size: int) -> None:
    sent = [request(number, "ping", "x" * number, list(range(number))) for number in range(50)]
    stream, messages, found = b"".join(sent), Messages(2**16), []
    for first in range(0, len(stream), size):
        found += messages.feed(stream[first : first + size])
    assert found == sent


def test_a_message_that_is_too_long_or_none_is_refused() -> None:
    with pytest.raises(Malformed, match="up to 1000 bytes"):
        list(Messages(1000).feed(request(1, "ping", "x" * 1000)))
    with pytest.raises(Malformed):
        list(Messages().feed(b"\xc1"))
    assert list(Messages(1000).feed(b"\xdd\xff\xff\xff\xff")) == []  # it waits for a list of four thousand million
    assert list(Messages().feed(b"\xdd\xff\xff\xff\xff")) == []


@pytest.mark.parametrize(
    "raw", (b"\xa2\xff\xff", b"\x81\x90\x01", b"\xd6\xff\0\0\0\1", b"\x91" * 2000 + b"\1", msgpack.packb([0] * 100))
)
def test_a_message_of_other_than_plain_values_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        plain(raw, max_items=64)


def test_colours_and_depth_come_back_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    depth = rng.uniform(0.05, 400, (12, 16)).astype(np.float32)
    depth[:3] = 0.0  # the sky
    packed = response(3, [image(colours), image(depth, DEPTH)])
    seen, measured = answer_of(packed, number=3)
    np.testing.assert_array_equal(seen.pixels, colours)
    np.testing.assert_array_equal(measured.pixels, depth)
    assert (seen.width, seen.height, seen.message, seen.position) == (16, 12, "here", PLACE["position"])
    raw = msgpack.unpackb(packed)[3][1]
    assert raw["image_data_float"][0] == FAR_M and raw["image_data_uint8"] == b"\0"
    assert len(raw["image_data_float"]) == 12 * 16 and raw["pixels_as_float"]


def test_depth_of_another_packer_is_read_too() -> None:
    fields = {"image_type": 1, "width": 2, "height": 2, "pixels_as_float": True, "compress": False}
    fields |= {"image_data_uint8": b"", "image_data_float": [1.5, 70000.0, math.inf, 3]}
    (found,) = answer_of(msgpack.packb([1, 9, None, [fields]]), number=9)
    assert found.pixels.tolist() == [[1.5, 0.0], [0.0, 3.0]]


@pytest.mark.parametrize(
    "changed",
    ({"width": 5}, {"width": -2}, {"image_data_float": ["far"] * 4}, {"image_data_float": None}, {"height": "tall"}),
)
def test_an_image_that_does_not_fit_its_size_is_refused(changed: dict) -> None:
    fields = {"image_type": 1, "width": 2, "height": 2, "pixels_as_float": True, "compress": False}
    fields |= {"image_data_uint8": b"", "image_data_float": [1.0] * 4, **changed}
    with pytest.raises(Malformed):
        answer_of(msgpack.packb([1, 9, None, [fields]]), number=9)


def test_an_answer_with_an_error_is_told_in_its_words() -> None:
    with pytest.raises(Refused, match="no such thing"):
        answer_of(failure(4, "no such thing"), number=4)
    assert answer_of(response(4, {"a": [1, None]}), number=4) == {"a": [1, None]}
    for message in (response(5, True), b"\x01", msgpack.packb([1, 4]), msgpack.packb({}), request(4, "ping")):
        with pytest.raises(Malformed):
            answer_of(message, number=4)


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_are_never_taken_for_an_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = response(4, [image(np.zeros((2, 2), np.float32), DEPTH)])
    for _ in range(500):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 6)):
            damaged[place] = rng.integers(0, 256)
        try:
            answer_of(bytes(damaged[: rng.integers(1, len(whole) + 1)]), number=4)
        except (Malformed, Refused):
            pass


@pytest.mark.parametrize(
    "value", (None, 3, {}, {"position": {}, "orientation": {}}, {**PLACE, "position": {"x_val": "1"}}, [1, 2])
)
def test_a_pose_of_other_values_is_refused(value: object) -> None:
    with pytest.raises(Malformed):
        read_pose(value)
    place, turn = read_pose(PLACE)
    assert place.tolist() == [1, 2, -3] and turn.tolist() == [1, 0, 0, 0]
