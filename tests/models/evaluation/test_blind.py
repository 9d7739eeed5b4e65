"""Models that hear only the question."""

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from eqa.data.questions.counts import tally
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.metrics import wilson_interval
from eqa.models.answerers.frame_attention import QuestionOnly
from eqa.models.evaluation.blind import (
    ALL,
    BAG_OF_WORDS,
    CHANCE,
    LSTM,
    MAJORITY,
    BagOfWords,
    Training,
    _counts,
    _words,
    blind_accuracies,
    blind_lstm,
    fit,
    soft_cross_entropy,
)

QUICK = Training(lr=0.01, most_steps=40)  # where what the LSTM learns is of no matter
THINGS = ["sofa", "bed", "lamp", "rug", "desk", "vase", "sink", "oven", "chair", "shelf"]
ROOMS = ["kitchen", "bedroom", "office", "gym"]


def episodes_of(*triples: tuple[str, str, str]) -> list[Episode]:
    return [Episode(str(i), f"house-{i}", text, answer, kind, "test") for i, (text, answer, kind) in enumerate(triples)]


def accuracies(episodes: dict[str, list[Episode]], **options: object) -> dict[tuple[str, str, str], float]:
    rows = blind_accuracies(
        {split: tally(found) for split, found in episodes.items()}, Vocabulary.of(episodes["train"]), **options
    )
    return {(row.model, row.split, row.question_type): row.mean for row in rows}


def asked_about(pairs: list[tuple[str, str]]) -> list[Episode]:
    """The room, and nothing else, decides the answer."""
    return episodes_of(*((f"what is on the {t} in the {r}?", f"answer {r}", "on") for t, r in pairs))


def test_where_a_word_decides_the_answer_both_networks_find_it_in_questions_they_have_not_heard() -> None:
    pairs = list(product(THINGS, ROOMS))
    np.random.default_rng(0).shuffle(pairs)
    found = accuracies(
        {"train": asked_about(pairs[:28]), "val": asked_about(pairs[28:34]), "test": asked_about(pairs[34:])}
    )
    assert found[BAG_OF_WORDS, "test", ALL] == found[LSTM, "test", ALL] == 1
    assert found[MAJORITY, "test", ALL] < 0.7


def paired(things: list[str]) -> list[Episode]:
    both = (
        ("what color is the {}?", ("red", "blue", "green"), "color"),
        ("is there a {}?", ("yes", "no"), "existence"),
    )
    return episodes_of(
        *((text.format(thing), answer, kind) for text, answers, kind in both for thing in things for answer in answers)
    )


def test_on_a_paired_set_every_model_is_exactly_at_chance() -> None:
    found = accuracies({"train": paired(THINGS[:6]) * 2, "val": paired(THINGS[4:]), "test": paired(THINGS[2:])})
    for split, model in product(("train", "val", "test"), (MAJORITY, BAG_OF_WORDS, LSTM)):
        for kind, chance in (("color", 1 / 3), ("existence", 1 / 2), (ALL, 2 / 5)):
            assert found[CHANCE, split, kind] == pytest.approx(chance)
            assert found[model, split, kind] == pytest.approx(chance), (model, split, kind)


def test_chance_is_the_mean_over_questions_of_one_in_k_and_is_silent_where_answers_are_not_equally_frequent() -> None:
    equal = episodes_of(("q?", "a", "x"), ("q?", "b", "x"), ("r?", "a", "x"))
    unequal = episodes_of(("q?", "a", "x"), ("q?", "b", "x"), ("q?", "a", "x"), ("r?", "a", "x"))
    found = accuracies({"train": unequal, "test": equal}, lstm=QUICK)
    assert found[CHANCE, "test", ALL] == pytest.approx((2 / 2 + 1) / 3)
    assert (CHANCE, "train", ALL) not in found and (LSTM, "train", ALL) in found


def test_the_strongest_of_them_is_the_one_of_every_table_and_changes_no_other_draw() -> None:
    train, test = asked_about(list(product(THINGS[:7], ROOMS))), asked_about(list(product(THINGS[7:], ROOMS)))
    vocabulary = Vocabulary.of([*train, *test])
    torch.manual_seed(3)
    before = torch.get_rng_state()
    network = blind_lstm(tally(train), tally([]), vocabulary)
    assert torch.equal(before, torch.get_rng_state())
    words = torch.from_numpy(vocabulary.encode_batch([e.question for e in test]))
    said = [vocabulary.answers[i] for i in network(None, words).argmax(1)]
    right = np.mean([answer == e.answer for answer, e in zip(said, test, strict=True)])
    rows = blind_accuracies({"train": tally(train), "val": {}, "test": tally(test)}, vocabulary)
    (row,) = (r for r in rows if (r.model, r.split, r.question_type) == (LSTM, "test", ALL))
    assert right == row.mean > 0.9


def test_soft_targets_are_worth_as_much_as_repeated_questions() -> None:
    rng = np.random.default_rng(0)
    train = episodes_of(
        *((f"what is the {rng.choice(THINGS)}?", str(rng.choice(["a", "b", "c"])), "x") for _ in range(60))
    )
    vocabulary = Vocabulary.of(train)
    asked = tally(train)
    training = Training(lr=0.1, batch=1000, most_steps=30)
    learnt = fit(BagOfWords(len(vocabulary.words), 3).double(), asked, {}, vocabulary, training=training)

    slow = BagOfWords(len(vocabulary.words), 3).double()  # Adam makes much of float32's rounding where a gradient is 0
    optimizer = torch.optim.Adam(slow.parameters(), lr=0.1)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    words = torch.from_numpy(vocabulary.encode_batch([e.question for e in train]))
    answers = torch.tensor([vocabulary.answer_id(e.answer) for e in train])
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(slow(None, words), answers).backward()
        optimizer.step()
        falling.step()
    assert learnt.logits.weight.abs().max() > 0.5
    torch.testing.assert_close(learnt.logits.weight, slow.logits.weight, atol=1e-5, rtol=1e-5)

    lstm = QuestionOnly(len(vocabulary.words), 3, hidden_size=8).eval()
    soft = soft_cross_entropy(lstm(None, _words(asked, vocabulary)), _counts(asked, vocabulary))
    torch.testing.assert_close(soft, F.cross_entropy(lstm(None, words), answers))


def test_a_bag_of_words_is_linear_in_the_counts_of_words() -> None:
    vocabulary = Vocabulary.of(episodes_of(("the red red sofa?", "a", "x"), ("bed?", "b", "x")))
    model = BagOfWords(len(vocabulary.words), 2)
    torch.nn.init.normal_(model.logits.weight)
    texts = ["the red red sofa?", "bed?"]
    counts = torch.tensor(
        [[row.count(i) for i in range(len(vocabulary.words))] for row in map(vocabulary.encode, texts)]
    )
    batch = torch.from_numpy(vocabulary.encode_batch(texts))
    torch.testing.assert_close(model(None, batch), counts.float() @ model.logits.weight)


def slow_majority(train: list[Episode], episodes: list[Episode]) -> float:
    """Of the same string, else of the same type, else of all; the first in the alphabet where several are as frequent."""
    counts: dict[object, Counter[str]] = defaultdict(Counter)
    for e in train:
        for key in (("string", e.question), ("type", e.question_type), "all"):
            counts[key][e.answer] += 1
    right = 0
    for e in episodes:
        keys = ("string", e.question), ("type", e.question_type), "all"
        best = max(sorted(counts["all"]), key=lambda answer: [counts[key][answer] for key in keys])
        right += best == e.answer
    return right / len(episodes)


def test_the_majority_is_that_of_a_slow_obvious_count() -> None:
    rng = np.random.default_rng(1)

    def some(num: int) -> list[Episode]:
        kinds = rng.choice(["x", "y"], num)
        return episodes_of(
            *((f"{kind} {rng.choice(THINGS)}?", str(rng.choice(list("abcd"))), str(kind)) for kind in kinds)
        )

    episodes = {"train": some(70), "val": some(20), "test": some(40)}
    found = accuracies(episodes, lstm=QUICK)
    for split, asked in episodes.items():
        assert found[MAJORITY, split, ALL] == pytest.approx(slow_majority(episodes["train"], asked))
        for kind in "xy":
            of_kind = [e for e in asked if e.question_type == kind]
            assert found[MAJORITY, split, kind] == pytest.approx(slow_majority(episodes["train"], of_kind))


def test_answers_and_words_that_train_lacks_count_as_missed_and_empty_splits_are_no_obstacle() -> None:
    train = episodes_of(*((f"where is the {thing}?", "kitchen", "x") for thing in THINGS))
    strange = episodes_of(
        ("where is the sofa?", "kitchen", "x"), ("where is the sofa?", "igloo", "x"), ("who?", "me", "y")
    )
    found = accuracies({"train": train, "val": [], "test": strange}, lstm=Training(lr=0.01, most_steps=100))
    for model in (MAJORITY, BAG_OF_WORDS, LSTM):
        assert found[model, "train", ALL] == 1
        assert found[model, "test", "x"] == 1 / 2 and found[model, "test", "y"] == 0
        assert (model, "val", ALL) not in found
    unknown_only = accuracies({"train": train, "val": strange[2:]}, lstm=QUICK)
    assert unknown_only[LSTM, "val", ALL] == 0
    with pytest.raises(ValueError, match="train: expected questions, got none"):
        blind_accuracies({"train": {}, "test": tally(strange)}, Vocabulary.of(train))


def test_what_is_handed_back_is_the_network_at_its_smallest_loss_on_val() -> None:
    train = episodes_of(*((f"what is the {thing}?", "ab"[i % 2], "x") for i, thing in enumerate(THINGS)))
    val = episodes_of(*((f"what is the {thing}?", "ab"[i % 2 == 0], "x") for i, thing in enumerate(THINGS[:4])))
    vocabulary = Vocabulary.of(train)

    def loss_on_val(val_seen: list[Episode], steps: int) -> float:
        training = Training(lr=0.05, batch=64, most_steps=steps, check_every=1, patience=steps)
        model = fit(BagOfWords(len(vocabulary.words), 2), tally(train), tally(val_seen), vocabulary, training=training)
        asked = tally(val)
        return soft_cross_entropy(model(None, _words(asked, vocabulary)), _counts(asked, vocabulary)).item()

    assert loss_on_val(val, 100) < loss_on_val([], 100) - 0.5


def test_a_seed_gives_the_same_figures_and_leaves_the_generator_and_the_threads_alone() -> None:
    rng = np.random.default_rng(2)
    texts = [f"is the {a} as red as the {b}?" for a, b in product(THINGS, THINGS)]
    episodes = {"train": episodes_of(*((text, str(rng.choice(list("abcd"))), "x") for text in texts))}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        before = torch.random.get_rng_state()
        first = accuracies(episodes, seed=0, lstm=QUICK)
        assert torch.equal(torch.random.get_rng_state(), before) and torch.get_num_threads() == 2
        torch.rand(1)
        assert accuracies(episodes, seed=0, lstm=QUICK) == first != accuracies(episodes, seed=1, lstm=QUICK)
    finally:
        torch.set_num_threads(threads)


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert wilson_interval(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    for shares in ((0, 0), (3, 2)):
        with pytest.raises(ValueError, match="at least 1 question"):
            wilson_interval(*shares)
