"""MP3D-EQA files: the layout that habitat-lab reads, our episodes back whole, and foreign ones as far as they go."""

import copy
import gzip
import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from eqa.data.benchmarks import lost
from eqa.data.benchmarks.mp3d_eqa import from_entry, heading_to_rotation, read_mp3d_eqa, to_entry, write_mp3d_eqa
from eqa.data.benchmarks.mp3d_schema import check, check_for_training
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS, ActionSet
from eqa.envs.episode import Entity, Spawn
from eqa.envs.habitat.export import write_house
from eqa.envs.house.catalog import load_catalog
from tests.data.benchmarks.test_eqa_v1 import set_in
from tests.helpers.hand_episodes import START, WALK, assert_streams, bare, episode
from tests.helpers.small_house import small_house

VIEWS = ((1.0, -1.5, 2.0, 0.0),)
EPISODES = [
    episode(0),
    episode(1, walk=None, program=None),
    episode(2, touched=None, spawns={"start": Spawn(START)}, answer="red"),
    bare(3, spawns={"start": Spawn(START)}, view_points=VIEWS, walk="S"),
    bare(4, frame="habitat", spawns={"start": Spawn((START[0], -1.5, *START[2:]))}, view_points=VIEWS, walk="FRS"),
    episode(5, target_object=None, touched=(Entity("room", "kitchen", (0.0, 0.0, 0.0), (1.0, 2.0, 3.0), 2, True),)),
]
WORDS = Vocabulary.of(EPISODES)

# A file in the real one's layout: MP3D's own scene ids, moves of 0.1 m, no `info.eqa`.
FOREIGN = {
    "episodes": [
        {
            "episode_id": "0",
            "scene_id": "mp3d/17DRP5sb8fy/17DRP5sb8fy.glb",
            "start_position": [-0.5, 0.07, 1.2],
            "start_rotation": [0, 0.707, 0, 0.707],
            "info": {"level": 0},
            "goals": [
                {
                    "position": [2, 0.57, -1],
                    "radius": None,
                    "object_id": "12",
                    "object_name": "sofa",
                    "object_category": "sofa",
                    "room_id": "3",
                    "room_name": "living room",
                    "view_points": [{"position": [1.5, 0.07, -0.6], "rotation": [0, 1, 0, 0]}],
                }
            ],
            "start_room": "1",
            "shortest_paths": [
                [
                    {"position": [-0.5, 0.07, 1.2], "rotation": [0, 0.707, 0, 0.707], "action": 0},
                    {"position": [-0.6, 0.07, 1.2], "rotation": [0, 0.707, 0, 0.707], "action": 3},
                ]
            ],
            "question": {
                "question_text": "what color is the sofa in the living room?",
                "answer_text": "brown",
                "question_tokens": [4, 5, 6, 7, 8, 9, 7, 10, 11],
                "answer_token": 1,
                "question_type": "color_room",
            },
        }
    ],
    "question_vocab": {
        "word_list": ["<pad>", "<s>", "</s>", "<unk>", "what", "color", "is", "the", "sofa", "in", "living", "room"]
    },
    "answer_vocab": {"word_list": ["<unk>", "brown", "black"]},
}


def document_of(path: Path) -> dict:
    with gzip.open(path, "rt") as file:
        return json.load(file)


def save(document: dict, path: Path) -> Path:
    with gzip.open(path, "wt") as file:
        json.dump(document, file)
    return path


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "train.json.gz"
    write_mp3d_eqa(path, EPISODES, vocabulary=WORDS)
    return path


def test_our_episodes_come_back_whole(written):
    assert read_mp3d_eqa(written) == EPISODES
    assert [p.name for p in written.parent.iterdir()] == ["train.json.gz"]


def test_the_same_episodes_give_the_same_bytes(written):
    before = written.read_bytes()
    write_mp3d_eqa(written, iter(EPISODES), vocabulary=WORDS)
    assert written.read_bytes() == before and before[4:8] == bytes(4), "no time of writing"


def test_what_is_written_is_what_habitat_lab_takes_and_can_be_trained_on(written):
    document = check(document_of(written))
    with_paths = {**document, "episodes": [e for e in document["episodes"] if e["shortest_paths"]]}
    check_for_training(with_paths)
    assert len(with_paths["episodes"]) == 5
    assert [e["episode_id"] for e in document["episodes"]] == ["0", "1", "2", "3", "4", "5"]


def test_words_are_numbered_as_habitat_numbers_them(written):
    document = document_of(written)
    words, answers = (document[key]["word_list"] for key in ("question_vocab", "answer_vocab"))
    assert words[0] == "<pad>" and {"<pad>", "<s>", "</s>", "<unk>"} == set(words[:4])
    assert answers == ["<unk>", "blue", "kitchen", "red"]
    for entry, given in zip(document["episodes"], EPISODES):
        question = entry["question"]
        assert " ".join(words[token] for token in question["question_tokens"]) + "?" == given.question
        assert answers[question["answer_token"]] == question["answer_text"] == given.answer


def looks_along(rotation) -> np.ndarray:
    """-Z turned by a quaternion (x, y, z, w)."""
    u, w, v = np.array(rotation[:3]), rotation[3], np.array([0.0, 0.0, -1.0])
    return 2 * np.dot(u, v) * u + (w * w - np.dot(u, u)) * v + 2 * w * np.cross(u, v)


def test_a_path_holds_where_each_move_leads_and_its_old_id(written):
    entry = document_of(written)["episodes"][0]
    (path,) = entry["shortest_paths"]
    assert [point["action"] for point in path] == ["FLRS".index(letter) for letter in WALK]
    assert path[0]["position"] == entry["start_position"] == [1.5, 0.0, -2.25]
    assert path[0]["rotation"] == entry["start_rotation"]
    for here, there in pairwise(path):
        ahead = looks_along(here["rotation"])
        if here["action"] == 0:
            assert (
                np.allclose(there["position"], here["position"] + 0.25 * ahead)
                and there["rotation"] == here["rotation"]
            )
        else:
            assert there["position"] == here["position"]
            turned = looks_along(there["rotation"])
            left_of = math.degrees(math.atan2(np.cross(ahead, turned)[1], np.dot(ahead, turned)))
            assert left_of == pytest.approx({1: 9.0, 2: -9.0}[here["action"]])


def test_a_goal_is_the_target_on_its_floor_with_the_places_to_see_it_from(written):
    entries = document_of(written)["episodes"]
    (goal,) = entries[0]["goals"]
    assert goal["position"] == [1.5, 0.0, 3.5] and goal["radius"] == 0.2
    assert (goal["object_id"], goal["object_category"], goal["room_id"]) == ("12", "sofa", "2")
    assert goal["room_name"] == "living room"
    assert [view["position"] for view in goal["view_points"]] == [[1.5, 0, 1.0], [0.75, 0, 1.125], [2.0, 0, 0.5]]
    assert np.allclose(looks_along(goal["view_points"][0]["rotation"]), [0, 0, 1])
    assert entries[2]["goals"][0]["position"] == [1.5, 0.0, 1.0], "the first view point, where no box is known"
    assert entries[4]["goals"][0]["position"] == [1.0, -1.5, 2.0] and entries[4]["start_position"][1] == -1.5
    assert (entries[5]["goals"][0]["object_id"], entries[5]["goals"][0]["room_name"]) == ("", "kitchen")


def test_the_scene_is_what_the_export_of_houses_writes(tmp_path):
    house = small_house()
    scenes = tmp_path / "exported"
    files = {path.name for path in write_house(house, scenes, load_catalog())}
    entry = to_entry(episode(0, house.id), number=0, vocabulary=WORDS, scenes=str(scenes))
    assert Path(entry["scene_id"]).is_file() and Path(entry["scene_dataset_config"]).is_file()
    assert Path(entry["scene_id"]).name in files and house.id in Path(entry["scene_id"]).name
    (pattern,) = json.loads(Path(entry["scene_dataset_config"]).read_text())["stages"]["paths"][".json"]
    assert Path(entry["scene_id"]).match(pattern)
    default = to_entry(episode(0), number=0, vocabulary=WORDS)
    assert default["scene_id"] == "data/scene_datasets/eqa/train-00003.stage_config.json"
    foreign = to_entry(EPISODES[4], number=0, vocabulary=WORDS)
    assert foreign["scene_id"] == "train-00004" and "scene_dataset_config" not in foreign


def test_headings_come_back_exactly():
    for turns, heading in enumerate(HOUSE_ACTIONS.headings_rad.tolist()):
        start = {"start": Spawn((0.0, 0.0, 0.0, heading))}
        given = bare(spawns=start, view_points=((0.0, 0.0, 0.0, heading),))
        back = from_entry({**to_entry(given, number=0, vocabulary=WORDS), "info": None})
        assert back.start[3] == heading == turns * HOUSE_ACTIONS.turn_rad and back.view_points == given.view_points
    hardly_turned = {**FOREIGN["episodes"][0], "start_rotation": [0, -1e-12, 0, 1], "shortest_paths": None}
    assert from_entry(hardly_turned).start[3] == 0.0
    odd = from_entry({**FOREIGN["episodes"][0], "start_rotation": heading_to_rotation(-0.3), "shortest_paths": None})
    assert odd.start[3] == pytest.approx(2 * math.pi - 0.3, abs=1e-12)


def test_a_foreign_file_gives_what_it_knows_and_no_walk_that_is_not_ours(tmp_path):
    (read,) = read_mp3d_eqa(save(FOREIGN, tmp_path / "val.json.gz"))
    assert (read.episode_id, read.scene_id, read.frame) == ("0", "mp3d/17DRP5sb8fy/17DRP5sb8fy.glb", "habitat")
    assert (read.question, read.answer) == ("what color is the sofa in the living room?", "brown")
    assert (read.question_type, read.source) == ("color_room", "mp3d_eqa_v1")
    assert (read.target_object, read.target_room) == (12, 3)
    assert read.spawns == {"start": Spawn((-0.5, 0.07, 1.2, math.pi / 2))}
    assert read.view_points == ((1.5, 0.07, -0.6, math.pi),)
    assert read.touched == (Entity("object", "sofa", (2, 0.57, -1), (2, 0.57, -1), 12, True),)
    assert read.walk is None and read.goal_radius_m is None and read.program is None
    again = tmp_path / "again.json.gz"
    write_mp3d_eqa(again, [read], vocabulary=Vocabulary.of([read]))
    assert read_mp3d_eqa(again) == [read]
    goal = document_of(again)["episodes"][0]["goals"][0]
    assert goal["position"] == [2, 0.57, -1], "a point stays where it was"


def test_without_our_notes_start_walk_goal_and_views_are_still_read():
    entry = to_entry(EPISODES[0], number=7, vocabulary=WORDS)
    read = from_entry({**entry, "info": None})
    assert read.walk == WALK and read.spawns == {"start": Spawn(START, num_actions=len(WALK))}
    assert read.view_points == EPISODES[0].view_points and read.goal_radius_m == 0.2
    assert (read.episode_id, read.frame, read.target_object, read.target_room) == (
        "7",
        "habitat",
        12,
        2,
    )
    assert set(lost(EPISODES[0], read)) == {
        "episode_id",
        "scene_id",
        "source",
        "frame",
        "touched",
        "goal_turn_rad",
        "spawns",
        "program",
    }


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ((3, "position", 0), lambda x: x + 0.02),
        ((3, "position", 1), lambda y: y + 0.1),
        ((6, "rotation"), lambda rotation: heading_to_rotation(1.0)),
        ((4, "action"), lambda action: 2),
        ((4, "action"), lambda action: None),
        ((4, "action"), lambda action: 7),
        ((4, "action"), lambda action: 3),
        ((-1, "action"), lambda action: 0),
    ],
    ids=["slid", "stairs", "other turn", "other side", "no action", "unknown action", "stops twice", "no stop"],
)
def test_a_path_that_our_moves_do_not_make_is_dropped_and_the_start_kept(place, change):
    entry = {**copy.deepcopy(to_entry(EPISODES[0], number=0, vocabulary=WORDS)), "info": None}
    assert from_entry(entry).walk == WALK
    at = entry["shortest_paths"][0]
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = change(at[place[-1]])
    read = from_entry(entry)
    assert read.walk is None and read.spawns == {"start": Spawn(START)}


def test_views_that_lean_are_dropped_and_those_of_another_storey_keep_their_height():
    entry = copy.deepcopy(FOREIGN["episodes"][0])
    good = {"position": [1.5, 0.2, -0.6], "rotation": [0, 1, 0, 0]}
    upstairs, leaning = {**good, "position": [1.5, 2.9, -0.6]}, {**good, "rotation": [0.38, 0, 0, 0.92]}
    entry["goals"][0]["view_points"] = [upstairs, good, leaning, {"position": [1, 0, 0], "rotation": None}]
    assert from_entry(entry).view_points == ((1.5, 2.9, -0.6, math.pi), (1.5, 0.2, -0.6, math.pi))
    entry["goals"][0]["view_points"] = [leaning]
    assert from_entry(entry).view_points is None
    with pytest.raises(ValueError, match="start_rotation: expected a turn about Y"):
        from_entry({**entry, "start_rotation": [0.38, 0, 0, 0.92]})


def test_a_file_that_habitat_lab_has_saved_again_is_read(written):
    """It adds its classes' defaults, and the vocabularies' tables."""
    document = document_of(written)
    for entry in document["episodes"]:
        entry |= {"additional_obj_config_paths": [], "start_room": None}
        entry["goals"][0]["object_name_id"] = None
    for key in ("question_vocab", "answer_vocab"):
        document[key] |= {"word2idx_dict": {}, "UNK_INDEX": 1}
    document["config"] = None
    assert read_mp3d_eqa(save(document, written)) == EPISODES


def test_notes_hold_only_what_has_no_place_and_never_outdo_what_has(written):
    entry = document_of(written)["episodes"][0]
    notes = entry["info"]["eqa"]
    assert not {"question", "answer", "question_type", "view_points", "walk"} & set(notes)
    entry["question"]["answer_text"] = "red"
    read = from_entry({**entry, "info": {"eqa": {**notes, "answer": "blue", "walk": "S"}}})
    assert read.answer == "red" and read.walk == WALK


def test_notes_that_contradict_what_habitat_lab_reads_are_refused(written):
    document = document_of(written)
    entry = document["episodes"][0]
    for place, value in [(("start_position", 0), 9.0), (("goals", 0, "object_id"), "13"), (("start_position", 1), 3.0)]:
        changed = copy.deepcopy(entry)
        set_in(changed, place, value)
        with pytest.raises(ValueError, match="info.eqa does not fit .* remove info.eqa"):
            from_entry(changed)
        assert from_entry({**changed, "info": None})
    for notes in ({"colour": 3}, [1], {**entry["info"]["eqa"], "spawns": None}):
        with pytest.raises(ValueError, match="info.eqa"):
            from_entry({**entry, "info": {"eqa": notes}})


E0 = ("episodes", 0)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("episodes",), ..., "episodes: expected a list"),
        (("question_vocab",), ..., "question_vocab: expected an object"),
        (("answer_vocab", "word_list"), ..., "answer_vocab.word_list: expected a list of texts, got 'nothing'"),
        ((*E0, "scene_id"), ..., r"episodes\[0\].scene_id: expected a text, got 'nothing'"),
        ((*E0, "scene_id"), None, "scene_id: expected a text, got None"),
        ((*E0, "reply"), "red", "got 'reply', which habitat-lab refuses"),
        ((*E0, "start_position"), [1, 2], "start_position: expected three finite numbers"),
        ((*E0, "start_position"), [1, 2, math.nan], "start_position: expected three finite numbers"),
        ((*E0, "start_rotation"), [0, 2, 0, 0], "start_rotation: expected a unit quaternion"),
        ((*E0, "goals"), ..., "goals: expected a list of goals"),
        ((*E0, "goals"), {}, "goals: expected a list of goals"),
        ((*E0, "goals", 0, "object_id"), ..., r"goals\[0\].object_id: expected a text or a whole number"),
        ((*E0, "goals", 0, "position"), None, r"goals\[0\].position: expected three finite numbers, got None"),
        ((*E0, "goals", 0, "bbox"), [], r"goals\[0\]: .*got 'bbox'"),
        ((*E0, "goals", 0, "view_points", 0, "iou"), 0.5, r"view_points\[0\]: .*got 'iou'"),
        ((*E0, "goals", 0, "view_points", 0, "position"), ..., r"view_points\[0\].position: expected three"),
        ((*E0, "question"), ..., "question: expected a question"),
        ((*E0, "question", "answer_text"), ..., "question.answer_text: expected a text"),
        ((*E0, "question", "question_tokens"), ["what"], "question_tokens: expected a list of whole numbers"),
        ((*E0, "question", "answer"), "red", "question: .*got 'answer'"),
        ((*E0, "shortest_paths", 0), {}, r"shortest_paths\[0\]: expected a list"),
        ((*E0, "shortest_paths", 0, 1, "rotation"), ..., r"shortest_paths\[0\]\[1\].rotation: expected a unit"),
        ((*E0, "shortest_paths", 0, 1, "reward"), 0, r"shortest_paths\[0\]\[1\]: .*got 'reward'"),
        ((*E0, "info"), [], "info: expected an object"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, place, value, complaint):
    document = copy.deepcopy(FOREIGN)
    set_in(document, place, value)
    path = save(document, tmp_path / "val.json.gz")
    with pytest.raises(ValueError, match=f"val.json.gz: not a usable MP3D-EQA file .*{complaint}"):
        read_mp3d_eqa(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*E0, "info"), None),
        ((*E0, "start_room"), ...),
        ((*E0, "shortest_paths"), ...),
        ((*E0, "shortest_paths"), None),
        ((*E0, "goals", 0, "view_points"), None),
        ((*E0, "question", "question_tokens"), ...),
        ((*E0, "question", "answer_token"), [0, 0, 0, 0, 0]),
        ((*E0, "episode_id"), 0),
    ],
)
def test_what_habitat_lab_does_without_may_be_missing(tmp_path, place, value):
    document = copy.deepcopy(FOREIGN)
    set_in(document, place, value)
    (read,) = read_mp3d_eqa(save(document, tmp_path / "val.json.gz"))
    assert read.start == (-0.5, 0.07, 1.2, math.pi / 2)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("question_vocab", "word_list", 0), "pad", "question_vocab: expected <pad> first"),
        (("question_vocab", "word_list", 3), "unk", "question_vocab: expected <pad> first and all of"),
        (("question_vocab", "word_list", 2), "end", "question_vocab: expected <pad> first and all of"),
        (("answer_vocab", "word_list", 0), "unk", "answer_vocab: expected <unk>"),
        ((*E0, "episode_id"), "val-7", "episode_id: expected digits"),
        ((*E0, "question", "question_tokens", 0), 0, "question_tokens: expected places in question_vocab"),
        ((*E0, "question", "question_tokens", 0), 12, "question_tokens: expected places in question_vocab"),
        ((*E0, "question", "question_tokens"), None, "question_tokens: expected places in question_vocab"),
        ((*E0, "question", "answer_token"), [0, 0, 0, 0, 0], "answer_token: expected its answer_text's place"),
        ((*E0, "question", "answer_token"), 2, "answer_token: expected its answer_text's place"),
        ((*E0, "shortest_paths"), None, "shortest_paths: expected a path"),
        ((*E0, "shortest_paths", 0, 1, "action"), 0, "expected 3, stop, as last action"),
    ],
)
def test_what_the_trainers_would_stumble_over_is_told(place, value, complaint):
    check_for_training(FOREIGN)
    document = copy.deepcopy(FOREIGN)
    set_in(document, place, value)
    check(document)
    with pytest.raises(ValueError, match=complaint):
        check_for_training(document)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (episode(9, spawns=None), "'train-00003-009'.*expected spawns with 'start', got None"),
        (episode(9, spawns={"random": Spawn(START)}), "expected spawns with 'start', got .'random'."),
        (episode(9, frame="suncg"), "frame: expected house or habitat, got 'suncg'"),
        (episode(9, touched=None, view_points=None), "needs the target's place"),
        (episode(9, question="is it green?"), "unknown words .*green"),
        (episode(9, answer="green"), "answer 'green': unknown"),
        (episode(9, spawns={"start": Spawn((0.0, 0.0, 0.0, 0.1))}), "multiple of"),
        (
            episode(9, spawns={"start": Spawn((0.0, 0.0, math.inf, 0.0))}, walk=None),
            "start_position: expected three finite",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_and_the_old_file_stays(written, given, complaint):
    before = written.read_bytes()
    with pytest.raises(ValueError, match=complaint):
        write_mp3d_eqa(written, [EPISODES[0], given], vocabulary=WORDS)
    assert written.read_bytes() == before and [p.name for p in written.parent.iterdir()] == ["train.json.gz"]


def test_a_folder_that_habitat_lab_would_not_find_is_refused(tmp_path):
    with pytest.raises(ValueError, match="scenes: expected a folder in data/scene_datasets/ or .*'exported'"):
        write_mp3d_eqa(tmp_path / "val.json.gz", EPISODES, vocabulary=WORDS, scenes="exported")


def test_a_file_that_is_cut_off_or_no_gzip_is_refused_by_name(written):
    whole = written.read_bytes()
    for content in (whole[: len(whole) // 2], b"{}", b""):
        written.write_bytes(content)
        with pytest.raises(ValueError, match="train.json.gz: not a usable MP3D-EQA file"):
            read_mp3d_eqa(written)


def test_a_set_is_never_in_memory_as_a_whole(tmp_path):
    assert_streams(lambda episodes: write_mp3d_eqa(tmp_path / "train.json.gz", episodes, vocabulary=WORDS), tmp_path)


def test_stored_moves_are_kept_where_the_world_has_them_and_named_where_it_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    entry = copy.deepcopy(FOREIGN["episodes"][0])
    turned = {"position": [-0.6, 0.1, 1.2], "rotation": heading_to_rotation(math.pi / 2 + math.radians(10))}
    first, last = entry["shortest_paths"][0]
    entry["shortest_paths"] = [[first, {**last, "action": 1}, {**turned, "action": 3}]]
    assert from_entry(entry).walk is None
    path = save({**FOREIGN, "episodes": [entry]}, tmp_path / "val.json.gz")
    same = ActionSet(step_m=0.1, turn_rad=math.radians(10))
    (read,) = read_mp3d_eqa(path, moves=same)
    assert read.walk == "FLS" and not capsys.readouterr().out
    for moves in (ActionSet(step_m=0.25, turn_rad=math.radians(10)), ActionSet(step_m=0.1)):
        (read,) = read_mp3d_eqa(path, moves=moves)
        said = "".join(capsys.readouterr())
        assert read.walk is None
        assert "stored walks move by 0.10 m and turn by 10 degrees" in said
        step_m, turn_rad = map(float, re.search(r"step_m=(\S+) env.actions.turn_rad=(\S+) has", said).groups())
        (read,) = read_mp3d_eqa(path, moves=ActionSet(step_m=step_m, turn_rad=turn_rad))
        assert read.walk == "FLS"
