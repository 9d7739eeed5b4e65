"""A stand-in for habitat_sim with the calls that `envs.habitat.server` makes: one room of 8 x 6 m, with a wall in it.

It is no simulator of anything. Its navmesh lies 5 cm above the floor, and has a second island. A scene file's name says
how the process fails: "dies-once", "dies", "hangs-once". A file beside it remembers that it has failed.
"""

import json
import math
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

__version__ = os.environ.get("FAKE_HABITAT_VERSION", "0.3.3")
WIDE_M, DEEP_M, WALL_X, GAP_Z, HIGH_M = 8.0, 6.0, 4.0, 4.0, 0.05
ISLAND_X = 10.0  # the second island is 1 m wide from here
SensorType = SimpleNamespace(COLOR="COLOR", DEPTH="DEPTH", SEMANTIC="SEMANTIC")


class GreedyFollowerError(RuntimeError):
    pass


errors = SimpleNamespace(GreedyFollowerError=GreedyFollowerError)


class SimulatorConfiguration(SimpleNamespace):
    pass


class CameraSensorSpec(SimpleNamespace):
    pass


class AgentState(SimpleNamespace):
    pass


agent = SimpleNamespace(
    AgentConfiguration=SimpleNamespace,
    ActionSpec=lambda name, actuation: SimpleNamespace(name=name, actuation=actuation),
    ActuationSpec=lambda amount: SimpleNamespace(amount=amount),
)


def Configuration(backend, agents):
    return SimpleNamespace(backend=backend, agents=agents)


class NavMeshSettings(SimpleNamespace):
    def set_defaults(self):
        self.agent_radius, self.agent_height, self.cell_height = 0.1, 1.5, 0.2


class MultiGoalShortestPath(SimpleNamespace):
    requested_ends, requested_start, geodesic_distance, closest_end_point_index = (), None, math.inf, -1


def _floats(point):
    """Refuses what habitat-sim's bindings refuse."""
    point = np.asarray(point)
    if point.dtype != np.float32 or point.shape != (3,):
        raise TypeError(f"expected 3 float32, got {point.dtype} {point.shape}")
    return point.astype(np.float64)


def _island(x, z):
    if 0 <= x <= WIDE_M and 0 <= z <= DEEP_M and not (x == WALL_X and z < GAP_Z):
        return 0
    return 1 if ISLAND_X <= x <= ISLAND_X + 1 and 0 <= z <= 1 else -1


def _length(start, end):
    """Metres from a place to another round the wall's end; inf between islands."""
    (x0, _, z0), (x1, _, z1) = start, end
    if _island(x0, z0) != _island(x1, z1):
        return math.inf
    if (x0 - WALL_X) * (x1 - WALL_X) >= 0:
        return math.hypot(x1 - x0, z1 - z0)
    crossing = z0 + (WALL_X - x0) / (x1 - x0) * (z1 - z0)
    if crossing >= GAP_Z:
        return math.hypot(x1 - x0, z1 - z0)
    return math.hypot(WALL_X - x0, GAP_Z - z0) + math.hypot(x1 - WALL_X, z1 - GAP_Z)


class PathFinder:
    num_islands, is_loaded = 2, True

    def __init__(self, made_for):
        self.nav_mesh_settings = made_for

    def island_area(self, island):
        return (WIDE_M * DEEP_M, 1.0)[island]

    def build_navmesh_vertices(self, island_index):
        low, wide, deep = ((0.0, WIDE_M, DEEP_M), (ISLAND_X, 1.0, 1.0))[island_index]
        return [(low, HIGH_M, 0.0), (low + wide, HIGH_M, 0.0), (low + wide, HIGH_M, deep), (low, HIGH_M, deep)]

    def build_navmesh_vertex_indices(self, island_index):
        return [0, 1, 2, 0, 2, 3]

    def is_navigable(self, point, max_y_delta):
        x, y, z = _floats(point)
        return _island(x, z) >= 0 and abs(y - HIGH_M) <= max_y_delta

    def get_island(self, point):
        x, _, z = _floats(point)
        return _island(x, z)

    def snap_point(self, point, island_index):
        x, _, z = _floats(point)
        return np.array([x, HIGH_M, z] if _island(x, z) == island_index else [math.nan] * 3, np.float32)

    def try_step_no_sliding(self, start, end):
        start, end = _floats(start), _floats(end)
        for share in np.linspace(1, 0, 101):  # back to the last place that can be reached in a straight line
            point = start + share * (end - start)
            crosses = (start[0] - WALL_X) * (point[0] - WALL_X) < 0 and point[2] < GAP_Z
            if _island(point[0], point[2]) == _island(start[0], start[2]) and not crosses:
                return point.astype(np.float32)
        return start.astype(np.float32)

    def try_step(self, start, end):
        stopped = self.try_step_no_sliding(start, end).astype(np.float64)
        left = _floats(end) - stopped
        for along in ((left[0], 0.0, 0.0), (0.0, 0.0, left[2])):
            stopped = self.try_step_no_sliding(stopped.astype(np.float32), (stopped + along).astype(np.float32))
            stopped = stopped.astype(np.float64)
        return stopped.astype(np.float32)

    def find_path(self, path):
        start = _floats(path.requested_start)
        lengths = [_length(start, _floats(end)) for end in path.requested_ends]
        path.geodesic_distance = min(lengths)
        path.closest_end_point_index = int(np.argmin(lengths))
        return math.isfinite(path.geodesic_distance)


class Simulator:
    controls = SimpleNamespace(move_filter_fn=None)

    def __init__(self, configuration):
        self.given, self.body = configuration.backend, configuration.agents[0]
        self.path = Path(self.given.scene_id)
        written = json.loads(self.path.read_text()) if self.path.is_file() else {}
        radius = written.get("navmesh_radius", self.body.radius)
        self.pathfinder = PathFinder(SimpleNamespace(agent_radius=radius, agent_height=self.body.height))
        self.pathfinder.is_loaded = written.get("navmesh", True)
        self.sensors = {spec.uuid: _Sensor(self, spec) for spec in self.body.sensor_specifications}
        box = SimpleNamespace(min=[math.inf] * 3, max=[-math.inf] * 3)
        room = [SimpleNamespace(id=f"_{n}", aabb=box, category=None, poly_loop_points=[]) for n in range(2)]
        self.semantic_scene = SimpleNamespace(
            regions=room,
            objects=[
                None,
                _thing(1, "wall_cabinet", room[0], [1.0, 1.0, 3.0], [1.0, 1.0, 3.0]),
                _thing(3, "floor", room[0], [4.0, 0.0, 3.0], [4.0, 0.0, 3.0]),
                _thing(2, "sofa", room[1], [6.0, 1.0, 3.0], [2.0, 1.0, 3.0]),
            ],
        )

    def close(self):
        pass

    def get_agent(self, _):
        return self

    def recompute_navmesh(self, finder, settings):
        finder.nav_mesh_settings, finder.is_loaded = settings, True
        return True

    def set_state(self, state, reset_sensors):
        self.state = state

    def make_greedy_follower(self, agent_id, goal_radius):
        return SimpleNamespace(find_path=lambda goal: self._to(goal, goal_radius))

    def _to(self, goal, radius):
        """Turns to the next corner and goes there; it is caught in scenes with such a name."""
        if "caught" in self.path.name:
            raise GreedyFollowerError
        (x, _, z), heading, found = np.array(self.state.position, np.float64), self.state.rotation, []
        goal, step = _floats(goal), self.body.action_space["move_forward"].actuation.amount
        turn = math.radians(self.body.action_space["turn_left"].actuation.amount)
        while _length((x, 0, z), goal) > radius:
            straight = abs(_length((x, 0, z), goal) - math.hypot(goal[0] - x, goal[2] - z)) < 1e-9
            to_x, to_z = (goal[0], goal[2]) if straight else (WALL_X + math.copysign(0.2, goal[0] - x), GAP_Z + 0.3)
            away = (math.atan2(x - to_x, z - to_z) - heading + math.pi) % (2 * math.pi) - math.pi
            if abs(away) > 0.51 * turn:
                found.append("turn_left" if away > 0 else "turn_right")
                heading += math.copysign(turn, away)
            else:
                found.append("move_forward")
                x, z = x - step * math.sin(heading), z - step * math.cos(heading)
            if len(found) > 500:
                raise GreedyFollowerError
        return [*found, None]

    def fail(self):
        """Fails as the scene's name says."""
        failed = self.path.with_suffix(".failed")
        name = self.path.name
        if "dies" in name and not ("once" in name and failed.exists()):
            failed.touch()
            print("the last words of a process", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if "hangs" in name and not failed.exists():
            failed.touch()
            time.sleep(600)


def _thing(number, name, region, center, half):
    box = SimpleNamespace(center=center, half_extents=half, rotation=[0.0, 0.0, 0.0, 1.0])
    category = SimpleNamespace(name=lambda: name)
    return SimpleNamespace(id=f"_{number}", semantic_id=number, category=category, region=region, obb=box)


class _Sensor:
    """RGB is the pose in whole decimetres and degrees; depth and instance count columns."""

    def __init__(self, simulator, spec):
        self.simulator, self.spec = simulator, spec

    def draw_observation(self):
        self.simulator.fail()

    def get_observation(self):
        height, width = self.spec.resolution
        (x, y, z), heading = self.simulator.state.position, self.simulator.state.rotation
        if self.spec.sensor_type == "COLOR":
            image = np.zeros((height, width, 4), np.uint8)
            image[...] = round(10 * x), round(10 * z), round(math.degrees(heading)) % 256, 255
            return image
        if self.spec.sensor_type == "DEPTH":
            return np.tile(np.arange(width, dtype=np.float32) + y, (height, 1))
        return np.tile(np.arange(width, dtype=np.uint32) // 8, (height, 1))


from . import utils  # noqa: F401
