"""What a run leaves behind: the agent as one checkpoint, rows, tables, curves, floor plans and films."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
from jaxtyping import UInt8

from data.generated import GeneratedEQA
from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.house import House
from envs.house.rasterizer import Camera, Renderer
from envs.progress import console
from models.agent import Agent
from models.evaluation import Evaluation
from models.eyes import Eyes
from models.pictures import film, plan_of_walk
from models.report import learning_curves, results_table, write_rows, write_tables

ORACLE = "shortest path"
SHOWN_SPAWN = "T-30"
PLAYS = ("all", "own", "answerer")
NUM_PLANS, NUM_FILMS, NUM_VIEWS = 12, 4, 6


class ImitationResults:
    """Puts what was fitted together as one agent, saves it, and plays it in houses it has never seen.

    What an experiment does not fit it takes from another run's agent: `checkpoint` is its file, or "last" for the newest
    under runs/ that has this data's vocabulary and encoder. `plays` is "all", every line of the table, or "own", the
    agent's alone, or "answerer", the agent's and the shortest paths', for a row that differs in how it answers.
    ValueError, before anything is fitted, where there is no such agent.
    """

    def __init__(
        self,
        *,
        source: GeneratedEQA,
        folder: Path,
        configuration: dict,
        split: str,
        checkpoint: str | None = None,
        plays: str = "all",
    ) -> None:
        self.source, self.folder, self.configuration, self.split = source, folder, configuration, split
        self.plays = known_plays(plays)
        self.other = None if checkpoint is None else fitting_agent(checkpoint, source)

    def __call__(self, fitted: Mapping[str, pl.LightningModule]) -> None:
        parts = {"navigator": "navigator", "answerer": "answerer", "question_only": "answerer"}
        agent = Agent(
            encoder=self.source.encode.encoder,
            **{
                stage: getattr(fitted[stage], part) if stage in fitted else getattr(self.other, stage)
                for stage, part in parts.items()
            },
            vocabulary=self.source.vocabulary,
            config=self.configuration,
        )
        agent.save(self.folder / "agent.ckpt")
        for stage in fitted:
            learning_curves(self.folder / stage / "log", self.folder / f"curves_{stage}.png")
        write_results(
            agent,
            self.source,
            folder=self.folder,
            split=self.split,
            seed=self.configuration["seed"],
            eyes=self.source.encode,
            plays=self.plays,
        )


def known_plays(plays: str) -> str:
    if plays not in PLAYS:
        raise ValueError(f"plays: expected one of {PLAYS}, got {plays!r}")
    return plays


def fitting_agent(checkpoint: str, source: GeneratedEQA, *, runs: Path = Path("runs")) -> Agent:
    """The agent whose parts are used again, see `ImitationResults`."""
    last = checkpoint == "last"
    paths = sorted(runs.rglob("agent.ckpt"), key=lambda p: -p.stat().st_mtime) if last else [Path(checkpoint)]
    remedy = "python train.py +experiment=il with the same words for scale and data makes one"
    for path in paths:
        agent = Agent.load(path)
        differs = [
            name
            for name, same in (
                ("vocabulary", agent.vocabulary == source.vocabulary),
                ("encoder", Eyes(agent.encoder).identity == source.encode.identity),
            )
            if not same
        ]
        if not differs:
            console.print(f"what is not fitted comes from {path}")
            return agent
        if not last:
            raise ValueError(f"checkpoint: expected an agent of this data, {path} has another {differs[0]}; {remedy}")
    raise ValueError(f"checkpoint: expected an agent of this data under {runs.resolve()}, found none; {remedy}")


def write_results(
    agent: Agent, source: GeneratedEQA, *, folder: Path, split: str, seed: int, eyes: Eyes, plays: str = "all"
) -> list[dict]:
    """Plays through a split and writes rows, tables and pictures; prints the table. `plays`: see `ImitationResults`."""
    console.rule(f"[bold]evaluation, {split}")
    evaluation = Evaluation(agent, source, split, eyes=eyes)
    walkers = evaluation.walkers(seed)
    if plays == "all":
        rows = evaluation.play(walkers) + evaluation.blind()
    else:
        chosen = {agent.name: walkers[agent.name]}
        if plays == "answerer":
            chosen[f"{ORACLE}: {agent.name}"] = walkers[ORACLE]
        rows = evaluation.play(chosen)
    scale = agent.config.get("scale", {}).get("name", "?")
    title = f"{split} split, {len(evaluation.demos)} questions in unseen houses, scale {scale}, seed {seed}"
    write_rows(folder / "metrics.jsonl", rows)
    write_tables(folder, rows, title)
    draw_examples(evaluation, rows, folder)
    console.print(results_table(rows, title))
    return rows


def draw_examples(evaluation: Evaluation, rows: Sequence[dict], folder: Path) -> None:
    """Floor plans and films of the agent's walks at T-30, question types in turn."""
    demos, source = evaluation.demos, evaluation.source
    place = {episode.episode_id: i for i, episode in enumerate(demos.episodes)}
    walks = [row for row in rows if row["agent"] == evaluation.agent.name and row["spawn"] == SHOWN_SPAWN]
    oracle = {row["episode_id"]: row for row in rows if row["agent"].startswith(ORACLE) and row["spawn"] == SHOWN_SPAWN}
    for number, row in enumerate(_in_turn(walks)[:NUM_PLANS]):
        walk = place[row["episode_id"]]
        shortest = [(oracle[row["episode_id"]]["poses"], "#2e8b57", "shortest from the spawn", "--")] if oracle else []
        episode, demonstrated = demos.episodes[walk], demos.poses[demos.rows(walk)]
        house = source.house(episode.scene_id)
        frames = _frames(house, row["poses"])
        steps = np.linspace(0, len(frames) - 1, NUM_VIEWS).astype(int)
        plan_of_walk(
            folder / "plans" / f"{number:02d}_{row['episode_id']}.png",
            house,
            target=episode.target_object,
            title=f"{row['question']}  agent: {row['predicted']}, truth: {row['answer']}\n"
            f"{row['d_0']:.1f} m away at the spawn, {row['d_T']:.1f} m at the end",
            walks=[
                (demonstrated, "#999999", "demonstration", ":"),
                *shortest,
                (row["poses"], "#c0392b", "agent", "-"),
            ],
            views=[(f"step {step}", frames[step]) for step in steps],
        )
        if number < NUM_FILMS:
            film(folder / "films" / f"{number:02d}_{row['episode_id']}.gif", frames, _captions(row))


def _in_turn(rows: Sequence[dict]) -> list[dict]:
    """One of each question type, then a second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for row in rows:
        turns.append(seen[row["question_type"]])
        seen[row["question_type"]] += 1
    return [rows[n] for n in sorted(range(len(rows)), key=lambda n: (turns[n], n))]


def _frames(house: House, poses: Sequence[Sequence[float]]) -> UInt8[np.ndarray, "T H W 3"]:
    """What is seen from each pose of a walk."""
    renderer = Renderer(Camera(), ("rgb",))
    renderer.load([build_scene(house, load_catalog())])
    return renderer.render(np.zeros(len(poses), np.int32), np.array(poses))["rgb"]


def _captions(row: dict) -> list[list[str]]:
    """The question under each frame, the answer and the truth under the last."""
    captions = [[row["question"], f"step {step}"] for step in range(len(row["poses"]))]
    captions[-1][1] = f"agent: {row['predicted']}   truth: {row['answer']}"
    return captions
