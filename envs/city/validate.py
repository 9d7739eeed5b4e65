"""`validate`: refuses a city whose parts overlap or leave their places, and names them."""

from collections.abc import Sequence
from itertools import combinations

from eqa.envs.annotations import PALETTE
from eqa.envs.city.city import CLASSES, Box, City, Rect, bounds_of, overlap, sign_rect

TOLERANCE_M = 0.02


def validate(city: City) -> None:
    """ValueError for overlapping or misplaced parts, unknown names and colours, and ids that are not 1 to the last."""
    _check_plan(city)
    _check_buildings(city)
    _check_shops(city)
    _check_props(city)
    ids = [thing.id for thing in city.annotations.things]
    if ids != list(range(1, len(ids) + 1)):
        raise ValueError(f"{city.id}: ids: expected 1 to {len(ids)}, each once, got {ids[:8]}...")


def _inside(part: Rect, whole: Rect) -> bool:
    t = TOLERANCE_M
    return part[0] >= whole[0] - t and part[1] >= whole[1] - t and part[2] <= whole[2] + t and part[3] <= whole[3] + t


def _check_plan(city: City) -> None:
    parts = [(f"street {s.name}", s.rect) for s in city.streets]
    parts += [(f"{b.kind} {k}", b.rect) for k, b in enumerate(city.blocks)]
    for name, rect in parts:
        if not (rect[0] < rect[2] and rect[1] < rect[3]):
            raise ValueError(f"{city.id}: {name}: expected least and greatest x and z, got {rect}")
        if not _inside(rect, city.rect):
            raise ValueError(f"{city.id}: {name}: expected inside the city {city.rect}, got {rect}")
    blocks = parts[len(city.streets) :]
    for (name, rect), (other, area) in [
        *combinations(blocks, 2),
        *((b, s) for b in blocks for s in parts[: len(city.streets)]),
    ]:
        if overlap(rect, area, gap_m=-TOLERANCE_M):
            raise ValueError(f"{city.id}: {name} overlaps {other}; blocks lie between streets")


def _check_buildings(city: City) -> None:
    of_block: dict[int, list[tuple[int, Box]]] = {}
    for k, one in enumerate(city.buildings):
        where = f"{city.id}: building {k}"
        if not 0 <= one.block < len(city.blocks):
            raise ValueError(f"{where}: block: expected 0 to {len(city.blocks) - 1}, got {one.block}")
        if one.color not in PALETTE:
            raise ValueError(f"{where}: color: expected one of {', '.join(PALETTE)}, got {one.color!r}")
        for box in one.boxes:
            if not _inside(box.rect, city.blocks[one.block].rect):
                raise ValueError(f"{where}: expected inside block {one.block}, got {box.rect}")
            if not box.low_m < box.high_m:
                raise ValueError(f"{where}: expected low_m below high_m, got {box.low_m} and {box.high_m}")
            for other, area in of_block.get(one.block, ()):
                is_above = box.low_m >= area.high_m - TOLERANCE_M or area.low_m >= box.high_m - TOLERANCE_M
                if not is_above and overlap(box.rect, area.rect, gap_m=-TOLERANCE_M):
                    raise ValueError(f"{where} overlaps building {other}")
            of_block.setdefault(one.block, []).append((k, box))


def _check_shops(city: City) -> None:
    names: dict[str, int] = {}
    for k, shop in enumerate(city.shops):
        where = f"{city.id}: shop {shop.name}"
        if not 0 <= shop.building < len(city.buildings):
            raise ValueError(f"{where}: building: expected 0 to {len(city.buildings) - 1}, got {shop.building}")
        building = city.buildings[shop.building]
        if shop.side != building.side or not _inside(shop.rect, _grown(building.rect, 0.5)):
            raise ValueError(f"{where}: expected on the front of building {shop.building}, got {shop.rect}")
        if shop.name in names:
            raise ValueError(f"{where}: expected a name of its own, got that of shop {names[shop.name]}")
        names[shop.name] = k
        if not {shop.color, shop.sign_color} <= set(PALETTE):
            raise ValueError(
                f"{where}: colors: expected some of {', '.join(PALETTE)}, got {shop.color, shop.sign_color}"
            )
    _check_apart(city, [(shop.name, sign_rect(shop)) for shop in city.shops])


def _check_props(city: City) -> None:
    walls = [(f"building {k}", box.rect) for k, one in enumerate(city.buildings) for box in one.boxes if box.low_m < 3]
    things = []
    for prop in city.props:
        where = f"{prop.name} {prop.id}"
        if prop.name not in CLASSES:
            raise ValueError(f"{city.id}: {where}: name: expected one of {', '.join(CLASSES)}, got {prop.name!r}")
        if prop.color is not None and prop.color not in PALETTE:
            raise ValueError(f"{city.id}: {where}: color: expected one of {', '.join(PALETTE)}, got {prop.color!r}")
        if not 0 <= prop.region < len(city.blocks) + len(city.streets):
            raise ValueError(f"{city.id}: {where}: region: expected one of the city's, got {prop.region}")
        rect = bounds_of([(*corner, *corner) for corner in prop.footprint()])
        if not _inside(rect, city.rect):
            raise ValueError(f"{city.id}: {where}: expected inside the city {city.rect}, got {rect}")
        things.append((where, rect))
    _check_apart(city, things)
    cells = _by_cell(walls)
    for name, rect in things:
        for wall, area in {pair for cell in _cells(rect) for pair in cells.get(cell, ())}:
            if overlap(rect, area):
                raise ValueError(f"{city.id}: {name} stands in {wall}")


def _check_apart(city: City, parts: Sequence[tuple[str, Rect]]) -> None:
    for inside in _by_cell(parts).values():
        for (name, rect), (other, area) in combinations(inside, 2):
            if overlap(rect, area):
                raise ValueError(f"{city.id}: {name} overlaps {other}")


def _grown(rect: Rect, by: float) -> Rect:
    return rect[0] - by, rect[1] - by, rect[2] + by, rect[3] + by


def _cells(rect: Rect) -> list[tuple[int, int]]:
    """Squares of 16 m that a rectangle reaches into."""
    columns, rows = (range(int(rect[k] // 16), int(rect[k + 2] // 16) + 1) for k in (0, 1))
    return [(i, j) for i in columns for j in rows]


def _by_cell(parts: Sequence[tuple[str, Rect]]) -> dict[tuple[int, int], list[tuple[str, Rect]]]:
    cells: dict[tuple[int, int], list[tuple[str, Rect]]] = {}
    for name, rect in parts:
        for cell in _cells(rect):
            cells.setdefault(cell, []).append((name, rect))
    return cells
