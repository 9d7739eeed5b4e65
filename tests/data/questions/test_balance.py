"""Entropy filter, sampling, and the baseline that does not look."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from eqa.data.questions.balance import (
    MajorityBaseline,
    could_pass,
    entropy_filter,
    normalized_entropy,
    paired_rounds,
    quotas,
    sample,
    sample_like,
    sample_rounds,
    whole_rounds,
)
from eqa.data.questions.rules import load_rules
from eqa.data.questions.templates import Question
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode


@pytest.fixture(scope="module")
def rules():
    return load_rules()


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
        Question(f"train-{house:05d}", number, kind, text, answer, "", (1,), (0,), "objects")
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


def test_the_least_entropy_is_enough_and_one_answer_or_too_few_houses_cannot_pass(rules):
    even, uneven = questions_of("even", "a a b b"), questions_of("uneven", "a a a b b")
    assert entropy_filter([*even, *uneven], replace(rules.balance, min_entropy=1.0)) == even
    one_answer, few_houses = questions_of("one answer", "a a a a a"), questions_of("few houses", "a b")
    assert could_pass([*even, *one_answer, *few_houses], (4, 2)) == even


def test_what_could_pass_is_never_less_than_what_passes_after_removals(rules):
    rng = np.random.default_rng(0)
    for _ in range(50):
        pool = [q for t in "xyz" for q in questions_of(t, " ".join(rng.choice(list("aaab"), rng.integers(1, 9))))]
        left = [q for q in pool if rng.random() < 0.8]
        possible = could_pass(pool, (rules.balance.min_houses, 2))
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
            pool.append(Question(f"train-{house:05d}", number, kind, f"{number}", "x", "", (1,), (0,), "objects"))
    rng = np.random.default_rng(0)
    chosen = sample(pool, 60, shares={"a": 0.75, "b": 0.25}, max_per_house=4, rng=rng)
    assert Counter(q.type for q in chosen) == {"a": 45, "b": 15}
    houses = Counter(q.scene_id for q in chosen)
    assert len(houses) == 20 and max(houses.values()) <= 4
    assert [pool.index(q) for q in chosen] == sorted(pool.index(q) for q in chosen)
    everything = sample(pool, None, shares={"a": 0.75, "b": 0.25}, max_per_house=22, rng=rng)
    assert len(everything) == 20 * 22


def test_another_split_gets_the_answers_of_a_type_as_often_as_train():
    rng = np.random.default_rng(0)
    train = questions_of("where?", "a " * 60 + "b " * 30 + "c " * 10)
    train += questions_of("what?", " ".join(f"rare{i}" for i in range(40)), kind="preposition")
    pool = questions_of("where?", "a b c e " * 60)
    pool += questions_of("what?", " ".join(f"rare{i}" for i in range(50)), kind="preposition", first_house=300)
    drawing = {"shares": {"location": 0.97, "preposition": 0.03}, "max_per_house": 22, "rng": rng}
    chosen = sample_like(train, pool, 100, **drawing)
    answers = Counter(q.answer for q in chosen)
    # most of what has the location's 97 in 60 : 30 : 10, and three of the many that each are rare
    assert (answers["a"], answers["b"], answers["c"], answers["e"]) == (58, 29, 10, 0)
    assert sum(q.type == "preposition" for q in chosen) == 3 and not any(f"rare{i}" in answers for i in range(40, 50))
    assert [pool.index(q) for q in chosen] == sorted(pool.index(q) for q in chosen)
    assert len(sample_like(train, pool, None, **drawing)) == 180 + 40


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


def test_rounds_take_the_answers_that_keep_most_to_ask():
    answers = "a " * 40 + "b " * 20 + "c " * 10 + "d"
    train = questions_of("what?", answers)
    val = [replace(q, scene_id=f"val-{i:05d}") for i, q in enumerate(questions_of("what?", "a a c b b c c"))]
    alone = questions_of("only val asks", "a b", first_house=200)
    alone = [replace(q, scene_id=q.scene_id.replace("train", "val")) for q in alone]
    split_of = {q.scene_id: q.scene_id.split("-")[0] for q in (*train, *val, *alone)}
    rounds = paired_rounds([*train, *val, *alone], split_of, split_of, np.random.default_rng(0))
    # worth in bits: 2 * 20 * 1 for a, b; 3 * 10 * 1.58 for a, b, c; 4 * 1 * 2 for all four
    assert {split: len(found) for split, found in rounds.items()} == {"train": 10, "val": 2}
    for a_round in (*rounds["train"], *rounds["val"]):
        assert [q.answer for q in a_round] == ["a", "b", "c"] and len({q.scene_id for q in a_round}) == 3
        assert {q.text for q in a_round} == {"what?"}
    used = [q for found in rounds.values() for a_round in found for q in a_round]
    assert len(set(used)) == len(used)
    half = {q.scene_id for q in train}
    without_say = paired_rounds([*train, *val], split_of, half, np.random.default_rng(0))
    assert len(without_say["train"]) == 10 and len(without_say["val"]) == 2


def test_a_sample_of_rounds_is_whole_and_keeps_the_shares_and_the_cap():
    rng, rounds = np.random.default_rng(0), []
    for number in range(300):
        kind, answers = ("a", "xy") if number % 3 else ("b", "xyz")
        houses = rng.choice(40, len(answers), replace=False)
        rounds.append(
            tuple(
                Question(f"train-{h:05d}", number, kind, f"{number}", answer, "", (1,), (0,), "objects")
                for h, answer in zip(houses, answers)
            )
        )
    chosen = sample_rounds(rounds, 100, shares={"a": 0.7, "b": 0.3}, max_per_house=4, rng=rng)
    assert set(chosen) <= set(rounds) and len(set(chosen)) == len(chosen)
    types = Counter(q.type for a_round in chosen for q in a_round)
    assert types["b"] == 30 and 66 <= types["a"] <= 70
    assert max(Counter(q.scene_id for a_round in chosen for q in a_round).values()) <= 4
    often = [tuple(replace(q, text="often") for q in a_round) for a_round in rounds[:200]]
    mixed = sample_rounds([*often, *rounds[200:]], 40, shares={"a": 1.0}, max_per_house=99, rng=rng)
    assert sum(a_round[0].text == "often" for a_round in mixed) == 1  # strings take turns
    everything = sample_rounds(rounds, None, shares={"a": 0.7, "b": 0.3}, max_per_house=99, rng=rng)
    assert set(everything) == set(rounds)


def test_two_answers_are_paired_and_houses_without_a_say_choose_none():
    train = questions_of("two?", "a a b")
    train += questions_of("three?", "a a a a b b b c c")
    unheard = [replace(q, scene_id=f"test-{i:05d}") for i, q in enumerate(questions_of("three?", "a b " * 50))]
    split_of = {q.scene_id: q.scene_id.split("-")[0] for q in (*train, *unheard)}
    judges = {name for name, split in split_of.items() if split == "train"}
    rounds = paired_rounds([*train, *unheard], split_of, judges, np.random.default_rng(0))
    asked = Counter((a_round[0].text, tuple(q.answer for q in a_round)) for a_round in rounds["train"])
    assert asked == {("two?", ("a", "b")): 1, ("three?", ("a", "b", "c")): 2}  # 3 * 2 * log 3 > 2 * 3 * log 2
    assert rounds["test"] == []


def test_rounds_that_lose_questions_keep_as_many_of_each_answer():
    chosen = questions_of("what?", "a b a b a b") + questions_of("where?", "x y")
    split_of = {q.scene_id: "train" for q in chosen}
    left = [q for q in chosen if (q.text, q.scene_id) not in {("what?", "train-00001"), ("where?", "train-00000")}]
    whole = whole_rounds(left, chosen, split_of)
    assert [(q.text, q.answer, q.scene_id[-1]) for q in whole] == [
        ("what?", "a", "0"), ("what?", "a", "2"), ("what?", "b", "3"), ("what?", "b", "5"),
    ]  # fmt: skip
    assert whole_rounds(chosen, chosen, split_of) == chosen
