"""`Source`: what gives the episodes, demonstrations, vocabulary and world of each split, generated or from a benchmark.

Axes: B frames, H W frame, F features.
"""

from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float16, UInt8
from torch import Tensor

from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.simulator import World


@runtime_checkable
class Encode(Protocol):
    """The frozen encoder, see `models.encoders.features`."""

    identity: str  # changes with everything that features depend on
    map_shape: tuple[int, int, int]

    def __call__(self, rgb: UInt8[Tensor, "B H W 3"] | UInt8[np.ndarray, "B H W 3"]) -> Float16[Tensor, "B F"]: ...


class Source(ABC):
    """Episodes of a world by split: "train", "val", "test" and whatever others it has."""

    encode: Encode | None  # for the frames of demonstrations

    @property
    @abstractmethod
    def world(self) -> World:
        """The world that the episodes are played in."""

    @abstractmethod
    def episodes(self, split: str) -> list[Episode]:
        """The questions of a split; ValueError for a split without any."""

    @abstractmethod
    def demonstrations(self, split: str) -> Demonstrations:
        """Walks for the questions of a split, made where they are missing."""

    @abstractmethod
    def fingerprints(self) -> dict:
        """What identifies the data, built or not."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Of the training split alone."""
        return Vocabulary.of(self.episodes("train"))

    def learned(self) -> list[Demonstrations]:
        """What is learned from: walks of the questions of train, a file for each time that they are walked."""
        return [self.demonstrations("train")]

    def build(self) -> None:
        """Makes everything that imitation needs and that is missing."""
        for split in ("train", "val", "test"):
            self.demonstrations(split)
        self.learned()
