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
SHOWN_SPAWN = 30
NUM_PLANS, NUM_FILMS, NUM_VIEWS = 12, 4, 6


class ImitationResults:
    """Puts what was fitted together as one agent, saves it, and plays it in houses it has never seen."""

    def __init__(self, *, source: GeneratedEQA, folder: Path, configuration: dict, split: str) -> None:
        self.source, self.folder, self.configuration, self.split = source, folder, configuration, split

    def __call__(self, fitted: Mapping[str, pl.LightningModule]) -> None:
        agent = Agent(
            encoder=self.source.encode.encoder,
            navigator=fitted["navigator"].navigator,
            answerer=fitted["answerer"].answerer,
            question_only=fitted["question_only"].answerer,
            vocabulary=self.source.vocabulary,
            config=self.configuration,
        )
        agent.save(self.folder / "agent.ckpt")
        for stage in fitted:
            learning_curves(self.folder / stage / "log", self.folder / f"curves_{stage}.png")
        seed = self.configuration["seed"]
        write_results(agent, self.source, folder=self.folder, split=self.split, seed=seed, eyes=self.source.encode)


def write_results(agent: Agent, source: GeneratedEQA, *, folder: Path, split: str, seed: int, eyes: Eyes) -> list[dict]:
    """Plays every line of the table through a split and writes rows, tables and pictures; prints the table."""
    console.rule(f"[bold]evaluation, {split}")
    evaluation = Evaluation(agent, source, split, eyes=eyes)
    rows = evaluation.play(evaluation.walkers(seed)) + evaluation.blind()
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
    oracle = {row["episode_id"]: row for row in rows if row["agent"] == ORACLE and row["spawn"] == SHOWN_SPAWN}
    for number, row in enumerate(_in_turn(walks)[:NUM_PLANS]):
        walk = place[row["episode_id"]]
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
                (oracle[row["episode_id"]]["poses"], "#2e8b57", "shortest from the spawn", "--"),
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
