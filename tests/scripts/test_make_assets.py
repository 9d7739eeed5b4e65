"""The parts of the asset script that need no furniture package: formats, shapes, normals, colour names."""

import io
import lzma
import tarfile
import zipfile

import numpy as np
import pytest

from eqa.envs.annotations import PALETTE
from eqa.scripts.assets.builder import Builder
from eqa.scripts.assets.colors import color_name, color_shares
from eqa.scripts.assets.meshes import corner_normals, pack
from eqa.scripts.assets.pictures import FRAMES
from eqa.scripts.assets.shapes import SHAPES
from eqa.scripts.assets.sources import Entry, GroupFilter, _deb_data, open_libraries, read_catalog, read_shape

CUBE = """mtllib cube.mtl
v 0 0 0
v 2 0 0
v 2 0 1
v 0 0 1
v 0 4 0
v 2 4 0
v 2 4 1
v 0 4 1
vt 0 0
vt 1 0
vt 1 1
vt 0 1
g sides
usemtl wood
f 1/1 2/2 6/3 5/4
f 2/1 3/2 7/3 6/4
f 3/1 4/2 8/3 7/4
f 4/1 1/2 5/3 8/4
g ends
usemtl paint
f 1 2 3 4
f -4 -3 -2 -1
"""


def _entry(**properties: str) -> Entry:
    """A catalogue entry whose archive holds the box above with a texture of one pixel."""
    from PIL import Image

    picture = io.BytesIO()
    Image.new("RGB", (1, 1), (200, 100, 50)).save(picture, "PNG")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("box/cube.obj", CUBE)
        archive.writestr("box/cube.mtl", "newmtl wood\nKd 1 1 1\nmap_Kd wood.png\nnewmtl paint\nKd 0.5 0 0\nKa 1 0 0\n")
        archive.writestr("box/wood.png", picture.getvalue())
    sizes = {"width": "100", "height": "50", "depth": "30"}
    return Entry("test#box", zipfile.ZipFile(data), "CC0 1.0", {"model": "/box/cube.obj", **sizes, **properties})


def test_a_model_is_scaled_to_its_catalogue_size_and_stands_centred():
    shape = read_shape(_entry(), flat_colors={})
    np.testing.assert_allclose(shape.points.min(axis=0), (-0.5, 0, -0.15), atol=1e-9)
    np.testing.assert_allclose(shape.points.max(axis=0), (0.5, 0.5, 0.15), atol=1e-9)
    assert len(shape.faces) == 12


def test_a_model_is_turned_before_it_is_scaled():
    """A quarter turn about X takes the box's depth of 1 to its height, which the catalogue then stretches to 0.5 m."""
    shape = read_shape(_entry(modelRotation="1 0 0 0 0 -1 0 1 0"), flat_colors={})
    paint = next(i for i, slot in enumerate(shape.slots) if slot.name == "paint")
    depth = shape.points[shape.slot_of_vertex == paint][:, 2]
    np.testing.assert_allclose(np.unique(depth.round(6)), (-0.15, 0.15))


def test_a_texture_shows_alone_and_a_flat_colour_is_diffuse_plus_some_ambient():
    shape = read_shape(_entry(), flat_colors={})
    slots = {slot.name: slot for slot in shape.slots}
    assert slots["wood"].image is not None
    assert slots["paint"].image is None and slots["paint"].rgb == (204, 0, 0)


def test_only_the_wanted_groups_are_read():
    kept = read_shape(_entry(), flat_colors={}, groups=GroupFilter(("side",)))
    others = read_shape(_entry(), flat_colors={}, groups=GroupFilter(("side",), drop=True))
    assert (len(kept.faces), len(others.faces)) == (8, 4)
    with pytest.raises(ValueError, match="test#box: expected faces in the groups"):
        read_shape(_entry(), flat_colors={}, groups=GroupFilter(("lid",)))


def test_properties_are_read_with_escapes_and_continued_lines():
    text = b"# c\nid=x\nid#2=B\nname#2=Caf\\u00e9 \\\n   table\nid#1=A\n"
    assert read_catalog(text) == [{"id": "A"}, {"id": "B", "name": "Caf\xe9 table"}]


def test_a_debian_package_is_unpacked_and_a_foreign_file_is_refused(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w"):
        pass
    members = [("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", lzma.compress(tar.getvalue()))]
    package = tmp_path / "some.deb"
    package.write_bytes(
        b"!<arch>\n"
        + b"".join(
            f"{n:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(d):<10}`\n".encode() + d + b"\n" * (len(d) % 2)
            for n, d in members
        )
    )
    assert _deb_data(package) == tar.getvalue()
    with pytest.raises(ValueError, match="apt-get download sweethome3d-furniture sweethome3d"):
        open_libraries([package])
    package.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="expected a Debian package"):
        open_libraries([package])


def test_flat_neighbours_share_a_normal_and_creases_do_not():
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 0.1, 1], [0, 0.1, 1], [1, 2, 0]], float)
    faces = np.array([[0, 2, 1], [0, 3, 2], [0, 1, 4]])
    normals = corner_normals(points, faces)
    np.testing.assert_allclose(normals[0], normals[1], atol=1e-9)
    assert abs(normals[2, 0] @ normals[0, 0]) < 0.2
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1)


@pytest.mark.parametrize("name", SHAPES)
def test_built_shapes_are_sound_and_survive_packing(name):
    shape = SHAPES[name]()
    assert np.isfinite(shape.points).all() and abs(shape.points[:, 1].min()) < 1e-9
    assert any(slot.main for slot in shape.slots) == (name not in FRAMES)  # pictures keep their colours
    mesh = pack(shape)
    assert mesh.faces.max() < len(mesh.vertices) <= 65535
    corners = shape.points[shape.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    restored = mesh.vertices[mesh.faces] / 65535 * mesh.size_m - np.array([mesh.size_m[0], 0, mesh.size_m[2]]) / 2
    np.testing.assert_allclose(restored, corners[area > 1e-10], atol=1e-4)


def test_palette_colours_are_named_as_in_the_palette():
    assert {name: color_name(*rgb) for name, rgb in PALETTE.items()} == {name: name for name in PALETTE}


def test_a_hidden_inside_does_not_decide_the_colour():
    b = Builder()
    b.slot("paint", PALETTE["red"])
    b.slot("inside", PALETTE["blue"])
    b.box("paint", (-0.5, 0, -0.5), (0.5, 1, 0.5))
    for layer in range(20):
        b.box("inside", (-0.4, 0.1 + 0.04 * layer, -0.4), (0.4, 0.11 + 0.04 * layer, 0.4))
    shares, main = color_shares(b.shape())
    assert shares == {"red": pytest.approx(1.0)} and main == pytest.approx(1.0)
