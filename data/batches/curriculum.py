"""Curriculum and weights: the actions that count in each epoch, their weights, and batches of similar length.

The distance curriculum is that of Das et al. (2018, Sec. 5). Imitation starts with spawns 10 actions from the target
and moves them 10 further back each epoch. The walk before the spawn is always given as history.

Inflection weighting follows Wijmans et al. 2019, "Embodied Question Answering in Photorealistic Environments with Point
Cloud Perception". Repeating the last action is right most of the time, so the actions that differ from it count more.

Axes: S actions of all walks end to end, E episodes, E1 one more, B batch.
"""

import numpy as np
from jaxtyping import Bool, Float32, Int


def first_counted_action(
    lengths: Int[np.ndarray, " E"], epoch: int, *, start: int, step: int | None
) -> Int[np.ndarray, " E"]:
    """Index of the first action whose loss counts: the last `start + step * epoch` actions do, STOP included.

    `step=None` switches the curriculum off: every action counts from the first epoch.
    """
    if step is None:
        return np.zeros_like(lengths)
    return np.maximum(lengths - (start + step * epoch), 0)


def inflections(actions: Int[np.ndarray, " S"], offsets: Int[np.ndarray, " E1"]) -> Bool[np.ndarray, " S"]:
    """True for a walk's first action, and those unlike the one before. Walk i is `offsets[i]:offsets[i + 1]`."""
    differs = np.ones(len(actions), bool)
    differs[1:] = actions[1:] != actions[:-1]
    differs[offsets[:-1]] = True
    return differs


def inflection_weights(differs: Bool[np.ndarray, " S"], *, of: Bool[np.ndarray, " S2"]) -> Float32[np.ndarray, " S"]:
    """Weights of actions: one that differs counts (number of actions) / (number that differ) times as much as another.

    The statistics are those `of` the training walks; over their actions the weights' mean is 1.
    """
    ratio = len(of) / of.sum()
    return (np.where(differs, ratio, 1.0) / np.where(of, ratio, 1.0).mean()).astype(np.float32)


def length_batches(
    lengths: Int[np.ndarray, " E"], batch_size: int, *, rng: np.random.Generator, window: int = 32
) -> list[Int[np.ndarray, " B"]]:
    """Episode numbers in shuffled batches of similar length, so that batches need little padding.

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
