"""Drawn textures: they repeat without a seam, and the shipped ones are those that the script draws."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from eqa.envs.house.catalog import ASSETS, load_catalog
from eqa.scripts.assets.textures import draw, rearranged

LINES = [line for line in json.loads((ASSETS / "curation.json").read_text())["surfaces"] if "pattern" in line]
NAMES = [line["name"] for line in LINES]


def shipped(name: str) -> np.ndarray:
    """The texture (S, S, 3) of a surface in the catalogue."""
    textures, row = load_catalog().textures, load_catalog().surfaces[name].texture
    side = 1 << int(textures.size_log2[row])
    packed = textures.texels[textures.offset[row] :][: side * side].reshape(side, side, 1)
    return (packed >> np.array([0, 8, 16], np.uint32) & 255).astype(float)


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image).astype(float)


@pytest.mark.parametrize("name", NAMES)
def test_a_drawn_texture_goes_on_at_its_edges_as_it_does_inside(name):
    for image in (shipped(name), shipped(name).swapaxes(0, 1)):
        steps = np.abs(np.diff(image, axis=1, append=image[:, :1])).mean(axis=(0, 2))
        assert steps[-1] <= 1.15 * steps[:-1].max() + 2  # levels that WebP may change


@pytest.mark.parametrize("name", ["concrete", "cut_carpet", "small_tiles", "leafy_paper"])
def test_the_shipped_texture_is_what_the_script_draws(name):
    line = LINES[NAMES.index(name)]
    png, size_m = draw(line)
    assert draw(line)[0] == png
    assert load_catalog().surfaces[name].size_m == pytest.approx(size_m)
    assert np.abs(pixels(png) - shipped(name)).mean() < 4  # WebP


def test_planks_do_not_come_again_within_their_texture():
    """A repeat would make a texture look like itself moved by its distance; the farther half is searched for one."""
    for name in ("old_wooden_floor", "oak_planks", "pale_planks", "grey_planks"):
        image = shipped(name).mean(axis=2)
        spectrum = np.abs(np.fft.fft2(image - image.mean())) ** 2
        alike = np.fft.ifft2(spectrum).real / spectrum.mean()
        far = slice(len(image) // 4, 3 * len(image) // 4)
        assert alike[far, far].max() < 0.75, name  # joints at the same distances give 0.6


def test_a_sheet_is_laid_from_the_tiles_of_a_picture():
    tiles = np.zeros((4, 8, 3), np.uint8)
    tiles[:, :4], tiles[:, 4:] = 80, 160
    with io.BytesIO() as file:
        Image.fromarray(tiles).save(file, "PNG")
        sheet = pixels(rearranged(file.getvalue(), cells=(2, 1), count=(8, 8), side_px=32, seed=1))
    assert sheet.shape == (32, 32, 3)
    levels = sheet.reshape(8, 4, 8, 4, 3).mean(axis=(1, 3, 4))
    assert np.ptp(sheet.reshape(8, 4, 8, 4, 3), axis=(1, 3)).max() == 0
    assert {80, 160} == set(np.where(levels < 120, 80, 160).ravel())
    assert ((np.abs(levels - 80) <= 5) | (np.abs(levels - 160) <= 9)).all()


def test_an_unknown_pattern_is_refused():
    with pytest.raises(ValueError, match=r"pattern: expected one of planks, .*, got 'felt'"):
        draw({"name": "x", "kind": "floor", "pattern": "felt", "size_m": [1, 1], "side_px": 16, "seed": 1})
