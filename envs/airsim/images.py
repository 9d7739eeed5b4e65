"""Images of a `Flight` and its camera, as AirSim's calls ask for them.

A camera is one of `CAMERAS`, which are the same. A thing's number in segmentation is a colour: blue + 256 green + 65536
red.

Axes: H W image.
"""

import io
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt8
from PIL import Image as Picture

from eqa.envs.airsim.arguments import check_vehicle, flag, one_of, shown
from eqa.envs.airsim.flight import Flight, ned_of
from eqa.envs.airsim.protocol import DEPTH, SCENE, SEGMENTATION, Image, pose
from eqa.envs.rendering.camera import Camera

CAMERAS = ("0", "front_center")
SENSORS = {SCENE: "rgb", DEPTH: "depth", SEGMENTATION: "instance_id"}
MAX_IMAGES = 16  # of a request


def fov_deg(camera: Camera) -> float:
    """Degrees from the left to the right edge of a frame."""
    return math.degrees(2 * math.atan(camera.width_px / 2 / camera.focal_px))


def camera_info(flight: Flight, camera_name: object, vehicle_name: object = "") -> dict:
    check_vehicle(vehicle_name)
    one_of(camera_name, "camera", CAMERAS)
    camera = flight.camera
    wide, high, near = 2 * camera.focal_px / camera.width_px, 2 * camera.focal_px / camera.height_px, camera.near_m
    matrix = [[wide, 0.0, 0.0, 0.0], [0.0, high, 0.0, 0.0], [0.0, 0.0, 0.0, near], [0.0, 0.0, 1.0, 0.0]]
    return {"pose": _camera_pose(flight), "fov": fov_deg(camera), "proj_mat": {"matrix": matrix}}


def _camera_pose(flight: Flight) -> dict:
    """The camera above the drone, with the camera's pitch: AirSim's positive pitch looks up, too."""
    camera = flight.camera
    x, y, z, heading = flight.pose
    position, (w, _, _, turn) = ned_of((x, y + camera.height_m, z, heading))
    up, over = math.sin(camera.pitch_rad / 2), math.cos(camera.pitch_rad / 2)
    return pose(position, (w * over, -turn * up, w * up, turn * over))


def images(flight: Flight, requests: object, vehicle_name: object = "", external: object = False) -> list[Image]:
    """All of one moment and pose. ValueError for a camera or type of image that there is not."""
    check_vehicle(vehicle_name)
    if flag(external, "external"):
        raise ValueError("external: expected false, the world has no cameras of its own")
    if not isinstance(requests, list) or not 1 <= len(requests) <= MAX_IMAGES:
        raise ValueError(f"requests: expected a list of 1 to {MAX_IMAGES} requests for images")
    asked = [_request(one) for one in requests]
    seen = flight.look(tuple(dict.fromkeys(SENSORS[kind] for _, kind, _ in asked)))
    at, time_ns = _camera_pose(flight), flight.time_ns
    height, width = flight.camera.height_px, flight.camera.width_px
    found = []
    for camera, kind, compress in asked:
        pixels = _pixels(flight, kind, seen[SENSORS[kind]])
        pixels = _png(pixels) if compress else pixels
        about = camera, at["position"], at["orientation"], time_ns, flight.scene_id
        found.append(Image(kind, pixels, width, height, *about))
    return found


def image(
    flight: Flight,
    camera_name: object,
    image_type: object,
    vehicle_name: object = "",
    annotation_name: object = "",
) -> bytes:
    """A PNG file; `annotation_name` is AirSim's `external` in some versions, and not looked at."""
    one = {"camera_name": camera_name, "image_type": image_type, "pixels_as_float": False, "compress": True}
    (found,) = images(flight, [one], vehicle_name)
    return found.pixels


def _request(value: object) -> tuple[str, int, bool]:
    """Camera, type and compression of a request for an image."""
    if not isinstance(value, Mapping) or "camera_name" not in value:
        raise ValueError(f"request: expected AirSim's ImageRequest, got {shown(value)}")
    camera, kind = one_of(value.get("camera_name"), "camera", CAMERAS), value.get("image_type")
    if type(kind) is not int or kind not in SENSORS:
        raise ValueError(f"image_type: expected Scene (0), DepthPlanar (1) or Segmentation (5), got {shown(kind)}")
    as_float = flag(value.get("pixels_as_float", False), "pixels_as_float")
    if as_float != (kind == DEPTH):
        raise ValueError("pixels_as_float: expected true for DepthPlanar, and false for the others")
    return camera, kind, flag(value.get("compress", False), "compress") and not as_float


def _pixels(flight: Flight, kind: int, seen: np.ndarray) -> np.ndarray:
    """Pixels as AirSim sends them: colours in its order, numbers of things as colours."""
    if kind == DEPTH:
        return seen.astype(np.float32, copy=False)
    if kind == SCENE:
        return np.ascontiguousarray(seen[..., ::-1])
    numbers = seen.astype(np.int64)
    for thing_id, instead in flight.place.shown.items():
        numbers = np.where(seen == thing_id, instead, numbers)
    return np.stack([numbers & 255, numbers >> 8 & 255, numbers >> 16 & 255], axis=-1).astype(np.uint8)


def _png(pixels: UInt8[np.ndarray, "H W 3"]) -> bytes:
    file = io.BytesIO()
    Picture.fromarray(np.ascontiguousarray(pixels[..., ::-1])).save(file, "png")
    return file.getvalue()
