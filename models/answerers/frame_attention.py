"""Answerers: a distribution over answers from the question and the last frames, or from the question alone.

See Das et al. 2018, Sec. 4, "Question Answering". The dot product of each frame with the question becomes an attention
weight. The attended frame and the question are concatenated and classified.

Axes: B questions, T frames, F features, L words, A answers, D common size of image and question.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.registry import register


@register
class Answerer(nn.Module):
    """Attends over the last `num_frames` frames, or with None over all of history and walk.

    With `earlier_frames` it also attends over the frames that lie so many actions before the last. The released code
    has additive attention, product and D = 64.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        feature_size: int,
        *,
        num_frames: int | None = 5,
        earlier_frames: Sequence[int] = (),
        hidden_size: int = 128,
        classifier_hidden: int = 64,
        attention: Literal["dot", "additive"] = "dot",
        fusion: Literal["concat", "product"] = "concat",
        dropout: float = 0.5,
    ):
        super().__init__()
        if attention not in ("dot", "additive"):
            raise ValueError(f"attention: expected dot or additive, got {attention!r}")
        if fusion not in ("concat", "product"):
            raise ValueError(f"fusion: expected concat or product, got {fusion!r}")
        self.attention, self.fusion = attention, fusion
        self.num_frames, self.earlier_frames = num_frames, tuple(earlier_frames)
        self.question = QuestionEncoder(vocabulary_size, hidden_size=hidden_size, dropout=dropout)
        self.image_projection = nn.Sequential(nn.Linear(feature_size, hidden_size), nn.ReLU(), nn.Dropout(dropout))
        if attention == "additive":
            self.image_key = nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.Dropout(dropout))
            self.question_key = nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.Dropout(dropout))
            self.similarity = nn.Sequential(nn.Tanh(), nn.Dropout(dropout), nn.Linear(2 * hidden_size, 1))
        fused = 2 * hidden_size if fusion == "concat" else hidden_size
        self.classifier = classifier(fused, classifier_hidden, num_answers, dropout)

    def forward(
        self,
        features: Float[Tensor, "B T F"],
        questions: Int64[Tensor, "B L"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B A"]:
        """Logits. `mask` is False where a walk has no frame; each row needs at least one frame."""
        weights, image, question = self._look(features, questions, mask)
        attended = (weights.unsqueeze(2) * image).sum(1)
        fused = torch.cat([attended, question], 1) if self.fusion == "concat" else attended * question
        return self.classifier(fused)

    def attended(
        self, features: Float[Tensor, "B T F"], questions: Int64[Tensor, "B L"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T 1 1"]:
        """The share of attention that each frame gets, as of a map of one place; each question's sum to 1."""
        return self._look(features, questions, mask)[0][..., None, None]

    def _look(
        self, features: Float[Tensor, "B T F"], questions: Int64[Tensor, "B L"], mask: Bool[Tensor, "B T"] | None
    ) -> tuple[Tensor, ...]:
        """Weights of frames (B, T), their vectors (B, T, D), and the question's (B, D)."""
        question = self.question(questions)
        image = self.image_projection(features.to(self.image_projection[0].weight.dtype))
        return self.weights(image, question, mask), image, question

    @torch.no_grad()
    def scale_scores(self, weight: float | Tensor) -> None:
        """Multiplies all logits."""
        scale_outputs(self.classifier, weight)

    def weights(
        self, image: Float[Tensor, "B T D"], question: Float[Tensor, "B D"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T"]:
        """Attention weights of the frames; rows sum to 1."""
        if self.attention == "dot":
            similarity = (image * question.unsqueeze(1)).sum(2)
        else:
            question_key = self.question_key(question).unsqueeze(1).expand(-1, image.shape[1], -1)
            similarity = self.similarity(torch.cat([self.image_key(image), question_key], 2)).squeeze(2)
        if mask is not None:
            similarity = similarity.masked_fill(~mask, torch.finfo(similarity.dtype).min)
        return similarity.softmax(1)


@register
class QuestionOnly(nn.Module):
    """Answers from the question alone: the accuracy that wording gives away. Same interface as `Answerer`."""

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        *,
        hidden_size: int = 128,
        classifier_hidden: int = 64,
        dropout: float = 0.5,
    ):
        super().__init__()
        self.question = QuestionEncoder(vocabulary_size, hidden_size=hidden_size, dropout=dropout)
        self.classifier = classifier(hidden_size, classifier_hidden, num_answers, dropout)

    def forward(
        self, features: Tensor | None, questions: Int64[Tensor, "B L"], mask: Tensor | None = None
    ) -> Float[Tensor, "B A"]:
        """Logits; `features` and `mask` are ignored."""
        return self.classifier(self.question(questions))


def scale_outputs(network: nn.Sequential, weight: float | Tensor) -> None:
    """Multiplies the outputs of a network that ends with a linear layer."""
    network[-1].weight.mul_(weight), network[-1].bias.mul_(weight)


def classifier(inputs: int, hidden: int, num_answers: int, dropout: float) -> nn.Sequential:
    """A perceptron from a vector to logits of answers."""
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, num_answers),
    )
