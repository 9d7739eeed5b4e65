"""One scene in habitat-sim, as a process of its own: frames, moves, distances and walks, on the scene's navmesh.

It runs under the Python that has habitat_sim, which may be another than that of the rest (`HabitatSettings.python`). So
it needs Python 3.9 and NumPy alone, and imports nothing of this package. `envs.habitat.processes` starts it and says
what it is asked. Numbers travel as plain values and bytes of float64, frames through memory that both share.

Every answer depends on the question alone, as poses are kept elsewhere. So a process that dies can be replaced by
another, which is asked the same again. Moves are those of habitat-sim's agents: a step is cut off at an obstacle, or
slides along it, and follows the navmesh's height. A pose keeps its height above or below the navmesh, which lies up to
a cell above the floor.

Axes: N poses, V views, P points of a goal, R regions. A pose is (x, y, z, heading_rad) as in `envs.episode`.
"""

import math
import mmap
import os
import sys
import traceback
from collections import OrderedDict
from heapq import heappop, heappush
from multiprocessing.connection import Connection

import numpy as np

SUPPORTED = ("0.3.2", "0.3.3", "0.3.4")
SENSORS = {"rgb": "COLOR", "depth": "DEPTH", "instance_id": "SEMANTIC"}
FORWARD, LEFT, RIGHT, STOP = range(4)
FREE, NOT_NAVIGABLE, OTHER_ISLAND = range(3)
NEAR_M = 0.5  # height between a pose and the navmesh, habitat-sim's own bound
LARGE = 0.1  # share of the largest island's area
BESIDE_M = (
    0.05  # so far beside a navmesh, whose outline is simplified, a pose counts; it moves from the place next to it
)
ON_M = 1e-4  # nearer is on it, but for rounding
GOALS_KEPT = 256
SHORT = 1e-5  # square metres by which a free move may be too short, habitat-sim's own
SEARCHED = 3000  # places from which a search for a walk goes on, at most
SAME_M = 0.1  # places as near as this count as one to it
EAGER = 3.0  # the weight of the way that is left: above 1, a search is faster and its walk may be longer
BODY_M = 0.5  # height of an agent's middle: it is in the region that has that point
UP = (0.0, 1.0, 0.0)
NOWHERE = "_-1"  # the region of HM3D's things that are in none


class Scene:
    """An open scene. `settings` are those of `HabitatSettings.for_server`. ValueError for files that cannot be used."""

    def __init__(self, sim, settings, path):
        self.sim, self.given, self.path = sim, settings, path
        self.simulator = self._opened()
        self.agent = self.simulator.get_agent(0)
        self.finder = self.simulator.pathfinder
        if settings["collisions"] == "refuse":  # for habitat-sim's follower, which then goes round
            self.agent.controls.move_filter_fn = self._all_or_nothing
        self._find_floor()
        self._paths = OrderedDict()
        self._find_contents()

    def close(self):
        self.simulator.close()

    def _opened(self):
        sim, given = self.sim, self.given
        backend = sim.SimulatorConfiguration()
        backend.scene_id = self.path
        if given["dataset"]:
            backend.scene_dataset_config_file = given["dataset"]
        backend.gpu_device_id, backend.allow_sliding = given["gpu"], given["collisions"] == "slide"
        backend.enable_physics, backend.load_semantic_mesh = False, True
        turns = {"turn_left": math.degrees(given["turn_rad"]), "turn_right": math.degrees(given["turn_rad"])}
        moves = {"move_forward": given["step_m"], **turns}
        body = sim.agent.AgentConfiguration(
            height=given["height_m"],
            radius=given["radius_m"],
            sensor_specifications=[self._sensor(name) for name in SENSORS],
            action_space={
                name: sim.agent.ActionSpec(name, sim.agent.ActuationSpec(size)) for name, size in moves.items()
            },
        )
        return sim.Simulator(sim.Configuration(backend, [body]))

    def _sensor(self, name):
        camera, sensor = self.given["camera"], self.sim.CameraSensorSpec()
        sensor.uuid, sensor.sensor_type = name, getattr(self.sim.SensorType, SENSORS[name])
        sensor.resolution = [camera["height_px"], camera["width_px"]]
        half = math.tan(math.radians(camera["vertical_fov_deg"]) / 2) * camera["width_px"] / camera["height_px"]
        sensor.hfov, sensor.near = math.degrees(2 * math.atan(half)), camera["near_m"]
        sensor.position = [0.0, camera["height_m"], 0.0]
        sensor.orientation = [camera["pitch_rad"], 0.0, 0.0]
        return sensor

    def _find_floor(self):
        """Loads or makes the navmesh, and finds its large islands: storeys to walk on, but no tops of tables."""
        given = self.given
        if given["navmesh"] == "made":
            made = self.sim.NavMeshSettings()
            made.set_defaults()
            made.agent_radius, made.agent_height = given["radius_m"], given["height_m"]
            made.agent_max_climb = given["climb_m"]
            made.cell_size, made.cell_height = given["cell_size_m"], given["cell_height_m"]
            if not self.simulator.recompute_navmesh(self.finder, made):
                raise ValueError(f"navmesh: habitat-sim could not make one of {self.path}")
        elif not self.finder.is_loaded:
            raise ValueError(
                f"navmesh: expected a .navmesh file beside {self.path}, found none; env.navmesh=made makes one"
            )
        else:
            self._check_body()
        areas = [self.finder.island_area(n) for n in range(self.finder.num_islands)]
        self.islands = [n for n, area in enumerate(areas) if area >= LARGE * max(areas)]
        if not self.islands:
            raise ValueError(f"navmesh: nobody can walk in {self.path}, its navmesh has no area")

    def _check_body(self):
        given, found = self.given, self.finder.nav_mesh_settings
        if found is None:  # a file of habitat-sim before 0.1.5 does not say
            return
        radius, height = found.agent_radius, found.agent_height
        if abs(radius - given["radius_m"]) > 1e-3 or abs(height - given["height_m"]) > 1e-3:
            raise ValueError(
                f"navmesh: expected one for a body of radius {given['radius_m']:g} and height {given['height_m']:g} m, "
                f"that of {self.path} is for {radius:g} and {height:g}; env.navmesh=made makes one, or set env.radius_m "
                "and env.height_m"
            )

    def look(self, poses, sensors, images):
        """Draws V views into the first rows of `images`, an array for each sensor."""
        known = getattr(self.simulator, "sensors", None) or self.simulator._sensors
        for row, pose in enumerate(poses):
            self._stand(pose[:3], pose[3])
            for name in sensors:
                known[name].draw_observation()
            for name in sensors:
                drawn = known[name].get_observation()
                images[name][row] = drawn[..., :3] if name == "rgb" else drawn

    def _stand(self, position, heading_rad):
        state = self.sim.AgentState()
        state.position = np.array(position, np.float32)
        state.rotation = self.sim.utils.common.quat_from_angle_axis(float(heading_rad), np.array(UP))
        self.agent.set_state(state, reset_sensors=False)

    def fits(self, poses):
        """FREE for each pose at which an agent can stand, else NOT_NAVIGABLE or OTHER_ISLAND."""
        return [self._fits(pose) for pose in poses]

    def _fits(self, pose):
        """As `fits`, for one pose. The nearest floor may be the top of low furniture, on an island of its own."""
        place = self._snapped(pose)
        if place is not None and np.hypot(*(place - pose[:3])[[0, 2]]) < BESIDE_M and abs(place[1] - pose[1]) < NEAR_M:
            return FREE
        return OTHER_ISLAND if self.finder.is_navigable(pose[:3].astype(np.float32), NEAR_M) else NOT_NAVIGABLE

    def places(self, spacing_m):
        """Places (P, 3) of the large islands where an agent can stand, at multiples of `spacing_m` along X and Z."""
        found = {}
        for island in self.islands:
            corners = np.array([_floats(corner) for corner in self.finder.build_navmesh_vertices(island)])
            faces = np.array(self.finder.build_navmesh_vertex_indices(island), np.int64).reshape(-1, 3)
            for triangle in corners[faces]:
                for place in _raster(triangle, spacing_m):
                    found[tuple(np.round(place / [spacing_m, NEAR_M, spacing_m]).astype(int).tolist())] = place
        places = np.array([found[key] for key in sorted(found)]).reshape(-1, 3)
        free = [state == FREE for state in self.fits(np.column_stack([places, np.zeros(len(places))]))]
        return places[np.array(free, bool)]

    def move(self, poses, actions):
        """Poses after one action each, and 1 for each step that ran into something."""
        after, refused = poses.copy(), np.zeros(len(poses), np.int64)
        actions = np.asarray(actions)
        sides = (actions == LEFT).astype(np.float64) - (actions == RIGHT)
        after[:, 3] = (after[:, 3] + sides * self.given["turn_rad"]) % (2 * np.pi)
        for n in np.flatnonzero(actions == FORWARD):
            after[n, :3], refused[n] = self._stepped(poses[n])
        return after, refused

    def _stepped(self, pose):
        """The place that a step forward leads to, and whether it ran into something."""
        collisions, step_m = self.given["collisions"], self.given["step_m"]
        ahead = np.array([-step_m * math.sin(pose[3]), 0.0, -step_m * math.cos(pose[3])])
        begin = self._snapped(pose)
        if begin is None:
            return pose[:3], True
        lift = begin[1] - pose[1]
        on_it = np.hypot(*(begin - pose[:3])[[0, 2]]) < ON_M
        if on_it:
            begin[[0, 2]] = pose[[0, 2]]  # as exact as the pose, the navmesh has float32
        try_step = self.finder.try_step if collisions == "slide" else self.finder.try_step_no_sliding
        end = _floats(try_step(begin.astype(np.float32), (begin + ahead).astype(np.float32)))
        moved = end - begin
        refused = bool(moved.dot(moved) + SHORT < ahead.dot(ahead))
        if refused and collisions == "refuse":
            return pose[:3], True
        if on_it and not refused and np.hypot(*(moved - ahead)[[0, 2]]) < ON_M:
            end[[0, 2]] = (pose[:3] + ahead)[[0, 2]]
        return np.array([end[0], end[1] - lift, end[2]]), refused

    def _all_or_nothing(self, start, end):
        """The end of a move of habitat-sim's, its start if it would be cut off."""
        reached, asked = self.finder.try_step_no_sliding(start, end), end - start
        moved = reached - start
        return start if moved.dot() + SHORT < asked.dot() else reached

    def _snapped(self, pose):
        """The place on a large island nearest to a pose; None if there is none."""
        asked = np.array(pose[:3], np.float32)
        found = [_floats(self.finder.snap_point(asked, island)) for island in self.islands]
        found = [point for point in found if np.isfinite(point).all()]
        return min(found, key=lambda point: np.linalg.norm(point - pose[:3]), default=None)

    def distances(self, goals, poses):
        """Geodesic metres from each pose into the goal at the same index; inf if no way leads there."""
        lengths = [self._path(goal, pose).geodesic_distance - goal[1] for goal, pose in zip(goals, poses)]
        return np.maximum(np.array(lengths, np.float64), 0.0)

    def _path(self, goal, pose):
        """habitat-sim's shortest path from a pose to the nearest point of a goal, (points, radius_m, turn_rad)."""
        path = self._paths.pop(goal, None)
        if path is None:
            path = self.sim.MultiGoalShortestPath()
            path.requested_ends = [point[:3].astype(np.float32) for point in _poses(goal[0])]
        self._paths[goal] = path
        if len(self._paths) > GOALS_KEPT:
            self._paths.popitem(last=False)
        path.requested_start = np.array(pose[:3], np.float32)
        self.finder.find_path(path)
        return path

    def walk(self, goal, start):
        """Actions and poses of a greedy walk along the shortest path, with turns at its end; None if there is none.

        It ends within the goal's radius of the nearest point, and looks along that point's heading, up to turn_rad.
        """
        path = self._path(goal, start)
        if self._fits(start) != FREE or not np.isfinite(path.geodesic_distance):
            return None
        view = _poses(goal[0])[path.closest_end_point_index]
        walked = self._walked(goal, start, self._steps_to(view, goal[1], start))
        if walked is None:  # it is caught at a corner, or ends beside the goal, as it rounds as float32 does
            walked = self._walked(goal, start, self._searched(goal, start))
        if walked is None:
            return None
        actions, poses = walked
        turn = self.given["turn_rad"]
        away = (view[3] - poses[-1][3] + np.pi) % (2 * np.pi) - np.pi
        for _ in range(max(math.ceil((abs(away) - max(goal[2], turn / 2)) / turn - 1e-9), 0)):
            actions.append(LEFT if away > 0 else RIGHT)
            poses.append(self.move(poses[-1][None], [actions[-1]])[0][0])
        return actions + [STOP], np.stack(poses)

    def _walked(self, goal, start, actions):
        """Some actions with the pose before each and the last one; None if that is not in the goal."""
        if actions is None:
            return None
        poses = [start]
        for action in actions:
            poses.append(self.move(poses[-1][None], [action])[0][0])
        return (actions, poses) if self._left(goal, poses[-1]) == 0 else None

    def _steps_to(self, view, radius_m, start):
        """Actions of habitat-sim's greedy follower from a pose to within the radius of a place; None if it fails."""
        ids = {"move_forward": FORWARD, "turn_left": LEFT, "turn_right": RIGHT}
        begin = self._snapped(start)
        if begin is None:
            return None
        self._stand(begin, start[3])
        follower = self.simulator.make_greedy_follower(agent_id=0, goal_radius=radius_m)
        try:
            found = follower.find_path(np.array(view[:3], np.float32))
        except self.sim.errors.GreedyFollowerError:
            return None
        return [ids[name] for name in found if name is not None]

    def _searched(self, goal, start):
        """Actions into a goal by a search over turns and steps; None if there are none, or it takes long."""
        turn_rad = self.given["turn_rad"]
        circle = round(2 * math.pi / turn_rad)
        open_, seen = [(self._left(goal, start), 0, 0, start, [])], set()
        for number in range(SEARCHED):
            if not open_:
                return None
            _, _, made, pose, actions = heappop(open_)
            if self._left(goal, pose) == 0:
                return actions
            for lefts in range(circle):
                facing = pose + [0, 0, 0, lefts * turn_rad]
                (after,), _ = self.move(facing[None], [FORWARD])
                key = (*np.round(after[:3] / SAME_M).astype(int).tolist(), round(after[3] / turn_rad) % circle)
                if key not in seen and np.abs(after[:3] - pose[:3]).max() > SAME_M / 2:
                    seen.add(key)
                    turns = [LEFT] * lefts if 2 * lefts <= circle else [RIGHT] * (circle - lefts)
                    so_far = made + len(turns) + 1
                    left = EAGER * self._left(goal, after) / self.given["step_m"]
                    heappush(
                        open_, (so_far + left, number * circle + lefts + 1, so_far, after, actions + turns + [FORWARD])
                    )
        return None

    def _left(self, goal, pose):
        """Geodesic metres from a pose into a goal."""
        return float(self.distances([goal], pose[None])[0])

    def replay(self, start, actions):
        """The pose before each action of a walk."""
        poses = [start]
        for action in actions[:-1]:
            poses.append(self.move(poses[-1][None], [action])[0][0])
        return np.stack(poses)

    def regions_at(self, poses):
        """The smallest region around each agent's middle, -1 for none."""
        points = poses[:, None, :3] + np.array([0.0, BODY_M, 0.0])
        inside = ((points >= self.boxes[:, 0]) & (points <= self.boxes[:, 1])).all(2)
        sizes = np.where(inside, np.prod(self.boxes[:, 1] - self.boxes[:, 0], 1), np.inf)
        smallest = sizes.argmin(1) if sizes.shape[1] else np.zeros(len(poses), np.int64)
        return np.where(inside.any(1), smallest, -1).tolist()

    def _find_contents(self):
        """Things with corners of their boxes, and regions with theirs, from the scene's semantics."""
        semantic = self.simulator.semantic_scene
        regions = sorted((r for r in semantic.regions if r.id != NOWHERE), key=lambda r: _last_number(r.id))
        number = {region.id: n for n, region in enumerate(regions)}
        self.things = []
        for thing in semantic.objects:
            if thing is None or thing.category is None or thing.semantic_id <= 0:
                continue
            corners = _corners(thing.obb)
            if corners is not None:
                region = -1 if thing.region is None else number.get(thing.region.id, -1)
                self.things.append((int(thing.semantic_id), thing.category.name(), region, corners.tolist()))
        self.boxes, self.regions = np.zeros((len(regions), 2, 3)), []
        for n, region in enumerate(regions):
            box = np.stack([_floats(region.aabb.min), _floats(region.aabb.max)])
            if not (np.isfinite(box).all() and (box[1] > box[0]).all()):
                corners = [corner for thing in self.things if thing[2] == n for corner in thing[3]]
                box = np.stack([np.min(corners, 0), np.max(corners, 0)]) if corners else np.zeros((2, 3))
            self.boxes[n] = box
            loop = [[float(point[0]), float(point[2])] for point in getattr(region, "poly_loop_points", ())]
            name = "" if region.category is None else region.category.name()
            self.regions.append((name, loop, box.tolist()))


def _raster(triangle, spacing_m):
    """Places (P, 3) of a triangle at multiples of `spacing_m` along X and Z."""
    plan = triangle[:, [0, 2]]
    axes = [
        np.arange(np.ceil(low / spacing_m), np.floor(high / spacing_m) + 1) * spacing_m
        for low, high in zip(plan.min(0), plan.max(0))
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    sides = np.stack([plan[1] - plan[0], plan[2] - plan[0]], 1)
    if abs(np.linalg.det(sides)) < 1e-9 or not len(points):
        return np.zeros((0, 3))
    along = np.linalg.solve(sides, (points - plan[0]).T)
    inside = (along >= -1e-9).all(0) & (along.sum(0) <= 1 + 1e-9)
    heights = triangle[0, 1] + along.T @ (triangle[1:, 1] - triangle[0, 1])
    return np.column_stack([points[:, 0], heights, points[:, 1]])[inside]


def _last_number(name):
    """The number that a region's id ends with, such as 3 of "0_3"; ids without one come first."""
    end = name.rsplit("_", 1)[-1]
    return int(end) if end.isdigit() else -1


def _floats(vector):
    """Three numbers of habitat-sim's as float64."""
    return np.array([vector[0], vector[1], vector[2]], np.float64)


def _poses(raw):
    """The (N, 4) poses in bytes of float64."""
    return np.frombuffer(raw, np.float64).reshape(-1, 4).copy() if raw else np.zeros((0, 4))


def _corners(box):
    """The (8, 3) corners of an oriented box, None for one without a size."""
    half, center = _floats(box.half_extents), _floats(box.center)
    if not (np.isfinite(half).all() and np.isfinite(center).all() and (half > 0).any()):
        return None
    x, y, z, w = (float(box.rotation[axis]) for axis in range(4))
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    return signs * half @ turn.T + center


class Server:
    """Answers questions about one scene after the other: a method for each kind of question."""

    def __init__(self, sim, settings, memory, capacity):
        self.sim, self.settings, self.scene, self.capacity = sim, settings, None, capacity
        camera, begin = settings["camera"], 0
        size = (capacity, camera["height_px"], camera["width_px"])
        self.images = {}
        for name, shape, kind in (
            ("rgb", (*size, 3), np.uint8),
            ("depth", size, np.float32),
            ("instance_id", size, np.int32),
        ):
            length = int(np.prod(shape)) * np.dtype(kind).itemsize
            self.images[name] = np.frombuffer(memory, kind, int(np.prod(shape)), begin).reshape(shape)
            begin += length

    def open(self, path):
        if self.scene is not None:
            self.scene.close()
            self.scene = None
        self.scene = Scene(self.sim, self.settings, path)
        return self.scene.things, self.scene.regions

    def look(self, poses, sensors):
        self.scene.look(_poses(poses), sensors, self.images)

    def places(self, spacing_m):
        return self.scene.places(spacing_m).tobytes()

    def fits(self, poses, goals):
        poses = _poses(poses)
        return self.scene.fits(poses), self.scene.distances(goals, poses).tobytes(), self.scene.regions_at(poses)

    def advance(self, poses, actions, goals):
        after, refused = self.scene.move(_poses(poses), actions)
        distances = self.scene.distances(goals, after)
        return after.tobytes(), refused.tolist(), distances.tobytes(), self.scene.regions_at(after)

    def distances(self, goals, poses):
        poses = _poses(poses)
        stands = np.array(self.scene.fits(poses)) == FREE
        return np.where(stands, self.scene.distances(goals, poses), np.inf).tobytes()

    def walk(self, goal, start):
        found = self.scene.walk(goal, _poses(start)[0])
        return None if found is None else (found[0], found[1].tobytes())

    def replay(self, start, actions):
        return self.scene.replay(_poses(start)[0], actions).tobytes()


def import_habitat_sim():
    """habitat_sim of a version that is known to work; ImportError and ValueError otherwise."""
    import habitat_sim
    import habitat_sim.utils.common

    if habitat_sim.__version__ not in SUPPORTED:
        raise ValueError(f"habitat-sim: expected version {' or '.join(SUPPORTED)}, got {habitat_sim.__version__}")
    return habitat_sim


def main():
    """Serves the connection and the memory whose numbers are the command's words, until its other end is closed."""
    pipe = Connection(int(sys.argv[1]))
    settings, capacity, size = pipe.recv()
    memory = mmap.mmap(int(sys.argv[2]), size)
    try:
        server = Server(import_habitat_sim(), settings, memory, capacity)
        pipe.send(("ready", None))
    except (ImportError, ValueError) as error:
        pipe.send((type(error).__name__, str(error)))
        return
    while True:
        try:
            asked, words = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)  # habitat-sim may hang while its context is taken down
        try:
            pipe.send(("done", getattr(server, asked)(*words)))
        except ValueError as error:
            pipe.send(("ValueError", str(error)))
        except Exception:  # noqa: BLE001 (raised by the process that asked)
            pipe.send(("failed", traceback.format_exc()))


if __name__ == "__main__":
    main()
