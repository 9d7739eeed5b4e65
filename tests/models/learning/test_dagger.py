"""Walks of the navigator's own: the expert's targets are right wherever it gets, and it learns from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from eqa.data.batches.imitation import Walks
from eqa.data.demonstrations.expert import Expert
from eqa.data.demonstrations.storage import Demonstrations
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.house.simulator import HouseSimulator
from eqa.envs.navigation.action_search import costs_to_go
from eqa.envs.simulator import Goal
from eqa.models.learning.callbacks import StageProgress
from eqa.models.learning.dagger import DaggerData, OwnWalks, some_houses
from eqa.models.learning.imitation import NavigatorImitation
from eqa.models.navigators.baselines import Lstm
from eqa.models.navigators.navigator import flat_decisions
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.pacman_targets import list_decisions
from tests.helpers.free_walks import walk_of
from tests.helpers.small_house import small_house
from tests.models.evaluation.test_evaluate import Source, episode, small_source

pytestmark = pytest.mark.usefixtures("single_thread")

F, L, R, STOP = (int(action) for action in Action)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return small_source(tmp_path_factory.mktemp("demos") / "train.h5")


def walks_of(source: Source, *, beta: float, seed: int = 0) -> tuple:
    torch.manual_seed(seed)
    navigator = Pacman(len(source.vocabulary.words), source.encode.encoder.feature_size, planner_hidden=16)
    walk = OwnWalks(
        navigator,
        world=source.world,
        encode=source.encode,
        vocabulary=source.vocabulary,
        beta=beta,
        rng=np.random.default_rng(seed),
    )
    ((recording, targets),) = walk(source.demos.episodes)
    assert navigator.training
    return recording, targets


def test_where_only_the_expert_acts_the_walk_is_a_shortest_one(source: Source) -> None:
    recording, targets = walks_of(source, beta=1.0)
    assert recording.lengths.tolist() == [len(walk_of(e, HOUSE_ACTIONS).actions) for e in recording.episodes]
    assert np.array_equal(targets, recording.actions)
    ends = np.cumsum(recording.lengths) - 1
    assert (recording.actions[ends] == STOP).all() and (recording.distance_m[ends] == 0).all()


def test_labels_are_what_the_expert_does_at_each_pose_and_frames_are_those_poses_views(source: Source) -> None:
    recording, targets = walks_of(source, beta=0.2)
    assert (targets != recording.actions).mean() > 0.1  # it goes its own ways
    simulator = HouseSimulator([small_house()], num_agents=1)
    offsets = np.concatenate([[0], np.cumsum(recording.lengths)])
    for n, one in enumerate(recording.episodes):
        (cost,) = costs_to_go(simulator.floors[0], [Goal.of(one)])
        rows = range(offsets[n], offsets[n + 1])
        simulator.reset(np.array([0]), np.array([0]), np.array([one.start]), [Goal.of(one)])
        for row in rows:
            assert np.allclose(simulator.poses.numpy()[0], recording.poses[row])
            needed = len(cost.walk(tuple(recording.poses[row])).actions)
            simulator.step(np.array([targets[row]]))
            after = len(cost.walk(tuple(simulator.poses.numpy()[0])).actions)
            assert after == needed - (targets[row] != STOP)  # each label brings it one action nearer to the end
            simulator.reset(np.array([0]), np.array([0]), recording.poses[row : row + 1], [Goal.of(one)])
            simulator.step(np.array([recording.actions[row]]))
            assert (recording.actions[row] == STOP) == (targets[row] == STOP)
        seen = source.encode(simulator.look(np.zeros(len(rows), np.int64), recording.poses[rows])["rgb"]).numpy()
        assert np.abs(seen - recording.features[rows]).max() < 1e-2


def test_the_advisor_searches_anew_only_for_who_left_its_plan(source: Source) -> None:
    simulator = HouseSimulator([small_house()], num_agents=2)
    goals = [Goal.of(e) for e in source.demos.episodes]
    starts = np.array([e.start for e in source.demos.episodes])
    simulator.reset(np.arange(2), np.zeros(2, np.int64), starts, goals)
    expert, both = Expert([cost.walk for cost in costs_to_go(simulator.floors[0], goals)]), np.ones(2, bool)
    first = expert(simulator.poses.numpy(), both)
    plans = list(expert.plans)
    other = L if first[1] != L else R
    simulator.step(np.array([first[0], other]))
    expert(simulator.poses.numpy(), both)
    assert expert.plans[0] is plans[0] and expert.plans[1] is not plans[1]
    assert expert(simulator.poses.numpy(), np.array([True, False]))[1] == STOP


def test_decisions_follow_what_was_done_and_aim_at_what_should_have_been() -> None:
    batch = {"actions": torch.tensor([[F, F, L, R, STOP]]), "targets": torch.tensor([[L, F, F, R, STOP]])}
    flat = flat_decisions(batch)
    assert flat.target.tolist() == [L, F, F, R, STOP]
    decisions = list_decisions(batch, max_repeats=5)
    # The planner is asked at frames 0, 2, 3, 4, where another action began; the controller at all but the first.
    assert decisions.frames[decisions.planner_frame[0]].tolist() == [0, 2, 3, 4]
    assert decisions.planner_target.tolist() == [L, F, R, STOP]
    assert decisions.controller_input.tolist() == [F, F, L, R]
    assert decisions.controller_target.tolist() == [1, 1, 0, 0]


def test_whole_houses_are_drawn() -> None:
    episodes = [replace(episode(0), scene_id=f"house-{n % 5}") for n in range(50)]
    chosen = some_houses(episodes, 15, np.random.default_rng(0))
    assert len(chosen) == 15 and len({e.scene_id for e in chosen}) == 2
    others = {tuple(e.scene_id for e in some_houses(episodes, 15, np.random.default_rng(seed))) for seed in range(5)}
    assert len(others) > 1


def test_each_epoch_adds_walks_and_a_run_that_goes_on_takes_those_that_are_there(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture
):
    rates: list[list[float]] = []  # by epoch

    class Rates(pl.Callback):
        def on_train_epoch_start(self, *_: object) -> None:
            rates.append([])

        def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
            rates[-1].append(trainer.optimizers[0].param_groups[0]["lr"])

    def fit(epochs: int, checkpoint: Path | None = None) -> pl.Trainer:
        data = DaggerData(
            source,
            folder=str(tmp_path / "own"),
            walks=2,
            first_epoch=1,
            beta=0.5,
            batch_size=2,
            seed=0,
            curriculum_start=10,
            curriculum_step=10,
            inflection=False,
        )
        data.prepare_data()
        data.setup("fit")
        module = NavigatorImitation(
            **data.sizes, navigator=Lstm.__name__, lr=1.0, schedule="cosine", options={"hidden_size": 8}
        )
        trainer = pl.Trainer(
            max_epochs=epochs,
            callbacks=[Rates(), StageProgress("navigator")],
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            reload_dataloaders_every_n_epochs=1,
            num_sanity_val_steps=0,
        )
        trainer.fit(module, data, ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        assert len(data.train) == 2 + 2 * (epochs - 1)
        assert data.train.loss_from[2:].tolist() == [0] * (len(data.train) - 2)
        return trainer

    pl.seed_everything(0, verbose=False)
    fit(2)
    (walked,) = (tmp_path / "own").glob("*.h5")
    before = walked.stat().st_mtime_ns
    fit(3, tmp_path / "last.ckpt")
    assert sorted(path.name for path in (tmp_path / "own").glob("*.h5")) == ["001.h5", "002.h5"]
    assert walked.stat().st_mtime_ns == before
    # Of two epochs, of one and two steps, each is half of the way.
    assert np.allclose(np.concatenate(rates[:2]), [1, 0.5, 0.5 - 0.125**0.5])
    assert np.allclose(rates[2], np.cos(np.pi / 6 * (2 + np.arange(3) / 3)) ** 2)
    assert "navigator: 3/3," in capsys.readouterr().out  # not 3/2
    own = Demonstrations.open(walked)
    batch = Walks([source.demos, own], source.vocabulary).__getitems__([0, 2])
    first, second = (slice(0, int(n)) for n in (source.demos.lengths[0], own.lengths[0]))
    assert np.array_equal(batch["actions"][0, first], source.demos.actions[source.demos.rows(0)])
    assert np.array_equal(batch["targets"][0, first], batch["actions"][0, first])
    assert np.array_equal(batch["targets"][1, second], own.targets[own.rows(0)])
    assert np.array_equal(batch["features"][1, second], own.features[own.rows(0)])


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    given = {
        "folder": str(tmp_path),
        "batch_size": 2,
        "seed": 0,
        "curriculum_start": 10,
        "curriculum_step": 10,
        "inflection": False,
    }
    small = small_source(tmp_path / "test.h5")
    for wrong in ({"walks": 0}, {"first_epoch": -1}, {"beta": 1.5}, {"beta": -0.1}):
        with pytest.raises(ValueError, match="DAgger: expected walks >= 1"):
            DaggerData(small, **{"walks": 1, "first_epoch": 0, "beta": 1.0, **given, **wrong})
    assert DaggerData(small, walks=1, first_epoch=0, beta=1.0, **given).walks == 1
