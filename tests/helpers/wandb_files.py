"""Runs that wandb kept on disk, read back without its server: records in blocks, as LevelDB's logs have them."""

from collections.abc import Iterator
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER, START = 32768, 7, 7  # bytes; of the file's own header
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(kept: Path) -> Iterator[Record]:
    """Records of the run in a folder `offline-run-...`."""
    (path,) = kept.glob("*.wandb")
    data, at, whole = path.read_bytes(), START, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind not in (FULL, FIRST, MIDDLE, LAST):
            return
        whole += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (FULL, LAST):
            yield Record.FromString(whole)
            whole = b""
