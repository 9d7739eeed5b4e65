"""Batches for reinforcement learning: the questions of each batch, and the spawn of each walk.

A batch has some questions from a few houses (loading a house costs as much as a walk), each walked `samples` times from
the same spawn. The spawn lies on the question's shortest walk, a random number of actions before its end. The largest
distance grows with the epochs (Das et al. 2018, Sec. 5). All random numbers, those of the walks' draws included, are a
function of (seed, epoch, place in the epoch). So a walk depends neither on the others of its batch nor on the number of
processes.

Axes: M walks of a batch, K actions of the longest walk, L words, Q questions of an epoch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from eqa.data.demonstrations.spawn_settings import RANDOM_HEADING, SpawnPoint, spawn_point
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import ActionSet

NEAREST = 3  # smallest number of actions, STOP included, from a spawn to the end


@dataclass(frozen=True, slots=True)
class SpawnCurriculum:
    """Distances of spawns: in epoch e at most `start + step * e` actions before the end.

    The share `random_heading` of them has a random heading and no history (`data.demonstrations.spawn_settings`).
    """

    start: int
    step: int
    random_heading: float

    def __post_init__(self) -> None:
        if self.start < NEAREST or self.step < 0 or not 0 <= self.random_heading <= 1:
            raise ValueError(
                f"spawn: expected start >= {NEAREST}, step >= 0 and random_heading from 0 to 1, got {self}"
            )

    def draw_spawn(
        self, demos: Demonstrations, row: int, *, epoch: int, rng: np.random.Generator, actions: ActionSet
    ) -> SpawnPoint:
        farthest = min(int(demos.lengths[row]), self.start + self.step * epoch)
        left = int(rng.integers(min(NEAREST, farthest), farthest + 1))
        turned = RANDOM_HEADING if rng.random() < self.random_heading else ""
        return spawn_point(demos, row, f"T-{left}{turned}", actions)


class RLEpisodes(Dataset):
    """Walks to be made, M in a batch:

    - rows (M,) of the demonstrations;
    - known (M,), the number of the demonstration's actions that are history;
    - poses (M, 4) float64 of the spawns;
    - questions (M, L), padded with 0;
    - noise (M, K, 2), uniform numbers to draw actions with.

    Item i is all `samples` walks of `spawns[i]`.
    """

    def __init__(
        self,
        demos: Demonstrations,
        vocabulary: Vocabulary,
        spawns: Sequence[SpawnPoint],
        *,
        max_steps: int,
        samples: int = 1,
        seed: Sequence[int] = (),
    ) -> None:
        self.demos, self.spawns, self.samples, self.seed = demos, list(spawns), samples, list(seed)
        self.max_steps = max_steps
        self.questions = [torch.tensor(vocabulary.encode(e.question)) for e in demos.episodes]

    def __len__(self) -> int:
        return len(self.spawns)

    def __getitems__(self, chosen: Sequence[int]) -> dict[str, torch.Tensor]:
        spawns = [self.spawns[i] for i in chosen for _ in range(self.samples)]
        size = (self.samples, self.max_steps, 2)
        noise = [np.random.default_rng([*self.seed, i]).random(size, np.float32) for i in chosen]
        return {
            "rows": torch.tensor([s.row for s in spawns], dtype=torch.int64),
            "known": torch.tensor([s.known for s in spawns], dtype=torch.int64),
            "poses": torch.tensor([s.pose for s in spawns], dtype=torch.float64).reshape(-1, 4),
            "questions": pad_sequence([self.questions[s.row] for s in spawns], batch_first=True),
            "noise": torch.from_numpy(np.concatenate(noise)),
        }


def questions_by_house(
    demos: Demonstrations, *, batches: int, questions: int, houses: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Rows of the questions of each batch: equally many from each of `houses` houses, all houses before one repeats.

    A house with fewer questions than that gives some twice.
    """
    of_house: dict[str, list[int]] = {}
    for row, episode in enumerate(demos.episodes):
        of_house.setdefault(episode.scene_id, []).append(row)
    names, upcoming = sorted(of_house), []
    for _ in range(batches):
        while len(upcoming) < houses:
            upcoming += rng.permutation(names).tolist()
        here, upcoming = upcoming[:houses], upcoming[houses:]
        shares = np.bincount(np.arange(questions) % houses, minlength=houses)
        yield [
            int(row)
            for name, share in zip(here, shares, strict=True)
            for row in rng.choice(of_house[name], share, replace=share > len(of_house[name]))
        ]
