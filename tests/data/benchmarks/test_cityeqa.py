"""CityEQA's question file: what is written comes back, frames are turned rightly, and every damage is named with its place."""

import json
from dataclasses import replace
from math import nan, pi
from pathlib import Path

import numpy as np
import pytest

from eqa.data.benchmarks import lost
from eqa.data.benchmarks.cityeqa import CATEGORIES, CityEQA, from_entry, read_cityeqa, to_entry, write_cityeqa
from eqa.data.questions.city.sentences import Asking
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Episode
from tests.helpers.hand_episodes import assert_streams


def record(number: int = 7, **changes) -> dict:
    """A record in the file's form; `changes` are its keys."""
    return {
        "question_id": number,
        "question": "There is a building to the west of you. To the north of the building, there is a shop with a red sign. "
        "Please tell me What's the name of the shop?",
        "answer": "Corner Books",
        "category": "Attribute Recognition",
        "observation_pose": [-20, 40, 8, 0, 0, 270],
        "target_pose": [-33, 40, 5, 0, 0, 0],
        "initial_pose": [12, 3, 5, 0, 0, 270],
    } | changes


def written(folder: Path, records: object, name: str = "CityEQA_EC.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(records))
    return path


def test_a_record_is_an_episode_in_our_frame() -> None:
    episode = from_entry(record())
    assert episode.start == (12.0, 5.0, -3.0, pi / 2)  # 5 m up, 3 m north is -Z; west is a turn to the left of north
    assert episode.view_points == ((-20.0, 8.0, -40.0, pi / 2),)
    assert episode.target_point == (-33.0, 5.0, -40.0) and episode.touched[0].name == "a shop with a red sign"
    assert (episode.question_type, episode.answer, episode.frame) == ("attribute_recognition", "corner books", "airsim")
    asking = Asking.parse(episode.question)
    assert (asking.landmark_side, asking.target_side) == ("west", "north")
    assert asking.asked == "what's the name of the shop" and asking.text == episode.question


@pytest.mark.parametrize(("yaw", "ahead"), [(0, (0, -1)), (90, (1, 0)), (180, (0, 1)), (270, (-1, 0)), (-90, (-1, 0))])
def test_a_yaw_looks_where_it_does_in_the_file(yaw: int, ahead: tuple[int, int]) -> None:
    *_, heading = from_entry(record(initial_pose=[0, 0, 5, 0, 0, yaw])).start
    assert np.allclose((-np.sin(heading), -np.cos(heading)), ahead) and 0 <= heading < 2 * pi
    HOUSE_ACTIONS.heading_indices(np.array([heading]))  # a whole number of turns


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_written_comes_back(tmp_path: Path, category: str) -> None:
    poses = {"initial_pose": [12.5, 3.25, 5.0, 0, 0, 30.0], "observation_pose": [-20, 40, 8.125, 0, 0, 359]}
    before = [from_entry(record(n, category=category, **poses)) for n in (0, 1)]
    write_cityeqa(tmp_path / "test.json", before)
    after = read_cityeqa(tmp_path / "test.json")
    assert [lost(*pair) for pair in zip(before, after, strict=True)] == [[], []]
    again = to_entry(after[0], number=0)
    assert again["initial_pose"] == pytest.approx(poses["initial_pose"]) and again["category"] == category


def test_whole_poses_are_written_as_in_the_file() -> None:
    again = to_entry(from_entry(record()), number=7)
    assert {name: again[name] for name in ("observation_pose", "target_pose", "initial_pose")} == {
        name: record()[name] for name in ("observation_pose", "target_pose", "initial_pose")
    }
    assert all(type(number) is int for number in again["initial_pose"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"initial_pose": [12, 3, 5, 0, 0]}, r"\[0\]\.initial_pose: expected at least 6 numbers"),
        ({"target_pose": [12, 3, 5, 0, 0, 270, 1]}, r"target_pose: expected 6 numbers"),
        ({"observation_pose": [12, "3", 5, 0, 0, 270]}, r"observation_pose\[1\]: expected a finite number, got \"3\""),
        ({"observation_pose": [12, nan, 5, 0, 0, 270]}, "NaN"),
        ({"observation_pose": [12, 3, 5, 10, 0, 270]}, r"\[0\]\.observation_pose: expected a pitch and roll of 0, got \[10"),
        ({"category": "Existence Judgment"}, r"\[0\]\.category: expected one of .*'Existence Judgement'.*got 'Existence Judg"),
        ({"level": 3}, r"\[0\]\..*expected no key 'level'"),
        ({"question_id": "7"}, r"question_id: expected a whole number, got \"7\""),
        ({"answer": " "}, r"\[0\]\.answer: expected a text"),
        ({"question": None}, r"question: expected a text, got null"),
    ],
)  # fmt: skip
def test_a_damaged_record_is_refused_with_its_place(tmp_path: Path, changes: dict, told: str) -> None:
    path = written(tmp_path, [record(**changes)])
    with pytest.raises(ValueError, match=told) as error:
        read_cityeqa(path)
    assert str(path) in str(error.value)


def test_a_missing_key_a_number_twice_and_another_document_are_refused(tmp_path: Path) -> None:
    short = record()
    del short["target_pose"]
    for records, told in (
        ([record(), short], r"\[1\]\..*expected the key 'target_pose'"),
        ([record(), record()], r"\[1\]: expected another number than before"),
        ({"questions": []}, "expected a list of records"),
        ([[1]], r"\[0\]\.record: expected an object"),
    ):
        with pytest.raises(ValueError, match=told):
            read_cityeqa(written(tmp_path, records))


def test_an_episode_without_what_the_file_needs_is_refused() -> None:
    whole = from_entry(record())
    for name in ("spawns", "view_points", "touched"):
        bare = Episode.from_dict(whole.to_dict() | {name: None})
        with pytest.raises(ValueError, match=r"episode '7'\.\w+: expected one, as CityEQA has it"):
            to_entry(bare, number=0)
    with pytest.raises(ValueError, match=r"question_type: expected one of .*, got 'color'"):
        to_entry(Episode.from_dict(whole.to_dict() | {"question_type": "color"}), number=0)


def test_episodes_are_written_one_at_a_time(tmp_path: Path) -> None:
    kind = {"question_type": "counting", "touched": from_entry(record()).touched}
    path = tmp_path / "test.json"
    assert_streams(
        lambda episodes: write_cityeqa(path, (replace(Episode.from_dict(e.to_dict()), **kind) for e in episodes)),
        tmp_path,
    )


def test_a_file_is_test_unless_its_name_is_a_split(tmp_path: Path) -> None:
    written(tmp_path, [record()])
    assert CityEQA(path=tmp_path / "CityEQA_EC.json").splits == ["test"]
    written(tmp_path, [record(answer="Red")], "train.json")
    source = CityEQA(path=tmp_path, scene_id="city")
    assert sorted(source.splits) == ["test", "train"] and source.vocabulary.answers == ("red",)
    assert source.episodes("train")[0].scene_id == "city"
    written(tmp_path, [record()], "other.json")
    with pytest.raises(ValueError, match="expected one file for test, got CityEQA_EC.json and other.json"):
        _ = CityEQA(path=tmp_path).splits


def test_a_world_of_houses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="env=airsim plays"):
        _ = CityEQA(path=written(tmp_path, [record()])).world
