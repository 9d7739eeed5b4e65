"""`render_top_down`: a scene straight from above in parallel projection, as maps of colour, depth, class and instance.

The rasteriser draws pinhole views: a vertex (X, Y, Z) falls on (X, Y) / Z, and points of larger 1/Z, which is linear on
the image, hide it. A change of coordinates makes a parallel view of it: a point at (x, z) of the plan, in height h,
becomes (x, z, 1) / q with q = 1 + (h - top) / scale. It falls on (x, z) at any height, and its 1/Z is q, linear in the
height. The near plane Z = 1 cuts away everything above the top. The map is projective, so flat faces stay flat, and
positions and depths are exact.

Light and texture alone are inexact: the kernels take them for linear in space, which is wrong on a slanted face. Their
error is at most a quarter of their variation on the face times its height / scale; SCALE keeps that below 1 %. It also
keeps depth far above the rounding of a float32 q near 1.

Axes: V vertices, I instances, H W image.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from eqa.envs.rendering.buffers import PAD, Lens, World, build_world, make_scratch
from eqa.envs.rendering.cpu_kernels import draw
from eqa.envs.rendering.outside import plain_outside
from eqa.envs.rendering.renderer import SENSORS
from eqa.envs.rendering.scene import Scene, nearest_level

SCALE = 50  # in heights of the scene below the cut
MARGIN = 1.04  # width of the image in widths of the building
WHITE = 0xFFFFFF
_DOWN = np.eye(4, 3).reshape(1, 12)  # right is X, down is Z, forward is down


def render_top_down(
    scene: Scene, size_px: int = 512, *, cut_height_m: float = 2.0
) -> tuple[dict[str, np.ndarray], tuple[float, float, float]]:
    """A square map of a scene, cut at `cut_height_m`: north (-Z) up, on white.

    Returns the images of SENSORS, each (size_px, size_px, ...), and (x, z, metres): the plan coordinates of the image's
    top left corner and the width of a pixel. Depth is metres below `cut_height_m`, 0 for empty pixels. The pixel in row
    i and column j shows the point (x + (j + 0.5) metres, z + (i + 0.5) metres) from above.
    ValueError: a size not from 1 to 8192, a scene without vertices.
    """
    if not 1 <= size_px <= 8192:
        raise ValueError(f"size_px: expected 1 to 8192, got {size_px}")
    # A parallel view looks into all rooms at once, so that none hides another.
    world = build_world([replace(nearest_level(scene), rooms=None)])
    points, counts = _world_vertices(world)
    if not len(points):
        raise ValueError(f"scene {scene.scene_id}: expected at least one vertex to draw, got none")
    building = np.repeat(world.instance_id == 0, counts)
    plan = points[building if building.any() else slice(None)][:, [0, 2]]
    low, high = plan.min(axis=0), plan.max(axis=0)
    extent_m, middle = MARGIN * float((high - low).max()), (low + high) / 2
    lowest, highest = points[:, 1].min(), points[:, 1].max()
    top = min(cut_height_m, highest)
    scale_m = SCALE * max(top - lowest, 1.0)
    q = 1 + (points[:, 1] - top) / scale_m
    bent = np.column_stack([points[:, [0, 2]] - middle, np.ones(len(q))]) / q[:, None]
    images = _draw(_with_vertices(world, bent, counts), Lens(size_px, size_px, size_px / extent_m, 1.0))
    seen = images["depth"] > 0
    below_top = scale_m * (1 - 1 / images["depth"][seen].astype(np.float64))
    images["depth"][seen] = cut_height_m - top + below_top
    x, z = middle - extent_m / 2
    return images, (float(x), float(z), extent_m / size_px)


def _world_vertices(world: World) -> tuple[Float[np.ndarray, "V 3"], np.ndarray]:
    """The vertices of every instance in the world, end to end, and the number of each (I,)."""
    ranges = world.vertex_range[world.mesh]
    parts = [
        world.xyz[:, first:end].T @ world.rotation_scale[i].T + world.translation[i]
        for i, (first, end) in enumerate(ranges)
    ]
    return np.concatenate([np.empty((0, 3)), *parts]), ranges[:, 1] - ranges[:, 0]


def _with_vertices(world: World, points: Float[np.ndarray, "V 3"], counts: np.ndarray) -> World:
    """The world with a mesh of its own for each instance, whose vertices are `points` in world coordinates."""
    ends = np.cumsum(counts)
    ranges = np.column_stack([ends - counts, ends])
    box, sphere = np.zeros((len(counts), 6), np.float32), np.zeros((4, len(counts)))
    bounds = np.zeros((len(counts), 6))
    for i, (first, end) in enumerate(ranges):
        if end > first:
            low, high = points[first:end].min(axis=0), points[first:end].max(axis=0)
            half = (high - low) / 2 * 1.00001 + 1e-6
            box[i], bounds[i] = [*(low + high) / 2, *half], [*low, *high]
            sphere[:, i] = [*(low + high) / 2, np.linalg.norm(half)]
    uv = [world.uv[slice(*world.vertex_range[mesh])] for mesh in world.mesh]
    return world._replace(
        xyz=np.ascontiguousarray(points.T, np.float32),
        uv=np.concatenate(uv),
        vertex_range=ranges,
        face_range=world.face_range[world.mesh],
        box=box,
        mesh=np.arange(len(counts)),
        rotation_scale=np.tile(np.eye(3), (len(counts), 1, 1)),
        translation=np.zeros((len(counts), 3)),
        sphere=sphere,
        bounds=bounds,
    )


def _draw(world: World, lens: Lens) -> dict[str, np.ndarray]:
    """Every sensor of the world seen from its origin along Z."""
    size = (lens.height, lens.width)
    images = {name: np.empty((*size, 3) if name == "rgb" else size, kind) for name, kind in SENSORS.items()}
    targets = [image.reshape(1, lens.height, -1) for image in images.values()]
    outside = plain_outside(WHITE, lens.height * lens.width + PAD)
    wanted = np.ones(len(SENSORS), np.bool_)
    draw(world, lens, np.zeros(1, np.int64), _DOWN, make_scratch(world, lens, None), outside, wanted, *targets)
    return images
