"""A world that is no house: a field with a coloured box, over which agents fly. One ray is drawn for each column.

It has moves of its own: half metres, 15 degrees, up and down. The question is about the box on one side. A walk
turns to the box, goes up to it and rises. Nothing is loaded, nothing is on disk.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.source import Source
from eqa.envs.actions import LETTERS, Action, ActionSet
from eqa.envs.annotations import PALETTE, Annotations, Region, Thing
from eqa.envs.episode import PLAN, Episode, Pose, Spawn
from eqa.envs.navigation.walk import replay
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, Walk
from eqa.models.encoders.features import FeatureExtractor
from tests.helpers.toy_room import Pooled

FIELD_M, HALF_M, HIGH_M, AWAY_M = 8.0, 0.4, 1.6, 1.0  # the field's side, the box's half side and height, view distance
VIEW_M, HIGHEST_M = 0.5, 2.0  # height of a view point, and of the sky
COLORS, SIDES = ("red", "blue"), {"left": (1.5, 4.0), "right": (6.5, 4.0)}
SCENES = tuple(f"{color}-{side}" for color in COLORS for side in SIDES)
UP, DOWN = 4, 5
ACTIONS = ActionSet(("forward", "left", "right", "stop", "up", "down"), 0.5, np.pi / 12, 0.5, max_steps=48)
HEADINGS_RAD = ACTIONS.headings_rad


def center(scene_id: str) -> np.ndarray:
    return np.array(SIDES[scene_id.split("-")[1]])


def moved(pose: np.ndarray, action: int, scene_id: str) -> np.ndarray:
    """The pose after an action; the same pose if the action is refused."""
    x, y, z, heading = pose
    if action in (Action.LEFT, Action.RIGHT):
        turn = round(heading / ACTIONS.turn_rad) + (1 if action == Action.LEFT else -1)
        return np.array([x, y, z, HEADINGS_RAD[turn % ACTIONS.num_headings]])
    if action == Action.FORWARD:
        to = np.array([x - ACTIONS.step_m * np.sin(heading), z - ACTIONS.step_m * np.cos(heading)])
        inside = (0.2 < to).all() and (to < FIELD_M - 0.2).all()
        if inside and np.abs(to - center(scene_id)).max() > HALF_M + 0.1:
            return np.array([to[0], y, to[1], heading])
    elif action != Action.STOP:
        to_y = y + ACTIONS.climb(action)
        return np.array([x, to_y, z, heading]) if 0 <= to_y <= HIGHEST_M else pose
    return pose


class BoxSimulator:
    """Implements `envs.simulator.Simulator` by one agent after the other."""

    actions, device = ACTIONS, torch.device("cpu")

    def __init__(self, scene_ids: Sequence[str], num_agents: int, camera: Camera) -> None:
        self.scene_ids, self.num_agents, self.camera = list(scene_ids), num_agents, camera
        self.image_size = camera.height_px, camera.width_px
        self._scene, self._poses = np.zeros(num_agents, np.int64), np.full((num_agents, 4), np.nan)
        self._goals: list[Goal | None] = [None] * num_agents

    def scene_index(self, scene_id: str) -> int:
        return self.scene_ids.index(scene_id)

    def reset(self, agents, scenes, poses, goals) -> None:
        self._scene[agents], self._poses[agents] = scenes, poses
        for agent, goal in zip(agents.tolist(), goals, strict=True):
            self._goals[agent] = goal

    def step(self, actions) -> torch.Tensor:
        after = [
            moved(pose, int(action), self.scene_ids[scene])
            for pose, action, scene in zip(self._poses, actions, self._scene, strict=True)
        ]
        refused = [a != Action.STOP and (b == c).all() for a, b, c in zip(actions, self._poses, after, strict=True)]
        self._poses = np.array(after)
        return torch.tensor([bool(r) for r in refused])

    def observe(self, agents=None, sensors=("rgb",)) -> dict[str, torch.Tensor]:
        chosen = np.arange(self.num_agents) if agents is None else agents
        return self.look(self._scene[chosen], self._poses[chosen], sensors)

    def look(self, scenes, poses, sensors=("rgb",)) -> dict[str, torch.Tensor]:
        drawn = [self._draw(self.scene_ids[scene], pose) for scene, pose in zip(scenes.tolist(), poses, strict=True)]
        images = {"pose": torch.from_numpy(poses.copy())}
        for name, image in zip(("rgb", "depth", "instance_id"), zip(*drawn, strict=True), strict=True):
            images[name] = torch.from_numpy(np.stack(image))
        return {name: images[name] for name in sensors}

    def _draw(self, scene_id: str, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (height, width), (x, y, z, heading) = self.image_size, pose
        eye = y + self.camera.height_m
        column = (np.arange(width) + 0.5 - width / 2) / self.camera.focal_px
        row = (np.arange(height) + 0.5 - height / 2)[:, None] / self.camera.focal_px
        ray = np.stack([-np.sin(heading) + column * np.cos(heading), -np.cos(heading) - column * np.sin(heading)], 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([(center(scene_id) + s * HALF_M - [x, z]) / ray for s in (-1, 1)])
            enter, leave = ends.min(0).max(1), ends.max(0).min(1)
            floor = np.where(row > 0, eye / row, 0.0)
        box = np.where((enter > 0) & (enter < leave), enter, np.inf)
        on_box = np.isfinite(box) & (row * box < eye) & (row * box > eye - HIGH_M)
        depth = np.where(on_box, box, np.where(floor < 2 * FIELD_M, floor, 0.0)).astype(np.float32)
        rgb = np.full((height, width, 3), (200, 220, 240), np.uint8)
        rgb[np.broadcast_to(row > 0, on_box.shape)] = (110, 130, 90)
        rgb[on_box] = PALETTE[scene_id.split("-")[0]]
        return rgb, depth, on_box.astype(np.uint16)

    @property
    def poses(self) -> torch.Tensor:
        return torch.from_numpy(self._poses.copy())

    @property
    def distance_m(self) -> torch.Tensor:
        pairs = zip(self._goals, self._poses, strict=True)
        return torch.tensor([0.0 if goal is None else away(goal, pose) for goal, pose in pairs], dtype=torch.float32)

    @property
    def region(self) -> torch.Tensor:
        return torch.from_numpy((self._poses[:, 0] > FIELD_M / 2).astype(np.int64))


def away(goal: Goal, pose: np.ndarray) -> float:
    """Metres to go, along the ground and up or down."""
    return min(
        max(float(np.hypot(*(pose[PLAN] - np.array(view)[PLAN]))) - goal.radius_m, 0.0) + abs(float(pose[1] - view[1]))
        for view in goal.view_points
    )


class BoxWorld:
    """Implements `envs.simulator.World`."""

    actions, identity, camera, coordinate_frames, scenes_at_once = ACTIONS, "boxes", Camera(), ("house",), None

    def open(self, scene_ids: Sequence[str], *, num_agents: int, camera: Camera | None = None) -> BoxSimulator:
        return BoxSimulator(scene_ids, num_agents, camera or self.camera)

    def missing(self, scene_ids) -> set[str]:
        return set()

    def annotations(self, scene_id: str) -> Annotations:
        def square(low: Sequence[float], high: Sequence[float]) -> tuple:
            return ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))

        half = FIELD_M / 2
        regions = tuple(
            Region(side, square(*ends))
            for side, ends in (("left", ((0, 0), (half, FIELD_M))), ("right", ((half, 0), (FIELD_M, FIELD_M))))
        )
        color, side = scene_id.split("-")
        outline = square(*(tuple((center(scene_id) + s * HALF_M).tolist()) for s in (-1, 1)))
        return Annotations(scene_id, regions, (Thing(1, "box", outline, color, list(SIDES).index(side), 0.0, HIGH_M),))

    def distances(self, scene_id, goals, poses) -> list[np.ndarray]:
        return [np.array([away(g, p) for p in at], np.float32) for g, at in zip(goals, poses, strict=True)]

    def shortest_walks(self, scene_id, goals, starts, *, or_none=False) -> list[Walk | None]:
        return [p(s) for p, s in zip(self.planners(scene_id, goals), starts, strict=True)]

    def planners(self, scene_id: str, goals: Sequence[Goal]) -> list[Callable[[Pose], Walk]]:
        return [lambda start, goal=goal: plan(scene_id, goal, start) for goal in goals]

    def replay(self, scene_id: str, starts: Sequence[Pose], actions: Sequence[np.ndarray]) -> list[Walk]:
        return [replay(start, taken, ACTIONS) for start, taken in zip(starts, actions, strict=True)]


def plan(scene_id: str, goal: Goal, start: Pose) -> Walk:
    """Turns to the first view point, goes there, rises to it, and turns to its heading."""
    pose, actions, poses = np.array(start), [], []

    def do(action: int) -> None:
        nonlocal pose
        actions.append(action)
        poses.append(pose)
        pose = moved(pose, action, scene_id)

    def turn_to(heading: float) -> None:
        while turns := round(((heading - pose[3] + np.pi) % (2 * np.pi) - np.pi) / ACTIONS.turn_rad):
            do(Action.LEFT if turns > 0 else Action.RIGHT)

    view = goal.view_points[0]
    while np.hypot(*(pose[PLAN] - np.array(view)[PLAN])) > goal.radius_m:
        turn_to(np.arctan2(pose[0] - view[0], pose[2] - view[2]))
        do(Action.FORWARD)
    while climbs := round((view[1] - pose[1]) / ACTIONS.climb_m):
        do(UP if climbs > 0 else DOWN)
    turn_to(view[3])
    do(Action.STOP)
    return Walk(np.array(actions, np.int8), np.array(poses))


class BoxSource(Source):
    """Implements `data.source.Source`; it ignores the configuration's settings of other sources."""

    walks, world = 1, BoxWorld()

    def __init__(self, **of_others: object) -> None:
        self.encode = FeatureExtractor(Pooled())
        self._demos = self._walked()

    def fingerprints(self) -> dict:
        return {"questions": "boxes"}

    def episodes(self, split: str) -> list[Episode]:
        return self._demos.episodes

    def demonstrations(self, split: str) -> Demonstrations:
        return self._demos

    def _walked(self) -> Demonstrations:
        episodes, walks = [], []
        for scene_id in SCENES:
            color, side = scene_id.split("-")
            sign = 1 if side == "left" else -1
            view = (float(center(scene_id)[0] + sign * AWAY_M), VIEW_M, 4.0, float(HEADINGS_RAD[sign * 6]))
            start, goal = (4.0, 0.0, 5.5, 0.0), Goal((view,), 0.35, 1.5 * ACTIONS.turn_rad)
            (walk,) = self.world.shortest_walks(scene_id, [goal], [start])
            text = "".join(LETTERS[action] for action in walk.actions)
            spawns = {"start": Spawn(start, len(text)), "random": Spawn((4.0, 0.0, 2.5, 0.0))}
            asked = f"what color is the box on the {side}?"
            known = {"target_object": 1, "target_room": int(side == "right"), "spawns": spawns, "walk": text}
            goal_fields = {"view_points": (view,), "goal_radius_m": 0.3, "goal_turn_rad": goal.turn_rad}
            episodes.append(Episode(scene_id, scene_id, asked, color, "color", "boxes", **known, **goal_fields))
            walks.append(walk)
        simulator = self.world.open(SCENES, num_agents=1)
        seen = [simulator.look(np.full(len(w.poses), k), w.poses)["rgb"] for k, w in enumerate(walks)]
        actions = np.concatenate([walk.actions for walk in walks])
        return Demonstrations(
            path=Path("boxes"),
            episodes=episodes,
            offsets=np.cumsum([0, *(len(walk.actions) for walk in walks)]),
            features=np.concatenate([self.encode(frames).numpy() for frames in seen]),
            actions=actions,
            poses=np.concatenate([walk.poses for walk in walks]),
            distance_m=np.zeros(len(actions), np.float32),
            targets=actions,
        )
