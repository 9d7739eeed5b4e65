"""`Critic`: a learned baseline that estimates an episode's further reward from frames, question and actions.

It is a network of its own, so that it fits every navigator and its learning changes none of them.

Axes: B walks, T steps (frame t is seen before action t), F features.
"""

from jaxtyping import Float
from torch import Tensor, nn

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.models.navigators.bf16_lstm import LSTM
from eqa.models.navigators.inputs import ObservationEncoder
from eqa.models.navigators.navigator import flat_decisions
from eqa.models.registry import register


@register
class Critic(nn.Module):
    """An LSTM over frame, question and last action."""

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int = len(HOUSE_ACTIONS),
        hidden_size: int = 256,
        image_size: int = 128,
    ):
        super().__init__()
        self.observation_encoder = ObservationEncoder(
            vocabulary_size,
            feature_size,
            num_actions=num_actions,
            image_size=image_size,
            question_hidden=128,
            question_size=64,
            action_size=32,
            dropout=0.0,
            with_question=True,
        )
        self.rnn = LSTM(self.observation_encoder.size, hidden_size)
        self.head = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: dict) -> Float[Tensor, "B T"]:
        """The return from each step on; `batch` is that of `models.navigators.navigator`."""
        decisions = flat_decisions({**batch, "loss_from": None})
        frames = decisions.frames.to(batch["actions"].device)
        steps = self.observation_encoder.along({**batch, "decisions": decisions._replace(frames=frames)})
        return self.head(self.rnn(steps)[0]).squeeze(2)
