"""`Journal`: a file of slow results, appended house by house, that spares a killed run from computing them again."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eqa.data.questions.view_points import ViewPoints
from eqa.envs.episode import Episode
from eqa.envs.files import fingerprint
from eqa.envs.house.house import House

Task = Callable[[House, Sequence], Sequence]
ParallelMap = Callable[[Task, Sequence[House], Sequence[Sequence]], Iterator[Sequence]]


class Journal:
    """Results by name, as JSON in lines of `path`.

    `configuration` holds all that they depend on; a file of another one is started anew. A last line that a killed run
    cut off is dropped.
    """

    def __init__(self, path: Path, *, configuration: dict) -> None:
        self._path = path
        self.known: dict[str, object] = {}
        header = json.dumps({"configuration": configuration}, sort_keys=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if not whole or whole[0] != header + "\n":
            whole = [header + "\n"]
        for line in whole[1:]:
            self.known.update(json.loads(line))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(whole))

    def add(self, found: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write((line := json.dumps(found, default=Episode.to_dict)) + "\n")
        self.known.update(json.loads(line))

    def remove(self) -> None:
        """Removes the file, once the questions are written."""
        self._path.unlink(missing_ok=True)


def journaled(parallel_map: ParallelMap, journal: Journal) -> ParallelMap:
    """`parallel_map` over houses and their targets, used only for results that the journal lacks."""

    def run(task: Task, houses: Sequence[House], asked: Sequence[Sequence]) -> Iterator[list]:
        names = [_name(task, house, of_house) for house, of_house in zip(houses, asked, strict=True)]
        missing = [place for place, name in enumerate(names) if name not in journal.known]
        found = iter(parallel_map(task, [houses[place] for place in missing], [asked[place] for place in missing]))
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
