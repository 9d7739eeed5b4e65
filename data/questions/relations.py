"""The relations on, above, below, under and next to, judged from boxes: footprints turned by heading, and heights.

A verdict is CLEAR, NOT, or UNCLEAR if people would disagree. A question is asked only if one object is CLEAR and none
is UNCLEAR, so the bands between the thresholds of questions.yaml cost questions, never right answers.

"on" and "below" are about contact, "above" and "under" about a gap, as in the paper's engine. English is less strict: a
touching object is UNCLEAR for "above" and "under". "on" and "below" name the nearest thing: things further away are
NOT.
"""

from dataclasses import dataclass
from enum import Enum
from math import hypot

from shapely import Polygon

from eqa.envs.house.house import House, HouseObject

RELATIONS = ("on", "above", "below", "under", "next to")


class Verdict(Enum):
    NOT = 0
    UNCLEAR = 1
    CLEAR = 2


NOT, UNCLEAR, CLEAR = Verdict


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of questions.yaml, which explains each."""

    min_volume_m3: float
    contact_m: float
    above_m: float
    beside_m: float
    flat_m: float
    wall_gap_m: float
    clear_overlap: float
    some_overlap: float
    unclear_gap_factor: float
    count_below: int
    distance_gap_m: float
    distance_ratio: float

    def of_gap(self, gap_m: float, limit_m: float) -> Verdict:
        """CLEAR up to the limit, UNCLEAR somewhat beyond it."""
        return CLEAR if gap_m <= limit_m else UNCLEAR if gap_m <= limit_m * self.unclear_gap_factor else NOT

    def of_overlap(self, share: float) -> Verdict:
        return CLEAR if share >= self.clear_overlap else UNCLEAR if share > self.some_overlap else NOT


def volume_m3(thing: HouseObject) -> float:
    return thing.size_m[0] * thing.size_m[1] * thing.size_m[2]


class Relations:
    """Judges pairs of objects of one house. Footprints are computed once."""

    def __init__(self, house: House, thresholds: Thresholds) -> None:
        self.limits = thresholds
        self.footprints = {thing.id: Polygon(thing.footprint()) for thing in house.objects}
        self.radius = {thing.id: hypot(thing.size_m[0], thing.size_m[2]) / 2 for thing in house.objects}
        self.farthest = max(thresholds.beside_m * thresholds.unclear_gap_factor, 1.5 * thresholds.wall_gap_m)
        self.reach = {i: f.buffer(thresholds.wall_gap_m, join_style="mitre") for i, f in self.footprints.items()}

    def judge(self, relation: str, thing: HouseObject, anchor: HouseObject) -> Verdict:
        """Verdict on `thing` being <relation> `anchor`: "what is on the table?" asks for the thing on the anchor."""
        if thing.id == anchor.id or thing.room != anchor.room or self._far_apart(thing, anchor):
            return NOT
        if relation in ("on", "above"):
            return self._over(thing, anchor)[relation == "above"]
        if relation in ("below", "under"):
            return self._over(anchor, thing)[relation == "under"]
        if relation == "next to":
            return self._beside(thing, anchor)
        raise ValueError(f"relation: expected one of {RELATIONS}, got {relation!r}")

    def _far_apart(self, one: HouseObject, other: HouseObject) -> bool:
        """True if circles round the footprints rule out every relation, which saves most of the work."""
        apart_m = hypot(one.position[0] - other.position[0], one.position[2] - other.position[2])
        if one.on == other.id or other.on == one.id:
            return False
        return apart_m > self.radius[one.id] + self.radius[other.id] + self.farthest

    def _over(self, upper: HouseObject, lower: HouseObject) -> tuple[Verdict, Verdict]:
        """Verdicts on `upper` touching `lower` from above, and on being above it with a gap."""
        if upper.on == lower.id:
            return CLEAR, UNCLEAR
        gap_m = upper.position[1] - (lower.position[1] + lower.size_m[1])
        if gap_m < -self.limits.contact_m:
            return NOT, NOT
        if gap_m <= self.limits.contact_m:
            touching = self.limits.of_overlap(
                self._overlap(upper, self.footprints[upper.id], self.footprints[lower.id])
            )
            return touching, NOT if touching is NOT else UNCLEAR
        over = self.limits.of_overlap(self._overlap(upper, self.footprints[upper.id], self.reach[lower.id]))
        near = self.limits.of_gap(gap_m, self.limits.above_m)
        return NOT, min(over, near, key=lambda verdict: verdict.value)

    @staticmethod
    def _overlap(upper: HouseObject, own: Polygon, other: Polygon) -> float:
        """Shared area as a share of the smaller footprint, the upper one's as a rule."""
        if not own.intersects(other):
            return 0.0
        return own.intersection(other).area / min(own.area, other.area)

    def _beside(self, one: HouseObject, other: HouseObject) -> Verdict:
        """Verdict on being near at the same height, on the same support, neither over the other; never for rugs."""
        if any(t.position[1] <= self.limits.contact_m and t.size_m[1] <= self.limits.flat_m for t in (one, other)):
            return NOT
        low = max(one.position[1], other.position[1])
        high = min(one.position[1] + one.size_m[1], other.position[1] + other.size_m[1])
        shared = (high - low) / min(one.size_m[1], other.size_m[1])
        if shared <= self.limits.some_overlap or one.on == other.id or other.on == one.id:
            return NOT
        gap_m = self.footprints[one.id].distance(self.footprints[other.id])
        near = self.limits.of_gap(gap_m, self.limits.beside_m)
        raised_m = abs(one.position[1] - other.position[1])
        doubtful = (
            gap_m == 0
            or one.on != other.on
            or shared < self.limits.clear_overlap
            or self.limits.of_gap(raised_m, self.limits.beside_m) is not CLEAR
        )
        return UNCLEAR if near is CLEAR and doubtful else near
