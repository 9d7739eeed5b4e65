"""Which walks are alike, so that little of a padded batch is padding, and which part of a batch is whose.

Axes: S actions of all walks end to end, E walks, E1 one more.
"""

import numpy as np
from jaxtyping import Int

DECISION_FRAMES = 4  # the frames whose padding is as bad as that of one decision


def num_decisions(
    actions: Int[np.ndarray, " S"], offsets: Int[np.ndarray, " E1"], *, longest: int = 5
) -> Int[np.ndarray, " E"]:
    """How often each walk's action is chosen, when it is chosen at each change and after `longest` repetitions."""
    first = np.ones(len(actions), bool)
    first[1:] = actions[1:] != actions[:-1]
    first[offsets[:-1]] = True
    steps = np.arange(len(actions))
    chosen = (steps - np.maximum.accumulate(np.where(first, steps, 0))) % longest == 0
    return np.diff(np.concatenate([[0], np.cumsum(chosen)])[offsets])


def walk_sizes(actions: Int[np.ndarray, " S"], offsets: Int[np.ndarray, " E1"]) -> Int[np.ndarray, " E"]:
    """What to sort walks by. A batch is padded twice, to its most frames and to its most planner decisions, which go
    together only roughly; sorted by this, little of either is padding (`python scripts/bench.py learn` prints how much).
    """
    return np.diff(offsets) + DECISION_FRAMES * num_decisions(actions, offsets)


def own_parts(batches: list[np.ndarray], rank: int, num_processes: int) -> list[list[int]]:
    """Of each batch every `num_processes`-th item, from `rank` on; empty where a batch has too few for all."""
    return [batch[rank::num_processes].tolist() for batch in batches]
