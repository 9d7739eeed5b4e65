"""`candidates`: possible places of a thing, for each kind of place that a furnishing rule may name; best guesses first.

A candidate is a `Box` that `Space.fits` has still to test.
"""

from collections.abc import Iterator, Sequence

from eqa.envs.house.random_stream import Dice
from eqa.envs.house.room_space import FACINGS, Box, Space, Stretch, windows_along

_WALL_GAP_M = 0.02  # leaves room for the skirting
_HUNG_GAP_M = 0.004
_TRIES = 24
_BEHIND_M = 0.75  # a thing stands at a wall, or leaves this much for walking behind it
_CURTAIN_M = 0.04  # from the floor
_CEILING_M = 0.04  # things on walls stay this far below the ceiling

Size = tuple[float, float, float]


def candidates(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    """Boxes of `size` for the rule's place `at`; `of` is the box that the place refers to, None where it needs none."""
    place = PLACES[rule["at"]]
    for box in place(dice, space, rule, size, y0, of):
        box.x, box.z, box.y0 = round(box.x, 3), round(box.z, 3), round(box.y0, 3)
        box.rule_front_m, box.back_m = rule.get("front", 0.5), rule.get("back", 0.0)
        box.shuns_windows = rule.get("windows", True) is False
        if box.on is None:
            box.parent = of
        yield box


def _stretch_for(dice: Dice, space: Space, width: float, top: float) -> Stretch | None:
    """A piece of wall as wide as the thing, and as high as `top`; longer ones more often."""
    weights = {
        place: stretch.length_m - width + 0.3
        for place, stretch in enumerate(space.stretches)
        if stretch.length_m > width + 0.05 and stretch.height_m >= top
    }
    return space.stretches[dice.weighted(weights)] if weights else None


def _wall(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    hung = rule["at"] == "hang"
    out = (_HUNG_GAP_M if hung else _WALL_GAP_M) + size[2] / 2
    for number in range(_TRIES):
        stretch = _stretch_for(dice, space, size[0], y0 + size[1] if hung else 0.0)
        if stretch is None:
            return
        slack = stretch.length_m - size[0] - 0.06
        share = dice.uniform()
        if rule.get("centre") and number < _TRIES / 2:
            share = 0.5
        elif not hung and dice.chance(0.3):
            share = round(share)
        x, z = stretch.point(0.03 + size[0] / 2 + max(slack, 0) * share, out)
        yield Box(x, z, y0, size, stretch.quarter, against_wall=True)


def _side(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    """The thing's long side to the wall."""
    for box in _wall(dice, space, {"at": "wall"}, (size[2], size[1], size[0]), y0, of):
        box.size_m = size
        box.quarter = (box.quarter + dice.pick((1, 3))) % 4
        yield box


def _corner(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    places = [(stretch, end) for stretch in space.stretches for end in (0, 1) if stretch.length_m > size[0] + 0.05]
    for stretch, end in dice.shuffled(places):
        s = 0.03 + size[0] / 2
        x, z = stretch.point(stretch.length_m - s if end else s, _WALL_GAP_M + size[2] / 2)
        yield Box(x, z, y0, size, stretch.quarter, against_wall=True)


def _floor(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    xs, zs = [x for x, _ in space.outline], [z for _, z in space.outline]
    for _ in range(_TRIES):
        x, z = dice.uniform(min(xs), max(xs)), dice.uniform(min(zs), max(zs))
        yield Box(x, z, y0, size, dice.integer(0, 3))


def _centre(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    """In the middle of the largest rectangle that the room's corners span, then further and further off."""
    x0, x1, z0, z1 = _widest_rectangle(space)
    turn = 0 if (x1 - x0 >= z1 - z0) == (size[0] >= size[2]) else 1
    for number in range(_TRIES):
        off = number / _TRIES / 2
        x = (x0 + x1) / 2 + dice.uniform(-off, off) * (x1 - x0)
        z = (z0 + z1) / 2 + dice.uniform(-off, off) * (z1 - z0)
        yield Box(x, z, y0, size, (turn + dice.pick((0, 2)) + (number % 5 == 4)) % 4)


def _widest_rectangle(space: Space) -> tuple[float, float, float, float]:
    xs, zs = sorted({x for x, _ in space.outline}), sorted({z for _, z in space.outline})
    best, best_area = (xs[0], xs[-1], zs[0], zs[-1]), 0.0
    for i, x0 in enumerate(xs):
        for x1 in xs[i + 1 :]:
            for j, z0 in enumerate(zs):
                for z1 in zs[j + 1 :]:
                    area = (x1 - x0) * (z1 - z0)
                    if area > best_area + 1e-6 and space.holds((x0, x1, z0, z1)):
                        best, best_area = (x0, x1, z0, z1), area
    return best


def _gap_m(dice: Dice, rule: dict, default_m: float) -> float:
    gap = rule.get("gap", default_m)
    return dice.uniform(*gap) if isinstance(gap, list) else gap


def _front(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """Before it. A gap that may vary lets it stand at the wall behind it, or far enough from that to pass."""
    anchor = space.boxes[of]
    fx, fz = anchor.facing
    for aside in (0.0, dice.uniform(-0.25, 0.25), dice.uniform(-0.5, 0.5)):
        middle = (anchor.x + fz * aside, anchor.z - fx * aside)
        gap, at_wall = _gap_m(dice, rule, 0.1), False
        if isinstance(rule.get("gap"), list):
            snug = space.ahead_m(middle, anchor.quarter) - anchor.size_m[2] / 2 - size[2] - _WALL_GAP_M
            gap = snug if rule["gap"][0] <= snug <= rule["gap"][1] + 0.3 else min(gap, snug - _BEHIND_M)
            at_wall = gap == snug
            if gap < rule["gap"][0]:
                continue
        reach = anchor.size_m[2] / 2 + gap + size[2] / 2
        x, z = middle[0] + fx * reach, middle[1] + fz * reach
        yield Box(x, z, y0, size, (anchor.quarter + 2) % 4, against_wall=at_wall)


def _opposite(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    anchor = space.boxes[of]
    for stretch in space.stretches:
        fx, fz = anchor.facing
        ahead = (stretch.start[0] - anchor.x) * fx + (stretch.start[1] - anchor.z) * fz
        if (stretch.quarter + 2) % 4 != anchor.quarter or ahead < 1.5 or stretch.length_m < size[0] + 0.05:
            continue
        wanted = (anchor.x - stretch.start[0]) * stretch.along[0] + (anchor.z - stretch.start[1]) * stretch.along[1]
        half = size[0] / 2 + 0.03
        for shift in (0.0, 0.3, -0.3, 0.6, -0.6, 1.0, -1.0, 1.5, -1.5):
            s = min(max(wanted + shift, half), stretch.length_m - half)
            x, z = stretch.point(s, _WALL_GAP_M + size[2] / 2)
            yield Box(x, z, y0, size, stretch.quarter, against_wall=True)


def _beside(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """On either side, backs in line."""
    anchor = space.boxes[of]
    fx, fz = anchor.facing
    back = (size[2] - anchor.size_m[2]) / 2
    reach = anchor.size_m[0] / 2 + rule.get("gap", 0.06) + size[0] / 2
    for sign in dice.shuffled((1, -1)):
        for further in (0.0, 0.1, 0.25):
            aside = sign * (reach + further)
            yield Box(anchor.x + fx * back + fz * aside, anchor.z + fz * back - fx * aside, y0, size, anchor.quarter)


def _around(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """Seats along the sides, looking at the middle, in pairs that face each other: at the long sides first."""
    anchor = space.boxes[of]
    pairs = -(-rule["count"][1] // 2)
    room = [max(1, int(anchor.size_m[axis] / max(0.58, size[0] + 0.06))) for axis in (0, 2)]
    longer = anchor.size_m[0] - anchor.size_m[2]
    if abs(longer) < 0.2:
        first = min(-(-pairs // 2), room[0])
    elif longer > 0:
        first = min(pairs, room[0])
    else:
        first = pairs - min(pairs, room[1])
    for turns, count in (((0, 2), first), ((1, 3), min(pairs - first, room[1]))):
        yield from _seats(dice, rule, size, y0, anchor, turns, count)


def _ends(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """A seat at the left and one at the right side, looking at the middle."""
    yield from _seats(dice, rule, size, y0, space.boxes[of], dice.shuffled((1, 3)), 1)


def _seats(
    dice: Dice, rule: dict, size: Size, y0: float, anchor: Box, turns: Sequence[int], count: int
) -> Iterator[Box]:
    """`count` seats evenly along each of two sides that face each other."""
    along, across = anchor.size_m[0], anchor.size_m[2]
    if turns[0] % 2:
        along, across = across, along
    reach = across / 2 + _gap_m(dice, rule, 0.02) + size[2] / 2
    for number in range(count):
        aside = along * ((number + 0.5) / count - 0.5)
        for turn in turns:
            quarter = (anchor.quarter + turn) % 4
            fx, fz = FACINGS[quarter]
            shift = aside if turn == turns[0] else -aside
            x, z = anchor.x + fx * reach + fz * shift, anchor.z + fz * reach - fx * shift
            yield Box(x, z, y0, size, (quarter + 2) % 4)


def _atop(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    support = space.boxes[of]
    w, d = support.size_m[0] - size[0] - 0.04, support.size_m[2] - size[2] - 0.04
    if support.top_m is None or support.top is None or w < 0 or d < 0:
        return
    fx, fz = support.facing
    for number in range(_TRIES):
        aside, ahead = dice.uniform(-w / 2, w / 2), dice.uniform(-d / 2, d / 2)
        if rule.get("centre") and number < 6:
            aside, ahead = 0.0, -d / 2 * number / 6
        if support.top.holds(support.size_m, (aside, ahead), size):
            x, z = support.x + fx * ahead + fz * aside, support.z + fz * ahead - fx * aside
            yield Box(x, z, support.y0 + support.top_m, size, support.quarter, on=of)


def _above(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """On the wall above, centred, higher than the thing below."""
    anchor = space.boxes[of]
    fx, fz = anchor.facing
    back = (size[2] - anchor.size_m[2]) / 2 - _WALL_GAP_M + _HUNG_GAP_M
    height = max(y0, anchor.y1 + 0.08)
    free_m = 0.0 if "chimney" in rule else _CEILING_M
    if anchor.against_wall and height + size[1] <= space.height_m - free_m + 1e-6:
        yield Box(anchor.x + fx * back, anchor.z + fz * back, height, size, anchor.quarter, against_wall=True)


def _over(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """Hanging from the ceiling."""
    anchor = space.boxes[of]
    yield Box(anchor.x, anchor.z, space.height_m - size[1], size, anchor.quarter)


def _under(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int) -> Iterator[Box]:
    """A rug beneath, its long side along the wider one; one under a thing against a wall sticks out in front."""
    anchor = space.boxes[of]
    fx, fz = anchor.facing
    for share in (0.5,) if not anchor.against_wall else (0.75, 0.9, 0.6):  # of the rug that shows
        for turn in (0, 1) if size[0] >= size[2] else (1, 0):
            ahead = anchor.size_m[2] / 2 + (share - 0.5) * size[0 if turn else 2] if anchor.against_wall else 0.0
            yield Box(anchor.x + fx * ahead, anchor.z + fz * ahead, y0, size, (anchor.quarter + turn) % 4)


def _door(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    """A mat before one of the room's doors."""
    for x0, x1, z0, z1 in space.strips[-1:]:
        yield Box((x0 + x1) / 2, (z0 + z1) / 2, y0, size, 0 if x1 - x0 > z1 - z0 else 1)


def _window(dice: Dice, space: Space, rule: dict, size: Size, y0: float, of: int | None) -> Iterator[Box]:
    """Curtains a little wider than a window, from above it down to the floor, or to its sill where something stands."""
    for stretch, start, end, bottom, top in dice.shuffled(windows_along(space)):
        x, z = stretch.point((start + end) / 2, _WALL_GAP_M + size[2] / 2)
        highest = min(top + 0.15, space.height_m - _CEILING_M)
        for beyond in (0.45, 0.25, 0.1):
            for lowest in (_CURTAIN_M, max(bottom - 0.12, _CURTAIN_M)):
                box_size = (round(end - start + beyond, 3), round(highest - lowest, 3), size[2])
                yield Box(x, z, lowest, box_size, stretch.quarter, against_wall=True)


PLACES = {
    "wall": _wall, "hang": _wall, "side": _side, "corner": _corner, "floor": _floor, "centre": _centre, "front": _front,
    "opposite": _opposite, "beside": _beside, "around": _around, "ends": _ends, "atop": _atop, "above": _above,
    "over": _over, "under": _under, "door": _door, "window": _window,
}  # fmt: skip
