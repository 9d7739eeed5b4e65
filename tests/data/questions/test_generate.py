"""Question sets: how they are made, and the file that holds them."""

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from eqa.data.questions.balance import could_pass, normalized_entropy
from eqa.data.questions.generate import configuration, make_questions
from eqa.data.questions.journal import Journal, journaled
from eqa.data.questions.rules import load_rules
from eqa.data.questions.storage import QuestionSet, load_questions, read_header, stream_questions, write_questions
from eqa.data.questions.templates import Generator
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Spawn
from tests.helpers.hand_episodes import assert_streams
from tests.helpers.hand_houses import V1, furnished, house_of
from tests.helpers.slow_answers import possible_answers


@pytest.fixture(scope="module")
def rules():
    return load_rules()


def everything_visible(house, targets):
    return [((1.0, 0.0, 2.0, 0.0), (float(target[0]), 0.0, 2.0, 0.5)) for target in targets]


def no_walks(house, episodes):
    return [replace(e, spawns={"start": Spawn((1.0, 0.0, 2.0, 0.0))}) for e in episodes]


STUBS = {"visible": everything_visible, "add_spawns": no_walks}


@pytest.fixture(scope="module")
def houses():
    return {
        split: [furnished(seed, split) for seed in range(n)] for split, n in (("train", 16), ("val", 4), ("test", 4))
    }


COUNTS = {"train": 60, "val": 8, "test": None}


@pytest.fixture(scope="module")
def questions(houses):
    return make_questions(houses, counts=COUNTS, seed=0, **STUBS, made_from={"houses": "hand"})


def test_a_set_has_the_wanted_sizes_and_complete_episodes(questions, houses):
    assert len(questions.episodes["train"]) == 60 and len(questions.episodes["val"]) == 8
    for split, episodes in questions.episodes.items():
        assert len({e.episode_id for e in episodes}) == len(episodes)
        for episode in episodes:
            house = next(h for h in houses[split] if h.id == episode.scene_id)
            document = json.loads(json.dumps(asdict(house)))
            assert possible_answers(document, episode.question) == {episode.answer}
            assert house.objects[episode.target_object - 1].room == episode.target_room
            assert episode.view_points and episode.goal_radius_m == 0.2 and episode.program


def test_the_same_seed_gives_the_same_set_and_another_seed_another(questions, houses):
    again = make_questions(houses, counts=COUNTS, seed=0, **STUBS, made_from={"houses": "hand"})
    assert again == questions
    other = make_questions(houses, counts=COUNTS, seed=1, **STUBS)
    assert other.episodes["train"] != questions.episodes["train"]


def test_val_and_test_have_no_word_and_no_answer_that_train_lacks(questions):
    vocabulary = Vocabulary.of(questions.episodes["train"])
    for split in ("val", "test"):
        assert all(vocabulary.knows(e.question, e.answer) for e in questions.episodes[split])
    steps = questions.header["steps"]
    assert steps["known"]["test"] <= steps["balanced"]["test"]
    assert steps["known"]["train"] == steps["balanced"]["train"]


@pytest.mark.parametrize("balance", ["entropy", "paired"])
def test_homes_that_people_designed_are_asked_about_but_do_not_change_what_the_others_are_asked(
    questions, houses, balance
):
    settings = {"seed": 0, "balance": balance, **STUBS}
    human = [furnished(seed, "human") for seed in range(3)]
    both = make_questions({**houses, "human": human}, counts={**COUNTS, "human": None}, **settings)
    alone = make_questions(houses, counts=COUNTS, **settings)
    assert {split: both.episodes[split] for split in houses} == alone.episodes
    vocabulary = Vocabulary.of(alone.episodes["train"])
    assert both.episodes["human"] and all(vocabulary.knows(e.question, e.answer) for e in both.episodes["human"])
    bare = [replace(house, objects=[]) for house in human]
    none = make_questions({**houses, "human": bare}, counts={**COUNTS, "human": 5}, **settings)
    assert none.episodes["human"] == [] and none.header["counts"]["human"] == {}


def test_what_cannot_be_seen_is_not_asked_and_the_balance_is_judged_without_it(houses, rules):
    def cups_are_hidden(house, targets):
        hidden = [any(house.objects[i - 1].category == "cup" for i in target) for target in targets]
        return [None if is_hidden else ((0.0, 0.0, 0.0, 0.0),) for is_hidden in hidden]

    everything = dict.fromkeys(houses)
    made = make_questions(houses, counts=everything, seed=0, **{**STUBS, "visible": cups_are_hidden})
    assert not any("cup" in f"{e.question} {e.answer}" for found in made.episodes.values() for e in found)
    over_houses: dict[str, Counter] = {}
    generator = Generator(rules, V1)
    for house in (h for found in houses.values() for h in found):
        for q in generator.generate(house):
            if not any(house.objects[i - 1].category == "cup" for i in q.touched):
                over_houses.setdefault(q.text, Counter())[q.answer] += 1
    for text in {e.question for found in made.episodes.values() for e in found}:
        assert over_houses[text].total() >= 4 and normalized_entropy(over_houses[text].values()) >= 0.5


def test_each_house_is_looked_at_once_and_only_for_questions_that_could_be_chosen(houses, rules):
    seen = []

    def remember(house, targets):
        seen.append((house.id, tuple(targets)))
        return everything_visible(house, targets)

    make_questions(houses, counts=COUNTS, seed=0, **{**STUBS, "visible": remember})
    assert len({house for house, _ in seen}) == len(seen)
    generator = Generator(rules, V1)
    pool = could_pass([q for found in houses.values() for h in found for q in generator.generate(h)], (4, 2))
    assert {(h, frozenset(t)) for h, targets in seen for t in targets} == {
        (q.scene_id, frozenset(q.touched)) for q in pool
    }


def test_a_killed_run_neither_looks_nor_places_twice(tmp_path, houses):
    asked, path = [], tmp_path / "partly.jsonl"

    def run(dies_after: int | None):
        """All that is made, with the houses that were asked about, in order."""
        journal = Journal(path, configuration={"a": 1})
        asked.clear()

        def counted(ask):
            def once(house, wanted):
                if len(asked) == dies_after:
                    raise KeyboardInterrupt
                asked.append((ask, house.id))
                return ask(house, wanted)

            once.__name__ = ask.__name__
            return once

        parts = {
            "visible": counted(everything_visible),
            "add_spawns": counted(no_walks),
            "parallel_map": journaled(map, journal),
        }
        return journal, make_questions(houses, counts=COUNTS, seed=0, **parts)

    expected = make_questions(houses, counts=COUNTS, seed=0, **STUBS)
    before = []
    for dies_after in (10, 20):
        with pytest.raises(KeyboardInterrupt):
            run(dies_after)
        assert not set(before) & set(asked)
        before += asked
        path.write_text(path.read_text() + '{"house": "cut o')
    journal, made = run(None)
    assert made == expected and not set(before) & set(asked) and len(before) == 30
    Journal(path, configuration={"a": 2})
    assert len(path.read_text().splitlines()) == 1
    journal.remove()
    assert not path.exists()


def test_an_empty_split_says_which_step_removed_what(houses):
    with pytest.raises(ValueError, match="val: no question is left of 1 houses .*possible"):
        empty = {"train": houses["train"], "val": [house_of(id="val-00000")]}
        make_questions(empty, counts={"train": 50, "val": 5}, seed=0, **STUBS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"counts": {"train": 5}}, "counts: expected one for each"),
        ({"counts": {**COUNTS, "val": 0}}, "at least 1 question for val"),
        ({"balance": "fair"}, r"balance: expected one of \['none', 'entropy', 'paired'\]"),
        ({"question_set": "eqa_v9"}, r"question_set: expected one of \['eqa_v1', 'all'\]"),
    ],
)
def test_wrong_arguments_are_refused(houses, change, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_questions(houses, **{"counts": COUNTS, "seed": 0, **STUBS, **change})


def test_a_house_in_two_splits_is_refused(houses):
    with pytest.raises(ValueError, match="train-00000: expected each house once"):
        twice = {"train": houses["train"], "val": houses["train"][:1]}
        make_questions(twice, counts={"train": 5, "val": 5}, seed=0, **STUBS)


def test_a_file_gives_back_what_was_written(tmp_path, questions):
    path = tmp_path / "questions.jsonl"
    write_questions(path, questions)
    for split, episodes in questions.episodes.items():
        assert load_questions(path, split) == episodes
        assert next(stream_questions(path, split)) == episodes[0]
    assert read_header(path) == questions.header
    expected = configuration(counts=COUNTS, seed=0, made_from={"houses": "hand"})
    load_questions(path, "val", configuration=expected)
    with pytest.raises(ValueError, match="seed: expected 1, got 0"):
        load_questions(path, "val", configuration={**expected, "seed": 1})


def test_episodes_are_written_one_at_a_time_and_counted_on_the_way(tmp_path, questions):
    header = {**questions.header, "counts": {}}
    path = tmp_path / "written" / "questions.jsonl"
    path.parent.mkdir()
    assert_streams(lambda found: write_questions(path, QuestionSet({"train": found}, header)), path.parent)
    assert read_header(path)["counts"] == {"train": {"color_room": 160}}
    assert len(load_questions(path, "train")) == 160


def cut(text: str) -> str:
    return text[: len(text) * 9 // 10]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda text: text.replace('"version": 3', '"version": 0', 1), "expected eqa-questions version 3, got"),
        (lambda text: text.replace('"eqa-questions"', '"songs"', 1), "got songs version 3"),
        (lambda text: "", "not a usable question file"),
        (lambda text: "[1, 2]\n", "not a usable question file"),
        (cut, "damaged|expected .* questions"),
        (lambda text: "\n".join(text.splitlines()[:-3]), "expected .* questions in split 'test', got"),
        (lambda text: text.replace('"answer"', '"reply"'), "line 2: damaged.*reply"),
    ],
    ids=["older", "foreign", "empty", "not a header", "cut off", "lines missing", "unknown field"],
)
def test_a_damaged_or_older_file_names_the_command_that_rebuilds_it(tmp_path, questions, damage, complaint):
    path = tmp_path / "questions.jsonl"
    write_questions(path, questions)
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match=complaint) as error:
        for split in questions.episodes:
            load_questions(path, split)
    assert "python scripts/make_questions.py" in str(error.value)


def test_a_missing_file_or_split_names_the_command_that_makes_it(tmp_path, questions):
    path = tmp_path / "questions.jsonl"
    with pytest.raises(ValueError, match="make_questions.py"):
        load_questions(path, "train")
    write_questions(path, replace(questions, episodes={**questions.episodes}))
    with pytest.raises(ValueError, match="no question in split 'valid'.*make_questions.py"):
        load_questions(path, "valid")


def test_a_write_that_fails_leaves_the_old_file(tmp_path, questions):
    path = tmp_path / "questions.jsonl"
    write_questions(path, questions)
    before = path.read_text()
    with pytest.raises(TypeError):
        write_questions(path, replace(questions, header={"format": object()}))
    assert path.read_text() == before and [p.name for p in tmp_path.iterdir()] == ["questions.jsonl"]


@pytest.fixture(scope="module")
def all_types(houses):
    more = {
        **houses,
        "train": [furnished(seed) for seed in range(40)],
        "val": [furnished(seed, "val") for seed in range(12)],
    }
    del more["test"]
    return more, make_questions(more, counts=dict.fromkeys(more), seed=0, question_set="all", balance="paired", **STUBS)


def test_a_paired_set_asks_each_question_equally_often_with_each_of_its_answers(all_types):
    _, made = all_types
    answers = {}
    for episodes in made.episodes.values():
        counts: dict[str, Counter] = {}
        for e in episodes:
            counts.setdefault(e.question, Counter())[e.answer] += 1
        assert len(counts) > 20 and all(len(c) > 1 and len(set(c.values())) == 1 for c in counts.values())
        for text, c in counts.items():
            assert answers.setdefault(text, set(c)) == set(c)  # the same ones in all splits
        assert len({(e.question, e.scene_id) for e in episodes}) == len(episodes)
        assert max(Counter(e.scene_id for e in episodes).values()) <= 22
    assert len({e.question_type for e in made.episodes["train"]}) >= 8


def test_every_answer_of_a_set_is_what_a_slow_reader_finds_and_what_was_touched_has_its_box(all_types):
    houses, made = all_types
    by_id = {house.id: house for found in houses.values() for house in found}
    for e in (e for found in made.episodes.values() for e in found):
        house = by_id[e.scene_id]
        assert possible_answers(json.loads(json.dumps(asdict(house))), e.question) == {e.answer}
        objects, rooms = ([t for t in e.touched if t.kind == kind] for kind in ("object", "room"))
        assert [t.is_target for t in e.touched] == [True] + [False] * (len(e.touched) - 1)
        for t in objects:
            x, y, z = house.objects[t.id - 1].position
            assert t.name == house.objects[t.id - 1].category and t.low[1] == pytest.approx(y, abs=1e-3)
            assert all(low < at < high for low, at, high in zip(t.low, (x, y + 1e-3, z), t.high))
        assert all(house.rooms[t.id].type == t.name for t in rooms)
        if e.target_object is not None:
            assert e.touched[0].id == e.target_object and house.objects[e.target_object - 1].room == e.target_room
        assert (e.target_room is None) == (e.view_points is None) == (e.question_type.startswith("room_"))


def test_what_cannot_be_walked_takes_its_round_with_it(all_types):
    houses, made = all_types
    lost = {e.episode_id for e in made.episodes["train"][::7]}

    def some_walks(house, episodes):
        return [None if e.episode_id in lost else e for e in episodes]

    arguments = {"counts": dict.fromkeys(houses), "seed": 0, "question_set": "all", "balance": "paired"}
    fewer = make_questions(houses, **arguments, visible=everything_visible, add_spawns=some_walks)
    left = fewer.episodes["train"]
    assert len(made.episodes["train"]) / 3 < len(left) < len(made.episodes["train"]) - len(lost)
    assert not lost & {e.episode_id for e in left} and len(fewer.episodes["val"]) == len(made.episodes["val"])
    whole = {}
    for e in made.episodes["train"]:
        whole.setdefault(e.question, set()).add(e.answer)
    for text in {e.question for e in left}:
        counts = Counter(e.answer for e in left if e.question == text)
        assert set(counts) == whole[text] and len(set(counts.values())) == 1
    assert fewer.header["steps"]["reached"]["train"] == len(left)


def test_without_balance_every_question_that_can_be_seen_is_there(houses, rules):
    made = make_questions(houses, counts=dict.fromkeys(houses), seed=0, balance="none", **STUBS)
    generator = Generator(rules, V1)
    train = {(q.scene_id, q.text, q.answer) for h in houses["train"] for q in generator.generate(h)}
    assert {(e.scene_id, e.question, e.answer) for e in made.episodes["train"]} <= train
    assert made.header["steps"]["balanced"]["train"] == len(train)
