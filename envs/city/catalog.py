"""The street pack: vehicles, benches and bins of a city, most of them in two levels of detail.

`scripts/make_assets.py --curation envs/city/assets/curation.json --out envs/city/assets` builds it from the Sweet Home
3D libraries (authors and licences: `envs/city/assets/ATTRIBUTION.md`).
"""

import functools
from pathlib import Path

from eqa.envs.city.city import CLASSES
from eqa.envs.rendering.assets import Catalog, read_catalog

ASSETS = Path(__file__).parent / "assets"
MIDDLE = "@middle"  # ends the key of the same model with fewer triangles


@functools.cache
def load_street_catalog(folder: Path = ASSETS) -> Catalog:
    """Reads the pack. ValueError if it is missing, damaged or of another version."""
    remedy = "python scripts/make_assets.py --curation envs/city/assets/curation.json --out envs/city/assets DEBS rebuilds it"
    return read_catalog(folder, CLASSES, remedy=remedy)
