"""Plays walkers through questions in houses and gives one row for each question, setting and walker.

`data.demonstrations.spawn_settings` says where a question is spawned; an episode ends with STOP or after 100 actions (Das et al. 2018, Sec. 5).
All walkers are answered for by the agent's answerer, or by others that `play` is given, from the last frames of history and
walk, or from all of them. An answer is one that train gave to questions of that kind.

A row: agent, spawn (the setting), episode_id, scene_id, question_type, question, answer; what `envs.metrics.walk_metrics`
gives; seen, 1 where the last view shows the target (`envs.rendering.target_visibility`); collisions; predicted, correct (0 or 1), rank of
the true answer; actions, poses and distances (metres to the goal at each pose) of the walk. What a line of the table does
not have (a walk, for those who only hear the question) is None.

Axes: N episodes in lockstep, T history steps, K actions, L frames that are answered from, F features.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from eqa.data.batches.imitation import PADDED_ACTION, last_places
from eqa.data.demonstrations.spawn_settings import SPAWN_SETTINGS, SpawnPoint, spawn_point
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.generated import GeneratedEQA
from eqa.data.questions.balance import MajorityBaseline
from eqa.data.questions.counts import tally
from eqa.envs.actions import MAX_EPISODE_ACTIONS, Action
from eqa.envs.episode import Episode
from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.simulator import HouseSimulator, enter
from eqa.envs.metrics import answer_ranks, walk_metrics
from eqa.envs.progress import progress
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.target_visibility import LEAST_SHARE, target_shares
from eqa.envs.simulator import Goal
from eqa.models.agents.frontier import FrontierWalker
from eqa.models.agents.neural import Agent
from eqa.models.agents.oracles import (
    BestViewWalker,
    Depth,
    ForwardWalker,
    NavigatorWalker,
    RandomWalker,
    ShortestPathWalker,
    Start,
)
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.blind import blind_lstm

SCENES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Walked:
    """N recorded walks, padded: the spawn and the pose that each action led to, the last one included."""

    scenes: np.ndarray  # (N,)
    poses: np.ndarray  # (N, K + 1, 3)
    distances_m: np.ndarray  # (N, K + 1)
    rooms: np.ndarray  # (N, K + 1)
    actions: np.ndarray  # (N, K), -1 behind the end
    collisions: np.ndarray  # (N,)
    features: Float16[np.ndarray, "N K1 F"] | None  # at each pose that was walked from; None for who needs no features

    @property
    def num_actions(self) -> np.ndarray:
        return (self.actions != PADDED_ACTION).sum(1)

    @property
    def num_views(self) -> np.ndarray:
        """How many frames each has seen; what is seen after STOP was seen before it."""
        last = self.actions[np.arange(len(self.actions)), self.num_actions - 1]
        return self.num_actions + (last != Action.STOP)

    @property
    def path_m(self) -> np.ndarray:
        return np.linalg.norm(np.diff(self.poses[:, :, :2], axis=1), axis=2).sum(1)


def batches(demos: Demonstrations, settings: Sequence[str], size: int) -> Iterator[list[SpawnPoint]]:
    """All questions in all settings in which they count; those of a house stay together, so that few are loaded at once."""
    valid = [s for row in range(len(demos)) for setting in settings if (s := spawn_point(demos, row, setting))]
    for begin in range(0, len(valid), size):
        yield valid[begin : begin + size]


class Evaluation:
    """Everything that all walkers share: houses, demonstrations, extractor, answerer. `lockstep` episodes go side by side."""

    def __init__(
        self, agent: Agent, source: GeneratedEQA, split: str, *, extractor: FeatureExtractor, lockstep: int = 48
    ) -> None:
        self.lockstep = lockstep
        self.agent, self.source, self.extractor = agent.eval(), source, extractor
        self.demos = source.demonstrations(split)
        self._scene = functools.lru_cache(SCENES_KEPT)(lambda name: build_scene(source.house(name), load_catalog()))
        for episode in self.demos.episodes:
            agent.vocabulary.encode(episode.question)
            agent.vocabulary.answer_id(episode.answer)

    def walkers(self, seed: int) -> dict[str, object]:
        """The lines of the table that walk, in its order."""
        return {
            "random walk": RandomWalker(seed),
            "forward only": ForwardWalker(),
            "nearest frontier": FrontierWalker(),
            self.agent.name: NavigatorWalker(self.agent.navigator),
            "shortest path": ShortestPathWalker(),
            "best view": BestViewWalker(),
        }

    def play(
        self,
        walkers: Mapping[str, object],
        settings: Sequence[str] = SPAWN_SETTINGS,
        *,
        answered_by: Mapping[str, Mapping[str, nn.Module]] | None = None,
    ) -> list[dict]:
        """Rows of all walkers, walker by walker, setting by setting.

        `answered_by` gives for a walker's name the lines that are made of its walks, each with its answerer; a walker that is
        not among them is one line, which the agent's own answerer answers for.
        """
        todo = list(batches(self.demos, settings, self.lockstep))
        answerers = {name: (answered_by or {}).get(name, {name: self.agent.answerer}) for name in walkers}
        rows: dict[str, list[dict]] = {line: [] for lines in answerers.values() for line in lines}
        with progress("evaluation", len(todo) * len(walkers)) as advance:
            for batch in todo:
                simulator, scenes = enter([self.demos.episodes[s.row].scene_id for s in batch], self.source.house)
                start = self._start(batch, simulator, scenes)
                for name, walker in walkers.items():
                    simulator.reset(np.arange(len(scenes)), scenes, start.poses, [Goal.of(e) for e in start.episodes])
                    walker.begin(start)
                    walked = self._walk(walker, simulator, scenes)
                    measured = self._measured(batch, walked, simulator)
                    for line, answerer in answerers[name].items():
                        answers = self._answers(
                            answerer, start.episodes, *self._frames(answerer, batch, walked, simulator)
                        )
                        rows[line] += _rows(line, batch, start.episodes, measured, answers)
                    advance(1)
        return [
            row for of_line in rows.values() for row in sorted(of_line, key=lambda row: settings.index(row["spawn"]))
        ]

    def _history(self, one: SpawnPoint) -> slice:
        """Rows of the demonstrations that lie before the spawn and are known."""
        begin = int(self.demos.offsets[one.row])
        return slice(begin, begin + one.known)

    def _start(self, batch: Sequence[SpawnPoint], simulator: HouseSimulator, scenes: np.ndarray) -> Start:
        demos, history = self.demos, [self._history(s) for s in batch]
        episodes = [demos.episodes[s.row] for s in batch]
        questions = [torch.tensor(self.agent.vocabulary.encode(e.question)) for e in episodes]
        actions = [torch.from_numpy(demos.actions[h].astype(np.int64)) for h in history]
        ends = [int(demos.offsets[s.row + 1]) for s in batch]
        return Start(
            questions=pad_sequence(questions, batch_first=True),
            features=pad_sequence([torch.from_numpy(np.array(demos.features[h])) for h in history], batch_first=True),
            actions=pad_sequence(actions, batch_first=True, padding_value=PADDED_ACTION),
            poses=np.array([s.pose for s in batch]),
            episodes=episodes,
            houses=[simulator.houses[k] for k in scenes],
            remaining=[
                None if s.left is None else demos.actions[e - s.left : e] for s, e in zip(batch, ends, strict=True)
            ],
        )

    def _walk(self, walker: object, simulator: HouseSimulator, scenes: np.ndarray) -> Walked:
        """Plays until all have stopped."""
        active, collisions = np.ones(len(scenes), bool), np.zeros(len(scenes), int)
        poses, distances, rooms, actions = [simulator.poses], [simulator.distance_m], [simulator.room], []
        features = [self._see(simulator, active)] if walker.needs == "features" else None
        depth = self._depth_renderer(simulator) if walker.needs == "depth" else None
        while active.any() and len(actions) < MAX_EPISODE_ACTIONS:
            seen = None
            if features is not None:
                seen = torch.from_numpy(features[-1]).float()
            elif depth is not None:
                seen = _depth(depth, scenes, simulator.poses, active)
            chosen = np.where(active, walker.act(seen, active), Action.STOP)
            actions.append(np.where(active, chosen, PADDED_ACTION))
            collisions += simulator.step(chosen)
            poses.append(simulator.poses)
            distances.append(simulator.distance_m)
            rooms.append(simulator.room)
            active = active & (chosen != Action.STOP)
            if features is not None:
                features.append(self._see(simulator, active))
        recorded = (np.stack(record, 1) for record in (poses, distances, rooms, actions))
        return Walked(scenes, *recorded, collisions, None if features is None else np.stack(features, 1))

    def _see(self, simulator: HouseSimulator, active: np.ndarray) -> Float16[np.ndarray, "N F"]:
        """Features of those who still walk, in their places; the others' stay 0 and are not looked at."""
        who = np.flatnonzero(active)
        features = np.zeros((len(active), self.extractor.encoder.feature_size), np.float16)
        if len(who):
            features[who] = self.extractor(simulator.render(who)["rgb"])
        return features

    def _depth_renderer(self, simulator: HouseSimulator) -> Renderer:
        renderer = Renderer(Camera(), ("depth",))
        renderer.load(self._scenes(simulator))
        return renderer

    def _scenes(self, simulator: HouseSimulator) -> list[Scene]:
        return [self._scene(house.id) for house in simulator.houses]

    def _measured(
        self, batch: Sequence[SpawnPoint], walked: Walked, simulator: HouseSimulator
    ) -> list[tuple[dict, dict]]:
        """Of each walk what is measured, and what is recorded; whoever answers."""
        episodes = [self.demos.episodes[s.row] for s in batch]
        in_room = walked.rooms == np.array([e.target_room for e in episodes])[:, None]
        metrics = walk_metrics(walked.distances_m, in_room, walked.actions, walked.num_actions, walked.path_m)
        ends = walked.poses[np.arange(len(batch)), walked.num_actions]
        targets = np.array([e.target_object for e in episodes])
        metrics["seen"] = target_shares(self._scenes(simulator), walked.scenes, ends, targets) >= LEAST_SHARE
        return [
            (
                {name: float(values[n]) for name, values in metrics.items()}
                | {"collisions": int(walked.collisions[n])},
                {
                    "actions": walked.actions[n, :length].tolist(),
                    "poses": walked.poses[n, : length + 1].round(4).tolist(),
                    "distances": [round(d, 3) for d in walked.distances_m[n, : length + 1].tolist()],
                },
            )
            for n, length in enumerate(walked.num_actions)
        ]

    def _frames(
        self, answerer: nn.Module, batch: Sequence[SpawnPoint], walked: Walked, simulator: HouseSimulator
    ) -> tuple[Float[torch.Tensor, "N L F"], Bool[torch.Tensor, "N L"]]:
        """Features that are answered from, of history and walk, whoever walked; and which of them are there."""
        ends = [spawn.known + int(views) for spawn, views in zip(batch, walked.num_views, strict=True)]
        if answerer.num_frames is None:  # all of them
            places = [np.arange(end) for end in ends]
        else:
            places = [last_places(end, answerer.num_frames, answerer.earlier_frames) for end in ends]
        own = [np.unique(of_walk[of_walk >= s.known]) - s.known for s, of_walk in zip(batch, places, strict=True)]
        if walked.features is None:
            seen = self._encode_views(walked, own, simulator)
        else:
            seen = [walked.features[n, steps] for n, steps in enumerate(own)]
        frames = []
        for spawn, wanted, steps, views in zip(batch, places, own, seen, strict=True):
            before, at = wanted < spawn.known, self._history(spawn).start
            found = np.empty((len(wanted), self.extractor.encoder.feature_size), np.float16)
            found[before] = self.demos.features[at : at + spawn.known][wanted[before]]
            found[~before] = views[np.searchsorted(steps, wanted[~before] - spawn.known)]
            frames.append(found)
        mask = pad_sequence([torch.ones(len(f), dtype=torch.bool) for f in frames], batch_first=True)
        return pad_sequence([torch.from_numpy(f).float() for f in frames], batch_first=True), mask

    def _encode_views(self, walked: Walked, steps: Sequence[np.ndarray], simulator: HouseSimulator) -> list[np.ndarray]:
        """Features of the views at some steps of each walk."""
        counts = [len(of_walk) for of_walk in steps]
        poses = np.concatenate([walked.poses[n, of_walk] for n, of_walk in enumerate(steps)])
        rgb = simulator.renderer.render(np.repeat(walked.scenes, counts).astype(np.int32), poses)["rgb"]
        return np.split(self.extractor(rgb), np.cumsum(counts)[:-1])

    @torch.inference_mode()
    def _answers(
        self,
        answerer: nn.Module,
        episodes: Sequence[Episode],
        features: torch.Tensor | None,
        mask: torch.Tensor | None = None,
    ) -> list[dict]:
        """What an answerer says to each; the blind baseline needs no frames."""
        vocabulary = self.agent.vocabulary
        asked = [e.question for e in episodes]
        said = answerer(features, torch.from_numpy(vocabulary.encode_batch(asked)), mask).numpy()
        return _judge(episodes, np.where(vocabulary.of_kind(asked), said, -np.inf), vocabulary.answers)

    def blind(self) -> list[dict]:
        """Rows of those who answer without walking: the majority answer of each question, and the strongest model of
        `models.evaluation.blind`."""
        episodes, vocabulary = self.demos.episodes, self.agent.vocabulary
        train, val = (self.source.episodes(split) for split in ("train", "val"))
        hears = blind_lstm(tally(train), tally(val), vocabulary)
        lines = {
            "majority": _judge(episodes, MajorityBaseline(train, vocabulary).scores(episodes), vocabulary.answers),
            "question only": self._answers(hears, episodes, None),
        }
        names = (
            "d_0",
            "d_T",
            "d_delta",
            "d_min",
            "r_T",
            "r_e",
            "stop",
            "ep_len",
            "success",
            "spl",
            "seen",
            "collisions",
        )
        walked = dict.fromkeys(names)
        return [
            _describe(name, None, episode) | walked | answer | dict.fromkeys(("actions", "poses", "distances"))
            for name, given in lines.items()
            for episode, answer in zip(episodes, given, strict=True)
        ]


def _depth(renderer: Renderer, scenes: np.ndarray, poses: np.ndarray, active: np.ndarray) -> Depth:
    """What those who still walk see; the others' depth is left 0."""
    who = np.flatnonzero(active)
    depth = np.zeros((len(active), renderer.camera.height_px, renderer.camera.width_px), np.float32)
    depth[who] = renderer.render(scenes[who].astype(np.int32), poses[who])["depth"]
    return Depth(depth, poses)


def _rows(
    name: str,
    batch: Sequence[SpawnPoint],
    episodes: Sequence[Episode],
    measured: Sequence[tuple[dict, dict]],
    answers: Sequence[dict],
) -> list[dict]:
    return [
        _describe(name, spawn.setting, episode) | metrics | answer | record
        for spawn, episode, (metrics, record), answer in zip(batch, episodes, measured, answers, strict=True)
    ]


def _describe(name: str, spawn: str | None, episode: Episode) -> dict:
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
