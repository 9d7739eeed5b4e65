"""Walks that a navigator makes in many environments at once, and what they earn.

Rewards are those of Das et al. (2018, Sec. 5): for a right answer after STOP, and for each metre that a move brings the
agent nearer; `Rewards` lists others. As many episodes as `num_envs` go on at a time; where one ends, the next begins at
once. Nothing is done twice: a question is encoded once, the walk before the spawn is read from the demonstrations, a frame
is drawn and encoded once, for all who still walk together, and its features are written to where learning reads them.

Axes: M episodes, T steps of history and walk (frame t is seen before action t), S own steps of the longest walk,
F features, L words.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor, nn

from eqa.data.batches.imitation import PADDED_ACTION, last_frames
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import MAX_EPISODE_ACTIONS, Action
from eqa.envs.house.simulator import HouseSimulator, enter, ready
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.target_visibility import LEAST_SHARE, target_shares
from eqa.envs.simulator import Goal
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.navigators.recurrent_state import joined, rows

HOUSES_IN_MEMORY = 1024  # 1.5 MB each; all come before one comes again, so fewer than there are would be of no use


@dataclass(frozen=True, slots=True)
class Rewards:
    """Of an episode. The released code has answer=1; the paper suggests a cost of actions against overshooting."""

    answer: float = 5.0  # for STOP, and the right answer there
    nearer: float = 0.005  # for each metre of geodesic distance
    closest: float = 0.0  # for each metre nearer than ever before on the walk: to turn round and search costs nothing
    action: float = 0.0  # for each action
    seen: float = (
        0.0  # for STOP while the target is in view (`envs.rendering.target_visibility`), to learn to look at it
    )
    graded: bool = False  # `answer` counts by the chance that the answerer gives the right one, not all or nothing


@dataclass(frozen=True, slots=True)
class Rollout:
    """M episodes from spawn to end. Arrays over steps are padded behind the end of each."""

    batch: dict[str, Tensor]  # as `models.navigators.navigator` has it: the history is there, but does not count
    rewards: Float32[Tensor, "M T"]  # 0 for history and padding
    answers: Int64[Tensor, " M"]  # that are right
    last_frames: Tensor  # (M, N, F), what is answered from
    stopped: Bool[Tensor, " M"]
    correct: Bool[Tensor, " M"]  # what would be answered at the end, whether it stopped or not
    seen: Bool[Tensor, " M"] | None  # whether the last view shows the target; None where that earns nothing
    truncated: Bool[Tensor, " M"]  # a straggler that was not waited for
    distances_m: Float64[np.ndarray, "M S1"]  # at each own pose, the spawn included; the last one goes on
    entered: Bool[np.ndarray, " M"]  # the target's room, ever
    poses: list[np.ndarray]  # of each walk, the spawn included
    state: object  # the navigator's at the spawns
    shared: tuple[Int64[Tensor, " W"], Int64[Tensor, " M"]]  # an episode of each way to a spawn, and each episode's way

    def at_spawns(self, navigator: nn.Module) -> object:
        """The state of another navigator at the spawns."""
        return at_spawns(navigator, self.batch, self.shared)

    @property
    def counts(self) -> Bool[Tensor, "M T"]:
        """Own steps."""
        actions = self.batch["actions"]
        steps = torch.arange(actions.shape[1], device=actions.device)
        return (actions != PADDED_ACTION) & (steps >= self.batch["loss_from"][:, None])


@dataclass
class Clock:
    """Where the time goes."""

    seconds: Counter = field(default_factory=Counter)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds[name] += perf_counter() - begin


def at_spawns(navigator: nn.Module, batch: dict[str, Tensor], shared: tuple[Tensor, Tensor]) -> object:
    """The state of M episodes at their spawns; those that share the way there share the work."""
    first, way = shared
    longest = int(batch["loss_from"].max()) if len(first) else 0
    known = torch.arange(longest, device=first.device) < batch["loss_from"][first][:, None]
    actions = torch.where(known, batch["actions"][first, :longest], PADDED_ACTION)
    return rows(navigator.warm_up(batch["questions"][first], batch["features"][first, :longest], actions), way)


class Rollouts:
    """Makes walks for batches of `data.batches.rl_episodes` over one split's demonstrations, and has them answered.

    `min_active_share` is the share of the environments that have to be walking once there is nothing left to begin: with
    fewer the rest is cut off, 0 waits for all. With `sample` the navigator draws what it does, else it takes the likeliest.
    """

    def __init__(
        self,
        source: GeneratedEQA,
        demos: Demonstrations,
        *,
        extractor: FeatureExtractor,
        vocabulary: Vocabulary,
        rewards: Rewards,
        num_envs: int,
        min_active_share: float = 0.0,
        sample: bool = True,
    ) -> None:
        if num_envs < 1 or not 0 <= min_active_share < 1:
            raise ValueError(
                f"rollouts: expected num_envs >= 1 and min_active_share from 0 to below 1, got {num_envs}, {min_active_share}"
            )
        self.source, self.demos, self.extractor, self.vocabulary, self.rewards = (
            source,
            demos,
            extractor,
            vocabulary,
            rewards,
        )
        self._house = functools.lru_cache(HOUSES_IN_MEMORY)(lambda name: ready(source.house(name)))
        self.num_envs, self.min_active_share, self.sample, self.clock = num_envs, min_active_share, sample, Clock()
        self.num_steps = 0  # taken so far

    @torch.no_grad()
    def __call__(self, navigator: nn.Module, answerer: nn.Module, spawns: dict[str, Tensor]) -> Rollout:
        """Both networks are left in evaluation mode."""
        navigator.eval(), answerer.eval()
        device = spawns["questions"].device
        episodes = [self.demos.episodes[row] for row in spawns["rows"].tolist()]
        with self.clock("houses"):
            simulator, scenes = enter([e.scene_id for e in episodes], self._house)
            goals = [Goal.of(e) for e in episodes]
            simulator.reset(np.arange(len(scenes)), scenes, spawns["poses"].cpu().numpy(), goals)
        walk = _Walk(self, simulator, spawns, np.array([e.target_room for e in episodes]))
        walk.play(navigator, device)
        if self.rewards.seen:
            with self.clock("look"):
                known = [self._house(house.id).scene for house in simulator.houses]
                walk.see_targets(known, scenes, np.array([e.target_object for e in episodes]))
        right = torch.tensor([self.vocabulary.answer_id(e.answer) for e in episodes], device=device)
        possible = torch.from_numpy(self.vocabulary.of_kind([e.question for e in episodes])).to(device)
        return walk.finished(answerer, right, possible)


class _Walk:
    """One batch of episodes while it is walked."""

    def __init__(self, of: Rollouts, simulator: HouseSimulator, spawns: dict[str, Tensor], target_rooms: np.ndarray):
        self.of, self.simulator, self.spawns, self.clock = of, simulator, spawns, of.clock
        self.known = spawns["known"].cpu().numpy()
        num, longest = len(self.known), int(self.known.max(initial=0)) + MAX_EPISODE_ACTIONS
        self.features = np.zeros((num, longest + 1, of.extractor.encoder.feature_size), np.float16)
        self.actions = np.full((num, longest), PADDED_ACTION, np.int64)
        for n, (row, known) in enumerate(zip(spawns["rows"].tolist(), self.known.tolist(), strict=True)):
            history = slice(begin := int(of.demos.offsets[row]), begin + known)
            self.features[n, :known] = of.demos.features[history]
            self.actions[n, :known] = of.demos.actions[history]
        self.planner_queried = np.zeros((num, longest), bool)
        self.steps = np.zeros(num, np.int64)
        self.truncated = np.zeros(num, bool)
        self.target_rooms = target_rooms
        self.distances = np.repeat(simulator.distance_m[:, None].astype(np.float64), MAX_EPISODE_ACTIONS + 1, 1)
        self.poses = np.repeat(simulator.poses[:, None], MAX_EPISODE_ACTIONS + 1, 1)
        self.entered = simulator.room == target_rooms
        self.seen = None

    def play(self, navigator: nn.Module, device: torch.device) -> None:
        """Until all episodes have ended."""
        num, num_envs = len(self.steps), self.of.num_envs
        with self.clock("history"):
            self.shared = self._shared(device)
            width = int(self.known.max(initial=0))
            features, actions = (torch.from_numpy(a[:, :width]).to(device) for a in (self.features, self.actions))
            batch = {"features": features, "actions": actions, "questions": self.spawns["questions"]}
            batch["loss_from"] = self.spawns["known"]
            self.state = waiting = at_spawns(navigator, batch, self.shared)
        walking = np.arange(min(num, num_envs))
        begun, state = len(walking), rows(waiting, torch.from_numpy(walking).to(device))
        while len(walking):
            state, over = self._step(navigator, state, walking, device)
            fresh = np.arange(begun, min(begun + int(over.sum()), num))
            if over.any():
                keep, begun = np.flatnonzero(~over), begun + len(fresh)
                state = rows(state, torch.from_numpy(keep).to(device))
                if len(fresh):
                    state = joined(state, rows(waiting, torch.from_numpy(fresh).to(device)))
                walking = np.concatenate([walking[keep], fresh])
            # Those who have just begun have seen nothing yet that they could answer from.
            if begun == num and not len(fresh) and len(walking) < self.of.min_active_share * min(num, num_envs):
                self.truncated[walking] = True
                break
        self.of.num_steps += int(self.steps.sum())

    def _shared(self, device: torch.device) -> tuple[Tensor, Tensor]:
        ways = np.stack([self.spawns["rows"].cpu().numpy(), self.known], 1)
        _, first, way = np.unique(ways, axis=0, return_index=True, return_inverse=True)
        return torch.from_numpy(first).to(device), torch.from_numpy(way.reshape(-1)).to(device)

    def _step(self, navigator: nn.Module, state: object, walking: np.ndarray, device: torch.device) -> tuple:
        """One action of those who walk: their state, and whose episode is over."""
        with self.clock("render"):
            rgb = self.simulator.render(walking)["rgb"]
        with self.clock("encode"):
            seen = self.of.extractor(rgb)
        step = self.steps[walking]
        self.features[walking, self.known[walking] + step] = seen
        with self.clock("policy"):
            noise = None
            if self.of.sample:
                noise = self.spawns["noise"][torch.from_numpy(walking).to(device), torch.from_numpy(step).to(device)]
            state, chosen = navigator.act(state, torch.from_numpy(seen).to(device).float(), noise=noise)
            chosen, planned = chosen.cpu().numpy(), navigator.planner_queried(state)
            if planned is not None:
                self.planner_queried[walking, self.known[walking] + step] = planned.cpu().numpy()
        with self.clock("simulate"):
            everybody = np.full(len(self.steps), int(Action.STOP))
            everybody[walking] = chosen
            self.simulator.step(everybody)
            self.actions[walking, self.known[walking] + step] = chosen
            self.distances[walking, step + 1] = self.simulator.distance_m[walking]
            self.poses[walking, step + 1] = self.simulator.poses[walking]
            self.entered[walking] |= self.simulator.room[walking] == self.target_rooms[walking]
        self.steps[walking] += 1
        return state, (chosen == Action.STOP) | (self.steps[walking] == MAX_EPISODE_ACTIONS)

    def see_targets(self, houses: Sequence[Scene], scenes: np.ndarray, targets: np.ndarray) -> None:
        """Whether the last view of each walk shows its target."""
        last = self.poses[np.arange(len(self.steps)), self.steps]
        self.seen = target_shares(houses, scenes, last, targets) >= LEAST_SHARE

    def _look_once_more(self, walkers: np.ndarray, ends: np.ndarray) -> None:
        """What those see who did not stop, after their last action: they answer from it, as in evaluation."""
        if len(walkers):
            with self.clock("render"):
                rgb = self.simulator.render(walkers)["rgb"]
            with self.clock("encode"):
                self.features[walkers, ends[walkers]] = self.of.extractor(rgb)

    def finished(self, answerer: nn.Module, right: Int64[Tensor, " M"], possible: Bool[Tensor, "M A"]) -> Rollout:
        """All that was recorded, answered and rewarded; answers are of the questions' kinds."""
        device, ends = right.device, self.known + self.steps
        longest, who = int(ends.max(initial=1)), np.arange(len(ends))
        stopped = self.actions[who, ends - 1] == Action.STOP
        self._look_once_more(np.flatnonzero(~stopped), ends)
        frames = np.stack(
            [
                last_frames(f[:end], answerer.num_frames, answerer.earlier_frames)
                for f, end in zip(self.features, ends + ~stopped, strict=True)
            ]
        )
        last = torch.from_numpy(frames).to(device)
        with self.clock("answer"):
            scores = answerer(last.float(), self.spawns["questions"], None).masked_fill(~possible, -torch.inf)
            correct = scores.argmax(1) == right
            worth = scores.float().softmax(1).gather(1, right[:, None])[:, 0] if self.of.rewards.graded else correct
        rewards, place = np.zeros((len(ends), longest), np.float32), np.arange(longest)
        own = (place >= self.known[:, None]) & (place < ends[:, None])
        walker, at = np.nonzero(own)
        step = at - self.known[walker]
        given, closest = self.of.rewards, np.minimum.accumulate(self.distances, 1)
        nearer, closer = (d[walker, step] - d[walker, step + 1] for d in (self.distances, closest))
        rewards[own] = given.nearer * nearer + given.closest * closer - given.action
        rewards[who, ends - 1] += given.answer * stopped * worth.float().cpu().numpy()
        if self.seen is not None:
            rewards[who, ends - 1] += given.seen * (stopped & self.seen)
        return Rollout(
            batch={
                "features": torch.from_numpy(self.features[:, :longest]).to(device),
                "actions": torch.from_numpy(self.actions[:, :longest]).to(device),
                "planner_queried": torch.from_numpy(self.planner_queried[:, :longest]).to(device),
                "questions": self.spawns["questions"],
                "loss_from": self.spawns["known"],
            },
            rewards=torch.from_numpy(rewards).to(device),
            answers=right,
            last_frames=last,
            stopped=torch.from_numpy(stopped).to(device),
            correct=correct,
            seen=None if self.seen is None else torch.from_numpy(self.seen).to(device),
            truncated=torch.from_numpy(self.truncated).to(device),
            distances_m=self.distances[who[:, None], np.minimum(np.arange(self.steps.max() + 1), self.steps[:, None])],
            entered=self.entered,
            poses=[poses[: steps + 1] for poses, steps in zip(self.poses, self.steps, strict=True)],
            state=self.state,
            shared=self.shared,
        )
