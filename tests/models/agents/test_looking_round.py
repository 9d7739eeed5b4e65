"""Looking round: what an agent does where it would stop, against a slow one that is told the whole circle."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eqa.envs.actions import HOUSE_ACTIONS, Action, ActionSet
from eqa.envs.episode import Episode
from eqa.models.agents.agent import EpisodeBatch
from eqa.models.agents.looking_round import SURE, LookingRound, look_every
from eqa.models.encoders.place_names import NameReader
from eqa.models.encoders.seen_frames import SeenFrames

CIRCLE, LONGEST, EVERY = HOUSE_ACTIONS.num_headings, HOUSE_ACTIONS.max_steps, 4
FORWARD, LEFT, RIGHT, STOP = (int(action) for action in Action)


class GoesStraight(nn.Module):
    """A navigator that goes straight on for some steps, and then stops."""

    def __init__(self, steps: list[int]) -> None:
        super().__init__()
        self.steps, self.weight = torch.tensor(steps), nn.Parameter(torch.zeros(1))

    def warm_up(self, *known: Tensor) -> Tensor:
        return torch.zeros(len(self.steps), dtype=torch.int64)

    def act(self, state: Tensor, features: Tensor, *, active: Tensor) -> tuple[Tensor, Tensor]:
        return state + active, torch.where(state < self.steps, FORWARD, STOP)

    def planner_queried(self, state: Tensor) -> None:
        return None


class Named(SeenFrames):
    """Frames in which one place in two is named as the target with a chance that depends on agent and heading."""

    def __init__(self, chances: np.ndarray) -> None:
        self.chances, self.extractor, self.looked = chances, self, []

    def __call__(self, rgb: Tensor, scenes: list[str], poses: np.ndarray) -> Tensor:
        self.looked += [(scene, int(heading)) for scene, heading in zip(scenes, poses[:, 3])]
        chance = torch.tensor([self.chances[int(s), int(h)] for s, h in zip(scenes, poses[:, 3])])
        sure = torch.stack([chance, torch.zeros_like(chance)], 1).repeat(1, 4)  # of eight places
        return torch.logit(sure, eps=1e-6).float()


def names() -> NameReader:
    reader = NameReader(6, 1, (2, 1, 1))  # channels of a place: one, the logit of class 0
    with torch.no_grad():
        reader.layer.weight.zero_(), reader.layer.bias.zero_()
        reader.layer.weight[0, 0] = 1.0
        reader.asked_class[4, 0] = 1.0
    return reader


def played(steps: list[int], chances: np.ndarray) -> tuple[list[list[int]], Named]:
    """The actions of each agent, all beginning at heading 0."""
    num, frames = len(steps), Named(chances)
    agent = LookingRound(GoesStraight(steps), frames, names())
    agent.reset(
        EpisodeBatch(
            questions=["?"] * num,
            question_ids=torch.full((num, 1), 4),
            features=torch.zeros(num, 0, 8),
            actions=torch.zeros(num, 0, dtype=torch.int64),
            poses=np.zeros((num, 4)),
            episodes=[
                Episode(f"e-{n}", str(n), "what color is the sofa?", "red", "color", "by hand") for n in range(num)
            ],
            world=None,
            remaining=[None] * num,
        )
    )
    headings, taken, walking = np.zeros(num, np.int64), [[] for _ in range(num)], np.arange(num)
    for _ in range(LONGEST):
        if not len(walking):
            break
        poses = np.zeros((len(walking), 4))
        poses[:, 3] = headings[walking]
        shown = {"rgb": torch.zeros(len(walking), 1, 1, 3, dtype=torch.uint8), "pose": torch.from_numpy(poses)}
        actions = agent.act(shown, walking)
        for n, action in zip(walking.tolist(), actions.tolist()):
            taken[n].append(action)
        headings[walking] = (headings[walking] + (actions == LEFT) - (actions == RIGHT)) % CIRCLE
        walking = walking[actions != STOP]
    return taken, frames


def slow(steps: int, chances: np.ndarray) -> list[int]:
    """What it should do, when all views of the circle are known."""
    before = [FORWARD] * min(steps, LONGEST)
    if steps >= LONGEST:
        return before
    if LONGEST - steps <= CIRCLE + CIRCLE // 2:
        return [*before, STOP]
    looked = range(0, CIRCLE, EVERY)
    sure = [turns for turns in looked if chances[turns] >= SURE]
    if sure:
        return [*before, *[LEFT] * sure[0], STOP]
    best = max(looked, key=lambda turns: chances[turns])
    way = [LEFT] * best if best < CIRCLE - best else [RIGHT] * (CIRCLE - best) if best else []
    return [*before, *[LEFT] * CIRCLE, *way, STOP]


def test_it_stops_at_a_view_that_surely_shows_the_target_or_turns_back_to_the_best() -> None:
    rng = np.random.default_rng(0)
    steps = [*range(0, 60, 2), 99, 100, 140]
    chances = rng.random((len(steps), CIRCLE)) * np.where(np.arange(len(steps)) % 3 == 0, 1.0, 0.65)[:, None]
    chances[4, 0] = 0.9  # the first view is enough
    chances[5], chances[5, 0] = 0.1, 0.5  # nothing is better than where it began
    taken, _ = played(steps, chances)
    for n, actions in enumerate(taken):
        assert actions == slow(steps[n], chances[n]), n
    assert [len(taken[n]) - steps[n] for n in (4, 5)] == [1, CIRCLE + 1]
    assert {actions[-2] for actions in taken if len(actions) > 50} >= {LEFT, RIGHT}


def test_it_looks_at_every_fourth_view_of_the_circle_and_what_is_between_stays_as_it_was() -> None:
    chances = np.full((1, CIRCLE), 0.2)
    chances[0, 8] = 0.6
    (taken,), frames = played([2], chances)
    assert taken == [FORWARD, FORWARD, *[LEFT] * (CIRCLE + 8), STOP]
    assert [heading for _, heading in frames.looked] == [0, 0, *range(0, CIRCLE, EVERY), 0, 4, 8]


@pytest.mark.parametrize(("places", "expected"), [(8, 0.75), (2, 0.75)])
def test_a_view_is_as_sure_as_its_surest_places(places: int, expected: float) -> None:
    agent = LookingRound(GoesStraight([0]), Named(np.zeros((1, CIRCLE))), names())
    others = (torch.zeros(1, agent.names.counts[kind]) for kind in (2, 1))
    agent.asked = torch.tensor([[1.0, 0.0]]), *others
    chances = torch.tensor([[0.9, 0.6, 0.8, 0.7, 0.1, 0.2, 0.3, 0.4]])[:, :places]
    assert agent.sureness(torch.logit(chances), np.zeros(1, np.int64)) == pytest.approx([expected], abs=1e-6)


def test_the_views_that_it_looks_at_overlap_and_close_the_circle_whatever_a_turn_is() -> None:
    assert look_every(HOUSE_ACTIONS) == EVERY
    for turns, expected in ((12, 1), (36, 3), (24, 2), (8, 1), (7, 1), (44, 4), (100, 10)):
        assert look_every(ActionSet(turn_rad=2 * np.pi / turns)) == expected
