"""`Drone`: frames of poses from one AirSim server, which may be lost, late, or show another place for a while.

A frame is asked for again until it was taken where it should have been, with growing pauses. So an agent never sees a
frame of elsewhere, or a black one. A server that is not the one that was meant is an error at once.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np
from jaxtyping import Float64

from eqa.envs.airsim.client import Client
from eqa.envs.airsim.frames import headings_of, ned_points, to_ned
from eqa.envs.airsim.protocol import (
    DEPTH,
    SCENE,
    SEGMENTATION,
    Image,
    Malformed,
    Refused,
    pose,
    read_pose,
)
from eqa.envs.progress import console
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import SceneFailed

KINDS = {"rgb": SCENE, "depth": DEPTH, "instance_id": SEGMENTATION}
START = "python -m eqa.envs.airsim.server"
FOV_DEG = 0.5  # by which a server's angle of view may differ
SETTLE_S = 0.02  # between two looks at a frame that shows another place
LOOKS = 50
REFUSALS = 2  # answers with an error, to the same question
LONGEST_PAUSE_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DroneSettings:
    """The agreement with a server.

    - camera_name, vehicle: as AirSim's settings name them; "" is the only drone.
    - ours: `World.identity` of the world of ours that the server has to serve; None for a foreign city.
    - timeout_s: seconds without an answer after which a call counts as lost.
    - tries: of each frame, with pauses of `pause_s`, twice that, and so on.
    - tolerance_m, tolerance_deg: how far from its place a frame may have been taken.
    """

    camera: Camera = field(default_factory=Camera)
    camera_name: str = "0"
    vehicle: str = ""
    ours: str | None = None
    timeout_s: float = 60.0
    tries: int = 6
    pause_s: float = 0.5
    tolerance_m: float = 0.1
    tolerance_deg: float = 1.0

    def __post_init__(self) -> None:
        for name in ("timeout_s", "tries", "pause_s", "tolerance_m", "tolerance_deg"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")


class Elsewhere(RuntimeError):
    """A frame that was taken at another place than the drone was set to."""


class Drone:
    """The drone of one server."""

    def __init__(self, host: str, port: int, settings: DroneSettings) -> None:
        self.client, self.settings = Client(host, port, timeout_s=settings.timeout_s), settings
        self._scene: str | None = None  # of ours, as far as is known
        self._offset: Float64[np.ndarray, " 3"] = np.zeros(3)  # of the camera from the drone, in the drone's directions

    def close(self) -> None:
        """Ends the connection."""
        self.client.close()

    def greet(self, scene_id: str) -> None:
        """Makes sure that a server is there and is the one that was meant; ValueError says in which way it is not."""
        try:
            self._prepare(scene_id)
        except OSError as error:
            why = error.strerror or error
            raise ValueError(
                f"{self.client}: expected an AirSim server, got {why}; start AirSim, or our stand-in with {START}"
            ) from None
        except (Malformed, Refused) as error:
            raise ValueError(f"{self.client}: expected an AirSim server, got {error}") from None

    def _prepare(self, scene_id: str) -> None:
        """Connects if need be, and goes to a scene of ours."""
        if not self.client.connected:
            self._scene = None
            self.client.confirm()
            self._check_world()
            self._check_camera()
        if self.settings.ours is not None and self._scene != scene_id:
            self._scene = None
            if self.client.call("simLoadLevel", scene_id) is not True:
                raise Refused(f"simLoadLevel: the server did not go to {scene_id}")
            self._scene = scene_id

    def _check_world(self) -> None:
        """ValueError unless the server has our world, where it is meant to."""
        if self.settings.ours is None:
            return
        try:
            found = json.loads(self.client.call("getSettingsString")).get("Eqa")
        except (TypeError, ValueError, AttributeError):
            found = {}
        if not isinstance(found, Mapping) or not found:
            raise ValueError(
                f"{self.client}: expected a scene of ours, got another server; {START} serves one, and "
                "env.knows=null plays in a foreign city"
            )
        camera = asdict(self.settings.camera)
        for name, ours in (("World", self.settings.ours), ("Camera", camera)):
            if found.get(name) != ours:
                raise ValueError(
                    f"{self.client}: {name}: expected {ours!r} as here, the server has {found.get(name)!r}"
                )

    def _check_camera(self) -> None:
        """ValueError for a camera that is not there or looks wider or narrower; notes its place on the drone."""
        settings = self.settings
        try:
            found = self.client.call("simGetCameraInfo", settings.camera_name, settings.vehicle)
        except Refused as error:
            raise ValueError(f"{self.client}: camera {settings.camera_name!r}: {error}") from None
        at, drone = self.client.call("simGetVehiclePose", settings.vehicle), found.get("pose")
        fov, camera = found.get("fov"), settings.camera
        wanted = np.degrees(2 * np.arctan(camera.width_px / 2 / camera.focal_px))
        if not isinstance(fov, int | float) or not abs(fov - wanted) <= FOV_DEG:
            got = f"{fov:.2f}" if isinstance(fov, int | float) else fov
            raise ValueError(
                f"{self.client}: expected a camera of {wanted:.2f} degrees from left to right, got {got}; set "
                "FOV_Degrees in AirSim's settings.json, or env.camera.vertical_fov_deg"
            )
        (place, turn), (seen, _) = read_pose(at), read_pose(drone)
        self._offset = _turned(seen - place, float(headings_of(turn[None])[0]))

    def frame(self, scene_id: str, at: Float64[np.ndarray, " 4"], sensors: Sequence[str]) -> dict[str, np.ndarray]:
        """Images at a pose. SceneFailed if the server does not come back, or does not go there."""
        return self._insist(scene_id, lambda: self._taken(scene_id, at, sensors))

    def arrives(self, scene_id: str, start: Float64[np.ndarray, " 4"], end: Float64[np.ndarray, " 4"]) -> bool:
        """True if the drone comes from one pose to another by a move that the server ends at what it runs into."""

        def moved() -> bool:
            self._put(start, through=True)
            self._put(end, through=False)
            place, _ = read_pose(self.client.call("simGetVehiclePose", self.settings.vehicle))
            return float(np.linalg.norm(place - ned_points(end[None, :3])[0])) <= self.settings.tolerance_m

        return self._insist(scene_id, moved)

    def _insist(self, scene_id: str, ask: Callable[[], T]) -> T:
        """The answer of a server that may be lost and come back; SceneFailed after `tries`."""
        settings, refused = self.settings, 0
        for attempt in range(settings.tries):
            try:
                self._prepare(scene_id)
                return ask()
            except (OSError, Malformed, Refused, Elsewhere) as error:
                self.client.close()
                why, refused = error, refused + isinstance(error, Refused)
            if refused == REFUSALS or attempt + 1 == settings.tries:
                break
            pause_s = min(settings.pause_s * 2**attempt, LONGEST_PAUSE_S)
            console.print(f"[yellow]airsim at {self.client}: {why}; asked again in {pause_s:g} s", soft_wrap=True)
            time.sleep(pause_s)
        message = f"airsim at {self.client} in scene {scene_id!r}, asked {attempt + 1} times: {why}"
        raise SceneFailed(scene_id, message) from why

    def _put(self, at: Float64[np.ndarray, " 4"], *, through: bool) -> None:
        """Sets the drone at a pose, through what is in the way or up to it."""
        (position,), (turn,) = to_ned(at[None])
        where = pose(position, turn)
        if self.settings.ours is not None:
            where["heading_rad"] = float(at[3])  # exact, for our server: the quaternion rounds
        self.client.call("simSetVehiclePose", where, through, self.settings.vehicle)

    def _taken(self, scene_id: str, at: Float64[np.ndarray, " 4"], sensors: Sequence[str]) -> dict[str, np.ndarray]:
        """Sets the drone at a pose, and takes its images from one request once they show that place."""
        settings = self.settings
        self._put(at, through=True)
        for _ in range(LOOKS):
            images = self.client.images(settings.camera_name, tuple(KINDS[name] for name in sensors), settings.vehicle)
            if away := self._away(images, scene_id, at):
                time.sleep(SETTLE_S)
                continue
            return {name: self._pixels(image) for name, image in zip(sensors, images, strict=True)}
        raise Elsewhere(f"{LOOKS} frames showed another place than {np.round(at, 2).tolist()}: {away}")

    def _away(self, images: Sequence[Image], scene_id: str, at: Float64[np.ndarray, " 4"]) -> str | None:
        """The difference between the place of images and a pose, None for none that matters."""
        settings = self.settings
        for image in images:
            if settings.ours is not None and image.message != scene_id:
                return f"scene {image.message!r}"
            place, turn = read_pose({"position": image.position, "orientation": image.orientation})
            wanted = ned_points(at[None, :3])[0] + _turned(self._offset, -at[3])
            off_m = float(np.linalg.norm(place - wanted))
            off_rad = (float(headings_of(turn[None])[0]) - at[3] + np.pi) % (2 * np.pi) - np.pi
            if not (off_m <= settings.tolerance_m and abs(np.degrees(off_rad)) <= settings.tolerance_deg):
                return f"{off_m:.2f} m and {abs(np.degrees(off_rad)):.1f} degrees away"
        return None

    def _pixels(self, image: Image) -> np.ndarray:
        """An image as agents see it; ValueError for another size than agreed."""
        camera = self.settings.camera
        if (image.width, image.height) != (camera.width_px, camera.height_px):
            raise ValueError(
                f"{self.client}: expected images of {camera.width_px} x {camera.height_px} pixels, got {image.width} x "
                f"{image.height} of type {image.kind}; set Width and Height of its CaptureSettings in AirSim's "
                "settings.json, or env.camera"
            )
        if image.kind == DEPTH:
            return image.pixels
        if image.kind == SCENE:
            return image.pixels[..., ::-1]
        blue, green, red = np.moveaxis(image.pixels.astype(np.int32), -1, 0)
        return blue + 256 * green + 65536 * red


def _turned(offset: Float64[np.ndarray, " 3"], heading_rad: float) -> Float64[np.ndarray, " 3"]:
    """An offset (north, east, down) as (forward, right, down) of a body with a heading; a negated one leads back."""
    c, s = np.cos(heading_rad), np.sin(heading_rad)
    north, east, down = offset
    return np.array([c * north - s * east, s * north + c * east, down])
