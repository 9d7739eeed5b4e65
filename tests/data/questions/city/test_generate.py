"""Question sets about cities: what they say is true and to be seen, nobody can guess it, and a killed run goes on."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqa.data.generated_city import GeneratedCityEQA
from eqa.data.questions.balance import MajorityBaseline
from eqa.data.questions.city import generate, views
from eqa.data.questions.city.facts import before, facts_of
from eqa.data.questions.city.generate import CityQuestions, configuration, make_city_questions
from eqa.data.questions.city.rules import city_rules
from eqa.data.questions.city.sentences import Asking
from eqa.data.questions.city.views import CityViews, free_poses
from eqa.data.questions.journal import Journal
from eqa.data.questions.storage import QuestionSet
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.metrics import inside_polygon, target_shares
from eqa.envs.simulator import Goal
from tests.helpers.block_city import ACTIONS, BlockWorld, block_city
from tests.helpers.hand_city import BOOKS, CAR

RULES, WORLD, LOWEST_M = city_rules(), BlockWorld(), 2.0
CITIES = {
    "train": [f"city-train-{n:05d}" for n in range(4)],
    "val": ["city-val-00000"],
    "test": ["city-test-00001"],
}
COUNTS = {"train": 60, "val": 12, "test": 12}


@pytest.fixture(scope="module", autouse=True)
def small_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "PICTURE_PX", 32)
        patch.setattr(views, "NUM_BEARINGS", 8)
        patch.setattr(generate, "FACTS_A_KIND", 4)
        yield


def made(folder: Path, *, world: BlockWorld = WORLD, seed: int = 0, **changes) -> QuestionSet:
    arguments = {"counts": COUNTS, "seed": seed} | changes
    journal = Journal(folder / "questions.partly", configuration=configuration(**arguments))
    return make_city_questions(world, CITIES, lowest_m=LOWEST_M, journal=journal, **arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(scope="module")
def questions(folder: Path, small_pictures: None) -> dict[str, list[Episode]]:
    return {split: list(found) for split, found in made(folder).episodes.items()}


def test_view_points_are_free_and_show_the_target_and_all_that_the_answer_needs() -> None:
    scene_id = CITIES["train"][0]
    city = block_city(scene_id)
    facts = [f for f in facts_of(city, RULES) if f.kind in ("vehicle_kind", "shop_kind", "exist", "shops_of_building")]
    found = CityViews(WORLD, city, RULES.limits, LOWEST_M)(facts)
    assert sum(poses is not None for poses in found) > len(facts) / 2
    simulator = WORLD.open([scene_id], num_agents=1, camera=replace(WORLD.camera, height_px=48, width_px=48))
    things = {thing.id: thing for thing in city.things}
    for fact, poses in zip(facts, found, strict=True):
        if poses is None:
            continue
        at = np.array(poses)
        assert free_poses(WORLD, city, at).all() and np.allclose(at[:, 3] % ACTIONS.turn_rad, 0)
        seen = simulator.look(np.zeros(len(at), np.int64), at, ("instance_id",))["instance_id"].numpy()
        assert (target_shares(seen, np.full(len(at), fact.touched[0])) >= 0.005).all()
        for other in fact.touched[1:]:
            assert (seen == other).any(axis=(1, 2)).all()
        target = things[fact.touched[0]]
        if fact.legible:
            assert np.hypot(*(at[:, [0, 2]] - target.middle).T).max() <= RULES.limits.legible_m
            assert (before(target, at[:, [0, 2]])[:, 0] > 0).all()
        if fact.before_m:
            assert (before(target, at[:, [0, 2]])[:, 0] >= fact.before_m).all()


def test_a_target_behind_a_wall_has_no_view_points() -> None:
    city = block_city(CITIES["train"][0])
    walled = replace(city, things=tuple(replace(t, low_m=5.0, high_m=6.0, outline=city.things[0].outline) if t.id == CAR else t for t in city.things))  # fmt: skip
    (fact,) = (f for f in facts_of(walled, RULES) if f.kind == "vehicle_kind" and f.touched[0] == CAR)
    assert CityViews(WORLD, walled, RULES.limits, LOWEST_M)([fact]) == [None]


def test_a_start_looks_to_the_side_that_the_question_names() -> None:
    ahead = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
    asked = CityQuestions(WORLD, LOWEST_M, RULES, 0).asked(CITIES["train"][1])
    assert len({Asking.parse(one.question).landmark_side for one in asked}) > 1
    for one in asked:
        heading = one.start[3]
        assert np.allclose((-np.sin(heading), -np.cos(heading)), ahead[Asking.parse(one.question).landmark_side])
        assert one.start[1] == LOWEST_M and one.frame == "city"


def test_flights_end_at_a_view_of_the_target(questions: dict) -> None:
    for one in (e for found in questions.values() for e in found):
        (walk,) = WORLD.replay(one.scene_id, [one.start], [np.array(["FLRSUD".index(a) for a in one.walk], np.int8)])
        (away,) = WORLD.distances(one.scene_id, [Goal.of(one)], [walk.poses])
        assert away[-1] == 0 and np.isfinite(away).all() and len(one.walk) == one.spawns["start"].num_actions
        assert any(abs(walk.poses[-1, 3] - view[3]) < 1e-6 for view in one.view_points)
        for name, spawn in one.spawns.items():
            left = len(one.walk) if name == "start" else int(name[2:])
            assert spawn.num_actions == left and spawn.pose == walk.before_end(left)
            assert spawn.distance_m == pytest.approx(away[-left], abs=1e-3)


def test_the_same_words_come_with_each_of_their_answers_equally_often(questions: dict) -> None:
    for found in questions.values():
        by_text: dict[str, Counter] = {}
        for one in found:
            by_text.setdefault(one.question, Counter())[one.answer] += 1
        assert all(len(c) > 1 and len(set(c.values())) == 1 for c in by_text.values())
    vocabulary_of = MajorityBaseline(questions["train"], _vocabulary(questions["train"]))
    for split in ("val", "test"):
        chance = np.mean(
            [1 / len({o.answer for o in questions[split] if o.question == e.question}) for e in questions[split]]
        )
        assert vocabulary_of.accuracy(questions[split]) <= chance + 1e-9


def _vocabulary(train: list[Episode]) -> Vocabulary:
    return Vocabulary.of(train)


def test_val_and_test_keep_to_the_words_and_answers_of_train(questions: dict) -> None:
    known = _vocabulary(questions["train"])
    assert all(known.knows(e.question, e.answer) for split in ("val", "test") for e in questions[split])
    for found in (questions["val"], questions["test"]):
        possible = known.of_kind([e.question for e in found])
        assert all(row[known.answer_id(e.answer)] for row, e in zip(possible, found, strict=True))
    assert all(len(questions[split]) <= COUNTS[split] for split in COUNTS)


def test_what_is_asked_holds_in_the_city(questions: dict) -> None:
    kinds = set()
    for one in (e for found in questions.values() for e in found):
        asking, things = Asking.parse(one.question), {thing.id: thing for thing in block_city(one.scene_id).things}
        target = things[one.target_object]
        kinds.add(one.question_type)
        if "which kind of vehicle" in asking.asked:
            assert one.answer == target.name and target.color in asking.target
        elif "what kind of shop" in asking.asked:
            assert one.answer == target.label.split()[-1].lower() and target.color in asking.target
        elif asking.asked.startswith("what color the") and target.name in asking.asked:
            assert one.answer == target.color
        assert one.touched[0].is_target and one.touched[0].id == target.id
        (x, _, z, _), regions = one.view_points[0], block_city(one.scene_id).regions
        inside = [n for n, region in enumerate(regions) if inside_polygon(np.array([x, z]), region.outline)]
        assert one.target_room == (inside[-1] if inside else None)
    assert len(kinds) >= 3


def test_the_same_seed_gives_the_same_set_and_another_seed_another_one(questions: dict, tmp_path: Path) -> None:
    again = made(tmp_path / "again").episodes
    assert {split: list(found) for split, found in again.items()} == questions
    first, other = (CityQuestions(WORLD, LOWEST_M, RULES, seed).asked(CITIES["val"][0]) for seed in (0, 1))
    assert first != other


def test_a_killed_run_goes_on_with_the_next_city(questions: dict, tmp_path: Path) -> None:
    class Killed(BlockWorld):
        asked = 0

        def annotations(self, scene_id: str):
            self.asked += 1
            if self.asked > 3:
                raise KeyboardInterrupt
            return super().annotations(scene_id)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, world=Killed())

    asked_of = []

    class Counted(BlockWorld):
        def annotations(self, scene_id: str):
            asked_of.append(scene_id)
            return super().annotations(scene_id)

    found = made(tmp_path, world=Counted())
    assert {split: list(some) for split, some in found.episodes.items()} == questions
    everything = [scene_id for ids in CITIES.values() for scene_id in ids]
    assert asked_of == everything[3:]


def test_a_split_without_questions_is_an_error_with_the_numbers_of_each_step(
    folder: Path, questions: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (folder / "questions.partly").read_text().splitlines(keepends=True)
    (tmp_path / "questions.partly").write_text("".join(line for line in lines if not line.startswith('{"flown')))
    monkeypatch.setattr(generate.CityQuestions, "flown", lambda self, scene_id, episodes: [None] * len(episodes))
    with pytest.raises(
        ValueError, match=r"train: no question is left of 4 cities \(seen \d+, paired \d+, chosen \d+, reached 0\)"
    ):
        made(tmp_path)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ValueError, match="question_set: expected one of .'cityeqa'., got 'houses'"):
        configuration(counts=COUNTS, seed=0, question_set="houses")


class MeanColor:
    """Features that are the mean colour of a frame."""

    identity, map_shape, place_names = "mean-color", (3, 1, 1), None

    def __call__(self, rgb):
        return rgb.float().mean((1, 2)).half()


def source(**changes) -> GeneratedCityEQA:
    sizes = {"cities": {"train": 4, "val": 1, "test": 2}, "questions": COUNTS, "seed": 0, "world": WORLD}
    return GeneratedCityEQA(**(sizes | {"encode": MeanColor()} | changes))


def test_a_source_makes_its_files_once_and_demonstrates_every_question(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path))
    first = source()
    demos = first.demonstrations("val")
    assert [e.episode_id for e in demos.episodes] == [e.episode_id for e in first.episodes("val")]
    assert demos.lengths.tolist() == [len(e.walk) for e in demos.episodes]
    assert (demos.distance_m[demos.offsets[1:] - 1] == 0).all() and demos.features.shape[1] == 3
    assert not list((tmp_path / "questions").glob("*.partly"))
    assert first.fingerprints().keys() == {"questions", "demonstrations"}
    monkeypatch.setattr(generate, "facts_of", None)  # nothing is made again
    assert source().episodes("train") == first.episodes("train")
    for changed in ({"seed": 1}, {"questions": COUNTS | {"train": 59}}, {"lowest_m": 3.0}, {"most_per_city": 9}):
        assert source(**changed).questions_file != first.questions_file


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cities": {"train": 1, "val": 1}}, "cities: expected at least 1 for each of"),
        ({"questions": {"train": 1, "val": 0, "test": 1}}, "questions: expected at least 1 for each of"),
    ],
)
def test_sizes_that_make_no_set_are_refused(changes: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        source(**changes)


def test_a_world_of_houses_is_refused() -> None:
    class Houses(BlockWorld):
        coordinate_frames = ("house",)

    with pytest.raises(ValueError, match="world: expected one of cities, got one of house; env=city"):
        source(world=Houses())


def test_a_shop_is_asked_about_by_its_sign() -> None:
    assert any(f.touched[0] == BOOKS and f.kind == "shop_kind" for f in facts_of(block_city("city-train-00000"), RULES))
