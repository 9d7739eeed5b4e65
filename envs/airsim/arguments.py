"""Checks of arguments that a server received: each gives the value, or a ValueError that says what was expected."""

import math
from collections.abc import Sequence

VEHICLE = "drone"
LONGEST = 200  # letters of a text
SHOWN = 50  # letters of a wrong one that an answer repeats
LARGEST = 1e12  # of numbers


def flag(value: object, name: str) -> bool:
    if value is not True and value is not False:
        raise ValueError(f"{name}: expected true or false, got {shown(value)}")
    return value


def text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError(f"{name}: expected text of up to {LONGEST} letters, got {shown(value)}")
    return value


def number(value: object, name: str) -> float:
    if type(value) not in (int, float) or not abs(value) < LARGEST:
        raise ValueError(f"{name}: expected a finite number, got {shown(value)}")
    return float(value)


def seconds(value: object, name: str) -> float:
    """From 0 on; AirSim's clients send the largest number for no limit."""
    given = float(value) if type(value) in (int, float) else math.nan
    if not given >= 0:
        raise ValueError(f"{name}: expected seconds from 0 on, got {shown(value)}")
    return given


def one_of(value: object, name: str, known: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, got {shown(value)}")
    return value


def check_vehicle(name: object) -> None:
    one_of(name, "vehicle", ("", VEHICLE))


def shown(value: object) -> str:
    """The begin of a value, as an answer repeats it."""
    return repr(str(value)[:SHOWN])
