"""From where an object can be seen: the poses at which a walk to it should end.

Candidate poses in the object's room look at it; all candidates of all objects of a house are drawn in one call, small, and
the object's pixels counted. EmbodiedQA's code takes the heading with most pixels at a random near place; here the place
is chosen by what is seen from it too, so furniture in between does not spoil a question.

Axes: V candidate views, C free cells.
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
    targets: Sequence[int],
    *,
    scene_index: int = 0,
    within_m: float = 3.0,
    num_candidates: int = 24,
    keep: int = 8,
    least_share: float = 0.015,
    enough_share: float = 0.25,
) -> list[tuple[Pose, ...] | None]:
    """For each target (an object id) the poses from which it is seen well, best first; None where it is hardly seen.

    `renderer` has the house loaded as `scene_index` and gives instance ids. A pose is kept if the target fills at least half
    as much of the view as from the best one; more than `enough_share` counts as that much, since nearer is no better.
    Less than `least_share` from everywhere is not visible. A function of the house and the target alone.
    ValueError names an id that the house does not have.
    """
    for target in targets:
        if not 1 <= target <= len(house.objects):
            raise ValueError(f"targets: house {house.id} has objects 1 to {len(house.objects)}, got {target}")
    if "instance_id" not in renderer.modalities:
        raise ValueError(f"renderer: expected one that gives instance_id, got {renderer.modalities}")
    cells = _sparse_cells(floor)
    things = [house.objects[target - 1] for target in targets]
    in_room = {room: inside_polygon(cells, house.rooms[room].polygon) for room in {thing.room for thing in things}}
    candidates = [_candidates(house, thing, cells[in_room[thing.room]], within_m, num_candidates) for thing in things]
    shares = _shares(renderer, scene_index, things, candidates)
    found = []
    for poses, share in zip(candidates, shares):
        if not len(share) or share.max() < least_share:
            found.append(None)
            continue
        score = np.minimum(share, enough_share)
        order = np.argsort(-score, kind="stable")[:keep]
        found.append(tuple(tuple(poses[k].tolist()) for k in order if score[k] >= score.max() / 2))
    return found


class ViewPointFinder:
    """`view_points` for houses that nobody has loaded yet: finder(house, object ids)."""

    def __init__(self) -> None:
        self.renderer = Renderer(Camera(height_px=VIEW_PX, width_px=VIEW_PX), ("instance_id",))

    def __call__(self, house: House, targets: Sequence[int]) -> list[tuple[Pose, ...] | None]:
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
    renderer: Renderer, scene_index: int, things: list[HouseObject], candidates: list[Float64[np.ndarray, "V 3"]]
) -> list[Float64[np.ndarray, " V"]]:
    """The share of each candidate view that its object fills."""
    ids = np.repeat([thing.id for thing in things], [len(poses) for poses in candidates])
    poses = np.concatenate(candidates)
    shares = np.empty(len(poses))
    for first in range(0, len(poses), 512):
        part = slice(first, first + 512)
        seen = renderer.render(np.full(len(poses[part]), scene_index, np.int32), poses[part])["instance_id"]
        shares[part] = (seen == ids[part, None, None]).mean(axis=(1, 2))
    return np.split(shares, np.cumsum([len(poses) for poses in candidates])[:-1])
