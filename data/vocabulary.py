"""`Vocabulary`: words to ids and answers to ids, learned from the training questions alone.

Every question ends with `</s>`, which tells an encoder its end; batches are right-padded with `<pad>`, which is 0.
Answers of several words are one entry. A model can never learn other words and answers of val and test, so
`data.questions.generate` drops and counts them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Int64

from eqa.envs.episode import Episode

PAD, UNKNOWN, START, END = range(4)
LEAD_IN = re.compile(r"^.*\.\s+(?:please tell me )?", re.DOTALL)  # sentences that say where a city's target is
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


def tokenize(question: str) -> list[str]:
    """Lower-case words; punctuation separates, "what's" stays one word."""
    return re.findall(r"[a-z0-9]+(?:['-][a-z0-9]+)*", question.lower())


@dataclass(frozen=True)
class Vocabulary:
    """`words` starts with `SPECIALS`, the rest is sorted; `answers` is sorted. Ids are places in these.

    `kinds` are train's answers to questions that begin alike ("what color"). `asked` counts train's answers to each
    question. Files of older versions have neither.
    """

    words: tuple[str, ...]
    answers: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)
    _word_ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _answer_ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"vocabulary: words must start with {SPECIALS}, got {self.words[: len(SPECIALS)]}")
        for name, entries in (("words", self.words), ("answers", self.answers)):
            if len(set(entries)) != len(entries) or not all(isinstance(entry, str) for entry in entries):
                raise ValueError(f"vocabulary: {name} must be different strings, got {entries}")
        object.__setattr__(self, "_word_ids", {word: i for i, word in enumerate(self.words)})
        object.__setattr__(self, "_answer_ids", {answer: i for i, answer in enumerate(self.answers)})

    @classmethod
    def of(cls, train: Iterable[Episode]) -> "Vocabulary":
        """The vocabulary of a training split; ValueError if it has no question."""
        return cls.of_pairs((episode.question, episode.answer) for episode in train)

    @classmethod
    def of_pairs(cls, train: Iterable[tuple[str, str]]) -> "Vocabulary":
        """The vocabulary of pairs of question and answer; ValueError as in `of`."""
        words, answers = set(), set()
        kinds: dict[str, set[str]] = {}
        asked: dict[str, Counter[str]] = {}
        for question, answer in train:
            words.update(tokenize(question))
            answers.add(answer)
            kinds.setdefault(_opening(question), set()).add(answer)
            asked.setdefault(_plain(question), Counter())[answer] += 1
        if not answers:
            raise ValueError(
                "vocabulary: the training split has no question; python scripts/make_questions.py makes some"
            )
        alike = {opening: tuple(sorted(of_kind)) for opening, of_kind in sorted(kinds.items())}
        counts = {question: dict(sorted(asked[question].items())) for question in sorted(asked)}
        return cls((*SPECIALS, *sorted(words)), tuple(sorted(answers)), alike, counts)

    def encode(self, question: str, *, strict: bool = True) -> list[int]:
        """Word ids, `</s>` last. An unknown word is a ValueError naming it, or `<unk>` if not `strict`."""
        tokens = tokenize(question)
        if not tokens:
            raise ValueError(f"question {question!r}: expected words, got none")
        if strict and (unknown := [word for word in tokens if word not in self._word_ids]):
            raise ValueError(
                f"question {question!r}: unknown words {unknown}; the agent was trained on {len(self.words)} words, "
                f"ask with those or train on questions that have them"
            )
        return [*(self._word_ids.get(word, UNKNOWN) for word in tokens), END]

    def encode_batch(self, questions: Sequence[str], *, strict: bool = True) -> Int64[np.ndarray, "B L"]:
        """`encode` for B questions, right-padded with 0 to the longest one's L."""
        encoded = [self.encode(question, strict=strict) for question in questions]
        padded = np.full((len(encoded), max(map(len, encoded), default=0)), PAD, np.int64)
        for row, ids in zip(padded, encoded):
            row[: len(ids)] = ids
        return padded

    def decode(self, ids: Iterable[int]) -> str:
        """The question's words up to `</s>`, without specials."""
        words = []
        for i in ids:
            if i == END:
                break
            if i >= len(SPECIALS):
                words.append(self.words[i])
        return " ".join(words)

    def answer_id(self, answer: str) -> int:
        """Place of an answer; ValueError naming it if train never gave it."""
        if answer not in self._answer_ids:
            raise ValueError(
                f"answer {answer!r}: unknown; expected one of the {len(self.answers)} answers seen in training"
            )
        return self._answer_ids[answer]

    def of_kind(self, questions: Sequence[str]) -> Bool[np.ndarray, "B A"]:
        """True for the answers that each question can have: those of its kind, or all if train has no such kind."""
        possible = np.ones((len(questions), len(self.answers)), np.bool_)
        for row, question in zip(possible, questions, strict=True):
            if known := self.kinds.get(_opening(question)):
                row[:] = [answer in known for answer in self.answers]
        return possible

    def log_prior(self, questions: Sequence[str]) -> Float32[np.ndarray, "B A"]:
        """Logarithms of what the questions alone say of their answers; -inf for answers of another kind.

        They are train's shares of answers to the same question, with one further answer spread evenly over the kind.
        Questions that train does not have leave the answers of their kind even, as do files of older versions.
        """
        possible = self.of_kind(questions)
        prior = possible / possible.sum(1, keepdims=True)
        for row, question in zip(prior, questions, strict=True):
            if counts := self.asked.get(_plain(question)):
                for answer, count in counts.items():
                    row[self._answer_ids[answer]] += count
                row /= 1 + sum(counts.values())
        with np.errstate(divide="ignore"):
            return np.log(prior).astype(np.float32)

    def knows(self, question: str, answer: str) -> bool:
        """True if the question's every word and the answer are in the vocabulary."""
        return answer in self._answer_ids and all(word in self._word_ids for word in tokenize(question))

    def covers(self, other: "Vocabulary") -> bool:
        """True if all words and answers of another are known."""
        return set(other.words) <= set(self.words) and set(other.answers) <= set(self.answers)

    def to_dict(self) -> dict:
        kinds = {opening: list(answers) for opening, answers in self.kinds.items()}
        asked = {question: dict(counts) for question, counts in self.asked.items()}
        return {"words": list(self.words), "answers": list(self.answers), "kinds": kinds, "asked": asked}

    @classmethod
    def from_dict(cls, fields: dict) -> "Vocabulary":
        """Rebuilds a vocabulary from `to_dict`; ValueError on other keys."""
        if set(fields) - {"kinds", "asked"} != {"words", "answers"}:
            raise ValueError(f"vocabulary: expected the keys words, answers, kinds and asked, got {sorted(fields)}")
        kinds = {opening: tuple(answers) for opening, answers in fields.get("kinds", {}).items()}
        return cls(tuple(fields["words"]), tuple(fields["answers"]), kinds, fields.get("asked", {}))


def _opening(question: str) -> str:
    """The words that questions of a kind begin with; where sentences come before, behind "please tell me"."""
    return " ".join(tokenize(LEAD_IN.sub("", question.lower(), count=1))[:2])


def _plain(question: str) -> str:
    """The question as its words alone."""
    return " ".join(tokenize(question))
