"""`Surroundings`: the colour name of each thing in a view, and the name of the region that it is in.

Questions ask about these besides the names of things, so they are targets for an encoder. The renderer tells the object
of a pixel, the annotations its colour and region: in a house, a room. Surfaces without an object, such as walls and
floors, belong to the region in which they lie.

Axes: B views, H W frame, h w sampled pixels of it, O highest id of an object, G grid side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, UInt8, UInt16

from eqa.envs.annotations import PALETTE, Annotations, Thing
from eqa.envs.navigation.occupancy import fill_polygon
from eqa.envs.rendering.camera import Camera

COLORS: tuple[str, ...] = tuple(PALETTE)
UNNAMED = 255  # a colour without a common name, or a region of unknown name
CELL_M = 0.1  # walls are thicker, so a cell on a wall's face lies in the room that the face is in


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Labels of one scene; ids are indices into COLORS and the world's names of regions, or UNNAMED."""

    color: UInt8[np.ndarray, " O1"]  # by instance id; 0 is the building
    room: UInt8[np.ndarray, " O1"]
    corner: tuple[float, float]  # x, z of the grid's corner, metres
    grid: UInt8[np.ndarray, "G G"]  # rooms from above, rows follow z

    @classmethod
    def of(cls, annotations: Annotations, region_names: Sequence[str]) -> "Surroundings":
        rooms = [_place(region_names, region.name) for region in annotations.regions]
        corners = np.concatenate([np.asarray(region.outline, np.float64) for region in annotations.regions])
        low = corners.min(0) - CELL_M
        side = int(np.ceil((corners.max(0) - low).max() / CELL_M)) + 1
        grid = np.full((side, side), UNNAMED, np.uint8)
        for number, region in zip(rooms, annotations.regions, strict=True):
            inside = np.zeros((side, side), np.uint8)
            fill_polygon(inside, (np.asarray(region.outline, np.float64) - low) / CELL_M)
            grid[inside > 0] = number
        color, room = np.full((2, 1 + max((t.id for t in annotations.things), default=0)), UNNAMED, np.uint8)
        for thing in annotations.things:
            color[thing.id] = _place(COLORS, thing.color)
            room[thing.id] = _place_of(thing, annotations, region_names)
        return cls(color, room, (float(low[0]), float(low[1])), grid)

    def rooms_at(self, x: Float64[np.ndarray, "*S"], z: Float64[np.ndarray, "*S"]) -> UInt8[np.ndarray, "*S"]:
        """The rooms in which points lie; UNNAMED outside."""
        column = np.floor((x - self.corner[0]) / CELL_M).astype(np.int64)
        row = np.floor((z - self.corner[1]) / CELL_M).astype(np.int64)
        side = len(self.grid)
        known = (column >= 0) & (column < side) & (row >= 0) & (row < side)
        return np.where(known, self.grid[row.clip(0, side - 1), column.clip(0, side - 1)], np.uint8(UNNAMED))

    def seen(
        self,
        poses: Float64[np.ndarray, "B 4"],
        instance_id: UInt16[np.ndarray, "B H W"],
        depth: Float32[np.ndarray, "B H W"],
        camera: Camera,
        *,
        every: int,
    ) -> tuple[UInt8[np.ndarray, "B h w"], UInt8[np.ndarray, "B h w"]]:
        """Colours and rooms of the pixels that `sampled` takes."""
        things, far = (sampled(image, every) for image in (instance_id, depth))
        x, z = points(poses, far.astype(np.float64), camera, every=every)
        room = np.where(things > 0, self.room[things], self.rooms_at(x, z))
        return self.color[things], np.where(far > 0, room, np.uint8(UNNAMED))


def _place_of(thing: Thing, annotations: Annotations, region_names: Sequence[str]) -> int:
    """The last word of a thing's label, such as a shop's kind; for others, the region that it is in."""
    written = _place(region_names, thing.label.split()[-1].lower()) if thing.label else UNNAMED
    if written != UNNAMED or thing.region < 0:
        return written
    return _place(region_names, annotations.regions[thing.region].name)


def _place(names: Sequence[str], name: str | None) -> int:
    return names.index(name) if name in names else UNNAMED


def sampled(frame: np.ndarray, every: int) -> np.ndarray:
    """Every `every`-th row and column of frames (B, H, W, ...), from the middle of the first block."""
    return frame[:, every // 2 :: every, every // 2 :: every]


def points(
    poses: Float64[np.ndarray, "B 4"], depth: Float64[np.ndarray, "B h w"], camera: Camera, *, every: int
) -> tuple[Float64[np.ndarray, "B h w"], Float64[np.ndarray, "B h w"]]:
    """x and z of the points shown by sampled pixels, for a level camera."""
    column = every // 2 + every * np.arange(depth.shape[2], dtype=np.int64)
    right = depth * (column + 0.5 - camera.width_px / 2) / camera.focal_px
    x, z, heading = (poses[:, axis, None, None] for axis in (0, 2, 3))
    s, c = np.sin(heading), np.cos(heading)
    return x - s * depth + c * right, z - c * depth - s * right
