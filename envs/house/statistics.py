"""`measure`: what is counted of a house and of each of its rooms, with shares and pairs over many rooms.

Axes: V values, P places.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float64

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import QUERYABLE, load_catalog
from eqa.envs.house.geometry import furnished_share, signed_area
from eqa.envs.house.house import House
from eqa.envs.navigation.floor import Floor, distance_fields
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Meshes, Scene
from eqa.envs.simulator import Goal

PLACES = 20  # places of each house for distances and sight lines


@dataclass(frozen=True, slots=True)
class RoomFacts:
    """One room. The area is that of its polygon, on the middles of the walls."""

    type: str
    area_m2: float
    furnished: float  # share of the floor under things that stand on it
    things: Counter[str]  # by category


def room_facts(house: House) -> list[RoomFacts]:
    things = [Counter(thing.category for thing in house.objects if thing.room == i) for i in range(len(house.rooms))]
    return [
        RoomFacts(room.type, abs(signed_area(room.polygon)), furnished_share(house, i), things[i])
        for i, room in enumerate(house.rooms)
    ]


def of_type(rooms: Iterable[RoomFacts]) -> dict[str, list[RoomFacts]]:
    """Rooms by type, the most frequent type first, then by name."""
    found: dict[str, list[RoomFacts]] = {}
    for room in rooms:
        found.setdefault(room.type, []).append(room)
    return dict(sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0])))


def shares_with(rooms: Sequence[RoomFacts]) -> dict[str, float]:
    """The share of the rooms that have a category at least once, by category, the largest share first."""
    counts = Counter(category for room in rooms for category in room.things)
    return {category: count / len(rooms) for category, count in _ordered(counts)}


def shares_of_pairs(rooms: Sequence[RoomFacts]) -> dict[tuple[str, str], float]:
    """The share of the rooms that have both categories, by pair in alphabetical order, the largest share first."""
    counts = Counter(pair for room in rooms for pair in combinations(sorted(room.things), 2))
    return {pair: count / len(rooms) for pair, count in _ordered(counts)}


def _ordered(counts: Counter) -> list[tuple]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


@dataclass(frozen=True, slots=True)
class Measured:
    """One house: `values` by name; several of rooms, distances and sight lines, one of the others."""

    values: dict[str, Float64[np.ndarray, " V"]]
    rooms: list[RoomFacts]
    things: Counter[str]  # by category
    colors: dict[str, Counter[str]]  # by category
    models: frozenset[str]


def measure(house: House) -> Measured:
    """The figures of a house; they depend on the house alone."""
    catalog = load_catalog()
    scene = build_scene(house, catalog)
    floor = build_floor(house, scene, catalog.meshes)
    rng = np.random.default_rng(0)
    places = floor.centres[rng.integers(floor.num_free, size=2 * PLACES)]
    fields = distance_fields(floor, [Goal(((x, floor.y_m, z, 0.0),), 0.05) for x, z in places[:4]])
    apart = np.concatenate([field[rng.integers(floor.num_free, size=PLACES)] for field in fields])
    asked = [thing for thing in house.objects if thing.category in QUERYABLE]
    values = {
        "area": sum(abs(signed_area(room.polygon)) for room in house.rooms),
        "rooms": len(house.rooms),
        "area of a room": [abs(signed_area(room.polygon)) for room in house.rooms],
        "objects": len(house.objects),
        "objects that are asked about": len(asked),
        "distinct categories asked about": len({thing.category for thing in asked}),
        "walking distance": apart,
        "sight line": _sight_lines(scene, floor, places, rng),
        "triangles": _num_triangles(scene, catalog.meshes) / 1000,
    }
    return Measured(
        {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in values.items()},
        room_facts(house),
        Counter(thing.category for thing in house.objects),
        _colors(house),
        frozenset(thing.model for thing in house.objects),
    )


def _colors(house: House) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for thing in house.objects:
        if thing.color is not None:
            found.setdefault(thing.category, Counter())[thing.color] += 1
    return found


def _num_triangles(scene: Scene, furniture: Meshes) -> int:
    faces = np.concatenate([np.diff(meshes.face_range).ravel() for meshes in (furniture, scene.meshes)])
    return int(faces[scene.instances.mesh].sum())


def _sight_lines(
    scene: Scene, floor: Floor, places: Float64[np.ndarray, "P 2"], rng: np.random.Generator
) -> Float64[np.ndarray, " P"]:
    """Metres to the farthest thing at eye height in one view from each place; a window counts as its pane."""
    renderer = Renderer(Camera(height_px=56, width_px=56), ("depth",))
    renderer.load([scene])
    headings = HOUSE_ACTIONS.headings_rad[rng.integers(HOUSE_ACTIONS.num_headings, size=len(places))]
    poses = floor.stand(places, headings)
    depth = renderer.render(np.zeros(len(poses), np.int32), poses)["depth"][:, 28]
    across = (2 * (np.arange(56) + 0.5) / 56 - 1) * np.tan(np.pi / 6)
    seen = np.where(np.isfinite(depth), depth, 0) * np.hypot(1, across)
    return seen.max(axis=1).astype(np.float64)


def pooled(houses: Sequence[Measured], name: str) -> Float64[np.ndarray, " V"]:
    return np.concatenate([house.values[name] for house in houses])


def rooms_of(houses: Sequence[Measured]) -> list[RoomFacts]:
    return [room for house in houses for room in house.rooms]


def paints_of(houses: Sequence[Measured]) -> dict[str, Counter[str]]:
    """Colours by category over all houses, the most frequent category first."""
    found: dict[str, Counter[str]] = {}
    for house in houses:
        for category, counts in house.colors.items():
            found.setdefault(category, Counter()).update(counts)
    return dict(sorted(found.items(), key=lambda entry: (-entry[1].total(), entry[0])))
