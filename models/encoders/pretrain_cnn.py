"""Pretraining of the encoder: colour, depth and segmentation from one frame (Das et al. 2018, Sec. 4, "Vision").

`EncoderPretraining` learns. `models.encoders.model_card` then measures it in houses that were used for neither training
nor selection, and writes the weights with a card and a picture. The original's pretraining was never released, so
losses and their weights are ours:

- classes: cross-entropy;
- depth: smooth L1 in metres, clipped at MAX_DEPTH_M;
- colour: smooth L1 in 0..1.

Deviations: targets are taken at the resolution of the second pool (53x53), see `models.encoders.cnn`. There is no
dropout. No frame comes twice, so nothing can overfit, and all three losses fall faster without it.

Axes: B batch, H W frame, h w second pool, K classes.
"""

from dataclasses import dataclass

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from eqa.models.distributed import add_up
from eqa.models.encoders.cnn import MAX_DEPTH_M, WHOLE, Encoder, Grid, MultitaskCNN, to_output_grid


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of the heads, at their resolution."""

    class_id: Int64[Tensor, "B h w"]
    depth_m: Float[Tensor, "B h w"]  # clipped at MAX_DEPTH_M
    hit: Bool[Tensor, "B h w"]  # False where the frame shows the outside, which has no depth
    rgb: Float[Tensor, "B 3 h w"]  # 0..1, the mean of the 4x4 pixels around an output's centre


def make_targets(batch: dict[str, Tensor], size: tuple[int, int], grid: Grid = WHOLE) -> Targets:
    """Targets from a batch of `data.batches.frames`, for the part `grid` of heads of `size` (h, w)."""
    depth = to_output_grid(batch["depth"], size, grid)
    return Targets(
        class_id=to_output_grid(batch["class_id"], size, grid).long(),
        depth_m=depth.clamp(max=MAX_DEPTH_M),
        hit=depth > 0,
        rgb=_block_means(batch["rgb"], size)[:, :, grid.row :: grid.stride, grid.column :: grid.stride],
    )


def _block_means(rgb: UInt8[Tensor, "B H W 3"], size: tuple[int, int]) -> Float[Tensor, "B 3 h w"]:
    first, (rows, columns) = 6, size
    middle = rgb[:, first : first + 4 * rows, first : first + 4 * columns].permute(0, 3, 1, 2)
    return F.avg_pool2d(middle.float(), 4) / 255


def losses(outputs: dict[str, Tensor], targets: Targets) -> dict[str, Tensor]:
    """The three losses, as means over pixels."""
    error_m = F.smooth_l1_loss(outputs["depth"] * MAX_DEPTH_M, targets.depth_m, reduction="none")
    return {
        "segmentation": F.cross_entropy(outputs["class_logits"], targets.class_id),
        "depth": (error_m * targets.hit).sum() / targets.hit.sum().clamp(min=1),
        "rgb": F.smooth_l1_loss(outputs["rgb"], targets.rgb, beta=0.1),
    }


class Quality:
    """Sums over frames, which give exact means over all pixels."""

    def __init__(self, num_classes: int, device: torch.device | str = "cpu"):
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)  # [true, predicted]
        self.sums = torch.zeros(4, dtype=torch.float64, device=device)  # depth error, hits, colour error, colours

    def update(self, outputs: dict[str, Tensor], targets: Targets) -> None:
        pairs = targets.class_id * self.num_classes + outputs["class_logits"].argmax(1)
        self.confusion += pairs.flatten().bincount(minlength=self.num_classes**2).view_as(self.confusion)
        depth_error = ((outputs["depth"] * MAX_DEPTH_M - targets.depth_m).abs() * targets.hit).sum()
        color_error = (outputs["rgb"] - targets.rgb).abs().sum()
        colors = torch.full_like(color_error, targets.rgb.numel())
        self.sums += torch.stack([depth_error, targets.hit.sum().float(), color_error, colors]).double()

    @property
    def class_iou(self) -> Float[Tensor, " K"]:
        """Intersection over union of each class, nan for a class that did not occur."""
        right = self.confusion.diagonal().double()
        there = self.confusion.sum(1)
        return torch.where(there > 0, right / (there + self.confusion.sum(0) - right), torch.nan)

    def summary(self) -> dict[str, float]:
        """pixel_accuracy; mean_iou over the classes that occur; depth_error_m and rgb_error, mean absolute errors."""
        depth_error, hits, color_error, colors = self.sums.tolist()
        return {
            "pixel_accuracy": float(self.confusion.diagonal().sum() / self.confusion.sum().clamp(min=1)),
            "mean_iou": float(self.class_iou.nanmean()),
            "depth_error_m": depth_error / max(hits, 1),
            "rgb_error": color_error / max(colors, 1),
        }


class EncoderPretraining(pl.LightningModule):
    """Learns the multi-task CNN from batches of `data.batches.frames.RenderedFrames`.

    The optimiser is Adam under a one-cycle schedule over the whole training, with `lr` at its top. It logs for train
    and val: loss and the three losses; for val also the `Quality.summary`. A training step takes every
    `pixel_stride`-th row and column of the outputs, each time from another offset. Neighbouring pixels tell much the
    same, and the heads are a third of the work.
    """

    def __init__(
        self,
        num_classes: int,
        height_px: int = 224,
        width_px: int = 224,
        *,
        lr: float = 3e-3,
        segmentation_weight: float = 1.0,
        depth_weight: float = 1.0,
        rgb_weight: float = 5.0,
        pixel_stride: int = 2,
        trunk_channels: int = 512,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.save_hyperparameters()
        encoder = Encoder(height_px, width_px)
        self.model = MultitaskCNN(encoder, num_classes, trunk_channels=trunk_channels, dropout=dropout)
        self.weights = {"segmentation": segmentation_weight, "depth": depth_weight, "rgb": rgb_weight}
        self.register_buffer("frames_seen", torch.zeros((), dtype=torch.int64))

    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> dict[str, Tensor]:
        """Outputs of the heads, at full resolution of theirs."""
        return self.model(rgb)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        self.frames_seen += len(batch["rgb"]) * self.trainer.world_size
        stride = self.hparams.pixel_stride
        row, column = torch.randint(stride, (2,)).tolist()
        return self._step(batch, "train", Grid(stride, row, column))[0]

    def on_validation_epoch_start(self) -> None:
        self.quality = Quality(self.model.num_classes, self.device)

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        self.quality.update(*self._step(batch, "val")[1:])

    def on_validation_epoch_end(self) -> None:
        self.quality.confusion, self.quality.sums = add_up(self.quality.confusion), add_up(self.quality.sums)
        self.log_dict({f"val/{name}": value for name, value in self.quality.summary().items()})

    def _step(
        self, batch: dict[str, Tensor], stage: str, grid: Grid = WHOLE
    ) -> tuple[Tensor, dict[str, Tensor], Targets]:
        outputs = self.model(batch["rgb"], grid)
        targets = make_targets(batch, self.model.encoder.map_sizes[1], grid)
        parts = losses(outputs, targets)
        total = sum(self.weights[name] * part for name, part in parts.items())
        shown = {f"{stage}/{name}_loss": part.detach() for name, part in parts.items()} | {
            f"{stage}/loss": total.detach()
        }
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=len(batch["rgb"]), sync_dist=True)
        return total, outputs, targets

    def configure_optimizers(self) -> dict:
        return one_cycle(self)


def one_cycle(module: pl.LightningModule) -> dict:
    """Adam under a one-cycle schedule over the whole training, with the settings' `lr` at the top."""
    optimizer = torch.optim.Adam(module.parameters(), lr=module.hparams.lr)
    steps = max(int(module.trainer.estimated_stepping_batches), 2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, module.hparams.lr, total_steps=steps, pct_start=0.15)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
