"""`SpatialAttentionAnswerer`: an answerer that attends over the cells of frames' maps instead of whole frames.

A question is about a thing somewhere in view. Attention over every cell of the last frames' maps (Xu et al. 2015;
multi-head as in Vaswani et al. 2017) finds it, and its features answer. The mean over all cells tells the kind of room.

Axes: B questions, T frames, H rows and W columns of a map, F features, L words, A answers, P map cells of all frames,
C features of a cell, G heads.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.models.answerers.frame_attention import classifier, scale_outputs
from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.encoders.features import checked_map_shape
from eqa.models.registry import register


@register
class SpatialAttentionAnswerer(nn.Module):
    """Attends with `num_heads` heads over the map cells of the last `num_frames` frames, or with None over all frames.

    All frames are those of history and walk. With `earlier_frames` it also uses the frames that lie so many actions
    before the last, which show more of the room. The last frames show the thing in question. Half of the heads
    then attend to the last frames alone. The mean is taken over these and over all, and the question weights the
    frames. Without `num_frames` nothing tells frames apart.

    `map_shape` is channels, rows and columns of the map; a frame's features are its flat form. The interface is that of
    `Answerer`. ValueError for features of another shape.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        feature_size: int,
        *,
        map_shape: Sequence[int],
        num_frames: int | None = 5,
        earlier_frames: Sequence[int] = (),
        num_heads: int = 4,
        hidden_size: int = 128,
        classifier_hidden: int = 128,
        question_dropout: float = 0.0,
        dropout: float = 0.3,
    ):
        super().__init__()
        self.map_shape, self.num_heads = checked_map_shape(map_shape, feature_size), num_heads
        self.num_frames, self.earlier_frames = num_frames, tuple(earlier_frames)
        channels = map_shape[0]
        self.question = QuestionEncoder(vocabulary_size, hidden_size=hidden_size, dropout=question_dropout)
        self.norm = nn.BatchNorm1d(channels)
        self.query = nn.Linear(hidden_size, num_heads * channels)
        frames = len({*range(num_frames or 0), *earlier_frames})
        self.when = nn.Linear(hidden_size, num_heads * frames) if num_frames else None
        self.value = nn.Sequential(nn.Linear(channels, hidden_size), nn.ReLU())
        self.means = 2 if num_frames and earlier_frames else 1
        views = num_heads + self.means + 1  # 1 for the question
        self.classifier = classifier(views * hidden_size, classifier_hidden, num_answers, dropout)

    def forward(
        self,
        features: Float[Tensor, "B T F"],
        questions: Int64[Tensor, "B L"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B A"]:
        """Logits. `mask` is False where a walk has no frame; each row needs at least one frame."""
        cells, question = self.map_cells(features), self.question(questions)
        mask = _all_shown(features) if mask is None else mask
        hidden = self.hidden(mask, self.means, cells.shape[2])
        everywhere = torch.where(hidden, 0.0, 1.0 / (~hidden).sum(2, keepdim=True)).to(cells.dtype)
        weights = torch.cat([self.weights(cells, question, mask), everywhere], 1)
        # Weights sum to 1, so a linear normalisation of the attended features equals one of each cell.
        attended = self.norm(torch.einsum("bgp,bcp->bgc", weights, cells).flatten(0, 1)).unflatten(0, weights.shape[:2])
        return self.classifier(torch.cat([self.value(attended).flatten(1), question], 1))

    def attended(
        self, features: Float[Tensor, "B T F"], questions: Int64[Tensor, "B L"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T H W"]:
        """The share of attention that each cell gets, a mean over heads; each question's sum to 1."""
        mask = _all_shown(features) if mask is None else mask
        weights = self.weights(self.map_cells(features), self.question(questions), mask)
        return weights.mean(1).unflatten(1, (-1, *self.map_shape[1:]))

    @torch.no_grad()
    def scale_scores(self, weight: float | Tensor) -> None:
        """Multiplies all logits."""
        scale_outputs(self.classifier, weight)

    def map_cells(self, features: Float[Tensor, "B T F"]) -> Float[Tensor, "B C P"]:
        """The map cells of all frames, frame by frame."""
        maps = features.unflatten(2, (self.map_shape[0], -1)).to(self.query.weight.dtype)
        return maps.transpose(1, 2).flatten(2)

    def weights(
        self, cells: Float[Tensor, "B C P"], question: Float[Tensor, "B D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B G P"]:
        """Attention weight of each cell in each head; rows sum to 1."""
        query = self.query(question).unflatten(1, (self.num_heads, -1))
        similarity = torch.einsum("bgc,bcp->bgp", query, cells) * cells.shape[1] ** -0.5
        each = cells.shape[2] // mask.shape[1]
        if self.when is not None:
            when = self.when(question).unflatten(1, (self.num_heads, -1))
            similarity = similarity + when.repeat_interleave(each, dim=2)
        hidden = self.hidden(mask, self.num_heads, cells.shape[2])
        return similarity.masked_fill(hidden, torch.finfo(similarity.dtype).min).softmax(2)

    def hidden(self, mask: Bool[Tensor, "B T"], heads: int, cells: int) -> Bool[Tensor, "B _ P"]:
        """True for cells that a head does not attend to.

        These are missing frames; with `earlier_frames`, for the first half of the heads, also those before the last
        frames.
        """
        shown = mask.unsqueeze(1).repeat(1, heads, 1)
        if self.means > 1:
            shown[:, : heads // 2, : -self.num_frames] = False
        return ~shown.repeat_interleave(cells // mask.shape[1], dim=2)


def _all_shown(features: Float[Tensor, "B T F"]) -> Bool[Tensor, "B T"]:
    """The mask of walks that have every frame."""
    return torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
