"""`Surroundings`: the building before an agent, and the targets that "to the east of the building" leaves clear.

The landmark of a start is the first building straight ahead. A target is beside it on a side of the compass if it lies
in a strip before that face. It must be the only thing there that the phrase may mean, and in a wider strip, too. So
nobody who knows the city could mean another one.

Axes: P places of the plan, N things, U buildings, S sides of the compass in the order of SIDES, R corners.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from eqa.data.questions.city.facts import LANDMARK, Fact
from eqa.data.questions.city.rules import Limits
from eqa.data.questions.city.sentences import SIDES, Asking
from eqa.envs.annotations import Annotations

ALONG = np.array(list(SIDES.values()), np.float64)  # (S, 2)
ACROSS = ALONG[:, ::-1]
INSIDE_M = 1.5  # the ray ahead meets a landmark at least so far from its corners,
CLEAR_M = 1.5  # and no other building so far beside it comes before
OWN_WALL_M = 1.0  # signs and shops lie so deep in their building's face


@dataclass(frozen=True, slots=True)
class Placed:
    """A fact asked from a start."""

    fact: int  # its place in the list
    asking: Asking
    start: int  # place of the start
    side: int  # of the compass that the agent looks to


class Surroundings:
    """Buildings and things of a city, and starts among them."""

    def __init__(self, annotations: Annotations, starts: Float64[np.ndarray, "P 2"], limits: Limits) -> None:
        self.starts, self.limits = starts, limits
        self.ids = {thing.id: n for n, thing in enumerate(annotations.things)}
        self.middles = np.array([thing.middle for thing in annotations.things], np.float64).reshape(-1, 2)
        blocks = [np.array(thing.outline) for thing in annotations.things if thing.name == LANDMARK]
        self.low = np.array([block.min(0) for block in blocks]).reshape(-1, 2)
        self.high = np.array([block.max(0) for block in blocks]).reshape(-1, 2)
        self.landmarks = self._landmarks()
        deep, aside = limits.beside_m
        self.beside = self._within(OWN_WALL_M, deep, aside)
        self.perhaps = self._within(OWN_WALL_M + limits.unclear_m, *limits.unclear_beside_m)

    def _ends(self, axes: Float64[np.ndarray, "S 2"]) -> tuple[Float64[np.ndarray, "U S"], Float64[np.ndarray, "U S"]]:
        """The least and greatest metres of each building along some axes."""
        one, other = self.low @ axes.T, self.high @ axes.T
        return np.minimum(one, other), np.maximum(one, other)

    def _landmarks(self) -> Int64[np.ndarray, "P S"]:
        """The building straight ahead of each start on each side; -1 where there is none, or it is unclear."""
        found = np.full((len(self.starts), len(ALONG)), -1, np.int64)
        if not len(self.low):
            return found
        (near, _), (left, right) = self._ends(ALONG), self._ends(ACROSS)
        least, most = self.limits.ahead_m
        for side, (along, across) in enumerate(zip(ALONG, ACROSS, strict=True)):
            at, off = self.starts @ along, self.starts @ across
            gap = near[:, side] - at[:, None]
            in_way = (off[:, None] > left[:, side] - CLEAR_M) & (off[:, None] < right[:, side] + CLEAR_M) & (gap > 0)
            gap = np.where(in_way, gap, np.inf)
            first = gap.argmin(1)
            rows = np.arange(len(first))
            met = (off > left[first, side] + INSIDE_M) & (off < right[first, side] - INSIDE_M)
            fits = met & (gap[rows, first] >= least) & (gap[rows, first] <= most)
            found[:, side] = np.where(fits, first, -1)
        return found

    def _within(self, inward_m: float, deep_m: float, aside_m: float) -> Bool[np.ndarray, "N U S"]:
        """True for things in a strip before each face of each building."""
        (_, face), (left, right) = self._ends(ALONG), self._ends(ACROSS)
        out = (self.middles @ ALONG.T)[:, None] - face
        off = (self.middles @ ACROSS.T)[:, None]
        return (out >= -inward_m) & (out <= deep_m) & (off >= left - aside_m) & (off <= right + aside_m)

    def clear_beside(self, fact: Fact) -> Bool[np.ndarray, "U S"]:
        """True for the buildings and sides on which the fact's target is, and nothing else like it."""
        like = [self.ids[i] for i in sorted(fact.like)]
        return self.beside[self.ids[fact.touched[0]]] & (self.perhaps[like].sum(0) == 1)

    def placed(self, facts: Sequence[Fact], rng: np.random.Generator) -> list[Placed]:
        """Each fact from one start for each pair of sides for which there is one: at most 16, drawn at random."""
        found = []
        least, most = self.limits.away_m
        names = list(SIDES)
        for number, fact in enumerate(facts):
            clear = self.clear_beside(fact)
            away = np.linalg.norm(self.starts - self.middles[self.ids[fact.touched[0]]], axis=1)
            near = np.flatnonzero((away >= least) & (away <= most))
            for target_side in np.flatnonzero(clear.any(0)).tolist():
                known = np.append(clear[:, target_side], False)[self.landmarks[near]]  # the last for no landmark
                for side in range(len(names)):
                    if len(fits := near[known[:, side]]):
                        asking = Asking(names[side], names[target_side], fact.target, fact.asked)
                        found.append(Placed(number, asking, int(rng.choice(fits)), side))
        return found
