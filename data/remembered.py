"""Slow answers that a killed run need not find again: appended to a file house by house while a question set is made."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from data.view_points import Target, ViewPoints
from envs.episode import Episode
from envs.house.house import House


class Memory:
    """What was found, by name, as JSON in lines of `path`.

    `configuration` is what all of it depends on; a file of another one is started anew. A last line that was cut off by a
    killed run is dropped.
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
            file.write((line := json.dumps(found)) + "\n")
        self.known.update(json.loads(line))

    def forget(self) -> None:
        """Removes the file, once the questions are written."""
        self._path.unlink(missing_ok=True)


def remembered_sight(
    visible: Callable[[House, Sequence[Target]], Sequence[ViewPoints]], memory: Memory
) -> Callable[[House, Sequence[Target]], list[ViewPoints]]:
    """As `visible`, which is asked only for what memory lacks."""

    def look(house: House, targets: Sequence[Target]) -> list[ViewPoints]:
        names = [f"{house.id} {house.generator} sees {list(target)}" for target in targets]
        if missing := [place for place, name in enumerate(names) if name not in memory.known]:
            found = visible(house, [targets[place] for place in missing])
            memory.add({names[place]: poses for place, poses in zip(missing, found, strict=True)})
        poses = [memory.known[name] for name in names]
        return [None if of_target is None else tuple(map(tuple, of_target)) for of_target in poses]

    return look


def remembered_place(
    place: Callable[[House, Sequence[Episode]], list[Episode | None]], memory: Memory
) -> Callable[[House, Sequence[Episode]], list[Episode | None]]:
    """As `place`, which is asked only for houses that memory lacks."""

    def put(house: House, episodes: Sequence[Episode]) -> list[Episode | None]:
        name = f"{house.id} {house.generator} places {[episode.episode_id for episode in episodes]}"
        if name not in memory.known:
            memory.add({name: [episode and episode.to_dict() for episode in place(house, episodes)]})
        return [entry and Episode.from_dict(entry) for entry in memory.known[name]]

    return put
