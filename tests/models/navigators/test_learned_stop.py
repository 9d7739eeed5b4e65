"""A navigator that has learned when to stop: steps against whole walks, and when it stops at all."""

import pytest
import torch

from eqa.models.navigators.learned_stop import MANY, SURE, LearnedStop
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.recurrent_state import joined, rows
from eqa.models.registry import describe, rebuild

STOP = 3
N, T, LONGEST = 5, 9, 8
QUESTIONS = torch.tensor([[3, 4, 5]] * N)


@pytest.fixture(params=[False, True])
def navigator(request: pytest.FixtureRequest) -> LearnedStop:
    torch.manual_seed(0)
    sizes = {"planner_hidden": 12, "controller_hidden": 10, "question_hidden": 7, "image_size": 8}
    walker = {"class": Pacman.__name__, "arguments": {"vocabulary_size": 9, "feature_size": 24, **sizes}}
    read = {"map_shape": (4, 2, 3), "name_counts": (3, 2, 2), "asks_colors": request.param}
    made = LearnedStop(9, walker=walker, longest=LONGEST, **read)
    for table in (made.names.layer.weight, made.names.asked_class, made.names.asked_room):
        torch.nn.init.normal_(table)
    if request.param:
        torch.nn.init.uniform_(made.names.asked_color, -0.2, 0.5)
    torch.nn.init.normal_(made.network[-1].weight)
    with torch.no_grad():
        state, views, told = made.eval().initial_state(QUESTIONS), random_features(), []
        for t in range(T):
            state, _, inputs = made.step(state, views[:, t])
            told.append(inputs)
        made.network[-1].bias -= made.stop_logits(torch.stack(told)).median()  # it stops at half of the views
    return made


def random_features() -> torch.Tensor:
    return torch.randn(N, T, 24, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def features() -> torch.Tensor:
    return random_features()


def acted(navigator: LearnedStop, features: torch.Tensor) -> torch.Tensor:
    """Actions at each step, whether it has stopped or not."""
    state, actions = navigator.initial_state(QUESTIONS), []
    for t in range(features.shape[1]):
        state, action = navigator.act(state, features[:, t])
        actions.append(action)
    return torch.stack(actions, 1)


@torch.no_grad()
def test_it_stops_where_whole_walks_say_and_after_the_longest_walk(
    navigator: LearnedStop, features: torch.Tensor
) -> None:
    asked = navigator.names.asked(QUESTIONS)
    sure, room = (
        torch.stack(part, 1)
        for part in zip(*(navigator.names.sureness(features[:, t], *asked) for t in range(LONGEST)), strict=True)
    )
    state, wishes, walker = navigator.walker.initial_state(QUESTIONS), [], navigator.walker
    for t in range(LONGEST):
        image, previous = walker._encode(state, features[:, t])
        planned = walker._plan(state, image, previous)[0].softmax(1)[:, STOP]
        state, _ = walker.act(state, features[:, t])
        wishes.append(torch.where(walker.planner_queried(state), planned, wishes[-1] if wishes else planned))
    wish = torch.stack(wishes, 1)
    gained = torch.cat([torch.zeros(N, 1), sure[:, 1:] - sure[:, :-1]], 1)
    steps = (torch.arange(LONGEST) / LONGEST).expand_as(sure)
    most, views = sure.cummax(1).values.clamp(min=0), (sure > SURE).cumsum(1) / MANY
    told = torch.stack([sure, most, gained, views, room, steps, 2 * wish, 2 * wish.cummax(1).values], 2)
    expected = navigator.stop_logits(told) > 0
    expected[:, -1] = True
    stops = acted(navigator, features) == STOP
    assert torch.equal(stops[:, :LONGEST], expected) and stops[:, LONGEST:].all()
    assert 0 < expected[:, :-1].sum() < expected[:, :-1].numel()


@torch.no_grad()
def test_it_never_stops_while_it_is_to_see_what_there_is(navigator: LearnedStop, features: torch.Tensor) -> None:
    navigator.stops = False
    walker = navigator.walker
    torch.nn.init.constant_(walker.planner_head.bias, 0.0)
    walker.planner_head.bias[STOP] = 20.0
    assert not (acted(navigator, features) == STOP).any()


@torch.no_grad()
def test_odds_of_stopping_shift_it(navigator: LearnedStop, features: torch.Tensor) -> None:
    stops = {}
    for odds in (1e-9, 1.0, 1e9):
        navigator.stop_odds = odds
        stops[odds] = (acted(navigator, features)[:, : LONGEST - 1] == STOP).sum().item()
    assert stops[1e-9] == 0 < stops[1.0] < stops[1e9] == N * (LONGEST - 1)


@torch.no_grad()
def test_a_history_counts_for_walking_but_not_for_stopping(navigator: LearnedStop, features: torch.Tensor) -> None:
    taken = torch.tensor([[0, 0, 1, 1]] * N)
    state = navigator.warm_up(QUESTIONS, features[:, :4], taken)
    assert not state.steps.any() and not state.most.any()
    walker = navigator.walker.warm_up(QUESTIONS, features[:, :4], taken)
    torch.testing.assert_close(state.walker.hidden, walker.hidden)


@torch.no_grad()
def test_agents_that_do_not_act_keep_their_state_and_rows_can_be_taken_and_joined(
    navigator: LearnedStop, features: torch.Tensor
) -> None:
    active = torch.tensor([True, False, True, False, True])
    before, _ = navigator.act(navigator.initial_state(QUESTIONS), features[:, 0])
    after, actions = navigator.act(before, features[:, 1], active=active)
    assert (actions[~active] == STOP).all() and after.steps.tolist() == [2, 1, 2, 1, 2]
    torch.testing.assert_close(after.most[~active], before.most[~active])
    again = joined(rows(after, torch.tensor([0, 1])), rows(after, torch.tensor([2, 3, 4])))
    torch.testing.assert_close(again.walker.hidden, after.walker.hidden)
    torch.testing.assert_close(again.views, after.views)


def test_it_comes_back_from_a_checkpoint(navigator: LearnedStop, features: torch.Tensor) -> None:
    with torch.no_grad():
        assert torch.equal(acted(rebuild(describe(navigator)), features), acted(navigator, features))
