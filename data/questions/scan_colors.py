"""`seen_color`: the colour that a person would name, from pixels of views, or None where there is any doubt.

Bands of hue, saturation and value belong to names; what lies between them has none. Light and shade move values by a
third, so white, gray and black are far apart. The bands were chosen on generated houses, whose colours are known.

Axes: P pixels.
"""

import numpy as np
from jaxtyping import Float64, UInt8

# name: lowest and highest hue in degrees (above 360 it goes on from 0), saturation and value
BANDS: dict[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "black": ((0, 361), (0, 0.5), (0, 0.2)),
    "gray": ((0, 361), (0, 0.12), (0.27, 0.5)),
    "white": ((0, 361), (0, 0.12), (0.6, 1)),
    "brown": ((10, 44), (0.3, 1), (0.2, 0.45)),
    "red": ((345, 370), (0.6, 1), (0.25, 1)),
    "orange": ((18, 40), (0.75, 1), (0.55, 1)),
    "yellow": ((44, 62), (0.5, 1), (0.5, 1)),
    "green": ((85, 165), (0.3, 1), (0.2, 1)),
    "blue": ((200, 245), (0.4, 1), (0.2, 1)),
    "purple": ((262, 300), (0.3, 1), (0.2, 1)),
    "pink": ((325, 350), (0.25, 0.5), (0.5, 1)),
}
LEAST_SHARE = 0.7  # of the pixels that have a name's colour
MOST_OTHER = 0.1  # of the pixels, that may have another name's
LEAST_PIXELS = 200


def seen_color(pixels: UInt8[np.ndarray, "P 3"]) -> str | None:
    """The name in `envs.annotations.PALETTE` that most pixels of a thing have, None if they do not settle it."""
    if len(pixels) < LEAST_PIXELS:
        return None
    hue, saturation, value = hsv(pixels)
    shares = {}
    for name, (hues, saturations, values) in BANDS.items():
        inside = (saturation >= saturations[0]) & (saturation <= saturations[1])
        inside &= (value >= values[0]) & (value <= values[1])
        shares[name] = float((inside & ((hue - hues[0]) % 360 <= hues[1] - hues[0])).mean())
    first, second = sorted(shares, key=shares.__getitem__)[:-3:-1]
    return first if shares[first] >= LEAST_SHARE and shares[second] <= MOST_OTHER else None


def hsv(pixels: UInt8[np.ndarray, "P 3"]) -> tuple[Float64[np.ndarray, " P"], ...]:
    """Hue in degrees, saturation and value."""
    rgb = pixels / 255
    value, low = rgb.max(1), rgb.min(1)
    span = value - low
    safe = np.maximum(span, 1e-9)
    red, green, blue = rgb.T
    sixth = np.select(
        [value == red, value == green], [(green - blue) / safe % 6, (blue - red) / safe + 2], (red - green) / safe + 4
    )
    return np.where(span > 0, sixth * 60, 0.0), span / np.maximum(value, 1e-9), value
