"""Generated houses for tests, each made once."""

import functools

from envs.house.build import build_scene
from envs.house.catalog import load_catalog
from envs.house.generator import generate_house
from envs.house.house import House
from envs.house.scene import Scene


@functools.cache
def house_and_scene(seed: int, index: int) -> tuple[House, Scene]:
    """House `index` of the training split. Shared, so not to be changed."""
    house = generate_house(seed=seed, split="train", index=index)
    return house, build_scene(house, load_catalog())
