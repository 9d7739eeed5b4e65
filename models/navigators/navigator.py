"""`Navigator`: the interface of navigators, their loss under teacher forcing, and the layout of a batch of walks.

A batch has

- features (B, T, F) of any float type;
- actions (B, T) int64, padded with -1, each walk ending with STOP;
- questions (B, L) int64, padded with 0;
- optionally loss_from (B,) int64, the first action that counts; earlier ones are history, given but not scored;
- optionally weights (B, T) float32 of the decision at each action;
- optionally targets (B, T) int64, the right actions where they differ from the walk's;
- optionally planner_queried (B, T) bool, with loss_from: at which actions PACMAN's planner was queried, which actions
  alone do not tell;
- optionally state, from which the walks go on, for navigators with `keeps_state`.

A navigator's `prepare` adds `decisions`, lists of indices. They are made on the CPU, so moving a batch to a GPU does
not wait for it. Its `loss` gives the `total` of its parts' scores.

Axes: B walks, T steps (frame t is seen before action t), F features, S decisions that count, K frames that are needed.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn

from eqa.envs.actions import Action, ActionSet
from eqa.models.navigators.action_selection import choose, choose_action
from eqa.models.navigators.recurrent_state import RecurrentState


class Score(NamedTuple):
    """Mean cross-entropy and accuracy over `count` decisions; zeros, not nan, where there are none."""

    loss: Tensor
    accuracy: Tensor
    count: int


def score(logits: Float[Tensor, "S C"], target: Int64[Tensor, " S"], weight: Float32[Tensor, " S"]) -> Score:
    """Scores decisions. The loss divides the weighted sum by the number of decisions, so `weight` should average 1."""
    count = max(len(target), 1)
    terms = F.cross_entropy(logits.float(), target, reduction="none")
    return Score((terms * weight).sum() / count, (logits.argmax(1) == target).sum() / count, len(target))


def total(**parts: Score) -> dict:
    """The parts' scores, and `loss`, the sum of their means, for the backward pass."""
    return {"loss": torch.stack([part.loss for part in parts.values()]).sum(), "parts": parts}


def prepared(navigator: nn.Module, batch: dict) -> dict:
    """The batch with its `decisions`, on the features' device; they are made if they are missing."""
    if "decisions" in batch:
        return batch
    batch = navigator.prepare(batch)
    return {**batch, "decisions": batch["decisions"].to(batch["features"].device)}


def loss_mask(batch: dict) -> Bool[Tensor, "B T"]:
    """True for actions that count; on the CPU."""
    actions = batch["actions"].cpu()
    if batch.get("loss_from") is None:
        return actions >= 0
    return (actions >= 0) & (torch.arange(actions.shape[1]) >= batch["loss_from"].cpu()[:, None])


def targets(batch: dict) -> Int64[Tensor, "B T"]:
    """The right actions, on the CPU: the batch's targets, or else the actions taken."""
    return batch.get("targets", batch["actions"]).cpu()


def weights(batch: dict) -> Float32[Tensor, "B T"]:
    """The weight of the decision at each action, on the CPU; 1 if the batch has no weights."""
    given = batch.get("weights")
    return torch.ones(batch["actions"].shape) if given is None else given.cpu()


class FlatDecisions(NamedTuple):
    """One decision for each action that counts."""

    frames: Tensor  # (K,) rows of features flattened to (B T, F): those that are not padding
    place: Tensor  # (S,) index into B T
    target: Tensor  # (S,)
    weight: Tensor  # (S,)

    def to(self, device: torch.device) -> "FlatDecisions":
        return FlatDecisions(*(part.to(device) for part in self))


def flat_decisions(batch: dict) -> FlatDecisions:
    """The decisions of a navigator that chooses at every step."""
    target = targets(batch).flatten()
    place = loss_mask(batch).flatten().nonzero().squeeze(1)
    frames = (batch["actions"].cpu().flatten() >= 0).nonzero().squeeze(1)
    return FlatDecisions(frames, place, target[place], weights(batch).flatten()[place])


class Decisions(NamedTuple):
    """Logits and targets of one part of a navigator at the S decisions that count."""

    logits: Tensor  # (S, C)
    target: Tensor  # (S,)
    weight: Tensor  # (S,)


class Navigator(nn.Module, ABC):
    """The interface of navigators: `act` chooses step by step, `loss` learns from whole walks.

    `decision_logits` takes a batch from `prepare`. With `keeps_state` a batch may have a `state` in place of walks'
    histories; no gradient flows through it.
    """

    keeps_state = False
    num_actions: int  # of the world that it is made for
    can_stop = True
    draws = True  # with noise, it draws its actions
    stop_odds: float  # see `models.navigators.action_selection.choose_action`

    def check_actions(self, actions: ActionSet) -> None:
        """ValueError for a world whose actions are others than it chooses among."""
        if len(actions) != self.num_actions:
            raise ValueError(
                f"navigator: expected a world of {self.num_actions} actions, got one of {len(actions)}: "
                f"{', '.join(actions.names)}; train it in that world"
            )

    @property
    @abstractmethod
    def heads(self) -> list[nn.Linear]:
        """The layers whose outputs are logits."""

    @abstractmethod
    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""

    @abstractmethod
    def decision_logits(self, batch: dict) -> dict[str, Decisions]:
        """Logits of each part at its decisions, and their targets."""

    @abstractmethod
    def initial_state(self, questions: Int64[Tensor, "N L"]) -> RecurrentState:
        """The state of agents that have seen nothing yet; encodes each question once."""

    @abstractmethod
    def act(
        self,
        state: RecurrentState,
        features: Float[Tensor, "N F"],
        *,
        forced_action: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        noise: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[RecurrentState, Int64[Tensor, " N"]]:
        """Makes one step: from the frames' features to the next state and actions.

        A `forced_action` replaces the agent's own (along a given history). Rows that are not `active` keep their state
        and return STOP, even if an action is forced. With `noise`, uniform in 0..1, actions are drawn from the
        unchanged distribution, without `stop_odds`; else the best is taken.
        """

    def loss(self, batch: dict) -> dict:
        """Loss of teacher forcing on walks: the sum of the parts' mean cross-entropies."""
        return total(**{name: score(*part) for name, part in self.decision_logits(prepared(self, batch)).items()})

    @torch.no_grad()
    def warm_up(
        self, questions: Int64[Tensor, "N L"], features: Float[Tensor, "N T F"], actions: Int64[Tensor, "N T"]
    ) -> RecurrentState:
        """The state of agents after given histories, each padded at its end with actions of -1."""
        state = self.initial_state(questions)
        for t in range(actions.shape[1]):
            taken = actions[:, t]
            state, _ = self.act(state, features[:, t].float(), forced_action=taken.clamp(min=0), active=taken >= 0)
        return state

    def planner_queried(self, state: RecurrentState) -> Bool[Tensor, " N"] | None:
        """True for agents whose planner chose the last action; None for navigators without a planner."""
        return None

    def stop_share(self, state: RecurrentState) -> Float[Tensor, " N"] | None:
        """The probability of STOP in the last choice among all actions; None if the state does not tell it."""
        return None


class FlatNavigator(Navigator):
    """A navigator that chooses at every step, with its `head`; it shares acting and learning among such navigators."""

    def scored(self, batch: dict) -> Bool[Tensor, "B T"]:
        """True for actions that count and that it can choose; on the CPU."""
        return loss_mask(batch) if self.can_stop else loss_mask(batch) & (targets(batch) != Action.STOP)

    def choice_of(self, actions: Int64[Tensor, " S"]) -> Int64[Tensor, " S"]:
        """Index of each action among the logits: without STOP, later actions move up."""
        return actions if self.can_stop else actions - (actions > Action.STOP).long()

    def action_of(self, choices: Int64[Tensor, " N"]) -> Int64[Tensor, " N"]:
        """Action of each index among the logits."""
        return choices if self.can_stop else choices + (choices >= Action.STOP).long()

    @property
    def heads(self) -> list[nn.Linear]:
        return [self.head if isinstance(self.head, nn.Linear) else self.head[-1]]

    def prepare(self, batch: dict) -> dict:
        return {**batch, "decisions": flat_decisions(batch)}

    def decision_logits(self, batch: dict) -> dict[str, Decisions]:
        """Logits and targets for the actions that it can take."""
        return {"action": Decisions(self(batch), batch["decisions"].target, batch["decisions"].weight)}

    @abstractmethod
    def decide(
        self, state: RecurrentState, features: Float[Tensor, "N F"], active: Bool[Tensor, " N"]
    ) -> tuple[Float[Tensor, "N A"], RecurrentState]:
        """Logits, and the state after the frame for active agents."""

    def act(
        self,
        state: RecurrentState,
        features: Float[Tensor, "N F"],
        *,
        forced_action: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        noise: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[RecurrentState, Int64[Tensor, " N"]]:
        """See `Navigator.act`; the first of `noise` is used."""
        if active is None:
            active = torch.ones(len(features), dtype=torch.bool, device=features.device)
        logits, after = self.decide(state, features, active)
        drawn = None if noise is None else noise[:, 0]
        if forced_action is not None:
            actions = forced_action
        elif self.can_stop:
            actions = choose_action(logits, stop_odds=self.stop_odds, noise=drawn)
        else:
            actions = self.action_of(choose(logits, drawn))
        return after.acted(actions, active), torch.where(active, actions, int(Action.STOP))
