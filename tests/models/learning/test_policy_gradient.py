"""The update of learning by walking, against a slow one: every course of a tiny walk, decision by decision.

A walk has at most `STEPS` steps; what a step earns depends on what was done up to it. All that is learned from goes
through `NavigatorReinforcement._learn`, as training's does; the optimizer alone is replaced, by one that keeps gradients.
"""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from eqa.envs.actions import Action
from eqa.envs.simulator import Goal
from eqa.models.learning import critic
from eqa.models.learning.reinforce import NavigatorReinforcement, rollout_figures
from eqa.models.learning.rollouts import Rollout
from eqa.models.navigators.pacman import Pacman, PacmanState

STEPS, FEATURES = 3, 6
STOP = int(Action.STOP)
ARGUMENTS = {
    "vocabulary_size": 9, "feature_size": FEATURES, "planner_hidden": 5, "controller_hidden": 4, "image_size": 4,
    "question_hidden": 4, "max_repeats": 2,
}  # fmt: skip
SETTINGS = {
    "lr": 1e-3, "optimizer": "adam", "baseline": "none", "baseline_decay": 0.9, "gamma": 1.0, "gae_lambda": 0.95,
    "normalize": False, "entropy_weight": 0.0, "kl_weight": 0.0, "clip_range": None, "epochs": 1, "minibatches": 1,
    "max_grad_norm": 1e9, "critic_lr": 1e-3, "critic_warm_up": 0, "answerer_lr": 0.0, "temperature": None, "options": {},
}  # fmt: skip
Course = tuple[tuple[int, ...], tuple[bool, ...]]  # actions, and whether the planner chose each


def courses(steps: int = STEPS) -> list[Course]:
    """All that can be done: a planned action, or the one before once more, as often as may be; until STOP or the end."""
    found: list[Course] = [((), ())]
    for _ in range(steps):
        longer: list[Course] = []
        for actions, planned in found:
            if actions and actions[-1] == STOP:
                longer.append((actions, planned))
                continue
            longer += [((*actions, a), (*planned, True)) for a in range(4)]
            if actions and True in planned[1 - ARGUMENTS["max_repeats"] :]:  # else the planner has to be asked
                longer.append(((*actions, actions[-1]), (*planned, False)))
        found = longer
    return found


def worth(actions: tuple[int, ...]) -> float:
    """What the last of these actions earns."""
    return float(np.random.default_rng([7, *(a + 1 for a in actions)]).normal())


class Steps:
    """An optimizer that keeps the gradient of each step, and goes down it."""

    def __init__(self, module: NavigatorReinforcement, rate: float) -> None:
        self.module, self.rate, self.taken = module, rate, []

    def zero_grad(self) -> None:
        self.module.zero_grad()

    def step(self) -> None:
        self.taken.append(gradients(self.module))
        with torch.no_grad():
            for parameter in self.module.parameters():
                if parameter.grad is not None:
                    parameter -= self.rate * parameter.grad


def gradients(module: torch.nn.Module) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in module.named_parameters()
        if p.requires_grad
    }


def learner(samples: int = 1, *, rate: float = 0.0, **settings: object) -> NavigatorReinforcement:
    """With other weights in all its parts; its `steps` hold the gradients."""
    torch.manual_seed(3)
    answerer = {
        "class": "Answerer",
        "arguments": {"vocabulary_size": 9, "num_answers": 2, "feature_size": FEATURES, "dropout": 0.0},
    }
    navigator = {"class": "Pacman", "arguments": ARGUMENTS}
    module = NavigatorReinforcement(navigator, answerer, samples, **{**SETTINGS, **settings}).double().eval()
    if module.critic is not None:
        module.critic.float()
        torch.nn.init.normal_(module.critic.head.weight)
        torch.nn.init.normal_(module.critic.head.bias)
    module.moving_average = module.moving_average.float()
    module.world = SimpleNamespace(world_size=1)
    module.trainer = module.world
    module.steps = Steps(module, rate)
    module.optimizers = lambda: module.steps
    module.manual_backward = lambda loss: loss.backward()
    return module


FRAMES = torch.randn(STEPS, FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
QUESTION = torch.tensor([[2, 3]])
FACTS = torch.randn(5, len(critic.FACTS), generator=torch.Generator().manual_seed(2))  # after each action


def walked(given: list[Course], navigator: Pacman, *, truncated: bool = False) -> Rollout:
    """As `Rollouts` gives it."""
    num, longest = len(given), max(len(actions) for actions, _ in given)
    actions, asked = torch.full((num, longest), -1), torch.zeros(num, longest, dtype=torch.bool)
    rewards = torch.zeros(num, longest, dtype=torch.float64)
    for n, (done, planned) in enumerate(given):
        actions[n, : len(done)] = torch.tensor(done)
        asked[n, : len(done)] = torch.tensor(planned)
        rewards[n, : len(done)] = torch.tensor([worth(done[: t + 1]) for t in range(len(done))])
    none, everybody = torch.zeros(num, dtype=torch.int64), torch.arange(num)
    questions, before = QUESTION.expand(num, -1), torch.cat([torch.full((num, 1), -1), actions[:, :-1]], 1)
    with torch.no_grad():
        state = navigator.initial_state(questions)
    return Rollout(
        batch={"features": FRAMES[None, :longest].expand(num, -1, -1).half(), "actions": actions, "planner_queried": asked,
               "questions": questions, "loss_from": none},
        rewards=rewards.float(), answers=none, prior=torch.zeros(num, 2), last_frames=torch.zeros(num, 1, FEATURES), stopped=none > 0,
        correct=none > 0, facts=FACTS[before], seen=None, shown=None, truncated=torch.full((num,), truncated), distances_m=np.zeros((num, 1)),
        entered=np.zeros(num, bool), poses=[], state=state, shared=(everybody, everybody),
    )  # fmt: skip


def decisions(navigator: Pacman, course: Course) -> list[tuple[int, Tensor, int]]:
    """Of a course, one after the other: the step, the log-probabilities to choose from, and what was chosen."""
    state, made = navigator.initial_state(QUESTION), []
    for t, (action, planned) in enumerate(zip(*course, strict=True)):
        decision = navigator.decide(state, FRAMES[t : t + 1].half().double())
        if decision.may_repeat:
            made.append((t, decision.controller_logits[0].log_softmax(0), int(not planned)))
        if planned:
            made.append((t, decision.planner_logits[0].log_softmax(0), action))
        state = PacmanState(
            question=state.question,
            hidden=decision.hidden if planned else state.hidden,
            previous_action=torch.tensor([action]),
            repeats=torch.ones(1, dtype=torch.int64) if planned else state.repeats + 1,
        )
    return made


def chance(navigator: Pacman, course: Course) -> Tensor:
    return torch.stack([logs[chosen] for _, logs, chosen in decisions(navigator, course)]).sum().exp()


def earned(course: Course) -> list[float]:
    return [worth(course[0][: t + 1]) for t in range(len(course[0]))]


def returns(course: Course, gamma: float = 1.0) -> list[float]:
    rewards = earned(course)
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]


def slow_loss(
    module: NavigatorReinforcement,
    given: list[Course],
    advantages: list[list[float]],
    *,
    old: list[list[float]] | None = None,
    start: Pacman | None = None,
    steps: int | None = None,
) -> Tensor:
    """What one step goes down, written out; `old` are the log-probabilities of what was chosen before it."""
    total, options = torch.zeros((), dtype=torch.float64), module.hparams
    for n, course in enumerate(given):
        for k, (t, logs, chosen) in enumerate(decisions(module.navigator, course)):
            gain = advantages[n][t] * logs[chosen]
            if old is not None:
                ratio, clip = (logs[chosen] - old[n][k]).exp(), options.clip_range
                bounded = ratio.clamp(1 - clip, 1 + clip)
                gain = min(advantages[n][t] * ratio, advantages[n][t] * bounded, key=float)
            total = total - gain - options.entropy_weight * -(logs.exp() * logs).sum()
            if start is not None:
                there = decisions(start, course)[k][1].detach()
                total = total + options.kl_weight * (logs.exp() * (logs - there)).sum()
    return total / (steps or sum(len(actions) for actions, _ in given))


def slow_gradients(module: NavigatorReinforcement, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return gradients(module)


def same(one: dict[str, Tensor], other: dict[str, Tensor], *, of: str = "navigator.") -> None:
    names = [name for name in one if name.startswith(of)]
    assert names and any(one[name].abs().max() > 1e-3 for name in names)
    for name in names:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6, msg=name)


def critics(module: NavigatorReinforcement, course: Course) -> list[float]:
    """Its values along a course."""
    rollout = walked([course], module.navigator)
    with torch.no_grad():
        return module.critic(rollout.facts)[0].tolist()


def smoothed(course: Course, values: list[float], *, gamma: float, gae_lambda: float) -> list[float]:
    rewards, ahead = earned(course), [*values[1:], 0.0]
    errors = [rewards[t] + gamma * ahead[t] - values[t] for t in range(len(rewards))]
    return [sum((gamma * gae_lambda) ** (k - t) * errors[k] for k in range(t, len(errors))) for t in range(len(errors))]


CASES = {
    "none": {},
    "discounted": {"gamma": 0.8},
    "moving_average": {"baseline": "moving_average"},
    "critic": {"baseline": "critic", "gamma": 0.9, "gae_lambda": 0.7},
    "clipped": {"clip_range": 0.2},
    "entropy": {"entropy_weight": 0.3},
    "kl": {"kl_weight": 0.4},
    "normalized": {"normalize": True},
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_s_gradient_is_the_slow_one_s(case: str) -> None:
    module = learner(**CASES[case])
    given, options = courses()[::5], module.hparams
    torch.nn.init.normal_(module.reference.planner_head.weight)  # so that there is something to differ from
    module.moving_average.fill_(0.7)
    if options.baseline == "critic":
        values = [critics(module, course) for course in given]
        advantages = [smoothed(c, v, gamma=0.9, gae_lambda=0.7) for c, v in zip(given, values, strict=True)]
    else:
        less = 0.7 if options.baseline == "moving_average" else 0.0
        advantages = [[r - less for r in returns(course, options.gamma)] for course in given]
    if options.normalize:
        flat = np.concatenate(advantages)
        advantages = [[(a - flat.mean()) / flat.std() for a in along] for along in advantages]
    start = module.reference if options.kl_weight else None
    expected = slow_gradients(module, slow_loss(module, given, advantages, start=start))
    figures = module._learn(walked(given, module.navigator), compare=start is not None)
    same(module.steps.taken[0], expected)
    assert len(module.steps.taken) == 1 and module.updates == 1
    made = [logs for course in given for _, logs, _ in decisions(module.navigator, course)]
    entropy = np.mean([float(-(logs.exp() * logs).sum()) for logs in made])
    assert float(figures["entropy"]) == pytest.approx(entropy, rel=1e-5)
    norm = np.sqrt(sum(float((g**2).sum()) for g in module.steps.taken[0].values()))
    assert float(figures["grad_norm"]) == pytest.approx(norm, rel=1e-5)
    if options.baseline == "moving_average":
        mean = np.mean([returns(course)[0] for course in given])
        assert float(module.moving_average) == pytest.approx(0.9 * 0.7 + 0.1 * mean, rel=1e-5)
    if options.baseline == "critic":
        module.zero_grad()
        wanted = [[a + v for a, v in zip(*pair, strict=True)] for pair in zip(advantages, values, strict=True)]
        whole = walked(given, module.navigator)
        said = module.critic(whole.facts)
        errors = sum(((said[n, t] - r) ** 2 for n, along in enumerate(wanted) for t, r in enumerate(along)))
        same(module.steps.taken[0], slow_gradients(module, errors / sum(map(len, wanted))), of="critic.")
        assert float(figures["critic"]) == pytest.approx(float(errors.detach()) / len(made), rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"baseline": "moving_average"},
        {"baseline": "critic", "gae_lambda": 1.0},
        {"clip_range": 0.2},
        {"baseline": "rloo"},
    ],
    ids=["none", "moving_average", "critic", "clipped", "rloo"],
)
def test_over_all_courses_it_is_the_derivative_of_what_a_walk_is_expected_to_earn(settings: dict) -> None:
    """Each course learned from alone, or each pair of courses, as often as it comes."""
    size = 2 if settings.get("baseline") == "rloo" else 1
    module = learner(size, **settings)
    every = courses(2 if size == 2 else STEPS)
    chances = {course: chance(module.navigator, course) for course in every}
    assert float(sum(chances.values()).detach()) == pytest.approx(1) and len(every) >= 16
    expected = slow_gradients(module, sum(chances[c] * sum(earned(c)) for c in every))
    learned = {name: torch.zeros_like(value) for name, value in expected.items()}
    for group in itertools.product(every, repeat=size):
        module.moving_average.fill_(0.7)
        module.steps.taken.clear()
        module._learn(walked(list(group), module.navigator), compare=False)
        weight = float(torch.stack([chances[course] for course in group]).prod()) / size
        for name, value in module.steps.taken[0].items():
            learned[name] -= weight * sum(len(actions) for actions, _ in group) * value  # it goes down, by means
    same(expected, learned)


def test_the_second_pass_of_ppo_is_clipped_against_what_was_likely_at_first() -> None:
    module = learner(clip_range=0.05, epochs=2, rate=2.0)
    given = courses()[::5]
    advantages = [returns(course) for course in given]
    old = [[float(logs[chosen]) for _, logs, chosen in decisions(module.navigator, c)] for c in given]
    figures = module._learn(walked(given, module.navigator), compare=False)
    norms = [np.sqrt(sum(float((g**2).sum()) for g in taken.values())) for taken in module.steps.taken]
    assert float(figures["grad_norm"]) == pytest.approx(np.mean(norms), rel=1e-5)
    fresh = learner(clip_range=0.05)
    same(module.steps.taken[0], slow_gradients(fresh, slow_loss(fresh, given, advantages, old=old)))
    with torch.no_grad():
        for name, parameter in fresh.named_parameters():
            parameter -= 2.0 * module.steps.taken[0].get(name, torch.zeros_like(parameter))
    ratios = [
        float((logs[chosen] - before).exp())
        for course, along in zip(given, old, strict=True)
        for (_, logs, chosen), before in zip(decisions(fresh.navigator, course), along, strict=True)
    ]
    assert min(ratios) < 0.9 and max(ratios) > 1.1 and any(0.95 < ratio < 1.05 for ratio in ratios)
    same(module.steps.taken[1], slow_gradients(fresh, slow_loss(fresh, given, advantages, old=old)))


def test_minibatches_are_means_over_all_steps_as_if_each_were_the_update() -> None:
    torch.manual_seed(0)
    module = learner(clip_range=0.2, minibatches=2, microbatch_size=1)
    given = courses()[::20]
    module._learn(walked(given, module.navigator), compare=False)
    fresh = learner()
    whole = slow_gradients(fresh, slow_loss(fresh, given, [returns(course) for course in given]))
    assert len(module.steps.taken) == 2 and len(given) % 2 == 0
    same({name: sum(taken[name] for taken in module.steps.taken) / 2 for name in whole}, whole)


def test_a_walk_that_is_cut_off_is_worth_what_the_critic_expects_there() -> None:
    module = learner(baseline="critic", gamma=1.0, gae_lambda=1.0)
    given = [course for course in courses() if len(course[0]) == STEPS and course[0][-1] != STOP][:4]
    values = [critics(module, course) for course in given]
    kept = [earned(course)[:-1] + [v[-1]] for course, v in zip(given, values, strict=True)]  # in place of its last step
    advantages = [[sum(r[t:]) - v[t] for t in range(STEPS - 1)] + [0.0] for r, v in zip(kept, values, strict=True)]
    expected = slow_gradients(module, slow_loss(module, given, advantages, steps=len(given) * (STEPS - 1)))
    module._learn(walked(given, module.navigator, truncated=True), compare=False)
    same(module.steps.taken[0], expected)


def test_the_answerer_learns_from_the_ends_of_walks_a_mean_over_them() -> None:
    module = learner(answerer_lr=0.5, microbatch_size=3)
    rollout = walked(courses()[::20], module.navigator)
    seen = torch.randn(len(rollout.answers), 5, FEATURES, generator=torch.Generator().manual_seed(1))
    prior = torch.randn(len(seen), 2, generator=torch.Generator().manual_seed(2))
    rollout = replace(rollout, last_frames=seen, answers=torch.arange(len(seen)) % 2, prior=prior)
    said = module.answerer(seen.double(), rollout.batch["questions"]) + prior
    expected = slow_gradients(module, F.cross_entropy(said, rollout.answers))
    module._learn(rollout, compare=False)
    same(module.steps.taken[0], expected, of="answerer.")


def test_a_critic_expects_nothing_before_it_has_learned() -> None:
    assert not critic.Critic()(walked(courses()[:20], learner().navigator).facts).any()


def test_a_critic_is_told_where_the_goal_lies_from_where_the_agent_stands() -> None:
    """Heading 0 looks along -Z; a turn to the left by a quarter looks along -X."""
    goal = Goal(((0.0, 1.0, -4.0, 0.0), (100.0, 0.0, 0.0, 0.0)), radius_m=0.5)
    poses = np.array([[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, np.pi / 2], [0.0, 0.0, -8.0, np.pi / 2]]])
    in_room, shares = np.array([[False, False, True]]), np.array([[0.0, 0.0025, 0.04]], np.float32)
    told = critic.facts_of(poses, np.array([[8.0, 6.0, 4.0]]), in_room, shares, [goal], max_steps=10)
    expected = [
        [2.0, 2.0, 1.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [1.5, 2.0, 0.0, 1.0, 0.25, 0.0, -1.0, 0.0, 0.1, 0.05, 0.0],
        [1.0, 1.5, 0.0, -1.0, 0.25, 0.0, -1.0, 1.0, 0.2, 0.2, 1.0],
    ]
    np.testing.assert_allclose(told[0], expected, atol=1e-6)
    assert told.shape[2] == len(critic.FACTS)


def test_what_an_epoch_shows_of_distances_is_from_the_spawn_to_the_end() -> None:
    rollout = walked(courses()[::20][:2], learner().navigator)
    metres = np.array([[5.0, 4.0, 2.0, 3.0], [7.0, 6.5, 6.0, 1.0]])
    figures = rollout_figures(replace(rollout, distances_m=metres))
    assert {name: float(figures[name]) for name in ("d_delta", "d_T", "d_min")} == {
        "d_delta": 4.0,
        "d_T": 2.0,
        "d_min": 1.5,
    }


def test_while_the_critic_warms_up_nothing_else_learns_and_a_large_gradient_is_cut() -> None:
    module = learner(baseline="critic", critic_warm_up=1, max_grad_norm=0.01)
    for _ in range(2):
        module._learn(walked(courses()[::20], module.navigator), compare=False)
    first, second = module.steps.taken
    assert all(not g.any() for name, g in first.items() if name.startswith("navigator."))
    assert any(g.any() for name, g in second.items() if name.startswith("navigator."))
    for taken in (first, second):
        assert sum(float((g**2).sum()) for g in taken.values()) == pytest.approx(0.01**2, rel=1e-3)


def test_plans_of_the_first_walks_are_drawn_every_fifth_epoch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module, data = learner(), MagicMock()
    data.rollouts = {"val": MagicMock(return_value=walked(courses()[::20], module.navigator))}
    monkeypatch.setattr(module, "log_dict", lambda *_, **__: None)
    for epoch in range(7):
        for first in (True, False):
            module.trainer = SimpleNamespace(
                datamodule=data, current_epoch=epoch, is_global_zero=first, default_root_dir=tmp_path
            )
            for place in range(2):
                module.validation_step({"rows": torch.arange(5)}, place)
    drawn = [(rows, folder) for _, (rows, _, folder), _ in data.method_calls]
    assert drawn == [([0, 1, 2], tmp_path / "plans" / f"epoch_{epoch}") for epoch in ("00", "05")]


def test_an_update_is_held_in_memory_32_walks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module, sizes = learner(), []
    logits = module.navigator.decision_logits
    monkeypatch.setattr(
        module.navigator, "decision_logits", lambda batch: sizes.append(len(batch["actions"])) or logits(batch)
    )
    module._learn(walked((courses() * 2)[:70], module.navigator), compare=False)
    assert sorted(sizes) == [6, 32, 32]


def test_a_step_s_figures_are_there_to_be_shown_before_the_epoch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = learner(), MagicMock()
    rollout = walked(courses()[::20], module.navigator)
    metres = np.linspace([6.0, 1.0], [4.0, 2.0], len(rollout.answers))
    ends = torch.arange(len(rollout.answers))
    rollout = replace(rollout, distances_m=metres, stopped=ends % 2 == 0, correct=ends % 4 == 0)
    data.rollouts = {"train": MagicMock(return_value=rollout)}
    module.trainer = SimpleNamespace(datamodule=data, world_size=1)
    monkeypatch.setattr(module, "log_dict", lambda *_, **__: None)
    module.training_step({"rows": ends}, 1)
    reward, success = float(rollout.rewards.sum(1).mean()), float((ends % 4 == 0).float().mean())
    expected = {"train/reward": reward, "train/success": success, "train/d_delta": 3.5}
    assert module.latest == pytest.approx(expected, rel=1e-5)
