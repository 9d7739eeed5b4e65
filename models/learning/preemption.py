"""Orderly stop when a cluster takes the machine back: on SIGTERM, or SIGUSR1 from Slurm's `--signal`.

Every finished epoch is in `last.ckpt`, and a resumed stage repeats the next ones to the bit
(`models.learning.callbacks.Reseed`). Nothing is saved in the middle of an epoch: the process ends at once, and the same
command resumes after the last epoch.
"""

import gc
import os
import signal

import pytorch_lightning as pl

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))
_started: list = []  # processes that Lightning's DDP has started, in any stage


def stop_on_signals() -> None:
    """Makes `SIGNALS` end this process after all clean-up, with the usual exit status, 128 + the signal's number."""
    for number in SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # a second signal must not cut off the clean-up
    for process in _started:
        process.send_signal(number)
    name = signal.Signals(number).name
    gc.freeze()  # the interpreter's last search for garbage in all that PyTorch has loaded takes a second
    os.write(2, f"stopped by {name}; the same command goes on from the last finished epoch\n".encode())
    raise SystemExit(128 + number)


class StopOnSignals(pl.Callback):
    """Calls `stop_on_signals` once Lightning has put its own handlers in place.

    Lightning's handlers wait for the other processes, for ever if one of them has gone.
    """

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        _started.extend(getattr(trainer.strategy.launcher, "procs", []))
        stop_on_signals()
