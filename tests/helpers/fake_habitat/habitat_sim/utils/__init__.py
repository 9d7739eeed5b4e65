"""The part of habitat_sim.utils that is used."""

from . import common  # noqa: F401
