"""The release of a trained encoder: weights, a card with measurements, and a picture of its three predictions.

The quality on the card is measured in test houses, used neither for training nor for the choice of the weights.

Axes: B batch, H W frame, h w heads' resolution, K classes.
"""

import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure
from PIL import Image

from eqa.data.batches.frames import Frames, FrameSource
from eqa.envs.files import atomic_write
from eqa.envs.rendering.camera import Camera
from eqa.models.encoders.cnn import MAX_DEPTH_M, Encoder, save_encoder, to_output_grid
from eqa.models.encoders.pretrain_cnn import EncoderPretraining, Quality, make_targets
from eqa.models.run_record import command, commit

MEASURED_BATCHES, BATCH_SIZE = 32, 32
PICTURE_ROWS = 8

CARD = """# Weights of the frozen encoder

`encoder.safetensors` ({kilobytes:.0f} kB) holds the paper's four blocks of [5x5 convolution, batch norm, ReLU, 2x2 max
pool] (Das et al. 2018, Sec. 4): a {height_px}x{width_px} frame becomes {feature_size} features. It was trained to
reconstruct colour and to predict depth and segmentation; the heads that did so are not kept. This page is written by
`models/encoders/model_card.py`; do not edit it. The weights of the larger encoder have a page of their own, [residual.md](residual.md).

| | |
|---|---|
| command | `{command}` |
| commit | {commit} |
| seed | {seed} |
| data | frames of random places in {num_houses} train houses of `{generator}`, {near_objects} of them looking at an object |
| frames seen | {frames_seen:,} in batches of {batch_size} |
| optimiser | Adam, one-cycle schedule, learning rate {lr:g} at its top |
| losses | {segmentation_weight:g} x cross-entropy + {depth_weight:g} x smooth L1 of metres (clipped at {max_depth_m:g} m) + {rgb_weight:g} x smooth L1 of colour |

## Quality in houses it has never seen

{measured_frames:,} frames of {num_test_houses} test houses, at the heads' resolution ({rows}x{columns}).

| measure | value |
|---|---|
| segmentation, share of right pixels | {pixel_accuracy:.1%} |
| segmentation, mean intersection over union of {classes_present} classes | {mean_iou:.1%} |
| depth, mean absolute error | {depth_error_m:.2f} m |
| colour, mean absolute error | {rgb_error:.3f} of 1 |
| features in bfloat16 against float32, relative error | {bfloat16_error:.4f} |

Classes by intersection over union:
{class_table}.

![Frames with the three predictions](predictions.png)
"""


class EncoderExport:
    """Writes encoder.safetensors, README.md and predictions.png into `folder`, and gives the measured quality.

    `source` gives the scenes to measure in. `ship` also replaces the project's own weights.
    """

    def __init__(
        self,
        *,
        source: FrameSource,
        folder: Path,
        configuration: dict,
        ship: bool = False,
        weights: str = "models/weights/encoder.safetensors",
    ) -> None:
        self.source, self.folder, self.configuration = source, Path(folder), configuration
        self.ship, self.weights = ship, Path(weights)

    def __call__(self, fitted: dict[str, EncoderPretraining]) -> dict[str, float]:
        module = fitted["encoder"].eval()
        world, scene_ids = self.source.world, self.source.scene_ids["test"]
        encoder = module.model.encoder
        camera = Camera(encoder.height_px, encoder.width_px)
        frames = Frames(
            world, scene_ids, num_batches=MEASURED_BATCHES, batch_size=BATCH_SIZE, seed=[0, 2], camera=camera
        )
        quality, shown = measure(module, frames)
        facts = facts_of_run(self.source, self.configuration)
        card = write_card(module, quality, shown["rgb"], world.class_names, facts)
        places = [self.folder] + [Path(__file__).parents[2] / self.weights.parent] * self.ship
        for place in places:
            save_encoder(encoder, place / self.weights.name)
            draw_predictions(module, shown, world.class_names, place / "predictions.png")
            with atomic_write(place / "README.md") as aside:
                aside.write_text(card)
        return quality.summary()


def facts_of_run(source: FrameSource, configuration: dict) -> dict:
    """A card's facts about the run that made the weights."""
    scene_ids, stage = source.scene_ids, configuration["stages"]["encoder"]["data"]
    return {
        "command": command(),
        "commit": commit(),
        "seed": configuration["seed"],
        "num_houses": len(scene_ids["train"]),
        "places": source.places,
        "generator": source.origin,
        "near_objects": f"{stage['near_objects']:.0%}",
        "batch_size": stage["batch_size"],
        "num_test_houses": len(scene_ids["test"]),
    }


def class_facts(class_iou: Float[torch.Tensor, " K"], class_names: Sequence[str]) -> dict:
    """Number of classes that occurred, and the intersection over union of each, the best first."""
    iou = class_iou.cpu().numpy()
    there = [k for k in np.argsort(-np.nan_to_num(iou, nan=-1)) if not np.isnan(iou[k])]
    named = ", ".join(f"{class_names[k]} {iou[k]:.0%}" for k in there)
    return {"classes_present": len(there), "class_table": textwrap.fill(named, 118, break_on_hyphens=False)}


def rounding_error(encoder: torch.nn.Module, rgb: UInt8[torch.Tensor, "B H W 3"]) -> float:
    """Error of features in bfloat16, relative to those in float32."""
    exact, rough = (encoder.for_inference(precision)(rgb) for precision in ("float32", "bfloat16"))
    return float((rough - exact).norm() / exact.norm())


@torch.no_grad()
def measure(module: EncoderPretraining, frames: Frames) -> tuple[Quality, dict[str, torch.Tensor]]:
    """The quality over all frames, and every k-th frame to show."""
    quality, shown = Quality(module.model.num_classes, module.device), []
    every = max(len(frames) // PICTURE_ROWS, 1)
    for index, batch in enumerate(frames):
        batch = {name: value.to(module.device) for name, value in batch.items()}
        outputs = module(batch["rgb"])
        quality.update(outputs, make_targets(batch, module.model.encoder.map_sizes[1]))
        if index % every == 0:
            shown.append({name: value[:1] for name, value in batch.items()})
    return quality, {name: torch.cat([frame[name] for frame in shown[:PICTURE_ROWS]]) for name in shown[0]}


def write_card(
    module: EncoderPretraining,
    quality: Quality,
    rgb: UInt8[torch.Tensor, "B H W 3"],
    class_names: Sequence[str],
    facts: dict,
) -> str:
    """The card's text, from the measurements; `facts` are about the run."""
    encoder: Encoder = module.model.encoder
    rows, columns = encoder.map_sizes[1]
    return CARD.format(
        **facts,
        **quality.summary(),
        **class_facts(quality.class_iou, class_names),
        **{name: module.hparams[name] for name in ("lr", "segmentation_weight", "depth_weight", "rgb_weight")},
        kilobytes=sum(value.numel() * value.element_size() for value in encoder.state_dict().values()) / 1000,
        height_px=encoder.height_px,
        width_px=encoder.width_px,
        feature_size=encoder.feature_size,
        frames_seen=int(module.frames_seen),
        max_depth_m=MAX_DEPTH_M,
        measured_frames=int(quality.confusion.sum()) // (rows * columns),
        rows=rows,
        columns=columns,
        bfloat16_error=rounding_error(encoder, rgb),
    )


@torch.no_grad()
def draw_predictions(
    module: EncoderPretraining, frames: dict[str, torch.Tensor], class_names: Sequence[str], path: Path
) -> None:
    """Rows of one frame each: colour, reconstruction, true and predicted depth, true and predicted classes, named."""
    outputs = module(frames["rgb"])
    targets = make_targets(frames, module.model.encoder.map_sizes[1])
    predicted, colors = outputs["class_logits"].argmax(1), class_colors(len(class_names))
    columns = {
        "frame": to_output_grid(frames["rgb"], module.model.encoder.map_sizes[1]),
        "reconstruction": outputs["rgb"].permute(0, 2, 3, 1),
        "depth": targets.depth_m,
        "depth, predicted": outputs["depth"] * MAX_DEPTH_M,
        "classes": colors[targets.class_id.cpu().numpy()],
        "classes, predicted": colors[predicted.cpu().numpy()],
    }
    num = len(frames["rgb"])
    figure = Figure(figsize=(2 * len(columns), 2 * num + 1.2), layout="constrained", dpi=80)
    axes = figure.subplots(num, len(columns), squeeze=False)
    for column, (title, images) in enumerate(columns.items()):
        axes[0, column].set_title(title, fontsize=10)
        for row in range(num):
            image = np.asarray(images[row].cpu() if isinstance(images, torch.Tensor) else images[row])
            axes[row, column].imshow(image, cmap="viridis", vmin=0, vmax=MAX_DEPTH_M)
            axes[row, column].set_axis_off()
    _legend(figure, torch.cat([targets.class_id, predicted]), class_names)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    with atomic_write(path) as aside, Image.open(drawn) as picture:  # 256 colours take a quarter of the bytes
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(aside, format="PNG", optimize=True)


def class_colors(num_classes: int) -> Float[np.ndarray, "K 3"]:
    """A colour for each class; classes with neighbouring numbers are far apart in hue."""
    number = np.arange(num_classes)
    hsv = np.stack([number * 0.618034 % 1, 0.45 + 0.5 * (number % 3) / 2, 0.95 - 0.4 * (number % 4) / 3], axis=1)
    return hsv_to_rgb(hsv)


def _legend(figure: Figure, class_id: torch.Tensor, class_names: Sequence[str]) -> None:
    counts, colors = class_id.flatten().bincount(minlength=len(class_names)), class_colors(len(class_names))
    for k in counts.argsort(descending=True)[:28].tolist():
        if counts[k]:
            figure.gca().plot([], [], "s", color=colors[k], label=class_names[k])
    figure.legend(loc="outside lower center", ncols=7, fontsize=8, frameon=False)
