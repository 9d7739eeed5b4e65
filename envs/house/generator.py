"""`generate_house` and `make_houses`: houses as a function of generator version, style, seed, split and index.

Splits and styles draw from disjoint streams, so no house is in two of them, and a larger set contains the smaller ones.
The styles `paper` (300 to 800 m2) and `everyday` (40 to 250 m2) take turns in `mixed`: its house n is house n of
`paper` where n is even, and of `everyday` where n is odd. It is the same file.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from eqa.envs.files import code_fingerprint, file_fingerprint, fingerprint
from eqa.envs.house.catalog import ASSETS, load_catalog
from eqa.envs.house.everyday_plan import draw_everyday_plan, draw_height_m
from eqa.envs.house.everyday_rows import everyday_rules
from eqa.envs.house.furnish import furnish, furnishing_rules
from eqa.envs.house.house import House
from eqa.envs.house.plan import HEIGHT_M, draw_plan, room_rules
from eqa.envs.house.random_stream import Dice
from eqa.envs.house.validate import validate
from eqa.envs.workers import in_workers

SPLITS = ("train", "val", "test")
PAPER, MIXED = "paper", "mixed"
STYLES = (PAPER, "everyday", MIXED)
HUMAN = "human"  # a further split, for testing only: homes that people designed, shipped with the project
HUMAN_HOMES = ASSETS / "human"


def _digest() -> str:
    """8 digits that change with all that a house depends on: code, rules, and the furniture's sizes and colours."""
    here = Path(__file__).parent
    names = ("random_stream", "plan", "openings", "geometry", "room_space", "placing", "furnish", "generator")
    names += ("walk_grid", "support", "furnishing_rules")
    code = [code_fingerprint(here / f"{name}.py") for name in names]
    rules = [json.dumps(document) for document in (room_rules(), everyday_rules(), furnishing_rules())]  # order counts
    plans = ("canvas", "surfaces", "everyday_rows", "everyday_plan", "everyday_openings")
    code += [code_fingerprint(here / f"{name}.py") for name in plans]
    return fingerprint([code, rules, file_fingerprint(ASSETS / "catalog.json")])[:8]


GENERATOR = f"rooms-{_digest()}"


def house_id(split: str, index: int) -> str:
    return f"{split}-{index:05d}"


def identity_of(seed: int, style: str = PAPER) -> str:
    """All that the houses of a seed and style depend on. ValueError for a style that is not one of STYLES."""
    if style not in STYLES:
        raise ValueError(f"style: expected one of {', '.join(STYLES)}, got {style!r}")
    return f"{GENERATOR} {style} seed {seed}"


def style_of(style: str, index: int) -> str:
    """The style of house `index`: `style`, or that whose turn it is in `mixed`. ValueError as `identity_of`."""
    identity_of(0, style)
    return STYLES[index % 2] if style == MIXED else style


def house_path(root: Path, *, seed: int, split: str, index: int, style: str = PAPER) -> Path:
    """Path of a house's file under the data root, in the folder of its own style."""
    folder = Path(root) / "houses" / f"{GENERATOR}-seed{seed}" / style_of(style, index)
    return folder / split / f"{house_id(split, index)}.json"


def generate_house(*, seed: int, split: str, index: int, style: str = PAPER) -> House:
    """A furnished, valid house. ValueError for a split or style that is unknown, or a negative number."""
    if split not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    if seed < 0 or index < 0:
        raise ValueError(f"seed and index: expected whole numbers from 0, got {seed} and {index}")
    style = style_of(style, index)
    stream = [seed, SPLITS.index(split), index]
    dice = Dice(stream if style == PAPER else [*stream, STYLES.index(style)])
    height_m = HEIGHT_M if style == PAPER else draw_height_m(dice)
    rooms, walls, openings = draw_plan(dice) if style == PAPER else draw_everyday_plan(dice)
    empty = House(house_id(split, index), identity_of(seed, style), height_m, rooms, walls, openings)
    house = furnish(dice, empty, load_catalog())
    validate(house)
    return house


def human_homes() -> list[Path]:
    """Files of the split "human", made by `scripts/import_home.py`; authors in `assets/human/ATTRIBUTION.md`."""
    return sorted(HUMAN_HOMES.glob(f"{HUMAN}-*.json"))


def load_house(root: Path, *, seed: int, split: str, index: int, style: str = PAPER) -> House:
    """Reads a house that `make_houses` wrote, or one of split "human", whatever the seed and style.

    ValueError where there is none or it is damaged.
    """
    if split == HUMAN:
        paths = human_homes()
        if not 0 <= index < len(paths):
            raise ValueError(f"index: expected 0 to {len(paths) - 1} for the split {HUMAN!r}, got {index}")
        return House.load(paths[index])
    path = house_path(root, seed=seed, split=split, index=index, style=style)
    if not path.is_file():
        raise ValueError(f"{path}: no such house; python scripts/make_houses.py makes it")
    return House.load(path)


def make_houses(
    root: Path,
    *,
    split: str,
    count: int,
    seed: int = 0,
    style: str = PAPER,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Houses 0 to count-1 of a split as files under `root`; whole ones that exist are kept.

    `progress(done, total)` is called after each house. A killed call goes on where it was when it is made again.
    """
    paths = [house_path(root, seed=seed, split=split, index=index, style=style) for index in range(count)]
    missing = [index for index, path in enumerate(paths) if not _is_whole(path)]
    done = count - len(missing)
    progress(done, count)
    for _ in in_workers(partial(_make_one, root, seed, style, split), missing, workers=workers):
        done += 1
        progress(done, count)
    return paths


def _is_whole(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        House.load(path)
    except ValueError:
        return False
    return True


def _make_one(root: Path, seed: int, style: str, split: str, index: int) -> None:
    house = generate_house(seed=seed, split=split, index=index, style=style)
    house.save(house_path(root, seed=seed, split=split, index=index, style=style))
