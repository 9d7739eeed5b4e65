"""What a run leaves behind: the agent as one checkpoint, rows, tables, curves, floor plans and films."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytorch_lightning as pl

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

AGENT, ORACLE = "PACMAN+Q", "shortest path + answerer"
SHOWN_SPAWN = 30
NUM_PLANS, NUM_FILMS = 12, 4


def finish_imitation(
    *, fitted: Mapping[str, pl.LightningModule], source: GeneratedEQA, folder: Path, split: str, configuration: dict
) -> None:
    """Puts the fitted parts together as one agent, saves it, and plays it in houses it has never seen."""
    agent = Agent(
        encoder=source.encode.encoder,
        navigator=fitted["navigator"].navigator,
        answerer=fitted["answerer"].answerer,
        question_only=fitted["question_only"].answerer,
        vocabulary=source.vocabulary,
        config=configuration,
    )
    agent.save(folder / "agent.ckpt")
    for stage in fitted:
        learning_curves(folder / stage / "metrics.csv", folder / f"curves_{stage}.png")
    write_results(agent, source, folder=folder, split=split, seed=configuration["seed"], eyes=source.encode)


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
    walks = [row for row in rows if row["agent"] == AGENT and row["spawn"] == SHOWN_SPAWN]
    oracle = {row["episode_id"]: row for row in rows if row["agent"] == ORACLE and row["spawn"] == SHOWN_SPAWN}
    for number, row in enumerate(_in_turn(walks)[:NUM_PLANS]):
        episode = demos.episodes[place[row["episode_id"]]]
        house = source.house(episode.scene_id)
        plan_of_walk(
            folder / "plans" / f"{number:02d}_{row['episode_id']}.png",
            house,
            target=episode.target_object,
            title=f"{row['question']}\nagent: {row['predicted']}, truth: {row['answer']}; "
            f"{row['d_0']:.1f} m away at the spawn, {row['d_T']:.1f} m at the end",
            walks=[
                (demos.poses[demos.rows(place[row["episode_id"]])], "#999999", "demonstration", ":"),
                (oracle[row["episode_id"]]["poses"], "#2e8b57", "shortest from the spawn", "--"),
                (row["poses"], "#c0392b", "agent", "-"),
            ],
        )
        if number < NUM_FILMS:
            _film_walk(folder / "films" / f"{number:02d}_{row['episode_id']}.gif", row, house)


def _in_turn(rows: Sequence[dict]) -> list[dict]:
    """One of each question type, then a second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for row in rows:
        turns.append(seen[row["question_type"]])
        seen[row["question_type"]] += 1
    return [rows[n] for n in sorted(range(len(rows)), key=lambda n: (turns[n], n))]


def _film_walk(path: Path, row: dict, house: House) -> None:
    renderer = Renderer(Camera(), ("rgb",))
    renderer.load([build_scene(house, load_catalog())])
    poses = np.array(row["poses"])
    frames = renderer.render(np.zeros(len(poses), np.int32), poses)["rgb"]
    last = len(poses) - 1
    captions = [
        [row["question"], f"agent: {row['predicted']}   truth: {row['answer']}" if t == last else f"step {t}"]
        for t in range(len(poses))
    ]
    film(path, frames, captions)
