"""An agent in the form that is published: float16 as safetensors, a description and a card, here or on the hub."""

import json
from pathlib import Path

import huggingface_hub
import pytest
import safetensors.torch
import torch

from eqa.data.questions.published import PACKAGED, published_questions
from eqa.data.vocabulary import Vocabulary
from eqa.models.agents import neural
from eqa.models.agents.neural import NeuralAgent, file_of_weights, share_encoder
from eqa.models.encoders.cnn import save_encoder
from tests.helpers.toy_room import ToyRooms, untrained_agent


@pytest.fixture
def agent() -> NeuralAgent:
    torch.manual_seed(0)
    agent = untrained_agent(ToyRooms())
    agent.config |= {"name": "PACMAN+Q", "seed": 0}
    return agent


def rounded(agent: NeuralAgent) -> dict[str, torch.Tensor]:
    return {k: x.half().float() if x.is_floating_point() else x for k, x in agent.state_dict().items()}


def assert_published(again: NeuralAgent, agent: NeuralAgent) -> None:
    assert (again.vocabulary, again.config, again.name) == (agent.vocabulary, agent.config, "PACMAN+Q")
    assert again.vocabulary.asked == agent.vocabulary.asked and not again.training
    state, expected = again.state_dict(), rounded(agent)
    assert state.keys() == expected.keys() and all(torch.equal(state[name], expected[name]) for name in state)


def test_an_agent_comes_back_from_its_folder_in_float16_by_either_name(agent: NeuralAgent, tmp_path: Path) -> None:
    agent.save_pretrained(tmp_path / "agent")
    names = {path.name for path in (tmp_path / "agent").iterdir()}
    assert names == {"config.json", "model.safetensors", "README.md"}
    weights = safetensors.torch.load_file(tmp_path / "agent" / "model.safetensors")
    assert {x.dtype for x in weights.values()} <= {torch.float16, torch.int64}
    assert "library_name: eqa" in (tmp_path / "agent" / "README.md").read_text()
    assert_published(NeuralAgent.from_pretrained(tmp_path / "agent"), agent)
    assert_published(NeuralAgent.load(tmp_path / "agent"), agent)


def test_the_hub_s_copy_of_it_is_read_from_its_snapshot(agent, tmp_path, monkeypatch) -> None:
    agent.save_pretrained(tmp_path / "hub")
    asked = {}

    def snapshot(repository: str, **said: object) -> str:
        asked.update(repository=repository, **said)
        return str(tmp_path / "hub")

    monkeypatch.setattr(neural, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.hub_mixin, "hf_hub_download", lambda **said: str(tmp_path / "hub/config.json"))
    assert_published(NeuralAgent.from_pretrained("somebody/agent", revision="v1"), agent)
    assert asked["repository"] == "somebody/agent" and asked["revision"] == "v1"


@pytest.fixture
def shared(tmp_path: Path) -> tuple[NeuralAgent, Path, Path, int]:
    """The packaged agent published anew beside its encoder: agent, folder, encoder's file, bytes before sharing."""
    agent = NeuralAgent.load("models/weights/pacman_q")
    folder, encoder = tmp_path / "agent", tmp_path / "encoder.safetensors"
    save_encoder(agent.encoder, encoder, half=True)
    agent.save_pretrained(folder)
    before = file_of_weights(folder).stat().st_size
    share_encoder(folder, str(encoder))
    return agent, folder, encoder, before


def test_an_agent_may_share_its_encoder_with_the_package(shared) -> None:
    agent, folder, _, before = shared
    assert_published(NeuralAgent.load(folder), agent)
    encoder_size = 2 * sum(x.numel() for x in agent.encoder.parameters())
    assert before - file_of_weights(folder).stat().st_size >= encoder_size > 1e6
    with pytest.raises(ValueError, match="expected the weights of the agent's encoder"):
        share_encoder(folder, "models/weights/encoder.safetensors")


def test_an_agent_is_refused_beside_another_encoder_than_it_learned_with(shared) -> None:
    agent, folder, file, _ = shared
    with torch.no_grad():
        next(agent.encoder.parameters()).mul_(2)
    save_encoder(agent.encoder, file, half=True)
    with pytest.raises(ValueError, match=r"config.json: expected .*encoder.safetensors with the fingerprint .*, got"):
        NeuralAgent.load(folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json: cannot be read"),
        (
            lambda folder: (folder / "config.json").write_text('{"agent": {"format": "x"}}'),
            "expected eqa-agent version 1",
        ),
        (lambda folder: (folder / "config.json").write_text('{"agent": {"modules": [1]}}'), "config.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json: cannot be read"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: cannot be read as safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99), "cannot be read as safetensors"),
        (lambda folder: safetensors.torch.save_file({}, folder / "model.safetensors"), "do not fit this version"),
    ],
)
def test_a_damaged_folder_is_refused_by_name(agent, tmp_path, spoil, message) -> None:
    folder = tmp_path / "agent"
    agent.save_pretrained(folder)
    spoil(folder)
    with pytest.raises(ValueError, match=message):
        NeuralAgent.load(folder)


def test_the_packaged_agent_fits_the_packaged_questions_and_encoder() -> None:
    agent = NeuralAgent.load("models/weights/pacman_q")  # refuses another encoder than it learned with
    header = json.loads((PACKAGED / "header.json").read_text())
    questions = published_questions(header["configuration"])
    shared = "models/weights/residual.safetensors"
    publish = f"python scripts/publish.py agent RUN --out models/weights/pacman_q --share {shared}"
    remedy = f"python train.py +experiment=il, then {publish}"
    assert agent.vocabulary == Vocabulary.of(questions.episodes["train"]), remedy
    assert file_of_weights("models/weights/pacman_q").stat().st_size < 10e6
