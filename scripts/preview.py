"""Draws contact sheets: a labelled floor plan of each house beside views from random places in its rooms.

python scripts/preview.py --split train --first 0 --count 4 --out previews
"""

import argparse
from pathlib import Path

import numpy as np
import shapely
from PIL import Image, ImageDraw, ImageFont

from eqa.envs.episode import PLAN, Pose
from eqa.envs.files import data_root
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.generator import HUMAN, PAPER, SPLITS, STYLES, generate_house, load_house
from eqa.envs.house.geometry import contains
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.top_down import render_top_down
from eqa.scripts.arguments import whole

VIEW_PX, PLAN_PX, COLUMNS = 320, 660, 6
LEAST_PIXELS = 250  # of an object that a label names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=(*SPLITS, HUMAN), default="train")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--style", choices=STYLES, default=PAPER, help="of the houses (default: paper)")
    parser.add_argument("--first", type=whole(0), default=0, help="index of the first house")
    parser.add_argument("--count", type=whole(1), default=1, help="houses, one picture each")
    parser.add_argument("--views", type=whole(1), default=12, help="first-person views of each house")
    parser.add_argument("--out", type=Path, default=Path("previews"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for index in range(arguments.first, arguments.first + arguments.count):
        numbers = {"seed": arguments.seed, "split": arguments.split, "index": index, "style": arguments.style}
        house = load_house(data_root(), **numbers) if arguments.split == HUMAN else generate_house(**numbers)
        path = arguments.out / f"{'' if arguments.style == PAPER else arguments.style + '-'}{house.id}.png"
        contact_sheet(house, arguments.views, seed=index).save(path)
        print(path)


def contact_sheet(house: House, num_views: int, *, seed: int) -> Image.Image:
    """The plan on the left, views in rows on the right."""
    scene = build_scene(house, load_catalog())
    floor = build_floor(house, scene, load_catalog().meshes)
    poses = random_poses(house, floor, num_views, np.random.default_rng(seed))
    renderer = Renderer(Camera(VIEW_PX, VIEW_PX), ("rgb", "instance_id"))
    renderer.load([scene])
    images = renderer.render(np.zeros(len(poses), np.int32), poses)
    rows = -(-len(poses) // COLUMNS)
    cell = VIEW_PX + 46
    sheet = Image.new("RGB", (PLAN_PX + COLUMNS * VIEW_PX, max(rows * cell, PLAN_PX)), "white")
    sheet.paste(labelled_plan(house, scene, poses), (0, 0))
    draw = ImageDraw.Draw(sheet)
    for place, pose in enumerate(poses):
        left, top = PLAN_PX + place % COLUMNS * VIEW_PX, place // COLUMNS * cell
        sheet.paste(Image.fromarray(images["rgb"][place]), (left, top + 46))
        draw.text((left + 4, top + 2), _caption(house, place, pose, images["instance_id"][place]), "black", _font(12))
    return sheet


def random_poses(house: House, floor: Floor, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 4) poses: free places, one room after another, looking somewhere past the room's middle.

    Rooms that are too full to stand in are left out.
    """
    x, z = floor.centres.T
    inside = [np.flatnonzero(_covers(room.polygon, x, z)) for room in house.rooms]
    rooms = [room for room, places in enumerate(inside) if len(places)]
    poses: list[Pose] = []
    while len(poses) < count:
        room = rooms[len(poses) % len(rooms)]
        polygon, place = house.rooms[room].polygon, rng.choice(inside[room])
        target = np.mean(polygon, axis=0) + rng.normal(0, 0.7, 2)
        heading = np.arctan2(-(target[0] - x[place]), -(target[1] - z[place]))
        poses.append((x[place], floor.y_m, z[place], round(heading / np.radians(9)) * np.radians(9)))
    return np.array(poses)


def _covers(polygon: list[tuple[float, float]], x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return shapely.contains_xy(shapely.Polygon(polygon), x, z)


def labelled_plan(house: House, scene: Scene, poses: np.ndarray) -> Image.Image:
    """The house from above, with room names, object names, and a numbered arrow for each view."""
    images, (left, top, metres) = render_top_down(scene, PLAN_PX)
    plan = Image.fromarray(images["rgb"])
    draw = ImageDraw.Draw(plan)

    def pixel(x: float, z: float) -> tuple[float, float]:
        return (x - left) / metres, (z - top) / metres

    for thing in house.objects:
        draw.text(pixel(thing.position[0], thing.position[2]), thing.category, "black", _font(9), anchor="mm")
    for room in house.rooms:
        x, z = np.mean(room.polygon, axis=0)
        draw.text(pixel(x, z), room.type, (200, 0, 0), _font(15), anchor="mm", stroke_width=2, stroke_fill="white")
    for number, (x, z, heading) in enumerate(poses[:, [0, 2, 3]]):
        tip = pixel(x - 0.6 * np.sin(heading), z - 0.6 * np.cos(heading))
        draw.line([pixel(x, z), tip], (0, 90, 255), 3)
        draw.text(pixel(x, z), str(number), (0, 60, 220), _font(14), anchor="mm", stroke_width=2, stroke_fill="white")
    return plan


def _caption(house: House, number: int, pose: np.ndarray, instances: np.ndarray) -> str:
    room = next((r.type for r in house.rooms if contains(r.polygon, tuple(pose[PLAN]))), "nowhere")
    seen = np.bincount(instances.ravel(), minlength=len(house.objects) + 1)
    names = [
        f"{thing.color or ''} {thing.category}".strip()
        for thing in sorted(house.objects, key=lambda o: -seen[o.id])
        if seen[thing.id] >= LEAST_PIXELS
    ]
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 50:
            lines.append(line)
            line = ""
        line += name + ", "
    return "\n".join([f"{number} {room}", *[*lines, line][:2]])


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


if __name__ == "__main__":
    main()
