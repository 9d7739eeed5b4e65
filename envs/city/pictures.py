"""`views_of` and `plan_picture`: a city for people: views in its streets and from above, and its plan with names.

North (-Z) is up in the plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import atan2, cos, pi, sin

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from eqa.envs.city.airspace import Airspace
from eqa.envs.city.city import CLASSES, LOWEST_M, QUARTER_RAD, City, Street
from eqa.envs.episode import Pose
from eqa.envs.rendering.scene import Instances, Scene, nearest_level
from eqa.envs.rendering.top_down import render_top_down

SHOP_M = 12.0  # from which shops are looked at
INK, WALL_INK, PARK_INK, VIEW_INK = (20, 20, 24), (70, 66, 66), (16, 74, 26), (190, 20, 20)
CUT_M = 90.0  # height above all roofs


@dataclass(frozen=True, slots=True)
class View:
    pose: Pose
    place: str  # for a caption


def views_of(city: City, air: Airspace, count: int) -> list[View]:
    """Views in turns along a street, of a shop, of a park, over the streets and over the roofs."""
    rng = np.random.default_rng(0)
    makers = (_along_street, _at_shop, _over_street, _in_park, _above)
    views: list[View] = []
    tries = 0
    while len(views) < count and tries < 50 * count:
        view = makers[len(views) % len(makers)](city, rng)
        tries += 1
        if air.is_free(np.array([view.pose]))[0]:
            views.append(view)
    return views


def _along_street(city: City, rng: np.random.Generator, height_m: float = LOWEST_M) -> View:
    street = city.streets[rng.integers(len(city.streets))]
    x0, z0, x1, z1 = street.rect
    share, way = rng.uniform(0.1, 0.9), rng.integers(2)
    middle = ((x0 + x1) / 2, (z0 + z1) / 2)
    x = x0 + share * (x1 - x0) if street.axis == 0 else middle[0]
    z = middle[1] if street.axis == 0 else z0 + share * (z1 - z0)
    heading = (1 + 2 * way if street.axis == 0 else 2 * way) * QUARTER_RAD
    return View((x, height_m, z, heading), f"{street.name}, {height_m:g} m high")


def _at_shop(city: City, rng: np.random.Generator) -> View:
    shop = city.shops[rng.integers(len(city.shops))]
    x, z = (shop.rect[0] + shop.rect[2]) / 2, (shop.rect[1] + shop.rect[3]) / 2
    heading = shop.heading_rad
    pose = (x - SHOP_M * sin(heading), LOWEST_M, z - SHOP_M * cos(heading), (heading + pi) % (2 * pi))
    return View(pose, f"{SHOP_M:g} m from {shop.name}")


def _over_street(city: City, rng: np.random.Generator) -> View:
    return _along_street(city, rng, LOWEST_M + 10 * int(rng.integers(1, 3)))


def _in_park(city: City, rng: np.random.Generator) -> View:
    parks = [block for block in city.blocks if block.kind == "park"]
    park = parks[rng.integers(len(parks))]
    x0, z0, x1, z1 = park.rect
    x, z = rng.uniform(x0, x1), rng.uniform(z0, z1)
    heading = atan2(x - (x0 + x1) / 2, z - (z0 + z1) / 2)
    return View((x, LOWEST_M, z, heading % (2 * pi)), f"{park.name}")


def _above(city: City, rng: np.random.Generator) -> View:
    x, z = (
        rng.uniform(0.3, 0.95) * np.array(city.rect)[rng.integers(2) * 2],
        rng.uniform(0.3, 0.95) * np.array(city.rect)[1],
    )
    heading = atan2(x, z) + rng.uniform(-0.4, 0.4)
    return View((float(x), 62.0, float(z), float(heading % (2 * pi))), "above the roofs, 62 m high")


def plan_picture(city: City, scene: Scene, *, size_px: int, views: Sequence[Pose] = ()) -> Image.Image:
    """The city from above with the names of streets and parks; a view is an arrow with its number, counted from 1."""
    images, (left, top, metres) = render_top_down(_without_fields(scene), size_px, cut_height_m=CUT_M)
    picture = Image.blend(Image.fromarray(images["rgb"]), Image.new("RGB", (size_px, size_px), "white"), 0.25)
    draw = ImageDraw.Draw(picture)
    for building in city.buildings:
        for box in building.boxes:
            x0, z0, x1, z1 = box.rect
            corners = [(x0 - left) / metres, (z0 - top) / metres, (x1 - left) / metres, (z1 - top) / metres]
            draw.rectangle(corners, outline=WALL_INK, width=2)
    for street in city.streets:
        _write_street(picture, street, left, top, metres)
    for block in city.blocks:
        if block.name:
            x, z = (block.rect[0] + block.rect[2]) / 2, (block.rect[1] + block.rect[3]) / 2
            at = (x - left) / metres, (z - top) / metres
            draw.text(
                at, block.name, PARK_INK, ImageFont.load_default(20), anchor="mm", stroke_width=3, stroke_fill="white"
            )
    for number, (x, _, z, heading) in enumerate(views, start=1):
        at = np.array([(x - left) / metres, (z - top) / metres])
        ahead = np.array([-sin(heading), -cos(heading)])
        draw.line([tuple(at), tuple(at + 26 * ahead)], VIEW_INK, 3)
        draw.ellipse([*(at - 9), *(at + 9)], "white", VIEW_INK, 2)
        draw.text(tuple(at), str(number), VIEW_INK, ImageFont.load_default(12), anchor="mm")
    return picture


def _write_street(picture: Image.Image, street: Street, left: float, top: float, metres: float) -> None:
    """The name at both ends, along the street."""
    x0, z0, x1, z1 = street.rect
    font = ImageFont.load_default(15)
    box = font.getbbox(street.name, stroke_width=2)
    text = Image.new("RGBA", (box[2] - box[0] + 4, box[3] + 4), (0, 0, 0, 0))
    ImageDraw.Draw(text).text((2 - box[0], 0), street.name, INK, font, stroke_width=2, stroke_fill="white")
    text = text if street.axis == 0 else text.rotate(90, expand=True)
    for share in (0.22, 0.72):
        x = x0 + share * (x1 - x0) if street.axis == 0 else (x0 + x1) / 2
        z = (z0 + z1) / 2 if street.axis == 0 else z0 + share * (z1 - z0)
        at = (x - left) / metres - text.width / 2, (z - top) / metres - text.height / 2
        picture.paste(text, (round(at[0]), round(at[1])), text)


def _without_fields(scene: Scene) -> Scene:
    """The city without what lies round it."""
    scene = nearest_level(scene)
    items = scene.instances
    around = np.isin(items.class_id, [CLASSES.index("grass"), CLASSES.index("tree")]) & (items.instance_id == 0)
    kept = np.flatnonzero(~around)
    return replace(scene, instances=Instances(*(getattr(items, name)[kept] for name in Instances.__dataclass_fields__)))
