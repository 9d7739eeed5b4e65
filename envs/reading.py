"""Safe reading of files that others made: none ends in a traceback or takes all memory.

`named` turns every error of a malformed file into one ValueError with the file's name. `LIMITS` bounds the bytes that
come out of a file of a kind. A packed file may hold `MOST_RATIO` times its own size, so that it cannot unpack without
end. `declared` reads JSON as the types that a dataclass declares.
"""

import gzip
import json
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints
from xml.etree import ElementTree

from shapely.errors import ShapelyError

MB = 1 << 20
LIMITS = {  # bytes that may come out of a file, or out of one line where a file is read by lines
    "house": 32 * MB,
    "home": 32 * MB,
    "questions": 512 * MB,
    "line": 16 * MB,
    "record": 16 * MB,
}
MOST_RATIO, LEAST_UNPACKED = 200, MB  # text packs 20 to 30 times
MALFORMED = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError, MemoryError,
    struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pickle.UnpicklingError, ElementTree.ParseError,
    ShapelyError,
)  # fmt: skip


@contextmanager
def named(path: Path, what: str, remedy: str = "") -> Iterator[None]:
    """Turns every error of reading a file into a ValueError with its name, the expectation and the remedy."""
    try:
        yield
    except MALFORMED as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):  # it names the file already
            raise
        told = (str(error).splitlines() or [""])[0] if not isinstance(error, KeyError) else f"without {error}"
        told = "nested too deeply" if isinstance(error, RecursionError) else told or type(error).__name__
        raise ValueError(f"{path}: {what} ({told[:400]})" + (f"; {remedy}" if remedy else "")) from None


@contextmanager
def unpacked(path: Path) -> Iterator[Any]:
    """The file's bytes, unpacked by its name's suffix; ValueError for reading beyond its limit."""
    open_ = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix)
    with path.open("rb") if open_ is None else open_(path, "rb") as file:
        yield file if open_ is None else _Limited(file, max(MOST_RATIO * path.stat().st_size, LEAST_UNPACKED))


class _Limited:
    """A packed file that gives at most `most` bytes."""

    def __init__(self, file: Any, most: int) -> None:
        self.file, self.most = file, most

    def read(self, size: int) -> bytes:
        return self._counted(self.file.read(size))

    def readline(self, size: int) -> bytes:
        return self._counted(self.file.readline(size))

    def _counted(self, content: bytes) -> bytes:
        self.most -= len(content)
        if self.most < 0:
            raise ValueError(f"expected at most {MOST_RATIO} times its size when unpacked, got more")
        return content


def read_text(path: Path, kind: str) -> str:
    """All of a file of a kind of `LIMITS`, as UTF-8."""
    parts, left = [], LIMITS[kind] + 1
    with unpacked(path) as file:
        while left > 0 and (part := file.read(min(left, MB))):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise ValueError(f"expected at most {LIMITS[kind] >> 20} MB, got more")
    return b"".join(parts).decode("utf-8-sig")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time."""
    with unpacked(path) as file:
        while line := file.readline(LIMITS["line"] + 1):
            if len(line) > LIMITS["line"]:
                raise ValueError(f"expected lines of at most {LIMITS['line'] >> 20} MB, got a longer one")
            yield line.decode()


def parsed(text: str, *, finite: bool = True) -> Any:
    """JSON; of finite numbers, unless the caller allows others."""
    return json.loads(text, parse_constant=_no_constant if finite else None)


def _no_constant(name: str) -> float:
    raise ValueError(f"expected finite numbers, got {name}")


def shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."


def declared(kind: Any, value: object, where: str = "") -> Any:
    """A JSON value as the type that a field declares; ValueError names the place of one of another type."""
    if is_dataclass(kind):
        return _entry(kind, value, where)
    if isinstance(kind, UnionType):
        return None if value is None else declared(get_args(kind)[0], value, where)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is list or origin is tuple and parts[-1] is Ellipsis:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where}: expected a list, got {shown(value)}")
        return origin(declared(parts[0], entry, f"{where}[{place}]") for place, entry in enumerate(value))
    if origin is tuple:
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise ValueError(f"{where}: expected {len(parts)} numbers, got {shown(value)}")
        return tuple(declared(part, entry, where) for part, entry in zip(parts, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where}: expected an object {{...}}, got {shown(value)}")
        return {key: declared(parts[1], entry, f"{where}.{key}") for key, entry in value.items()}
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"{where}: expected a finite number, got {shown(value)}")
        return float(value)
    if type(value) is not kind:
        names = {str: "a text", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{where}: expected {names[kind]}, got {shown(value)}")
    return value


def _entry(kind: type, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{where}: expected an object {{...}}, got {shown(value)}")
    kinds, needed = _keys(kind)
    unknown, missing = sorted(set(value) - set(kinds)), sorted(needed - set(value))
    if unknown or missing:
        what = f"no key {unknown[0]!r}" if unknown else f"the key {missing[0]!r}"
        raise ValueError(f"{where or kind.__name__.lower()}: expected {what}; keys are {', '.join(kinds)}")
    return kind(**{key: declared(kinds[key], part, f"{where}.{key}".lstrip(".")) for key, part in value.items()})


@cache
def _keys(kind: type) -> tuple[dict[str, Any], set[str]]:
    """Types by key, and the keys that must be there."""
    needed = {entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING}
    return {entry.name: get_type_hints(kind)[entry.name] for entry in fields(kind)}, needed
