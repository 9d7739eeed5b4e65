"""`Space`: the things in a room, and a test that one more fits without blocking a door, a window or the way.

Everything is a box with sides along x and z.
"""

from dataclasses import dataclass, field
from math import fsum, inf

from eqa.envs.house.geometry import FLAT_M, Point, Side, inner_outline, room_sides, signed_area
from eqa.envs.house.house import House
from eqa.envs.house.support import Top
from eqa.envs.house.walk_grid import Rect, WalkGrid

_STRIP_M = (0.85, 1.0)  # depth that stays clear on both sides of a door, for walking and for its leaf
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
    back_m: float = 0.0  # depth behind it that holds no door
    aside_m: float = 0.0  # width at its left and right that holds no window
    shuns_windows: bool = False  # also those that are higher than it
    against_wall: bool = False
    on: int | None = None  # place of its support in `Space.boxes`
    parent: int | None = None  # place of the box that it belongs to: a chair's table
    kind: str = ""
    category: str = ""
    top_m: float | None = None  # height above y0 at which things may stand
    top: Top | None = None  # where on it they may, once somebody has asked

    @property
    def y1(self) -> float:
        return self.y0 + self.size_m[1]

    @property
    def facing(self) -> Point:
        return FACINGS[self.quarter]

    @property
    def is_flat(self) -> bool:
        return self.y0 < 0.01 and self.size_m[1] <= FLAT_M

    @property
    def blocks(self) -> bool:
        return self.y0 < 1.0 and self.y1 > 0.1 and not self.is_flat and self.category != "curtain"

    def rect(self) -> Rect:
        w, _, d = self.size_m
        if self.quarter % 2:
            w, d = d, w
        return (self.x - w / 2, self.x + w / 2, self.z - d / 2, self.z + d / 2)

    def sides(self) -> Rect:
        """Its place with what stays free of windows at its left and right."""
        x0, x1, z0, z1 = self.rect()
        x, z = (0.0, self.aside_m) if self.quarter % 2 else (self.aside_m, 0.0)
        return (x0 - x, x1 + x, z0 - z, z1 + z)

    def back(self) -> Rect:
        """The floor behind it that holds no door."""
        fx, fz = self.facing
        x0, x1, z0, z1 = self.rect()
        reach = (-fx * self.back_m, -fz * self.back_m)
        return (x0 + min(reach[0], 0), x1 + max(reach[0], 0), z0 + min(reach[1], 0), z1 + max(reach[1], 0))

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
    height_m: float
    outline: list[Point]
    stretches: list[Stretch]
    strips: list[Rect]
    windows: list[tuple[Rect, float, float]]
    grid: WalkGrid
    boxes: list[Box] = field(default_factory=list)
    _rects: list[Rect] = field(default_factory=list)  # of the boxes
    _fronts: list[Rect | None] = field(default_factory=list)
    _edges: list[Rect] = field(default_factory=list)  # of the outline

    def __post_init__(self) -> None:
        pairs = zip(self.outline, self.outline[1:] + self.outline[:1], strict=True)
        self._edges = [(min(ax, bx), max(ax, bx), min(az, bz), max(az, bz)) for (ax, az), (bx, bz) in pairs]

    def _contains(self, x: float, z: float) -> bool:
        """True for a point inside the outline: as `geometry.contains`, for walls along x and z."""
        inside = False
        for x0, _, z0, z1 in self._edges:
            if z0 <= z < z1 and x < x0:
                inside = not inside
        return inside

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
                    depth = min(max(opening.width_m + 0.1, _STRIP_M[0]), _STRIP_M[1])
                    strips.append(_zone(side, start - 0.1, end + 0.1, depth))
                    seeds.append(_along(side, (start + end) / 2, 0.35))
        grid = WalkGrid(outline, seeds)
        kind = house.rooms[room].type
        return cls(kind, house.height_m, outline, _stretches(house, sides), strips, windows, grid)

    def fits(self, box: Box) -> bool:
        """True if `box` may be added. It may stand in the front zone of the box that it belongs to."""
        rect = box.rect()
        if box.y1 > self.height_m + 1e-6 or not self.holds(rect):
            return False
        if not box.is_flat and box.on is None and not self._clear_of_openings(box, rect):
            return False
        if any(self._collide(box, place) for place in self._touched(rect)):
            return False
        if not box.blocks or box.on is not None:
            return True
        zone, family = box.front(), self._family(box)
        for place, taken in enumerate(self._fronts):
            if taken and _overlap(rect, taken) and place not in family:
                return False
        if zone is not None:
            if any(self._stands(place) and place not in family for place in self._touched(zone)):
                return False
            if not self._contains((zone[0] + zone[1]) / 2, (zone[2] + zone[3]) / 2):
                return False
        return self.grid.walkable(rect)

    def _stands(self, place: int) -> bool:
        """True if people have to walk round the box."""
        return self.boxes[place].blocks and self.boxes[place].on is None

    def _touched(self, rect: Rect) -> list[int]:
        """Places of the boxes above, below or in a rectangle."""
        x0, x1, z0, z1 = rect[0] + 1e-6, rect[1] - 1e-6, rect[2] + 1e-6, rect[3] - 1e-6
        return [i for i, (a, b, c, d) in enumerate(self._rects) if a < x1 and b > x0 and c < z1 and d > z0]

    def _collide(self, box: Box, place: int) -> bool:
        """True if two things that touch would run into each other; flat things may lie under others."""
        other = self.boxes[place]
        if place == box.on:
            return False
        if box.is_flat and other.y0 < 1 and not other.is_flat and box.on is None:
            return False
        if other.is_flat and not box.is_flat:
            return False
        return box.y0 < other.y1 - 1e-6 and other.y0 < box.y1 - 1e-6

    @property
    def area_m2(self) -> float:
        return signed_area(self.outline)

    @property
    def furnished(self) -> float:
        """Share of the floor under things that stand on it; see `geometry.furnished_share`."""
        standing = [box for box in self.boxes if box.on is None and box.blocks and box.y0 < 0.03]
        return fsum(box.size_m[0] * box.size_m[2] for box in standing) / self.area_m2

    def _family(self, box: Box) -> list[int]:
        family, parent = [], box.parent
        while parent is not None:
            family.append(parent)
            parent = self.boxes[parent].parent
        return family

    def add(self, box: Box) -> None:
        self.boxes.append(box)
        self._rects.append(box.rect())
        self._fronts.append(box.front())
        if self._stands(len(self.boxes) - 1):
            self._stand()

    def cut(self, count: int) -> None:
        """Takes all but the first `count` boxes away."""
        for parts in (self.boxes, self._rects, self._fronts):
            del parts[count:]
        self._stand()

    def _stand(self) -> None:
        self.grid.stand([rect for place, rect in enumerate(self._rects) if self._stands(place)])

    def ahead_m(self, point: Point, quarter: int) -> float:
        """Metres from a point in the room to the wall in the direction of `quarter`."""
        fx, fz = FACINGS[quarter]
        nearest = inf
        for (ax, az), (bx, bz) in zip(self.outline, self.outline[1:] + self.outline[:1], strict=True):
            along, low, high = (ax, az, bz) if fx else (az, ax, bx)
            own, across = point if fx else point[::-1]
            away = (along - own) * (fx + fz)
            if abs(ax - bx if fx else az - bz) < 1e-6 and min(low, high) <= across <= max(low, high) and away > 0:
                nearest = min(nearest, away)
        return nearest

    def holds(self, rect: Rect) -> bool:
        x0, x1, z0, z1 = rect[0] + 1e-4, rect[1] - 1e-4, rect[2] + 1e-4, rect[3] - 1e-4
        for a, b, c, d in self._edges:
            if a < x1 and b > x0 and c < z1 and d > z0:
                return False
        return self._contains((x0 + x1) / 2, (z0 + z1) / 2)

    def _clear_of_openings(self, box: Box, rect: Rect) -> bool:
        if box.y0 < _HEAD_M:
            for strip in self.strips:
                if _overlap(rect, strip):
                    return False
        if box.back_m > 0 and any(_overlap(box.back(), strip) for strip in self.strips):
            return False
        return box.category == "curtain" or self.clear_of_windows(box, inf if box.shuns_windows else box.y1)

    def clear_of_windows(self, box: Box, top_m: float) -> bool:
        """True if a thing in the box's place that reaches up to `top_m` neither covers a window nor is beside one."""
        rect = box.sides() if box.aside_m else box.rect()
        for zone, bottom, top in self.windows:
            if top_m > bottom + 0.03 and box.y0 < top and _overlap(rect, zone):
                return False
        return True


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


def windows_along(space: Space) -> list[tuple[Stretch, float, float, float, float]]:
    """Each window's wall, from - to along it, its bottom and its top."""
    found = []
    for (x0, x1, z0, z1), bottom, top in space.windows:
        for stretch in space.stretches:
            corners = [_in_stretch(stretch, point) for point in ((x0, z0), (x1, z1))]
            (s0, s1), (out0, _) = (sorted(values) for values in zip(*corners, strict=True))
            if abs(out0 + 0.01) < 1e-6 and s0 >= 0 and s1 <= stretch.length_m:
                found.append((stretch, s0, s1, bottom, top))
    return found


def _in_stretch(stretch: Stretch, point: Point) -> Point:
    dx, dz = point[0] - stretch.start[0], point[1] - stretch.start[1]
    ix, iz = FACINGS[stretch.quarter]
    return dx * stretch.along[0] + dz * stretch.along[1], dx * ix + dz * iz
