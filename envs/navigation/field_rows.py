"""`FieldRows`: the rows of an array that distance fields are kept in, by scene and goal; the longest unused make way.

Axes: R rows.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from jaxtyping import Float32

from eqa.envs.simulator import Goal

Key = tuple[int, Goal]  # index of a scene, and a goal in it


class FieldRows:
    """Fields that several agents share, in the rows of an array that compiled loops read."""

    def __init__(self, fields: Float32[np.ndarray, "R ..."]) -> None:
        self.fields = fields
        self._row_of: dict[Key, int] = {}  # least recently used first

    def rows(
        self, wanted: Sequence[Key], *, pinned: Collection[int], compute: Callable[[list[Key]], Iterable[np.ndarray]]
    ) -> list[int]:
        """Rows of the wanted fields. `compute` gives missing ones, before anything changes; `pinned` rows stay."""
        distinct, pinned = list(dict.fromkeys(wanted)), set(pinned)
        missing = [key for key in distinct if key not in self._row_of]
        computed = list(compute(missing))
        for key in distinct:
            if key in self._row_of:
                self._row_of[key] = self._row_of.pop(key)
                pinned.add(self._row_of[key])
        used = set(self._row_of.values())
        unused = [row for row in range(len(self.fields)) if row not in used]
        unused += [row for row in self._row_of.values() if row not in pinned]
        owner = {row: key for key, row in self._row_of.items()}
        for key, values, row in zip(missing, computed, unused, strict=False):
            self._row_of.pop(owner.get(row), None)
            self.fields[row, : len(values)] = values
            self._row_of[key] = row
        return [self._row_of[key] for key in wanted]
