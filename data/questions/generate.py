"""`make_questions`: question sets made from houses.

It runs templates over houses, drops invisible answers, balances answers over all houses, and draws splits of the wanted
sizes. `add_spawns` then gives each question its spawns and walks. All splits but train keep only words and answers that
train has; the header counts the losses. The split "human" (homes that people designed, for testing only) does not
affect the balance, and may be empty.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from eqa.data.questions.balance import (
    Round,
    could_pass,
    entropy_filter,
    paired_rounds,
    sample,
    sample_like,
    sample_rounds,
    whole_rounds,
)
from eqa.data.questions.journal import ParallelMap
from eqa.data.questions.relations import volume_m3
from eqa.data.questions.rules import Balance, Rules, load_rules
from eqa.data.questions.spawns import AddSpawns
from eqa.data.questions.storage import FORMAT, FORMAT_VERSION, QuestionSet
from eqa.data.questions.templates import Generator, Question
from eqa.data.questions.view_points import GOAL_RADIUS_M, GOAL_TURNS, Target, ViewPoints, Visible, overview
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Entity, Episode, Point
from eqa.envs.files import fingerprint
from eqa.envs.house.generator import HUMAN, SPLITS
from eqa.envs.house.house import House

GENERATOR = "questions-9"  # raise with every change of questions, or of the poses that show their answers
ALL_SPLITS = (*SPLITS, HUMAN)
NUM_PASSES = 3  # over all houses: asking, looking, placing


def make_questions(
    houses: Mapping[str, Sequence[House]],
    *,
    counts: Mapping[str, int | None],
    seed: int,
    visible: Visible,
    add_spawns: AddSpawns,
    question_set: str = "eqa_v1",
    balance: str = "entropy",
    rules: Rules | None = None,
    made_from: Mapping = MappingProxyType({}),
    parallel_map: ParallelMap = map,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionSet:
    """Makes the questions of all splits together, as the balance is judged over all houses.

    houses: split -> houses; must have train. counts: split -> number of questions, None for all.
    visible: see `data.questions.view_points`; called once for each house, with the targets of its eligible questions.
    add_spawns: adds spawns and walks to the episodes of one house, None for those without a possible walk; see
    `data.questions.spawns`.
    balance: "none", "entropy" or "paired", see `data.questions.balance`.
    made_from: the caller's settings of houses and visibility (JSON), for the header's configuration.
    parallel_map: map of `visible` and `add_spawns` over all houses, see `envs.workers` and `data.questions.journal`.
    progress: called with (houses done, houses) after each house, of NUM_PASSES over all houses.
    ValueError if a split ends up empty, with the numbers that each step left.
    """
    rules = rules or load_rules()
    settings = configuration(
        counts=counts,
        seed=seed,
        question_set=question_set,
        balance=balance,
        rules=rules,
        made_from=made_from,
    )
    by_id = _check_houses(houses, counts)
    split_of = {house.id: split for split in houses for house in houses[split]}
    generator = Generator(rules, list(rules.sets[question_set]))
    judges = {scene_id for scene_id, split in split_of.items() if split != HUMAN}
    steps: dict[str, list[Question]] = {"generated": []}

    def report(number: int, done: int, total: int) -> None:
        progress(number * len(by_id) + done * len(by_id) // total, NUM_PASSES * len(by_id))

    for done, house in enumerate(by_id.values(), start=1):
        steps["generated"] += generator.generate(house)
        report(0, done, len(by_id))
    steps["possible"] = could_pass(steps["generated"], _LEAST[balance](rules.balance), judges)
    steps["visible"], views = _find_view_points(
        steps["possible"], by_id, partial(parallel_map, visible), partial(report, 1)
    )
    balanced = _balanced(steps["visible"], split_of, rules, balance=balance, seed=seed)
    drawing = _Drawing(counts, rules.sets[question_set], rules.balance.max_per_house, seed)
    known, chosen = drawing.rounds(balanced, paired=balance == "paired")
    for step, found in (("balanced", balanced), ("known", known), ("chosen", chosen)):
        steps[step] = _in_order(found, steps["visible"])
    with_spawns = _with_spawns(steps["chosen"], by_id, views, partial(parallel_map, add_spawns), partial(report, 2))
    steps["reached"] = [q for q in steps["chosen"] if (q.scene_id, q.number) in with_spawns]
    if balance == "paired":
        in_rounds, others = (
            [q for q in steps["reached"] if (q.scene_id in judges) == judged] for judged in (True, False)
        )
        steps["reached"] = whole_rounds(in_rounds, steps["chosen"], split_of) + others
    left = {step: dict(Counter(split_of[q.scene_id] for q in found)) for step, found in steps.items()}
    _refuse_empty(left, houses)
    episodes: dict[str, list[Episode]] = {split: [] for split in ALL_SPLITS if split in houses}
    for q in steps["reached"]:
        episodes[split_of[q.scene_id]].append(with_spawns[q.scene_id, q.number])
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "configuration": settings,
        "counts": {split: dict(Counter(e.question_type for e in found)) for split, found in episodes.items()},
        "steps": left,
    }
    return QuestionSet(episodes, header)


# Least numbers of houses and of different answers that make a string's balance worth looking at.
_LEAST: dict[str, Callable[[Balance], tuple[int, int]]] = {
    "none": lambda balance: (1, 1),
    "entropy": lambda balance: (balance.min_houses, 2),
    "paired": lambda balance: (2, 2),
}
BALANCES = tuple(_LEAST)


def configuration(
    *,
    counts: Mapping[str, int | None],
    seed: int,
    question_set: str = "eqa_v1",
    balance: str = "entropy",
    rules: Rules | None = None,
    made_from: Mapping = MappingProxyType({}),
) -> dict:
    """The header's account of the arguments of `make_questions`: files with the same account hold the same set."""
    rules = rules or load_rules()
    for name, given, known in (("question_set", question_set, rules.sets), ("balance", balance, _LEAST)):
        if given not in known:
            raise ValueError(f"{name}: expected one of {list(known)}, got {given!r}")
    return {
        "generator": GENERATOR,
        "set": question_set,
        "balance": balance,
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


def _find_view_points(
    questions: Sequence[Question],
    houses: Mapping[str, House],
    find_view_points: Callable[[Sequence[House], Sequence[Sequence[Target]]], Iterator[Sequence[ViewPoints]]],
    progress: Callable[[int, int], None],
) -> tuple[list[Question], dict[str, dict[Target, ViewPoints]]]:
    """The questions about visible things or the whole house, and the poses that see each house's targets."""
    wanted: dict[str, set[Target]] = {}
    for question in questions:
        if question.sight != "house":
            wanted.setdefault(question.scene_id, set()).add(_target(question, houses))
    views: dict[str, dict[Target, ViewPoints]] = {scene_id: {} for scene_id in houses}
    targets = [sorted(of_house) for of_house in wanted.values()]
    found = find_view_points([houses[scene_id] for scene_id in wanted], targets)
    for done, (scene_id, of_house, poses) in enumerate(zip(wanted, targets, found, strict=True), start=1):
        views[scene_id] = dict(zip(of_house, poses, strict=True))
        progress(done, len(wanted))
    seen = [q for q in questions if q.sight == "house" or views[q.scene_id][_target(q, houses)]]
    return seen, views


def _target(question: Question, houses: Mapping[str, House]) -> Target:
    """The things to see: all objects that the answer needs, the smallest first, as it is the hardest; or the room."""
    if question.sight == "room":
        return overview(question.rooms[0])
    things = houses[question.scene_id].objects
    return tuple(sorted(question.touched, key=lambda i: (volume_m3(things[i - 1]), i)))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Settings of the draw from visible questions."""

    counts: Mapping[str, int | None]  # split -> number of questions
    shares: Mapping[str, float]  # type -> share
    max_per_house: int
    seed: int

    def rounds(
        self, balanced: Mapping[str, Sequence[Round]], *, paired: bool
    ) -> tuple[dict[str, list[Round]], dict[str, list[Round]]]:
        """By split the rounds that train's vocabulary covers, and the chosen ones of these.

        Paired splits ask only train's questions. Other splits get each answer of a type as often as train does, as far
        as there are enough.
        """
        known: dict[str, list[Round]] = {}
        chosen: dict[str, list[Round]] = {}
        for number, split in enumerate(ALL_SPLITS):
            if split not in self.counts:
                continue
            known[split] = _known(balanced.get(split, ()), chosen.get("train"), paired=paired)
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, number]))
            limits = {"shares": self.shares, "max_per_house": self.max_per_house, "rng": rng}
            if paired:
                chosen[split] = sample_rounds(known[split], self.counts[split], **limits)
            else:
                single, train = [q for (q,) in known[split]], [q for (q,) in chosen.get("train", ())]
                draw = partial(sample_like, train) if train else sample
                chosen[split] = [(q,) for q in draw(single, self.counts[split], **limits)]
        return known, chosen


def _known(rounds: Iterable[Round], train: Sequence[Round] | None, *, paired: bool) -> list[Round]:
    """Rounds with words and answers of train; paired: rounds that train asks and answers. All for train itself."""
    if not train:
        return list(rounds)
    if paired:
        asked = {(question.text, question.answer) for a_round in train for question in a_round}
        return [a_round for a_round in rounds if (a_round[0].text, a_round[0].answer) in asked]
    vocabulary = Vocabulary.of_pairs((q.text, q.answer) for a_round in train for q in a_round)
    return [a_round for a_round in rounds if all(vocabulary.knows(q.text, q.answer) for q in a_round)]


def _balanced(
    questions: Sequence[Question], split_of: Mapping[str, str], rules: Rules, *, balance: str, seed: int
) -> dict[str, list[Round]]:
    """The balanced questions by split, in rounds; a round has one question unless it is paired.

    The human homes are too few to be paired among themselves.
    """
    judges = {scene_id for scene_id, split in split_of.items() if split != HUMAN}
    if balance == "paired":
        judged = [q for q in questions if q.scene_id in judges]
        rounds = paired_rounds(judged, split_of, judges, np.random.default_rng([seed, len(ALL_SPLITS)]))
        return {**rounds, HUMAN: [(q,) for q in questions if q.scene_id not in judges]}
    rounds = {split: [] for split in split_of.values()}
    for question in entropy_filter(questions, rules.balance, judges) if balance == "entropy" else questions:
        rounds[split_of[question.scene_id]].append((question,))
    return rounds


def _in_order(rounds: Mapping[str, Sequence[Round]], questions: Sequence[Question]) -> list[Question]:
    """All questions of rounds, in the order that they were generated in."""
    chosen = {(q.scene_id, q.number) for of_split in rounds.values() for a_round in of_split for q in a_round}
    return [q for q in questions if (q.scene_id, q.number) in chosen]


def _refuse_empty(left: Mapping[str, Mapping[str, int]], houses: Mapping[str, Sequence[House]]) -> None:
    for split in houses:
        if split != HUMAN and not left["reached"].get(split):
            story = ", ".join(f"{step} {numbers.get(split, 0)}" for step, numbers in left.items())
            raise ValueError(
                f"{split}: no question is left of {len(houses[split])} houses ({story}); use more houses or milder rules"
            )


def _with_spawns(
    questions: Sequence[Question],
    houses: Mapping[str, House],
    views: Mapping[str, Mapping[Target, ViewPoints]],
    add_spawns: Callable[[Sequence[House], Sequence[Sequence[Episode]]], Iterator[Sequence[Episode | None]]],
    progress: Callable[[int, int], None],
) -> dict[tuple[str, int], Episode]:
    """Episodes with their walks, by house and number, without those that cannot be walked."""
    by_house: dict[str, list[Question]] = {}
    for question in questions:
        by_house.setdefault(question.scene_id, []).append(question)
    asked = []
    for scene_id, of_house in by_house.items():
        house, seen = houses[scene_id], views[scene_id]
        asked.append([_episode(q, house, None if q.sight == "house" else seen[_target(q, houses)]) for q in of_house])
    with_spawns: dict[tuple[str, int], Episode] = {}
    found = add_spawns([houses[scene_id] for scene_id in by_house], asked)
    for done, (scene_id, episodes) in enumerate(zip(by_house, found, strict=True), start=1):
        for question, episode in zip(by_house[scene_id], episodes, strict=True):
            if episode is not None:
                with_spawns[scene_id, question.number] = episode
        progress(done, len(by_house))
    return with_spawns


def goal_of(view_points: ViewPoints) -> dict:
    """An episode's fields about its goal, for the poses that show the answer."""
    turn_rad = GOAL_TURNS * HOUSE_ACTIONS.turn_rad
    goal = {} if view_points is None else {"goal_radius_m": GOAL_RADIUS_M, "goal_turn_rad": turn_rad}
    return {"view_points": view_points, **goal}


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
        touched=_entities(question, house),
        program=question.program,
        **goal_of(view_points),
    )


def _entities(question: Question, house: House) -> tuple[Entity, ...]:
    """Objects, then rooms, each with the one asked about first. Boxes are rounded to millimetres."""
    found = []
    for i in question.touched:
        thing = house.objects[i - 1]
        low, high = np.min(thing.footprint(), axis=0), np.max(thing.footprint(), axis=0)
        heights = (thing.position[1], thing.position[1] + thing.size_m[1])
        found.append(Entity("object", thing.category, *_box(low, high, *heights), id=i, is_target=not found))
    for index in question.rooms:
        corners = np.array(house.rooms[index].polygon)
        box = _box(corners.min(axis=0), corners.max(axis=0), 0.0, house.height_m)
        found.append(Entity("room", house.rooms[index].type, *box, id=index, is_target=not found))
    return tuple(found)


def _box(low: np.ndarray, high: np.ndarray, bottom_m: float, top_m: float) -> tuple[Point, Point]:
    corners = ((low[0], bottom_m, low[1]), (high[0], top_m, high[1]))
    return tuple(tuple(round(float(value), 3) for value in corner) for corner in corners)
