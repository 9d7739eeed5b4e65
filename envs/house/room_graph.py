"""`room_graph`: the rooms of a house and the portals between them, through which a view continues.

Plan coordinates are (x, z), metres.
"""

from math import hypot

import numpy as np

from eqa.envs.house.house import House, Wall
from eqa.envs.rendering.room_culling import MAX_ROOMS
from eqa.envs.rendering.scene import Rooms

_CLOSED = ("window", "entrance")  # panes and entrance doors are drawn solid
_ABOVE_ALL_M = 100.0


def room_graph(house: House) -> Rooms | None:
    """Rooms and portals of a house; None for more than MAX_ROOMS rooms, which are drawn without this culling."""
    if not 0 < len(house.rooms) <= MAX_ROOMS:
        return None
    portals, between, solid = [], [], []
    sees_out = np.zeros(len(house.rooms), np.bool_)
    for place, wall in enumerate(house.walls):
        holes = [o for o in house.openings if o.wall == place and o.kind not in _CLOSED]
        holes.sort(key=lambda o: o.offset_m)
        spans = [(o.offset_m - o.width_m / 2, o.offset_m + o.width_m / 2) for o in holes]
        solid += _solid_pieces(wall, spans)
        gaps = [(*_at(wall, a), *_at(wall, b), o.bottom_m, o.top_m) for (a, b), o in zip(spans, holes, strict=True)]
        if wall.height_m is not None and wall.height_m < house.height_m:
            gaps.append((*wall.start, *wall.end, wall.height_m, _ABOVE_ALL_M))
        if min(wall.rooms) >= 0:
            portals += gaps
            between += [wall.rooms] * len(gaps)
        elif gaps:
            sees_out[max(wall.rooms)] = True
    corners = [[*a, *b] for room in house.rooms for a, b in zip(room.polygon, room.polygon[1:] + room.polygon[:1])]
    ends = np.cumsum([len(room.polygon) for room in house.rooms])
    return Rooms(
        edge=np.array(corners, np.float32),
        edge_range=np.stack([np.append(0, ends[:-1]), ends], 1).astype(np.int32),
        solid=np.array(solid, np.float32).reshape(-1, 4),
        portal=np.array(portals, np.float32).reshape(-1, 6),
        portal_rooms=np.array(between, np.int32).reshape(-1, 2),
        sees_out=sees_out,
        height_m=house.height_m,
        wall_m=float(max(wall.thickness_m for wall in house.walls)),
    )


def _at(wall: Wall, offset_m: float) -> tuple[float, float]:
    (ax, az), (bx, bz) = wall.start, wall.end
    share = offset_m / hypot(bx - ax, bz - az)
    return ax + share * (bx - ax), az + share * (bz - az)


def _solid_pieces(wall: Wall, holes: list[tuple[float, float]]) -> list[list[float]]:
    """The wall's centre line without its holes."""
    (ax, az), (bx, bz) = wall.start, wall.end
    cuts = [0.0, *(offset for hole in holes for offset in hole), hypot(bx - ax, bz - az)]
    return [[*_at(wall, a), *_at(wall, b)] for a, b in zip(cuts[::2], cuts[1::2], strict=True) if b > a]
