"""Learning when to stop: the mean over all ends of a walk, and a toy in which only one view is worth stopping at."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from eqa.envs.simulator import SceneFailed
from eqa.models.learning.reinforce import rolled_out
from eqa.models.learning.rollouts import Rollout, Rollouts
from eqa.models.learning.stopping import expected_reward
from eqa.models.navigators.learned_stop import INPUTS, LearnedStop
from eqa.models.navigators.pacman import Pacman


def test_the_mean_reward_is_that_over_all_ends() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, earned = torch.randn(3, 6, generator=generator), torch.randn(3, 6, generator=generator)
    for m in range(3):
        mean, left = 0.0, 1.0
        for t in range(6):
            stop = 1.0 if t == 5 else float(logits[m, t].sigmoid())
            mean, left = mean + left * stop * float(earned[m, t]), left * (1 - stop)
        assert float(expected_reward(logits, earned)[m]) == pytest.approx(mean, abs=1e-6)


def test_the_mean_has_a_gradient_where_a_walk_would_surely_go_on_or_stop() -> None:
    logits = torch.tensor([[-60.0, 60.0, 0.0, 0.0]], requires_grad=True)
    expected_reward(logits, torch.ones(1, 4)).sum().backward()
    assert logits.grad.isfinite().all()


def test_it_learns_to_stop_at_the_first_sure_view_and_to_give_up_late() -> None:
    torch.manual_seed(0)
    walker = {"class": Pacman.__name__, "arguments": {"vocabulary_size": 9, "feature_size": 24, "planner_hidden": 8}}
    navigator = LearnedStop(9, walker=walker, map_shape=(4, 2, 3), name_counts=(3, 2, 2), longest=12)
    sure, first = 0.3 * torch.rand(256, 12), torch.randint(1, 18, (256,))  # a third never sees it
    sure[torch.arange(12) == first[:, None]] = 0.9
    earned = (sure > 0.5).float() - 0.01 * torch.arange(12)
    inputs = torch.zeros(256, 12, len(INPUTS))
    inputs[..., 0], inputs[..., 5] = sure, torch.arange(12) / 12
    optimizer = torch.optim.Adam(navigator.network.parameters(), lr=1e-2)
    for _ in range(300):
        mean = expected_reward(navigator.stop_logits(inputs), earned).mean()
        optimizer.zero_grad()
        (-mean).backward()
        optimizer.step()
    seen = first < 12
    with torch.no_grad():
        stops = navigator.stop_logits(inputs) > 0
    at = torch.where(stops.any(1), stops.float().argmax(1), 11)
    assert (at[seen] == first[seen]).float().mean() > 0.95
    assert (at[~seen] > 8).float().mean() > 0.9


def test_walks_in_a_scene_that_fails_leave_the_update_unless_all_do(capsys: pytest.CaptureFixture) -> None:
    asked, done = [], object.__new__(Rollout)

    class Failing(Rollouts):
        def __init__(self) -> None:
            self.demos = SimpleNamespace(episodes=[SimpleNamespace(scene_id=name) for name in "abba"])

        def __call__(self, navigator: nn.Module, answerer: nn.Module, spawns: dict) -> Rollout:
            asked.append(spawns["rows"].tolist())
            if 1 in asked[-1]:
                raise SceneFailed("b", "b died")
            return done

    batch = {"rows": torch.tensor([0, 0, 1, 2, 3]), "known": torch.arange(5)}
    assert rolled_out(Failing(), nn.Identity(), nn.Identity(), batch) is done
    assert batch["rows"].tolist() == [0, 0, 3]
    assert batch["known"].tolist() == [0, 1, 4] and asked[0] == [0, 0, 1, 2, 3]
    assert "void: 2 walks of an update; b died" in "".join(capsys.readouterr())
    with pytest.raises(SceneFailed, match="b died"):
        rolled_out(Failing(), nn.Identity(), nn.Identity(), {"rows": torch.tensor([1, 2])})
