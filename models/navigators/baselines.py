"""The navigators that PACMAN is compared with: `Reactive`, which has no memory, and `Lstm`, which has no controller.

The baselines are those of Das et al. 2018, Sec. 5, "Navigation Baselines", each with and without the question. Both
choose at every step.

Axes: B walks, T steps (frame t is seen before action t), S actions that count, N agents, V frames of a view, A actions,
F features, L words, Q question, I image, H hidden.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.models.navigators.action_selection import START, checked_odds
from eqa.models.navigators.bf16_lstm import LSTM
from eqa.models.navigators.inputs import FrameInput, ObservationEncoder, QuestionInput
from eqa.models.navigators.navigator import FlatNavigator, targets, weights
from eqa.models.navigators.recurrent_state import RecurrentState
from eqa.models.registry import register


class Views(NamedTuple):
    """Inputs and targets of a reactive navigator, for each of S actions that count."""

    frames: Tensor  # (K,) rows of features flattened to (B T, F): those in any view
    view: Tensor  # (S, V) index into `frames`
    walk: Tensor  # (S,) index of the walk, and so of its question
    target: Tensor  # (S,)
    weight: Tensor  # (S,)

    def to(self, device: torch.device) -> "Views":
        return Views(*(part.to(device) for part in self))


@dataclass(frozen=True, slots=True)
class ReactiveState(RecurrentState):
    """The state of N agents between steps."""

    question: Float[Tensor, "N Q"]
    images: Float[Tensor, "N V I"]  # the last frames, the newest last
    fresh: Bool[Tensor, " N"]  # agent has seen nothing yet


@register
class Reactive(FlatNavigator):
    """Chooses from the last `num_frames` frames, and from the question if it gets one. Defaults are the paper's sizes.

    As in the paper it cannot stop; `stop=True` gives it this action, too, as in the released code. Deviations from
    that code: it learns from all views of a walk (there: from a random one in each epoch). A view that begins before
    the first frame is filled up with that frame (there: left out).
    """

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
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
        self.num_actions, self.can_stop = num_actions, stop
        self.num_frames, self.stop_odds = num_frames, checked_odds(stop_odds)
        self.question_input = QuestionInput(
            vocabulary_size,
            hidden_size=question_hidden,
            size=question_size,
            dropout=dropout,
            with_question=with_question,
        )
        self.frame_input = FrameInput(feature_size, size=image_size, dropout=dropout)
        self.head = nn.Sequential(
            nn.Linear(num_frames * image_size + self.question_input.size, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, num_actions if stop else num_actions - 1),
        )

    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""
        target = targets(batch)
        walk, step = self.scored(batch).nonzero(as_tuple=True)
        back = torch.arange(1 - self.num_frames, 1)
        seen = (step[:, None] + back).clamp(min=0) + walk[:, None] * target.shape[1]
        frames, view = torch.unique(seen, return_inverse=True)
        return {
            **batch,
            "decisions": Views(frames, view, walk, self.choice_of(target[walk, step]), weights(batch)[walk, step]),
        }

    def forward(self, batch: dict) -> Float[Tensor, "S A"]:
        """Logits of the actions that count, as `decisions` lists them."""
        decisions: Views = batch["decisions"]
        images = self.frame_input(batch["features"].flatten(0, 1)[decisions.frames])[decisions.view]
        return self._logits(images, self.question_input(batch["questions"])[decisions.walk])

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> ReactiveState:
        question = self.question_input(questions)
        images = question.new_zeros(len(questions), self.num_frames, self.frame_input.size)
        return ReactiveState(question, images, torch.ones_like(questions[:, 0], dtype=torch.bool))

    def decide(
        self, state: ReactiveState, features: Float[Tensor, "N F"], active: Bool[Tensor, " N"]
    ) -> tuple[Float[Tensor, "N A"], ReactiveState]:
        image = self.frame_input(features).unsqueeze(1)
        fresh = state.fresh[:, None, None]
        images = torch.where(fresh, image, torch.cat([state.images[:, 1:].to(image.dtype), image], dim=1))
        kept = torch.where(active[:, None, None], images, state.images.to(images.dtype))
        return self._logits(images, state.question), ReactiveState(state.question, kept, state.fresh & ~active)

    def _logits(self, images: Float[Tensor, "S V I"], question: Float[Tensor, "S Q"]) -> Float[Tensor, "S A"]:
        return self.head(torch.cat([images.flatten(1), question], dim=1))


@dataclass(frozen=True, slots=True)
class LstmState(RecurrentState):
    """The state of N agents between steps."""

    question: Float[Tensor, "N Q"]
    hidden: Float[Tensor, "N H"]
    cell: Float[Tensor, "N H"]
    previous_action: Int64[Tensor, " N"]  # START at first

    def acted(self, actions: Int64[Tensor, " N"], active: Bool[Tensor, " N"]) -> "LstmState":
        return replace(self, previous_action=torch.where(active, actions, self.previous_action))


@register
class Lstm(FlatNavigator):
    """An LSTM that chooses at every step from the frame, the last action, and the question if it gets one.

    Defaults are the paper's sizes; `question_hidden=64` gives the released code's.
    """

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
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
        self.num_actions, self.stop_odds = num_actions, checked_odds(stop_odds)
        self.observation_encoder = ObservationEncoder(
            vocabulary_size,
            feature_size,
            num_actions=num_actions,
            image_size=image_size,
            question_hidden=question_hidden,
            question_size=question_size,
            action_size=action_size,
            dropout=dropout,
            with_question=with_question,
        )
        self.rnn = LSTM(self.observation_encoder.size, hidden_size)
        self.head = nn.Linear(hidden_size, num_actions)

    def forward(self, batch: dict) -> Float[Tensor, "S A"]:
        """Logits of the actions that count, as `decisions` lists them."""
        # Padded, not packed, for the reason in `Pacman.forward`.
        hidden = self.rnn(self.observation_encoder.along(batch))[0].flatten(0, 1)
        return self.head(hidden[batch["decisions"].place])

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> LstmState:
        question = self.observation_encoder.question_input(questions)
        zeros = question.new_zeros(len(questions), self.rnn.hidden_size)
        return LstmState(question, zeros, zeros, torch.full_like(questions[:, 0], START))

    def decide(
        self, state: LstmState, features: Float[Tensor, "N F"], active: Bool[Tensor, " N"]
    ) -> tuple[Float[Tensor, "N A"], LstmState]:
        step = self.observation_encoder(features, state.question, state.previous_action).unsqueeze(1)
        hidden, cell = self.rnn(step, (state.hidden.unsqueeze(0), state.cell.unsqueeze(0)))[1]
        after = replace(
            state,
            hidden=torch.where(active[:, None], hidden[0], state.hidden),
            cell=torch.where(active[:, None], cell[0], state.cell),
        )
        return self.head(hidden[0]), after

    def stop_share(self, state: LstmState) -> Float[Tensor, " N"]:
        return self.head(state.hidden).softmax(1)[:, Action.STOP]
