"""Balance of a question set, and the baseline that shows the remaining bias.

`entropy_filter` is the paper's (3.2): the answers of one question string over all houses must have a normalised entropy
of at least 0.5, in at least four houses. An answer may then still be right in 73 of 100 houses. `paired_rounds` leaves
nothing to guess: each string comes with each of its answers equally often. `sample` draws a set of a given size close
to given shares of question types. `MajorityBaseline` answers from the question string alone.

Axes: N episodes, A answers of the vocabulary.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from math import floor, log
from operator import attrgetter
from typing import TypeVar

import numpy as np
from jaxtyping import Float32, Int64

from eqa.data.questions.rules import Balance
from eqa.data.questions.templates import Question
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode

Round = tuple[Question, ...]
Kind = TypeVar("Kind", bound=Hashable)


def normalized_entropy(counts: Iterable[int]) -> float:
    """Entropy of a distribution of answers, to the base of their number; 0 for a single one."""
    counts = [count for count in counts if count]
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -sum(count / total * log(count / total) for count in counts) / log(len(counts))


def answer_counts(questions: Iterable[Question], judges: Container[str] | None = None) -> dict[str, Counter[str]]:
    """Counts of right answers for each question string, in all houses or the `judges` among them.

    A house gives a string one answer at most.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for question in questions:
        if judges is None or question.scene_id in judges:
            counts[question.text][question.answer] += 1
    return counts


def could_pass(
    questions: Sequence[Question], least: tuple[int, int], judges: Container[str] | None = None
) -> list[Question]:
    """Keeps the strings that occur in at least so many houses with at least so many answers.

    The others cannot be balanced by any removal, so nobody need look for their objects.
    """
    counts = answer_counts(questions, judges)
    fine = {text for text, c in counts.items() if c.total() >= least[0] and len(c) >= least[1]}
    return [question for question in questions if question.text in fine]


def entropy_filter(
    questions: Sequence[Question], balance: Balance, judges: Container[str] | None = None
) -> list[Question]:
    """Keeps the strings that occur in enough houses with answers of enough entropy, over all splits together.

    `judges`: ids of the houses that count; the questions of others stay if theirs do. Default: all.
    """
    counts = answer_counts(questions, judges)
    fine = {
        text
        for text, c in counts.items()
        if c.total() >= balance.min_houses and normalized_entropy(c.values()) >= balance.min_entropy
    }
    return [question for question in questions if question.text in fine]


def paired_rounds(
    questions: Sequence[Question], split_of: Mapping[str, str], judges: Container[str], rng: np.random.Generator
) -> dict[str, list[Round]]:
    """Split -> rounds: one question string with each of its answers once, each time in another house.

    A string has the same answers in all splits, so any question-only model answers one question of a round correctly.
    A string's answers are taken from the most frequent on, as many as maximise the number of questions times the bits
    of each, with equal weight for every split. A string that train cannot ask is dropped. `split_of`: by house.
    `judges`: the houses that decide on the answers.
    """
    by_text: dict[str, dict[str, dict[str, list[Question]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for question in questions:
        by_text[question.text][split_of[question.scene_id]][question.answer].append(question)
    weights = {split: 1 / number for split, number in Counter(s for i, s in split_of.items() if i in judges).items()}
    rounds: dict[str, list[Round]] = {split: [] for split in split_of.values()}
    for by_split in by_text.values():
        counts = {split: {a: len(found) for a, found in by_split[split].items()} for split in sorted(by_split)}
        answers = _paired_answers(counts, weights)
        for split in counts if answers else ():
            number = min(counts[split].get(answer, 0) for answer in answers)
            drawn = [[by_split[split][a][i] for i in rng.permutation(counts[split].get(a, 0))] for a in answers]
            rounds[split] += [tuple(of_answer[turn] for of_answer in drawn) for turn in range(number)]
    return rounds


def _paired_answers(counts: Mapping[str, Mapping[str, int]], weights: Mapping[str, float]) -> tuple[str, ...]:
    """The answers that `paired_rounds` takes; none if no two can be paired in train."""
    total: Counter[str] = Counter()
    for split, of_split in counts.items():
        for answer, number in of_split.items():
            total[answer] += number * weights.get(split, 0)
    ranked, best, most = sorted(total, key=lambda answer: (-total[answer], answer)), (), 0.0
    for k in range(2, len(ranked) + 1):
        kept = {split: min(of_split.get(a, 0) for a in ranked[:k]) for split, of_split in counts.items()}
        worth = k * log(k) * sum(number * weights.get(split, 0) for split, number in kept.items())
        if kept.get("train") and worth > most:
            best, most = tuple(ranked[:k]), worth
    return best


def whole_rounds(left: Sequence[Question], chosen: Sequence[Question], split_of: Mapping[str, str]) -> list[Question]:
    """The rest of chosen rounds after some of their questions were dropped: as many of each answer of a string."""

    def counts(questions: Sequence[Question]) -> Counter[tuple[str, str, str]]:
        return Counter((split_of[q.scene_id], q.text, q.answer) for q in questions)

    number = counts(left)
    keep: dict[tuple[str, str], int] = {}
    for split, text, answer in counts(chosen):
        keep[split, text] = min(keep.get((split, text), len(left)), number[split, text, answer])
    taken: Counter[tuple[str, str, str]] = Counter()
    whole = []
    for q in left:
        split = split_of[q.scene_id]
        taken[split, q.text, q.answer] += 1
        if taken[split, q.text, q.answer] <= keep[split, q.text]:
            whole.append(q)
    return whole


def quotas(count: int, shares: Mapping[Kind, float], available: Mapping[Kind, int]) -> dict[Kind, int]:
    """Numbers of questions by kind that make `count` in the given shares. Other kinds make up for a kind's lack."""
    taken = dict.fromkeys(shares, 0)
    left = min(count, sum(available.get(name, 0) for name in shares))
    while left:
        open_types = {name: share for name, share in shares.items() if taken[name] < available.get(name, 0)}
        wanted = _largest_remainders(left, open_types)
        for name, number in wanted.items():
            taken[name] += min(number, available[name] - taken[name])
        left = min(count, sum(available.get(name, 0) for name in shares)) - sum(taken.values())
    return taken


def _largest_remainders(count: int, shares: Mapping[Kind, float]) -> dict[Kind, int]:
    total = sum(shares.values())
    exact = {name: count * share / total for name, share in shares.items()}
    whole = {name: floor(number) for name, number in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: (whole[kind] - exact[kind], kind))
    for name in by_remainder[: count - sum(whole.values())]:
        whole[name] += 1
    return whole


def sample(
    questions: Sequence[Question],
    count: int | None,
    *,
    shares: Mapping[Kind, float],
    max_per_house: int,
    rng: np.random.Generator,
    kind: Callable[[Question], Kind] = attrgetter("type"),
) -> list[Question]:
    """At most `count` questions (None: all) of at most `max_per_house` a house, in their given order.

    Kinds (types by default) come in the given shares as far as there are enough. Houses take turns within a kind, so
    that a small set is spread over all of them. Only kinds with a share are drawn.
    """
    by_house: dict[str, dict[Kind, list[Question]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        if kind(question) in shares:
            by_house[question.scene_id][kind(question)].append(question)
    queues: dict[Kind, list[tuple[int, float, Question]]] = {name: [] for name in shares}
    for types in by_house.values():
        limits = quotas(max_per_house, shares, {name: len(found) for name, found in types.items()})
        for name, found in types.items():
            for turn, place in enumerate(rng.permutation(len(found))[: limits[name]]):
                queues[name].append((turn, rng.random(), found[place]))
    available = {name: len(queue) for name, queue in queues.items()}
    wanted = available if count is None else quotas(count, shares, available)
    chosen: set[tuple[str, int]] = set()
    for name, queue in queues.items():
        queue.sort(key=lambda entry: entry[:2])
        chosen.update((question.scene_id, question.number) for _, _, question in queue[: wanted[name]])
    return [question for question in questions if (question.scene_id, question.number) in chosen]


def sample_like(
    train: Iterable[Question],
    questions: Sequence[Question],
    count: int | None,
    *,
    shares: Mapping[str, float],
    max_per_house: int,
    rng: np.random.Generator,
) -> list[Question]:
    """A `sample` with each answer of a type as often as `train` gives it, as far as there are enough."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question in train:
        answers[question.type][question.answer] += 1
    of_type = {name: [q for q in questions if q.type == name and q.answer in answers[name]] for name in shares}
    available = {name: len(found) for name, found in of_type.items()}
    wanted = available if count is None else quotas(count, shares, available)
    per_house = quotas(max_per_house, shares, dict.fromkeys(shares, max_per_house))
    chosen: set[tuple[str, int]] = set()
    for name, found in of_type.items():
        limits = {"max_per_house": max(per_house[name], 1), "rng": rng, "kind": attrgetter("answer")}
        drawn = sample(found, wanted[name], shares=answers[name], **limits)
        chosen.update((question.scene_id, question.number) for question in drawn)
    return [question for question in questions if (question.scene_id, question.number) in chosen]


def sample_rounds(
    rounds: Sequence[Round],
    count: int | None,
    *,
    shares: Mapping[str, float],
    max_per_house: int,
    rng: np.random.Generator,
) -> list[Round]:
    """A `sample` of whole rounds: at most `count` questions, at most `max_per_house` a house. Strings take turns."""
    queues: dict[str, list[Round]] = {name: [] for name in shares}
    turn: Counter[str] = Counter()
    turns: dict[Round, int] = {}
    for place in rng.permutation(len(rounds)):
        first = rounds[place][0]
        if first.type in queues:
            queues[first.type].append(rounds[place])
            turns[rounds[place]] = turn[first.text]
            turn[first.text] += 1
    for queue in queues.values():
        queue.sort(key=turns.__getitem__)
    available = {name: sum(map(len, queue)) for name, queue in queues.items()}
    room_for = max_per_house * len({question.scene_id for a_round in rounds for question in a_round})
    wanted = quotas(room_for if count is None else min(count, room_for), shares, available)
    per_house: Counter[str] = Counter()
    chosen: list[Round] = []
    for name, queue in sorted(queues.items(), key=lambda entry: wanted[entry[0]]):  # the rare ones first
        left = wanted[name]
        for a_round in queue:
            houses = [question.scene_id for question in a_round]
            if len(a_round) <= left and all(per_house[house] < max_per_house for house in houses):
                per_house.update(houses)
                left -= len(a_round)
                chosen.append(a_round)
    return chosen


class MajorityBaseline:
    """Question-only baseline that ranks answers by their frequency in train for the same question string.

    Ties and unseen strings fall back to the question type, then to all of train, then to the vocabulary's order.
    """

    def __init__(self, train: Iterable[Episode], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._of_question: dict[str, np.ndarray] = {}
        self._of_type: dict[str, np.ndarray] = {}
        self._of_all = np.zeros(len(vocabulary.answers))
        for episode in train:
            answer = vocabulary.answer_id(episode.answer)
            self._of_question.setdefault(episode.question, np.zeros_like(self._of_all))[answer] += 1
            self._of_type.setdefault(episode.question_type, np.zeros_like(self._of_all))[answer] += 1
            self._of_all[answer] += 1

    def scores(self, episodes: Sequence[Episode]) -> Float32[np.ndarray, "N A"]:
        """Scores, higher for more likely answers: the negated place in `rankings`, so that no two are the same."""
        order = self.rankings(episodes)
        scores = np.empty(order.shape, np.float32)
        np.put_along_axis(scores, order, -np.arange(order.shape[1], dtype=np.float32)[None].repeat(len(order), 0), 1)
        return scores

    def rankings(self, episodes: Sequence[Episode]) -> Int64[np.ndarray, "N A"]:
        """Answer ids of each episode, the best guess first."""
        nothing = np.zeros_like(self._of_all)
        rows = [
            np.lexsort(
                (
                    np.arange(len(nothing)),
                    -self._of_all,
                    -self._of_type.get(episode.question_type, nothing),
                    -self._of_question.get(episode.question, nothing),
                )
            )
            for episode in episodes
        ]
        return np.array(rows, np.int64).reshape(len(rows), len(nothing))

    def accuracy(self, episodes: Sequence[Episode]) -> float:
        """Share of episodes whose first guess is right; answers that train never gave count as missed. NaN for none."""
        if not episodes:
            return float("nan")
        first = self.rankings(episodes)[:, 0]
        return float(np.mean([self.vocabulary.answers[i] == e.answer for i, e in zip(first, episodes)]))
