"""Pairs of triangles that the renderer draws as one face, and those that it does not."""

import numpy as np
import pytest

from eqa.envs.rendering.meshes import prepare_meshes
from eqa.envs.rendering.scene import Meshes

SQUARE = np.array([(0, 0, 0), (2, 0, 0), (2, 1, 0), (0, 1, 0)], np.float32)


def two_triangles(vertices=SQUARE, *, faces=((0, 1, 2), (0, 2, 3)), uv=None, slots=(0, 0), normals=None) -> Meshes:
    return Meshes(
        vertices=np.asarray(vertices, np.float32),
        normals=np.tile(np.array([0, 0, 1], np.float32), (4, 1)) if normals is None else normals,
        uv=np.asarray(vertices, np.float32)[:, :2].copy() if uv is None else np.asarray(uv, np.float32),
        faces=np.array(faces, np.int32),
        face_slot=np.array(slots, np.int32),
        vertex_range=np.array([[0, 4]], np.int32),
        face_range=np.array([[0, 2]], np.int32),
    )


def test_flat_rectangle_becomes_one_face_with_four_corners():
    parts = prepare_meshes(two_triangles())
    assert parts["faces"].tolist() == [[0, 1, 2, 3]]
    assert parts["face_range"].tolist() == [[0, 1]] and len(parts["face_inward"]) == len(parts["face_slot"]) == 1


def test_triangle_keeps_its_third_corner_twice():
    meshes = two_triangles(faces=((0, 1, 2), (3, 1, 0)))
    assert prepare_meshes(meshes)["faces"].tolist() == [[0, 1, 2, 2], [3, 1, 0, 0]]


@pytest.mark.parametrize(
    "changed",
    [
        {"vertices": SQUARE + np.array([(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0.01)])},  # bent
        {"vertices": [(0, 0, 0), (2, 0, 0), (0.5, 0.2, 0), (0, 1, 0)]},  # not convex
        {"vertices": [(0, 0, 0), (2, 0, 0), (2, 1, 0), (2, 0.5, 0)]},  # folded back
        {"uv": [(0, 0), (1, 0), (1, 1), (0, 0.5)]},
        {"slots": (0, 1)},
        {"normals": np.array([(0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0.6, 0.8)], np.float32)},
    ],
)
def test_triangles_that_are_bent_or_lit_or_textured_apart_stay_two(changed):
    assert len(prepare_meshes(two_triangles(**changed))["faces"]) == 2


def test_triangles_of_two_meshes_stay_apart():
    meshes = two_triangles(faces=((0, 1, 2), (0, 2, 3)))
    apart = Meshes(
        *(getattr(meshes, name) for name in ("vertices", "normals", "uv", "faces", "face_slot")),
        vertex_range=np.array([[0, 4], [0, 4]], np.int32),
        face_range=np.array([[0, 1], [1, 2]], np.int32),
    )
    assert prepare_meshes(apart)["face_range"].tolist() == [[0, 1], [1, 2]]
