"""PACMAN: a planner that chooses an action and a controller that decides how often to repeat it.

See Das et al. 2018, Sec. 4, "Navigation". The planner is an LSTM over the frames at which it is queried. The controller
is a perceptron that sees each frame in between. It either repeats the current action or returns to the planner, at the
latest after `max_repeats` steps.

Deviation from the released code: planner and controller read the current action from the same row of the shared
embedding, and the start has its own row. There, the controller's "forward" was the planner's "start".

Axes: B walks, T steps (frame t is seen before action t), N agents, A actions, F features, L words, Q question; in
a batch, S planner decisions and M controller decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.navigators.action_selection import START, ActionEmbedding, checked_odds, choose, choose_action
from eqa.models.navigators.bf16_lstm import LSTM
from eqa.models.navigators.inputs import frame_projection, projection
from eqa.models.navigators.navigator import Decisions, Navigator
from eqa.models.navigators.pacman_targets import TeacherForcing, hierarchical_targets, list_decisions
from eqa.models.navigators.recurrent_state import RecurrentState, rows
from eqa.models.registry import register

CELL = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # the planner's weights
REPEAT = 1  # the controller's outputs: 0 returns to the planner, 1 repeats


@dataclass(frozen=True, slots=True)
class PacmanState(RecurrentState):
    """The state of N agents between steps."""

    question: Tensor  # (N, question_size), or (N, 0) without question
    hidden: tuple[Tensor, ...]  # the planner's, each (N, planner_hidden)
    previous_action: Tensor  # (N,) int64, START at first
    repeats: Tensor  # (N,) int64: how often it was taken since the planner chose it


@dataclass(frozen=True, slots=True)
class Decision:
    """Outputs of planner and controller at one step; the caller uses one of the two."""

    planner_logits: Tensor  # (N, A)
    controller_logits: Tensor  # (N, 2)
    may_repeat: Tensor  # (N,) bool: False where the controller is not queried
    hidden: tuple[Tensor, ...]  # the planner's next state, if it is queried


@register
class Pacman(Navigator):
    """The navigator. Defaults are the paper's sizes; `planner="gru"` and `question_hidden=64` give the released code's.

    `place_size`: numbers kept of each place of the frames' map, see `models.navigators.inputs.frame_projection`.
    `stop_odds`: see `models.navigators.action_selection.choose_action`. `with_question=False` ignores the question.
    """

    keeps_state = True

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
        planner: Literal["lstm", "gru"] = "lstm",
        planner_hidden: int = 1024,
        controller_hidden: int = 256,
        image_size: int = 128,
        map_shape: Sequence[int] | None = None,
        place_size: int | None = None,
        question_hidden: int = 128,
        question_size: int = 64,
        action_size: int = 32,
        max_repeats: int = 5,
        dropout: float = 0.5,
        stop_odds: float = 1.0,
        with_question: bool = True,
    ):
        super().__init__()
        if planner not in ("lstm", "gru"):
            raise ValueError(f"planner: expected lstm or gru, got {planner!r}")
        self.max_repeats, self.planner_hidden, self.stop_odds = max_repeats, planner_hidden, checked_odds(stop_odds)
        self.num_actions, self.with_question = num_actions, with_question
        if with_question:
            self.question = QuestionEncoder(vocabulary_size, hidden_size=question_hidden, dropout=dropout)
            self.question_projection = projection(question_hidden, question_size, dropout)
        self.image_projection = frame_projection(
            feature_size, image_size, dropout, map_shape=map_shape, place_size=place_size
        )
        self.action_embedding = ActionEmbedding(num_actions, action_size)
        sizes = image_size + with_question * question_size + action_size, planner_hidden
        self.planner = LSTM(*sizes) if planner == "lstm" else nn.GRU(*sizes, batch_first=True)
        self.planner_head = nn.Linear(planner_hidden, num_actions)
        self.controller = nn.Sequential(
            nn.Linear(image_size + action_size + planner_hidden, controller_hidden),
            nn.ReLU(),
            nn.Linear(controller_hidden, 2),
        )

    @property
    def heads(self) -> list[nn.Linear]:
        return [self.planner_head, self.controller[-1]]

    def prepare(self, batch: dict) -> dict:
        """The batch with its `decisions`; call it before the batch goes to a GPU."""
        return {**batch, "decisions": list_decisions(batch, self.max_repeats)}

    def encode_question(self, questions: Int64[Tensor, "B L"]) -> Float[Tensor, "B Q"]:
        """Question vectors; they are empty without the question."""
        if not self.with_question:
            return self.planner_head.weight.new_zeros(len(questions), 0)
        return self.question_projection(self.question(questions))

    def forward(self, batch: dict) -> tuple[Float[Tensor, "S A"], Float[Tensor, "M 2"]]:
        """Teacher-forced logits of the planner and controller decisions that count, as `decisions` lists them.

        If the batch has a `state`, its walks go on from there; no gradient flows back into it.
        """
        decisions: TeacherForcing = batch["decisions"]
        features = batch["features"].flatten(0, 1)[decisions.frames]
        image = self.image_projection(features.to(self.planner_head.weight.dtype))
        question = self.encode_question(batch["questions"])
        planner_input = torch.cat(
            [
                image[decisions.planner_frame],
                question.unsqueeze(1).expand(-1, decisions.planner_frame.shape[1], -1),
                self.action_embedding(decisions.planner_input),
            ],
            dim=2,
        )
        # The input is padded, not packed: PyTorch's packed LSTM on a CPU sums its weights' gradient step by step, which
        # costs more than the padding does.
        state = batch["state"].hidden if "state" in batch else self._nothing_planned(question)
        start = tuple(h.unsqueeze(0).to(planner_input.dtype) for h in state)
        steps = self.planner(planner_input, start if len(start) > 1 else start[0])[0]
        hidden = torch.cat([start[0].transpose(0, 1), steps], dim=1).flatten(0, 1)
        controller_input = torch.cat(
            [
                image[decisions.controller_frame],
                self.action_embedding(decisions.controller_input),
                hidden[decisions.controller_planner],
            ],
            dim=1,
        )
        return self.planner_head(hidden[decisions.planner_scored]), self.controller(controller_input)

    def decision_logits(self, batch: dict) -> dict[str, Decisions]:
        """The planner's decisions and the controller's."""
        decisions = batch["decisions"]
        planner_logits, controller_logits = self(batch)
        return {
            "planner": Decisions(planner_logits, decisions.planner_target, decisions.planner_weight),
            "controller": Decisions(controller_logits, decisions.controller_target, decisions.controller_weight),
        }

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> PacmanState:
        """The state of agents that have seen nothing yet; encodes each question once."""
        question, previous = self.encode_question(questions), torch.full_like(questions[:, 0], START)
        return PacmanState(question, self._nothing_planned(question), previous, torch.zeros_like(previous))

    def _nothing_planned(self, question: Float[Tensor, "N Q"]) -> tuple[Tensor, ...]:
        zeros = question.new_zeros(len(question), self.planner_hidden)
        return (zeros, zeros) if isinstance(self.planner, nn.LSTM) else (zeros,)

    @torch.no_grad()
    def warm_up(
        self, questions: Int64[Tensor, "N L"], features: Float[Tensor, "N T F"], actions: Int64[Tensor, "N T"]
    ) -> PacmanState:
        """See `Navigator.warm_up`; it reads only the frames at which the planner is queried."""
        state, walked = self.initial_state(questions), (actions[:, :1] >= 0).any(1).nonzero().squeeze(1)
        if not len(walked):
            return state
        actions, features = actions[walked], features[walked]
        targets = hierarchical_targets(actions, self.max_repeats)
        walk, step = targets.queries.nonzero(as_tuple=True)
        image = self.image_projection(features[walk, step].to(self.planner_head.weight.dtype))
        inputs = torch.cat(
            [image, state.question[walked][walk], self.action_embedding(targets.previous_action[walk, step])], 1
        )
        queried = targets.queries.sum(1)
        padded = inputs.new_zeros(len(walked), int(queried.max()), inputs.shape[1])
        padded[walk, targets.planner_step[walk, step] + 1] = inputs
        packed = pack_padded_sequence(padded, queried.cpu(), batch_first=True, enforce_sorted=False)
        after = self.planner(packed)[1]
        length = (actions >= 0).sum(1)
        last_asked = torch.where(targets.queries, torch.arange(actions.shape[1], device=actions.device), -1).amax(1)
        hidden = [h.squeeze(0) for h in (after if isinstance(after, tuple) else (after,))]
        return PacmanState(
            question=state.question,
            hidden=tuple(
                old.index_copy(0, walked, new.to(old.dtype)) for old, new in zip(state.hidden, hidden, strict=True)
            ),
            previous_action=state.previous_action.index_copy(
                0, walked, actions.gather(1, length[:, None] - 1).squeeze(1)
            ),
            repeats=state.repeats.index_copy(0, walked, length - last_asked),
        )

    def decide(self, state: PacmanState, features: Float[Tensor, "N F"]) -> Decision:
        """Outputs of both planner and controller for all agents; `act` runs only the part whose turn it is."""
        image, previous = self._encode(state, features)
        planner_logits, hidden = self._plan(state, image, previous)
        return Decision(
            planner_logits=planner_logits,
            controller_logits=self._control(state, image, previous),
            may_repeat=self._may_repeat(state),
            hidden=hidden,
        )

    def act(
        self,
        state: PacmanState,
        features: Float[Tensor, "N F"],
        *,
        forced_action: Int64[Tensor, " N"] | None = None,
        active: Bool[Tensor, " N"] | None = None,
        noise: Float[Tensor, "N 2"] | None = None,
    ) -> tuple[PacmanState, Int64[Tensor, " N"]]:
        """See `Navigator.act`; the first of `noise` is for the planner, the second for the controller."""
        image, previous = self._encode(state, features)
        repeat, of_planner = self._may_repeat(state), None
        if forced_action is None:
            of_planner, of_controller = (None, None) if noise is None else noise.unbind(1)
            repeat = repeat & (choose(self._control(state, image, previous), of_controller) == REPEAT)
        else:
            repeat = repeat & (forced_action == state.previous_action)
        active = torch.ones_like(repeat) if active is None else active
        actions, hidden = torch.where(active, state.previous_action, int(Action.STOP)), state.hidden
        queried = (active & ~repeat).nonzero().squeeze(1)
        if len(queried):
            logits, planned = self._plan(rows(state, queried), image[queried], previous[queried])
            if forced_action is not None:
                chosen = forced_action[queried]
            else:
                drawn = None if of_planner is None else of_planner[queried]
                chosen = choose_action(logits, stop_odds=self.stop_odds, noise=drawn)
            actions = actions.index_copy(0, queried, chosen)
            hidden = tuple(
                old.to(new.dtype).index_copy(0, queried, new) for new, old in zip(planned, hidden, strict=True)
            )
        after = PacmanState(
            question=state.question,
            hidden=hidden,
            previous_action=torch.where(active, actions, state.previous_action),
            repeats=torch.where(active, torch.where(repeat, state.repeats + 1, 1), state.repeats),
        )
        return after, actions

    def planner_queried(self, state: PacmanState) -> Bool[Tensor, " N"]:
        return state.repeats == 1

    def stop_share(self, state: PacmanState) -> Float[Tensor, " N"]:
        return self.planner_head(state.hidden[0].to(self.planner_head.weight.dtype)).softmax(1)[:, Action.STOP]

    def _encode(self, state: PacmanState, features: Float[Tensor, "N F"]) -> tuple[Tensor, Tensor]:
        """Vectors of the frames, (N, image_size), and of the previous actions, (N, action_size)."""
        image = self.image_projection(features.to(self.planner_head.weight.dtype))
        return image, self.action_embedding(state.previous_action)

    def _may_repeat(self, state: PacmanState) -> Bool[Tensor, " N"]:
        return (state.previous_action != START) & (state.repeats < self.max_repeats)

    def _control(self, state: PacmanState, image: Tensor, previous: Tensor) -> Float[Tensor, "N 2"]:
        return self.controller(torch.cat([image, previous, state.hidden[0].to(image.dtype)], dim=1))

    def _plan(self, state: PacmanState, image: Tensor, previous: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits (N, A), and the hidden state after this step."""
        planner_input = torch.cat([image, state.question.to(image.dtype), previous], dim=1)
        # This calls the cell: on a CPU the network over steps packs its weights in each call, which costs more than the
        # step.
        weights = (getattr(self.planner, name) for name in CELL)
        if isinstance(self.planner, nn.LSTM):
            hidden = torch.lstm_cell(planner_input, state.hidden, *weights)
        else:
            hidden = (torch.gru_cell(planner_input, *state.hidden, *weights),)
        return self.planner_head(hidden[0]), hidden
