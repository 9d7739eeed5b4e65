"""Generated houses for tests, each made once."""

import functools

from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import generate_house
from eqa.envs.house.house import House
from eqa.envs.rendering.scene import Scene


@functools.cache
def house_and_scene(seed: int, index: int) -> tuple[House, Scene]:
    """House `index` of the training split. It is shared, so do not change it."""
    house = generate_house(seed=seed, split="train", index=index)
    return house, build_scene(house, load_catalog())
