"""Results of a run: the agent as one checkpoint, rows, tables, curves, floor plans and films."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn

from eqa.data.source import Source
from eqa.envs.files import atomic_write
from eqa.envs.progress import console
from eqa.models.agents.agent import Walker
from eqa.models.agents.checkpoints import fitting_agent
from eqa.models.agents.looking_round import looks_round
from eqa.models.agents.navigating import SeeingAgain
from eqa.models.agents.neural import NeuralAgent
from eqa.models.agents.relations import Relations
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.comparison import REFERENCE, by_line, differences, estimates, gather
from eqa.models.evaluation.evaluate import Evaluation
from eqa.models.evaluation.pictures import WAY, film, frames_along, plan_of_walk, some_views
from eqa.models.evaluation.run_tables import learning_curves, results_table, write_rows, write_tables
from eqa.models.evaluation.runs import read_run
from eqa.models.evaluation.summary import summary
from eqa.models.evaluation.tables import differences_grid, terminal_tables
from eqa.models.run_record import task_words

ORACLE, VOID = "shortest path", "void.jsonl"
LINES = ("main", "all", "own", "answerer")
MAIN = "forward only", ORACLE  # lines that "main" shows beside the agent's
SPAWNS = ("main", "all")
FITTED = ("navigator", "answerer")  # parts of an agent
NUM_PLANS, NUM_FILMS = 12, 4


class AgentResults:
    """Joins the fitted parts to one agent, saves it, and plays it in unseen houses.

    - Parts that an experiment does not fit come from another run's agent, see
      `models.agents.checkpoints.fitting_agent`. The default is the last agent called `base_name` (None: any name).
    - `lines` chooses the lines of the table. "all": all. "main": the agent's, also looking round where its answerer
      reads names, straight walks, shortest paths and the question alone. "own": the agent's. "answerer": the agent's
      and the shortest paths', for an experiment that changes the answers alone.
    - `spawns`: "main" or "all" of the source's (`data.demonstrations.spawn_settings`): T-10, T-30 and T-50 in houses.
    - `compare`: the agent that fitting started from walks the same questions, with the stop_odds of the start of
      learning, and the differences are shown.
    - `finetunes`: the fitted navigator began with that agent's, so it is fine-tuned from that agent. A typed
      `finetuned_from` goes first, and a navigator that is not fitted keeps its own.
    - `also_at` are further stop_odds for it: a navigator that learned nothing but to stop later comes nearer, too.

    ValueError, before anything is fitted, if there is no such agent.
    """

    def __init__(
        self,
        *,
        source: Source,
        folder: Path,
        configuration: dict,
        split: str,
        checkpoint: str | None = None,
        base_name: str | None = REFERENCE,
        lines: str = "all",
        spawns: str = "all",
        compare: bool = False,
        finetunes: bool = False,
        also_at: Sequence[float] = (),
    ) -> None:
        self.source, self.folder, self.configuration, self.split = source, folder, configuration, split
        if split not in source.splits:
            raise ValueError(f"on_finish.split: expected one of {list(source.splits)}, got {split!r}")
        self.lines, self.spawns = _known("lines", lines, LINES), _known("spawns", spawns, SPAWNS)
        self.compare, self.finetunes, self.also_at = compare, finetunes, also_at
        self.other = None
        if checkpoint is not None:
            self.other = fitting_agent(checkpoint, source, name=base_name, covering=finetunes)

    def __call__(self, fitted: Mapping[str, pl.LightningModule]) -> None:
        parts = {} if self.other is None else {name: getattr(self.other, name) for name in FITTED}
        for module in fitted.values():
            parts |= module.parts
        agent = NeuralAgent(
            encoder=self.source.encode.encoder,
            **parts,
            vocabulary=self.other.vocabulary if self.finetunes and self.other else self.source.vocabulary,
            config=self.configuration | {"finetuned_from": self._finetuned_from(fitted.values())},
        )
        agent.save(self.folder / "agent.ckpt")
        compare_with = self._starts(fitted.values()) if self.compare else []
        for stage in fitted:
            learning_curves(self.folder / stage / "log", self.folder / f"curves_{stage}.png")
        write_results(
            agent,
            self.source,
            folder=self.folder,
            split=self.split,
            seed=self.configuration["seed"],
            extractor=self.source.encode,
            lines=self.lines,
            spawns=self.spawns,
            compare_with=compare_with,
        )

    def _finetuned_from(self, modules: Iterable[pl.LightningModule]) -> str | None:
        """Name of the agent that the navigator began with, None if it began with random weights."""
        if typed := self.configuration.get("finetuned_from"):
            return typed
        if self.other is None:
            return None
        if self.finetunes:
            return self.other.name
        fitted = any("navigator" in module.parts for module in modules)
        return None if fitted else self.other.relations.finetuned_from

    def _starts(self, modules: Iterable[pl.LightningModule]) -> list[NeuralAgent]:
        """The agent that fitting started from, with the stop_odds of the start of learning, and with others."""
        starts: dict[str, NeuralAgent] = {}
        own = self.other.navigator.stop_odds
        for stop_odds in (*(getattr(module, "stop_odds", own) for module in modules), *self.also_at):
            start = copy.deepcopy(self.other)
            start.set_stop_odds(stop_odds)
            starts.setdefault(start.name, start)
        return list(starts.values())


def _known(name: str, value: str, known: Iterable[str]) -> str:
    if value not in known:
        raise ValueError(f"{name}: expected one of {list(known)}, got {value!r}")
    return value


def write_results(
    agent: NeuralAgent,
    source: Source,
    *,
    folder: Path,
    split: str,
    seed: int,
    extractor: FeatureExtractor,
    lines: str = "all",
    spawns: str = "all",
    compare_with: Sequence[NeuralAgent] = (),
) -> list[dict]:
    """Plays through a split and writes rows, tables and pictures. `lines` and `spawns`: see `AgentResults`.

    It prints the table, or for main and all lines five sentences on it (`models.evaluation.summary`).

    `compare_with` are other agents that walk beside it, each with the answers of its own answerer. If the two answerers
    differ, a line "other: agent" has the other's walks with this agent's answers. It separates walking from answering.

    ValueError for an agent of the same name, or with another encoder or vocabulary.
    """
    console.rule(f"[bold]evaluation, {split}")
    summed_up = lines in ("main", "all")
    if summed_up:
        _refuse_without_train_and_val(source, lines)
    evaluation = Evaluation(agent, source, split, extractor=extractor)
    walkers = evaluation.walkers(seed)
    beside, answered_by, pairs = {}, {agent.name: {agent.name: agent.answerer}}, []
    relations = {other.name: other.relations for other in compare_with}
    for other in compare_with:
        _comparable(other, agent, extractor)
        if _same(other.navigator, agent.navigator):  # the same walks, with other answers
            answered_by[agent.name][other.name] = other.answerer
            continue
        beside[other.name] = SeeingAgain(other.navigator, evaluation.frames)
        answered_by[other.name] = {other.name: other.answerer}
        if not _same(other.answerer, agent.answerer):
            mixed = f"{other.name}: {agent.name}"
            answered_by[other.name][mixed] = agent.answerer
            relations[mixed] = Relations(walked_by=other.name, answered_by=agent.name)
            pairs += [(mixed, other.name), (agent.name, mixed)]
    if summed_up:
        main = agent.name, looks_round(agent.name), *MAIN
        chosen = {name: walker for name, walker in walkers.items() if lines == "all" or name in main}
        chosen |= beside
    else:
        chosen = {**beside, agent.name: walkers[agent.name]}
        if lines == "answerer":
            line = f"{ORACLE}: {agent.name}"
            chosen[line], relations[line] = walkers[ORACLE], Relations(walked_by=ORACLE, answered_by=agent.name)
    rows = evaluation.play(chosen, getattr(source.spawns, spawns), answered_by=answered_by, relations=relations)
    if summed_up:
        rows += evaluation.blind()
    scale = agent.config.get("scale", {}).get("name", "?")
    title = _title(evaluation, split, scale, seed)
    _write(evaluation, rows, folder, of=agent.name, title=title, show=not summed_up)
    if summed_up:
        console.print(
            f"[bold]{title}",
            *summary(rows, agent.name, folder, source.spawns.main, task_words()),
            sep="\n",
            soft_wrap=True,
            highlight=False,
        )
    if compare_with:
        write_changes(folder, [*((agent.name, other.name) for other in compare_with), *pairs])
    return rows


def write_walks(
    agent: Walker, source: Source, *, folder: Path, split: str, spawns: str, seed: int, scale: str
) -> list[dict]:
    """Plays an agent that learned nothing through a split, alone, and writes rows, tables and pictures."""
    console.rule(f"[bold]evaluation, {split}")
    evaluation = Evaluation(None, source, split, extractor=source.encode)
    rows = evaluation.play({agent.name: agent}, agent.played_from or getattr(source.spawns, spawns))
    _write(evaluation, rows, folder, of=agent.name, title=_title(evaluation, split, scale, seed))
    return rows


def _title(evaluation: Evaluation, split: str, scale: str, seed: int) -> str:
    void = f", {len(evaluation.void)} episodes void" if evaluation.void else ""
    return f"{split} split, {len(evaluation.demos)} questions in unseen {evaluation.source.places}, scale {scale}, seed {seed}{void}"


def _write(
    evaluation: Evaluation, rows: Sequence[dict], folder: Path, *, of: str, title: str, show: bool = True
) -> None:
    """Writes rows, tables and the pictures of an agent's walks; prints the table if it is to `show` it."""
    write_rows(folder / "metrics.jsonl", rows)
    if evaluation.void:
        write_rows(folder / VOID, evaluation.void)
    else:
        (folder / VOID).unlink(missing_ok=True)
    write_tables(folder, rows, title)
    draw_examples(evaluation, rows, folder, of=of)
    if show:
        console.print(results_table(rows, title))


def _refuse_without_train_and_val(source: Source, lines: str) -> None:
    if missing := [split for split in ("train", "val") if split not in source.splits]:
        raise ValueError(
            f"lines: expected own or answerer, as the question-only lines of {lines} are fitted to train and val, and "
            f"these data have no {' and no '.join(missing)}, only {list(source.splits)}"
        )


def _comparable(other: NeuralAgent, agent: NeuralAgent, extractor: FeatureExtractor) -> None:
    if other.name == agent.name:
        raise ValueError(f"compare_with: expected an agent of another row than {agent.name}, got one of the same")
    if other.vocabulary != agent.vocabulary or FeatureExtractor(other.encoder).identity != extractor.identity:
        raise ValueError(
            f"compare_with: expected an agent with the encoder and the vocabulary of {agent.name}, {other.name} has others; "
            "play each by itself, and hold them against each other with scripts/report.py"
        )


def _same(one: nn.Module, other: nn.Module) -> bool:
    if type(one) is not type(other) or one.arguments != other.arguments:
        return False
    weights, others = one.state_dict(), other.state_dict()
    return all(torch.equal(weights[name].cpu(), others[name].cpu()) for name in weights)


def write_changes(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Writes and prints the differences between agents in a run's rows, with paired intervals: differences.md."""
    lines = gather([read_run(folder)])
    different = differences(lines, pairs)
    tables = [differences_grid(by_line(different), spawn) for spawn in lines.questions]
    with atomic_write(folder / "differences.md") as aside:
        aside.write_text("\n".join(table.markdown() for table in tables if table))
    console.print(terminal_tables(lines, estimates(lines), different, None)[-1])


def draw_examples(evaluation: Evaluation, rows: Sequence[dict], folder: Path, *, of: str) -> None:
    """Floor plans and films of the walks of the agent `of` from the spawn that the source shows, types in turn."""
    demos, source = evaluation.demos, evaluation.source
    played = {row["spawn"] for row in rows if row["agent"] == of}
    shown = source.spawns.shown if source.spawns.shown in played else min(played, default=None)
    place = {episode.episode_id: i for i, episode in enumerate(demos.episodes)}
    walks = [row for row in rows if row["agent"] == of and row["spawn"] == shown]
    walked = [row for row in rows if ORACLE in (row["agent"], row["walked_by"]) and row["spawn"] == shown]
    oracle = {row["episode_id"]: row for row in walked}
    for number, row in enumerate(_in_turn(walks)[:NUM_PLANS]):
        walk = place[row["episode_id"]]
        shortest = [(oracle[row["episode_id"]]["poses"], "#2e8b57", "shortest from the spawn", "--")] if oracle else []
        episode, demonstrated = demos.episodes[walk], demos.poses[demos.rows(walk)].tolist()
        frames = frames_along(source.world, episode.scene_id, row["poses"])
        plan_of_walk(
            folder / "plans" / f"{number:02d}_{row['episode_id']}.png",
            source.world.annotations(episode.scene_id),
            target=episode.target_object,
            title=f"{row['question']}  {_answers(row, ', ')}\n"
            f"{row['d_0']:.1f} m away at the spawn, {row['d_T']:.1f} m at the end",
            walks=[
                (demonstrated, "#999999", "demonstration", ":"),
                *shortest,
                (row["poses"], WAY, "agent", "-"),
            ],
            views=some_views(frames),
        )
        if number < NUM_FILMS:
            film(
                folder / "films" / f"{number:02d}_{row['episode_id']}.gif",
                source.world.annotations(episode.scene_id),
                target=episode.target_object,
                frames=frames_along(source.world, episode.scene_id, row["poses"], sharp=True),
                poses=row["poses"],
                captions=_captions(row),
            )


def _in_turn(rows: Sequence[dict]) -> list[dict]:
    """One of each question type, then a second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for row in rows:
        turns.append(seen[row["question_type"]])
        seen[row["question_type"]] += 1
    return [rows[n] for n in sorted(range(len(rows)), key=lambda n: (turns[n], n))]


def _captions(row: dict) -> list[list[str]]:
    """The question under each frame, the answer and the truth under the last."""
    captions = [[row["question"], f"step {step}"] for step in range(len(row["poses"]))]
    captions[-1][1] = _answers(row, "   ")
    return captions


def _answers(row: dict, between: str) -> str:
    """The answer that was given, if there is one, and the true one."""
    given = [] if row["predicted"] is None else [f"agent: {row['predicted']}"]
    return between.join([*given, f"truth: {row['answer']}"])
