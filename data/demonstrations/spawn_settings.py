"""Spawn settings of evaluation: where a question is spawned, and whether the walk up to there is known.

    T-10, T-30, T-50        the protocol of Das et al. (2018, Sec. 5): so many actions before the end of the shortest walk,
                            STOP included, with the walk before it as history
    T-10 random heading, ... the same place, looking anywhere and without history, where walking straight on and copying
                            the last action stop being good policies
    random                  anywhere within 14 m of the goal, no history (`Episode.spawns`)

A question counts in a setting if its walk is long enough, whoever plays: every line of a table is a mean over the same
questions.
"""

import re
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from eqa.data.demonstrations.storage import Demonstrations
from eqa.envs.actions import NUM_HEADINGS
from eqa.envs.episode import Pose
from eqa.envs.navigation.floor import HEADINGS_RAD

BACK = (10, 30, 50)
RANDOM_HEADING = " random heading"
RANDOM = "random"
SPAWN_SETTINGS = (*(f"T-{k}" for k in BACK), *(f"T-{k}{RANDOM_HEADING}" for k in BACK), RANDOM)


@dataclass(frozen=True, slots=True)
class SpawnPoint:
    """Where one question begins in one spawn setting."""

    setting: str
    row: int  # episode of the demonstrations
    pose: Pose
    known: int  # actions of the demonstration that lie before the spawn and are known, 0 without history
    left: int | None  # its actions that are left, None where the spawn is not on it


def spawn_point(demos: Demonstrations, row: int, setting: str) -> SpawnPoint | None:
    """Question `row` in a spawn setting; None where it does not count. ValueError for what is no setting."""
    episode, length = demos.episodes[row], int(demos.lengths[row])
    if setting == RANDOM:
        spawn = (episode.spawns or {}).get(RANDOM)
        return None if spawn is None else SpawnPoint(setting, row, spawn.pose, 0, None)
    named = re.fullmatch(rf"T-(\d+)({RANDOM_HEADING})?", setting)
    if named is None or int(named[1]) < 1:
        raise ValueError(f"spawn setting: expected one of {SPAWN_SETTINGS}, got {setting!r}")
    left, looks_anywhere = int(named[1]), named[2] is not None
    if left > length:
        return None
    x, z, heading_rad = demos.poses[int(demos.offsets[row]) + length - left].tolist()
    if not looks_anywhere:
        return SpawnPoint(setting, row, (x, z, heading_rad), length - left, left)
    seed = f"{episode.episode_id} T-{left} turned"  # an older name of the setting, so that its headings stay
    rng = np.random.default_rng(crc32(seed.encode()))
    return SpawnPoint(setting, row, (x, z, float(HEADINGS_RAD[rng.integers(NUM_HEADINGS)])), 0, None)


def current_name(setting: str) -> str:
    """A spawn setting by today's name: files of older versions say "T-10 turned"."""
    return setting.removesuffix(" turned") + RANDOM_HEADING if setting.endswith(" turned") else setting
