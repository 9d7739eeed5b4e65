"""`House`: the parts of a house as a document that can be read, written by hand and stored as JSON.

Metres; X right, Y up, plan coordinates are (x, z). An object's `position` is the middle of its underside. Its model
looks along +Z at heading 0 and is turned by `heading_rad` about +Y, counter-clockwise seen from above. A house holds no
geometry: `envs.house.build` makes it from the house and the furniture catalogue.
"""

import json
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import cos, sin
from pathlib import Path

from eqa.envs.files import atomic_write
from eqa.envs.reading import declared, named, parsed, read_text, shown

FORMAT = "eqa-house"
FORMAT_VERSION = 2
_REMEDY = "docs/house-format.md says what is in one, python scripts/make_houses.py makes generated ones anew"


@dataclass(frozen=True, slots=True)
class Room:
    type: str  # "kitchen", "living room", ...
    polygon: list[tuple[float, float]]  # (x, z) corners on wall centre lines, counter-clockwise seen from above
    floor: str  # name of a surface in the catalogue
    wall: str  # name of a surface, or "#rrggbb" for paint
    ceiling: str | None = "#f4f2ee"  # None: open to the sky, as a patio is


@dataclass(frozen=True, slots=True)
class Wall:
    """A straight wall. `rooms` are the rooms on the left and right of start -> end, -1 outside.

    A wall with the same room twice stands free in that room; its ends need not meet other walls.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    thickness_m: float
    rooms: tuple[int, int]
    height_m: float | None = None  # None: the house's height; a parapet round a balcony has less
    surface: str | None = None  # as `Room.wall`; None: each room's own on its side


@dataclass(frozen=True, slots=True)
class Opening:
    """A hole in a wall. `offset_m` is the distance of its centre from the wall's start, along the wall.

    A doorway as wide as its wall and as high as the house is an open border: nothing is drawn between the rooms.
    """

    kind: str  # "door" (leaf stands open), "doorway" (no leaf), "window" (pane), "entrance" (closed door to outside)
    wall: int
    offset_m: float
    width_m: float
    bottom_m: float
    top_m: float
    hinge_at_end: bool = False  # a door's hinge is at the edge nearer to the wall's end, else nearer to its start
    into_right: bool = False  # a door's leaf stands in the room on the wall's right, else in that on its left


@dataclass(frozen=True, slots=True)
class HouseObject:
    id: int  # instance id as rendered, 1-based and equal to its place in `House.objects` plus one
    category: str  # a name of `catalog.CLASSES`
    model: str  # key in the catalogue
    position: tuple[float, float, float]
    heading_rad: float
    size_m: tuple[float, float, float]  # width, height, depth before turning
    color: str | None  # a name of `catalog.PALETTE`: the colour that a person would name, None where none stands out
    recolored: bool  # True: the model's main material is painted in `color`; False: its own colours
    room: int
    on: int | None = None  # id of the object that it stands on
    mirrored: bool = False  # left and right of the model are exchanged

    def footprint(self) -> list[tuple[float, float]]:
        """Corners (x, z) of the turned rectangle that the object's box covers on the floor."""
        half_w, half_d = self.size_m[0] / 2, self.size_m[2] / 2
        c, s = cos(self.heading_rad), sin(self.heading_rad)
        corners = ((-half_w, -half_d), (half_w, -half_d), (half_w, half_d), (-half_w, half_d))
        return [(self.position[0] + c * x + s * z, self.position[2] - s * x + c * z) for x, z in corners]


@dataclass(frozen=True, slots=True)
class House:
    id: str
    generator: str  # its origin: generator name, version and seed, or an importer's source
    height_m: float
    rooms: list[Room]
    walls: list[Wall]
    openings: list[Opening]
    objects: list[HouseObject] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Writes the house as JSON; a killed run leaves no half file."""
        document = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(self)}
        with atomic_write(path) as aside:
            aside.write_text(json.dumps(document, separators=(",", ":")))

    @classmethod
    def load(cls, path: Path) -> "House":
        """Reads a house file; ValueError names the file, the entry and its fault, sizes included."""
        with named(path, "not a house file", _REMEDY):
            document = parsed(read_text(path, "house"))
            if not isinstance(document, dict):
                raise TypeError(f"expected an object {{...}}, got {shown(document)}")
            found = (document.pop("format", None), document.pop("version", None))
            if found != (FORMAT, FORMAT_VERSION):
                raise ValueError(
                    f"expected format {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}"
                )
            house = declared(cls, document)
            check_sizes(house)
            return house


# Limits beyond which nobody builds, and which keep the time for one house bounded.
MOST = {"rooms": 500, "walls": 5000, "openings": 5000, "objects": 10000}
HEIGHTS_M = (1.5, 50.0)
FARTHEST_M = 1000.0  # from the origin


def check_sizes(house: House) -> None:
    """ValueError for a house with more entries than `MOST`, or higher or wider than the limits."""
    for name, most in MOST.items():
        if (count := len(getattr(house, name))) > most:
            raise ValueError(f"{name}: expected at most {most}, got {count}")
    low, high = HEIGHTS_M
    if not low <= house.height_m <= high:
        raise ValueError(f"height_m: expected {low:g} to {high:g} m, got {house.height_m:g}")
    lengths = chain(
        (("rooms", n) for room in house.rooms for corner in room.polygon for n in corner),
        (("walls", n) for wall in house.walls for n in (*wall.start, *wall.end, wall.thickness_m)),
        (("openings", n) for o in house.openings for n in (o.offset_m, o.width_m, o.bottom_m, o.top_m)),
        (("objects", n) for thing in house.objects for n in (*thing.position, *thing.size_m, thing.heading_rad)),
    )
    for name, value in lengths:
        if not abs(value) <= FARTHEST_M:
            raise ValueError(f"{name}: expected lengths and places within {FARTHEST_M:g} m, got {value:g}")
