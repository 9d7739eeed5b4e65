"""`add_pieces`: furniture of a drawn home as models of the catalogue, in its place, size and nearest colour."""

import functools
import json
from collections import Counter
from colorsys import rgb_to_hsv
from dataclasses import replace
from math import cos, hypot, log, pi, sin

import numpy as np
import shapely
from shapely import Polygon

from eqa.envs.house.catalog import ASSETS, load_catalog
from eqa.envs.house.geometry import inner_outline, is_open_border, room_sides, wall_point
from eqa.envs.house.house import House, HouseObject
from eqa.envs.house.sweethome.names import Report, best_key, longest_word, names, plain
from eqa.envs.house.sweethome.reader import Home, Piece
from eqa.envs.rendering.assets import Model

_MOST_STRETCH = 3.2  # a substitute is scaled by no more than this along any axis
_PUSH_M = 0.3  # most that a piece in a wall is moved out of it
_LEAST_SIZE_M = 0.01
_WITHIN = 0.985  # share of a footprint that has to be in the room, a little more than `validate` asks for


def add_pieces(home: Home, house: House, report: Report) -> None:
    places = _places(house)
    paints: Counter[str] = Counter()
    for piece in home.pieces:
        if piece.is_opening:
            continue
        label = piece.name + (f" ({piece.group})" if piece.group else "")
        model, how, remark = _model(piece)
        if model is None:
            report.pieces.append((label, "left out", remark))
            continue
        thing, why = _placed(piece, model, house, places)
        if thing is None:
            report.pieces.append((label, "left out", why))
            continue
        house.objects.append(thing)
        if piece.paint or piece.materials:
            paints[
                "painted in the nearest of the eleven colours" if thing.recolored else "kept as the model ships"
            ] += 1
        report.pieces.append((label, how, "; ".join(part for part in (remark, why) if part)))
    report.notes += [f"{count} pieces with colours of their own: {what}" for what, count in paints.items()]
    for place, thing in enumerate(house.objects):
        house.objects[place] = replace(thing, on=_support(thing, house))


def _model(piece: Piece) -> tuple[Model | None, str, str]:
    """(model, "placed" or "substituted", why)"""
    models = load_catalog().models
    if piece.fault:
        return None, "", piece.fault
    if piece.catalog_id in models:
        return models[piece.catalog_id], "placed", ""
    texts = [plain(text) for text in (piece.name, piece.catalog_id.rpartition("#")[2])]
    for text in texts:
        if longest_word(text, names()["left_out"]):
            return None, "", "nothing like it in the catalogue"
        category = best_key(text, names()["pieces"])
        if category is not None:
            nearest = _nearest(piece, category)
            if _stretch(piece, nearest) > log(_MOST_STRETCH):
                size = " x ".join(f"{side * 100:.0f}" for side in piece.size_m)
                return None, "", f"no {category} of about its size ({size} cm) in the catalogue"
            return nearest, "substituted", f"nearest {category}: {nearest.key}"
    return None, "", f"no model {piece.catalog_id or 'without an id'} in the catalogue, and an unknown name"


def _nearest(piece: Piece, category: str) -> Model:
    """The model of the same name and shape, then of the nearest size, among those that need little scaling."""
    words = set(plain(f"{piece.name} {piece.catalog_id.rpartition('#')[2]}").split())
    words -= {word for name in names()["pieces"][category] for word in name.split()}

    def unlike(model: Model) -> tuple[bool, bool, int, float]:
        of_model = set(plain(f"{model.name} {model.key.rpartition('#')[2]}").replace("-", " ").split())
        stretch = _stretch(piece, model)
        other_shape = ("round" in of_model) != (not words.isdisjoint(("round", "cylinder")))
        return stretch > log(_MOST_STRETCH), other_shape, -len(words & of_model), stretch

    return min(load_catalog().models_of(category), key=unlike)


def _stretch(piece: Piece, model: Model) -> float:
    """Scaling that a model would need: the largest |log| along an axis; thin sides do not count."""
    pairs = zip(_size(piece), model.size_m, strict=True)
    return max((abs(log(a / b)) for a, b in pairs if max(a, b) > 0.1), default=0.0)


def _size(piece: Piece) -> tuple[float, float, float]:
    return tuple(round(max(side, _LEAST_SIZE_M), 4) for side in piece.size_m)


def _places(house: House) -> list[tuple[Polygon, Polygon, Polygon]]:
    """Three areas for each room: its visible outline; the reach of a thing in it; that with window recesses."""
    outlines = [Polygon(inner_outline(room_sides(house, room))).buffer(0) for room in range(len(house.rooms))]
    places = []
    for room, outline in enumerate(outlines):
        floor, recesses = [outline], []
        for opening in house.openings:
            wall = house.walls[opening.wall]
            if room not in wall.rooms or not (opening.kind == "window" or is_open_border(house, opening)):
                continue
            ends = [opening.offset_m + side * opening.width_m / 2 for side in (-1, 1)]
            half = wall.thickness_m / 2 + 0.01
            corners = ((ends[0], -half), (ends[1], -half), (ends[1], half), (ends[0], half))
            hole = Polygon([wall_point(wall, along, out) for along, out in corners])
            if opening.kind == "window":
                recesses.append(hole)
            else:
                floor += [hole, outlines[sum(wall.rooms) - room]]
        area = shapely.union_all(floor)
        places.append((outline, area, shapely.union_all([area, *recesses])))
    return places


def _placed(piece: Piece, model: Model, house: House, places: list) -> tuple[HouseObject | None, str]:
    size, bottom = list(_size(piece)), max(0.0, piece.bottom_m)
    remarks = []
    if bottom + size[1] > house.height_m:
        if bottom + size[1] * 0.85 > house.height_m:
            return None, "reaches through the ceiling"
        size[1] = house.height_m - bottom
        remarks.append("made lower to fit under the ceiling")
    room = _room(piece, places)
    if room is None:
        return None, "stands in no room"
    color, recolored = _color(piece, model)
    thing = HouseObject(
        0, model.category, model.key, (piece.x, bottom, piece.z), _turned(-piece.angle_rad), tuple(size), color, recolored,
        room, None, piece.mirrored,
    )  # fmt: skip
    moved = _pushed(thing, places[room][1 if bottom < 0.6 else 2])
    if moved is None:
        return None, f"stands in a wall of the {house.rooms[room].type}, more than {_PUSH_M * 100:.0f} cm deep"
    away = hypot(moved.position[0] - piece.x, moved.position[2] - piece.z)
    if away > 0.02:
        remarks.append(f"moved {away * 100:.0f} cm out of a wall")
    if moved.size_m != thing.size_m:
        remarks.append("made smaller to fit between walls")
    position = (round(moved.position[0], 4), round(bottom, 4), round(moved.position[2], 4))
    return replace(moved, id=len(house.objects) + 1, position=position), "; ".join(remarks)


def _room(piece: Piece, places: list) -> int | None:
    """The room that most of the piece stands in."""
    half_w, half_d = (max(side, 0.05) / 2 for side in (piece.size_m[0], piece.size_m[2]))
    c, s = cos(piece.angle_rad), sin(piece.angle_rad)
    corners = ((-half_w, -half_d), (half_w, -half_d), (half_w, half_d), (-half_w, half_d))
    covered = Polygon([(piece.x + c * x - s * z, piece.z + s * x + c * z) for x, z in corners])
    shares = [outline.intersection(covered).area / covered.area for outline, _, _ in places]
    if max(shares) < 0.05:
        shares = [recess.intersection(covered).area / covered.area for _, _, recess in places]
    best = max(range(len(shares)), key=shares.__getitem__)
    return best if shares[best] >= 0.05 else None


def _pushed(thing: HouseObject, area: Polygon) -> HouseObject | None:
    """The thing, moved into the area by as little as possible; a little smaller if it fits nowhere near."""
    shapely.prepare(area)
    for share in (1.0, 0.95, 0.9, 0.8):
        width, height, depth = thing.size_m
        size = (round(width * share, 4), height, round(depth * share, 4))
        for away in np.arange(0.0, _PUSH_M + 0.001, 0.01):
            for turn in np.arange(24) * pi / 12 if away else (0.0,):
                x, z = thing.position[0] + away * cos(turn), thing.position[2] + away * sin(turn)
                moved = replace(thing, position=(float(x), thing.position[1], float(z)), size_m=size)
                nearly = replace(moved, size_m=(size[0] * _WITHIN, height, size[2] * _WITHIN))
                if area.contains(Polygon(nearly.footprint())):
                    return moved
    return None


def _turned(angle: float) -> float:
    return round((angle + pi) % (2 * pi) - pi, 6)


def _support(thing: HouseObject, house: House) -> int | None:
    """The object whose top the thing stands on."""
    models = load_catalog().models
    if thing.position[1] < 0.05:
        return None
    point = shapely.Point(thing.position[0], thing.position[2])
    for other in house.objects:
        top = models[other.model].top_m
        if other.id == thing.id or top is None or other.room != thing.room:
            continue
        height = other.position[1] + top * other.size_m[1] / models[other.model].size_m[1]
        if abs(height - thing.position[1]) < 0.04 and Polygon(other.footprint()).contains(point):
            return other.id
    return None


def _color(piece: Piece, model: Model) -> tuple[str | None, bool]:
    """(nearest palette colour, whether the model is painted in it)"""
    paint = piece.paint
    if paint is None:
        main = _main_materials().get(model.key, set())
        paint = next((color for name, color in piece.materials.items() if name in main), None)
    if paint is None or not model.recolorable:
        return model.color, False
    return nearest_color(paint), True


@functools.cache
def _main_materials() -> dict[str, set[str]]:
    """Names of the materials that paint goes on, by model; only the catalogue's document has them."""
    document = json.loads((ASSETS / "catalog.json").read_text(encoding="utf-8"))
    return {m["key"]: {slot["material"] for slot in m["slots"] if slot["main"]} for m in document["models"]}


def nearest_color(paint: str) -> str:
    """The palette's name that a person would most likely give to "#rrggbb"."""
    hue, saturation, value = rgb_to_hsv(*(int(paint[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    if value < 0.2 or value < 0.32 and saturation < 0.45:
        return "black"
    if saturation < 0.15 or saturation < 0.25 and value > 0.85 and hue < 0.2:
        return "white" if value > 0.72 else "gray"
    for end, (dark, pale, full), (least_pale, least_full) in _HUES:
        if hue * 360 < end:
            name, least = (pale, least_pale) if saturation < 0.55 else (full, least_full)
            return name if value >= least else dark
    raise AssertionError(f"hue {hue}: expected at most 1")


# Names up to a hue in degrees: of a dark, pale and full colour, and the values from which a pale and a full one is not
# dark.
_HUES: tuple[tuple[int, tuple[str, str, str], tuple[float, float]], ...] = (
    (14, ("brown", "pink", "red"), (0.7, 0.35)),
    (44, ("brown", "orange", "orange"), (0.85, 0.75)),
    (68, ("brown", "yellow", "yellow"), (0.6, 0.6)),
    (165, ("green", "green", "green"), (0.0, 0.0)),
    (256, ("blue", "blue", "blue"), (0.0, 0.0)),
    (308, ("purple", "purple", "purple"), (0.0, 0.0)),
    (342, ("purple", "pink", "pink"), (0.5, 0.5)),
    (361, ("brown", "pink", "red"), (0.7, 0.35)),
)
