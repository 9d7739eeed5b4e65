"""`HabitatWorld`, which opens scenes of habitat-sim, and `HabitatSimulator`, which moves and draws N agents in them.

Frames, moves and distances are habitat-sim's own (`envs.habitat.server`); poses are kept here. A distance leads to the
nearest view point of a goal, less the goal's radius.

Axes: N agents, M of them, K scenes, V views, P poses, T actions of a walk.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, Int8, Int64
from shapely import MultiPoint
from torch import Tensor

from eqa.envs.actions import ActionSet
from eqa.envs.annotations import Annotations, Outline, Region, Thing
from eqa.envs.episode import Pose
from eqa.envs.habitat.processes import CAPACITY, SHARED, Question, Scenes
from eqa.envs.habitat.server import FREE, NOT_NAVIGABLE
from eqa.envs.habitat.settings import HabitatSettings
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Planner, Walk, check_reset, checked_actions

IMAGES = ("rgb", "depth", "instance_id")
SCENES_KEPT = 1024
LEAST_OUTLINE_M = 1e-3  # half the width of a thing without any
SHELL = ("wall", "floor", "ceiling", "roof", "outside")  # parts of the building that are no things in it
UNNAMED = "room"  # a region of a data set that has no names for them


class HabitatWorld:
    """Implements `envs.simulator.World` for scenes of habitat-sim, by their paths or their names in a data set.

    Exported houses have the names and coordinates that they have as houses.
    """

    coordinate_frames = ("habitat", "house")

    def __init__(self, settings: HabitatSettings) -> None:
        self.settings, self.actions, self.camera = settings, settings.actions, settings.camera
        self.identity, self.scenes_at_once = settings.identity, settings.processes
        self._scenes = {settings.camera: Scenes(settings)}
        self.annotations = lru_cache(SCENES_KEPT)(self._annotations)

    @classmethod
    def at(
        cls,
        scenes: str | Path,
        *,
        dataset: str | Path | None = None,
        camera: Camera | None = None,
        actions: ActionSet | None = None,
        python: str | None = None,
        **settings: object,
    ) -> "HabitatWorld":
        """The world of a folder of scenes; `settings` are those of `HabitatSettings`, all with defaults."""
        given = {name: value for name, value in (("camera", camera), ("actions", actions)) if value is not None}
        given |= {} if python is None else {"python": str(Path(python).expanduser())}
        found = {"scenes": Path(scenes), "dataset": None if dataset is None else Path(dataset)}
        return cls(HabitatSettings(**found, **given, **settings))

    def close(self) -> None:
        """Ends all processes."""
        for scenes in self._scenes.values():
            scenes.close()

    @property
    def scenes(self) -> Scenes:
        """The scenes as the world's own camera sees them."""
        return self._scenes[self.camera]

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: Camera | None = None) -> "HabitatSimulator":
        """See `envs.simulator.World`; ValueError for a scene that is not there.

        Another camera has a process of its own. Its pixels have one sample, as habitat-sim draws.
        """
        for scene_id in scene_ids:
            self.settings.scene_path(scene_id)
        seen = self.camera if camera is None else replace(camera, samples=1)
        if seen not in self._scenes:
            self._scenes[seen] = Scenes(replace(self.settings, camera=seen, processes=1))
        return HabitatSimulator(self._scenes[seen], scene_ids, num_agents=num_agents)

    def missing(self, scene_ids: Iterable[str]) -> set[str]:
        """See `envs.simulator.World`: scenes whose files are not below `HabitatSettings.scenes`."""
        return {scene_id for scene_id in scene_ids if not self.settings.has(scene_id)}

    def _annotations(self, scene_id: str) -> Annotations:
        """Things and regions of a scene's semantics; colours are not known."""
        named, regions = self.scenes.contents(scene_id)
        things = [thing for thing in named if _plain(thing[1]) not in SHELL]
        outlines = [_outline(np.array(corners)[:, [0, 2]]) for *_, corners in things]
        heights = [np.array(corners)[:, 1] for *_, corners in things]
        return Annotations(
            scene_id,
            tuple(
                Region(_plain(name) or UNNAMED, _region_outline(loop, box), box[0][1], box[1][1])
                for name, loop, box in regions
            ),
            tuple(
                Thing(number, _plain(name), outline, None, region, float(y.min()), float(y.max()))
                for (number, name, region, _), outline, y in zip(things, outlines, heights, strict=True)
            ),
        )

    def places(self, scene_id: str, spacing_m: float) -> Float64[np.ndarray, "V 3"]:
        """Places (x, y, z) on the large islands of the navmesh, `spacing_m` apart along X and Z, on every storey."""
        asked = [Question(scene_id, "places", (spacing_m,))]
        self.scenes.ask(asked)
        return np.frombuffer(asked[0].answer, np.float64).reshape(-1, 3).copy()

    def distances(
        self, scene_id: str, goals: Sequence[Goal], poses: Sequence[Float64[np.ndarray, "_ 4"]]
    ) -> list[Float32[np.ndarray, " _"]]:
        """See `envs.simulator.World`."""
        asked = [
            Question(scene_id, "distances", ([_plain_goal(goal)] * len(at), _bytes(at)))
            for goal, at in zip(goals, poses, strict=True)
        ]
        self.scenes.ask(asked)
        return [np.frombuffer(question.answer, np.float64).astype(np.float32) for question in asked]

    def shortest_walks(
        self, scene_id: str, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
    ) -> list[Walk | None]:
        """See `envs.simulator.World`: habitat-sim's greedy walks along shortest paths."""
        asked = [
            Question(scene_id, "walk", (_plain_goal(goal), _bytes(start)))
            for goal, start in zip(goals, starts, strict=True)
        ]
        self.scenes.ask(asked)
        walks = [None if q.answer is None else _walk(q.answer[0], q.answer[1]) for q in asked]
        for start, walk in zip(starts, walks, strict=True):
            if walk is None and not or_none:
                raise ValueError(
                    f"{scene_id}: no walk leads from {tuple(start)} to its goal; they may be on two islands"
                )
        return walks

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Planner]:
        """See `envs.simulator.World`."""
        return [partial(self._planned, scene_id, goal) for goal in goals]

    def _planned(self, scene_id: str, goal: Goal, start: Pose) -> Walk:
        return self.shortest_walks(scene_id, [goal], [start])[0]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[Int8[np.ndarray, " _"]]) -> list[Walk]:
        """See `envs.simulator.World`: a step may be cut off at an obstacle, and follows the ground."""
        asked = [
            Question(scene_id, "replay", (_bytes(start), taken.tolist()))
            for start, taken in zip(starts, actions, strict=True)
        ]
        self.scenes.ask(asked)
        return [_walk(taken, question.answer) for taken, question in zip(actions, asked, strict=True)]


class HabitatSimulator:
    """Implements `envs.simulator.Simulator`: the scenes' processes move and draw their agents side by side."""

    device = torch.device("cpu")

    def __init__(self, scenes: Scenes, scene_ids: Sequence[str], *, num_agents: int) -> None:
        if num_agents < 1:
            raise ValueError(f"num_agents: expected at least 1, got {num_agents}")
        self.scenes, self.scene_ids, self.num_agents = scenes, list(scene_ids), num_agents
        self.actions, camera = scenes.settings.actions, scenes.settings.camera
        self.image_size = camera.height_px, camera.width_px
        self._index = {scene_id: k for k, scene_id in enumerate(self.scene_ids)}
        self._scene, self._poses = np.full(num_agents, -1), np.full((num_agents, 4), np.nan)
        self._goals: list[tuple | None] = [None] * num_agents
        self._distances, self._regions = np.full(num_agents, np.nan, np.float32), np.full(num_agents, -1)

    def scene_index(self, scene_id: str) -> int:
        """Index of an opened scene; ValueError names one that is not open."""
        if scene_id not in self._index:
            raise ValueError(f"scene {scene_id!r}: not among the {len(self._index)} opened ones; pass it to the world")
        return self._index[scene_id]

    def reset(
        self,
        agents: Int64[np.ndarray, " M"],
        scenes: Int64[np.ndarray, " M"],
        poses: Float64[np.ndarray, "M 4"],
        goals: Sequence[Goal],
    ) -> None:
        """Puts agents at poses and gives each its goal.

        ValueError, before anything changes, for a pose off the navmesh or on a small island of it, and for a goal that
        cannot be reached from it.
        """
        check_reset(agents, scenes, poses, goals)
        plain = [_plain_goal(goal) for goal in goals]
        asked = [
            (rows, Question(self.scene_ids[k], "fits", (_bytes(poses[rows]), [plain[n] for n in rows])))
            for k, rows in _by_scene(scenes)
        ]
        self.scenes.ask([question for _, question in asked])
        found = np.empty(len(agents), np.float32), np.empty(len(agents), np.int64)
        for rows, question in asked:
            states, distances, regions = question.answer
            found[0][rows], found[1][rows] = np.frombuffer(distances, np.float64), regions
            for n, state, distance in zip(rows, states, found[0][rows].tolist(), strict=True):
                self._check(question.scene_id, poses[n], state, distance)
        self._scene[agents], self._poses[agents] = scenes, poses
        self._distances[agents], self._regions[agents] = found
        for agent, goal in zip(agents.tolist(), plain, strict=True):
            self._goals[agent] = goal

    def _check(self, scene_id: str, pose: Float64[np.ndarray, " 4"], state: int, distance: float) -> None:
        """ValueError for a pose where no agent can stand, or from which its goal cannot be reached."""
        at = tuple(round(float(part), 3) for part in pose)
        if state != FREE:
            why = "is off the navmesh" if state == NOT_NAVIGABLE else "is on a small island, such as a table"
            raise ValueError(f"{scene_id}: an agent cannot stand at {at}, it {why}; start it on free floor")
        if not np.isfinite(distance):
            raise ValueError(f"{scene_id}: no way leads from {at} to the goal, which is on another island")

    def step(self, actions: Int[Tensor, " N"] | Int[np.ndarray, " N"]) -> Bool[Tensor, " N"]:
        """Moves every agent; True for moves that ran into something. ValueError for an unknown id."""
        actions = checked_actions(actions, num_agents=self.num_agents, known=self.actions)
        self._check_ready(np.arange(self.num_agents))
        refused = np.zeros(self.num_agents, np.bool_)
        moving = np.flatnonzero(actions != self.actions.names.index("stop"))
        asked = []
        for k, rows in _by_scene(self._scene[moving]):
            who = moving[rows]
            words = _bytes(self._poses[who]), actions[who].tolist(), [self._goals[n] for n in who]
            asked.append((who, Question(self.scene_ids[k], "advance", words)))
        self.scenes.ask([question for _, question in asked])
        for who, question in asked:
            poses, refused[who], distances, self._regions[who] = question.answer
            self._poses[who] = np.frombuffer(poses, np.float64).reshape(-1, 4)
            self._distances[who] = np.frombuffer(distances, np.float64)
        return torch.from_numpy(refused)

    def observe(
        self, agents: Int64[np.ndarray, " M"] | None = None, sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of some agents, all by default: images, and "pose"."""
        chosen = np.arange(self.num_agents) if agents is None else agents
        self._check_ready(chosen)
        return self.look(self._scene[chosen], self._poses[chosen], sensors)

    def look(
        self, scenes: Int64[np.ndarray, " V"], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of an agent at any poses. ValueError for a sensor that is none of habitat-sim's here."""
        drawn = [name for name in sensors if name != "pose"]
        if unknown := set(drawn) - set(IMAGES):
            raise ValueError(f"sensors: expected some of {(*IMAGES, 'pose')}, got {sorted(unknown)}")
        images = {
            name: np.empty((len(poses), *self.image_size, *shape), kind)
            for name, kind, shape in (("rgb", np.uint8, (3,)), ("depth", np.float32, ()), ("instance_id", np.int32, ()))
            if name in drawn
        }
        at_once = SHARED if self.scenes.settings.processes > 1 else CAPACITY
        asked = [
            (rows, Question(self.scene_ids[k], "look", (_bytes(poses[rows]), drawn), len(rows), drawn))
            for k, of_scene in (_by_scene(scenes) if drawn else ())
            for rows in np.split(of_scene, np.arange(at_once, len(of_scene), at_once))
        ]
        self.scenes.ask([question for _, question in asked])
        for rows, question in asked:
            for name, image in question.images.items():
                images[name][rows] = image
        found = {name: torch.from_numpy(image) for name, image in images.items()}
        return found | ({"pose": torch.from_numpy(poses.copy())} if "pose" in sensors else {})

    @property
    def poses(self) -> Float64[Tensor, "N 4"]:
        return torch.from_numpy(self._poses.copy())

    @property
    def distance_m(self) -> Float32[Tensor, " N"]:
        """Geodesic metres to each agent's goal, 0 inside of it, NaN for an agent that was not placed yet."""
        return torch.from_numpy(self._distances.copy())

    @property
    def region(self) -> Int64[Tensor, " N"]:
        """Index of the smallest region around each agent's middle, -1 for none."""
        return torch.from_numpy(self._regions.copy())

    def _check_ready(self, agents: Int64[np.ndarray, " M"]) -> None:
        if (self._scene[agents] < 0).any():
            raise ValueError(f"{np.count_nonzero(self._scene[agents] < 0)} agents are nowhere yet; reset them first")


def _by_scene(scenes: Int64[np.ndarray, " M"]) -> Iterator[tuple[int, Int64[np.ndarray, " _"]]]:
    """Each scene, and the rows that it has."""
    for k in np.unique(scenes):
        yield int(k), np.flatnonzero(scenes == k)


def _bytes(poses: Sequence | np.ndarray) -> bytes:
    return np.ascontiguousarray(poses, np.float64).tobytes()


def _plain_goal(goal: Goal) -> tuple[bytes, float, float]:
    return _bytes(goal.view_points), float(goal.radius_m), float(goal.turn_rad)


def _walk(actions: Sequence[int] | np.ndarray, poses: bytes) -> Walk:
    return Walk(np.array(actions, np.int8), np.frombuffer(poses, np.float64).reshape(-1, 4).copy())


def _plain(name: str) -> str:
    """A name as questions say it."""
    return name.strip().lower().replace("_", " ")


def _outline(corners: Float64[np.ndarray, "8 2"]) -> Outline:
    """The convex outline of a thing's box in the plan."""
    hull = MultiPoint(corners).convex_hull
    area = hull if hull.geom_type == "Polygon" else hull.buffer(LEAST_OUTLINE_M)
    return tuple((float(x), float(z)) for x, z in area.exterior.coords[:-1])


def _region_outline(loop: Sequence[Sequence[float]], box: Sequence[Sequence[float]]) -> Outline:
    """The region's own outline, or the rectangle of its box."""
    if len(loop) >= 3:
        return tuple((float(x), float(z)) for x, z in loop)
    (x0, _, z0), (x1, _, z1) = box
    return (x0, z0), (x1, z0), (x1, z1), (x0, z1)
