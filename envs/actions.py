"""The four primitive actions of EmbodiedQA and what they do to a pose.

The ids are those of EQA v1's path files and of the MP3D-EQA data set (forward, left, right, stop), so that imported
walks need no translation. Step and turn are the paper's (Das et al. 2018, Sec. 4).
"""

import math
from enum import IntEnum


class Action(IntEnum):
    FORWARD = 0
    LEFT = 1
    RIGHT = 2
    STOP = 3


NUM_ACTIONS = len(Action)
LETTERS = "FLRS"  # an action's letter is at its id: walks as text, see `envs.episode`
STEP_M = 0.25
NUM_HEADINGS = 40
TURN_RAD = 2 * math.pi / NUM_HEADINGS
MAX_EPISODE_ACTIONS = 100
