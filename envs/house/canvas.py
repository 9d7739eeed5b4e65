"""`Canvas`: rooms painted on a grid of 0.1 m, and the outlines and walls that follow from it.

Axes: the grid's rows run along z, its columns along x. Whole numbers make plans exact on every machine.
"""

import numpy as np

from eqa.envs.house.house import Wall

WALL_THICKNESS_M = 0.14
EMPTY = -1


class Canvas:
    """Room labels on a grid of decimetres, `reach` to either side of x = z = 0; only empty cells are painted."""

    def __init__(self, reach: int = 600) -> None:
        self.reach = reach
        self.labels = np.full((2 * reach, 2 * reach), EMPTY, np.int16)
        self.types: list[str] = []

    def paint(self, kind: str, rectangle: tuple[int, int, int, int], label: int | None = None) -> int:
        x0, x1, z0, z1 = (value + self.reach for value in rectangle)
        if label is None:
            label = len(self.types)
            self.types.append(kind)
        assert min(x0, z0) > 0 and max(x1, z1) < 2 * self.reach, "a room beyond the canvas"
        window = self.labels[z0:z1, x0:x1]
        window[window == EMPTY] = label
        return label


def crop(labels: np.ndarray) -> np.ndarray:
    """The painted part with a border of one empty cell."""
    rows, columns = np.flatnonzero((labels >= 0).any(1)), np.flatnonzero((labels >= 0).any(0))
    return labels[rows[0] - 1 : rows[-1] + 2, columns[0] - 1 : columns[-1] + 2]


def touches_at_a_corner(labels: np.ndarray) -> bool:
    """True if a room, or the outside, meets itself across a corner only."""
    a, b, c, d = labels[:-1, :-1], labels[:-1, 1:], labels[1:, :-1], labels[1:, 1:]
    return bool((((a == d) & (a != b) & (a != c)) | ((b == c) & (b != a) & (b != d))).any())


def has_narrow_part(labels: np.ndarray, least: int) -> bool:
    """True if some room, or some gap between rooms, is less than `least` cells wide anywhere."""
    for lines in (labels, labels.T):
        line, border = np.nonzero(lines[:, 1:] != lines[:, :-1])
        if ((np.diff(line) == 0) & (np.diff(border) < least)).any():
            return True
    return False


def outline_of(labels: np.ndarray, label: int) -> list[tuple[float, float]] | None:
    """Corners of a room, counter-clockwise seen from above; None if it is not one piece without holes."""
    rows, columns = (np.flatnonzero((labels == label).any(axis)) for axis in (1, 0))
    if not len(rows):
        return None
    top, left = int(rows[0]) - 1, int(columns[0]) - 1  # of the part that the room lies in, with a border
    inside = np.pad(labels[top + 1 : rows[-1] + 1, left + 1 : columns[-1] + 1] == label, 1)
    follow: dict[tuple[int, int], tuple[int, int]] = {}
    # The room is on the left: its lower side runs to the right, its right side upwards, and so on.
    sides = (
        (inside[:-1] & ~inside[1:], lambda r, c: ((c, r + 1), (c + 1, r + 1))),
        (inside[1:] & ~inside[:-1], lambda r, c: ((c + 1, r + 1), (c, r + 1))),
        (inside[:, :-1] & ~inside[:, 1:], lambda r, c: ((c + 1, r + 1), (c + 1, r))),
        (inside[:, 1:] & ~inside[:, :-1], lambda r, c: ((c + 1, r), (c + 1, r + 1))),
    )
    for edges, ends in sides:
        for row, column in np.argwhere(edges).tolist():
            start, end = ends(row, column)
            if start in follow:
                return None
            follow[start] = end
    first = min(follow)
    path, point = [first], follow[first]
    while point != first:
        path.append(point)
        point = follow[point]
    if len(path) != len(follow):
        return None
    beside = zip(path[-1:] + path[:-1], path, path[1:] + path[:1], strict=True)
    turns = [at for before, at, after in beside if before[0] != after[0] and before[1] != after[1]]
    return [((x + left) / 10, (z + top) / 10) for x, z in turns]


def walls_of(labels: np.ndarray) -> list[Wall]:
    """One wall for each straight run between the same two rooms (or a room and the outside)."""
    walls = []
    for upper, lower, across in ((labels[:-1], labels[1:], False), (labels[:, :-1].T, labels[:, 1:].T, True)):
        for line in np.flatnonzero((upper != lower).any(axis=1)).tolist():
            pairs = np.stack([upper[line], lower[line]])
            ends = [*(np.flatnonzero((pairs[:, 1:] != pairs[:, :-1]).any(axis=0)) + 1).tolist(), pairs.shape[1]]
            for start, end in zip([0, *ends], ends, strict=False):
                first, second = pairs[:, start].tolist()
                if first != second:
                    walls.append(_wall(line + 1, start, end, (first, second), across))
    return walls


def _wall(line: int, start: int, end: int, rooms: tuple[int, int], across: bool) -> Wall:
    """`rooms` are above and below a horizontal run, or on the left and right of a vertical one (as drawn on paper)."""
    if across:
        return Wall((line / 10, start / 10), (line / 10, end / 10), WALL_THICKNESS_M, (rooms[1], rooms[0]))
    return Wall((start / 10, line / 10), (end / 10, line / 10), WALL_THICKNESS_M, rooms)
