"""Meanings of the words of a drawn home (`home_names.yaml`), and the report of an import."""

import functools
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import yaml


@dataclass(slots=True)
class Report:
    """The results of an import, in rows for people to read."""

    rooms: list[tuple[str, str, str]] = field(default_factory=list)  # label, type, why
    openings: list[tuple[str, str, str]] = field(default_factory=list)  # name, what it became, remark
    pieces: list[tuple[str, str, str]] = field(
        default_factory=list
    )  # name, "placed", "substituted" or "left out", remark
    notes: list[str] = field(default_factory=list)


@functools.cache
def names() -> dict:
    return yaml.safe_load((Path(__file__).parent / "home_names.yaml").read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """Lower case without accents, camelCase and signs as spaces: "eTeks#doorFrame" gives "e teks door frame"."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.\-]+", " ", text).strip()


def longest_word(text: str, words: list[str]) -> str | None:
    """The longest of the words that a word of the text begins with."""
    found = [word for word in words if f" {word}" in f" {text}"]
    return max(found, key=len, default=None)


def best_key(text: str, table: dict[str, list[str]]) -> str | None:
    """The key of the table whose word fits the text best."""
    found = {key: longest_word(text, words) for key, words in table.items()}
    return max((key for key in found if found[key]), key=lambda key: len(found[key]), default=None)
