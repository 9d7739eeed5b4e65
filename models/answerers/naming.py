"""`NamingAnswerer`: reads the answer off the names that the encoder gives to places.

The encoder was trained to name the class, colour and room of each place. The question says which class and room to look
for, and in cities which colour: "a shop with a red sign". Attention over the places of all frames follows how sure the
encoder is of these names. The names that the attended places have are the answer: a colour, a room or a thing. It
begins with the encoder's own names, so it answers before it has learned; learning adjusts what each word looks for, how
sharply, in which frames, and what each name says.

Axes: B questions, T frames, H rows and W columns of a map, F features, L words, A answers, P places of all frames,
C features of a place, N names.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from eqa.data.vocabulary import Vocabulary
from eqa.models.encoders.features import checked_map_shape
from eqa.models.encoders.place_names import NameReader, PlaceNames
from eqa.models.registry import register

LEAST = 1e-4  # a name's probability is no less, so that one place cannot rule it out


@register
class NamingAnswerer(nn.Module):
    """Attends over the places of the last `num_frames` frames and of the `earlier_frames` before the last.

    `map_shape` is channels, rows and columns of the map, `name_counts` the numbers of the encoder's classes, colours
    and rooms. `asks_colors` is for questions that tell a thing by its colour. The interface is that of `Answerer`.
    ValueError for an encoder without names and for features of another shape.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_answers: int,
        feature_size: int,
        *,
        map_shape: Sequence[int],
        name_counts: Sequence[int] | None,
        asks_colors: bool = False,
        num_frames: int | None = 5,
        earlier_frames: Sequence[int] = (),
    ):
        super().__init__()
        self.map_shape = checked_map_shape(map_shape, feature_size)
        self.channels = self.map_shape[0]
        self.num_frames, self.earlier_frames = num_frames, tuple(earlier_frames)
        self.names = NameReader(vocabulary_size, self.channels, name_counts, asks_colors=asks_colors)
        sharpness = [1.0, 0.5, 1.0] if asks_colors else [1.0, 0.5]  # of the class asked for, the room, the colour
        self.sharpness = nn.Parameter(torch.tensor(sharpness))
        frames = len({*range(num_frames or 0), *earlier_frames})
        self.when = nn.Parameter(torch.zeros(frames)) if num_frames else None
        self.trust = nn.Parameter(torch.ones(3))  # in classes, colours and rooms
        self.said = nn.Linear(sum(self.names.counts), num_answers)

    @torch.no_grad()
    def begin(self, names: PlaceNames, vocabulary: Vocabulary) -> None:
        """Takes the encoder's names; each speaks for the answer that is called so, and for no other."""
        self.names.begin(names, vocabulary)
        spoken = [*names.classes, *names.colors, *names.rooms]
        self.said.weight.copy_(torch.tensor([[name == answer for name in spoken] for answer in vocabulary.answers]))
        self.said.bias.zero_()

    @torch.no_grad()
    def scale_scores(self, weight: float | Tensor) -> None:
        """Multiplies all logits."""
        self.said.weight.mul_(weight), self.said.bias.mul_(weight)

    def forward(
        self,
        features: Float[Tensor, "B T F"],
        questions: Int64[Tensor, "B L"],
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B A"]:
        """Logits. `mask` is False where a walk has no frame; each row needs at least one frame."""
        attention, shown, classes, colors, rooms = self._look(features, questions, mask)
        there = [(attention.unsqueeze(1) @ names.exp()).squeeze(1) for names in (classes, colors, rooms)]
        everywhere = (rooms.exp() * shown.unsqueeze(2)).sum(1) / shown.sum(1, keepdim=True)
        there[2] = (there[2] + everywhere) / 2  # the whole view tells the kind of room
        named = [trust * (LEAST + names).log() for trust, names in zip(self.trust, there, strict=True)]
        return self.said(torch.cat(named, 1))

    def attended(
        self, features: Float[Tensor, "B T F"], questions: Int64[Tensor, "B L"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T H W"]:
        """The share of attention that each place of the maps gets; each question's sum to 1."""
        return self._look(features, questions, mask)[0].unflatten(1, (-1, *self.map_shape[1:]))

    def _look(
        self, features: Float[Tensor, "B T F"], questions: Int64[Tensor, "B L"], mask: Bool[Tensor, "B T"] | None
    ) -> tuple[Tensor, ...]:
        """Attention (B, P), places that there are (B, P), and log probabilities of names, (B, P, N) of each kind."""
        places = features.to(self.said.weight.dtype).unflatten(2, (self.channels, -1)).transpose(2, 3).flatten(1, 2)
        classes, colors, rooms = (logits.log_softmax(2) for logits in self.names.logits(places))
        asked_class, asked_room, asked_color = self.names.asked(questions)
        fits = self.sharpness[0] * torch.einsum("bpk,bk->bp", classes, asked_class)
        fits = fits + self.sharpness[1] * torch.einsum("bpr,br->bp", rooms, asked_room)
        if self.names.asked_color is not None:
            fits = fits + self.sharpness[2] * torch.einsum("bpo,bo->bp", colors, asked_color)
        each = places.shape[1] // features.shape[1]
        if self.when is not None:
            fits = fits + self.when.repeat_interleave(each)
        shown = torch.ones_like(fits, dtype=torch.bool) if mask is None else mask.repeat_interleave(each, dim=1)
        attention = fits.masked_fill(~shown, torch.finfo(fits.dtype).min).softmax(1)
        return attention, shown, classes, colors, rooms
