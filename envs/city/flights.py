"""Distances and shortest flights in a city, by the moves that its simulator really makes.

Free places are nested: what is free at a level is free at all levels above. So a shortest way climbs first, then flies
at one level, then descends. That holds for metres and, since turns may be made anywhere, for numbers of actions. Both
searches therefore work on one level at a time and take the best level.

`distance_field` gives metres of flight, horizontal and vertical ones added up, as an agent covers them. `Planner` finds
the fewest actions: a backward search over cells and headings of a level estimates costs, a forward A* over the
simulator's own moves finds a flight that can be replayed bit for bit (as `envs.navigation.action_search` does).

Axes: L levels, C coarse grid side, S lattice side, K headings, T actions.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import hypot
from typing import no_type_check

import numpy as np
from jaxtyping import Float32, Int8, Int16, UInt64
from numba import njit

from eqa.envs.actions import Action
from eqa.envs.city.airspace import CELL_M, COARSE, ORIGIN, SIDE_M, Airspace, way_is_clear
from eqa.envs.episode import PLAN, Pose
from eqa.envs.navigation.floor import FORWARD, LEFT, RIGHT, Floor, goal_mask, side_by_side
from eqa.envs.navigation.geodesic import march
from eqa.envs.navigation.walk import replay
from eqa.envs.simulator import Goal, Walk

LATTICE_STEPS = 0.25  # side of a cell of the backward search, in forward moves, but not below LEAST_LATTICE_M
LEAST_LATTICE_M = 1.0
SAME_PLACE_M = 0.05  # places of one heading that are closer than this count as one in A*
MAX_NODES = 1 << 18
LONGEST = 1024  # actions
SLACK = 16  # moves that a backward search goes on beyond a start, as a flight may be longer than its estimate
UP, DOWN = 4, 5


class NoFlight(ValueError):
    """A start or a goal that cannot be reached."""


def goals_by_level(air: Airspace, goal: Goal) -> dict[int, Goal]:
    """The view points of a goal by the level that is nearest to them."""
    levels: dict[int, list[Pose]] = {}
    for view in goal.view_points:
        levels.setdefault(air.level_of(view[1]), []).append(view)
    return {level: Goal(tuple(views), goal.radius_m, goal.turn_rad) for level, views in levels.items()}


def distance_field(air: Airspace, goal: Goal) -> Float32[np.ndarray, "L C C"]:
    """Metres of flight to a goal from every coarse cell and level; cells that are not free have those of climbing out.

    ValueError for a goal that cannot be reached.
    """
    climb_m = np.float32(air.actions.climb_m)
    side = air.coarse_height_m.shape[0]
    best = np.full((air.num_levels, side, side), np.inf, np.float32)
    reachable = False
    for level, part in goals_by_level(air, goal).items():
        try:
            mask = goal_mask(air.floors[level], part)
        except ValueError:
            continue
        reachable = True
        above = np.full((side, side), np.inf, np.float32)
        for k in range(air.num_levels - 1, -1, -1):
            if k >= level:
                above = np.minimum(_level_field(air.floors[k], mask) + (k - level) * climb_m, above + climb_m)
            else:
                above = above + climb_m
            np.minimum(best[k], above, out=best[k])
    if not reachable:
        raise NoFlight(
            f"{air.scene_id}: unreachable target, nothing free within {goal.radius_m} m of {goal.view_points}"
        )
    return best


def _level_field(floor: Floor, mask: np.ndarray) -> Float32[np.ndarray, "C C"]:
    values = np.empty(floor.num_free, np.float32)
    march(floor.free, mask, values, floor.cell_m)
    return floor.expand(values)


def distances_at(air: Airspace, fields: Float32[np.ndarray, "L C C"], poses: np.ndarray) -> Float32[np.ndarray, " N"]:
    """Metres from poses (N, 4), by their coarse cell and nearest level; inf where an agent cannot be."""
    cells = np.floor((poses[:, PLAN] - np.array(ORIGIN)) / (CELL_M * COARSE)).astype(np.int64)
    column, row = np.clip(cells, 0, fields.shape[1] - 1).T
    level = np.array([air.level_of(y) for y in poses[:, 1]], np.int64).reshape(-1)
    return np.where(air.is_free(poses), fields[level, row, column], np.float32(np.inf))


@dataclass
class FlightPlanner:
    """The expert of one goal: shortest flights from any pose. Searches of levels are made when first needed."""

    air: Airspace
    goal: Goal
    _costs: dict[tuple[int, int], tuple[Int16[np.ndarray, "S S K"], int]] = field(default_factory=dict)

    @cached_property
    def _ends(self) -> dict[int, UInt64[np.ndarray, "C C"]]:
        """By level of the goal: a bit for each heading with which a flight may end in a coarse cell."""
        moves = self.air.actions
        turns = int(self.goal.turn_rad / moves.turn_rad + 1e-9)
        ends = {}
        for level, part in goals_by_level(self.air, self.goal).items():
            side = self.air.coarse_height_m.shape[0]
            bits = np.zeros((side, side), np.uint64)
            for view in part.view_points:
                middle = int(moves.heading_indices(np.array(view[3:]))[0])
                heads = {(middle + turn) % moves.num_headings for turn in range(-turns, turns + 1)}
                try:
                    mask = goal_mask(self.air.floors[level], Goal((view,), self.goal.radius_m))
                except ValueError:
                    continue
                bits[mask] |= np.uint64(sum(1 << head for head in heads))
            if bits.any():
                ends[level] = bits
        if not ends:
            raise NoFlight(
                f"{self.air.scene_id}: unreachable target, nothing free within {self.goal.radius_m} m of "
                f"{self.goal.view_points}"
            )
        return ends

    @cached_property
    def _lattice_m(self) -> float:
        return max(LATTICE_STEPS * self.air.actions.step_m, LEAST_LATTICE_M)

    def _cost(self, end: int, level: int, start: Pose) -> tuple[Int16[np.ndarray, "S S K"], int]:
        """Moves still needed at a level, climbs not counted, to the part of the goal at level `end`.

        They are known as far as a start needs. The number is the most of them that are known; all others are -1 and
        more. It is -1 if all are known: then -1 is no way.
        """
        moves = self.air.actions
        place = start[0], start[2], int(moves.heading_indices(np.array(start[3:]))[0])
        cost, known = self._costs.get((end, level), (None, 0))
        if cost is None or (known >= 0 and not 0 <= _guess(cost, self._lattice_m, *place) <= known - SLACK):
            side = int(np.ceil(SIDE_M / self._lattice_m))
            cost = np.full((side, side, moves.num_headings), -1, np.int16)
            space = self.air.height_m, self.air.levels_m[level], moves.step_x, moves.step_z
            known = _cost_to_go(cost, self._lattice_m, self._ends[end], *space, *place, 2 * known)
            self._costs[end, level] = cost, known
        return cost, known

    def walk(self, start: Pose) -> Walk:
        """The shortest flight from a pose; NoFlight if there is none. ValueError for a pose that is not on a level."""
        pose = np.array([start], np.float64)
        if not (self.air.is_free(pose)[0] and self.air.is_on_level(pose[:, 1])[0]):
            raise NoFlight(f"{self.air.scene_id}: unreachable start, an agent cannot be at {start}")
        heading = int(self.air.actions.heading_indices(pose[0, 3:])[0])
        best: Int8[np.ndarray, " _"] | None = None
        estimates: list[tuple[int, int, int]] = []  # a heap
        waiting = self._climbs(start)
        while waiting or estimates:
            longest = min(
                [estimate for estimate, *_ in estimates[:1]] + ([] if best is None else [len(best) - 1]),
                default=LONGEST,
            )
            if waiting and waiting[0][0] < longest:
                _, climbs, end, level = waiting.pop(0)
                moves = _guess(self._cost(end, level, start)[0], self._lattice_m, start[0], start[2], heading)
                if moves >= 0:
                    heapq.heappush(estimates, (climbs + moves, end, level))
                continue
            if not estimates or (best is not None and estimates[0][0] >= len(best) - 1):
                break
            _, end, level = heapq.heappop(estimates)
            best = self._fly(start, heading, end, level, shorter_than=best)
        if best is None:
            raise NoFlight(f"{self.air.scene_id}: no flight found from {start} to {self.goal.view_points}")
        return replay(start, best, self.air.actions)

    def _climbs(self, start: Pose) -> list[tuple[int, int, int, int]]:
        """(fewest moves that there can be, climbs, level of the end, level to fly at), the fewest first."""
        own = self.air.level_of(start[1])
        away_m = min(hypot(start[0] - v[0], start[2] - v[2]) for v in self.goal.view_points) - self.goal.radius_m
        # The last cell may reach a little out of the goal's circle.
        forward = max(0, int((away_m - 2 * COARSE * CELL_M) / self.air.actions.step_m))
        levels = [(end, level) for end in self._ends for level in range(max(own, end), self.air.num_levels)]
        return sorted((2 * level - own - end + forward, 2 * level - own - end, end, level) for end, level in levels)

    def _fly(
        self, start: Pose, heading: int, end: int, level: int, *, shorter_than: Int8[np.ndarray, " _"] | None
    ) -> Int8[np.ndarray, " _"] | None:
        """Climbs, the shortest way at a level, descents and STOP; `shorter_than` if it is not shorter than that."""
        moves, own = self.air.actions, self.air.level_of(start[1])
        climbs = 2 * level - own - end
        actions = np.empty(LONGEST, np.int8)
        limit = LONGEST if shorter_than is None else len(shorter_than) - 1 - climbs
        length = _search(
            actions, *self._cost(end, level, start), self._lattice_m, self._ends[end], self.air.height_m,
            self.air.levels_m[level], start[0], start[2], heading, moves.step_x, moves.step_z, limit,
        )  # fmt: skip
        if length < 0:
            return shorter_than
        parts = ([UP] * (level - own), actions[:length], [DOWN] * (level - end), [int(Action.STOP)])
        return np.concatenate([np.asarray(part, np.int8) for part in parts])


def shortest_flights(
    air: Airspace, goals: Sequence[Goal], starts: Sequence[Pose], *, or_none: bool = False
) -> list[Walk | None]:
    """The shortest flight from each start to the goal of the same place in the list; equal goals share a search.

    Goals are searched side by side.

    NoFlight names a start or a goal that cannot be reached; `or_none` gives None instead.
    """
    if len(goals) != len(starts):
        raise ValueError(f"starts: expected one for each of {len(goals)} goals, got {len(starts)}")
    of_goal: dict[Goal, list[int]] = {}
    for number, goal in enumerate(goals):
        of_goal.setdefault(goal, []).append(number)

    def fly(numbers: Sequence[int]) -> list[Walk | NoFlight]:
        planner = FlightPlanner(air, goals[numbers[0]])
        return [_walk_or_why_not(planner, starts[number]) for number in numbers]

    found = dict(zip(chain(*of_goal.values()), chain(*side_by_side(fly, of_goal.values())), strict=True))
    walks = [found[number] for number in range(len(goals))]
    if not or_none and (why_not := next((walk for walk in walks if isinstance(walk, NoFlight)), None)):
        raise why_not
    return [None if isinstance(walk, NoFlight) else walk for walk in walks]


def _walk_or_why_not(planner: FlightPlanner, start: Pose) -> Walk | NoFlight:
    try:
        return planner.walk(start)
    except NoFlight as why_not:
        return why_not


@njit(inline="always", error_model="numpy")
@no_type_check
def _may_end(ends, x, z, heading):
    """True if a flight may end at a place with a heading."""
    column, row = int((x - ORIGIN[0]) / (CELL_M * COARSE)), int((z - ORIGIN[1]) / (CELL_M * COARSE))
    return (ends[row, column] >> np.uint64(heading)) & np.uint64(1) != 0


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _cost_to_go(cost, lattice_m, ends, height, y, step_x, step_z, start_x, start_z, start_heading, least):
    """Breadth-first search backward from the goal. Each state keeps the exact place by which it was reached first.

    It ends SLACK moves beyond the start, and knows at least all of `least` moves. Returns the most moves that it knows,
    -1 if it knows all states.
    """
    row, column = int((start_z - ORIGIN[1]) / lattice_m), int((start_x - ORIGIN[0]) / lattice_m)
    side, num_headings = cost.shape[0], cost.shape[2]
    flat = cost.ravel()
    queue = np.empty(flat.size, np.int32)
    xs, zs = np.empty(flat.size, np.float32), np.empty(flat.size, np.float32)
    count = 0
    fine = max(int(np.ceil(lattice_m / (CELL_M * COARSE))), 1)  # places tried a side of a lattice cell
    for i in range(side):
        for j in range(side):
            for a in range(fine):
                for b in range(fine):
                    x = ORIGIN[0] + (j + (b + 0.5) / fine) * lattice_m
                    z = ORIGIN[1] + (i + (a + 0.5) / fine) * lattice_m
                    if x >= ORIGIN[0] + SIDE_M or z >= ORIGIN[1] + SIDE_M:
                        continue
                    if ends[int((z - ORIGIN[1]) / (CELL_M * COARSE)), int((x - ORIGIN[0]) / (CELL_M * COARSE))] == 0:
                        continue
                    for heading in range(num_headings):
                        state = (i * side + j) * num_headings + heading
                        if flat[state] < 0 and _may_end(ends, x, z, heading):
                            flat[state] = 0
                            xs[state], zs[state] = x, z
                            queue[count] = state
                            count += 1
    first, most = 0, LONGEST
    while first < count:
        state = queue[first]
        first += 1
        heading = state % num_headings
        if heading == start_heading and most == LONGEST:
            i, j = state // num_headings // side, state // num_headings % side
            if abs(i - row) <= 1 and abs(j - column) <= 1:
                most = max(int(flat[state]) + SLACK, least)
        if flat[state] >= most:
            return -1 if most >= LONGEST else most
        x, z, after = xs[state], zs[state], np.int16(flat[state] + 1)
        for turn in (1, num_headings - 1):
            other = state - heading + (heading + turn) % num_headings
            if flat[other] < 0:
                flat[other] = after
                xs[other], zs[other] = x, z
                queue[count] = other
                count += 1
        bx, bz = x - np.float32(step_x[heading]), z - np.float32(step_z[heading])
        if bx < ORIGIN[0] or bz < ORIGIN[1]:
            continue
        i, j = int((bz - ORIGIN[1]) / lattice_m), int((bx - ORIGIN[0]) / lattice_m)
        if i >= side or j >= side:
            continue
        other = (i * side + j) * num_headings + heading
        if flat[other] >= 0:
            continue
        if way_is_clear(height, x, y, z, -step_x[heading], -step_z[heading]):
            flat[other] = after
            xs[other], zs[other] = bx, bz
            queue[count] = other
            count += 1
    return -1


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _guess(cost, lattice_m, x, z, heading):
    """The least cost of a lattice cell and those around it: a lower bound for every place in the cell."""
    row, column, best = int((z - ORIGIN[1]) / lattice_m), int((x - ORIGIN[0]) / lattice_m), -1
    for i in range(max(row - 1, 0), min(row + 2, cost.shape[0])):
        for j in range(max(column - 1, 0), min(column + 2, cost.shape[1])):
            value = int(cost[i, j, heading])
            if value >= 0 and (best < 0 or value < best):
                best = value
    return best


@njit(cache=True, error_model="numpy", nogil=True)
@no_type_check
def _search(out, cost, known, lattice_m, ends, height, y, start_x, start_z, start_heading, step_x, step_z, limit):
    """A* at one level. Writes the moves to `out` and returns their number, -1 for no way of fewer than `limit`.

    Costs above `known` moves are not known, if it is not negative. The newest of equally good places is looked at
    first. Forward moves are pushed first, so ways turn early.
    """
    x, z = np.empty(MAX_NODES), np.empty(MAX_NODES)
    heading, action = np.empty(MAX_NODES, np.int8), np.empty(MAX_NODES, np.int8)
    moves, guess = np.empty(MAX_NODES, np.int16), np.empty(MAX_NODES, np.int16)
    parent, below = np.empty(MAX_NODES, np.int32), np.empty(MAX_NODES, np.int32)
    top = np.full(LONGEST, -1, np.int32)
    place, fewest = np.zeros(2 * MAX_NODES, np.int64), np.empty(2 * MAX_NODES, np.int16)
    num_headings = step_x.size
    x[0], z[0], heading[0], moves[0], parent[0], below[0] = start_x, start_z, start_heading, 0, -1, -1
    guess[0] = max(_guess(cost, lattice_m, start_x, start_z, start_heading), 0)
    total, used, end = int(guess[0]), 1, -1
    top[total] = 0
    while total < limit and used < MAX_NODES - 3:
        node = top[total]
        if node < 0:
            total += 1
            continue
        top[total] = below[node]
        if _may_end(ends, x[node], z[node], int(heading[node])):
            end = node
            break
        for move in (FORWARD, RIGHT, LEFT):
            nx, nz, nh = x[node], z[node], int(heading[node])
            if move == FORWARD:
                if not way_is_clear(height, nx, y, nz, step_x[nh], step_z[nh]):
                    continue
                nx, nz = nx + step_x[nh], nz + step_z[nh]
            else:
                nh = (nh + (1 if move == LEFT else num_headings - 1)) % num_headings
            g = np.int16(moves[node] + 1)
            key = _place_key(nx, nz, nh, num_headings)
            slot = _slot(place, key)
            if place[slot] != 0 and fewest[slot] <= g:
                continue
            place[slot], fewest[slot] = key, g
            h = _guess(cost, lattice_m, nx, nz, nh)
            if h < 0:
                h = guess[node] if known < 0 else known + 1
            estimate = max(int(g) + int(h), total)
            if estimate >= limit:
                continue
            x[used], z[used], heading[used], action[used], moves[used], guess[used] = nx, nz, nh, move, g, h
            parent[used], below[used] = node, top[estimate]
            top[estimate] = used
            used += 1
    if end < 0:
        return -1
    length, node = int(moves[end]), end
    for t in range(length - 1, -1, -1):
        out[t] = action[node]
        node = parent[node]
    return length


@njit(inline="always", error_model="numpy")
@no_type_check
def _place_key(x, z, heading, num_headings):
    """A number above 0 for places that count as one."""
    column, row = int((x - ORIGIN[0]) / SAME_PLACE_M), int((z - ORIGIN[1]) / SAME_PLACE_M)
    return ((column << 24) + row) * num_headings + heading + 1


@njit(inline="always", error_model="numpy")
@no_type_check
def _slot(place, key):
    """Place of `key` in the hash table, or the free slot that it belongs in."""
    mask = place.size - 1
    slot = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while place[slot] != 0 and place[slot] != key:
        slot = (slot + 1) & mask
    return slot
