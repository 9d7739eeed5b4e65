"""`MeshBuilder`: meshes made of quads and boxes, with texture coordinates in repeats and slots for materials."""

from collections.abc import Sequence

import numpy as np

from eqa.envs.rendering.scene import Meshes

Point = tuple[float, float, float]


class MeshBuilder:
    """Adds meshes end to end: `quad` and `box` fill the current one, `end` finishes it and gives its number.

    Faces are seen from their front alone, unless they are added with `both_sides`.
    """

    def __init__(self) -> None:
        self._vertices: list[Point] = []
        self._normals: list[Point] = []
        self._uv: list[tuple[float, float]] = []
        self._faces: list[tuple[int, int, int]] = []
        self._slots: list[int] = []
        self._one_sided: list[bool] = []
        self._ends: list[tuple[int, int]] = [(0, 0)]

    def quad(
        self, corners: Sequence[Point], slot: int, uv: tuple[float, float, float, float] = (0, 0, 1, 1), *,
        both_sides: bool = False,
    ) -> None:  # fmt: skip
        """A flat quad from its lower left corner counter-clockwise, seen from its front.

        uv: left, bottom, right, top.
        """
        a, b, d = (np.array(corners[k]) for k in (0, 1, 3))
        normal = np.cross(b - a, d - a)
        self.corners(corners, normal / np.linalg.norm(normal), slot, uv, both_sides=both_sides)

    def corners(
        self, corners: Sequence[Point], normal: np.ndarray, slot: int, uv: tuple[float, float, float, float], *,
        both_sides: bool = False,
    ) -> None:  # fmt: skip
        first = len(self._vertices)
        u0, v0, u1, v1 = uv
        self._vertices += list(corners)
        self._normals += [tuple(normal)] * 4
        self._uv += [(u0, v0), (u1, v0), (u1, v1), (u0, v1)]
        self.faces([(0, 1, 2), (0, 2, 3)], slot, first, both_sides=both_sides)

    def faces(self, faces: Sequence[tuple[int, int, int]], slot: int, first: int, *, both_sides: bool = False) -> None:
        self._faces += [tuple(first + k for k in face) for face in faces]
        self._slots += [slot] * len(faces)
        self._one_sided += [not both_sides] * len(faces)

    def mesh(
        self, vertices: np.ndarray, normals: np.ndarray, uv: np.ndarray, faces: np.ndarray, slot: int, *,
        both_sides: bool = False,
    ) -> None:  # fmt: skip
        """Adds any triangles, whose indices count from 0."""
        first = len(self._vertices)
        self._vertices += [tuple(row) for row in vertices.tolist()]
        self._normals += [tuple(row) for row in normals.tolist()]
        self._uv += [tuple(row) for row in uv.tolist()]
        self.faces([tuple(row) for row in faces.tolist()], slot, first, both_sides=both_sides)

    def floor(self, rect: tuple, y: float, slot: int, uv: tuple[float, float, float, float] = (0, 0, 1, 1)) -> None:
        """A level rectangle seen from above; u grows with x, v with -z."""
        x0, z0, x1, z1 = rect
        self.quad([(x0, y, z1), (x1, y, z1), (x1, y, z0), (x0, y, z0)], slot, uv)

    def wall(
        self, rect: tuple, side: int, low: float, high: float, slot: int, uv=(0, 0, 1, 1), *, both_sides: bool = False
    ) -> None:
        """The side of an upright box, seen from outside: 0 north, 1 west, 2 south, 3 east."""
        (ax, az), (bx, bz) = side_ends(rect, side)
        self.quad([(ax, low, az), (bx, low, bz), (bx, high, bz), (ax, high, az)], slot, uv, both_sides=both_sides)

    def box(
        self, rect: tuple, low: float, high: float, slot: int, *, bottom: bool = False, top: int | None = None
    ) -> None:
        """An upright box without textures; `top` is the slot of its upper side."""
        for side in range(4):
            self.wall(rect, side, low, high, slot)
        self.floor(rect, high, slot if top is None else top)
        if bottom:
            x0, z0, x1, z1 = rect
            self.quad([(x0, low, z0), (x1, low, z0), (x1, low, z1), (x0, low, z1)], slot)

    def end(self) -> int:
        self._ends.append((len(self._vertices), len(self._faces)))
        return len(self._ends) - 2

    def meshes(self) -> Meshes:
        ends = np.array(self._ends, np.int32)
        return Meshes(
            np.array(self._vertices, np.float32).reshape(-1, 3),
            np.array(self._normals, np.float32).reshape(-1, 3),
            np.array(self._uv, np.float32).reshape(-1, 2),
            np.array(self._faces, np.int32).reshape(-1, 3),
            np.array(self._slots, np.int32),
            np.ascontiguousarray(np.stack([ends[:-1, 0], ends[1:, 0]], axis=1)),
            np.ascontiguousarray(np.stack([ends[:-1, 1], ends[1:, 1]], axis=1)),
            np.array(self._one_sided, np.bool_),
        )


def side_ends(rect: tuple, side: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends (x, z) of a side of a rectangle, left and right for one who looks at it from outside."""
    x0, z0, x1, z1 = rect
    return {
        0: ((x1, z0), (x0, z0)),
        1: ((x0, z0), (x0, z1)),
        2: ((x0, z1), (x1, z1)),
        3: ((x1, z1), (x1, z0)),
    }[side]
