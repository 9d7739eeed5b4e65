"""`Transformer`: a navigator that attends to its whole walk, in place of an LSTM's memory.

It is a causal transformer (Vaswani et al. 2017), normalised before each block, over frame, question and last action of
each step. Attention gets a penalty that grows linearly with the age of a step (ALiBi, Press et al. 2022). The penalty
lets it play longer walks than it learns from. Acting keeps keys and values of past steps, so a step costs time linear
in the walk's length.

Axes: B walks, T steps (frame t is seen before action t), S actions that count, A actions, N agents, L words,
F features, H heads, D size of a step's vector, E of a head's, Q question.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.models.navigators.action_selection import START, checked_odds
from eqa.models.navigators.inputs import ObservationEncoder
from eqa.models.navigators.navigator import FlatNavigator
from eqa.models.navigators.recurrent_state import RecurrentState
from eqa.models.registry import register

UNSEEN = -1  # place of a step that an agent did not take


class Block(nn.Module):
    """Attention and a perceptron, each with a residual connection."""

    def __init__(self, size: int, *, num_heads: int, dropout: float):
        super().__init__()
        self.num_heads = num_heads
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.heads = nn.Linear(size, 3 * size)
        self.attended = nn.Linear(size, size)
        self.perceptron = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.dropout = nn.Dropout(dropout)

    def split(
        self, steps: Float[Tensor, "B T D"]
    ) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T E"], Float[Tensor, "B H T E"]]:
        """Queries, keys and values."""
        heads = self.heads(self.norms[0](steps)).unflatten(2, (3, self.num_heads, -1))
        return tuple(heads.permute(2, 0, 3, 1, 4))

    def forward(
        self,
        steps: Float[Tensor, "B T D"],
        queries: Float[Tensor, "B H T E"],
        keys: Float[Tensor, "B H T2 E"],
        values: Float[Tensor, "B H T2 E"],
        bias: Float[Tensor, "#B H T T2"],
    ) -> Float[Tensor, "B T D"]:
        found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias.to(queries.dtype))
        steps = steps + self.dropout(self.attended(found.transpose(1, 2).flatten(2)))
        return steps + self.dropout(self.perceptron(self.norms[1](steps)))


@dataclass(frozen=True, slots=True)
class TransformerState(RecurrentState):
    """The state of N agents between steps. An agent need not have taken all of the T steps."""

    question: Float[Tensor, "N Q"]
    keys: tuple[Float[Tensor, "N H T E"], ...]  # of each layer
    values: tuple[Float[Tensor, "N H T E"], ...]
    places: Int64[Tensor, "N T"]  # the step's number in the agent's own walk; UNSEEN where it took none
    previous_action: Int64[Tensor, " N"]  # START at first

    def acted(self, actions: Int64[Tensor, " N"], active: Bool[Tensor, " N"]) -> "TransformerState":
        return replace(self, previous_action=torch.where(active, actions, self.previous_action))

    @property
    def num_steps(self) -> int:
        return self.places.shape[1]

    def aligned(self, steps: int) -> "TransformerState":
        """The same with more steps in front, which no agent has taken."""
        more = steps - self.num_steps

        def longer(old: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(F.pad(tensor, (0, 0, more, 0)) for tensor in old)

        places = F.pad(self.places, (more, 0), value=UNSEEN)
        return TransformerState(self.question, longer(self.keys), longer(self.values), places, self.previous_action)


@register
class Transformer(FlatNavigator):
    """Chooses at every step. `size` has to be a multiple of `num_heads`."""

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
        with_question: bool = True,
        size: int = 256,
        num_layers: int = 3,
        num_heads: int = 8,
        image_size: int = 128,
        question_hidden: int = 128,
        question_size: int = 64,
        action_size: int = 32,
        dropout: float = 0.1,
        stop_odds: float = 1.0,
    ):
        super().__init__()
        if size % num_heads:
            raise ValueError(f"size: expected a multiple of num_heads={num_heads}, got {size}")
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
        self.enter = nn.Linear(self.observation_encoder.size, size)
        self.blocks = nn.ModuleList([Block(size, num_heads=num_heads, dropout=dropout) for _ in range(num_layers)])
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, num_actions))
        slopes = 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, batch: dict) -> Float[Tensor, "S A"]:
        """Logits of the actions that count, as `decisions` lists them."""
        steps = self.enter(self.observation_encoder.along(batch))
        places = torch.arange(steps.shape[1], device=steps.device).unsqueeze(0)
        bias = self._bias(places, places)
        for block in self.blocks:
            steps = block(steps, *block.split(steps), bias)
        return self.head(steps.flatten(0, 1)[batch["decisions"].place])

    def initial_state(self, questions: Int64[Tensor, "N L"]) -> TransformerState:
        question = self.observation_encoder.question_input(questions)
        heads = self.blocks[0].num_heads
        empty = (question.new_zeros(len(questions), heads, 0, self.enter.out_features // heads),) * len(self.blocks)
        places, previous_action = questions.new_zeros(len(questions), 0), torch.full_like(questions[:, 0], START)
        return TransformerState(question, empty, empty, places, previous_action)

    def decide(
        self, state: TransformerState, features: Float[Tensor, "N F"], active: Bool[Tensor, " N"]
    ) -> tuple[Float[Tensor, "N A"], TransformerState]:
        place = (state.places != UNSEEN).sum(1, keepdim=True)
        # A row that is not active attends to its own step: its output is unused, but a softmax over nothing is nan.
        places = torch.cat([state.places, place], dim=1)
        bias = self._bias(place, places)
        steps = self.enter(self.observation_encoder(features, state.question, state.previous_action)).unsqueeze(1)
        keys, values = [], []
        for block, old_keys, old_values in zip(self.blocks, state.keys, state.values, strict=True):
            queries, new_keys, new_values = block.split(steps)
            keys.append(torch.cat([old_keys, new_keys], dim=2))
            values.append(torch.cat([old_values, new_values], dim=2))
            steps = block(steps, queries, keys[-1], values[-1], bias)
        places = torch.cat([state.places, torch.where(active[:, None], place, UNSEEN)], dim=1)
        after = TransformerState(state.question, tuple(keys), tuple(values), places, state.previous_action)
        return self.head(steps[:, 0]), after

    def _bias(self, now: Int64[Tensor, "B T"], then: Int64[Tensor, "B T2"]) -> Float[Tensor, "B H T T2"]:
        """The bias on the attention of steps at places `now` to those at `then`: -inf where it is masked."""
        age = now[:, :, None] - then[:, None, :]
        hidden = (age < 0) | (then == UNSEEN)[:, None, :]
        penalty = -self.slopes[:, None, None] * age[:, None]
        return penalty.masked_fill(hidden[:, None], float("-inf"))
