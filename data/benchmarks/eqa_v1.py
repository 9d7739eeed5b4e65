"""EQA v1's question file, `eqa_v1.json`: questions by house and splits of houses, to Episodes and back.

The file went with SUNCG; its layout is read off the code around it, which looks keys up by name
(facebookresearch/EmbodiedQA, `engine.py` writes entries, `preprocess_questions_pkl.py` reads the file). So missing keys
are refused and unknown keys are let pass. We add two, which that code does not look at: `id` in a box, and `frame`
beside `questions`. Coordinates without `frame` are SUNCG's.

{"questions": {house: [{"id": 7, "house": house, "question": "what color is the sofa?", "answer": "red",
  "type": "color", "meta": {},
  "bbox": [{"type": "object", "name": "sofa", "box": {"min": [x, y, z], "max": [x, y, z]}, "target": true},
           {"type": "room", "name": ["living room"], "box": {...}, "target": false}]}]},
 "splits": {"train": [house], "val": [], "test": []}}
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import ClassVar, TextIO

from eqa.data.benchmarks import as_question, expect, need
from eqa.data.benchmarks.files import QuestionFiles
from eqa.data.questions.storage import FORMAT, FORMAT_VERSION, QuestionSet, load_questions, write_questions
from eqa.data.questions.walkable import WALKABLE, walkable
from eqa.envs.episode import FRAMES, Entity, Episode
from eqa.envs.files import atomic_write, build_once, data_root, file_fingerprint, fingerprint
from eqa.envs.reading import named, parsed, read_text

SOURCE = "eqa_v1"
SPLITS = ("train", "val", "test")  # EQA v1's code wants these three, empty or not
FRAME = "suncg"
SEVERAL = " / "  # between the names of a room that has more than one


class EQAv1(QuestionFiles):
    """EQA v1's file as a `data.source.Source`: `path` is the file with all splits.

    Its questions have no walks. Those about the generated houses get view points, spawns and walks, which are kept in
    a question file under the data folder. Questions about SUNCG's houses can only be read.
    """

    missing: ClassVar = {"suncg": "SUNCG was withdrawn, so nobody has its houses"}
    walks = WALKABLE

    def _find_files(self) -> dict[str, Path]:
        return {split: self.path for split, episodes in self._splits.items() if episodes}

    @cached_property
    def _splits(self) -> dict[str, list[Episode]]:
        return read_eqa_v1(self.path)

    def _read(self, split: str) -> list[Episode]:
        return self._splits[split]

    def _walkable(self, split: str) -> list[Episode]:
        made_with = {
            "generator": self.walks,
            "questions": file_fingerprint(self.path),
            "split": split,
            "world": self.world.identity,
        }
        path = data_root() / "questions" / f"{fingerprint(made_with)}.jsonl"
        with build_once(path) as to_be_made:
            if to_be_made:
                episodes = walkable(self.world, self.episodes(split), title=f"walks, {split}")
                header = {"format": FORMAT, "version": FORMAT_VERSION, "configuration": made_with, "steps": {}}
                write_questions(path, QuestionSet({split: episodes}, header))
        return load_questions(path, split, configuration=made_with)


def read_eqa_v1(path: Path) -> dict[str, list[Episode]]:
    """All episodes of each split, in the file's order; the whole file is in memory, as it is one JSON document.

    ValueError if it is damaged, or a house is in two splits. Houses in no split are left out with a warning.
    """
    with named(path, "not a usable eqa_v1.json"):
        document = need(parsed(read_text(path, "questions")), ("questions", "splits"), where="the file")
        split_of = _split_of(document["splits"])
        frame = document.get("frame", FRAME)
        episodes: dict[str, list[Episode]] = {split: [] for split in document["splits"]}
        homeless = {}
        for house, entries in need(document["questions"], (), where="questions").items():
            if house not in split_of:
                homeless[house] = len(entries)
                continue
            for number, entry in enumerate(_distinct(entries, house)):
                where = f"questions[{house!r}][{number}]"
                expect(need(entry, ("house",), where=where)["house"] == house, house, entry["house"], where=where)
                episodes[split_of[house]].append(from_entry(entry, frame=frame, where=where))
    if homeless:
        message = (
            f"{path}: left out {sum(homeless.values())} questions of houses in no split, such as {min(homeless)!r}"
        )
        warnings.warn(message, stacklevel=2)
    return episodes


def write_eqa_v1(path: Path, splits: Mapping[str, Iterable[Episode]]) -> None:
    """Writes splits, a house at a time: its episodes must follow each other. The file is never half written.

    ValueError names a house that comes again, in this split or another; an id that is no number; frames that differ.
    """
    houses: dict[str, list[str]] = {split: [] for split in (*SPLITS, *splits)}
    frames: set[str] = set()
    with atomic_write(path) as aside, aside.open("w") as file:
        file.write('{"questions": {')
        split_of: dict[str, str] = {}
        for split, episodes in splits.items():
            for house, of_house in groupby(_with_frames(episodes, frames), key=lambda episode: episode.scene_id):
                if house in split_of:
                    raise ValueError(
                        f"house {house!r} in split {split}: expected all its questions one after another in one split, "
                        f"got some before in {split_of[house]}; sort the episodes by scene_id"
                    )
                split_of[house] = split
                houses[split].append(house)
                _write_house(file, house, of_house, first=len(split_of) == 1)
        ending = {"splits": houses} | ({"frame": frame} if (frame := next(iter(frames), FRAME)) != FRAME else {})
        file.write("\n}, " + json.dumps(ending)[1:] + "\n")


def to_entry(episode: Episode) -> dict:
    """A question as EQA v1 writes it. ValueError if the episode's id does not end in a number."""
    number = re.search(r"\d+$", episode.episode_id)
    if not number:
        raise ValueError(
            f"episode {episode.episode_id!r}: EQA v1 has whole numbers for ids, expected an id that ends in one"
        )
    return {
        "id": int(number[0]),
        "house": episode.scene_id,
        "question": episode.question,
        "answer": int(episode.answer) if re.fullmatch(r"0|[1-9]\d*", episode.answer) else episode.answer,
        "type": episode.question_type,
        "meta": {},
        "bbox": [_box(entity) for entity in episode.touched or ()],
    }


def from_entry(entry: Mapping, *, frame: str = FRAME, where: str = "question") -> Episode:
    """The episode of a question in `frame`; ValueError names the place of a fault, which starts with `where`."""
    need(entry, ("id", "house", "question", "answer", "type", "bbox"), where=where)
    expect(frame in FRAMES, f"one of {list(FRAMES)}", frame, where="frame")
    expect(_is_whole(entry["id"]), "a whole number", entry["id"], where=f"{where}.id")
    for key in ("house", "question", "type"):
        expect(isinstance(entry[key], str), "a text", entry[key], where=f"{where}.{key}")
    is_answer = isinstance(entry["answer"], str) or _is_whole(entry["answer"])
    expect(is_answer, "a text or a whole number", entry["answer"], where=f"{where}.answer")
    touched = _touched(entry["bbox"], where)
    rooms = [entity for entity in touched or () if entity.kind == "room"]
    return Episode(
        episode_id=f"{entry['house']}-{entry['id']:03d}",
        scene_id=entry["house"],
        question=as_question(entry["question"]),
        answer=str(entry["answer"]).replace("_", " "),  # as EQA v1's code takes both for one
        question_type=entry["type"],
        source=SOURCE,
        frame=frame,
        target_object=next((e.id for e in touched or () if e.kind == "object" and e.is_target), None),
        target_room=rooms[0].id if len(rooms) == 1 else None,
        touched=touched,
    )


def _split_of(splits: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for split, houses in need(splits, (), where="splits").items():
        are_names = isinstance(houses, list) and all(isinstance(house, str) for house in houses)
        expect(are_names, "a list of house ids", houses, where=f"splits.{split}")
        for house in houses:
            if found.setdefault(house, split) != split:
                raise ValueError(f"house {house!r}: expected in one split, got it in {found[house]} and {split}")
    return found


def _distinct(entries: Iterable, house: str) -> Iterator:
    """Passes a house's entries on, and refuses an id that came before."""
    seen = set()
    for entry in entries:
        number = entry["id"] if isinstance(entry, dict) and "id" in entry else None
        if number is not None and number in seen:
            raise ValueError(f"house {house!r}: expected different ids, got {number} twice")
        seen.add(number)
        yield entry


def _with_frames(episodes: Iterable[Episode], frames: set[str]) -> Iterator[Episode]:
    for episode in episodes:
        frames.add(episode.frame)
        if len(frames) > 1:
            raise ValueError(f"episode {episode.episode_id!r}: expected one frame in a file, got {sorted(frames)}")
        yield episode


def _write_house(file: TextIO, house: str, episodes: Iterable[Episode], *, first: bool) -> None:
    file.write(("" if first else ",") + f"\n{json.dumps(house)}: [")
    before = "\n"
    for entry in _distinct(map(to_entry, episodes), house):
        file.write(before + json.dumps(entry, allow_nan=False))
        before = ",\n"
    file.write("]")


def _box(entity: Entity) -> dict:
    names = entity.name.split(SEVERAL) if entity.name else []
    entry = {
        "type": entity.kind,
        "box": {"min": list(entity.low), "max": list(entity.high)},
        "name": names if entity.kind == "room" else entity.name,
        "target": entity.is_target,
    }
    return entry if entity.id is None else {**entry, "id": entity.id}


def _touched(boxes: object, where: str) -> tuple[Entity, ...] | None:
    """The things of the boxes; None if there is no box, or not one for each thing.

    A missing thing has {}, and things in several rooms have a list. The other boxes alone would then be less than the
    answer depends on.
    """
    expect(isinstance(boxes, list), "a list", boxes, where=f"{where}.bbox")
    listed = [need(one, (), where=f"{where}.bbox").get("box") for one in boxes]
    if not boxes or any(not box or isinstance(box, list) for box in listed):
        return None
    return tuple(_entity(one, f"{where}.bbox[{number}]") for number, one in enumerate(boxes))


def _entity(one: dict, where: str) -> Entity:
    need(one, ("type", "box", "name", "target"), where=where)
    box = need(one["box"], ("min", "max"), where=f"{where}.box")
    for corner in ("min", "max"):
        at = box[corner]
        is_point = isinstance(at, list) and len(at) == 3 and all(isinstance(number, int | float) for number in at)
        expect(is_point, "three numbers", at, where=f"{where}.box.{corner}")
    expect(one["type"] in ("object", "room"), "object or room", one["type"], where=f"{where}.type")
    names = one["name"] if isinstance(one["name"], list) else [one["name"]]
    expect(all(isinstance(name, str) for name in names), "a text or texts", names, where=f"{where}.name")
    number = one.get("id")
    expect(number is None or _is_whole(number), "a whole number", number, where=f"{where}.id")
    low, high = (tuple(map(float, box[corner])) for corner in ("min", "max"))
    return Entity(one["type"], SEVERAL.join(names), low, high, number, bool(one["target"]))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
