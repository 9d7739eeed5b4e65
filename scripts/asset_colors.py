"""Which colour a person would name: from sRGB values to the palette's names, weighted by surface."""

import colorsys
import io

import numpy as np

from scripts.asset_sources import Shape


def color_name(red: int, green: int, blue: int) -> str | None:
    """The palette's name of an sRGB colour (0..255), None between names (beige, teal, olive)."""
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    hue *= 360
    if value < 0.16 or (value < 0.25 and saturation < 0.45):
        return "black"
    if saturation < 0.12:
        return "white" if value > 0.8 else "gray" if value < 0.72 else None
    if value < 0.42 and (hue < 44 or hue >= 342):
        return "brown"
    if hue < 14 or hue >= 342:
        return "pink" if value > 0.75 and saturation < 0.5 else "red" if saturation > 0.45 else None
    if hue < 44:
        if value < 0.75 or (hue < 40 and saturation < 0.62 and value < 0.85):
            return "brown" if saturation > 0.25 else None
        return "orange" if saturation > 0.75 else None
    if hue < 68:
        return "yellow" if value > 0.72 and saturation > 0.35 else None
    if hue < 165:
        return "green" if saturation > 0.2 else None
    if hue < 192:
        return None
    if hue < 256:
        return "blue" if saturation > 0.25 else None
    if hue < 308:
        return "purple" if saturation > 0.2 else None
    return "pink" if value > 0.6 else None


def color_shares(shape: Shape) -> tuple[dict[str, float], float]:
    """Share of the surface in each named colour, and on the main slots."""
    corners = shape.points[shape.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    total = max(area.sum(), 1e-12)
    face_slot = shape.face_slot()
    shares: dict[str, float] = {}
    for number, slot in enumerate(shape.slots):
        of_slot = face_slot == number
        colors = _colors(shape, slot.image, of_slot) if slot.image is not None else [slot.rgb] * int(of_slot.sum())
        for rgb, weight in zip(colors, area[of_slot], strict=True):
            name = color_name(*rgb)
            if name is not None:
                shares[name] = shares.get(name, 0.0) + weight / total
    is_main = np.array([slot.main for slot in shape.slots], bool)
    return shares, float(area[is_main[face_slot]].sum() / total)


def _colors(shape: Shape, image: bytes, of_slot: np.ndarray) -> list[tuple[int, int, int]]:
    """Texture colour in the middle of each face, from a copy so small that patterns blend as they do from afar."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        texels = np.asarray(opened.convert("RGB").resize((16, 16), Image.Resampling.BOX))
    uv = shape.uv[shape.faces[of_slot]].mean(axis=1)
    row = np.floor((1 - uv[:, 1]) * 16).astype(int) % 16
    column = np.floor(uv[:, 0] * 16).astype(int) % 16
    return [tuple(int(c) for c in texel) for texel in texels[row, column]]
