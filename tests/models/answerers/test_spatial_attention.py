"""The answerer with spatial attention: what reaches its answer, and that it finds the cell that a question means."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from eqa.models.answerers.spatial_attention import SpatialAttentionAnswerer
from eqa.models.learning.imitation import AnswererImitation
from eqa.models.registry import describe, rebuild

pytestmark = pytest.mark.usefixtures("single_thread")
MAP = (4, 2, 3)
SIZE = 24


def test_map_cells_are_those_of_the_maps_frame_by_frame() -> None:
    answerer = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP)
    maps = torch.randn(2, 5, *MAP)
    places = answerer.map_cells(maps.flatten(2))
    assert places.shape == (2, 4, 30)
    assert torch.equal(places[1, :, 2 * 6 + 4], maps[1, 2, :, 1, 1])
    with pytest.raises(ValueError, match=r"map_shape: expected .* of 24 features, got \(4, 2, 2\)"):
        SpatialAttentionAnswerer(9, 3, SIZE, map_shape=(4, 2, 2))


def test_frames_that_are_not_there_do_not_reach_the_answer() -> None:
    answerer = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP).eval()
    questions, features = torch.tensor([[4, 5], [6, 0]]), torch.randn(2, 5, SIZE)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    changed = features.clone()
    changed[0, 3:] = 50.0
    torch.testing.assert_close(answerer(changed, questions, mask), answerer(features, questions, mask))
    whole = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP, num_frames=None).eval()
    alone = whole(features[:1, :3], questions[:1])
    torch.testing.assert_close(whole(features, questions, mask)[:1], alone)
    assert not torch.allclose(answerer(changed, questions), answerer(features, questions))


def test_a_glimpse_looks_at_the_place_that_resembles_its_query() -> None:
    answerer = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP, num_heads=1, hidden_size=4, num_frames=2).eval()
    torch.nn.init.eye_(answerer.query.weight)
    for zero in (answerer.query.bias, answerer.when.weight, answerer.when.bias):
        torch.nn.init.zeros_(zero)
    places = torch.zeros(1, 4, 12)
    places[0, 2, 7] = 8.0
    weights = answerer.weights(places, torch.tensor([[0.0, 0.0, 3.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool))
    expected = torch.zeros(1, 1, 12).index_fill(2, torch.tensor([7]), 3 * 8 / 2).softmax(2)
    torch.testing.assert_close(weights, expected)


def test_the_attention_of_a_map_is_the_mean_over_heads() -> None:
    answerer = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP).eval()
    questions, features = torch.tensor([[4, 5], [6, 0]]), torch.randn(2, 5, SIZE)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    shares = answerer.attended(features, questions, mask)
    assert shares.shape == (2, 5, 2, 3) and (shares[0, 3:] == 0).all()
    torch.testing.assert_close(shares.sum((1, 2, 3)), torch.ones(2))
    heads = answerer.weights(answerer.map_cells(features), answerer.question(questions), mask)
    torch.testing.assert_close(shares[1, 2, 1, 1], heads[1, :, 2 * 6 + 4].mean())


def test_a_question_can_ask_for_some_of_the_frames_and_half_of_the_glimpses_see_the_last_ones_only() -> None:
    frames = {"num_frames": 2, "earlier_frames": (7, 30), "num_heads": 2}
    answerer = SpatialAttentionAnswerer(9, 3, SIZE, map_shape=MAP, hidden_size=4, **frames).eval()
    torch.nn.init.zeros_(answerer.when.weight)
    answerer.when.bias.data = torch.tensor([90.0, 0.0, 0.0, 50.0, 90.0, 0.0, 0.0, 50.0])
    weights = answerer.weights(torch.zeros(1, 4, 24), torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
    of_frames = weights.unflatten(2, (4, 6)).sum(3)
    torch.testing.assert_close(of_frames, torch.tensor([[[0.0, 0, 0, 1], [1, 0, 0, 0]]]))


def pointing_batches(num: int, seed: int) -> DataLoader:
    """Somewhere is what the question names, marked by one of the first two channels; the last two say the answer."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(num):
        maps = torch.zeros(32, 3, 4, 6)
        asked, answers = (torch.randint(2, (32,), generator=generator) for _ in range(2))
        where = torch.stack([torch.randperm(18, generator=generator)[:2] for _ in range(32)])
        for row in range(32):
            for thing in range(2):
                frame, place = divmod(int(where[row, thing]), 6)
                says = answers[row] if thing == asked[row] else 1 - answers[row]
                maps[row, frame, thing, place] = maps[row, frame, 2 + says, place] = 2.0
        batch = {"features": maps.flatten(2).half(), "questions": 4 + asked.unsqueeze(1), "answers": answers}
        batches.append({**batch, "prior": torch.zeros(32, 2)})
    return DataLoader(batches, batch_size=None)


def test_it_learns_to_look_at_the_place_that_the_question_means(tmp_path: Path) -> None:
    pl.seed_everything(0, verbose=False)
    words = {"answerer": "SpatialAttentionAnswerer", "optimizer": "adamw", "schedule": "cosine"}
    options = {"hidden_size": 16, "dropout": 0.0, "num_heads": 1, "num_frames": 3}
    module = AnswererImitation(10, 2, SIZE, list(MAP), lr=1e-2, **words, options=options)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(default_root_dir=tmp_path, enable_checkpointing=False, max_epochs=8, **quiet)
    trainer.fit(module, pointing_batches(20, seed=1), pointing_batches(4, seed=2))
    assert trainer.callback_metrics["val/accuracy"] > 0.95
    again = rebuild(describe(module.answerer))
    batch = next(iter(pointing_batches(1, seed=3)))
    expected = module.answerer.eval()(batch["features"], batch["questions"])
    torch.testing.assert_close(again(batch["features"], batch["questions"]), expected)


def test_an_unknown_answerer_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ValueError, match=r"answerer: expected one of .*'SpatialAttentionAnswerer'.*got 'Seer'"):
        AnswererImitation(10, 3, SIZE, answerer="Seer")
