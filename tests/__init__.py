"""The run-time type checker of the test suite: array shapes and types as annotated, and an int where a float will do.

jaxtyping wraps every function, so that the arrays that it takes and gives share their axes' sizes. The wrapper costs some
50 microseconds a call, most of what it takes to furnish a house, so it is kept from functions that take and give no
array: for these beartype alone checks the same in one or two. Generators keep it too, as beartype refuses some of their
annotations.
"""

import inspect
from collections.abc import Callable
from typing import get_args

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_jaxtyped = jaxtyping.jaxtyped


def _jaxtyped_for_arrays(*, typechecker: Callable) -> Callable:
    """What jaxtyping's import hook decorates functions and classes with."""

    def decorate(thing: Callable) -> Callable:
        plain = inspect.isfunction(thing) and not inspect.isgeneratorfunction(thing)
        if plain and not any(map(_has_array, thing.__annotations__.values())):
            return check(thing)
        return _jaxtyped(typechecker=typechecker)(thing)

    return decorate


def _has_array(annotation: object) -> bool:
    """Whether an annotation or a part of it is an array of jaxtyping's; one that is a text may be."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return isinstance(annotation, str) or any(map(_has_array, get_args(annotation)))


jaxtyping.jaxtyped = _jaxtyped_for_arrays
