"""`Annotations`: objects and regions of a scene with names, colours and places, for questions and plans.

They say nothing of how a scene is drawn or walked in. So a house, a city and a scan are annotated alike.

Axes: P corners of an outline. Plan coordinates are (x, z), metres.
"""

from dataclasses import dataclass, field
from math import inf

Outline = tuple[tuple[float, float], ...]  # corners (x, z) of a polygon in the plan

# The colours of questions, painted as these sRGB values.
PALETTE: dict[str, tuple[int, int, int]] = {
    "black": (30, 30, 32),
    "white": (242, 242, 240),
    "gray": (128, 129, 132),
    "brown": (112, 68, 36),
    "red": (184, 34, 38),
    "orange": (240, 122, 20),
    "yellow": (244, 208, 44),
    "green": (52, 128, 66),
    "blue": (44, 86, 168),
    "purple": (114, 58, 142),
    "pink": (236, 146, 176),
}


@dataclass(frozen=True, slots=True)
class Region:
    """A room, or another named part of a scene. Its index in `Annotations.regions` is its id."""

    name: str
    outline: Outline
    low_m: float = -inf  # heights between which it lies, where a scene has storeys
    high_m: float = inf


@dataclass(frozen=True, slots=True)
class Thing:
    """An object, by its id in the sensor instance_id."""

    id: int
    name: str
    outline: Outline  # its footprint
    color: str | None = None  # the name in PALETTE that a person would give it
    region: int = -1
    low_m: float = 0.0  # height of its underside
    high_m: float = 0.0
    asked: bool = True  # questions may be about its kind
    label: str | None = None  # what is written on it, such as a shop's name
    front_rad: float | None = None  # heading in which its front faces, if it has one

    @property
    def middle(self) -> tuple[float, float]:
        """x, z of the middle of its footprint's corners."""
        x, z = zip(*self.outline, strict=True)
        return sum(x) / len(x), sum(z) / len(z)


@dataclass(frozen=True, slots=True)
class Edge:
    """A line of the plan: a wall, or an opening in one."""

    kind: str  # "wall", "opening", "window" or "entrance"
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Annotations:
    scene_id: str
    regions: tuple[Region, ...]
    things: tuple[Thing, ...]
    edges: tuple[Edge, ...] = field(default=())
