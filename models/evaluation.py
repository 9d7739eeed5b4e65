"""Plays walkers through questions in houses and gives one row for each question, spawn distance and walker.

The protocol of Das et al. (2018, Sec. 5): each question is spawned 10, 30 and 50 actions before the end of its shortest
walk, the walk before the spawn is given as history, and an episode ends with STOP or after 100 actions. A question
counts at T-k if its walk has at least k actions; this is decided before anyone walks, so every line of a table is a mean
over the same questions. All walkers are answered for by the same answerer, from the last frames of history and walk.

A row: agent, spawn, episode_id, scene_id, question_type, question, answer; what `envs.metrics.walk_metrics` gives;
collisions; predicted, correct (0 or 1), rank of the true answer; actions and poses of the walk. What a line of the table
does not have (a walk, for those who only hear the question) is None.

Axes: N episodes in lockstep, T history steps, K actions, L last frames, F features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch.nn.utils.rnn import pad_sequence

from data.balance import MajorityBaseline
from data.datamodules import PADDED_ACTION, last_frames
from data.demonstrations import Demonstrations
from data.generated import GeneratedEQA
from data.spawns import SPAWNS
from envs.actions import MAX_EPISODE_ACTIONS, Action
from envs.episode import Episode
from envs.house.navigation import Goal
from envs.house.simulator import HouseSimulator
from envs.metrics import answer_ranks, walk_metrics
from envs.progress import progress
from models.agent import Agent
from models.eyes import Eyes
from models.walkers import ForwardWalker, NavigatorWalker, RandomWalker, ShortestPathWalker, Start


@dataclass(frozen=True, slots=True)
class Batch:
    """N episodes to be played side by side: their places in the demonstrations, the spawn, and the step it is at."""

    spawn: int
    rows: np.ndarray  # (N,) episode of the demonstrations
    first: np.ndarray  # (N,) number of actions before the spawn


@dataclass(frozen=True, slots=True)
class Walked:
    """N recorded walks, padded: the spawn and the pose that each action led to, the last one included."""

    scenes: np.ndarray  # (N,)
    poses: np.ndarray  # (N, K + 1, 3)
    distances_m: np.ndarray  # (N, K + 1)
    rooms: np.ndarray  # (N, K + 1)
    actions: np.ndarray  # (N, K), -1 behind the end
    collisions: np.ndarray  # (N,)

    @property
    def num_actions(self) -> np.ndarray:
        return (self.actions != PADDED_ACTION).sum(1)


def batches(demos: Demonstrations, spawns: Sequence[int], size: int) -> Iterator[Batch]:
    """All valid (question, spawn) pairs; neighbours in the file share houses, so they stay together."""
    for spawn in spawns:
        valid = np.flatnonzero(demos.lengths >= spawn)
        for begin in range(0, len(valid), size):
            rows = valid[begin : begin + size]
            yield Batch(spawn, rows, demos.lengths[rows] - spawn)


class Evaluation:
    """Everything that all walkers share: houses, demonstrations, eyes, answerer. `lockstep` episodes go side by side."""

    def __init__(self, agent: Agent, source: GeneratedEQA, split: str, *, eyes: Eyes, lockstep: int = 48) -> None:
        self.lockstep = lockstep
        self.agent, self.source, self.eyes = agent.eval(), source, eyes
        self.demos = source.demonstrations(split)
        self.num_frames = agent.answerer.num_frames
        for episode in self.demos.episodes:
            agent.vocabulary.encode(episode.question)
            agent.vocabulary.answer_id(episode.answer)

    def walkers(self, seed: int) -> dict[str, object]:
        """The lines of the table that walk, in its order."""
        return {
            "random walk": RandomWalker(seed),
            "forward only": ForwardWalker(),
            self.agent.name: NavigatorWalker(self.agent.navigator),
            "shortest path": ShortestPathWalker(),
        }

    def play(self, walkers: Mapping[str, object], spawns: Sequence[int] = SPAWNS) -> list[dict]:
        """Rows of all walkers, walker by walker."""
        todo = list(batches(self.demos, spawns, self.lockstep))
        rows: dict[str, list[dict]] = {name: [] for name in walkers}
        with progress("evaluation", len(todo) * len(walkers)) as advance:
            for batch in todo:
                simulator, scenes = self._enter(batch)
                goals = [Goal.of(self.demos.episodes[i]) for i in batch.rows]
                spawn_poses = np.stack([self.demos.poses[self._row(i, first)] for i, first in self._pairs(batch)])
                start = self._start(batch, spawn_poses)
                for name, walker in walkers.items():
                    simulator.reset(np.arange(len(scenes)), scenes, spawn_poses, goals)
                    walker.begin(start)
                    walked = self._walk(walker, simulator, scenes)
                    rows[name] += self._rows(name, batch, walked, simulator)
                    advance(1)
        return [row for of_walker in rows.values() for row in of_walker]

    def _pairs(self, batch: Batch) -> list[tuple[int, int]]:
        return list(zip(batch.rows.tolist(), batch.first.tolist(), strict=True))

    def _row(self, episode: int, step: int) -> int:
        return int(self.demos.offsets[episode]) + step

    def _enter(self, batch: Batch) -> tuple[HouseSimulator, np.ndarray]:
        ids = [self.demos.episodes[i].scene_id for i in batch.rows]
        houses = list(dict.fromkeys(ids))
        simulator = HouseSimulator([self.source.house(i) for i in houses], num_agents=len(ids))
        return simulator, np.array([simulator.scene_index(i) for i in ids])

    def _start(self, batch: Batch, poses: np.ndarray) -> Start:
        demos = self.demos
        history = [slice(self._row(i, 0), self._row(i, first)) for i, first in self._pairs(batch)]
        questions = [torch.tensor(self.agent.vocabulary.encode(demos.episodes[i].question)) for i in batch.rows]
        return Start(
            questions=pad_sequence(questions, batch_first=True),
            features=pad_sequence([torch.from_numpy(np.array(demos.features[h])) for h in history], batch_first=True),
            actions=pad_sequence(
                [torch.from_numpy(demos.actions[h].astype(np.int64)) for h in history],
                batch_first=True,
                padding_value=PADDED_ACTION,
            ),
            remaining=[demos.actions[self._row(i, f) : demos.offsets[i + 1]] for i, f in self._pairs(batch)],
            poses=poses,
        )

    def _walk(self, walker: object, simulator: HouseSimulator, scenes: np.ndarray) -> Walked:
        """Plays until all have stopped."""
        active, collisions = np.ones(len(scenes), bool), np.zeros(len(scenes), int)
        poses, distances, rooms, actions = [simulator.poses], [simulator.distance_m], [simulator.room], []
        for _ in range(MAX_EPISODE_ACTIONS):
            features = None if walker.needs == "nothing" else self._see(simulator, active)
            chosen = np.where(active, walker.act(features, active), Action.STOP)
            actions.append(np.where(active, chosen, PADDED_ACTION))
            collisions += simulator.step(chosen)
            poses.append(simulator.poses)
            distances.append(simulator.distance_m)
            rooms.append(simulator.room)
            active = active & (chosen != Action.STOP)
            if not active.any():
                break
        return Walked(scenes, *(np.stack(record, 1) for record in (poses, distances, rooms, actions)), collisions)

    def _see(self, simulator: HouseSimulator, active: np.ndarray) -> torch.Tensor:
        """Features of those who still walk, in their places; the others' stay 0 and are not looked at."""
        who = np.flatnonzero(active)
        features = torch.zeros((len(active), self.eyes.encoder.feature_size))
        features[who] = torch.from_numpy(self.eyes(simulator.render(who)["rgb"])).float()
        return features

    def _rows(self, name: str, batch: Batch, walked: Walked, simulator: HouseSimulator) -> list[dict]:
        episodes = [self.demos.episodes[i] for i in batch.rows]
        in_room = walked.rooms == np.array([e.target_room for e in episodes])[:, None]
        metrics = walk_metrics(walked.distances_m, in_room, walked.actions, walked.num_actions)
        answers = self._answers(episodes, self._last_frames(batch, walked, metrics["stop"] > 0, simulator))
        return [
            _describe(name, batch.spawn, episode)
            | {key: float(values[n]) for key, values in metrics.items()}
            | {"collisions": int(walked.collisions[n])}
            | answer
            | {"actions": walked.actions[n, :length].tolist(), "poses": walked.poses[n, : length + 1].round(4).tolist()}
            for n, (episode, answer, length) in enumerate(zip(episodes, answers, walked.num_actions, strict=True))
        ]

    def _last_frames(
        self, batch: Batch, walked: Walked, stopped: np.ndarray, simulator: HouseSimulator
    ) -> Float[torch.Tensor, "N L F"]:
        """Features of the last frames of history and walk, whoever walked. What is seen after STOP was seen before it."""
        views = []
        for n, (episode, first) in enumerate(self._pairs(batch)):
            history = self.demos.poses[self._row(episode, 0) : self._row(episode, first)]
            walk = walked.poses[n, : walked.num_actions[n] + 1 - stopped[n]]
            views.append(last_frames(np.concatenate([history, walk]), self.num_frames))
        scenes = np.repeat(walked.scenes, self.num_frames).astype(np.int32)
        rgb = simulator.renderer.render(scenes, np.concatenate(views))["rgb"]
        return torch.from_numpy(self.eyes(rgb)).float().reshape(len(views), self.num_frames, -1)

    @torch.inference_mode()
    def _answers(self, episodes: Sequence[Episode], features: torch.Tensor | None) -> list[dict]:
        """What the answerer says to each; the language baseline where there are no frames."""
        vocabulary = self.agent.vocabulary
        questions = torch.from_numpy(vocabulary.encode_batch([e.question for e in episodes]))
        answerer = self.agent.question_only if features is None else self.agent.answerer
        return _judge(episodes, answerer(features, questions).numpy(), vocabulary.answers)

    def blind(self) -> list[dict]:
        """Rows of those who answer without walking: the majority answer of each question, and the language model."""
        episodes, vocabulary = self.demos.episodes, self.agent.vocabulary
        majority = MajorityBaseline(self.source.episodes("train"), vocabulary).scores(episodes)
        lines = {"majority": _judge(episodes, majority, vocabulary.answers)}
        if self.agent.question_only is not None:
            lines["question only"] = self._answers(episodes, None)
        walked = dict.fromkeys(("d_0", "d_T", "d_delta", "d_min", "r_T", "r_e", "stop", "ep_len", "collisions"))
        return [
            _describe(name, None, episode) | walked | answer | {"actions": None, "poses": None}
            for name, given in lines.items()
            for episode, answer in zip(episodes, given, strict=True)
        ]


def _describe(name: str, spawn: int | None, episode: Episode) -> dict:
    fields = ("episode_id", "scene_id", "question_type", "question", "answer")
    return {"agent": name, "spawn": spawn} | {field: getattr(episode, field) for field in fields}


def _judge(episodes: Sequence[Episode], scores: np.ndarray, answers: Sequence[str]) -> list[dict]:
    true = np.array([answers.index(e.answer) for e in episodes])
    ranks = answer_ranks(scores, true)
    best = scores.argmax(1)
    return [
        {"predicted": answers[b], "correct": float(b == t), "rank": float(r)}
        for b, t, r in zip(best, true, ranks, strict=True)
    ]
