"""Words and answers to ids and back."""

import numpy as np
import pytest

from eqa.data.vocabulary import END, PAD, SPECIALS, UNKNOWN, Vocabulary, tokenize
from eqa.envs.episode import Episode


def episode(question: str, answer: str) -> Episode:
    return Episode("0", "train-00000", question, answer, "location", "test")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.of(
        [
            episode("what room is the tv stand located in?", "living room"),
            episode("what color is the sofa?", "red"),
            episode("what color is the sofa?", "blue"),
        ]
    )


def test_specials_come_first_and_the_rest_is_sorted(vocabulary):
    assert vocabulary.words[:4] == SPECIALS
    assert list(vocabulary.words[4:]) == sorted(vocabulary.words[4:])
    assert vocabulary.answers == ("blue", "living room", "red")


def test_every_word_of_a_name_is_a_word_and_an_answer_stays_whole(vocabulary):
    assert {"tv", "stand"} <= set(vocabulary.words)
    assert vocabulary.answers[vocabulary.answer_id("living room")] == "living room"


def test_the_order_of_the_questions_does_not_matter():
    episodes = [episode("what color is the sofa?", "red"), episode("what room is the bed located in?", "office")]
    assert Vocabulary.of(episodes) == Vocabulary.of(reversed(episodes))


def test_encoding_ends_with_the_end_mark_and_decodes_to_the_words(vocabulary):
    ids = vocabulary.encode("What color is the sofa?")
    assert ids[-1] == END and PAD not in ids
    assert vocabulary.decode(ids) == "what color is the sofa"


def test_a_batch_is_right_padded_with_zero(vocabulary):
    questions = ["what color is the sofa?", "what room is the tv stand located in?"]
    batch = vocabulary.encode_batch(questions)
    assert batch.shape == (2, 9)
    for row, question in zip(batch, questions):
        ids = vocabulary.encode(question)
        assert row.tolist() == ids + [PAD] * (9 - len(ids))


def test_an_unknown_word_is_named(vocabulary):
    with pytest.raises(ValueError, match="elephant"):
        vocabulary.encode("what color is the elephant?")


def test_an_unknown_word_is_unk_when_not_strict(vocabulary):
    assert vocabulary.encode("color elephant", strict=False) == [vocabulary.words.index("color"), UNKNOWN, END]


def test_an_empty_question_is_refused(vocabulary):
    with pytest.raises(ValueError, match="expected words"):
        vocabulary.encode(" ?")


def test_an_unknown_answer_is_named(vocabulary):
    with pytest.raises(ValueError, match="plaid"):
        vocabulary.answer_id("plaid")


def test_known_questions_have_every_word_and_the_answer(vocabulary):
    assert vocabulary.knows("what color is the tv stand?", "red")
    assert not vocabulary.knows("what color is the tv stand?", "green")
    assert not vocabulary.knows("what color is the bed?", "red")


def test_a_vocabulary_survives_a_checkpoint(vocabulary):
    assert Vocabulary.from_dict(vocabulary.to_dict()) == vocabulary
    assert Vocabulary.from_dict(vocabulary.to_dict()).encode("the sofa") == vocabulary.encode("the sofa")


def test_foreign_vocabularies_are_refused():
    with pytest.raises(ValueError, match="must start with"):
        Vocabulary(("what", "is"), ("red",))
    with pytest.raises(ValueError, match="different strings"):
        Vocabulary((*SPECIALS, "a", "a"), ("red",))
    with pytest.raises(ValueError, match="expected the keys"):
        Vocabulary.from_dict({"words": []})


def test_no_training_question_is_an_error_that_names_the_command():
    with pytest.raises(ValueError, match="make_questions.py"):
        Vocabulary.of([])


def test_punctuation_separates_words():
    assert tokenize("What's on the T-shirt, please?") == ["what's", "on", "the", "t-shirt", "please"]


def test_an_answer_is_of_the_kind_that_train_gave_to_questions_that_begin_alike() -> None:
    pairs = [("what color is the sofa?", "red"), ("what color is the bed?", "blue"), ("what room is it in?", "garage")]
    vocabulary = Vocabulary.of_pairs([*pairs, ("what is below the computer?", "desk")])
    assert vocabulary.answers == ("blue", "desk", "garage", "red")
    asked = ["what is below the sofa?", "What color is the bed", "what room is the bed in?", "is there a bed?"]
    expected = [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]]
    for known in (vocabulary, Vocabulary.from_dict(vocabulary.to_dict())):
        assert known.of_kind(asked).astype(int).tolist() == expected
    older = Vocabulary.from_dict({name: vocabulary.to_dict()[name] for name in ("words", "answers")})
    assert older == vocabulary and older.of_kind(asked).all()
    assert (older.log_prior(asked) == np.log(np.float32(1 / 4))).all()


def test_the_prior_is_what_train_answered_to_the_question_and_one_more_answer_of_its_kind() -> None:
    pairs = [("what color is the sofa?", "red")] * 2 + [("what color is the bed?", "blue"), ("what room?", "garage")]
    vocabulary = Vocabulary.of_pairs([*pairs, ("what color is the sofa?", "blue")])
    asked = ["What color is the sofa", "what color is the bed?", "what color is the car?", "what room?"]
    expected = [[1.5 / 4, 0, 2.5 / 4], [1.5 / 2, 0, 0.5 / 2], [1 / 2, 0, 1 / 2], [0, 1, 0]]
    assert vocabulary.answers == ("blue", "garage", "red")
    for known in (vocabulary, Vocabulary.from_dict(vocabulary.to_dict())):
        np.testing.assert_allclose(np.exp(known.log_prior(asked)), expected, rtol=1e-6)


def test_a_question_behind_the_sentences_of_a_city_is_of_its_own_kind() -> None:
    frame = "there is a building to the {} of you. to the east of the building, there is a car. please tell me {}?"
    pairs = [
        (frame.format("north", "what color the car is"), "red"),
        (frame.format("west", "how many wheels it has"), "4"),
    ]
    vocabulary = Vocabulary.of_pairs([*pairs, ("what color is the sofa?", "blue")])
    asked = [frame.format("east", "what color the bus is"), frame.format("east", "how many doors it has")]
    assert vocabulary.answers == ("4", "blue", "red")
    assert vocabulary.of_kind(asked).tolist() == [[False, True, True], [True, False, False]]
