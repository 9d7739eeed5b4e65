"""`NeuralAgent`: encoder, navigator and answerer with their vocabulary, to be trained, saved and evaluated as one.

Axes: B frames, H W frame, F features.
"""

from pathlib import Path

import torch
from torch import nn

from eqa.data.vocabulary import Vocabulary
from eqa.envs.files import atomic_write
from eqa.envs.reading import named
from eqa.models.agents.relations import Relations
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.answerers.spatial_attention import SpatialAttentionAnswerer
from eqa.models.encoders.cnn import Encoder, FrozenEncoder
from eqa.models.encoders.imagenet import Backbone, FrozenBackbone
from eqa.models.encoders.resnet import FrozenResidualEncoder, ResidualEncoder
from eqa.models.navigators.action_selection import checked_odds
from eqa.models.navigators.baselines import Lstm, Reactive
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.transformer import Transformer
from eqa.models.registry import current_name, describe, rebuild

NAVIGATORS = (Pacman, Reactive, Lstm, Transformer)
ANSWERERS = (Answerer, SpatialAttentionAnswerer, NamingAnswerer)
# Parts of an agent and their possible classes; `rebuild` knows the classes that have been imported.
PARTS = {"encoder": (Encoder, ResidualEncoder, Backbone), "navigator": NAVIGATORS, "answerer": ANSWERERS}
FORMAT = "eqa-agent"
FORMAT_VERSION = 1
REMEDY = "python train.py +experiment=il trains one"


class NeuralAgent(nn.Module):
    """Walks and answers.

    `config` holds the run's configuration as plain values; it is kept for the reader and never instantiated. Its name
    and `relations` come from there. ValueError if the parts do not fit each other.
    """

    def __init__(
        self,
        encoder: Encoder | ResidualEncoder | Backbone,
        navigator: nn.Module,
        answerer: nn.Module,
        vocabulary: Vocabulary,
        *,
        config: dict | None = None,
    ):
        super().__init__()
        self.encoder, self.navigator, self.answerer = encoder, navigator, answerer
        self.vocabulary, self.config = vocabulary, config or {}
        expected = {
            "vocabulary_size": len(vocabulary.words),
            "num_answers": len(vocabulary.answers),
            "feature_size": encoder.feature_size,
        }
        for part in (navigator, answerer):
            for name, value in expected.items():
                if part.arguments.get(name, value) != value:
                    kind, got = type(part).__name__, part.arguments[name]
                    raise ValueError(f"{kind}: expected {name}={value} to fit encoder and vocabulary, got {got}")

    @property
    def name(self) -> str:
        """The agent's line of the results table."""
        return current_name(self.config.get("name", self.config.get("row", "agent")))

    @property
    def relations(self) -> Relations:
        """Relations to other agents; none if its checkpoint does not say so."""
        names = {
            name: None if (of := self.config.get(name)) is None else current_name(of)
            for name in ("variant_of", "finetuned_from")
        }
        return Relations(**names, stop_odds=self.config.get("stop_odds"))

    def set_stop_odds(self, stop_odds: float) -> None:
        """Sets the navigator's `stop_odds`, see `models.navigators.action_selection`; a changed one joins the name.

        The agent is then a variant of the one that it was.
        """
        navigator = self.navigator
        if navigator.stop_odds != checked_odds(stop_odds):
            navigator.stop_odds = stop_odds
            navigator.arguments = {**navigator.arguments, "stop_odds": stop_odds}
            changed = {"name": f"{self.name}, stop_odds {stop_odds:g}", "variant_of": self.name, "stop_odds": stop_odds}
            self.config = {**self.config, **changed}

    def frozen_encoder(self, precision: str = "auto") -> FrozenEncoder | FrozenResidualEncoder | FrozenBackbone:
        """The encoder made for speed; make it once and keep it."""
        return self.encoder.for_inference(precision)

    def save(self, path: Path) -> None:
        """Writes the whole agent into one file, through a renamed temporary file."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "vocabulary": self.vocabulary.to_dict(),
            "config": self.config,
            "modules": {name: describe(getattr(self, name)) for name in PARTS},
        }
        with atomic_write(Path(path)) as aside:
            torch.save(document, aside)

    @classmethod
    def load(cls, path: Path | str) -> "NeuralAgent":
        """Reads a file of `save`, in evaluation mode on the CPU; ValueError names the file and its fault."""
        with named(path, "cannot be read as an agent's checkpoint", REMEDY):
            document = torch.load(path, map_location="cpu", weights_only=True)
        fields = document if isinstance(document, dict) else {}
        found = (fields.get("format"), fields.get("version"))
        if found != (FORMAT, FORMAT_VERSION):
            got = f"{found[0]} version {found[1]}" if found[0] else "another kind of file"
            raise ValueError(f"{path}: expected {FORMAT} version {FORMAT_VERSION}, got {got}; {REMEDY}")
        with named(path, "damaged or of another version", REMEDY):
            modules = {name: rebuild(fields["modules"][name]) for name in PARTS}
            agent = cls(**modules, vocabulary=Vocabulary.from_dict(fields["vocabulary"]), config=fields["config"])
            spoilt = [
                name for name, x in agent.state_dict().items() if x.is_floating_point() and not x.isfinite().all()
            ]
            if spoilt:
                raise ValueError(f"weights that are not finite: {', '.join(spoilt[:3])}")
        return agent.eval()
