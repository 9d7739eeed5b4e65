"""Spawn settings of evaluation: the spawn of a question, and whether the walk before it is given as history.

    T-10, T-30, T-50        the protocol of Das et al. (2018, Sec. 5): so many actions before the shortest walk's end,
                            STOP included, with the walk before it as history
    T-10 random heading, ... the same place, with a random heading and without history, so that walking straight on and
                            repeating the last action are no good policies any more
    random                  anywhere within 14 m of the goal, no history (`Episode.spawns`)
    start                   where the question's walk begins, CityEQA's initial pose; no history

Houses are played from the paper's spawns. Walks in a city take fewer and longer steps: there it is T-5, T-10 and start.
A question counts in a setting if its walk is long enough, for every agent. So every line of a table is a mean over
the same questions.
"""

import re
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from eqa.data.demonstrations.storage import Demonstrations
from eqa.envs.actions import ActionSet
from eqa.envs.episode import Pose

BACK = (10, 30, 50)
RANDOM_HEADING = " random heading"
RANDOM = "random"
WITH_HISTORY = tuple(f"T-{k}" for k in BACK)  # those of the paper
SPAWN_SETTINGS = (*WITH_HISTORY, *(f"T-{k}{RANDOM_HEADING}" for k in BACK), RANDOM)
START = "start"
CITY_BACK = (5, 10)


@dataclass(frozen=True, slots=True)
class SpawnSettings:
    """Settings that a source's questions are played in, the nearest spawns first."""

    main: tuple[str, ...]
    all: tuple[str, ...]
    shown: str  # of the walks in plans and films

    @property
    def validated(self) -> tuple[str, ...]:
        """Those in which reinforcement learning is validated."""
        return self.main[:2]


HOUSE_SPAWNS = SpawnSettings(WITH_HISTORY, SPAWN_SETTINGS, "T-30")
CITY_SPAWNS = SpawnSettings(
    main=(*(f"T-{k}" for k in CITY_BACK), START),
    all=(*(f"T-{k}" for k in CITY_BACK), START, *(f"T-{k}{RANDOM_HEADING}" for k in CITY_BACK)),
    shown=START,
)


@dataclass(frozen=True, slots=True)
class SpawnPoint:
    """The spawn of one question in one spawn setting."""

    setting: str
    row: int  # episode of the demonstrations
    pose: Pose
    known: int  # actions of the demonstration before the spawn that are given as history, 0 without history
    left: int | None  # its remaining actions, None for a spawn off the demonstration


def spawn_point(demos: Demonstrations, row: int, setting: str, actions: ActionSet) -> SpawnPoint | None:
    """Question `row` in a spawn setting of a world with these actions; None if it does not count.

    ValueError for an unknown setting."""
    episode, length = demos.episodes[row], int(demos.lengths[row])
    if setting == RANDOM:
        spawn = (episode.spawns or {}).get(RANDOM)
        return None if spawn is None else SpawnPoint(setting, row, spawn.pose, 0, None)
    if setting == START:
        return SpawnPoint(setting, row, tuple(demos.poses[int(demos.offsets[row])].tolist()), 0, length)
    named = re.fullmatch(rf"T-(\d+)({RANDOM_HEADING})?", setting)
    if named is None or int(named[1]) < 1:
        raise ValueError(f"spawn setting: expected one of {(*SPAWN_SETTINGS, START)}, got {setting!r}")
    left, looks_anywhere = int(named[1]), named[2] is not None
    if left > length:
        return None
    *place, heading_rad = demos.poses[int(demos.offsets[row]) + length - left].tolist()
    if not looks_anywhere:
        return SpawnPoint(setting, row, (*place, heading_rad), length - left, left)
    seed = f"{episode.episode_id} T-{left} turned"  # an older name of the setting, which keeps its headings the same
    rng = np.random.default_rng(crc32(seed.encode()))
    heading_rad = float(actions.headings_rad[rng.integers(actions.num_headings)])
    return SpawnPoint(setting, row, (*place, heading_rad), 0, None)


def current_name(setting: str) -> str:
    """A spawn setting under today's name: files of older versions say "T-10 turned"."""
    return setting.removesuffix(" turned") + RANDOM_HEADING if setting.endswith(" turned") else setting
