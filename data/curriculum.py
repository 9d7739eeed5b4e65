"""Which part of a demonstration counts in which epoch, and which demonstrations share a batch.

The distance curriculum of Das et al. (2018, Sec. 5): imitation starts with spawns 10 actions from the target and moves
them 10 further back each epoch. The walk before the spawn is always given as history.
"""

import numpy as np
from jaxtyping import Int


def first_counted_action(
    lengths: Int[np.ndarray, " E"], epoch: int, *, start: int, step: int | None
) -> Int[np.ndarray, " E"]:
    """Index of the first action whose loss counts: the last `start + step * epoch` actions do, STOP included.

    `step=None` switches the curriculum off: every action counts from the first epoch.
    """
    if step is None:
        return np.zeros_like(lengths)
    return np.maximum(lengths - (start + step * epoch), 0)


def length_batches(
    lengths: Int[np.ndarray, " E"], batch_size: int, *, rng: np.random.Generator, window: int = 32
) -> list[Int[np.ndarray, " B"]]:
    """Episode numbers in shuffled batches of similar length, so that little of a padded batch is padding.

    Episodes are shuffled, cut into windows of `window` batches, sorted by length inside a window, and the batches are
    shuffled again. Every episode occurs once.
    """
    order = rng.permutation(len(lengths))
    batches = []
    for begin in range(0, len(order), window * batch_size):
        chunk = order[begin : begin + window * batch_size]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches += [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]
