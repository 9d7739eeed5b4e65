"""Judges mark answers from 1 to 5, and any callable can be one."""

import pytest

from eqa.data.source import Judge
from eqa.models.evaluation.judges import ExactMatch, NormalizedMatch, mark, normalized

FRAME = "there is a building to the north of you. to the east of the building, there is a car. please tell me {}?"


@pytest.mark.parametrize(
    ("truth", "answer", "exact", "normal"),
    [
        ("red", "red", 5, 5),
        ("red", "Red.", 1, 5),
        ("3", "There are three.", 1, 5),
        ("gray", "grey", 1, 5),
        ("café bleu", "Cafe  Bleu", 1, 5),
        ("the car", "a car", 1, 5),
        ("familymart", "family mart", 1, 1),
        ("red", "dark red", 1, 1),
        ("1", "12", 1, 1),
        ("it", "is", 1, 1),  # words that say little, and nothing else
        ("", "", 5, 5),
    ],
)
def test_a_match_gets_5_and_another_answer_1(truth: str, answer: str, exact: int, normal: int) -> None:
    assert isinstance(ExactMatch(), Judge) and isinstance(NormalizedMatch(), Judge)
    assert mark(ExactMatch(), "what?", truth, answer) == exact
    assert mark(NormalizedMatch(), "what?", truth, answer) == normal


def test_normalized_answers_keep_their_order_and_stay_themselves() -> None:
    assert normalized("The BIG, red bus!") == "big red bus" == normalized("big red bus")
    assert normalized("bus red big") != normalized("big red bus")


def test_a_judge_is_asked_about_the_question_behind_the_frame() -> None:
    heard = []

    def judge(question: str, truth: str, answer: str) -> int:
        heard.append((question, truth, answer))
        return 3

    assert mark(judge, FRAME.format("what color the car is"), "red", "pink") == 3
    assert mark(judge, "what color is the sofa?", "red", "pink") == 3
    assert heard == [("what color the car is?", "red", "pink"), ("what color is the sofa?", "red", "pink")]


@pytest.mark.parametrize("wrong", [0, 6, "5", 4.0, None, True])
def test_a_mark_that_is_none_of_1_to_5_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="judge .*: expected a whole number from 1 to 5 for 'pink', got"):
        mark(lambda question, truth, answer: wrong, "what?", "red", "pink")
