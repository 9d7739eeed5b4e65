"""Two processes learn what one learns: losses, accuracies and weights agree, whatever part of a batch each has."""

import numpy as np
import pytest
import torch

from eqa.data.batches.curriculum import length_batches
from eqa.data.batches.sampling import num_decisions, own_parts, walk_sizes
from eqa.models.navigators.pacman_targets import hierarchical_targets
from tests.helpers.toy_walks import ToySource, configured, fit, logged

pytestmark = pytest.mark.usefixtures("single_thread")  # processes are forked, and threads do not survive that

TWO = ["trainer.devices=2", "trainer.strategy=ddp_fork"]


@pytest.mark.parametrize("stage", ["navigator", "answerer"])
def test_two_processes_learn_what_one_learns_from_the_same_batches(stage, tmp_path):
    epochs = f"stages.{stage}.max_epochs=3"
    one = fit(configured(tmp_path / "one", epochs, "dropout=0.0"), stage)
    two = fit(configured(tmp_path / "two", epochs, *TWO, "dropout=0.0"), stage)
    rows, others = logged(tmp_path / "one" / stage), logged(tmp_path / "two" / stage)
    assert len(rows) == len(others) == 6
    for row, other in zip(rows, others, strict=True):
        assert row.keys() == other.keys()
        assert [*map(float, row.values())] == pytest.approx([*map(float, other.values())], abs=2e-5)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-5)


def test_processes_share_out_every_batch_and_one_without_items_counts_nothing():
    batches = [np.arange(5), np.array([9])]
    parts = [own_parts(batches, rank, 2) for rank in range(2)]
    assert parts == [[[0, 2, 4], [9]], [[1, 3], []]]


def test_a_walk_s_decisions_are_counted_as_the_planner_makes_them():
    walks = ToySource(num_train=40).demonstrations("train")
    counted = num_decisions(walks.actions, walks.offsets)
    for i, count in enumerate(counted):
        actions = torch.from_numpy(walks.actions[walks.rows(i)].astype(np.int64))
        assert hierarchical_targets(actions[None]).queries.sum() == count


def test_less_than_a_tenth_of_a_batch_is_padding_in_frames_and_in_decisions():
    rng = np.random.default_rng(0)
    lengths = np.minimum(10 + rng.gamma(6, 14, 1600).astype(int), 100)
    ends = np.cumsum([0, *lengths])
    changes = rng.random(ends[-1]) < np.repeat(rng.beta(24, 64, 1600), lengths)  # some walks turn more than others
    actions = np.cumsum(changes) % 3
    sizes = walk_sizes(actions, ends)
    batches = length_batches(sizes, 20, rng=np.random.default_rng(1))
    for what in (lengths, num_decisions(actions, ends)):
        padded = sum(what[batch].max() * len(batch) for batch in batches)
        assert 1 - what.sum() / padded < 0.1
    assert sorted(np.concatenate(batches)) == list(range(1600))
