"""The question engine: programs, relations, wording, balance, files."""

import json
from collections import Counter
from dataclasses import asdict, replace
from math import pi

import numpy as np
import pytest

from data.balance import (
    MajorityBaseline,
    could_pass,
    entropy_filter,
    normalized_entropy,
    quotas,
    sample,
)
from data.programs import Undefined, World, parse
from data.questions import (
    configuration,
    load_questions,
    make_questions,
    read_header,
    stream_questions,
    write_questions,
)
from data.relations import CLEAR, NOT, UNCLEAR, Relations
from data.rules import RULES, load_rules
from data.templates import Generator, Question
from data.visibility import RememberedVisibility
from data.vocabulary import Vocabulary
from envs.episode import Episode
from envs.house.house import House, HouseObject, Room
from tests.slow_answers import possible_answers

V1 = ["location", "color", "color_room", "preposition"]


@pytest.fixture(scope="module")
def rules():
    return load_rules()


def thing(category, x, z, *, room=0, size=(1.0, 1.0, 1.0), y=0.0, heading=0.0, color="red", on=None) -> HouseObject:
    position, size = (float(x), float(y), float(z)), tuple(float(s) for s in size)
    return HouseObject(0, category, "any", position, heading, size, color, True, room, on)


def house_of(*things: HouseObject, rooms=("living room", "kitchen"), id="train-00000") -> House:
    """Rooms of 10 m x 10 m side by side along X; ids are given in order."""
    shapes = [
        [(10.0 * i, 0.0), (10.0 * i, 10.0), (10.0 * i + 10, 10.0), (10.0 * i + 10, 0.0)] for i in range(len(rooms))
    ]
    numbered = [replace(one, id=i) for i, one in enumerate(things, start=1)]
    return House(id, "hand", 2.7, [Room(t, p, "wood", "#ffffff") for t, p in zip(rooms, shapes)], [], [], numbered)


def asked(house: House, rules, types=V1) -> dict[str, str]:
    return {q.text: q.answer for q in Generator(rules, types).generate(house)}


def furnished(seed: int, split: str = "train") -> House:
    """A house of four rooms full of random furniture, some of it stacked, hung, tilted or tiny."""
    rng = np.random.default_rng([seed, len(split)])
    rooms = ("living room", "kitchen", "bedroom", "hallway")
    kinds = ("sofa", "table", "rug", "vase", "cup", "plates", "bed", "tv stand", "lamp", "desk", "mirror", "fruit bowl")
    colors = ("red", "blue", "green", None)
    things: list[HouseObject] = []
    for _ in range(24):
        kind, room = str(rng.choice(kinds)), int(rng.integers(len(rooms)))
        size = (0.3, 0.02, 0.3) if kind == "plates" else tuple(float(s) for s in rng.uniform(0.05, 1.5, 3))
        x, z = float(10 * room + rng.uniform(1, 4)), float(rng.uniform(1, 4))
        below = [(i, t) for i, t in enumerate(things, start=1) if t.room == room]
        y, on = float(rng.choice([0.0, 0.0, 1.4])), None
        if below and rng.random() < 0.4:
            i, under = below[rng.integers(len(below))]
            x, y, z = under.position[0], under.position[1] + under.size_m[1], under.position[2]
            on = i if rng.random() < 0.5 else None
        color = colors[rng.integers(4)]
        turn = float(rng.choice([0, pi / 2, rng.uniform(0, 6)]))
        things.append(thing(kind, x, z, room=room, size=size, y=y, heading=turn, color=color, on=on))
    return house_of(*things, rooms=rooms, id=f"{split}-{seed:05d}")


# Programs ---------------------------------------------------------------------------------------------------------


def test_a_program_answers_and_says_what_it_touched(rules):
    house = house_of(thing("sofa", 3, 3, color="blue"), thing("sofa", 13, 3, room=1), thing("bed", 5, 5))
    program = parse("color(unique(inside(objects(OBJ), unique(rooms(ROOM)))))").bind({"OBJ": "sofa", "ROOM": "kitchen"})
    found = program.run(World(house, rules))
    assert found.answer == "red" and [t.id for t in found.touched] == [2]


def test_a_bound_program_is_text_that_parses_to_itself(rules):
    program = parse("name(unique(related(unique(objects(OBJ)), REL)))").bind({"OBJ": "tv stand", "REL": "next to"})
    assert str(program) == 'name(unique(related(unique(objects("tv stand")), "next to")))'
    assert str(parse(str(program))) == str(program)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("color(unique(rooms(ROOM)))", "color takes"),
        ("color(objects(OBJ))", "color takes"),
        ("room(unique(objects(ROOM)))", "objects takes"),
        ("room(unique(objects(OBJ), OBJ))", "unique takes"),
        ("unique(objects(OBJ))", "expected to give an Answer"),
        ("colour(unique(objects(OBJ)))", "unknown operation colour"),
        ("color(unique(objects(THING)))", "unknown slot THING"),
        ('color(unique(objects("soffa")))', "objects takes"),
        ("color(unique(objects(OBJ))", "never closed"),
        ("color(1 + 2)", "expected operations"),
    ],
)
def test_a_faulty_program_is_refused_when_it_is_defined(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


def test_a_slot_takes_only_names_of_its_kind():
    program = parse("color(unique(objects(OBJ)))")
    with pytest.raises(ValueError, match="expected a Category"):
        program.bind({"OBJ": "kitchen"})
    with pytest.raises(ValueError, match="no value"):
        program.bind({"ROOM": "kitchen"})


@pytest.mark.parametrize(
    "things",
    [
        (thing("bed", 1, 1),),
        (thing("sofa", 3, 3), thing("sofa", 6, 6)),
        (thing("sofa", 3, 3), thing("sofa", 6, 6, size=(0.01, 0.01, 0.01))),
        (thing("sofa", 3, 3, size=(0.05, 0.05, 0.05)),),
        (thing("sofa", 3, 3, color=None),),
    ],
    ids=["none", "two", "two, one tiny", "tiny", "no color"],
)
def test_what_has_no_single_clear_answer_is_undefined(things, rules):
    with pytest.raises(Undefined):
        parse('color(unique(objects("sofa")))').run(World(house_of(*things), rules))


def test_a_room_that_occurs_twice_is_not_the_room(rules):
    house = house_of(thing("sofa", 3, 3), rooms=("bedroom", "bedroom"))
    assert set(asked(house, rules)) == {"what room is the sofa located in?", "what color is the sofa?"}


def test_an_obscure_room_is_neither_asked_about_nor_an_answer(rules):
    house = house_of(thing("sofa", 3, 3), rooms=("hallway", "kitchen"))
    assert asked(house, rules) == {"what color is the sofa?": "red"}


# Relations --------------------------------------------------------------------------------------------------------

TABLE = {"size": (1.2, 0.75, 0.8)}
CUP = {"size": (0.1, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("relation", "one", "other", "verdict"),
    [
        ("on", thing("cup", 5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5.5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5.5, 5, y=0.75, **CUP), thing("table", 5, 5, heading=pi / 2, **TABLE), NOT),
        ("on", thing("cup", 5.6, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("on", thing("cup", 5, 5, y=0.4, on=2, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5, 5, y=1.0, **CUP), thing("table", 5, 5, **TABLE), NOT),
        ("above", thing("lamp", 5, 5, y=1.5, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("above", thing("lamp", 5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("above", thing("lamp", 5, 5, y=2.5, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("above", thing("mirror", 5, 5.5, y=1.5, size=(0.8, 0.8, 0.04)), thing("table", 5, 5, **TABLE), CLEAR),
        ("below", thing("rug", 5, 5, size=(2, 0.02, 2)), thing("table", 5, 5, **TABLE), CLEAR),
        ("below", thing("table", 5, 5, **TABLE), thing("lamp", 5, 5, y=1.5, **CUP), NOT),
        ("under", thing("table", 5, 5, **TABLE), thing("lamp", 5, 5, y=1.5, **CUP), CLEAR),
        ("under", thing("table", 5, 5, **TABLE), thing("cup", 5, 5, y=0.75, **CUP), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 5.8, 5, size=(0.2, 0.5, 2)), CLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 6.1, 5, size=(0.2, 0.5, 2)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 6.5, 5, size=(0.2, 0.5, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("chair", 5.5, 5, size=(0.5, 0.9, 0.5)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("rug", 5.8, 5, size=(0.2, 0.02, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("heater", 5.8, 5, y=0.4, size=(0.2, 0.3, 2)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("mirror", 5.8, 5, y=1.2, size=(0.2, 0.5, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 5.8, 5, room=1, size=(0.2, 0.5, 2)), NOT),
    ],
)
def test_relations_are_judged_from_boxes(relation, one, other, verdict, rules):
    house = house_of(one, other)
    assert Relations(house, rules.thresholds).judge(relation, *house.objects) is verdict


def test_a_relation_to_two_things_is_not_asked(rules):
    table, cup = thing("table", 5, 5, **TABLE), thing("cup", 5, 5, y=0.75, **CUP)
    vase = thing("vase", 5.3, 5, y=0.75, size=(0.2, 0.3, 0.2))
    assert asked(house_of(table, cup), rules)["what is on the table in the living room?"] == "cup"
    assert "what is on the table?" not in asked(house_of(table, cup, vase), rules)


def test_a_tiny_thing_makes_a_relation_ambiguous_but_is_no_answer(rules):
    table, vase = thing("table", 5, 5, **TABLE), thing("vase", 5.3, 5, y=0.75, size=(0.2, 0.3, 0.2))
    crumb = thing("cup", 5, 5, y=0.75, size=(0.02, 0.02, 0.02))
    assert "what is on the table?" not in asked(house_of(table, vase, crumb), rules)
    assert "what is on the table?" not in asked(house_of(table, crumb), rules)


# Wording ----------------------------------------------------------------------------------------------------------


def test_the_verb_and_the_preposition_agree_and_names_keep_their_words(rules):
    house = house_of(
        thing("plates", 5, 5, size=(0.3, 0.03, 0.3)), thing("tv stand", 13, 3, room=1), rooms=("dining room", "patio")
    )
    questions = asked(house, rules)
    assert questions["what room are the plates located in?"] == "dining room"
    assert questions["what room is the tv stand located in?"] == "patio"
    assert questions["what color is the tv stand on the patio?"] == "red"


def test_skipped_objects_are_not_asked_about(rules):
    questions = asked(house_of(thing("mirror", 5, 5)), rules)
    assert questions == {"what room is the mirror located in?": "living room"}


def test_no_question_is_asked_twice_in_a_house(rules):
    for seed in range(5):
        texts = [q.text for q in Generator(rules, V1).generate(furnished(seed))]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": 7}, "expected ids 1, 2"),
        ({"category": "unicorn"}, "unknown category"),
        ({"room": 5}, "expected a room from 0 to 1"),
        ({"color": "mauve"}, "unknown color"),
        ({"on": 1}, "stand on another object"),
        ({"size_m": (1.0, 0.0, 1.0)}, "expected a size above 0"),
    ],
)
def test_a_house_with_faulty_annotations_is_refused_by_name(change, complaint, rules):
    house = house_of(thing("sofa", 3, 3))
    house = replace(house, objects=[replace(house.objects[0], **change)])
    with pytest.raises(ValueError, match=f"train-00000.*{complaint}"):
        Generator(rules, V1).generate(house)


def test_every_generated_question_has_the_answer_that_a_slow_reader_of_the_house_finds(rules):
    generator = Generator(rules, V1)
    types = Counter()
    for seed in range(60):
        house = furnished(seed)
        document = json.loads(json.dumps(asdict(house)))
        for question in generator.generate(house):
            assert possible_answers(document, question.text) == {question.answer}, question
            types[question.type] += 1
            found = parse(question.program).run(World(house, rules))
            assert (found.answer, tuple(t.id for t in found.touched)) == (question.answer, question.touched)
    assert set(types) == set(V1) and min(types.values()) >= 20


# Rules ------------------------------------------------------------------------------------------------------------


def with_rules(tmp_path, old: str, new: str):
    text = RULES.read_text()
    assert old in text
    path = tmp_path / "questions.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_a_new_type_is_a_text_and_a_program(tmp_path):
    extra = "types:\n  room_of_color:\n    forms:\n" + (
        '      - text: "in which room do we find the {OBJ}?"\n        program: room(unique(objects(OBJ)))\n'
    )
    rules = load_rules(with_rules(tmp_path, "types:\n", extra))
    questions = asked(house_of(thing("sofa", 3, 3)), rules, ["room_of_color"])
    assert questions == {"in which room do we find the sofa?": "living room"}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("min_volume_m3", "min_volume", r"thresholds: missing \['min_volume_m3'\], unknown \['min_volume'\]"),
        ("plurals: [plates]", "plurals: [plate]", r"plurals: unknown names \['plate'\]"),
        ("skip: &colorless [mirror,", "skip: &colorless [mirrors,", r"types.color.skip: unknown names \['mirrors'\]"),
        ("    skip: *colorless", "    avoid: *colorless", "types.color_room: unknown"),
        ("eqa_v1: {location", "eqa_v1: {place", r"sets.eqa_v1: unknown names \['place'\]"),
        ("rooms:", "rooms", "questions.yaml"),
    ],
)
def test_faulty_rules_name_the_key(tmp_path, old, new, complaint):
    with pytest.raises(ValueError, match=complaint):
        load_rules(with_rules(tmp_path, old, new))


def test_a_text_and_a_program_with_different_slots_are_refused(tmp_path):
    path = with_rules(tmp_path, "what color {is} the {OBJ}?", "what color {is} it?")
    with pytest.raises(ValueError, match="the program uses OBJ"):
        Generator(load_rules(path), V1)
    path = with_rules(tmp_path, "what color {is} the {OBJ}?", "what color {is} the {OBJ} {in} the {ROOM}?")
    with pytest.raises(ValueError, match="uses 'ROOM', the program does not"):
        Generator(load_rules(path), V1)


# Balance ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "entropy"),
    [
        ([], 0.0),
        ([5], 0.0),
        ([5, 0], 0.0),
        ([1, 1], 1.0),
        ([7, 7, 7, 7], 1.0),
        ([3, 1], 0.8112781244591328),
        ([2, 1, 1], 0.946394630357186),
        ([89, 11], 0.499915958164528),
    ],
)
def test_normalized_entropy_has_its_exact_values(counts, entropy):
    assert normalized_entropy(counts) == pytest.approx(entropy, abs=1e-12)


def questions_of(text: str, answers: str, *, kind: str = "location", first_house: int = 0) -> list[Question]:
    return [
        Question(f"train-{house:05d}", number, kind, text, answer, "", 1, (1,), 0)
        for number, (house, answer) in enumerate(enumerate(answers.split(), start=first_house))
    ]


def test_the_entropy_filter_keeps_what_the_paper_keeps(rules):
    fine = questions_of("fine", "a a b b")
    mode = questions_of("mode of 89 percent", " ".join("a" * 89 + "b" * 11))
    rare = questions_of("three houses", "a b c")
    single = questions_of("one answer", "a a a a a")
    assert entropy_filter([*fine, *mode, *rare, *single], rules.balance) == fine
    edge = questions_of("mode of 88 percent", " ".join("a" * 88 + "b" * 12))
    assert entropy_filter(edge, rules.balance) == edge


def test_what_could_pass_is_never_less_than_what_passes_after_removals(rules):
    rng = np.random.default_rng(0)
    for _ in range(50):
        pool = [q for t in "xyz" for q in questions_of(t, " ".join(rng.choice(list("aaab"), rng.integers(1, 9))))]
        left = [q for q in pool if rng.random() < 0.8]
        possible = could_pass(pool, rules.balance)
        assert entropy_filter(left, rules.balance) == entropy_filter([q for q in left if q in possible], rules.balance)


def test_quotas_follow_the_shares_and_give_away_what_is_missing():
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert quotas(10, shares, {"a": 99, "b": 99, "c": 99}) == {"a": 5, "b": 3, "c": 2}
    assert quotas(10, shares, {"a": 1, "b": 99, "c": 99}) == {"a": 1, "b": 5, "c": 4}
    assert quotas(10, shares, {"a": 2, "b": 3, "c": 0}) == {"a": 2, "b": 3, "c": 0}
    assert sum(quotas(7, shares, {"a": 4, "b": 1, "c": 9}).values()) == 7


def test_a_sample_has_the_size_the_shares_and_the_cap_and_uses_every_house():
    pool = []
    for house in range(20):
        for number in range(30):
            kind = "a" if number % 3 else "b"
            pool.append(Question(f"train-{house:05d}", number, kind, f"{number}", "x", "", 1, (1,), 0))
    rng = np.random.default_rng(0)
    chosen = sample(pool, 60, shares={"a": 0.75, "b": 0.25}, max_per_house=4, rng=rng)
    assert Counter(q.type for q in chosen) == {"a": 45, "b": 15}
    houses = Counter(q.scene_id for q in chosen)
    assert len(houses) == 20 and max(houses.values()) <= 4
    assert [pool.index(q) for q in chosen] == sorted(pool.index(q) for q in chosen)
    everything = sample(pool, None, shares={"a": 0.75, "b": 0.25}, max_per_house=22, rng=rng)
    assert len(everything) == 20 * 22


def baseline_episodes(*pairs: tuple[str, str, str]) -> list[Episode]:
    return [Episode(str(i), "train-0", text, answer, kind, "test") for i, (text, answer, kind) in enumerate(pairs)]


def test_the_majority_baseline_ranks_by_string_then_type_then_all():
    train = baseline_episodes(
        ("q1", "red", "color"), ("q1", "red", "color"), ("q1", "blue", "color"), ("q2", "green", "color"),
        ("q2", "green", "color"), ("q2", "green", "color"), ("where", "office", "location"),
    )  # fmt: skip
    vocabulary = Vocabulary.of(train)
    baseline = MajorityBaseline(train, vocabulary)
    asked_now = baseline_episodes(("q1", "blue", "color"), ("q3", "green", "color"), ("q4", "office", "count"))
    named = [[vocabulary.answers[i] for i in row] for row in baseline.rankings(asked_now)]
    assert named == [
        ["red", "blue", "green", "office"],
        ["green", "red", "blue", "office"],
        ["green", "red", "blue", "office"],
    ]
    assert (np.argsort(-baseline.scores(asked_now), axis=1) == baseline.rankings(asked_now)).all()
    assert baseline.accuracy(asked_now) == pytest.approx(1 / 3)


# Sets and files ---------------------------------------------------------------------------------------------------


def everything_visible(house, targets):
    return [((1.0, 2.0, 0.0), (float(target[0]), 2.0, 0.5)) for target in targets]


@pytest.fixture(scope="module")
def houses():
    return {
        split: [furnished(seed, split) for seed in range(n)] for split, n in (("train", 20), ("val", 6), ("test", 6))
    }


COUNTS = {"train": 80, "val": 12, "test": None}


@pytest.fixture(scope="module")
def questions(houses):
    return make_questions(houses, counts=COUNTS, seed=0, visible=everything_visible, made_from={"houses": "hand"})


def test_a_set_has_the_wanted_sizes_and_complete_episodes(questions, houses):
    assert len(questions.episodes["train"]) == 80 and len(questions.episodes["val"]) == 12
    for split, episodes in questions.episodes.items():
        assert len({e.episode_id for e in episodes}) == len(episodes)
        for episode in episodes:
            house = next(h for h in houses[split] if h.id == episode.scene_id)
            document = json.loads(json.dumps(asdict(house)))
            assert possible_answers(document, episode.question) == {episode.answer}
            assert house.objects[episode.target_object - 1].room == episode.target_room
            assert episode.view_points and episode.goal_radius_m == 0.25 and episode.program


def test_the_same_seed_gives_the_same_set_and_another_seed_another(questions, houses):
    again = make_questions(houses, counts=COUNTS, seed=0, visible=everything_visible, made_from={"houses": "hand"})
    assert again == questions
    other = make_questions(houses, counts=COUNTS, seed=1, visible=everything_visible)
    assert other.episodes["train"] != questions.episodes["train"]


def test_val_and_test_have_no_word_and_no_answer_that_train_lacks(questions):
    vocabulary = Vocabulary.of(questions.episodes["train"])
    for split in ("val", "test"):
        assert all(vocabulary.knows(e.question, e.answer) for e in questions.episodes[split])
    steps = questions.header["steps"]
    assert steps["known"]["test"] <= steps["balanced"]["test"]
    assert steps["known"]["train"] == steps["balanced"]["train"]


def test_what_cannot_be_seen_is_not_asked_and_the_balance_is_judged_without_it(houses, rules):
    def cups_are_hidden(house, targets):
        hidden = [any(house.objects[i - 1].category == "cup" for i in target) for target in targets]
        return [None if is_hidden else ((0.0, 0.0, 0.0),) for is_hidden in hidden]

    everything = dict.fromkeys(houses)
    made = make_questions(houses, counts=everything, seed=0, visible=cups_are_hidden)
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

    make_questions(houses, counts=COUNTS, seed=0, visible=remember)
    assert len({house for house, _ in seen}) == len(seen)
    generator = Generator(rules, V1)
    pool = could_pass([q for found in houses.values() for h in found for q in generator.generate(h)], rules.balance)
    assert {(h, frozenset(t)) for h, targets in seen for t in targets} == {
        (q.scene_id, frozenset(q.touched)) for q in pool
    }


def test_a_killed_run_does_not_look_twice(tmp_path, houses):
    looked = []

    def dies_after_ten(house, targets):
        if len(looked) == 10:
            raise KeyboardInterrupt
        looked.append(house.id)
        return everything_visible(house, targets)

    path = tmp_path / "seen.jsonl"
    with pytest.raises(KeyboardInterrupt):
        visible = RememberedVisibility(dies_after_ten, path, configuration={"a": 1})
        make_questions(houses, counts=COUNTS, seed=0, visible=visible)
    path.write_text(path.read_text() + '{"house": "cut o')
    asked_again = []

    def counting(house, targets):
        asked_again.append(house.id)
        return everything_visible(house, targets)

    visible = RememberedVisibility(counting, path, configuration={"a": 1})
    made = make_questions(houses, counts=COUNTS, seed=0, visible=visible)
    assert not set(asked_again) & set(looked)
    assert made == make_questions(houses, counts=COUNTS, seed=0, visible=everything_visible)
    RememberedVisibility(counting, path, configuration={"a": 2})
    assert len(path.read_text().splitlines()) == 1
    visible.forget()
    assert not path.exists()


def test_an_empty_split_says_which_step_removed_what(houses):
    with pytest.raises(ValueError, match="val: no question is left of 1 houses .*possible"):
        empty = {"train": houses["train"], "val": [house_of(id="val-00000")]}
        make_questions(empty, counts={"train": 50, "val": 5}, seed=0, visible=everything_visible)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"counts": {"train": 5}}, "counts: expected one for each"),
        ({"counts": {**COUNTS, "val": 0}}, "at least 1 question for val"),
        ({"question_set": "eqa_v9"}, r"question_set: expected one of \['eqa_v1'\]"),
    ],
)
def test_wrong_arguments_are_refused(houses, change, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_questions(houses, **{"counts": COUNTS, "seed": 0, "visible": everything_visible, **change})


def test_a_house_in_two_splits_is_refused(houses):
    with pytest.raises(ValueError, match="train-00000: expected each house once"):
        twice = {"train": houses["train"], "val": houses["train"][:1]}
        make_questions(twice, counts={"train": 5, "val": 5}, seed=0, visible=everything_visible)


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


def cut(text: str) -> str:
    return text[: len(text) * 9 // 10]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda text: text.replace('"version": 1', '"version": 0', 1), "expected eqa-questions version 1, got"),
        (lambda text: text.replace('"eqa-questions"', '"songs"', 1), "got songs version 1"),
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
