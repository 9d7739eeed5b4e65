"""From where an object can be seen: the poses at which a walk to it should end.

Candidate poses in the object's room look at it; all candidates of all objects of a house are drawn in one call, small, and
the object's pixels counted. EmbodiedQA's code takes the heading with most pixels at a random near place; here the place
is chosen by what is seen from it too, so furniture in between does not spoil a question.

Axes: V candidate views, C free cells, I instances.
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
    least_share: float = 0.015,
    enough_share: float = 0.25,
) -> list[tuple[Pose, ...] | None]:
    """For each target the poses from which it is seen well, best first; None where it is hardly seen.

    A target is the object ids that a question needs, to be seen in one view; it is the first one that the poses look at.
    `renderer` has the house loaded as `scene_index` and gives instance ids. A pose is kept if the first object fills at
    least half as much of the view as from the best one; more than `enough_share` counts as that much, since nearer is no
    better. Any of the objects filling less than `least_share` is not visible. A function of the house and the target alone.
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
    found = []
    for target in targets:
        poses, of_first = candidates[target[0]], shares[target[0]][:, target[0]]
        seen = (shares[target[0]][:, target] >= least_share).all(axis=1)
        score = np.where(seen, np.minimum(of_first, enough_share), 0.0)
        if not seen.any():
            found.append(None)
            continue
        order = np.argsort(-score, kind="stable")[:keep]
        found.append(tuple(tuple(poses[k].tolist()) for k in order if score[k] >= score.max() / 2))
    return found


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
    ends = np.cumsum([len(of_one) for of_one in candidates.values()])[:-1]
    return dict(zip(candidates, np.split(shares, ends), strict=True))
