"""`read_plan`: rooms that walls enclose, made from the free walls and room outlines of a Sweet Home 3D drawing.

A drawing's walls meet somewhere near each other, and its rooms lie along their faces. The centre lines of all walls cut
the plane into faces, together with room outlines that have no wall. A face belongs to the room that covers most of it.
A wall separates two faces of different rooms, or an open border if only an outline ran there. A wall with the same room
on both sides stands free in it. Plan coordinates are (x, z), metres.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import atan2, ceil, cos, degrees, hypot, pi, sin, tan

import shapely
from shapely import LineString, Point, Polygon
from shapely.ops import linemerge, polygonize, split, unary_union

from eqa.envs.house.geometry import signed_area
from eqa.envs.house.sweethome.reader import Home, HomeRoom, HomeWall

GRID_M = 0.001
BORDER_M = 0.02  # thickness of an open border
_CHORD_M = 1.1  # of a round wall
_REACH_M = 0.08  # a wall that ends within this of another's face meets it
_SAME_M = 0.03  # ends of walls nearer to each other than this are one corner
_LEAST_ROOM_M2 = 1.5  # a smaller enclosed place that no room covers is a shaft
_SLIVER_M = 0.12  # faces that are nowhere wider lie between the lines of one wall


@dataclass(frozen=True, slots=True)
class Line:
    start: tuple[float, float]
    end: tuple[float, float]
    wall: HomeWall | None  # None: an open border

    @property
    def shape(self) -> LineString:
        return LineString([self.start, self.end])


@dataclass(slots=True)
class PlanRoom:
    name: str
    polygon: list[tuple[float, float]]
    drawn: HomeRoom | None  # None: enclosed by walls, but not drawn as a room


@dataclass(slots=True)
class PlanWall:
    """`rooms` are those on the left and right of start -> end, -1 outside, the same twice for a wall within a room."""

    start: tuple[float, float]
    end: tuple[float, float]
    rooms: tuple[int, int]
    wall: HomeWall | None
    paints: tuple[str | None, str | None]


@dataclass(slots=True)
class Plan:
    rooms: list[PlanRoom] = field(default_factory=list)
    walls: list[PlanWall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_plan(home: Home) -> Plan:
    """Rooms and walls of a drawing; ValueError where there is no room to be found."""
    plan = Plan()
    lines = _joined(_uncovered([line for wall in home.walls for line in chords(wall)], plan))
    drawn = [(room, _area(room.polygon)) for room in home.rooms]
    lines += _open_borders(drawn, lines)
    noded = shapely.union_all([line.shape for line in lines], grid_size=GRID_M)
    _add_rooms(_labelled(list(polygonize(noded)), drawn, _bodies(lines)), drawn, plan)
    if not plan.rooms:
        raise ValueError("expected rooms that walls enclose, got none; draw rooms or close the walls round them")
    outlines = [LineString([*room.polygon, room.polygon[0]]) for room in plan.rooms]
    noded = shapely.union_all([noded, *outlines], grid_size=GRID_M)
    _add_walls(noded, lines, plan)
    return plan


def _area(corners: tuple[tuple[float, float], ...]) -> shapely.Geometry:
    """The area that an outline encloses, even if it crosses itself."""
    parts = shapely.get_parts(shapely.make_valid(Polygon(corners)))
    return shapely.union_all([part for part in parts if part.area > 0])


def chords(wall: HomeWall) -> list[Line]:
    """A straight wall as it is, a round one as chords of about a metre."""
    (ax, az), (bx, bz) = wall.start, wall.end
    if abs(wall.arc_rad) < 0.01:
        return [Line(wall.start, wall.end, wall)]
    span = hypot(bx - ax, bz - az)
    half = -(pi + wall.arc_rad) / 2 if abs(wall.arc_rad) > pi else (pi - wall.arc_rad) / 2
    away = -tan(half) * span / 2
    cx, cz = (ax + bx) / 2 + away * (bz - az) / span, (az + bz) / 2 + away * (ax - bx) / span
    radius, extent = hypot(ax - cx, az - cz), abs(wall.arc_rad)
    count = max(2, round(radius * extent / _CHORD_M), ceil(extent / 0.5))
    first = atan2(az - cz, ax - cx)
    ends = [(cx + radius * cos(first + s * extent), cz + radius * sin(first + s * extent)) for s in (1, -1)]
    way = 1 if hypot(ends[0][0] - bx, ends[0][1] - bz) < hypot(ends[1][0] - bx, ends[1][1] - bz) else -1
    angles = [first + way * extent * i / count for i in range(1, count)]
    points = [wall.start, *((cx + radius * cos(a), cz + radius * sin(a)) for a in angles), wall.end]
    return [Line(a, b, wall) for a, b in pairwise(points)]


def _uncovered(lines: list[Line], plan: Plan) -> list[Line]:
    """The lines without walls inside a thicker one: two centre lines side by side would enclose a sliver."""
    kept: list[Line] = []
    bodies: list[Polygon] = []
    for line in sorted(lines, key=lambda line: (-line.wall.thickness_m, -line.shape.length)):
        near = unary_union([body for body, meets in zip(bodies, shapely.intersects(bodies, line.shape)) if meets])
        if line.shape.difference(near).length < 0.05:
            plan.notes.append(f"{line.wall.name}: lies inside another wall")
        else:
            kept.append(line)
            bodies.append(line.shape.buffer(max(line.wall.thickness_m / 2, 0.04) + 0.01))
    return kept


def _joined(lines: list[Line]) -> list[Line]:
    """The lines with ends moved together that nearly meet, and onto the centre line of a wall that they run into."""
    ends = [(end, far, line) for line in lines for end, far in ((line.start, line.end), (line.end, line.start))]
    sharing = Counter(end for end, _, _ in ends)
    moved: dict[tuple[float, float], tuple[float, float]] = {}
    for end, far, line in sorted(ends, key=lambda entry: (-entry[2].wall.thickness_m, -sharing[entry[0]])):
        if end not in moved:
            near = next((known for known in moved if _apart(end, known) < _SAME_M), None)
            others = [other for other in lines if other is not line and end not in (other.start, other.end)]
            if sharing[end] > 1:  # a corner stays where it was drawn, unless it stands in a thicker wall
                others = [other for other in others if other.wall.thickness_m > line.wall.thickness_m]
            moved[end] = moved[near] if near is not None else _met(end, far, others)
    joined = [Line(moved[line.start], moved[line.end], line.wall) for line in lines]
    return [line for line in joined if _apart(line.start, line.end) > 2 * GRID_M]


def _met(end: tuple[float, float], far: tuple[float, float], others: list[Line]) -> tuple[float, float]:
    """The point at which a wall from `far` to `end` meets the one that it runs into; `end` if it runs into none."""
    gaps = [(other.shape.distance(Point(end)) - other.wall.thickness_m / 2, i) for i, other in enumerate(others)]
    gap, nearest = min(gaps, default=(_REACH_M, -1))
    return _onto(end, far, others[nearest]) if gap < _REACH_M else end


def _onto(end: tuple[float, float], far: tuple[float, float], other: Line) -> tuple[float, float]:
    length = _apart(end, far)
    ux, uz = (end[0] - far[0]) / length, (end[1] - far[1]) / length
    reach = other.wall.thickness_m + _REACH_M
    longer = LineString([(end[0] - ux * reach, end[1] - uz * reach), (end[0] + ux * reach, end[1] + uz * reach)])
    crossing = longer.intersection(other.shape)
    if not isinstance(crossing, Point) or crossing.is_empty:
        crossing = other.shape.interpolate(other.shape.project(Point(end)))
    for corner in (other.start, other.end):
        if _apart((crossing.x, crossing.y), corner) < _SAME_M:
            return corner
    return crossing.x, crossing.y


def _apart(a: tuple[float, float], b: tuple[float, float]) -> float:
    return hypot(a[0] - b[0], a[1] - b[1])


def _bodies(lines: list[Line]) -> Polygon:
    """The area that walls stand on."""
    walls = [line.shape.buffer(line.wall.thickness_m / 2, cap_style="square") for line in lines if line.wall]
    return unary_union(walls)


def _open_borders(drawn: list[tuple[HomeRoom, Polygon]], lines: list[Line]) -> list[Line]:
    """The parts of the rooms' outlines without a wall, each border once, extended to the walls' centre lines."""
    solid = _bodies(lines).buffer(0.015)
    centres = unary_union([line.shape for line in lines])
    borders: list[Line] = []
    for _, area in drawn:
        for part in shapely.get_parts(linemerge_of(area.boundary.difference(solid))):
            part = part.simplify(0.02)
            if part.length < 0.12:
                continue
            points = [*part.coords]
            if not part.is_closed:
                targets = unary_union([centres, *(border.shape for border in borders)])
                points = [*_foot(points[0], targets), *points, *_foot(points[-1], targets)]
            fresh = [Line(a, b, None) for a, b in pairwise(points) if _apart(a, b) > GRID_M]
            borders += fresh
            solid = solid.union(unary_union([border.shape.buffer(0.08) for border in fresh]))
    return borders


def linemerge_of(shape: shapely.Geometry) -> shapely.Geometry:
    """Lines joined end to end, whatever the shape was."""
    lines = [part for part in shapely.get_parts(shape) if part.geom_type in ("LineString", "LinearRing")]
    return linemerge(lines) if len(lines) > 1 else lines[0] if lines else LineString()


def _foot(point: tuple[float, float], targets: shapely.Geometry) -> list[tuple[float, float]]:
    """The nearest possible end of a border on a line, if there is one within about half a wall's thickness."""
    if targets.is_empty or targets.distance(Point(point)) > 0.3:
        return []
    _, foot = shapely.ops.nearest_points(Point(point), targets)
    return [(foot.x, foot.y)]


def _labelled(
    faces: list[Polygon], drawn: list[tuple[HomeRoom, Polygon]], bodies: Polygon
) -> list[tuple[Polygon, int | None]]:
    """Each face with its room's place among the drawn ones, -1 - n for the nth room not drawn, None for a shaft."""
    labels: list[int | None] = []
    slivers = []
    for place, face in enumerate(faces):
        inside = face.difference(bodies)
        covered = [inside.intersection(area).area for _, area in drawn]
        best = max(range(len(drawn)), key=covered.__getitem__, default=None)
        if face.buffer(-_SLIVER_M / 2).is_empty or inside.area < 0.02:
            slivers.append(place)
            labels.append(None)
        elif best is not None and covered[best] > 0.3 * inside.area:
            labels.append(best)
        else:
            labels.append(-1 - place if inside.area >= _LEAST_ROOM_M2 else None)
    for place in slivers:
        shared = [(faces[place].boundary.intersection(face.boundary).length, i) for i, face in enumerate(faces)]
        known = [(length, i) for length, i in shared if i not in slivers and length > GRID_M]
        labels[place] = labels[max(known)[1]] if known else None
    return list(zip(faces, labels, strict=True))


def _add_rooms(labelled: list[tuple[Polygon, int | None]], drawn: list[tuple[HomeRoom, Polygon]], plan: Plan) -> None:
    for label in sorted({label for _, label in labelled if label is not None}, reverse=True):
        room = drawn[label][0] if label >= 0 else None
        area = unary_union([face for face, own in labelled if own == label])
        others = unary_union([face for face, own in labelled if own not in (label, None)])
        for number, part in enumerate(sorted(shapely.get_parts(area), key=lambda part: -part.area)):
            if number and part.area < _LEAST_ROOM_M2:
                plan.notes.append(f"{part.area:.1f} m2 of room {room.name if room else ''!r}: cut off by walls")
                continue
            for whole in _without_holes(part, others):
                plan.rooms.append(PlanRoom(room.name if room else "", _corners(whole), room))
    found = {id(room.drawn) for room in plan.rooms}
    for room, _ in drawn:
        if id(room) not in found:
            plan.notes.append(f"room {room.name!r}: no walls or outline enclose it")


def _without_holes(area: Polygon, others: shapely.Geometry) -> list[Polygon]:
    """The area with shafts filled, whose walls stand free in it; a room round another one is cut in two."""
    for hole in area.interiors:
        inner = Polygon(hole)
        if inner.intersection(others).area > 0.05:
            x, (_, z0, _, z1) = inner.centroid.x, area.bounds
            parts = split(area, LineString([(x, z0 - 1), (x, z1 + 1)])).geoms
            return [whole for part in parts for whole in _without_holes(part, others)]
    return [Polygon(area.exterior)]


def _corners(area: Polygon) -> list[tuple[float, float]]:
    """Corners counter-clockwise seen from above, to the millimetre, without those on a straight line."""
    points = [(round(x, 3), round(z, 3)) for x, z in area.exterior.coords[:-1]]
    points = [p for i, p in enumerate(points) if p != points[i - 1]]
    kept = []
    for i, point in enumerate(points):
        line = LineString([points[i - 1], points[(i + 1) % len(points)]])
        if line.distance(Point(point)) > GRID_M / 2:
            kept.append(point)
    return kept if signed_area(kept) > 0 else kept[::-1]


def _add_walls(noded: shapely.Geometry, lines: list[Line], plan: Plan) -> None:
    """One wall for each straight run that has the same rooms on both sides and comes from the same wall."""
    areas = [Polygon(room.polygon) for room in plan.rooms]
    for area in areas:
        shapely.prepare(area)
    runs: dict[tuple, list[tuple]] = {}
    dropped: set[str] = set()
    for part in shapely.get_parts(noded):
        for a, b in pairwise(part.coords):
            source = _source(a, b, lines)
            left, right = (_room_at(a, b, side, areas) for side in (1, -1))
            if left == right and (left < 0 or source is None):
                if source is not None:
                    dropped.add(source.wall.name)
                continue
            along = source is None or _same_way(a, b, source)
            if left < 0 or not along and right >= 0:
                a, b, left, right, along = b, a, right, left, not along
            heading = round(degrees(atan2(b[1] - a[1], b[0] - a[0])))
            key = (lines.index(source) if source else -1, left, right, along, heading if source is None else 0)
            runs.setdefault(key, []).append((a, b))
    for (source, left, right, along, _), segments in runs.items():
        wall = lines[source].wall if source >= 0 else None
        paints = (None, None) if wall is None else wall.paints if along else wall.paints[::-1]
        ends = [(start, end) for start, end in _merged(segments) if start != end]
        plan.walls += [PlanWall(start, end, (left, right), wall, paints) for start, end in ends]
    dropped -= {wall.wall.name for wall in plan.walls if wall.wall}
    plan.notes += [f"{name}: stands outside of all rooms" for name in sorted(dropped)]


def _source(a: tuple[float, float], b: tuple[float, float], lines: list[Line]) -> Line | None:
    """The wall whose centre line runs here; None on an open border."""
    middle = Point((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    near = [line for line in lines if line.wall and line.shape.distance(middle) < 3 * GRID_M]
    return max(near, key=lambda line: line.wall.thickness_m, default=None)


def _room_at(a: tuple[float, float], b: tuple[float, float], side: int, areas: list[Polygon]) -> int:
    length = _apart(a, b)
    step = side * min(0.004, length / 4) / length
    point = Point((a[0] + b[0]) / 2 + (b[1] - a[1]) * step, (a[1] + b[1]) / 2 - (b[0] - a[0]) * step)
    return next((place for place, area in enumerate(areas) if area.contains(point)), -1)


def _same_way(a: tuple[float, float], b: tuple[float, float], line: Line) -> bool:
    return (b[0] - a[0]) * (line.end[0] - line.start[0]) + (b[1] - a[1]) * (line.end[1] - line.start[1]) > 0


def _merged(segments: list[tuple]) -> list[tuple]:
    """Segments that follow one another in a line as one; all run the same way."""
    following = {a: (a, b) for a, b in segments}
    ends = {b for _, b in segments}
    merged = []
    for a, b in segments:
        if a in ends:
            continue
        while b in following:
            b = following[b][1]
        merged.append(((round(a[0], 3), round(a[1], 3)), (round(b[0], 3), round(b[1], 3))))
    return merged
