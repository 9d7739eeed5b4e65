"""Metrics of EmbodiedQA (Das et al. 2018, Table 1) as pure functions over recorded walks.

A walk of k actions has k + 1 poses: the spawn and the pose after each action. Walks of a batch are padded to S poses;
padding never counts. Metrics come back per question, so that the caller chooses the questions of a mean.

Axes: N walks, S poses of the longest walk, P polygon corners, D the plan's two axes, A answers, V values.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Integer

from eqa.envs.actions import Action


def walk_metrics(
    distances_m: Float[np.ndarray, "N S"],
    in_target_room: Bool[np.ndarray, "N S"],
    actions: Int[np.ndarray, "N K"],
    num_actions: Int[np.ndarray, " N"],
    path_m: Float[np.ndarray, " N"],
) -> dict[str, Float64[np.ndarray, " N"]]:
    """Navigation metrics of each walk.

    `distances_m`: geodesic metres to the target at each pose. `in_target_room`: True for poses in the target's room.
    `path_m`: metres walked. S = K + 1, and the first `num_actions + 1` poses of a row count.

    - d_0, d_T: distance at the spawn and at the end; d_delta = d_0 - d_T; d_min the least on the way.
    - r_T, r_e: 1 for ending in the target's room, and for ever being there.
    - stop: 1 if the last action was STOP. ep_len: number of actions.
    - success: 1 if STOP was taken in the target's room.
    - spl: success times d_0 / max(path_m, d_0) (Anderson et al. 2018).

    ValueError for shapes that do not fit, and for an unknown distance within a walk.
    """
    _check_walks(distances_m, in_target_room, actions, num_actions, path_m)
    walk = np.arange(len(num_actions))
    counts = np.arange(distances_m.shape[1]) <= np.asarray(num_actions)[:, None]
    distances = np.where(counts, distances_m, np.inf).astype(np.float64)
    if not np.isfinite(distances[counts]).all():
        row = int(np.flatnonzero((counts & ~np.isfinite(distances)).any(axis=1))[0])
        raise ValueError(
            f"distances_m: expected metres at every pose of a walk, got {distances[row, counts[row]]} in row {row}"
        )
    last = np.where(np.asarray(num_actions) > 0, num_actions - 1, 0)
    stop = (actions[walk, last] == Action.STOP) & (num_actions > 0) if actions.shape[1] else np.zeros(len(walk), bool)
    d_0, d_T = distances[:, 0], distances[walk, num_actions]
    r_T = in_target_room[walk, num_actions]
    longer = np.maximum(path_m, d_0)
    return {
        "d_0": d_0,
        "d_T": d_T,
        "d_delta": d_0 - d_T,
        "d_min": distances.min(axis=1),
        "r_T": r_T.astype(np.float64),
        "r_e": (in_target_room & counts).any(axis=1).astype(np.float64),
        "stop": stop.astype(np.float64),
        "ep_len": np.asarray(num_actions, np.float64),
        "success": (stop & r_T).astype(np.float64),
        "spl": (stop & r_T) * np.divide(d_0, longer, out=np.ones(len(walk)), where=longer > 0),
    }


def _check_walks(distances_m, in_target_room, actions, num_actions, path_m):
    poses = (len(num_actions), actions.shape[1] + 1)
    for name, array, shape in (("distances_m", distances_m, poses), ("in_target_room", in_target_room, poses)):
        if array.shape != shape:
            raise ValueError(
                f"{name}: expected shape {shape}, one more pose than there are actions (record the pose after the last "
                f"action too), got {array.shape}"
            )
    for name, array in (("actions", actions), ("path_m", path_m)):
        if len(array) != len(num_actions):
            raise ValueError(f"{name}: expected {len(num_actions)} walks, got {len(array)}")
    if len(num_actions) and not (0 <= np.min(num_actions) and np.max(num_actions) <= actions.shape[1]):
        raise ValueError(
            f"num_actions: expected 0 to {actions.shape[1]}, got {np.min(num_actions)} to {np.max(num_actions)}"
        )


def navigation_errors(
    ends: Float[np.ndarray, "N 3"], targets: Float[np.ndarray, "N 3"]
) -> dict[str, Float64[np.ndarray, " N"]]:
    """CityEQA's navigation error of each walk, from the point (x, y, z) where it ends to its target's.

    - ne_m: metres in a straight line (Zhao et al. 2025, Sec. 4.1).
    - ne_l1_m: metres along X and along Z added up, without the height, as the released code measures.

    ValueError for other shapes, and for points that are not finite.
    """
    for name, points in (("ends", ends), ("targets", targets)):
        if points.shape != (len(ends), 3) or not np.isfinite(points).all():
            raise ValueError(f"{name}: expected ({len(ends)}, 3) finite metres, got {points.shape}: {points}")
    away = np.asarray(ends, np.float64) - targets
    return {"ne_m": np.linalg.norm(away, axis=1), "ne_l1_m": np.abs(away[:, [0, 2]]).sum(axis=1)}


LEAST_SHARE = 0.01  # of a view's pixels; a target that fills less is hardly seen


def target_shares(
    instance_id: Integer[np.ndarray, "N H W"], targets: Int[np.ndarray, " N"]
) -> Float64[np.ndarray, " N"]:
    """The share of each view's pixels that show its target: whether an agent looks at what it was asked about."""
    return (instance_id == targets[:, None, None]).mean(axis=(1, 2))


def inside_polygon(
    positions: Float[np.ndarray, "*B D"], polygon: Sequence[tuple[float, float]]
) -> Bool[np.ndarray, "*B"]:
    """True for each (x, z) inside a polygon with any number of corners (crossing rule); NaN is outside.

    ValueError for anything but two columns: a pose has four.
    """
    positions = np.asarray(positions)
    if positions.shape[-1] != 2:
        raise ValueError(f"positions: expected x and z on the last axis, got shape {positions.shape}")
    x, z = positions[..., 0], positions[..., 1]
    inside = np.zeros(x.shape, bool)
    for (xa, za), (xb, zb) in zip(polygon, [*polygon[1:], polygon[0]]):
        if za != zb:
            inside ^= ((za <= z) != (zb <= z)) & (x < xa + (z - za) * (xb - xa) / (zb - za))
    return inside


def answer_ranks(scores: Float[np.ndarray, "N A"], answers: Int[np.ndarray, " N"]) -> Float64[np.ndarray, " N"]:
    """Rank of the true answer, 1 the best. Equal scores share their middle rank.

    The released code counts only strictly greater scores, so a model that scores all answers alike looks perfect.
    ValueError for scores that are not numbers, and for answers that are none of the columns.
    """
    scores, answers = np.asarray(scores), np.asarray(answers)
    if scores.ndim != 2 or answers.shape != scores.shape[:1]:
        raise ValueError(f"scores: expected (questions, answers) beside {answers.shape} answers, got {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("scores: expected numbers, got NaN; the model has diverged")
    if len(answers) and not (0 <= answers.min() and answers.max() < scores.shape[1]):
        raise ValueError(f"answers: expected 0 to {scores.shape[1] - 1}, got {answers.min()} to {answers.max()}")
    own = scores[np.arange(len(answers)), answers][:, None]
    return 1.0 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2


def bootstrap_interval(
    values: Float[np.ndarray, " V"],
    groups: Int[np.ndarray, " V"] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979): the same values give the same interval.

    `groups` (for instance each question's house) draws whole groups, as questions of one house go right and wrong
    together. ValueError for no values, and for NaN: leave out invalid values beforehand.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise ValueError(
            f"values: expected one or more numbers, got shape {values.shape} with {np.isnan(values).sum()} NaN"
        )
    if groups is None:
        totals, sizes = values, np.ones(len(values))
    else:
        if len(groups) != len(values):
            raise ValueError(f"groups: expected one for each of {len(values)} values, got {len(groups)}")
        _, group = np.unique(groups, return_inverse=True)
        totals, sizes = np.bincount(group, values), np.bincount(group)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for first in range(0, resamples, 100):
        drawn = rng.integers(len(totals), size=(min(100, resamples - first), len(totals)))
        means[first : first + 100] = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def wilson_interval(right: float, num: int, *, z: float = 1.96) -> tuple[float, float]:
    """Interval of a share, `right` of `num` independent questions (Wilson 1927); of 95 % for the default `z`.

    Unlike a bootstrap interval, it has a width where all or none are right. ValueError for no questions.
    """
    if num < 1 or not 0 <= right <= num:
        raise ValueError(f"right: expected 0 to num of at least 1 question, got {right} of {num}")
    share = right / num
    middle = (share + z**2 / (2 * num)) / (1 + z**2 / num)
    half = z * sqrt(share * (1 - share) / num + z**2 / (4 * num**2)) / (1 + z**2 / num)
    return max(middle - half, 0.0), min(middle + half, 1.0)
