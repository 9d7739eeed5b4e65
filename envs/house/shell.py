"""The building itself as parts to draw: floors, ceilings, walls with holes, doors and windows.

A `Part` is one mesh of one class in one room, as flat rectangles with a material each. Only surfaces that are visible
from inside are drawn: a wall between two rooms has a face in each room's own paint. Outer faces are drawn if a patio or
balcony gives a view of them. A pane stands behind each window; our renderer shows the outside on it. Other viewers see
its materials, the ground below and the sky above: their horizon is right for a camera 1 m high.
"""

from dataclasses import dataclass, field
from math import hypot
from zlib import crc32

import numpy as np

from eqa.envs.house.geometry import (
    Point,
    Side,
    contains,
    door_leaf,
    inner_outline,
    is_open_border,
    room_sides,
    signed_area,
    wall_point,
)
from eqa.envs.house.house import House, Opening

HORIZON_M = 1.0
_TRIM = "#f3f1ea"
_CASING_M = (0.08, 0.016)  # width and thickness of the frame round a door
_RIM_M = 0.06  # of a window seen from outside
_SKIRTING_M = (0.09, 0.014)  # height and thickness
_LEAVES = ("#f0eee8", "#e6dfd0", "#8a5a34", "#6b4226", "#b98a58", "#4f5b66")
_GLASS = ("#a9bac6", "#7f919d")  # a window seen from outside: the sky and the ground that it mirrors
_GATES = ("#d9dadb", "#8f3b33", "#59636b", "#e9e4d4")
_SKIES = ("blue_sky", "cloudy", "blue_sky")

Corner = tuple[float, float, float]


@dataclass(slots=True)
class Part:
    """Quads (four corners each, counter-clockwise seen from the visible side), each with its slot of `materials`."""

    class_name: str
    room: int
    materials: list[
        str
    ]  # surface names or paints; "unlit:" before one that glows, "pane:" before a view of the outside
    quads: list[tuple[Corner, Corner, Corner, Corner]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    def slot(self, material: str) -> int:
        """The slot of a material, a new one where it has none."""
        if material not in self.materials:
            self.materials.append(material)
        return self.materials.index(material)

    def quad(self, corners: tuple[Corner, Corner, Corner, Corner], slot: int = 0) -> None:
        self.quads.append(corners)
        self.slots.append(slot)

    def upright(self, start: Point, end: Point, bottom: float, top: float, slot: int = 0) -> None:
        """An upright rectangle; its visible side is on the left of start -> end seen from above."""
        (ax, az), (bx, bz) = start, end
        self.quad(((ax, bottom, az), (bx, bottom, bz), (bx, top, bz), (ax, top, az))[::-1], slot)

    def level(self, a: Point, b: Point, c: Point, d: Point, y: float, slot: int = 0) -> None:
        """A level rectangle; corners counter-clockwise seen from above show upwards."""
        self.quad(tuple((x, y, z) for x, z in (a, b, c, d)), slot)

    def box(self, frame: "_Frame", s: tuple, y: tuple, out: tuple, slot: int = 0) -> None:
        """A box from s[0] to s[1] along a wall, y[0] to y[1] upwards, out[0] to out[1] away from its face."""
        a, b, c, d = frame(s[0], out[0]), frame(s[1], out[0]), frame(s[1], out[1]), frame(s[0], out[1])
        for start, end in ((a, b), (b, c), (c, d), (d, a)):
            self.upright(end, start, *y, slot)
        self.level(a, b, c, d, y[1], slot)
        self.level(d, c, b, a, y[0], slot)


class _Frame:
    """Plan coordinates from (metres along a wall face, metres out of it into the room)."""

    def __init__(self, side: Side) -> None:
        self.origin, self.along, self.inward = side.start, side.along, side.inward

    def __call__(self, s: float, out: float) -> Point:
        (ox, oz), (ax, az), (ix, iz) = self.origin, self.along, self.inward
        return (ox + ax * s + ix * out, oz + az * s + iz * out)


def shell_parts(house: House) -> list[Part]:
    """All parts of the building. ValueError where walls do not close round a room."""
    parts = []
    for room in range(len(house.rooms)):
        sides = room_sides(house, room)
        parts += _floor_and_ceiling(house, room, sides)
        walls = Part("wall", room, [house.rooms[room].wall, _TRIM])
        for side in sides:
            if house.walls[side.wall].height_m is None:
                _wall(house, room, side, walls)
            else:
                _parapet(house, room, side, walls)
            for index, start, end in side.openings:
                opening = house.openings[index]
                if opening.kind == "window":
                    parts.append(_window(house, room, side, opening, (start, end)))
                elif opening.kind != "doorway":
                    parts.append(_door(house, room, side, index, (start, end)))
        parts.append(walls)
    open_rooms = [room for room in house.rooms if room.ceiling is None]
    if open_rooms:
        parts.append(_facade(house, open_rooms[0].wall))
    return parts


def triangulate(polygon: list[Point]) -> list[tuple[int, int, int]]:
    """Ear clipping of a simple polygon that runs counter-clockwise seen from above."""
    left = list(range(len(polygon)))
    triangles = []
    while len(left) > 3:
        for place in range(len(left)):
            a, b, c = left[place - 1], left[place], left[(place + 1) % len(left)]
            corner = [polygon[a], polygon[b], polygon[c]]
            others = (polygon[i] for i in left if i not in (a, b, c))
            if signed_area(corner) > 1e-9 and not any(_in_triangle(corner, point) for point in others):
                triangles.append((a, b, c))
                del left[place]
                break
        else:
            raise ValueError(f"polygon {polygon}: expected a simple one, counter-clockwise seen from above")
    return [*triangles, tuple(left)]


def _in_triangle(triangle: list[Point], point: Point) -> bool:
    return all(signed_area([triangle[i - 1], triangle[i], point]) >= -1e-9 for i in range(3))


def _floor_and_ceiling(house: House, room: int, sides: list[Side]) -> list[Part]:
    polygon = house.rooms[room].polygon
    floor = Part("floor", room, [house.rooms[room].floor])
    triangles = [[polygon[i] for i in triangle] for triangle in triangulate(polygon)]
    for a, b, c in triangles:
        floor.level(a, b, c, c, 0.0)
    paint = house.rooms[room].ceiling
    if paint is None:
        return [floor]
    ceiling = Part("ceiling", room, [paint, "unlit:#fffdf4", "#c9c9c6"])
    for a, b, c in triangles:
        ceiling.level(c, c, b, a, house.height_m)
    for x, z in _lamp_places(inner_outline(sides), triangles):
        _lamp(ceiling, x, z, house.height_m)
    return [floor, ceiling]


def _lamp_places(outline: list[Point], floor: list[list[Point]]) -> list[Point]:
    """One ceiling lamp for each four or five metres of a room's length; a single one in rooms with more corners."""
    xs, zs = sorted({x for x, _ in outline}), sorted({z for _, z in outline})
    x0, x1, z0, z1 = xs[0], xs[-1], zs[0], zs[-1]
    if len(outline) > 4:
        middle = _middle(outline[:3])
        return [middle if contains(outline, middle) else tuple(np.mean(max(floor, key=signed_area), axis=0).tolist())]
    count = max(1, round(max(x1 - x0, z1 - z0) / 4.5))
    shares = [(i + 0.5) / count for i in range(count)]
    if x1 - x0 >= z1 - z0:
        return [(x0 + share * (x1 - x0), (z0 + z1) / 2) for share in shares]
    return [((x0 + x1) / 2, z0 + share * (z1 - z0)) for share in shares]


def _middle(points: list[Point]) -> Point:
    return (min(p[0] for p in points) + max(p[0] for p in points)) / 2, (
        min(p[1] for p in points) + max(p[1] for p in points)
    ) / 2


def _lamp(part: Part, x: float, z: float, height_m: float) -> None:
    r, y = 0.22, height_m - 0.07
    corners = ((x - r, z - r), (x - r, z + r), (x + r, z + r), (x + r, z - r))
    part.level(*corners[::-1], y, 1)
    for i in range(4):
        part.upright(corners[(i + 1) % 4], corners[i], y, height_m, 2)


def _wall(house: House, room: int, side: Side, part: Part) -> None:
    """The visible face with its holes, the holes' cheeks, skirting, and frames round openings without a leaf."""
    if any(is_open_border(house, house.openings[index]) for index, _, _ in side.openings):
        return
    frame = _Frame(side)
    slot = part.slot(house.walls[side.wall].surface or house.rooms[room].wall)
    previous = 0.0
    for index, start, end in side.openings:
        opening = house.openings[index]
        _plain(part, frame, previous, start, house.height_m, slot)
        part.upright(frame(start, 0), frame(end, 0), opening.top_m, house.height_m, slot)
        if opening.bottom_m > 0:
            part.upright(frame(start, 0), frame(end, 0), 0.0, opening.bottom_m, slot)
            _skirting(part, frame, start, end)
        _cheeks(part, frame, side, opening, start, end)
        if opening.kind == "doorway" and opening.bottom_m == 0:
            casing(part, frame, start, end, opening.top_m, slot=1)
        previous = end
    _plain(part, frame, previous, side.length_m, house.height_m, slot)
    _step(part, side, house.height_m, slot)


def _parapet(house: House, room: int, side: Side, part: Part) -> None:
    """A low wall: its visible face, and its top as far as this room has it."""
    wall, frame = house.walls[side.wall], _Frame(side)
    slot = part.slot(wall.surface or house.rooms[room].wall)
    part.upright(frame(0, 0), frame(side.length_m, 0), 0.0, wall.height_m, slot)
    start, end = -side.thickness_m + 0.01, side.length_m + side.thickness_m - 0.01  # round the corners
    deep = -side.thickness_m if -1 in wall.rooms else -side.thickness_m / 2
    part.level(frame(start, deep), frame(end, deep), frame(end, 0), frame(start, 0), wall.height_m, slot)
    _step(part, side, wall.height_m, slot)


def _facade(house: House, surface: str) -> Part:
    """The outer faces of all outer walls, windows and doors as flat pictures; seen from what is open to the sky."""
    part = Part("wall", -1, [surface, _TRIM, _LEAVES[0], *_GLASS])
    for place, wall in enumerate(house.walls):
        if -1 not in wall.rooms:
            continue
        half, length = wall.thickness_m / 2, hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        first, last = (_corner_m(house, place, end) for end in (wall.start, wall.end))
        pictures = [(-first, length + last, half, 0.0, wall.height_m or house.height_m, wall.surface or surface)]
        for opening in house.openings:
            if opening.wall == place:
                start, end = opening.offset_m - opening.width_m / 2, opening.offset_m + opening.width_m / 2
                is_window = opening.kind == "window"
                look = _TRIM if is_window else _LEAVES[0]
                pictures.append((start, end, half + 0.005, opening.bottom_m, opening.top_m, look))
                pictures += _glass(opening, half + 0.01) if is_window else []
        side = 1 if wall.rooms[0] == -1 else -1  # outside is on the wall's left, or on its right
        for start, end, out, bottom, top, material in pictures:
            ends = (wall_point(wall, start, side * out), wall_point(wall, end, side * out))
            part.upright(*ends[::side], bottom, top, part.slot(material))
    return part


def _glass(opening: Opening, out: float) -> list[tuple]:
    """Pictures of a window's panes, one or two beside each other; the sky is in the larger part of each."""
    rim, panes = _RIM_M, 1 if opening.width_m < 0.9 else 2
    low, high = opening.bottom_m + rim, opening.top_m - rim
    middle, wide = low + 0.4 * (high - low), (opening.width_m - rim) / panes
    first = opening.offset_m - opening.width_m / 2 + rim
    return [
        (first + k * wide, first + (k + 1) * wide - rim, out, bottom, top, glass)
        for k in range(panes)
        for bottom, top, glass in ((middle, high, _GLASS[0]), (low, middle, _GLASS[1]))
    ]


def _corner_m(house: House, place: int, end: Point) -> float:
    """Metres of an outer face past the end of its wall's centre line: not quite to the next wall's far face."""
    halves = (
        wall.thickness_m / 2
        for other, wall in enumerate(house.walls)
        if other != place and -1 in wall.rooms and end in (wall.start, wall.end)
    )
    return max(halves, default=0.01) - 0.01


def _plain(part: Part, frame: _Frame, start: float, end: float, height_m: float, slot: int) -> None:
    if end - start > 1e-6:
        part.upright(frame(start, 0), frame(end, 0), 0.0, height_m, slot)
        _skirting(part, frame, start, end)


def _skirting(part: Part, frame: _Frame, start: float, end: float) -> None:
    height, out = _SKIRTING_M
    part.upright(frame(start, out), frame(end, out), 0.0, height, 1)
    part.level(frame(start, 0), frame(end, 0), frame(end, out), frame(start, out), height, 1)


def _cheeks(part: Part, frame: _Frame, side: Side, opening: Opening, start: float, end: float) -> None:
    """The inside of a hole up to the wall's middle; through the whole wall if only this room sees it."""
    deep = -side.thickness_m if opening.kind == "window" else -side.thickness_m / 2
    bottom, top = opening.bottom_m, opening.top_m
    part.upright(frame(start, 0), frame(start, deep), bottom, top, 1)
    part.upright(frame(end, deep), frame(end, 0), bottom, top, 1)
    part.level(frame(start, 0), frame(end, 0), frame(end, deep), frame(start, deep), top, 1)
    if bottom > 0:
        part.level(frame(start, deep), frame(end, deep), frame(end, 0), frame(start, 0), bottom, 1)


def _step(part: Part, side: Side, height_m: float, slot: int) -> None:
    """The visible end of a thicker wall that goes on in the same direction, from its face back to the middle."""
    for face, centre in ((side.start, side.centre_start), (side.end, side.centre_end)):
        offset = (face[0] - centre[0], face[1] - centre[1])
        if abs(offset[0] * side.along[0] + offset[1] * side.along[1]) < 1e-6:
            part.upright(centre, face, 0.0, height_m, slot)


def casing(part: Part, frame: _Frame, start: float, end: float, top: float, slot: int) -> None:
    """The flat frame round a door on the wall's face."""
    width, out = _CASING_M
    part.box(frame, (start - width, start), (0.0, top + width), (0.0, out), slot)
    part.box(frame, (end, end + width), (0.0, top + width), (0.0, out), slot)
    part.box(frame, (start, end), (top, top + width), (0.0, out), slot)


def _window(house: House, room: int, side: Side, opening: Opening, span: tuple[float, float]) -> Part:
    sky = _SKIES[crc32(house.id.encode()) % len(_SKIES)]
    part = Part("window", room, [_TRIM, f"pane:{sky}", "pane:#a9bd84", "pane:#7f9d5c"])
    frame = _Frame(side)
    (start, end), bottom, top = span, opening.bottom_m, opening.top_m
    depth = -side.thickness_m + 0.01
    levels = [0.0, HORIZON_M - 0.12, HORIZON_M, house.height_m]
    for slot, low, high in zip((3, 2, 1), levels, levels[1:], strict=False):
        low, high = max(low, bottom), min(high, top)
        if high > low:
            part.upright(frame(start, depth), frame(end, depth), low, high, slot)
    bar, out = 0.05, (depth + 0.005, depth + 0.045)
    part.box(frame, (start, start + bar), (bottom, top), out)
    part.box(frame, (end - bar, end), (bottom, top), out)
    part.box(frame, (start + bar, end - bar), (bottom, bottom + bar), out)
    part.box(frame, (start + bar, end - bar), (top - bar, top), out)
    for number in range(1, 1 + int((end - start) / 0.85)):
        middle = start + (end - start) * number / (1 + int((end - start) / 0.85))
        part.box(frame, (middle - bar / 2, middle + bar / 2), (bottom + bar, top - bar), out)
    part.box(frame, (start - 0.05, end + 0.05), (bottom - 0.03, bottom), (0.0, 0.05))
    return part


def _door(house: House, room: int, side: Side, index: int, span: tuple[float, float]) -> Part:
    """The part of a door that this room sees: its frame, and the leaf if it stands here or closes the way out."""
    opening = house.openings[index]
    paint = crc32(house.id.encode())
    leaf = _LEAVES[paint % len(_LEAVES)]
    gate = _GATES[paint // 7 % len(_GATES)]
    part = Part("door", room, [_TRIM, leaf, "#b9b6ae", gate, _darker(leaf)])
    frame = _Frame(side)
    casing(part, frame, *span, opening.top_m, slot=0)
    wall = house.walls[opening.wall]
    if opening.kind == "entrance":
        depth = -side.thickness_m / 2
        _leaf(part, frame, span, opening.top_m, (depth, depth + 0.045), gate=opening.width_m > 1.6)
    elif wall.rooms[1 if opening.into_right else 0] == room:
        hinge, tip = door_leaf(wall, opening)
        standing = _Frame.__new__(_Frame)
        length = ((tip[0] - hinge[0]) ** 2 + (tip[1] - hinge[1]) ** 2) ** 0.5
        standing.origin = hinge
        standing.along = ((tip[0] - hinge[0]) / length, (tip[1] - hinge[1]) / length)
        standing.inward = (standing.along[1], -standing.along[0])
        _leaf(part, standing, (0.0, length), opening.top_m - 0.01, (-0.02, 0.02), gate=False)
    return part


def _darker(paint: str) -> str:
    return "#" + "".join(f"{int(paint[i : i + 2], 16) * 9 // 10:02x}" for i in (1, 3, 5))


def _leaf(part: Part, frame: _Frame, span: tuple, top: float, out: tuple, *, gate: bool) -> None:
    """A door leaf with two panels and a handle, or the slats of a garage's gate."""
    start, end = span
    if gate:
        for number in range(6):
            low, high = top * number / 6 + 0.01, top * (number + 1) / 6 - 0.01
            part.box(frame, (start, end), (low, high), out, 3)
        part.upright(frame(start, out[0] + 0.01), frame(end, out[0] + 0.01), 0.0, top, 2)
        return
    part.box(frame, (start, end), (0.01, top), out, 1)
    inset = 0.14
    for low, high in ((0.2, 0.85), (1.1, top - 0.18)):
        for face in (out[0] - 0.006, out[1]):
            part.box(frame, (start + inset, end - inset), (low, high), (face, face + 0.006), 4)
    part.box(frame, (end - 0.12, end - 0.03), (0.98, 1.02), (out[0] - 0.04, out[1] + 0.04), 2)


def texture_axes(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The world axes of a texture's width and height, for each face normal."""
    size = np.abs(normals)
    level = (size[:, 1] >= size[:, 0]) & (size[:, 1] >= size[:, 2])
    along_z = ~level & (size[:, 0] > size[:, 2])
    return np.where(along_z, 2, 0), np.where(level, 2, 1)
