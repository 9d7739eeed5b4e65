"""Programs, relations, and the wording of questions about one house."""

import json
import re
from collections import Counter
from dataclasses import asdict, replace
from math import pi

import pytest
import yaml

from eqa.data.questions.operations import Undefined, World
from eqa.data.questions.programs import parse
from eqa.data.questions.relations import CLEAR, NOT, UNCLEAR, Relations
from eqa.data.questions.rules import RULES, load_rules
from eqa.data.questions.templates import Generator
from tests.helpers.generated_house import house_and_scene
from tests.helpers.hand_houses import V1, asked, furnished, house_of, thing
from tests.helpers.slow_answers import possible_answers


@pytest.fixture(scope="module")
def rules():
    return load_rules()


def test_a_program_answers_and_says_what_it_touched(rules):
    house = house_of(thing("sofa", 3, 3, color="blue"), thing("sofa", 13, 3, room=1), thing("bed", 5, 5))
    program = parse("color(unique(inside(objects(OBJ), unique(rooms(ROOM)))))").bind({"OBJ": "sofa", "ROOM": "kitchen"})
    found = program.run(World(house, rules))
    assert found.answer == "red" and [t.id for t in found.touched] == [2]


def test_a_bound_program_is_text_that_parses_to_itself(rules):
    program = parse("name(unique(related(unique(objects(OBJ)), REL)))").bind({"OBJ": "tv stand", "REL": "next to"})
    assert str(program) == 'name(unique(related(unique(objects("tv stand")), "next to")))'
    assert str(parse(str(program))) == str(program)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("color(unique(rooms(ROOM)))", "color takes"),
        ("color(objects(OBJ))", "color takes"),
        ("room(unique(objects(ROOM)))", "objects takes"),
        ("room(unique(objects(OBJ), OBJ))", "unique takes"),
        ("unique(objects(OBJ))", "expected to give an Answer or Truth or Number"),
        ("exist(unique(objects(OBJ)))", "exist takes"),
        ("both(count(objects(OBJ)), exist(objects(OBJ)))", "both takes"),
        ("less(count(objects(OBJ)), count(objects(OBJ)))", "less takes"),
        ("colour(unique(objects(OBJ)))", "unknown operation colour"),
        ("color(unique(objects(THING)))", "unknown slot THING"),
        ('color(unique(objects("soffa")))', "objects takes"),
        ("color(unique(objects(OBJ))", "never closed"),
        ("color(1 + 2)", "expected operations"),
    ],
)
def test_a_faulty_program_is_refused_when_it_is_defined(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


def test_a_slot_takes_only_names_of_its_kind():
    program = parse("color(unique(objects(OBJ)))")
    with pytest.raises(ValueError, match="expected a Category"):
        program.bind({"OBJ": "kitchen"})
    with pytest.raises(ValueError, match="no value"):
        program.bind({"ROOM": "kitchen"})


@pytest.mark.parametrize(
    "things",
    [
        (thing("bed", 1, 1),),
        (thing("sofa", 3, 3), thing("sofa", 6, 6)),
        (thing("sofa", 3, 3), thing("sofa", 6, 6, size=(0.01, 0.01, 0.01))),
        (thing("sofa", 3, 3, size=(0.05, 0.05, 0.05)),),
        (thing("sofa", 3, 3, color=None),),
    ],
    ids=["none", "two", "two, one tiny", "tiny", "no color"],
)
def test_what_has_no_single_clear_answer_is_undefined(things, rules):
    with pytest.raises(Undefined):
        parse('color(unique(objects("sofa")))').run(World(house_of(*things), rules))


def test_a_room_that_occurs_twice_is_not_the_room(rules):
    house = house_of(thing("sofa", 3, 3), rooms=("bedroom", "bedroom"))
    assert set(asked(house, rules)) == {"what room is the sofa located in?", "what color is the sofa?"}


def test_an_obscure_room_is_neither_asked_about_nor_an_answer(rules):
    house = house_of(thing("sofa", 3, 3), rooms=("hallway", "kitchen"))
    assert asked(house, rules) == {"what color is the sofa?": "red"}


TABLE = {"size": (1.2, 0.75, 0.8)}
CUP = {"size": (0.1, 0.1, 0.1)}


@pytest.mark.parametrize(
    ("relation", "one", "other", "verdict"),
    [
        ("on", thing("cup", 5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5.5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5.5, 5, y=0.75, **CUP), thing("table", 5, 5, heading=pi / 2, **TABLE), NOT),
        ("on", thing("cup", 5.6, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("on", thing("cup", 5, 5, y=0.4, on=2, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("on", thing("cup", 5, 5, y=1.0, **CUP), thing("table", 5, 5, **TABLE), NOT),
        ("above", thing("lamp", 5, 5, y=1.5, **CUP), thing("table", 5, 5, **TABLE), CLEAR),
        ("above", thing("lamp", 5, 5, y=0.75, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("above", thing("lamp", 5, 5, y=2.5, **CUP), thing("table", 5, 5, **TABLE), UNCLEAR),
        ("above", thing("mirror", 5, 5.5, y=1.5, size=(0.8, 0.8, 0.04)), thing("table", 5, 5, **TABLE), CLEAR),
        ("below", thing("rug", 5, 5, size=(2, 0.02, 2)), thing("table", 5, 5, **TABLE), CLEAR),
        ("below", thing("table", 5, 5, **TABLE), thing("lamp", 5, 5, y=1.5, **CUP), NOT),
        ("under", thing("table", 5, 5, **TABLE), thing("lamp", 5, 5, y=1.5, **CUP), CLEAR),
        ("under", thing("table", 5, 5, **TABLE), thing("cup", 5, 5, y=0.75, **CUP), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 5.8, 5, size=(0.2, 0.5, 2)), CLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 6.1, 5, size=(0.2, 0.5, 2)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 6.5, 5, size=(0.2, 0.5, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("chair", 5.5, 5, size=(0.5, 0.9, 0.5)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("rug", 5.8, 5, size=(0.2, 0.02, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("heater", 5.8, 5, y=0.4, size=(0.2, 0.3, 2)), UNCLEAR),
        ("next to", thing("table", 5, 5, **TABLE), thing("mirror", 5.8, 5, y=1.2, size=(0.2, 0.5, 2)), NOT),
        ("next to", thing("table", 5, 5, **TABLE), thing("bed", 5.8, 5, room=1, size=(0.2, 0.5, 2)), NOT),
    ],
)
def test_relations_are_judged_from_boxes(relation, one, other, verdict, rules):
    house = house_of(one, other)
    assert Relations(house, rules.thresholds).judge(relation, *house.objects) is verdict


def test_a_relation_to_two_things_is_not_asked(rules):
    table, cup = thing("table", 5, 5, **TABLE), thing("cup", 5, 5, y=0.75, **CUP)
    vase = thing("vase", 5.3, 5, y=0.75, size=(0.2, 0.3, 0.2))
    assert asked(house_of(table, cup), rules)["what is on the table in the living room?"] == "cup"
    assert "what is on the table?" not in asked(house_of(table, cup, vase), rules)


def test_a_tiny_thing_makes_a_relation_ambiguous_but_is_no_answer(rules):
    table, vase = thing("table", 5, 5, **TABLE), thing("vase", 5.3, 5, y=0.75, size=(0.2, 0.3, 0.2))
    crumb = thing("cup", 5, 5, y=0.75, size=(0.02, 0.02, 0.02))
    assert "what is on the table?" not in asked(house_of(table, vase, crumb), rules)
    assert "what is on the table?" not in asked(house_of(table, crumb), rules)


def test_the_verb_and_the_preposition_agree_and_names_keep_their_words(rules):
    house = house_of(
        thing("plates", 5, 5, size=(0.3, 0.03, 0.3)), thing("tv stand", 13, 3, room=1), rooms=("dining room", "patio")
    )
    questions = asked(house, rules)
    assert questions["what room are the plates located in?"] == "dining room"
    assert questions["what room is the tv stand located in?"] == "patio"
    assert questions["what color is the tv stand on the patio?"] == "red"


def test_skipped_objects_are_not_asked_about(rules):
    questions = asked(house_of(thing("mirror", 5, 5)), rules)
    assert questions == {"what room is the mirror located in?": "living room"}


def test_no_question_is_asked_twice_in_a_house(rules):
    for seed in range(5):
        texts = [q.text for q in Generator(rules, V1).generate(furnished(seed))]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": 7}, "expected ids 1, 2"),
        ({"category": "unicorn"}, "unknown category"),
        ({"room": 5}, "expected a room from 0 to 1"),
        ({"color": "mauve"}, "unknown color"),
        ({"on": 1}, "stand on another object"),
        ({"size_m": (1.0, 0.0, 1.0)}, "expected a size above 0"),
    ],
)
def test_a_house_with_faulty_annotations_is_refused_by_name(change, complaint, rules):
    house = house_of(thing("sofa", 3, 3))
    house = replace(house, objects=[replace(house.objects[0], **change)])
    with pytest.raises(ValueError, match=f"train-00000.*{complaint}"):
        Generator(rules, V1).generate(house)


def test_every_generated_question_has_the_answer_that_a_slow_reader_of_the_house_finds(rules):
    generator = Generator(rules, list(rules.types))
    types = Counter()
    for seed in range(50):
        house = furnished(seed)
        document = json.loads(json.dumps(asdict(house)))
        for question in generator.generate(house):
            assert possible_answers(document, question.text) == {question.answer}, question
            types[question.type] += 1
            found = parse(question.program).run(World(house, rules))
            assert (found.answer, tuple(t.id for t in found.touched)) == (question.answer, question.touched)
            assert set(found.rooms) <= set(question.rooms) and found.sight == question.sight
    assert set(types) == set(rules.types) and min(types.values()) >= 15, types


def test_questions_about_generated_houses_have_the_slow_readers_answers(rules):
    types = Counter()
    for index in range(2):
        house, _ = house_and_scene(0, index)
        document = json.loads(json.dumps(asdict(house)))
        for question in Generator(rules, list(rules.types)).generate(house):
            assert possible_answers(document, question.text) == {question.answer}, question
            types[question.type] += 1
    assert set(types) == set(rules.types) and types.total() > 500, types


def with_rules(tmp_path, old: str, new: str):
    text = RULES.read_text()
    assert old in text
    path = tmp_path / "questions.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_the_docs_lines_add_a_question_type_and_a_set_that_asks_it(tmp_path):
    page = (RULES.parents[2] / "docs" / "tree.md").read_text()
    added = yaml.safe_load(re.search(r"```yaml\n(  sets:.*?)```", page, re.DOTALL).group(1))
    document = yaml.safe_load(RULES.read_text())
    for part, entries in added.items():
        document[part] |= entries
    path = tmp_path / "questions.yaml"
    path.write_text(yaml.safe_dump(document))
    rules = load_rules(path)
    (name,) = added["sets"]
    house = house_of(thing("table", 3, 3, **TABLE), thing("cup", 3, 3, y=0.75, color="blue", **CUP))
    assert asked(house, rules, list(rules.sets[name])) == {"what color is the thing on the table?": "blue"}


def test_a_new_type_is_a_text_and_a_program(tmp_path):
    extra = "types:\n  room_of_color:\n    forms:\n" + (
        '      - text: "in which room do we find the {OBJ}?"\n        program: room(unique(objects(OBJ)))\n'
    )
    rules = load_rules(with_rules(tmp_path, "types:\n", extra))
    questions = asked(house_of(thing("sofa", 3, 3)), rules, ["room_of_color"])
    assert questions == {"in which room do we find the sofa?": "living room"}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("min_volume_m3", "min_volume", r"thresholds: missing \['min_volume_m3'\], unknown \['min_volume'\]"),
        ("plurals: [plates]", "plurals: [plate]", r"plurals: unknown names \['plate'\]"),
        ("      [mirror,", "      [mirrors,", r"types.color.skip: unknown names \['mirrors'\]"),
        ("    skip: *colorless", "    avoid: *colorless", "types.color_room: unknown"),
        ("eqa_v1: {location", "eqa_v1: {place", r"sets.eqa_v1: unknown names \['place'\]"),
        ("rooms:", "rooms", "questions.yaml"),
    ],
)
def test_faulty_rules_name_the_key(tmp_path, old, new, complaint):
    with pytest.raises(ValueError, match=complaint):
        load_rules(with_rules(tmp_path, old, new))


def test_a_text_and_a_program_with_different_slots_are_refused(tmp_path):
    path = with_rules(tmp_path, "what color {is} the {OBJ}?", "what color {is} it?")
    with pytest.raises(ValueError, match="the program uses OBJ"):
        Generator(load_rules(path), V1)
    path = with_rules(tmp_path, "what color {is} the {OBJ}?", "what color {is} the {OBJ} {in} the {ROOM}?")
    with pytest.raises(ValueError, match="uses 'ROOM', the program does not"):
        Generator(load_rules(path), V1)


def test_nothing_is_absent_beside_what_could_be_taken_for_it(rules):
    questions = asked(house_of(thing("desk", 5, 5), thing("vase", 12, 5, room=1)), rules, ["existence", "count"])
    assert questions["is there a desk in the living room?"] == "yes"
    assert questions["is there a table in the kitchen?"] == questions["is there an ottoman in the kitchen?"] == "no"
    assert "is there a table in the living room?" not in questions and "is there a cup in the kitchen?" not in questions
    assert questions["how many vases are in the kitchen?"] == "1"
    both = asked(house_of(thing("desk", 5, 5), thing("table", 3, 5)), rules, ["count", "existence"])
    assert not any(text.startswith("how many") for text in both)
    chairs = house_of(thing("chair", 3, 3), thing("chair", 5, 5), thing("picture frame", 7, 7))
    assert asked(chairs, rules, ["count"]) == {
        "how many chairs are in the living room?": "2",
        "how many picture frames are in the living room?": "1",
    }
    assert not asked(chairs, rules, V1)
    assert both["is there a table in the living room?"] == "yes"


def test_an_answer_says_what_must_be_seen_for_it(rules):
    house = house_of(thing("sofa", 3, 3), thing("vase", 5, 5), thing("vase", 7, 5), thing("sofa", 12, 5, room=1))

    def seen(program, room="living room", one="sofa", other="bed"):
        names = {"ROOM": room, "OBJ": one, "OBJ1": one, "OBJ2": other}
        found = parse(program).run(World(house, rules), names)
        return found.answer, found.sight, [t.id for t in found.touched], list(found.rooms)

    in_room = "inside(objects({}), unique(rooms(ROOM)))"
    one, two = (f"exist({in_room.format(name)})" for name in ("OBJ1", "OBJ2"))
    assert seen(one) == ("yes", "objects", [1], [0])
    assert seen(two) == ("no", "room", [], [0])
    assert seen(f"both({one}, {two})") == seen(f"both({two}, {one})") == ("no", "room", [1], [0])
    assert seen(f"either({one}, {two})") == seen(f"either({two}, {one})") == ("yes", "objects", [1], [0])
    assert seen(f"either({two}, {two})") == ("no", "room", [], [0])
    assert seen(f"count({in_room.format('OBJ')})", one="vase") == ("2", "objects", [2, 3], [0])
    assert seen("count(rooms(ROOM))") == ("1", "house", [], [0])
    assert seen("count(rooms_with(objects(OBJ)))") == ("2", "house", [1, 4], [0, 1])


@pytest.mark.parametrize(
    ("things", "answer"),
    [
        ((thing("cup", 1, 1), thing("vase", 3, 1), thing("bed", 8, 1)), "yes"),
        ((thing("cup", 1, 1), thing("vase", 8, 1), thing("bed", 3, 1)), "no"),
        ((thing("cup", 1, 1), thing("vase", 4, 1), thing("bed", 4.8, 1)), None),  # half a metre more is hard to see
        ((thing("cup", 1, 1), thing("vase", 6.5, 1), thing("bed", 8, 1)), None),  # less than 1.5 times as far
        ((thing("cup", 1, 1), thing("vase", 3, 1), thing("bed", 6, 1, size=(8, 1, 1))), None),  # middle far, edge near
    ],
    ids=["near", "far", "small difference", "small ratio", "long"],
)
def test_distances_are_compared_where_the_difference_is_easy_to_see(rules, things, answer):
    program = parse('less(distance(unique(objects("cup")), unique(objects("vase"))), '
                    'distance(unique(objects("cup")), unique(objects("bed"))))')  # fmt: skip
    if answer is None:
        with pytest.raises(Undefined, match="about as far"):
            program.run(World(house_of(*things), rules))
    else:
        assert program.run(World(house_of(*things), rules)).answer == answer


def test_counts_from_five_on_are_not_asked(rules):
    for number in (1, 4, 5):
        house = house_of(*(thing("vase", 1 + i, 5) for i in range(number)))
        questions = asked(house, rules, ["count", "room_count"])
        assert questions.get("how many vases are in the living room?") == (str(number) if number < 5 else None)
        assert questions["how many kitchens are in the house?"] == "1"


def test_articles_and_plurals_are_english(rules):
    house = house_of(thing("bookshelf", 5, 5), rooms=("office", "lobby", "lobby"))
    questions = asked(house, rules, ["existence", "count", "room_count", "room_object_count"])
    for text in (
        "is there an ottoman in the office?",
        "is there a utensil holder in the office?",
        "is there an xbox in the office?",
        "are there plates in the office?",
        "how many bookshelves are in the office?",
        "how many lobbies are in the house?",
        "how many rooms in the house have bookshelves in them?",
    ):
        assert text in questions, text
    house = house_of(thing("xbox", 5, 5), thing("dishwasher", 7, 7), rooms=("office",))
    assert {"how many xboxes are in the office?", "how many dishwashers are in the office?"} <= set(
        asked(house, rules, ["count"])
    )


def test_a_share_draws_the_same_names_in_every_house(rules):
    texts = [set(asked(furnished(seed), rules, ["logical"])) for seed in range(12)]
    whole = {**rules.types, "logical": replace(rules.types["logical"], share=1.0)}
    every = asked(furnished(0), replace(rules, types=whole), ["logical"])
    assert 0.002 < len(texts[0]) / len(every) < 0.007
    often = Counter(text for of_house in texts for text in of_house)
    assert sum(number >= 10 for number in often.values()) > len(often) / 2
