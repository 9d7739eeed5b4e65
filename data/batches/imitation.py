"""Batches of demonstrations as tensors, for imitation learning of navigator and answerer.

Axes: B batch, T step, N last frames, F feature, L word, A answer. An epoch's batches are a function of (seed, epoch),
so a resumed run sees the same as an uninterrupted one. For that the trainer reloads dataloaders every epoch.

`batch_size` counts over all processes, and each takes its part of every batch. So the number of processes changes the
speed, but not the result. A part may be empty; it then holds one item that does not count.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Int64
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from eqa.data.batches.curriculum import first_counted_action, inflection_weights, inflections, length_batches
from eqa.data.batches.sampling import own_parts, walk_sizes
from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.source import Source
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import PADDED_ACTION
from eqa.envs.episode import Episode

NO_ANSWER = -100  # answer of a question that does not count


def last_places(length: int, num_frames: int, earlier_frames: Sequence[int] = ()) -> np.ndarray:
    """Indices of the last `num_frames` of `length` frames, after those that are `earlier_frames` before the last.

    Before the first frame comes the first again.

    Only frames seen so far occur, never one of the demonstration's future. The original code filled up with views of
    the target, which leaks the answer.
    """
    back = np.array(sorted({*range(num_frames), *earlier_frames}, reverse=True))
    return np.maximum(length - 1 - back, 0)


def last_frames(
    history: np.ndarray | torch.Tensor, num_frames: int, earlier_frames: Sequence[int] = ()
) -> np.ndarray | torch.Tensor:
    """The rows of `history` at its `last_places`."""
    return history[last_places(len(history), num_frames, earlier_frames)]


class Walks(Dataset):
    """Whole walks of one or several files, padded to batches:

    - features (B, T, F) float16;
    - actions (B, T) int64, padded with -1, and targets (B, T), the expert's actions;
    - questions (B, L), padded with 0;
    - loss_from (B,), the first action that counts;
    - weights (B, T) float32 of the actions, padded with 0.
    """

    def __init__(self, files: Sequence[Demonstrations], vocabulary: Vocabulary) -> None:
        self.files = list(files)
        self.lengths = np.concatenate([file.lengths for file in self.files])
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.actions, self.targets = (
            torch.from_numpy(np.concatenate([getattr(file, name) for file in self.files]).astype(np.int64))
            for name in ("actions", "targets")
        )
        self.first = np.cumsum([0] + [len(file) for file in self.files])  # index of each file's first walk
        self.questions = [torch.tensor(vocabulary.encode(e.question)) for file in self.files for e in file.episodes]
        self.loss_from = torch.zeros(len(self), dtype=torch.int64)
        self.weights = torch.ones(len(self.actions))

    @property
    def feature_size(self) -> int:
        return self.files[0].features.shape[1]

    @property
    def sizes(self) -> Int64[np.ndarray, " E"]:
        """Keys to sort walks by, see `data.batches.sampling`."""
        return walk_sizes(self.actions.numpy(), self.offsets)

    def weigh_inflections(self, *, of: "Walks") -> None:
        """Gives more weight to actions that differ from the one before, by the statistics of the training walks."""
        own, learned = (inflections(walks.targets.numpy(), walks.offsets) for walks in (self, of))
        self.weights = torch.from_numpy(inflection_weights(own, of=learned))

    def __len__(self) -> int:
        return len(self.lengths)

    def _features(self, walk: int) -> torch.Tensor:
        number = int(np.searchsorted(self.first, walk, side="right")) - 1
        file = self.files[number]
        return torch.from_numpy(np.array(file.features[file.rows(walk - int(self.first[number]))]))

    def __getitems__(self, chosen: Sequence[int] | Int64[np.ndarray, " B"]) -> dict[str, torch.Tensor]:
        if not len(chosen):
            one = self.__getitems__([0])
            return {**one, "loss_from": torch.full((1,), one["actions"].shape[1])}
        rows = [slice(self.offsets[i], self.offsets[i + 1]) for i in chosen]

        def padded(values: torch.Tensor, padding: int) -> torch.Tensor:
            return pad_sequence([values[r] for r in rows], batch_first=True, padding_value=padding)

        return {
            "features": pad_sequence([self._features(int(i)) for i in chosen], batch_first=True),
            "actions": padded(self.actions, PADDED_ACTION),
            "targets": padded(self.targets, PADDED_ACTION),
            "questions": pad_sequence([self.questions[i] for i in chosen], batch_first=True),
            "loss_from": self.loss_from[chosen],
            "weights": padded(self.weights, 0),
        }


class LastFrames(Dataset):
    """The last `num_frames` of each demonstration, or with None all of them, as batches:

    - features (B, N, F) float16, padded at the end, and mask (B, N), False there;
    - questions (B, L);
    - answers (B,) as numbers in the vocabulary;
    - prior (B, A), what the questions alone say of the answers, see `Vocabulary.log_prior`.

    `earlier_frames`: see `last_frames`.
    """

    def __init__(
        self, demos: Demonstrations, vocabulary: Vocabulary, num_frames: int | None, earlier_frames: Sequence[int] = ()
    ) -> None:
        self.demos, self.num_frames = demos, num_frames
        if num_frames is not None:  # few enough to be held in memory, and they are read in every epoch
            frames = [last_frames(demos.features[demos.rows(i)], num_frames, earlier_frames) for i in range(len(demos))]
            self.features = torch.from_numpy(np.stack(frames))
        self._ask(demos.episodes, vocabulary)

    def _ask(self, episodes: Sequence[Episode], vocabulary: Vocabulary) -> None:
        self.questions = pad_sequence([torch.tensor(vocabulary.encode(e.question)) for e in episodes], batch_first=True)
        self.answers = torch.tensor([vocabulary.answer_id(e.answer) for e in episodes])
        self.prior = torch.from_numpy(vocabulary.log_prior([e.question for e in episodes]))

    def __len__(self) -> int:
        return len(self.answers)

    def __getitems__(self, chosen: Sequence[int] | Int64[np.ndarray, " B"]) -> dict[str, torch.Tensor]:
        if not len(chosen):
            return {**self.__getitems__([0]), "answers": torch.full((1,), NO_ANSWER)}
        if self.num_frames is not None:
            features = self.features[chosen]
            mask = torch.ones(features.shape[:2], dtype=torch.bool)
        else:
            walks = [torch.from_numpy(np.array(self.demos.features[self.demos.rows(i)])) for i in chosen]
            features = pad_sequence(walks, batch_first=True)
            mask = torch.arange(features.shape[1]) < torch.tensor([[len(walk)] for walk in walks])
        return {
            "features": features,
            "mask": mask,
            "questions": self.questions[chosen],
            "answers": self.answers[chosen],
            "prior": self.prior[chosen],
        }


class JoinedFrames(Dataset):
    """Frames of several walks of the same questions, in batches as those of `LastFrames`."""

    def __init__(self, sets: Sequence[LastFrames]) -> None:
        self.sets = list(sets)
        self.first = np.cumsum([0] + [len(one) for one in sets])  # row of each set's first walk

    def row(self, walk: Int64[np.ndarray, " B"], question: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, " B"]:
        """Rows of the walks of given sets with given questions."""
        return self.first[walk] + question % np.diff(self.first)[walk]

    def __len__(self) -> int:
        return int(self.first[-1])

    def __getitems__(self, chosen: Sequence[int] | Int64[np.ndarray, " B"]) -> dict[str, torch.Tensor]:
        if not len(chosen):
            return self.sets[0].__getitems__([])
        chosen = np.asarray(chosen)
        of_set = np.searchsorted(self.first, chosen, side="right") - 1
        parts = [self.sets[i].__getitems__((chosen[of_set == i] - self.first[i]).tolist()) for i in np.unique(of_set)]
        longest = max(part["features"].shape[1] for part in parts)
        for part in parts:
            missing = longest - part["features"].shape[1]
            part["features"] = torch.nn.functional.pad(part["features"], (0, 0, 0, missing))
            part["mask"] = torch.nn.functional.pad(part["mask"], (0, missing))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _loader(data: Dataset, batches: list[np.ndarray], trainer: pl.Trainer) -> DataLoader:
    """Loads this process's part of each batch; the batches are fixed already."""
    parts = own_parts(batches, trainer.global_rank, trainer.world_size)
    return DataLoader(data, batch_sampler=parts, collate_fn=as_collated)


def _cut(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def as_collated(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch itself: `__getitems__` has collated it already."""
    return batch


class NavigatorData(pl.LightningDataModule):
    """Walks for imitation, under the distance curriculum (`curriculum_step=None`: every action always counts).

    If the source has several walks of each question, each epoch learns from the next one. With `inflection`, actions
    that differ from the one before count more, see `data.batches.curriculum`.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        seed: int,
        curriculum_start: int,
        curriculum_step: int | None,
        inflection: bool,
    ) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed, self.inflection = source, batch_size, seed, inflection
        self.curriculum_start, self.curriculum_step = curriculum_start, curriculum_step

    def prepare_data(self) -> None:
        self.source.build()

    def setup(self, stage: str) -> None:
        self.learned = self.source.learned()
        self.train, self.val = self._walks(self._of_epoch(0)), self._walks([self.source.demonstrations("val")])
        if self.inflection:
            self.val.weigh_inflections(of=self.train)

    def _of_epoch(self, epoch: int) -> list[Demonstrations]:
        """Training data of an epoch, demonstrations first."""
        return [self.learned[epoch % len(self.learned)]]

    def _walks(self, files: Sequence[Demonstrations]) -> Walks:
        walks, known = Walks(files, self.source.vocabulary), self.source.world.actions
        if int(walks.actions.max()) >= len(known):
            raise ValueError(
                f"demonstrations: expected actions of their world, {known.names}, got {int(walks.actions.max())}"
            )
        if self.inflection:
            walks.weigh_inflections(of=walks)
        return walks

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that a model has to fit."""
        return {
            "vocabulary_size": len(self.source.vocabulary.words),
            "feature_size": self.train.feature_size,
            "map_shape": list(self.source.encode.map_shape),
            "num_actions": len(self.source.world.actions),
        }

    def train_dataloader(self) -> DataLoader:
        epoch = self.trainer.current_epoch
        self.train = self._walks(self._of_epoch(epoch))
        lengths = self.train.lengths
        counted = first_counted_action(lengths, epoch, start=self.curriculum_start, step=self.curriculum_step)
        counted[len(self.train.files[0]) :] = 0  # the curriculum is for demonstrations only
        self.train.loss_from = torch.from_numpy(counted)
        batches = length_batches(self.train.sizes, self.batch_size, rng=np.random.default_rng([self.seed, epoch]))
        return _loader(self.train, batches, self.trainer)

    def val_dataloader(self) -> DataLoader:
        return _loader(self.val, _cut(np.argsort(self.val.sizes, kind="stable"), self.batch_size), self.trainer)


class AnswererData(pl.LightningDataModule):
    """The last frames of shortest walks, or with `num_frames=None` all of them, with question and answer.

    `earlier_frames` adds the frames that lie so many actions before the last; the answerer needs the same numbers. If
    the source has several walks of each question, each epoch takes the next one of every question, and its batches have
    first, second and further walks side by side.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        seed: int,
        num_frames: int | None,
        earlier_frames: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed = source, batch_size, seed
        self.num_frames, self.earlier_frames = num_frames, tuple(earlier_frames)
        self.fitted: Mapping[str, pl.LightningModule] = {}  # of earlier stages of the run, by name

    def prepare_data(self) -> None:
        self.source.build()

    def setup(self, stage: str) -> None:
        self.trains = [self._frames(walks) for walks in self.source.learned()]
        self.val = self._frames(self.source.demonstrations("val"))

    def _frames(self, walks: Demonstrations) -> LastFrames:
        return LastFrames(walks, self.source.vocabulary, self.num_frames, self.earlier_frames)

    @property
    def sizes(self) -> dict[str, int | list[int]]:
        """Sizes that a model has to fit."""
        words, answers = self.source.vocabulary.words, self.source.vocabulary.answers
        names = self.source.encode.place_names
        return {
            "vocabulary_size": len(words),
            "num_answers": len(answers),
            "feature_size": self.trains[0].demos.features.shape[1],
            "map_shape": list(self.source.encode.map_shape),
            "name_counts": None if names is None else list(names.counts),
            "asks_colors": names is not None and not set(names.colors).isdisjoint(words),
        }

    def train_dataloader(self) -> DataLoader:
        epoch, joined = self.trainer.current_epoch, JoinedFrames(self.trains)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.trains[0]))
        rows = joined.row((order + epoch) % len(self.trains), order)
        return _loader(joined, _cut(rows, self.batch_size), self.trainer)

    def val_dataloader(self) -> DataLoader:
        return _loader(self.val, _cut(np.arange(len(self.val)), self.batch_size), self.trainer)
