"""`Game`: a person walks in an agent's place, under its limits, and every walk is kept: HumanNav of Das et al. (2018, Table 1).

The person gets what the agent gets: the question, the walk that led to the spawn where there is one, the same view, the
same four actions, at most `MAX_EPISODE_ACTIONS` of them, and no map. The answer is one of the vocabulary's.

Axes: T actions of a walk; it has T + 1 poses.
"""

import base64
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from eqa.data.demonstrations.human import HumanWalk, join_walks, load_walks, save_walk
from eqa.data.demonstrations.storage import Recording
from eqa.envs.actions import MAX_EPISODE_ACTIONS, Action
from eqa.envs.episode import Episode
from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.metrics import walk_metrics
from eqa.envs.navigation.walk import walk_of
from eqa.envs.rendering.target_visibility import LEAST_SHARE, target_shares
from eqa.envs.simulator import Goal
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.run_tables import write_rows

LINE = "HumanNav"  # of the results table
SPAWNS = ("T-10", "T-30", "T-50", "random")
READY, WALKING, ANSWERING, DONE = "ready", "walking", "answering", "done"


@dataclass(frozen=True, slots=True)
class Task:
    """A question and where its walk begins, a key of `Episode.spawns`."""

    episode: Episode
    spawn: str

    @property
    def history(self) -> np.ndarray:
        """Poses (H, 3) of the walk up to the spawn, without the spawn; none at a random one."""
        if self.spawn == "random":
            return np.empty((0, 3))
        return walk_of(self.episode).poses[: -self.episode.spawns[self.spawn].num_actions]


def tasks_of(episodes: Sequence[Episode], spawn: str, *, seed: int) -> list[Task]:
    """The questions that an evaluation plays from `spawn`, the houses in turn, so that nobody learns one by heart soon.

    ValueError for a spawn that there is not, and where no question has it.
    """
    if spawn not in SPAWNS:
        raise ValueError(f"spawn: expected one of {SPAWNS}, got {spawn!r}")
    of_house: dict[str, list[Task]] = {}
    rng = np.random.default_rng(seed)
    for index in rng.permutation(len(episodes)):
        episode = episodes[index]
        if episode.walk and spawn in (episode.spawns or ()):
            of_house.setdefault(episode.scene_id, []).append(Task(episode, spawn))
    if not of_house:
        raise ValueError(f"spawn {spawn}: none of {len(episodes)} questions has a walk as long; take a nearer one")
    turns = max(map(len, of_house.values()))
    return [tasks[turn] for turn in range(turns) for tasks in of_house.values() if turn < len(tasks)]


@dataclass(slots=True)
class Trace:
    """What happened on the walk up to now; poses, distances and rooms begin with the spawn's."""

    frames: list[np.ndarray] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    poses: list[np.ndarray] = field(default_factory=list)
    distances_m: list[float] = field(default_factory=list)
    rooms: list[int] = field(default_factory=list)
    time_s: list[float] = field(default_factory=list)
    collisions: int = 0
    bumped: bool = False

    def record_view(self, simulator: HouseSimulator) -> None:
        self.poses.append(simulator.poses[0])
        self.distances_m.append(float(simulator.distance_m[0]))
        self.rooms.append(int(simulator.room[0]))


class Game:
    """One task after the other: `begin`, then `act` until the walk ends, then `answer`, which stores it.

    Tasks whose walks are in `folder` already are left out. `configuration` is what the features depend on; ValueError where
    the folder's walks have another one. What is asked for at the wrong time is a ValueError too, and changes nothing.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        house: Callable[[str], House],
        answers: Sequence[str],
        extractor: FeatureExtractor,
        folder: Path,
        configuration: Mapping,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.house, self.answers, self.extractor, self.folder = house, tuple(answers), extractor, folder
        self.configuration, self.clock = configuration, clock
        self.rows = [walk.row for walk in load_walks(folder, configuration=configuration)]
        walked = {(row["episode_id"], row["spawn"]) for row in self.rows}
        self.tasks = [task for task in tasks if (task.episode.episode_id, task.spawn) not in walked]
        self._next()

    def state(self) -> dict:
        """What the page shows, as JSON can hold it: never where the person is, nor the answer."""
        known = {"phase": self.phase, "saved": len(self.rows), "left": len(self.tasks), "limit": MAX_EPISODE_ACTIONS}
        if self.phase == DONE:
            return known
        task = self.tasks[0]
        known |= {"question": task.episode.question, "spawn": task.spawn, "step": len(self.trace.actions)}
        if self.phase != READY:
            known |= {"frame": picture(self.trace.frames[-1]), "bumped": self.trace.bumped}
        return known | ({"answers": list(self.answers)} if self.phase == ANSWERING else {})

    def history(self) -> list[str]:
        """What was seen on the way to the spawn, as pictures; empty at a random spawn."""
        self._expect(READY)
        poses = self.tasks[0].history
        if not len(poses):
            return []
        frames = self.simulator.renderer.render(np.zeros(len(poses), np.int32), poses)["rgb"]
        return [picture(frame, "JPEG") for frame in frames]

    def begin(self) -> None:
        """Shows the first view; from here on time counts."""
        self._expect(READY)
        self.trace.record_view(self.simulator)
        self._see()
        self.phase, self.began, self.started = WALKING, datetime.now(UTC).isoformat(), self.clock()

    def act(self, action: int, step: int) -> None:
        """Takes an action; `step` is the number of those before it, so that none that is sent twice counts twice."""
        self._expect(WALKING)
        trace = self.trace
        if step != len(trace.actions):
            raise ValueError(f"step: expected {len(trace.actions)}, the number of actions up to now, got {step}")
        time_s = self.clock() - self.started
        collided = bool(self.simulator.step(np.array([action]))[0])
        trace.bumped, trace.collisions = collided, trace.collisions + collided
        trace.actions.append(int(action))
        trace.time_s.append(time_s)
        trace.record_view(self.simulator)
        if action != Action.STOP:
            self._see()
        if action == Action.STOP or len(trace.actions) == MAX_EPISODE_ACTIONS:
            self.phase = ANSWERING

    def answer(self, answer: str) -> Path:
        """Stores the walk with its answer, and goes on to the next task; the file that was written."""
        self._expect(ANSWERING)
        if answer not in self.answers:
            raise ValueError(f"answer: expected one of the vocabulary's {len(self.answers)}, got {answer!r}")
        task, trace, num = self.tasks[0], self.trace, len(self.trace.actions)
        recording = Recording(
            episodes=[task.episode],
            lengths=np.array([num]),
            features=self.extractor(np.stack(trace.frames[:num])),
            actions=np.array(trace.actions, np.int8),
            poses=np.array(trace.poses[:num]),
            distance_m=np.array(trace.distances_m[:num], np.float32),
        )
        scene = build_scene(self.simulator.houses[0], load_catalog())
        last, target = trace.poses[-1][None], np.array([task.episode.target_object])
        seen = target_shares([scene], np.zeros(1, np.int64), last, target)[0] >= LEAST_SHARE
        row = row_of(task, trace, answer, seen=bool(seen))
        walk = HumanWalk(recording, np.array(trace.time_s), self.began, row)
        path = save_walk(self.folder, walk, self.configuration)
        write_rows(self.folder / "metrics.jsonl", [*self.rows, walk.row])
        self.rows.append(walk.row)
        self.tasks = self.tasks[1:]
        self._next()
        return path

    def _next(self) -> None:
        """Enters the next task's house, unless it is the one before."""
        self.trace, self.phase = Trace(), READY if self.tasks else DONE
        if self.phase == DONE:
            return
        episode = self.tasks[0].episode
        if not hasattr(self, "simulator") or self.simulator.houses[0].id != episode.scene_id:
            self.simulator = HouseSimulator([self.house(episode.scene_id)], num_agents=1)
        pose = np.array([episode.spawns[self.tasks[0].spawn].pose])
        self.simulator.reset(np.zeros(1, np.int64), np.zeros(1, np.int64), pose, [Goal.of(episode)])

    def _see(self) -> None:
        self.trace.frames.append(self.simulator.render()["rgb"][0])

    def _expect(self, phase: str) -> None:
        if self.phase != phase:
            raise ValueError(f"expected to be {phase}, is {self.phase}; reload the page")


def row_of(task: Task, trace: Trace, answer: str, *, seen: bool) -> dict:
    """A walk as a row of metrics.jsonl, see `models.evaluation.evaluate`; a person ranks no answers, so `rank` is None."""
    episode, num = task.episode, len(trace.actions)
    in_room = np.array([trace.rooms]) == episode.target_room
    poses = np.array(trace.poses)
    path_m = np.array([np.linalg.norm(np.diff(poses[:, :2], axis=0), axis=1).sum()])
    measured = walk_metrics(np.array([trace.distances_m]), in_room, np.array([trace.actions]), np.array([num]), path_m)
    metrics = {name: float(values[0]) for name, values in measured.items()}
    named = ("episode_id", "scene_id", "question_type", "question", "answer")
    return (
        {"agent": LINE, "spawn": task.spawn}
        | {name: getattr(episode, name) for name in named}
        | metrics
        | {
            "seen": float(seen),
            "collisions": trace.collisions,
            "predicted": answer,
            "correct": float(answer == episode.answer),
            "rank": None,
        }
        | {
            "actions": trace.actions,
            "poses": poses.round(4).tolist(),
            "distances": [round(float(d), 3) for d in trace.distances_m],
        }
    )


def collect(folder: Path) -> tuple[Path, list[dict]] | None:
    """Joins all walks under `folder` in one file and writes its metrics.jsonl; that file and the rows, None without walks."""
    if (path := join_walks(folder)) is None:
        return None
    rows = [walk.row for walk in load_walks(folder)]
    write_rows(folder / "metrics.jsonl", rows)
    return path, rows


def picture(rgb: UInt8[np.ndarray, "H W 3"], kind: str = "PNG") -> str:
    """A frame as a data URL; PNG loses nothing."""
    data = io.BytesIO()
    Image.fromarray(rgb).save(data, kind, quality=90)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"
