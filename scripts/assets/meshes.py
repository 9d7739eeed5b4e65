"""Small meshes for models: decimation, normals with creases, quantisation."""

from dataclasses import dataclass

import numpy as np

from eqa.scripts.assets.sources import Shape

CREASE_DEG = 40.0  # faces that meet at a sharper angle keep an edge in their shading
UNSEEN_ERROR_M = 0.003  # less than a pixel, seen from a metre away at 224 px
MAX_ERROR = 0.06  # of the model's size, beyond which no face limit is worth it
MIN_FACES = 100
FACES_BY_SIZE = ((0.35, 600), (0.7, 900), (1.2, 1200), (float("inf"), 1500))  # (largest extent in metres, faces)


@dataclass
class PackedMesh:
    """A mesh as it is stored; `envs.rendering.assets` turns it back into metres.

    vertices (V, 3) uint16 in the model's box, normals (V, 3) int8 / 127, uv (V, 2) uint16 of `uv_range`, faces (F, 3)
    uint16 rows of `vertices`, face_slot (F,) uint8, size_m of the box, uv_range: the texture repeats that 65535 means.
    """

    vertices: np.ndarray
    normals: np.ndarray
    uv: np.ndarray
    faces: np.ndarray
    face_slot: np.ndarray
    size_m: tuple[float, float, float]
    uv_range: float


def decimate(shape: Shape, *, max_faces: int | None = None, error_m: float | None = None) -> Shape:
    """Collapses edges while the surface moves by less than `error_m`, then on until `max_faces` are left.

    The vertices of the result are vertices of the model, so materials and texture coordinates stay the same. Default:
    `error_m` is an invisible one, `max_faces` follows the model's size.
    """
    shape = _weld(shape)
    extents = np.ptp(shape.points, axis=0)
    size = extents.max()
    if max_faces is None:
        max_faces = next(count for limit, count in FACES_BY_SIZE if size <= limit)
    if error_m is None:
        error_m = min(UNSEEN_ERROR_M, 0.006 * size, max(0.2 * extents.min(), 0.0005))
    error = float(error_m / size)
    faces = _simplify(shape, MIN_FACES, error)
    if len(faces) > max_faces:
        faces = _simplify(shape, max_faces, MAX_ERROR)
    return _weld(Shape(shape.points, shape.uv, shape.slot_of_vertex, faces, shape.slots))


def _simplify(shape: Shape, target_faces: int, max_error: float) -> np.ndarray:
    """Faces left after collapsing to the target or the error, a fraction of the model's size, whichever is first."""
    try:
        from meshoptimizer.simplifier import simplify
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "decimation needs meshoptimizer (built from source: needs a C++ compiler): pip install meshoptimizer==0.2.30a0"
        ) from None
    indices = shape.faces.astype(np.uint32).ravel()
    result = np.zeros_like(indices)
    count = simplify(
        result,
        indices,
        np.ascontiguousarray(shape.points, np.float32),
        target_index_count=3 * target_faces,
        target_error=max_error,
    )
    return result[:count].reshape(-1, 3).astype(np.int64)


def _weld(shape: Shape) -> Shape:
    """Merges vertices of a slot at the same place, in textured slots with the same texture coordinates.

    Drops unused vertices, and faces that are degenerate or doubled. Back-to-back faces are doubled, as winding has no
    meaning.
    """
    textured = np.array([s.image is not None for s in shape.slots])[shape.slot_of_vertex]
    key = np.column_stack(
        [
            np.round(shape.points / 1e-6),
            np.where(textured[:, None], np.round(shape.uv / 1e-5), 0),
            shape.slot_of_vertex,
        ]
    )
    _, first, vertex = np.unique(key, axis=0, return_index=True, return_inverse=True)
    faces = vertex.ravel()[shape.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (a != c)]
    _, distinct = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(distinct)]
    used = np.unique(faces)
    row = np.full(len(first), -1)
    row[used] = np.arange(len(used))
    keep = first[used]
    return Shape(shape.points[keep], shape.uv[keep], shape.slot_of_vertex[keep], row[faces], shape.slots)


def pack(shape: Shape) -> PackedMesh:
    """Gives the shape normals and quantises it. Faces without area are dropped."""
    corners = shape.points[shape.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    faces = shape.faces[area > 1e-10]
    size = np.maximum(np.ptp(shape.points[faces.ravel()], axis=0), 1e-4)
    low = shape.points[faces.ravel()].min(axis=0)
    position = np.round((shape.points - low) / size * 65535).clip(0, 65535).astype(np.int64)
    normals = np.round(corner_normals(shape.points, faces) * 127).astype(np.int64).reshape(-1, 3)
    uv, uv_range = _quantise_uv(shape, faces)
    slot = np.repeat(shape.slot_of_vertex[faces[:, 0]], 3)
    rows = np.column_stack([position[faces.ravel()], normals, uv, slot])
    rows, vertex = np.unique(rows, axis=0, return_inverse=True)
    order, vertex = _in_order_of_use(vertex.ravel())
    rows = rows[order]
    if len(rows) > 65535:
        raise ValueError(
            f"model: expected at most 65535 vertices after decimation, got {len(rows)}; lower its triangles"
        )
    return PackedMesh(
        vertices=rows[:, :3].astype(np.uint16),
        normals=rows[:, 3:6].astype(np.int8),
        uv=rows[:, 6:8].astype(np.uint16),
        faces=vertex.reshape(-1, 3).astype(np.uint16),
        face_slot=slot[::3].astype(np.uint8),
        size_m=tuple(round(float(s), 4) for s in size),
        uv_range=uv_range,
    )


def _in_order_of_use(vertex: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Renumbers vertices by first use: neighbouring rows then compress and cache better."""
    used, first = np.unique(vertex, return_index=True)
    order = used[np.argsort(first)]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return order, rank[vertex]


def _quantise_uv(shape: Shape, faces: np.ndarray) -> tuple[np.ndarray, float]:
    """Corner texture coordinates (3F, 2) shifted by whole repeats to start near 0; zero for slots without texture."""
    slot = np.repeat(shape.slot_of_vertex[faces[:, 0]], 3)
    uv = shape.uv[faces.ravel()].copy()
    for number, entry in enumerate(shape.slots):
        of_slot = slot == number
        if entry.image is None:
            uv[of_slot] = 0
        elif of_slot.any():
            uv[of_slot] -= np.floor(uv[of_slot].min(axis=0))
    uv_range = float(max(1.0, np.ceil(uv.max(initial=0.0))))
    return np.round(uv / uv_range * 65535).astype(np.int64), uv_range


def corner_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normals (F, 3, 3) of the corners, area-weighted over the faces at one place.

    Faces that bend by the crease angle or more are left out. Slots do not matter. Winding is taken as it is; opposite
    neighbours count as a crease.
    """
    corners = points[faces]
    face_normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(face_normal, axis=1, keepdims=True)
    unit = face_normal / np.maximum(area, 1e-20)
    _, place = np.unique(np.round(corners.reshape(-1, 3), 5), axis=0, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    counts = np.bincount(place.ravel())
    start = np.cumsum(counts) - counts
    # All pairs (corner, corner at the same place).
    repeat = counts[place.ravel()]
    first = np.repeat(np.arange(len(repeat)), repeat)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    second = order[start[place.ravel()][first] + within]
    smooth = (unit[first // 3] * unit[second // 3]).sum(axis=1) > np.cos(np.radians(CREASE_DEG))
    total = np.zeros((len(repeat), 3))
    for axis in range(3):
        weights = np.where(smooth, face_normal[second // 3, axis], 0.0)
        total[:, axis] = np.bincount(first, weights=weights, minlength=len(repeat))
    length = np.linalg.norm(total, axis=1, keepdims=True)
    total = np.where(length > 1e-20, total / np.maximum(length, 1e-20), np.repeat(unit, 3, axis=0))
    return total.reshape(-1, 3, 3)
