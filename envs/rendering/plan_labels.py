"""`place_labels`: places for names on a plan, so that no two names overlap and all stay in the picture.

`names_of_things` and `middle_of` say what to write on the plan of any scene, and where.

Labels are placed one after another, the most important one first. Each takes the cheapest place near its anchor: far
away costs, and so does what it would hide. Boxes are (left, top, right, bottom) in pixels, x right and y down.

Axes: L labels, B boxes, H boxes that are hidden only if they must be, C candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from shapely import Polygon
from shapely.ops import polylabel

from eqa.envs.annotations import Outline, Thing

GAP_PX = 1.0  # between labels
HIDING = 10.0  # heights of a label that it goes out of the way rather than hide what it would cover
NEIGHBOURS_M = 1.6  # things of one kind this near to each other share a name
ON_FLOOR_M = 0.3  # things that begin higher stand on others or hang
NO_BOXES = np.empty((0, 4))


@dataclass(frozen=True, slots=True)
class Name:
    """A name on a plan, and the point (x, z) that it belongs to."""

    text: str
    at: tuple[float, float]
    region: int
    area_m2: float  # of the footprints that it names
    on_floor: bool


def place_labels(
    anchors: Float64[np.ndarray, "L 2"],
    sizes: Float64[np.ndarray, "L 2"],
    reaches: Float64[np.ndarray, " L"],
    *,
    picture: tuple[float, float],
    taken: Float64[np.ndarray, "B 4"] = NO_BOXES,
    avoid: Float64[np.ndarray, "H 4"] = NO_BOXES,
) -> Float64[np.ndarray, "L 2"]:
    """Middles of labels of the given `sizes` (width, height), NaN for a label that finds no place.

    A label's middle is at most `reaches` of its own heights from its anchor, or from the nearest place in the picture;
    inf: anywhere. No label covers a box of `taken`, and none a box of `avoid` if there is a free place nearby.
    """
    middles = np.full((len(anchors), 2), np.nan)
    for label, (anchor, size, reach) in enumerate(zip(anchors, sizes, reaches, strict=True)):
        farthest = min(reach * size[1], float(np.hypot(*picture)))
        nearest = np.clip(anchor, size / 2, np.maximum(picture - size / 2, size / 2))
        found = _cheapest(nearest + _rings(size[1] / 2, farthest), anchor, size, picture, taken, avoid)
        if found is None and np.isinf(reach):
            found = _cheapest(_raster(size, picture), anchor, size, picture, taken, avoid)
        if found is not None:
            middles[label] = found
            taken = np.concatenate([taken, [[*(found - size / 2), *(found + size / 2)]]])
    return middles


def _cheapest(
    candidates: Float64[np.ndarray, "C 2"],
    anchor: Float64[np.ndarray, " 2"],
    size: Float64[np.ndarray, " 2"],
    picture: tuple[float, float],
    taken: Float64[np.ndarray, "B 4"],
    avoid: Float64[np.ndarray, "H 4"],
) -> Float64[np.ndarray, " 2"] | None:
    """The cheapest of the middles that a label may have, None if it may have none of them."""
    boxes = np.concatenate([candidates - size / 2, candidates + size / 2], axis=1)
    fits = (boxes[:, :2] >= 0).all(1) & (boxes[:, 2:] <= picture).all(1)
    fits &= ~_overlaps(boxes + GAP_PX * np.array([-1, -1, 1, 1]), taken).any(axis=1)
    if not fits.any():
        return None
    away = np.hypot(*(candidates[fits] - anchor).T) / size[1]
    return candidates[fits][np.argmin(away + HIDING * _hidden_share(boxes[fits], avoid))]


def _rings(step: float, farthest: float) -> Float64[np.ndarray, "C 2"]:
    """Places round an anchor, nearest first: rings of 24 that lie further apart the further they are out."""
    radii = [0.0]
    while radii[-1] < farthest:
        radii.append(min(radii[-1] * 1.12 + step, farthest))
    turns = np.arange(24) * (np.pi / 12)
    ring = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return np.concatenate([np.zeros((1, 2)), (np.array(radii[1:])[:, None, None] * ring).reshape(-1, 2)])


def _raster(size: Float64[np.ndarray, " 2"], picture: tuple[float, float]) -> Float64[np.ndarray, "C 2"]:
    """All over the picture, for a label that found no place on the rings."""
    wide, high = (
        np.arange(half, side - half + 1e-9, size[1] / 3) for half, side in zip(size / 2, picture, strict=True)
    )
    return np.stack(np.meshgrid(wide, high), axis=2).reshape(-1, 2)


def _overlaps(boxes: Float64[np.ndarray, "C 4"], others: Float64[np.ndarray, "B 4"]) -> Bool[np.ndarray, "C B"]:
    return (boxes[:, None, :2] < others[:, 2:]).all(2) & (boxes[:, None, 2:] > others[:, :2]).all(2)


def _hidden_share(boxes: Float64[np.ndarray, "C 4"], others: Float64[np.ndarray, "B 4"]) -> Float64[np.ndarray, " C"]:
    """The share of each box that others cover, at most 1; what two of them cover counts twice."""
    low, high = np.maximum(boxes[:, None, :2], others[:, :2]), np.minimum(boxes[:, None, 2:], others[:, 2:])
    covered = np.clip(high - low, 0, None).prod(axis=2).sum(axis=1)
    return np.minimum(covered / (boxes[:, 2:] - boxes[:, :2]).prod(axis=1), 1)


def middle_of(outline: Outline | Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A point (x, z) well inside an outline: its centroid, or the middle of its widest part if that is far better."""
    polygon = Polygon(outline)
    centroid = polygon.centroid
    widest = polylabel(polygon, tolerance=0.05)
    depth = [point.distance(polygon.exterior) if polygon.contains(point) else 0.0 for point in (centroid, widest)]
    best = centroid if depth[0] >= 0.6 * depth[1] else widest
    return float(best.x), float(best.y)


def smallest_first(outlines: Sequence[Outline | Sequence[tuple[float, float]]]) -> list[int]:
    """Indices of outlines by area: the name of a large room finds another place in it, that of a small one does not."""
    areas = [Polygon(outline).area for outline in outlines]
    return sorted(range(len(areas)), key=lambda i: (areas[i], i))


def names_of_things(things: Sequence[Thing]) -> list[Name]:
    """Names to write on a plan, the most important first: large things on the floor before others.

    Neighbours of one kind in a region share a name: "4 x chair". Things that hang or stand on others have a name only
    if questions may be about their kind.
    """
    groups: list[list[Thing]] = []
    for thing in (thing for thing in things if thing.asked or thing.low_m <= ON_FLOOR_M):
        group = next((group for group in groups if any(_goes_with(thing, other) for other in group)), None)
        groups.append([thing]) if group is None else group.append(thing)
    names = [_name(group) for group in groups]
    return sorted(names, key=lambda name: (not name.on_floor, -name.area_m2))


def _goes_with(thing: Thing, other: Thing) -> bool:
    if (thing.name, thing.region) != (other.name, other.region):
        return False
    (x, z), (to_x, to_z) = thing.middle, other.middle
    return (x - to_x) ** 2 + (z - to_z) ** 2 <= NEIGHBOURS_M**2


def _name(group: list[Thing]) -> Name:
    """The group's name, at the member nearest to its middle."""
    middles = np.array([thing.middle for thing in group])
    nearest = int(np.argmin(((middles - middles.mean(axis=0)) ** 2).sum(axis=1)))
    text = group[0].name if len(group) == 1 else f"{len(group)} x {group[0].name}"
    area_m2 = sum(Polygon(thing.outline).area for thing in group)
    on_floor = min(thing.low_m for thing in group) <= ON_FLOOR_M
    return Name(text, group[nearest].middle, group[0].region, area_m2, on_floor)
