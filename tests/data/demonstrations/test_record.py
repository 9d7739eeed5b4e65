"""Recording demonstrations: what is stored belongs together."""

import numpy as np
import pytest
import torch

from eqa.data.demonstrations.record import Recorder
from eqa.data.questions.spawns import add_spawns, walk_anew
from eqa.envs.actions import Action
from eqa.envs.episode import Episode, Pose, Spawn
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from tests.helpers.small_house import small_house


class CountingEncode:
    """Features that are the mean colour of a frame."""

    identity, map_shape, place_names = "mean-color", (3, 1, 1), None

    def __call__(self, rgb: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(rgb).float().mean((1, 2)).half()


def episode(number: int, start: Pose | None = None) -> Episode:
    view = ((6.3, 0.0, 2.2, 0.0),)
    goal = {"target_object": 4, "target_room": 1, "view_points": view, "goal_radius_m": 0.25}
    spawns = None if start is None else {"start": Spawn(start)}
    return Episode(f"small-{number}", "small-0", "what color is it?", "red", "color", "test", spawns=spawns, **goal)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    house = small_house()

    def lookup(house_id: str) -> House:
        return house

    return Recorder(HouseWorld(lookup), CountingEncode())


def test_a_recording_has_a_frame_a_pose_and_a_distance_for_each_action(recorder: Recorder) -> None:
    with_spawns = add_spawns(small_house(), [episode(0), episode(1, (1.0, 0.0, 2.0, 0.0))])
    recording = recorder("small-0", with_spawns)
    ends = np.cumsum(recording.lengths) - 1
    assert (
        len(recording.actions)
        == len(recording.features)
        == len(recording.poses)
        == len(recording.distance_m)
        == ends[-1] + 1
    )
    assert (recording.actions[ends] == Action.STOP).all() and (recording.distance_m[ends] == 0).all()
    assert recording.episodes[1].start == (1.0, 0.0, 2.0, 0.0)
    for e, first in zip(recording.episodes, np.concatenate([[0], ends[:-1] + 1]), strict=True):
        assert e.start == pytest.approx(tuple(recording.poses[first]))
    again = Recorder(recorder.world, recorder.encode, lambda _, here: walk_anew(small_house(), here, 1))(
        "small-0", with_spawns
    )
    assert [e.start for e in again.episodes] != [e.start for e in with_spawns]
    begins = np.concatenate([[0], np.cumsum(again.lengths)[:-1]])
    assert [e.start for e in again.episodes] == [pytest.approx(tuple(again.poses[first])) for first in begins]
    with pytest.raises(ValueError, match="'small-0': has no walk"):
        recorder("small-0", [episode(0)])
