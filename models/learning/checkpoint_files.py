"""Checkpoint files of a stage: complete or absent, with the one before in reserve."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_only

from eqa.envs.files import atomic_write
from eqa.envs.progress import console
from eqa.envs.reading import named

NEWEST, RESERVE = "last.ckpt", "last_but_one.ckpt"


class CheckpointsAside(TorchCheckpointIO):
    """Writes each checkpoint beside its place, on the same disk, and renames it; the one before stays as reserve.

    Lightning goes through the temporary folder. From another file system that move is a copy, which can end halfway.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        path = Path(path)
        with atomic_write(path) as aside:
            with aside.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            if path.name == NEWEST and path.exists():
                os.replace(path, path.with_name(RESERVE))


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that can be read, to resume a stage from. An unreadable one is named and set aside."""
    for path in (folder / NEWEST, folder / RESERVE):
        if not path.exists():
            continue
        try:
            with named(path, "cannot be read and is set aside", "the one before it is used"):
                torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
        except ValueError as error:
            console.print(f"[yellow]{error}", soft_wrap=True)
            if rank_zero_only.rank == 0:
                path.replace(path.with_name(f"{path.name}.damaged"))
        else:
            return path
    return None
