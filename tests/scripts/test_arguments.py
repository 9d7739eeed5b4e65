"""Numbers on command lines have a range, and what is out of it is refused before anything is done."""

import ast
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from eqa.scripts import export_house, house_stats, make_houses, make_questions, preview
from eqa.scripts.arguments import positive, whole

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_a_number_in_its_range_is_read_and_another_is_refused_with_the_range() -> None:
    assert [whole(0)("0"), whole(1, 3)("3"), positive("0.5")] == [0, 3, 0.5]
    for read, word, said in [
        (whole(0), "-1", "expected a whole number from 0 on, got '-1'"),
        (whole(1), "1.5", "expected a whole number from 1 on, got '1.5'"),
        (whole(1, 3), "4", "expected a whole number from 1 to 3, got '4'"),
        (positive, "0", "expected a number above 0, got '0'"),
        (positive, "inf", "expected a number above 0, got 'inf'"),
        (positive, "some", "expected a number above 0, got 'some'"),
    ]:
        with pytest.raises(ArgumentTypeError) as refused:
            read(word)
        assert str(refused.value) == said


def test_no_flag_of_any_script_takes_every_number() -> None:
    types = {}
    for path in sorted(SCRIPTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "add_argument":
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                types[f"{path.stem} {ast.unparse(node.args[0])}"] = given.get("type")
    assert sum(str(read).startswith("whole(") for read in types.values()) > 40
    assert not [flag for flag, read in types.items() if read in ("int", "float")]


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (make_houses, ["--train", "-1"], "argument --train: expected a whole number from 0 on, got '-1'"),
        (make_houses, ["--train", "0"], "expected a number of houses above 0 for at least one of"),
        (make_houses, ["--train", "1", "--workers", "0"], "argument --workers: expected a whole number from 1 on"),
        (make_questions, ["--houses", "2", "1", "0"], "argument --houses: expected a whole number from 1 on, got '0'"),
        (preview, ["--style", "villa"], "argument --style: invalid choice: 'villa'"),
        (preview, ["--views", "0"], "argument --views: expected a whole number from 1 on, got '0'"),
        (preview, ["--quiz"], "--quiz: expected --sheet with it, got none"),
        (
            preview,
            ["--split", "human", "--first", "5"],
            "--first and --count: expected homes 0 to 4 of the split human",
        ),
        (export_house, ["--first", "-3"], "argument --first: expected a whole number from 0 on, got '-3'"),
        (house_stats, ["--count", "many"], "argument --count: expected a whole number from 1 on, got 'many'"),
    ],
)
def test_a_script_says_it_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    tmp_path: Path,
    script: object,
    words: list,
    said: str,
) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["script", *words])
    with pytest.raises(SystemExit, match="2"):
        script.main()
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())
