"""From where an object can be seen: the poses at which a walk to it should end.

Candidate poses in the object's room look at it; all candidates of all objects of a house are drawn in one call, small, and
the object's pixels counted. EmbodiedQA's code takes the heading with most pixels at a random near place; here the place
is chosen by what is seen from it too, so furniture in between does not spoil a question.

Axes: V candidate views, W views beside them, C free cells, I instances.
"""

from collections.abc import Sequence
from math import atan2, pi
from zlib import crc32

import numpy as np
from jaxtyping import Float64

from envs.actions import NUM_HEADINGS, TURN_RAD
from envs.episode import Pose
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.house import House, HouseObject
from envs.house.navigation import HEADINGS_RAD, Floor, build_floor
from envs.house.rasterizer import Camera, Renderer
from envs.metrics import inside_polygon

VIEW_PX = 56
STRIDE = 3  # every third free cell along each axis is a candidate
NUM_AROUND = 3


def view_points(
    house: House,
    floor: Floor,
    renderer: Renderer,
    targets: Sequence[tuple[int, ...]],
    *,
    scene_index: int = 0,
    within_m: float = 3.0,
    num_candidates: int = 24,
    keep: int = 8,
    tolerance_m: float = 0.2,
    least_share: float = 0.015,
    enough_share: float = 0.15,
) -> list[tuple[Pose, ...] | None]:
    """For each target the poses from which it is seen well, best first; None where it is hardly seen.

    A target is the object ids that a question needs, to be seen in one view; it is the first one that the poses look at.
    `renderer` has the house loaded as `scene_index` and gives instance ids. All of the objects must fill at least
    `least_share` of a view, and half of that from wherever a walk may end, `tolerance_m` beside it. A pose is kept if in its
    worst view the first object fills at least half as much as in the best pose's; more than `enough_share` counts as that
    much, since nearer is no better. A function of the house and the target alone.
    ValueError names an id that the house does not have.
    """
    for target in targets:
        if not target or not all(1 <= i <= len(house.objects) for i in target):
            raise ValueError(f"targets: house {house.id} has objects 1 to {len(house.objects)}, got {target}")
    if "instance_id" not in renderer.modalities:
        raise ValueError(f"renderer: expected one that gives instance_id, got {renderer.modalities}")
    cells = _sparse_cells(floor)
    things = [house.objects[first - 1] for first in sorted({target[0] for target in targets})]
    in_room = {room: inside_polygon(cells, house.rooms[room].polygon) for room in {thing.room for thing in things}}
    candidates = {
        thing.id: _candidates(house, thing, cells[in_room[thing.room]], within_m, num_candidates) for thing in things
    }
    shares = _shares(renderer, scene_index, len(house.objects), candidates)
    views = {}  # each target's best candidates
    for target in map(tuple, targets):
        seen = (shares[target[0]][:, target] >= least_share).all(axis=1)
        order = np.argsort(-np.minimum(shares[target[0]][:, target[0]], enough_share), kind="stable")
        views[target] = order[seen[order]][:keep]
    chosen = {i: np.unique(np.concatenate([views[t] for t in views if t[0] == i])) for i in candidates}
    around = {i: _around(candidates[i][rows], tolerance_m) for i, rows in chosen.items()}
    for i, nearby in _shares(renderer, scene_index, len(house.objects), around).items():
        nearby[~floor.is_free(around[i])] = np.inf
        worst = nearby.reshape(len(chosen[i]), NUM_AROUND, len(house.objects) + 1).min(axis=1)
        shares[i][chosen[i]] = np.minimum(shares[i][chosen[i]], worst)
    return [_best(candidates[t[0]], shares[t[0]], t, views[tuple(t)], least_share, enough_share) for t in targets]


def _around(poses: Float64[np.ndarray, "V 3"], radius_m: float) -> Float64[np.ndarray, "W 3"]:
    """Poses on a circle round each pose, looking the same way."""
    angles = np.arange(NUM_AROUND) * 2 * pi / NUM_AROUND
    offsets = radius_m * np.stack([np.cos(angles), np.sin(angles), np.zeros(NUM_AROUND)], axis=1)
    return (poses[:, None] + offsets).reshape(-1, 3)


def _best(poses, worst_shares, target, rows, least_share, enough_share) -> tuple[Pose, ...] | None:
    """The poses among `rows` from which the whole target stays in view, best first."""
    rows = rows[(worst_shares[rows][:, target] >= least_share / 2).all(axis=1)]
    if not len(rows):
        return None
    score = np.minimum(worst_shares[rows, target[0]], enough_share)
    order = np.argsort(-score, kind="stable")
    return tuple(tuple(poses[rows[k]].tolist()) for k in order if score[k] >= score.max() / 2)


class ViewPointFinder:
    """`view_points` for houses that nobody has loaded yet: finder(house, targets)."""

    def __init__(self) -> None:
        self.renderer = Renderer(Camera(height_px=VIEW_PX, width_px=VIEW_PX), ("instance_id",))

    def __call__(self, house: House, targets: Sequence[tuple[int, ...]]) -> list[tuple[Pose, ...] | None]:
        catalog = load_catalog()
        scene = build_scene(house, catalog)
        self.renderer.load([scene])
        return view_points(house, build_floor(house, scene, catalog.meshes), self.renderer, targets)


def _sparse_cells(floor: Floor) -> Float64[np.ndarray, "C 2"]:
    rows, columns = np.nonzero(floor.free[::STRIDE, ::STRIDE])
    return (np.stack([columns, rows], axis=1) * STRIDE + 0.5) * floor.cell_m + np.asarray(floor.origin)


def _candidates(
    house: House, thing: HouseObject, cells: Float64[np.ndarray, "C 2"], within_m: float, num: int
) -> Float64[np.ndarray, "V 3"]:
    """Random places of the room near the object, each looking at its middle as well as headings allow."""
    centre = np.array([thing.position[0], thing.position[2]])
    near = cells[np.hypot(*(cells - centre).T) <= within_m]
    rng = np.random.default_rng([crc32(house.id.encode()), crc32(house.generator.encode()), thing.id])
    places = near[rng.permutation(len(near))[:num]]
    toward = [round(atan2(x - centre[0], z - centre[1]) % (2 * pi) / TURN_RAD) % NUM_HEADINGS for x, z in places]
    return np.concatenate([places, HEADINGS_RAD[np.asarray(toward, np.int64)][:, None]], axis=1)


def _shares(
    renderer: Renderer, scene_index: int, num_objects: int, candidates: dict[int, Float64[np.ndarray, "V 3"]]
) -> dict[int, Float64[np.ndarray, "V I"]]:
    """The share of each candidate view that each of the house's instances fills; instance 0 is the building."""
    poses = np.concatenate([np.empty((0, 3)), *candidates.values()])
    shares = np.empty((len(poses), num_objects + 1))
    for first in range(0, len(poses), 512):
        part = slice(first, first + 512)
        seen = renderer.render(np.full(len(poses[part]), scene_index, np.int32), poses[part])["instance_id"]
        in_view = np.arange(len(seen))[:, None, None] * (num_objects + 1) + seen
        counts = np.bincount(in_view.ravel(), minlength=len(seen) * (num_objects + 1))
        shares[part] = counts.reshape(len(seen), num_objects + 1) / seen[0].size
    starts = np.cumsum([0, *map(len, candidates.values())])
    return {target: shares[starts[k] : starts[k + 1]] for k, target in enumerate(candidates)}
