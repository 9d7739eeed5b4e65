"""Asks house by house from where objects can be seen, and remembers the answers in a file while a set is being made.

Looking means rendering, which is the slow part of making questions, so a killed run continues from the last house.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from envs.episode import Pose
from envs.house.house import House

ViewPoints = tuple[Pose, ...] | None

# From a house and object ids to the poses from which each can be seen, best first, None for what cannot be seen.
Visible = Callable[[House, Sequence[int]], Sequence[ViewPoints]]


class RememberedVisibility:
    """A `Visible` that appends every house's answer to `path` and does not ask again for what stands there.

    `configuration` is what answers depend on besides the house; a file of another one is started anew. A last line that
    was cut off by a killed run is dropped.
    """

    def __init__(self, visible: Visible, path: Path, *, configuration: dict) -> None:
        self._visible = visible
        self._path = path
        self._known: dict[tuple[str, str, int], ViewPoints] = {}
        header = json.dumps({"configuration": configuration}, sort_keys=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if not whole or whole[0] != header + "\n":
            whole = [header + "\n"]
        for line in whole[1:]:
            entry = json.loads(line)
            for key, poses in entry["objects"].items():
                self._known[entry["house"], entry["generator"], int(key)] = _poses(poses)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(whole))

    def __call__(self, house: House, objects: Sequence[int]) -> list[ViewPoints]:
        keys = [(house.id, house.generator, i) for i in objects]
        if missing := [i for i, key in zip(objects, keys) if key not in self._known]:
            found = dict(zip(missing, self._visible(house, missing), strict=True))
            entry = {"house": house.id, "generator": house.generator, "objects": {str(i): p for i, p in found.items()}}
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            self._known.update({(house.id, house.generator, i): poses for i, poses in found.items()})
        return [self._known[key] for key in keys]

    def forget(self) -> None:
        """Removes the file, once the questions are written."""
        self._path.unlink(missing_ok=True)


def _poses(entry: list | None) -> ViewPoints:
    return None if entry is None else tuple(tuple(pose) for pose in entry)
