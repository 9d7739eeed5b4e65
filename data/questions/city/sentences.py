"""`Asking`: the sentences of a question in a city: a building beside the agent, a target beside the building.

The frame is CityEQA's (Zhao et al. 2025, Sec. 2.2): all its questions have it. Sides are those of the compass: north is
-Z, east is +X.
"""

import re
from dataclasses import dataclass

SIDES: dict[str, tuple[int, int]] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}  # x, z
_SIDE = "|".join(SIDES)
FRAME = re.compile(
    rf"there is a building to the (?P<landmark>{_SIDE}) of you\. to the (?P<target_side>{_SIDE}) of the building, "
    r"there (?:is|are) (?P<target>[^.?]+)\. please tell me (?P<asked>[^?]+)\?"
)


@dataclass(frozen=True, slots=True)
class Asking:
    """A question about a target beside a building."""

    landmark_side: str  # of the agent at its start, on which the building is
    target_side: str  # of the building, on which the target is
    target: str  # with its article: "a red car"
    asked: str  # "what kind of vehicle is it"

    @property
    def text(self) -> str:
        """The question as Episodes spell it."""
        return (
            f"there is a building to the {self.landmark_side} of you. to the {self.target_side} of the building, "
            f"there is {self.target}. please tell me {self.asked}?"
        )

    @classmethod
    def parse(cls, question: str) -> "Asking | None":
        """The parts of an Episode's question; None for one of another form."""
        found = FRAME.fullmatch(" ".join(question.lower().split()))
        return None if found is None else cls(*found.groups())
