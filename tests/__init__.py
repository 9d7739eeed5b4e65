"""The run-time type checker of the test suite: array shapes and types as annotated, and an int where a float will do."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
