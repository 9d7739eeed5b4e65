"""`make_scan_questions`: questions about scenes of any annotated world, such as scans in habitat-sim.

A scene's annotations (names, boxes, regions) become a `House`, about which the question engine asks as about generated
ones. View points, colours and walks come from the world itself: from what is seen at places where agents can stand.

Axes: P places, N poses, R C image.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import atan2, hypot
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Integer
from shapely import Point, Polygon

from eqa.data.questions.generate import make_questions
from eqa.data.questions.journal import Journal, journaled
from eqa.data.questions.rules import load_rules
from eqa.data.questions.scan_colors import seen_color
from eqa.data.questions.scan_names import ROOM, ScanNames, load_scan_names
from eqa.data.questions.scan_spawns import add_walks
from eqa.data.questions.storage import QuestionSet
from eqa.data.questions.surroundings import DRAWN
from eqa.data.questions.view_points import (
    Look,
    Target,
    ViewPoints,
    is_overview,
    overview_from,
    seen_from,
    thinned,
)
from eqa.envs.annotations import Annotations, Region, Thing
from eqa.envs.episode import Entity, Episode
from eqa.envs.files import fingerprint
from eqa.envs.house.catalog import QUERYABLE
from eqa.envs.house.house import House, HouseObject, Room
from eqa.envs.metrics import inside_polygon
from eqa.envs.simulator import Simulator, World

SCANS = "scans-1"  # raise with every change of what is asked about a scan, or of the poses that show the answers
SPACING_M, STARTS_M = 0.5, 1.0  # between places to look from, and between places to start from
STOREY_M = 0.5  # places may lie so far below their region's lowest point
THIN_M = 1e-3  # the least size of a thing
VIEWS_OF_COLOR = 6


@runtime_checkable
class AnnotatedWorld(World, Protocol):
    """A world of which it is known where agents can stand."""

    def places(self, scene_id: str, spacing_m: float) -> Float64[np.ndarray, "P 3"]:
        """Places (x, y, z) about `spacing_m` apart, on all storeys."""
        ...


def make_scan_questions(
    world: AnnotatedWorld,
    scenes: Mapping[str, Sequence[str]],
    *,
    counts: Mapping[str, int | None],
    seed: int,
    question_set: str = "eqa_v1",
    balance: str = "entropy",
    journal: Callable[[dict], Journal],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionSet:
    """A question set about scenes by split; see `data.questions.generate.make_questions`.

    `journal` opens a journal of what is found out, for a configuration, so that a killed run goes on. Ids in the
    episodes are those of the world: instance ids of things, indices of regions. ValueError for a camera that is tilted.
    """
    if world.camera.pitch_rad:
        raise ValueError(f"camera: expected one that looks straight ahead, got pitch_rad {world.camera.pitch_rad}")
    names = load_scan_names()
    made_from = {"scans": SCANS, "world": world.identity, "names": fingerprint(names.document)}
    made_from["scenes"] = {split: list(ids) for split, ids in scenes.items()}
    known = journal(made_from)
    scans = Scans(world, names, known)
    total = sum(map(len, scenes.values()))
    houses: dict[str, list[House]] = {}
    for split, ids in scenes.items():
        houses[split] = []
        for scene_id in ids:
            houses[split].append(scans.house(scene_id))
            progress(sum(map(len, houses.values())), 4 * total)
    made = make_questions(
        houses,
        counts=counts,
        seed=seed,
        visible=scans.view_points,
        add_spawns=scans.add_spawns,
        question_set=question_set,
        balance=balance,
        made_from=made_from,
        parallel_map=journaled(map, known),  # one scene after the other, as each is loaded for all that is asked
        progress=lambda done, of: progress(total + done, total + of),
    )
    return QuestionSet(
        {split: [scans.in_world(episode) for episode in found] for split, found in made.episodes.items()}, made.header
    )


class Scans:
    """Scenes as houses that can be asked about, one after the other; the last one's places stay in memory."""

    def __init__(self, world: AnnotatedWorld, names: ScanNames, journal: Journal) -> None:
        self.world, self.names, self.journal = world, names, journal
        self.numbers: dict[str, tuple[int, ...]] = {}  # by scene: instance ids of the house's objects, in order
        self.regions: dict[str, tuple[Region, ...]] = {}
        rules = load_rules()
        self._asked = {*QUERYABLE, *(name for kind in rules.types.values() for name in kind.also)}
        self._at = "", np.zeros((0, 3))

    def house(self, scene_id: str) -> House:
        """The scene as a house, with the colours that are seen."""
        found = self.world.annotations(scene_id)
        house, self.numbers[scene_id] = house_of(found, self.names, origin=f"{SCANS} of {self.world.identity}")
        self.regions[scene_id] = found.regions
        name = f"colors {scene_id} {fingerprint([thing.category for thing in house.objects])}"
        if name not in self.journal.known:
            self.journal.add({name: self._colors(house)})
        colors = self.journal.known[name]
        things = [replace(thing, color=color) for thing, color in zip(house.objects, colors, strict=True)]
        return replace(house, objects=things)

    def _colors(self, house: House) -> list[str | None]:
        """The colour of each thing that may be asked about, from its best views."""
        asked = [thing.id for thing in house.objects if thing.category in self._asked]
        colors: list[str | None] = [None] * len(house.objects)
        simulator = self.world.open([house.id], num_agents=1)
        for number, poses in zip(asked, self.view_points(house, [(number,) for number in asked]), strict=True):
            if poses:
                chosen = np.unique(np.linspace(0, len(poses) - 1, VIEWS_OF_COLOR).astype(int))
                colors[number - 1] = self._color(simulator, house.id, number, [poses[n] for n in chosen])
        return colors

    def _color(self, simulator: Simulator, scene_id: str, number: int, poses: Sequence) -> str | None:
        seen = simulator.look(np.zeros(len(poses), np.int64), np.array(poses), ("rgb", "instance_id"))
        own = seen["instance_id"].numpy() == self.numbers[scene_id][number - 1]
        return seen_color(seen["rgb"].numpy()[own])

    def view_points(self, house: House, targets: Sequence[Target]) -> list[ViewPoints]:
        """The poses that see each target well; see `data.questions.view_points`."""
        places = self._places(house.id)
        things = [target for target in targets if not is_overview(target)]
        rooms = [-1 - target[0] for target in targets if is_overview(target)]
        in_room = partial(self._in_room, house, places)
        found = iter(
            seen_from(
                house,
                places,
                things,
                in_room=in_room,
                begin=lambda _: self._look(house),
                eye_m=self.world.camera.height_m,
            )
        )
        over = iter(overview_from(house.rooms[r].polygon, lambda _, r=r: places[in_room(r)]) for r in rooms)
        return [next(over if is_overview(target) else found) for target in targets]

    def _places(self, scene_id: str) -> Float64[np.ndarray, "P 3"]:
        if self._at[0] != scene_id:
            self._at = scene_id, self.world.places(scene_id, SPACING_M)
        return self._at[1]

    def _in_room(self, house: House, places: Float64[np.ndarray, "P 3"], room: int) -> Bool[np.ndarray, " P"]:
        plan = places[:, [0, 2]]
        inside = inside_polygon(plan, house.rooms[room].polygon)
        if room < len(self.regions[house.id]):
            region = self.regions[house.id][room]
            inside &= (places[:, 1] >= region.low_m - STOREY_M) & (places[:, 1] <= region.high_m)
        return thinned(inside, plan, SPACING_M)

    def _look(self, house: House) -> Look:
        """Draws the scene's instance ids as numbers of the house's objects; all else is 0."""
        simulator = self.world.open(
            [house.id], num_agents=1, camera=replace(DRAWN, height_m=self.world.camera.height_m)
        )
        numbers = np.array(self.numbers[house.id], np.int64)
        number_of = np.zeros(int(numbers.max(initial=0)) + 2, np.int32)
        number_of[numbers] = np.arange(1, len(numbers) + 1)

        def look(_: tuple[int, ...], poses: Float64[np.ndarray, "N 4"]) -> Integer[np.ndarray, "N R C"]:
            seen = simulator.look(np.zeros(len(poses), np.int64), poses, ("instance_id",))["instance_id"].numpy()
            return number_of[np.clip(seen.astype(np.int64), 0, len(number_of) - 1)]

        return look

    def add_spawns(self, house: House, episodes: Sequence[Episode]) -> list[Episode | None]:
        """The episodes with spawns and walks; see `data.questions.scan_spawns`."""
        return add_walks(self.world, house, episodes, self.world.places(house.id, STARTS_M))

    def in_world(self, episode: Episode) -> Episode:
        """An episode about a house with the ids of the world; a room that is no region has none."""
        numbers, regions = self.numbers[episode.scene_id], self.regions[episode.scene_id]

        def told(entity: Entity) -> Entity:
            if entity.kind == "object":
                return replace(entity, id=numbers[entity.id - 1])
            return replace(entity, id=entity.id if entity.id < len(regions) else None)

        room = episode.target_room
        return replace(
            episode,
            episode_id=episode.episode_id.replace("/", "_"),
            frame=self.world.coordinate_frames[0],
            target_object=None if episode.target_object is None else numbers[episode.target_object - 1],
            target_room=room if room is not None and room < len(regions) else None,
            touched=tuple(map(told, episode.touched)),
        )


def house_of(annotations: Annotations, names: ScanNames, *, origin: str) -> tuple[House, tuple[int, ...]]:
    """A scene's annotations as a house without walls, and the instance ids of its objects, in their order.

    Rooms are the regions, in their order. A thing in none is in the smallest region around its middle, or in a last
    room of its own, which is never asked about.
    """
    named = [(thing, ours) for thing in annotations.things if (ours := names.thing(thing.name)) is not None]
    rooms = [thing.region if thing.region >= 0 else _region_around(annotations.regions, thing) for thing, _ in named]
    in_region: dict[int, list[str]] = {}
    for (_, ours), room in zip(named, rooms, strict=True):
        in_region.setdefault(room, []).append(ours)
    kinds = [names.room(region.name, in_region.get(n, ())) for n, region in enumerate(annotations.regions)]
    made = [
        Room(kind, list(region.outline), floor="", wall="")
        for kind, region in zip(kinds, annotations.regions, strict=True)
    ]
    if -1 in rooms:
        made.append(_room_of([thing for (thing, _), room in zip(named, rooms, strict=True) if room == -1]))
    objects = [
        _object(number, thing, ours, room if room >= 0 else len(made) - 1)
        for number, ((thing, ours), room) in enumerate(zip(named, rooms, strict=True), start=1)
    ]
    top = max((thing.high_m for thing in annotations.things), default=2.5)
    house = House(annotations.scene_id, origin, top, made, walls=[], openings=[], objects=objects)
    return house, tuple(thing.id for thing, _ in named)


def _region_around(regions: Sequence[Region], thing: Thing) -> int:
    """Index of the smallest region that has a thing's middle, -1 for none."""
    x, z = thing.middle
    height = (thing.low_m + thing.high_m) / 2
    around = [
        (area.area, n)
        for n, region in enumerate(regions)
        if region.low_m <= height <= region.high_m and (area := Polygon(region.outline)).contains(Point(x, z))
    ]
    return min(around, default=(0, -1))[1]


def _room_of(things: Collection[Thing]) -> Room:
    corners = np.array([corner for thing in things for corner in thing.outline])
    (x0, z0), (x1, z1) = corners.min(0).tolist(), corners.max(0).tolist()
    return Room(ROOM, [(x0, z0), (x0, z1), (x1, z1), (x1, z0)], floor="", wall="")


def _object(number: int, thing: Thing, category: str, room: int) -> HouseObject:
    """A thing as the smallest turned rectangle around its outline."""
    corners = np.array(Polygon(thing.outline).minimum_rotated_rectangle.exterior.coords)
    (ax, az), (bx, bz), (cx, cz) = corners[:3].tolist()
    middle = (corners[0] + corners[2]) / 2
    size = hypot(bx - ax, bz - az), thing.high_m - thing.low_m, hypot(cx - bx, cz - bz)
    return HouseObject(
        id=number,
        category=category,
        model="",
        position=(float(middle[0]), thing.low_m, float(middle[1])),
        heading_rad=atan2(az - bz, bx - ax),
        size_m=tuple(max(length, THIN_M) for length in size),
        color=None,
        recolored=False,
        room=room,
    )
