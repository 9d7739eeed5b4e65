"""What the navigator and the answerer learn from: batches of demonstrations as tensors.

Axes: B batch, T step, N last frames, F feature, L word. An epoch's batches are a function of (seed, epoch), so a resumed
run sees what an uninterrupted one would have seen; for that the trainer reloads dataloaders every epoch.

`batch_size` counts over all processes: each takes its part of every batch, so how many there are changes the speed and
not what is learned. A part may be empty; it then holds one item that does not count.
"""

import numpy as np
import pytorch_lightning as pl
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from data.batching import own_parts, walk_sizes
from data.curriculum import first_counted_action, length_batches
from data.demonstrations import Demonstrations
from data.generated import GeneratedEQA
from data.vocabulary import Vocabulary

PADDED_ACTION = -1
NO_ANSWER = -100  # of a question that does not count


def last_frames(history: np.ndarray, num_frames: int) -> np.ndarray:
    """The last `num_frames` rows; a shorter history is filled up at its front with its first row.

    Only what was seen up to now can come in, never a frame of the demonstration's future: the original code filled up
    with views of the target, which leaks the answer.
    """
    missing = num_frames - len(history)
    return history[-num_frames:] if missing <= 0 else np.concatenate([np.repeat(history[:1], missing, 0), history])


class Walks(Dataset):
    """Whole demonstrations, padded: features (B, T, F) float16, actions (B, T) int64 padded with -1, questions (B, L)
    padded with 0, loss_from (B,) the first action that counts."""

    def __init__(self, demos: Demonstrations, vocabulary: Vocabulary) -> None:
        self.demos = demos
        self.questions = [torch.tensor(vocabulary.encode(e.question)) for e in demos.episodes]
        self.loss_from = torch.zeros(len(demos), dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.demos)

    def __getitems__(self, chosen: list[int]) -> dict[str, torch.Tensor]:
        if not chosen:
            one = self.__getitems__([0])
            return {**one, "loss_from": torch.full((1,), one["actions"].shape[1])}
        rows = [self.demos.rows(i) for i in chosen]
        features = [torch.from_numpy(np.array(self.demos.features[r])) for r in rows]
        actions = [torch.from_numpy(self.demos.actions[r].astype(np.int64)) for r in rows]
        return {
            "features": pad_sequence(features, batch_first=True),
            "actions": pad_sequence(actions, batch_first=True, padding_value=PADDED_ACTION),
            "questions": pad_sequence([self.questions[i] for i in chosen], batch_first=True),
            "loss_from": self.loss_from[chosen],
        }


class LastFrames(Dataset):
    """The end of each demonstration: features (B, N, F) float16, questions (B, L), answers (B,) in the vocabulary."""

    def __init__(self, demos: Demonstrations, vocabulary: Vocabulary, num_frames: int) -> None:
        frames = [last_frames(demos.features[demos.rows(i)], num_frames) for i in range(len(demos))]
        self.features = torch.from_numpy(np.stack(frames))
        questions = [torch.tensor(vocabulary.encode(e.question)) for e in demos.episodes]
        self.questions = pad_sequence(questions, batch_first=True)
        self.answers = torch.tensor([vocabulary.answer_id(e.answer) for e in demos.episodes])

    def __len__(self) -> int:
        return len(self.answers)

    def __getitems__(self, chosen: list[int]) -> dict[str, torch.Tensor]:
        if not chosen:
            return {**self.__getitems__([0]), "answers": torch.full((1,), NO_ANSWER)}
        return {name: getattr(self, name)[chosen] for name in ("features", "questions", "answers")}


def _loader(data: Dataset, batches: list[np.ndarray], trainer: pl.Trainer) -> DataLoader:
    """This process's part of each batch; which items a batch has is decided here already."""
    parts = own_parts(batches, trainer.global_rank, trainer.world_size)
    return DataLoader(data, batch_sampler=parts, collate_fn=_as_collated)


def _cut(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def _as_collated(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return batch


class NavigatorData(pl.LightningDataModule):
    """Walks for imitation, under the distance curriculum (`curriculum_step=None`: every action always counts)."""

    def __init__(
        self, source: GeneratedEQA, *, batch_size: int, seed: int, curriculum_start: int, curriculum_step: int | None
    ) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed = source, batch_size, seed
        self.curriculum_start, self.curriculum_step = curriculum_start, curriculum_step

    def prepare_data(self) -> None:
        self.source.build()

    def setup(self, stage: str) -> None:
        self.train, self.val = (Walks(self.source.demonstrations(s), self.source.vocabulary) for s in ("train", "val"))

    @property
    def sizes(self) -> dict[str, int]:
        """What a model has to know to fit this data."""
        return {
            "vocabulary_size": len(self.source.vocabulary.words),
            "feature_size": self.train.demos.features.shape[1],
        }

    def train_dataloader(self) -> DataLoader:
        epoch, lengths = self.trainer.current_epoch, self.train.demos.lengths
        counted = first_counted_action(lengths, epoch, start=self.curriculum_start, step=self.curriculum_step)
        self.train.loss_from = torch.from_numpy(counted)
        sizes = walk_sizes(self.train.demos.actions, self.train.demos.offsets)
        batches = length_batches(sizes, self.batch_size, rng=np.random.default_rng([self.seed, epoch]))
        return _loader(self.train, batches, self.trainer)

    def val_dataloader(self) -> DataLoader:
        order = np.argsort(walk_sizes(self.val.demos.actions, self.val.demos.offsets), kind="stable")
        return _loader(self.val, _cut(order, self.batch_size), self.trainer)


class AnswererData(pl.LightningDataModule):
    """The last frames of shortest walks, with question and answer."""

    def __init__(self, source: GeneratedEQA, *, batch_size: int, seed: int, num_frames: int) -> None:
        super().__init__()
        self.source, self.batch_size, self.seed, self.num_frames = source, batch_size, seed, num_frames

    def prepare_data(self) -> None:
        self.source.build()

    def setup(self, stage: str) -> None:
        self.train, self.val = (
            LastFrames(self.source.demonstrations(s), self.source.vocabulary, self.num_frames) for s in ("train", "val")
        )

    @property
    def sizes(self) -> dict[str, int]:
        """What a model has to know to fit this data."""
        words, answers = self.source.vocabulary.words, self.source.vocabulary.answers
        return {
            "vocabulary_size": len(words),
            "num_answers": len(answers),
            "feature_size": self.train.features.shape[-1],
        }

    def train_dataloader(self) -> DataLoader:
        order = np.random.default_rng([self.seed, self.trainer.current_epoch]).permutation(len(self.train))
        return _loader(self.train, _cut(order, self.batch_size), self.trainer)

    def val_dataloader(self) -> DataLoader:
        return _loader(self.val, _cut(np.arange(len(self.val)), self.batch_size), self.trainer)
