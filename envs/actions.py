"""`ActionSet`: the primitive actions of a world, and what they do to a pose.

The first four are EmbodiedQA's, with the ids of EQA v1's path files and of MP3D-EQA (forward, left, right, stop). So
imported walks need no translation. A world may add "up" and "down" after them.

Axes: N poses, H headings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

PADDED_ACTION = -1  # fills a batch of walks after the end of the shorter ones


class Action(IntEnum):
    """Ids of the actions that every world has."""

    FORWARD = 0
    LEFT = 1
    RIGHT = 2
    STOP = 3


LETTERS = "FLRSUD"  # letters of the actions by id: walks as text, see `envs.episode`
_COMMON = tuple(action.name.lower() for action in Action)
CLIMBS = ("up", "down")


@dataclass(frozen=True)
class ActionSet:
    """Names by id, sizes of the moves, and the largest number of actions of an episode.

    Headings are whole multiples of a turn, and a full circle is a whole number of turns. So headings never drift.
    ValueError for other names than those of `Action`, with or without "up" and "down", and for moves of no size.
    """

    names: Sequence[str] = _COMMON  # a tuple, whatever it was made from
    step_m: float = 0.25
    turn_rad: float = 2 * math.pi / 40
    climb_m: float = 0.0  # of "up" and "down", if there are any
    max_steps: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))  # YAML gives a list
        if self.names not in (_COMMON, _COMMON + CLIMBS):
            raise ValueError(f"names: expected {_COMMON}, and perhaps {CLIMBS} after them, got {self.names}")
        if not self.step_m > 0 or not 0 < self.turn_rad < 2 * math.pi or self.climb_m < 0:
            raise ValueError(
                f"actions: expected step_m above 0, turn_rad from 0 to 2 pi and climb_m of at least 0, got {self.step_m}, "
                f"{self.turn_rad} and {self.climb_m}"
            )
        if abs(self.num_headings * self.turn_rad - 2 * math.pi) > 1e-6:
            raise ValueError(f"turn_rad: expected a whole part of a circle, 2 pi / n, got {self.turn_rad}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps: expected at least 1, got {self.max_steps}")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def num_headings(self) -> int:
        return round(2 * math.pi / self.turn_rad)

    @cached_property
    def headings_rad(self) -> Float64[np.ndarray, " H"]:
        return np.arange(self.num_headings) * self.turn_rad

    @cached_property
    def step_x(self) -> Float64[np.ndarray, " H"]:
        """Metres along X of a forward move at each heading."""
        return _exact(-self.step_m * np.sin(self.headings_rad))

    @cached_property
    def step_z(self) -> Float64[np.ndarray, " H"]:
        """Metres along Z of a forward move at each heading."""
        return _exact(-self.step_m * np.cos(self.headings_rad))

    def climb(self, action: int) -> float:
        """Metres that an action goes up."""
        return {"up": self.climb_m, "down": -self.climb_m}.get(self.names[action], 0.0)

    def heading_indices(self, headings_rad: Float64[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
        """Headings as whole turns; ValueError for one that is not a multiple of a turn."""
        turns = np.asarray(headings_rad, np.float64) / self.turn_rad
        whole = np.rint(turns)
        wrong = ~(np.abs(turns - whole) < 1e-3)
        if wrong.any():
            raise ValueError(
                f"heading: expected a multiple of {self.turn_rad:.6f} rad ({math.degrees(self.turn_rad):g} degrees), got "
                f"{float(np.asarray(headings_rad)[wrong][0])!r}"
            )
        return whole.astype(np.int64) % self.num_headings


def _exact(metres: Float64[np.ndarray, " H"]) -> Float64[np.ndarray, " H"]:
    """Rounds steps, so that those along an axis do not leave it."""
    return np.where(np.abs(metres) < 1e-12, 0.0, np.round(metres, 15))


# Step and turn are the paper's (Das et al. 2018, Sec. 4), 100 actions an episode too (Sec. 5).
HOUSE_ACTIONS = ActionSet()
