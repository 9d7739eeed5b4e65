"""`GeneratedEQA`: procedural houses, their questions and demonstrations, built under the data folder when missing.

Each part is a function of its configuration and is found by it: another seed, size or encoder is another file, and what
is there is used again. Parts depend on each other in this order: houses, questions, demonstrations.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable
from zlib import crc32

import numpy as np
from jaxtyping import Float16, UInt8

from data.demonstrations import Demonstrations, Recording, build
from data.expert import Walk, shortest_walks
from data.questions import configuration, load_questions, make_questions, read_header, write_questions
from data.view_points import ViewPointFinder
from data.visibility import RememberedVisibility
from data.vocabulary import Vocabulary
from envs.actions import MAX_EPISODE_ACTIONS
from envs.episode import Episode, Pose, Spawn
from envs.files import data_root, fingerprint
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.generator import GENERATOR, HUMAN, SPLITS, human_homes, load_house, make_houses
from envs.house.house import House
from envs.house.navigation import Floor, Goal, build_floor, distance_fields, distances_at, far_places, sample_start
from envs.house.rasterizer import Camera, Renderer
from envs.progress import absolute, console, progress

RENDER_BATCH = 64
STARTS_TRIED = 8
FARTHEST_M = 14.0  # walks start at most so far from their target: more takes over MAX_EPISODE_ACTIONS, which is cut off
CLEARANCE_M = 0.25  # walks keep their middle this far from things where they can; an agent's radius is 0.1 m
WALKS = "walks-3"  # raise with every change of where walks start, end, or what is stored of them


@runtime_checkable
class Encode(Protocol):
    """The frozen encoder, see `models.eyes.Eyes`."""

    identity: str

    def __call__(self, rgb: UInt8[np.ndarray, "B H W 3"]) -> Float16[np.ndarray, "B F"]: ...


class GeneratedEQA:
    """`houses` and `questions` say how many of each split; `encode` may be None where no demonstration is asked for."""

    def __init__(
        self, *, seed: int, houses: Mapping[str, int], questions: Mapping[str, int], encode: Encode | None = None
    ) -> None:
        self.seed, self.encode = seed, encode
        self.num_houses, self.num_questions = dict(houses), dict(questions)
        for name, numbers in (("houses", self.num_houses), ("questions", self.num_questions)):
            if set(numbers) != set(SPLITS) or min(numbers.values()) < 1:
                raise ValueError(f"{name}: expected at least 1 for each of {SPLITS}, got {numbers}")
        self.root = data_root()

    def house(self, house_id: str) -> House:
        """One of the houses, by its id."""
        split, index = house_id.split("-")
        return load_house(self.root, seed=self.seed, split=split, index=int(index))

    @cached_property
    def houses(self) -> dict[str, list[House]]:
        """All houses, made where they are missing, and the homes that people designed; split -> houses."""
        houses = {}
        for split, count in self.num_houses.items():
            with progress(f"houses, {split}", count) as advance:
                paths = make_houses(self.root, split=split, count=count, seed=self.seed, progress=absolute(advance))
            houses[split] = [House.load(path) for path in paths]
        return {**houses, HUMAN: [House.load(path) for path in human_homes()]}

    @property
    def questions_file(self) -> Path:
        """Where the question file is, or would be."""
        return self.root / "questions" / f"{fingerprint(configuration(**self._questions_arguments))}.jsonl"

    @property
    def _questions_arguments(self) -> dict:
        made_from = {
            "houses": GENERATOR,
            "house_seed": self.seed,
            "num_houses": self.num_houses,
            HUMAN: fingerprint([path.read_text() for path in human_homes()]),
        }
        return {"counts": {**self.num_questions, HUMAN: None}, "seed": self.seed, "made_from": made_from}

    @cached_property
    def questions_path(self) -> Path:
        """The question file, made if it is missing."""
        path, arguments = self.questions_file, self._questions_arguments
        wanted, made_from = configuration(**arguments), arguments["made_from"]
        if not path.exists():
            houses = self.houses
            visible = RememberedVisibility(ViewPointFinder(), path.with_suffix(".visible"), configuration=made_from)
            with progress("questions", sum(map(len, houses.values()))) as advance:
                made = make_questions(houses, visible=visible, progress=absolute(advance), **arguments)
            write_questions(path, made)
            visible.forget()
            console.print(f"questions: {path}")
        elif read_header(path)["configuration"] != wanted:
            load_questions(path, "train", configuration=wanted)
        return path

    def episodes(self, split: str) -> list[Episode]:
        return load_questions(self.questions_path, split)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of the training split alone."""
        return Vocabulary.of(self.episodes("train"))

    def demonstrations(self, split: str) -> Demonstrations:
        """Shortest walks for every question of a split, made if they are missing."""
        if self.encode is None:
            raise ValueError("demonstrations: expected an encoder for their frames, got none; set data.encode")
        made_with = {"walks": WALKS, "questions": self.questions_path.stem, "encoder": self.encode.identity}
        path = self.root / "demonstrations" / f"{fingerprint(made_with)}" / f"{split}.h5"
        made_with["split"] = split
        if not path.exists():
            recorder = Recorder(self.house, self.encode)
            episodes = self.episodes(split)
            with progress(f"demonstrations, {split}", len({e.scene_id for e in episodes})) as advance:
                report = absolute(advance)
                for done, total in build(path, episodes, recorder, configuration=made_with):
                    report(done, total)
            console.print(f"demonstrations: {path}")
        return Demonstrations.open(path, configuration=made_with)

    def build(self) -> None:
        """Everything that imitation needs."""
        for split in SPLITS:
            self.demonstrations(split)


def _walks(floor: Floor, roomy: Floor, goals: list[Goal], far: list[np.ndarray], episodes: list[Episode]) -> list[Walk]:
    """The shortest walk of each episode, from its start or else from one of its `far` places, drawn from its own id.

    On the roomy floor where that is possible. A drawn place may lie where quarter-metre moves lead nowhere, between two
    chairs for instance; then another is drawn. ValueError for an episode that cannot be walked.
    """
    rngs = [np.random.default_rng(crc32(episode.episode_id.encode())) for episode in episodes]

    def draw(i: int) -> Pose:
        drawn = [sample_start(rngs[i], far[i]) for _ in range(STARTS_TRIED)]
        return drawn[int(np.argmax(roomy.is_free(np.array(drawn))))]

    walks: list[Walk | None] = [None] * len(episodes)
    starts = [episode.start or draw(i) for i, episode in enumerate(episodes)]
    for _ in range(STARTS_TRIED):
        for ground in (roomy, floor):
            left = [i for i, walk in enumerate(walks) if walk is None]
            found = shortest_walks(ground, [goals[i] for i in left], [starts[i] for i in left], or_none=True)
            for i, walk in zip(left, found, strict=True):
                walks[i] = walk
        left = [i for i, walk in enumerate(walks) if walk is None]
        for i in left:
            if episodes[i].start:
                shortest_walks(floor, [goals[i]], [starts[i]])  # raises, and says why
            starts[i] = draw(i)
        if not left:
            return walks
    raise ValueError(
        f"{floor.house_id}: no walk found from any of {STARTS_TRIED} places to {goals[left[0]].view_points}"
    )


class Recorder:
    """Walks, draws and encodes one house's episodes: `recorder(scene_id, episodes)` gives what a file stores of them.

    An episode without a start gets one far from its target, drawn from its own id. Walks are the shortest of those that
    keep clear of things, where there are such: who learns from walks that graze every corner gets stuck at corners.
    """

    def __init__(self, house: Callable[[str], House], encode: Encode) -> None:
        self.house, self.encode = house, encode
        self.renderer = Renderer(Camera(), ("rgb",))

    def __call__(self, scene_id: str, episodes: list[Episode]) -> Recording:
        house, meshes = self.house(scene_id), load_catalog().meshes
        scene = build_scene(house, load_catalog())
        floor = build_floor(house, scene, meshes)
        goals = [Goal.of(episode) for episode in episodes]
        distinct = {goal: row for row, goal in enumerate(dict.fromkeys(goals))}
        fields = distance_fields(floor, list(distinct))
        places = [far_places(floor, field, within_m=FARTHEST_M) for field in fields]
        fields, places = ([of_goals[distinct[goal]] for goal in goals] for of_goals in (fields, places))
        roomy = build_floor(house, scene, meshes, radius_m=CLEARANCE_M)
        walks = [walk.last(MAX_EPISODE_ACTIONS) for walk in _walks(floor, roomy, goals, places, episodes)]
        episodes = [
            replace(e, spawns={"start": Spawn(tuple(w.poses[0].tolist()))})
            for e, w in zip(episodes, walks, strict=True)
        ]
        poses = np.concatenate([walk.poses for walk in walks])
        self.renderer.load([scene])
        return Recording(
            episodes=episodes,
            lengths=np.array([len(walk.actions) for walk in walks]),
            features=self._see(poses),
            actions=np.concatenate([walk.actions for walk in walks]),
            poses=poses,
            distance_m=np.concatenate([distances_at(floor, f, w.poses) for f, w in zip(fields, walks, strict=True)]),
        )

    def _see(self, poses: np.ndarray) -> np.ndarray:
        features = []
        for first in range(0, len(poses), RENDER_BATCH):
            batch = poses[first : first + RENDER_BATCH]
            features.append(self.encode(self.renderer.render(np.zeros(len(batch), np.int32), batch)["rgb"]))
        return np.concatenate(features)
