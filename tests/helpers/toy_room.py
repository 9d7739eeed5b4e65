"""A world to learn from scratch in a minute: one room with a red or blue chair, left or right of a viewer facing north.

The question says on which side it is. An agent that turns there and stops sees its colour; the answerer knows colours.
Frames come from the house renderer, and the encoder averages them over a few places.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from eqa.data.demonstrations.storage import Demonstrations
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import Episode
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.models.agents.neural import NeuralAgent
from eqa.models.encoders.cnn import Encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.pictures import frames_along
from eqa.models.navigators.pacman import Pacman
from eqa.models.registry import register
from tests.helpers.small_house import small_house

GRID, TURNS = 4, 9
COLORS, SIDES = ("red", "blue"), {"left": Action.LEFT, "right": Action.RIGHT}
MIDDLE = (2.0, 0.0, 2.0)
TURN_RAD = HOUSE_ACTIONS.turn_rad


@register
class Pooled(Encoder):
    """Frames averaged over GRID x GRID places, as an encoder."""

    recipe, height_px, width_px, feature_size = "", 224, 224, 3 * GRID**2
    map_shape = (3, GRID, GRID)

    def __init__(self):
        nn.Module.__init__(self)
        self.register_buffer("scale", torch.tensor(1 / 255))
        self.dtype = torch.float32

    def for_inference(self, precision: str = "auto") -> "Pooled":
        return self

    def forward(self, rgb: Tensor) -> Tensor:
        frames = rgb[:, ::4, ::4].permute(0, 3, 1, 2).float()
        return (nn.functional.adaptive_avg_pool2d(frames, GRID) * self.scale).flatten(1)


@register
class KnowsColors(nn.Module):
    """Answers with the colour in the last frame; "white" if there is none."""

    num_frames, earlier_frames = 5, ()

    def __init__(self, answers: list[str]):
        super().__init__()
        self.answers = answers

    def forward(self, features: Tensor, questions: Tensor, mask: Tensor | None = None) -> Tensor:
        red, _, blue = features[:, -1].unflatten(1, (3, GRID * GRID)).unbind(1)
        redder, bluer = (red - blue).amax(1), (blue - red).amax(1)
        scores = {"red": redder, "blue": bluer, "white": torch.full_like(redder, 0.15)}
        return torch.stack([scores[answer] for answer in self.answers], 1)


class ToyRooms(GeneratedEQA):
    """Ignores the configuration's settings of houses."""

    seed, style = 0, "paper"

    def __init__(self, **of_houses: object) -> None:
        self.encode, self.walks = FeatureExtractor(Pooled()), 1
        self.rooms = {f"{color}-{side}": room_with(color, side) for color in COLORS for side in SIDES}
        self._demos = demonstrations(self.rooms, self.encode)

    def build(self) -> None:
        """Does nothing: all data exist from the start."""

    def house(self, house_id: str) -> House:
        return self.rooms[house_id]

    def fingerprints(self) -> dict:
        return {"questions": "toy rooms"}

    def demonstrations(self, split: str) -> Demonstrations:
        return self._demos

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self._demos.episodes)


def room_with(color: str, side: str) -> House:
    """Four metres square, with a sofa in the middle of one side."""
    empty = small_house(f"{color}-{side}", objects=False)
    sofa = next(thing for thing in small_house().objects if thing.category == "sofa")
    x, heading_rad = (0.7, np.pi / 2) if side == "left" else (3.3, -np.pi / 2)
    painted = replace(sofa, position=(x, sofa.position[1], 2.0), heading_rad=heading_rad, color=color, recolored=True)
    return replace(empty, rooms=empty.rooms[:1], walls=empty.walls[:4], openings=[], objects=[painted])


def demonstrations(rooms: dict[str, House], encode: FeatureExtractor) -> Demonstrations:
    """Turns to the sofa in each room."""
    episodes, actions, poses = [], [], []
    for house in rooms:
        color, side = house.split("-")
        sign = 1 if side == "left" else -1
        seen = (*MIDDLE, sign * TURNS * TURN_RAD % (2 * np.pi))
        goal = {"view_points": (seen,), "goal_radius_m": 0.3, "goal_turn_rad": 3.5 * TURN_RAD}
        question = f"what color is the sofa on the {side}?"
        episodes.append(Episode(house, house, question, color, "color", "toy", target_object=1, target_room=0, **goal))
        actions += [SIDES[side]] * TURNS + [Action.STOP]
        poses += [(*MIDDLE, sign * turn * TURN_RAD % (2 * np.pi)) for turn in range(TURNS + 1)]
    length, poses = TURNS + 1, np.array(poses)
    world = HouseWorld(rooms.__getitem__)
    seen = [
        encode(frames_along(world, room, poses[i * length :][:length].tolist())).cpu().numpy()
        for i, room in enumerate(rooms)
    ]
    return Demonstrations(
        path=Path("toy rooms"),
        episodes=episodes,
        offsets=np.arange(len(rooms) + 1) * length,
        features=np.concatenate(seen),
        actions=np.array(actions, np.int8),
        poses=poses,
        distance_m=np.zeros(len(actions), np.float32),
        targets=np.array(actions, np.int8),
    )


def untrained_agent(source: ToyRooms, name: str = "PACMAN+Q") -> NeuralAgent:
    """An agent that has learned nothing yet, but knows colours."""
    torch.manual_seed(0)
    words, answers = source.vocabulary.words, source.vocabulary.answers
    navigator = Pacman(
        len(words), Pooled.feature_size, planner_hidden=32, controller_hidden=16, image_size=16, question_hidden=16
    )
    return NeuralAgent(
        source.encode.encoder, navigator, KnowsColors(list(answers)), source.vocabulary, config={"name": name}
    )
