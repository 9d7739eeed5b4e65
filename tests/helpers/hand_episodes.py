"""Episodes written by hand that have every field, for tests of file formats."""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Entity, Episode, Spawn

TURN_RAD = HOUSE_ACTIONS.turn_rad
START = (1.5, 0.0, -2.25, 37 * TURN_RAD)
WALK = "FFLLLFRFLLLLLFS"

SOFA = Entity("object", "sofa", (0.5, 0.0, 3.0), (2.5, 0.75, 4.0), id=12, is_target=True)
ROOM = Entity("room", "living room", (0.0, 0.0, 0.0), (6.0, 2.5, 5.0), id=2)


def episode(number: int = 0, scene_id: str = "train-00003", **changes) -> Episode:
    """A question about a sofa; `changes` are fields."""
    whole = Episode(
        episode_id=f"{scene_id}-{number:03d}",
        scene_id=scene_id,
        question="what color is the sofa in the living room?",
        answer="blue",
        question_type="color_room",
        source="by hand",
        target_object=12,
        target_room=2,
        touched=(SOFA, ROOM),
        view_points=((1.5, 0.0, 1.0, 20 * TURN_RAD), (0.75, 0.0, 1.125, 0.0), (2.0, 0.0, 0.5, 39 * TURN_RAD)),
        goal_radius_m=0.2,
        goal_turn_rad=2 * TURN_RAD,
        spawns={
            "start": Spawn(START, num_actions=len(WALK), distance_m=1.125, num_rooms=1),
            "T-10": Spawn((1.25, 0.0, -2.0, 3 * TURN_RAD), num_actions=10),
            "random": Spawn((3.0, 0.0, 3.0, 9 * TURN_RAD), distance_m=2.5, num_rooms=2),
        },
        walk=WALK,
        program='color(unique(objects("sofa")))',
    )
    return replace(whole, **changes)


def bare(number: int = 0, scene_id: str = "train-00004", **changes) -> Episode:
    """A question with only the fields that a set needs."""
    fields = {"question": "what room is the cup located in?", "answer": "kitchen", "question_type": "location"}
    return Episode(f"{scene_id}-{number:03d}", scene_id, **{**fields, "source": "by hand", **changes})


class _Watched(Episode):
    """An episode that can be checked for being still referenced."""


def assert_streams(write: Callable[[Iterator[Episode]], None], folder: Path) -> None:
    """Fails if `write` keeps episodes, or what it makes of them, until the end of its file in `folder`."""
    held: list[weakref.ref] = []
    sizes, most = [], 0

    def episodes() -> Iterator[Episode]:
        nonlocal most
        for number, places in enumerate(np.random.default_rng(0).random((160, 30, 2))):
            views = tuple(
                (x, 0.0, z, 0.0) for x, z in places.tolist()
            )  # all different, so compression cannot hide them
            low, high = zip(*places.tolist())
            touched = tuple(Entity("object", "cup", low[i : i + 3], high[i : i + 3]) for i in range(0, 30, 3))
            one = episode(number, f"train-{number // 10:05d}", view_points=views, touched=touched)
            one = _Watched(**{name: getattr(one, name) for name in one.to_dict()})
            held.append(weakref.ref(one))
            yield one
            del one
            most = max(most, sum(ref() is not None for ref in held))
            sizes.append(sum(path.stat().st_size for path in folder.iterdir()))

    write(episodes())
    (final,) = (path.stat().st_size for path in folder.iterdir())
    assert most <= 2 and len(sizes) == 160, f"{most} episodes were held at once"
    assert 0.25 * final < sizes[80] < 0.75 * final and sizes[120] > sizes[80], "the file does not grow on the way"
