"""Names of places: they stay with the weights, and the words of a question ask for the names that they make up."""

from pathlib import Path

import pytest
import torch

from eqa.data.vocabulary import Vocabulary
from eqa.envs.city.simulator import CityWorld
from eqa.envs.house.simulator import HouseWorld
from eqa.models.encoders.cnn import load_encoder, save_encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.encoders.place_names import NameReader, PlaceNames, words_of
from eqa.models.encoders.resnet import NamingHeads, ResidualEncoder

CLASSES, COLORS, ROOMS = ("floor", "table", "bedside table", "xbox"), ("red", "blue"), ("living room", "dining room")
VOCABULARY = Vocabulary.of_pairs(
    [
        ("what color is the table in the living room?", "red"),
        ("what color is the bedside table in the dining room?", "blue"),
        ("what room is the table located in?", "living room"),
    ]
)


def some_names(channels: int = 5) -> PlaceNames:
    outputs = len(CLASSES) + len(COLORS) + len(ROOMS)
    return PlaceNames(CLASSES, COLORS, ROOMS, torch.randn(outputs, channels), torch.randn(outputs))


def test_the_words_of_a_name_add_up_to_it_alone_and_names_that_nobody_can_ask_for_are_left_out():
    words = words_of(CLASSES, VOCABULARY)
    for k, name in enumerate(CLASSES[1:3], start=1):
        asked = words[VOCABULARY.encode(name)].sum(0)
        torch.testing.assert_close(asked, torch.eye(4)[k], atol=1e-5, rtol=0)
    assert not words[:, [0, 3]].any()


def test_a_reader_asks_for_class_and_room_of_a_question_whatever_its_padding():
    names, reader = some_names(), NameReader(len(VOCABULARY.words), 5, some_names().counts)
    reader.begin(names, VOCABULARY)
    questions = [
        "what color is the bedside table in the dining room?",
        "what color is the table in the living room?",
    ]
    asked_class, asked_room, asked_color = reader.asked(torch.from_numpy(VOCABULARY.encode_batch(questions)))
    assert not asked_color.any()
    torch.testing.assert_close(asked_class, torch.eye(4)[[2, 1]], atol=1e-5, rtol=0)
    torch.testing.assert_close(asked_room, torch.eye(2)[[1, 0]], atol=1e-5, rtol=0)
    assert not reader.layer.weight.requires_grad and torch.equal(reader.layer.weight, names.weight)


def test_a_view_is_sure_of_a_thing_only_where_it_has_the_color_that_the_question_tells():
    reader = NameReader(9, 8, (4, 2, 2), asks_colors=True)
    with torch.no_grad():
        reader.layer.weight.copy_(20 * torch.eye(8)), reader.layer.bias.zero_()
    views = torch.zeros(3, 8, 6)  # six places: all show class 1, in colour 0, 1 and 1
    views[:, 1], views[0, 4], views[1:, 5] = 1, 1, 1
    asked_class, asked_color = torch.eye(4)[[1, 1, 1]], torch.tensor([[0.0, 1], [0, 1], [0, 0]])
    sure, _ = reader.sureness(views.flatten(1), asked_class, torch.zeros(3, 2), asked_color)
    torch.testing.assert_close(sure, torch.tensor([0.0, 1, 1]), atol=1e-4, rtol=0)


def test_the_names_are_those_of_pretraining_s_heads_and_stay_with_the_weights(tmp_path: Path):
    encoder = ResidualEncoder(32, 32, channels=(16, 16, 16), blocks=(0, 1, 1), outputs=5).eval()
    heads = NamingHeads(5, {"class": len(CLASSES), "color": len(COLORS), "room": len(ROOMS)})
    weight, bias = (values.detach()[:-1] for values in heads.layer.parameters())
    names = PlaceNames(CLASSES, COLORS, ROOMS, weight.flatten(1), bias)
    save_encoder(encoder, tmp_path / "named.safetensors", names=names)
    save_encoder(encoder, tmp_path / "plain.safetensors")
    named, plain = (load_encoder(tmp_path / f"{name}.safetensors") for name in ("named", "plain"))
    assert named.place_names.classes == CLASSES and named.place_names.counts == (4, 2, 2)
    extractors = FeatureExtractor(named), FeatureExtractor(plain)
    assert extractors[0].identity == extractors[1].identity  # features are the same
    assert extractors[0].place_names is named.place_names and extractors[1].place_names is None
    reader = NameReader(len(VOCABULARY.words), 5, named.place_names.counts)
    reader.begin(named.place_names, VOCABULARY)
    maps = torch.randn(2, 5, 3, 4)
    expected, read = heads(maps), reader.logits(maps.permute(0, 2, 3, 1))
    for kind, logits in zip(("class", "color", "room"), read, strict=True):
        torch.testing.assert_close(logits.permute(0, 3, 1, 2), expected[kind])


def test_an_encoder_without_names_and_a_layer_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"encoder: expected one that names places.*residual\.safetensors"):
        NameReader(9, 5, None)
    with pytest.raises(ValueError, match="names of places: expected 8 outputs of the layer, got 9"):
        PlaceNames(CLASSES, COLORS, ROOMS, torch.zeros(9, 5), torch.zeros(9))


@pytest.mark.parametrize(("weights", "world"), [("residual", HouseWorld), ("city", CityWorld)])
def test_the_shipped_weights_name_the_classes_of_their_world(weights: str, world: type) -> None:
    names = FeatureExtractor.from_weights(f"models/weights/{weights}.safetensors").place_names
    assert names.classes == tuple(world.class_names) and names.rooms == tuple(world.region_names)
