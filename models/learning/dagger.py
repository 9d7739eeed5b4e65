"""DAgger: a navigator learns from walks of its own what the expert does there (Ross, Gordon and Bagnell 2011).

Before an epoch the navigator walks the questions of some houses of train, from where their demonstrations begin. At each
step it acts as it would, sampled, or with chance `beta` the expert does; what the expert would do is recorded as the
label. STOP is taken only where the expert stops, so that a walk shows how to find back. All walks so far are learned from
beside the demonstrations.

Axes: N walks in lockstep, S frames of some walks, end to end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from eqa.data.batches.imitation import NavigatorData
from eqa.data.demonstrations.expert import Expert
from eqa.data.demonstrations.storage import Demonstrations, Recording, write
from eqa.data.generated import Encode, GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import MAX_EPISODE_ACTIONS, Action
from eqa.envs.episode import Episode
from eqa.envs.files import build_once
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseSimulator, enter
from eqa.envs.navigation.action_search import costs_to_go
from eqa.envs.progress import progress
from eqa.envs.simulator import Goal

LOCKSTEP = 48


class DaggerData(NavigatorData):
    """Demonstrations, and from epoch `first_epoch` on also walks of the navigator itself: `walks` more each epoch.

    Walks are kept under `folder`, one file an epoch, so that a run that goes on learns from the same ones.
    """

    def __init__(self, source: GeneratedEQA, *, folder: str, walks: int, first_epoch: int, beta: float, **of_data):
        super().__init__(source, **of_data)
        if walks < 1 or first_epoch < 0 or not 0 <= beta <= 1:
            got = f"walks={walks}, first_epoch={first_epoch}, beta={beta}"
            raise ValueError(f"DAgger: expected walks >= 1, first_epoch >= 0 and beta from 0 to 1, got {got}")
        self.folder, self.walks, self.first_epoch, self.beta = Path(folder), walks, first_epoch, beta

    def _of_epoch(self, epoch: int) -> list[Demonstrations]:
        return super()._of_epoch(epoch) + [self._own(e) for e in range(self.first_epoch, epoch + 1)]

    def _own(self, epoch: int) -> Demonstrations:
        """The walks that the navigator made before an epoch; it makes those of the current one where they are missing."""
        path = self.folder / f"{epoch:03d}.h5"
        with build_once(path) as to_be_made:
            if to_be_made:
                self._make(epoch, path)
        return Demonstrations.open(path)

    def _make(self, epoch: int, path: Path) -> None:
        rng = np.random.default_rng([self.seed, epoch, 1])
        episodes = some_houses(self.source.demonstrations("train").episodes, self.walks, rng)
        walk = OwnWalks(
            self.trainer.lightning_module.navigator,
            house=self.source.house,
            encode=self.source.encode,
            vocabulary=self.source.vocabulary,
            beta=self.beta,
            rng=rng,
        )
        walked = list(walk(episodes))
        write(
            path,
            [recording for recording, _ in walked],
            num_frames=sum(len(targets) for _, targets in walked),
            num_features=self.train.feature_size,
            config={"walked_by": "the navigator", "epoch": epoch, "beta": self.beta},
            extras={"targets": np.concatenate([targets for _, targets in walked]).astype(np.int8)},
        )


def some_houses(episodes: Sequence[Episode], number: int, rng: np.random.Generator) -> list[Episode]:
    """All questions of houses drawn at random, until there are `number`; few houses, since loading one costs a walk."""
    by_house: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_house.setdefault(episode.scene_id, []).append(episode)
    chosen: list[Episode] = []
    for scene_id in rng.permutation(sorted(by_house)):
        if len(chosen) >= number:
            break
        chosen += by_house[scene_id]
    return chosen[:number]


@dataclass(frozen=True, slots=True)
class OwnWalks:
    """Lets a navigator walk, the expert helping with chance `beta`."""

    navigator: nn.Module
    house: Callable[[str], House]
    encode: Encode
    vocabulary: Vocabulary
    beta: float
    rng: np.random.Generator

    def __call__(self, episodes: Sequence[Episode]) -> Iterator[tuple[Recording, Int64[np.ndarray, " S"]]]:
        """Walks with the expert's targets at each of their S frames, some episodes at a time.

        The navigator is left in the mode it was in.
        """
        training = self.navigator.training
        self.navigator.eval()
        with progress("walks of its own", len(episodes)) as advance:
            for first in range(0, len(episodes), LOCKSTEP):
                batch = episodes[first : first + LOCKSTEP]
                yield self._walk(batch)
                advance(len(batch))
        self.navigator.train(training)

    @torch.no_grad()
    def _walk(self, episodes: Sequence[Episode]) -> tuple[Recording, Int64[np.ndarray, " S"]]:
        simulator, scenes = enter([episode.scene_id for episode in episodes], self.house)
        goals = [Goal.of(episode) for episode in episodes]
        simulator.reset(np.arange(len(scenes)), scenes, np.array([episode.start for episode in episodes]), goals)
        expert = Expert(_costs(simulator, episodes, goals))
        device = next(self.navigator.parameters()).device
        questions = [torch.tensor(self.vocabulary.encode(e.question)) for e in episodes]
        state = self.navigator.initial_state(pad_sequence(questions, batch_first=True).to(device))
        active = np.ones(len(episodes), bool)
        record: dict[str, list] = {
            name: [] for name in ("features", "actions", "targets", "poses", "distance_m", "active")
        }
        for _ in range(MAX_EPISODE_ACTIONS):
            who = np.flatnonzero(active)
            features = np.zeros((len(active), self.encode.encoder.feature_size), np.float16)
            features[who] = self.encode(simulator.render(who)["rgb"])
            targets = expert(simulator.poses, active)
            seen, going = torch.from_numpy(features).float().to(device), torch.from_numpy(active).to(device)
            noise = torch.from_numpy(self.rng.random((len(active), 2))).to(device)
            _, wished = self.navigator.act(state, seen, active=going, noise=noise)
            wished = wished.cpu().numpy()
            helped = (self.rng.random(len(active)) < self.beta) | (targets == Action.STOP) | (wished == Action.STOP)
            actions = np.where(helped, targets, wished)
            state, _ = self.navigator.act(state, seen, active=going, forced_action=torch.from_numpy(actions).to(device))
            now = (features, actions, targets, simulator.poses, simulator.distance_m, active)
            for name, values in zip(record, now, strict=True):
                record[name].append(values)
            simulator.step(np.where(active, actions, Action.STOP))
            active = active & (actions != Action.STOP)
            if not active.any():
                break
        steps = {name: np.stack(values, 1) for name, values in record.items()}
        walked = steps.pop("active")
        flat = {name: values[walked] for name, values in steps.items()}
        targets = flat.pop("targets")
        return Recording(episodes=list(episodes), lengths=walked.sum(1), **flat), targets


def _costs(simulator: HouseSimulator, episodes: Sequence[Episode], goals: Sequence[Goal]) -> list:
    """The cost-to-go of each episode's goal, searched once for each goal of a house."""
    costs: dict[tuple[str, Goal], object] = {}
    for floor in simulator.floors:
        here = list(dict.fromkeys(g for e, g in zip(episodes, goals, strict=True) if e.scene_id == floor.scene_id))
        costs |= {(floor.scene_id, goal): cost for goal, cost in zip(here, costs_to_go(floor, here), strict=True)}
    return [costs[e.scene_id, g] for e, g in zip(episodes, goals, strict=True)]
