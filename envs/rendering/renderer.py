"""`Renderer`: first-person colour, depth, class and instance images of many scenes and poses in one call, on the CPU.

Colours are sRGB without tone mapping: texel * material * light, the light baked once (`lighting`).
Pixels without a hit show the outside (`outside`), as panes do; they have depth 0, class 0 and instance 0.
Equal input gives equal output, bit for bit, with any number of threads (`numba.set_num_threads`).

Axes: N views, S scenes, H W image. Metres, X right, Y up; heading 0 looks along -Z and grows counter-clockwise.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from eqa.envs.rendering.buffers import PAD, Lens, Scratch, World, build_world, make_scratch
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.cpu_kernels import draw
from eqa.envs.rendering.outside import outside_of
from eqa.envs.rendering.scene import Scene

SENSORS: dict[str, type] = {"rgb": np.uint8, "depth": np.float32, "class_id": np.uint8, "instance_id": np.uint16}

_FINE_VIEWS = 16  # drawn at once if pixels have samples, to bound memory


class Renderer:
    """Renderer of the scenes of the last `load`. Each call itself uses all of Numba's threads.

    One renderer serves one thread. A worker process that draws must be spawned, not forked, once its parent has drawn:
    Numba's OpenMP layer ends a forked child.
    """

    def __init__(
        self,
        camera: Camera | None = None,
        sensors: Sequence[str] = tuple(SENSORS),
    ) -> None:
        """`sensors`: names of SENSORS, the images that `render` gives."""
        self.camera = camera or Camera()
        self.sensors = known_sensors(sensors)
        self.num_scenes = 0
        fine = self.camera.fine()
        self._lens = Lens(fine.width_px, fine.height_px, fine.focal_px, fine.near_m)
        self._outside = outside_of(fine, PAD)
        self._scenes: Sequence[Scene] = ()
        self._world: World | None = None
        self._has_light = False
        self._scratch: Scratch | None = None

    def load(self, scenes: Sequence[Scene]) -> None:
        """Makes `render` draw these scenes, counted by `scene_index` in this order. They share their assets.

        Light is baked if "rgb" is among the renderer's own sensors, else when it is first asked for.
        """
        self._prepare(scenes, coloured="rgb" in self.sensors)

    def _prepare(self, scenes: Sequence[Scene], *, coloured: bool) -> None:
        self._world = build_world(scenes, coloured=coloured)
        self._scratch = make_scratch(self._world, self._lens, self._scratch)
        self._scenes, self._has_light, self.num_scenes = tuple(scenes), coloured, len(scenes)

    def render(
        self,
        scene_index: np.ndarray,
        poses: np.ndarray,
        out: Mapping[str, np.ndarray] | None = None,
        *,
        sensors: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """Draws view n of scene scene_index[n] (N,) from poses[n] = (x, y, z, heading_rad) of poses (N, 4).

        Gives the chosen ones of rgb (N, H, W, 3) uint8, depth (N, H, W) float32 (planar metres), class_id (N, H, W)
        uint8 and instance_id (N, H, W) uint16: `sensors`, else the renderer's own. `out` are arrays to write into (an
        earlier result), so that nothing is allocated. ValueError: before `load`, wrong shapes, values that are not
        finite, a scene that is not loaded.
        """
        scene_index, poses = self.checked(scene_index, poses)
        return self.draw(scene_index, self.camera.views(poses), out, sensors=sensors)

    def checked(self, scene_index: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Arguments of `render` as int64 and float64; ValueError as there."""
        if self._world is None:
            raise ValueError("render: no scenes are loaded; call load(scenes) first")
        scene_index, poses = np.asarray(scene_index), np.asarray(poses, np.float64)
        if poses.ndim != 2 or poses.shape[1] != 4:
            raise ValueError(f"poses: expected shape (N, 4) of x, y, z, heading_rad, got {poses.shape}")
        if scene_index.shape != poses.shape[:1] or scene_index.dtype.kind not in "iu":
            raise ValueError(
                f"scene_index: expected {len(poses)} integers, one per pose, "
                f"got {scene_index.dtype} of shape {scene_index.shape}"
            )
        if not np.isfinite(poses).all():
            row = int(np.flatnonzero(~np.isfinite(poses).all(axis=1))[0])
            raise ValueError(f"poses: expected finite numbers, got {poses[row]} in row {row}")
        if len(poses) and not (0 <= scene_index.min() and scene_index.max() < self.num_scenes):
            raise ValueError(
                f"scene_index: expected 0 to {self.num_scenes - 1} ({self.num_scenes} scenes are loaded), "
                f"got {scene_index.min()} to {scene_index.max()}"
            )
        return scene_index.astype(np.int64), poses

    def draw(
        self,
        scene_index: np.ndarray,
        views: np.ndarray,
        out: Mapping[str, np.ndarray] | None = None,
        *,
        sensors: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """`render` for free cameras: views (N, 12) as `Camera.views` gives them. Views are unchecked."""
        asked = self.sensors if sensors is None else known_sensors(sensors)
        if "rgb" in asked and not self._has_light:
            self._prepare(self._scenes, coloured=True)
        size = self.camera.height_px, self.camera.width_px
        images = {name: _target(name, len(views), size, out) for name in SENSORS if name in asked}
        if self.camera.samples == 1:
            self._draw(scene_index, views, images)
        for first in range(0, len(views) if self.camera.samples > 1 else 0, _FINE_VIEWS):
            part = slice(first, first + _FINE_VIEWS)
            num = len(views[part])
            fine = {name: _target(name, num, (self._lens.height, self._lens.width), None) for name in images}
            self._draw(scene_index[part], views[part], fine)
            for name, image in images.items():
                image[part] = _reduced(name, fine[name], self.camera.samples)
        return images

    def _draw(self, scene_index: np.ndarray, views: np.ndarray, images: dict[str, np.ndarray]) -> None:
        """Writes all samples of the views into `images`."""
        unused = {name: np.empty((1,) * (3 + (name == "rgb")), kind) for name, kind in SENSORS.items()}
        targets = [images.get(name, unused[name]) for name in SENSORS]
        targets[0] = targets[0].reshape(*targets[0].shape[:2], -1)
        wanted = np.array([name in images for name in SENSORS])
        if len(views):
            draw(self._world, self._lens, scene_index, views, self._scratch, self._outside, wanted, *targets)


def known_sensors(sensors: Sequence[str]) -> tuple[str, ...]:
    """ValueError for none, and for a name that is not in SENSORS."""
    if not sensors or not set(sensors) <= set(SENSORS):
        raise ValueError(f"sensors: expected some of {', '.join(SENSORS)}, got {list(sensors)}")
    return tuple(sensors)


def _target(name: str, num: int, size: tuple[int, int], out: Mapping[str, np.ndarray] | None) -> np.ndarray:
    """An image of `num` views of a size to write into: that of `out` if it is given."""
    shape = (num, *size, 3) if name == "rgb" else (num, *size)
    return np.empty(shape, SENSORS[name]) if out is None else _checked(name, out.get(name), shape, SENSORS[name])


def _reduced(name: str, fine: np.ndarray, samples: int) -> np.ndarray:
    """Images of pixels from those of their samples: the rounded mean of colours, else one sample."""
    if name != "rgb":
        return fine[:, samples // 2 :: samples, samples // 2 :: samples]
    total = np.zeros((len(fine), fine.shape[1] // samples, fine.shape[2] // samples, 3), np.uint16)
    for i in range(samples):
        for j in range(samples):
            total += fine[:, i::samples, j::samples]
    return (total + samples**2 // 2) // samples**2


def _checked(name: str, array: np.ndarray | None, shape: tuple[int, ...], kind: type) -> np.ndarray:
    fits = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == kind and array.flags.c_contiguous
    if not fits:
        got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"out[{name!r}]: expected a C-contiguous {np.dtype(kind)} array of shape {shape}, got {got}")
    return array
