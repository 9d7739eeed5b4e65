"""Bootstrap intervals of many columns of numbers at once, and of the differences between columns.

A column holds one number for each question, for instance how far each question's walk ended from its target. What is
estimated of a column is a ratio of sums, sum(numerators) / sum(denominators): with denominators of 1 it is the mean. Whole
houses are drawn (cluster bootstrap; Efron & Tibshirani 1993, Sec. 8), because questions of one house go right and wrong
together, and every column sees the same draws: the difference of two columns within each draw is the paired difference,
whose interval is narrower than the two columns' own where the same questions are hard for both.

NaN is what a column does not know; a question counts where numerator and denominator are known.

Axes: Q questions, C houses, K columns, P pairs of columns, R resamples, S seeds.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, Int64


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of each column: the ratio over all questions, the ends of its interval, and how many questions count.

    NaN where no question counts.
    """

    value: Float64[np.ndarray, " K"]
    low: Float64[np.ndarray, " K"]
    high: Float64[np.ndarray, " K"]
    questions: Int64[np.ndarray, " K"]


def house_draws(num_houses: int, *, resamples: int = 2000, seed: int = 0) -> Float64[np.ndarray, "R C"]:
    """How often each house is drawn in each resample: the draws of `envs.metrics.bootstrap_interval` with this seed."""
    if num_houses < 1 or resamples < 1:
        raise ValueError(f"expected at least 1 house and 1 resample, got {num_houses} and {resamples}")
    drawn = np.random.default_rng(seed).integers(num_houses, size=(resamples, num_houses))
    drawn += num_houses * np.arange(resamples)[:, None]
    times = np.bincount(drawn.ravel(), minlength=resamples * num_houses)
    return times.reshape(resamples, num_houses).astype(np.float64)


class Bootstrap:
    """The draws over one set of questions, for as many columns as one likes.

    `houses` names the house of each question. The same houses, seed and columns give the same intervals.
    """

    def __init__(
        self, houses: Sequence[str], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> None:
        names, self._house = np.unique(np.asarray(houses, dtype=str), return_inverse=True)
        self._times = house_draws(len(names), resamples=resamples, seed=seed)
        self._ends = ((1 - confidence) / 2, (1 + confidence) / 2)

    def estimates(self, numerators: Float64[np.ndarray, "Q K"], denominators: Float64[np.ndarray, "Q K"]) -> Estimates:
        """Each column's ratio with its interval."""
        known = self._known(numerators, denominators)
        ratio, drawn = self._ratios(numerators, denominators, known)
        return Estimates(ratio, *self._interval(drawn), known.sum(axis=0))

    def differences(
        self,
        numerators: Float64[np.ndarray, "Q K"],
        denominators: Float64[np.ndarray, "Q K"],
        pairs: Int[np.ndarray, "P 2"],
    ) -> Estimates:
        """The ratio of each pair's first column minus that of its second, over the questions that both know."""
        known = self._known(numerators, denominators)
        first, second = pairs.T
        both = known[:, first] & known[:, second]
        ratio, drawn = self._ratios(numerators[:, first], denominators[:, first], both)
        other_ratio, other_drawn = self._ratios(numerators[:, second], denominators[:, second], both)
        return Estimates(ratio - other_ratio, *self._interval(drawn - other_drawn), both.sum(axis=0))

    def _known(self, numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
        if len(numerators) != len(self._house):
            raise ValueError(f"numerators: expected {len(self._house)} questions, got {len(numerators)}")
        return ~(np.isnan(numerators) | np.isnan(denominators))

    def _ratios(self, numerators: np.ndarray, denominators: np.ndarray, known: np.ndarray) -> tuple:
        """(K,) over all questions, (R, K) over each resample; NaN where nothing that counts was drawn."""
        sums = []
        for values in (numerators, denominators):
            of_house = np.zeros((self._times.shape[1], values.shape[1]))
            np.add.at(of_house, self._house, np.where(known, values, 0.0))
            sums.append(of_house)
        above, below = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return above.sum(axis=0) / below.sum(axis=0), (self._times @ above) / (self._times @ below)

    def _interval(self, drawn: np.ndarray) -> np.ndarray:
        """(2, K) percentiles of (R, K)."""
        ends = np.quantile(drawn, self._ends, axis=0)
        partly = np.isnan(drawn).any(axis=0) & ~np.isnan(drawn).all(axis=0)
        if partly.any():
            ends[:, partly] = np.nanquantile(drawn[:, partly], self._ends, axis=0)
        return ends


def over_seeds(values: Float64[np.ndarray, "S Q"]) -> Float64[np.ndarray, " Q"]:
    """Each question's mean over the seeds that know it; NaN where none does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        return np.nanmean(values, axis=0)


def deviation_of_seeds(numerators: Float64[np.ndarray, "S Q"], denominators: Float64[np.ndarray, "S Q"]) -> float:
    """Standard deviation (of a sample) between the seeds' ratios; NaN for a single seed, or where one has no question."""
    if len(numerators) < 2:
        return float("nan")
    known = ~(np.isnan(numerators) | np.isnan(denominators))
    with np.errstate(invalid="ignore", divide="ignore"):
        above, below = (np.where(known, values, 0.0).sum(axis=1) for values in (numerators, denominators))
        return float((above / below).std(ddof=1))
