"""An encoder is pretrained in a world that is no house: a field with two sides and a box on one of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from eqa.data.batches.frames import DrawnWorld, FrameSource, RenderedFrames
from eqa.data.batches.pixel_labels import COLORS, UNNAMED
from eqa.envs.annotations import PALETTE, Annotations
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.scene import Instances, Materials, Meshes, Scene, Textures
from eqa.models.encoders.pretrain_resnet import ResidualPretraining
from tests.helpers.box_world import FIELD_M, HALF_M, HIGH_M, SCENES, SIDES, BoxWorld, center

pytestmark = pytest.mark.usefixtures("single_thread")

CORNERS = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (0, 1) for z in (-0.5, 0.5)], np.float32)
SIDES_OF_CUBE = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
FACES = np.array([face for a, b, c, d in SIDES_OF_CUBE for face in ((a, b, c), (a, c, d))], np.int32)


def meshes(num: int) -> Meshes:
    """The unit cube on the ground, or nothing."""
    up = np.tile(np.array([0, 1, 0], np.float32), (8, 1))
    return Meshes(
        vertices=CORNERS[: 8 * num],
        normals=up[: 8 * num],
        uv=np.zeros((8 * num, 2), np.float32),
        faces=FACES[: 12 * num],
        face_slot=np.zeros(12 * num, np.int32),
        vertex_range=np.array([[0, 8]], np.int32)[:num],
        face_range=np.array([[0, 12]], np.int32)[:num],
    )


WHITE = Textures(np.full(1, 2**32 - 1, np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int32))
ASSETS = SimpleNamespace(meshes=meshes(1), textures=WHITE)


class DrawnBoxes(BoxWorld):
    """Implements `DrawnWorld`: the ground and the box are cubes, flat and high."""

    class_names, first_thing, first_asked, region_names = ("sky", "ground", "box"), 2, 2, tuple(SIDES)
    seen_from_m, repainted, loaded_at_once = None, (), 8

    def drawable(self, scene_id: str) -> tuple[Scene, Annotations, Floor]:
        x, z = center(scene_id)
        sizes = np.array([(FIELD_M, 0.01, FIELD_M), (2 * HALF_M, HIGH_M, 2 * HALF_M)])
        middles = np.array([(FIELD_M / 2, 0, FIELD_M / 2), (x, HIGH_M / 2, z)])
        color = PALETTE[scene_id.split("-")[0]]
        scene = Scene(
            scene_id,
            meshes(0),
            Materials(np.array([(110, 130, 90), color], np.uint8), np.full(2, -1, np.int32), np.zeros(2, np.uint8)),
            Instances(
                mesh=np.zeros(2, np.int32),
                rotation_scale=(np.eye(3) * sizes[:, None]).astype(np.float32),
                translation=np.array([(FIELD_M / 2, 0, FIELD_M / 2), (x, 0, z)], np.float32),
                material=np.arange(2, dtype=np.int32),
                class_id=np.array([1, 2], np.int32),
                instance_id=np.array([0, 1], np.int32),
                room=np.full(2, -1, np.int32),
                sphere=np.column_stack([middles, np.linalg.norm(sizes, axis=1) / 2]).astype(np.float32),
            ),
            assets=ASSETS,
        )
        cells = np.stack(np.meshgrid(np.arange(80), np.arange(80)), 2) / 10 + 0.05
        free = (abs(cells - (x, z)) > 0.5).any(2) & (abs(cells - FIELD_M / 2) < FIELD_M / 2 - 0.2).all(2)
        return scene, self.annotations(scene_id), Floor(scene_id, (0.0, 0.0), 0.1, free)


def frames() -> RenderedFrames:
    scene_ids = dict.fromkeys(("train", "val"), SCENES)
    source = SimpleNamespace(world=DrawnBoxes(), scene_ids=scene_ids, origin="a test", places="boxes")
    assert isinstance(source, FrameSource) and isinstance(source.world, DrawnWorld)
    data = RenderedFrames(
        source,
        batch_size=8,
        batches_per_epoch=2,
        val_batches=1,
        seed=0,
        near_objects=1.0,
        camera=Camera(64, 64),
        surroundings_every=4,
    )
    data.trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    return data


def test_frames_of_another_world_have_its_classes_colours_and_regions() -> None:
    data = frames()
    assert data.sizes == {
        "num_classes": 3,
        "num_colors": len(COLORS),
        "num_rooms": 2,
        "first_thing": 2,
        "first_asked": 2,
        "height_px": 64,
        "width_px": 64,
    }
    (batch,) = data.val_dataloader()
    box = batch["class_id"][:, 2::4, 2::4] == 2
    assert box.flatten(1).any(1).float().mean() > 0.8  # all look at it
    assert set(batch["color_id"][box].tolist()) == {COLORS.index("red"), COLORS.index("blue")}
    assert set(batch["room_id"][box].tolist()) == {0, 1}
    assert (batch["color_id"][~box] == UNNAMED).all()
    assert set(batch["class_id"].unique().tolist()) == {0, 1, 2}


def test_an_encoder_learns_from_another_world() -> None:
    data = frames()
    options = {"channels": [16, 16, 16], "blocks": [0, 1, 1], "outputs": 6}
    module = ResidualPretraining(**data.sizes, options=options)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(enable_checkpointing=False, max_epochs=1, **quiet)
    trainer.fit(module, datamodule=data)
    found = trainer.callback_metrics
    assert torch.isfinite(found["train/loss"]) and 0 <= found["val/color_accuracy"] <= 1
