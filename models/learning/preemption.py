"""Stopping in an orderly way when a cluster takes the machine back: SIGTERM, or SIGUSR1 as Slurm's `--signal` sends it.

Every finished epoch is in `last.ckpt`, and what follows from it is the same to the bit (`models.learning.callbacks.Reseed`); so
nothing is saved in the middle of an epoch: the process ends at once, and the same command goes on from the last epoch.
"""

import gc
import os
import signal

import pytorch_lightning as pl

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))
_started: list = []  # processes that Lightning's DDP has started, in whichever stage it did


def stop_on_signals() -> None:
    """From now on `SIGNALS` end this process with the usual exit status, 128 + the signal's number, after all clean-up."""
    for number in SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # the clean-up is not to be cut off by a second one
    for process in _started:
        process.send_signal(number)
    name = signal.Signals(number).name
    gc.freeze()  # the interpreter's last search for garbage in all that PyTorch has loaded takes a second
    os.write(2, f"stopped by {name}; the same command goes on from the last finished epoch\n".encode())
    raise SystemExit(128 + number)


class StopOnSignals(pl.Callback):
    """Calls `stop_on_signals` once Lightning has put its own handlers in place: those wait for the other processes, and may
    wait for ever where one of them has gone."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        _started.extend(getattr(trainer.strategy.launcher, "procs", []))
        stop_on_signals()
