"""`Airspace`: where one can fly in a city: the height of the lowest free place above each square metre, and regions.

A place that is free at one height is free at all heights above it, up to the ceiling. So levels are nested, and
climbing is never refused below the ceiling.

Axes: G grid side (rows follow z, columns follow x), C coarse side, L levels, N poses. Metres.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import no_type_check

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int16, Int64
from numba import njit

from eqa.envs.actions import ActionSet
from eqa.envs.city.city import LOWEST_M, City, Rect, bounds_of
from eqa.envs.navigation.floor import Floor

SIDE_M, CELL_M = 480.0, 1.0  # of the grid, which holds every city
ORIGIN = (-SIDE_M / 2, -SIDE_M / 2)
COARSE = 2  # cells a side of a cell of `Airspace.floors`, on which distances are measured
CEILING_M = 82.0
AROUND_M, ABOVE_M = 1.0, 0.5  # room that is kept from buildings, at their sides and above
AROUND_PROPS_M = 0.4
POLE_M = 0.4  # width of a lamp or a trunk


@dataclass(frozen=True)
class Airspace:
    scene_id: str
    height_m: Float32[np.ndarray, "G G"]  # the lowest free place of each cell, inf outside the city
    region: Int16[np.ndarray, "G G"]  # index of the city's region, -1 outside
    actions: ActionSet

    @property
    def num_levels(self) -> int:
        return num_levels(self.actions)

    @property
    def levels_m(self) -> Float64[np.ndarray, " L"]:
        """Heights of the flight levels, from the lowest."""
        return LOWEST_M + np.arange(self.num_levels) * self.actions.climb_m

    @cached_property
    def coarse_height_m(self) -> Float32[np.ndarray, "C C"]:
        side = self.height_m.shape[0] // COARSE
        return self.height_m.reshape(side, COARSE, side, COARSE).max(axis=(1, 3))

    @cached_property
    def floors(self) -> list[Floor]:
        """The free area of each level; the lowest one may have parts that no way connects."""
        cell_m = CELL_M * COARSE
        return [
            Floor(self.scene_id, ORIGIN, cell_m, self.coarse_height_m <= level, float(level), self.actions)
            for level in self.levels_m
        ]

    def level_of(self, y_m: float) -> int:
        """Index of the level that is nearest to a height."""
        if self.num_levels == 1:
            return 0
        return min(max(round((y_m - LOWEST_M) / self.actions.climb_m), 0), self.num_levels - 1)

    def is_free(self, poses: Float64[np.ndarray, "N 4"]) -> Bool[np.ndarray, " N"]:
        """True for poses at which an agent can be."""
        height = _heights_at(self.height_m, np.ascontiguousarray(poses[:, :3], np.float64))
        return (height <= poses[:, 1]) & (poses[:, 1] <= CEILING_M)

    def is_on_level(self, heights_m: Float64[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
        """True for heights of flight levels."""
        return (np.abs(heights_m[:, None] - self.levels_m) < 1e-6).any(axis=1)


def num_levels(actions: ActionSet) -> int:
    """Flight levels below the ceiling; one for agents that do not climb."""
    return (
        int((CEILING_M - LOWEST_M) / actions.climb_m + 1e-9) + 1 if "up" in actions.names and actions.climb_m > 0 else 1
    )


def build_airspace(city: City, actions: ActionSet) -> Airspace:
    """The airspace of a city for agents with these actions. ValueError for a city that the grid does not hold."""
    side = round(SIDE_M / CELL_M)
    if max(abs(edge) for edge in city.rect) > SIDE_M / 2 - 2 * CELL_M * COARSE:
        raise ValueError(
            f"{city.id}: expected a city within {SIDE_M / 2 - 2 * CELL_M * COARSE:g} m of (0, 0), got {city.rect}"
        )
    height = np.full((side, side), np.inf, np.float32)
    region = np.full((side, side), -1, np.int16)
    height[_inner(city.rect, COARSE * CELL_M)] = LOWEST_M
    for k, street in enumerate(city.streets):
        region[_inner(street.rect)] = len(city.blocks) + k
    for k, block in enumerate(city.blocks):
        region[_inner(block.rect)] = k
    for rect, top_m in _obstacles(city):
        part = height[_outer(rect)]
        np.maximum(part, np.float32(top_m), out=part)
    return Airspace(city.id, height, region, actions)


def _obstacles(city: City) -> Iterable[tuple[Rect, float]]:
    """Rectangles that agents keep out of, and the height up to which they do."""
    for one in city.buildings:
        for box in one.boxes:
            yield _grown(box.rect, AROUND_M), box.high_m + one.ridge_m + ABOVE_M
    for prop in city.props:
        top_m = prop.position[1] + prop.size_m[1]
        if top_m <= LOWEST_M:
            continue
        x, _, z = prop.position
        if prop.name == "street lamp":
            yield (x - POLE_M / 2, z - POLE_M / 2, x + POLE_M / 2, z + POLE_M / 2), top_m
        else:
            corners = bounds_of([(*corner, *corner) for corner in prop.footprint()])
            yield _grown(corners, AROUND_PROPS_M), top_m + ABOVE_M


def _grown(rect: Rect, by: float) -> Rect:
    return rect[0] - by, rect[1] - by, rect[2] + by, rect[3] + by


def _inner(rect: Rect, cell_m: float = CELL_M) -> tuple[slice, slice]:
    """Rows and columns of the grid whose cells of side `cell_m` lie inside a rectangle."""
    x0, z0, x1, z1 = ((edge - ORIGIN[0]) / cell_m for edge in rect)
    cells = round(cell_m / CELL_M)
    return (
        slice(cells * ceil(z0 - 1e-9), cells * floor(z1 + 1e-9)),
        slice(cells * ceil(x0 - 1e-9), cells * floor(x1 + 1e-9)),
    )


def _outer(rect: Rect) -> tuple[slice, slice]:
    """Rows and columns of cells that a rectangle reaches into."""
    x0, z0, x1, z1 = ((edge - ORIGIN[0]) / CELL_M for edge in rect)
    return slice(floor(z0 + 1e-9), ceil(z1 - 1e-9)), slice(floor(x0 + 1e-9), ceil(x1 - 1e-9))


@njit(inline="always", error_model="numpy")
@no_type_check
def height_at(height, x, z):
    """The lowest free place above a point of the plan; inf outside the grid."""
    column, row = (x - ORIGIN[0]) / CELL_M, (z - ORIGIN[1]) / CELL_M
    if not (0 <= column < height.shape[1] and 0 <= row < height.shape[0]):
        return np.float32(np.inf)
    return height[int(row), int(column)]


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def way_is_clear(height, x, y, z, dx, dz):
    """True if the level move by (dx, dz) from a free place stays free, sampled once per cell or closer."""
    samples = int(np.ceil(np.hypot(dx, dz) / CELL_M))
    for i in range(1, samples + 1):
        if not height_at(height, x + dx * i / samples, z + dz * i / samples) <= y:
            return False
    return True


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _heights_at(height, points):
    out = np.empty(points.shape[0], np.float32)
    for n in range(points.shape[0]):
        out[n] = height_at(height, points[n, 0], points[n, 2])
    return out


def region_at(region: Int16[np.ndarray, "G G"], points: Float64[np.ndarray, "N D"]) -> Int64[np.ndarray, " N"]:
    """Regions at points (x, z); -1 outside the grid."""
    cells = np.floor((points - np.array(ORIGIN)) / CELL_M).astype(np.int64)
    inside = ((cells >= 0) & (cells < region.shape[0])).all(axis=1)
    column, row = np.clip(cells, 0, region.shape[0] - 1).T
    return np.where(inside, region[row, column], -1).astype(np.int64)
