"""Draws houses or cities to look at: a sheet of each with its plan and views, or one sheet of many houses.

python scripts/preview.py --split train --first 0 --count 4 --out previews
python scripts/preview.py --sheet --count 24              # one picture of 24 plans, one of a view into each house
python scripts/preview.py --sheet --split human           # the homes that people designed
python scripts/preview.py --world city --count 2          # cities: streets, shops, parks, from above, and the plan
python scripts/preview.py --sheet --views 3 --quiz        # views with numbers instead of rooms; the key is beside them
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from eqa.envs.city.airspace import build_airspace
from eqa.envs.city.build import build_scene as build_scene_of_city
from eqa.envs.city.city import CITY_ACTIONS, City
from eqa.envs.city.generator import generate_city
from eqa.envs.city.pictures import plan_picture as city_plan
from eqa.envs.city.pictures import views_of as city_views
from eqa.envs.episode import Pose
from eqa.envs.files import data_root
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, STYLES, generate_house, human_homes, load_house
from eqa.envs.house.house import House
from eqa.envs.house.plan_picture import font, plan_picture
from eqa.envs.house.views import View, views_of
from eqa.envs.progress import console, progress
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.scripts.arguments import whole

VIEW_PX = (384, 288)  # width and height
CAPTION_PX, LINE_PX, TEXT_PX = 44, 20, 15
WIDE = 1.5  # times the depth of a house
COLUMNS = {False: 3, True: 5}  # of views, by whether the house is wide
SHEET_COLUMNS = 6
CITY_PLAN_PX = 1400
PLAN_PX = 900  # the least height of a plan, or width of a wide one
CELL_PX = (460, 520)  # of a plan on a sheet of many
LEAST_SHARE = 0.004  # of a view's pixels, that a thing in its caption fills


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.world == "city":
        for index in range(arguments.first, arguments.first + arguments.count):
            city = generate_city(arguments.split, index, seed=arguments.seed)
            path = arguments.out / f"{city.id}.png"
            city_sheet(city, arguments.views).save(path)
            x0, z0, x1, z1 = city.rect
            parts = ((name, len(getattr(city, name))) for name in ("blocks", "buildings", "shops", "props"))
            counts = ", ".join(f"{number:,} {name}" for name, number in parts)
            console.print(f"{path}: {x1 - x0:.0f} x {z1 - z0:.0f} m, {counts}", soft_wrap=True, highlight=False)
        return
    if arguments.sheet:
        for path in sheets_of_many(houses(arguments), arguments):
            console.print(path, soft_wrap=True, highlight=False)
        return
    for house in houses(arguments):
        path = arguments.out / f"{arguments.prefix}{house.id}.png"
        contact_sheet(house, arguments.views).save(path)
        console.print(path, soft_wrap=True, highlight=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=("house", "city"), default="house")
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=PAPER, help="of the houses (default: paper)")
    parser.add_argument("--first", type=whole(0), default=0, help="index of the first house")
    parser.add_argument("--count", type=whole(1), help="houses (default: 1, 24 with --sheet; all human homes)")
    parser.add_argument("--views", type=whole(1), help="views of each house (default: 15, 1 with --sheet)")
    parser.add_argument("--sheet", action="store_true", help="one picture of all plans, and one of all views")
    parser.add_argument(
        "--quiz", action="store_true", help="views of --sheet have numbers; SPLIT_key.txt has the rooms"
    )
    parser.add_argument("--out", type=Path, default=Path("previews"))
    arguments = parser.parse_args()
    if arguments.world == "city" and (arguments.sheet or arguments.split == HUMAN or arguments.style != PAPER):
        parser.error(f"--world city: expected no --sheet, no --style, and a split of {', '.join(SPLITS)}")
    if arguments.quiz and not arguments.sheet:
        parser.error("--quiz: expected --sheet with it, got none")
    num_left = len(human_homes()) - arguments.first if arguments.split == HUMAN else None
    arguments.count = arguments.count or num_left or (24 if arguments.sheet else 1)
    if num_left is not None and (num_left < 1 or arguments.count > num_left):
        parser.error(f"--first and --count: expected homes 0 to {len(human_homes()) - 1} of the split human")
    arguments.prefix = "" if arguments.style == PAPER else f"{arguments.style}-"  # of files
    arguments.views = arguments.views or (1 if arguments.sheet else 15)
    return arguments


def houses(arguments: argparse.Namespace) -> Iterator[House]:
    """The chosen houses, generated or read one by one."""
    for index in range(arguments.first, arguments.first + arguments.count):
        numbers = {"seed": arguments.seed, "split": arguments.split, "index": index, "style": arguments.style}
        yield load_house(data_root(), **numbers) if arguments.split == HUMAN else generate_house(**numbers)


def contact_sheet(house: House, num_views: int) -> Image.Image:
    """The plan and numbered views: beside each other, or below each other for a house that is wide."""
    scene = build_scene(house, load_catalog())
    views = views_of(house, build_floor(house, scene, load_catalog().meshes), num_views)
    wide, deep = np.ptp([corner for room in house.rooms for corner in room.polygon], axis=0)
    is_wide = wide > WIDE * deep
    grid = _grid(_drawn_views(house, scene, views, first=1), COLUMNS[is_wide])
    if is_wide:
        width = max(grid.width, PLAN_PX)
        height, corner = int(width * deep / wide) + 60, (0, int(width * deep / wide) + 60)
        size = (width, height + grid.height)
    else:
        height = max(grid.height, PLAN_PX)
        width = int(np.clip(height * wide / deep, 700, 1500))
        height, corner = min(height, int(width * deep / wide) + 60), (width, 0)
        size = (width + grid.width, max(height, grid.height))
    sheet = Image.new("RGB", size, "white")
    poses = [view.pose for view in views]
    sheet.paste(plan_picture(house, scene, width_px=width, height_px=height, views=poses), (0, 0))
    sheet.paste(grid, corner)
    return sheet


def city_sheet(city: City, num_views: int) -> Image.Image:
    """The plan of a city beside numbered views."""
    scene, air = build_scene_of_city(city), build_airspace(city, CITY_ACTIONS)
    views = city_views(city, air, num_views)
    width, height = VIEW_PX
    renderer = Renderer(Camera(height, width, height_m=0.0, samples=2), ("rgb",))
    renderer.load([scene])
    poses = [view.pose for view in views]
    images = renderer.render(np.zeros(len(poses), np.int64), np.array(poses))["rgb"]
    cells = []
    for number, (view, image) in enumerate(zip(views, images, strict=True), start=1):
        cell = Image.new("RGB", (width + 8, height + LINE_PX + 14), "white")
        cell.paste(Image.fromarray(image), (4, LINE_PX + 6))
        ImageDraw.Draw(cell).text((4, 3), f"{number}  {view.place}", "black", font(TEXT_PX))
        cells.append(cell)
    grid = _grid(cells, COLUMNS[False])
    plan = city_plan(city, scene, size_px=CITY_PLAN_PX, views=poses)
    sheet = Image.new("RGB", (plan.width + grid.width, max(plan.height, grid.height)), "white")
    sheet.paste(plan, (0, 0))
    sheet.paste(grid, (plan.width, 0))
    return sheet


def sheets_of_many(chosen: Iterator[House], arguments: argparse.Namespace) -> list[Path]:
    """Writes SPLIT_plans.png and SPLIT_views.png, and SPLIT_key.txt for a quiz; gives their paths.

    Names begin with the style if it is not the paper's.
    """
    plans, drawn, key, shown = [], [], [], Counter()
    with progress("houses drawn", arguments.count) as advance:
        for house in chosen:
            scene = build_scene(house, load_catalog())
            width, height = CELL_PX
            plans.append(plan_picture(house, scene, width_px=width, height_px=height, things=False, font_px=12))
            floor = build_floor(house, scene, load_catalog().meshes)
            views = _rarest(house, views_of(house, floor, len(house.rooms)), arguments.views, shown)
            first = len(drawn) + 1
            key += [f"{first + i} {house.id} {house.rooms[view.room].type}" for i, view in enumerate(views)]
            drawn += _drawn_views(house, scene, views, first=first, is_quiz=arguments.quiz)
            advance(1)
    pictures = {"plans": _grid(plans, SHEET_COLUMNS), "views": _grid(drawn, SHEET_COLUMNS)}
    paths = [arguments.out / f"{arguments.prefix}{arguments.split}_{name}.png" for name in pictures]
    for picture, path in zip(pictures.values(), paths, strict=True):
        picture.save(path)
    if arguments.quiz:
        paths.append(arguments.out / f"{arguments.prefix}{arguments.split}_key.txt")
        paths[-1].write_text("\n".join(key) + "\n", encoding="utf-8")
    return paths


def _rarest(house: House, views: list[View], count: int, shown: Counter[str]) -> list[View]:
    """Some of the views, of the room types that were shown least; counts them in `shown`."""
    left, chosen = list(views), []
    while left and len(chosen) < count:
        rarest = min(left, key=lambda view: shown[house.rooms[view.room].type])
        shown[house.rooms[rarest.room].type] += 1
        left.remove(rarest)
        chosen.append(rarest)
    return chosen


def _drawn_views(
    house: House, scene: Scene, views: Sequence[View], *, first: int, is_quiz: bool = False
) -> list[Image.Image]:
    """The agent's views, wider than the agent's, under captions."""
    poses: Sequence[Pose] = [view.pose for view in views]
    width, height = VIEW_PX
    renderer = Renderer(Camera(height, width, samples=2), ("rgb", "instance_id"))
    renderer.load([scene])
    images = renderer.render(np.zeros(len(poses), np.int32), np.array(poses).reshape(-1, 4))
    drawn = []
    for i, view in enumerate(views):
        cell = Image.new("RGB", (width + 8, height + CAPTION_PX + 8), "white")
        cell.paste(Image.fromarray(images["rgb"][i]), (4, CAPTION_PX))
        lines = [str(first + i)] if is_quiz else _caption(house, first + i, view, images["instance_id"][i])
        for line, text in enumerate(lines):
            ImageDraw.Draw(cell).text((4, 3 + line * LINE_PX), text, "black", font(TEXT_PX))
        drawn.append(cell)
    return drawn


def _caption(house: House, number: int, view: View, instances: np.ndarray) -> list[str]:
    """The room and the standing place; then things in view, the largest first, as many as fit on a line."""
    seen = np.bincount(instances.ravel(), minlength=len(house.objects) + 1) / instances.size
    names = [
        f"{thing.color or ''} {thing.category}".strip()
        for thing in sorted(house.objects, key=lambda thing: -seen[thing.id])
        if seen[thing.id] >= LEAST_SHARE
    ]
    line = ""
    for name in dict.fromkeys(names):
        longer = f"{line}, {name}" if line else name
        if font(TEXT_PX).getlength(longer) > VIEW_PX[0]:
            break
        line = longer
    return [f"{number}  {house.rooms[view.room].type}, from {view.place}", line]


def _grid(cells: Sequence[Image.Image], columns: int) -> Image.Image:
    columns = min(columns, max(len(cells), 1))
    wide, high = (max(cell.size[axis] for cell in cells) for axis in (0, 1)) if cells else (1, 1)
    grid = Image.new("RGB", (columns * wide, -(-len(cells) // columns) * high), "white")
    for place, cell in enumerate(cells):
        grid.paste(cell, (place % columns * wide, place // columns * high))
    return grid


if __name__ == "__main__":
    main()
