"""Rows of distance fields: shared by equal goals, kept while an agent needs them, unchanged by a goal that fails."""

import numpy as np
import pytest

from eqa.envs.navigation.field_rows import FieldRows, Key
from eqa.envs.simulator import Goal

KEYS = [(k, Goal(((float(k), 0.0, 0.0, 0.0),), 0.2)) for k in range(5)]


def of(missing: list[Key]) -> list[np.ndarray]:
    return [np.full(3, key[0], np.float32) for key in missing]


def test_equal_goals_share_a_row_and_the_longest_unused_makes_way() -> None:
    kept, asked = FieldRows(np.zeros((3, 4), np.float32)), []

    def compute(missing: list[Key]) -> list[np.ndarray]:
        asked.append([key[0] for key in missing])
        return of(missing)

    a, b, again = kept.rows([KEYS[0], KEYS[1], KEYS[0]], pinned=[], compute=compute)
    (c,) = kept.rows([KEYS[2]], pinned=[], compute=compute)
    assert again == a and len({a, b, c}) == 3 and kept.fields[b].tolist() == [1, 1, 1, 0]
    assert kept.rows([KEYS[0]], pinned=[], compute=compute) == [a]  # used again: the second is the oldest now
    assert kept.rows([KEYS[3]], pinned=[], compute=compute) == [b] and kept.fields[b, 0] == 3
    assert kept.rows([KEYS[1]], pinned=[c], compute=compute) == [a]  # the third is older, but an agent has it
    assert asked == [[0, 1], [2], [], [3], [1]]


def test_a_goal_that_cannot_be_computed_changes_nothing() -> None:
    kept = FieldRows(np.zeros((1, 3), np.float32))
    (row,) = kept.rows([KEYS[4]], pinned=[], compute=of)

    def fail(missing: list[Key]) -> list[np.ndarray]:
        raise ValueError("unreachable")

    with pytest.raises(ValueError, match="unreachable"):
        kept.rows([KEYS[1]], pinned=[], compute=fail)
    assert kept.rows([KEYS[4]], pinned=[], compute=of) == [row] and kept.fields[0, 0] == 4
