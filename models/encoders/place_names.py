"""`PlaceNames`: names that the encoder gives to places; `NameReader` finds those that a question asks for.

Pretraining of the larger encoder fits one linear layer that names the class, the colour and the room of each place of a
frame's map (`models.encoders.resnet.NamingHeads`). That layer stays with the weights. A network that reads names begins
with it, and with the words of the vocabulary that make up those names. So it knows what a "bedside table" looks like
before its first question.

Axes: B questions, L words, V words of the vocabulary, C features of a place, F of a view, K classes, O
colours, R rooms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.data.vocabulary import SPECIALS, Vocabulary, tokenize

SUREST = 4  # places of a view: the mean over all of them finds large things that are like the target


@dataclass(frozen=True)
class PlaceNames:
    """Names of classes, colours and rooms, and the linear layer from features to their logits, in this order.

    ValueError for a layer with another number of outputs.
    """

    classes: tuple[str, ...]
    colors: tuple[str, ...]
    rooms: tuple[str, ...]
    weight: Float[Tensor, "outputs C"]
    bias: Float[Tensor, " outputs"]

    def __post_init__(self) -> None:
        expected = sum(self.counts)
        if len(self.weight) != expected or self.bias.shape != (expected,):
            raise ValueError(
                f"names of places: expected {expected} outputs of the layer, got {len(self.weight)} and "
                f"{tuple(self.bias.shape)}"
            )

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of classes, colours and rooms."""
        return len(self.classes), len(self.colors), len(self.rooms)


class NameReader(nn.Module):
    """Logits of names from a place's features, and the names that a question asks for.

    `begin` gives it the encoder's layer, which stays as it is, and the vocabulary's words. Learning changes what the
    words ask for. `name_counts` are numbers of classes, colours and rooms; ValueError without them. With `asks_colors`,
    words tell colours of things as well.
    """

    def __init__(
        self, vocabulary_size: int, channels: int, name_counts: Sequence[int] | None, *, asks_colors: bool = False
    ):
        super().__init__()
        if name_counts is None:
            raise ValueError(
                "encoder: expected one that names places, got one that does not; use "
                "encoder=models/weights/residual.safetensors or one that residual_pretrain makes"
            )
        self.counts = tuple(name_counts)
        self.layer = nn.Linear(channels, sum(self.counts)).requires_grad_(False)
        self.asked_class = nn.Parameter(torch.zeros(vocabulary_size, self.counts[0]))
        self.asked_room = nn.Parameter(torch.zeros(vocabulary_size, self.counts[2]))
        self.asked_color = nn.Parameter(torch.zeros(vocabulary_size, self.counts[1])) if asks_colors else None

    @torch.no_grad()
    def begin(self, names: PlaceNames, vocabulary: Vocabulary) -> None:
        """Takes the encoder's layer, and lets the words of each name add up to it."""
        self.layer.weight.copy_(names.weight)
        self.layer.bias.copy_(names.bias)
        self.asked_class.copy_(words_of(names.classes, vocabulary))
        self.asked_room.copy_(words_of(names.rooms, vocabulary))
        if self.asked_color is not None:
            self.asked_color.copy_(words_of(names.colors, vocabulary))

    def logits(self, places: Float[Tensor, "*axes C"]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of classes (*axes, K), colours (*axes, O) and rooms (*axes, R)."""
        return self.layer(places).split(self.counts, dim=-1)

    def sureness(
        self,
        features: Float[Tensor, "B F"],
        asked_class: Float[Tensor, "B K"],
        asked_room: Float[Tensor, "B R"],
        asked_color: Float[Tensor, "B O"],
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
        """The encoder's mean probability of the thing asked for over the surest places of a view, and of the room.

        A thing that a question tells by its colour has to have that colour.
        """
        places = features.to(self.layer.weight.dtype).unflatten(1, (self.layer.in_features, -1)).transpose(1, 2)
        classes, colors, rooms = self.logits(places)
        things = torch.einsum("bpk,bk->bp", classes.softmax(2), asked_class)
        if self.asked_color is not None:
            any_color = (1 - asked_color.sum(1, keepdim=True)).clamp(min=0)
            things = things * (any_color + torch.einsum("bpo,bo->bp", colors.softmax(2), asked_color))
        sure = things.topk(min(SUREST, things.shape[1]), 1).values.mean(1)
        return sure, torch.einsum("bpr,br->bp", rooms.softmax(2), asked_room).mean(1)

    def asked(
        self, questions: Int64[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B R"], Float[Tensor, "B O"]]:
        """Weights of the classes and of the rooms that each question asks for, and of colours that tell the thing.

        Those of colours are zeros without `asks_colors`.
        """
        classes, rooms = _added_up(self.asked_class, questions), _added_up(self.asked_room, questions)
        if self.asked_color is None:
            return classes, rooms, classes.new_zeros(len(questions), self.counts[1])
        return classes, rooms, _added_up(self.asked_color, questions)


def _added_up(table: Float[Tensor, "V N"], questions: Int64[Tensor, "B L"]) -> Float[Tensor, "B N"]:
    """The rows of all words of each question, without padding and other specials."""
    return (table[questions] * (questions >= len(SPECIALS)).unsqueeze(2)).sum(1)


def words_of(names: Sequence[str], vocabulary: Vocabulary) -> Float[Tensor, "V _"]:
    """The smallest weights of words with which the words of each name add up to that name alone.

    Names with a word that the vocabulary lacks are left out: no question can ask for them.
    """
    ids = {word: i for i, word in enumerate(vocabulary.words)}
    known = [k for k, name in enumerate(names) if (words := tokenize(name)) and all(word in ids for word in words)]
    contains = torch.zeros(len(known), len(ids))
    for row, k in zip(contains, known, strict=True):
        for word in tokenize(names[k]):
            row[ids[word]] += 1
    return torch.linalg.pinv(contains) @ torch.eye(len(names))[known]
