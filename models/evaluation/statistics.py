"""Bootstrap intervals of many columns of numbers at once, and of the differences between columns.

A column holds one number for each question and each seed of training, for instance the final distance to the target.
The estimate of a column is a ratio of sums, sum(numerators) / sum(denominators); with denominators of 1 it is the mean.

Each resample draws whole houses, because questions of one house go right and wrong together. It also draws whole seeds,
because another training gives other numbers (cluster bootstrap in two stages; Davison & Hinkley 1997, Sec. 3.8). Every
column sees the same draws, so that the difference of two columns within each draw is the paired difference. Its
interval is narrower than the two columns' own if the same questions are hard for both.

Three seeds say little about the spread between trainings. Intervals over them cover the truth somewhat less often than
95 % if trainings differ much, and more often if they do not (`tests/models/evaluation/test_statistics.py` simulates
both). A single seed says nothing about the spread: its interval is about houses alone.

NaN marks unknown values of a column; a question of a seed counts if numerator and denominator are known.

Axes: S seeds, Q questions, C houses, K columns, R resamples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64


@dataclass(frozen=True, slots=True)
class Estimates:
    """Ratio of each column over all seeds and questions, the ends of its interval, and the number of questions.

    A question counts if it is known; NaN if none counts.
    """

    value: Float64[np.ndarray, " K"]
    low: Float64[np.ndarray, " K"]
    high: Float64[np.ndarray, " K"]
    questions: Int64[np.ndarray, " K"]


@dataclass(frozen=True, slots=True)
class Columns:
    """Numerators and denominators of each seed, question and column."""

    above: Float64[np.ndarray, "S Q K"]
    below: Float64[np.ndarray, "S Q K"]

    @property
    def known(self) -> Bool[np.ndarray, "S Q K"]:
        return ~(np.isnan(self.above) | np.isnan(self.below))


def draws(number: int, *, resamples: int = 2000, seed: int = 0) -> Float64[np.ndarray, "R C"]:
    """Number of times that each of `number` houses is drawn in each resample.

    The draws are those of `envs.metrics.bootstrap_interval` with this seed.
    """
    if number < 1 or resamples < 1:
        raise ValueError(f"expected at least 1 to draw from and 1 resample, got {number} and {resamples}")
    drawn = np.random.default_rng(seed).integers(number, size=(resamples, number))
    drawn += number * np.arange(resamples)[:, None]
    times = np.bincount(drawn.ravel(), minlength=resamples * number)
    return times.reshape(resamples, number).astype(np.float64)


class Bootstrap:
    """The draws over one set of questions, for any number of columns.

    `houses` names the house of each question. The same houses, seed and columns give the same intervals.
    """

    def __init__(
        self, houses: Sequence[str], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> None:
        names, self._house = np.unique(np.asarray(houses, dtype=str), return_inverse=True)
        self._times = draws(len(names), resamples=resamples, seed=seed)
        self._ends = ((1 - confidence) / 2, (1 + confidence) / 2)
        self._seed = seed + 1  # draws of seeds must not follow those of houses

    def estimates(self, columns: Columns) -> Estimates:
        """Each column's ratio with its interval."""
        known = columns.known
        ratio, drawn = self._ratios(columns, known)
        return Estimates(ratio, *self._interval(drawn), known.any(axis=0).sum(axis=0))

    def differences(self, columns: Columns, others: Columns) -> Estimates:
        """The ratio of each column minus that of its counterpart, over the seeds and questions that both know."""
        both = columns.known & others.known
        ratio, drawn = self._ratios(columns, both)
        other_ratio, other_drawn = self._ratios(others, both)
        return Estimates(ratio - other_ratio, *self._interval(drawn - other_drawn), both.any(axis=0).sum(axis=0))

    def _ratios(self, columns: Columns, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ratios (K,) over all seeds and questions, and (R, K) over each resample; NaN if no question counts."""
        seeds, questions, _ = known.shape
        if questions != len(self._house):
            raise ValueError(f"columns: expected {len(self._house)} questions, got {questions}")
        chosen = draws(seeds, resamples=len(self._times), seed=self._seed) if seeds > 1 else np.ones((1, 1))
        sums, drawn = [], []
        for values in (columns.above, columns.below):
            of_house = np.zeros((seeds, self._times.shape[1], values.shape[2]))
            np.add.at(of_house, (slice(None), self._house), np.where(known, values, 0.0))
            sums.append(of_house.sum(axis=(0, 1)))
            drawn.append(sum(chosen[:, s, None] * (self._times @ of_house[s]) for s in range(seeds)))
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums[0] / sums[1], drawn[0] / drawn[1]

    def _interval(self, drawn: np.ndarray) -> np.ndarray:
        """(2, K) percentiles of (R, K)."""
        ends = np.quantile(drawn, self._ends, axis=0)
        partly = np.isnan(drawn).any(axis=0) & ~np.isnan(drawn).all(axis=0)
        if partly.any():
            ends[:, partly] = np.nanquantile(drawn[:, partly], self._ends, axis=0)
        return ends


def ratios_of_seeds(columns: Columns, others: Columns | None = None) -> Float64[np.ndarray, "S K"]:
    """Each seed's own ratio, or difference of ratios over the values that both know; NaN if none counts."""
    if others is not None:
        known = columns.known & others.known
        return _ratios_of_seeds(columns, known) - _ratios_of_seeds(others, known)
    return _ratios_of_seeds(columns, columns.known)


def _ratios_of_seeds(columns: Columns, known: np.ndarray) -> np.ndarray:
    above, below = (np.where(known, values, 0.0).sum(axis=1) for values in (columns.above, columns.below))
    with np.errstate(invalid="ignore", divide="ignore"):
        return above / below
