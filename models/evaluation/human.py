"""`Game`: a person walks in an agent's place, under its limits (HumanNav of Das et al. 2018, Table 1).

The person gets the agent's input: the question, the walk that led to the spawn if there is one, and the same view. The
actions and their largest number are the same, and there is no map. The answer is one of the vocabulary's, of which
those of the question's type come first. Every walk is stored; then the person hears whether the answer was right.

Axes: T actions of a walk; it has T + 1 poses. H poses before its spawn; H W of a picture are its pixels. V views.
"""

import base64
import io
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64, UInt8
from PIL import Image

from eqa.data.demonstrations.human import HumanWalk, join_walks, load_walks, save_walk
from eqa.data.demonstrations.spawn_settings import RANDOM, WITH_HISTORY
from eqa.data.demonstrations.storage import Recording
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import Action
from eqa.envs.episode import Episode
from eqa.envs.metrics import LEAST_SHARE, target_shares, walk_metrics
from eqa.envs.navigation.walk import walks_of
from eqa.envs.simulator import Goal, Simulator, World
from eqa.envs.task import Task as Walking
from eqa.envs.task import Trajectories
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.run_tables import write_rows

LINE = "HumanNav"  # of the results table
SPAWNS = (*WITH_HISTORY, RANDOM)
AT_ONCE = 16  # pictures in one answer: a film starts at once, and nobody else waits long
FADES_M = 3.0  # a depth at which light has faded to a third
ALONE = np.zeros(1, np.int64)  # the one agent, and the one scene
READY, WALKING, ANSWERING, ANSWERED, DONE = "ready", "walking", "answering", "answered", "done"


@dataclass(frozen=True, slots=True)
class Task:
    """A question and the spawn of its walk, a key of `Episode.spawns`."""

    episode: Episode
    spawn: str

    def history(self, world: World) -> Float64[np.ndarray, "H 4"]:
        """Poses of the walk up to the spawn, without the spawn; none at a random one."""
        if self.spawn == "random":
            return np.empty((0, 4))
        (walk,) = walks_of(world, self.episode.scene_id, [self.episode])
        return walk.poses[: -self.episode.spawns[self.spawn].num_actions]


def tasks_of(episodes: Sequence[Episode], spawn: str, *, seed: int) -> list[Task]:
    """The questions that an evaluation plays from `spawn`, houses in turn, so that nobody learns one by heart soon.

    ValueError for an unknown spawn, and if no question has it.
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


class Game:
    """One task after the other: `begin`, `act` until the walk ends, `answer`, which stores it, and `go_on`.

    Tasks with a walk in `folder` are left out. The features depend on `configuration`; ValueError if the folder's walks
    have another one. A call at the wrong time is a ValueError too, and changes nothing. Nobody waits for the next
    house: it is opened during the walk in this one, and each frame is encoded as soon as it is drawn.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        world: World,
        vocabulary: Vocabulary,
        extractor: FeatureExtractor,
        folder: Path,
        configuration: Mapping,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world, self.vocabulary, self.extractor, self.folder = world, vocabulary, extractor, folder
        self.configuration, self.clock = configuration, clock
        self.pool, self.upcoming = ThreadPoolExecutor(1), None
        self.rows = [walk.row for walk in load_walks(folder, configuration=configuration)]
        walked = {(row["episode_id"], row["spawn"]) for row in self.rows}
        self.tasks = [task for task in tasks if (task.episode.episode_id, task.spawn) not in walked]
        self.upcoming = self._opened()
        self._next()

    def state(self) -> dict:
        """State for the page, ready for JSON; up to the answer it has neither the person's position nor the truth."""
        known = {
            "phase": self.phase,
            "saved": len(self.rows),
            "left": len(self.tasks),
            "limit": self.world.actions.max_steps,
        }
        if self.phase == ANSWERED:
            shown = ("question", "spawn", "correct", "predicted", "answer", "seen")
            return known | {name: self.rows[-1][name] for name in shown} | {"row": len(self.rows) - 1}
        if self.phase == DONE:
            return known
        task = self.tasks[0]
        known |= {"question": task.episode.question, "spawn": task.spawn, "step": int(self.walk.steps[0])}
        if self.phase != READY:
            known |= {"frame": picture(self.frames[-1]), "bumped": bool(self.walk.refused[0])}
        return known | (self._answers(task.episode.question) if self.phase == ANSWERING else {})

    def _answers(self, question: str) -> dict[str, list[str]]:
        """The vocabulary's answers: those that questions of this type have, and the others."""
        fits = self.vocabulary.of_kind([question])[0]
        known = np.array(self.vocabulary.answers)
        return {"answers": known[fits].tolist(), "other_answers": known[~fits].tolist()}

    def history(self, first: int = 0) -> dict:
        """The number of views on the way to the spawn, 0 at a random one, and some from `first` on as pictures."""
        self._expect(READY)
        poses = self.tasks[0].history(self.world)
        return {"num": len(poses), "frames": pictures(self.simulator, poses[first : first + AT_ONCE])}

    def begin(self) -> None:
        """Shows the first view; time counts from here on."""
        self._expect(READY)
        self.phase, self.began, self.started = WALKING, datetime.now(UTC).isoformat(), self.clock()

    def act(self, action: int, step: int) -> None:
        """Takes an action; `step` is the number of earlier ones, so that an action sent twice counts once."""
        self._expect(WALKING)
        if step != self.walk.steps[0]:
            raise ValueError(f"step: expected {self.walk.steps[0]}, the number of actions up to now, got {step}")
        time_s = self.clock() - self.started
        over = self.walk.step(ALONE, np.array([action]))[0]
        self.time_s.append(time_s)
        if action != Action.STOP:
            self._see()
        if over:
            self.phase = ANSWERING

    def answer(self, answer: str) -> Path:
        """Stores the walk with its answer, and goes on to the next task; returns the written file."""
        self._expect(ANSWERING)
        if answer not in self.vocabulary.answers:
            raise ValueError(f"answer: expected one of the vocabulary's {len(self.vocabulary.answers)}, got {answer!r}")
        task, walked = self.tasks[0], self.walk.trajectories()
        num = int(walked.num_actions[0])
        recording = Recording(
            episodes=[task.episode],
            lengths=np.array([num]),
            features=np.concatenate(self.features[:num]),
            actions=walked.actions[0].astype(np.int8),
            poses=walked.poses[0, :num],
            distance_m=walked.distances_m[0, :num].astype(np.float32),
        )
        last = self.simulator.look(ALONE, walked.ends, ("instance_id",))["instance_id"].numpy()
        seen = target_shares(last, np.array([task.episode.target_object]))[0] >= LEAST_SHARE
        row = row_of(task, walked, answer, seen=bool(seen))
        walk = HumanWalk(recording, np.array(self.time_s), self.began, row)
        path = save_walk(self.folder, walk, self.configuration)
        write_rows(self.folder / "metrics.jsonl", [*self.rows, walk.row])
        self.rows.append(walk.row)
        self.tasks, self.phase = self.tasks[1:], ANSWERED
        return path

    def go_on(self) -> None:
        """Goes on to the next task."""
        self._expect(ANSWERED)
        self._next()

    def _opened(self, later: int = 0) -> Future[Simulator] | None:
        """The house of a later task, which is being opened; None after the last one."""
        if later >= len(self.tasks):
            return None
        return self.pool.submit(self.world.open, [self.tasks[later].episode.scene_id], num_agents=1)

    def _next(self) -> None:
        """Enters the next task's house, and opens the one after."""
        if not self.tasks:
            self.phase = DONE
            return
        self.frames: list[np.ndarray] = []
        self.features: list[np.ndarray] = []  # (1, F) of each frame
        self.time_s: list[float] = []
        self.simulator, self.upcoming = self.upcoming.result(), self._opened(1)
        episode = self.tasks[0].episode
        pose = np.array([episode.spawns[self.tasks[0].spawn].pose])
        self.walk = Walking(self.simulator)
        self.walk.begin(ALONE, np.zeros(1, np.int64), pose, [Goal.of(episode)])
        self._see()
        self.phase = READY

    def _see(self) -> None:
        rgb = self.walk.observe(ALONE, ("rgb",))["rgb"]
        self.frames.append(rgb[0].numpy())
        self.features.append(self.extractor(rgb).cpu().numpy())

    def _expect(self, phase: str) -> None:
        if self.phase != phase:
            raise ValueError(f"expected to be {phase}, is {self.phase}; reload the page")


def row_of(task: Task, walked: Trajectories, answer: str, *, seen: bool) -> dict:
    """A walk as a row of metrics.jsonl (`models.evaluation.evaluate`); `rank` is None, as a person ranks no answers."""
    episode = task.episode
    in_room = walked.regions == episode.target_room
    measured = walk_metrics(walked.distances_m, in_room, walked.actions, walked.num_actions, walked.path_m)
    metrics = {name: float(values[0]) for name, values in measured.items()}
    named = ("episode_id", "scene_id", "question_type", "question", "answer")
    return (
        {"agent": LINE, "spawn": task.spawn}
        | {name: getattr(episode, name) for name in named}
        | metrics
        | {
            "seen": float(seen),
            "collisions": int(walked.refused.sum()),
            "predicted": answer,
            "correct": float(answer == episode.answer),
            "rank": None,
        }
        | {
            "actions": walked.actions[0].tolist(),
            "poses": walked.poses[0].round(4).tolist(),
            "distances": [round(float(d), 3) for d in walked.distances_m[0]],
            "planned": None,
            "attention": None,
        }
    )


def collect(folder: Path) -> tuple[Path, list[dict]] | None:
    """Joins all walks under `folder` in one file, and writes their metrics.jsonl.

    Returns the file and the rows, None without walks.
    """
    if (path := join_walks(folder)) is None:
        return None
    rows = [walk.row for walk in load_walks(folder)]
    write_rows(folder / "metrics.jsonl", rows)
    return path, rows


def pictures(simulator: Simulator, poses: Float64[np.ndarray, "V 4"], sensor: str = "rgb") -> list[str]:
    """Views of a simulator's only scene, as pictures; of "depth", the nearer the lighter."""
    if not len(poses):
        return []
    drawn = simulator.look(np.zeros(len(poses), np.int64), poses, (sensor,))[sensor].cpu().numpy()
    return [picture(frame if sensor == "rgb" else shaded(frame), "JPEG") for frame in drawn]


def shaded(depth_m: Float32[np.ndarray, "H W"]) -> UInt8[np.ndarray, "H W 3"]:
    """Depth as shades of gray: white at the eye, black where nothing is near."""
    light = 255 * np.exp(-np.where(np.isfinite(depth_m) & (depth_m > 0), depth_m, np.inf) / FADES_M)
    return np.repeat(light.astype(np.uint8)[..., None], 3, axis=2)


def picture(rgb: UInt8[np.ndarray, "H W 3"], kind: str = "PNG") -> str:
    """A frame as a data URL; PNG loses nothing."""
    data = io.BytesIO()
    Image.fromarray(rgb).save(data, kind, quality=90)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"
