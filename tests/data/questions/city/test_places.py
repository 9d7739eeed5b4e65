"""The sentences round a fact: the landmark is the building straight ahead, and only one thing beside it can be meant."""

import numpy as np
import pytest

from eqa.data.questions.city.facts import Fact, facts_of
from eqa.data.questions.city.places import Surroundings
from eqa.data.questions.city.rules import city_rules
from eqa.data.questions.city.sentences import SIDES
from eqa.envs.annotations import Annotations, Thing
from tests.helpers.hand_city import BAKERY, BOOKS, BUS, CAR, TOYS, box, hand_city

RULES = city_rules()
NORTH, EAST, SOUTH, WEST = range(4)
WESTERN, EASTERN, SOUTHERN = range(3)  # buildings, in the order of the things


def around(*starts: tuple[float, float], city: Annotations | None = None) -> Surroundings:
    return Surroundings(city or hand_city(), np.array(starts, np.float64).reshape(-1, 2), RULES.limits)


def fact(kind: str, target: int, city: Annotations | None = None) -> Fact:
    return next(f for f in facts_of(city or hand_city(), RULES) if (f.kind, f.touched[0]) == (kind, target))


@pytest.mark.parametrize(
    ("start", "ahead"),
    [
        ((-20, 0), {NORTH: WESTERN}),
        ((20, 0), {NORTH: EASTERN}),
        ((0, 0), {SOUTH: SOUTHERN}),
        ((-9, 0), {SOUTH: SOUTHERN}),  # north of it is a corner of the western one
        ((-20, -6), {}),  # too near
        ((-60, -20), {EAST: WESTERN}),  # the eastern one is behind it
        ((60, -20), {WEST: EASTERN}),
        ((20, 75), {}),  # the southern one is beside the way, the eastern one too far
    ],
)
def test_the_landmark_is_the_first_building_straight_ahead(start: tuple, ahead: dict) -> None:
    (found,) = around(start).landmarks.tolist()
    assert {side: building for side, building in enumerate(found) if building >= 0} == ahead


def test_a_building_that_juts_out_a_little_makes_the_one_behind_it_no_landmark() -> None:
    near = Thing(9, "building", box(-23, -7, 4, 4), None, 0, 0, 9)
    assert around((-20, 0)).landmarks[0, NORTH] == WESTERN
    assert around((-20, 0), city=hand_city(t9=near)).landmarks[0, NORTH] == -1


def test_a_target_is_on_the_side_of_a_building_that_a_person_would_say() -> None:
    clear = around().clear_beside(fact("vehicle_kind", CAR))  # yellow, at (-26, -4), south of the western building
    assert clear[WESTERN].tolist() == [False, False, True, False]
    assert clear[EASTERN].tolist() == [False, False, False, True]  # 34 m west of the eastern one
    assert clear[SOUTHERN].tolist() == [False] * 4  # beyond its end
    clear = around().clear_beside(fact("sign_color", BAKERY))  # in the southern wall of the western building
    assert clear[WESTERN].tolist() == [False, False, True, False]
    assert clear[EASTERN].tolist() == [False, False, False, True]  # 22 m west of the eastern one, on its front's line


def test_a_second_thing_of_the_kind_makes_a_target_unclear_even_a_little_further_away() -> None:
    assert around().clear_beside(fact("shop_kind", BOOKS))[WESTERN, SOUTH]
    for place, clear in (((-14, -9), False), ((-20, 40), False), ((-20, 60), True)):
        city = hand_city(t40=Thing(40, "sign", box(*place, 3, 0.4), "red", 0, 3, 4, label="NO ART", front_rad=0.0))
        assert around(city=city).clear_beside(fact("shop_kind", BOOKS, city))[WESTERN, SOUTH] == clear, place


def test_every_placed_question_is_true_from_its_start() -> None:
    grid = np.arange(-60, 61, 4.0)
    starts = np.array([(x, z) for x in grid for z in grid])
    surroundings, facts = around(*starts), facts_of(hand_city(), RULES)
    placed = surroundings.placed(facts, np.random.default_rng(0))
    assert {facts[one.fact].touched[0] for one in placed} >= {CAR, BUS, BOOKS, BAKERY, TOYS}
    pairs = [(one.fact, one.asking.landmark_side, one.asking.target_side) for one in placed]
    assert len(set(pairs)) == len(pairs)
    middles = {thing.id: np.array(thing.middle) for thing in hand_city().things}
    for one in placed:
        target, start = middles[facts[one.fact].touched[0]], starts[one.start]
        least, most = RULES.limits.away_m
        assert least <= np.linalg.norm(target - start) <= most
        assert list(SIDES)[one.side] == one.asking.landmark_side
        building = surroundings.landmarks[one.start, one.side]
        low, high = surroundings.low[building], surroundings.high[building]
        toward = np.array(SIDES[one.asking.landmark_side])
        assert ((low + high) / 2 - start) @ toward > 0  # the building is on that side
        beside = np.array(SIDES[one.asking.target_side])
        face = max(low @ beside, high @ beside)
        assert target @ beside > face - 1.5  # and the target on that side of it


def test_placing_is_a_function_of_the_draws() -> None:
    starts, facts = [(x, z) for x in range(-40, 41, 8) for z in (-4, 4)], facts_of(hand_city(), RULES)
    first, again, other = (around(*starts).placed(facts, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first == again and first != other


def test_a_city_without_buildings_or_starts_places_nothing() -> None:
    bare = hand_city(t1=None, t2=None, t3=None)
    assert around((0, 0), city=bare).placed(facts_of(bare, RULES), np.random.default_rng(0)) == []
    assert around().placed(facts_of(hand_city(), RULES), np.random.default_rng(0)) == []
