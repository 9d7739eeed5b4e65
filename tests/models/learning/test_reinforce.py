"""Learning by walking: what is credited with what, the gradient, and a world that is learned from scratch."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from eqa import train
from eqa.data.batches.rl_episodes import RLEpisodes, SpawnCurriculum, questions_by_house
from eqa.data.demonstrations.spawn_settings import spawn_point
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.simulator import Goal, enter
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.evaluation.evaluate import Evaluation
from eqa.models.learning.advantages import generalized_advantages, leave_one_out, returns_to_go, with_truncated_ends
from eqa.models.learning.minibatches import Advantages, episodes, make_microbatches, own_steps
from eqa.models.learning.reinforce import NavigatorReinforcement, rollout_figures
from eqa.models.learning.rollouts import Rewards, Rollouts
from eqa.models.navigators.navigator import prepared
from eqa.models.navigators.pacman import Pacman
from tests.helpers.toy_room import ToyRooms, untrained_agent
from tests.helpers.toy_walks import CONFIGS, Cut, logged

pytestmark = pytest.mark.usefixtures("single_thread")

TOY = Path(__file__).parents[2] / "helpers" / "toy"
F, L, R, STOP = (int(action) for action in Action)


@pytest.fixture(scope="module")
def source() -> ToyRooms:
    return ToyRooms()


def configured(folder: Path, source: ToyRooms, *words: str) -> DictConfig:
    checkpoint = folder.parent / "agent.ckpt"
    if not checkpoint.exists():
        untrained_agent(source).save(checkpoint)
    toy = [f"hydra.searchpath=[file://{TOY}]", "+experiment=toy_reinforce"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", overrides=[*toy, f"run_folder={folder}", f"checkpoint={checkpoint}", *words])


def fit(cfg, source: ToyRooms, callbacks=()) -> NavigatorReinforcement:
    data = instantiate(cfg.stages.navigator.data, _partial_=True)(source=source)
    data.setup("fit")
    return train.fit("navigator", cfg, data, loggers=instantiate(cfg.logger), callbacks=list(callbacks))


def test_a_decision_is_credited_with_the_rewards_that_follow_it_and_no_others():
    rewards = torch.tensor([[0.0, 1.0, 0.0, 5.0], [2.0, 0.0, 0.0, 0.0]])
    assert returns_to_go(rewards, 0.5).tolist() == [[1.125, 2.25, 2.5, 5.0], [2.0, 0.0, 0.0, 0.0]]
    navigator = Pacman(9, 6, planner_hidden=8)
    # Two steps of history, then: the planner goes on (F), the controller repeats it, returns and the planner turns, the
    # controller returns and the planner chooses the same turn again, and stops.
    actions = torch.tensor([[L, L, F, F, L, L, STOP]])
    batch = {
        "features": torch.zeros(1, 7, 6),
        "actions": actions,
        "questions": torch.ones(1, 2, dtype=torch.int64),
        "loss_from": torch.tensor([2]),
        "planner_queried": torch.tensor([[False, False, True, False, True, True, True]]),
        "weights": torch.tensor([[0.0, 0.0, 12.0, 13.0, 14.0, 15.0, 16.0]]),
    }
    decisions = navigator.prepare(batch)["decisions"]
    planner = zip(decisions.planner_target.tolist(), decisions.planner_weight.tolist(), strict=True)
    assert list(planner) == [(F, 12.0), (L, 14.0), (L, 15.0), (STOP, 16.0)]
    controller = zip(decisions.controller_target.tolist(), decisions.controller_weight.tolist(), strict=True)
    assert list(controller) == [(0, 12.0), (1, 13.0), (0, 14.0), (0, 15.0), (0, 16.0)]
    assert decisions.controller_input.tolist() == [L, F, F, L, L]


@torch.no_grad()
def test_a_walk_s_log_probabilities_are_those_it_was_drawn_with():
    torch.manual_seed(0)
    navigator = Pacman(9, 6, planner_hidden=12, controller_hidden=8).eval()
    features, questions = torch.randn(40, 30, 6), torch.randint(1, 9, (40, 4))
    state, walked = navigator.initial_state(questions), []
    for t in range(30):
        decision, previous = navigator.decide(state, features[:, t]), state.previous_action
        state, actions = navigator.act(state, features[:, t], noise=torch.rand(40, 2))
        planned = navigator.planner_queried(state)
        repeats = decision.controller_logits.log_softmax(1)[torch.arange(40), (~planned).long()]
        chosen = decision.planner_logits.log_softmax(1)[torch.arange(40), actions]
        walked.append(
            (actions, planned, torch.where(decision.may_repeat, repeats, 0.0) + torch.where(planned, chosen, 0.0))
        )
        assert (planned | (actions == previous)).all()
    actions, planned, logs = (torch.stack(values, 1) for values in zip(*walked, strict=True))
    again = planned[:, 1:] & (actions[:, 1:] == actions[:, :-1])
    assert again.any()  # which actions alone do not tell
    batch = {"features": features, "actions": actions, "questions": questions, "planner_queried": planned}
    batch["loss_from"] = torch.zeros(40, dtype=torch.int64)
    judged = navigator.decision_logits(prepared(navigator, batch))
    total = sum(part.logits.log_softmax(1).gather(1, part.target[:, None]).sum() for part in judged.values())
    torch.testing.assert_close(total, logs.sum(), rtol=1e-4, atol=1e-3)


def test_advantages_are_returns_less_values_or_one_step_errors_and_end_with_the_episode():
    rewards = torch.tensor([[0.0, 1.0, 2.0, 0.0]])
    values, counts = torch.tensor([[9.0, 3.0, 5.0, 7.0]]), torch.tensor([[False, True, True, False]])
    whole = generalized_advantages(rewards, values, counts, gamma=1.0, gae_lambda=1.0)
    assert whole[0, 1:3].tolist() == [3.0 - 3.0, 2.0 - 5.0]
    errors = generalized_advantages(rewards, values, counts, gamma=0.5, gae_lambda=0.0)
    assert errors[0, 1:3].tolist() == [1.0 + 0.5 * 5.0 - 3.0, 2.0 - 5.0]
    cut, kept = with_truncated_ends(rewards, counts, torch.tensor([True]), values)
    assert cut.tolist() == [[0.0, 1.0, 5.0, 0.0]] and kept.tolist() == [[False, True, False, False]]


def test_other_samples_tell_what_an_episode_would_still_earn():
    rewards = torch.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 8.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    others = torch.tensor([5.5, 4.5, 2.0, 1.5, 1.5, 0.0])
    expected = leave_one_out(rewards, 3)
    assert expected[:, 0].equal(others) and expected[:, 1].equal(others - rewards[:, 0])
    advantages = returns_to_go(rewards, 1.0) - expected
    assert advantages[:, 0].equal(advantages[:, 1])  # how much better the whole episode went
    with pytest.raises(ValueError, match="samples"):
        leave_one_out(torch.ones(3, 1), 1)


def rollouts(source: ToyRooms, **changes) -> Rollouts:
    given = {"rewards": Rewards(), "num_envs": 4, **changes}
    return Rollouts(
        source, source.demonstrations("train"), extractor=source.encode, vocabulary=source.vocabulary, **given
    )


def some_spawns(source: ToyRooms, samples: int = 5) -> dict:
    demos = source.demonstrations("train")
    spawns = [spawn_point(demos, row, f"T-{left}", HOUSE_ACTIONS) for row, left in enumerate((10, 4, 7, 3))]
    return RLEpisodes(
        demos, source.vocabulary, spawns, max_steps=HOUSE_ACTIONS.max_steps, samples=samples, seed=[0]
    ).__getitems__([0, 1, 2, 3])


def test_a_walk_is_the_same_however_many_go_on_at_once(source):
    agent, spawns = untrained_agent(source), some_spawns(source)
    whole = rollouts(source, num_envs=20)(agent.navigator, agent.answerer, spawns)
    few = rollouts(source, num_envs=3)(agent.navigator, agent.answerer, spawns)
    for name in ("actions", "planner_queried", "features"):
        assert (whole.batch[name] == few.batch[name]).all()
    assert (whole.rewards == few.rewards).all() and (whole.last_frames == few.last_frames).all()
    lengths = whole.counts.sum(1)
    assert len(set(lengths.tolist())) > 3 and (whole.batch["actions"][:, 9] != -1).any()
    assert (whole.rewards.sum(1) > 4.9).equal(whole.stopped & whole.correct)
    graded = rollouts(source, num_envs=20, rewards=Rewards(graded=True))(agent.navigator, agent.answerer, spawns)
    scores = agent.answerer(graded.last_frames.float(), graded.batch["questions"], None).softmax(1)
    sure = 5 * scores.gather(1, graded.answers[:, None])[:, 0] * graded.stopped
    others = rollouts(source, num_envs=20, rewards=Rewards(answer=0))(agent.navigator, agent.answerer, spawns)
    torch.testing.assert_close(graded.rewards.sum(1), others.rewards.sum(1) + sure)
    assert 0.05 < sure.max() < 4.99
    closest = Rewards(answer=0, nearer=0, closest=2.0)
    closer = rollouts(source, num_envs=20, rewards=closest)(agent.navigator, agent.answerer, spawns)
    assert (closer.rewards >= 0).all() and (np.diff(closer.distances_m) > 0).any()  # going away costs nothing
    came_nearer = closer.distances_m[:, 0] - closer.distances_m.min(1)
    np.testing.assert_allclose(closer.rewards.sum(1), 2 * came_nearer, atol=1e-5)


@torch.no_grad()
def test_a_walk_and_what_it_earns_are_those_of_one_agent_alone(source):
    agent, spawns = untrained_agent(source), some_spawns(source, samples=3)
    given = Rewards(answer=4.0, nearer=0.7, closest=0.3, action=0.01, seen=2.0)
    many = rollouts(source, rewards=given, num_envs=5)
    walked, demos = many(agent.navigator, agent.answerer, spawns), source.demonstrations("train")
    lengths = []
    for n, row in enumerate(spawns["rows"].tolist()):
        episode, known = demos.episodes[row], int(spawns["known"][n])
        simulator = HouseSimulator([source.house(episode.scene_id)], num_agents=1)
        simulator.reset(np.zeros(1, int), np.zeros(1, int), spawns["poses"][n].numpy()[None], [Goal.of(episode)])
        history = slice(int(demos.offsets[row]), int(demos.offsets[row]) + known)
        frames, actions = [*np.array(demos.features[history])], demos.actions[history].astype(np.int64).tolist()
        before = (
            torch.from_numpy(np.array(frames, np.float16).reshape(1, known, source.encode.encoder.feature_size)),
            torch.tensor([actions], dtype=torch.int64).reshape(1, known),
        )
        state = agent.navigator.warm_up(spawns["questions"][n : n + 1], *before)
        poses, metres, planned = [simulator.poses[0].numpy()], [float(simulator.distance_m[0])], [False] * known
        entered = int(simulator.region[0]) == episode.target_room
        for t in range(HOUSE_ACTIONS.max_steps):
            drawn = simulator.observe(sensors=("rgb", "instance_id"))
            frames += [*source.encode(drawn["rgb"]).numpy()]
            state, action = agent.navigator.act(
                state, torch.from_numpy(frames[-1][None]).float(), noise=spawns["noise"][n : n + 1, t]
            )
            planned += agent.navigator.planner_queried(state).tolist()
            actions += action.tolist()
            simulator.step(action.numpy())
            poses, metres = [*poses, simulator.poses[0].numpy()], [*metres, float(simulator.distance_m[0])]
            entered |= int(simulator.region[0]) == episode.target_room
            if action == STOP:
                break
        stopped, steps, end = actions[-1] == STOP, len(poses) - 1, len(actions)
        lengths.append(steps)
        if not stopped:
            drawn = simulator.observe(sensors=("rgb", "instance_id"))
            frames += [*source.encode(drawn["rgb"]).numpy()]
        assert walked.batch["actions"][n, :end].tolist() == actions and (walked.batch["actions"][n, end:] == -1).all()
        assert (
            walked.batch["planner_queried"][n, :end].tolist() == planned
            and not walked.batch["planner_queried"][n, end:].any()
        )
        assert (walked.batch["features"][n, :end].numpy() == np.array(frames[:end])).all()
        assert (walked.poses[n] == np.array(poses)).all() and bool(walked.entered[n]) == entered
        assert (walked.distances_m[n, : steps + 1] == metres).all() and (
            walked.distances_m[n, steps:] == metres[-1]
        ).all()
        asks = np.array(frames[-agent.answerer.num_frames :])
        assert (walked.last_frames[n, -len(asks) :].numpy() == asks).all() and bool(walked.stopped[n]) == stopped
        right = source.vocabulary.answer_id(episode.answer)
        said = agent.answerer(walked.last_frames[n : n + 1].float(), spawns["questions"][n : n + 1], None).argmax()
        looked = (drawn["instance_id"].numpy() == episode.target_object).mean() >= 0.01
        earned = [0.7 * (a - b) - 0.01 for a, b in itertools.pairwise(metres)]
        earned = [e + 0.3 * max(min(metres[: t + 1]) - metres[t + 1], 0) for t, e in enumerate(earned)]
        earned[-1] += (4.0 * bool(said == right) + 2.0 * bool(looked)) * stopped
        np.testing.assert_allclose(walked.rewards[n, known:end].numpy(), earned, atol=1e-5)
        assert not walked.rewards[n, :known].any() and not walked.rewards[n, end:].any()
        assert bool(walked.correct[n]) == bool(said == right) and bool(walked.seen[n]) == bool(looked)
    assert many.num_steps == sum(lengths) and walked.counts.sum(1).tolist() == lengths and not walked.truncated.any()
    figures = {name: float(value) for name, value in rollout_figures(walked).items()}
    ends = walked.distances_m[:, -1]
    expected = {
        "steps": np.mean(lengths), "d_0": walked.distances_m[:, 0].mean(), "d_T": ends.mean(),
        "d_min": walked.distances_m.min(1).mean(), "entered": walked.entered.mean(), "truncated": 0.0,
        "reward": float(walked.rewards.sum()) / len(lengths), "stop": float(walked.stopped.float().mean()),
        "accuracy": float(walked.correct.float().mean()), "seen": float(walked.seen.float().mean()),
        "success": float((walked.correct & walked.stopped).float().mean()),
    }  # fmt: skip
    expected["d_delta"] = expected.pop("d_0") - expected["d_T"]
    assert figures == pytest.approx(expected, abs=1e-5)


def test_rewards_are_the_paper_s_unless_others_are_asked_for_and_sizes_have_to_be_some(source):
    assert Rewards() == Rewards(answer=5.0, nearer=0.005, closest=0.0, action=0.0, seen=0.0, graded=False)
    for wrong in ({"num_envs": 0}, {"min_active_share": 1.0}, {"min_active_share": -0.1}):
        with pytest.raises(ValueError, match="num_envs >= 1 and min_active_share from 0"):
            rollouts(source, **wrong)


def test_own_steps_are_cut_out_of_walks_of_any_length():
    batch = {
        "features": torch.arange(6.0).reshape(2, 3, 1),
        "actions": torch.tensor([[F, L, STOP], [R, R, STOP]]),
        "planner_queried": torch.tensor([[True, False, True], [False, False, True]]),
        "weights": torch.arange(6.0).reshape(2, 3),
        "questions": torch.ones(2, 1, dtype=torch.int64),
        "loss_from": torch.tensor([0, 2]),
    }
    own = own_steps(batch)
    assert own["actions"].tolist() == [[F, L, STOP], [STOP, -1, -1]] and own["loss_from"].tolist() == [0, 0]
    assert own["features"][1, 0].tolist() == [5.0] and own["weights"][0].tolist() == [0.0, 1.0, 2.0]
    assert own["planner_queried"][:, 0].tolist() == [True, True] and own["weights"][1, 0] == 5.0


def test_stopping_before_the_target_is_rewarded_where_the_last_view_shows_it(source):
    agent, spawns = untrained_agent(source), some_spawns(source)
    looked = rollouts(source, rewards=Rewards(answer=0, nearer=0, seen=3.0))(agent.navigator, agent.answerer, spawns)
    rewards, counts = looked.rewards.sum(1), looked.counts.sum(1).tolist()
    assert looked.seen.any() and not looked.seen.all() and (rewards > 0).equal(looked.seen & looked.stopped)
    assert set(rewards.tolist()) == {0.0, 3.0}
    for n, row in enumerate(spawns["rows"].tolist()):
        episode = source.demonstrations("train").episodes[row]
        house = source.house(episode.scene_id)
        simulator = HouseSimulator([house], num_agents=1)
        pose = looked.poses[n][counts[n] - 1][None]
        simulator.reset(np.array([0]), np.array([0]), pose, [Goal.of(episode)])
        filled = (simulator.observe(sensors=("instance_id",))["instance_id"].numpy() == episode.target_object).mean()
        assert bool(looked.seen[n]) == (filled >= 0.01)


@torch.no_grad()
def test_own_steps_are_judged_from_the_spawn_as_they_are_along_the_whole_walk(source):
    agent, demos = untrained_agent(source), source.demonstrations("train")
    settings = ("T-10", "T-4", "T-7", "T-3", "T-10 random heading", "T-6", "T-5")
    spawns = [
        s for n, setting in enumerate(settings) if (s := spawn_point(demos, n % len(demos), setting, HOUSE_ACTIONS))
    ]
    batch = RLEpisodes(
        demos, source.vocabulary, spawns, max_steps=HOUSE_ACTIONS.max_steps, samples=3, seed=[1]
    ).__getitems__(range(len(spawns)))
    rollout = rollouts(source, num_envs=20)(agent.navigator, agent.answerer, batch)
    assert 0 < (rollout.batch["loss_from"] == 0).sum() < len(rollout.answers) and (rollout.state.repeats > 1).any()
    worth = torch.rand(rollout.rewards.shape)
    other = untrained_agent(source).navigator.eval()
    torch.nn.init.normal_(other.planner_head.weight)
    for microbatch in make_microbatches(
        rollout, Advantages(worth, worth, rollout.counts), agent.navigator, size=8, reference=other
    ):
        for navigator, own in ((agent.navigator, microbatch["batch"]), (other, microbatch["reference"])):
            chosen = microbatch["chosen"]
            whole = prepared(navigator, {**episodes(rollout, chosen), "weights": worth[chosen]})
            for name, judged in navigator.decision_logits(whole).items():
                alike = navigator.decision_logits(own)[name]
                assert judged.target.equal(alike.target) and judged.weight.equal(alike.weight)
                torch.testing.assert_close(judged.logits, alike.logits, rtol=1e-4, atol=1e-5)


def test_who_does_not_stop_answers_from_what_evaluation_answers_from(source):
    agent, spawns = untrained_agent(source), some_spawns(source, samples=1)
    with torch.no_grad():
        agent.navigator.planner_head.bias[Action.STOP] = -1e9
    walked = rollouts(source, sample=False)(agent.navigator, agent.answerer, spawns)
    assert not walked.stopped.any() and (walked.counts.sum(1) == HOUSE_ACTIONS.max_steps).all()
    demos, evaluation = source.demonstrations("train"), Evaluation(agent, source, "train", extractor=source.encode)
    batch = [spawn_point(demos, row, f"T-{left}", HOUSE_ACTIONS) for row, left in enumerate((10, 4, 7, 3))]
    simulator, scenes = enter(source.world, [demos.episodes[s.row].scene_id for s in batch])
    walker = NavigatorAgent(agent.navigator, source.encode)
    played = evaluation._walk(walker, simulator, scenes, evaluation._start(batch))
    frames, *_ = evaluation._frames(agent.answerer, batch, played, walker.features.numpy(), simulator)
    assert frames.equal(walked.last_frames.float()) and (played.num_actions == HOUSE_ACTIONS.max_steps).all()


def test_each_step_of_an_update_begins_where_the_navigator_now_comes_to_the_spawns(tmp_path, source, monkeypatch):
    made, judged, make, judge = [], [], Rollouts.__call__, Pacman.decision_logits

    def kept(self, *given):
        made.append(make(self, *given))
        return made[-1]

    def watched(navigator, batch):
        if torch.is_grad_enabled():
            judged.append((batch["state"].hidden[0], made[-1].at_spawns(navigator).hidden[0]))
        return judge(navigator, batch)

    monkeypatch.setattr(Rollouts, "__call__", kept)
    monkeypatch.setattr(Pacman, "decision_logits", watched)
    words = [*PPO, f"{LEARN}lr=0.01", "stages.navigator.data.updates=1", "stages.navigator.max_epochs=1"]
    fit(configured(tmp_path / "run", source, *words), source)
    (first, _), *_, (last, _) = judged
    assert len(judged) == 4 and not first.equal(last)
    for given, now in judged:  # the same walks, in another order
        torch.testing.assert_close(given.detach().flatten().sort().values, now.detach().flatten().sort().values)


def test_stragglers_are_cut_off_where_that_is_asked_for(source):
    agent, spawns = untrained_agent(source), some_spawns(source)
    whole = rollouts(source, num_envs=20)(agent.navigator, agent.answerer, spawns)
    cut = rollouts(source, num_envs=20, min_active_share=0.5)(agent.navigator, agent.answerer, spawns)
    assert not whole.truncated.any() and 0 < int(cut.truncated.sum()) < 10
    assert (cut.counts.sum(1)[cut.truncated] < whole.counts.sum(1)[cut.truncated]).all() and not cut.stopped[
        cut.truncated
    ].any()
    assert (cut.rewards.sum(1)[~cut.truncated] == whole.rewards.sum(1)[~cut.truncated]).all()
    hasty = rollouts(source, num_envs=6, min_active_share=0.99)(agent.navigator, agent.answerer, spawns)
    assert hasty.truncated.any() and (hasty.counts.sum(1) > 0).all()


def test_spawns_come_from_a_few_houses_a_batch_and_move_away_with_the_epochs(source):
    demos, rng = source.demonstrations("train"), np.random.default_rng(0)
    batches = list(questions_by_house(demos, batches=6, questions=4, houses=2, rng=rng))
    assert all(len({demos.episodes[row].scene_id for row in rows}) == 2 and len(rows) == 4 for rows in batches)
    assert len({row for rows in batches[:2] for row in rows}) == 4
    spawning = SpawnCurriculum(start=4, step=3, random_heading=0.5)
    for epoch, farthest in ((0, 4), (1, 7), (5, 10)):
        drawn = [spawning.draw_spawn(demos, 0, epoch=epoch, rng=rng, actions=HOUSE_ACTIONS) for _ in range(200)]
        lefts = {10 - s.known if s.left is None or s.known else int(s.setting.split()[0][2:]) for s in drawn}
        assert max(int(s.setting.split()[0][2:]) for s in drawn) == farthest and lefts
        assert 50 < sum("random heading" in s.setting for s in drawn) < 150
    with pytest.raises(ValueError, match="spawn"):
        SpawnCurriculum(start=4, step=3, random_heading=1.5)


@pytest.mark.parametrize(
    ("random_heading", "settings"),
    [(0, ["T-10"]), (0.5, ["T-10", "T-10 random heading"]), (1, ["T-10 random heading"])],
)
def test_the_spawns_that_are_learned_from_are_validated(source, tmp_path, random_heading, settings):
    cfg = configured(tmp_path / "run", source, f"stages.navigator.data.spawn.random_heading={random_heading}")
    data = instantiate(cfg.stages.navigator.data, _partial_=True)(source=source)
    data.setup("fit")
    data.trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    assert sorted({spawn.setting for spawn in data.val_dataloader().dataset.spawns}) == settings


LEARN = "stages.navigator.model."
PPO = [f"{LEARN}clip_range=0.2", f"{LEARN}epochs=4", f"{LEARN}microbatch_size=128", f"{LEARN}normalize=true"]


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["moving_average", "critic"])
def test_a_toy_world_is_learned_from_scratch(tmp_path, source, baseline):
    size = ["stages.navigator.data.questions=8", "stages.navigator.data.samples=16", "stages.navigator.data.updates=5"]
    words = [*PPO, *size, "stages.navigator.max_epochs=10", "seed=1", f"{LEARN}baseline={baseline}"]
    fit(configured(tmp_path / "run", source, *words), source)
    rows = logged(tmp_path / "run" / "navigator")
    drawn = [float(row["train/success"]) for row in rows if "train/success" in row]
    assert drawn[0] < 0.8 and max(drawn) >= 0.95  # of 640 walks
    greedy = max(float(row["val/success"]) for row in rows if "val/success" in row)
    assert greedy >= 0.75  # a walk that takes the likeliest actions may miss one of the four rooms


def same_weights(one: torch.nn.Module, other: torch.nn.Module, *, atol: float = 0.0) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=atol) for a, b in pairs)


def without_time(rows: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


def test_a_run_that_was_cut_off_goes_on_to_the_same_walks_and_weights(tmp_path, source):
    whole = fit(configured(tmp_path / "whole", source, "stages.navigator.max_epochs=3"), source)
    cfg = configured(tmp_path / "cut", source, "stages.navigator.max_epochs=3")
    with pytest.raises(RuntimeError, match="cut"):
        fit(cfg, source, callbacks=[Cut(1, 1)])
    again = fit(cfg, source)
    assert same_weights(whole, again) and torch.equal(
        whole.moving_average.nan_to_num(), again.moving_average.nan_to_num()
    )
    assert without_time(logged(tmp_path / "whole" / "navigator")) == without_time(
        logged(tmp_path / "cut" / "navigator")
    )


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["moving_average", "critic"])
def test_two_processes_make_the_updates_that_one_makes_with_all_walks(tmp_path, source, baseline):
    cfg = configured(tmp_path / "here", source, f"{LEARN}baseline={baseline}", f"{LEARN}normalize=true")
    command = [sys.executable, "train.py", f"hydra.searchpath=[file://{TOY}]", "+experiment=toy_reinforce"]
    command += [f"checkpoint={cfg.checkpoint}", f"{LEARN}baseline={baseline}", f"{LEARN}normalize=true"]
    for folder, words in {"one": [], "two": ["trainer.devices=2", "trainer.strategy=ddp"]}.items():
        subprocess.run(
            [*command, *words, f"hydra.run.dir={tmp_path / folder}"], cwd=TOY.parents[2], check=True, timeout=300
        )
    one, two = (torch.load(tmp_path / f / "weights.pt", weights_only=True)["navigator"] for f in ("one", "two"))
    assert not torch.equal(one["navigator.planner_head.weight"], one["reference.planner_head.weight"])
    for name, weight in one.items():
        torch.testing.assert_close(weight, two[name], rtol=0, atol=1e-4, equal_nan=True, msg=name)
    for row, other in zip(*(without_time(logged(tmp_path / f / "navigator")) for f in ("one", "two")), strict=True):
        alike = [
            key
            for key in row
            if key not in ("train/loss", "train/grad_norm", "train/entropy", "train/kl", "train/critic")
        ]
        assert [float(row[key]) for key in alike] == pytest.approx([float(other[key]) for key in alike], abs=1e-3)


def test_an_update_is_cut_into_the_steps_that_are_asked_for(tmp_path, source):
    taken = []

    class Count(pl.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            taken.append(1)

    words = [*PPO, f"{LEARN}minibatches=5", "stages.navigator.data.updates=1", "stages.navigator.max_epochs=1"]
    fit(configured(tmp_path / "run", source, *words), source, callbacks=[Count()])
    assert len(taken) == 4 * 5
    with pytest.raises(ValueError, match="minibatches: expected at most the 16 walks"):
        fit(configured(tmp_path / "other", source, *words, f"{LEARN}minibatches=17"), source)


def test_while_the_critic_warms_up_the_policy_stays_and_the_critic_learns(tmp_path, source):
    words = [*PPO, f"{LEARN}baseline=critic", f"{LEARN}critic_warm_up=9", f"{LEARN}answerer_lr=0.0"]
    module = fit(configured(tmp_path / "run", source, *words), source)
    assert same_weights(module.navigator, module.reference)
    assert module.critic.head.weight.abs().sum() > 0


def test_rates_fall_to_nothing_at_the_end_if_they_are_to(tmp_path, source):
    rates = []

    class Watch(pl.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            rates.append([group["lr"] for group in optimizer.param_groups])

    words = [f"{LEARN}schedule=cosine", f"{LEARN}baseline=critic", f"{LEARN}lr=0.02", f"{LEARN}critic_lr=0.04"]
    words += [f"{LEARN}answerer_lr=0.01", "stages.navigator.data.updates=2", "stages.navigator.max_epochs=2"]
    fit(configured(tmp_path / "run", source, *words), source, callbacks=[Watch()])
    share = [(1 + np.cos(np.pi * k / 4)) / 2 for k in range(4)]
    assert np.array(rates) == pytest.approx(np.outer(share, [0.02, 0.04, 0.01]))
    with pytest.raises(ValueError, match="schedule: expected one of"):
        fit(configured(tmp_path / "other", source, f"{LEARN}schedule=linear"), source)


def test_a_temperature_makes_the_navigator_what_walks_are_drawn_from(tmp_path, source):
    words = [f"{LEARN}temperature=0.5", f"+{LEARN}options.stop_odds=4", f"{LEARN}lr=0", "stages.navigator.max_epochs=1"]
    cfg = configured(tmp_path / "run", source, *words)
    before = untrained_agent(source).navigator.planner_head.bias
    after = fit(cfg, source).navigator
    expected = (before + torch.tensor([0, 0, 0, np.log(4.0)])) / 0.5
    torch.testing.assert_close(after.planner_head.bias, expected.float())
    assert after.stop_odds == 1 == after.arguments["stop_odds"]
    with pytest.raises(ValueError, match="temperature"):
        fit(configured(tmp_path / "other", source, f"{LEARN}temperature=0"), source)


def test_a_gradient_that_is_not_finite_ends_the_run_and_keeps_the_walks(tmp_path, source):
    class Spoil(pl.Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            if batch_idx == 1:
                torch.nn.init.constant_(module.navigator.planner_head.bias, torch.nan)

    with pytest.raises(FloatingPointError, match="nonfinite_1_0.pt"):
        fit(configured(tmp_path / "run", source), source, callbacks=[Spoil()])
    kept = torch.load(tmp_path / "run" / "navigator" / "nonfinite_1_0.pt", weights_only=True)
    assert kept["batch"]["actions"].shape[:2] == kept["rewards"].shape
    assert not (tmp_path / "run" / "navigator" / "last.ckpt").exists()


def test_settings_that_do_not_go_together_are_refused(tmp_path, source):
    for words, named in (
        ([f"{LEARN}epochs=2"], "clip_range"),
        ([f"{LEARN}critic_warm_up=2"], "critic"),
        ([f"{LEARN}baseline=mean"], "baseline"),
        ([f"{LEARN}optimizer=lion"], "optimizer"),
        (["stages.navigator.data.samples=1"], "samples"),
        (["stages.navigator.data.num_envs=0"], "num_envs"),
        (["stages.navigator.data.houses=9"], "houses"),
        (["checkpoint=last"], "checkpoint"),
        (["stages.navigator.data.min_active_share=0.5"], "min_active_share: expected 0 without a critic"),
    ):
        with pytest.raises(ValueError, match=named):
            fit(configured(tmp_path / "run", source, *words), source)


def test_the_curve_begins_with_the_agent_that_learning_begins_with(tmp_path, source):
    module = fit(configured(tmp_path / "run", source, f"{LEARN}lr=1.0e-12"), source)
    start, first = [row for row in logged(tmp_path / "run" / "navigator") if row.get("val/reward")][:2]
    assert start["step"] == "0" != first["step"] and module.updates > 0
    assert {n: start[n] for n in start if n.startswith("val/")} == {n: first[n] for n in first if n.startswith("val/")}
