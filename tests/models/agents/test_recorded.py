"""Recorded walks: a file is read whole, or refused with the line and what was expected."""

import json
from pathlib import Path

import numpy as np
import pytest

from eqa.envs.episode import Episode
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.recorded import RecordedAgent
from tests.helpers.episode_batches import batch_of

A, B = {"episode_id": "a", "actions": ["forward", "stop"], "answer": "red"}, {"episode_id": "b", "actions": ["left"]}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "walks.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def batch(*ids: str) -> EpisodeBatch:
    """Episodes with the actions of houses."""
    episodes = [Episode(one, "box", "what is it?", "red", "color", "by hand") for one in ids]
    return batch_of(np.zeros((len(ids), 4)), episodes=episodes)


def test_walks_end_with_stop_and_belong_to_their_episodes(tmp_path: Path) -> None:
    agent = RecordedAgent(written(tmp_path, {**A, "answer": None}, B))
    agent.reset(batch("b", "a"))
    assert [agent.act({}, np.arange(2)).tolist() for _ in range(3)] == [[1, 0], [3, 3], [3, 3]]
    assert agent.answer() is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a walk a line, got no line"),
        ([A, A], "line 2: expected one walk an episode, got another of 'a'"),
        ([{"episode_id": "a"}], "line 1: .*actions"),
        ([{**A, "reward": 1}], "line 1: .*reward"),
        ([A, B], "expected an answer in each line or in none, got 1 of 2"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, lines: list, message: str) -> None:
    with pytest.raises(ValueError, match=rf"walks.jsonl.*{message}"):
        RecordedAgent(written(tmp_path, *lines))


@pytest.mark.parametrize(
    ("actions", "asked", "message"),
    [
        (["forward"], batch("c"), "expected a walk for each question of the split, got none for 'c'"),
        (["move_forward"], batch("a"), "expected some of forward, left, right, stop.*got \\['move_forward'\\]"),
        (["stop", "left"], batch("a"), "got stop before the end"),
        (["left"] * 101, batch("a"), "expected at most 100 actions, got 101"),
    ],
)
def test_walks_that_cannot_be_played_are_refused(
    tmp_path: Path, actions: list, asked: EpisodeBatch, message: str
) -> None:
    agent = RecordedAgent(written(tmp_path, {"episode_id": "a", "actions": actions}))
    with pytest.raises(ValueError, match=message):
        agent.reset(asked)
