"""`NeuralAgent`: encoder, navigator and answerer with their vocabulary, to be trained, saved and evaluated as one.

An agent is kept in two forms. A run's checkpoint (`save`) has its weights as they were learned, for evaluation and for
learning on. A published folder (`save_pretrained`, `push_to_hub`) has them in float16, as safetensors beside a
`config.json` and a card, and half of the size. `load` reads both. An agent that the package brings shares its encoder
with the package (`share_encoder`).

Axes: B frames, H W frame, F features.
"""

import json
from pathlib import Path

import safetensors.torch
import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from torch import nn

from eqa.data.vocabulary import Vocabulary
from eqa.envs.files import atomic_write, file_fingerprint, here_or_packaged
from eqa.envs.reading import named, parsed, read_text
from eqa.models.agents.relations import Relations
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.answerers.spatial_attention import SpatialAttentionAnswerer
from eqa.models.encoders.cnn import Encoder, FrozenEncoder, load_encoder
from eqa.models.encoders.imagenet import Backbone, FrozenBackbone
from eqa.models.encoders.resnet import FrozenResidualEncoder, ResidualEncoder
from eqa.models.navigators.action_selection import checked_odds
from eqa.models.navigators.baselines import Lstm, Reactive
from eqa.models.navigators.learned_stop import LearnedStop
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.transformer import Transformer
from eqa.models.registry import current_name, describe, rebuild

NAVIGATORS = (Pacman, Reactive, Lstm, Transformer)
ANSWERERS = (Answerer, SpatialAttentionAnswerer, NamingAnswerer)
# Parts of an agent and their possible classes; `rebuild` knows the classes that have been imported.
PARTS = {
    "encoder": (Encoder, ResidualEncoder, Backbone),
    "navigator": (*NAVIGATORS, LearnedStop),
    "answerer": ANSWERERS,
}
FORMAT = "eqa-agent"
FORMAT_VERSION = 1
REMEDY = "python train.py +experiment=il trains one"
CONFIG, WEIGHTS = "config.json", "model.safetensors"  # of a published folder
SHARED, FINGERPRINT = "weights", "fingerprint"  # of a part that is described: the package's file that has its weights


def file_of_weights(path: str | Path) -> Path:
    """The file with the weights of an agent that `NeuralAgent.load` reads from `path`."""
    found = here_or_packaged(str(path))
    return found / WEIGHTS if found.is_dir() else found


def share_encoder(folder: Path, packaged: str) -> None:
    """Takes the encoder's weights out of a published folder, as the package has the same ones in a file.

    ValueError if they are not the same.
    """
    agent, state = NeuralAgent.load(folder), load_encoder(here_or_packaged(packaged)).state_dict()
    own = agent.encoder.state_dict()
    if own.keys() != state.keys() or any(not torch.equal(own[name].half(), x.half()) for name, x in state.items()):
        raise ValueError(f"{packaged}: expected the weights of the agent's encoder in {folder}, got others")
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    document = parsed(read_text(folder / CONFIG, "record"))
    file = here_or_packaged(packaged)
    document["agent"]["modules"]["encoder"] |= {SHARED: packaged, FINGERPRINT: file_fingerprint(file)}
    with atomic_write(folder / CONFIG) as aside:  # first: a copy that is still there does no harm
        aside.write_text(json.dumps(document, indent=1) + "\n")
    with atomic_write(folder / WEIGHTS) as aside:
        safetensors.torch.save_file({k: x for k, x in weights.items() if not k.startswith("encoder.")}, aside)


def _shared(config: Path, packaged: str, fingerprint: str) -> dict[str, torch.Tensor]:
    """Weights of the package's encoder, if it still is the one that the agent learned with."""
    file = here_or_packaged(packaged)
    if (found := file_fingerprint(file)) != fingerprint:
        raise ValueError(f"{config}: expected {packaged} with the fingerprint {fingerprint}, got {found}; {REMEDY}")
    return load_encoder(file).state_dict()


class NeuralAgent(
    nn.Module,
    ModelHubMixin,
    library_name="eqa",
    license="mit",
    tags=["embodied-question-answering", "navigation"],
    paper_url="https://arxiv.org/abs/1711.11543",
):
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
        with atomic_write(Path(path)) as aside:
            torch.save(self._document(), aside)

    def _document(self) -> dict:
        """The whole agent in plain values and tensors."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "vocabulary": self.vocabulary.to_dict(),
            "config": self.config,
            "modules": {name: describe(getattr(self, name)) for name in PARTS},
        }

    @classmethod
    def load(cls, path: Path | str) -> "NeuralAgent":
        """Reads a file of `save` or a folder of `save_pretrained`, in evaluation mode on the CPU.

        The path may be one of the package, such as models/weights/pacman_q. ValueError names the file and its fault.
        """
        path = here_or_packaged(str(path))
        if path.is_dir():
            return cls._published(path)
        with named(path, "cannot be read as an agent's checkpoint", REMEDY):
            document = torch.load(path, map_location="cpu", weights_only=True)
        return cls._described(path, document)

    @classmethod
    def _published(cls, folder: Path) -> "NeuralAgent":
        """The agent in a folder of `save_pretrained`."""
        with named(folder / CONFIG, "cannot be read as a published agent's description", REMEDY):
            document = parsed(read_text(folder / CONFIG, "record"))["agent"]
        path = folder / WEIGHTS
        try:
            weights = safetensors.torch.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise ValueError(f"{path}: cannot be read as safetensors ({error}); {REMEDY}") from None
        with named(folder / CONFIG, "damaged or of another version", REMEDY):
            for name, module in document.get("modules", {}).items():
                own = {key.removeprefix(f"{name}."): x for key, x in weights.items() if key.startswith(f"{name}.")}
                if SHARED in module:
                    own = _shared(folder / CONFIG, module.pop(SHARED), module.pop(FINGERPRINT))
                module["state"] = {key: x.float() if x.is_floating_point() else x for key, x in own.items()}
        return cls._described(folder / CONFIG, document)

    @classmethod
    def _described(cls, path: Path, document: object) -> "NeuralAgent":
        """The agent that `path` describes in the form of `save`."""
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

    def _save_pretrained(self, save_directory: Path) -> None:
        """Writes `CONFIG` and `WEIGHTS` in float16; the mixin's `save_pretrained` calls it, and adds a card."""
        document = self._document()
        states = {name: module.pop("state") for name, module in document["modules"].items()}
        weights = {f"{name}.{key}": x.contiguous() for name, state in states.items() for key, x in state.items()}
        with atomic_write(save_directory / WEIGHTS) as aside:
            safetensors.torch.save_file(
                {k: x.half() if x.is_floating_point() else x for k, x in weights.items()}, aside
            )
        with atomic_write(save_directory / CONFIG) as aside:
            aside.write_text(json.dumps({"agent": document}, indent=1) + "\n")  # the mixin would read keys of its own

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **kwargs: object) -> "NeuralAgent":
        """The mixin's `from_pretrained`, for a folder or a repository of the hub."""
        if Path(model_id).is_dir():
            return cls._published(Path(model_id))
        asked = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        files = snapshot_download(
            model_id, allow_patterns=[CONFIG, WEIGHTS], **{name: kwargs[name] for name in asked if name in kwargs}
        )
        return cls._published(Path(files))
