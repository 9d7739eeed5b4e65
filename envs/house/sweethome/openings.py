"""`add_openings` puts doors and windows of a drawn home into the nearest wall; `clear_leaves` turns doors away."""

from dataclasses import replace
from math import cos, hypot, sin

from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.geometry import Point, contains, door_leaf, inner_outline, is_open_border, room_sides, wall_point
from eqa.envs.house.house import House, Opening, Wall
from eqa.envs.house.sweethome.names import Report, longest_word, names, plain
from eqa.envs.house.sweethome.reader import Home, Piece

_SILL_M = 0.25  # a window that begins lower can be walked through where it leads to another room
_EDGE_M = 0.01
_LEAST_M = 0.2
_CUT_OFF_M2 = 0.5  # floor that an open leaf may cost


def add_openings(home: Home, house: House, report: Report) -> None:
    for piece in home.pieces:
        if not piece.is_opening:
            continue
        placed = None if piece.fault else _nearest_wall(piece, house)
        if placed is None:
            report.openings.append((piece.name, "left out", piece.fault or "is in no wall of a room"))
            continue
        opening, remark = _opening(piece, *placed, house)
        if opening is None:
            report.openings.append((piece.name, "left out", remark))
            continue
        house.openings.append(opening)
        report.openings.append((piece.name, opening.kind, remark))


def _nearest_wall(piece: Piece, house: House) -> tuple[int, float] | None:
    """(wall, offset of the piece's centre along it); walls that run another way are none."""
    best = None
    for place, wall in enumerate(house.walls):
        if any(o.wall == place and is_open_border(house, o) for o in house.openings):
            continue
        length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        ux, uz = (wall.end[0] - wall.start[0]) / length, (wall.end[1] - wall.start[1]) / length
        if abs(cos(piece.angle_rad) * ux + sin(piece.angle_rad) * uz) < 0.9:
            continue
        along = (piece.x - wall.start[0]) * ux + (piece.z - wall.start[1]) * uz
        beside = abs((piece.x - wall.start[0]) * uz - (piece.z - wall.start[1]) * ux)
        covered = min(along + piece.size_m[0] / 2, length) - max(along - piece.size_m[0] / 2, 0.0)
        if covered < _LEAST_M or beside > wall.thickness_m / 2 + piece.size_m[2] / 2 + 0.1:
            continue
        score = (piece.size_m[0] - covered) * 2 + beside
        if best is None or score < best[0]:
            best = (score, place, along)
    return None if best is None else best[1:]


def _opening(piece: Piece, place: int, along: float, house: House) -> tuple[Opening | None, str]:
    wall = house.walls[place]
    if wall.height_m is not None:
        return None, "its wall is lower than the house"
    start, end, remark = _span(piece, place, along, house)
    if end - start < _LEAST_M:
        return None, remark
    text = plain(f"{piece.name} {piece.catalog_id}")
    bottom, top = max(0.0, piece.bottom_m), min(piece.bottom_m + piece.size_m[1], house.height_m)
    is_door = longest_word(text, names()["doors"]) and not longest_word(text, names()["windows"])
    if not is_door and not longest_word(text, names()["windows"]):
        is_door = bottom < _SILL_M and top > 1.7
    kind, why = _kind(wall, house, bool(is_door), bottom, longest_word(text, names()["doorways"]) is not None)
    if kind in ("door", "entrance") or kind == "doorway" and bottom < _SILL_M:
        bottom = 0.0
    at_end, into_right = _hinge(piece, wall)
    made = Opening(
        kind, place, round((start + end) / 2, 4), round(end - start, 4), round(bottom, 3), round(top, 3), at_end,
        into_right,
    )  # fmt: skip
    return made, "; ".join(part for part in (why, remark) if part)


def _kind(wall: Wall, house: House, is_door: bool, bottom: float, leafless: bool) -> tuple[str, str]:
    outdoors = [room >= 0 and house.rooms[room].ceiling is None for room in wall.rooms]
    if -1 in wall.rooms:
        return ("entrance", "") if is_door else ("window", "")
    if is_door:
        return ("doorway" if leafless else "door"), ""
    if bottom < _SILL_M:
        return "doorway", "a window that one walks through stands open"
    if any(outdoors):
        return "window", ""
    return "doorway", "a window between rooms is a hole without a pane"


def _span(piece: Piece, place: int, along: float, house: House) -> tuple[float, float, str]:
    """From and to along the wall, narrowed to its ends and to the openings that are in it already."""
    wall, remark = house.walls[place], ""
    length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
    wanted = (along - piece.size_m[0] / 2, along + piece.size_m[0] / 2)
    low, high = _ends(place, house)
    start, end = max(low, wanted[0]), min(high, wanted[1])
    if wanted[0] < low < high - piece.size_m[0]:
        end = low + piece.size_m[0]
    elif wanted[1] > high > low + piece.size_m[0]:
        start = high - piece.size_m[0]
    for other in house.openings:
        if other.wall == place:
            low, high = other.offset_m - other.width_m / 2, other.offset_m + other.width_m / 2
            if end > low and start < high:
                start, end = (max(start, high), end) if along > other.offset_m else (start, min(end, low))
                remark = f", as it runs into a {other.kind} there"
    if end - start > piece.size_m[0] - 0.02:
        return start, end, ""
    fit = f"{max(0.0, end - start):.2f} m fit into its wall of {length:.2f} m"
    return start, end, f"{piece.size_m[0]:.2f} m wide, {fit}{remark}"


def _ends(place: int, house: House) -> tuple[float, float]:
    """The part of a wall that is seen from the rooms beside it, along its centre line."""
    wall = house.walls[place]
    length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
    low, high = _EDGE_M, length - _EDGE_M
    ux, uz = (wall.end[0] - wall.start[0]) / length, (wall.end[1] - wall.start[1]) / length
    for room in {room for room in wall.rooms if room >= 0}:
        for side in room_sides(house, room):
            if side.wall == place and not side.is_free:
                seen = [(x - wall.start[0]) * ux + (z - wall.start[1]) * uz for x, z in (side.start, side.end)]
                low, high = max(low, min(seen) + _EDGE_M), min(high, max(seen) - _EDGE_M)
    return low, high


def _hinge(piece: Piece, wall: Wall) -> tuple[bool, bool]:
    """(hinge at the wall's end, leaf on the wall's right), as the drawing shows its first leaf."""
    sash = piece.sashes[0] if piece.sashes else None
    flip = -1 if piece.mirrored else 1
    hinge = ((sash.hinge if sash else 0.0) - 0.5) * flip
    leaf = (cos(sash.open_rad) * flip, -sin(sash.open_rad)) if sash else (0.0, 1.0)
    c, s = cos(piece.angle_rad), sin(piece.angle_rad)
    ux, uz = wall.end[0] - wall.start[0], wall.end[1] - wall.start[1]
    towards = (c * leaf[0] - s * leaf[1], s * leaf[0] + c * leaf[1])
    return hinge * (c * ux + s * uz) > 0, towards[0] * uz - towards[1] * ux < 0


def clear_leaves(house: House, report: Report) -> None:
    """Hangs open doors the other way, or takes their leaf, if they stand in furniture, a wall or the way."""
    outlines = [inner_outline(room_sides(house, room)) for room in range(len(house.rooms))]
    hung = {}  # place of a door: the ways that it can be hung, as drawn first
    for place, opening in enumerate(house.openings):
        if opening.kind == "door":
            ways = [(opening.hinge_at_end ^ a, opening.into_right ^ b) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))]
            ways = [replace(opening, hinge_at_end=bool(at_end), into_right=bool(right)) for at_end, right in ways]
            hung[place] = [way for way in ways if _is_clear(way, house, outlines)]
            _hang(house, place, next(iter(hung[place]), None), "furniture or a wall stood in its leaf", report)
    for place, ways in hung.items():
        now = house.openings[place]
        if ways and (free := _floor_m2(house, place, None)) - _floor_m2(house, place, now) > _CUT_OFF_M2:
            better = (way for way in ways if free - _floor_m2(house, place, way) <= _CUT_OFF_M2)
            _hang(house, place, next(better, None), "its leaf cut off a part of the floor", report)


def _hang(house: House, place: int, way: Opening | None, why: str, report: Report) -> None:
    """Puts a door into the house as one of the ways says, without a leaf where there is none."""
    drawn = house.openings[place]
    if way is None:
        report.notes.append(f"a door of {drawn.width_m:.2f} m lost its leaf: {why}")
    elif way != drawn:
        report.notes.append(f"a door of {drawn.width_m:.2f} m is hung the other way: {why}")
    house.openings[place] = way or replace(drawn, kind="doorway")


def _floor_m2(house: House, place: int, door: Opening | None) -> float:
    """Floor that an agent reaches with the door in place, or with none."""
    openings = list(house.openings)
    openings[place] = door or replace(openings[place], kind="doorway")
    changed, catalog = replace(house, openings=openings), load_catalog()
    floor = build_floor(changed, build_scene(changed, catalog), catalog.meshes, resolution=400)
    return floor.num_free * floor.cell_m**2


def _is_clear(door: Opening, house: House, outlines: list[list[Point]]) -> bool:
    wall = house.walls[door.wall]
    hinge, tip = door_leaf(wall, door)
    points = [(hinge[0] + (tip[0] - hinge[0]) * i / 20, hinge[1] + (tip[1] - hinge[1]) * i / 20) for i in range(21)]
    room = outlines[wall.rooms[door.into_right]]
    beyond = wall_point(wall, door.offset_m)
    if not all(contains(room, (x + (beyond[0] - x) * 0.02, z + (beyond[1] - z) * 0.02)) for x, z in points[2:]):
        return False
    for thing in house.objects:
        if thing.position[1] > 2.0 or thing.position[1] < 0.01 and thing.size_m[1] <= 0.06:
            continue
        if any(contains(thing.footprint()[::-1], point) for point in points):
            return False
    return True
