"""The larger encoder: what it gives, frozen and from files, how it learns names, and what it ships as."""

from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from eqa.data.batches.pixel_labels import COLORS, UNNAMED
from eqa.envs.house.catalog import CLASSES
from eqa.envs.house.simulator import HouseWorld
from eqa.models.encoders import resnet_card
from eqa.models.encoders.cnn import load_encoder, save_encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.encoders.pretrain_resnet import (
    Naming,
    ResidualPretraining,
    by_place,
    naming_loss,
    targets_of,
)
from eqa.models.encoders.resnet import ResidualEncoder
from eqa.models.encoders.resnet_card import ResidualExport
from tests.helpers.small_house import small_house

pytestmark = pytest.mark.usefixtures("single_thread")
SMALL = {"channels": (16, 16, 16), "blocks": (1, 1, 1), "outputs": 8}


def lived_in(encoder: ResidualEncoder) -> ResidualEncoder:
    """Batch norm with statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(1)
    for norm in encoder.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.2, 0.2, generator=generator)
            norm.running_var.uniform_(0.5, 1.5, generator=generator)
            norm.bias.data.uniform_(-0.3, 0.3, generator=generator)
    return encoder.eval()


def frames(num: int, height: int = 64, width: int = 96) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (num, height, width, 3), np.uint8))


def test_features_are_the_flat_form_of_a_map_with_a_place_every_sixteen_pixels() -> None:
    encoder = lived_in(ResidualEncoder(64, 96, **SMALL))
    assert encoder.map_shape == (8, 4, 6) and encoder.feature_size == 8 * 4 * 6
    assert torch.equal(encoder(frames(2)), encoder.map(frames(2)).reshape(2, -1))
    assert ResidualEncoder().feature_size == 12544
    with pytest.raises(ValueError, match="multiples of 16 pixels, got 100x96"):
        ResidualEncoder(100, 96)
    with pytest.raises(ValueError, match="channels and blocks"):
        ResidualEncoder(64, 96, blocks=(1, 0, 2))
    with pytest.raises(ValueError, match=r"expected uint8 \(B, 64, 96, 3\)"):
        encoder(frames(1, 96, 96))
    with pytest.raises(ValueError, match=r"channels: expected at least 16 in each map, got \[16, 8, 16\]"):
        ResidualEncoder(64, 64, channels=(16, 8, 16))


def test_the_frozen_encoder_gives_the_features_of_the_plain_one() -> None:
    encoder, rgb = lived_in(ResidualEncoder(64, 96, **SMALL)), frames(3)
    with torch.no_grad():
        expected = encoder(rgb)
    exact, rough = (encoder.for_inference(precision)(rgb) for precision in ("float32", "bfloat16"))
    torch.testing.assert_close(exact, expected, rtol=1e-4, atol=1e-4)
    assert float((rough - expected).norm() / expected.norm()) < 0.05
    extractor = FeatureExtractor(encoder)
    assert extractor.map_shape == (8, 4, 6) and extractor(rgb.numpy()).shape == (3, 192)


def test_it_survives_saving_also_in_half_precision_and_is_told_from_the_small_encoder(tmp_path: Path) -> None:
    encoder, rgb = lived_in(ResidualEncoder(64, 96, **SMALL)), frames(2)
    save_encoder(encoder, tmp_path / "whole.safetensors")
    save_encoder(encoder, tmp_path / "half.safetensors", half=True)
    whole, half = (load_encoder(tmp_path / f"{name}.safetensors") for name in ("whole", "half"))
    assert isinstance(whole, ResidualEncoder) and torch.equal(whole(rgb), encoder(rgb))
    assert half(rgb).dtype == torch.float32
    with torch.no_grad():
        assert 0 < float((half(rgb) - encoder(rgb)).norm() / encoder(rgb).norm()) < 0.01
    assert (tmp_path / "half.safetensors").stat().st_size < 0.7 * (tmp_path / "whole.safetensors").stat().st_size


def test_a_place_is_told_the_names_of_its_own_pixels() -> None:
    image = torch.arange(4 * 6).view(1, 4, 6)
    places = by_place(image, (2, 3))
    assert places.shape == (1, 2, 3, 4) and places[0, 1, 2].tolist() == [16, 17, 22, 23]
    batch = {
        "rgb": torch.zeros(1, 32, 32, 3, dtype=torch.uint8),
        "class_id": torch.arange(32 * 32).remainder(100).view(1, 32, 32).to(torch.uint8),
        "depth": torch.ones(1, 32, 32),
        "color_id": torch.zeros(1, 8, 8, dtype=torch.uint8),
        "room_id": torch.ones(1, 8, 8, dtype=torch.uint8),
    }
    targets = targets_of(batch, (2, 2))
    assert {name: tuple(target.shape) for name, target in targets.items()} == dict.fromkeys(targets, (1, 2, 2, 16))
    assert targets["class"][0, 1, 1, 5] == batch["class_id"][0, 16 + 6, 16 + 6]


def test_the_loss_is_the_mean_cross_entropy_of_named_pixels_by_weight() -> None:
    logits = torch.randn(2, 5, 3, 3)
    names = torch.randint(0, 5, (2, 3, 3, 4))
    names[0, 0, 0] = UNNAMED
    weight = torch.rand(2, 3, 3, 4)
    known = names != UNNAMED
    each = torch.nn.functional.cross_entropy(
        logits.unsqueeze(4).expand(-1, -1, -1, -1, 4), names, reduction="none", ignore_index=UNNAMED
    )
    torch.testing.assert_close(naming_loss(logits, names, weight), (each * weight)[known].sum() / weight[known].sum())
    assert naming_loss(logits, torch.full_like(names, UNNAMED), weight) == 0


def test_quality_counts_colours_only_where_something_is_that_is_asked_about() -> None:
    sizes = {"class": len(CLASSES), "color": 3, "room": 2}
    targets = {
        "class": torch.tensor([HouseWorld.first_asked, HouseWorld.first_asked + 1, 1, 2]).view(1, 1, 1, 4),
        "color": torch.tensor([0, 1, 1, 1]).view(1, 1, 1, 4),
        "room": torch.tensor([1, 1, 0, UNNAMED]).view(1, 1, 1, 4),
        "depth": torch.tensor([1.0, 3.0, 0.0, 12.0]).view(1, 1, 1, 4),
    }
    outputs = {kind: torch.zeros(1, size, 1, 1) for kind, size in sizes.items()} | {
        "depth": torch.full((1, 1, 1, 1), 2.0)
    }
    outputs["color"][0, 0], outputs["room"][0, 1], outputs["class"][0, 1] = 1, 1, 1
    naming = Naming(sizes, HouseWorld.first_asked)
    naming.update(outputs, targets)
    found = naming.summary()
    assert found["color_accuracy"] == pytest.approx(1 / 2)
    assert found["room_accuracy"] == pytest.approx(2 / 3)
    assert found["class_accuracy"] == pytest.approx(1 / 4)
    assert found["mean_iou"] == pytest.approx(1 / 4 / 4)
    assert found["depth_error_m"] == pytest.approx((1 + 1 + 8) / 3)


def patches(num: int, seed: int) -> DataLoader:
    """Frames of flat patches, a place wide, whose colour says everything."""
    rng = np.random.default_rng(seed)
    colors = np.array([(200, 30, 30), (30, 200, 30), (30, 30, 200)], np.uint8)
    batches = []
    for _ in range(num):
        kind = rng.integers(0, 3, (8, 4, 4), np.uint8)
        pixels, samples = (torch.from_numpy(kind.repeat(k, 1).repeat(k, 2)) for k in (16, 4))
        named = {"class_id": pixels + HouseWorld.first_asked, "depth": 0.2 + pixels.float()}
        rgb = torch.from_numpy(colors[pixels.numpy()])
        batches.append({"rgb": rgb, **named, "color_id": samples, "room_id": samples + 2})
    return DataLoader(batches, batch_size=None)


class Source:
    """Scenes by split, as `GeneratedEQA` has them."""

    def __init__(self) -> None:
        self.world, self.origin, self.places = HouseWorld(small_house), "by hand", "houses"
        self.scene_ids = {split: [f"{split}-{i}" for i in range(2)] for split in ("train", "test", "human")}


def test_names_and_depth_are_learned_and_shipped_with_a_card_of_what_was_measured(tmp_path: Path, monkeypatch) -> None:
    pl.seed_everything(0, verbose=False)
    module = ResidualPretraining(
        len(CLASSES),
        len(COLORS),
        len(HouseWorld.region_names),
        HouseWorld.first_thing,
        HouseWorld.first_asked,
        64,
        64,
        lr=1e-2,
        depth_weight=3.0,
        options=SMALL,
    )
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(default_root_dir=tmp_path, enable_checkpointing=False, max_epochs=6, **quiet)
    trainer.fit(module, patches(12, seed=1), patches(2, seed=2))
    found = trainer.callback_metrics
    assert min(found[f"val/{name}"] for name in ("class_accuracy", "color_accuracy", "room_accuracy")) > 0.9
    assert found["val/depth_error_m"] < 0.4
    monkeypatch.setattr(resnet_card, "MEASURED_BATCHES", 2)
    monkeypatch.setattr(resnet_card, "BATCH_SIZE", 3)
    data = {"near_objects": 0.5, "batch_size": 8, "surroundings_every": 4}
    configuration = {"seed": 7, "stages": {"encoder": {"data": data}}}
    summary = ResidualExport(source=Source(), folder=tmp_path, configuration=configuration)({"encoder": module})
    again, rgb = load_encoder(tmp_path / "residual.safetensors"), frames(2, 64, 64)
    with torch.no_grad():
        assert float((again(rgb) - module.encoder(rgb)).norm() / again(rgb).norm()) < 0.01
    card = (tmp_path / "residual.md").read_text()
    shares = " | ".join(f"{summary[f'{split}/color_accuracy']:.1%}" for split in ("test", "human"))
    assert f"of things that are asked about | {shares} |" in card
    assert "| frames seen | 576 in batches of 8 |" in card
    assert "6 frames of each split" in card and "| test, 2 scenes | human, 2 scenes |" in card


def test_pretraining_goes_on_from_weights(tmp_path: Path) -> None:
    sizes = {"num_classes": 5, "num_colors": 3, "num_rooms": 2, "first_thing": 1, "first_asked": 3}
    sizes |= {"height_px": 32, "width_px": 32}
    options = {"channels": [16, 16, 16], "blocks": [0, 1, 1], "outputs": 6}
    first = ResidualPretraining(**sizes, options=options)
    save_encoder(first.encoder, tmp_path / "first.safetensors")
    again = ResidualPretraining(**sizes, options=options, start=str(tmp_path / "first.safetensors"))
    for name, value in first.encoder.state_dict().items():
        assert torch.equal(value, again.encoder.state_dict()[name])
    with pytest.raises(ValueError, match="cnn_pretrain"):
        ResidualPretraining(**sizes, options=options, start=str(tmp_path / "none.safetensors"))
