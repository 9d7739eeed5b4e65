"""DAgger: a navigator learns the expert's actions on its own rollouts (Ross, Gordon and Bagnell 2011).

Before an epoch the navigator walks the questions of some houses of train, from the spawns of their demonstrations. At
each step its own sampled action is taken, or with chance `beta` the expert's. The expert's action is the label. STOP is
taken only where the expert stops, so that a walk shows the way back. All walks so far are learned from, beside the
demonstrations.

Axes: N walks in lockstep, S frames of some walks, end to end.
"""

from collections.abc import Iterator, Sequence
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
from eqa.data.source import Encode, Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import PADDED_ACTION, Action
from eqa.envs.episode import Episode
from eqa.envs.files import build_once
from eqa.envs.progress import progress
from eqa.envs.simulator import Goal, Observation, Planner, World, enter, in_windows
from eqa.envs.task import Task, play

LOCKSTEP = 48


class DaggerData(NavigatorData):
    """Demonstrations, and from epoch `first_epoch` on also walks of the navigator itself: `walks` more each epoch.

    Walks are kept under `folder`, one file an epoch, so that a resumed run learns from the same ones.
    """

    def __init__(self, source: Source, *, folder: str, walks: int, first_epoch: int, beta: float, **of_data):
        super().__init__(source, **of_data)
        if walks < 1 or first_epoch < 0 or not 0 <= beta <= 1:
            got = f"walks={walks}, first_epoch={first_epoch}, beta={beta}"
            raise ValueError(f"DAgger: expected walks >= 1, first_epoch >= 0 and beta from 0 to 1, got {got}")
        self.folder, self.walks, self.first_epoch, self.beta = Path(folder), walks, first_epoch, beta

    def _of_epoch(self, epoch: int) -> list[Demonstrations]:
        return super()._of_epoch(epoch) + [self._own(e) for e in range(self.first_epoch, epoch + 1)]

    def _own(self, epoch: int) -> Demonstrations:
        """The navigator's walks before an epoch; missing ones of the current epoch are made."""
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
            world=self.source.world,
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
    """All questions of houses drawn at random, until there are `number`.

    Few houses are drawn, since loading one takes as long as a walk.
    """
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
    """Lets a navigator walk, with the expert's action at chance `beta`."""

    navigator: nn.Module
    world: World
    encode: Encode
    vocabulary: Vocabulary
    beta: float
    rng: np.random.Generator

    def __call__(self, episodes: Sequence[Episode]) -> Iterator[tuple[Recording, Int64[np.ndarray, " S"]]]:
        """Walks with the expert's targets at each of their S frames, some episodes at a time.

        The navigator stays in its mode.
        """
        training = self.navigator.training
        self.navigator.eval()
        with progress("walks of its own", len(episodes)) as advance:
            for some in in_windows([episode.scene_id for episode in episodes], LOCKSTEP, self.world.scenes_at_once):
                yield self._walk([episodes[n] for n in some])
                advance(len(some))
        self.navigator.train(training)

    @torch.no_grad()
    def _walk(self, episodes: Sequence[Episode]) -> tuple[Recording, Int64[np.ndarray, " S"]]:
        simulator, scenes = enter(self.world, [episode.scene_id for episode in episodes])
        goals, task = [Goal.of(episode) for episode in episodes], Task(simulator)
        task.begin(np.arange(len(scenes)), scenes, np.array([episode.start for episode in episodes]), goals)
        helped = _Helped(self, episodes, Expert(_planners(self.world, episodes, goals)))
        play(task, helped)
        walked = task.trajectories()
        took = walked.actions != PADDED_ACTION
        recording = Recording(
            episodes=list(episodes),
            lengths=walked.num_actions,
            features=np.stack(helped.features, 1)[took],
            actions=walked.actions[took],
            poses=walked.poses[:, :-1][took],
            distance_m=walked.distances_m[:, :-1][took].astype(np.float32),
        )
        return recording, np.stack(helped.targets, 1)[took]


class _Helped:
    """The navigator, sampled, with the expert's help; it records frames and the expert's actions."""

    sensors = ("rgb", "pose")

    def __init__(self, of: OwnWalks, episodes: Sequence[Episode], expert: Expert) -> None:
        self.of, self.expert, self.num = of, expert, len(episodes)
        self.device = next(of.navigator.parameters()).device
        questions = [torch.tensor(of.vocabulary.encode(e.question)) for e in episodes]
        self.state = of.navigator.initial_state(pad_sequence(questions, batch_first=True).to(self.device))
        self.features: list[np.ndarray] = []  # of each step: (N, F)
        self.targets: list[np.ndarray] = []  # (N,)

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        of, active = self.of, np.zeros(self.num, np.bool_)
        active[agents] = True
        seen = of.encode(observation["rgb"]).half()
        features, who = seen.new_zeros(self.num, seen.shape[1]), torch.from_numpy(agents).to(seen.device)
        features[who] = seen
        poses = np.zeros((self.num, observation["pose"].shape[1]))
        poses[agents] = observation["pose"].cpu().numpy()
        targets = self.expert(poses, active)
        shown, going = features.float().to(self.device), torch.from_numpy(active).to(self.device)
        noise = torch.from_numpy(of.rng.random((self.num, 2))).to(self.device)
        _, wished = of.navigator.act(self.state, shown, active=going, noise=noise)
        wished = wished.cpu().numpy()
        helped = (of.rng.random(self.num) < of.beta) | (targets == Action.STOP) | (wished == Action.STOP)
        actions = np.where(helped, targets, wished)
        forced = torch.from_numpy(actions).to(self.device)
        self.state, _ = of.navigator.act(self.state, shown, active=going, forced_action=forced)
        self.features.append(features.cpu().numpy())
        self.targets.append(targets)
        return actions[agents]


def _planners(world: World, episodes: Sequence[Episode], goals: Sequence[Goal]) -> list[Planner]:
    """The expert of each episode; those of a scene are searched for together."""
    places: dict[str, list[int]] = {}
    for n, episode in enumerate(episodes):
        places.setdefault(episode.scene_id, []).append(n)
    found: list[Planner | None] = [None] * len(episodes)
    for scene_id, here in places.items():
        for n, planner in zip(here, world.planners(scene_id, [goals[n] for n in here]), strict=True):
            found[n] = planner
    return found
