"""`read_home`: walls, rooms and pieces of a home drawn with Sweet Home 3D (`.sh3d` or its `Home.xml`), in metres.

Only the ground level is kept. The XML has x to the right, y down the plan and elevation upwards in centimetres, angles
clockwise seen from above: our X, Z and Y. `envs.house.sweethome.importer` makes a `House` of it.
"""

import zipfile
from collections import Counter
from dataclasses import dataclass, field
from math import hypot, isfinite
from pathlib import Path
from xml.etree import ElementTree

from eqa.envs.house.geometry import Point
from eqa.envs.reading import LIMITS, named

MOST_BYTES = LIMITS["home"]  # of Home.xml, unpacked
MOST_ELEMENTS, MOST_DEEP = 200_000, 100
MOST = {"walls": 2000, "rooms": 500, "pieces": 10_000}
AT_ONCE = 1 << 16  # characters of XML
_FARTHEST_M = 1000.0
_REMEDY = "open it with Sweet Home 3D 5.3 or newer and save it again"


@dataclass(frozen=True, slots=True)
class HomeWall:
    name: str
    start: Point
    end: Point
    thickness_m: float
    height_m: float
    arc_rad: float  # 0: straight; else the angle that its arc covers
    paints: tuple[str | None, str | None]  # "#rrggbb" of the left and right face seen along start -> end


@dataclass(frozen=True, slots=True)
class HomeRoom:
    name: str
    polygon: tuple[Point, ...]
    floor: str | None  # "#rrggbb"
    texture: str | None  # catalogue id of the floor's texture
    ceiling: str | None
    has_ceiling: bool


@dataclass(frozen=True, slots=True)
class Sash:
    """A leaf of a door or window in its own frame: hinge as a share of the width, angle at which it stands open."""

    hinge: float
    open_rad: float


@dataclass(frozen=True, slots=True)
class Piece:
    name: str
    catalog_id: str  # "eTeks#sofa", "" for one without
    x: float
    z: float
    bottom_m: float
    angle_rad: float  # clockwise from above
    size_m: tuple[float, float, float]  # width, height, depth
    mirrored: bool
    paint: str | None  # "#rrggbb" of the whole piece
    materials: dict[str, str]  # material name -> "#rrggbb"
    is_opening: bool  # a door or window
    sashes: tuple[Sash, ...]
    fault: str | None  # reason that it cannot be shown at all
    group: str = ""  # name of the group that it belongs to


@dataclass(slots=True)
class Home:
    name: str
    author: str
    height_m: float
    walls: list[HomeWall] = field(default_factory=list)
    rooms: list[HomeRoom] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # omissions and their reasons


def read_home(path: Path) -> Home:
    """The home in a file. ValueError names the file, the fault and the remedy."""
    with named(path, "not a Sweet Home 3D home that can be read"):
        return _home(_parse(_xml(path)), path.stem)


def _xml(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    else:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "Home.xml" not in names:
                found = "only the Java object `Home`" if "Home" in names else f"{len(names)} other files"
                raise ValueError(f"expected Home.xml in the archive, got {found}; {_REMEDY}")
            with archive.open("Home.xml") as file:
                content = file.read(MOST_BYTES + 1)  # never more than this, whatever the archive says its size is
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected Home.xml of at most {MOST_BYTES >> 20} MB, got more; delete what is not needed")
    return content


def _parse(content: bytes) -> ElementTree.Element:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"expected XML in UTF-8; {_REMEDY}") from None
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # a home needs neither, and entities can grow without end
        raise ValueError(f"expected no document type or entities in Home.xml; {_REMEDY}")
    root = _counted(text)
    if root.tag != "home":
        raise ValueError(f"expected the element <home>, got <{root.tag}>; give a .sh3d file or its Home.xml")
    return root


def _counted(text: str) -> ElementTree.Element:
    """The root element; stops reading where there are more elements, or deeper ones, than a home has."""
    parser, depth, count = ElementTree.XMLPullParser(("start", "end")), 0, 0
    root = None
    for begin in range(0, len(text), AT_ONCE):
        parser.feed(text[begin : begin + AT_ONCE])
        for event, element in parser.read_events():
            root = element if root is None else root
            count, depth = (count + 1, depth + 1) if event == "start" else (count, depth - 1)
            if count > MOST_ELEMENTS or depth > MOST_DEEP:
                raise ValueError(
                    f"expected at most {MOST_ELEMENTS} elements, {MOST_DEEP} deep, got more; delete what is not needed"
                )
    parser.close()
    if root is None:
        raise ValueError("expected XML, got nothing")
    return root


def _home(root: ElementTree.Element, stem: str) -> Home:
    properties = {entry.get("name"): entry.get("value", "") for entry in root.findall("property")}
    home = Home(stem, properties.get("Author", ""), _metres(root, "wallHeight", 2.5, above=1.0))
    level = _ground(root, home)
    is_kept = [level is None or entry.get("level", level) == level for entry in root]
    kept = [entry for entry, fits in zip(root, is_kept, strict=True) if fits]
    left_out = Counter(entry.tag for entry, fits in zip(root, is_kept, strict=True) if not fits)
    for tag, count in left_out.items():
        home.notes.append(f"{count} x <{tag}> on other levels: only the ground level is read")
    for entry in kept:
        if entry.tag == "wall":
            _add_wall(entry, home)
        elif entry.tag == "room":
            _add_room(entry, home)
        elif entry.tag in ("pieceOfFurniture", "light", "doorOrWindow", "furnitureGroup", "shelfUnit"):
            _add_pieces(entry, home, group="", hidden=False)
        elif entry.tag == "polyline":
            home.notes.append("a <polyline>: lines on the plan are not part of the home")
    for name, most in MOST.items():
        if (count := len(getattr(home, name))) > most:
            raise ValueError(f"expected at most {most} {name}, got {count}; delete what is not needed")
    if not home.walls and not home.rooms:
        raise ValueError("expected walls or rooms on the ground level, got none")
    return home


def _ground(root: ElementTree.Element, home: Home) -> str | None:
    """Id of the level at elevation 0 with the most walls; None where there are no levels."""
    levels = root.findall("level")
    if not levels:
        return None
    walls = Counter(entry.get("level") for entry in root.findall("wall"))
    ground = min(levels, key=lambda entry: (abs(_metres(entry, "elevation", 0.0)), -walls[entry.get("id")]))
    home.height_m = _metres(ground, "height", home.height_m, above=1.0)
    return ground.get("id")


def _add_wall(entry: ElementTree.Element, home: Home) -> None:
    start, end = ((_metres(entry, f"x{at}"), _metres(entry, f"y{at}")) for at in ("Start", "End"))
    name, arc = entry.get("id", "wall"), _number(entry, "arcExtent", 0.0)
    if hypot(end[0] - start[0], end[1] - start[1]) < 0.02:
        home.notes.append(f"{name}: shorter than 2 cm")
        return
    if abs(arc) > 6.0:
        raise ValueError(f"<wall {name}> arcExtent: expected less than a full circle, got {arc}")
    height = _metres(entry, "height", home.height_m, above=0.0)
    if entry.get("heightAtEnd"):
        home.notes.append(f"{name}: a sloping top is made level")
        height = max(height, _metres(entry, "heightAtEnd", above=0.0))
    paints = (_paint(entry.get("leftSideColor")), _paint(entry.get("rightSideColor")))
    home.walls.append(HomeWall(name, start, end, _metres(entry, "thickness", 0.08, above=0.0), height, arc, paints))


def _add_room(entry: ElementTree.Element, home: Home) -> None:
    points = tuple((_metres(point, "x"), _metres(point, "y")) for point in entry.findall("point"))
    name = entry.get("name", "")
    if len(points) < 3:
        home.notes.append(f"room {name!r}: has {len(points)} corners")
        return
    textures = {texture.get("attribute"): texture.get("catalogId") for texture in entry.findall("texture")}
    floor, ceiling = _paint(entry.get("floorColor")), _paint(entry.get("ceilingColor"))
    has_ceiling = entry.get("ceilingVisible") != "false"
    home.rooms.append(HomeRoom(name, points, floor, textures.get("floorTexture"), ceiling, has_ceiling))


def _add_pieces(entry: ElementTree.Element, home: Home, *, group: str, hidden: bool) -> None:
    hidden = hidden or entry.get("visible") == "false"
    parts = [child for child in entry if child.get("x") is not None and child.get("width") is not None]
    if entry.tag == "furnitureGroup" and not _only_boxes(parts):
        for child in parts:
            _add_pieces(child, home, group=group or entry.get("name", ""), hidden=hidden)
        return
    tilted = any(abs(_number(entry, turn, 0.0)) > 0.01 for turn in ("pitch", "roll"))
    fault = "hidden by its author" if hidden else "leans or is turned over" if tilted else None
    width, depth = (_metres(entry, side, above=0.0) for side in ("width", "depth"))
    height = _height(entry, parts)
    sashes = tuple(
        Sash(_number(sash, "xAxis", 0.0), _number(sash, "endAngle", 0.0))
        for sash in entry.findall("sash")  # a mirrored piece's sashes are those of its model as it ships
    )
    home.pieces.append(
        Piece(
            entry.get("name", ""), entry.get("catalogId", ""), _metres(entry, "x"), _metres(entry, "y"),
            _metres(entry, "elevation", 0.0), _number(entry, "angle", 0.0), (width, height, depth),
            entry.get("modelMirrored") == "true", _paint(entry.get("color")), _materials(entry),
            entry.tag == "doorOrWindow", sashes, fault, group,
        )
    )  # fmt: skip


def _only_boxes(parts: list[ElementTree.Element]) -> bool:
    """True for a group that is put together from boxes and known by its own name only (a fireplace, say)."""
    return bool(parts) and all("texturable" in part.get("catalogId", "").lower() for part in parts)


def _height(entry: ElementTree.Element, parts: list[ElementTree.Element]) -> float:
    if entry.get("height") is not None or not parts:
        return _metres(entry, "height", above=0.0)
    tops = [_metres(part, "elevation", 0.0) + _metres(part, "height") for part in parts]
    return max(tops) - _metres(entry, "elevation", 0.0)


def _materials(entry: ElementTree.Element) -> dict[str, str]:
    named = {part.get("name", ""): _paint(part.get("color")) for part in entry.findall("material")}
    return {name: paint for name, paint in named.items() if paint is not None}


def _paint(argb: str | None) -> str | None:
    """ "#rrggbb" of the XML's AARRGGBB; None where it is not one."""
    if argb is None or len(argb) != 8 or any(c not in "0123456789ABCDEFabcdef" for c in argb):
        return None
    return "#" + argb[2:].lower()


def _metres(
    entry: ElementTree.Element, name: str, default: float | None = None, *, above: float | None = None
) -> float:
    """An attribute in centimetres as metres."""
    value = _number(entry, name, None if default is None else default * 100) / 100
    if abs(value) > _FARTHEST_M or above is not None and value <= above:
        floor = f"-{_FARTHEST_M}" if above is None else f"more than {above}"
        who = entry.get("name") or entry.get("id") or ""
        raise ValueError(f"<{entry.tag} {who}> {name}: expected {floor} to {_FARTHEST_M} m, got {value} m")
    return value


def _number(entry: ElementTree.Element, name: str, default: float | None) -> float:
    text = entry.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = float("nan")
    if not isfinite(value):
        who = entry.get("name") or entry.get("id") or ""
        raise ValueError(f"<{entry.tag} {who}> {name}: expected a finite number, got {text!r}")
    return value
