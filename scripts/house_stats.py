"""Prints and draws statistics of a set of houses, beside those of the homes that people designed and published ones.

python scripts/house_stats.py --split train --count 96 --out previews

The paper's houses are gone. Its text gives the interior's area (300 to 800 m2), the four rooms of every house, and the
room types and objects of its questions (Das et al. 2018, Sec. 3; SUNCG has 404 k rooms on 49 k floors). Distances are
between random places. A sight line is the farthest visible distance at eye height in a random view. A room's area is
that of its polygon; its furnished share is the share of its floor under things that stand on it.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from eqa.envs.files import data_root
from eqa.envs.house.catalog import QUERYABLE
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, STYLES, human_homes, make_houses
from eqa.envs.house.house import House
from eqa.envs.house.statistics import (
    Measured,
    RoomFacts,
    measure,
    of_type,
    paints_of,
    pooled,
    rooms_of,
    shares_of_pairs,
    shares_with,
)
from eqa.envs.progress import absolute, console, progress
from eqa.scripts.arguments import whole
from eqa.scripts.house_plots import draw

MOST_ROWS, MOST_PAIRS, MOST_NAMED = 12, 15, 8
SIDES = ("ours", "in people's homes")
LINES = (  # name, unit of the value, the paper's value
    ("area", "m2", "300 to 800"),
    ("rooms", "", "about 8"),
    ("area of a room", "m2", "-"),
    ("objects", "", "-"),
    ("objects that are asked about", "", "-"),
    ("distinct categories asked about", "", "of 50"),
    ("walking distance", "m", "-"),
    ("sight line", "m", "-"),
    ("triangles", "1000", "-"),
)
SOURCES = (
    "[1] Das et al. 2018, Sec. 3.1; means are quotients of its totals. "
    "[2] Deitke et al. 2022: weights of the 16 room specifications in its code (github.com/allenai/procthor, 3a9c6ee). "
    "[3] Khanna et al. 2023, abstract. "
    "[4] Statistics Norway, dwellings by utility floor space, 1 January 2008; interpolated."
)


def _new_table(title: str, *headings: str, caption: str | None = None, texts: Sequence[str] = ()) -> Table:
    out = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for place, heading in enumerate(headings):
        out.add_column(heading, justify="left" if not place or heading in texts else "right")
    return out


def table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """One line a figure: the mean, the range of nine values in ten, and the median in people's homes."""
    out = _new_table(f"{len(houses)} houses", "", "mean", "5 %", "median", "95 %", "people's, median", "paper")
    for name, unit, paper in LINES:
        values = pooled(houses, name)
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        figures = (f"{value:.1f}" for value in (values.mean(), low, middle, high, np.median(pooled(people, name))))
        out.add_row(
            f"{name} ({unit})" if unit else name, *figures, paper if paper == "-" else f"{paper} {unit}".strip()
        )
    return out


def room_table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """One line a room type: how many a house has, area, furnished share and things; people's behind the bars."""
    headings = ("rooms a house", "area, m2", "furnished, %", "things")
    out = _new_table(
        "rooms: means of the first column, medians of the others; ours | in people's homes", "room type", *headings
    )
    ours, theirs = of_type(rooms_of(houses)), of_type(rooms_of(people))
    for kind, rooms in list(ours.items())[:MOST_ROWS]:
        cells = zip(_of_rooms(rooms, len(houses)), _of_rooms(theirs.get(kind, []), len(people)), strict=True)
        out.add_row(kind, *(f"{own} | {other}" for own, other in cells))
    return out


def _of_rooms(rooms: Sequence[RoomFacts], num_houses: int) -> list[str]:
    if not rooms:
        return ["-"] * 4
    areas, shares = np.median([(room.area_m2, 100 * room.furnished) for room in rooms], axis=0)
    things = np.median([room.things.total() for room in rooms])
    return [f"{len(rooms) / num_houses:.2f}", f"{areas:.0f}", f"{shares:.0f}", f"{things:.0f}"]


def contents_table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """One line a room type: the categories that most of its rooms have, with the share of rooms in percent."""
    out = _new_table("share of rooms with ..., %", "room type", *SIDES, texts=SIDES)
    ours, theirs = of_type(rooms_of(houses)), of_type(rooms_of(people))
    for kind, rooms in list(ours.items())[:MOST_ROWS]:
        out.add_row(kind, *(_shares(shares_with(some)) for some in (rooms, theirs.get(kind, []))))
    return out


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in list(shares.items())[:MOST_NAMED]) or "-"


def pair_table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """The pairs of categories that most often stand in one room."""
    out = _new_table("pairs in one room, % of rooms", "pair", "ours", "people's")
    theirs = shares_of_pairs(rooms_of(people))
    for pair, share in list(shares_of_pairs(rooms_of(houses)).items())[:MOST_PAIRS]:
        out.add_row(" + ".join(pair), f"{100 * share:.0f}", f"{100 * theirs.get(pair, 0):.0f}")
    return out


def color_table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """One line a category: its most frequent colours, percent of the things that have one."""
    out = _new_table("colours, %", "category", *SIDES, texts=SIDES)
    theirs = paints_of(people)
    frequent = [name for name in paints_of(houses) if name in QUERYABLE][:MOST_ROWS]
    frequent += [name for name in ("toilet",) if name not in frequent]
    for category in frequent:
        out.add_row(category, *(_colors(counts.get(category, Counter())) for counts in (paints_of(houses), theirs)))
    return out


def _colors(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {100 * count / counts.total():.0f}" for name, count in counts.most_common(5)) or "-"


def published_table(houses: Sequence[Measured], people: Sequence[Measured]) -> Table:
    """Figures that others published of their houses, with sources."""
    published = {
        "rooms a house": "9.0 SUNCG [1]; 4.0 ProcTHOR-10K [2]",
        "bedrooms a house": "1.3 ProcTHOR-10K [2]",
        "bathrooms a house": "1.0 ProcTHOR-10K [2]",
        "kitchens a house": "0.8 ProcTHOR-10K [2]",
        "living rooms a house": "1.0 ProcTHOR-10K [2]",
        "area of a house, m2": "300 to 800 kept for EQA [1]; 107 in Norway, median [4]",
        "objects a house": "111 SUNCG [1]",
        "objects a room": "12 SUNCG [1]",
        "categories of objects": "80 SUNCG [1]",
        "models of objects": "2644 SUNCG [1]; 18 656 HSSD [3]",
    }
    headings = ("ours", "people's", "published")
    out = _new_table("published figures: means and counts", "", *headings, caption=SOURCES, texts=headings[-1:])
    figures = [_comparable(some) for some in (houses, people)]
    for name, others in published.items():
        out.add_row(name, *(f"{some[name]:.3g}" for some in figures), others)
    return out


def _comparable(houses: Sequence[Measured]) -> dict[str, float]:
    rooms = rooms_of(houses)
    figures = {"rooms a house": len(rooms) / len(houses)}
    for kind in ("bedroom", "bathroom", "kitchen", "living room"):
        figures[f"{kind}s a house"] = sum(room.type == kind for room in rooms) / len(houses)
    things = sum((house.things for house in houses), Counter())
    return figures | {
        "area of a house, m2": float(pooled(houses, "area").mean()),
        "objects a house": things.total() / len(houses),
        "objects a room": sum(room.things.total() for room in rooms) / len(rooms),
        "categories of objects": len(things),
        "models of objects": len(frozenset().union(*(house.models for house in houses))),
    }


def tables(houses: Sequence[Measured], people: Sequence[Measured]) -> list[Table]:
    make = (table, room_table, contents_table, pair_table, color_table, published_table)
    return [of_both(houses, people) for of_both in make]


def chosen(arguments: argparse.Namespace) -> list[Path]:
    """Files of the chosen houses, generated where they are missing."""
    if arguments.split == HUMAN:
        return human_homes()[: arguments.count]
    with progress(f"houses, {arguments.split}", arguments.count) as advance:
        return make_houses(
            data_root(),
            split=arguments.split,
            count=arguments.count,
            seed=arguments.seed,
            style=arguments.style,
            progress=absolute(advance),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=PAPER, help="of the houses (default: paper)")
    parser.add_argument("--count", type=whole(1), default=96)
    parser.add_argument("--out", type=Path, default=Path("previews"))
    arguments = parser.parse_args()
    paths, homes = chosen(arguments), human_homes()
    measured = []
    with progress("houses measured", len(paths) + len(homes)) as advance:
        for path in [*paths, *homes]:
            measured.append(measure(House.load(path)))
            advance(1)
    houses, people = measured[: len(paths)], measured[len(paths) :]
    for one in tables(houses, people):
        console.print(one)
    prefix = "" if arguments.style == PAPER else f"{arguments.style}_"
    picture = arguments.out / f"{prefix}{arguments.split}_{len(paths)}.png"
    draw(houses, people, picture)
    console.print(picture, soft_wrap=True)


if __name__ == "__main__":
    main()
