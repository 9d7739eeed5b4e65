"""`ObservationEncoder`: each frame, the question and the previous action as vectors.

Sizes are the paper's (Das et al. 2018, Sec. 4); `question_hidden=64` is the released code's.

Axes: B walks or agents, T steps, F features, L words, K frames that are not padding, Q question, I image, D all of it.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.encoders.features import checked_map_shape
from eqa.models.navigators.action_selection import START, ActionEmbedding


def projection(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(dropout))


def frame_projection(
    feature_size: int, outputs: int, dropout: float, *, map_shape: Sequence[int] | None, place_size: int | None
) -> nn.Sequential:
    """A frame's features (K, F) to a vector (K, outputs): one linear layer, or with `place_size` two.

    The first keeps `place_size` numbers of each place of the map, their means over 2 x 2 places go to the second. A
    map of many channels has too many features for one layer to learn from a few thousand walks.
    ValueError for a place_size without the map_shape of these features.
    """
    if place_size is None:
        return projection(feature_size, outputs, dropout)
    channels, rows, columns = checked_map_shape(map_shape, feature_size)
    return nn.Sequential(
        nn.Unflatten(1, (channels, rows, columns)),
        nn.Conv2d(channels, place_size, 1),
        nn.ReLU(),
        nn.AvgPool2d(2, ceil_mode=True),
        nn.Flatten(),
        *projection(place_size * -(-rows // 2) * -(-columns // 2), outputs, dropout),
    )


class QuestionInput(nn.Module):
    """A question's vector (B, Q); with `with_question=False` an empty one, so that callers need no special case."""

    def __init__(
        self, vocabulary_size: int, *, hidden_size: int = 128, size: int = 64, dropout: float, with_question: bool
    ):
        super().__init__()
        self.size = size if with_question else 0
        if with_question:
            self.encoder = QuestionEncoder(vocabulary_size, hidden_size=hidden_size, dropout=dropout)
            self.projection = projection(hidden_size, size, dropout)

    def forward(self, questions: Int64[Tensor, "B L"]) -> Float[Tensor, "B Q"]:
        if self.size == 0:
            return torch.zeros(len(questions), 0, device=questions.device)
        return self.projection(self.encoder(questions))


class FrameInput(nn.Module):
    """A frame's vector."""

    def __init__(self, feature_size: int, *, size: int = 128, dropout: float):
        super().__init__()
        self.size = size
        self.projection = projection(feature_size, size, dropout)

    def forward(self, features: Float[Tensor, "K F"]) -> Float[Tensor, "K I"]:
        return self.projection(features.to(self.projection[0].weight.dtype))

    def along(self, features: Float[Tensor, "B T F"], frames: Int64[Tensor, " K"]) -> Float[Tensor, "B*T I"]:
        """Vectors of the frames of walks listed in `frames` (index into B T), each encoded once; other frames get 0."""
        seen = self(features.flatten(0, 1)[frames])
        return seen.new_zeros(features.shape[0] * features.shape[1], self.size).index_copy(0, frames, seen)


class ObservationEncoder(nn.Module):
    """A step's frame, question and previous action as one vector of `size`."""

    def __init__(
        self,
        vocabulary_size: int,
        feature_size: int,
        *,
        num_actions: int,
        image_size: int,
        question_hidden: int,
        question_size: int,
        action_size: int,
        dropout: float,
        with_question: bool,
    ):
        super().__init__()
        self.question_input = QuestionInput(
            vocabulary_size,
            hidden_size=question_hidden,
            size=question_size,
            dropout=dropout,
            with_question=with_question,
        )
        self.frame_input = FrameInput(feature_size, size=image_size, dropout=dropout)
        self.action_embedding = ActionEmbedding(num_actions, action_size)
        self.size = image_size + self.question_input.size + action_size

    def forward(
        self, features: Float[Tensor, "B F"], question: Float[Tensor, "B Q"], previous_action: Int64[Tensor, " B"]
    ) -> Float[Tensor, "B D"]:
        """One step of each agent; `previous_action` is the last action, START before the first."""
        return torch.cat([self.frame_input(features), question, self.action_embedding(previous_action)], dim=1)

    def along(self, batch: dict) -> Float[Tensor, "B T D"]:
        """All steps of walks, in a batch as in `models.navigators.navigator`."""
        actions = batch["actions"]
        image = self.frame_input.along(batch["features"], batch["decisions"].frames).unflatten(0, actions.shape)
        question = self.question_input(batch["questions"]).unsqueeze(1).expand(-1, actions.shape[1], -1)
        previous = torch.cat([torch.full_like(actions[:, :1], START), actions[:, :-1].clamp(min=0)], dim=1)
        return torch.cat([image, question, self.action_embedding(previous)], dim=2)
