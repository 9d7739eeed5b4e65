"""`Floor`: free level ground, an agent's moves on it, and geodesic distances from anywhere to a goal.

An agent is a cylinder that fits on `free` cells. A forward move is all or nothing: it is refused if any sample along
it, one per cell or closer, is not free. See `envs.episode` for the frame.

Axes: N positions, P goals, G grid side (rows follow z, columns follow x), D the plan's two axes, C free cells in
row-major order, B blocks of 64 cells.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, no_type_check

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64
from numba import get_num_threads, njit

from eqa.envs.actions import HOUSE_ACTIONS, Action, ActionSet
from eqa.envs.episode import PLAN, Pose
from eqa.envs.navigation.geodesic import march
from eqa.envs.simulator import Goal

FORWARD, LEFT, RIGHT = int(Action.FORWARD), int(Action.LEFT), int(Action.RIGHT)
BLOCK = 64
Item, Result = TypeVar("Item"), TypeVar("Result")


@dataclass(frozen=True)
class Floor:
    """The reachable part of one scene on a square grid. `free` is one connected area that never touches the border."""

    scene_id: str
    origin: tuple[float, float]  # (x, z) of the grid's corner, metres
    cell_m: float
    free: Bool[np.ndarray, "G G"]
    y_m: float = 0.0  # height of the ground
    actions: ActionSet = HOUSE_ACTIONS

    def __post_init__(self):
        border = (self.free[0], self.free[-1], self.free[:, 0], self.free[:, -1])
        if any(edge.any() for edge in border):
            raise ValueError(f"floor of {self.scene_id}: expected a blocked border, got free cells on it")
        if not self.free.any():
            raise ValueError(
                f"floor of {self.scene_id}: nothing is free, an agent fits nowhere; check walls and furniture"
            )

    @cached_property
    def num_free(self) -> int:
        return int(np.count_nonzero(self.free))

    @cached_property
    def block_start(self) -> Int32[np.ndarray, " B"]:
        """Number of free cells before each block of 64; it makes a cell's place among the free ones a short count."""
        return block_starts(self.free)

    @property
    def grid(self) -> tuple[Bool[np.ndarray, "G G"], float, float, float]:
        """Arguments of compiled loops: free, the corner's x and z, the cell's side."""
        return self.free, *self.origin, self.cell_m

    @cached_property
    def centres(self) -> Float64[np.ndarray, "C 2"]:
        """Positions (x, z) of all free cells' centres."""
        rows, columns = np.nonzero(self.free)
        return (np.stack([columns, rows], axis=1) + 0.5) * self.cell_m + np.asarray(self.origin)

    def places(self, spacing_m: float) -> Float64[np.ndarray, "N 3"]:
        """Free places (x, y, z) on a raster, about `spacing_m` apart."""
        stride = max(round(spacing_m / self.cell_m), 1)
        rows, columns = np.nonzero(self.free[::stride, ::stride])
        at = (np.stack([columns, rows], axis=1) * stride + 0.5) * self.cell_m + np.asarray(self.origin)
        return self.stand(at, np.zeros(len(at)))[:, :3]

    def stand(
        self, positions: Float64[np.ndarray, "N 2"], headings_rad: Float64[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N 4"]:
        """Poses on the ground at positions (x, z)."""
        x, z = np.asarray(positions, np.float64).T
        return np.column_stack([x, np.full(len(x), self.y_m), z, headings_rad])

    def is_free(self, positions: Float64[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
        """True for positions (x, z) that an agent can stand at."""
        return free_cells(self, positions) >= 0

    def expand(self, field: Float32[np.ndarray, " C"]) -> Float32[np.ndarray, "G G"]:
        """A field of free cells as a grid, inf elsewhere: for pictures."""
        grid = np.full(self.free.shape, np.inf, np.float32)
        grid[self.free] = field
        return grid


def goal_mask(floor: Floor, goal: Goal) -> Bool[np.ndarray, "G G"]:
    """The cells at distance 0 of a goal: centre within the radius of a view point, straight way to it free.

    ValueError names the house and the goal if there is no such cell.
    """
    mask = np.zeros(floor.free.shape, np.bool_)
    for x, z in (view[PLAN] for view in goal.view_points):
        _mark_disc(mask, *floor.grid, x, z, goal.radius_m)
    if not mask.any():
        raise ValueError(
            f"{floor.scene_id}: unreachable target, no free floor within {goal.radius_m} m of {goal.view_points}"
        )
    return mask


def distance_fields(floor: Floor, goals: Sequence[Goal]) -> Float32[np.ndarray, "P C"]:
    """Geodesic metres from every free cell to each goal, computed side by side; ValueError for an unreachable goal."""
    fields = np.empty((len(goals), floor.num_free), np.float32)

    def fill(p: int) -> None:
        march(floor.free, goal_mask(floor, goals[p]), fields[p], floor.cell_m)

    side_by_side(fill, range(len(goals)))
    return fields


def side_by_side(task: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Results of a task whose compiled loops run without Python's lock, on as many threads as Numba uses.

    Such loops compile much faster than loops that are parallel by themselves. The first error is raised.
    """
    with ThreadPoolExecutor(get_num_threads()) as pool:
        return list(pool.map(task, items))


def free_cells(floor: Floor, positions: Float64[np.ndarray, "N D"]) -> Int64[np.ndarray, " N"]:
    """Index of the cell of each position (x, z) among the free cells (the axis C of a field), -1 for a blocked one.

    ValueError for anything but two columns: a pose has four.
    """
    positions = np.asarray(positions, np.float64)
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError(f"positions: expected shape (N, 2) of x and z, got {positions.shape}; give poses[:, PLAN]")
    cells = np.empty(len(positions), np.int64)
    _free_cells(cells, floor.block_start, positions, *floor.grid)
    return cells


def distances_at(
    floor: Floor, field: Float32[np.ndarray, " C"], positions: Float64[np.ndarray, "N D"]
) -> Float32[np.ndarray, " N"]:
    """Geodesic metres at positions (x, z); inf at blocked ones."""
    cells = free_cells(floor, positions)
    return np.where(cells >= 0, field[cells], np.float32(np.inf))


def far_places(
    floor: Floor, field: Float32[np.ndarray, " C"], *, farthest: float = 0.2, within_m: float = np.inf
) -> Float64[np.ndarray, "F 2"]:
    """Positions (x, z) of the `farthest` share of the floor within `within_m` of the goal, by distance to it."""
    reached = field[field <= within_m]
    first = int(len(reached) * (1 - farthest))
    return floor.centres[(field >= np.partition(reached, first)[first]) & (field <= within_m)]


def sample_start(floor: Floor, rng: np.random.Generator, places: Float64[np.ndarray, "F 2"]) -> Pose:
    """A random pose at one of the places, with any heading."""
    x, z = places[rng.integers(len(places))].tolist()
    return x, floor.y_m, z, float(floor.actions.headings_rad[rng.integers(floor.actions.num_headings)])


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def block_starts(free):
    """The array `Floor.block_start`."""
    flat = free.ravel()
    starts = np.empty((flat.size + BLOCK - 1) // BLOCK, np.int32)
    count = 0
    for block in range(starts.size):
        starts[block] = count
        for cell in range(block * BLOCK, min((block + 1) * BLOCK, flat.size)):
            count += flat[cell]
    return starts


@njit(inline="always", error_model="numpy")
@no_type_check
def cell_at(free, origin_x, origin_z, cell_m, x, z):
    """Flat index of a position's free cell, -1 if the position is blocked or off the grid."""
    column, row = (x - origin_x) / cell_m, (z - origin_z) / cell_m
    if not (0 <= column < free.shape[1] and 0 <= row < free.shape[0]):
        return -1
    if not free[int(row), int(column)]:
        return -1
    return int(row) * free.shape[1] + int(column)


@njit(inline="always", error_model="numpy")
@no_type_check
def free_index(free, starts, cell):
    """Place of a free cell, given by its flat index, among the free cells."""
    flat = free.ravel()
    index = starts[cell // BLOCK]
    for before in range(cell - cell % BLOCK, cell):
        index += flat[before]
    return index


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def way_is_free(free, origin_x, origin_z, cell_m, x, z, dx, dz):
    """True if the straight move by (dx, dz) from a free position stays free, sampled once per cell or closer."""
    samples = int(np.ceil(np.hypot(dx, dz) / cell_m))
    for i in range(1, samples + 1):
        if cell_at(free, origin_x, origin_z, cell_m, x + dx * i / samples, z + dz * i / samples) < 0:
            return False
    return True


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def in_goal_disc(free, origin_x, origin_z, cell_m, view_x, view_z, radius_m, cell):
    """True if a free cell's centre is within the radius of a view point with nothing in between."""
    x = origin_x + (cell % free.shape[1] + 0.5) * cell_m
    z = origin_z + (cell // free.shape[1] + 0.5) * cell_m
    dx, dz = x - view_x, z - view_z
    return dx * dx + dz * dz <= radius_m * radius_m and way_is_free(
        free, origin_x, origin_z, cell_m, view_x, view_z, dx, dz
    )


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _mark_disc(mask, free, origin_x, origin_z, cell_m, x, z, radius_m):
    if cell_at(free, origin_x, origin_z, cell_m, x, z) < 0:
        return
    row_0, row_1 = (int((z - radius_m - origin_z) / cell_m), int((z + radius_m - origin_z) / cell_m))
    column_0, column_1 = (int((x - radius_m - origin_x) / cell_m), int((x + radius_m - origin_x) / cell_m))
    for row in range(max(row_0, 0), min(row_1, free.shape[0] - 1) + 1):
        for column in range(max(column_0, 0), min(column_1, free.shape[1] - 1) + 1):
            cell = row * free.shape[1] + column
            if free[row, column] and in_goal_disc(free, origin_x, origin_z, cell_m, x, z, radius_m, cell):
                mask[row, column] = True


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _free_cells(cells, starts, positions, free, origin_x, origin_z, cell_m):
    for n in range(positions.shape[0]):
        cell = cell_at(free, origin_x, origin_z, cell_m, positions[n, 0], positions[n, 1])
        cells[n] = -1 if cell < 0 else free_index(free, starts, cell)
