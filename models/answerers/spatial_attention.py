"""`PlacesAnswerer`: an answerer that looks at places of frames where `models.answerers.frame_attention.Answerer` looks at whole frames.

A question asks about a thing somewhere in view. Attention over every place of the last frames' maps (Xu et al. 2015;
multi-head as in Vaswani et al. 2017) finds it, and its features answer; the mean over all places says what the room is.

Axes: B questions, T frames, F features, L words, A answers, P places of all frames, C features of a place, G glimpses.
"""

from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.models.answerers.frame_attention import classifier
from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.registry import rebuildable


@rebuildable
class PlacesAnswerer(nn.Module):
    """Looks with `glimpses` heads at the places of the last `num_frames` frames, with None of all of history and walk, and of those
    that are `also_back` actions before the last. What is asked about is in the last frames and its room shows in more: so
    with `also_back` half of the glimpses look at the last frames alone, and the mean is taken over these and over all; a
    question also says which of the frames matter. With None nothing tells frames apart.

    `map_shape` is channels, rows and columns of the map that a frame's features are the flat form of. Same interface as
    `Answerer`. ValueError where features do not have that shape.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        feature_size: int,
        *,
        map_shape: Sequence[int],
        num_frames: int | None = 5,
        also_back: Sequence[int] = (),
        glimpses: int = 4,
        hidden_size: int = 128,
        classifier_hidden: int = 128,
        question_dropout: float = 0.0,
        dropout: float = 0.3,
    ):
        super().__init__()
        if len(map_shape) != 3 or prod(map_shape) != feature_size:
            raise ValueError(
                f"map_shape: expected channels, rows and columns of {feature_size} features, got {list(map_shape)}"
            )
        self.map_shape, self.glimpses = tuple(map_shape), glimpses
        self.num_frames, self.also_back = num_frames, tuple(also_back)
        channels = map_shape[0]
        self.question = QuestionEncoder(vocabulary_size, hidden_size=hidden_size, dropout=question_dropout)
        self.norm = nn.BatchNorm1d(channels)
        self.query = nn.Linear(hidden_size, glimpses * channels)
        frames = len({*range(num_frames or 0), *also_back})
        self.when = nn.Linear(hidden_size, glimpses * frames) if num_frames else None
        self.value = nn.Sequential(nn.Linear(channels, hidden_size), nn.ReLU())
        self.means = 2 if num_frames and also_back else 1
        looks = glimpses + self.means + 1  # and the question
        self.classifier = classifier(looks * hidden_size, classifier_hidden, num_answers, dropout)

    def forward(
        self,
        features: Float[Tensor, "B T F"],
        questions: Int64[Tensor, "B L"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B A"]:
        """Logits. `mask` is False where a walk has no frame; each row needs at least one frame."""
        places, question = self.places(features), self.question(questions)
        if mask is None:
            mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        hidden = self.hidden(mask, self.means, places.shape[2])
        everywhere = torch.where(hidden, 0.0, 1.0 / (~hidden).sum(2, keepdim=True)).to(places.dtype)
        weights = torch.cat([self.weights(places, question, mask), everywhere], 1)
        # A linear normalisation of what is looked at is that of each place, for weights sum to 1.
        looked = self.norm(torch.einsum("bgp,bcp->bgc", weights, places).flatten(0, 1)).unflatten(0, weights.shape[:2])
        return self.classifier(torch.cat([self.value(looked).flatten(1), question], 1))

    def places(self, features: Float[Tensor, "B T F"]) -> Float[Tensor, "B C P"]:
        """The places of all frames, frame by frame."""
        maps = features.unflatten(2, (self.map_shape[0], -1)).to(self.query.weight.dtype)
        return maps.transpose(1, 2).flatten(2)

    def weights(
        self, places: Float[Tensor, "B C P"], question: Float[Tensor, "B D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B G P"]:
        """How much each glimpse looks at each place; rows sum to 1."""
        query = self.query(question).unflatten(1, (self.glimpses, -1))
        similarity = torch.einsum("bgc,bcp->bgp", query, places) * places.shape[1] ** -0.5
        each = places.shape[2] // mask.shape[1]
        if self.when is not None:
            when = self.when(question).unflatten(1, (self.glimpses, -1))
            similarity = similarity + when.repeat_interleave(each, dim=2)
        hidden = self.hidden(mask, self.glimpses, places.shape[2])
        return similarity.masked_fill(hidden, torch.finfo(similarity.dtype).min).softmax(2)

    def hidden(self, mask: Bool[Tensor, "B T"], looks: int, places: int) -> Bool[Tensor, "B _ P"]:
        """Where each of some looks does not look: at what is not there, and the first half of them, with `also_back`, at what
        lies before the last frames."""
        shown = mask.unsqueeze(1).repeat(1, looks, 1)
        if self.means > 1:
            shown[:, : looks // 2, : -self.num_frames] = False
        return ~shown.repeat_interleave(places // mask.shape[1], dim=2)
