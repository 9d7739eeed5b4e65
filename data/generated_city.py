"""`GeneratedCityEQA`: questions and demonstrations in a world of cities, built under the data folder when missing.

Each part is a function of its configuration and is found by it, as in `data.generated`. Cities come from the world, by
their ids: city-train-00000 and so on. It reads nothing of them but `Annotations` and views.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from eqa.data.demonstrations.record import Recorder, made_by, recorded
from eqa.data.demonstrations.spawn_settings import CITY_SPAWNS
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.questions.city.generate import FRAME, SPLITS, configuration, make_city_questions, world_facts
from eqa.data.questions.journal import Journal
from eqa.data.questions.storage import load_questions, write_questions
from eqa.data.source import Encode, Judge, Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.files import build_once, data_root, fingerprint
from eqa.envs.progress import absolute, console, progress
from eqa.envs.simulator import World


class GeneratedCityEQA(Source):
    """`cities` and `questions` are numbers by split; `encode` may be None if no demonstrations are needed.

    `seed` is that of the questions, and of the cities where the world follows it. `question_set` is a set of
    data/questions/city/city.yaml. `lowest_m` is the height at which agents start. `judge` marks answers, see
    `models.evaluation.judges`. ValueError for a world without cities.
    """

    splits, places, spawns = SPLITS, "cities", CITY_SPAWNS

    def __init__(
        self,
        *,
        seed: int,
        cities: Mapping[str, int],
        questions: Mapping[str, int],
        world: World,
        question_set: str = "cityeqa",
        most_per_city: int = 150,
        lowest_m: float = 2.0,
        encode: Encode | None = None,
        judge: Judge | None = None,
    ) -> None:
        if FRAME not in world.coordinate_frames:
            raise ValueError(
                f"world: expected one of cities, got one of {', '.join(world.coordinate_frames)}; env=city has them, and "
                "takes these data by itself"
            )
        for name, numbers in (("cities", cities), ("questions", questions)):
            if set(numbers) != set(SPLITS) or min(numbers.values()) < 1:
                raise ValueError(f"{name}: expected at least 1 for each of {SPLITS}, got {dict(numbers)}")
        self.seed, self.encode, self.judge, self._world = seed, encode, judge, world
        self.question_set, self.most_per_city, self.lowest_m = question_set, most_per_city, float(lowest_m)
        self.num_cities, self.num_questions = dict(cities), {split: questions[split] for split in SPLITS}
        self.root = data_root()

    @property
    def world(self) -> World:
        """The world of the cities."""
        return self._world

    @property
    def origin(self) -> str:
        """Generator of the cities, with their seed."""
        return self.world.identity

    @property
    def scene_ids(self) -> dict[str, list[str]]:
        """Ids of all cities by split."""
        return {split: [f"city-{split}-{n:05d}" for n in range(self.num_cities[split])] for split in SPLITS}

    @property
    def _questions_arguments(self) -> dict:
        return {
            "counts": self.num_questions,
            "seed": self.seed,
            "question_set": self.question_set,
            "most_per_city": self.most_per_city,
            "made_from": {**world_facts(self.world, self.lowest_m), "num_cities": self.num_cities},
        }

    @property
    def questions_file(self) -> Path:
        """Path of the question file, even if it is not made yet."""
        return self.root / "questions" / f"{fingerprint(configuration(**self._questions_arguments))}.jsonl"

    @cached_property
    def questions_path(self) -> Path:
        """The question file, made if missing."""
        path, arguments = self.questions_file, self._questions_arguments
        with build_once(path) as to_be_made:
            if to_be_made:
                journal = Journal(path.with_suffix(".partly"), configuration=configuration(**arguments))
                with progress("questions", 2 * sum(self.num_cities.values())) as advance:
                    made = make_city_questions(
                        self.world,
                        self.scene_ids,
                        lowest_m=self.lowest_m,
                        journal=journal,
                        progress=absolute(advance),
                        **arguments,
                    )
                write_questions(path, made)
                journal.remove()
                console.print(f"questions: {path}")
        return path

    def episodes(self, split: str) -> list[Episode]:
        return load_questions(self.questions_path, split)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the training split alone."""
        return Vocabulary.of(self.episodes("train"))

    def fingerprints(self) -> dict:
        """Fingerprints of the question file, and with an encoder of each split's demonstrations, made or not."""
        found: dict = {"questions": self.questions_file.stem}
        if self.encode is not None:
            files = {split: self._demonstrations_file(split)[1] for split in SPLITS}
            found["demonstrations"] = {split: fingerprint(made_with) for split, made_with in files.items()}
        return found

    def _demonstrations_file(self, split: str) -> tuple[Path, dict]:
        """Path of a split's demonstrations, even if they are not made yet, and their configuration."""
        if self.encode is None:
            raise ValueError("demonstrations: expected an encoder for their frames, got none; set data.encode")
        made_with = {**made_by(self.world, self.encode), "questions": self.questions_file.stem}
        return self.root / "demonstrations" / fingerprint(made_with) / f"{split}.h5", {**made_with, "split": split}

    def demonstrations(self, split: str) -> Demonstrations:
        """The shortest flights of a split's questions, made if missing."""
        path, made_with = self._demonstrations_file(split)
        return recorded(
            path,
            lambda: self.episodes(split),
            Recorder(self.world, self.encode),
            configuration=made_with,
            title=f"demonstrations, {split}",
        )
