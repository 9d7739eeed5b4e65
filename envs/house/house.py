"""`House`: what a house is made of, as a document that can be read, written by hand and stored as JSON.

Metres; X right, Y up, plan coordinates are (x, z). An object's `position` is the middle of its underside. Its model
looks along +Z at heading 0 and is turned by `heading_rad` about +Y, counter-clockwise seen from above. A house holds no
geometry: `envs.house.scene` builds that from the house and the furniture catalogue.
"""

import json
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cache
from math import cos, isfinite, sin
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from envs.files import written_aside

FORMAT = "eqa-house"
FORMAT_VERSION = 2


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

    The same room twice: the wall stands free in that room, at no end need it meet another.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    thickness_m: float
    rooms: tuple[int, int]
    height_m: float | None = None  # None: the house's height; less for a parapet round a balcony
    surface: str | None = None  # as `Room.wall`; None: on each side that room's own


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
    generator: str  # what made it: generator name, version and seed, or an importer's source
    height_m: float
    rooms: list[Room]
    walls: list[Wall]
    openings: list[Opening]
    objects: list[HouseObject] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Writes the house as JSON, aside first and then renamed, so that a killed run leaves no half file."""
        document = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(self)}
        with written_aside(path) as aside:
            aside.write_text(json.dumps(document, separators=(",", ":")))

    @classmethod
    def load(cls, path: Path) -> "House":
        """Reads a house file; ValueError names the file, the entry and what is wrong with it."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
            if not isinstance(document, dict):
                raise TypeError(f"expected an object {{...}}, got {_shown(document)}")
            found = (document.pop("format", None), document.pop("version", None))
            if found != (FORMAT, FORMAT_VERSION):
                raise ValueError(
                    f"expected format {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}"
                )
            return _read(cls, document, "")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path}: not a house file ({error}); docs/house-format.md says what is in one, "
                "python scripts/make_houses.py makes generated ones anew"
            ) from None


def _no_constant(name: str) -> float:
    raise ValueError(f"expected finite numbers, got {name}")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _read(kind: Any, value: object, where: str) -> Any:
    """A JSON value as the type that a field of the document declares; ValueError says where it is another."""
    if is_dataclass(kind):
        return _read_entry(kind, value, where)
    if isinstance(kind, UnionType):
        return None if value is None else _read(get_args(kind)[0], value, where)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise ValueError(f"{where}: expected a list, got {_shown(value)}")
        return [_read(get_args(kind)[0], entry, f"{where}[{place}]") for place, entry in enumerate(value)]
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if not isinstance(value, list) or len(value) != len(kinds):
            raise ValueError(f"{where}: expected {len(kinds)} numbers, got {_shown(value)}")
        return tuple(_read(part, entry, where) for part, entry in zip(kinds, value, strict=True))
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise ValueError(f"{where}: expected a finite number, got {_shown(value)}")
        return float(value)
    if type(value) is not kind:
        names = {str: "a text", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{where}: expected {names[kind]}, got {_shown(value)}")
    return value


def _read_entry(kind: type, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{where}: expected an object {{...}}, got {_shown(value)}")
    kinds, needed = _keys(kind)
    unknown, missing = sorted(set(value) - set(kinds)), sorted(needed - set(value))
    if unknown or missing:
        what = f"no key {unknown[0]!r}" if unknown else f"the key {missing[0]!r}"
        raise ValueError(f"{where or 'house'}: expected {what}; keys are {', '.join(kinds)}")
    return kind(**{key: _read(kinds[key], part, f"{where}.{key}".lstrip(".")) for key, part in value.items()})


@cache
def _keys(kind: type) -> tuple[dict[str, Any], set[str]]:
    """Types by key, and the keys that must be there."""
    needed = {entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING}
    return {entry.name: get_type_hints(kind)[entry.name] for entry in fields(kind)}, needed
