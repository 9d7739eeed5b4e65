"""A person walks under the agent's limits, and what is stored is what was done: to learn from, and as a row of the table."""

import base64
import io
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from eqa.data.batches.imitation import Walks
from eqa.data.demonstrations.human import load_walks
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import PLAN, Episode
from eqa.envs.house.simulator import HouseWorld
from eqa.models.evaluation.human import AT_ONCE, Game, collect, picture, shaded, tasks_of
from eqa.models.evaluation.replays import Replays
from eqa.models.evaluation.run_tables import results_table
from eqa.models.learning.imitation import NavigatorImitation
from tests.helpers.free_walks import walk_of
from tests.helpers.human_game import CONFIGURATION, episodes, make_game, make_replays
from tests.helpers.small_house import small_house

FORWARD, LEFT, RIGHT, STOP = Action


def walk(game: Game, actions: list[int], answer: str | None = None) -> Path:
    """Walks the next task to its end and answers, by default rightly."""
    if game.state()["phase"] == "answered":
        game.go_on()
    truth = game.tasks[0].episode.answer
    game.begin()
    for step, action in enumerate(actions):
        game.act(action, step)
    return game.answer(answer or truth)


def shortest(episode: Episode) -> list[int]:
    """The last ten actions of the demonstration."""
    return walk_of(episode, HOUSE_ACTIONS).actions[-10:].tolist()


def pixels(url: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))))


def test_the_person_sees_what_the_agent_sees_and_neither_where_it_is_nor_the_answer(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    assert game.state()["phase"] == "ready" and "frame" not in game.state()
    game.begin()
    state = game.state()
    assert set(state) == {"phase", "saved", "left", "limit", "question", "spawn", "step", "frame", "bumped"}
    task = game.tasks[0]
    pose = np.array([task.episode.spawns["T-10"].pose])
    seen = game.simulator.renderer.render(np.zeros(1, np.int32), pose)["rgb"][0]
    assert pixels(state["frame"]).shape == (224, 224, 3) and np.array_equal(pixels(state["frame"]), seen)


def test_the_history_is_the_walk_up_to_the_spawn_and_a_random_spawn_has_none(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    walked = walk_of(game.tasks[0].episode, HOUSE_ACTIONS)
    num = len(walked.actions) - 10
    parts = [game.history(first) for first in range(0, num, AT_ONCE)]
    assert {part["num"] for part in parts} == {num} and sum(len(part["frames"]) for part in parts) == num
    seen = game.simulator.renderer.render(np.zeros(1, np.int32), walked.poses[AT_ONCE : AT_ONCE + 1])["rgb"][0]
    assert num > AT_ONCE and parts[1]["frames"][0] == picture(seen, "JPEG")
    assert np.array_equal(game.tasks[0].history(game.world), walked.poses[:-10])
    assert make_game(tmp_path, "random").history() == {"num": 0, "frames": []}


def test_steps_and_turns_are_the_agents_and_what_is_in_the_way_refuses_a_step(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    game.begin()
    for step, action in enumerate([LEFT, LEFT, RIGHT]):
        game.act(action, step)
    turns = np.diff(np.unwrap(game.walk.trajectories().poses[0, :, 3])) / HOUSE_ACTIONS.turn_rad
    assert turns.round(9).tolist() == [1, 1, -1]
    for step in range(3, 40):
        game.act(FORWARD, step)
    moves = np.hypot(*np.diff(game.walk.trajectories().poses[0, :, PLAN], axis=0).T)
    assert set(moves.round(9)) == {0.0, HOUSE_ACTIONS.step_m}
    assert game.walk.trajectories().refused.sum() == np.count_nonzero(moves[3:] < 0.1) > 0 and game.state()["bumped"]


def test_a_walk_ends_after_a_hundred_actions_and_can_still_be_answered(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    game.begin()
    for step in range(HOUSE_ACTIONS.max_steps):
        assert game.state()["phase"] == "walking"
        game.act(LEFT, step)
    assert game.state()["phase"] == "answering"
    with pytest.raises(ValueError, match="expected to be walking, is answering"):
        game.act(LEFT, HOUSE_ACTIONS.max_steps)
    game.answer("white")
    row = game.rows[0]
    assert row["ep_len"] == HOUSE_ACTIONS.max_steps and row["stop"] == row["success"] == row["spl"] == 0
    assert len(row["poses"]) == HOUSE_ACTIONS.max_steps + 1


def test_an_action_that_is_sent_twice_counts_once_and_nothing_happens_at_the_wrong_time(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    for at_the_wrong_time in (lambda: game.act(LEFT, 0), lambda: game.answer("white"), game.go_on):
        with pytest.raises(ValueError, match="is ready"):
            at_the_wrong_time()
    game.begin()
    game.act(LEFT, 0)
    with pytest.raises(ValueError, match="step: expected 1, .*got 0"):
        game.act(LEFT, 0)
    game.act(STOP, 1)
    with pytest.raises(ValueError, match="answer: expected one of the vocabulary's 2, got 'purple'"):
        game.answer("purple")
    assert game.walk.trajectories().actions[0].tolist() == [LEFT, STOP] and game.rows == []


def test_answers_of_the_question_s_type_come_first(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    for _ in range(2):
        game.begin()
        game.act(STOP, 0)
        state, color = game.state(), game.tasks[0].episode.question_type == "color"
        likely, other = (["white"], ["living room"]) if color else (["living room"], ["white"])
        assert state["answers"] == likely and state["other_answers"] == other
        game.answer(other[0])
        game.go_on()


def test_after_the_answer_it_says_whether_it_was_right_and_which_row_shows_the_walk(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    for number, right in enumerate([True, False]):
        episode = game.tasks[0].episode
        wrong = next(answer for answer in game.vocabulary.answers if answer != episode.answer)
        walk(game, shortest(episode), episode.answer if right else wrong)
        state = game.state()
        assert state["phase"] == "answered" and state["correct"] == right and state["seen"] == 1
        assert state["answer"] == episode.answer and state["row"] == number and state["question"] == episode.question
        assert make_replays(tmp_path).replay(state["row"])["predicted"] == (episode.answer if right else wrong)
        game.go_on()
    assert game.state()["phase"] == "done"


def test_a_demonstration_walked_by_a_person_has_the_row_of_the_shortest_path(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    task = game.tasks[0]
    walk(game, shortest(task.episode))
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert row["agent"] == "HumanNav" and row["spawn"] == "T-10" and row["rank"] is None
    assert row["d_T"] == 0 and row["d_0"] == pytest.approx(task.episode.spawns["T-10"].distance_m, abs=1e-3)
    assert row["stop"] == row["success"] == row["r_T"] == row["seen"] == row["correct"] == 1 and row["ep_len"] == 10
    assert 0.5 < row["spl"] <= 1 and row["collisions"] == 0 and row["predicted"] == row["answer"]
    assert row["poses"] == walk_of(task.episode, HOUSE_ACTIONS).poses[[*range(-10, 0), -1]].round(4).tolist()


def test_a_detour_costs_success_weighted_by_path_length(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    straight = shortest(game.tasks[0].episode)
    walk(game, straight)
    (folder := tmp_path / "detour").mkdir()
    again = make_game(folder)
    about = [LEFT] * 20
    walk(again, [*about, FORWARD, *about, FORWARD, *straight])
    assert again.rows[0]["success"] == 1 and again.rows[0]["spl"] < game.rows[0]["spl"]


def test_what_was_stored_is_what_was_done_and_seen_and_when(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    task, actions = game.tasks[0], [LEFT, RIGHT, FORWARD, STOP]
    path = walk(game, actions, "white")
    demo = Demonstrations.open(path, configuration=CONFIGURATION)
    assert demo.episodes == [task.episode] and demo.actions.tolist() == actions
    assert np.array_equal(demo.poses[0], task.episode.spawns["T-10"].pose)
    seen = game.simulator.renderer.render(np.zeros(4, np.int32), demo.poses)["rgb"]
    assert np.array_equal(demo.features, game.extractor(seen))
    with h5py.File(path) as file:
        assert file["time_s"][:].tolist() == [1, 2, 3, 4] and file["answers_given"].asstr()[:].tolist() == ["white"]
    assert load_walks(tmp_path)[0].row == game.rows[0]


def test_a_killed_game_has_lost_no_walk_and_goes_on_with_the_next_question(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    first, second = game.tasks
    walk(game, [STOP])
    game.go_on()
    game.begin()
    game.act(LEFT, 0)
    again = make_game(tmp_path)
    assert again.tasks == [second] and again.rows == game.rows and again.state()["phase"] == "ready"
    assert make_game(tmp_path, "random").state()["left"] == 2
    walk(again, [STOP])
    again.go_on()
    assert again.state() == {"phase": "done", "saved": 2, "left": 0, "limit": HOUSE_ACTIONS.max_steps}
    assert [row["episode_id"] for row in again.rows] == [t.episode.episode_id for t in (first, second)]


def test_joined_walks_can_be_learned_from_and_are_a_line_of_the_table(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    tasks = game.tasks
    for task in tasks:
        walk(game, [FORWARD, *shortest(task.episode)])
    path, rows = collect(tmp_path)
    demos = Demonstrations.open(path, configuration=CONFIGURATION)
    assert demos.episodes == [task.episode for task in tasks] and demos.lengths.tolist() == [11, 11]
    with h5py.File(path) as file:
        assert file["time_s"].shape == (22,) and len(file["rows"]) == len(file["began"]) == 2
    batch = Walks([demos], Vocabulary.of(demos.episodes)).__getitems__([0, 1])
    module = NavigatorImitation(20, demos.features.shape[1], options={"planner_hidden": 8, "question_hidden": 8})
    assert module.navigator.loss(batch)["loss"] > 0
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == rows == game.rows
    table = results_table(rows, "walks")
    assert list(table.columns[0].cells) == ["HumanNav"] and list(table.columns[-1].cells) == ["100.0"]
    assert collect(tmp_path / "none") is None


def test_a_source_takes_peoples_walks_for_its_training_split_where_they_fit(tmp_path: Path) -> None:
    sizes = dict.fromkeys(("train", "val", "test"), 1)
    extractor = make_game(tmp_path / "none").extractor
    words = {"seed": 0, "houses": sizes, "questions": sizes, "human_walks": str(tmp_path / "demonstrations.h5")}
    source, other = GeneratedEQA(**words, encode=extractor), GeneratedEQA(**{**words, "seed": 1}, encode=extractor)
    game = make_game(tmp_path, configuration=source.human_configuration("train"))
    walk(game, [LEFT, STOP])
    collect(tmp_path)
    assert source.demonstrations("train").actions.tolist() == [LEFT, STOP]
    with pytest.raises(ValueError, match="questions: expected '.*', got '.*'"):
        other.demonstrations("train")


def test_a_walk_that_finds_no_room_on_the_disk_can_be_answered_again(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    (tmp_path / "metrics.jsonl").mkdir()  # cannot be replaced by a file
    with pytest.raises(OSError):
        walk(game, [STOP], "white")
    (tmp_path / "metrics.jsonl").rmdir()
    assert game.state()["phase"] == "answering"
    game.answer("white")
    assert len(game.rows) == len(collect(tmp_path)[1]) == 1


def test_walks_of_another_configuration_are_not_mixed_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = walk(make_game(tmp_path), [STOP])
    with pytest.raises(ValueError, match="encoder: expected 'other', got 'tiny'.*another folder"):
        make_game(tmp_path, configuration={**CONFIGURATION, "encoder": "other"})
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=path.name):
        collect(tmp_path)


def test_questions_are_those_of_the_evaluation_and_a_spawn_that_there_is_not_is_refused() -> None:
    asked = episodes()
    assert {task.episode.episode_id for task in tasks_of(asked, "T-10", seed=1)} == {e.episode_id for e in asked}
    with pytest.raises(ValueError, match="spawn: expected one of .*got 'T-20'"):
        tasks_of(asked, "T-20", seed=0)
    with pytest.raises(ValueError, match="spawn T-50: none of 2 questions"):
        tasks_of(asked, "T-50", seed=0)


def test_houses_come_in_turn() -> None:
    asked = [e for e in episodes() for _ in range(2)]
    houses = ["a", "a", "b", "b"]
    moved = [Episode.from_dict({**e.to_dict(), "scene_id": s}) for e, s in zip(asked, houses, strict=True)]
    order = [task.episode.scene_id for task in tasks_of(moved, "T-10", seed=0)]
    assert sorted(order[:2]) == sorted(order[2:]) == ["a", "b"]


def test_a_replay_shows_each_step_of_a_row_and_where_it_is_on_the_plan(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    walk(game, [LEFT, FORWARD, STOP])
    blind = {**game.rows[0], "agent": "majority", "spawn": None, "actions": None, "poses": None}
    older = {**game.rows[0], "spawn": 10}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (blind, *game.rows, older)))
    replays = make_replays(tmp_path)
    assert [(row["row"], row["spawn"]) for row in replays.rows()["rows"]] == [(1, "T-10"), (2, "T-10")]
    shown = replays.replay(1)
    assert shown["actions"] == ["left", "forward", "stop"] and len(shown["poses"]) == 4
    frames = replays.frames(1, 1)
    seen = game.simulator.renderer.render(np.zeros(1, np.int32), np.array(shown["poses"][1:2]))["rgb"]
    assert len(frames) == 3 and frames[0] == picture(seen[0], "JPEG")
    shortest_end = shown["shortest"][-1][:3]
    assert (
        np.linalg.norm(
            np.subtract(shortest_end, episodes()[0 if "color" in shown["question"] else 1].view_points[0][:3])
        )
        < 0.3
    )
    plan = shown["plan"]
    assert plan["box"] == [0, 0, 7, 4] and {region["name"] for region in plan["regions"]} == {"living room", "kitchen"}
    walls = [edge["ends"] for edge in plan["edges"] if edge["kind"] == "wall"]
    assert [[4.0, 4.0], [4.0, 0.0]] in walls  # between the rooms
    (target,) = (thing["name"] for thing in plan["things"] if thing["target"])
    assert target in shown["question"]
    with pytest.raises(ValueError, match="row: expected one of the 3 rows that walked, got 0"):
        replays.replay(0)


def test_depth_is_lighter_where_things_are_nearer(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    walk(game, [FORWARD, STOP])
    replays = make_replays(tmp_path)
    pose = np.array(replays.replay(0)["poses"][:1])
    depth_m = game.simulator.renderer.render(np.zeros(1, np.int32), pose, sensors=("depth",))["depth"][0]
    assert replays.frames(0, 0, "depth")[0] == picture(shaded(depth_m), "JPEG")
    grays = shaded(np.array([[0.5, 1.0, 3.0, 20.0, 0.0]], np.float32))[0, :, 0].tolist()  # 0 is outside
    assert grays == sorted(grays, reverse=True) and grays[0] > 200 and 80 < grays[2] < 100 and grays[-1] == 0
    with pytest.raises(ValueError, match=r"sensor: expected one of \('rgb', 'depth'\), got 'smell'"):
        replays.frames(0, 0, "smell")
    with pytest.raises(ValueError, match="first: expected a pose of the walk, 0 to 2, got 3"):
        replays.frames(0, 3)


def test_replays_are_listed_by_pages_and_can_be_narrowed_down(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    walk(game, [LEFT, STOP])
    spawns = ["T-10", "T-30", "random"]
    changed = [
        {"spawn": spawns[n % 3], "correct": float(n % 2), "question_type": "color" if n < 50 else "location"}
        for n in range(70)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({**game.rows[0], **row}) + "\n" for row in changed))
    replays = make_replays(tmp_path)
    pages = [replays.rows(page=page) for page in range(4)]
    assert [len(page["rows"]) for page in pages] == [30, 30, 10, 0] and {page["fit"] for page in pages} == {70}
    assert [row["row"] for page in pages for row in page["rows"]] == list(range(70))
    assert pages[0]["choices"] == {"agent": ["HumanNav"], "spawn": spawns, "question_type": ["color", "location"]}
    found = replays.rows(wrong=True, spawn="T-30", question_type="location")
    assert [row["row"] for row in found["rows"]] == [n for n in range(50, 70) if n % 3 == 1 and n % 2 == 0]
    assert (
        replays.rows(words="no such words")["fit"] == 0
        and replays.rows(words=game.rows[0]["question"][:9])["fit"] == 70
    )
    (tmp_path / "metrics.jsonl").write_text(json.dumps(game.rows[0]) + "\n")
    assert replays.rows()["fit"] == 1  # read anew


def test_a_run_in_other_houses_is_not_replayed_in_these(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"configuration": {"data": {"seed": 1}}}))
    with pytest.raises(ValueError, match=r"data\.seed=1; add data\.seed=1"):
        Replays(tmp_path, world=HouseWorld(lambda _: small_house()), episodes=lambda _: [], house_seed=0)
    words = {"world": HouseWorld(lambda _: small_house()), "episodes": lambda _: [], "house_seed": 1}
    Replays(tmp_path, **words, house_style="paper")  # as all houses were before there were styles
    with pytest.raises(ValueError, match=r"data\.houses\.style=paper; add data\.houses\.style=paper"):
        Replays(tmp_path, **words, house_style="everyday")
