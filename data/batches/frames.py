"""`RenderedFrames`: endless frames of random places in a world's scenes, rendered when needed; nothing is stored.

Encoders are pretrained on them: colour, depth and class of every pixel, and optionally names of colours and regions
(`data.batches.pixel_labels`). Training goes through the train scenes; validation is one fixed set of views of val
scenes. Every batch is a function of (seed, epoch, place in the epoch).

Axes: B batch, H W frame, N poses, R regions, O objects, K kinds of objects, C free cells.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, radians
from typing import Protocol, runtime_checkable

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float64, Int64
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from eqa.data.batches.pixel_labels import COLORS, Surroundings
from eqa.data.batches.repaint import Repaint
from eqa.envs.annotations import Annotations
from eqa.envs.navigation.floor import Floor
from eqa.envs.navigation.occupancy import fill_polygon
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene

SENSORS = ("rgb", "depth", "class_id")
CANDIDATES = 32  # places tried for a view of an object
OBJECT_DISTANCE_M = (0.5, 3.0)
BESIDE_RAD = radians(9)  # a view misses its object by so much, as a standard deviation, and by less with smaller turns
LEGIBLE_RAD = radians(55)  # writing is looked at from up to so far beside its front
SCENES_IN_MEMORY = 1024  # under 1 MB each


@runtime_checkable
class DrawnWorld(Protocol):
    """A world whose scenes `envs.rendering` draws, with all that frames take from it."""

    class_names: Sequence[str]  # names of the sensor class_id's values
    first_thing: int  # classes before it are surfaces, from it on things
    first_asked: int  # from it on things that questions are about
    region_names: Sequence[str]  # all names that regions may have, and places of things with a label
    seen_from_m: tuple[float, float] | None  # things are looked at from so far round them; None: within their region
    loaded_at_once: int  # scenes that are loaded together, at most
    repainted: Sequence[str]  # classes of surfaces that have other colours in other places, see `data.batches.repaint`

    def drawable(self, scene_id: str) -> tuple[Scene, Annotations, Floor]:
        """A scene to draw, its annotations, and a floor that shows where one can stand; a coarse one is enough."""
        ...


@runtime_checkable
class FrameSource(Protocol):
    """A source of scenes, such as `data.generated.GeneratedEQA`."""

    world: DrawnWorld
    scene_ids: Mapping[str, Sequence[str]]  # by split
    origin: str  # what made the scenes
    places: str  # what scenes are called, such as houses


@dataclass(frozen=True, slots=True)
class Places:
    """Places in one scene for views, and objects to look at. Regions without a free cell are left out."""

    cells: Float64[np.ndarray, "C 2"]  # x, z of free floor, region by region
    first: Int64[np.ndarray, " R"]  # index of a region's first cell
    count: Int64[np.ndarray, " R"]
    objects: Float64[np.ndarray, "O 2"]  # x, z, sorted by kind
    object_region: Int64[np.ndarray, " O"]
    front_rad: Float64[np.ndarray, " O"]  # of objects with writing, nan for those that are seen from all sides
    kind_first: Int64[np.ndarray, " K"]
    kind_count: Int64[np.ndarray, " K"]
    floor: Floor
    seen_from_m: tuple[float, float] | None = None

    def random_poses(self, rng: np.random.Generator, num: int) -> Float64[np.ndarray, "N 4"]:
        """Random poses: any region, any place in it, any heading."""
        regions = rng.integers(len(self.first), size=num)
        places = self._stand(rng, regions)
        return self._poses(places, rng.uniform(0, 2 * np.pi, num))

    def object_poses(self, rng: np.random.Generator, num: int) -> Float64[np.ndarray, "N 4"]:
        """Poses that look about straight at a random object of a random kind, from nearby.

        They are in its region, or anywhere round it with `seen_from_m`.
        """
        kinds = rng.integers(len(self.kind_first), size=num)
        chosen = self.kind_first[kinds] + rng.integers(self.kind_count[kinds])
        target = self.objects[chosen]
        place = self._in_region(rng, chosen) if self.seen_from_m is None else self._round(rng, chosen)
        away = target - place
        turn_rad = min(self.floor.actions.turn_rad, BESIDE_RAD)
        heading = np.arctan2(-away[:, 0], -away[:, 1]) + rng.normal(0, turn_rad, num)
        return self._poses(place, heading)

    def _in_region(self, rng: np.random.Generator, chosen: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N 2"]:
        """The best of some places in each object's region."""
        num, target = len(chosen), self.objects[chosen]
        places = self._stand(rng, np.repeat(self.object_region[chosen], CANDIDATES)).reshape(num, CANDIDATES, 2)
        distance = np.linalg.norm(places - target[:, None], axis=2)
        near, far = OBJECT_DISTANCE_M
        outside = np.maximum(near - distance, 0) + np.maximum(distance - far, 0)
        return places[np.arange(num), outside.argmin(axis=1)]

    def _round(self, rng: np.random.Generator, chosen: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N 2"]:
        """A free place round each object, before its front if that has writing; any place where none is found."""
        shape = len(chosen), CANDIDATES
        away = rng.uniform(*self.seen_from_m, shape)
        front = self.front_rad[chosen, None]
        widest = np.where(np.isnan(front), np.pi, LEGIBLE_RAD)
        bearing = np.nan_to_num(front) + widest * rng.uniform(-1, 1, shape)
        places = self.objects[chosen, None] - away[..., None] * np.stack([np.sin(bearing), np.cos(bearing)], 2)
        column, row = np.moveaxis(np.floor((places - self.floor.origin) / self.floor.cell_m).astype(np.int64), 2, 0)
        side = len(self.floor.free)
        inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
        free = inside & self.floor.free[row.clip(0, side - 1), column.clip(0, side - 1)]
        anywhere = self._stand(rng, self.object_region[chosen])
        return np.where(free.any(1)[:, None], places[np.arange(len(chosen)), free.argmax(1)], anywhere)

    def _stand(self, rng: np.random.Generator, regions: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N 2"]:
        return self.cells[self.first[regions] + rng.integers(self.count[regions])]

    def _poses(
        self, places: Float64[np.ndarray, "N 2"], headings_rad: Float64[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N 4"]:
        """Poses with headings rounded to multiples of a turn, the only ones that an agent has."""
        turn_rad = self.floor.actions.turn_rad
        return self.floor.stand(places, np.rint(headings_rad / turn_rad) * turn_rad % (2 * np.pi))


def find_places(annotations: Annotations, floor: Floor, *, seen_from_m: tuple[float, float] | None = None) -> Places:
    """The free floor of each region and the objects of each kind."""
    cells, renumbered = [], {}
    for index, region in enumerate(annotations.regions):
        inside = np.zeros(floor.free.shape, np.uint8)
        fill_polygon(inside, (np.asarray(region.outline, np.float64) - floor.origin) / floor.cell_m)
        rows, columns = np.divmod(np.flatnonzero(floor.free & inside.view(np.bool_)), len(inside))
        if len(rows):
            renumbered[index] = len(cells)
            cells.append((np.stack([columns, rows], axis=1) + 0.5) * floor.cell_m + floor.origin)
    things = sorted((t for t in annotations.things if t.region in renumbered), key=lambda t: (t.name, t.id))
    kind_count = np.array(list(Counter(t.name for t in things).values()), np.int64)
    count = np.array([len(c) for c in cells], np.int64)
    return Places(
        cells=np.concatenate(cells),
        first=np.cumsum(count) - count,
        count=count,
        objects=np.array([t.middle for t in things], np.float64).reshape(-1, 2),
        object_region=np.array([renumbered[t.region] for t in things], np.int64),
        front_rad=np.array([np.nan if t.label is None else t.front_rad for t in things], np.float64),
        kind_first=np.cumsum(kind_count) - kind_count,
        kind_count=kind_count,
        floor=floor,
        seen_from_m=seen_from_m,
    )


class Frames(IterableDataset):
    """Batches of views, as tensors:

    - rgb (B, H, W, 3) uint8;
    - depth (B, H, W) float32 metres, 0 where nothing was hit;
    - class_id (B, H, W) uint8, an index into the world's `class_names`;
    - with `surroundings_every=k` color_id and room_id (B, H/k, W/k) uint8, for the pixels of
      `data.batches.pixel_labels.sampled`.

    A few scenes are loaded at a time and give a few batches each; all scenes are used before one is used again. They
    stay loaded if they are all that there are. With several workers, each takes every n-th group of scenes. Only `part`
    of each batch is drawn, for one of several processes. `repaint` gives surfaces of some frames other colours.
    """

    def __init__(
        self,
        world: DrawnWorld,
        scene_ids: Sequence[str],
        *,
        num_batches: int,
        batch_size: int,
        seed: Sequence[int],
        camera: Camera | None = None,
        near_objects: float = 0.5,
        batches_at_once: int = 8,
        part: slice = slice(None),
        surroundings_every: int | None = None,
        repaint: Repaint | None = None,
    ) -> None:
        if not scene_ids:
            raise ValueError("scene_ids: expected at least one to render, got none")
        if not 0 <= near_objects <= 1:
            raise ValueError(f"near_objects: expected a share from 0 to 1, got {near_objects}")
        self.world, self.scene_ids = world, list(scene_ids)
        self.num_batches, self.batch_size, self.seed = num_batches, batch_size, list(seed)
        self.camera, self.near_objects = camera or Camera(), near_objects
        self.scenes_at_once, self.batches_at_once = min(world.loaded_at_once, len(scene_ids)), batches_at_once
        self.part, self.every, self.repaint = part, surroundings_every, repaint
        if repaint is not None:
            repaint.numbers(world.class_names)
        self._prepared = functools.lru_cache(SCENES_IN_MEMORY)(self._prepare)

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        renderer = Renderer(self.camera, SENSORS if self.every is None else (*SENSORS, "instance_id"))
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        loaded: list[int] = []
        for group in range(first, ceil(self.num_batches / self.batches_at_once), step):
            rng = np.random.default_rng([*self.seed, group])
            if (chosen := self._group(group)) != loaded:
                scenes, places, surroundings = zip(*(self._prepared(i) for i in chosen), strict=True)
                renderer.load(scenes)
                loaded = chosen
            begin = group * self.batches_at_once
            for _ in range(begin, min(begin + self.batches_at_once, self.num_batches)):
                which = np.sort(rng.integers(len(scenes), size=self.batch_size))
                counts = np.bincount(which, minlength=len(scenes)).tolist()
                poses = np.concatenate([self._poses(rng, p, n) for p, n in zip(places, counts, strict=True)])
                which, poses = which[self.part], poses[self.part]
                frames = renderer.render(which, poses)
                if self.every is not None:
                    self._add_surroundings(frames, surroundings, which, poses)
                if self.repaint is not None:
                    self.repaint(frames["rgb"], frames["class_id"], class_names=self.world.class_names, rng=rng)
                yield {name: torch.from_numpy(array) for name, array in frames.items()}

    def _group(self, group: int) -> list[int]:
        """Places of a group's scenes in the stream of all scenes, which is shuffled anew for each pass."""
        num = len(self.scene_ids)
        if self.scenes_at_once == num:
            return list(range(num))
        stream = range(group * self.scenes_at_once, (group + 1) * self.scenes_at_once)
        rounds = [divmod(i, num) for i in stream]
        return [int(np.random.default_rng([*self.seed, 1, r]).permutation(num)[k]) for r, k in rounds]

    def _poses(self, rng: np.random.Generator, places: Places, num: int) -> Float64[np.ndarray, "N 4"]:
        looking = int(rng.binomial(num, self.near_objects)) if len(places.objects) else 0
        return np.concatenate([places.object_poses(rng, looking), places.random_poses(rng, num - looking)])

    def _add_surroundings(
        self,
        frames: dict[str, np.ndarray],
        surroundings: Sequence[Surroundings],
        which: Int64[np.ndarray, " B"],
        poses: Float64[np.ndarray, "B 4"],
    ) -> None:
        instance_id, parts = frames.pop("instance_id"), []
        for scene in np.unique(which):
            rows = which == scene
            shown = poses[rows], instance_id[rows], frames["depth"][rows]
            parts.append(surroundings[scene].seen(*shown, self.camera, every=self.every))
        for name, of_scenes in zip(("color_id", "room_id"), zip(*parts, strict=True), strict=True):
            frames[name] = np.concatenate(of_scenes)

    def _prepare(self, index: int) -> tuple[Scene, Places, Surroundings | None]:
        scene, annotations, floor = self.world.drawable(self.scene_ids[index])
        named = None if self.every is None else Surroundings.of(annotations, self.world.region_names)
        return scene, find_places(annotations, floor, seen_from_m=self.world.seen_from_m), named


class RenderedFrames(pl.LightningDataModule):
    """`Frames` of train scenes, new ones each epoch, and a fixed set of val scenes.

    `repaint` is the share of train frames whose surfaces get other colours, in worlds that have such surfaces.
    `num_workers=0` renders in this process on all cores, which suits training on the CPU. With a GPU, one worker
    renders while the GPU learns.
    """

    def __init__(
        self,
        source: FrameSource,
        *,
        batch_size: int,
        batches_per_epoch: int,
        val_batches: int,
        seed: int,
        near_objects: float = 0.5,
        num_workers: int = 0,
        camera: Camera | None = None,
        surroundings_every: int | None = None,
        repaint: float = 0.0,
    ) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed, self.num_workers = source, batch_size, seed, num_workers
        self.batches_per_epoch, self.val_batches = batches_per_epoch, val_batches
        self.near_objects, self.camera = near_objects, camera or Camera()
        self.surroundings_every, surfaces = surroundings_every, source.world.repainted
        self.repaint = Repaint(repaint, surfaces) if repaint and surfaces else None
        self._train: Frames | None = None
        self._val: Frames | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that the network in training has to fit."""
        world, named = self.source.world, {}
        if self.surroundings_every is not None:
            named = {"num_colors": len(COLORS), "num_rooms": len(world.region_names)}
            named |= {"first_thing": world.first_thing, "first_asked": world.first_asked}
        return {
            "num_classes": len(world.class_names),
            **named,
            "height_px": self.camera.height_px,
            "width_px": self.camera.width_px,
        }

    def frames(self, split: str, num_batches: int, seed: Sequence[int]) -> Frames:
        if self.batch_size % self.trainer.world_size:
            raise ValueError(
                f"batch_size: expected a multiple of the {self.trainer.world_size} processes, got {self.batch_size}"
            )
        return Frames(
            self.source.world,
            self.source.scene_ids[split],
            num_batches=num_batches,
            batch_size=self.batch_size,
            seed=seed,
            camera=self.camera,
            near_objects=self.near_objects,
            part=slice(self.trainer.global_rank, None, self.trainer.world_size),
            surroundings_every=self.surroundings_every,
            repaint=self.repaint if split == "train" else None,
        )

    def train_dataloader(self) -> DataLoader:
        if self._train is None:
            self._train = self.frames("train", self.batches_per_epoch, [])
        self._train.seed = [self.seed, self.trainer.current_epoch]
        return DataLoader(self._train, batch_size=None, num_workers=self.num_workers)

    def val_dataloader(self) -> DataLoader:
        if self._val is None:
            self._val = self.frames("val", self.val_batches, [0, 0])
        return DataLoader(self._val, batch_size=None, num_workers=self.num_workers)
