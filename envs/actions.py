"""`ActionSet`: the primitive actions of a world, and what they do to a pose.

The first four are EmbodiedQA's, with the ids of EQA v1's path files and of MP3D-EQA (forward, left, right, stop). So
imported walks need no translation. A world may add others after them.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

PADDED_ACTION = -1  # fills a batch of walks after the end of the shorter ones


class Action(IntEnum):
    """Ids of the actions that every world has."""

    FORWARD = 0
    LEFT = 1
    RIGHT = 2
    STOP = 3


LETTERS = "FLRSUD"  # letters of the actions by id: walks as text, see `envs.episode`
_COMMON = tuple(action.name.lower() for action in Action)


@dataclass(frozen=True, slots=True)
class ActionSet:
    """Names by id, sizes of the moves, and the largest number of actions of an episode.

    ValueError for names that do not begin with those of `Action`, and for moves of no size.
    """

    names: tuple[str, ...] = _COMMON
    step_m: float = 0.25
    turn_rad: float = 2 * math.pi / 40
    climb_m: float = 0.0  # of "up" and "down", if there are any
    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.names[: len(_COMMON)] != _COMMON or len(set(self.names)) != len(self.names):
            raise ValueError(f"names: expected {_COMMON}, then others, each once, got {self.names}")
        if not self.step_m > 0 or not 0 < self.turn_rad < 2 * math.pi or self.climb_m < 0:
            raise ValueError(
                f"actions: expected step_m above 0, turn_rad from 0 to 2 pi and climb_m of at least 0, got {self.step_m}, "
                f"{self.turn_rad} and {self.climb_m}"
            )
        if self.max_steps < 1:
            raise ValueError(f"max_steps: expected at least 1, got {self.max_steps}")

    def __len__(self) -> int:
        return len(self.names)


HOUSE_ACTIONS = (
    ActionSet()
)  # step and turn are the paper's (Das et al. 2018, Sec. 4), 100 actions an episode too (Sec. 5)
NUM_ACTIONS = len(HOUSE_ACTIONS)
STEP_M = HOUSE_ACTIONS.step_m
NUM_HEADINGS = 40
TURN_RAD = HOUSE_ACTIONS.turn_rad
MAX_EPISODE_ACTIONS = HOUSE_ACTIONS.max_steps
