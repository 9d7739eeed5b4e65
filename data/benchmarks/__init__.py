"""Question sets in other projects' formats, one module each: entries of a file to Episodes and back.

Each module has `to_entry` and `from_entry` for one question, a reader that gives split -> Episodes, and a writer that
takes any iterable of Episodes and never holds more than one. The fields are in docs/question-formats.md.
"""

import reprlib
from collections.abc import Collection
from dataclasses import fields

from eqa.envs.episode import Episode


def as_question(text: str) -> str:
    """A question as Episodes spell it: lower case, one question mark at the end."""
    return text.strip().lower().rstrip("? ") + "?"


def lost(before: Episode, after: Episode) -> list[str]:
    """The fields of an episode that a format gave back changed, or not at all."""
    return [field.name for field in fields(Episode) if getattr(before, field.name) != getattr(after, field.name)]


def expect(holds: bool, expected: str, got: object, *, where: str) -> None:
    """ValueError naming all three, unless it `holds`."""
    if not holds:
        raise ValueError(f"{where}: expected {expected}, got {reprlib.repr(got)}")


def need(entry: object, keys: Collection[str], *, where: str) -> dict:
    """The entry as a dictionary; ValueError where it is none or lacks a key."""
    expect(isinstance(entry, dict), "an object", entry, where=where)
    for key in keys:
        expect(key in entry, f"the key {key!r}", sorted(entry), where=where)
    return entry
