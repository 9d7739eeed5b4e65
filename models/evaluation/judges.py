"""Judges of CityEQA's QAA: they mark an answer in words from 1 to 5 (Zhao et al. 2025, Sec. 4.1).

The paper's judge is a language model. These two need none: an answer that is equal gets 5, any other 1, so their mean
rises with the share of right answers. A source takes any `data.source.Judge`, a callable that gets the
question behind the sentence frame, the true answer and the given one.
"""

import re
import unicodedata

from eqa.data.questions.city.sentences import Asking
from eqa.data.source import Judge

LEAST, MOST = 1, 5
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SAME = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"grey": "gray", "colour": "color"}
_NOT_SAID = {"a", "an", "the", "it", "is", "there", "are"}


class ExactMatch:
    """5 for the same text, 1 for another."""

    def __call__(self, question: str, truth: str, answer: str) -> int:
        return MOST if answer == truth else LEAST


class NormalizedMatch:
    """5 for the same words, 1 for others; case, accents, punctuation, articles and spellings do not count."""

    def __call__(self, question: str, truth: str, answer: str) -> int:
        return MOST if normalized(answer) == normalized(truth) else LEAST


def normalized(text: str) -> str:
    """The words of an answer that say something, in one spelling; all of its words if none does."""
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign))
    words = [_SAME.get(word, word) for word in re.findall(r"[^\W_]+", re.sub(r"['’]", "", plain))]
    return " ".join([word for word in words if word not in _NOT_SAID] or words)


def mark(judge: Judge, question: str, truth: str, answer: str) -> int:
    """The judge's mark; ValueError names one that is no whole number from 1 to 5.

    As in CityEQA, the judge is asked about the question behind the sentence frame alone.
    """
    asking = Asking.parse(question)
    given = judge(question if asking is None else f"{asking.asked}?", truth, answer)
    if type(given) is not int or not LEAST <= given <= MOST:
        raise ValueError(
            f"judge {type(judge).__name__}: expected a whole number from {LEAST} to {MOST} for {answer!r}, got {given!r}"
        )
    return given
