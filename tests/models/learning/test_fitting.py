"""Training of a stage resumes to the bit, stops early, keeps the best, and takes its switches."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import pytorch_lightning as pl
import torch

from eqa.models.learning import callbacks
from eqa.models.learning.preemption import StopOnSignals, stop_on_signals
from tests.helpers.processor import needs_bfloat16_lstm
from tests.helpers.toy_walks import Cut, configured, fit, logged

pytestmark = pytest.mark.usefixtures("single_thread")

ROOT = Path(__file__).parents[3]
STAGES = ("navigator", "answerer")
FOLDERS = ("plain", "compiled")
COMPILED = """
import sys
from tests.helpers.toy_walks import configured, fit
for stage in ("navigator", "answerer"):
    fit(configured(*sys.argv[1:], "dropout=0.0"), stage)
"""


class CutWhileSaving(pl.Callback):
    """Ends the work after the validation of an epoch, before its checkpoint."""

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.current_epoch == 2:
            raise RuntimeError("cut")


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def checkpoint(folder) -> dict:
    return torch.load(folder / "last.ckpt", weights_only=True)


@pytest.mark.parametrize("cut", [Cut(0, 1), Cut(2, 1), CutWhileSaving()], ids=["first epoch", "mid-epoch", "saving"])
@pytest.mark.parametrize("stage", ["navigator", "answerer"])
def test_a_cut_off_stage_goes_on_to_the_same_losses_and_weights(stage, cut, tmp_path):
    epochs = f"stages.{stage}.max_epochs=4"
    whole = fit(configured(tmp_path / "whole", epochs), stage)
    cfg = configured(tmp_path / "cut", epochs)
    with pytest.raises(RuntimeError, match="cut"):
        fit(cfg, stage, callbacks=[cut])
    torch.rand(7)  # whatever else a new process draws
    again = fit(cfg, stage)
    rows = logged(tmp_path / "whole" / stage)
    assert len(rows) == 8 and rows == logged(tmp_path / "cut" / stage)
    assert same(dict(whole.state_dict()), dict(again.state_dict()))
    one, other = checkpoint(tmp_path / "whole" / stage), checkpoint(tmp_path / "cut" / stage)
    assert all(same(one[key], other[key]) for key in ("state_dict", "optimizer_states", "lr_schedulers", "global_step"))


def test_dropout_is_another_in_each_step_epoch_and_seed(tmp_path):
    draws = []

    class Draw(pl.Callback):
        def on_before_zero_grad(self, trainer, module, optimizer):
            draws.append(float(torch.rand(1)))

    for seed in (0, 1):
        fit(
            configured(tmp_path / str(seed), "stages.answerer.max_epochs=2", f"seed={seed}"),
            "answerer",
            callbacks=[Draw()],
        )
    assert len(draws) == len(set(draws)) == 2 * 2 * 4


def test_patience_ends_a_stage_that_no_longer_improves_and_resuming_does_not_go_on(tmp_path):
    words = ["stages.answerer.max_epochs=30", "stages.answerer.model.lr=1e-9", "patience=2"]
    cfg = configured(tmp_path, *words)
    fit(cfg, "answerer")
    before, rows = checkpoint(tmp_path / "answerer"), logged(tmp_path / "answerer")
    assert before["epoch"] < 10
    fit(cfg, "answerer")
    assert checkpoint(tmp_path / "answerer")["epoch"] == before["epoch"]
    assert logged(tmp_path / "answerer") == rows
    fit(configured(tmp_path / "patient", *words[:2], "stages.answerer.max_epochs=12"), "answerer")
    assert checkpoint(tmp_path / "patient" / "answerer")["epoch"] == 11


def test_save_top_k_keeps_the_best_epochs_by_validation_and_gives_the_best_of_them(tmp_path):
    module = fit(configured(tmp_path, "stages.navigator.max_epochs=6", "save_top_k=3"), "navigator")
    loss = {int(row["epoch"]): float(row["val/loss"]) for row in logged(tmp_path / "navigator") if "val/loss" in row}
    ranked = sorted(loss, key=loss.get)
    assert {p.name for p in (tmp_path / "navigator").glob("best*")} == {f"best_{e:02d}.ckpt" for e in ranked[:3]}
    best = torch.load(tmp_path / "navigator" / f"best_{ranked[0]:02d}.ckpt", weights_only=True)["state_dict"]
    assert same(dict(module.state_dict()), dict(best))


@pytest.mark.parametrize(
    "switch",
    [
        pytest.param("trainer.precision=bf16-mixed", marks=needs_bfloat16_lstm),
        "trainer.gradient_clip_val=0.01",
        "logger=off",
    ],
)
@pytest.mark.parametrize("stage", ["navigator", "answerer"])
def test_a_switch_changes_how_a_stage_learns_and_not_what_its_checkpoint_holds(stage, switch, tmp_path):
    epochs = f"stages.{stage}.max_epochs=2"
    plain = fit(configured(tmp_path / "plain", epochs), stage)
    module = fit(configured(tmp_path / "switched", epochs, switch), stage)
    assert [(k, v.dtype) for k, v in module.state_dict().items()] == [
        (k, v.dtype) for k, v in plain.state_dict().items()
    ]
    assert all(torch.allclose(a, b, atol=0.05) for a, b in zip(module.parameters(), plain.parameters(), strict=True))
    if switch.startswith(("trainer.precision", "trainer.gradient")):
        assert not same(dict(module.state_dict()), dict(plain.state_dict()))


@pytest.mark.parametrize("compiler", ["eager", pytest.param("true", marks=pytest.mark.slow)])
def test_compiled_networks_learn_what_they_learn_without(compiler, tmp_path):
    alone = [sys.executable, "-c", COMPILED, str(tmp_path / "compiled"), f"compile={compiler}"]
    subprocess.run(alone, cwd=ROOT, check=True, timeout=600)  # the compiler stumbles over the checks of array shapes
    for stage in STAGES:
        plain = fit(configured(tmp_path / "plain", "dropout=0.0"), stage)
        one, other = (torch.load(tmp_path / name / stage / "last.ckpt", weights_only=True) for name in FOLDERS)
        assert one["state_dict"].keys() == other["state_dict"].keys() == plain.state_dict().keys()
        for name, value in one["state_dict"].items():
            assert torch.allclose(value, other["state_dict"][name], atol=1e-3), name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_a_stage_at_once_and_the_same_command_goes_on(number, tmp_path):
    class Preempt(pl.Callback):
        def on_train_batch_end(self, trainer, module, *rest):
            if (trainer.current_epoch, rest[-1]) == (1, 0):
                os.kill(os.getpid(), number)

    cfg = configured(tmp_path / "cut", "stages.answerer.max_epochs=3")
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        stop_on_signals()
        with pytest.raises(SystemExit) as stopped:
            fit(cfg, "answerer", callbacks=[StopOnSignals(), Preempt()])
    finally:
        for n, handler in handlers.items():
            signal.signal(n, handler)
    assert stopped.value.code == 128 + number
    assert checkpoint(tmp_path / "cut" / "answerer")["epoch"] == 0
    again = fit(cfg, "answerer")
    whole = fit(configured(tmp_path / "whole", "stages.answerer.max_epochs=3"), "answerer")
    assert same(dict(again.state_dict()), dict(whole.state_dict()))


def test_a_step_s_figures_stand_behind_those_of_validation(monkeypatch):
    notes = []

    @contextmanager
    def bar(name, total):
        yield lambda num=1, note="", total=None: notes.append((num, note))

    monkeypatch.setattr(callbacks, "progress", bar)
    figures = {
        "val/reward": torch.tensor(0.25),
        "train/loss": torch.tensor(3.0),
    }  # train's are means of the epoch before
    place = {"num_training_batches": 2, "max_epochs": 3, "current_epoch": 1}
    trainer, module = MagicMock(spec=pl.Trainer, callback_metrics=figures, **place), MagicMock(spec=pl.LightningModule)
    shown = callbacks.StageProgress("navigator")
    shown.on_train_start(trainer, module)
    shown.on_train_batch_end(trainer, module)
    module.latest = {"train/reward": 1.5}
    shown.on_train_batch_end(trainer, module)
    assert notes == [(1, "epoch 2 val/reward 0.250"), (1, "epoch 2 val/reward 0.250 train/reward 1.500")]
