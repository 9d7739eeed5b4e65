"""Reactive, LSTM and transformer: steps against sequences, what each can know, how it stops, what a decision weighs.

PACMAN's own tests are in `test_models`.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.navigators.action_selection import sharpen
from eqa.models.navigators.baselines import Lstm, Reactive
from eqa.models.navigators.navigator import Navigator
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.pacman_targets import hierarchical_targets
from eqa.models.navigators.recurrent_state import joined, rows
from eqa.models.navigators.transformer import Transformer
from eqa.models.registry import describe, rebuild
from tests.helpers.episode_batches import batch_of
from tests.helpers.processor import needs_bfloat16_lstm
from tests.helpers.walk_batches import random_walks, walk_batch

FORWARD, LEFT, RIGHT, STOP = range(4)
FLAT: dict[str, Callable[..., nn.Module]] = {
    "reactive": lambda **changes: Reactive(9, 6, **{"question_hidden": 7, **changes}),
    "reactive that stops": lambda **changes: Reactive(9, 6, **{"question_hidden": 7, "stop": True, **changes}),
    "lstm": lambda **changes: Lstm(9, 6, **{"hidden_size": 12, "question_hidden": 7, **changes}),
    "transformer": lambda **changes: Transformer(
        9, 6, **{"size": 16, "num_layers": 2, "num_heads": 4, "question_hidden": 7, **changes}
    ),
}
ALL = {
    **FLAT,
    "pacman": lambda **changes: Pacman(
        9, 6, **{"planner_hidden": 12, "controller_hidden": 10, "question_hidden": 7, **changes}
    ),
}
flat = pytest.mark.parametrize("make", FLAT.values(), ids=FLAT)
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def logits_of(navigator: Navigator, state: object, features: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    if isinstance(navigator, Pacman):
        return navigator.decide(state, features).planner_logits
    return navigator.decide(state, features, active)[0]


def questions_and_frames(num: int, steps: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    frames = rng.standard_normal((steps, num, 6)).astype(np.float32)
    return torch.from_numpy(rng.integers(1, 9, (num, 5))), torch.from_numpy(frames)


@flat
@torch.no_grad()
@pytest.mark.parametrize("with_question", [True, False])
def test_forced_single_steps_equal_teacher_forcing(make, with_question):
    rng = np.random.default_rng(3)
    walks = random_walks(rng)
    batch = walk_batch(rng, walks)
    batch["loss_from"] = torch.from_numpy(rng.integers(0, 4, len(walks)))
    navigator = make(with_question=with_question).eval()
    can_stop = navigator(navigator.prepare(batch)).shape[1] == 4
    state, expected = navigator.initial_state(batch["questions"]), {}
    for t in range(batch["actions"].shape[1]):
        active, taken = batch["actions"][:, t] >= 0, batch["actions"][:, t]
        logits = logits_of(navigator, state, batch["features"][:, t], active)
        state, actions = navigator.act(state, batch["features"][:, t], forced_action=taken, active=active)
        assert torch.equal(actions, torch.where(active, taken, STOP))
        for b in active.nonzero().flatten().tolist():
            if t >= batch["loss_from"][b] and (can_stop or taken[b] != STOP):
                expected[b, t] = logits[b]
    found = navigator(navigator.prepare(batch))
    torch.testing.assert_close(found, torch.stack([expected[k] for k in sorted(expected)]), rtol=1e-4, atol=1e-5)
    score = navigator.loss(batch)["parts"]["action"]
    assert score.count == len(expected)
    terms = [-logits.log_softmax(0)[batch["actions"][key]] for key, logits in expected.items()]
    torch.testing.assert_close(score.loss, torch.stack(terms).mean())


@every
@torch.no_grad()
def test_a_world_of_more_actions_gets_them_from_forced_steps_and_from_draws(make):
    navigator = make(num_actions=6).eval()
    rng = np.random.default_rng(3)
    walks = [[FORWARD, 4, 4, 5, LEFT, STOP], [5, RIGHT, FORWARD, FORWARD, STOP]]
    batch = walk_batch(rng, walks)
    state, expected = navigator.initial_state(batch["questions"]), {}
    for t in range(batch["actions"].shape[1]):
        taken, active = batch["actions"][:, t], batch["actions"][:, t] >= 0
        logits = logits_of(navigator, state, batch["features"][:, t], active)
        state, _ = navigator.act(state, batch["features"][:, t], forced_action=taken, active=active)
        expected |= {(b, t): logits[b] for b in active.nonzero().flatten().tolist()}
    if not isinstance(navigator, Pacman):
        can_stop = navigator.can_stop
        kept = {k: v for k, v in expected.items() if can_stop or batch["actions"][k] != STOP}
        found = navigator(navigator.prepare(batch))
        torch.testing.assert_close(found, torch.stack([kept[k] for k in sorted(kept)]), rtol=1e-4, atol=1e-5)
        columns = [a for a in range(6) if can_stop or a != STOP]
        terms = [-logits.log_softmax(0)[columns.index(int(batch["actions"][k]))] for k, logits in kept.items()]
        torch.testing.assert_close(navigator.loss(batch)["loss"], torch.stack(terms).mean())
    questions, frames = questions_and_frames(600, 1)
    noise = torch.from_numpy(rng.random((600, 2), np.float32))
    drawn = navigator.act(navigator.initial_state(questions), frames[0], noise=noise)[1].unique().tolist()
    assert drawn == [a for a in range(6) if navigator.can_stop or a != STOP]
    with pytest.raises(ValueError, match="expected a world of 6 actions, got one of 4: forward"):
        navigator.check_actions(HOUSE_ACTIONS)


@every
@torch.no_grad()
def test_a_sharpened_navigator_draws_what_it_did_at_a_temperature_and_likes_the_same_best(make):
    questions, frames = questions_and_frames(4000, 1)
    plain, sharp = make(stop_odds=3.0).eval(), make(stop_odds=1.0).eval()
    sharp.load_state_dict(plain.state_dict())
    sharpen(sharp.heads, num_actions=4, temperature=0.25, stop_odds=3.0)
    first = [navigator.act(navigator.initial_state(questions), frames[0])[1] for navigator in (plain, sharp)]
    assert first[0].equal(first[1])
    state, active = plain.initial_state(questions), torch.ones(len(questions), dtype=torch.bool)
    logits = logits_of(plain, state, frames[0], active)
    if logits.shape[1] == 4:
        logits = logits + torch.tensor([0, 0, 0, np.log(3.0)])
    noise = torch.from_numpy(np.random.default_rng(0).random((4000, 2), np.float32))
    drawn = sharp.act(sharp.initial_state(questions), frames[0], noise=noise)[1]
    expected = (logits / 0.25).softmax(1).mean(0)
    found = drawn.bincount(minlength=4)[: len(expected)] / 4000
    other = torch.stack(
        [noise[:, 0], 1 - noise[:, 1]], 1
    )  # the second is the controller's, which is not asked at first
    assert drawn.equal(sharp.act(sharp.initial_state(questions), frames[0], noise=other)[1])
    torch.testing.assert_close(found, expected.float(), atol=0.03, rtol=0)


@every
def test_an_agent_with_a_history_walks_alone_as_it_does_beside_agents_with_longer_and_shorter_ones(make):
    questions, frames = questions_and_frames(4, 20)
    navigator, lengths = make(), torch.tensor([0, 3, 9, 9])
    with torch.no_grad():
        for parameter in navigator.parameters():
            parameter *= 4  # the frames matter more
    taken = torch.from_numpy(np.random.default_rng(1).integers(0, 3, (4, 9)))
    history = torch.where(torch.arange(9) < lengths[:, None], taken, -1)

    def play(who: list[int]) -> torch.Tensor:
        walker, longest = NavigatorAgent(navigator, lambda frame: frame), int(lengths[who].max())
        walker.reset(
            batch_of(
                np.zeros((len(who), 4)),
                questions=questions[who],
                features=frames[:longest, who].transpose(0, 1),
                actions=history[who, :longest],
            )
        )
        chosen = [walker.act({"rgb": frame}, np.arange(len(who))) for frame in frames[9:, who]]
        return torch.from_numpy(np.stack(chosen, 1))

    together = play([0, 1, 2, 3])
    assert torch.equal(together, torch.cat([play([n]) for n in range(4)]))
    assert len(together.unique()) > 1


@flat
@torch.no_grad()
def test_inactive_agents_stop_and_do_not_see_what_they_are_shown(make):
    questions, frames = questions_and_frames(2, 4)
    questions[1], frames[:, 1] = questions[0], frames[:, 0]
    navigator, left_out = make().eval(), torch.tensor([True, False])
    state, _ = navigator.act(navigator.initial_state(questions), frames[0], forced_action=torch.tensor([LEFT, LEFT]))
    shown, actions = navigator.act(state, frames[1] * 9, active=left_out)
    assert actions[1] == STOP
    unseen = logits_of(navigator, state, frames[2], torch.ones(2, dtype=torch.bool))
    after = logits_of(navigator, shown, frames[2], torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(after[1], unseen[1])
    assert not torch.allclose(after[0], unseen[0])


@every
def test_padding_changes_no_loss(make):
    walks, navigator = random_walks(np.random.default_rng(5)), make().eval()
    tight, wide = (walk_batch(np.random.default_rng(6), walks, extra) for extra in (0, 4))
    torch.testing.assert_close(navigator.loss(wide)["loss"], navigator.loss(tight)["loss"])


@every
def test_only_who_hears_the_question_depends_on_it(make):
    rng = np.random.default_rng(7)
    batch = walk_batch(rng, random_walks(rng))
    other = {**batch, "questions": batch["questions"].flip(0)}
    deaf, hearing = make(with_question=False).eval(), make().eval()
    assert deaf.loss(other)["loss"] == deaf.loss(batch)["loss"]
    assert hearing.loss(other)["loss"] != hearing.loss(batch)["loss"]


@flat
def test_what_was_seen_before_loss_from_is_known_as_far_back_as_the_navigator_remembers(make):
    rng = np.random.default_rng(8)
    batch = walk_batch(rng, [[FORWARD] * 9 + [LEFT, STOP], [LEFT, STOP]])
    batch["loss_from"] = torch.tensor([8, 0])
    navigator = make().eval()
    loss = navigator.loss(batch)
    assert loss["parts"]["action"].count == (3 if make is FLAT["reactive"] else 5)
    for frame, matters in ((0, not isinstance(navigator, Reactive)), (4, True)):
        features = batch["features"].clone()
        features[0, frame] += 1
        assert (navigator.loss({**batch, "features": features})["loss"] != loss["loss"]) == matters


@every
def test_each_decision_weighs_what_its_action_weighs(make):
    rng = np.random.default_rng(9)
    batch, navigator = walk_batch(rng, random_walks(rng, num=3, longest=12)), make().eval()
    targets = hierarchical_targets(batch["actions"])
    plain, sums = navigator.loss(batch), {}
    for b, t in (batch["actions"] >= 0).nonzero().tolist():
        weights = torch.zeros(batch["actions"].shape)
        weights[b, t] = 1.0
        for name, score in navigator.loss({**batch, "weights": weights})["parts"].items():
            decided = {
                "planner": targets.queries[b, t],
                "controller": targets.controls[b, t] and not targets.must_return[b, t],
                "action": batch["actions"][b, t] != STOP or make is not FLAT["reactive"],
            }[name]
            assert (score.loss > 0) == decided
            assert score[1:] == plain["parts"][name][1:]
            sums[name] = sums.get(name, 0) + score.loss
    for name, score in plain["parts"].items():
        torch.testing.assert_close(sums[name], score.loss)


@every
def test_a_navigator_is_made_again_from_what_a_checkpoint_holds(make, tmp_path):
    rng = np.random.default_rng(10)
    batch, navigator = walk_batch(rng, random_walks(rng)), make(with_question=False, stop_odds=3.0).eval()
    torch.save(describe(navigator), tmp_path / "navigator")
    again = rebuild(torch.load(tmp_path / "navigator", weights_only=True))
    assert (type(again), again.arguments) == (type(navigator), navigator.arguments)
    assert torch.equal(again.loss(batch)["loss"], navigator.loss(batch)["loss"])


@needs_bfloat16_lstm
@flat
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_networks_run_under_autocast_and_on_half_precision_features(make, dtype):
    rng = np.random.default_rng(12)
    navigator, batch = make(), walk_batch(rng, random_walks(rng))
    batch["features"] = batch["features"].to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        loss = navigator.loss(batch)["loss"]
        state = navigator.initial_state(batch["questions"])
        for t in range(2):
            state, _ = navigator.act(state, batch["features"][:, t], noise=torch.rand(len(batch["actions"]), 2))
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in navigator.parameters())


def test_a_reactive_navigator_without_stop_never_stops_whatever_it_sees():
    questions, frames = questions_and_frames(300, 8)
    navigator = FLAT["reactive"](stop_odds=1e6).eval()
    for noise in (None, torch.rand(300, 2)):
        state = navigator.initial_state(questions)
        for frame in frames * 10:
            state, actions = navigator.act(state, frame, noise=noise)
            assert set(actions.tolist()) <= {FORWARD, LEFT, RIGHT}


@pytest.mark.parametrize("make", [FLAT["reactive that stops"], FLAT["lstm"], FLAT["transformer"]])
@torch.no_grad()
def test_who_can_stop_does_so_once_the_odds_make_it_the_likeliest_and_draws_without_them(make):
    questions, frames = questions_and_frames(2000, 1)
    for odds, stops in ((1.0, False), (15.0, False), (25.0, True)):
        navigator = make(stop_odds=odds).eval()
        last = navigator.head[-1] if isinstance(navigator.head, nn.Sequential) else navigator.head
        last.weight.zero_()
        last.bias[:] = torch.tensor([0.8, 0.1, 0.06, 0.04]).log()
        state = navigator.initial_state(questions)
        assert (navigator.act(state, frames[0])[1] == (STOP if stops else FORWARD)).all()
        torch.manual_seed(0)
        drawn = navigator.act(state, frames[0], noise=torch.rand(2000, 2))[1]
        torch.testing.assert_close(drawn.bincount() / 2000, torch.tensor([0.8, 0.1, 0.06, 0.04]), atol=0.03, rtol=0)
    with pytest.raises(ValueError, match="stop_odds"):
        make(stop_odds=0.0)


@pytest.mark.parametrize(("make", "tells"), [(make, name in ("lstm", "pacman")) for name, make in ALL.items()], ids=ALL)
@torch.no_grad()
def test_a_state_tells_the_share_of_stop_in_the_last_choice_among_all_actions_or_nothing(make, tells):
    navigator, (questions, frames) = make().eval(), questions_and_frames(6, 8)
    state, active, last = navigator.initial_state(questions), torch.ones(6, dtype=torch.bool), torch.zeros(6)
    for frame in 3 * frames:
        logits = logits_of(navigator, state, frame, active)
        state, _ = navigator.act(state, frame, forced_action=torch.arange(6) % 2)
        queried = navigator.planner_queried(state)
        now = logits.softmax(1)[:, STOP] if tells else last
        last = now if queried is None else torch.where(queried, now, last)
        assert tells or navigator.stop_share(state) is None
        if tells:
            torch.testing.assert_close(navigator.stop_share(state), last)


@torch.no_grad()
def test_pacman_is_after_a_history_where_its_steps_would_have_brought_it():
    rng = np.random.default_rng(5)
    for planner in ("lstm", "gru"):
        navigator = Pacman(9, 6, planner_hidden=12, planner=planner).eval()
        walks = [*random_walks(rng), []]
        batch = walk_batch(rng, walks)
        history = (batch["questions"], batch["features"], batch["actions"])
        state = navigator.initial_state(batch["questions"])
        for t in range(batch["actions"].shape[1]):
            taken = batch["actions"][:, t]
            state, _ = navigator.act(
                state, batch["features"][:, t], forced_action=taken.clamp(min=0), active=taken >= 0
            )
        after = navigator.warm_up(*history)
        assert (after.previous_action == state.previous_action).all() and (after.repeats == state.repeats).all()
        for one, other in zip(after.hidden, state.hidden, strict=True):
            torch.testing.assert_close(one, other)


@every
@torch.no_grad()
def test_agents_that_are_taken_out_and_put_together_again_walk_on_as_before(make):
    rng = np.random.default_rng(6)
    navigator, batch = make().eval(), walk_batch(rng, random_walks(rng))
    questions, features = batch["questions"], batch["features"]
    whole = navigator.initial_state(questions)
    for t in range(3):
        whole, _ = navigator.act(whole, features[:, t])
    late, early = torch.arange(2), torch.arange(2, len(questions))
    fresh = rows(navigator.initial_state(questions), late)
    mixed = joined(rows(whole, early), fresh)
    mixed, actions = navigator.act(mixed, torch.cat([features[early, 3], features[late, 0]]))
    _, of_whole = navigator.act(whole, features[:, 3])
    alone, of_fresh = navigator.act(fresh, features[late, 0])
    assert actions.tolist() == [*of_whole[early].tolist(), *of_fresh.tolist()]
    again = rows(mixed, torch.arange(len(early), len(questions)))
    assert (navigator.act(again, features[late, 1])[1] == navigator.act(alone, features[late, 1])[1]).all()


@torch.no_grad()
def test_a_step_of_the_transformer_does_not_compute_the_walk_again():
    questions, frames = questions_and_frames(1, 60)
    navigator = FLAT["transformer"]().eval()
    state, costs = navigator.initial_state(questions), []
    for frame in frames:
        with FlopCounterMode(display=False) as counter:
            state, _ = navigator.act(state, frame)
        costs.append(counter.get_total_flops())
    growth = np.diff(costs)
    assert (growth == growth[0]).all()  # of attention alone
    assert costs[-1] < 2 * costs[0]


def test_a_transformer_whose_heads_do_not_share_its_size_is_refused():
    with pytest.raises(ValueError, match="multiple of num_heads=3, got 16"):
        FLAT["transformer"](num_heads=3)


def test_what_pacman_keeps_of_a_place_is_the_same_for_each_and_comes_from_that_place_alone():
    torch.manual_seed(0)
    channels, rows, columns = 3, 5, 4
    size = channels * rows * columns
    navigator = Pacman(9, size, map_shape=[channels, rows, columns], place_size=2, planner_hidden=8).eval()
    maps = torch.randn(1, channels, rows, columns)
    shifted = maps.roll((2, 2), (2, 3))  # by whole means of 2 x 2 places
    layers = navigator.image_projection
    before, after = (layers[:4](m.flatten(1)) for m in (maps, shifted))
    torch.testing.assert_close(before[:, :, :1, :1], after[:, :, 1:2, 1:2])
    assert before.shape == (1, 2, 3, 2) and layers(maps.flatten(1)).shape == (1, 128)
    with pytest.raises(ValueError, match="map_shape: expected channels, rows and columns of 60 features, got None"):
        Pacman(9, size, place_size=2)


def test_reactive_and_lstm_have_the_released_codes_sizes():
    """Reference numbers without the table of words; the LSTM has one more embedded action, the start."""

    def size(navigator: nn.Module) -> int:
        words = sum(p.numel() for name, p in navigator.named_parameters() if name.endswith("encoder.embedding.weight"))
        return sum(p.numel() for p in navigator.parameters()) - words

    for make, options, heard, deaf in ((Reactive, {"stop": True}, 300484, 225668), (Lstm, {}, 5604676, 5271812)):
        start = 32 if make is Lstm else 0
        assert size(make(99, 3200, question_hidden=64, **options)) == heard + start
        assert size(make(99, 3200, with_question=False, **options)) == deaf + start
