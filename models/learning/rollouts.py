"""Rollouts of a navigator in many environments at once, with their rewards.

Rewards are those of Das et al. (2018, Sec. 5): for a right answer after STOP, and for each metre that a move brings the
agent nearer; `Rewards` lists others. `num_envs` episodes run at a time; as soon as one ends, the next begins.

Nothing is computed twice. A question is encoded once, and the history is read from the demonstrations. The frame of a
pose is encoded once (`models.encoders.seen_frames`), and learning reads its features from there.

Axes: M episodes, T steps of history and walk (frame t is seen before action t), S own steps of the longest walk, F
features, L words, A answers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import torch
from jaxtyping import Bool, Float16, Float32, Float64, Int64
from torch import Tensor, nn

from eqa.data.batches.imitation import last_frames
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.source import Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import PADDED_ACTION
from eqa.envs.metrics import LEAST_SHARE, target_shares
from eqa.envs.simulator import Goal, Observation, Simulator, enter
from eqa.envs.task import Task, Trajectories, play
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.encoders.seen_frames import SeenFrames
from eqa.models.learning.critic import facts_of
from eqa.models.navigators.recurrent_state import joined, rows


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of an episode.

    The released code has answer=1; the paper suggests a cost of actions against overshooting.
    """

    answer: float = 5.0  # for STOP, and the right answer there
    nearer: float = 0.005  # for each metre of geodesic distance
    closest: float = 0.0  # for each metre below the least distance so far: search and turning round cost nothing
    action: float = 0.0  # for each action
    seen: float = 0.0  # for STOP while the target is in view (`envs.metrics.target_shares`), to learn to look at it
    graded: bool = False  # `answer` times the answerer's probability of the right one, not all or nothing


@dataclass(frozen=True, slots=True)
class Rollout:
    """M episodes from spawn to end. Arrays over steps are padded behind the end of each."""

    batch: dict[str, Tensor]  # as in `models.navigators.navigator`: it has the history, which does not count
    rewards: Float32[Tensor, "M T"]  # 0 for history and padding
    answers: Int64[Tensor, " M"]  # the right ones
    prior: Float32[Tensor, "M A"]  # what the questions alone say of the answers
    last_frames: Tensor  # (M, N, F), what is answered from
    stopped: Bool[Tensor, " M"]
    correct: Bool[Tensor, " M"]  # for the answer at the end, with or without STOP
    seen: Bool[Tensor, " M"] | None  # the last view shows the target; None if that earns nothing
    shown: Bool[Tensor, "M S1"] | None  # so does the view at each own pose
    truncated: Bool[Tensor, " M"]  # a straggler that was not waited for
    facts: Float32[Tensor, "M T K"]  # what the simulator knows at each own step, `models.learning.critic.FACTS`
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
    """Seconds spent on each task."""

    seconds: Counter = field(default_factory=Counter)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds[name] += perf_counter() - begin


def at_spawns(navigator: nn.Module, batch: dict[str, Tensor], shared: tuple[Tensor, Tensor]) -> object:
    """The state of M episodes at their spawns; episodes with the same history share the work."""
    first, way = shared
    longest = int(batch["loss_from"].max()) if len(first) else 0
    known = torch.arange(longest, device=first.device) < batch["loss_from"][first][:, None]
    actions = torch.where(known, batch["actions"][first, :longest], PADDED_ACTION)
    return rows(navigator.warm_up(batch["questions"][first], batch["features"][first, :longest], actions), way)


class Rollouts:
    """Rolls out batches of `data.batches.rl_episodes` over one split's demonstrations, with answers.

    `min_active_share` is the least share of active environments once no episode is left to begin. With fewer the rest
    is cut off; 0 waits for all. With `sample` the navigator samples its actions, else it takes the likeliest. Features
    of frames are forgotten with the batch (25 kB each), unless `keep_frames`, for a batch that comes again. `max_steps`
    are the world's by default.
    """

    def __init__(
        self,
        source: Source,
        demos: Demonstrations,
        *,
        extractor: FeatureExtractor,
        vocabulary: Vocabulary,
        rewards: Rewards,
        num_envs: int,
        min_active_share: float = 0.0,
        sample: bool = True,
        keep_frames: bool = False,
        max_steps: int | None = None,
    ) -> None:
        if num_envs < 1 or not 0 <= min_active_share < 1:
            raise ValueError(
                f"rollouts: expected num_envs >= 1 and min_active_share from 0 to below 1, got {num_envs}, {min_active_share}"
            )
        self.source, self.demos, self.vocabulary, self.rewards = source, demos, vocabulary, rewards
        self.frames = SeenFrames(extractor, demos)
        self.num_envs, self.min_active_share, self.sample, self.clock = num_envs, min_active_share, sample, Clock()
        self.keep_frames, self.max_steps = keep_frames, max_steps
        self.num_steps = 0  # taken so far

    @torch.no_grad()
    def __call__(self, navigator: nn.Module, answerer: nn.Module, spawns: dict[str, Tensor]) -> Rollout:
        """Rolls out; both networks are left in evaluation mode."""
        navigator.eval(), answerer.eval()
        device = spawns["questions"].device
        episodes = [self.demos.episodes[row] for row in spawns["rows"].tolist()]
        with self.clock("scenes"):
            simulator, scenes = enter(self.source.world, [e.scene_id for e in episodes])
            task = Task(simulator, max_steps=self.max_steps, clock=self.clock)
            goals = [Goal.of(e) for e in episodes]
            task.begin(np.arange(len(scenes)), scenes, spawns["poses"].cpu().numpy(), goals)
        targets = np.array([e.target_object for e in episodes])
        walkers = _Walkers(self, navigator, spawns, task.max_steps, targets)
        cut = play(
            task,
            walkers,
            at_once=self.num_envs,
            scenes_at_once=self.source.world.scenes_at_once,
            min_active_share=self.min_active_share,
        )
        walked = task.trajectories()
        self.num_steps += int(walked.num_actions.sum())
        walkers.look_once_more(np.flatnonzero(~walked.stopped), walked, simulator)
        last = walkers.shares[np.arange(len(episodes)), walked.num_views - 1]
        seen = last >= LEAST_SHARE if self.rewards.seen else None
        asked = [e.question for e in episodes]
        return self._finished(
            walkers,
            walked,
            answerer,
            right=torch.tensor([self.vocabulary.answer_id(e.answer) for e in episodes], device=device),
            prior=torch.from_numpy(self.vocabulary.log_prior(asked)).to(device),
            goals=goals,
            in_room=walked.regions == np.array([e.target_room for e in episodes])[:, None],
            seen=seen,
            cut=cut,
        )

    def _finished(
        self,
        walkers: "_Walkers",
        walked: Trajectories,
        answerer: nn.Module,
        *,
        right: Int64[Tensor, " M"],
        prior: Float32[Tensor, "M A"],
        goals: Sequence[Goal],
        in_room: Bool[np.ndarray, "M S1"],
        seen: Bool[np.ndarray, " M"] | None,
        cut: Int64[np.ndarray, " C"],
    ) -> Rollout:
        """The rollout with its records, answers and rewards."""
        device, known, steps, stopped = right.device, walkers.known, walked.num_actions, walked.stopped
        ends, who = known + steps, np.arange(len(known))
        longest = int(ends.max(initial=1))
        frames = [
            last_frames(features[:end], answerer.num_frames, answerer.earlier_frames)
            for features, end in zip(walkers.features, (ends + ~stopped).tolist(), strict=True)
        ]
        last = torch.stack(frames)
        with self.clock("answer"):
            scores = answerer(last.float(), walkers.spawns["questions"], None) + prior
            correct = scores.argmax(1) == right
            worth = scores.float().softmax(1).gather(1, right[:, None])[:, 0] if self.rewards.graded else correct
        rewards, place = np.zeros((len(ends), longest), np.float32), np.arange(longest)
        own = (place >= known[:, None]) & (place < ends[:, None])
        walker, at = np.nonzero(own)
        step = at - known[walker]
        given, closest = self.rewards, np.minimum.accumulate(walked.distances_m, 1)
        nearer, closer = (d[walker, step] - d[walker, step + 1] for d in (walked.distances_m, closest))
        rewards[own] = given.nearer * nearer + given.closest * closer - given.action
        rewards[who, ends - 1] += given.answer * stopped * worth.float().cpu().numpy()
        if seen is not None:
            rewards[who, ends - 1] += given.seen * (stopped & seen)
        views = walkers.shares[:, : walked.poses.shape[1]]
        told = facts_of(walked.poses, walked.distances_m, in_room, views, goals, walkers.max_steps)
        facts = np.zeros((*rewards.shape, told.shape[2]), np.float32)
        facts[walker, at] = told[walker, step]
        walkers.actions[walker, at] = walked.actions[walker, step]
        return Rollout(
            batch={
                "features": walkers.features[:, :longest],
                "actions": torch.from_numpy(walkers.actions[:, :longest]).to(device),
                "planner_queried": walkers.planner_queried[:, :longest],
                "questions": walkers.spawns["questions"],
                "loss_from": walkers.spawns["known"],
            },
            rewards=torch.from_numpy(rewards).to(device),
            answers=right,
            prior=prior,
            last_frames=last,
            stopped=torch.from_numpy(stopped).to(device),
            correct=correct,
            seen=None if seen is None else torch.from_numpy(seen).to(device),
            shown=None if seen is None else torch.from_numpy(views >= LEAST_SHARE).to(device),
            truncated=torch.from_numpy(np.isin(who, cut)).to(device),
            facts=torch.from_numpy(facts).to(device),
            distances_m=walked.distances_m,
            entered=in_room.any(1),
            poses=[poses[: num + 1] for poses, num in zip(walked.poses, steps, strict=True)],
            state=walkers.waiting,
            shared=walkers.shared,
        )


class _Walkers:
    """The navigator in all episodes of a batch. `state` has the active episodes, in their order."""

    def __init__(
        self,
        of: Rollouts,
        navigator: nn.Module,
        spawns: dict[str, Tensor],
        max_steps: int,
        targets: Int64[np.ndarray, " M"],
    ) -> None:
        self.targets, self.shares = targets, np.zeros((len(targets), max_steps + 1), np.float32)
        self.sensors = ("rgb", "pose", "instance_id") if of.rewards.seen else ("rgb", "pose")
        self.of, self.navigator, self.spawns = of, navigator, spawns
        self.device = spawns["questions"].device
        self.rows, self.known = spawns["rows"].cpu().numpy(), spawns["known"].cpu().numpy()
        self.max_steps, num = max_steps, len(self.known)
        longest = int(self.known.max(initial=0)) + max_steps
        self.actions = np.full((num, longest), PADDED_ACTION, np.int64)
        self.steps = np.zeros(num, np.int64)
        self.planner_queried = torch.zeros(num, longest, dtype=torch.bool, device=self.device)
        with of.clock("history"):
            features = np.zeros((num, longest + 1, of.demos.features.shape[1]), np.float16)
            for n, (row, known) in enumerate(zip(self.rows.tolist(), self.known.tolist(), strict=True)):
                history = slice(begin := int(of.demos.offsets[row]), begin + known)
                features[n, :known] = of.demos.features[history]
                self.actions[n, :known] = of.demos.actions[history]
            self.features = torch.from_numpy(features).to(self.device)
            if not of.keep_frames:
                of.frames.forget()
            of.frames.take_up(self.rows.tolist())
            self.shared = self._shared()
            width = int(self.known.max(initial=0))
            actions = torch.from_numpy(self.actions[:, :width]).to(self.device)
            batch = {"features": self.features[:, :width], "actions": actions, "questions": spawns["questions"]}
            self.waiting = at_spawns(navigator, {**batch, "loss_from": spawns["known"]}, self.shared)
        self.walking = np.empty(0, np.int64)
        self.state: object | None = None

    def _shared(self) -> tuple[Tensor, Tensor]:
        ways = np.stack([self.rows, self.known], 1)
        _, first, way = np.unique(ways, axis=0, return_index=True, return_inverse=True)
        return torch.from_numpy(first).to(self.device), torch.from_numpy(way.reshape(-1)).to(self.device)

    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        """One action of each active episode."""
        self._watch(observation, agents)
        with self.of.clock("encode"):
            seen = self._seen(agents, observation["rgb"], observation["pose"].cpu().numpy())
        with self.of.clock("policy"):
            self._take_up(agents)
            who = torch.from_numpy(agents).to(self.device)
            at = torch.from_numpy(self.known[agents] + self.steps[agents]).to(self.device)
            self.features[who, at] = seen
            noise = None
            if self.of.sample:
                noise = self.spawns["noise"][who, torch.from_numpy(self.steps[agents]).to(self.device)]
            self.state, chosen = self.navigator.act(self.state, seen.float(), noise=noise)
            if (planned := self.navigator.planner_queried(self.state)) is not None:
                self.planner_queried[who, at] = planned
            self.steps[agents] += 1
            return chosen.cpu().numpy()

    def _take_up(self, agents: Int64[np.ndarray, " W"]) -> None:
        """Keeps the states of continuing episodes, and appends those of new ones."""
        if np.array_equal(agents, self.walking):
            return
        keep = np.flatnonzero(np.isin(self.walking, agents))
        parts = [(self.waiting, agents[len(keep) :])] if len(agents) > len(keep) else []
        if self.state is not None and len(keep):
            parts.insert(0, (self.state, keep))
        states = [rows(state, torch.from_numpy(places).to(self.device)) for state, places in parts]
        self.state, self.walking = (states[0] if len(states) == 1 else joined(*states)), agents

    def look_once_more(self, agents: Int64[np.ndarray, " C"], walked: Trajectories, simulator: Simulator) -> None:
        """Adds the view after the last action of episodes without STOP: they are answered from it, as in evaluation."""
        if len(agents):
            with self.of.clock("render"):
                view = simulator.look(walked.scenes[agents], walked.ends[agents], self.sensors)
            self._watch(view, agents)
            with self.of.clock("encode"):
                ends = torch.from_numpy((self.known + self.steps)[agents]).to(self.device)
                seen = self._seen(agents, view["rgb"], walked.ends[agents])
                self.features[torch.from_numpy(agents).to(self.device), ends] = seen

    def _watch(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> None:
        """Keeps the share of each view that the target fills, if that is drawn."""
        if "instance_id" in observation:
            shares = target_shares(observation["instance_id"].cpu().numpy(), self.targets[agents])
            self.shares[agents, self.steps[agents]] = shares

    def _seen(
        self, agents: Int64[np.ndarray, " W"], rgb: Tensor, poses: Float64[np.ndarray, "W 4"]
    ) -> Float16[Tensor, "W F"]:
        scenes = [self.of.demos.episodes[row].scene_id for row in self.rows[agents].tolist()]
        return self.of.frames(rgb, scenes, poses).to(self.device)
