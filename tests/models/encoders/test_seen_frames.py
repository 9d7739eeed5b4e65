"""Each pose's frame is encoded once, and every view gets its own features."""

import numpy as np
import pytest
import torch

from eqa.models.encoders.seen_frames import SeenFrames
from tests.helpers.toy_room import ToyRooms

pytestmark = pytest.mark.usefixtures("single_thread")


class Counting:
    """An encoder that counts its frames."""

    def __init__(self, encode) -> None:
        self.encode, self.frames = encode, 0

    def __call__(self, rgb: torch.Tensor) -> torch.Tensor:
        self.frames += len(rgb)
        return self.encode(rgb)


def test_a_pose_is_encoded_once_in_each_scene_and_demonstrations_not_at_all() -> None:
    source = ToyRooms()
    demos, encode = source.demonstrations("train"), Counting(source.encode)
    scenes = [e.scene_id for e in demos.episodes]
    other = next(row for row, scene in enumerate(scenes) if scene != scenes[0])
    frames, size = SeenFrames(encode, demos), source.encode.encoder.feature_size
    rng = np.random.default_rng(0)
    rgb = torch.from_numpy(rng.integers(0, 256, (5, 64, 64, 3), dtype=np.uint8))
    rgb[3] = rgb[1]
    poses = np.arange(20.0).reshape(5, 4)
    poses[3] = poses[1]
    views = [scenes[0]] * 4 + [scenes[other]]
    poses[4] = poses[0]
    for encoded in (4, 4):
        assert frames(rgb, views, poses).equal(source.encode(rgb)) and encode.frames == encoded
    assert (
        frames(rgb[[4, 0]], [views[4], views[0]], poses[[4, 0]]).equal(source.encode(rgb[[4, 0]]))
        and encode.frames == 4
    )

    frames.take_up([other, 0, 0])
    walk = demos.rows(other)
    drawn = torch.zeros(len(demos.poses[walk]), 64, 64, 3, dtype=torch.uint8)
    seen = frames(drawn, [scenes[other]] * len(drawn), demos.poses[walk])
    assert seen.shape == (len(drawn), size) and np.array_equal(seen.numpy(), demos.features[walk])
    assert encode.frames == 4

    frames.forget()
    assert frames(rgb, views, poses).equal(source.encode(rgb)) and encode.frames == 8
