"""The furniture catalogue: the shipped pack is whole, covers every class, and paints what it says it paints."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from eqa.envs.annotations import PALETTE
from eqa.envs.house.catalog import ASSETS, BUILDING, CLASSES, CONTEXT, QUERYABLE, load_catalog


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture(scope="module")
def document():
    return json.loads((ASSETS / "catalog.json").read_text())


def test_there_are_fifty_queryable_objects_and_no_class_twice():
    assert len(QUERYABLE) == 50
    assert len(set(CLASSES)) == len(CLASSES) <= 255
    assert CLASSES[:6] == BUILDING == ("outside", "wall", "floor", "ceiling", "door", "window")


def test_every_queryable_category_has_two_good_models_or_more(catalog):
    good = {name: sum(m.quality == "good" for m in catalog.models_of(name)) for name in QUERYABLE}
    assert [name for name, count in good.items() if count < 2] == []


def test_every_context_category_has_a_model(catalog):
    assert [name for name in CONTEXT if not catalog.models_of(name)] == []


def test_good_models_come_first(catalog):
    for name in CLASSES:
        qualities = [m.quality for m in catalog.models_of(name)]
        assert qualities == sorted(qualities)  # "good" < "weak"


def test_the_pack_is_small_enough_to_live_in_the_repository():
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) < 6e6


def test_geometry_is_finite_in_range_and_read_only(catalog):
    meshes = catalog.meshes
    for name in ("vertices", "normals", "uv"):
        assert np.isfinite(getattr(meshes, name)).all(), name
    np.testing.assert_allclose(np.linalg.norm(meshes.normals, axis=1), 1, atol=1e-4)
    assert len(meshes.vertex_range) == len(meshes.face_range) == len(catalog.models)
    for model in catalog.models.values():
        v0, v1 = meshes.vertex_range[model.mesh]
        f0, f1 = meshes.face_range[model.mesh]
        faces, slots = meshes.faces[f0:f1], meshes.face_slot[f0:f1]
        assert f1 - f0 >= 10, model.key
        assert faces.min() >= v0 and faces.max() < v1, model.key
        assert set(np.unique(slots)) == set(range(model.num_slots)), model.key
    with pytest.raises(ValueError, match="read-only"):
        meshes.vertices[0] = 0


def test_each_model_stands_on_the_floor_centred_with_the_size_it_states(catalog):
    for model in catalog.models.values():
        v0, v1 = catalog.meshes.vertex_range[model.mesh]
        points = catalog.meshes.vertices[v0:v1]
        w, h, d = model.size_m
        np.testing.assert_allclose(points.min(axis=0), (-w / 2, 0, -d / 2), atol=1e-3, err_msg=model.key)
        np.testing.assert_allclose(points.max(axis=0), (w / 2, h, d / 2), atol=1e-3, err_msg=model.key)
        assert model.top_m is None or 0 <= model.top_m <= h + 1e-6, model.key
        assert model.elevation_m >= 0, model.key


def test_models_fit_under_a_ceiling_of_2_70_m(catalog):
    too_high = [m.key for m in catalog.models.values() if m.elevation_m + m.size_m[1] > 2.71]
    assert too_high == []


def test_recolouring_paints_the_main_slots_and_nothing_else(catalog):
    for model in catalog.models.values():
        if not model.recolorable:
            continue
        shipped, painted = catalog.materials(model.key), catalog.materials(model.key, "pink")
        changed = (painted.rgb != shipped.rgb).any(axis=1) | (painted.texture != shipped.texture)
        assert changed.any(), model.key
        np.testing.assert_array_equal(painted.rgb[changed], [PALETTE["pink"]] * int(changed.sum()))
        np.testing.assert_array_equal(painted.texture[changed] < 0, shipped.texture[changed] < 0)


def test_main_slots_are_those_of_the_curation_table_and_never_keys_blades_screens_tyres_glass_or_mirrors(
    catalog, document
):
    curation = json.loads((ASSETS / "curation.json").read_text())
    assert {"keys", "blade", "screen", "tyre", "tire", "glass", "mirror", "wheel"} <= set(curation["never_painted"])
    for entry, line in zip(document["models"], curation["models"], strict=True):
        painted = catalog.materials(entry["key"], "pink").rgb == PALETTE["pink"]
        for slot, is_pink in zip(entry["slots"], painted.all(axis=1), strict=True):
            if "parts" not in line:
                named = slot["material"] in line.get("main", ["paint"] if "shape" in line else [])
                assert slot["main"] == named, (entry["key"], slot["material"])
            if any(word in slot["material"].lower() for word in curation["never_painted"]):
                assert not is_pink, (entry["key"], slot["material"])


@pytest.mark.parametrize(
    "key, material", [("Blend Swap CC-0#pianoAQueue", "black keys"), ("Blend Swap CC-BY#piano", "Material.003")]
)
def test_the_black_keys_of_a_blue_piano_stay_black(catalog, document, key, material):
    slots = next(entry["slots"] for entry in document["models"] if entry["key"] == key)
    place = [slot["material"] for slot in slots].index(material)
    assert tuple(catalog.materials(key, "blue").rgb[place]) == (14, 14, 14)


def test_a_painted_texture_averages_to_its_colour(catalog):
    """The last level of a mip pyramid is the mean: grey, bright, so that the tint keeps its name."""
    painted = [catalog.materials(m.key, "yellow") for m in catalog.models.values() if m.recolorable]
    textures = {
        int(t)
        for row in painted
        for t, rgb in zip(row.texture, row.rgb, strict=True)
        if t >= 0 and tuple(rgb) == PALETTE["yellow"]
    }
    assert len(textures) > 20
    for row in textures:
        r, g, b = _texel(catalog.textures, row, level=int(catalog.textures.size_log2[row]))
        assert r == g == b and 180 < r < 245


def test_every_palette_colour_can_be_painted_and_as_shipped_is_the_default(catalog):
    sofa = catalog.models_of("sofa")[0].key
    for color, rgb in PALETTE.items():
        assert (catalog.materials(sofa, color).rgb == rgb).all(axis=1).any()
    np.testing.assert_array_equal(catalog.materials(sofa).rgb, catalog.materials(sofa, None).rgb)


def test_materials_given_out_are_copies(catalog):
    key = catalog.models_of("sofa")[0].key
    catalog.materials(key).rgb[:] = 7
    assert not (catalog.materials(key).rgb == 7).all()


def _texel(textures, row: int, *, level: int) -> tuple[int, int, int]:
    """First texel of a level, by the formula of the docstring."""
    s = int(textures.size_log2[row])
    texel = int(textures.texels[textures.offset[row] + (4 ** (s + 1) - 4 ** (s + 1 - level)) // 3])
    return texel & 255, texel >> 8 & 255, texel >> 16 & 255


def test_mip_levels_are_means_of_the_level_below(catalog):
    textures = catalog.textures
    s, start = int(textures.size_log2[5]), int(textures.offset[5])
    side = 1 << s
    level0 = textures.texels[start : start + side * side].reshape(side, side)
    level1 = textures.texels[start + side * side : start + side * side + side * side // 4].reshape(side // 2, -1)
    red = (level0 & 255).astype(float).reshape(side // 2, 2, side // 2, 2).mean(axis=(1, 3))
    assert np.abs(red - (level1 & 255)).max() <= 0.5
    assert (textures.texels >> 24 == 255).all()


def test_textures_end_where_the_next_begins(catalog):
    textures = catalog.textures
    texels = (4 ** (textures.size_log2.astype(np.int64) + 1) - 1) // 3
    np.testing.assert_array_equal(np.cumsum(texels)[:-1], textures.offset[1:])
    assert textures.offset[0] == 0 and texels.sum() == len(textures.texels)


def test_surfaces_cover_floor_wall_and_sky_and_paint_is_a_material_too(catalog):
    assert {surface.kind for surface in catalog.surfaces.values()} == {"floor", "wall", "sky"}
    floor = catalog.surface_material("wooden_floor")
    assert floor.texture[0] == catalog.surfaces["wooden_floor"].texture and tuple(floor.rgb[0]) == (255, 255, 255)
    paint = catalog.surface_material("#10a0ff")
    assert tuple(paint.rgb[0]) == (16, 160, 255) and paint.texture[0] == -1 and paint.unlit[0] == 0
    tinted = catalog.surface_material("loop_carpet#10a0ff")
    assert tuple(tinted.rgb[0]) == (16, 160, 255) and tinted.texture[0] == catalog.surfaces["loop_carpet"].texture


@pytest.mark.parametrize("name", ["velvet", "#12345", "#gggggg", "", "velvet#10a0ff", "loop_carpet#12", "loop_carpet#"])
def test_an_unknown_surface_is_refused(catalog, name):
    with pytest.raises(ValueError, match="#rrggbb"):
        catalog.surface_material(name)


def test_unknown_models_categories_and_colours_are_refused(catalog):
    with pytest.raises(ValueError, match="model_key.*no such"):
        catalog.materials("no such")
    with pytest.raises(ValueError, match=r"a class of the catalogue, got 'spaceship'"):
        catalog.models_of("spaceship")
    with pytest.raises(ValueError, match="black, white.*'mauve'"):
        catalog.materials(catalog.models_of("bed")[0].key, "mauve")


def test_attribution_names_every_model_with_its_creator_and_licence(document):
    rows = set((ASSETS / "ATTRIBUTION.md").read_text().splitlines())
    for entry in document["models"]:
        assert entry["creator"] and entry["license"]
        assert f"| {entry['key']} | {entry['category']} | {entry['creator']} | {entry['license']} |" in rows
    for entry in document["surfaces"]:
        assert f"| {entry['name']} | {entry['creator']} | {entry['license']} |" in rows


def test_the_shipped_pack_is_what_the_curation_table_lists(document):
    curation = json.loads((ASSETS / "curation.json").read_text())
    wanted = [c.get("key") or c.get("model") or "eqa#" + c["shape"].replace(" ", "-") for c in curation["models"]]
    assert [entry["key"] for entry in document["models"]] == wanted
    assert [entry["category"] for entry in document["models"]] == [c["category"] for c in curation["models"]]


def _copy(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for name in ("catalog.json", "pack.npz"):
        shutil.copy(ASSETS / name, folder / name)
    return folder


def test_a_cut_off_pack_is_refused(tmp_path):
    folder = _copy(tmp_path)
    data = (folder / "pack.npz").read_bytes()
    (folder / "pack.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"make_assets\.py"):
        load_catalog(folder)


@pytest.mark.parametrize(
    "array, value", [("faces", 65535), ("face_slot", 200), ("vertex_range", 7), ("image_offset", 3)]
)
def test_a_pack_with_indices_out_of_range_is_refused(tmp_path, array, value):
    folder = _copy(tmp_path)
    with np.load(folder / "pack.npz") as pack:
        arrays = {name: pack[name].copy() for name in pack.files}
    arrays[array].reshape(-1)[-1] = value
    np.savez(folder / "pack.npz", **arrays)
    with pytest.raises(ValueError, match=r"make_assets\.py"):
        load_catalog(folder)


def test_a_pack_of_another_version_or_none_is_refused(tmp_path):
    folder = _copy(tmp_path)
    document = json.loads((folder / "catalog.json").read_text())
    (folder / "catalog.json").write_text(json.dumps({**document, "version": 99}))
    with pytest.raises(ValueError, match="expected format eqa-catalog version 1, got eqa-catalog version 99"):
        load_catalog(folder)
    with pytest.raises(ValueError, match=r"make_assets\.py"):
        load_catalog(tmp_path / "nowhere")
    (folder / "catalog.json").write_text("[]")
    with pytest.raises(ValueError, match=r"make_assets\.py"):
        load_catalog(folder)
