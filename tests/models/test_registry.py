"""Names of classes, arguments and parts of networks that older versions wrote are still read."""

from pathlib import Path

import pytest
import torch
from torch import nn

from eqa.data.vocabulary import Vocabulary
from eqa.models.agents.neural import NeuralAgent
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.answerers.spatial_attention import SpatialAttentionAnswerer
from eqa.models.encoders.cnn import Encoder
from eqa.models.navigators.baselines import Lstm, Reactive
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.transformer import Transformer
from eqa.models.registry import OLD_ARGUMENTS, OLD_CLASSES, OLD_PARTS, describe, rebuild

MADE = {
    "pacman": lambda: Pacman(9, 6, planner_hidden=8),
    "naming colours": lambda: NamingAnswerer(9, 3, 6, map_shape=[1, 2, 3], name_counts=[3, 2, 2], asks_colors=True),
    "naming": lambda: NamingAnswerer(9, 3, 6, map_shape=[1, 2, 3], name_counts=[3, 2, 2], earlier_frames=[7]),
    "reactive": lambda: Reactive(9, 6),
    "lstm": lambda: Lstm(9, 6, hidden_size=8),
    "transformer": lambda: Transformer(9, 6, size=16, num_layers=1, num_heads=4),
    "answerer": lambda: Answerer(9, 3, 6, earlier_frames=[7, 9]),
    "spatial": lambda: SpatialAttentionAnswerer(9, 3, 6, map_shape=[1, 2, 3], earlier_frames=[7], num_heads=2),
}


def as_written_before(module: nn.Module) -> dict:
    """The description of a module as the version before the new names wrote it."""
    described = describe(module)
    classes, arguments, parts = ({new: old for old, new in t.items()} for t in (OLD_CLASSES, OLD_ARGUMENTS, OLD_PARTS))
    if not isinstance(module, SpatialAttentionAnswerer):
        del arguments["num_heads"]  # which a transformer always had
    return {
        "class": classes.get(described["class"], described["class"]),
        "arguments": {arguments.get(name, name): value for name, value in described["arguments"].items()},
        "state": {".".join(parts.get(p, p) for p in name.split(".")): v for name, v in described["state"].items()},
    }


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_was_described_with_older_names_is_rebuilt(make) -> None:
    module = make()
    before = as_written_before(module)
    assert not any(name in key.split(".") for key in before["state"] for name in OLD_PARTS.values())
    again = rebuild(before)
    assert type(again) is type(module) and again.arguments == module.arguments
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in module.state_dict().items())


def test_an_agent_that_was_saved_with_older_names_loads_and_is_called_by_today_s(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of_pairs([("what color is the sofa ?", "red"), ("what room is it ?", "kitchen")])
    encoder = Encoder()
    words, answers = len(vocabulary.words), len(vocabulary.answers)
    shape = encoder.map_shape
    answerer = SpatialAttentionAnswerer(words, answers, encoder.feature_size, map_shape=shape, earlier_frames=[7])
    navigator = Lstm(words, encoder.feature_size, hidden_size=8)
    config = {"row": "PACMAN+Q, spatial attention, own ends"}
    agent = NeuralAgent(encoder, navigator, answerer, vocabulary, config=config)
    agent.save(tmp_path / "agent.ckpt")
    document = torch.load(tmp_path / "agent.ckpt", weights_only=True)
    document["modules"] = {
        name: as_written_before(getattr(agent, name)) for name in ("encoder", "navigator", "answerer")
    }
    assert document["modules"]["answerer"]["class"] == "PlacesAnswerer"
    torch.save(document, tmp_path / "agent.ckpt")
    again = NeuralAgent.load(tmp_path / "agent.ckpt")
    assert again.name == agent.name == "PACMAN+Q, spatial attention, on-policy answerer"
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in agent.state_dict().items())
