"""`Episode`: one question to be answered by walking, whatever world or benchmark it comes from.

Every benchmark loader makes Episodes and every environment plays them. What a source does not know is None, never 0.

Coordinates: metres, X right, Y up; a floor pose is (x, z, heading_rad). Heading 0 looks along -Z and grows
counter-clockwise seen from above, so a left turn adds to it; forward is (-sin heading, -cos heading) in (x, z).
"""

from dataclasses import asdict, dataclass

Pose = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Episode:
    episode_id: str
    scene_id: str
    question: str  # lower case, ends with a question mark
    answer: str
    question_type: str  # "location", "color", "color_room", "preposition", ...
    source: str  # which generator or benchmark made it, with its version
    target_object: int | None = None  # instance id in the scene, as the renderer writes it
    target_room: int | None = None  # index of the scene's room
    view_points: tuple[Pose, ...] | None = None  # poses from which the answer can be seen, best first
    goal_radius_m: float | None = None  # distance 0 is anywhere this close to a view point's position
    goal_turn_rad: float | None = None  # a walk may end looking this far beside a view point's heading
    start: Pose | None = None  # where a walk from far away begins
    program: str | None = None  # the functional program behind question and answer, as text

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict) -> "Episode":
        """Rebuilds an episode from `to_dict`'s JSON; an unknown or missing key is a ValueError naming it."""
        unknown = set(fields) - set(cls.__slots__)
        if unknown:
            raise ValueError(f"episode {fields.get('episode_id')!r}: unknown fields {sorted(unknown)}")
        poses = {"view_points": fields.get("view_points"), "start": fields.get("start")}
        if poses["view_points"] is not None:
            poses["view_points"] = tuple(tuple(pose) for pose in poses["view_points"])
        if poses["start"] is not None:
            poses["start"] = tuple(poses["start"])
        try:
            return cls(**{**fields, **poses})
        except TypeError as error:
            raise ValueError(f"episode {fields.get('episode_id')!r}: {error}") from None
