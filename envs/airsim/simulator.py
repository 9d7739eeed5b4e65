"""`AirSimWorld`, the world behind AirSim servers, and `AirSimSimulator`, in which N agents see what they draw.

A world of ours, or an `UnknownCity`, moves the agents and knows distances, walks and annotations; servers draw. Poses
are kept here, and a server's drone is set to an agent's pose for each of its frames. So agents share servers, and do
not see each other. All servers have the same scene.

Axes: N agents, M of them, V views.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from torch import Tensor

from eqa.envs.actions import Action, ActionSet
from eqa.envs.airsim.drones import KINDS, Drone, DroneSettings
from eqa.envs.airsim.unknown_city import FreeFlight, UnknownCity
from eqa.envs.annotations import Annotations
from eqa.envs.episode import Pose
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Planner, Simulator, Walk, World

COLLISIONS = ("ignore", "ask")


class AirSimWorld:
    """Implements `envs.simulator.World`: what `knows` knows, as AirSim servers show it."""

    def __init__(
        self,
        knows: World,
        servers: Sequence[tuple[str, int]],
        settings: DroneSettings,
        *,
        collisions: str = "ignore",
    ) -> None:
        """`collisions` is for an `UnknownCity`: "ignore" flies through walls, "ask" lets the server refuse moves."""
        if not servers:
            raise ValueError("servers: expected at least one address, got none")
        if collisions not in COLLISIONS:
            raise ValueError(f"collisions: expected one of {', '.join(COLLISIONS)}, got {collisions!r}")
        if collisions == "ask" and not isinstance(knows, UnknownCity):
            raise ValueError("collisions: expected ignore where a world of ours knows what stands in the way, got ask")
        self.knows, self.settings, self.collisions = knows, settings, collisions
        self.actions, self.camera, self.identity = knows.actions, knows.camera, knows.identity
        self.coordinate_frames, self.scenes_at_once = knows.coordinate_frames, knows.scenes_at_once
        self.drones = [Drone(host, port, settings) for host, port in servers]
        self._pool = ThreadPoolExecutor(len(servers))
        self._greeted = False

    @classmethod
    def at(
        cls,
        host: str = "127.0.0.1",
        port: int = 41451,
        *,
        servers: Sequence[str] | None = None,
        knows: World | None = None,
        scene: str = "embodied-city",
        camera: Camera | None = None,
        actions: ActionSet | None = None,
        collisions: str = "ignore",
        **settings: object,
    ) -> "AirSimWorld":
        """The world behind a server, or behind `servers`, such as "127.0.0.1:41451".

        `knows` is the world of ours that is served. Without it, `scene` names a foreign city, which needs a `camera`
        and `actions`. The other `settings` are those of `DroneSettings`.
        """
        if knows is None:
            if camera is None or actions is None:
                raise ValueError("airsim: expected a camera and actions for a foreign city, got none")
            city, ours = UnknownCity(actions=actions, camera=camera, scene_id=scene), None
        else:
            city, ours = knows, knows.identity
            for name, known, given in (("camera", knows.camera, camera), ("actions", knows.actions, actions)):
                if given not in (None, known):
                    raise ValueError(f"{name}: expected that of the world that is served, {known}, got {given}")
        addresses = [(host, port)] if servers is None else [_address(one) for one in servers]
        return cls(city, addresses, DroneSettings(camera=city.camera, ours=ours, **settings), collisions=collisions)

    def close(self) -> None:
        """Ends the connections."""
        for drone in self.drones:
            drone.close()

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: object = None) -> Simulator:
        """See `envs.simulator.World`; ValueError for a server that is not there, or not the one that was meant.

        Frames of another camera are drawn here by the world of ours, and refused in a foreign city.
        """
        if camera not in (None, self.camera):
            if isinstance(self.knows, UnknownCity):
                raise ValueError(f"camera: expected that of the servers, {self.camera}, got {camera}")
            return self.knows.open(scene_ids, num_agents=num_agents, camera=camera)
        places = self.knows.open(scene_ids, num_agents=num_agents, camera=self.camera)
        if not self._greeted:
            for drone in self.drones:
                drone.greet(scene_ids[0])
            self._greeted = True
        return AirSimSimulator(self, places)

    def frames(self, scene_ids: Sequence[str], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str]) -> list[dict]:
        """Images of each view, drawn by all servers side by side. SceneFailed if one of them does not come back."""
        order = sorted(range(len(scene_ids)), key=lambda row: scene_ids[row])  # few changes of scene for each server
        parts = [part for part in np.array_split(order, len(self.drones)) if len(part)]
        shown: list[dict] = [{}] * len(scene_ids)

        def draw(drone: Drone, rows: Int64[np.ndarray, " _"]) -> None:
            for row in rows.tolist():
                shown[row] = drone.frame(scene_ids[row], poses[row], sensors)

        if len(parts) == 1:
            draw(self.drones[0], parts[0])
        else:
            tasks = [self._pool.submit(draw, drone, rows) for drone, rows in zip(self.drones, parts, strict=False)]
            errors = [task.exception() for task in tasks]  # all are waited for, so that none draws on for nobody
            if failed := [error for error in errors if error is not None]:
                raise failed[0]
        return shown

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        """See `envs.simulator.World`."""
        return self.knows.missing(scene_ids)

    def annotations(self, scene_id: str) -> Annotations:
        """Objects and regions of a scene; none of a foreign city."""
        return self.knows.annotations(scene_id)

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """See `envs.simulator.World`; in a foreign city along straight lines."""
        return self.knows.distances(scene_id, goals, poses)

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """See `envs.simulator.World`; in a foreign city none is known."""
        return self.knows.shortest_walks(scene_id, goals, starts, or_none=or_none)

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """See `envs.simulator.World`."""
        return self.knows.planners(scene_id, goals)

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """See `envs.simulator.World`."""
        return self.knows.replay(scene_id, starts, actions)


def _address(text: str) -> tuple[str, int]:
    """Host and port; ValueError for another text."""
    host, _, port = str(text).rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"servers: expected addresses such as 127.0.0.1:41451, got {text!r}")
    return host, int(port)


class AirSimSimulator:
    """Implements `envs.simulator.Simulator`: `places` moves the agents, the servers of a world draw what they see."""

    device = torch.device("cpu")

    def __init__(self, world: AirSimWorld, places: Simulator) -> None:
        self.world, self.places = world, places
        self.actions, self.num_agents, self.image_size = places.actions, places.num_agents, places.image_size
        self.scene_ids = list(places.scene_ids)
        self._scene = np.full(self.num_agents, -1)

    def scene_index(self, scene_id: str) -> int:
        """Index of an opened scene; ValueError names one that is not open."""
        return self.places.scene_index(scene_id)

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses. ValueError for a pose where nobody can be, and for a goal that cannot be reached."""
        self.places.reset(agents, scenes, poses, goals)
        self._scene[agents] = scenes

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent; True for moves that were refused. ValueError for an unknown id."""
        before = self.places.poses.numpy()
        refused = self.places.step(actions)
        if self.world.collisions == "ask" and isinstance(self.places, FreeFlight):
            self._ask(before, np.asarray(actions), refused.numpy())
        return refused

    def _ask(
        self, before: Float64[np.ndarray, "N 4"], actions: Int[np.ndarray, " N"], refused: Bool[np.ndarray, " N"]
    ) -> None:
        """Puts agents back whose moves the servers end before their ends."""
        after = self.places.poses.numpy()
        turns = (Action.LEFT, Action.RIGHT, Action.STOP)
        for agent in np.flatnonzero(~np.isin(actions, turns)).tolist():
            drone = self.world.drones[agent % len(self.world.drones)]
            refused[agent] = not drone.arrives(self.scene_ids[self._scene[agent]], before[agent], after[agent])
        back = np.flatnonzero(refused)
        self.places.place(back, before[back])

    def observe(
        self, agents: Int64[np.ndarray, " M"] | None = None, sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of some agents, all by default: images, and "pose"."""
        chosen = np.arange(self.num_agents) if agents is None else agents
        if (self._scene[chosen] < 0).any():
            raise ValueError(f"{np.count_nonzero(self._scene[chosen] < 0)} agents are nowhere yet; reset them first")
        return self.look(self._scene[chosen], self.places.poses.numpy()[chosen], sensors)

    def look(
        self, scenes: Int64[np.ndarray, " V"], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of an agent at any poses: rgb, depth, instance_id, pose. All images of a view are of one moment.

        In a foreign city instance_id is the colour of its segmentation as a number: blue + 256 green + 65536 red.
        ValueError for another sensor; SceneFailed if a server does not come back.
        """
        drawn = [name for name in dict.fromkeys(sensors) if name != "pose"]
        if unknown := set(drawn) - set(KINDS):
            raise ValueError(f"sensors: expected some of {', '.join((*KINDS, 'pose'))}, got {sorted(unknown)}")
        found = self.world.frames([self.scene_ids[k] for k in scenes], poses, drawn) if drawn else []
        images = {name: torch.from_numpy(self._stacked(name, [view[name] for view in found])) for name in drawn}
        return images | ({"pose": torch.from_numpy(poses.copy())} if "pose" in sensors else {})

    def _stacked(self, name: str, views: Sequence[np.ndarray]) -> np.ndarray:
        """Images of one sensor in one array."""
        kinds = {"rgb": (np.uint8, (3,)), "depth": (np.float32, ()), "instance_id": (np.int32, ())}
        kind, channels = kinds[name]
        stacked = np.empty((len(views), *self.image_size, *channels), kind)
        for row, view in enumerate(views):
            stacked[row] = view
        return stacked

    @property
    def poses(self) -> Float64[Tensor, "N 4"]:
        return self.places.poses

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Metres to each agent's goal, as the world that is served knows it; in a foreign city straight ones."""
        return self.places.distance_m

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """The region that each agent is in; -1 for none, and in a foreign city."""
        return self.places.region
