"""`Flight`: one drone in the scenes of a world, moved and shown by AirSim's calls, on a clock of its own.

Motions are kinematic: a straight line at a given speed, a turn at a fixed rate, no inertia and no wind. The drone can
be where an agent of the world can be; a way that leads elsewhere ends before it. Nothing happens between two calls, so
a pose is a function of the clock.

Axes: N poses, H W image.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

from eqa.envs.airsim.frames import from_ned, own_points, to_ned
from eqa.envs.airsim.protocol import Malformed
from eqa.envs.annotations import Annotations
from eqa.envs.episode import Pose
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Simulator, World

SCENES_OPEN = 4
REACH_M = 1.0  # radius of the goal that tells free places
PROBE_M, PROBES = 0.5, 32  # between places on a way that are looked at, and their number at once
TURN_RATE_RAD = math.pi / 2  # a second
SAME_RAD = 1e-6  # a quaternion's rounding
RINGS, RING_M, HEIGHTS_M = 64, 2.0, (0.0, 2.0, 5.0, 10.0, 20.0)  # of places near the middle of a scene, to begin at
FIRST = np.zeros(1, np.int64)  # the only agent, and the only scene, of a simulator
# The places, of some poses in a scene, at which an agent can be.
Free = Callable[[str, Float64[np.ndarray, "N 4"]], Bool[np.ndarray, " N"]]


class Clock:
    """Seconds of the simulation: `speed` times as many as of the wall, none while it is paused."""

    def __init__(self, speed: float) -> None:
        self.speed, self.paused, self._passed, self._since = speed, False, 0.0, time.monotonic()

    def now(self) -> float:
        return self._passed + (0.0 if self.paused else (time.monotonic() - self._since) * self.speed)

    def pause(self, paused: bool) -> None:
        self._passed, self._since, self.paused = self.now(), time.monotonic(), paused


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """A way between two poses, at an even pace; `hit` says that something ended it early."""

    start: Pose
    end: Pose
    begin_s: float
    lasts_s: float
    hit: bool = False
    cut: bool = False  # by its time limit

    def pose(self, now_s: float) -> Pose:
        done = min(max((now_s - self.begin_s) / self.lasts_s, 0.0), 1.0) if self.lasts_s > 0 else 1.0
        if done == 1.0:
            return self.end
        away = (self.end[3] - self.start[3] + math.pi) % (2 * math.pi) - math.pi
        place = [a + done * (b - a) for a, b in zip(self.start[:3], self.end[:3], strict=True)]
        return *place, (self.start[3] + done * away) % (2 * math.pi)


@dataclass(slots=True)
class Collision:
    """The last thing that a way led into."""

    happened: bool = False
    pose: Pose = (0.0, 0.0, 0.0, 0.0)
    time_ns: int = 0


@dataclass(slots=True)
class Place:
    """An open scene, and the goal by which its free places are told."""

    simulator: Simulator
    things: Annotations
    goal: Goal | None = None
    shown: dict[int, int] = field(default_factory=dict)  # numbers in segmentation by the ids of things, if changed


class Flight:
    """A drone in one of the scenes of a world. Errors are ValueErrors in words for the one who called."""

    def __init__(
        self,
        world: World,
        scene_id: str,
        *,
        camera: Camera | None = None,
        is_free: Free | None = None,
        start: Pose | None = None,
        clock_speed: float = 1.0,
    ) -> None:
        """By default a place is free where an agent of the world can begin, which may leave out heights between two."""
        self._is_free = is_free or self._can_begin
        self.world, self.camera, self.clock = world, camera or world.camera, Clock(clock_speed)
        self._open: OrderedDict[str, Place] = OrderedDict()
        self._wanted = start
        self.motion: Motion | None = None
        self.finished: Motion | None = None  # the last one that was not ended by another call
        self.load(scene_id)

    @property
    def place(self) -> Place:
        return self._open[self.scene_id]

    def load(self, scene_id: str) -> None:
        """Goes to a scene, and begins there; ValueError for one that the world has not."""
        if scene_id not in self._open:
            if self.world.missing([scene_id]):
                raise ValueError(f"scene {scene_id!r}: the world that is served has none of that name")
            simulator = self.world.open([scene_id], num_agents=1, camera=self.camera)
            self._open[scene_id] = Place(simulator, self.world.annotations(scene_id))
            if len(self._open) > SCENES_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(scene_id)
        self.scene_id = scene_id
        self.reset()

    def reset(self) -> None:
        """Ends what moves, and goes back to the start; nobody has control."""
        self.enabled = self.armed = False
        self.collision = Collision()
        self._stand(self._wanted or self._free_place())

    def _free_place(self) -> Pose:
        """A free place near the middle of the scene, looking north."""
        corners = np.array([corner for region in self.place.things.regions for corner in region.outline])
        x, z = (corners.min(0) + corners.max(0)) / 2 if len(corners) else (0.0, 0.0)
        ring = np.repeat(np.arange(RINGS), 6) * RING_M
        turn = np.tile(np.arange(6), RINGS) * math.pi / 3 + ring  # not the same six directions in all rings
        for y in HEIGHTS_M:
            poses = np.stack(
                [x + ring * np.sin(turn), np.full(len(ring), y), z + ring * np.cos(turn), 0 * ring], axis=1
            )
            free = np.flatnonzero(self._is_free(self.scene_id, poses))
            if len(free):
                return tuple(poses[free[0]].tolist())
        raise ValueError(f"scene {self.scene_id!r}: found no free place around its middle; --start names one")

    @property
    def pose(self) -> Pose:
        """The drone's pose now."""
        self._settle()
        return self._standing if self.motion is None else self.motion.pose(self.clock.now())

    def _settle(self) -> None:
        """Ends a motion whose time is over."""
        motion = self.motion
        if motion is not None and self.clock.now() >= motion.begin_s + motion.lasts_s:
            self._stand(motion.end)
            self.finished = motion
            self._note(motion.hit)

    def _stand(self, pose: Pose) -> None:
        """Sets the drone at a pose; a motion that goes on ends without an end."""
        self.motion, self._standing = None, pose

    def is_free(self, poses: Float64[np.ndarray, "N 4"]) -> Bool[np.ndarray, " N"]:
        """True for places where the drone can be, in the scene that it is in."""
        return self._is_free(self.scene_id, poses)

    def _can_begin(self, scene_id: str, poses: Float64[np.ndarray, "N 4"]) -> Bool[np.ndarray, " N"]:
        """True for places where an agent of the world can begin, at heading 0."""
        place, found = self._open[scene_id], np.zeros(len(poses), np.bool_)
        for n, pose in enumerate(poses):
            at = np.array([[*pose[:3], 0.0]])
            goal = place.goal or Goal((tuple(at[0].tolist()),), REACH_M)
            with suppress(ValueError):
                place.simulator.reset(FIRST, FIRST, at, [goal])
                place.goal, found[n] = goal, True
        return found

    def put(self, pose: Pose, *, through: bool) -> None:
        """Sets the drone at a pose at once: `through` what is between, else as far as the way is free.

        ValueError for a place where nobody can be: inside of a building, or outside of the map.
        """
        if through:
            if not self.is_free(np.array([pose]))[0]:
                where = tuple(round(part, 3) for part in pose[:3])
                raise ValueError(
                    f"position: expected a free place inside of {self.scene_id}, got x, y, z = {where} m (east, up, south)"
                )
            self._stand(pose)
            return
        end, hit = self._way(self.pose, pose)
        self._stand((*end, pose[3]))
        self._note(hit)

    def _way(self, start: Pose, end: Pose) -> tuple[tuple[float, float, float], bool]:
        """The last free place on a straight line, and whether it is not the end."""
        first, last = np.array([*start[:3], 0.0]), np.array([*end[:3], 0.0])
        length = float(np.linalg.norm(last - first))
        at, done = first, 0.0
        while done < length:  # part by part, as the end may be as far away as a number can be
            steps_m = np.minimum(done + PROBE_M * np.arange(1, PROBES + 1), length)
            ahead = first + (last - first) * (steps_m / length)[:, None]
            ahead[steps_m == length] = last
            hits = np.flatnonzero(~self.is_free(ahead))
            if len(hits):
                at = ahead[hits[0] - 1] if hits[0] else at
                return tuple(at[:3].tolist()), True
            at, done = ahead[-1], float(steps_m[-1])
        return tuple(at[:3].tolist()), False

    def _note(self, hit: bool) -> None:
        if hit:
            self.collision = Collision(True, self._standing, self.time_ns)

    @property
    def time_ns(self) -> int:
        return int(self.clock.now() * 1e9)

    def fly(self, end: Pose, *, speed_m_s: float, limit_s: float) -> Motion:
        """Begins to fly to a place, as far as the way is free and the time limit allows."""
        start = self.pose
        reached, hit = self._way(start, end)
        return self._begin(start, (*reached, end[3]), math.dist(start[:3], reached) / speed_m_s, limit_s, hit)

    def turn(self, heading_rad: float, *, limit_s: float) -> Motion:
        """Begins to turn to a heading, the shorter way round."""
        start = self.pose
        away = abs((heading_rad - start[3] + math.pi) % (2 * math.pi) - math.pi)
        return self._begin(start, (*start[:3], heading_rad), away / TURN_RATE_RAD, limit_s, hit=False)

    def _begin(self, start: Pose, end: Pose, lasts_s: float, limit_s: float, hit: bool) -> Motion:
        now = self.clock.now()
        made = Motion(start, end, now, lasts_s, hit)
        if limit_s < lasts_s:
            made = Motion(start, made.pose(now + limit_s), now, limit_s, cut=True)
        self.motion = made
        return made

    def over(self, motion: Motion) -> bool | None:
        """None while a motion goes on; then True if it reached its end, False if something ended it before."""
        self._settle()
        if self.motion is motion:
            return None
        return self.finished is motion and not (motion.hit or motion.cut)

    def look(self, sensors: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Images from the drone's pose, (H, W) each; all show the same moment."""
        seen = self.place.simulator.look(FIRST, np.array([self.pose]), sensors)
        return {name: image.cpu().numpy()[0] for name, image in seen.items()}


def pose_of(
    position: Float64[np.ndarray, " 3"],
    turn: Float64[np.ndarray, " 4"],
    *,
    now: Pose,
    exact_rad: object = None,
) -> Pose:
    """A pose of ours from AirSim's; a part that is not a number leaves that of `now`.

    `exact_rad` is the heading that a quaternion was made from, which comes back from it a last digit away.
    """
    place = now[:3] if np.isnan(position).any() else tuple(own_points(position[None])[0].tolist())
    if np.isnan(turn).any():
        heading = now[3]
    else:
        length = np.linalg.norm(turn)
        if not (np.isfinite(length) and length > 0):
            raise Malformed(f"orientation: expected a quaternion of a length above 0, got {turn.tolist()}")
        heading = float(from_ned(np.zeros((1, 3)), (turn / length)[None])[0, 3])
        if type(exact_rad) is float and abs((exact_rad - heading + math.pi) % (2 * math.pi) - math.pi) < SAME_RAD:
            heading = exact_rad
    if not np.isfinite(place).all():
        raise Malformed(f"position: expected finite metres, got {place}")
    return (*place, heading)


def ned_of(pose: Pose) -> tuple[Float64[np.ndarray, " 3"], Float64[np.ndarray, " 4"]]:
    """A pose of ours as AirSim's point and quaternion."""
    positions, turns = to_ned(np.array([pose]))
    return positions[0], turns[0]
