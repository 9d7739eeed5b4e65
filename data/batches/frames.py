"""`RenderedFrames`: endless frames of random places in houses, rendered when needed; nothing is stored.

Encoders are pretrained on them: colour, depth and class of every pixel, and optionally names of colours and types of
rooms (`data.batches.pixel_labels`). Training goes through the train houses; validation is one fixed set of views of val
houses. Every batch is a function of (seed, epoch, place in the epoch).

Axes: B batch, H W frame, N poses, R rooms, O objects, C free cells.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol, runtime_checkable

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float64, Int64
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from eqa.data.batches.pixel_labels import COLORS, ROOMS, Surroundings
from eqa.envs.actions import TURN_RAD
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import BUILDING, CLASSES, QUERYABLE, load_catalog
from eqa.envs.house.house import House
from eqa.envs.navigation.occupancy import fill_polygon
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene

SENSORS = ("rgb", "depth", "class_id")
FIRST_OBJECT = len(BUILDING)  # classes before it are the building, from it on things
FIRST_QUERYABLE = len(CLASSES) - len(QUERYABLE)  # from it on things that questions are about
FLOOR_CELLS = 300  # a coarse floor is enough to stand on
CANDIDATES = 32  # places tried for a view of an object
OBJECT_DISTANCE_M = (0.5, 3.0)
HOUSES_IN_MEMORY = 1024  # under 1 MB each


@dataclass(frozen=True, slots=True)
class Places:
    """Places in one house for views, and objects to look at. Rooms without a free cell are left out."""

    cells: Float64[np.ndarray, "C 2"]  # x, z of free floor, room by room
    first: Int64[np.ndarray, " R"]  # index of a room's first cell
    count: Int64[np.ndarray, " R"]
    objects: Float64[np.ndarray, "O 2"]  # x, z, sorted by category
    object_room: Int64[np.ndarray, " O"]
    category_first: Int64[np.ndarray, " K"]
    category_count: Int64[np.ndarray, " K"]

    def random_poses(self, rng: np.random.Generator, num: int) -> Float64[np.ndarray, "N 3"]:
        """Random poses: any room, any place in it, any heading."""
        rooms = rng.integers(len(self.first), size=num)
        return np.column_stack([self._stand(rng, rooms), _whole_turns(rng.uniform(0, 2 * np.pi, num))])

    def object_poses(self, rng: np.random.Generator, num: int) -> Float64[np.ndarray, "N 3"]:
        """Poses that look about straight at a random object of a random category, from nearby in its room."""
        kinds = rng.integers(len(self.category_first), size=num)
        chosen = self.category_first[kinds] + rng.integers(self.category_count[kinds])
        target = self.objects[chosen]
        places = self._stand(rng, np.repeat(self.object_room[chosen], CANDIDATES)).reshape(num, CANDIDATES, 2)
        distance = np.linalg.norm(places - target[:, None], axis=2)
        near, far = OBJECT_DISTANCE_M
        outside = np.maximum(near - distance, 0) + np.maximum(distance - far, 0)
        place = places[np.arange(num), outside.argmin(axis=1)]
        away = target - place
        heading = np.arctan2(-away[:, 0], -away[:, 1]) + rng.normal(0, TURN_RAD, num)
        return np.column_stack([place, _whole_turns(heading)])

    def _stand(self, rng: np.random.Generator, rooms: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N 2"]:
        return self.cells[self.first[rooms] + rng.integers(self.count[rooms])]


def _whole_turns(heading_rad: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " N"]:
    """Headings rounded to multiples of a turn, the only ones that an agent has."""
    return np.rint(heading_rad / TURN_RAD) * TURN_RAD % (2 * np.pi)


def find_places(house: House, scene: Scene) -> Places:
    """The free floor of each room and the objects of each category."""
    floor = build_floor(house, scene, load_catalog().meshes, resolution=FLOOR_CELLS)
    cells, renumbered = [], {}
    for index, room in enumerate(house.rooms):
        inside = np.zeros(floor.free.shape, np.uint8)
        fill_polygon(inside, (np.asarray(room.polygon, np.float64) - floor.origin) / floor.cell_m)
        rows, columns = np.nonzero(floor.free & (inside > 0))
        if len(rows):
            renumbered[index] = len(cells)
            cells.append((np.stack([columns, rows], axis=1) + 0.5) * floor.cell_m + floor.origin)
    objects = sorted((o for o in house.objects if o.room in renumbered), key=lambda o: (o.category, o.id))
    _, category_first, category_count = np.unique([o.category for o in objects], return_index=True, return_counts=True)
    count = np.array([len(c) for c in cells], np.int64)
    return Places(
        cells=np.concatenate(cells),
        first=np.cumsum(count) - count,
        count=count,
        objects=np.array([(o.position[0], o.position[2]) for o in objects], np.float64).reshape(-1, 2),
        object_room=np.array([renumbered[o.room] for o in objects], np.int64),
        category_first=category_first.astype(np.int64),
        category_count=category_count.astype(np.int64),
    )


class Frames(IterableDataset):
    """Batches of views, as tensors:

    - rgb (B, H, W, 3) uint8;
    - depth (B, H, W) float32 metres, 0 where nothing was hit;
    - class_id (B, H, W) uint8, an index into `catalog.CLASSES`;
    - with `surroundings_every=k` color_id and room_id (B, H/k, W/k) uint8, for the pixels of
      `data.batches.pixel_labels.sampled`.

    A few houses are loaded at a time and give a few batches each; all houses are used before one is used again. With
    several workers, each takes every n-th group of houses. Only `part` of each batch is drawn, for one of several
    processes.
    """

    def __init__(
        self,
        houses: Sequence[House],
        *,
        num_batches: int,
        batch_size: int,
        seed: Sequence[int],
        camera: Camera | None = None,
        near_objects: float = 0.5,
        houses_at_once: int = 8,
        batches_at_once: int = 8,
        part: slice = slice(None),
        surroundings_every: int | None = None,
    ) -> None:
        if not houses:
            raise ValueError("houses: expected at least one to render, got none")
        if not 0 <= near_objects <= 1:
            raise ValueError(f"near_objects: expected a share from 0 to 1, got {near_objects}")
        self.houses, self.num_batches, self.batch_size, self.seed = houses, num_batches, batch_size, list(seed)
        self.camera, self.near_objects = camera or Camera(), near_objects
        self.houses_at_once, self.batches_at_once = min(houses_at_once, len(houses)), batches_at_once
        self.part, self.every = part, surroundings_every
        self._prepared = functools.lru_cache(HOUSES_IN_MEMORY)(self._prepare)

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        renderer = Renderer(self.camera, SENSORS if self.every is None else (*SENSORS, "instance_id"))
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for group in range(first, ceil(self.num_batches / self.batches_at_once), step):
            rng = np.random.default_rng([*self.seed, group])
            scenes, places, surroundings = zip(*(self._prepared(i) for i in self._group(group)), strict=True)
            renderer.load(scenes)
            begin = group * self.batches_at_once
            for _ in range(begin, min(begin + self.batches_at_once, self.num_batches)):
                which = np.sort(rng.integers(len(scenes), size=self.batch_size))
                counts = np.bincount(which, minlength=len(scenes)).tolist()
                poses = np.concatenate([self._poses(rng, p, n) for p, n in zip(places, counts, strict=True)])
                which, poses = which[self.part], poses[self.part]
                frames = renderer.render(which, poses)
                if self.every is not None:
                    self._add_surroundings(frames, surroundings, which, poses)
                yield {name: torch.from_numpy(array) for name, array in frames.items()}

    def _group(self, group: int) -> list[int]:
        """Places of a group's houses in the stream of all houses, which is shuffled anew for each pass."""
        stream = range(group * self.houses_at_once, (group + 1) * self.houses_at_once)
        rounds = [divmod(i, len(self.houses)) for i in stream]
        return [int(np.random.default_rng([*self.seed, 1, r]).permutation(len(self.houses))[k]) for r, k in rounds]

    def _poses(self, rng: np.random.Generator, places: Places, num: int) -> Float64[np.ndarray, "N 3"]:
        looking = int(rng.binomial(num, self.near_objects)) if len(places.objects) else 0
        return np.concatenate([places.object_poses(rng, looking), places.random_poses(rng, num - looking)])

    def _add_surroundings(
        self,
        frames: dict[str, np.ndarray],
        surroundings: Sequence[Surroundings],
        which: Int64[np.ndarray, " B"],
        poses: Float64[np.ndarray, "B 3"],
    ) -> None:
        instance_id, parts = frames.pop("instance_id"), []
        for house in np.unique(which):
            rows = which == house
            shown = poses[rows], instance_id[rows], frames["depth"][rows]
            parts.append(surroundings[house].seen(*shown, self.camera, every=self.every))
        for name, of_houses in zip(("color_id", "room_id"), zip(*parts, strict=True), strict=True):
            frames[name] = np.concatenate(of_houses)

    def _prepare(self, index: int) -> tuple[Scene, Places, Surroundings | None]:
        house = self.houses[index]
        scene = build_scene(house, load_catalog())
        return scene, find_places(house, scene), None if self.every is None else Surroundings.of(house)


@runtime_checkable
class HouseSource(Protocol):
    """A source of houses by split, such as `data.source.Source`."""

    houses: Mapping[str, Sequence[House]]


class RenderedFrames(pl.LightningDataModule):
    """`Frames` of train houses, new ones each epoch, and a fixed set of val houses.

    `num_workers=0` renders in this process on all cores, which suits training on the CPU. With a GPU, one worker
    renders while the GPU learns.
    """

    def __init__(
        self,
        source: HouseSource,
        *,
        batch_size: int,
        batches_per_epoch: int,
        val_batches: int,
        seed: int,
        near_objects: float = 0.5,
        num_workers: int = 0,
        camera: Camera | None = None,
        surroundings_every: int | None = None,
    ) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed, self.num_workers = source, batch_size, seed, num_workers
        self.batches_per_epoch, self.val_batches = batches_per_epoch, val_batches
        self.near_objects, self.camera = near_objects, camera or Camera()
        self.surroundings_every = surroundings_every

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that the network in training has to fit."""
        named = {} if self.surroundings_every is None else {"num_colors": len(COLORS), "num_rooms": len(ROOMS)}
        return {
            "num_classes": len(CLASSES),
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
            self.source.houses[split],
            num_batches=num_batches,
            batch_size=self.batch_size,
            seed=seed,
            camera=self.camera,
            near_objects=self.near_objects,
            part=slice(self.trainer.global_rank, None, self.trainer.world_size),
            surroundings_every=self.surroundings_every,
        )

    def train_dataloader(self) -> DataLoader:
        if not hasattr(self, "_train"):
            self._train = self.frames("train", self.batches_per_epoch, [])
        self._train.seed = [self.seed, self.trainer.current_epoch]
        return DataLoader(self._train, batch_size=None, num_workers=self.num_workers)

    def val_dataloader(self) -> DataLoader:
        if not hasattr(self, "_val"):
            self._val = self.frames("val", self.val_batches, [0, 0])
        return DataLoader(self._val, batch_size=None, num_workers=self.num_workers)
