"""Tables and the page of plots, on a set of questions made by hand."""

import json
from collections import Counter
from math import log
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eqa.data.questions.counts import count_file, count_questions
from eqa.data.questions.storage import FORMAT, FORMAT_VERSION
from eqa.data.vocabulary import tokenize
from eqa.envs.episode import Episode, Spawn
from eqa.models.evaluation.question_tables import (
    Sheet,
    answers_sheet,
    details,
    paper_shares,
    sizes_sheet,
    strings_sheet,
    types_sheet,
    walks_sheet,
    words_sheet,
)
from eqa.scripts.make_questions import write_page


def episode(house: str, question: str, answer: str, kind: str, distance_m: float | None = None) -> Episode:
    spawns = distance_m and {"start": Spawn((0, 0, 0, 0), 9, distance_m, 2), "T-10": Spawn((0, 0, 0, 0))}
    return Episode(house + question, house, question, answer, kind, "test", spawns=spawns, program='f(objects("sofa"))')


SOFA, BED, HOW_MANY = "what color is the sofa?", "what color is the bed?", "how many sofas are there?"
EPISODES = {
    "train": [
        *(episode(f"t{i}", SOFA, color, "color", 2.0 + i) for i, color in enumerate(["red", "red", "red", "blue"])),
        *(episode(f"t{i}", BED, color, "color") for i, color in enumerate(["red", "blue"])),
        *(episode(f"t{i}", HOW_MANY, str(i), "count", 10.0) for i in range(3)),
    ],
    "test": [episode("e0", SOFA, "blue", "color"), episode("e0", HOW_MANY, "7", "count")],
    "human": [episode("h0", BED, "red", "color", 3.0), episode("h0", "is it cold here?", "yes", "mood")],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    counts = {split: dict(Counter(e.question_type for e in found)) for split, found in EPISODES.items()}
    steps = {"chosen": {split: len(found) for split, found in EPISODES.items()}}
    header = {"format": FORMAT, "version": FORMAT_VERSION, "configuration": {}, "counts": counts | {"val": {}}}
    lines = [header | {"steps": steps}, *({"split": s, **e.to_dict()} for s, found in EPISODES.items() for e in found)]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def by_name(sheet: Sheet) -> dict[str, list[str]]:
    return {line[0]: list(line[1:]) for line in sheet.lines}


def test_a_streamed_file_is_counted_as_its_episodes_are(file: Path) -> None:
    assert count_file(file) == count_questions(EPISODES)
    with pytest.raises(ValueError, match="expected some in the split train"):
        count_questions({"test": EPISODES["test"]})


def test_sizes_and_types_are_those_of_a_slow_count() -> None:
    counts = count_questions(EPISODES)
    sizes, types = by_name(sizes_sheet(counts)), by_name(types_sheet(counts))
    assert sizes["train"] == ["4 / 643", "3 / 147", "9 / 4246", "2.2 (1 to 3)", "1"]
    assert sizes["human"][:3] == ["1 / -", "2 / -", "2 / -"]
    for kind in ("color", "count", "mood"):
        expected = []
        for found in EPISODES.values():
            num = sum(e.question_type == kind for e in found)
            expected += [str(num), f"{num / len(found):.1%}"]
        assert types[kind][:-1] == expected
    assert types["color"][-1] == f"{paper_shares()['color']:.1%}" and types["mood"][-1] == "-"
    assert by_name(answers_sheet(counts))["color"] == ["2", "red 4, blue 2"]
    assert by_name(answers_sheet(counts))["mood"] == ["0", "-"]


def test_strings_are_judged_over_all_splits_but_the_homes_of_people() -> None:
    strings = by_name(strings_sheet(count_questions(EPISODES)))
    assert set(strings) == {"color", "count"}
    sofa = -(3 / 5 * log(3 / 5) + 2 / 5 * log(2 / 5)) / log(2)
    houses, entropy = [5, 2], [sofa, 1.0]
    assert strings["color"] == [
        "2",
        f"3.5 ({np.quantile(houses, 0.05):.0f} to {np.quantile(houses, 0.95):.0f})",
        "2.0 (2 to 2)",
        f"{np.mean(entropy):.2f} ({np.quantile(entropy, 0.05):.2f} to {np.quantile(entropy, 0.95):.2f})",
        "0.0%",
    ]
    assert strings["count"][:3] == ["1", "4.0 (4 to 4)", "4.0 (4 to 4)"]


def test_words_are_counted_as_often_as_they_are_said() -> None:
    said = Counter(w for split in ("train", "test") for e in EPISODES[split] for w in tokenize(e.question))
    (line,) = words_sheet(count_questions(EPISODES)).lines
    assert line[0] == str(len(said)) and line[1].startswith("5.0 (")
    assert dict(entry.rsplit(" ", 1) for entry in line[2].split(", ")) == {w: str(n) for w, n in said.items()}


def test_distances_are_of_the_questions_that_know_them_and_the_others_are_counted() -> None:
    (distance, actions, rooms) = walks_sheet(count_questions(EPISODES)).lines
    values = [2, 3, 4, 5, 10, 10, 10, 3]
    assert distance[:4] == ["start", "distance_m", "8", "5"]
    figures = np.mean(values), *np.quantile(values, (0.05, 0.5, 0.95))
    assert distance[4:] == [f"{value:.1f}" for value in figures]
    assert actions[:5] == ["start", "num_actions", "8", "5", "9.0"] and rooms[:5] == [
        "start",
        "num_rooms",
        "8",
        "5",
        "2.0",
    ]
    unknown = count_questions({"train": EPISODES["train"][4:6]})
    assert details(unknown)[-1].lines == [] and "None of 2 questions" in details(unknown)[-1].notes


def test_the_page_and_the_tables_are_written(file: Path, tmp_path: Path) -> None:
    sheets = write_page(file, tmp_path / "out")
    with Image.open(tmp_path / "out" / "questions.png") as page:
        assert 1500 < page.size[0] < 1700 and len(set(np.asarray(page.convert("L")).ravel())) > 50
    text = (tmp_path / "out" / "questions.md").read_text()
    assert "| train | 4 / 643 | 3 / 147 | 9 / 4246 |" in text and "| chosen | 9 | 2 | 2 |" in text
    (blind,) = (sheet for sheet in sheets if "without looking" in sheet.title)
    test_color = next(line for line in blind.lines if line[:2] == ["test", "color"])
    assert test_color[2:5] == ["1", "100.0", "0.0 [0, 79]"]  # train's majority for the sofa is red
    assert all(sheet.for_terminal().row_count == len(sheet.lines) for sheet in sheets)
