"""`make_city_questions`: question sets about the cities of a world, made from their `Annotations` and from views.

Each city gives facts, the starts from which their sentences are clear, and view points; a fact that cannot be seen is
dropped. Questions are then chosen in rounds: the same words with each of their answers once, so that nobody can guess
from the words (`data.questions.balance.paired_rounds`). Val and test keep to the words and answers of train. At last
each question gets the shortest flight from its start.

Axes: P places, F facts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from zlib import crc32

import numpy as np
from jaxtyping import Bool, Float64

from eqa.data.demonstrations.spawn_settings import CITY_BACK
from eqa.data.questions.balance import Round, paired_rounds, sample_rounds, whole_rounds
from eqa.data.questions.city.facts import Fact, facts_of
from eqa.data.questions.city.places import Placed, Surroundings
from eqa.data.questions.city.rules import CityRules, city_rules
from eqa.data.questions.city.views import CityViews, free_poses
from eqa.data.questions.journal import Journal
from eqa.data.questions.storage import FORMAT, FORMAT_VERSION, QuestionSet
from eqa.data.questions.templates import Question
from eqa.data.vocabulary import Vocabulary
from eqa.envs.annotations import Annotations, Thing
from eqa.envs.episode import PLAN, Entity, Episode, Pose, Spawn
from eqa.envs.files import fingerprint
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.walk import letters
from eqa.envs.simulator import Goal, Walk, World

GENERATOR = "city-questions-1"  # raise with every change of questions, or of the poses that show their answers
SPLITS = ("train", "val", "test")
FRAME = "city"
START_SPACING_M = 6.0  # between places that an agent may start from
GOAL_STEPS = 0.4  # a flight ends within so many steps of a view point
LEAST_ACTIONS = 4  # of a flight, STOP included: who needs fewer sees the target at once
FACTS_A_KIND, STARTS_A_FACT = 30, 6  # of one city, at most
NUM_PASSES = 2  # over all cities: looking, flying


@dataclass(frozen=True, slots=True)
class CityQuestions:
    """Makes the questions of one world's cities; `lowest_m` is the height of their lowest flight level."""

    world: World
    lowest_m: float
    rules: CityRules
    seed: int

    def asked(self, scene_id: str) -> list[Episode]:
        """Everything that is asked about a city, with view points and starts, but no walks yet."""
        annotations, limits = self.world.annotations(scene_id), self.rules.limits
        rng = np.random.default_rng([self.seed, crc32(scene_id.encode())])
        starts = self._starts(annotations)
        surroundings = Surroundings(annotations, starts[:, PLAN], limits)
        facts = facts_of(annotations, self.rules)
        clear = np.array([surroundings.clear_beside(fact).any() for fact in facts], np.bool_)
        facts = _some(facts, clear, rng)
        placed = surroundings.placed(facts, rng)
        wanted = sorted({one.fact for one in placed})
        views = dict(
            zip(
                wanted,
                CityViews(self.world, annotations, limits, self.lowest_m)([facts[n] for n in wanted]),
                strict=True,
            )
        )
        things = {thing.id: thing for thing in annotations.things}
        found: list[Episode] = []
        for number in wanted:
            here = [one for one in placed if one.fact == number] if views[number] else []
            region = _region(annotations, views[number][0]) if here else None
            for place in rng.permutation(len(here))[:STARTS_A_FACT].tolist():
                one = here[place]
                start = self._start(starts[one.start], one)
                found.append(
                    self._episode(scene_id, len(found), facts[number], one, views[number], start, things, region)
                )
        return found

    def _starts(self, annotations: Annotations) -> Float64[np.ndarray, "P 4"]:
        """Free places at the lowest level, in a grid over the city."""
        corners = np.array([corner for thing in annotations.things for corner in thing.outline]).reshape(-1, 2)
        if not len(corners):
            return np.empty((0, 4))
        axes = (np.arange(a, b, START_SPACING_M) for a, b in zip(corners.min(0), corners.max(0), strict=True))
        x, z = (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij"))
        poses = np.column_stack([x, np.full(len(x), self.lowest_m), z, np.zeros(len(x))])
        return poses[free_poses(self.world, annotations, poses)]

    def _start(self, place: Float64[np.ndarray, " 4"], one: Placed) -> Pose:
        """A start that looks to its side of the compass."""
        actions = self.world.actions
        quarter = actions.num_headings // 4
        if quarter * 4 != actions.num_headings:
            raise ValueError(f"actions: expected a quarter turn of whole turns, got turns of {actions.turn_rad} rad")
        return *map(float, place[:3]), float(actions.headings_rad[-one.side * quarter % actions.num_headings])

    def _episode(
        self,
        scene_id: str,
        number: int,
        fact: Fact,
        one: Placed,
        views: tuple[Pose, ...],
        start: Pose,
        things: Mapping[int, Thing],
        region: int | None,
    ) -> Episode:
        target = things[fact.touched[0]]
        return Episode(
            episode_id=f"{scene_id}-{number:05d}",
            scene_id=scene_id,
            question=one.asking.text,
            answer=fact.answer,
            question_type=fact.category,
            source=f"{GENERATOR} on {self.world.identity}",
            frame=FRAME,
            target_object=target.id,
            target_room=region,
            touched=tuple(_entity(things[i], is_target=i == target.id) for i in fact.touched),
            view_points=views,
            goal_radius_m=GOAL_STEPS * self.world.actions.step_m,
            goal_turn_rad=0.0,
            spawns={"start": Spawn(start)},
        )

    def flown(self, scene_id: str, episodes: Sequence[Episode]) -> list[Episode | None]:
        """The episodes of a city with their shortest flights and the spawns on these; None without a flight.

        A flight that takes too many or too few actions is none.
        """
        goals, starts = [Goal.of(episode) for episode in episodes], [episode.start for episode in episodes]
        walks = self.world.shortest_walks(scene_id, goals, starts, or_none=True) if episodes else []
        most = self.world.actions.max_steps
        fits = [walk is not None and LEAST_ACTIONS <= len(walk.actions) <= most for walk in walks]
        chosen = [n for n, fit in enumerate(fits) if fit]
        away = self.world.distances(scene_id, [goals[n] for n in chosen], [walks[n].poses for n in chosen])
        found: list[Episode | None] = [None] * len(episodes)
        for n, distances in zip(chosen, away, strict=True):
            spawns = _along(walks[n], distances)
            found[n] = replace(episodes[n], spawns=spawns, walk=letters(walks[n].actions))
        return found


def make_city_questions(
    world: World,
    scene_ids: Mapping[str, Sequence[str]],
    *,
    counts: Mapping[str, int],
    seed: int,
    lowest_m: float,
    journal: Journal,
    question_set: str = "cityeqa",
    rules: CityRules | None = None,
    most_per_city: int = 150,
    made_from: Mapping = MappingProxyType({}),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionSet:
    """Makes the questions of all splits together; the arguments are those of `configuration`, with the cities by split.

    `journal` holds what is known of cities already. ValueError if a split ends up empty, with what each step left.
    """
    rules = rules or city_rules()
    makes = CityQuestions(world, lowest_m, rules, seed)
    split_of = {scene_id: split for split, ids in scene_ids.items() for scene_id in ids}
    asked: dict[str, list[Episode]] = {}
    for done, scene_id in enumerate(split_of, start=1):
        asked[scene_id] = _kept(journal, f"asked {scene_id}", partial(makes.asked, scene_id))
        progress(done, NUM_PASSES * len(split_of))
    questions = [_question(one, n) for of_city in asked.values() for n, one in enumerate(of_city)]
    rounds = {
        split: _paired(questions, ids, np.random.default_rng([seed, len(SPLITS)])) for split, ids in scene_ids.items()
    }
    chosen: list[Question] = []
    reached: dict[str, list[Question]] = {}
    episodes: dict[str, list[Episode]] = {}
    done = len(split_of)
    for number, split in enumerate(scene_ids):
        known = _known(rounds[split], reached.get("train"))
        limits = {"shares": rules.sets[question_set], "max_per_house": most_per_city}
        drawn = sample_rounds(known, counts[split], **limits, rng=np.random.default_rng([seed, number]))
        of_split = sorted((q for one in drawn for q in one), key=lambda q: (q.scene_id, q.number))
        flown: dict[tuple[str, int], Episode] = {}
        for scene_id in scene_ids[split]:
            here = [asked[scene_id][q.number] for q in of_split if q.scene_id == scene_id]
            name = f"flown {scene_id} {fingerprint([e.episode_id for e in here])}"
            for one in _kept(journal, name, partial(makes.flown, scene_id, here)):
                if one is not None:
                    flown[scene_id, int(one.episode_id.rsplit("-", 1)[1])] = one
            done += 1
            progress(done, NUM_PASSES * len(split_of))
        reached[split] = whole_rounds([q for q in of_split if (q.scene_id, q.number) in flown], of_split, split_of)
        chosen += of_split
        episodes[split] = [flown[q.scene_id, q.number] for q in reached[split]]
    steps = {"seen": questions, "paired": [q for of in rounds.values() for one in of for q in one], "chosen": chosen}
    steps["reached"] = [q for found in reached.values() for q in found]
    left = {step: dict(Counter(split_of[q.scene_id] for q in found)) for step, found in steps.items()}
    _refuse_empty(left, scene_ids)
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "configuration": configuration(
            counts=counts,
            seed=seed,
            question_set=question_set,
            rules=rules,
            most_per_city=most_per_city,
            made_from=made_from,
        ),
        "counts": {split: dict(Counter(e.question_type for e in found)) for split, found in episodes.items()},
        "steps": left,
    }
    return QuestionSet(episodes, header)


def configuration(
    *,
    counts: Mapping[str, int],
    seed: int,
    question_set: str = "cityeqa",
    rules: CityRules | None = None,
    most_per_city: int = 150,
    made_from: Mapping = MappingProxyType({}),
) -> dict:
    """The header's account of a set: files with the same account hold the same questions.

    counts: split -> number of questions. `most_per_city` limits the questions about one city. `made_from` are the
    caller's settings of cities and world, in JSON.
    """
    rules = rules or city_rules()
    if question_set not in rules.sets:
        raise ValueError(f"question_set: expected one of {list(rules.sets)}, got {question_set!r}")
    return {
        "generator": GENERATOR,
        "set": question_set,
        "rules": fingerprint(rules.document),
        "counts": dict(counts),
        "most_per_city": most_per_city,
        "seed": seed,
        "made_from": dict(made_from),
    }


def world_facts(world: World, lowest_m: float) -> dict:
    """All of a world that questions depend on, in JSON."""
    camera = asdict(world.camera)
    return {"world": world.identity, "actions": asdict(world.actions), "camera": camera, "lowest_m": lowest_m}


def _region(annotations: Annotations, pose: Pose) -> int | None:
    """The region over which the answer is seen best: a sign's own is a block, where nobody can be at street level."""
    at = np.array(pose)[PLAN]
    found = [n for n, region in enumerate(annotations.regions) if inside_polygon(at, region.outline)]
    return found[-1] if found else None  # of crossing streets the last, as worlds have it


def _some(facts: Sequence[Fact], clear: Bool[np.ndarray, " F"], rng: np.random.Generator) -> list[Fact]:
    """Of each kind at most FACTS_A_KIND of the facts that are clear from somewhere, answers in turn, in their order."""
    by_kind: dict[str, dict[str, list[int]]] = {}
    for number in np.flatnonzero(clear).tolist():
        by_kind.setdefault(facts[number].kind, {}).setdefault(facts[number].answer, []).append(number)
    chosen: list[int] = []
    for by_answer in by_kind.values():
        turns = [(turn, rng.random(), n) for ns in by_answer.values() for turn, n in enumerate(rng.permutation(ns))]
        chosen += [int(n) for *_, n in sorted(turns)[:FACTS_A_KIND]]
    return [facts[number] for number in sorted(chosen)]


def _kept(journal: Journal, name: str, make: Callable[[], Sequence[Episode | None]]) -> list[Episode | None]:
    """A result of the journal, made and written there if it is missing."""
    if name not in journal.known:
        journal.add({name: make()})
    return [one and Episode.from_dict(one) for one in journal.known[name]]


def _question(episode: Episode, number: int) -> Question:
    """An episode as the balance reads it."""
    about = (episode.scene_id, number, episode.question_type, episode.question, episode.answer, "")
    return Question(*about, touched=tuple(e.id for e in episode.touched), rooms=(), sight="objects")


def _refuse_empty(left: Mapping[str, Mapping[str, int]], scene_ids: Mapping[str, Sequence[str]]) -> None:
    for split, ids in scene_ids.items():
        if not left["reached"].get(split):
            story = ", ".join(f"{step} {numbers.get(split, 0)}" for step, numbers in left.items())
            raise ValueError(f"{split}: no question is left of {len(ids)} cities ({story}); use more cities")


def _paired(questions: Sequence[Question], scene_ids: Sequence[str], rng: np.random.Generator) -> list[Round]:
    """The rounds of a split. Each is paired by itself: there are too many sentences for all to share theirs."""
    own = [question for question in questions if question.scene_id in set(scene_ids)]
    return paired_rounds(own, dict.fromkeys(scene_ids, "train"), set(scene_ids), rng)["train"]


def _known(rounds: Iterable[Round], train: Sequence[Question] | None) -> list[Round]:
    if not train:
        return list(rounds)
    vocabulary = Vocabulary.of_pairs((q.text, q.answer) for q in train)
    return [one for one in rounds if all(_answerable(q, vocabulary) for q in one)]


def _answerable(question: Question, vocabulary: Vocabulary) -> bool:
    """True if train has the words, and gave the answer to questions of the kind."""
    if not vocabulary.knows(question.text, question.answer):
        return False
    return bool(vocabulary.of_kind([question.text])[0, vocabulary.answer_id(question.answer)])


def _along(walk: Walk, distances: np.ndarray) -> dict[str, Spawn]:
    """The spawns on a flight: its start, and those that it is long enough for."""
    begins = {"start": len(walk.actions)} | {f"T-{k}": k for k in sorted(CITY_BACK, reverse=True)}
    return {
        name: Spawn(walk.before_end(k), num_actions=k, distance_m=round(float(distances[-k]), 3))
        for name, k in begins.items()
        if k <= len(walk.actions)
    }


def _entity(thing: Thing, *, is_target: bool) -> Entity:
    """A thing with its box, rounded to millimetres."""
    corners = np.array(thing.outline)
    low, high = corners.min(0), corners.max(0)
    box = ((low[0], thing.low_m, low[1]), (high[0], thing.high_m, high[1]))
    points = [tuple(round(float(value), 3) for value in corner) for corner in box]
    return Entity("object", thing.name, *points, id=thing.id, is_target=is_target)
