"""What a navigator's decisions cost under teacher forcing, and which actions of a batch of walks count.

A batch has features (B, T, F) of any float type; actions (B, T) int64, padded with -1, each walk ending with STOP;
questions (B, L) int64, padded with 0; optionally loss_from (B,) int64, the first action that counts (those before are
history: given, but not scored); optionally weights (B, T) float32, how much the decision at each action counts;
optionally labels (B, T) int64, what should have been done where the walk did something else; optionally asked (B, T) bool,
with loss_from, where among the actions that count PACMAN's planner was asked, which actions alone do not tell; optionally
state, of navigators that `goes_on` says it of, from which the walks go on.

A navigator's `prepare` adds `decisions`, lists of indices that are made on the CPU, so that moving a batch to a GPU needs
no answer from it; its `loss` gives `total` of its parts' scores.

Axes: B walks, T steps (frame t is seen before action t), F features, S decisions that count, K frames that are needed.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn

from eqa.envs.actions import NUM_ACTIONS


class Score(NamedTuple):
    """Mean cross-entropy and accuracy over `count` decisions; zeros, not nan, where there is nothing to decide."""

    loss: Tensor
    accuracy: Tensor
    count: int


def score(logits: Float[Tensor, "S C"], target: Int64[Tensor, " S"], weight: Float32[Tensor, " S"]) -> Score:
    """The loss is the sum of weighted terms over the number of decisions, so `weight` should be 1 on average."""
    count = max(len(target), 1)
    terms = F.cross_entropy(logits.float(), target, reduction="none")
    return Score((terms * weight).sum() / count, (logits.argmax(1) == target).sum() / count, len(target))


def total(**parts: Score) -> dict:
    """`loss`, to go backward from, is the sum of the `parts`' means."""
    return {"loss": torch.stack([part.loss for part in parts.values()]).sum(), "parts": parts}


def prepared(navigator: nn.Module, batch: dict) -> dict:
    """The batch with its `decisions`, on the features' device; makes them where nobody has."""
    if "decisions" in batch:
        return batch
    batch = navigator.prepare(batch)
    decisions, device = batch["decisions"], batch["features"].device
    moved = decisions.to(device) if hasattr(decisions, "to") else type(decisions)(*(x.to(device) for x in decisions))
    return {**batch, "decisions": moved}


def counted(batch: dict) -> Bool[Tensor, "B T"]:
    """Which actions count, on the CPU."""
    actions = batch["actions"].cpu()
    if batch.get("loss_from") is None:
        return actions >= 0
    return (actions >= 0) & (torch.arange(actions.shape[1]) >= batch["loss_from"].cpu()[:, None])


def labels(batch: dict) -> Int64[Tensor, "B T"]:
    """What should have been done, on the CPU; what was done where the batch does not say."""
    return batch.get("labels", batch["actions"]).cpu()


def weights(batch: dict) -> Float32[Tensor, "B T"]:
    """How much the decision at each action counts, on the CPU; 1 where the batch does not say."""
    given = batch.get("weights")
    return torch.ones(batch["actions"].shape) if given is None else given.cpu()


class FlatDecisions(NamedTuple):
    """One decision for each action that counts."""

    frames: Tensor  # (K,) rows of features flattened to (B T, F): those that are not padding
    place: Tensor  # (S,) index into B T
    target: Tensor  # (S,)
    weight: Tensor  # (S,)


def flat_decisions(batch: dict, *, num_actions: int = NUM_ACTIONS) -> FlatDecisions:
    """The decisions of a navigator that chooses at every step, among the first `num_actions` actions only."""
    target = labels(batch).flatten()
    place = (counted(batch).flatten() & (target < num_actions)).nonzero().squeeze(1)
    frames = (batch["actions"].cpu().flatten() >= 0).nonzero().squeeze(1)
    return FlatDecisions(frames, place, target[place], weights(batch).flatten()[place])


class Judged(NamedTuple):
    """What a part of a navigator says at the S decisions that count, and what it should have said."""

    logits: Tensor  # (S, C)
    target: Tensor  # (S,)
    weight: Tensor  # (S,)


class Navigator(nn.Module, ABC):
    """What learning asks of a navigator. `judge` takes a batch that `prepare` has seen and gives each part's decisions.

    With `goes_on` a batch may have a `state` in place of walks' histories, through which no gradient goes then.
    """

    goes_on = False

    @property
    @abstractmethod
    def heads(self) -> list[nn.Linear]:
        """The layers whose outputs are logits."""

    @abstractmethod
    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""

    @abstractmethod
    def judge(self, batch: dict) -> dict[str, Judged]:
        """What each part says at its decisions, and what it should have said."""

    def loss(self, batch: dict) -> dict:
        """Teacher forcing on walks: the sum of the parts' mean cross-entropies."""
        return total(**{name: score(*judged) for name, judged in self.judge(prepared(self, batch)).items()})


class FlatNavigator(Navigator):
    """A navigator that chooses at every step, by its `head`: how it learns from walks, whatever it chooses with."""

    @property
    def heads(self) -> list[nn.Linear]:
        return [self.head if isinstance(self.head, nn.Linear) else self.head[-1]]

    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""
        return {**batch, "decisions": flat_decisions(batch)}

    def judge(self, batch: dict) -> dict[str, Judged]:
        """The actions of walks that it can take."""
        return {"action": Judged(self(batch), batch["decisions"].target, batch["decisions"].weight)}
