"""`PanoramaRenderer`: all directions round a pose as one equirectangular image of each modality.

Column and row are proportional to heading and elevation: the pose's heading is in the middle, left of it what lies to the
left, straight up is the top row. Each pixel shows what the nearest pixel of a cube of six square views shows.

Axes: N panoramas, H rows, 2 H columns, S side of a cube's face in pixels.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from envs.house.raster_world import SharedAssets
from envs.house.rasterizer import MODALITIES, Camera, Renderer, outside_colours
from envs.house.scene import Scene

_YAWS_RAD = tuple(np.pi / 2 * k for k in range(4))  # ahead, left, behind, right


class PanoramaRenderer:
    """Draws panoramas of the scenes of the last `load`; the rules of `Renderer` hold."""

    def __init__(
        self,
        height_px: int = 256,
        modalities: Sequence[str] = tuple(MODALITIES),
        *,
        camera_height_m: float = 1.0,
        near_m: float = 0.05,
        assets: SharedAssets | None = None,
    ) -> None:
        self.modalities = tuple(modalities)
        camera = Camera(height_px, height_px, 90.0, camera_height_m, near_m)
        # Depth tells what was hit, and colour outside is found per panorama pixel: so the cube needs it in any case.
        self._cube = Renderer(camera, tuple(dict.fromkeys((*modalities, "depth"))), assets=assets)
        self._up, self._down = (
            Camera(height_px, height_px, 90.0, camera_height_m, near_m, pitch) for pitch in (np.pi / 2, -np.pi / 2)
        )
        self._source, self._ray_length, up = _sampling(height_px)
        self._outside = outside_colours(up)

    def load(self, scenes: Sequence[Scene]) -> None:
        self._cube.load(scenes)

    def render(self, scene_index: np.ndarray, poses: np.ndarray) -> dict[str, np.ndarray]:
        """Panorama n of scene scene_index[n] (N,) round poses[n] = (x, z, heading_rad).

        Gives rgb (N, H, 2 H, 3) uint8, depth (N, H, 2 H) float32, class_id and instance_id like `Renderer.render`, with one
        difference: depth is the distance from the camera along the pixel's own ray, since there is no image plane.
        """
        scene_index, poses = self._cube.checked(scene_index, poses)
        turned = [self._cube.camera.views(poses + [0, 0, yaw]) for yaw in _YAWS_RAD]
        views = np.stack([*turned, self._up.views(poses), self._down.views(poses)], axis=1).reshape(-1, 12)
        faces = self._cube.draw(np.repeat(scene_index, 6), views)
        images = {}
        for name, face in faces.items():
            flat = face.reshape(len(poses), -1, *face.shape[3:])
            images[name] = np.take(flat, self._source, axis=1)
        if "rgb" in images:
            images["rgb"] = np.where(images["depth"][..., None] > 0, images["rgb"], self._outside)
        images["depth"] *= self._ray_length
        return {name: images[name] for name in self.modalities}


def _sampling(
    height_px: int,
) -> tuple[Int64[np.ndarray, "H W"], Float32[np.ndarray, "H W"], Float32[np.ndarray, "H W"]]:
    """For each panorama pixel: the cube pixel, face by face, that it shows; how much longer that one's ray is than its
    part along the face's axis; the upward part of the pixel's own direction."""
    side = height_px
    left_rad = np.pi - (np.arange(2 * side) + 0.5) * np.pi / side
    elevation = np.pi / 2 - (np.arange(side) + 0.5)[:, None] * np.pi / side
    ahead, left = np.cos(elevation) * np.cos(left_rad), np.cos(elevation) * np.sin(left_rad)
    up = np.sin(elevation) + np.zeros_like(left_rad)
    right = -left
    # Per face: the parts of a direction along the face's right, up and outward axes.
    axes = [
        (right, up, ahead), (ahead, up, left), (left, up, -ahead), (-ahead, up, right),
        (right, -ahead, up), (right, ahead, -up),
    ]  # fmt: skip
    face = np.argmax([outward for _, _, outward in axes], axis=0)
    x, y = (np.choose(face, [axis[k] / np.maximum(axis[2], 1e-9) for axis in axes]) for k in range(2))
    column, row = (np.clip(np.floor((at + 1) / 2 * side), 0, side - 1).astype(np.int64) for at in (x, -y))
    beside, below = ((at + 0.5) / side * 2 - 1 for at in (column, row))
    length = np.sqrt(1 + beside**2 + below**2)
    return (face * side + row) * side + column, length.astype(np.float32), up.astype(np.float32)
