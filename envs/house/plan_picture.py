"""`plan_picture`: a house from above as a floor plan: dark walls, doors, windows, names that can be read, a scale.

North (-Z) is up. The furniture is the renderer's; walls and openings are drawn over it, and labels over all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, hypot

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from eqa.envs.house.build import annotations
from eqa.envs.house.geometry import Point, contains, door_leaf, signed_area, wall_point
from eqa.envs.house.house import House, Opening, Wall
from eqa.envs.rendering.plan_labels import middle_of, names_of_things, place_labels, smallest_first
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.top_down import render_top_down

FINER = 2  # pixels are drawn this much smaller, and averaged
PALER = 0.25  # share of white over floors and furniture, under the names
BORDER_M, FOOT_PX = 0.4, 30
THINNEST_PX = 2.5  # of a wall
WALL, LOW_WALL, WINDOW, ENTRANCE, LEAF = (45, 45, 50), (135, 135, 130), (120, 185, 240), (150, 90, 40), (120, 80, 50)
ROOM_INK, THING_INK, VIEW_INK = (170, 0, 0), (0, 0, 0), (0, 70, 220)
THING_REACH = {True: 4.0, False: 1.5}  # heights of a name, by whether the thing stands on the floor
SCALE_BARS_M = (10, 5, 2, 1)


def font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def plan_picture(
    house: House,
    scene: Scene,
    *,
    width_px: int,
    height_px: int,
    things: bool = True,
    views: Sequence[Sequence[float]] = (),
    font_px: int = 15,
) -> Image.Image:
    """The plan, as large as fits, above a line with a scale bar and the house's name.

    Each room has its name and area (of its polygon), `font_px` high; with `things`, so have things that leave room for
    it. A view (x, y, z, heading) is an arrow from a circle with its number, counted from 1.
    """
    picture = Image.new("RGB", (width_px, height_px), "white")
    corners = np.array([end for wall in house.walls for end in (wall.start, wall.end)])
    low, high = corners.min(axis=0) - BORDER_M, corners.max(axis=0) + BORDER_M
    room_px = np.array([width_px, height_px - FOOT_PX])
    px_per_m = float((room_px / (high - low)).min())
    size = np.maximum(np.floor((high - low) * px_per_m), 1).astype(int)
    corner = (room_px - size) // 2
    picture.paste(_drawn(house, scene, low, high, size), tuple(corner.tolist()))

    def pixel(point: Sequence[float]) -> np.ndarray:
        return corner + (np.asarray(point, np.float64) - low) * px_per_m

    draw = ImageDraw.Draw(picture)
    circles = _draw_views(draw, views, pixel)
    picture_px = (width_px, height_px - FOOT_PX)
    labels = labels_of(house, pixel, picture_px, taken=circles, things=things, font_px=font_px)
    _draw_labels(draw, house, labels, pixel)
    _draw_foot(draw, house, px_per_m, (width_px, height_px))
    return picture


def _drawn(house: House, scene: Scene, low: np.ndarray, high: np.ndarray, size: np.ndarray) -> Image.Image:
    """The area from `low` to `high` (x, z) with walls and openings, `size` pixels wide and high."""
    extent_m = float((high - low).max())
    images, (left, top, metres) = render_top_down(scene, min(ceil(max(size) * FINER * 1.1), 8192))
    floor = Image.blend(Image.fromarray(images["rgb"]), Image.new("RGB", images["rgb"].shape[1::-1], "white"), PALER)
    drawn = floor.copy()
    origin = np.array([left, top])
    thinnest_m = THINNEST_PX * extent_m / max(size)
    _draw_walls(drawn, floor, house, lambda point: tuple((np.asarray(point) - origin) / metres), thinnest_m)
    box = tuple(np.concatenate([(low - origin) / metres, (high - origin) / metres]).tolist())
    canvas = Image.new("RGB", (ceil(box[2] - box[0]) + 2, ceil(box[3] - box[1]) + 2), "white")
    canvas.paste(drawn, (-int(np.floor(box[0])), -int(np.floor(box[1]))))
    part = [box[0] - np.floor(box[0]), box[1] - np.floor(box[1])]
    part += [part[0] + box[2] - box[0], part[1] + box[3] - box[1]]
    return canvas.resize(tuple(size.tolist()), Image.Resampling.LANCZOS, box=tuple(part))


def _draw_walls(drawn: Image.Image, floor: Image.Image, house: House, pixel, thinnest_m: float) -> None:
    """Walls, then what is in them; the floor is seen again in doors and doorways."""
    draw = ImageDraw.Draw(drawn)
    for wall in sorted(house.walls, key=lambda wall: wall.height_m is None):  # low ones under full ones
        thickness_m = max(wall.thickness_m, thinnest_m)
        length_m = hypot(wall.end[0] - wall.start[0], wall.end[1] - wall.start[1])
        is_low = wall.height_m is not None and wall.height_m < house.height_m
        piece = _piece(wall, -thickness_m / 2, length_m + thickness_m / 2, thickness_m)
        draw.polygon([pixel(point) for point in piece], LOW_WALL if is_low else WALL)
    holes = Image.new("L", drawn.size, 0)
    draw_hole = ImageDraw.Draw(holes)
    for opening in house.openings:
        wall = house.walls[opening.wall]
        ends = opening.offset_m - opening.width_m / 2, opening.offset_m + opening.width_m / 2
        thickness_m = max(wall.thickness_m, thinnest_m)
        is_way = opening.kind in ("door", "doorway")
        piece = [pixel(point) for point in _piece(wall, *ends, thickness_m * (1.02 if is_way else 0.7))]
        if is_way:
            draw_hole.polygon(piece, 255)
        else:
            draw.polygon(piece, WINDOW if opening.kind == "window" else ENTRANCE)
    drawn.paste(floor, (0, 0), holes)
    for opening in house.openings:
        if opening.kind == "door":
            _draw_leaf(draw, house.walls[opening.wall], opening, pixel)


def _piece(wall: Wall, start_m: float, end_m: float, thickness_m: float) -> list[Point]:
    """Corners of the wall from one distance along it to another."""
    half = thickness_m / 2
    return [wall_point(wall, along, side) for along, side in
            ((start_m, half), (end_m, half), (end_m, -half), (start_m, -half))]  # fmt: skip


def _draw_leaf(draw: ImageDraw.ImageDraw, wall: Wall, door: Opening, pixel) -> None:
    """The open leaf, and the quarter of a circle that it swings through."""
    hinge, tip = (np.array(pixel(point)) for point in door_leaf(wall, door))
    across = door.offset_m + (door.width_m / 2 - 0.03) * (-1 if door.hinge_at_end else 1)
    closed = np.array(pixel(wall_point(wall, across, 0.0))) - np.array(pixel(wall_point(wall, door.offset_m, 0.0)))
    along, out = closed / np.hypot(*closed), (tip - hinge) / np.hypot(*(tip - hinge))
    reach = float(np.hypot(*(tip - hinge)))
    turns = np.linspace(0, np.pi / 2, 12)
    arc = [tuple(hinge + reach * (np.cos(turn) * out + np.sin(turn) * along)) for turn in turns]
    draw.line(arc, LEAF, 1)
    draw.line([tuple(hinge), tuple(tip)], LEAF, 3)


def _draw_views(draw: ImageDraw.ImageDraw, views: Sequence[Sequence[float]], pixel) -> np.ndarray:
    """Arrows and numbers; their boxes (B, 4), which no label may cover."""
    boxes = []
    for number, (x, _, z, heading) in enumerate(views, start=1):
        middle, forward = pixel((x, z)), np.array([-np.sin(heading), -np.cos(heading)])
        aside = np.array([-forward[1], forward[0]])
        head = [middle + 22 * forward, middle + 8 * forward + 6 * aside, middle + 8 * forward - 6 * aside]
        draw.polygon([tuple(point) for point in head], VIEW_INK)
        draw.ellipse([*(middle - 9), *(middle + 9)], VIEW_INK, "white")
        draw.text(tuple(middle), str(number), "white", font(11), anchor="mm")
        boxes.append([*(middle - 9), *(middle + 9)])
    return np.array(boxes).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class Label:
    """A name on the plan, in pixels. `room` is the room's index, None for the name of things."""

    text: str
    box: tuple[float, float, float, float]  # left, top, right, bottom
    anchor: tuple[float, float]
    font_px: int
    room: int | None


def labels_of(
    house: House,
    pixel: Callable[[Sequence[float]], np.ndarray],
    picture: tuple[float, float],
    *,
    taken: np.ndarray,
    things: bool,
    font_px: int,
) -> list[Label]:
    """Names of rooms, then those of things that find a place; `pixel` takes points (x, z) to the picture.

    Small rooms come first, as a large room has further places for its name.
    """
    order = smallest_first([room.polygon for room in house.rooms])
    rooms = [house.rooms[i] for i in order]
    seen = annotations(house)
    names = names_of_things(seen.things) if things else []
    texts = [f"{room.type}\n{abs(signed_area(room.polygon)):.0f} m2" for room in rooms] + [name.text for name in names]
    points = [middle_of(room.polygon) for room in rooms] + [name.at for name in names]
    anchors = np.array([pixel(point) for point in points])
    heights = [font_px] * len(rooms) + [max(font_px - 4, 9)] * len(names)
    sizes = np.array([_size(text, height) for text, height in zip(texts, heights, strict=True)])
    outlines = [np.array([pixel(point) for point in thing.outline]) for thing in seen.things] if things else []
    middles = place_labels(
        anchors,
        sizes,
        np.array([np.inf] * len(rooms) + [THING_REACH[name.on_floor] for name in names]),
        picture=picture,
        taken=taken,
        avoid=np.array([[*outline.min(0), *outline.max(0)] for outline in outlines]).reshape(-1, 4),
    )
    return [
        Label(
            texts[i],
            tuple(np.concatenate([middles[i] - sizes[i] / 2, middles[i] + sizes[i] / 2]).tolist()),
            tuple(anchors[i].tolist()),
            heights[i],
            order[i] if i < len(rooms) else None,
        )
        for i in np.flatnonzero(~np.isnan(middles[:, 0])).tolist()
    ]


def _size(text: str, font_px: int) -> tuple[float, float]:
    """Width and height of a label with its halo."""
    draw = ImageDraw.Draw(Image.new("L", (1, 1)))
    left, top, right, bottom = draw.multiline_textbbox((0, 0), text, font(font_px), "mm", 1, "center")
    return right - left + 4, bottom - top + 4


def _draw_labels(draw: ImageDraw.ImageDraw, house: House, labels: Sequence[Label], pixel) -> None:
    """Lines to what labels had to leave, then all labels."""
    for label in labels:
        left, top, right, bottom = label.box
        middle, size = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top])
        outline = [] if label.room is None else [tuple(pixel(corner)) for corner in house.rooms[label.room].polygon]
        if not outline or not contains(outline, tuple(middle)):
            _draw_leader(draw, np.array(label.anchor), middle, size, THING_INK if label.room is None else ROOM_INK)
    for label in labels:
        left, top, right, bottom = label.box
        draw.multiline_text(
            ((left + right) / 2, (top + bottom) / 2),
            label.text,
            THING_INK if label.room is None else ROOM_INK,
            font(label.font_px),
            "mm",
            1,
            "center",
            stroke_width=2,
            stroke_fill="white",
        )


def _draw_leader(draw: ImageDraw.ImageDraw, anchor: np.ndarray, middle: np.ndarray, size: np.ndarray, ink) -> None:
    """A thin line from a label that had to go aside to the thing that it names."""
    nearest = np.clip(anchor, middle - size / 2, middle + size / 2)
    if np.hypot(*(anchor - nearest)) > size[1] * 0.4:
        draw.line([tuple(anchor), tuple(nearest)], ink, 1)
        draw.ellipse([*(anchor - 2), *(anchor + 2)], ink)


def _draw_foot(draw: ImageDraw.ImageDraw, house: House, px_per_m: float, size: tuple[int, int]) -> None:
    """The line under the plan: north, a scale bar, the house's name and area."""
    width, height = size
    base = height - FOOT_PX + 22
    draw.polygon([(14, base - 16), (8, base), (14, base - 4), (20, base)], "black")
    draw.text((26, base), "N", "black", font(13), anchor="ls")
    bar_m = next((bar for bar in SCALE_BARS_M if bar * px_per_m <= width / 4), SCALE_BARS_M[-1])
    draw.rectangle([46, base - 5, 46 + bar_m * px_per_m, base], "black")
    draw.text((54 + bar_m * px_per_m, base), f"{bar_m} m", "black", font(13), anchor="ls")
    area_m2 = sum(abs(signed_area(room.polygon)) for room in house.rooms)
    draw.text((width - 6, base), f"{house.id}: {area_m2:.0f} m2", "black", font(13), anchor="rs")
