"""Asks house by house from where answers can be seen, and remembers the answers in a file while a set is being made.

Looking means rendering, which is the slow part of making questions, so a killed run continues from the last house.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from envs.episode import Pose
from envs.house.house import House

ViewPoints = tuple[Pose, ...] | None

# From a house and targets to the poses from which each target can be seen, best first, None for what cannot be seen. A
# target is the ids of objects to be seen in one view, the one to look at first.
Target = tuple[int, ...]
Visible = Callable[[House, Sequence[Target]], Sequence[ViewPoints]]


class RememberedVisibility:
    """A `Visible` that appends every house's answer to `path` and does not ask again for what stands there.

    `configuration` is what answers depend on besides the house; a file of another one is started anew. A last line that
    was cut off by a killed run is dropped.
    """

    def __init__(self, visible: Visible, path: Path, *, configuration: dict) -> None:
        self._visible = visible
        self._path = path
        self._known: dict[tuple[str, str, Target], ViewPoints] = {}
        header = json.dumps({"configuration": configuration}, sort_keys=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if not whole or whole[0] != header + "\n":
            whole = [header + "\n"]
        for line in whole[1:]:
            entry = json.loads(line)
            for target, poses in entry["seen"]:
                self._known[entry["house"], entry["generator"], tuple(target)] = _poses(poses)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(whole))

    def __call__(self, house: House, targets: Sequence[Target]) -> list[ViewPoints]:
        keys = [(house.id, house.generator, target) for target in targets]
        if missing := [key for key in keys if key not in self._known]:
            found = self._visible(house, [target for _, _, target in missing])
            seen = list(zip([target for _, _, target in missing], found, strict=True))
            with self._path.open("a") as file:
                file.write(json.dumps({"house": house.id, "generator": house.generator, "seen": seen}) + "\n")
            self._known.update(zip(missing, found))
        return [self._known[key] for key in keys]

    def forget(self) -> None:
        """Removes the file, once the questions are written."""
        self._path.unlink(missing_ok=True)


def _poses(entry: list | None) -> ViewPoints:
    return None if entry is None else tuple(tuple(pose) for pose in entry)
