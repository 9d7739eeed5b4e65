"""`Source`: the interface of data, generated or from a benchmark: episodes, demonstrations, vocabulary and world.

Axes: B frames, H W frame, F features.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float16, UInt8
from torch import Tensor

from eqa.data.demonstrations.spawn_settings import HOUSE_SPAWNS, SpawnSettings
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.shards import Shard
from eqa.envs.simulator import World


class Names(Protocol):
    """Names that an encoder gives to places, see `models.encoders.place_names`."""

    counts: tuple[int, int, int]  # of classes, colours and rooms


@runtime_checkable
class Encode(Protocol):
    """The frozen encoder, see `models.encoders.features`."""

    identity: str  # changes with everything that features depend on
    map_shape: tuple[int, int, int]
    place_names: Names | None

    def __call__(self, rgb: UInt8[Tensor, "B H W 3"] | UInt8[np.ndarray, "B H W 3"]) -> Float16[Tensor, "B F"]: ...


@runtime_checkable
class Judge(Protocol):
    """Marks answers in words, from 1 (wrong) to 5 (as right as the true one), see `models.evaluation.judges`."""

    def __call__(self, question: str, truth: str, answer: str) -> int: ...


class Source(ABC):
    """Episodes of a world by split: "train", "val", "test" and any others."""

    encode: Encode | None  # encoder for the frames of demonstrations
    places: str = "houses"  # its scenes as a table's title calls them
    spawns: SpawnSettings = HOUSE_SPAWNS  # from which its questions are played
    judge: Judge | None = None  # marks answers where right or wrong is not all that counts
    splits: Collection[str] = ("train", "val", "test")  # those with questions

    @property
    @abstractmethod
    def world(self) -> World:
        """The world of the episodes."""

    @abstractmethod
    def episodes(self, split: str) -> list[Episode]:
        """The questions of a split; ValueError for a split without any."""

    @abstractmethod
    def demonstrations(self, split: str) -> Demonstrations:
        """Walks for the questions of a split, made if missing."""

    @abstractmethod
    def fingerprints(self) -> dict:
        """Fingerprints of the data, made or not."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary of the training split alone."""
        return Vocabulary.of(self.episodes("train"))

    def learned(self) -> list[Demonstrations]:
        """Training data: walks of the questions of train, one file for each time that they are walked."""
        return [self.demonstrations("train")]

    def build(self) -> None:
        """Makes everything missing that imitation needs."""
        for split in ("train", "val", "test"):
            self.demonstrations(split)
        self.learned()

    def build_shard(self, shard: Shard) -> set[Shard]:
        """Makes a part of that; returns the shards whose parts are missing. ValueError if it cannot be shared out."""
        raise ValueError(
            f"shard: expected null, as {type(self).__name__} is made in one piece, got {shard}; leave it out"
        )
