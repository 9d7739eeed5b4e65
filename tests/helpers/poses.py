"""Poses on a floor at y = 0, for tests that think in the plan."""

import numpy as np
from jaxtyping import Float64


def on_floor(places: object) -> Float64[np.ndarray, "*N 4"]:
    """Poses (x, 0, z, heading_rad) from (x, z, heading_rad)."""
    return np.insert(np.asarray(places, np.float64), 1, 0.0, axis=-1)
