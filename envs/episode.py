"""`Episode`: one question to be answered by walking, in any world and from any benchmark.

Every benchmark loader makes Episodes and every environment plays them. Unknown fields are None, never 0.

Coordinates are metres, X right, Y up; a pose is (x, y, z, heading_rad). y is the height of the ground under a walker,
or of the body of an agent that flies. Heading 0 looks along -Z. It grows counter-clockwise seen from above, so a left
turn adds to it; forward is (-sin heading, -cos heading) in (x, z).
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields

from eqa.envs.reading import declared

Pose = tuple[float, float, float, float]
Point = tuple[float, float, float]
PLAN = slice(0, 3, 2)  # x and z of a pose or a point, its place in the plan

# Meanings of the coordinates of a source, apart from its scenes' own origins.
FRAMES = {
    "house": "as above; the floor of a house is at y = 0",
    "city": "as above; roads are at y = 0, an agent flies on levels above them",
    "habitat": "as above (glTF's axes, as Habitat turns its scenes); a floor is at the poses' y",
    "airsim": "as above; X is AirSim's east, -Z its north, both from its world's origin",
    "suncg": "as House3D reads SUNCG: metres, Y up, the plan is (x, z); boxes only, no poses",
}


@dataclass(frozen=True, slots=True)
class Spawn:
    """The start of a walk, and the distance from there to the goal."""

    pose: Pose
    num_actions: int | None = None  # of the shortest walk, STOP included
    distance_m: float | None = None  # geodesic
    num_rooms: int | None = None  # on the shortest walk, the first included


@dataclass(frozen=True, slots=True)
class Entity:
    """An object or a room that the answer depends on, with its axis-aligned box: (x, y, z) of two corners."""

    kind: str  # "object" or "room"
    name: str
    low: Point
    high: Point
    id: int | None = None  # instance id of an object, index of a room
    is_target: bool = False  # the subject of the question


@dataclass(frozen=True, slots=True)
class Episode:
    episode_id: str
    scene_id: str
    question: str  # lower case, ends with a question mark
    answer: str
    question_type: str  # "location", "color", "color_room", "preposition", ...
    source: str  # the generator or benchmark that made it, with its version
    _: KW_ONLY
    frame: str = "house"  # a key of FRAMES
    target_object: int | None = None  # instance id in the scene, as the renderer writes it
    target_room: int | None = None  # index of the scene's room
    touched: tuple[Entity, ...] | None = None  # all that the answer depends on, the target first
    view_points: tuple[Pose, ...] | None = None  # poses from which the answer can be seen, best first
    goal_radius_m: float | None = None  # the distance is 0 this close to a view point's position
    goal_turn_rad: float | None = None  # largest difference of a walk's last heading from a view point's
    spawns: Mapping[str, Spawn] | None = None  # "start", then "T-50", "T-30", "T-10" on the walk from there; "random"
    walk: str | None = (
        None  # the shortest one from "start", a letter an action: F forward, L left, R right, U up, D down, S stop
    )
    program: str | None = None  # the functional program of question and answer, as text

    def __post_init__(self) -> None:
        if self.frame not in FRAMES:
            raise ValueError(f"episode {self.episode_id!r}: frame: expected one of {list(FRAMES)}, got {self.frame!r}")
        if self.walk is not None and (set(self.walk[:-1]) - set("FLRUD") or self.walk[-1:] != "S"):
            raise ValueError(
                f"episode {self.episode_id!r}: walk: expected letters F, L, R, U, D and a last S, got {self.walk!r}"
            )

    @property
    def start(self) -> Pose | None:
        """The spawn of a walk from far away."""
        return self.spawns["start"].pose if self.spawns and "start" in self.spawns else None

    @property
    def target_point(self) -> Point | None:
        """The middle of the target's box; None if it is not known."""
        target = next((entity for entity in self.touched or () if entity.is_target), None)
        return target and tuple((low + high) / 2 for low, high in zip(target.low, target.high, strict=True))

    def to_dict(self) -> dict:
        """All fields, for JSON. Poses are shared: `dataclasses.asdict` would copy each of their numbers."""
        plain = _fields_of(self)
        if self.touched is not None:
            plain["touched"] = tuple(_fields_of(entity) for entity in self.touched)
        if self.spawns is not None:
            plain["spawns"] = {name: _fields_of(spawn) for name, spawn in self.spawns.items()}
        return plain

    @classmethod
    def from_dict(cls, entry: Mapping) -> "Episode":
        """Rebuilds an episode from `to_dict`'s JSON; ValueError names an unknown or missing key, or one of another
        type.
        """
        name = entry.get("episode_id") if isinstance(entry, Mapping) else None
        try:
            return declared(cls, entry)
        except (TypeError, ValueError) as error:
            raise ValueError(f"episode {name!r}: {error}") from None


def _fields_of(record: Episode | Entity | Spawn) -> dict:
    return {field.name: getattr(record, field.name) for field in fields(record)}
