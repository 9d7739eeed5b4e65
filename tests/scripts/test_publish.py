"""A published folder is read again, its card tells where it is from, and it names nobody's folders."""

import json
import sys
from pathlib import Path

import pytest

from eqa.data.questions.published import PACKAGED, published_questions
from eqa.data.questions.storage import read_header, write_questions
from eqa.models.agents.neural import NeuralAgent
from eqa.scripts.publish import main
from tests.helpers.toy_room import ToyRooms, untrained_agent


def publish(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["publish.py", *map(str, words)])
    main()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with an agent, a record and a table."""
    folder = tmp_path / "home of somebody" / "il"
    folder.mkdir(parents=True)
    agent = untrained_agent(ToyRooms())
    agent.config |= {"name": "PACMAN+Q", "run_folder": str(folder), "stages": {"folder": f"{folder}/answerer"}}
    agent.save(folder / "agent.ckpt")
    record = {"command": "python train.py +experiment=il", "commit": "0123456789ab", "seed": 0, "machine": "a laptop"}
    (folder / "run.json").write_text(json.dumps(record | {"time_s": 600.0}))
    (folder / "table.md").write_text("# test split\n\n| agent | d_T |\n| --- | --- |\n| PACMAN+Q | 0.61 |\n")
    return folder


def test_a_run_s_agent_is_published_with_a_card_and_without_the_folder_that_it_was_made_in(run, tmp_path, monkeypatch):
    publish(monkeypatch, "agent", run, "--out", tmp_path / "agent")
    agent = NeuralAgent.load(tmp_path / "agent")
    assert agent.name == "PACMAN+Q" and agent.config["stages"] == {"folder": "il/answerer"}
    card = (tmp_path / "agent" / "README.md").read_text()
    assert "| commit | 0123456789ab |" in card and "| PACMAN+Q | 0.61 |" in card and "\n### test split" in card
    assert not any("somebody" in path.read_text(errors="ignore") for path in (tmp_path / "agent").iterdir())


def test_results_come_from_the_folder_that_is_named(run, tmp_path, monkeypatch):
    results = tmp_path / "eval"
    results.mkdir()
    (results / "run.json").write_text(json.dumps({"command": "python eval.py", "commit": "ba9876543210"}))
    (results / "table.md").write_text("| PACMAN+Q | 0.62 |")
    publish(monkeypatch, "agent", run, "--results", results, "--out", tmp_path / "agent")
    card = (tmp_path / "agent" / "README.md").read_text()
    assert "| PACMAN+Q | 0.62 |" in card and "`python eval.py` at commit ba9876543210" in card


def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path, monkeypatch):
    with pytest.raises(
        SystemExit, match="publish: .*nowhere/run.json: not a run's record .*; name the folder of a run"
    ):
        publish(monkeypatch, "agent", tmp_path / "nowhere")


def without_trained_guesses(card: str) -> list[str]:
    """A card's lines without the last column of the table of guesses: a network makes it, and processors round apart."""
    lines = card.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("| split | type |") and "LSTM" in line)
    end = next(n for n in range(begin, len(lines)) if not lines[n])
    return [line.rsplit("|", 2)[0] if begin <= n < end else line for n, line in enumerate(lines)]


def test_a_question_set_is_published_with_the_command_that_makes_it(tmp_path, monkeypatch):
    header = json.loads((PACKAGED / "header.json").read_text())
    write_questions(tmp_path / "set.jsonl", published_questions(header["configuration"]))
    publish(monkeypatch, "questions", tmp_path / "set.jsonl", "--out", tmp_path / "published")
    assert published_questions(header["configuration"], tmp_path / "published") is not None
    files, again = (
        {path.name: path.read_bytes() for path in of.iterdir()} for of in (PACKAGED, tmp_path / "published")
    )
    cards = [without_trained_guesses(each.pop("README.md").decode()) for each in (files, again)]
    assert again == files and cards[0] == cards[1]
    card = (tmp_path / "published" / "README.md").read_text()
    assert "--questions 1600 160 320" in card and read_header(tmp_path / "set.jsonl")["counts"]["test"]
