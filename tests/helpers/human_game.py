"""A game over two questions in the small house, with a clock of whole seconds and a tiny encoder."""

import itertools
from pathlib import Path

import torch

from eqa.data.questions.spawns import add_spawns
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.house.simulator import HouseWorld
from eqa.models.encoders.cnn import Encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.human import Game, tasks_of
from eqa.models.evaluation.replays import Replays
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
        answers=Vocabulary.of(asked).answers,
        extractor=FeatureExtractor(Encoder(channels=(4, 8, 8, 8)), precision="float32"),
        folder=folder,
        configuration=configuration,
        clock=lambda: float(next(seconds)),
    )


def make_replays(folder: Path) -> Replays:
    return Replays(folder, world=HouseWorld(lambda _: small_house()), episodes=lambda _: episodes())
