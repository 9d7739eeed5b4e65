"""Shortest walks in actions: from a pose to a goal with the fewest moves that the simulator really makes.

A backward search from the goal, breadth first over a lattice of poses (cells of 10 cm, a floor's headings), gives the
cost-to-go. Each lattice state keeps the exact position by which it was reached first, so step lengths do not drift (as
in hybrid A*, Dolgov et al. 2008). A forward A* from the start over the simulator's own moves takes the cost-to-go as
its heuristic, so its walks can be replayed bit for bit. Many walks are equally short. The search takes one that turns
early: a learner can see the thing to turn to, but not the last moment for it. EmbodiedQA's demonstrations come from
such a search, too (its code's A*; the paper fits actions to a grid path).

Axes: T actions of a walk including STOP, P view points, L lattice side, C lattice cells with free floor, K headings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, no_type_check

import numpy as np
from jaxtyping import Float64, Int16, Int32, UInt64
from numba import njit

from eqa.envs.actions import Action, ActionSet
from eqa.envs.episode import PLAN, Pose
from eqa.envs.navigation.floor import (
    FORWARD,
    LEFT,
    RIGHT,
    Floor,
    cell_at,
    in_goal_disc,
    side_by_side,
    way_is_free,
)
from eqa.envs.navigation.walk import replay
from eqa.envs.simulator import Goal, Walk

Found = TypeVar("Found")
LATTICE_M = 0.1
HEADING_BITS = 6  # a pose in the search's queue is a cell and, in its lowest bits, a heading
SAME_PLACE_M = 0.01  # poses of one heading that are closer than this count as one in A*
MAX_NODES = 1 << 19
LONGEST = 1024  # actions
LAYERS_BEYOND = 6  # of the backward search after its last start: poses beside the walk are estimated, too


class NoWalk(ValueError):
    """A start or a target that cannot be reached."""


@dataclass(frozen=True, slots=True)
class CostToGo:
    """Moves still needed from every lattice pose to one goal, without STOP; -1 for poses without a walk."""

    floor: Floor
    goal: Goal
    lattice: "Lattice"
    cost: Int16[np.ndarray, "C K"]

    def estimate(self, pose: Pose) -> int:
        """Moves that a pose needs, by the lattice alone: right to a few in a hundred; -1 if no walk was found."""
        column, row = (int((at - corner) / LATTICE_M) for at, corner in zip(pose[PLAN], self.floor.origin, strict=True))
        heading = int(self.floor.actions.heading_indices(np.array(pose[3:]))[0])
        return int(self.cost[self.lattice.place[row, column], heading])

    def walk(self, start: Pose) -> Walk:
        """The shortest walk from any pose; NoWalk if there is none."""
        floor, moves = self.floor, self.floor.actions
        if not floor.is_free(np.array([start[PLAN]]))[0]:
            raise NoWalk(f"{floor.scene_id}: unreachable start, an agent cannot stand at {start}")
        heading = int(moves.heading_indices(np.array(start[3:]))[0])
        actions = np.empty(LONGEST, np.int8)
        length = _search(
            actions,
            self.lattice.place,
            self.cost,
            _views(self.goal, moves),
            self.goal.radius_m,
            *start[PLAN],
            heading,
            moves.step_x,
            moves.step_z,
            *floor.grid,
        )
        if length < 0:
            raise NoWalk(f"{floor.scene_id}: no walk found from {start} to {self.goal.view_points}")
        return replay(start, actions[:length].copy(), moves)

    def action(self, pose: Pose) -> Action:
        """The expert's action at any pose, for instance at one that a learner has reached."""
        return Action(int(self.walk(pose).actions[0]))


@dataclass(frozen=True, slots=True)
class Lattice:
    """The cells of a floor's lattice that an agent can stand in, the same for every goal.

    `place` gives each cell's row in a CostToGo, -1 for cells without free floor. `surely_free` has a bit for each
    heading with free forward moves from anywhere in the cell, which the search need not check.
    """

    place: Int32[np.ndarray, "L L"]
    surely_free: UInt64[np.ndarray, " C"]

    @classmethod
    def of(cls, floor: Floor) -> "Lattice":
        if floor.actions.num_headings > 1 << HEADING_BITS:
            raise ValueError(
                f"turn_rad: expected at most {1 << HEADING_BITS} headings to search walks, got {floor.actions.num_headings}"
            )
        side = int(np.ceil(floor.free.shape[0] * floor.cell_m / LATTICE_M))
        moves = floor.actions
        return cls(*_lattice(floor.free, floor.cell_m, side, moves.step_m, moves.step_x, moves.step_z))


def costs_to_go(floor: Floor, goals: Sequence[Goal]) -> list[CostToGo]:
    """Searches backward from each goal, side by side.

    Each result holds 80 bytes per free 10 cm cell (about 1 MB a house). ValueError for a goal that no agent can stand
    in.
    """
    lattice = Lattice.of(floor)
    return side_by_side(lambda goal: _backward(floor, goal, lattice), goals)


def shortest_walks(
    floor: Floor, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
) -> list[Walk | None]:
    """The shortest walk from each start to the goal of the same place in the list, searched side by side.

    Equal goals share a backward search. NoWalk names a start or a target that cannot be reached; `or_none` gives None
    instead.
    """
    if len(goals) != len(starts):
        raise ValueError(f"starts: expected one for each of {len(goals)} goals, got {len(starts)}")
    if not goals:
        return []
    lattice = Lattice.of(floor)
    places: dict[Goal, list[int]] = {}
    for k, goal in enumerate(goals):
        places.setdefault(goal, []).append(k)

    def attempt(task: Callable[..., Found], *args: object) -> Found | None:
        try:
            return task(*args)
        except NoWalk:
            if not or_none:
                raise
            return None

    def walks_to(goal: Goal) -> list[Walk | None]:
        search = attempt(_backward, floor, goal, lattice, [starts[k] for k in places[goal]])
        return [None if search is None else attempt(search.walk, starts[k]) for k in places[goal]]

    found = dict(zip(places, map(iter, side_by_side(walks_to, places))))
    return [next(found[goal]) for goal in goals]


def _backward(floor: Floor, goal: Goal, lattice: Lattice, starts: Sequence[Pose] = ()) -> CostToGo:
    """Searches until all `starts` are reached, or everywhere if there are none."""
    moves = floor.actions
    cost = np.empty((len(lattice.surely_free), moves.num_headings), np.int16)
    asked = np.array([(x, z, moves.heading_indices(np.array([a]))[0]) for x, _, z, a in starts], np.float64).reshape(
        -1, 3
    )
    views, steps = _views(goal, moves), (moves.step_x, moves.step_z)
    arrays = (cost, lattice.place, lattice.surely_free, views, goal.radius_m, asked, *steps)
    if not _cost_to_go(*arrays, *floor.grid):
        raise NoWalk(
            f"{floor.scene_id}: unreachable target, no free pose within {goal.radius_m} m of {goal.view_points}"
        )
    return CostToGo(floor, goal, lattice, cost)


def _views(goal: Goal, moves: ActionSet) -> Float64[np.ndarray, "P 3"]:
    """View points as (x, z, heading index), once for each heading of a walk's end there."""
    views = np.array(goal.view_points, np.float64)
    turns = int(goal.turn_rad / moves.turn_rad + 1e-9)
    beside = np.arange(-turns, turns + 1)
    headings = (moves.heading_indices(views[:, 3])[:, None] + beside) % moves.num_headings
    return np.column_stack([np.repeat(views[:, PLAN], len(beside), axis=0), headings.ravel()])


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _is_goal(views, radius, x, z, heading, free, ox, oz, cell_m):
    cell = cell_at(free, ox, oz, cell_m, x, z)
    if cell >= 0:
        for v in range(views.shape[0]):
            if int(views[v, 2]) == heading and in_goal_disc(
                free, ox, oz, cell_m, views[v, 0], views[v, 1], radius, cell
            ):
                return True
    return False


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _lattice(free, cell_m, side, step_m, step_x, step_z):
    """The arrays of a `Lattice`.

    The samples of the move from a cell's middle lie half a cell apart at most. So a move from elsewhere in the cell
    stays in the nine lattice cells around these samples.
    """
    rows, columns = free.shape
    total = np.zeros((rows + 1, columns + 1), np.int32)
    for row in range(rows):
        line = 0
        for column in range(columns):
            line += free[row, column]
            total[row + 1, column + 1] = total[row, column + 1] + line
    place = np.full((side, side), -1, np.int32)
    clear = np.zeros((side, side), np.bool_)  # with the eight cells around
    used = 0
    for i in range(side):
        for j in range(side):
            for beside in (0, 1):
                top, bottom = _span(cell_m, i, beside, rows)
                left, right = _span(cell_m, j, beside, columns)
                count = total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left]
                if beside:
                    clear[i, j] = count == (bottom - top) * (right - left)
                elif count:
                    place[i, j] = used
                    used += 1
    samples, num_headings = int(np.ceil(step_m / LATTICE_M)), step_x.size
    down, across = np.empty((num_headings, samples), np.int64), np.empty((num_headings, samples), np.int64)
    for heading in range(num_headings):
        for k in range(samples):
            share = (k + 1) / samples / LATTICE_M
            down[heading, k] = int(np.floor(0.5 + step_z[heading] * share))
            across[heading, k] = int(np.floor(0.5 + step_x[heading] * share))
    surely = np.zeros(used, np.uint64)
    margin = samples + 1  # the border of a floor is blocked, so nothing is lost there
    for i in range(margin, side - margin):
        for j in range(margin, side - margin):
            if clear[i, j]:
                for heading in range(num_headings):
                    passes = True
                    for k in range(samples):
                        passes &= clear[i + down[heading, k], j + across[heading, k]]
                    if passes:
                        surely[place[i, j]] |= _bit(heading)
    return place, surely


@njit(inline="always", error_model="numpy")
@no_type_check
def _span(cell_m, i, beside, limit):
    """The grid cells that lattice cell i and those `beside` it overlap, cut at the grid's end."""
    return max(int((i - beside) * LATTICE_M / cell_m), 0), min(int((i + 1 + beside) * LATTICE_M / cell_m) + 1, limit)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _cost_to_go(cost, place, surely_free, views, radius, starts, step_x, step_z, free, ox, oz, cell_m):
    """Breadth-first search backward from the goal; fills `cost` and returns how many poses were reached.

    Ends a few layers after the last of `starts` (x, z, heading) was reached, if there are any. Arrays are small, so
    that they stay in the cache: one word a cell marks reached poses, a bit a heading, and only two layers of poses are
    held, the current one and the next.
    """
    side, num_headings = place.shape[0], step_x.size
    flat = cost.ravel()
    flat[:] = -1
    reached = np.zeros(cost.shape[0], np.uint64)
    at, x, z = np.empty(flat.size, np.int32), np.empty(flat.size, np.float32), np.empty(flat.size, np.float32)
    next_at, next_x, next_z = np.empty_like(at), np.empty_like(x), np.empty_like(z)
    count = 0
    reach = int(radius / LATTICE_M) + 1
    for v in range(views.shape[0]):
        row, column, heading = (
            int((views[v, 1] - oz) / LATTICE_M),
            int((views[v, 0] - ox) / LATTICE_M),
            int(views[v, 2]),
        )
        for i in range(max(row - reach, 0), min(row + reach, side - 1) + 1):
            for j in range(max(column - reach, 0), min(column + reach, side - 1) + 1):
                cell = place[i, j]
                px, pz = ox + (j + 0.5) * LATTICE_M, oz + (i + 0.5) * LATTICE_M
                if (
                    cell >= 0
                    and not reached[cell] & _bit(heading)
                    and _is_goal(views[v : v + 1], radius, px, pz, heading, free, ox, oz, cell_m)
                ):
                    reached[cell] |= _bit(heading)
                    flat[cell * num_headings + heading] = 0
                    at[count], x[count], z[count] = (cell << HEADING_BITS) + heading, px, pz
                    count += 1
    found, depth, last = count, np.int16(0), np.int16(32767)
    while count and depth < last:
        depth, entered = np.int16(depth + 1), 0
        for pose in range(count):
            px, pz = x[pose], z[pose]
            cell, heading = at[pose] >> HEADING_BITS, at[pose] & ((1 << HEADING_BITS) - 1)
            left = heading + 1 if heading + 1 < num_headings else 0
            right = heading - 1 if heading > 0 else num_headings - 1
            for turned in (left, right):
                if not reached[cell] & _bit(turned):
                    reached[cell] |= _bit(turned)
                    flat[cell * num_headings + turned] = depth
                    next_at[entered], next_x[entered], next_z[entered] = (cell << HEADING_BITS) + turned, px, pz
                    entered += 1
            bx, bz = px - step_x[heading], pz - step_z[heading]
            i, j = int((bz - oz) / LATTICE_M), int((bx - ox) / LATTICE_M)
            if bx < ox or bz < oz or i >= side or j >= side:
                continue
            cell = place[i, j]
            if cell < 0 or reached[cell] & _bit(heading):
                continue
            if not surely_free[cell] & _bit(heading):
                if cell_at(free, ox, oz, cell_m, bx, bz) < 0:
                    continue
                if not way_is_free(free, ox, oz, cell_m, bx, bz, step_x[heading], step_z[heading]):
                    continue
            reached[cell] |= _bit(heading)
            flat[cell * num_headings + heading] = depth
            next_at[entered], next_x[entered], next_z[entered] = (cell << HEADING_BITS) + heading, bx, bz
            entered += 1
        if starts.shape[0] and last == 32767 and _all_reached(reached, place, starts, ox, oz):
            last = np.int16(depth + LAYERS_BEYOND)
        at, x, z, next_at, next_x, next_z = next_at, next_x, next_z, at, x, z
        found, count = found + entered, entered
    return found


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _all_reached(reached, place, starts, ox, oz):
    """True if every start's cell is reached at its heading; starts without a free cell do not count."""
    for s in range(starts.shape[0]):
        row, column = int((starts[s, 1] - oz) / LATTICE_M), int((starts[s, 0] - ox) / LATTICE_M)
        if 0 <= row < place.shape[0] and 0 <= column < place.shape[1]:
            cell = place[row, column]
            if cell >= 0 and not reached[cell] & _bit(int(starts[s, 2])):
                return False
    return True


@njit(inline="always", error_model="numpy")
@no_type_check
def _bit(heading):
    return np.uint64(1) << np.uint64(heading)


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _search(out, place_of, cost, views, radius, start_x, start_z, start_heading, step_x, step_z, free, ox, oz, cell_m):
    """A* from one pose. Writes the actions to `out` and returns their number with STOP, -1 if no walk was found."""
    x, z = np.empty(MAX_NODES), np.empty(MAX_NODES)
    heading, action = np.empty(MAX_NODES, np.int8), np.empty(MAX_NODES, np.int8)
    moves, guess = np.empty(MAX_NODES, np.int16), np.empty(MAX_NODES, np.int16)
    parent, below = np.empty(MAX_NODES, np.int32), np.empty(MAX_NODES, np.int32)
    top = np.full(4096, -1, np.int32)  # newest open node for each estimate of a whole walk; `below` links to older ones
    place = np.zeros(2 * MAX_NODES, np.int64)
    fewest = np.empty(2 * MAX_NODES, np.int16)
    x[0], z[0], heading[0], moves[0], parent[0], below[0] = start_x, start_z, start_heading, 0, -1, -1
    guess[0] = max(
        _guess(place_of, cost, int((start_z - oz) / LATTICE_M), int((start_x - ox) / LATTICE_M), start_heading), 0
    )
    total, num_headings = int(guess[0]), step_x.size
    top[total] = 0
    used, goal = 1, -1
    while total < top.size and used < MAX_NODES - 3:
        node = top[total]
        if node < 0:
            total += 1
            continue
        top[total] = below[node]
        if _is_goal(views, radius, x[node], z[node], heading[node], free, ox, oz, cell_m):
            goal = node
            break
        for move in (FORWARD, RIGHT, LEFT):  # the last is tried first
            nx, nz, nh = x[node], z[node], int(heading[node])
            if move == FORWARD:
                if not way_is_free(free, ox, oz, cell_m, nx, nz, step_x[nh], step_z[nh]):
                    continue
                nx, nz = nx + step_x[nh], nz + step_z[nh]
            else:
                nh = (nh + (1 if move == LEFT else num_headings - 1)) % num_headings
            g = np.int16(moves[node] + 1)
            slot = _slot(place, _place(nx - ox, nz - oz, nh, num_headings))
            if place[slot] != 0 and fewest[slot] <= g:
                continue
            place[slot], fewest[slot] = _place(nx - ox, nz - oz, nh, num_headings), g
            h = _guess(place_of, cost, int((nz - oz) / LATTICE_M), int((nx - ox) / LATTICE_M), nh)
            if h < 0:
                h = guess[node]
            estimate = max(int(g) + int(h), total)
            if estimate >= top.size:
                continue
            x[used], z[used], heading[used], action[used], moves[used], guess[used] = nx, nz, nh, move, g, h
            parent[used], below[used] = node, top[estimate]
            top[estimate] = used
            used += 1
    if goal < 0 or moves[goal] + 1 > out.size:
        return -1
    length = moves[goal] + 1
    out[length - 1] = 3
    node = goal
    for t in range(length - 2, -1, -1):
        out[t] = action[node]
        node = parent[node]
    return length


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _guess(place_of, cost, row, column, heading):
    """The least cost-to-go of a lattice cell and those around it: a lower bound for every pose in the cell."""
    best = -1
    for i in range(max(row - 1, 0), min(row + 2, place_of.shape[0])):
        for j in range(max(column - 1, 0), min(column + 2, place_of.shape[1])):
            cell = place_of[i, j]
            if cell >= 0 and cost[cell, heading] >= 0 and (best < 0 or cost[cell, heading] < best):
                best = int(cost[cell, heading])
    return best


@njit(inline="always", error_model="numpy")
@no_type_check
def _place(x, z, heading, num_headings):
    """A number above 0 for poses that count as one."""
    return ((int(x / SAME_PLACE_M) << 24) + int(z / SAME_PLACE_M)) * num_headings + heading + 1


@njit(inline="always", error_model="numpy")
@no_type_check
def _slot(place, key):
    """Place of `key` in the hash table, or the free slot that it belongs in."""
    mask = place.size - 1
    slot = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while place[slot] != 0 and place[slot] != key:
        slot = (slot + 1) & mask
    return slot
