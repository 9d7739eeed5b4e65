"""The answerer that reads names: against a slow one, before and after learning, and what does not reach its answer."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from eqa.data.vocabulary import Vocabulary
from eqa.models.answerers.naming import LEAST, NamingAnswerer
from eqa.models.encoders.place_names import PlaceNames
from eqa.models.learning.imitation import AnswererImitation
from eqa.models.registry import describe, rebuild

pytestmark = pytest.mark.usefixtures("single_thread")
CLASSES, COLORS, ROOMS = ("wall", "sofa", "bed"), ("red", "blue", "white"), ("kitchen", "bedroom")
VOCABULARY = Vocabulary.of_pairs(
    [
        ("what color is the sofa?", "red"),
        ("what color is the sofa in the bedroom?", "blue"),
        ("what color is the bed in the kitchen?", "white"),
        ("what room is the sofa located in?", "kitchen"),
        ("what room is the bed located in?", "bedroom"),
        ("what is next to the bed in the bedroom?", "sofa"),
    ]
)
NAMES = PlaceNames(CLASSES, COLORS, ROOMS, torch.eye(8), torch.zeros(8))  # features are the logits
MAP, SIZE = (8, 2, 3), 48


def made(**options: object) -> NamingAnswerer:
    sizes = {"map_shape": MAP, "name_counts": NAMES.counts, **options}
    answerer = NamingAnswerer(len(VOCABULARY.words), len(VOCABULARY.answers), SIZE, **sizes)
    answerer.begin(NAMES, VOCABULARY)
    return answerer.eval()


def questions(*texts: str) -> torch.Tensor:
    return torch.from_numpy(VOCABULARY.encode_batch(texts))


def view(*things: tuple[str, str, str]) -> torch.Tensor:
    """Five frames that show white walls of no room; the last has things with their colours and rooms in some places."""
    maps = torch.zeros(5, *MAP)
    maps[:, 0], maps[:, 5] = 9.0, 9.0
    for place, (thing, color, room) in enumerate(things):
        maps[-1, :, place // 3, place % 3] = 0.0
        for name, names, first in ((thing, CLASSES, 0), (color, COLORS, 3), (room, ROOMS, 6)):
            maps[-1, first + names.index(name), place // 3, place % 3] = 9.0
    return maps.flatten(1)


def test_a_question_that_tells_a_thing_by_its_colour_is_answered_from_that_one():
    vocabulary = Vocabulary.of_pairs(
        [("what room is the red sofa in?", "kitchen"), ("what room is the blue sofa in?", "bedroom")]
    )
    answerer = NamingAnswerer(len(vocabulary.words), 2, SIZE, map_shape=MAP, name_counts=NAMES.counts, asks_colors=True)
    answerer.begin(NAMES, vocabulary)
    features = view(("sofa", "blue", "kitchen"), ("sofa", "red", "bedroom"), ("bed", "red", "kitchen"))
    asked = torch.from_numpy(
        vocabulary.encode_batch(["what room is the red sofa in?", "what room is the blue sofa in?"])
    )
    attended = answerer.attended(features.expand(2, -1, -1), asked)[:, -1].flatten(1)
    assert attended.argmax(1).tolist() == [1, 0] and (attended.max(1).values > 0.9).all()
    with torch.no_grad():
        answerer.names.asked_color.fill_(3.0)  # of padding, too, which must not count
    longer = torch.nn.functional.pad(asked, (0, 4))
    frames = features.expand(2, -1, -1)
    torch.testing.assert_close(answerer.attended(frames, longer), answerer.attended(frames, asked))
    without = NamingAnswerer(len(vocabulary.words), 2, SIZE, map_shape=MAP, name_counts=NAMES.counts)
    without.begin(NAMES, vocabulary)
    assert torch.equal(*without.attended(features.expand(2, -1, -1), asked))


def test_it_answers_from_names_before_it_has_learned():
    features = view(("sofa", "blue", "kitchen"), ("bed", "red", "bedroom"), ("sofa", "red", "bedroom"))
    asked = questions(
        "what color is the bed in the bedroom?",
        "what color is the sofa in the bedroom?",
        "what room is the bed located in?",
    )
    said = made()(features.expand(3, -1, -1), asked) + torch.from_numpy(
        VOCABULARY.log_prior(["what color is the bed?", "what color is the bed?", "what room is the bed located in?"])
    )
    assert [VOCABULARY.answers[i] for i in said.argmax(1)] == ["red", "red", "bedroom"]


def test_it_equals_a_slow_one_that_goes_through_the_places():
    torch.manual_seed(1)
    answerer = made(num_frames=2, earlier_frames=[5])
    for parameter in (answerer.sharpness, answerer.when, answerer.trust, answerer.said.bias):
        torch.nn.init.normal_(parameter)
    features, asked = (
        torch.randn(2, 3, SIZE),
        questions("what color is the bed in the kitchen?", "what color is the sofa?"),
    )
    mask = torch.tensor([[True, True, True], [False, True, True]])
    found, attended = answerer(features, asked, mask), answerer.attended(features, asked, mask)
    for row in range(2):
        fits, named, rooms = [], [], []
        want_class, want_room, _ = (table[row].tolist() for table in answerer.names.asked(asked))
        for frame in range(3):
            if not mask[row, frame]:
                continue
            for place in range(6):
                logits = features[row, frame].view(8, 6)[:, place]
                parts = [logits[:3].softmax(0), logits[3:6].softmax(0), logits[6:8].softmax(0)]
                sure = sum(w * math.log(p) for w, p in zip(want_class, parts[0].tolist(), strict=True))
                here = sum(w * math.log(p) for w, p in zip(want_room, parts[2].tolist(), strict=True))
                sharp = answerer.sharpness.tolist()
                fits.append(sharp[0] * sure + sharp[1] * here + float(answerer.when[frame]))
                named.append(torch.cat(parts)), rooms.append(parts[2])
        attention = torch.tensor(fits).softmax(0)
        torch.testing.assert_close(attended[row][mask[row]], attention.view(-1, *MAP[1:]))
        there = sum(a * names for a, names in zip(attention, named, strict=True))
        there[6:] = (there[6:] + torch.stack(rooms).mean(0)) / 2
        trust = answerer.trust.repeat_interleave(torch.tensor(NAMES.counts))
        torch.testing.assert_close(found[row], answerer.said(trust * (LEAST + there).log()))


def test_frames_that_are_not_there_do_not_reach_the_answer():
    answerer, asked = made(), questions("what color is the sofa?", "what color is the bed?")
    features, mask = torch.randn(2, 5, SIZE), torch.tensor([[False, True, True, True, True], [True] * 5])
    changed = features.clone()
    changed[0, 0] = 50.0
    torch.testing.assert_close(answerer(changed, asked, mask), answerer(features, asked, mask))
    assert not torch.allclose(answerer(changed, asked), answerer(features, asked))


def test_it_learns_a_word_that_no_name_has():
    """A "couch" is a sofa: only questions tell."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.of_pairs([("what color is the couch?", answer) for answer in COLORS])
    answerer = NamingAnswerer(len(vocabulary.words), 3, SIZE, map_shape=MAP, name_counts=NAMES.counts)
    answerer.begin(NAMES, vocabulary)
    asked = torch.from_numpy(vocabulary.encode_batch(["what color is the couch?"] * 9))
    pairs = [(sofa, bed) for sofa in COLORS for bed in COLORS]
    features = torch.stack([view(("sofa", sofa, "kitchen"), ("bed", bed, "kitchen")) for sofa, bed in pairs])
    answers = torch.tensor([vocabulary.answer_id(sofa) for sofa, _ in pairs])
    optimizer = torch.optim.AdamW(answerer.parameters(), lr=0.03)
    assert (answerer(features, asked).argmax(1) == answers).float().mean() < 0.9
    for _ in range(100):
        loss = torch.nn.functional.cross_entropy(answerer(features, asked), answers)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    assert (answerer(features, asked).argmax(1) == answers).all()


class Frames(pl.LightningDataModule):
    """One batch of views, with what a stage needs of a source."""

    source = SimpleNamespace(encode=SimpleNamespace(place_names=NAMES), vocabulary=VOCABULARY)

    def train_dataloader(self) -> DataLoader:
        asked = ["what color is the sofa?", "what color is the bed in the kitchen?"]
        batch = {
            "features": torch.randn(2, 5, SIZE, generator=torch.Generator().manual_seed(0)),
            "questions": torch.from_numpy(VOCABULARY.encode_batch(asked)),
            "answers": torch.tensor([VOCABULARY.answer_id("red"), VOCABULARY.answer_id("white")]),
            "prior": torch.from_numpy(VOCABULARY.log_prior(asked)),
        }
        return DataLoader([batch], batch_size=None)

    val_dataloader = train_dataloader


def test_a_stage_begins_with_the_encoder_s_names_and_a_resumed_one_with_what_it_had_learned(tmp_path: Path):
    def fitted(epochs: int, checkpoint: Path | None = None) -> AnswererImitation:
        sizes = {"map_shape": list(MAP), "name_counts": list(NAMES.counts), "answerer": "NamingAnswerer", "lr": 0.1}
        module = AnswererImitation(len(VOCABULARY.words), len(VOCABULARY.answers), SIZE, **sizes)
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = pl.Trainer(accelerator="cpu", max_epochs=epochs, default_root_dir=tmp_path, **quiet)
        trainer.fit(module, datamodule=Frames(), ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module

    begun, learned = fitted(0), fitted(2)
    assert torch.equal(begun.answerer.said.weight, made().said.weight)
    assert not torch.allclose(learned.answerer.said.weight, begun.answerer.said.weight)
    resumed = fitted(2, tmp_path / "2.ckpt")
    assert torch.equal(resumed.answerer.said.weight, learned.answerer.said.weight)


def test_scaling_multiplies_the_logits_and_a_description_makes_it_again():
    answerer, asked, features = made(earlier_frames=[9]), questions("what color is the sofa?"), torch.randn(1, 6, SIZE)
    before = answerer(features, asked)
    torch.testing.assert_close(rebuild(describe(answerer))(features, asked), before)
    answerer.scale_scores(0.25)
    torch.testing.assert_close(answerer(features, asked), before / 4)
    with pytest.raises(ValueError, match=r"map_shape: expected .* of 48 features, got \(4, 2, 2\)"):
        made(map_shape=(4, 2, 2))
