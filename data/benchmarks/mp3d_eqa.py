"""MP3D-EQA v1, the `.json.gz` that habitat-lab's EQA task reads (Wijmans et al., CVPR 2019), to Episodes and back.

habitat-lab lets an episode carry anything under `info`. Fields without a place in its layout stand there as `info.eqa`
(boxes, further spawns, program, ids, ...), so that our episodes come back whole. `data.benchmarks.mp3d_schema` has the
layout, docs/question-formats.md the fields. Positions and headings are ours unchanged; a rotation is (x, y, z, w).

Axes: T points of a path, its last one with action 3, stop.
"""

import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import atan2, cos, degrees, dist, hypot, isfinite, nan, pi, sin
from pathlib import Path
from typing import ClassVar

import numpy as np

from eqa.data.benchmarks import as_question
from eqa.data.benchmarks.files import QuestionFiles
from eqa.data.benchmarks.mp3d_schema import check, check_episode
from eqa.data.demonstrations.rewalk import walked_in
from eqa.data.vocabulary import Vocabulary, tokenize
from eqa.envs.actions import HOUSE_ACTIONS, LETTERS, Action, ActionSet
from eqa.envs.episode import Entity, Episode, Point, Pose, Spawn
from eqa.envs.files import atomic_write
from eqa.envs.habitat.export import DATASET
from eqa.envs.habitat.settings import PREFIX, STAGE
from eqa.envs.navigation.walk import replay
from eqa.envs.progress import console
from eqa.envs.reading import named, parsed, read_text

SOURCE = "mp3d_eqa_v1"
PACKED = ".json.gz"
UNKNOWN_ANSWER = "<unk>"
UNKNOWN_TYPE = "unknown"
OURS = "eqa"  # the key under `info`
IN_PLACE = ("question", "answer", "question_type", "view_points", "walk")  # fields that the layout itself holds
CLOSE = 1e-3  # metres and radians within which a stored path is a walk of ours
FITS = 0.02  # of a stored move that is a world's, as paths along obstacles and up stairs have some shorter ones
UPRIGHT = 1e-3  # most of a quaternion's x and z for a turn about Y


class MP3DEQA(QuestionFiles):
    """MP3D-EQA's files as a `data.source.Source`: `path` is a split's file, or a folder with one for each split.

    Questions about exported houses play in the generated houses, or exported ones in Habitat; those about scans in
    Habitat. There, walks are checked, and questions about scenes without files are left out.
    """

    missing: ClassVar = {"habitat": "it is about scans, in which env=habitat env.scenes=FOLDER plays"}

    def _find_files(self) -> dict[str, Path]:
        return split_files(self.path)

    def _read(self, split: str) -> list[Episode]:
        checked = self._world is not None and "habitat" in self._world.coordinate_frames
        moves = self._world.actions if checked else None
        return [_at_home(episode) for episode in read_mp3d_eqa(self.files[split], moves=moves)]

    def _walkable(self, split: str) -> list[Episode]:
        asked = [episode for episode in self.episodes(split) if episode.view_points]
        if "habitat" not in self.world.coordinate_frames:
            return [episode for episode in asked if episode.walk]
        return walked_in(self.world, self._present(split, asked), title=split)

    def _present(self, split: str, asked: Sequence[Episode]) -> list[Episode]:
        """Questions about scenes whose files are there; ValueError if there are none."""
        scenes = dict.fromkeys(episode.scene_id for episode in asked)
        missing = self.world.missing(scenes)
        remain = [episode for episode in asked if episode.scene_id not in missing]
        if missing:
            console.print(
                f"{split}: {len(remain)} of {len(asked)} questions remain, about {len(scenes) - len(missing)} of "
                f"{len(scenes)} scenes; {min(missing)} is among those without a file",
                soft_wrap=True,
            )
        if asked and not remain:
            raise ValueError(
                f"{self.files[split]}: expected the files of some of its {len(scenes)} scenes, such as {min(scenes)}, "
                "found none; set env.scenes to their folder"
            )
        return remain


def split_files(path: Path) -> dict[str, Path]:
    """The file of each split, train/train.json.gz for instance; a folder gives those in it and in its folders."""
    files = sorted([*path.glob(f"*{PACKED}"), *path.glob(f"*/*{PACKED}")]) if path.is_dir() else [path]
    found: dict[str, Path] = {}
    for file in files:
        split = file.name.removesuffix(PACKED)
        if split in found:
            raise ValueError(f"{path}: expected one file for split {split!r}, got {found[split]} and {file}")
        found[split] = file
    if not found:
        raise ValueError(f"{path}: expected files such as val/val{PACKED}, found none")
    return found


def _at_home(episode: Episode) -> Episode:
    """An episode about an exported house, by the house's id and in its frame, which is habitat's on the ground."""
    name = episode.scene_id.rsplit("/", 1)[-1]
    if episode.frame != "habitat" or not name.endswith(STAGE) or abs(episode.start[1]) > CLOSE:
        return episode
    return replace(episode, scene_id=name.removesuffix(STAGE), frame="house")


def read_mp3d_eqa(path: Path, *, moves: ActionSet | None = None) -> list[Episode]:
    """All episodes of a split's file; the whole file is in memory, as it is one JSON document.

    `moves` are those of a world that checks walks itself, see `from_entry`. It prints if the stored ones are others.
    ValueError if the file is damaged or habitat-lab would not take it.
    """
    with named(path, "not a usable MP3D-EQA file"):
        document = check(parsed(read_text(path, "questions"), finite=False))
        entries = document["episodes"]
        found = [from_entry(entry, where=f"episodes[{n}]", moves=moves) for n, entry in enumerate(entries)]
    stored = stored_moves([points for entry in entries for points in (entry.get("shortest_paths") or ())[:1]])
    if moves is not None and not _fit(stored, moves):
        usual = moves.step_m, moves.turn_rad
        step_m, turn_rad = (own if isfinite(own) else usual[n] for n, own in enumerate(stored))
        turn_rad = 2 * pi / round(2 * pi / turn_rad)  # a whole part of a circle
        console.print(
            f"{path.name}: stored walks move by {step_m:.2f} m and turn by {degrees(turn_rad):.0f} degrees, this world by "
            f"{moves.step_m:.2f} m and {degrees(moves.turn_rad):.0f} degrees, so questions are walked anew; "
            f"env.actions.step_m={step_m:.2f} env.actions.turn_rad={turn_rad} has the stored moves",
            soft_wrap=True,
        )
    return found


def stored_moves(paths: Iterable[Sequence[Mapping]]) -> tuple[float, float]:
    """Median metres in the plan of the paths' moves ahead, and radians of their turns; NaN without any."""
    steps, turns = [], []
    for before, after in (pair for points in paths for pair in pairwise(points)):
        headings = _heading(before["rotation"]), _heading(after["rotation"])
        if before.get("action") == Action.FORWARD:
            (x0, _, z0), (x1, _, z1) = before["position"], after["position"]
            steps.append(hypot(x1 - x0, z1 - z0))
        elif before.get("action") in (Action.LEFT, Action.RIGHT) and None not in headings:
            turns.append(_apart(*headings))
    moved = ([size for size in sizes if size > CLOSE] for sizes in (steps, turns))  # the rest ran into something
    return tuple(float(np.median(sizes)) if sizes else nan for sizes in moved)


def _fit(stored: tuple[float, float], moves: ActionSet) -> bool:
    """True if stored moves are about those of a world, as far as there are any."""
    return not any(abs(a - b) > FITS * b for a, b in zip(stored, (moves.step_m, moves.turn_rad), strict=True))


def write_mp3d_eqa(
    path: Path, episodes: Iterable[Episode], *, vocabulary: Vocabulary, scenes: str = f"{PREFIX}eqa"
) -> None:
    """Writes one split, an episode at a time, numbered from 0. The file is never half written; same input, same bytes.

    vocabulary: of all splits, or of train if the others keep to its words.
    scenes: the folder with our exported houses (scripts/export_house.py), relative to habitat-lab's working directory.
    ValueError names an episode without a start or a target, or with a word or answer that the vocabulary lacks.
    """
    words = json.dumps({"word_list": list(vocabulary.words)})
    answers = json.dumps({"word_list": [UNKNOWN_ANSWER, *vocabulary.answers]})
    with (
        atomic_write(path) as aside,
        aside.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as file,
    ):
        file.write(f'{{"question_vocab": {words},\n"answer_vocab": {answers},\n"episodes": [')
        for number, episode in enumerate(episodes):
            entry = to_entry(episode, number=number, vocabulary=vocabulary, scenes=scenes)
            file.write(("," if number else "") + "\n" + json.dumps(entry, allow_nan=False))
        file.write("\n]}\n")


def to_entry(episode: Episode, *, number: int, vocabulary: Vocabulary, scenes: str = f"{PREFIX}eqa") -> dict:
    """An entry of `episodes`; see `write_mp3d_eqa`."""
    start = _start(episode)
    walk = [LETTERS.index(letter) for letter in episode.walk or ""]
    points = [{**_state(pose), "action": action} for pose, action in zip(_poses(start, walk), walk)]
    state = _state(start)
    ours = {k: v for k, v in episode.to_dict().items() if k not in IN_PLACE and v is not None}
    entry = {
        "episode_id": str(number),
        **_scene(episode, scenes),
        "start_position": state["position"],
        "start_rotation": state["rotation"],
        "info": {OURS: ours},
        "goals": [_goal(episode, start[1])],
        "shortest_paths": [points] if points else None,
        "question": {
            "question_text": episode.question,
            "answer_text": episode.answer,
            "question_tokens": vocabulary.encode(episode.question)[: len(tokenize(episode.question))],
            "answer_token": vocabulary.answer_id(episode.answer) + 1,  # behind UNKNOWN_ANSWER
            "question_type": episode.question_type,
        },
    }
    return check_episode(entry, where=f"episode {episode.episode_id!r}")


def from_entry(entry: Mapping, *, where: str = "episode", moves: ActionSet | None = None) -> Episode:
    """The episode of an entry that `check_episode` has let pass.

    The first of several goals gives target and room, all give view points. A shortest path that our moves on flat
    ground do not make is dropped. With the `moves` of a world that checks walks itself, only paths of other moves are.
    View points that lean are dropped: a pose turns about Y alone.
    """
    heading = _heading(entry["start_rotation"])
    if heading is None:
        raise ValueError(f"{where}: start_rotation: expected a turn about Y alone, got {entry['start_rotation']}")
    start = (*map(float, entry["start_position"]), heading)
    walk = _walk(entry.get("shortest_paths"), start, moves)
    views = [view for goal in entry["goals"] for view in goal.get("view_points") or ()]
    poses = [pose for view in views if (pose := _pose(view)) is not None]
    goal = entry["goals"][0] if entry["goals"] else {}
    episode = Episode(
        episode_id=str(entry["episode_id"]),
        scene_id=entry["scene_id"],
        question=as_question(entry["question"]["question_text"]),
        answer=entry["question"]["answer_text"],
        question_type=entry["question"].get("question_type") or UNKNOWN_TYPE,
        source=SOURCE,
        frame="habitat",
        target_object=_whole(goal.get("object_id")),
        target_room=_whole(goal.get("room_id")),
        touched=_touched(entry["goals"]),
        view_points=tuple(poses) or None,
        goal_radius_m=goal.get("radius"),
        spawns={"start": Spawn(start, num_actions=len(walk) if walk else None)},
        walk=walk,
    )
    ours = (entry.get("info") or {}).get(OURS)
    return episode if ours is None else _restored(episode, ours, where)


def heading_to_rotation(heading_rad: float) -> list[float]:
    """The quaternion (x, y, z, w) of a turn about Y; 0 looks along -Z."""
    return [0.0, sin(heading_rad / 2), 0.0, cos(heading_rad / 2)]


def _heading(rotation: list[float]) -> float | None:
    """The heading of a rotation, from 0 to less than 2 pi, whole turns exactly; None if it is not about Y alone."""
    x, y, z, w = rotation
    if max(abs(x), abs(z)) > UPRIGHT:
        return None
    heading = 2 * atan2(y, w) % (2 * pi)
    turn_rad = HOUSE_ACTIONS.turn_rad
    turns = round(heading / turn_rad)
    if abs(heading - turns * turn_rad) < 1e-9:
        heading = turns * turn_rad
    return heading if heading < 2 * pi else 0.0


def _state(pose: Pose) -> dict[str, list[float]]:
    return {"position": list(pose[:3]), "rotation": heading_to_rotation(pose[3])}


def _poses(start: Pose, actions: list[int]) -> list[Pose]:
    """The pose before each action."""
    return [tuple(pose) for pose in replay(start, np.array(actions, np.int8), HOUSE_ACTIONS).poses.tolist()]


def _pose(state: Mapping) -> Pose | None:
    heading = _heading(state["rotation"]) if state.get("rotation") else None
    return None if heading is None else (*map(float, state["position"]), heading)


def _start(episode: Episode) -> Pose:
    if episode.frame not in ("house", "habitat"):
        raise ValueError(
            f"episode {episode.episode_id!r}: frame: expected house or habitat, got {episode.frame!r}; MP3D-EQA cannot "
            "hold it"
        )
    if episode.start is None:
        raise ValueError(
            f"episode {episode.episode_id!r}: MP3D-EQA needs a place to start from, expected spawns with 'start', got "
            f"{None if episode.spawns is None else sorted(episode.spawns)}; make the questions anew, with spawns"
        )
    return episode.start


def _scene(episode: Episode, scenes: str) -> dict[str, str]:
    """Scene and data set by file names: ours as scripts/export_house.py writes them, habitat's as they were read."""
    if episode.frame == "habitat":
        return {"scene_id": episode.scene_id}
    if not (scenes.startswith(PREFIX) or Path(scenes).is_absolute()):
        raise ValueError(f"scenes: expected a folder in {PREFIX} or a path from the root, got {scenes!r}")
    return {
        "scene_id": f"{scenes.rstrip('/')}/{episode.scene_id}{STAGE}",
        "scene_dataset_config": f"{scenes.rstrip('/')}/{DATASET}",
    }


def _goal(episode: Episode, floor_y: float) -> dict:
    """The first thing touched, or the first view point's place if that is unknown."""
    target = episode.touched[0] if episode.touched else None
    if target is None and not episode.view_points:
        raise ValueError(
            f"episode {episode.episode_id!r}: MP3D-EQA needs the target's place, expected touched or view_points, got none"
        )
    x, _, z = _middle(target) if target else episode.view_points[0][:3]
    on_floor = target is None or target.low != target.high
    room = next((e.name for e in episode.touched or () if e.kind == "room" and e.id == episode.target_room), None)
    is_object = target is None or target.kind == "object"
    return {
        "position": [x, floor_y, z] if on_floor else list(target.low),
        "radius": episode.goal_radius_m,
        "object_id": _text(episode.target_object) or "",
        "object_name": target.name if target and is_object else None,
        "object_category": target.name if target and is_object else None,
        "room_id": _text(episode.target_room),
        "room_name": room,
        "view_points": [_state(pose) for pose in episode.view_points or ()],
    }


def _middle(entity: Entity) -> Point:
    return tuple((low + high) / 2 for low, high in zip(entity.low, entity.high))


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _whole(text: str | int | None) -> int | None:
    return int(text) if text is not None and str(text).isdecimal() else None


def _touched(goals: list[Mapping]) -> tuple[Entity, ...] | None:
    """Goals with a name as boxes of no size: MP3D-EQA has points."""
    found = []
    for number, goal in enumerate(goals):
        name = goal.get("object_category") or goal.get("object_name")
        if name is None:
            return None
        at = tuple(map(float, goal["position"]))
        found.append(Entity("object", name, at, at, _whole(goal["object_id"]), number == 0))
    return tuple(found) or None


def _walk(paths: list[list[Mapping]] | None, start: Pose, moves: ActionSet | None) -> str | None:
    """The first path as letters; None if there is none, or it has other moves than these, or than ours."""
    points = paths[0] if paths else []
    actions = [point.get("action") for point in points]
    if not actions or actions[-1] != Action.STOP or set(actions[:-1]) - {Action.FORWARD, Action.LEFT, Action.RIGHT}:
        return None
    if moves is not None:
        return "".join(LETTERS[action] for action in actions) if _fit(stored_moves([points]), moves) else None
    turns = start[3] / HOUSE_ACTIONS.turn_rad
    if abs(turns - round(turns)) > CLOSE:
        return None
    for point, pose in zip(points, _poses(start, actions)):
        heading = _heading(point["rotation"])
        if heading is None or not _same((*point["position"], heading), pose):
            return None
    return "".join(LETTERS[action] for action in actions)


def _same(a: Pose, b: Pose) -> bool:
    return dist(a[:3], b[:3]) < CLOSE and _apart(a[3], b[3]) < CLOSE


def _apart(a: float, b: float) -> float:
    """Radians between two headings."""
    return abs((a - b + pi) % (2 * pi) - pi)


def _restored(episode: Episode, ours: object, where: str) -> Episode:
    """The episode with the fields of `info.eqa`; ValueError if these contradict the fields that habitat-lab reads."""
    try:
        held = {name: getattr(episode, name) for name in IN_PLACE}
        whole = Episode.from_dict({**ours, **held})
        start = _start(whole)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: info.{OURS}: {error}") from None
    if not _same(start, episode.start) or whole.target_object != episode.target_object:
        raise ValueError(
            f"{where}: info.{OURS} does not fit start or goal: one of them was changed; remove info.{OURS} to read the rest"
        )
    return whole
