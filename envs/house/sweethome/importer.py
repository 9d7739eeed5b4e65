"""`import_home`: a home drawn with Sweet Home 3D as a `House`, with a report of every interpretation.

Labels give the rooms' types (`home_names.yaml`). Doors and windows go into the walls that they were drawn in. Pieces
become the catalogue's model of the same id, or the nearest of their category. Impossible things are mended or left out,
and reported: nothing is dropped in silence.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from math import hypot
from pathlib import Path

from shapely import Point, Polygon

from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.geometry import signed_area
from eqa.envs.house.house import House, Opening, Room, Wall
from eqa.envs.house.sweethome.furniture import add_pieces
from eqa.envs.house.sweethome.names import Report, best_key, names, plain
from eqa.envs.house.sweethome.openings import add_openings, clear_leaves
from eqa.envs.house.sweethome.plan import BORDER_M, Plan, PlanWall, read_plan
from eqa.envs.house.sweethome.reader import Home, HomeRoom, read_home
from eqa.envs.reading import named

_PARAPET_M = 1.0
_ROUND_M = 0.1  # a wall that is lower than the house by no more than this is as high as the house


def import_home(path: Path, house_id: str) -> tuple[House, Report]:
    """A house from a `.sh3d` file or `Home.xml`. ValueError names the file and the unreadable part."""
    home = read_home(path)
    with named(path, "not a home that can become a house"):
        return _house(home, house_id)


def _house(home: Home, house_id: str) -> tuple[House, Report]:
    plan = read_plan(home)
    report = Report(notes=[*home.notes, *plan.notes])
    source = f"Sweet Home 3D home {home.name!r}" + (f" by {home.author}" if home.author else "")
    types = _room_types(home, plan, report)
    house = House(house_id, source, home.height_m, _rooms(plan, types), [], [])
    house.walls.extend(_walls(home, plan, house, report))
    add_openings(home, house, report)
    house = _reachable(house, report)
    add_pieces(home, house, report)
    clear_leaves(house, report)
    return house, report


def _room_types(home: Home, plan: Plan, report: Report) -> list[str]:
    types = []
    for room in plan.rooms:
        area = Polygon(room.polygon)
        kind = best_key(plain(room.name), names()["rooms"])
        why = "its label"
        if kind is None:
            kind, why = _by_furniture(home, area)
            why += f"; unknown label {room.name!r}" if room.name else "; no label"
        if room.drawn is None:
            why += "; enclosed by walls, not drawn as a room"
        types.append(kind)
        report.rooms.append((room.name or "-", kind, f"{why} ({area.area:.1f} m2)"))
    return types


def _by_furniture(home: Home, area: Polygon) -> tuple[str, str]:
    models = load_catalog().models
    found = set()
    for piece in home.pieces:
        if not piece.is_opening and area.contains(Point(piece.x, piece.z)):
            known = models.get(piece.catalog_id)
            found.add(known.category if known else best_key(plain(piece.name), names()["pieces"]))
    for kind, categories in names()["furniture"].items():
        telling = found & set(categories)
        if telling:
            return kind, f"a {min(telling)} in it"
    return "hallway", "nothing telling in it"


def _rooms(plan: Plan, types: list[str]) -> list[Room]:
    rooms, defaults = [], names()["defaults"]
    for place, (room, kind) in enumerate(zip(plan.rooms, types, strict=True)):
        drawn = room.drawn or HomeRoom("", (), None, None, None, True)
        outdoors = kind in names()["outdoors"] and not (drawn.has_ceiling and drawn.ceiling)
        floor = _surface(drawn.texture) or drawn.floor or defaults["outdoor floor" if outdoors else "floor"]
        paints: Counter[str] = Counter()
        for wall in plan.walls:
            for side in (0, 1):
                if wall.rooms[side] == place and wall.paints[side]:
                    paints[wall.paints[side]] += hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        paint = max(paints, key=paints.get) if paints else defaults["wall"]
        ceiling = None if outdoors else drawn.ceiling or defaults["ceiling"]
        rooms.append(Room(kind, room.polygon, floor, paint, ceiling))
    return rooms


def _surface(texture: str | None) -> str | None:
    """The catalogue's surface made from a texture of Sweet Home 3D."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", (texture or "").rpartition("#")[2]).lower()
    return name if name in load_catalog().surfaces else None


def _walls(home: Home, plan: Plan, house: House, report: Report) -> list[Wall]:
    walls, repainted = [], 0
    for wall in plan.walls:
        if wall.wall is None:
            walls.append(_border(wall, len(walls), house, report))
            continue
        height = None if wall.wall.height_m > home.height_m - _ROUND_M else round(wall.wall.height_m, 3)
        seen = {paint for paint, room in zip(wall.paints, wall.rooms, strict=True) if room >= 0 and paint}
        own = {house.rooms[room].wall for room in wall.rooms if room >= 0}
        surface = min(seen) if len(seen) == 1 and len(own) == 1 and seen != own else None
        repainted += bool(seen - own) and surface is None
        walls.append(Wall(wall.start, wall.end, round(wall.wall.thickness_m, 3), wall.rooms, height, surface))
    if repainted:
        report.notes.append(f"{repainted} walls between rooms are painted as the rest of each room")
    return walls


def _border(wall: PlanWall, place: int, house: House, report: Report) -> Wall:
    """An edge of a room where no wall was drawn: open to the next room, closed to the outside."""
    length = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
    if -1 not in wall.rooms:
        house.openings.append(Opening("doorway", place, length / 2, length, 0.0, house.height_m))
        return Wall(wall.start, wall.end, BORDER_M, wall.rooms)
    room = house.rooms[max(wall.rooms)]
    height = _PARAPET_M if room.ceiling is None else None
    what = "a parapet" if height else "a wall"
    report.notes.append(f"{room.type}: {length:.1f} m of its edge had no wall to the outside, closed by {what}")
    return Wall(wall.start, wall.end, 0.1, wall.rooms, height)


def _reachable(house: House, report: Report) -> House:
    """The house without rooms that no door joins to the largest part of the home; they count as outside."""
    ways = [house.walls[o.wall].rooms for o in house.openings if o.kind in ("door", "doorway") and o.bottom_m < 0.2]
    groups = {room: {room} for room in range(len(house.rooms))}
    for a, b in ways:
        joined = groups[a] | groups[b]
        for room in joined:
            groups[room] = joined
    kept = max(groups.values(), key=lambda group: sum(signed_area(house.rooms[room].polygon) for room in group))
    if len(kept) == len(house.rooms):
        return house
    for room in set(groups) - kept:
        report.notes.append(f"rooms[{room}] ({house.rooms[room].type}): no door leads to it, counts as outside")
        report.rooms[room] = (*report.rooms[room][:2], "left out: no door leads to it")
    number = defaultdict(lambda: -1, {room: place for place, room in enumerate(sorted(kept))})
    walls, openings, moved = [], [], {}
    for place, wall in enumerate(house.walls):
        rooms = tuple(number[room] for room in wall.rooms)
        if rooms != (-1, -1):
            moved[place] = len(walls)
            walls.append(replace(wall, rooms=rooms))
    for o in house.openings:
        if o.wall in moved:
            outside = -1 in walls[moved[o.wall]].rooms
            kind = {"door": "entrance", "doorway": "window"}.get(o.kind, o.kind) if outside else o.kind
            openings.append(replace(o, kind=kind, wall=moved[o.wall]))
    rooms = [house.rooms[room] for room in sorted(kept)]
    return replace(house, rooms=rooms, walls=walls, openings=openings)
