"""Balance of a question set, and the baseline that shows what is left of the bias.

`entropy_filter` is the paper's (3.2): the answers of one question string over all houses must have a normalised entropy of
at least 0.5, in at least four houses. `sample` draws a set of a given size close to given shares of question types.
`MajorityBaseline` answers without looking, from the question string alone.

Axes: N episodes, A answers of the vocabulary.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from math import floor, log

import numpy as np
from jaxtyping import Float32, Int64

from data.rules import Balance
from data.templates import Question
from data.vocabulary import Vocabulary
from envs.episode import Episode


def normalized_entropy(counts: Iterable[int]) -> float:
    """Entropy of a distribution of answers to the base of how many different ones there are; 0 for a single one."""
    counts = [count for count in counts if count]
    if len(counts) < 2:
        return 0.0
    total = sum(counts)
    return -sum(count / total * log(count / total) for count in counts) / log(len(counts))


def answer_counts(questions: Iterable[Question], judges: Container[str] | None = None) -> dict[str, Counter[str]]:
    """For each question string how often each answer is right, in all houses or the `judges` among them.

    A house gives a string one answer at most.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for question in questions:
        if judges is None or question.scene_id in judges:
            counts[question.text][question.answer] += 1
    return counts


def could_pass(questions: Sequence[Question], balance: Balance, judges: Container[str] | None = None) -> list[Question]:
    """Drops what no removal of others could bring through `entropy_filter`: rare strings and those with one answer."""
    counts = answer_counts(questions, judges)
    fine = {text for text, c in counts.items() if c.total() >= balance.min_houses and len(c) > 1}
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


def quotas(count: int, shares: Mapping[str, float], available: Mapping[str, int]) -> dict[str, int]:
    """How many questions of each type make `count` in the given shares. What a type lacks, the others give."""
    taken = dict.fromkeys(shares, 0)
    left = min(count, sum(available.get(name, 0) for name in shares))
    while left:
        open_types = {name: share for name, share in shares.items() if taken[name] < available.get(name, 0)}
        wanted = _largest_remainders(left, open_types)
        for name, number in wanted.items():
            taken[name] += min(number, available[name] - taken[name])
        left = min(count, sum(available.get(name, 0) for name in shares)) - sum(taken.values())
    return taken


def _largest_remainders(count: int, shares: Mapping[str, float]) -> dict[str, int]:
    total = sum(shares.values())
    exact = {name: count * share / total for name, share in shares.items()}
    whole = {name: floor(number) for name, number in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (whole[name] - exact[name], name))
    for name in by_remainder[: count - sum(whole.values())]:
        whole[name] += 1
    return whole


def sample(
    questions: Sequence[Question],
    count: int | None,
    *,
    shares: Mapping[str, float],
    max_per_house: int,
    rng: np.random.Generator,
) -> list[Question]:
    """At most `count` questions (None: all) of at most `max_per_house` a house, in their given order.

    Types come in the given shares as far as there are enough; within a type the houses take turns, so that a small set
    is spread over all of them. Only types with a share are drawn.
    """
    by_house: dict[str, dict[str, list[Question]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        if question.type in shares:
            by_house[question.scene_id][question.type].append(question)
    queues: dict[str, list[tuple[int, float, Question]]] = {name: [] for name in shares}
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


class MajorityBaseline:
    """Ranks answers by how often train gave them to the same question string; ties and unseen strings fall back to the
    question type, then to all of train, then to the vocabulary's order."""

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
        """Higher is more likely; no two answers of an episode score the same. A place in `rankings`, negated."""
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
        """Share of episodes whose first guess is right; an answer that train never gave counts as missed. NaN for none."""
        if not episodes:
            return float("nan")
        first = self.rankings(episodes)[:, 0]
        return float(np.mean([self.vocabulary.answers[i] == e.answer for i, e in zip(first, episodes)]))
