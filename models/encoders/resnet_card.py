"""The release of the larger encoder: weights in float16, and a card with measurements in houses it has never seen.

Axes: K classes.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from eqa.data.batches.frames import DrawnWorld, Frames, FrameSource
from eqa.data.batches.pixel_labels import COLORS
from eqa.envs.files import atomic_write
from eqa.envs.rendering.camera import Camera
from eqa.models.encoders.cnn import MAX_DEPTH_M, save_encoder
from eqa.models.encoders.model_card import BATCH_SIZE, MEASURED_BATCHES, class_facts, facts_of_run, rounding_error
from eqa.models.encoders.place_names import PlaceNames
from eqa.models.encoders.pretrain_resnet import Naming, ResidualPretraining, targets_of

CARD = """# Weights of the larger encoder

`{name}.safetensors` ({kilobytes:.0f} kB, float16) holds a residual network of {parameters:.2f} M parameters: a
{height_px}x{width_px} frame becomes a map of {rows}x{columns} places with {channels} features each. It was trained to say
of each place what it shows, the name of its colour, the type of its room and its depth; the linear layer that did so is in
the file. This page is written by `models/encoders/resnet_card.py`; do not edit it.

| | |
|---|---|
| command | `{command}` |
| commit | {commit} |
| seed | {seed} |
| data | frames of random places in {num_houses} train {places} of `{generator}`, {near_objects} of them looking at an object, {repainted} |
| began with | {start} |
| frames seen | {frames_seen:,} in batches of {batch_size} |
| optimiser | Adam, one-cycle schedule, learning rate {lr:g} at its top |
| losses | cross-entropy of classes (of objects x {object_weight:g}) + {color_weight:g} x of colours + {room_weight:g} x of rooms + {depth_weight:g} x smooth L1 of metres (clipped at {max_depth_m:g} m) |

## Quality in scenes it has never seen

{measured_frames:,} frames of each split; every {every}th pixel either way against what its place says. Features in
bfloat16 are {bfloat16_error:.4f} (relative error) from those in float32.

{quality_table}

Classes of {first_split} by intersection over union:
{class_table}.
"""

MEASURES = {
    "class_accuracy": ("class, share of right pixels", ".1%"),
    "mean_iou": ("class, mean intersection over union of those that occur", ".1%"),
    "color_accuracy": ("colour's name, share of right pixels of things that are asked about", ".1%"),
    "room_accuracy": ("room's type, share of right pixels", ".1%"),
    "depth_error_m": ("depth, mean absolute error in metres", ".2f"),
}


class ResidualExport:
    """Writes the weights and their card into `folder`, and gives the measured quality.

    `source` gives the scenes to measure in. `ship` also replaces the project's own weights.
    """

    def __init__(
        self,
        *,
        source: FrameSource,
        folder: Path,
        configuration: dict,
        ship: bool = False,
        weights: str = "models/weights/residual.safetensors",
    ) -> None:
        self.source, self.folder, self.configuration = source, Path(folder), configuration
        self.ship, self.weights = ship, Path(weights)

    def __call__(self, fitted: dict[str, ResidualPretraining]) -> dict[str, float]:
        module = fitted["encoder"].eval()
        stage = self.configuration["stages"]["encoder"]["data"]
        scene_ids = {split: ids for split, ids in self.source.scene_ids.items() if split not in ("train", "val")}
        found = {}
        for split, ids in scene_ids.items():
            frames = Frames(
                self.source.world,
                ids,
                num_batches=MEASURED_BATCHES,
                batch_size=BATCH_SIZE,
                seed=[0, 2],
                camera=Camera(module.encoder.height_px, module.encoder.width_px),
                surroundings_every=stage["surroundings_every"],
            )
            found[split], rgb = measure(module, frames)
        facts = {
            **facts_of_run(self.source, self.configuration),
            "name": self.weights.stem,
            "start": module.hparams["start"] or "random weights",
            "measured_frames": len(frames) * BATCH_SIZE,
            "repainted": _repainted(self.source.world, stage.get("repaint", 0)),
            "num_scenes": {split: len(ids) for split, ids in scene_ids.items()},
            "every": stage["surroundings_every"],
        }
        names = place_names(module, self.source.world)
        card = write_card(module, found, rgb, names, facts)
        for place in [self.folder] + [Path(__file__).parents[2] / self.weights.parent] * self.ship:
            save_encoder(module.encoder, place / self.weights.name, half=True, names=names)
            with atomic_write(place / f"{self.weights.stem}.md") as aside:
                aside.write_text(card)
        return {f"{split}/{name}": value for split, naming in found.items() for name, value in naming.summary().items()}


def _repainted(world: DrawnWorld, share: float) -> str:
    """A card's words about surfaces in other colours."""
    if not world.repainted or not share:
        return "all as they are"
    return f"{share:.0%} with other colours of " + ", ".join(f"{name}s" for name in world.repainted)


def place_names(module: ResidualPretraining, world: DrawnWorld) -> PlaceNames:
    """Names that the fitted heads give to places of a world."""
    names = tuple(world.class_names), COLORS, tuple(world.region_names)
    weight, bias = (values.detach()[:-1] for values in module.heads.layer.parameters())  # the last output is depth
    return PlaceNames(*names, weight.flatten(1), bias)


@torch.no_grad()
def measure(module: ResidualPretraining, frames: Frames) -> tuple[Naming, torch.Tensor]:
    """The quality over all frames, and the last batch's colours."""
    naming = Naming(module.sizes, module.hparams.first_asked, module.device)
    for batch in frames:
        batch = {name: value.to(module.device) for name, value in batch.items()}
        naming.update(module(batch["rgb"]), targets_of(batch, module.encoder.map_shape[1:]))
    return naming, batch["rgb"]


@torch.no_grad()
def write_card(
    module: ResidualPretraining, found: Mapping[str, Naming], rgb: torch.Tensor, names: PlaceNames, facts: dict
) -> str:
    """The card's text, from the measurements of each split; `facts` are about the run."""
    encoder, first = module.encoder, next(iter(found))
    channels, rows, columns = encoder.map_shape
    weights = ("lr", "object_weight", "color_weight", "room_weight", "depth_weight")
    return CARD.format(
        **facts,
        quality_table=quality_table(found, facts["num_scenes"]),
        first_split=first,
        **class_facts(found[first].class_iou, names.classes),
        **{name: module.hparams[name] for name in weights},
        kilobytes=2 * sum(v.numel() for v in [*encoder.state_dict().values(), names.weight, names.bias]) / 1000,
        parameters=sum(value.numel() for value in encoder.parameters()) / 1e6,
        height_px=encoder.height_px,
        width_px=encoder.width_px,
        channels=channels,
        rows=rows,
        columns=columns,
        frames_seen=int(module.frames_seen),
        max_depth_m=MAX_DEPTH_M,
        bfloat16_error=rounding_error(encoder, rgb),
    )


def quality_table(found: Mapping[str, Naming], num_scenes: Mapping[str, int]) -> str:
    """The measured quality in Markdown, a column for each split."""
    rows = [["measure", *(f"{split}, {num_scenes[split]} scenes" for split in found)], ["---"] * (1 + len(found))]
    for name, (words, form) in MEASURES.items():
        rows.append([words, *(format(naming.summary()[name], form) for naming in found.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
