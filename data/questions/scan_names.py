"""`load_scan_names()`: scan_names.yaml, which says what a scan's names of things and rooms mean in ours."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from eqa.data.questions.rules import UNNAMED
from eqa.envs.house.catalog import BUILDING, CLASSES

FILE = Path(__file__).with_name("scan_names.yaml")
ROOM = "room"  # the kind of a room that nothing tells


@dataclass(frozen=True)
class ScanNames:
    """Names by those of scans, in lower case with spaces."""

    things: Mapping[str, str]
    building: frozenset[str]
    rooms: Mapping[str, str]
    furniture: Mapping[str, frozenset[str]]  # kind of room -> things that stand in no other kind
    document: Mapping  # all of it as read, to tell one file from another

    def thing(self, name: str) -> str | None:
        """Our name of a thing, UNNAMED for one that is not known, None for a part of the building."""
        plain = _plain(name)
        if plain in self.building:
            return None
        return self.things.get(plain, UNNAMED)

    def room(self, name: str, things: Collection[str]) -> str:
        """Our name of a room. One without a name has that of the things in it, given by our names, or ROOM."""
        plain = _plain(name)
        if plain and plain != ROOM:
            return self.rooms.get(plain, plain)
        return next((kind for kind, signs in self.furniture.items() if signs & set(things)), ROOM)


@cache
def load_scan_names(path: Path = FILE) -> ScanNames:
    """Reads the file; ValueError for a name that means two things, or one of ours that there is not."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    own = [name for name in CLASSES if name not in BUILDING]
    for ours in (*document["things"], *(name for names in document["furniture"].values() for name in names)):
        if ours not in own:
            raise ValueError(f"{path.name}: things: expected names of things in houses, got {ours!r}")
    return ScanNames(
        things=_turned(path, "things", document["things"]) | {name: name for name in own},
        building=frozenset(document["building"]),
        rooms=_turned(path, "rooms", document["rooms"]),
        furniture={kind: frozenset(names) for kind, names in document["furniture"].items()},
        document=document,
    )


def _turned(path: Path, part: str, theirs_of: Mapping[str, Collection[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for ours, names in theirs_of.items():
        for name in names:
            if found.setdefault(name, ours) != ours:
                raise ValueError(f"{path.name}: {part}: {name!r} is both {found[name]!r} and {ours!r}")
    return found


def _plain(name: str) -> str:
    """Lower case, with single spaces for underscores and hyphens."""
    return re.sub(r"[\s_-]+", " ", name).strip().lower()
