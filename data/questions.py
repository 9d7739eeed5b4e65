"""Question sets: made from houses, written to and streamed from one file that a person can read.

`make_questions` runs templates over houses, drops what cannot be seen, filters by entropy over all houses, and draws
splits of the wanted sizes. All but train keep only words and answers that train has; the header counts what that costs.
The split "human" (homes that people designed, for testing only) has no say in what is balanced, and may be empty.

The file is JSON lines. Line 1 is the header: format, version, configuration (all that the contents depend on), counts
(split -> question type -> number), steps (step -> split -> number of questions left after it: generated, possible to
balance, visible, balanced, known to train's vocabulary, chosen). Each further line is `{"split": ...}` with the
fields of `envs.episode.Episode`. Splits come one after the other.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from data.balance import could_pass, entropy_filter, sample
from data.relations import volume_m3
from data.rules import Rules, load_rules
from data.templates import Generator, Question
from data.view_points import GOAL_RADIUS_M, GOAL_TURNS
from data.visibility import Target, ViewPoints, Visible
from data.vocabulary import Vocabulary
from envs.actions import TURN_RAD
from envs.episode import Episode
from envs.files import fingerprint, written_aside
from envs.house.generator import HUMAN, SPLITS
from envs.house.house import House

FORMAT = "eqa-questions"
FORMAT_VERSION = 2
GENERATOR = "questions-4"  # raise with every change of what is asked, or of where its answer is seen from
REBUILD = "python scripts/make_questions.py rebuilds it"
ALL_SPLITS = (*SPLITS, HUMAN)


@dataclass(frozen=True)
class QuestionSet:
    """Episodes of each split and the file's header about them."""

    episodes: dict[str, list[Episode]]
    header: dict


def make_questions(
    houses: Mapping[str, Sequence[House]],
    *,
    counts: Mapping[str, int | None],
    seed: int,
    visible: Visible,
    question_set: str = "eqa_v1",
    rules: Rules | None = None,
    made_from: Mapping = MappingProxyType({}),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionSet:
    """Makes the questions of all splits together, for the balance is judged over all houses.

    houses: split -> houses; must have train. counts: split -> how many questions, None for all that there are.
    visible: see `data.visibility`; asked once for each house, about the objects of questions that could be chosen.
    made_from: what the caller knows about houses and visibility (JSON); stands in the header's configuration.
    progress: told (houses looked at, houses) after each house.
    ValueError if a split ends up empty, saying which step removed what.
    """
    rules = rules or load_rules()
    settings = configuration(
        counts=counts,
        seed=seed,
        question_set=question_set,
        rules=rules,
        made_from=made_from,
    )
    by_id = _check_houses(houses, counts)
    shares, split_of = rules.sets[question_set], {house.id: split for split in houses for house in houses[split]}
    generator = Generator(rules, list(shares))
    steps = {"generated": [q for house in by_id.values() for q in generator.generate(house)]}
    judges = {scene_id for scene_id, split in split_of.items() if split != HUMAN}
    steps["possible"] = could_pass(steps["generated"], rules.balance, judges)
    steps["visible"], views = _look(steps["possible"], by_id, visible, progress)
    steps["balanced"] = entropy_filter(steps["visible"], rules.balance, judges)
    by_split = {split: [q for q in steps["balanced"] if split_of[q.scene_id] == split] for split in counts}
    steps["known"], steps["chosen"] = _draw(by_split, counts, shares, rules.balance.max_per_house, seed)
    left = {step: dict(Counter(split_of[q.scene_id] for q in found)) for step, found in steps.items()}
    _refuse_empty(left, houses)
    episodes: dict[str, list[Episode]] = {split: [] for split in ALL_SPLITS if split in houses}
    for q in steps["chosen"]:
        seen_from = views[q.scene_id, _target(q, by_id)]
        episodes[split_of[q.scene_id]].append(_episode(q, by_id[q.scene_id], seen_from))
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "configuration": settings,
        "counts": {split: dict(Counter(e.question_type for e in found)) for split, found in episodes.items()},
        "steps": left,
    }
    return QuestionSet(episodes, header)


def configuration(
    *,
    counts: Mapping[str, int | None],
    seed: int,
    question_set: str = "eqa_v1",
    rules: Rules | None = None,
    made_from: Mapping = MappingProxyType({}),
) -> dict:
    """What `make_questions` writes into the header about its arguments: a file with the same is the same set."""
    rules = rules or load_rules()
    if question_set not in rules.sets:
        raise ValueError(f"question_set: expected one of {list(rules.sets)}, got {question_set!r}")
    return {
        "generator": GENERATOR,
        "set": question_set,
        "rules": fingerprint(rules.document),
        "counts": dict(counts),
        "seed": seed,
        "made_from": dict(made_from),
    }


def _check_houses(houses: Mapping[str, Sequence[House]], counts: Mapping[str, int | None]) -> dict[str, House]:
    """All houses by id, in the order of the splits."""
    if "train" not in houses or set(houses) - set(ALL_SPLITS):
        raise ValueError(f"houses: expected train and perhaps others of {ALL_SPLITS}, got {sorted(houses)}")
    if set(counts) != set(houses):
        raise ValueError(f"counts: expected one for each of {sorted(houses)}, got {sorted(counts)}")
    for split, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"counts: expected at least 1 question for {split}, got {count}")
    by_id: dict[str, House] = {}
    for split in sorted(houses, key=ALL_SPLITS.index):
        for house in houses[split]:
            if house.id in by_id:
                raise ValueError(
                    f"house {house.id}: expected each house once and in one split, got it again in {split}"
                )
            by_id[house.id] = house
    return by_id


def _look(
    questions: Sequence[Question],
    houses: Mapping[str, House],
    visible: Visible,
    progress: Callable[[int, int], None],
) -> tuple[list[Question], dict[tuple[str, Target], ViewPoints]]:
    """The questions whose answers can be seen, and from where each house's targets can."""
    wanted: dict[str, set[Target]] = {}
    for question in questions:
        wanted.setdefault(question.scene_id, set()).add(_target(question, houses))
    views: dict[tuple[str, Target], ViewPoints] = {}
    for done, (scene_id, of_house) in enumerate(wanted.items(), start=1):
        targets = sorted(of_house)
        found = visible(houses[scene_id], targets)
        views.update({(scene_id, target): poses for target, poses in zip(targets, found, strict=True)})
        progress(done, len(wanted))
    return [q for q in questions if views[q.scene_id, _target(q, houses)]], views


def _target(question: Question, houses: Mapping[str, House]) -> Target:
    """All objects that the answer needs, the smallest first: it is the hardest to see."""
    things = houses[question.scene_id].objects
    return tuple(sorted(question.touched, key=lambda i: (volume_m3(things[i - 1]), i)))


def _draw(
    by_split: Mapping[str, Sequence[Question]],
    counts: Mapping[str, int | None],
    shares: Mapping[str, float],
    max_per_house: int,
    seed: int,
) -> tuple[list[Question], list[Question]]:
    """What train knows the words and the answer of, and of that the questions of the wanted numbers."""
    known: list[Question] = []
    chosen: list[Question] = []
    vocabulary = None
    for number, split in enumerate(ALL_SPLITS):
        if split in by_split:
            familiar = [q for q in by_split[split] if vocabulary is None or vocabulary.knows(q.text, q.answer)]
            rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
            drawn = sample(familiar, counts[split], shares=shares, max_per_house=max_per_house, rng=rng)
            if vocabulary is None and drawn:
                vocabulary = Vocabulary.of_pairs((q.text, q.answer) for q in drawn)
            known += familiar
            chosen += drawn
    return known, chosen


def _refuse_empty(left: Mapping[str, Mapping[str, int]], houses: Mapping[str, Sequence[House]]) -> None:
    for split in houses:
        if split != HUMAN and not left["chosen"].get(split):
            story = ", ".join(f"{step} {numbers.get(split, 0)}" for step, numbers in left.items())
            raise ValueError(
                f"{split}: no question is left of {len(houses[split])} houses ({story}); use more houses or milder rules"
            )


def _episode(question: Question, house: House, view_points: ViewPoints) -> Episode:
    return Episode(
        episode_id=f"{question.scene_id}-{question.number:03d}",
        scene_id=question.scene_id,
        question=question.text,
        answer=question.answer,
        question_type=question.type,
        source=f"{GENERATOR} on {house.generator}",
        target_object=question.target_object,
        target_room=question.room,
        view_points=view_points,
        goal_radius_m=GOAL_RADIUS_M,
        goal_turn_rad=GOAL_TURNS * TURN_RAD,
        program=question.program,
    )


def write_questions(path: Path, questions: QuestionSet) -> None:
    """Writes a set, aside first and then renamed."""
    with written_aside(path) as aside, aside.open("w") as file:
        file.write(json.dumps(questions.header) + "\n")
        for split, episodes in questions.episodes.items():
            for episode in episodes:
                file.write(json.dumps({"split": split, **episode.to_dict()}) + "\n")


def read_header(path: Path) -> dict:
    """The header of a question file; ValueError if it is missing, damaged or of another version."""
    try:
        with path.open() as file:
            header = json.loads(file.readline())
        found = (header["format"], header["version"])
        if found != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"expected {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}")
        return header
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a usable question file ({error!r}); {REBUILD}") from None


def stream_questions(path: Path, split: str) -> Iterator[Episode]:
    """A split's episodes, one at a time. ValueError naming the line where the file is damaged or ends too early."""
    expected = sum(read_header(path)["counts"].get(split, {}).values())
    if not expected:
        raise ValueError(f"{path}: no question in split {split!r}; {REBUILD}")
    found = 0
    with path.open() as file:
        next(file)
        for number, line in enumerate(file, start=2):
            try:
                fields = json.loads(line)
                if fields.pop("split") == split:
                    episode = Episode.from_dict(fields)
                    found += 1
                    yield episode
                elif found:
                    break
            except (ValueError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: damaged ({error}); {REBUILD}") from None
    if found != expected:
        raise ValueError(f"{path}: expected {expected} questions in split {split!r}, got {found}; {REBUILD}")


def load_questions(path: Path, split: str, *, configuration: Mapping | None = None) -> list[Episode]:
    """A split's episodes. ValueError as in `stream_questions`, and if the file has another configuration than given."""
    if configuration is not None and (made_with := read_header(path)["configuration"]) != dict(configuration):
        differ = sorted(k for k in {*made_with, *configuration} if made_with.get(k) != configuration.get(k))
        told = ", ".join(f"{k}: expected {configuration.get(k)!r}, got {made_with.get(k)!r}" for k in differ)
        raise ValueError(f"{path}: made with another configuration ({told}); {REBUILD}")
    return list(stream_questions(path, split))
