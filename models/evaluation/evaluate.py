"""Evaluation: plays agents through questions and gives one row for each question, setting and agent.

`data.demonstrations.spawn_settings` defines the spawns. An episode ends with STOP, or after its world's number of
actions (Das et al. 2018, Sec. 5: 100). The trained agent's answerer, or others given to `play`, answers for agents that
only walk. It sees the last frames of history and walk, or all of them. Its scores are added to what the question alone
says (`Vocabulary.log_prior`), so an answerer that sees nothing of use says what the question allows.

A row has
- agent, and its relations to other lines (`models.agents.relations`);
- spawn (the setting), episode_id, scene_id, question_type, question, answer;
- the results of `envs.metrics.walk_metrics`; seen, 1 if the last view shows the target (`envs.metrics.target_shares`);
  collisions;
- predicted, correct (0 or 1), rank of the true answer;
- attention, where the answerer looked (`attention_of`);
- actions, poses and distances (metres to the goal at each pose) of the walk;
- planned, 1 for each action that a planner chose, 0 where its controller repeated the one before;
- of a source with a judge, CityEQA's metrics: qaa, the judge's mark of the answer; num_steps; and, where the target has
  a place, the results of `envs.metrics.navigation_errors`.

Values that a line does not have are None: the walk of a question-only baseline, or the answers of a scripted agent
without a trained one beside it.

Axes: N episodes in lockstep, S steps, T history steps, K actions, L frames that are answered from, H rows and W columns
of their maps, F features, A answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32, Float64, Int64
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from eqa.data.batches.imitation import last_places
from eqa.data.demonstrations.spawn_settings import SPAWN_SETTINGS, SpawnPoint, spawn_point
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.questions.balance import MajorityBaseline
from eqa.data.questions.counts import tally
from eqa.data.source import Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import PADDED_ACTION
from eqa.envs.episode import Episode
from eqa.envs.metrics import LEAST_SHARE, answer_ranks, navigation_errors, target_shares, walk_metrics
from eqa.envs.progress import console, progress
from eqa.envs.simulator import Goal, SceneFailed, Simulator, World, enter, in_windows
from eqa.envs.task import Task, Trajectories, play
from eqa.models.agents.agent import Answer, EpisodeBatch, Walker
from eqa.models.agents.frontier_drone import frontier_agent
from eqa.models.agents.looking_round import LookingRound, looks_round
from eqa.models.agents.navigating import NavigatorAgent, SeeingAgain
from eqa.models.agents.neural import NeuralAgent
from eqa.models.agents.oracles import BestViewAgent, ForwardAgent, RandomAgent, ShortestPathAgent
from eqa.models.agents.relations import Relations
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.encoders.seen_frames import SeenFrames
from eqa.models.evaluation.blind import blind_lstm
from eqa.models.evaluation.judges import mark

RECORDED = ("actions", "poses", "distances", "planned", "attention")  # of a walk; a line without walks has None
GIVEN_UP = 2  # episodes of a scene that fail alone, after which its others are not tried
PLACES_KEPT, LEAST_SHOWN = 64, 0.001  # of an answerer's attention, in a row


def batches(demos: Demonstrations, settings: Sequence[str], size: int, world: World) -> Iterator[list[SpawnPoint]]:
    """All questions in all settings in which they count.

    Questions of a house stay together, so that few houses are loaded at once.
    """
    places = ((row, setting) for row in range(len(demos)) for setting in settings)
    valid = [s for row, setting in places if (s := spawn_point(demos, row, setting, world.actions))]
    for some in in_windows([demos.episodes[one.row].scene_id for one in valid], size, world.scenes_at_once):
        yield [valid[n] for n in some]


class Evaluation:
    """World, demonstrations, encoder and answerer, shared by all agents. `lockstep` episodes run side by side.

    `agent` is the trained one; without it nobody answers for agents that only walk.
    """

    def __init__(
        self, agent: NeuralAgent | None, source: Source, split: str, *, extractor: FeatureExtractor, lockstep: int = 48
    ) -> None:
        self.lockstep = lockstep
        self.void: list[dict] = []  # episodes that could not be played, see `_results`
        self.agent, self.source, self.extractor, self.world = agent, source, extractor, source.world
        self.demos = source.demonstrations(split)
        self.frames = SeenFrames(extractor, self.demos)  # of the batch that is played
        if agent is None:  # nobody has learned words, so all are known
            self.vocabulary = Vocabulary.of(self.demos.episodes)
        else:
            self.vocabulary = agent.eval().to(extractor.device).vocabulary
        for episode in self.demos.episodes:
            self.vocabulary.encode(episode.question)
            self.vocabulary.answer_id(episode.answer)

    def walkers(self, seed: int) -> dict[str, Walker]:
        """The lines of the table that walk, in its order."""
        before: list[Walker] = [RandomAgent(seed), ForwardAgent()]
        seeking = frontier_agent(self.world.camera)
        if seeking.fits(self.world.actions):
            before.append(seeking)
        trained = {self.agent.name: SeeingAgain(self.agent.navigator, self.frames)}
        if isinstance(self.agent.answerer, NamingAnswerer) and self.agent.navigator.can_stop:
            turning = LookingRound(self.agent.navigator, self.frames, self.agent.answerer.names)
            trained[looks_round(self.agent.name)] = turning
        oracles = ShortestPathAgent(), BestViewAgent()
        return {a.name: a for a in before} | trained | {a.name: a for a in oracles}

    def play(
        self,
        agents: Mapping[str, Walker],
        settings: Sequence[str] = SPAWN_SETTINGS,
        *,
        answered_by: Mapping[str, Mapping[str, nn.Module]] | None = None,
        relations: Mapping[str, Relations] | None = None,
    ) -> list[dict]:
        """Rows of all agents, agent by agent, setting by setting.

        `answered_by` maps an agent's name to the lines that are made of its walks, each with its answerer. Any other
        agent is one line: with its own answers if it gives some, else with those of the trained agent's answerer.
        `relations` are those of lines besides the trained agent's, by name; lines without an entry have none.
        """
        todo = list(batches(self.demos, settings, self.lockstep, self.world))
        rows: dict[str, list[dict]] = {}
        own = {}
        if self.agent is not None:
            walks = Relations(variant_of=self.agent.name)
            own = {self.agent.name: self.agent.relations, looks_round(self.agent.name): walks}
        related = {**own, **(relations or {})}
        with progress("evaluation", len(todo) * len(agents)) as advance:
            played = partial(
                self._played, agents=agents, answered_by=answered_by or {}, related=related, advance=advance
            )
            for batch in todo:
                for found in self._results(batch, played):
                    for line, of_line in found.items():
                        rows.setdefault(line, []).extend(of_line)
        if not rows:
            raise ValueError(f"evaluation: expected some episode that can be played, got {len(self.void)} void ones")
        order = [line for name in agents for line in (answered_by or {}).get(name, {name: None})]
        return [row for line in order for row in sorted(rows[line], key=lambda row: settings.index(row["spawn"]))]

    def _results(
        self, batch: Sequence[SpawnPoint], played: Callable[[Sequence[SpawnPoint]], dict[str, list[dict]]]
    ) -> Iterator[dict[str, list[dict]]]:
        """Rows of each line, in parts. Episodes of a scene that fails are played one by one, without the others.

        One that fails alone is void: no line has it. After GIVEN_UP of them, so is the rest of its scene.
        """
        try:
            found = played(batch) if batch else {}
        except SceneFailed as failed:
            here = [s for s in batch if self.demos.episodes[s.row].scene_id == failed.scene_id]
            yield from self._results([s for s in batch if s not in here], played)
            if len(here) == 1:
                self._give_up(here, failed)
                return
            for n, one in enumerate(here):
                if sum(void["scene_id"] == failed.scene_id for void in self.void) >= GIVEN_UP:
                    self._give_up(here[n:], failed)
                    return
                yield from self._results([one], played)
        else:
            yield found

    def _give_up(self, spawns: Sequence[SpawnPoint], failed: SceneFailed) -> None:
        """Notes episodes as void, and says so."""
        for spawn in spawns:
            name, scene_id = self.demos.episodes[spawn.row].episode_id, failed.scene_id
            self.void.append({"episode_id": name, "spawn": spawn.setting, "scene_id": scene_id, "why": str(failed)})
            console.print(f"[yellow]void: question {name} from {spawn.setting}; {failed}", soft_wrap=True)

    def _played(
        self,
        batch: Sequence[SpawnPoint],
        *,
        agents: Mapping[str, Walker],
        answered_by: Mapping[str, Mapping[str, nn.Module]],
        related: Mapping[str, Relations | None],
        advance: Callable[[int], None],
    ) -> dict[str, list[dict]]:
        """Rows of each line in a batch of episodes; `advance` is told of each agent that has played."""
        start, rows = self._start(batch), {}
        self.frames.forget()
        self.frames.take_up(s.row for s in batch)
        simulator, scenes = enter(self.world, [episode.scene_id for episode in start.episodes])
        for name, agent in agents.items():
            walked = self._walk(agent, simulator, scenes, start)
            planned = agent.planned if isinstance(agent, NavigatorAgent) else None
            measured = self._measured(batch, walked, simulator, planned)
            for line, answers in self._lines(name, agent, batch, start, walked, simulator, answered_by):
                answers = self._marked(start.episodes, answers)
                rows[line] = _rows(line, related.get(line), batch, start.episodes, measured, answers)
            advance(1)
        return rows

    def _lines(
        self,
        name: str,
        agent: Walker,
        batch: Sequence[SpawnPoint],
        start: EpisodeBatch,
        walked: Trajectories,
        simulator: Simulator,
        answered_by: Mapping[str, Mapping[str, nn.Module]],
    ) -> Iterator[tuple[str, list[dict]]]:
        """The answers of each line that is made of an agent's walks."""
        said = agent.answer() if name not in answered_by else None
        if said is not None:
            yield name, judged(start.episodes, said, self.vocabulary.answers)
            return
        if self.agent is None:
            yield name, [dict.fromkeys(("predicted", "correct", "rank")) for _ in start.episodes]
            return
        features = agent.features.cpu().numpy() if isinstance(agent, NavigatorAgent) else None
        for line, answerer in answered_by.get(name, {name: self.agent.answerer}).items():
            *frames, steps = self._frames(answerer, batch, walked, features, simulator)
            prior = self.vocabulary.log_prior([e.question for e in start.episodes])
            answers = self._answers(answerer, start.episodes, prior, *frames)
            looked = self._attended(answerer, start.episodes, *frames)
            places = [attention_of(shares, at) for shares, at in zip(looked, steps, strict=True)]
            yield line, [said | {"attention": at} for said, at in zip(answers, places, strict=True)]

    def _history(self, one: SpawnPoint) -> slice:
        """Rows of the demonstrations that lie before the spawn and are known."""
        begin = int(self.demos.offsets[one.row])
        return slice(begin, begin + one.known)

    def _start(self, batch: Sequence[SpawnPoint]) -> EpisodeBatch:
        demos, history = self.demos, [self._history(s) for s in batch]
        episodes = [demos.episodes[s.row] for s in batch]
        questions = [torch.tensor(self.vocabulary.encode(e.question)) for e in episodes]
        actions = [torch.from_numpy(demos.actions[h].astype(np.int64)) for h in history]
        ends = [int(demos.offsets[s.row + 1]) for s in batch]
        return EpisodeBatch(
            questions=[e.question for e in episodes],
            question_ids=pad_sequence(questions, batch_first=True),
            features=pad_sequence([torch.from_numpy(np.array(demos.features[h])) for h in history], batch_first=True),
            actions=pad_sequence(actions, batch_first=True, padding_value=PADDED_ACTION),
            poses=np.array([s.pose for s in batch]),
            episodes=episodes,
            world=self.world,
            remaining=[
                None if s.left is None else demos.actions[e - s.left : e] for s, e in zip(batch, ends, strict=True)
            ],
        )

    def _walk(self, agent: Walker, simulator: Simulator, scenes: np.ndarray, start: EpisodeBatch) -> Trajectories:
        """Plays until all have stopped."""
        task = Task(simulator)
        task.begin(np.arange(len(scenes)), scenes, start.poses, [Goal.of(e) for e in start.episodes])
        agent.reset(start)
        play(task, agent)
        return task.trajectories()

    def _measured(
        self,
        batch: Sequence[SpawnPoint],
        walked: Trajectories,
        simulator: Simulator,
        planned: Bool[np.ndarray, "N S"] | None,
    ) -> list[tuple[dict, dict]]:
        """Measurements and record of each walk; both are independent of the answerer."""
        episodes = [self.demos.episodes[s.row] for s in batch]
        in_room = walked.regions == np.array([e.target_room for e in episodes])[:, None]
        metrics = walk_metrics(walked.distances_m, in_room, walked.actions, walked.num_actions, walked.path_m)
        targets = np.array([e.target_object for e in episodes])
        last = simulator.look(walked.scenes, walked.ends, ("instance_id",))["instance_id"].cpu().numpy()
        metrics["seen"] = target_shares(last, targets) >= LEAST_SHARE
        if self.source.judge is not None:
            metrics |= _of_the_city(episodes, walked)
        return [
            (
                {name: None if np.isnan(values[n]) else float(values[n]) for name, values in metrics.items()}
                | {"collisions": int(walked.refused[n].sum())},
                {
                    "actions": walked.actions[n, :length].tolist(),
                    "poses": walked.poses[n, : length + 1].round(4).tolist(),
                    "distances": [round(d, 3) for d in walked.distances_m[n, : length + 1].tolist()],
                    "planned": None if planned is None else planned[n, :length].astype(int).tolist(),
                },
            )
            for n, length in enumerate(walked.num_actions)
        ]

    def _marked(self, episodes: Sequence[Episode], answers: Sequence[dict]) -> list[dict]:
        """Answers with the marks of the source's judge, if it has one; None where nobody answered."""
        judge = self.source.judge
        if judge is None:
            return list(answers)
        given = [(episode, answer["predicted"]) for episode, answer in zip(episodes, answers, strict=True)]
        marks = [None if said is None else mark(judge, e.question, e.answer, said) for e, said in given]
        return [answer | {"qaa": qaa} for answer, qaa in zip(answers, marks, strict=True)]

    def _frames(
        self,
        answerer: nn.Module,
        batch: Sequence[SpawnPoint],
        walked: Trajectories,
        features: Float16[np.ndarray, "N S F"] | None,
        simulator: Simulator,
    ) -> tuple[Float[torch.Tensor, "N L F"], Bool[torch.Tensor, "N L"], list[np.ndarray]]:
        """Features of history and walk that are answered from, for any walker, and a mask of the frames that exist.

        The last part has the step of each of these frames; those before the spawn are negative.
        `features` are those that an agent has computed of its own steps; other views are rendered again.
        """
        ends = [spawn.known + int(views) for spawn, views in zip(batch, walked.num_views, strict=True)]
        if answerer.num_frames is None:  # all of them
            places = [np.arange(end) for end in ends]
        else:
            places = [last_places(end, answerer.num_frames, answerer.earlier_frames) for end in ends]
        own = [np.unique(of_walk[of_walk >= s.known]) - s.known for s, of_walk in zip(batch, places, strict=True)]
        done = walked.num_actions if features is not None else np.zeros(len(batch), np.int64)
        scenes = [self.demos.episodes[s.row].scene_id for s in batch]
        looked = self._encode_views(walked, scenes, [s[s >= d] for s, d in zip(own, done, strict=True)], simulator)
        frames = []
        for n, (spawn, wanted, steps) in enumerate(zip(batch, places, own, strict=True)):
            views = looked[n] if features is None else np.concatenate([features[n, steps[steps < done[n]]], looked[n]])
            before, at = wanted < spawn.known, self._history(spawn).start
            found = np.empty((len(wanted), self.extractor.encoder.feature_size), np.float16)
            found[before] = self.demos.features[at : at + spawn.known][wanted[before]]
            found[~before] = views[np.searchsorted(steps, wanted[~before] - spawn.known)]
            frames.append(found)
        mask = pad_sequence([torch.ones(len(f), dtype=torch.bool) for f in frames], batch_first=True)
        features = pad_sequence([torch.from_numpy(f).float() for f in frames], batch_first=True)
        return features, mask, [wanted - spawn.known for spawn, wanted in zip(batch, places, strict=True)]

    def _encode_views(
        self, walked: Trajectories, scenes: Sequence[str], steps: Sequence[np.ndarray], simulator: Simulator
    ) -> list[np.ndarray]:
        """Features of the views at some steps of each walk."""
        counts = [len(of_walk) for of_walk in steps]
        if not sum(counts):
            return [np.empty((0, self.extractor.encoder.feature_size), np.float16)] * len(counts)
        poses = np.concatenate([walked.poses[n, of_walk] for n, of_walk in enumerate(steps)])
        rgb = simulator.look(np.repeat(walked.scenes, counts), poses)["rgb"]
        features = self.frames(rgb, np.repeat(scenes, counts).tolist(), poses)
        return np.split(features.cpu().numpy(), np.cumsum(counts)[:-1])

    @torch.inference_mode()
    def _answers(
        self,
        answerer: nn.Module,
        episodes: Sequence[Episode],
        prior: Float32[np.ndarray, "N A"],
        features: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> list[dict]:
        """The answers of an answerer to all questions; the blind baseline needs no frames."""
        questions = self.vocabulary.encode_batch([e.question for e in episodes])
        said = answerer(*_where(answerer, features, torch.from_numpy(questions), mask)).float().cpu().numpy()
        return _judge(episodes, said + prior, self.vocabulary.answers)

    @torch.inference_mode()
    def _attended(
        self, answerer: nn.Module, episodes: Sequence[Episode], features: torch.Tensor, mask: torch.Tensor
    ) -> Float32[np.ndarray, "N L H W"]:
        """The share of attention that each place of each frame's map got, for each question."""
        questions = self.vocabulary.encode_batch([e.question for e in episodes])
        where = _where(answerer, features, torch.from_numpy(questions), mask)
        return answerer.attended(*where).float().cpu().numpy()

    def blind(self) -> list[dict]:
        """Rows of the baselines without walks: the majority answer, and the best of `models.evaluation.blind`."""
        episodes, vocabulary = self.demos.episodes, self.vocabulary
        train, val = (self.source.episodes(split) for split in ("train", "val"))
        of_kind = vocabulary.of_kind([e.question for e in episodes])
        hears = blind_lstm(tally(train), tally(val), vocabulary)
        lines = {
            "majority": _judge(episodes, MajorityBaseline(train, vocabulary).scores(episodes), vocabulary.answers),
            "question only": self._answers(hears, episodes, np.where(of_kind, np.float32(0), np.float32(-np.inf))),
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
            _describe(name, None, None, episode) | walked | answer | dict.fromkeys(RECORDED)
            for name, given in lines.items()
            for episode, answer in zip(episodes, self._marked(episodes, given), strict=True)
        ]


def _of_the_city(episodes: Sequence[Episode], walked: Trajectories) -> dict[str, Float64[np.ndarray, " N"]]:
    """CityEQA's metrics of walks; NaN for the errors to targets without a place."""
    points = np.array([e.target_point or (np.nan,) * 3 for e in episodes], np.float64)
    known = ~np.isnan(points).any(1)
    errors = navigation_errors(walked.ends[known, :3], points[known])
    found = {"num_steps": walked.num_actions.astype(np.float64)}
    for name, values in errors.items():
        found[name] = np.full(len(points), np.nan)
        found[name][known] = values
    return found


def _where(network: nn.Module, *inputs: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Inputs on the device of a network's weights, if it has any."""
    device = next((weights.device for weights in network.parameters()), torch.device("cpu"))
    return [None if values is None else values.to(device) for values in inputs]


def _rows(
    name: str,
    relations: Relations | None,
    batch: Sequence[SpawnPoint],
    episodes: Sequence[Episode],
    measured: Sequence[tuple[dict, dict]],
    answers: Sequence[dict],
) -> list[dict]:
    return [
        _describe(name, relations, spawn.setting, episode) | metrics | {"attention": None} | answer | record
        for spawn, episode, (metrics, record), answer in zip(batch, episodes, measured, answers, strict=True)
    ]


def attention_of(shares: Float32[np.ndarray, "L H W"], steps: Int64[np.ndarray, " _"]) -> dict:
    """The places that an answerer looked at most, ready for JSON, with the rows and columns of its maps.

    A place is [step of its frame, row, column, share of all attention]; a frame before the spawn has a negative step.
    `shares` may have further frames, which are padding.
    """
    shares = shares[: len(steps)]
    most = np.argsort(-shares, axis=None, kind="stable")[:PLACES_KEPT]
    at = zip(*np.unravel_index(most, shares.shape), strict=True)
    places = [
        [int(steps[frame]), int(row), int(column), float(shares[frame, row, column])] for frame, row, column in at
    ]
    return {"grid": list(shares.shape[1:]), "places": [[*p[:3], round(p[3], 3)] for p in places if p[3] >= LEAST_SHOWN]}


def _describe(name: str, relations: Relations | None, spawn: str | None, episode: Episode) -> dict:
    fields = ("episode_id", "scene_id", "question_type", "question", "answer")
    return (
        {"agent": name, "spawn": spawn}
        | asdict(relations or Relations())
        | {field: getattr(episode, field) for field in fields}
    )


def _judge(episodes: Sequence[Episode], scores: np.ndarray, answers: Sequence[str]) -> list[dict]:
    true = np.array([answers.index(e.answer) for e in episodes])
    ranks = answer_ranks(scores, true)
    best = scores.argmax(1)
    return [
        {"predicted": answers[b], "correct": float(b == t), "rank": float(r)}
        for b, t, r in zip(best, true, ranks, strict=True)
    ]


def judged(episodes: Sequence[Episode], said: Sequence[Answer], known: Sequence[str]) -> list[dict]:
    """Judges answers in words: right if equal up to case, spaces and a full stop; ranked if they come with scores."""
    ranks: list[float | None] = [None] * len(said)
    for n, (episode, answer) in enumerate(zip(episodes, said, strict=True)):
        if answer.scores is not None:
            ranks[n] = float(answer_ranks(answer.scores[None], np.array([known.index(episode.answer)]))[0])
    return [
        {"predicted": answer.text, "correct": float(_plain(answer.text) == _plain(episode.answer)), "rank": rank}
        for episode, answer, rank in zip(episodes, said, ranks, strict=True)
    ]


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")
