"""A network of torchvision's in the encoder's place; most of it is tried only where torchvision is installed and fits."""

import hashlib
import sys
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch

from eqa.data.demonstrations.record import Recorder
from eqa.data.demonstrations.storage import Demonstrations, build
from eqa.data.questions.spawns import add_spawns
from eqa.data.vocabulary import Vocabulary
from eqa.envs.house.simulator import HouseWorld
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.agents.neural import NeuralAgent
from eqa.models.agents.oracles import ShortestPathAgent
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.encoders import imagenet
from eqa.models.encoders.cnn import Encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.encoders.imagenet import Backbone, install_command, load_pretrained
from eqa.models.evaluation.evaluate import Evaluation
from eqa.models.navigators.pacman import Pacman
from eqa.models.registry import describe, rebuild
from tests.helpers.small_house import small_house
from tests.models.evaluation.test_evaluate import Source, episode

ONE_OF_EACH = ("resnet18", "regnet_y_400mf", "efficientnet_b0", "convnext_tiny")
RESNET18_FILE = "resnet18-f37072fd.pth"


@pytest.fixture
def torchvision() -> object:
    try:
        return imagenet.torchvision_models()
    except ImportError as error:  # importorskip would stop at a torchvision that was built for another PyTorch
        pytest.skip(str(error))


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where fetched weights are kept, empty, and no way to fetch any."""

    def refused(url: str, *_args, **_kwargs) -> None:
        raise URLError(f"no network for {url}")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", refused)
    return tmp_path / "hub" / "checkpoints"


def frames(num: int, height: int = 224, width: int = 224) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (num, height, width, 3), np.uint8))


def lived_in(network: Backbone) -> Backbone:
    """Batch norm with statistics that are not 0 and 1, and scales that keep the layers' outputs in range."""
    generator = torch.Generator().manual_seed(1)
    for norm in network.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.2, 0.2, generator=generator)
            norm.running_var.uniform_(0.5, 1.5, generator=generator)
            norm.bias.data.uniform_(-0.3, 0.3, generator=generator)
    return network.eval()


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_without_torchvision_the_error_names_the_command_that_fits_the_installed_pytorch(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    for attempt in (lambda: FeatureExtractor.pretrained("resnet18", weights="DEFAULT"), Backbone):
        with pytest.raises(ImportError) as refused:
            attempt()
        assert install_command(torch.__version__) in str(refused.value)


def test_a_checkpoint_that_needs_torchvision_names_the_command_too(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    arguments = {"name": "resnet18", "height_px": 224, "width_px": 224, "grid": 3}
    with pytest.raises(ImportError, match="pip install"):
        rebuild({"class": "Backbone", "arguments": arguments, "state": {}})


def test_a_torchvision_built_for_another_pytorch_is_named_as_what_is_wrong(tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text('raise RuntimeError("operator nms does not exist")')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"that fits PyTorch.*operator nms does not exist.*pip install"):
        Backbone()


def test_the_command_keeps_the_installed_pytorch_and_its_build() -> None:
    cpu = "pip install --upgrade torchvision torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
    assert install_command("2.13.0+cpu") == cpu
    assert install_command("2.13.0+cu130") == cpu[: -len("cpu")] + "cu130"
    assert install_command("2.13.0") == "pip install --upgrade torchvision torch==2.13.0"


@pytest.mark.usefixtures("torchvision", "offline")
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_features_are_the_last_map_averaged_to_a_grid(name: str) -> None:
    network = lived_in(Backbone(name, 96, 128, grid=2))
    rgb = frames(2, 96, 128)
    with torch.no_grad():
        features = network(rgb)
        pixels = rgb.permute(0, 3, 1, 2) / 255
        imagenet = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 3, 1, 1)
        last = network.layers((pixels - imagenet[0]) / imagenet[1])
    assert last.shape[2:] == (3, 4)
    corners = [last[:, :, y : y + 2, x : x + 2].mean((2, 3)) for y in (0, 1) for x in (0, 2)]
    assert relative_error(features, torch.stack(corners, 2).flatten(1)) < 1e-4
    assert features.shape == (2, network.feature_size)


@pytest.mark.usefixtures("torchvision", "offline")
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_frozen_backbone_gives_the_features_of_the_plain_one(name: str) -> None:
    network, rgb = lived_in(Backbone(name, 96, 96)), frames(3, 96, 96)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    with torch.no_grad():
        expected = network(rgb)
    exact, rough = (network.for_inference(precision)(rgb) for precision in ("float32", "bfloat16"))
    assert exact.dtype == rough.dtype == torch.float32
    assert relative_error(exact, expected) < 1e-4
    assert relative_error(rough, expected) < 0.05
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


@pytest.mark.usefixtures("torchvision", "offline")
def test_random_weights_are_the_same_each_time_and_leave_the_runs_own_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = FeatureExtractor.pretrained("resnet18", weights=None, precision="float32")
    assert torch.rand(1) == expected
    second = FeatureExtractor.pretrained("resnet18", weights=None, precision="float32")
    rgb = frames(2).numpy()
    assert first.identity == second.identity
    assert np.array_equal(first(rgb), second(rgb))
    assert first(rgb).shape == (2, 4608) and np.isfinite(first(rgb)).all()


@pytest.mark.usefixtures("torchvision", "offline")
def test_the_same_weights_pooled_otherwise_are_another_encoder_to_the_caches() -> None:
    network = Backbone("resnet18", grid=2)
    other = Backbone("resnet18", grid=3)
    other.load_state_dict(network.state_dict())
    assert FeatureExtractor(network).identity != FeatureExtractor(other).identity


def test_eyes_of_the_projects_encoder_keep_the_identity_that_stored_demonstrations_have() -> None:
    encoder = Encoder(112, 112)
    digest = hashlib.sha256(b"torch.float32")
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    assert FeatureExtractor(encoder, precision="float32").identity == digest.hexdigest()[:12]


def test_pretrained_weights_are_read_from_where_torchvision_keeps_them(torchvision, offline: Path) -> None:
    trained = torchvision.resnet18(weights=None)
    offline.mkdir(parents=True)
    torch.save(trained.state_dict(), offline / RESNET18_FILE)
    network = load_pretrained("resnet18")
    assert torch.equal(network.layers.layer4[1].conv2.weight, trained.layer4[1].conv2.weight)
    assert not network.training


@pytest.mark.usefixtures("torchvision")
def test_weights_that_cannot_be_fetched_are_told_with_their_file_and_its_place(offline: Path) -> None:
    with pytest.raises(OSError, match=rf"(?s){RESNET18_FILE}.*{offline}.*weights=null"):
        load_pretrained("resnet18")


@pytest.mark.usefixtures("torchvision", "offline")
def test_what_does_not_exist_or_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"backbone: expected one of \['convnext_base.*got 'resnet19'"):
        load_pretrained("resnet19")
    with pytest.raises(ValueError, match="got 'vit_b_16'"):
        Backbone("vit_b_16")
    with pytest.raises(ValueError, match=r"weights of resnet18: expected one of \['DEFAULT', .*got 'COCO'"):
        load_pretrained("resnet18", weights="COCO")
    with pytest.raises(ValueError, match="grid: expected 1 to 7, .* 7x7, got 8"):
        Backbone("resnet18", grid=8)
    with pytest.raises(ValueError, match=r"expected uint8 \(B, 224, 224, 3\)"):
        Backbone("resnet18").eval()(frames(1, 96, 96))


@pytest.mark.usefixtures("torchvision", "offline")
def test_an_agent_is_demonstrated_saved_and_played_with_it_and_nothing_is_fetched(tmp_path: Path) -> None:
    house, episodes = small_house(), [episode(0), episode(1)]
    extractor = FeatureExtractor.pretrained("resnet18", weights=None)
    list(
        build(
            tmp_path / "test.h5",
            add_spawns(house, episodes),
            Recorder(HouseWorld(lambda _: house), extractor),
            configuration={},
        )
    )
    demos, vocabulary = Demonstrations.open(tmp_path / "test.h5"), Vocabulary.of(episodes)
    assert demos.features.shape == (len(demos.actions), extractor.encoder.feature_size)
    sizes = len(vocabulary.words), len(vocabulary.answers), extractor.encoder.feature_size
    agent = NeuralAgent(extractor.encoder, Pacman(sizes[0], sizes[2], planner_hidden=8), Answerer(*sizes), vocabulary)
    agent.save(tmp_path / "agent.ckpt")
    played = NeuralAgent.load(tmp_path / "agent.ckpt")
    seeing = FeatureExtractor(played.encoder)
    rgb = frames(2).numpy()
    assert seeing.identity == extractor.identity and np.array_equal(seeing(rgb), extractor(rgb))
    evaluation = Evaluation(played, Source(demos, house), "test", extractor=seeing)
    rows = evaluation.play(
        {"oracle": ShortestPathAgent(), "agent": NavigatorAgent(played.navigator, seeing)}, ("T-10",)
    )
    assert [row["agent"] for row in rows] == ["oracle"] * 2 + ["agent"] * 2
    assert all(row["predicted"] in vocabulary.answers for row in rows)


@pytest.mark.usefixtures("torchvision", "offline")
def test_a_checkpoint_cannot_be_read_as_another_networks() -> None:
    description = describe(Backbone("resnet18", 64, 64, grid=1))
    description["arguments"]["name"] = "resnet34"
    with pytest.raises(ValueError, match="Backbone: arguments or weights do not fit"):
        rebuild(description)


def test_the_projects_encoder_needs_no_torchvision(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert rebuild(describe(Encoder(112, 112))).feature_size == Encoder(112, 112).feature_size
