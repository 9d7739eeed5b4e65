"""Search for the nearest frontier on an agent's map of the floor, and the action that leads there.

A frontier is a known cell in which an agent fits next to an unknown one (Yamauchi 1997). Paths lead through known cells
that keep an agent's radius from all that is blocked; those that keep two cells are preferred. Distances count PER_CELL
for a cell's side, and 7/5 of it for a diagonal.

Axes: N agents, K headings, S grid side, C = S * S cells in row-major order.
"""

from math import atan2, floor, sqrt
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float64, Int32
from numba import njit

from eqa.envs.actions import Action, ActionSet
from eqa.models.mapping.occupancy_map import BLOCKED, CELL_M, PASSED_OVER, SIDE, UNKNOWN, WIDE, cell_of, metres_of

FORWARD, LEFT, RIGHT = int(Action.FORWARD), int(Action.LEFT), int(Action.RIGHT)
NOTHING_LEFT = -1
PER_CELL, DIAGONAL = 5, 7
NARROW = 2  # factor of the length in a cell of clearance 1,
SQUEEZE = 6  # and in one of clearance 0, which only an agent enters that stands between things and has to get out
FAR = np.int32(1 << 30)
AHEAD = 20  # cells of the path; the farthest of them that can be reached in a straight line is the aim
TRIES = 8
PAST = 4  # a step of so many cells leads past what it was to look at from nearby
ROWS = np.array([0, 0, 1, -1, 1, 1, -1, -1])
COLUMNS = np.array([1, -1, 0, 0, 1, -1, 1, -1])
_SHARP = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}  # as in `models.mapping.occupancy_map`
_INNER = {**_SHARP, "forceinline": True}


class Moves(NamedTuple):
    """The sizes of an `ActionSet`'s moves, for compiled loops."""

    turn_rad: float
    step_m: float
    step_x: Float64[np.ndarray, " K"]
    step_z: Float64[np.ndarray, " K"]

    @classmethod
    def of(cls, actions: ActionSet) -> "Moves":
        return cls(actions.turn_rad, actions.step_m, actions.step_x, actions.step_z)


def working_memory() -> Int32[np.ndarray, "5 C"]:
    """Arrays for one search at a time: distances, which are FAR between searches, ways back, three lists of cells."""
    memory = np.empty((5, SIDE * SIDE), np.int32)
    memory[0] = FAR
    return memory


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def choose(actions, aims, sought, state, clearance, active, places, headings, moves, per_turn, smallest, memory):
    """Writes each active agent's next action, NOTHING_LEFT if it knows of no frontier that it can reach.

    places (N, 4) are relative to the spawn, headings (N,) whole turns, `moves` are `Moves`, `memory` is from
    `working_memory`. `sought` (N,) get the unknown cells that the actions lead to, -1 for none. `aims` (N,) are those
    that agents turn towards. An agent that turns keeps its aim until the aim is known or the agent has moved; else it
    might turn to and fro between two.
    """
    dist, parent, lists = memory[0], memory[1], memory[2:]
    for n in range(active.size):
        if active[n]:
            pose = (places[n, 0], places[n, 2], headings[n], moves)
            options = (per_turn, smallest)
            actions[n], sought[n] = _choose(state[n], clearance[n], *pose, aims[n], dist, parent, lists, *options)
            aims[n] = -1 if actions[n] == FORWARD else sought[n]


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _choose(state, clearance, x, z, heading, moves, aim, dist, parent, lists, per_turn, smallest):
    """The action and the unknown cell that it leads to."""
    known, free = state.ravel(), clearance.ravel()
    for _ in range(TRIES):
        cell, beyond = -1, -1
        if aim >= 0 and known[aim] == UNKNOWN:
            cell, beyond = _nearest(known, free, x, z, heading, moves, aim, dist, parent, lists, per_turn, smallest)
        if cell < 0:
            cell, beyond = _nearest(known, free, x, z, heading, moves, -1, dist, parent, lists, per_turn, smallest)
        if cell < 0:
            return NOTHING_LEFT, -1
        way = _way(parent, cell)
        action = _follow(state, clearance, x, z, heading, moves, way, beyond)
        if action >= 0:
            return action, beyond
        known[beyond] = PASSED_OVER  # seen from as near as possible, and nothing was there
    return NOTHING_LEFT, -1


@njit(**_SHARP)
@no_type_check
def _nearest(known, free, x, z, heading, moves, aim, dist, parent, lists, per_turn, smallest):
    """The nearest frontier cell and the unknown one beside it, -1 for none; `parent` leads back from it.

    With an `aim` only that unknown cell counts.

    Cells are settled in groups as wide as the shortest step, so each is settled once. `dist` is FAR again afterwards.
    """
    active, later, touched = lists[0], lists[1], lists[2]
    start = cell_of(z) * SIDE + cell_of(x)
    dist[start], parent[start], active[0], touched[0] = 0, -1, start, start
    count, used, limit = 1, 1, 0
    best, best_cell, best_beyond = FAR, -1, -1
    while count and limit <= best:
        kept = 0
        for a in range(count):
            cell = active[a]
            if dist[cell] > limit:
                later[kept] = cell
                kept += 1
                continue
            beyond, turns = _beyond(known, free, cell, x, z, heading, moves, aim, smallest)
            if beyond >= 0 and dist[cell] + per_turn * turns < best:
                best, best_cell, best_beyond = np.int32(dist[cell] + per_turn * turns), cell, beyond
            for k in range(8):
                other = cell + ROWS[k] * SIDE + COLUMNS[k]
                if known[other] == UNKNOWN or known[other] == BLOCKED or (free[other] == 0 and free[cell] > 0):
                    continue
                worth = SQUEEZE if free[other] == 0 else (1 if free[other] == WIDE else NARROW)
                value = np.int32(dist[cell] + worth * (PER_CELL if k < 4 else DIAGONAL))
                if value < dist[other]:
                    if dist[other] == FAR:
                        later[kept], touched[used] = other, other
                        kept, used = kept + 1, used + 1
                    dist[other], parent[other] = value, cell
        active, later = later, active
        count, limit = kept, limit + PER_CELL
    for t in range(used):
        dist[touched[t]] = FAR
    return best_cell, best_beyond


@njit(**_INNER)
@no_type_check
def _beyond(known, free, cell, x, z, heading, moves, aim, smallest):
    """The unknown cell beside a known one that takes the fewest turns to look at, and their number; -1 for none.

    A cell counts if an agent would fit there and at least `smallest` of the nine cells around it are unknown.
    """
    best, fewest = -1, moves.step_x.size
    if free[cell] == 0:
        return best, fewest
    for k in range(4):
        other = cell + ROWS[k] * SIDE + COLUMNS[k]
        if known[other] != UNKNOWN or free[other] == 0 or (aim >= 0 and other != aim):
            continue
        unknown = 0
        for i in range(-1, 2):
            for j in range(-1, 2):
                unknown += known[other + i * SIDE + j] == UNKNOWN
        turns = abs(_turns_to(heading, metres_of(other % SIDE) - x, metres_of(other // SIDE) - z, moves))
        if unknown >= smallest and turns < fewest:
            best, fewest = other, turns
    return best, fewest


@njit(**_SHARP)
@no_type_check
def _turns_to(heading, dx, dz, moves):
    """Turns from a heading to the one nearest to the direction (dx, dz); left is positive."""
    wanted, num_headings = floor(atan2(-dx, -dz) / moves.turn_rad + 0.5), moves.step_x.size
    return (wanted - heading + num_headings // 2) % num_headings - num_headings // 2


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _way(parent, cell):
    """Cells of the path from the agent's own to `cell`."""
    length, at = 0, cell
    while at >= 0:
        length, at = length + 1, parent[at]
    way = np.empty(length, np.int32)
    for k in range(length - 1, -1, -1):
        way[k] = cell
        cell = parent[cell]
    return way


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _follow(state, clearance, x, z, heading, moves, way, beyond):
    """The action along a path, or at its end the one that looks at the cell beyond; -1 if neither is possible."""
    end = way[-1]
    end_x, end_z = metres_of(end % SIDE) - x, metres_of(end // SIDE) - z
    step_m, step_x, step_z, num_headings = moves.step_m, moves.step_x, moves.step_z, moves.step_x.size
    if end_x * end_x + end_z * end_z < step_m * step_m and way.size * CELL_M < 2 * step_m:
        turns = _turns_to(heading, metres_of(beyond % SIDE) - x, metres_of(beyond // SIDE) - z, moves)
        if turns != 0:
            return LEFT if turns > 0 else RIGHT
        closer = step_m < PAST * CELL_M and _is_clear(state, clearance, x, z, step_x[heading], step_z[heading], 1)
        return FORWARD if closer else -1
    dx, dz = end_x, end_z
    least = np.uint8(WIDE)
    for k in range(1, min(way.size, AHEAD)):
        to_x, to_z = metres_of(way[k] % SIDE) - x, metres_of(way[k] // SIDE) - z
        least = min(least, clearance[way[k] // SIDE, way[k] % SIDE])
        if k == 1 or _is_clear(state, clearance, x, z, to_x, to_z, least):
            dx, dz = to_x, to_z
    straight = _turns_to(heading, dx, dz, moves)
    for least in (1, 0):  # 0 for an agent that stands between things
        for away in range(num_headings // 4 + 1):
            for side in (1, -1):
                turns = straight + side * away
                to = (heading + turns) % num_headings
                if _is_clear(state, clearance, x, z, step_x[to], step_z[to], least):
                    turns = (turns + num_headings // 2) % num_headings - num_headings // 2
                    return FORWARD if turns == 0 else (LEFT if turns > 0 else RIGHT)
    return -1


@njit(**_SHARP)
@no_type_check
def _is_clear(state, clearance, x, z, dx, dz, least):
    """True if the straight move by (dx, dz) leads through known, free cells of at least that clearance."""
    away = sqrt(dx * dx + dz * dz)
    samples = int(away / (0.25 * CELL_M)) + 1
    for k in range(1, samples + 1):
        row, column = cell_of(z + dz * k / samples), cell_of(x + dx * k / samples)
        if state[row, column] == UNKNOWN or state[row, column] == BLOCKED or clearance[row, column] < least:
            return False
    return True
