"""`rooms_of_instances`: the rooms that each instance reaches into, for culling by rooms and portals.

A view starts in the room that its camera stands in and continues through portals. Each cuts the part of the image in
which the next room can show (Luebke & Georges 1995, "Portals and mirrors"). Rooms of instances and parts of the image
err to the safe side, so that culling by them changes no pixel.

Axes: R rooms, E edges, P portals, I instances. Plan coordinates are (x, z), metres.
"""

import numpy as np
from jaxtyping import Bool, Float, UInt64

from eqa.envs.rendering.scene import Rooms, Scene

MAX_ROOMS = 63  # one bit each, and one for instances that are always drawn
EVERYWHERE = np.uint64(1 << 63)
_CLOSED = ("window", "entrance")  # panes and entrance doors are drawn solid
_INSIDE_M = 1e-3
_ABOVE_ALL_M = 100.0
NO_ROOMS = Rooms(
    *(np.empty((0, 4), np.float32), np.empty((0, 2), np.int32), np.empty((0, 4), np.float32)),
    *(np.empty((0, 6), np.float32), np.empty((0, 2), np.int32), np.empty(0, np.bool_), 0.0, 0.0),
)


def rooms_of_instances(
    scene: Scene, bounds: Float[np.ndarray, "I 6"], num_shared_meshes: int
) -> UInt64[np.ndarray, " I"]:
    """A bit for each room that an instance reaches into; EVERYWHERE for one that no room accounts for.

    `bounds`: least and greatest corner of each instance in the world. Corners decide for pieces of the building, which
    their room's own walls enclose; boxes decide for things.
    """
    items, rooms = scene.instances, scene.rooms
    bits = np.full(len(items.mesh), EVERYWHERE)
    if rooms is None:
        return bits
    outlines = [rooms.edge[first:end].astype(np.float64) for first, end in rooms.edge_range]
    low, high = bounds[:, [0, 2]], bounds[:, [3, 5]]
    floor = np.array([[*edge[:, :2].min(axis=0), *edge[:, :2].max(axis=0)] for edge in outlines])
    near = ((floor[:, 2:] > low[:, None]) & (floor[:, :2] < high[:, None])).all(axis=2)
    for i in np.flatnonzero(items.room >= 0).tolist():
        own = int(items.room[i])
        bits[i] = np.uint64(1) << np.uint64(own)
        building = items.instance_id[i] == 0 and items.mesh[i] >= num_shared_meshes
        points = _plan_points(scene, i, num_shared_meshes) if building else (low[i] + high[i])[None] / 2
        for room in np.flatnonzero(near[i]).tolist():
            if room == own or not (
                _deep_inside(outlines[room], points).any()
                or (not building and _edges_cross_box(outlines[room], low[i], high[i]).any())
            ):
                continue
            bits[i] |= np.uint64(1) << np.uint64(room)
    return bits


def _plan_points(scene: Scene, i: int, num_shared_meshes: int) -> Float[np.ndarray, "_ 2"]:
    """Plan coordinates of the vertices of a piece of the building."""
    items, meshes = scene.instances, scene.meshes
    points = meshes.vertices[slice(*meshes.vertex_range[items.mesh[i] - num_shared_meshes])].astype(np.float64)
    return (points @ items.rotation_scale[i].T + items.translation[i])[:, [0, 2]]


def _deep_inside(edge: Float[np.ndarray, "E 4"], points: Float[np.ndarray, "_ 2"]) -> Bool[np.ndarray, " _"]:
    """True for points in the polygon that are farther than _INSIDE_M from its edges."""
    ax, az, bx, bz = edge.T
    x, z = points[:, :1], points[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        crosses = ((az > z) != (bz > z)) & (x < ax + (z - az) / (bz - az) * (bx - ax))
    dx, dz = bx - ax, bz - az
    share = np.clip(((x - ax) * dx + (z - az) * dz) / (dx * dx + dz * dz), 0, 1)
    away = np.hypot(x - ax - share * dx, z - az - share * dz).min(axis=1)
    return (crosses.sum(axis=1) % 2 == 1) & (away > _INSIDE_M)


def _edges_cross_box(edge: Float[np.ndarray, "E 4"], low: np.ndarray, high: np.ndarray) -> Bool[np.ndarray, " E"]:
    """True for edges that pass through the inside of an upright rectangle."""
    start, step = edge[:, :2], edge[:, 2:] - edge[:, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (low - start) / step, (high - start) / step
    level = step == 0
    within = (start > low) & (start < high)
    enter = np.where(level, np.where(within, 0.0, 2.0), np.minimum(one, other)).max(axis=1)
    leave = np.where(level, np.where(within, 1.0, -1.0), np.maximum(one, other)).min(axis=1)
    return np.maximum(enter, 0) < np.minimum(leave, 1)
