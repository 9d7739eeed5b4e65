"""Prints and draws statistics of a set of houses, beside the known ones of the paper's houses.

python scripts/house_stats.py --split train --count 96 --out previews

The paper's houses are gone. Its text gives the interior's area (300 to 800 m2), the four rooms of every house, and the
room types and objects of its questions (Das et al. 2018, Sec. 3; SUNCG has 404 k rooms on 49 k floors). Distances are
between random places. A sight line is the farthest visible distance at eye height in a random view.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float64
from rich.table import Table

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.files import atomic_write, data_root
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import QUERYABLE, load_catalog
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, STYLES, human_homes, make_houses
from eqa.envs.house.geometry import signed_area
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import Floor, distance_fields
from eqa.envs.progress import absolute, console, progress
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Meshes, Scene
from eqa.envs.simulator import Goal
from eqa.scripts.arguments import whole

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PLACES = 20  # places of each house for distances and sight lines
LINES = (  # name, unit of the value, the paper's value
    ("area", "m2", "300 to 800"),
    ("rooms", "", "about 8"),
    ("objects", "", "-"),
    ("objects that are asked about", "", "-"),
    ("distinct categories asked about", "", "of 50"),
    ("walking distance", "m", "-"),
    ("sight line", "m", "-"),
    ("triangles", "1000", "-"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One house: `values` by the names of LINES; several of distances and sight lines, one of the others."""

    values: dict[str, Float64[np.ndarray, " V"]]
    room_types: Counter[str]
    categories: Counter[str]
    colors: Counter[str]


def measure(house: House) -> Measured:
    """The figures of a house; they depend on the house alone."""
    catalog = load_catalog()
    scene = build_scene(house, catalog)
    floor = build_floor(house, scene, catalog.meshes)
    rng = np.random.default_rng(0)
    places = floor.centres[rng.integers(floor.num_free, size=2 * PLACES)]
    fields = distance_fields(floor, [Goal(((x, floor.y_m, z, 0.0),), 0.05) for x, z in places[:4]])
    apart = np.concatenate([field[rng.integers(floor.num_free, size=PLACES)] for field in fields])
    asked = [thing for thing in house.objects if thing.category in QUERYABLE]
    values = {
        "area": sum(abs(signed_area(room.polygon)) for room in house.rooms),
        "rooms": len(house.rooms),
        "objects": len(house.objects),
        "objects that are asked about": len(asked),
        "distinct categories asked about": len({thing.category for thing in asked}),
        "walking distance": apart,
        "sight line": _sight_lines(scene, floor, places, rng),
        "triangles": _num_triangles(scene, catalog.meshes) / 1000,
    }
    return Measured(
        {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in values.items()},
        Counter(room.type for room in house.rooms),
        Counter(thing.category for thing in asked),
        Counter(thing.color or "none" for thing in asked),
    )


def _num_triangles(scene: Scene, furniture: Meshes) -> int:
    faces = np.concatenate([np.diff(meshes.face_range).ravel() for meshes in (furniture, scene.meshes)])
    return int(faces[scene.instances.mesh].sum())


def _sight_lines(
    scene: Scene, floor: Floor, places: Float64[np.ndarray, "P 2"], rng: np.random.Generator
) -> Float64[np.ndarray, " P"]:
    """Metres to the farthest thing at eye height in one view from each place; a window counts as its pane."""
    renderer = Renderer(Camera(height_px=56, width_px=56), ("depth",))
    renderer.load([scene])
    headings = HOUSE_ACTIONS.headings_rad[rng.integers(HOUSE_ACTIONS.num_headings, size=len(places))]
    poses = floor.stand(places, headings)
    depth = renderer.render(np.zeros(len(poses), np.int32), poses)["depth"][:, 28]
    across = (2 * (np.arange(56) + 0.5) / 56 - 1) * np.tan(np.pi / 6)
    seen = np.where(np.isfinite(depth), depth, 0) * np.hypot(1, across)
    return seen.max(axis=1).astype(np.float64)


def pooled(houses: Sequence[Measured], name: str) -> Float64[np.ndarray, " V"]:
    return np.concatenate([house.values[name] for house in houses])


def table(houses: Sequence[Measured]) -> Table:
    """One line a figure: the mean, and the range of nine values in ten."""
    out = Table(title=f"{len(houses)} houses")
    for heading in ("", "mean", "5 %", "median", "95 %", "paper"):
        out.add_column(heading, justify="right" if heading else "left")
    for name, unit, paper in LINES:
        values = pooled(houses, name)
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        figures = (f"{value:.1f}" for value in (values.mean(), low, middle, high))
        out.add_row(
            f"{name} ({unit})" if unit else name, *figures, paper if paper == "-" else f"{paper} {unit}".strip()
        )
    return out


def draw(houses: Sequence[Measured], path: Path) -> None:
    """Draws histograms of the table's figures, houses by room type, objects a house by category, and colours."""
    figure, axes = plt.subplots(3, 4, figsize=(18, 14), layout="constrained")
    for axis, (name, unit, _) in zip(axes.flat, LINES, strict=False):
        axis.hist(pooled(houses, name), bins=24, color="#4c72b0")
        axis.set(title=name, xlabel=unit, yticks=[])
    counts = {
        "houses with a room type": Counter(kind for house in houses for kind in set(house.room_types)),
        "objects a house, by category": sum((house.categories for house in houses), Counter()),
        "objects by colour": sum((house.colors for house in houses), Counter()),
    }
    for axis, (title, counted) in zip(axes.flat[len(LINES) :], counts.items(), strict=False):
        names, numbers = zip(*reversed(counted.most_common()), strict=True)
        axis.barh(names, np.array(numbers) / len(houses), color="#55a868")
        axis.set(title=title)
        axis.tick_params(axis="y", labelsize=5 if len(names) > 20 else 9)
    axes.flat[-1].axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        figure.savefig(aside, dpi=90, format="png")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=PAPER, help="of the houses (default: paper)")
    parser.add_argument("--count", type=whole(1), default=96)
    parser.add_argument("--out", type=Path, default=Path("previews"))
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"--count: expected at least 1, got {arguments.count}")
    split, count = arguments.split, arguments.count
    if split == HUMAN:
        paths = human_homes()[:count]
        count = len(paths)
    else:
        with progress(f"houses, {split}", count) as advance:
            numbers = {"split": split, "count": count, "seed": arguments.seed, "style": arguments.style}
            paths = make_houses(data_root(), **numbers, progress=absolute(advance))
    houses = []
    with progress("houses measured", len(paths)) as advance:
        for path in paths:
            houses.append(measure(House.load(path)))
            advance(1)
    console.print(table(houses))
    picture = arguments.out / f"{'' if arguments.style == PAPER else arguments.style + '_'}{split}_{count}.png"
    draw(houses, picture)
    console.print(picture)


if __name__ == "__main__":
    main()
