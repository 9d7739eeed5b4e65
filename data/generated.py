"""`GeneratedEQA`: procedural houses, their questions and demonstrations, built under the data folder when missing.

Each part is a function of its configuration and is found by it. Another seed, size or encoder is another file, and
existing files are reused. Parts depend on each other in this order: houses, questions, demonstrations.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from eqa.data.demonstrations.record import Recorder, made_by, recorded
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.questions.generate import ALL_SPLITS, NUM_PASSES, configuration, make_questions
from eqa.data.questions.journal import Journal, journaled
from eqa.data.questions.published import published_questions
from eqa.data.questions.spawns import add_spawns, walk_anew
from eqa.data.questions.storage import QuestionSet, load_questions, read_header, write_questions
from eqa.data.questions.view_points import view_points_of
from eqa.data.source import Encode, Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.files import build_once, data_root, fingerprint, locked
from eqa.envs.house.generator import (
    GENERATOR,
    HUMAN,
    PAPER,
    SPLITS,
    STYLES,
    human_homes,
    identity_of,
    load_house,
    make_houses,
)
from eqa.envs.house.house import House
from eqa.envs.house.sharded import make_part
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.progress import absolute, console, progress
from eqa.envs.shards import OthersMissing, Shard
from eqa.envs.workers import in_workers


class GeneratedEQA(Source):
    """`houses` and `questions` are numbers by split; `encode` may be None if no demonstrations are needed.

    `houses` may name a "style" as well, one of `styles`; it is `paper` where there is none.
    `question_set` is a set of questions.yaml; `balance` is the method of balancing answers, see
    `data.questions.balance`. `human_walks` is a file that scripts/play.py made of this source's training questions; it
    replaces their shortest walks. Without it each question is walked `walks` times, from as many starts. `world` has
    the houses of `seed` and the style, by default with the usual camera. ValueError for a world of other houses.
    """

    splits, styles = ALL_SPLITS, STYLES

    def __init__(
        self,
        *,
        seed: int,
        houses: Mapping[str, int | str],
        questions: Mapping[str, int],
        question_set: str = "eqa_v1",
        balance: str = "entropy",
        encode: Encode | None = None,
        walks: int = 1,
        human_walks: str | None = None,
        world: HouseWorld | None = None,
    ) -> None:
        self.seed, self.encode, self.question_set, self.balance = seed, encode, question_set, balance
        self.walks, self.human_walks = walks, human_walks
        if walks < 1 or (human_walks and walks > 1):
            raise ValueError(f"walks: expected at least 1, and 1 where people's walks are learned from, got {walks}")
        self.num_houses, self.num_questions = dict(houses), dict(questions)
        self.style = self.num_houses.pop("style", PAPER)
        identity = identity_of(seed, self.style)
        for name, numbers in (("houses", self.num_houses), ("questions", self.num_questions)):
            if set(numbers) != set(SPLITS) or min(numbers.values()) < 1:
                raise ValueError(f"{name}: expected at least 1 for each of {SPLITS}, got {numbers}")
        self.root = data_root()
        if world is not None:
            if world.identity != identity:
                raise ValueError(
                    f"world: expected the houses that the questions are about, {identity}, got {world.identity}; "
                    "set data.seed and data.houses.style, which env follows"
                )
            self.world = world

    def house(self, house_id: str) -> House:
        """The house with that id."""
        split, index = house_id.split("-")
        return load_house(self.root, seed=self.seed, split=split, index=int(index), style=self.style)

    @cached_property
    def world(self) -> HouseWorld:
        """The houses as a world."""
        return HouseWorld(self.house, identity=identity_of(self.seed, self.style))

    @cached_property
    def house_files(self) -> dict[str, list[Path]]:
        """Files of all houses by split, made if missing, and of the homes that people designed."""
        return {**self._make_houses(), HUMAN: human_homes()}

    def _make_houses(self, shard: Shard | None = None) -> dict[str, list[Path]]:
        files = {}
        for split, count in self.num_houses.items():
            with progress(f"houses, {split}", count) as advance:
                report = absolute(advance)
                numbers = {"split": split, "count": count, "seed": self.seed, "style": self.style}
                if shard is None:
                    files[split] = make_houses(self.root, **numbers, progress=report)
                else:
                    files[split] = make_part(self.root, **numbers, shard=shard, progress=report)
        return files

    @cached_property
    def houses(self) -> dict[str, list[House]]:
        """The houses in `house_files`, by split."""
        return {split: [House.load(path) for path in paths] for split, paths in self.house_files.items()}

    @property
    def scene_ids(self) -> dict[str, list[str]]:
        """Ids of all houses by split; the houses are made if missing."""
        return {split: [path.stem for path in paths] for split, paths in self.house_files.items()}

    @property
    def origin(self) -> str:
        """Generator of the houses, with their style and seed."""
        return identity_of(self.seed, self.style)

    @property
    def questions_file(self) -> Path:
        """Path of the question file, even if it is not made yet."""
        return self.root / "questions" / f"{fingerprint(configuration(**self._questions_arguments))}.jsonl"

    @property
    def _questions_arguments(self) -> dict:
        made_from = {
            "houses": GENERATOR,
            "house_seed": self.seed,
            "house_style": self.style,
            "num_houses": self.num_houses,
            HUMAN: fingerprint([path.read_text() for path in human_homes()]),
        }
        return {
            "counts": {**self.num_questions, HUMAN: None},
            "seed": self.seed,
            "question_set": self.question_set,
            "balance": self.balance,
            "made_from": made_from,
        }

    @cached_property
    def questions_path(self) -> Path:
        """The question file. If it is missing, it is made, or copied from the package's set if that is the one."""
        path, wanted = self.questions_file, configuration(**self._questions_arguments)
        with build_once(path) as to_be_made:
            if to_be_made and (shipped := published_questions(wanted)):
                write_questions(path, shipped)
                console.print(f"questions: {path}")
            elif to_be_made:
                self._write_questions(*self._make_questions())
        if read_header(path)["configuration"] != wanted:
            load_questions(path, "train", configuration=wanted)
        return path

    def _make_questions(self, shard: Shard | None = None) -> tuple[QuestionSet, Journal]:
        """The questions, and the journal to remove once they are written. OthersMissing as `journaled`."""
        houses, arguments = self.houses, self._questions_arguments
        partly = self.questions_file.with_suffix(".partly")
        journal = Journal(partly, configuration=configuration(**arguments), shard=shard)
        with progress("questions", NUM_PASSES * sum(map(len, houses.values()))) as advance:
            made = make_questions(
                houses,
                visible=view_points_of,
                add_spawns=add_spawns,
                parallel_map=journaled(in_workers, journal),
                progress=absolute(advance),
                **arguments,
            )
        return made, journal

    def _write_questions(self, made: QuestionSet, journal: Journal) -> None:
        write_questions(self.questions_file, made)
        journal.remove()
        console.print(f"questions: {self.questions_file}")

    def episodes(self, split: str) -> list[Episode]:
        return load_questions(self.questions_path, split)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the training split alone."""
        return Vocabulary.of(self.episodes("train"))

    def fingerprints(self) -> dict:
        """Fingerprints of the data, made or not: of the question file, and with an encoder of each split's
        demonstrations.
        """
        found = {"questions": self.questions_file.stem}
        if self.encode is not None:
            files = {split: self._demonstrations_file(split) for split in SPLITS}
            files |= {f"train, walk {n + 1}": self._demonstrations_file("train", n) for n in range(1, self.walks)}
            found["demonstrations"] = {name: fingerprint(made_with) for name, (_, made_with) in files.items()}
        return found

    def _demonstrations_file(self, split: str, walk: int = 0) -> tuple[Path, dict]:
        """Path of a split's demonstrations, even if they are not made yet, and their configuration."""
        if self.encode is None:
            raise ValueError("demonstrations: expected an encoder for their frames, got none; set data.encode")
        made_with = {**made_by(self.world, self.encode), "questions": self.questions_file.stem}
        if walk:
            made_with["walk"] = walk
        path = self.root / "demonstrations" / f"{fingerprint(made_with)}" / f"{split}.h5"
        return path, {**made_with, "split": split}

    def learned(self) -> list[Demonstrations]:
        """Training data: each question of train walked `walks` times, each time from another start."""
        others = (self.demonstrations("train", walk) for walk in range(1, self.walks))
        return [self.demonstrations("train"), *others]

    def build_shard(self, shard: Shard) -> set[Shard]:
        """Makes a part of houses, questions and demonstrations, as far as the parts of other shards allow.

        Questions need all houses, and demonstrations need all questions. Returns the shards whose parts are missing for
        the next step; when none are, all is made and joined, to the same bytes as without shards.
        """
        paths = self._make_houses(shard)
        places = ((place, path) for of_split in paths.values() for place, path in enumerate(of_split))
        if left := shard.makers(place for place, path in places if not path.is_file()):
            return left
        try:
            self._make_questions_of(shard)
        except OthersMissing as error:
            return error.shards
        missing: set[Shard] = set()
        for split, walk in [*((split, 0) for split in SPLITS), *(("train", walk) for walk in range(1, self.walks))]:
            try:
                self.demonstrations(split, walk, shard=shard)
            except OthersMissing as error:
                missing |= error.shards
        return missing

    def _make_questions_of(self, shard: Shard) -> None:
        path = self.questions_file
        if path.exists() or published_questions(configuration(**self._questions_arguments)):
            return  # the demonstrations ask for them
        with locked(path.with_name(f"{path.stem}.shard-{shard.number}-of-{shard.parts}")):
            made = self._make_questions(shard)
        with build_once(path) as to_be_made:
            if to_be_made:
                self._write_questions(*made)

    def demonstrations(self, split: str, walk: int = 0, *, shard: Shard | None = None) -> Demonstrations:
        """Shortest walks for every question of a split, made if missing: the questions' own, or with `walk` others.

        A `shard` makes its part, see `data.demonstrations.record.recorded`.
        """
        if split == "train" and self.human_walks:
            return Demonstrations.open(Path(self.human_walks), configuration=self.human_configuration(split))
        path, made_with = self._demonstrations_file(split, walk)
        anew = None if walk == 0 else lambda scene_id, here: walk_anew(self.house(scene_id), here, walk)
        return recorded(
            path,
            lambda: [episode for episode in self.episodes(split) if episode.walk],
            Recorder(self.world, self.encode, anew),
            configuration=made_with,
            title=f"demonstrations, {split}" + (f", walk {walk + 1}" if walk else ""),
            shard=shard,
        )

    def human_configuration(self, split: str) -> dict[str, str]:
        """All that walks of people through a split depend on, see `data.demonstrations.human`."""
        return {**self._demonstrations_file(split)[1], "walker": "person"}
