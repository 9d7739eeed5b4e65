"""Checks hand-written house files: prints the first fault, or the contents, and draws a preview.

python scripts/check_house.py my-house.json --preview previews

The format of a house file is in docs/house-format.md.
"""

import argparse
import sys
from pathlib import Path

from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.geometry import signed_area
from eqa.envs.house.house import House
from eqa.envs.house.validate import overlapping, validate
from eqa.envs.progress import console
from eqa.scripts.arguments import whole
from eqa.scripts.preview import contact_sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--overlaps", action="store_true", help="let objects run into each other, as people draw them")
    parser.add_argument("--preview", type=Path, help="folder for a picture of each house")
    parser.add_argument("--views", type=whole(1), default=12, help="first-person views in each picture")
    arguments = parser.parse_args()
    failed = False
    for path in arguments.files:
        try:
            house = House.load(path)
            validate(house, overlaps=arguments.overlaps)
            console.print(f"{path}: {summary(house)}", markup=False)
        except ValueError as error:
            console.print(f"{path}: {error}" if str(path) not in str(error) else str(error), style="red", markup=False)
            failed = True
            continue
        for pair in overlapping(house):
            console.print(f"  {pair}", style="yellow", markup=False)
        if arguments.preview:
            arguments.preview.mkdir(parents=True, exist_ok=True)
            picture = arguments.preview / f"{path.stem}.png"
            contact_sheet(house, arguments.views).save(picture)
            console.print(f"  {picture}", markup=False)
    sys.exit(failed)


def summary(house: House) -> str:
    catalog = load_catalog()
    floor = build_floor(house, build_scene(house, catalog), catalog.meshes)
    area = sum(signed_area(room.polygon) for room in house.rooms)
    walked = floor.num_free * floor.cell_m**2
    parts = (len(house.rooms), "rooms", len(house.walls), "walls", len(house.openings), "openings")
    counted = " ".join(str(part) for part in (*parts, len(house.objects), "objects"))
    return f"good: {counted}, {area:.0f} m2, of which an agent can reach {walked:.0f} m2"


if __name__ == "__main__":
    main()
