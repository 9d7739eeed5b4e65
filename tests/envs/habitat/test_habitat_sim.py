"""The adapter beside a real habitat-sim, on an exported house: python -m pytest -m habitat

Needs an interpreter that has habitat_sim, named by the variable HABITAT_PYTHON.

Axes: P places.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float64

from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import Pose
from eqa.envs.habitat.export import write_house
from eqa.envs.habitat.simulator import HabitatWorld
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.scripts.compare_habitat import Both, both_of, measured, seen, walked, worlds
from tests.helpers.small_house import small_house

PYTHON = os.environ.get("HABITAT_PYTHON")

pytestmark = [pytest.mark.habitat, pytest.mark.skipif(PYTHON is None, reason="HABITAT_PYTHON is not set")]

MOST_PLACES = 100  # a nook has fewer
APART_M = 0.01  # places nearer than this count as one


@pytest.fixture(scope="module")
def house() -> House:
    return small_house()


@pytest.fixture(scope="module")
def both(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder: Path = tmp_path_factory.mktemp("exported")
    write_house(house, folder, load_catalog())
    ours, theirs = worlds([house], folder, PYTHON, 224, 1)
    yield both_of(house, ours, theirs, 48, np.random.default_rng(0))
    theirs.close()


def test_pictures_are_ours(both: Both) -> None:
    found = seen(both)
    assert (found["depth"] <= 1e-3).mean() > 0.999
    assert found["instance"].mean() > 0.999
    assert np.median(found["colour"]) <= 2


def test_ways_are_as_long_and_moves_as_free(both: Both) -> None:
    ways, moves = measured(both)["way"], walked(both, np.random.default_rng(0))
    assert len(ways) > 10 and np.abs(np.median(ways)) < 0.02 and np.abs(ways).max() < 0.1
    assert moves["refused"].mean() > 0.95 and 0.05 < moves["either"].mean() < 0.95


def test_things_stand_where_they_do_in_our_world(both: Both) -> None:
    ours, theirs = ({t.id: t for t in world.annotations(both.house_id).things} for world in (both.ours, both.habitat))
    assert set(ours) <= set(theirs)
    for number, thing in ours.items():
        assert theirs[number].name == thing.name
        assert np.allclose(theirs[number].middle, thing.middle, atol=0.05), thing.name
        assert theirs[number].high_m == pytest.approx(thing.high_m, abs=0.05)


@pytest.mark.parametrize("collisions", ["refuse", "stop"])
def test_its_shortest_walks_end_in_their_goals_and_lead_there_again(both: Both, collisions: str) -> None:
    """Only a start in a nook that whole steps do not leave has none, and only where moves are refused."""
    settings = replace(both.habitat.settings, collisions=collisions)
    world, starts = HabitatWorld(settings), [tuple(pose) for pose in both.poses.tolist()]
    goals = [both.goal] * len(starts)
    walks = world.shortest_walks(both.house_id, goals, starts, or_none=True)
    found = [(start, walk) for start, walk in zip(starts, walks, strict=True) if walk is not None]
    lost = [start for start, walk in zip(starts, walks, strict=True) if walk is None]
    assert not lost or collisions == "refuse"
    for start in lost:
        nook = places_from(world, both.house_id, start)
        assert len(nook) < MOST_PLACES, f"steps lead on from {start}"
        assert (world.distances(both.house_id, [both.goal], [nook])[0] > 0).all(), f"steps reach it from {start}"
    again = world.replay(both.house_id, [start for start, _ in found], [walk.actions for _, walk in found])
    for (_, walk), same in zip(found, again, strict=True):
        assert np.allclose(walk.poses, same.poses, atol=1e-5)
        (there,) = world.distances(both.house_id, [both.goal], [walk.poses[-1:]])
        assert there[0] == 0
    world.close()


def places_from(world: HabitatWorld, house_id: str, start: Pose) -> Float64[np.ndarray, "P 4"]:
    """All places that turns and whole steps lead to, the start among them, up to MOST_PLACES of them."""
    turns = range(HOUSE_ACTIONS.num_headings)
    tries = [np.array([Action.LEFT] * k + [Action.FORWARD, Action.STOP], np.int8) for k in turns]
    found, seen = [np.array(start)], {near(start)}
    for pose in found:
        for walk in world.replay(house_id, [tuple(pose.tolist())] * len(tries), tries):
            if len(found) < MOST_PLACES and near(walk.poses[-1]) not in seen:
                seen.add(near(walk.poses[-1]))
                found.append(walk.poses[-1])
    return np.stack(found)


def near(pose: Pose | Float64[np.ndarray, " 4"]) -> tuple[int, ...]:
    return tuple(np.round(np.array(pose[:3]) / APART_M).astype(int).tolist())
