"""`draw`: the statistics of `scripts/house_stats.py` as plots. Bars are the houses, dots the homes of people."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np

from eqa.envs.annotations import PALETTE
from eqa.envs.files import atomic_write
from eqa.envs.house.catalog import QUERYABLE
from eqa.envs.house.statistics import Measured, RoomFacts, of_type, paints_of, pooled, rooms_of, shares_with

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

OURS, PEOPLE = "#4c72b0", "#c44e52"
MOST_BARS = 12
FONT_PT = 11
SPREADS = {"area": "m2", "rooms": "a house", "objects": "a house", "walking distance": "m", "sight line": "m"}
FURNISHED_ROOMS = ("bedroom", "living room")  # with their things


def draw(houses: Sequence[Measured], people: Sequence[Measured], path: Path) -> None:
    """Draws spreads of figures; medians by room type; the things of bedrooms and living rooms; things and colours."""
    with plt.rc_context({"font.size": FONT_PT}):
        figure, axes = plt.subplots(3, 4, figsize=(20, 15), layout="constrained")
        cells = iter(axes.flat)
        for name, unit in SPREADS.items():
            _spread(next(cells), pooled(houses, name), pooled(people, name), name, unit)
        _of_types(next(cells), houses, people, "area of a room, median, m2", lambda room: room.area_m2)
        _of_types(next(cells), houses, people, "furnished share, median, %", lambda room: 100 * room.furnished)
        for kind in FURNISHED_ROOMS:
            ours, theirs = (
                {name: 100 * share for name, share in shares_with(of_type(rooms_of(some)).get(kind, [])).items()}
                for some in (houses, people)
            )
            _bars(next(cells), ours, theirs, f"% of {kind}s with ...")
        for title, is_asked in (("things asked about, a house", True), ("other things, a house", False)):
            _bars(next(cells), *(_things(some, is_asked) for some in (houses, people)), title)
        _colors(next(cells), houses, people)
        figure.legend(*_key(), loc="outside upper right", ncols=2, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as aside:
            figure.savefig(aside, dpi=80, format="png")
        plt.close(figure)


def _spread(axis: Axes, ours: np.ndarray, theirs: np.ndarray, name: str, unit: str) -> None:
    axis.hist(ours, bins=24, color=OURS)
    axis.plot(np.median(theirs), 0, "o", color=PEOPLE, markersize=9, clip_on=False, zorder=3)
    axis.set(title=name, xlabel=unit, yticks=[])


def _of_types(
    axis: Axes,
    houses: Sequence[Measured],
    people: Sequence[Measured],
    title: str,
    value: Callable[[RoomFacts], float],
) -> None:
    ours, theirs = (
        {kind: float(np.median([value(room) for room in rooms])) for kind, rooms in of_type(rooms_of(some)).items()}
        for some in (houses, people)
    )
    _bars(axis, ours, theirs, title)


def _things(houses: Sequence[Measured], is_asked: bool) -> dict[str, float]:
    counts = sum((house.things for house in houses), Counter())
    return {name: count / len(houses) for name, count in counts.most_common() if (name in QUERYABLE) == is_asked}


def _bars(axis: Axes, ours: dict[str, float], theirs: dict[str, float], title: str) -> None:
    """The first MOST_BARS of ours, from the top down."""
    names = list(ours)[:MOST_BARS]
    axis.barh(names, [ours[name] for name in names], color=OURS)
    known = [name for name in names if name in theirs]
    axis.plot([theirs[name] for name in known], known, "o", color=PEOPLE, markersize=8)
    axis.invert_yaxis()
    axis.set(title=title)


def _colors(axis: Axes, houses: Sequence[Measured], people: Sequence[Measured]) -> None:
    """Bars in the colours that they count."""
    shares = []
    for some in (houses, people):
        counts = sum(paints_of(some).values(), Counter())
        shares.append({name: 100 * count / counts.total() for name, count in counts.most_common()})
    _bars(axis, *shares, "things by colour, %")
    for bar, name in zip(axis.patches, shares[0], strict=False):
        bar.set(facecolor=np.array(PALETTE[name]) / 255, edgecolor="#555555")


def _key() -> tuple[list, list[str]]:
    bar = plt.Rectangle((0, 0), 1, 1, color=OURS)
    dot = plt.Line2D([], [], marker="o", color=PEOPLE, linestyle="")
    return [bar, dot], ["these houses", "homes that people designed (histograms: their median)"]
