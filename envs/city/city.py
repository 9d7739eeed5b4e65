"""`City`: the parts of a generated city as plain data, and its `Annotations`.

A city is laid out along the two axes of the plan. Sides of a block are numbered by quarter turns of their outward
direction: 0 north (-Z), 1 west (-X), 2 south, 3 east. A thing's `heading_rad` is the heading in which its front faces.

Metres; X right, Y up, plan coordinates are (x, z), the middle of the city is (0, 0).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import cos, pi, sin

from eqa.envs.actions import CLIMBS, Action, ActionSet
from eqa.envs.annotations import Annotations, Edge, Outline, Region, Thing

# CityEQA flies 10 m and turns 30 degrees at a time (Sec. 4), and looks closely in smaller moves.
CITY_ACTIONS = ActionSet(
    names=(*(action.name.lower() for action in Action), *CLIMBS), step_m=10.0, turn_rad=pi / 6, climb_m=10.0
)
QUARTER_RAD = pi / 2
GROUND_FLOOR_M, FLOOR_M = 4.4, 3.4  # heights of the storey at street level and of those above
BAY_M = 3.6  # width of one window of a facade with the wall beside it
CURB_M = 0.15  # height of sidewalks, parks and the ground that buildings stand on
LOWEST_M = 2.0  # height of the lowest flight level

# Classes of the sensor class_id. What is before "building" is ground; questions are about what follows.
CLASSES = (
    "outside", "road", "crossing", "sidewalk", "path", "grass", "yard",
    "building", "shop", "sign", "park", "tree", "bench", "street lamp", "fountain", "trash can", "fire hydrant",
    "mailbox", "car", "van", "truck", "bus", "motorbike", "bicycle", "person",
)  # fmt: skip
FIRST_THING = CLASSES.index("building")

Rect = tuple[float, float, float, float]  # least x, least z, greatest x, greatest z


@dataclass(frozen=True, slots=True)
class Street:
    """A straight street from end to end of the city; `rect` spans its roadway and both sidewalks."""

    name: str
    kind: str  # "street" or "avenue"
    axis: int  # 0 runs along X, 1 along Z
    rect: Rect
    road_m: float  # width of the roadway


@dataclass(frozen=True, slots=True)
class Block:
    """The land between four streets, inside its sidewalks."""

    kind: str  # "block" or "park"
    rect: Rect
    name: str | None = None  # of a park
    id: int = 0  # instance id of a park


@dataclass(frozen=True, slots=True)
class Box:
    """An upright part of a building."""

    rect: Rect
    low_m: float
    high_m: float


@dataclass(frozen=True, slots=True)
class Building:
    id: int
    block: int
    shape: str  # "box", "stepped", "L" or "house", which has a pitched roof
    boxes: tuple[Box, ...]
    facade: str  # a name of `textures.FACADES`
    color: str
    side: int  # quarter turns of the front
    ridge_m: float = 0.0  # height of a pitched roof

    @property
    def heading_rad(self) -> float:
        return self.side * QUARTER_RAD

    @property
    def rect(self) -> Rect:
        return bounds_of([box.rect for box in self.boxes])

    @property
    def high_m(self) -> float:
        return max(box.high_m for box in self.boxes) + self.ridge_m


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop at street level, with a sign board above its windows."""

    id: int
    sign_id: int
    building: int  # index in `City.buildings`
    name: str  # as on the sign
    kind: str  # the last word of the name
    rect: Rect  # of the shop front, which stands a little out of the wall
    side: int
    color: str  # of its front
    sign_color: str

    @property
    def heading_rad(self) -> float:
        return self.side * QUARTER_RAD


@dataclass(frozen=True, slots=True)
class Prop:
    """A vehicle, a person, a tree or a piece of street furniture."""

    id: int
    name: str  # one of CLASSES
    model: str  # key of the pack, or of a shape of `props`
    position: tuple[float, float, float]  # the middle of its underside
    heading_rad: float
    size_m: tuple[float, float, float]  # width, height, depth before turning
    color: str | None
    region: int

    def footprint(self) -> Outline:
        """Corners (x, z) of the turned rectangle that it covers."""
        return turned_rect(self.position[0], self.position[2], self.size_m, self.heading_rad)


@dataclass(frozen=True)
class City:
    id: str
    generator: str
    rect: Rect  # of all streets
    streets: tuple[Street, ...]
    blocks: tuple[Block, ...]
    buildings: tuple[Building, ...] = ()
    shops: tuple[Shop, ...] = ()
    props: tuple[Prop, ...] = field(default=())

    @cached_property
    def annotations(self) -> Annotations:
        """All that questions may be about: regions are the blocks, then the streets."""
        regions = [Region(block.kind, corners_of(block.rect)) for block in self.blocks]
        regions += [Region("street", corners_of(street.rect)) for street in self.streets]
        return Annotations(
            self.id, tuple(regions), tuple(sorted(self._things(), key=lambda thing: thing.id)), self._edges()
        )

    def _things(self) -> Iterator[Thing]:
        for k, block in enumerate(self.blocks):
            if block.kind == "park":
                yield Thing(block.id, "park", corners_of(block.rect), "green", k, 0.0, CURB_M, label=block.name)
        for one in self.buildings:
            yield Thing(
                one.id, "building", corners_of(one.rect), one.color, one.block, 0.0, one.high_m,
                front_rad=one.heading_rad,
            )  # fmt: skip
        for shop in self.shops:
            block = self.buildings[shop.building].block
            about = {"label": shop.name, "front_rad": shop.heading_rad}
            yield Thing(shop.id, "shop", corners_of(shop.rect), shop.color, block, 0.0, SIGN_LOW_M, **about)
            sign = corners_of(sign_rect(shop))
            yield Thing(shop.sign_id, "sign", sign, shop.sign_color, block, SIGN_LOW_M, SIGN_HIGH_M, **about)
        for prop in self.props:
            low, high = prop.position[1], prop.position[1] + prop.size_m[1]
            front = prop.heading_rad if prop.name in FACING else None
            yield Thing(prop.id, prop.name, prop.footprint(), prop.color, prop.region, low, high, front_rad=front)

    def _edges(self) -> tuple[Edge, ...]:
        """The walls of all buildings."""
        return tuple(
            Edge("wall", start, end)
            for one in self.buildings
            for box in one.boxes
            for start, end in zip(
                corners_of(box.rect), (*corners_of(box.rect)[1:], corners_of(box.rect)[0]), strict=True
            )
        )


FACING = ("bench", "mailbox", "car", "van", "truck", "bus", "motorbike", "bicycle", "person")
SIGN_LOW_M, SIGN_HIGH_M = 3.15, 4.35
SIGN_WIDTH_M, SIGN_DEPTH_M = 6.4, 0.4


def sign_rect(shop: Shop) -> Rect:
    """The plan of a shop's sign board, which stands out of the shop front."""
    x0, z0, x1, z1 = shop.rect
    x, z, half = (x0 + x1) / 2, (z0 + z1) / 2, SIGN_WIDTH_M / 2
    return {
        0: (x - half, z1 - SIGN_DEPTH_M, x + half, z1),
        1: (x1 - SIGN_DEPTH_M, z - half, x1, z + half),
        2: (x - half, z0, x + half, z0 + SIGN_DEPTH_M),
        3: (x0, z - half, x0 + SIGN_DEPTH_M, z + half),
    }[shop.side]


def corners_of(rect: Rect) -> Outline:
    """The corners of a rectangle, counter-clockwise seen from above."""
    x0, z0, x1, z1 = rect
    return ((x0, z0), (x0, z1), (x1, z1), (x1, z0))


def bounds_of(rects: list[Rect]) -> Rect:
    x0, z0, x1, z1 = zip(*rects, strict=True)
    return min(x0), min(z0), max(x1), max(z1)


def turned_rect(x: float, z: float, size_m: tuple[float, float, float], heading_rad: float) -> Outline:
    """Corners of a rectangle of width and depth `size_m` round (x, z), turned by a heading."""

    half_w, half_d = size_m[0] / 2, size_m[2] / 2
    c, s = cos(heading_rad), sin(heading_rad)
    corners = ((-half_w, -half_d), (-half_w, half_d), (half_w, half_d), (half_w, -half_d))
    return tuple((round(x + c * a + s * b, 3), round(z - s * a + c * b, 3)) for a, b in corners)


def overlap(one: Rect, other: Rect, *, gap_m: float = 0.0) -> bool:
    """True for rectangles that are nearer to each other than a gap along both axes."""
    return (
        one[0] < other[2] + gap_m
        and other[0] < one[2] + gap_m
        and one[1] < other[3] + gap_m
        and other[1] < one[3] + gap_m
    )


def along_side(rect: Rect, side: int, at_m: float, out_m: float) -> tuple[float, float]:
    """The point `at_m` along a side from its end of least x or z, and `out_m` out of the rectangle."""
    x0, z0, x1, z1 = rect
    point = {
        0: (x0 + at_m, z0 - out_m),
        1: (x0 - out_m, z0 + at_m),
        2: (x0 + at_m, z1 + out_m),
        3: (x1 + out_m, z0 + at_m),
    }[side]
    return round(point[0], 3), round(point[1], 3)


def side_length(rect: Rect, side: int) -> float:
    return rect[2] - rect[0] if side % 2 == 0 else rect[3] - rect[1]
