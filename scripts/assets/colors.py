"""Colour names as people give them: from sRGB values to the palette's names, weighted by visible area."""

import colorsys
import io

import numba
import numpy as np

from eqa.scripts.assets.sources import Shape

PICTURE_PX = 96  # the model's largest extent in the pictures for visibility
VIEWS_DEG = ((0, 20), (45, 20), (-45, 20), (80, 20), (-80, 20), (0, 50))  # (azimuth from the front, elevation)


def color_name(red: int, green: int, blue: int) -> str | None:
    """The palette's name of an sRGB colour (0..255), None between names (beige, teal, olive)."""
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    hue *= 360
    if value < 0.16 or (value < 0.25 and saturation < 0.45):
        return "black"
    if saturation < 0.12:
        return "white" if value > 0.81 else "gray" if value < 0.75 else None
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
    """Shares of the model's surface visible from the front half: in each named colour, and on the main slots."""
    face, weight = _visible_faces(shape)
    face_slot = shape.face_slot()[face]
    shares: dict[str, float] = {}
    for number, slot in enumerate(shape.slots):
        of_slot = face_slot == number
        colors = [slot.rgb] * int(of_slot.sum()) if slot.image is None else _colors(shape, slot.image, face[of_slot])
        for rgb, part in zip(colors, weight[of_slot], strict=True):
            name = color_name(*rgb)
            if name is not None:
                shares[name] = shares.get(name, 0.0) + float(part)
    is_main = np.array([slot.main for slot in shape.slots], bool)
    return shares, float(weight[is_main[face_slot]].sum())


def _visible_faces(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Faces that are seen in some view, and their shares of the pictures' area."""
    size = np.ptp(shape.points, axis=0).max()
    count = np.zeros(len(shape.faces))
    for azimuth, elevation in np.radians(VIEWS_DEG):
        toward = np.array([np.sin(azimuth) * np.cos(elevation), np.sin(elevation), np.cos(azimuth) * np.cos(elevation)])
        right = np.array([np.cos(azimuth), 0.0, -np.sin(azimuth)])
        seen = shape.points @ np.stack([right, np.cross(toward, right), toward], axis=1) / size
        seen[:, :2] = (seen[:, :2] - seen[:, :2].min(axis=0)) * PICTURE_PX
        face = _draw(seen, shape.faces, 2 * PICTURE_PX)
        count += np.bincount(face[face >= 0], minlength=len(count))
    visible = np.flatnonzero(count)
    return visible, count[visible] / count.sum()


@numba.njit(cache=True)
def _draw(points: np.ndarray, faces: np.ndarray, side_px: int) -> np.ndarray:
    """Nearest face at each pixel, -1 for none. points (V, 3): column, row, nearness."""
    nearest = np.full((side_px, side_px), -np.inf)
    drawn = np.full((side_px, side_px), -1)
    for f in range(len(faces)):
        a, b, c = points[faces[f, 0]], points[faces[f, 1]], points[faces[f, 2]]
        area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])
        if area == 0.0:
            continue
        for y in range(int(min(a[1], b[1], c[1])), min(int(max(a[1], b[1], c[1])) + 1, side_px)):
            for x in range(int(min(a[0], b[0], c[0])), min(int(max(a[0], b[0], c[0])) + 1, side_px)):
                u = ((x + 0.5 - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (y + 0.5 - a[1])) / area
                v = ((b[0] - a[0]) * (y + 0.5 - a[1]) - (x + 0.5 - a[0]) * (b[1] - a[1])) / area
                near = a[2] + u * (b[2] - a[2]) + v * (c[2] - a[2])
                if u >= 0 and v >= 0 and u + v <= 1 and near > nearest[y, x]:
                    nearest[y, x] = near
                    drawn[y, x] = f
    return drawn.ravel()


def _colors(shape: Shape, image: bytes, faces: np.ndarray) -> list[tuple[int, int, int]]:
    """Texture colour in the middle of each face, from a copy so small that patterns blend as they do from afar."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        texels = np.asarray(opened.convert("RGB").resize((16, 16), Image.Resampling.BOX))
    uv = shape.uv[shape.faces[faces]].mean(axis=1)
    row = np.floor((1 - uv[:, 1]) * 16).astype(int) % 16
    column = np.floor(uv[:, 0] * 16).astype(int) % 16
    return [tuple(int(c) for c in texel) for texel in texels[row, column]]
