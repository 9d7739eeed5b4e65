"""`look_around`: what a view shows of each thing, at every heading from many places at once.

Four small pictures from a place close the round. The pixels of each thing are added up by columns, and columns by
views.

Axes: P places, N poses, D headings, I instance ids (0 is the building), O objects, H W image.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import asin, pi, radians, sin, tan
from typing import no_type_check

import numpy as np
from jaxtyping import Float32, Float64, Int64, Integer
from numba import njit

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.navigation.floor import side_by_side
from eqa.envs.rendering.camera import Camera

VIEW_RAD = radians(60)  # an agent's view, as wide as it is high
VIEW_SR = 4 * asin(sin(VIEW_RAD / 2) ** 2)
NUM_HEADINGS, HEADINGS_RAD = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.headings_rad
COLUMNS_A_TURN = 3
NUM_COLUMNS = NUM_HEADINGS * COLUMNS_A_TURN
COLUMNS_A_VIEW = round(NUM_COLUMNS * VIEW_RAD / (2 * pi))
NUM_DRAWN = 4  # pictures that close the round, 90 degrees wide; higher than the view even in their corners
DRAWN = Camera(height_px=58, width_px=58, vertical_fov_deg=90.0)
PLACES_AT_ONCE = 64
FLOOR = 1  # the place of floors among objects; the rest of the building is 0, and things come after
LEAST_SEEN = 0.005  # the share of a view from which a thing counts as seen


@dataclass(frozen=True, slots=True)
class Around:
    """Objects seen from places, as shares of a view's solid angle."""

    share: Float32[np.ndarray, "P D O"]  # in the view at each heading that an agent can have
    whole: Float32[np.ndarray, "P O"]  # all round, and above and below the views
    others: Int64[np.ndarray, "P D"]  # things that fill at least LEAST_SEEN of the view


def look_around(
    draw: Callable[[Float64[np.ndarray, "N 4"]], Integer[np.ndarray, "N H W"]],
    places: Float64[np.ndarray, "P 4"],
    column_of: Int64[np.ndarray, " I"],
) -> Around:
    """Things seen from each place, at each heading that an agent can have. The places' own headings do not count.

    `column_of` gives each instance id's place on the last axis; things come after FLOOR. A view's upper and lower edges
    count as equally far from the horizon all along, at their mean. `draw` gives the instance ids that poses see with
    the camera DRAWN.
    """
    across = 2 * (np.arange(DRAWN.width_px) + 0.5) / DRAWN.width_px - 1
    down = (np.arange(DRAWN.height_px) + 0.5 - DRAWN.height_px / 2) * 2 / DRAWN.width_px
    column = np.floor(-np.arctan(across) / (2 * pi) * NUM_COLUMNS).astype(np.int64)
    steepest = tan(VIEW_RAD / 2) * sin(VIEW_RAD / 2) / (VIEW_RAD / 2)
    in_view = np.abs(down[:, None]) <= steepest * np.hypot(1, across)
    pixel = (2 / DRAWN.width_px) ** 2 * (1 + across**2 + down[:, None] ** 2) ** -1.5
    weight = pixel / VIEW_SR
    turns = np.arange(NUM_DRAWN) * 2 * pi / NUM_DRAWN
    shares = np.empty((len(places), NUM_HEADINGS, column_of.max() + 1), np.float32)
    whole = np.empty((len(places), shares.shape[2]), np.float32)
    others = np.empty(shares.shape[:2], np.int64)
    for first in range(0, len(places), PLACES_AT_ONCE):
        part = slice(first, first + PLACES_AT_ONCE)
        poses = np.repeat(places[part], NUM_DRAWN, 0)
        poses[:, 3] = np.tile(turns, len(places[part]))
        seen = draw(poses)
        rounds = seen.reshape(-1, NUM_DRAWN, *seen.shape[1:])
        halves = zip(
            *(np.array_split(array, 2) for array in (shares[part], whole[part], others[part], rounds)), strict=True
        )
        side_by_side(lambda half: _share(*half, column_of, column, weight, in_view), halves)
    return Around(shares, whole, others)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _share(out, whole, others, seen, column_of, column, weight, in_view):
    """Adds pixels up by object and column of the round, then columns up to the views at each heading."""
    num = out.shape[2]
    before = np.empty((NUM_COLUMNS + COLUMNS_A_VIEW + 1, num))  # sums over all earlier columns, round once more
    beyond = np.empty(num)
    for p in range(out.shape[0]):
        before[:] = 0
        beyond[:] = 0
        for v in range(NUM_DRAWN):
            turned = v * (NUM_COLUMNS // NUM_DRAWN) + COLUMNS_A_VIEW // 2
            for i in range(seen.shape[2]):
                for j in range(seen.shape[3]):
                    o = column_of[seen[p, v, i, j]]
                    if in_view[i, j]:
                        before[(column[j] + turned) % NUM_COLUMNS + 1, o] += weight[i, j]
                    else:
                        beyond[o] += weight[i, j]
        before[NUM_COLUMNS + 1 :] = before[1 : COLUMNS_A_VIEW + 1]
        for c in range(NUM_COLUMNS + COLUMNS_A_VIEW):
            for o in range(num):
                before[c + 1, o] += before[c, o]
        for o in range(num):
            whole[p, o] = before[NUM_COLUMNS, o] + beyond[o]
        for d in range(NUM_HEADINGS):
            first, others[p, d] = d * COLUMNS_A_TURN, 0
            for o in range(num):
                out[p, d, o] = before[first + COLUMNS_A_VIEW, o] - before[first, o]
                others[p, d] += o > FLOOR and out[p, d, o] >= LEAST_SEEN
