"""EQA v1's question file: what is written is what its code looks for, and what is read back is what the layout holds."""

import json
import warnings
from dataclasses import replace

import pytest

from eqa.data.benchmarks import lost
from eqa.data.benchmarks.eqa_v1 import from_entry, read_eqa_v1, to_entry, write_eqa_v1
from eqa.envs.episode import Entity
from tests.helpers.hand_episodes import ROOM, SOFA, assert_streams, bare, episode

NOT_HELD = {
    "source",
    "view_points",
    "goal_radius_m",
    "goal_turn_rad",
    "spawns",
    "walk",
    "program",
}


def foreign() -> dict:
    """A file as EQA v1's own code makes it: ids that run on, rooms with lists of names, numbers for answers."""
    sofa = {"min": [38.5, 0.05, 35.2], "max": [40, 0.9, 36.1]}
    room = {"min": [35.0, 0.0, 33.0], "max": [41.0, 2.7, 39.5]}
    common = {"house": "0004d52d1aeeb8ae6de39d6bd993e992", "meta": {}, "accept": True, "entropy": 0.8, "count": 9}
    where = {
        "id": 7010,
        "question": "what room is the coffee table located in?",
        "answer": "living room",
        "type": "location",
        "meta": {"mat": ["wood_1"]},
        "bbox": [
            {"type": "object", "box": sofa, "name": "coffee_table", "target": True},
            {"type": "room", "box": room, "name": ["Living_Room", "Dining_Room"], "target": False},
        ],
    }
    count = {
        "id": 7011,
        "question": "How many living rooms are in the house",
        "answer": 1,
        "type": "room_count",
        "bbox": [{"type": "room", "box": room, "name": ["Living_Room"], "target": True}],
    }
    absent = {
        "id": 7012,
        "question": "is there a toilet in the living room?",
        "answer": "no",
        "type": "exist_negative",
        "bbox": [
            {"type": "object", "box": {}, "name": "toilet", "target": True},
            {"type": "room", "box": room, "name": ["Living_Room"], "target": False},
        ],
    }
    entries = [{**common, **entry} for entry in (where, count, absent)]
    return {"questions": {common["house"]: entries}, "splits": {"train": [], "val": [common["house"]], "test": []}}


def test_what_is_written_comes_back_but_for_what_the_layout_cannot_hold(tmp_path):
    path = tmp_path / "eqa_v1.json"
    splits = {"train": [episode(0), episode(17), bare(3)], "val": [episode(2, "val-00000", answer="3")], "test": []}
    write_eqa_v1(path, splits)
    read = read_eqa_v1(path)
    assert {split: len(found) for split, found in read.items()} == {"train": 3, "val": 1, "test": 0}
    for split, episodes in splits.items():
        for before, after in zip(episodes, read[split], strict=True):
            assert set(lost(before, after)) <= NOT_HELD
            assert after.source == "eqa_v1"
    assert set(lost(episode(0), read["train"][0])) == NOT_HELD
    assert read["train"][0].touched == (SOFA, ROOM)
    assert lost(bare(3), read["train"][2]) == ["source"]


def test_the_file_has_what_the_original_code_looks_up(tmp_path):
    path = tmp_path / "eqa_v1.json"
    write_eqa_v1(path, {"train": [episode(5, answer="4")], "human": [episode(6, "human-00001")]})
    document = json.loads(path.read_text())
    assert document["splits"] == {"train": ["train-00003"], "val": [], "test": [], "human": ["human-00001"]}
    (question,) = document["questions"]["train-00003"]
    assert (question["id"], question["house"], question["answer"], question["meta"]) == (5, "train-00003", 4, {})
    assert (question["question"], question["type"]) == ("what color is the sofa in the living room?", "color_room")
    (thing,) = [one for one in question["bbox"] if one["type"] == "object" and one["target"] is True]
    assert thing["box"] == {"min": [0.5, 0.0, 3.0], "max": [2.5, 0.75, 4.0]} and thing["name"] == "sofa"
    (room,) = [one for one in question["bbox"] if one["type"] == "room" and one["target"] is False]
    assert room["name"] == ["living room"] and room["box"]["max"] == [6.0, 2.5, 5.0]


def test_a_file_of_the_original_code_is_read(tmp_path):
    path = tmp_path / "eqa_v1.json"
    path.write_text(json.dumps(foreign()))
    read = read_eqa_v1(path)
    where, count, absent = read["val"]
    assert not read["train"] and not read["test"]
    assert where.episode_id == "0004d52d1aeeb8ae6de39d6bd993e992-7010" and where.frame == "suncg"
    assert where.question == "what room is the coffee table located in?" and where.answer == "living room"
    assert where.touched == (
        Entity("object", "coffee_table", (38.5, 0.05, 35.2), (40, 0.9, 36.1), is_target=True),
        Entity("room", "Living_Room / Dining_Room", (35.0, 0.0, 33.0), (41.0, 2.7, 39.5)),
    )
    assert where.start is None and where.view_points is None and where.target_object is None
    assert (count.question, count.answer) == ("how many living rooms are in the house?", "1")
    assert absent.touched is None, "a toilet that is not there has no box, so not all that was touched is known"
    again = tmp_path / "again.json"
    write_eqa_v1(again, read)
    assert read_eqa_v1(again) == read
    assert (
        json.loads(again.read_text())["questions"][where.scene_id][0]["bbox"]
        == foreign()["questions"][where.scene_id][0]["bbox"]
    )


@pytest.mark.parametrize(
    ("answer", "written"), [("0", 0), ("12", 12), ("007", "007"), ("-1", "-1"), ("living room",) * 2]
)
def test_whole_numbers_are_numbers_in_the_file_and_texts_in_episodes(answer, written):
    entry = to_entry(bare(answer=answer))
    assert entry["answer"] == written and type(entry["answer"]) is type(written)
    assert from_entry(json.loads(json.dumps(entry))).answer == answer


def test_underscores_in_answers_are_spaces_as_the_original_code_takes_both_for_one():
    assert from_entry({**to_entry(bare()), "answer": "dining_room"}).answer == "dining room"


@pytest.mark.parametrize("frame", ["house", "habitat", "suncg"])
def test_the_file_says_whose_coordinates_it_has_unless_they_are_suncg_s(tmp_path, frame):
    path = tmp_path / "eqa_v1.json"
    write_eqa_v1(path, {"train": [bare(frame=frame)]})
    assert json.loads(path.read_text()).get("frame", "suncg") == frame
    assert ("frame" in json.loads(path.read_text())) == (frame != "suncg")
    assert read_eqa_v1(path)["train"][0].frame == frame


def test_several_rooms_leave_it_open_which_is_the_target_s():
    other = replace(ROOM, id=5)
    assert from_entry(to_entry(episode(touched=(SOFA, ROOM)))).target_room == 2
    assert from_entry(to_entry(episode(touched=(SOFA, ROOM, other)))).target_room is None


def test_a_set_is_never_in_memory_as_a_whole(tmp_path):
    assert_streams(lambda episodes: write_eqa_v1(tmp_path / "eqa_v1.json", {"train": episodes}), tmp_path)


@pytest.mark.parametrize(
    ("splits", "complaint"),
    [
        ({"train": [episode(0), bare(0), episode(1)]}, "'train-00003'.*one after another.*some before in train"),
        ({"train": [episode(0)], "val": [episode(1)]}, "'train-00003' in split val.*some before in train"),
        ({"train": [episode(0), episode(0)]}, "'train-00003'.*different ids, got 0 twice"),
        ({"train": [episode(0), bare(frame="suncg")]}, r"one frame in a file, got \['house', 'suncg'\]"),
        ({"train": [replace(bare(), episode_id="first")]}, "'first'.*an id that ends in one"),
    ],
    ids=["house again", "house in two splits", "id again", "two frames", "id without number"],
)
def test_what_cannot_be_written_is_refused_and_the_old_file_stays(tmp_path, splits, complaint):
    path = tmp_path / "eqa_v1.json"
    path.write_text("old")
    with pytest.raises(ValueError, match=complaint):
        write_eqa_v1(path, splits)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["eqa_v1.json"]


def set_in(document: dict, place: tuple, value: object) -> None:
    *way, last = place
    for key in way:
        document = document[key]
    if value is ...:
        del document[last]
    else:
        document[last] = value


HOUSE = "0004d52d1aeeb8ae6de39d6bd993e992"
FIRST = ("questions", HOUSE, 0)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("questions",), ..., "expected the key 'questions'"),
        (("splits",), ..., "expected the key 'splits'"),
        (("splits",), [], "splits: expected an object"),
        (("splits", "val"), HOUSE, "splits.val: expected a list of house ids"),
        (("splits", "train"), [HOUSE], "expected in one split, got it in train and val"),
        (("frame",), "moon", "frame: expected one of .*'moon'"),
        ((*FIRST, "house"), "other", "'other'"),
        ((*FIRST, "answer"), ..., "expected the key 'answer'"),
        ((*FIRST, "answer"), 1.5, "answer: expected a text or a whole number, got 1.5"),
        ((*FIRST, "id"), "7010", "id: expected a whole number, got '7010'"),
        ((*FIRST, "id"), 7011, "different ids, got 7011 twice"),
        ((*FIRST, "question"), None, "question: expected a text, got None"),
        ((*FIRST, "bbox"), {}, "bbox: expected a list"),
        ((*FIRST, "bbox", 0, "target"), ..., "expected the key 'target'"),
        ((*FIRST, "bbox", 0, "type"), "wall", "type: expected object or room, got 'wall'"),
        ((*FIRST, "bbox", 0, "name"), 3, "name: expected a text or texts"),
        ((*FIRST, "bbox", 0, "id"), "a", "id: expected a whole number, got 'a'"),
        ((*FIRST, "bbox", 0, "box", "min"), [1, 2], "box.min: expected three numbers"),
        ((*FIRST, "bbox", 0, "box", "max"), ..., "expected the key 'max'"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, place, value, complaint):
    path, document = tmp_path / "eqa_v1.json", foreign()
    set_in(document, place, value)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"eqa_v1.json: not a usable eqa_v1.json.*{complaint}"):
        read_eqa_v1(path)


@pytest.mark.parametrize("text", ["", "[]", '{"questions": {'])
def test_a_file_that_is_cut_off_or_none_is_refused_by_name(tmp_path, text):
    path = tmp_path / "eqa_v1.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="eqa_v1.json: not a usable"):
        read_eqa_v1(path)
    with pytest.raises(ValueError, match="gone.json: not a usable"):
        read_eqa_v1(tmp_path / "gone.json")


def test_houses_in_no_split_are_left_out_with_a_warning(tmp_path):
    path, document = tmp_path / "eqa_v1.json", foreign()
    path.write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_eqa_v1(path)
    document["splits"]["val"] = []
    path.write_text(json.dumps(document))
    with pytest.warns(UserWarning, match=f"left out 3 questions of houses in no split, such as '{HOUSE}'"):
        assert not any(read_eqa_v1(path).values())
