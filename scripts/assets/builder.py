"""Boxes, prisms, tubes and surfaces of revolution, collected into a `Shape`. Metres, Y up, front along +Z."""

import io

import numpy as np

from eqa.scripts.assets.sources import Shape, Slot

Vector = tuple[float, float, float]


class Builder:
    """Collector of primitives for one shape. A slot is named by its first use with a colour."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = []

    def slot(
        self, name: str, rgb: tuple[int, int, int] = (255, 255, 255), *, image: bytes | None = None, unlit: bool = False
    ) -> str:
        self._slots.append(Slot(name, rgb, image, unlit, main=name == "paint"))
        return name

    def add(self, slot: str, points: np.ndarray, faces: np.ndarray, uv: np.ndarray | None = None) -> None:
        number = next(i for i, entry in enumerate(self._slots) if entry.name == slot)
        points = np.asarray(points, float)
        self._parts.append((points, np.zeros((len(points), 2)) if uv is None else uv, np.asarray(faces), number))

    def box(self, slot: str, low: Vector, high: Vector, *, turn_x_deg: float = 0.0, turn_z_deg: float = 0.0) -> None:
        """Box between two corners, turned about its own centre."""
        low, high = np.array(low, float), np.array(high, float)
        corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
        points = low + corners * (high - low)
        if turn_x_deg or turn_z_deg:
            middle = (low + high) / 2
            points = (points - middle) @ (_turn(turn_z_deg, 2) @ _turn(turn_x_deg, 0)).T + middle
        quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        self.add(slot, points, _fan(quads))

    def tube(self, slot: str, path: list[Vector], radius: float, *, sides: int = 8) -> None:
        """Round bar along a polyline, with flat ends."""
        path = np.array(path, float)
        along = np.gradient(path, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        helper = np.array([0.0, 0, 1]) if abs(along[:, 2]).max() < 0.9 else np.array([1.0, 0, 0])
        if np.abs(along @ helper).max() > 0.99:
            helper = np.array([0.0, 1, 0])
        side = np.cross(along, helper)
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        up = np.cross(side, along)
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        ring = np.cos(angle)[None, :, None] * side[:, None] + np.sin(angle)[None, :, None] * up[:, None]
        self.rings(slot, path[:, None] + radius * ring)

    def lathe(
        self, slot: str, profile: list[tuple[float, float]], *, sides: int = 24, centre: Vector = (0, 0, 0)
    ) -> None:
        """Turns a profile of (radius, height) about the vertical axis."""
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        rings = np.array(
            [np.stack([r * np.sin(angle), np.full(sides, y), r * np.cos(angle)], axis=1) for r, y in profile]
        )
        self.rings(slot, rings + np.array(centre, float))

    def prism(self, slot: str, outline: list[tuple[float, float]], low: float, high: float, *, axis: int = 1) -> None:
        """Extrudes a polygon that is star-shaped round its mean; outline (x, z), (y, z) or (x, y) for axis y, x, z."""
        plane = {0: (1, 2), 1: (0, 2), 2: (0, 1)}[axis]
        rings = np.zeros((2, len(outline), 3))
        rings[:, :, plane] = np.array(outline, float)
        rings[0, :, axis], rings[1, :, axis] = low, high
        self.rings(slot, rings)

    def pane(self, slot: str, outline: list[tuple[float, float]], z: float) -> None:
        """Flat polygon facing +Z with the texture stretched over its box."""
        points = np.array([(x, y, z) for x, y in outline], float)
        low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        self.add(slot, points, _fan([tuple(range(len(outline)))]), (points[:, :2] - low) / (high - low))

    def rings(self, slot: str, rings: np.ndarray) -> None:
        """Joins rings (N, S, 3) and closes both ends with a fan round their middle."""
        count, sides = rings.shape[:2]
        points = np.concatenate([rings.reshape(-1, 3), rings[:1].mean(axis=1), rings[-1:].mean(axis=1)])
        faces = []
        for k in range(sides):
            n = (k + 1) % sides
            for r in range(count - 1):
                a, b, c, d = r * sides + k, r * sides + n, (r + 1) * sides + n, (r + 1) * sides + k
                faces += [(a, b, c), (a, c, d)]
            last = (count - 1) * sides
            faces += [(count * sides, n, k), (count * sides + 1, last + k, last + n)]
        self.add(slot, points, np.array(faces))

    def shape(self) -> Shape:
        """The collected shape, moved onto y = 0 with its box centred on x = z = 0."""
        offsets = np.cumsum([0] + [len(points) for points, *_ in self._parts])
        points = np.concatenate([part[0] for part in self._parts])
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        points -= np.array([middle[0], points[:, 1].min(), middle[2]])
        return Shape(
            points,
            np.concatenate([part[1] for part in self._parts]),
            np.concatenate([np.full(len(part[0]), part[3]) for part in self._parts]),
            np.concatenate([part[2] + offset for part, offset in zip(self._parts, offsets, strict=False)]),
            self._slots,
        )


def _turn(angle_deg: float, axis: int) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    a, b = {0: (1, 2), 1: (2, 0), 2: (0, 1)}[axis]
    matrix = np.eye(3)
    matrix[a, a], matrix[a, b], matrix[b, a], matrix[b, b] = c, -s, s, c
    return matrix


def _fan(polygons: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)])


def ellipse(width: float, height: float, *, sides: int = 28, centre: tuple[float, float] = (0, 0)):
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    return [(centre[0] + width / 2 * np.cos(a), centre[1] + height / 2 * np.sin(a)) for a in angle]


def rectangle(width: float, low: float, high: float) -> list[tuple[float, float]]:
    return [(-width / 2, low), (width / 2, low), (width / 2, high), (-width / 2, high)]


def mirror_image() -> bytes:
    """The image of a mirror pane: a bright, bluish room without detail and two slanting glints."""
    from PIL import Image

    y, x = np.mgrid[0:64, 0:64] / 63
    light = 205 - 45 * y
    for centre, width in ((0.75, 0.10), (1.0, 0.04)):
        light = light + 55 * np.clip(1 - np.abs(x + y - centre) / width, 0, 1) ** 0.5
    image = np.stack([light * 0.90, light * 0.98, light * 1.03], axis=-1).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()
