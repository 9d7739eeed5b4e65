"""`CALLS`: AirSim's methods by their names, as functions of a `Flight` and plain arguments that nobody has checked yet.

Each is as AirSim has it, unless its docstring says otherwise. A ValueError says what an argument should have been.
"""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from eqa.envs.airsim.arguments import VEHICLE, check_vehicle, flag, number, seconds, shown, text
from eqa.envs.airsim.flight import Flight, Motion, ned_of, pose_of
from eqa.envs.airsim.frames import ned_points, within_circle
from eqa.envs.airsim.images import SENSORS, camera_info, fov_deg, image, images
from eqa.envs.airsim.protocol import CLIENT_VERSION, SERVER_VERSIONS, pose, read_pose, vector
from eqa.envs.annotations import Thing

LARGEST_ID = 2**24 - 1  # a thing's number in segmentation
ANY = ".*"


def version(flight: Flight) -> int:
    return SERVER_VERSIONS[1]


def client_version(flight: Flight) -> int:
    return CLIENT_VERSION


def least_version(flight: Flight) -> int:
    """The oldest client, and the oldest server, that this protocol goes with: AirSim's own says 1."""
    return SERVER_VERSIONS[0]


def settings(flight: Flight) -> str:
    """AirSim's settings as JSON; under "Eqa", which AirSim has not, the scene of ours that is served."""
    camera = flight.camera
    capture = [
        {"ImageType": kind, "Width": camera.width_px, "Height": camera.height_px, "FOV_Degrees": fov_deg(camera)}
        for kind in SENSORS
    ]
    ours = {
        "Server": "a stand-in, not AirSim",
        "World": flight.world.identity,
        "Scene": flight.scene_id,
        "Camera": asdict(camera),
    }
    return json.dumps(
        {
            "SettingsVersion": 1.2,
            "SimMode": "Multirotor",
            "ClockSpeed": flight.clock.speed,
            "CameraDefaults": {"CaptureSettings": capture},
            "Eqa": ours,
        }
    )


def load_level(flight: Flight, level_name: object) -> bool:
    flight.load(text(level_name, "level_name"))
    return True


def vehicles(flight: Flight) -> list[str]:
    return [VEHICLE]


def enable(flight: Flight, is_enabled: object, vehicle_name: object = "") -> None:
    check_vehicle(vehicle_name)
    flight.enabled = flag(is_enabled, "is_enabled")


def enabled(flight: Flight, vehicle_name: object = "") -> bool:
    check_vehicle(vehicle_name)
    return flight.enabled


def arm(flight: Flight, arm: object, vehicle_name: object = "") -> bool:
    """As AirSim: True if it was done, which needs control by API."""
    check_vehicle(vehicle_name)
    wanted = flag(arm, "arm")
    if flight.enabled:
        flight.armed = wanted
    return flight.enabled


def pause(flight: Flight, is_paused: object) -> None:
    flight.clock.pause(flag(is_paused, "is_paused"))


def get_pose(flight: Flight, vehicle_name: object = "") -> dict:
    check_vehicle(vehicle_name)
    return pose(*ned_of(flight.pose))


def set_pose(flight: Flight, to: object, ignore_collision: object, vehicle_name: object = "") -> None:
    check_vehicle(vehicle_name)
    through = flag(ignore_collision, "ignore_collision")
    position, turn = read_pose(to)
    exact = to.get("heading_rad") if isinstance(to, Mapping) else None
    flight.put(pose_of(position, turn, now=flight.pose, exact_rad=exact), through=through)


def kinematics(flight: Flight, vehicle_name: object = "") -> dict:
    """The pose, and even velocities while a motion goes on."""
    check_vehicle(vehicle_name)
    at, motion, still = flight.pose, flight.motion, [0.0] * 3
    speed, spin = still, still
    if motion is not None and motion.lasts_s > 0:
        moved = np.array([[b - a for a, b in zip(motion.start[:3], motion.end[:3], strict=True)]]) / motion.lasts_s
        away = (motion.end[3] - motion.start[3] + math.pi) % (2 * math.pi) - math.pi
        speed, spin = ned_points(moved)[0], [0.0, 0.0, -away / motion.lasts_s]
    moving = {"linear_velocity": vector(speed), "angular_velocity": vector(spin)}
    forced = {"linear_acceleration": vector(still), "angular_acceleration": vector(still)}
    return {**pose(*ned_of(at)), **moving, **forced}


def collision(flight: Flight, vehicle_name: object = "") -> dict:
    """The last thing that a way led into; as AirSim, it is told once."""
    check_vehicle(vehicle_name)
    hit = flight.collision
    flight.collision = type(hit)()
    place = vector(ned_of(hit.pose)[0])
    return {
        "has_collided": hit.happened,
        "penetration_depth": 0.0,
        "time_stamp": hit.time_ns,
        "normal": vector((0.0, 0.0, 0.0)),
        "impact_point": place,
        "position": place,
        "object_name": "",
        "object_id": -1,
    }


def list_objects(flight: Flight, name_regex: object = ANY) -> list[str]:
    """Names of things, by a pattern of letters and ".*" alone: others can take an age to match."""
    pattern = text(name_regex, "name_regex")
    return [name for name in map(name_of, flight.place.things.things) if _matches(name, pattern)]


def name_of(thing: Thing) -> str:
    """A name that no other thing of the scene has."""
    return f"{thing.name.replace(' ', '_')}_{thing.id}"


def _matches(name: str, pattern: str) -> bool:
    """True if a name is as a pattern; ValueError for signs of a pattern that are none of ours."""
    first, *rest = pattern.split(ANY)
    if set("".join([first, *rest])) & set(".*+?()[]{}|^$\\"):
        raise ValueError(f"name_regex: expected letters, digits, _ and {ANY}, got {pattern!r}")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.endswith(rest[-1]) and len(name) - len(rest[-1]) >= at


def _things(flight: Flight, name: object, regex: bool = False) -> list[Thing]:
    pattern = text(name, "name")
    known = flight.place.things.things
    return [thing for thing in known if (_matches(name_of(thing), pattern) if regex else name_of(thing) == pattern)]


def object_pose(flight: Flight, object_name: object, ned: object = True) -> dict:
    """The middle of a thing; not a number for a name that there is not, as AirSim."""
    if not flag(ned, "ned"):
        raise ValueError("ned: expected true, other frames are not offered")
    found = _things(flight, object_name)
    if not found:
        return pose([math.nan] * 3, [math.nan] * 4)
    (x, z), thing = found[0].middle, found[0]
    return pose(*ned_of((x, (thing.low_m + thing.high_m) / 2, z, thing.front_rad or 0.0)))


def set_id(flight: Flight, mesh_name: object, object_id: object, is_name_regex: object = False) -> bool:
    found = _things(flight, mesh_name, flag(is_name_regex, "is_name_regex"))
    if type(object_id) is not int or not 0 <= object_id <= LARGEST_ID:
        raise ValueError(f"object_id: expected 0 to {LARGEST_ID}, got {object_id!r}")
    flight.place.shown.update({thing.id: object_id for thing in found})
    return bool(found)


def get_id(flight: Flight, mesh_name: object) -> int:
    """The number of a thing in segmentation, -1 for a name that there is not."""
    found = _things(flight, mesh_name)
    return flight.place.shown.get(found[0].id, found[0].id) if found else -1


def move_to(
    flight: Flight,
    x: object,
    y: object,
    z: object,
    velocity: object,
    timeout_sec: object = math.inf,
    drivetrain: object = 0,
    yaw_mode: object = None,
    lookahead: object = -1,
    adaptive_lookahead: object = 1,
    vehicle_name: object = "",
) -> Motion:
    """A straight flight. It turns on the way, to a yaw that `yaw_mode` names, or with ForwardOnly to look ahead."""
    _controlled(flight, vehicle_name)
    place = np.array([[number(value, name) for name, value in (("x", x), ("y", y), ("z", z))]])
    speed = number(velocity, "velocity")
    if not speed > 0:
        raise ValueError(f"velocity: expected more than 0 m/s, got {speed:g}")
    now = flight.pose
    to = pose_of(place[0], np.full(4, np.nan), now=now)
    heading = now[3]
    if drivetrain not in (0, 1):
        raise ValueError(f"drivetrain: expected 0 or 1, got {drivetrain!r}")
    if isinstance(yaw_mode, Mapping) and not flag(yaw_mode.get("is_rate", True), "is_rate"):
        heading = _heading(yaw_mode.get("yaw_or_rate"))
    elif isinstance(yaw_mode, Mapping) and number(yaw_mode.get("yaw_or_rate", 0.0), "yaw_or_rate"):
        raise ValueError("yaw_mode: expected a yaw or a rate of 0, others are not flown")
    elif drivetrain == 1 and (now[0], now[2]) != (to[0], to[2]):
        heading = math.atan2(now[0] - to[0], now[2] - to[2]) % (2 * math.pi)
    return flight.fly((*to[:3], heading), speed_m_s=speed, limit_s=seconds(timeout_sec, "timeout_sec"))


def rotate_to(
    flight: Flight, yaw: object, timeout_sec: object = math.inf, margin: object = 5, vehicle_name: object = ""
) -> Motion:
    _controlled(flight, vehicle_name)
    number(margin, "margin")
    return flight.turn(_heading(yaw), limit_s=seconds(timeout_sec, "timeout_sec"))


def _heading(yaw_deg: object) -> float:
    return float(within_circle(np.array([-math.radians(number(yaw_deg, "yaw"))]))[0])


def _controlled(flight: Flight, vehicle_name: object) -> None:
    check_vehicle(vehicle_name)
    if not (flight.enabled and flight.armed):
        raise ValueError("control: expected enableApiControl(true) and armDisarm(true) before a motion")


CALLS: Mapping[str, Callable[..., object]] = {
    "ping": lambda flight: True,
    "getServerVersion": version,
    "getClientVersion": client_version,
    "getMinRequiredClientVersion": least_version,
    "getMinRequiredServerVersion": least_version,
    "getSettingsString": settings,
    "listVehicles": vehicles,
    "reset": Flight.reset,
    "simLoadLevel": load_level,
    "simPause": pause,
    "simIsPaused": lambda flight: flight.clock.paused,
    "enableApiControl": enable,
    "isApiControlEnabled": enabled,
    "armDisarm": arm,
    "simGetVehiclePose": get_pose,
    "simSetVehiclePose": set_pose,
    "simGetGroundTruthKinematics": kinematics,
    "simGetCollisionInfo": collision,
    "simGetCameraInfo": camera_info,
    "simGetImages": images,
    "simGetImage": image,
    "simListSceneObjects": list_objects,
    "simGetObjectPose": object_pose,
    "simSetSegmentationObjectID": set_id,
    "simGetSegmentationObjectID": get_id,
    "moveToPosition": move_to,
    "rotateToYaw": rotate_to,
}
_SIGNATURES = {name: inspect.signature(call) for name, call in CALLS.items()}


def called(flight: Flight, method: object, arguments: Sequence[object]) -> object:
    """The result of a method by its name; ValueError for a name that is not in CALLS, and for other arguments."""
    if not isinstance(method, str) or method not in CALLS:
        raise ValueError(f"method {shown(method)}: this stand-in has it not; it has {', '.join(CALLS)}")
    try:
        _SIGNATURES[method].bind(flight, *arguments)
    except TypeError:
        raise ValueError(f"{method}: another number of arguments was expected, got {len(arguments)}") from None
    return CALLS[method](flight, *arguments)
