"""`Journal`: a file of slow results, appended house by house, that spares a killed run from computing them again.

Each shard of the work has a file of its own, and reads those of the others.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eqa.data.questions.view_points import ViewPoints
from eqa.envs.episode import Episode
from eqa.envs.files import fingerprint
from eqa.envs.house.house import House
from eqa.envs.shards import OthersMissing, Shard

Task = Callable[[House, Sequence], Sequence]
ParallelMap = Callable[[Task, Sequence[House], Sequence[Sequence]], Iterator[Sequence]]


class Journal:
    """Results by name, as JSON in lines of `path`, or of a file beside it if they are those of a `shard`.

    `configuration` holds all that they depend on; a file of another one is started anew. A last line that a killed run
    cut off is dropped.
    """

    def __init__(self, path: Path, *, configuration: dict, shard: Shard | None = None) -> None:
        self._whole, self.shard = path, shard
        self._path = path if shard is None else path.with_name(f"{path.name}-{shard.number}-of-{shard.parts}")
        self._header = json.dumps({"configuration": configuration}, sort_keys=True) + "\n"
        self.known: dict[str, object] = {}
        lines = self._read(self._path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join([self._header, *lines]))
        self.read_others()

    def _read(self, path: Path) -> list[str]:
        """Whole lines of results of the same configuration; they are known from now on."""
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if whole[:1] != [self._header]:
            return []
        for line in whole[1:]:
            self.known.update(json.loads(line))
        return whole[1:]

    def _others(self) -> list[Path]:
        files = [self._whole, *sorted(self._whole.parent.glob(f"{self._whole.name}-*-of-*[0-9]"))]
        return [path for path in files if path != self._path]

    def read_others(self) -> None:
        """Takes over what other shards have found by now."""
        for path in self._others():
            self._read(path)

    def add(self, found: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write((line := json.dumps(found, default=Episode.to_dict)) + "\n")
        self.known.update(json.loads(line))

    def remove(self) -> None:
        """Removes the file and those of other shards, once the questions are written."""
        for path in (self._path, *self._others()):
            path.unlink(missing_ok=True)


def journaled(parallel_map: ParallelMap, journal: Journal) -> ParallelMap:
    """`parallel_map` over houses and their targets, used only for results that the journal lacks.

    A shard's journal is given the shard's part of them; OthersMissing if others have not found the rest yet.
    """

    def run(task: Task, houses: Sequence[House], asked: Sequence[Sequence]) -> Iterator[list]:
        names = [_name(task, house, of_house) for house, of_house in zip(houses, asked, strict=True)]
        own = range(len(names)) if journal.shard is None else journal.shard.of(range(len(names)))
        missing = [place for place in own if names[place] not in journal.known]
        found = iter(parallel_map(task, [houses[place] for place in missing], [asked[place] for place in missing]))
        if journal.shard is not None:
            for place in missing:
                journal.add({names[place]: next(found)})
            journal.read_others()
            if left := [place for place, name in enumerate(names) if name not in journal.known]:
                raise OthersMissing(journal.shard.makers(left))
        for name in names:
            if name not in journal.known:
                journal.add({name: next(found)})
            yield [_from_json(one) for one in journal.known[name]]

    return run


def _name(task: Task, house: House, asked: Sequence) -> str:
    what = [one.episode_id if isinstance(one, Episode) else one for one in asked]
    return f"{task.__name__} {house.id} {house.generator} {fingerprint(what)}"


def _from_json(found: dict | list | None) -> Episode | ViewPoints:
    return Episode.from_dict(found) if isinstance(found, dict) else found and tuple(map(tuple, found))
