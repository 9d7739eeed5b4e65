"""A checkpoint that tore is named and set aside, and the run goes on from the one before to the same weights."""

import errno

import pytest
import torch

from eqa.models.learning import checkpoint_files
from eqa.models.learning.checkpoint_files import CheckpointsAside, newest_checkpoint
from tests.helpers.toy_walks import Cut, configured, fit

pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.mark.parametrize("damage", ["torn", "empty", "both"])
def test_a_torn_checkpoint_is_set_aside_and_the_one_before_is_used(tmp_path, capsys, damage):
    whole = fit(configured(tmp_path / "whole", "stages.navigator.max_epochs=4"), "navigator")
    with pytest.raises(RuntimeError, match="cut"):
        fit(configured(tmp_path / "cut", "stages.navigator.max_epochs=4"), "navigator", callbacks=[Cut(3, 1)])
    folder = tmp_path / "cut" / "navigator"
    newest, reserve = folder / "last.ckpt", folder / "last_but_one.ckpt"
    newest.write_bytes(b"" if damage == "empty" else newest.read_bytes()[:-5000])
    if damage == "both":
        reserve.write_bytes(b"PK")
    capsys.readouterr()
    again = fit(configured(tmp_path / "cut", "stages.navigator.max_epochs=4"), "navigator")
    shown = capsys.readouterr().out.replace("\n", "")
    assert str(newest) in shown and ": cannot be read and is set aside" in shown
    assert (folder / "last.ckpt.damaged").exists() and (str(reserve) in shown) == (damage == "both")
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_full_disk_leaves_the_newest_checkpoint_as_it_was(tmp_path, monkeypatch):
    checkpoints, path = CheckpointsAside(), tmp_path / "last.ckpt"
    checkpoints.save_checkpoint({"state_dict": {"a": torch.zeros(2)}}, path)

    def full(content, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="last.ckpt: no space left"):
        patched.setattr(checkpoint_files.torch, "save", full)
        checkpoints.save_checkpoint({"state_dict": {"a": torch.ones(2)}}, path)
    assert newest_checkpoint(tmp_path) == path and [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]
    checkpoints.save_checkpoint({"state_dict": {"a": torch.ones(2)}}, path)
    assert torch.load(path, weights_only=True)["state_dict"]["a"].sum() == 2
    assert torch.load(tmp_path / "last_but_one.ckpt", weights_only=True)["state_dict"]["a"].sum() == 0
    assert newest_checkpoint(tmp_path / "nowhere") is None
