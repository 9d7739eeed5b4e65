"""Turns homes drawn with Sweet Home 3D into house files, and reports interpretations and omissions.

python scripts/import_home.py HOME.sh3d [...] --out homes
python scripts/check_house.py homes/*.json --overlaps --preview previews

Takes `.sh3d` files and the `Home.xml` in them. Only the ground level is read. --name human calls the houses
human-00000, human-00001, ...; the default is the names of their files.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from rich.table import Table

from eqa.envs.house.house import House
from eqa.envs.house.sweethome.importer import import_home
from eqa.envs.house.sweethome.names import Report
from eqa.envs.house.validate import overlapping, validate
from eqa.envs.progress import console


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("homes", nargs="+", type=Path, help=".sh3d files or Home.xml")
    parser.add_argument("--out", type=Path, default=Path("homes"), help="folder for the house files")
    parser.add_argument("--name", help="call the houses NAME-00000, NAME-00001, ... instead of as their files")
    parser.add_argument("--all", action="store_true", help="list also the pieces that were placed as they are")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for number, path in enumerate(arguments.homes):
        house_id = f"{arguments.name}-{number:05d}" if arguments.name else path.stem
        try:
            house, report = import_home(path, house_id)
            validate(house, overlaps=True)
        except ValueError as error:
            console.print(f"{path}: {error}" if str(path) not in str(error) else str(error), style="red", markup=False)
            failed = True
            continue
        print_report(path, house, report, placed=arguments.all)
        written = arguments.out / f"{house_id}.json"
        house.save(written)
        console.print(f"{written}\n", markup=False)
    sys.exit(failed)


def print_report(path: Path, house: House, report: Report, *, placed: bool) -> None:
    counts = Counter(what for _, what, _ in report.pieces)
    console.rule(path.name)
    _table("rooms", ("label", "type", "by"), report.rooms)
    _table(f"doors and windows in {len(house.walls)} walls", ("drawn", "became", ""), report.openings)
    told = [row for row in report.pieces if placed or row[1] != "placed" or row[2]]
    title = ", ".join(f"{counts[what]} {what}" for what in ("placed", "substituted", "left out"))
    _table(f"pieces: {title}", ("piece", "", "why"), told)
    for note in [*report.notes, *(f"drawn into each other: {pair}" for pair in overlapping(house))]:
        console.print(f"- {note}", markup=False)


def _table(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A table with equal rows once, with their number."""
    console.print(title, style="bold", markup=False)
    if not rows:
        return
    table = Table()
    for heading in ("", *headings):
        table.add_column(heading)
    for row, count in Counter(rows).items():
        table.add_row(str(count) if count > 1 else "", *row)
    console.print(table)


if __name__ == "__main__":
    main()
