"""Schema of MP3D-EQA v1 files: keys and values of habitat-lab's class, and demands of habitat-baselines' trainers.

The source is habitat-lab at commit 0fb6f43. `datasets/eqa/mp3d_eqa_dataset.py` builds `EQAEpisode`
(`tasks/eqa/eqa.py`), `ObjectGoal`, `AgentState` and `ShortestPathPoint` from a file's entries by keyword. A key that a
class does not have is a TypeError there, and a ValueError with its place here. That code looks at hardly any value;
here values must have the classes' types, as far as the data set itself keeps to them. Both take any keys beside
`episodes` and the vocabularies, and inside the latter.
"""

from collections.abc import Callable, Mapping
from math import hypot, isfinite
from typing import NamedTuple

from eqa.data.benchmarks import expect
from eqa.data.vocabulary import SPECIALS


class Rule(NamedTuple):
    """Requirements on a value. `of` is the table of keys of an object, or of each object of a list if `listed`."""

    expected: str
    holds: Callable[[object], bool] = lambda value: True
    required: bool = False
    or_null: bool = False
    of: Mapping[str, "Rule"] | None = None
    listed: bool = False


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _numbers(value: object, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_number, value))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_rotation(value: object) -> bool:
    return _numbers(value, 4) and abs(hypot(*value) - 1) < 0.01


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and all(map(_whole, value))


TEXT = Rule("a text", lambda value: isinstance(value, str))
ID = Rule("a text or a whole number", lambda value: isinstance(value, str) or _whole(value))
NUMBER = Rule("a finite number", _number)
POINT = Rule("three finite numbers", lambda value: _numbers(value, 3))
ROTATION = Rule("a unit quaternion [x, y, z, w]", _is_rotation)
TOKENS = Rule("a list of whole numbers", _are_tokens)
ANSWER = Rule("a whole number or a list of them", lambda value: _whole(value) or _are_tokens(value))
OBJECT = Rule("an object", lambda value: isinstance(value, dict))
TEXTS = Rule("a list of texts", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value))


def _must(rule: Rule) -> Rule:
    return rule._replace(required=True)


def _may(rule: Rule) -> Rule:
    return rule._replace(or_null=True)


AGENT_STATE = {"position": _must(POINT), "rotation": _may(ROTATION)}
PATH_POINT = {
    "position": _must(POINT),
    "rotation": _must(ROTATION),
    "action": _may(Rule("a whole number", _whole)),
}
GOAL = {
    "position": _must(POINT),
    "radius": _may(NUMBER),
    "object_id": _must(ID),
    "object_name": _may(TEXT),
    "object_name_id": _may(Rule("a whole number", _whole)),
    "object_category": _may(TEXT),
    "room_id": _may(ID),
    "room_name": _may(TEXT),
    "view_points": _may(Rule("a list of positions with rotations", of=AGENT_STATE, listed=True)),
}
QUESTION = {
    "question_text": _must(TEXT),
    "answer_text": _must(TEXT),
    "question_tokens": _may(TOKENS),
    "answer_token": _may(ANSWER),
    "question_type": _may(TEXT),
}
EPISODE = {
    "episode_id": _must(ID),
    "scene_id": _must(TEXT),
    "start_position": _must(POINT),
    "start_rotation": _must(ROTATION),
    "goals": _must(Rule("a list of goals", of=GOAL, listed=True)),
    "question": _must(Rule("a question", of=QUESTION)),
    "scene_dataset_config": TEXT,
    "additional_obj_config_paths": TEXTS,
    "info": _may(OBJECT),
    "start_room": _may(ID),
    "shortest_paths": _may(Rule("a list of paths", lambda value: isinstance(value, list))),
}


def check(document: object) -> dict:
    """The document, if habitat-lab's class takes it; otherwise a ValueError with the place and the reason."""
    expect(isinstance(document, dict), "an object", document, where="the file")
    for key in ("question_vocab", "answer_vocab"):
        vocabulary = document.get(key)
        expect(isinstance(vocabulary, dict), "an object", vocabulary, where=key)
        _check("word_list", vocabulary, _must(TEXTS), key)
    expect(isinstance(document.get("episodes"), list), "a list", document.get("episodes"), where="episodes")
    for number, episode in enumerate(document["episodes"]):
        check_episode(episode, where=f"episodes[{number}]")
    return document


def check_episode(episode: object, *, where: str = "episode") -> dict:
    """`check` for one entry of `episodes`."""
    _check_object(episode, EPISODE, where)
    for p, path in enumerate(episode.get("shortest_paths") or ()):
        expect(isinstance(path, list), "a list", path, where=f"{where}.shortest_paths[{p}]")
        for t, point in enumerate(path):
            _check_object(point, PATH_POINT, f"{where}.shortest_paths[{p}][{t}]")
    return episode


def check_for_training(document: object) -> None:
    """ValueError for a checked document that makes habitat-baselines' trainers fail or go wrong.

    They pad questions with a literal 0, sort ids as numbers, and take the first path of every episode. A list of words
    without `<unk>` gets it put before all others on loading, which shifts every token.
    """
    check(document)
    words, answers = document["question_vocab"]["word_list"], document["answer_vocab"]["word_list"]
    has_specials = words[:1] == ["<pad>"] and set(SPECIALS) <= set(words)
    expect(has_specials, f"<pad> first and all of {SPECIALS}", words[:6], where="question_vocab")
    expect("<unk>" in answers, "<unk> among the words", answers[:6], where="answer_vocab")
    for number, episode in enumerate(document["episodes"]):
        question, where = episode["question"], f"episodes[{number}]"
        is_number = str(episode["episode_id"]).isdecimal()
        expect(is_number, "digits", episode["episode_id"], where=f"{where}.episode_id")
        tokens, token = question.get("question_tokens"), question.get("answer_token")
        in_words = bool(tokens) and all(0 < one < len(words) for one in tokens)
        expect(in_words, "places in question_vocab, not <pad>", tokens, where=f"{where}.question.question_tokens")
        in_answers = _whole(token) and 0 <= token < len(answers) and answers[token] == question["answer_text"]
        expect(in_answers, "its answer_text's place", token, where=f"{where}.question.answer_token")
        path = (episode.get("shortest_paths") or [[]])[0]
        expect(bool(path), "a path", path, where=f"{where}.shortest_paths")
        expect(path[-1].get("action") == 3, "3, stop, as last action", path[-1], where=f"{where}.shortest_paths")


def _check_object(value: object, table: Mapping[str, Rule], where: str) -> None:
    expect(isinstance(value, dict), "an object", value, where=where)
    for key in value:
        if key not in table:
            raise ValueError(
                f"{where}: expected some of the keys {sorted(table)}, got {key!r}, which habitat-lab refuses"
            )
    for key, rule in table.items():
        _check(key, value, rule, where)


def _check(key: str, entry: dict, rule: Rule, where: str) -> None:
    where, value = f"{where}.{key}", entry.get(key)
    if key not in entry:
        expect(not rule.required, rule.expected, "nothing", where=where)
    elif value is None:
        expect(rule.or_null, rule.expected, None, where=where)
    elif rule.of is None:
        expect(rule.holds(value), rule.expected, value, where=where)
    elif rule.listed:
        expect(isinstance(value, list), rule.expected, value, where=where)
        for number, one in enumerate(value):
            _check_object(one, rule.of, f"{where}[{number}]")
    else:
        _check_object(value, rule.of, where)
