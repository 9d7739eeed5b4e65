"""A game over two questions in the small house, with a clock of whole seconds and a tiny encoder; replays of it."""

import itertools
import json
from pathlib import Path

import torch

from eqa.data.questions.spawns import add_spawns
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Episode
from eqa.envs.house.simulator import HouseWorld
from eqa.models.encoders.cnn import Encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.human import Game, tasks_of
from eqa.models.evaluation.replays import Replays
from tests.helpers.free_walks import walk_of
from tests.helpers.small_house import small_house
from tests.models.evaluation.test_evaluate import episode

CONFIGURATION = {"encoder": "tiny", "split": "test"}


def episodes() -> list[Episode]:
    return add_spawns(small_house(), [episode(0), episode(1)])


def make_game(folder: Path, spawn: str = "T-10", *, configuration: dict = CONFIGURATION) -> Game:
    """A game whose answers are "living room" and "white"; its clock advances one second at each look."""
    torch.manual_seed(0)
    asked, seconds = episodes(), itertools.count(100)
    return Game(
        tasks_of(asked, spawn, seed=0),
        world=HouseWorld(lambda _: small_house()),
        vocabulary=Vocabulary.of(asked),
        extractor=FeatureExtractor(Encoder(channels=(4, 8, 8, 8)), precision="float32"),
        folder=folder,
        configuration=configuration,
        clock=lambda: float(next(seconds)),
    )


def make_replays(folder: Path) -> Replays:
    return Replays(folder, world=HouseWorld(lambda _: small_house()), episodes=lambda _: episodes())


def write_agents_walks(folder: Path, num: int = 70) -> list[dict]:
    """Rows of an agent that walked as the demonstrations do, and was right on every second question.

    Its planner chose every third action. Its answerer looked at two places of the last frame but one, and a little at
    frames before the spawn.
    """
    asked, rows = episodes(), []
    for number in range(num):
        episode = asked[number // 2 % 2]
        walk, left = walk_of(episode, HOUSE_ACTIONS), episode.spawns["T-10"].num_actions
        poses, actions = walk.poses[-left:].round(4).tolist(), walk.actions[-left:].tolist()
        wrong = next(e.answer for e in asked if e.answer != episode.answer)
        rows.append(
            {"agent": "PACMAN+Q", "spawn": "T-10" if number < 50 else "T-30"}
            | {"episode_id": episode.episode_id, "scene_id": episode.scene_id, "question": episode.question}
            | {"question_type": episode.question_type, "answer": episode.answer, "correct": float(number % 2)}
            | {
                "predicted": episode.answer if number % 2 else wrong,
                "d_0": 2.0,
                "d_T": 0.0,
                "ep_len": left,
                "stop": 1.0,
            }
            | {"poses": [*poses, poses[-1]], "actions": actions, "planned": [int(t % 3 == 0) for t in range(left)]}
            | {
                "attention": {
                    "grid": [14, 14],
                    "places": [[left - 2, 6, 7, 0.5], [left - 2, 7, 7, 0.3], [-4, 0, 0, 0.2]],
                }
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows
