"""Sort keys that put similar walks in a batch, so that it needs little padding, and each process's part of a batch.

Axes: S actions of all walks end to end, E walks, E1 one more.
"""

import numpy as np
from jaxtyping import Int

DECISION_FRAMES = 4  # number of frames whose padding costs as much as that of one decision


def num_decisions(
    actions: Int[np.ndarray, " S"], offsets: Int[np.ndarray, " E1"], *, longest: int = 5
) -> Int[np.ndarray, " E"]:
    """Number of decisions in each walk, if one is made at each change of action and after `longest` repetitions."""
    first = np.ones(len(actions), bool)
    first[1:] = actions[1:] != actions[:-1]
    first[offsets[:-1]] = True
    steps = np.arange(len(actions))
    chosen = (steps - np.maximum.accumulate(np.where(first, steps, 0))) % longest == 0
    return np.diff(np.concatenate([[0], np.cumsum(chosen)])[offsets])


def walk_sizes(actions: Int[np.ndarray, " S"], offsets: Int[np.ndarray, " E1"]) -> Int[np.ndarray, " E"]:
    """Keys to sort walks by.

    A batch is padded twice, to its most frames and to its most planner decisions, which are only roughly proportional.
    Sorting by this key keeps both paddings small; `python scripts/bench.py learn` prints their shares.
    """
    return np.diff(offsets) + DECISION_FRAMES * num_decisions(actions, offsets)


def own_parts(batches: list[np.ndarray], rank: int, num_processes: int) -> list[list[int]]:
    """Every `num_processes`-th item of each batch, from `rank` on; empty if a batch has too few for all."""
    return [batch[rank::num_processes].tolist() for batch in batches]
