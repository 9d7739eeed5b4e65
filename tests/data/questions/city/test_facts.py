"""Facts about a city: each answer is the one that a person before the target would give, and nothing unclear is asked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from eqa.data.questions.city.facts import before, facts_of, side_of
from eqa.data.questions.city.rules import RULES, city_rules, load_city_rules
from eqa.data.questions.city.sentences import Asking
from eqa.envs.annotations import Annotations, Thing
from tests.helpers.hand_city import (
    BAKERY,
    BENCH,
    BOOKS,
    BUS,
    CAR,
    EAST,
    LAMP,
    NORTH,
    PERSON,
    TOYS,
    box,
    hand_city,
    sign,
)

RULES_OF = city_rules()


def answers(city: Annotations, kind: str, target: int | None = None) -> dict[tuple[int, str], str]:
    """Answers to the questions of a kind, by target and words."""
    found = {}
    for fact in facts_of(city, RULES_OF):
        if fact.kind == kind and target in (None, fact.touched[0]):
            assert (fact.touched[0], fact.asked) not in found, "asked twice"
            found[fact.touched[0], fact.asked] = fact.answer
    return found


def test_vehicles_are_asked_about_by_color_and_by_kind() -> None:
    city = hand_city()
    assert set(answers(city, "vehicle_kind").values()) == {"car", "bus"}
    assert answers(city, "vehicle_color") == {
        (CAR, "what color the car is"): "yellow",
        (BUS, "what color the bus is"): "green",
    }
    assert answers(city, "many_people", BUS) == {(BUS, "whether more than ten people can ride in it"): "yes"}
    assert answers(city, "many_people", CAR) == {(CAR, "whether more than ten people can ride in it"): "no"}
    assert answers(city, "wheels") == {(CAR, "how many wheels it has"): "4"}  # nobody agrees on a bus
    assert answers(city, "facing", CAR) == {(CAR, "to which side the front of the car points"): "east"}
    aslant = replace(city.things[6], front_rad=EAST + 0.7)
    assert city.things[6].id == CAR and side_of(aslant, RULES_OF) is None


def test_what_a_phrase_may_mean_counts_things_of_unknown_color() -> None:
    city = hand_city(t40=Thing(40, "van", box(0, 0, 5, 2), None, 2, 0, 2))
    (fact,) = (f for f in facts_of(city, RULES_OF) if f.kind == "vehicle_kind" and f.touched == (CAR,))
    assert fact.like == {CAR, 40} and fact.target == "a yellow vehicle"


def test_shops_are_read_and_their_signs_named() -> None:
    city = hand_city()
    assert answers(city, "shop_kind", BOOKS) == {(BOOKS, "what kind of shop it is"): "books"}
    assert answers(city, "shop_name", BOOKS) == {(BOOKS, "what the first word on its sign is"): "alma"}
    assert answers(city, "sign_color", BAKERY) == {(BAKERY, "what color its sign is"): "blue"}
    assert answers(city, "food") == {
        (BOOKS, (asked := "whether a meal or a cake is sold there")): "no",
        (BAKERY, asked): "yes",
        (TOYS, asked): "no",
    }
    of = {f.touched[0]: f for f in facts_of(city, RULES_OF) if f.kind == "shop_kind"}
    assert of[BOOKS].like == of[TOYS].like == {BOOKS, TOYS} and of[BAKERY].like == {BAKERY}
    assert of[BOOKS].legible and of[BOOKS].target == "a shop with a red sign"


def test_the_shops_of_a_building_are_counted_with_all_their_signs_in_view() -> None:
    facts = {f.touched[0]: f for f in facts_of(hand_city(), RULES_OF) if f.kind == "shops_of_building"}
    assert {target: fact.answer for target, fact in facts.items()} == {BOOKS: "2", BAKERY: "2", TOYS: "1"}
    assert facts[BOOKS].touched == (BOOKS, BAKERY) and facts[TOYS].touched == (TOYS,)
    assert not answers(hand_city(t1=None), "shops_of_building", BOOKS)  # no building behind it


def test_left_and_right_are_those_of_a_person_who_faces_the_shop() -> None:
    city = hand_city()
    assert before(city.things[3], np.array([(-26, -4), (-20, -9.8)])).round(6).tolist() == [
        [5.8, 0],
        [0, 6],
    ]  # east is on the right
    assert answers(city, "next_shop") == {
        (BOOKS, "what color the sign to the right of it is"): "blue",
        (BAKERY, "what color the sign to the left of it is"): "red",
    }
    assert answers(city, "which_side") == {
        (BAKERY, "whether the bench stands on the left or on the right before it"): "left"
    }


def test_what_is_before_a_shop_is_counted_and_said_to_be_there() -> None:
    city = hand_city()
    assert answers(city, "in_front") == {
        (BOOKS, "what stands in front of the shop"): "car",
        (BAKERY, "what stands in front of the shop"): "bench",
    }
    assert answers(city, "count", BOOKS) == {
        (BOOKS, "how many cars are in front of the shop"): "1",
        (BOOKS, "how many people are in front of the shop"): "1",  # the other one is not asked about
    }
    there = answers(city, "exist", BOOKS)
    assert there[BOOKS, "whether there is a person in front of the shop"] == "yes"
    assert there[BOOKS, "whether there is a bench in front of the shop"] == "no"
    two = hand_city(t30=Thing(30, "person", box(-24, -6, 0.5, 0.5), "red", 2, 0, 1.7))
    assert answers(two, "count", BOOKS)[BOOKS, "how many people are in front of the shop"] == "2"
    assert (BOOKS, "whether there is a person in front of the shop") not in answers(two, "exist")  # "a" means one
    (fact,) = (f for f in facts_of(two, RULES_OF) if f.kind == "count" and f.answer == "2")
    assert fact.touched == (BOOKS, PERSON, 30) and fact.before_m == RULES_OF.limits.deep_m


def test_nothing_is_asked_about_what_is_hardly_before_a_shop() -> None:
    edge = -26 + RULES_OF.limits.aside_m + 1
    city = hand_city(t30=Thing(30, "person", box(edge, -6, 0.5, 0.5), "red", 2, 0, 1.7))
    asked = {words for _, words in [*answers(city, "count", BOOKS), *answers(city, "exist", BOOKS)]}
    assert not any("person" in words or "people" in words for words in asked)
    middle = hand_city(t30=Thing(30, "tree", box(-26.5, -6, 1, 1), None, 2, 0, 6))
    assert not any("tree" in words for _, words in answers(middle, "which_side"))
    assert (BOOKS, "what stands in front of the shop") not in answers(middle, "in_front")  # a car and a tree


def test_a_wall_round_the_corner_has_no_next_shop() -> None:
    corner = replace(sign(14, -8, "pink", "IDA ART"), front_rad=NORTH)
    assert (BAKERY, "what color the sign to the right of it is") not in answers(hand_city(t14=corner), "next_shop")


def test_facts_come_in_one_order_and_fit_the_sentences() -> None:
    facts = facts_of(hand_city(), RULES_OF)
    assert facts == facts_of(hand_city(), RULES_OF) and {f.category for f in facts} == set(RULES_OF.sets["cityeqa"])
    for fact in facts:
        assert type(fact.answer) is str
        asking = Asking("north", "west", fact.target, fact.asked)
        assert Asking.parse(asking.text) == asking
    assert {LAMP, BENCH} & {f.touched[0] for f in facts} == set()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sets": {"mine": {"color": 1}}}, "sets.mine: expected shares of some of"),
        (
            {"types": {"wheels": ["wheel_counting", "a car", "how"]}},
            "types.wheels: expected one of .*, got 'wheel_counting'",
        ),
        ({"types": {"wheels": ["counting", "a car. no", "how"]}}, "types.wheels: expected words that fit"),
        ({"more": 1}, "top level: missing .., unknown .'more'."),
        ({"limits": {"deep_m": 1}}, "limits: missing .'ahead_m'"),
    ],
)
def test_faulty_rules_are_refused(tmp_path: Path, change: dict, told: str) -> None:
    path = tmp_path / "city.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(RULES.read_text()) | change))
    with pytest.raises(ValueError, match=told) as error:
        load_city_rules(path)
    assert str(path) in str(error.value)
