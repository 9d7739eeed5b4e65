"""Numbers on command lines: what cannot be is refused before anything is done."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable

from eqa.envs.shards import Shard


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A `type` of argparse's: a whole number from `least` on, or up to `most`."""
    bounds = f"from {least} on" if most is None else f"from {least} to {most}"

    def read(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            value = None
        if value is None or value < least or (most is not None and value > most):
            raise ArgumentTypeError(f"expected a whole number {bounds}, got {word!r}")
        return value

    return read


def positive(word: str) -> float:
    """A `type` of argparse's: a finite number above 0."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"expected a number above 0, got {word!r}")
    return value


def part(word: str) -> Shard:
    """A `type` of argparse's: a shard as 3/8."""
    try:
        return Shard.parse(word)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
