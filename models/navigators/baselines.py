"""The navigators that PACMAN is compared with: `Reactive`, which has no memory, and `Lstm`, which has no controller.

Das et al. 2018, Sec. 5, "Navigation Baselines"; each with and without the question. Both choose at every step.

Axes: B walks, T steps (frame t is seen before action t), S actions that count, N agents, V frames of a view, A actions,
F features, L words, Q question, I image, H hidden.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import NUM_ACTIONS, Action
from eqa.models.navigators.action_selection import START, checked_odds, choose, choose_action, first_of
from eqa.models.navigators.bf16_lstm import LSTM
from eqa.models.navigators.inputs import Hearing, Seeing, Senses
from eqa.models.navigators.navigator import FlatNavigator, counted, labels, weights
from eqa.models.registry import rebuildable


class Views(NamedTuple):
    """What a reactive navigator decides from, for each of S actions that count."""

    frames: Tensor  # (K,) rows of features flattened to (B T, F): those in any view
    view: Tensor  # (S, V) index into `frames`
    walk: Tensor  # (S,) whose question it is
    target: Tensor  # (S,)
    weight: Tensor  # (S,)


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """What N agents carry from step to step."""

    question: Float[Tensor, "N Q"]
    images: Float[Tensor, "N V I"]  # the last frames, the newest last
    fresh: Bool[Tensor, " N"]  # has seen nothing yet


@rebuildable
class Reactive(FlatNavigator):
    """Chooses from the last `num_frames` frames, and the question if it hears one. Paper's sizes by default.

    As in the paper it cannot stop; `stop=True` gives it the fourth action, as in the released code. Deviations from that
    code: it learns from all views of a walk (there: one at random in each epoch), and a view that reaches back behind the
    first frame is filled up with it (there: left out).
    """

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        with_question: bool = True,
        stop: bool = False,
        num_frames: int = 5,
        image_size: int = 64,
        question_hidden: int = 128,
        question_size: int = 64,
        hidden_size: int = 64,
        dropout: float = 0.5,
        stop_odds: float = 1.0,
    ):
        super().__init__()
        self.num_actions = NUM_ACTIONS if stop else int(Action.STOP)
        self.num_frames, self.stop_odds = num_frames, checked_odds(stop_odds)
        self.hearing = Hearing(
            vocabulary_size,
            hidden_size=question_hidden,
            size=question_size,
            dropout=dropout,
            with_question=with_question,
        )
        self.seeing = Seeing(feature_size, size=image_size, dropout=dropout)
        self.head = nn.Sequential(
            nn.Linear(num_frames * image_size + self.hearing.size, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, self.num_actions),
        )

    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""
        target = labels(batch)
        walk, step = (counted(batch) & (target < self.num_actions)).nonzero(as_tuple=True)
        back = torch.arange(1 - self.num_frames, 1)
        seen = (step[:, None] + back).clamp(min=0) + walk[:, None] * target.shape[1]
        frames, view = torch.unique(seen, return_inverse=True)
        return {**batch, "decisions": Views(frames, view, walk, target[walk, step], weights(batch)[walk, step])}

    def forward(self, batch: dict) -> Float[Tensor, "S A"]:
        """Logits of the actions that count, as `decisions` lists them."""
        decisions: Views = batch["decisions"]
        images = self.seeing(batch["features"].flatten(0, 1)[decisions.frames])[decisions.view]
        return self._judge(images, self.hearing(batch["questions"])[decisions.walk])

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> ReactiveState:
        """Agents that have seen nothing yet; encodes each question once."""
        question = self.hearing(questions)
        images = question.new_zeros(len(questions), self.num_frames, self.seeing.size)
        return ReactiveState(question, images, torch.ones_like(questions[:, 0], dtype=torch.bool))

    def decide(
        self, state: ReactiveState, features: Float[Tensor, "N F"]
    ) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N V I"]]:
        """Logits, and the view that they come from."""
        image = self.seeing(features).unsqueeze(1)
        fresh = state.fresh[:, None, None]
        images = torch.where(fresh, image, torch.cat([state.images[:, 1:].to(image.dtype), image], dim=1))
        return self._judge(images, state.question), images

    def act(
        self,
        state: ReactiveState,
        features: Float[Tensor, "N F"],
        *,
        forced: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        draws: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[ReactiveState, Int64[Tensor, " N"]]:
        """One step, as `Pacman.act`."""
        logits, images = self.decide(state, features)
        if forced is not None:
            actions = forced
        elif self.num_actions == NUM_ACTIONS:
            actions = choose_action(logits, stop_odds=self.stop_odds, draws=first_of(draws))
        else:
            actions = choose(logits, first_of(draws))
        active = torch.ones_like(state.fresh) if active is None else active
        images = torch.where(active[:, None, None], images, state.images.to(images.dtype))
        return ReactiveState(state.question, images, state.fresh & ~active), torch.where(
            active, actions, int(Action.STOP)
        )

    def _judge(self, images: Float[Tensor, "S V I"], question: Float[Tensor, "S Q"]) -> Float[Tensor, "S A"]:
        return self.head(torch.cat([images.flatten(1), question], dim=1))


@dataclass(frozen=True, slots=True)
class LstmState:
    """What N agents carry from step to step."""

    question: Float[Tensor, "N Q"]
    hidden: Float[Tensor, "N H"]
    cell: Float[Tensor, "N H"]
    running: Int64[Tensor, " N"]  # the action taken last, START at first


@rebuildable
class Lstm(FlatNavigator):
    """An LSTM that chooses at every step from frame, question if it hears one, and last action. Paper's sizes by default;
    `question_hidden=64` gives the released code's."""

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        with_question: bool = True,
        hidden_size: int = 1024,
        image_size: int = 128,
        question_hidden: int = 128,
        question_size: int = 64,
        action_size: int = 32,
        dropout: float = 0.5,
        stop_odds: float = 1.0,
    ):
        super().__init__()
        self.stop_odds = checked_odds(stop_odds)
        self.senses = Senses(
            vocabulary_size,
            feature_size,
            image_size=image_size,
            question_hidden=question_hidden,
            question_size=question_size,
            action_size=action_size,
            dropout=dropout,
            with_question=with_question,
        )
        self.rnn = LSTM(self.senses.size, hidden_size)
        self.head = nn.Linear(hidden_size, NUM_ACTIONS)

    def forward(self, batch: dict) -> Float[Tensor, "S 4"]:
        """Logits of the actions that count, as `decisions` lists them."""
        # Padded, not packed, for the reason in `Pacman.forward`.
        hidden = self.rnn(self.senses.along(batch))[0].flatten(0, 1)
        return self.head(hidden[batch["decisions"].place])

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> LstmState:
        """Agents that have seen nothing yet; encodes each question once."""
        question = self.senses.hearing(questions)
        zeros = question.new_zeros(len(questions), self.rnn.hidden_size)
        return LstmState(question, zeros, zeros, torch.full_like(questions[:, 0], START))

    def decide(
        self, state: LstmState, features: Float[Tensor, "N F"]
    ) -> tuple[Float[Tensor, "N 4"], tuple[Float[Tensor, "N H"], Float[Tensor, "N H"]]]:
        """Logits, and hidden and cell state after the frame."""
        step = self.senses(features, state.question, state.running).unsqueeze(1)
        hidden, cell = self.rnn(step, (state.hidden.unsqueeze(0), state.cell.unsqueeze(0)))[1]
        return self.head(hidden[0]), (hidden[0], cell[0])

    def act(
        self,
        state: LstmState,
        features: Float[Tensor, "N F"],
        *,
        forced: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        draws: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[LstmState, Int64[Tensor, " N"]]:
        """One step, as `Pacman.act`."""
        logits, (hidden, cell) = self.decide(state, features)
        actions = forced
        if forced is None:
            actions = choose_action(logits, stop_odds=self.stop_odds, draws=first_of(draws))
        active = torch.ones_like(actions, dtype=torch.bool) if active is None else active
        moved = active.unsqueeze(1)
        after = LstmState(
            question=state.question,
            hidden=torch.where(moved, hidden, state.hidden),
            cell=torch.where(moved, cell, state.cell),
            running=torch.where(active, actions, state.running),
        )
        return after, torch.where(active, actions, int(Action.STOP))
