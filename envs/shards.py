"""`Shard`: a part of work that several machines share through one folder, written as 3/8: the third of eight parts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
EXPECTED = "NUMBER/PARTS as in 3/8, with NUMBER from 1 to PARTS"


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Part `number` (from 1) of `parts`; items are dealt out in turns."""

    parts: int
    number: int

    @classmethod
    def parse(cls, word: object) -> "Shard":
        """Reads `3/8`; ValueError for anything else."""
        found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", word, re.ASCII) if isinstance(word, str) else None
        if found is None or int(found[1]) > int(found[2]):
            raise ValueError(f"shard: expected {EXPECTED}, got {word!r}; the first of eight parts is 1/8")
        return cls(int(found[2]), int(found[1]))

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"

    def of(self, items: Sequence[Item]) -> list[Item]:
        """Those of the items that this shard makes."""
        return list(items[self.number - 1 :: self.parts])

    def makers(self, missing: Iterable[int]) -> set["Shard"]:
        """Shards that make the items at these places."""
        return {Shard(self.parts, place % self.parts + 1) for place in missing}


class OthersMissing(Exception):
    """Work that needs what other shards have not made yet; `shards` are these."""

    def __init__(self, shards: set[Shard]) -> None:
        super().__init__(f"missing: shards {', '.join(map(str, sorted(shards)))}")
        self.shards = shards
