"""`Dice`: every random choice of the house generator, drawn from one stream of uniform numbers.

Only `Generator.random()` is used, and plain arithmetic turns its results into choices. So a house does not depend on a
NumPy version's `choice` or `shuffle`.
"""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """Random choices from one seed sequence, for example `Dice([seed, split_number, index])`."""

    def __init__(self, entropy: Sequence[int]) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(entropy))))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * float(self._generator.random())

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int((high - low + 1) * float(self._generator.random()))

    def chance(self, probability: float) -> bool:
        return float(self._generator.random()) < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(len(options) * float(self._generator.random()))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """A key of `weights`, in proportion to its weight. The mapping's order counts, so it must not be a set."""
        mark = float(self._generator.random()) * fsum(weights.values())
        for key, weight in weights.items():
            mark -= weight
            if mark < 0:
                return key
        return key

    def shuffled(self, items: Sequence[T]) -> list[T]:
        keyed = [(float(self._generator.random()), place) for place in range(len(items))]
        return [items[place] for _, place in sorted(keyed)]
