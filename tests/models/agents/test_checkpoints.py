"""The agent that an experiment builds on is found, and what cannot be one is passed over by name."""

import os

import pytest
import torch

from eqa.data.vocabulary import Vocabulary
from eqa.models.agents.checkpoints import fitting_agent
from eqa.models.agents.neural import NeuralAgent
from tests.helpers.toy_room import ToyRooms, untrained_agent


@pytest.fixture(scope="module")
def source() -> ToyRooms:
    return ToyRooms()


def test_the_newest_that_can_be_read_is_found_and_named_once(tmp_path, source, capsys):
    for n, name in enumerate(("older", "newer", "damaged", "spoilt")):
        agent, path = untrained_agent(source), tmp_path / name / "agent.ckpt"
        path.parent.mkdir()
        if name == "spoilt":
            agent.navigator.planner_head.bias.data[0] = torch.nan
        agent.save(path)
        if name == "damaged":
            path.write_bytes(path.read_bytes()[:1000])
        os.utime(path, (n, n))
    for _ in range(2):
        assert isinstance(fitting_agent("last", source, runs=tmp_path), NeuralAgent)
    shown = capsys.readouterr().out.replace("\n", "")
    assert shown.count("what is not fitted comes from") == 1 and str(tmp_path / "newer" / "agent.ckpt") in shown
    assert f"passed over: {tmp_path / 'damaged' / 'agent.ckpt'}: cannot be read" in shown
    assert "weights that are not finite: navigator.planner_head.bias" in shown


def test_one_that_is_named_is_not_passed_over(tmp_path, source):
    agent, path = untrained_agent(source), tmp_path / "agent.ckpt"
    agent.navigator.planner_head.weight.data[0, 0] = torch.inf
    agent.save(path)
    with pytest.raises(ValueError, match="agent.ckpt.*not finite: navigator.planner_head.weight"):
        fitting_agent(str(path), source)


class _OtherWords(ToyRooms):
    """The same rooms for a vocabulary with other answers."""

    def __init__(self, answers: tuple[str, ...]) -> None:
        super().__init__()
        self.answers = answers

    @property
    def vocabulary(self) -> Vocabulary:
        known = super().vocabulary
        return Vocabulary(known.words[:-1], self.answers)


def test_one_that_knows_more_words_goes_on_with_its_own_where_it_may(tmp_path, source):
    agent, path = untrained_agent(source), tmp_path / "agent.ckpt"
    agent.save(path)
    fewer, others = _OtherWords(source.vocabulary.answers[1:]), _OtherWords(("violet",))
    assert fitting_agent(str(path), fewer, covering=True).vocabulary == source.vocabulary != fewer.vocabulary
    for wanted, covering in ((fewer, False), (others, True)):
        with pytest.raises(ValueError, match="agent.ckpt has another vocabulary"):
            fitting_agent(str(path), wanted, covering=covering)
