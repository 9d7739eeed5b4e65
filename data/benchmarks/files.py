"""`QuestionFiles`: question files of a benchmark as a `data.source.Source`, in a world that has their scenes."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from eqa.data.demonstrations.record import Recorder, made_by, recorded
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.source import Encode, Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.annotations import Annotations
from eqa.envs.episode import Episode
from eqa.envs.files import data_root, file_fingerprint, fingerprint
from eqa.envs.progress import console
from eqa.envs.simulator import World

HOUSES = ("house",)  # coordinate frames of the world that plays unless another is named


class QuestionFiles(Source):
    """`path` is a question file or a folder of them. `world` and `encode` may be None if only episodes are needed.

    `vocabulary` is another such path, of whose train split words and answers are taken, for files without train. Walks
    are recorded for the questions that have one; the number of others is printed. ValueError for a path without files.
    """

    missing: ClassVar[Mapping[str, str]]  # the reason why a frame has no world, by frame
    walks: ClassVar[str] = "of the file"  # changes with all that walks depend on besides the file and the world

    def __init__(
        self,
        *,
        path: str | Path,
        world: World | None = None,
        encode: Encode | None = None,
        vocabulary: str | None = None,
    ) -> None:
        self.path, self.encode, self._world, self._words_of = Path(path).expanduser(), encode, world, vocabulary
        if not self.path.exists():
            raise ValueError(
                f"path: expected a question file or a folder of them, found nothing at {self.path}; "
                "python scripts/convert_questions.py makes such files of our questions"
            )
        self._episodes: dict[str, list[Episode]] = {}
        self._counted: set[str] = set()

    @abstractmethod
    def _find_files(self) -> dict[str, Path]:
        """The file of each split that has questions."""

    @abstractmethod
    def _read(self, split: str) -> list[Episode]:
        """The questions of a split, read from its file."""

    @abstractmethod
    def _walkable(self, split: str) -> list[Episode]:
        """The questions of a split that have view points and a walk."""

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each split."""
        return self._find_files()

    @property
    def splits(self) -> list[str]:
        """The splits that the files have."""
        return list(self.files)

    def episodes(self, split: str) -> list[Episode]:
        if split not in self.files:
            raise ValueError(
                f"{self.path}: expected questions of the split {split!r}, got those of {self.splits} alone"
            )
        if split not in self._episodes:
            self._episodes[split] = self._read(split)
        if not self._episodes[split]:
            raise ValueError(f"{self.files[split]}: expected questions, got none in the split {split!r}")
        return self._episodes[split]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the training split, of these files or of those that `vocabulary` names."""
        files = self if self._words_of is None else type(self)(path=self._words_of)
        if "train" not in files.splits:
            raise ValueError(
                f"vocabulary: expected a split 'train', whose words and answers agents learn, {files.path} has "
                f"{files.splits} alone; name a file or folder that has it, data.vocabulary=..."
            )
        return Vocabulary.of(files.episodes("train"))

    @cached_property
    def world(self) -> World:
        """The world of the episodes; ValueError if there is none for their frame."""
        known = HOUSES if self._world is None else self._world.coordinate_frames
        for split in self.splits:
            for episode in self.episodes(split):
                if episode.frame not in known:
                    why = self.missing.get(episode.frame, "no world of this version has it")
                    raise ValueError(
                        f"{self.files[split]}: expected questions in the frame {' or '.join(map(repr, known))} of this "
                        f"world, got {episode.frame!r} (episode {episode.episode_id!r}): {why}; questions can be read "
                        "and converted all the same"
                    )
        if self._world is None:
            raise ValueError("world: expected one to play in, got none; env=house gives it")
        return self._world

    def fingerprints(self) -> dict:
        """Fingerprints of the question files, and with an encoder of each split's demonstrations, made or not."""
        of_files = {split: file_fingerprint(file) for split, file in self.files.items()}
        found = {"questions": fingerprint(of_files)}
        if self.encode is not None:
            found["demonstrations"] = {split: fingerprint(self._demonstrations_file(split)[1]) for split in self.files}
        return found

    def _demonstrations_file(self, split: str) -> tuple[Path, dict]:
        """Path of a split's demonstrations, even if they are not made yet, and their configuration."""
        if self.encode is None:
            raise ValueError("demonstrations: expected an encoder for their frames, got none; set data.encode")
        made_with = {
            **made_by(self.world, self.encode),
            "questions": file_fingerprint(self.files[split]),
            "world": self.world.identity,
            "walks": self.walks,
            "split": split,
        }
        return data_root() / "demonstrations" / fingerprint(made_with) / f"{split}.h5", made_with

    def demonstrations(self, split: str) -> Demonstrations:
        """Walks for the questions of a split that can be walked, made if missing."""
        asked = self.episodes(split)
        path, made_with = self._demonstrations_file(split)
        demos = recorded(
            path,
            lambda: self._checked(split),
            Recorder(self.world, self.encode),
            configuration=made_with,
            title=f"demonstrations, {split}",
        )
        if (left_out := len(asked) - len(demos)) and split not in self._counted:
            console.print(f"{split}: {left_out} of {len(asked)} questions are left out, as they cannot be walked")
            self._counted.add(split)
        return demos

    def _checked(self, split: str) -> list[Episode]:
        """`_walkable`, if the questions are about this world's scenes, and some can be walked."""
        by_scene: dict[str, list[Episode]] = {}
        for episode in self.episodes(split):
            by_scene.setdefault(episode.scene_id, []).append(episode)
        if tuple(self.world.coordinate_frames) == HOUSES:  # other worlds may have other names for the same things
            for scene_id, episodes in by_scene.items():
                refuse_other_scene(self.world.annotations(scene_id), episodes)
        walkable = self._walkable(split)
        if not walkable:
            raise ValueError(
                f"{self.files[split]}: expected questions with view points and a walk, got none in {split!r}"
            )
        return walkable


def refuse_other_scene(annotations: Annotations, episodes: Sequence[Episode]) -> None:
    """ValueError for a question about a thing or room that has another name here: it is about another scene."""
    names = {
        "object": {thing.id: thing.name for thing in annotations.things},
        "room": {number: region.name for number, region in enumerate(annotations.regions)},
    }
    for episode in episodes:
        for entity in episode.touched or ():
            if entity.id is not None and names[entity.kind].get(entity.id) != entity.name:
                raise ValueError(
                    f"episode {episode.episode_id!r}: expected {entity.name!r} as {entity.kind} {entity.id} of "
                    f"{annotations.scene_id}, got {names[entity.kind].get(entity.id, 'none')!r}: the questions are about "
                    "other houses; set env.seed and env.style to theirs"
                )
