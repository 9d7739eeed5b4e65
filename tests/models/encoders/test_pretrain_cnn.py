"""Pretraining of the encoder: where frames are taken, what the heads are told, what is measured and exported."""

import functools

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from eqa.data.batches.frames import Frames, RenderedFrames, find_places
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import PLAN
from eqa.envs.house.catalog import CLASSES
from eqa.envs.house.simulator import HouseWorld, ready
from eqa.envs.rendering.camera import Camera
from eqa.models.encoders.cnn import Grid, load_encoder
from eqa.models.encoders.model_card import EncoderExport, write_card
from eqa.models.encoders.pretrain_cnn import EncoderPretraining, Quality, Targets, losses, make_targets
from tests.helpers.small_house import small_house

pytestmark = pytest.mark.usefixtures("single_thread")

CAMERA = Camera(140, 140)


def some_frames(**changes) -> Frames:
    options = {"num_batches": 3, "batch_size": 4, "seed": [0, 0], "camera": CAMERA, "batches_at_once": 2, **changes}
    return Frames(HouseWorld(small_house), [f"small-{i}" for i in range(3)], **options)


class Source:
    """Scenes by split, as `GeneratedEQA` has them."""

    def __init__(self):
        self.world, self.origin, self.places = HouseWorld(small_house), "by hand", "houses"
        self.scene_ids = {split: [f"{split}-{i}" for i in range(2)] for split in ("train", "val", "test")}


def test_poses_stand_on_free_floor_and_head_a_whole_number_of_turns():
    world = HouseWorld(small_house)
    _, annotations, coarse = world.drawable("small-0")
    places, floor = find_places(annotations, coarse), ready(small_house()).floor
    rng = np.random.default_rng(0)
    for poses in (places.random_poses(rng, 200), places.object_poses(rng, 200)):
        assert floor.is_free(poses[:, PLAN]).mean() > 0.97  # places come from a coarser floor
        turns = poses[:, 3] / HOUSE_ACTIONS.turn_rad
        np.testing.assert_allclose(turns, np.rint(turns), atol=1e-9)


def test_all_rooms_are_visited_alike_and_objects_looked_at_from_their_room():
    house, (_, *known) = small_house(), HouseWorld(small_house).drawable("small-0")
    places, rng = find_places(*known), np.random.default_rng(1)
    assert np.mean(places.random_poses(rng, 1000)[:, 0] < 4) == pytest.approx(0.5, abs=0.05)
    poses = places.object_poses(rng, 1000)
    forward = np.column_stack([-np.sin(poses[:, 3]), -np.cos(poses[:, 3])])
    positions = np.array([(o.position[0], o.position[2]) for o in house.objects])
    rooms = np.array([o.room for o in house.objects])
    away = positions[None] - poses[:, None, PLAN]
    distance = np.linalg.norm(away, axis=2)
    cosine = (away * forward[:, None]).sum(2) / distance
    same_room = (poses[:, :1] >= 4) == (rooms[None] == 1)
    looked_at = (cosine > np.cos(4 * HOUSE_ACTIONS.turn_rad)) & same_room & (distance > 0.4) & (distance < 3.2)
    assert looked_at.any(1).mean() > 0.95
    assert len(set(looked_at[looked_at.sum(1) == 1].argmax(1))) == len(house.objects)


def test_frames_are_a_function_of_the_seed_and_fit_the_class_list():
    first, again, other = list(some_frames()), list(some_frames()), list(some_frames(seed=[0, 1]))
    assert len(first) == len(some_frames()) == 3
    for name, shape in (("rgb", (4, 140, 140, 3)), ("depth", (4, 140, 140)), ("class_id", (4, 140, 140))):
        assert all(torch.equal(a[name], b[name]) for a, b in zip(first, again, strict=True))
        assert first[0][name].shape == shape
    assert not torch.equal(first[0]["rgb"], other[0]["rgb"])
    classes = {CLASSES[k] for batch in first for k in batch["class_id"].unique().tolist()}
    assert {"wall", "floor", "ceiling"} <= classes
    assert 0.5 < first[0]["depth"][first[0]["depth"] > 0].median() < 5


def test_every_house_comes_by_before_one_comes_again(monkeypatch):
    monkeypatch.setattr(HouseWorld, "loaded_at_once", 2)
    frames = some_frames()
    order = [i for group in range(6) for i in frames._group(group)]
    assert all(sorted(order[i : i + 3]) == [0, 1, 2] for i in range(0, 12, 3))
    assert len({tuple(order[i : i + 3]) for i in range(0, 12, 3)}) > 1


def test_training_frames_change_with_the_epoch_and_validation_frames_stay():
    data = RenderedFrames(Source(), batch_size=2, batches_per_epoch=1, val_batches=1, seed=3, camera=CAMERA)
    assert data.repaint is None  # a share of 0 draws no random numbers either
    data.trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    train, val = next(iter(data.train_dataloader())), next(iter(data.val_dataloader()))
    assert torch.equal(next(iter(data.train_dataloader()))["rgb"], train["rgb"])
    data.trainer.fit_loop.epoch_progress.current.completed = 1
    assert data.trainer.current_epoch == 1
    assert not torch.equal(next(iter(data.train_dataloader()))["rgb"], train["rgb"])
    assert torch.equal(next(iter(data.val_dataloader()))["rgb"], val["rgb"])
    assert data.sizes == {"num_classes": len(CLASSES), "height_px": 140, "width_px": 140}


def test_no_scenes_and_an_impossible_share_are_refused():
    with pytest.raises(ValueError, match="scene_ids: expected at least one"):
        Frames(HouseWorld(small_house), [], num_batches=1, batch_size=1, seed=[0])
    with pytest.raises(ValueError, match="near_objects"):
        some_frames(near_objects=1.5)


def random_batch(seed: int = 0, num: int = 2) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return {
        "rgb": torch.from_numpy(rng.integers(0, 256, (num, 224, 224, 3), np.uint8)),
        "depth": torch.from_numpy((rng.random((num, 224, 224), np.float32) * 14).clip(1)),
        "class_id": torch.from_numpy(rng.integers(0, 5, (num, 224, 224), np.uint8)),
    }


def test_targets_are_what_the_frame_shows_around_each_outputs_centre():
    batch = random_batch()
    batch["depth"][0, 8 + 4 * 3, 8 + 4 * 7] = 0
    targets = make_targets(batch, (53, 53))
    assert targets.class_id[1, 10, 20] == batch["class_id"][1, 48, 88]
    assert not targets.hit[0, 3, 7]
    assert targets.hit.sum() == targets.hit.numel() - 1
    assert targets.depth_m.max() == 10
    block = batch["rgb"][0, 6 + 4 * 52 : 10 + 4 * 52, 6:10].float().mean((0, 1)) / 255
    torch.testing.assert_close(targets.rgb[0, :, 52, 0], block)
    part = make_targets(batch, (53, 53), Grid(2, 1, 0))
    assert torch.equal(part.class_id, targets.class_id[:, 1::2, ::2])
    assert torch.equal(part.rgb, targets.rgb[:, :, 1::2, ::2])


def test_depth_loss_leaves_out_what_was_not_hit():
    batch = random_batch()
    targets = make_targets(batch, (53, 53))
    outputs = {
        "class_logits": torch.zeros(2, 5, 53, 53),
        "depth": targets.depth_m / 10,
        "rgb": targets.rgb,
    }
    parts = losses(outputs, targets)
    assert parts["rgb"] == 0
    assert parts["depth"] < 1e-10
    assert float(parts["segmentation"]) == pytest.approx(np.log(5))
    nowhere = Targets(targets.class_id, targets.depth_m, torch.zeros_like(targets.hit), targets.rgb)
    assert losses({**outputs, "depth": torch.zeros(2, 53, 53)}, nowhere)["depth"] == 0


def test_quality_over_batches_equals_plain_means_over_all_pixels():
    generator = torch.Generator().manual_seed(0)
    quality, seen = Quality(4), []
    for _ in range(3):
        targets = Targets(
            torch.randint(0, 3, (2, 5, 5), generator=generator),
            torch.rand(2, 5, 5, generator=generator) * 10,
            torch.rand(2, 5, 5, generator=generator) > 0.3,
            torch.rand(2, 3, 5, 5, generator=generator),
        )
        outputs = {
            "class_logits": torch.randn(2, 4, 5, 5, generator=generator),
            "depth": torch.rand(2, 5, 5, generator=generator),
            "rgb": torch.rand(2, 3, 5, 5, generator=generator),
        }
        quality.update(outputs, targets)
        seen.append((targets, outputs))
    true = torch.cat([t.class_id.flatten() for t, _ in seen])
    said = torch.cat([o["class_logits"].argmax(1).flatten() for _, o in seen])
    iou = [((true == k) & (said == k)).sum() / ((true == k) | (said == k)).sum() for k in range(3)]
    depth = torch.cat([(o["depth"] * 10 - t.depth_m).abs()[t.hit] for t, o in seen])
    color = torch.cat([(o["rgb"] - t.rgb).abs().flatten() for t, o in seen])
    summary = quality.summary()
    assert summary["pixel_accuracy"] == pytest.approx(float((true == said).float().mean()))
    assert summary["mean_iou"] == pytest.approx(float(torch.stack(iou).mean()))
    assert summary["depth_error_m"] == pytest.approx(float(depth.mean()), rel=1e-5)
    assert summary["rgb_error"] == pytest.approx(float(color.mean()), rel=1e-5)
    assert quality.class_iou[3].isnan()


def toy_batches(num: int, seed: int) -> DataLoader:
    """Frames of flat patches whose colour says class and depth."""
    rng = np.random.default_rng(seed)
    colors = np.array([(200, 30, 30), (30, 200, 30), (30, 30, 200)], np.uint8)
    batches = []
    for _ in range(num):
        class_id = rng.integers(0, 3, (8, 4, 4), np.uint8).repeat(35, 1).repeat(35, 2)
        batches.append(
            {
                "rgb": torch.from_numpy(colors[class_id]),
                "depth": torch.from_numpy(2 + 3 * class_id.astype(np.float32)),
                "class_id": torch.from_numpy(class_id),
            }
        )
    return DataLoader(batches, batch_size=None)


@functools.cache
def pretrained(folder) -> tuple[EncoderPretraining, dict[str, float]]:
    pl.seed_everything(0, verbose=False)
    module = EncoderPretraining(len(CLASSES), 140, 140, lr=1e-2, trunk_channels=16, dropout=0.0)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(default_root_dir=folder, enable_checkpointing=False, max_epochs=3, **quiet)
    trainer.fit(module, toy_batches(15, seed=1), toy_batches(2, seed=2))
    return module.eval(), {name: float(value) for name, value in trainer.callback_metrics.items()}


def test_the_three_heads_learn_a_toy(tmp_path_factory):
    _, metrics = pretrained(tmp_path_factory.getbasetemp())
    assert metrics["val/pixel_accuracy"] > 0.9
    assert metrics["val/mean_iou"] > 0.8
    assert metrics["val/depth_error_m"] < 0.8
    assert metrics["val/rgb_error"] < 0.08


def test_export_writes_weights_that_load_a_card_of_measured_values_and_a_picture(tmp_path, monkeypatch):
    module, _ = pretrained(tmp_path.parent)
    monkeypatch.setattr("eqa.models.encoders.model_card.MEASURED_BATCHES", 2)
    monkeypatch.setattr("eqa.models.encoders.model_card.BATCH_SIZE", 3)
    source = Source()
    configuration = {"seed": 7, "stages": {"encoder": {"data": {"near_objects": 0.5, "batch_size": 8}}}}
    summary = EncoderExport(source=source, folder=tmp_path, configuration=configuration)({"encoder": module})
    rgb = torch.zeros(1, 140, 140, 3, dtype=torch.uint8)
    assert torch.equal(load_encoder(tmp_path / "encoder.safetensors")(rgb), module.model.encoder(rgb))
    card = (tmp_path / "README.md").read_text()
    assert f"{summary['pixel_accuracy']:.1%}" in card
    assert "| frames seen | 360 in batches of 8 |" in card
    assert "6 frames of 2 test houses" in card
    assert (tmp_path / "predictions.png").read_bytes().startswith(b"\x89PNG")


def test_a_card_names_the_classes_that_were_there():
    quality = Quality(len(CLASSES))
    quality.confusion[1, 1], quality.confusion[2, 1] = 3, 1
    facts = dict.fromkeys(("command", "commit", "seed", "generator", "near_objects"), "x")
    facts |= dict.fromkeys(("num_houses", "batch_size", "num_test_houses"), 1)
    module = EncoderPretraining(len(CLASSES), 140, 140, trunk_channels=8).eval()
    card = write_card(module, quality, torch.zeros(1, 140, 140, 3, dtype=torch.uint8), CLASSES, facts)
    assert f"{CLASSES[1]} 75%, {CLASSES[2]} 0%." in card
    assert "of 2 classes" in card
