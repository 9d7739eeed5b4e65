"""`walkable`: view points, spawns and walks for questions about houses that came without them."""

from collections.abc import Sequence
from dataclasses import replace

from eqa.data.questions.generate import GENERATOR, goal_of
from eqa.data.questions.relations import volume_m3
from eqa.data.questions.spawns import add_spawns
from eqa.data.questions.view_points import Target, overview, view_points_of
from eqa.envs.episode import Episode
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.progress import progress
from eqa.envs.simulator import World
from eqa.envs.workers import in_workers

WALKABLE = f"walkable-1 of {GENERATOR}"  # raise with every change of the poses or walks


def walkable(world: World, episodes: Sequence[Episode], *, title: str) -> list[Episode]:
    """The questions that can be walked, scene by scene; `title` names the progress.

    A walk ends with all touched objects in view, or with most of the room where only a room is touched. Questions about
    several rooms, and those whose objects have no id, are left out. ValueError if none is left. TypeError for a world
    without houses.
    """
    if not isinstance(world, HouseWorld):
        raise TypeError(f"world: expected houses, whose plans give view points, got {type(world).__name__}")
    by_scene: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_scene.setdefault(episode.scene_id, []).append(episode)
    houses = [world.house(scene_id) for scene_id in by_scene]
    found: list[Episode] = []
    with progress(title, len(houses)) as advance:
        for of_house in in_workers(walkable_in, houses, list(by_scene.values())):
            found += of_house
            advance(1)
    if not found:
        raise ValueError(
            f"questions: expected some that can be walked, got none of {len(episodes)} with objects to see"
        )
    return found


def walkable_in(house: House, episodes: Sequence[Episode]) -> list[Episode]:
    """The questions about one house that can be walked, with view points, spawns and walks."""
    targets = [_target(episode, house) for episode in episodes]
    distinct = sorted({target for target in targets if target})
    views = dict(zip(distinct, view_points_of(house, distinct), strict=True))
    seen = [
        replace(episode, **goal_of(poses))
        for episode, target in zip(episodes, targets, strict=True)
        if (poses := views.get(target))
    ]
    return [episode for episode in add_spawns(house, seen) if episode is not None]


def _target(episode: Episode, house: House) -> Target | None:
    """The things to see, as `data.questions.generate` chooses them; None for a question that has none, or no ids."""
    objects = [entity.id for entity in episode.touched or () if entity.kind == "object"]
    rooms = [entity.id for entity in episode.touched or () if entity.kind == "room"]
    if None in objects or None in rooms or not objects and len(rooms) != 1:
        return None
    if objects:
        return tuple(sorted(objects, key=lambda i: (volume_m3(house.objects[i - 1]), i)))
    return overview(rooms[0])
