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
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints
from xml.etree import ElementTree

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
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
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
EXPECTED = {  # by pydantic's kinds of errors
    "dataclass_type": "an object {...}",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object {...}",
    "mapping_type": "an object {...}",
}
UNKNOWN = "unexpected_keyword_argument"
KEYS = {"missing": "the", UNKNOWN: "no"}


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


def declared(kind: type, value: object) -> Any:
    """A JSON value as a dataclass, with the types that its fields declare; ValueError names the first other one."""
    try:
        return _validator(kind).validate_json(json.dumps(value))
    except ValidationError as error:
        # A misspelt key is missing, too.
        first = min(error.errors(include_url=False), key=lambda one: one["type"] != UNKNOWN)
        raise ValueError(_told(kind, first)) from None


@cache
def _validator(kind: type) -> TypeAdapter:
    for one in _dataclasses(kind):
        with_config(STRICT)(one)
    return TypeAdapter(kind)


def _dataclasses(kind: Any) -> Iterator[type]:
    """The dataclasses in a type, itself included."""
    for part in get_type_hints(kind).values() if is_dataclass(kind) else get_args(kind):
        yield from _dataclasses(part)
    if is_dataclass(kind):
        yield kind


def _told(kind: type, error: Mapping) -> str:
    """One of pydantic's errors in words: its place, what was expected and what came."""
    what, steps, got = error["type"], list(error["loc"]), f", got {shown(error['input'])}"
    if what == "missing" and isinstance(steps[-1], int):
        expected = f"at least {steps.pop() + 1} numbers{got}"
    elif what in KEYS:
        expected = f"{KEYS[what]} key {steps.pop()!r}"
    elif what == "too_long":
        expected = f"{error['ctx']['max_length']} numbers{got}"
    else:
        expected = EXPECTED.get(what, error["msg"]) + got
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    return f"{where or kind.__name__.lower()}: expected {expected}"
