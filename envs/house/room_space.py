"""`Space`: the things in a room, and a test that one more fits without blocking a door, a window or the way.

Everything is a box with sides along x and z. Walking is tested on a grid: passages of about 0.55 m must join all doors
and come close to every piece of furniture.
"""

from dataclasses import dataclass, field
from math import fsum
from typing import no_type_check

import numba
import numpy as np

from eqa.envs.house.geometry import Point, Side, contains, inner_outline, room_sides, signed_area
from eqa.envs.house.house import House

Rect = tuple[float, float, float, float]  # x0, x1, z0, z1

_CELL_M = 0.1
_PASSAGE_M = 0.27  # half of the width that must stay free
_REACH_M = 0.55  # a person must come this near to every piece of furniture
_STRIP_M = 1.0  # depth that stays clear on both sides of a door, for walking and for its leaf
_FLAT_M = 0.06  # lower things on the floor may be walked and stood on: rugs
_HEAD_M = 2.05  # things that hang higher are in nobody's way


@dataclass(slots=True)
class Box:
    """Something placed. `quarter` counts quarter turns: 0 looks along +Z, 1 along +X, 2 along -Z, 3 along -X."""

    x: float
    z: float
    y0: float
    size_m: tuple[float, float, float]
    quarter: int
    rule_front_m: float = 0.0  # depth before it that stays free of furniture
    against_wall: bool = False
    on: int | None = None  # place of its support in `Space.boxes`
    parent: int | None = None  # place of the box that it belongs to: a chair's table
    kind: str = ""
    category: str = ""
    top_m: float | None = None  # height above y0 at which things may stand

    @property
    def y1(self) -> float:
        return self.y0 + self.size_m[1]

    @property
    def facing(self) -> Point:
        return FACINGS[self.quarter]

    @property
    def is_flat(self) -> bool:
        return self.y0 < 0.01 and self.size_m[1] <= _FLAT_M

    @property
    def blocks(self) -> bool:
        return self.y0 < 1.0 and self.y1 > 0.1 and not self.is_flat

    def rect(self, grow_m: float = 0.0) -> Rect:
        w, _, d = self.size_m
        if self.quarter % 2:
            w, d = d, w
        return (self.x - w / 2 - grow_m, self.x + w / 2 + grow_m, self.z - d / 2 - grow_m, self.z + d / 2 + grow_m)

    def front(self) -> Rect | None:
        """The floor before it that stays free, None if it asks for none."""
        if self.rule_front_m <= 0 or not self.blocks or self.on is not None:
            return None
        fx, fz = self.facing
        reach = self.size_m[2] / 2 + self.rule_front_m / 2
        half = max(self.size_m[0] / 2 - 0.05, 0.1)
        w, d = (self.rule_front_m / 2, half) if self.quarter % 2 else (half, self.rule_front_m / 2)
        x, z = self.x + fx * reach, self.z + fz * reach
        return (x - w, x + w, z - d, z + d)


FACINGS: tuple[Point, ...] = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Stretch:
    """A straight piece of visible wall, perhaps shared with several rooms; `quarter` faces into the room."""

    start: Point
    along: Point
    quarter: int
    length_m: float
    height_m: float

    def point(self, s: float, out: float) -> Point:
        ix, iz = FACINGS[self.quarter]
        return (self.start[0] + self.along[0] * s + ix * out, self.start[1] + self.along[1] * s + iz * out)


@dataclass(slots=True)
class Space:
    """One room while it is being furnished. Only rooms whose walls run along x and z can be furnished."""

    type: str
    outline: list[Point]
    stretches: list[Stretch]
    strips: list[Rect]
    windows: list[tuple[Rect, float, float]]
    boxes: list[Box] = field(default_factory=list)
    _grid: "_WalkGrid | None" = None

    @classmethod
    def of(cls, house: House, room: int) -> "Space":
        sides = room_sides(house, room)
        outline = inner_outline(sides)
        strips, windows, seeds = [], [], []
        for side in sides:
            for index, start, end in side.openings:
                opening = house.openings[index]
                if opening.kind == "window":
                    windows.append((_zone(side, start, end, 0.3), opening.bottom_m, opening.top_m))
                else:
                    strips.append(_zone(side, start - 0.1, end + 0.1, _STRIP_M))
                    seeds.append(_along(side, (start + end) / 2, 0.35))
        space = cls(house.rooms[room].type, outline, _stretches(house, sides), strips, windows)
        space._grid = _WalkGrid(outline, seeds)
        return space

    def fits(self, box: Box) -> bool:
        """True if `box` may be added. It may stand in the front zone of the box that it belongs to."""
        rect = box.rect()
        family = self._family(box)
        if not self.holds(rect):
            return False
        if not box.is_flat and box.on is None and not self._clear_of_openings(box, rect):
            return False
        for place, other in enumerate(self.boxes):
            if place == box.on:
                continue
            if box.is_flat and other.y0 < 1 and not other.is_flat and box.on is None:
                continue
            if other.is_flat and not box.is_flat:
                continue
            if box.y0 < other.y1 - 1e-6 and other.y0 < box.y1 - 1e-6 and _overlap(rect, other.rect()):
                return False
            if box.blocks and box.on is None and place not in family:
                zone = other.front()
                if zone is not None and _overlap(rect, zone):
                    return False
                zone = box.front()
                if zone is not None and other.blocks and other.on is None and _overlap(zone, other.rect()):
                    return False
        if box.blocks and box.on is None:
            zone = box.front()
            if zone is not None and not contains(self.outline, ((zone[0] + zone[1]) / 2, (zone[2] + zone[3]) / 2)):
                return False
            standing = [other for other in self.boxes if other.blocks and other.on is None]
            return self._grid.walkable([other.rect() for other in standing] + [rect])
        return True

    @property
    def area_m2(self) -> float:
        return signed_area(self.outline)

    def _family(self, box: Box) -> list[int]:
        family, parent = [], box.parent
        while parent is not None:
            family.append(parent)
            parent = self.boxes[parent].parent
        return family

    def add(self, box: Box) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1

    def holds(self, rect: Rect) -> bool:
        x0, x1, z0, z1 = rect[0] + 1e-4, rect[1] - 1e-4, rect[2] + 1e-4, rect[3] - 1e-4
        if not contains(self.outline, ((x0 + x1) / 2, (z0 + z1) / 2)):
            return False
        for (ax, az), (bx, bz) in zip(self.outline, self.outline[1:] + self.outline[:1], strict=True):
            if min(ax, bx) < x1 and max(ax, bx) > x0 and min(az, bz) < z1 and max(az, bz) > z0:
                return False
        return True

    def _clear_of_openings(self, box: Box, rect: Rect) -> bool:
        if box.y0 < _HEAD_M and any(_overlap(rect, strip) for strip in self.strips):
            return False
        return box.category == "curtain" or not any(
            _overlap(rect, zone) and box.y1 > bottom + 0.03 and box.y0 < top for zone, bottom, top in self.windows
        )


def _overlap(a: Rect, b: Rect) -> bool:
    return a[0] < b[1] - 1e-6 and b[0] < a[1] - 1e-6 and a[2] < b[3] - 1e-6 and b[2] < a[3] - 1e-6


def _along(side: Side, s: float, out: float) -> Point:
    (ax, az), (ix, iz) = side.along, side.inward
    return (side.start[0] + ax * s + ix * out, side.start[1] + az * s + iz * out)


def _zone(side: Side, start: float, end: float, depth: float) -> Rect:
    a, b = _along(side, start, -0.01), _along(side, end, depth)
    return (min(a[0], b[0]), max(a[0], b[0]), min(a[1], b[1]), max(a[1], b[1]))


def _stretches(house: House, sides: list[Side]) -> list[Stretch]:
    """Faces that continue one another in a straight line, joined."""
    runs: list[list[Side]] = []
    for side in sides:
        if runs and _continues(runs[-1][-1], side):
            runs[-1].append(side)
        else:
            runs.append([side])
    if len(runs) > 1 and _continues(runs[-1][-1], runs[0][0]):
        runs[0] = runs.pop() + runs[0]
    stretches = []
    for run in runs:
        inward = run[0].inward
        quarter = max(range(4), key=lambda q: FACINGS[q][0] * inward[0] + FACINGS[q][1] * inward[1])
        length = fsum(side.length_m for side in run)
        height_m = min(house.walls[side.wall].height_m or house.height_m for side in run)
        stretches.append(Stretch(run[0].start, run[0].along, quarter, length, height_m))
    return stretches


def _continues(a: Side, b: Side) -> bool:
    same_way = a.inward[0] * b.inward[0] + a.inward[1] * b.inward[1] > 0.999
    return same_way and abs(a.end[0] - b.start[0]) + abs(a.end[1] - b.start[1]) < 1e-3


def free_spans(space: Space, depth_m: float) -> list[tuple[Stretch, float, float]]:
    """Pieces of wall, from - to along their stretch, with no door in the way up to `depth_m` before them."""
    spans = []
    for stretch in space.stretches:
        taken = []
        for x0, x1, z0, z1 in space.strips:
            corners = [_in_stretch(stretch, point) for point in ((x0, z0), (x1, z1))]
            (s0, s1), (out0, out1) = (sorted(values) for values in zip(*corners, strict=True))
            if out0 < depth_m and out1 > 0.05 and s1 > 0 and s0 < stretch.length_m:
                taken.append((s0, s1))
        start = 0.0
        for s0, s1 in [*sorted(taken), (stretch.length_m, stretch.length_m)]:
            if s0 - start > 0.4:
                spans.append((stretch, start, s0))
            start = max(start, s1)
    return spans


def windows_along(space: Space) -> list[tuple[Stretch, float, float, float]]:
    """Each window's wall, from - to along it, and its top."""
    found = []
    for (x0, x1, z0, z1), _, top in space.windows:
        for stretch in space.stretches:
            corners = [_in_stretch(stretch, point) for point in ((x0, z0), (x1, z1))]
            (s0, s1), (out0, _) = (sorted(values) for values in zip(*corners, strict=True))
            if abs(out0 + 0.01) < 1e-6 and s0 >= 0 and s1 <= stretch.length_m:
                found.append((stretch, s0, s1, top))
    return found


def _in_stretch(stretch: Stretch, point: Point) -> Point:
    dx, dz = point[0] - stretch.start[0], point[1] - stretch.start[1]
    ix, iz = FACINGS[stretch.quarter]
    return dx * stretch.along[0] + dz * stretch.along[1], dx * ix + dz * iz


class _WalkGrid:
    """Cells of a room that a person can stand on, and a flood from the first door over them."""

    def __init__(self, outline: list[Point], seeds: list[Point]) -> None:
        xs, zs = [x for x, _ in outline], [z for _, z in outline]
        self.x0, self.z0 = min(xs), min(zs)
        columns = int((max(xs) - self.x0) / _CELL_M) + 1
        rows = int((max(zs) - self.z0) / _CELL_M) + 1
        x = self.x0 + (np.arange(columns) + 0.5) * _CELL_M
        z = self.z0 + (np.arange(rows) + 0.5) * _CELL_M
        self.x, self.z = x, z
        edges = np.array([(*a, *b) for a, b in zip(outline, outline[1:] + outline[:1], strict=True)])
        self.free = _room_cells(x, z, edges, 0.25)
        self.seeds = np.array([self._cell(point) for point in seeds], np.int64).reshape(-1, 2)

    def _cell(self, point: Point) -> tuple[int, int]:
        row = int((point[1] - self.z0) / _CELL_M)
        column = int((point[0] - self.x0) / _CELL_M)
        return min(max(row, 0), len(self.z) - 1), min(max(column, 0), len(self.x) - 1)

    def walkable(self, rects: list[Rect]) -> bool:
        if not len(self.seeds):
            return True
        return _all_reached(self.free, self.x, self.z, self.seeds, np.array(rects), _PASSAGE_M, _REACH_M)


@numba.njit(cache=True)
@no_type_check
def _room_cells(x, z, edges, margin):
    """Cells (rows z, columns x) inside the outline and at least `margin` from its edges (E, 4), along x or z."""
    free = np.zeros((len(z), len(x)), np.bool_)
    for r in range(len(z)):
        for c in range(len(x)):
            inside = False
            near = False
            for e in range(len(edges)):
                ax, az, bx, bz = edges[e]
                if (az > z[r]) != (bz > z[r]) and x[c] < ax + (z[r] - az) / (bz - az) * (bx - ax):
                    inside = not inside
                dx = max(min(ax, bx) - x[c], 0.0, x[c] - max(ax, bx))
                dz = max(min(az, bz) - z[r], 0.0, z[r] - max(az, bz))
                near = near or max(dx, dz) < margin
            free[r, c] = inside and not near
    return free


@numba.njit(cache=True)
@no_type_check
def _all_reached(free, x, z, seeds, rects, passage, reach):
    """True if a flood from the first seed meets every seed and comes near every rectangle."""
    rows, columns = free.shape
    state = free.astype(np.uint8)  # 1 free, 2 reached
    for k in range(len(rects)):
        for r in range(rows):
            if rects[k, 2] - passage < z[r] < rects[k, 3] + passage:
                for c in range(columns):
                    if rects[k, 0] - passage < x[c] < rects[k, 1] + passage:
                        state[r, c] = 0
    stack = np.empty((rows * columns, 2), np.int64)
    if state[seeds[0, 0], seeds[0, 1]] == 0:
        return False
    stack[0] = seeds[0]
    state[seeds[0, 0], seeds[0, 1]] = 2
    top = 1
    while top:
        top -= 1
        r, c = stack[top]
        for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            i, j = r + dr, c + dc
            if 0 <= i < rows and 0 <= j < columns and state[i, j] == 1:
                state[i, j] = 2
                stack[top] = i, j
                top += 1
    for s in range(len(seeds)):
        if state[seeds[s, 0], seeds[s, 1]] != 2:
            return False
    for k in range(len(rects)):
        near = False
        for r in range(rows):
            if rects[k, 2] - reach < z[r] < rects[k, 3] + reach:
                for c in range(columns):
                    if state[r, c] == 2 and rects[k, 0] - reach < x[c] < rects[k, 1] + reach:
                        near = True
        if not near:
            return False
    return True
