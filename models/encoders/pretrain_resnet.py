"""Pretraining of the larger encoder: predicting for each place of its map the class, colour, room and depth.

The classes are the names that questions use (`data.batches.pixel_labels`), in frames for which the renderer knows them.
A place of the map covers several sampled pixels and gets the names of all of them as targets. So its prediction is the
share of each name. Losses and their weights are ours.

Axes: B batch, h w places, S sampled pixels of a place, K names of a kind.
"""

from collections.abc import Mapping

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from eqa.data.batches.pixel_labels import UNNAMED
from eqa.envs.files import here_or_packaged
from eqa.models.distributed import add_up
from eqa.models.encoders.cnn import MAX_DEPTH_M, load_encoder
from eqa.models.encoders.pretrain_cnn import one_cycle
from eqa.models.encoders.resnet import NamingHeads, ResidualEncoder

KINDS = ("class", "color", "room")


def by_place(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Sampled pixels (B, H, W) of frames, grouped by place: (B, h, w, S); `size` is (h, w)."""
    batch, height, width = image.shape
    rows, columns = height // size[0], width // size[1]
    return image.view(batch, size[0], rows, size[1], columns).transpose(2, 3).flatten(3)


def targets_of(batch: Mapping[str, Tensor], size: tuple[int, int]) -> dict[str, Tensor]:
    """Targets from a batch of `data.batches.frames` with surroundings, each (B, h, w, S).

    Names of each kind are int64; depth is in metres.
    """
    every = batch["rgb"].shape[1] // batch["color_id"].shape[1]
    middle = slice(every // 2, None, every)
    images = {"class": batch["class_id"][:, middle, middle], "depth": batch["depth"][:, middle, middle]}
    images |= {"color": batch["color_id"], "room": batch["room_id"]}
    found = {name: by_place(image, size) for name, image in images.items()}
    return {name: image if name == "depth" else image.long() for name, image in found.items()}


def naming_loss(
    logits: Float[Tensor, "B K h w"], names: Int64[Tensor, "B h w S"], weight: Float[Tensor, "B h w S"]
) -> Tensor:
    """Weighted mean cross-entropy over the pixels that have a name."""
    weight = weight * (names != UNNAMED)
    log_odds = logits.log_softmax(1).permute(0, 2, 3, 1)
    said = log_odds.gather(3, names.clamp(max=logits.shape[1] - 1))
    return -(said * weight).sum() / weight.sum().clamp(min=1)


class Naming:
    """Counts over frames, which give exact shares of all sampled pixels.

    `sizes` are numbers of names by kind; classes from `first_asked` on are things that questions are about.
    """

    def __init__(self, sizes: Mapping[str, int], first_asked: int, device: torch.device | str = "cpu"):
        self.sizes, self.first_asked = dict(sizes), first_asked
        self.confusion = {
            kind: torch.zeros(size, size, dtype=torch.int64, device=device) for kind, size in sizes.items()
        }  # [true, said]
        self.depth = torch.zeros(2, dtype=torch.float64, device=device)  # error, pixels

    def update(self, outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:
        """Counts a batch; colours count only on objects that questions are about."""
        for kind, size in self.sizes.items():
            true, said = targets[kind], outputs[kind].argmax(1).unsqueeze(3).expand_as(targets[kind])
            counted = true != UNNAMED
            if kind == "color":
                counted &= targets["class"] >= self.first_asked
            pairs = (true * size + said)[counted]
            self.confusion[kind] += pairs.bincount(minlength=size**2).view(size, size)
        error, hit = depth_errors(outputs, targets)
        self.depth += torch.stack([(error * hit).sum(), hit.sum().float()]).double()

    @property
    def class_iou(self) -> Float[Tensor, " K"]:
        """Intersection over union of each class, nan for a class that did not occur."""
        confusion = self.confusion["class"]
        right, there = confusion.diagonal().double(), confusion.sum(1)
        return torch.where(there > 0, right / (there + confusion.sum(0) - right), torch.nan)

    def summary(self) -> dict[str, float]:
        """class_accuracy, color_accuracy, room_accuracy; mean_iou over the classes that occur; depth_error_m."""
        shares = {
            f"{kind}_accuracy": float(table.diagonal().sum() / table.sum().clamp(min=1))
            for kind, table in self.confusion.items()
        }
        error, pixels = self.depth.tolist()
        return {**shares, "mean_iou": float(self.class_iou.nanmean()), "depth_error_m": error / max(pixels, 1)}


def depth_errors(
    outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "B h w S"], Bool[Tensor, "B h w S"]]:
    """Absolute errors of depth up to MAX_DEPTH_M, in metres, and a mask of the pixels that have a depth."""
    said = outputs["depth"].permute(0, 2, 3, 1)
    return (said - targets["depth"].clamp(max=MAX_DEPTH_M)).abs(), targets["depth"] > 0


class ResidualPretraining(pl.LightningModule):
    """Learns encoder and heads from batches of `data.batches.frames.RenderedFrames` with `surroundings_every`.

    The optimiser is Adam under a one-cycle schedule over the whole training, with `lr` at its top. Classes of objects
    count `object_weight` times as much as those of surfaces: questions are about them, and they are small. Classes from
    `first_thing` on are objects, those from `first_asked` on objects that questions are about.

    It logs for train and val: loss and the four losses; for val also the `Naming.summary`. `start` are initial weights
    of the encoder in place of random ones; the heads are always learned anew.
    """

    def __init__(
        self,
        num_classes: int,
        num_colors: int,
        num_rooms: int,
        first_thing: int,
        first_asked: int,
        height_px: int = 224,
        width_px: int = 224,
        *,
        lr: float = 3e-3,
        object_weight: float = 3.0,
        color_weight: float = 0.5,
        room_weight: float = 0.5,
        depth_weight: float = 0.3,
        start: str | None = None,
        options: dict | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = ResidualEncoder(height_px, width_px, **(options or {}))
        if start is not None:
            self.encoder.load_state_dict(load_encoder(here_or_packaged(start)).state_dict())
        self.sizes = dict(zip(KINDS, (num_classes, num_colors, num_rooms), strict=True))
        self.heads = NamingHeads(self.encoder.map_shape[0], self.sizes)
        self.weights = {"class": 1.0, "color": color_weight, "room": room_weight, "depth": depth_weight}
        self.register_buffer("frames_seen", torch.zeros((), dtype=torch.int64))

    def forward(self, rgb: Tensor) -> dict[str, Tensor]:
        """Outputs of the heads for each place."""
        return self.heads(self.encoder.map(rgb))

    def losses(self, outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The four losses, as means over sampled pixels."""
        even = torch.ones_like(targets["depth"])
        weight = torch.where(targets["class"] >= self.hparams.first_thing, self.hparams.object_weight, even)
        parts = {kind: naming_loss(outputs[kind], targets[kind], even if kind != "class" else weight) for kind in KINDS}
        error, hit = depth_errors(outputs, targets)
        smooth = F.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")
        return {**parts, "depth": (smooth * hit).sum() / hit.sum().clamp(min=1)}

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        self.frames_seen += len(batch["rgb"]) * self.trainer.world_size
        return self._step(batch, "train")[0]

    def on_validation_epoch_start(self) -> None:
        self.naming = Naming(self.sizes, self.hparams.first_asked, self.device)

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        self.naming.update(*self._step(batch, "val")[1:])

    def on_validation_epoch_end(self) -> None:
        self.naming.confusion = {kind: add_up(table) for kind, table in self.naming.confusion.items()}
        self.naming.depth = add_up(self.naming.depth)
        self.log_dict({f"val/{name}": value for name, value in self.naming.summary().items()})

    def _step(self, batch: dict[str, Tensor], stage: str) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        outputs = self(batch["rgb"])
        targets = targets_of(batch, self.encoder.map_shape[1:])
        parts = self.losses(outputs, targets)
        total = sum(self.weights[name] * part for name, part in parts.items())
        shown = {f"{stage}/{name}_loss": part.detach() for name, part in parts.items()}
        shown[f"{stage}/loss"] = total.detach()
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=len(batch["rgb"]), sync_dist=True)
        return total, outputs, targets

    def configure_optimizers(self) -> dict:
        return one_cycle(self)
