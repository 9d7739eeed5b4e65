"""`generate_city`: a city as a function of generator version, seed, split and index, the same on every machine.

Splits draw from disjoint streams. So no city is in two of them, and a larger set contains the smaller ones.
"""

from dataclasses import replace
from pathlib import Path

from eqa.envs.city.buildings import ShopNames, fill_block
from eqa.envs.city.catalog import ASSETS
from eqa.envs.city.city import Building, City, Shop
from eqa.envs.city.props import draw_props
from eqa.envs.city.streets import draw_streets
from eqa.envs.city.validate import validate
from eqa.envs.files import code_fingerprint, file_fingerprint, fingerprint
from eqa.envs.house.random_stream import Dice

SPLITS = ("train", "val", "test")
_STREAM = 0x0C17  # keeps cities apart from houses of the same seed


def _digest() -> str:
    """8 digits that change with all that a city depends on: code, and the sizes of the pack."""
    here = Path(__file__).parent
    names = ("city", "names", "streets", "buildings", "props", "generator")
    code = [code_fingerprint(here / f"{name}.py") for name in names]
    code.append(code_fingerprint(here.parent / "house" / "random_stream.py"))
    return fingerprint([code, file_fingerprint(ASSETS / "catalog.json")])[:8]


GENERATOR = f"cities-{_digest()}"


def city_id(split: str, index: int) -> str:
    return f"city-{split}-{index:05d}"


def parse_city_id(scene_id: str) -> tuple[str, int]:
    """Split and index of an id such as city-train-00003; ValueError for an id that no city has."""
    word, _, rest = scene_id.partition("-")
    split, _, digits = rest.partition("-")
    if word != "city" or split not in SPLITS or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"city {scene_id!r}: expected an id such as city-train-00003, of the splits {SPLITS}")
    return split, int(digits)


def identity_of(seed: int) -> str:
    """All that the cities of a seed depend on."""
    return f"{GENERATOR} seed {seed}"


def generate_city(split: str, index: int, *, seed: int) -> City:
    """A valid city. ValueError for a split that is unknown, or a negative number."""
    if split not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    if seed < 0 or index < 0:
        raise ValueError(f"seed and index: expected whole numbers from 0, got {seed} and {index}")
    dice = Dice([seed, SPLITS.index(split), index, _STREAM])
    streets, blocks, rect = draw_streets(dice)
    names = ShopNames(dice)
    buildings: list[Building] = []
    shops: list[Shop] = []
    for number, block in enumerate(blocks):
        if block.kind == "block":
            some, theirs = fill_block(dice, block, number, names, len(buildings))
            buildings += some
            shops += theirs
    props = draw_props(dice, streets, blocks, buildings)
    city = _numbered(
        City(
            city_id(split, index),
            identity_of(seed),
            rect,
            streets,
            blocks,
            tuple(buildings),
            tuple(shops),
            tuple(props),
        )
    )
    validate(city)
    return city


def _numbered(city: City) -> City:
    """Gives every thing its instance id, from 1: parks, buildings, shops with their signs, props."""
    parks = [k for k, block in enumerate(city.blocks) if block.kind == "park"]
    number = {k: 1 + place for place, k in enumerate(parks)}
    blocks = tuple(replace(block, id=number.get(k, 0)) for k, block in enumerate(city.blocks))
    first = 1 + len(parks)
    buildings = tuple(replace(one, id=first + k) for k, one in enumerate(city.buildings))
    first += len(buildings)
    shops = tuple(replace(one, id=first + 2 * k, sign_id=first + 2 * k + 1) for k, one in enumerate(city.shops))
    first += 2 * len(shops)
    props = tuple(replace(one, id=first + k) for k, one in enumerate(city.props))
    return replace(city, blocks=blocks, buildings=buildings, shops=shops, props=props)
