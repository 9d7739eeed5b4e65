"""CityEQA-EC, the question file of CityEQA (Zhao et al. 2025), to Episodes and back.

The file is a JSON list of records with seven keys: `question_id`, `question`, `answer`, `category`, `observation_pose`,
`target_pose` and `initial_pose`. A pose is [x, y, z, pitch, roll, yaw]: metres with x east, y north and z up, and
degrees with yaw 0 to the north, clockwise. Ours are (x, z, -y) and the negated yaw, so nothing is lost. A target is a
point, as the records have no boxes. The data carry no licence, and come with no part of this project.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import degrees, pi, radians
from pathlib import Path
from typing import ClassVar

from eqa.data.benchmarks import as_question, expect
from eqa.data.benchmarks.files import QuestionFiles
from eqa.data.demonstrations.rewalk import walked_in
from eqa.data.demonstrations.spawn_settings import CITY_SPAWNS
from eqa.data.questions.city.sentences import Asking
from eqa.data.source import Encode, Judge
from eqa.envs.episode import Entity, Episode, Point, Pose, Spawn
from eqa.envs.files import atomic_write
from eqa.envs.reading import declared, named, parsed, read_text
from eqa.envs.simulator import World

SOURCE = "cityeqa_ec"
FRAME = "airsim"
SCENE = "embodied-city"  # all its questions are about one city
SPLITS = ("train", "val", "test")  # names of files that stand for themselves; CityEQA-EC has no splits
CATEGORIES = {  # as the data spell them, and as our question types
    "Object Recognition": "object_recognition",
    "Attribute Recognition": "attribute_recognition",
    "Counting": "counting",
    "Existence Judgement": "existence_judgement",
    "Spatial Reasoning": "spatial_reasoning",
    "World Knowledge": "world_knowledge",
}
NAMES = {kind: name for name, kind in CATEGORIES.items()}
CityPose = tuple[float, float, float, float, float, float]
WHOLE = 1e-9  # metres and degrees: a number so close to a whole one is written as that


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the file."""

    question_id: int
    question: str
    answer: str
    category: str
    observation_pose: CityPose
    target_pose: CityPose
    initial_pose: CityPose


class CityEQA(QuestionFiles):
    """CityEQA-EC's file as a `data.source.Source`: `path` is a file, or a folder of them.

    A file called train.json, val.json or test.json is that split, another one is test. `scene_id` is the world's name
    for the city. `judge` marks answers, see `models.evaluation.judges`. Walks to the observation poses are the world's.
    """

    places, spawns = "cities", CITY_SPAWNS
    missing: ClassVar = {FRAME: "it is about the city of EmbodiedCity, in which env=airsim plays"}

    def __init__(
        self,
        *,
        path: str | Path,
        world: World | None = None,
        encode: Encode | None = None,
        vocabulary: str | None = None,
        scene_id: str = SCENE,
        judge: Judge | None = None,
    ) -> None:
        super().__init__(path=path, world=world, encode=encode, vocabulary=vocabulary)
        self.scene_id, self.judge = scene_id, judge

    def _find_files(self) -> dict[str, Path]:
        files = sorted(self.path.glob("*.json")) if self.path.is_dir() else [self.path]
        found: dict[str, Path] = {}
        for file in files:
            split = file.stem if file.stem in SPLITS else "test"
            if split in found:
                raise ValueError(f"{self.path}: expected one file for {split}, got {found[split].name} and {file.name}")
            found[split] = file
        if not found:
            raise ValueError(f"{self.path}: expected a file such as CityEQA_EC.json, found none")
        return found

    def _read(self, split: str) -> list[Episode]:
        return read_cityeqa(self.files[split], scene_id=self.scene_id)

    def _walkable(self, split: str) -> list[Episode]:
        return walked_in(self.world, self.episodes(split), title=split)


def read_cityeqa(path: Path, *, scene_id: str = SCENE) -> list[Episode]:
    """All episodes of a file, in its order. ValueError names the file, the record, what was expected and what came."""
    with named(path, "not a usable CityEQA file"):
        records = parsed(read_text(path, "questions"))
        expect(isinstance(records, list), "a list of records", records, where="the file")
        found: dict[str, Episode] = {}
        for number, record in enumerate(records):
            episode = from_entry(record, scene_id=scene_id, where=f"[{number}]")
            expect(episode.episode_id not in found, "another number than before", number, where=f"[{number}]")
            found[episode.episode_id] = episode
    return list(found.values())


def write_cityeqa(path: Path, episodes: Iterable[Episode]) -> None:
    """Writes a file, an episode at a time, numbered from 0. The file is never half written; same input, same bytes."""
    with atomic_write(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, episode in enumerate(episodes):
            file.write(("," if number else "") + "\n" + json.dumps(to_entry(episode, number=number), allow_nan=False))
        file.write("\n]\n")


def from_entry(entry: object, *, scene_id: str = SCENE, where: str = "record") -> Episode:
    """The episode of a record; ValueError names the place of a fault, which starts with `where`."""
    try:
        record = declared(Record, entry)
    except ValueError as error:
        raise ValueError(f"{where}.{error}") from None
    expect(record.category in CATEGORIES, f"one of {list(CATEGORIES)}", record.category, where=f"{where}.category")
    for name in ("question", "answer"):
        expect(getattr(record, name).strip() != "", "a text", getattr(record, name), where=f"{where}.{name}")
    question = as_question(record.question)
    asking, at = Asking.parse(question), _point(record.target_pose)
    return Episode(
        episode_id=str(record.question_id),
        scene_id=scene_id,
        question=question,
        answer=record.answer.strip().lower(),
        question_type=CATEGORIES[record.category],
        source=SOURCE,
        frame=FRAME,
        touched=(Entity("object", "target" if asking is None else asking.target, at, at, is_target=True),),
        view_points=(_level(record.observation_pose, f"{where}.observation_pose"),),
        spawns={"start": Spawn(_level(record.initial_pose, f"{where}.initial_pose"))},
    )


def to_entry(episode: Episode, *, number: int) -> dict:
    """A record of an episode; ValueError names one without a start, a view point, or a target with a place."""
    where = f"episode {episode.episode_id!r}"
    expect(
        episode.question_type in NAMES, f"one of {list(NAMES)}", episode.question_type, where=f"{where}.question_type"
    )
    for name in ("start", "view_points", "target_point"):
        expect(bool(getattr(episode, name)), "one, as CityEQA has it", None, where=f"{where}.{name}")
    return {
        "question_id": number,
        "question": episode.question,
        "answer": episode.answer,
        "category": NAMES[episode.question_type],
        "observation_pose": _numbers(episode.view_points[0]),
        "target_pose": _numbers((*episode.target_point, 0.0)),
        "initial_pose": _numbers(episode.start),
    }


def _point(pose: CityPose) -> Point:
    x, y, z = pose[:3]
    return x, z, 0.0 - y


def _level(pose: CityPose, where: str) -> Pose:
    """A pose of ours; ValueError for one that leans, as ours turn about the vertical alone."""
    expect(pose[3] == pose[4] == 0, "a pitch and roll of 0", list(pose[3:5]), where=where)
    heading_rad = -radians(pose[5]) % (2 * pi)
    return *_point(pose), heading_rad if heading_rad < 2 * pi else 0.0


def _numbers(pose: Pose) -> list[float]:
    """A record's six numbers, whole ones as such."""
    x, up, z, heading_rad = pose
    six = (x, 0.0 - z, up, 0, 0, -degrees(heading_rad) % 360)
    return [round(number) if abs(number - round(number)) < WHOLE else number for number in six]
