"""The furniture catalogue of houses: its classes, and `load_catalog`, which reads the shipped pack.

`scripts/make_assets.py` builds the pack in `envs/house/assets/` from the Sweet Home 3D libraries (authors and licences:
`envs/house/assets/ATTRIBUTION.md`).
"""

import functools
from pathlib import Path

from eqa.envs.rendering.assets import Catalog, read_catalog

ASSETS = Path(__file__).parent / "assets"

BUILDING = ("outside", "wall", "floor", "ceiling", "door", "window")

CONTEXT = (
    "air conditioner", "armchair", "bedside table", "bench", "bicycle", "bidet", "book", "car", "cardboard box",
    "chair", "clock", "clothes rack", "crib", "curtain", "deck chair", "exercise bench", "exercise bike",
    "filing cabinet", "fire extinguisher", "flowers", "guitar", "kitchen cabinet", "lamp", "laundry basket",
    "lawn mower", "motorbike", "office chair", "parasol", "phone", "picture frame", "plant", "printer", "punching bag",
    "range hood", "skateboard", "step ladder", "stool", "suitcase", "table tennis table", "teddy bear", "toaster",
    "toilet paper", "trash can", "treadmill", "water heater", "workbench",
)  # fmt: skip

QUERYABLE: tuple[str, ...] = (
    "rug", "piano", "dryer", "computer", "fireplace", "whiteboard", "bookshelf", "wardrobe cabinet", "pan", "toilet",
    "plates", "ottoman", "fish tank", "dishwasher", "microwave", "water dispenser", "bed", "table", "mirror",
    "tv stand", "stereo set", "chessboard", "playstation", "vacuum cleaner", "cup", "xbox", "heater", "bathtub",
    "shoe rack", "range oven", "refrigerator", "coffee machine", "sink", "sofa", "kettle", "dresser", "knife rack",
    "towel rack", "loudspeaker", "utensil holder", "desk", "vase", "shower", "washer", "fruit bowl", "television",
    "dressing table", "cutting board", "ironing board", "food processor",
)  # fmt: skip

CLASSES: tuple[str, ...] = BUILDING + CONTEXT + QUERYABLE


@functools.cache
def load_catalog(folder: Path = ASSETS) -> Catalog:
    """Reads the pack (below a second). ValueError if it is missing, damaged or of another version."""
    return read_catalog(folder, CLASSES, remedy="python scripts/make_assets.py rebuilds it")
