"""Demonstration files: what is written is read back, what is broken is refused, a killed build goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import jaxtyping
import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from eqa.data.batches.curriculum import first_counted_action, inflection_weights, inflections, length_batches
from eqa.data.batches.imitation import AnswererData, LastFrames, NavigatorData, Walks, last_frames
from eqa.data.demonstrations.storage import Demonstrations, Recording, build
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode

CONFIGURATION = {"encoder": "abc", "split": "train"}
FEATURES = 6


def episode(number: int, scene: str = "train-00000") -> Episode:
    question = f"what color is the {('sofa', 'bed')[number % 2]}?"
    return Episode(f"{scene}-{number}", scene, question, ("red", "blue")[number % 2], "color", "test")


def recording(scene: str, episodes: list[Episode]) -> Recording:
    """Frame t of episode n holds the number 100 n + t."""
    lengths = np.array([3 + int(e.episode_id[-1]) for e in episodes])
    values = np.concatenate(
        [100 * int(e.episode_id[-1]) + np.arange(n) for e, n in zip(episodes, lengths, strict=True)]
    )
    actions = np.concatenate([[0] * (n - 1) + [3] for n in lengths]).astype(np.int8)
    return Recording(
        episodes=episodes,
        lengths=lengths,
        features=np.repeat(values[:, None], FEATURES, 1).astype(np.float16),
        actions=actions,
        poses=np.repeat(values[:, None], 4, 1).astype(float),
        distance_m=values.astype(np.float32),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.h5"


EPISODES = [episode(n, scene) for scene in ("train-00000", "train-00001") for n in range(4)]


@pytest.fixture
def demos(path: Path) -> Demonstrations:
    list(build(path, EPISODES, recording, configuration=CONFIGURATION))
    return Demonstrations.open(path, configuration=CONFIGURATION)


def test_what_was_recorded_is_read_back_house_after_house(demos: Demonstrations, path: Path) -> None:
    assert demos.episodes == EPISODES
    assert demos.lengths.tolist() == [3, 4, 5, 6] * 2
    for i in range(len(demos)):
        expected = 100 * (i % 4) + np.arange(3 + i % 4)
        assert np.array_equal(demos.features[demos.rows(i)], np.repeat(expected[:, None], FEATURES, 1))
        assert np.array_equal(demos.distance_m[demos.rows(i)], expected)
    assert sorted(p.name for p in path.parent.iterdir()) == ["train.h5"]


def test_a_killed_build_goes_on_with_the_next_house(path: Path) -> None:
    recorded = []

    def record(scene: str, episodes: list[Episode]) -> Recording:
        if scene == "train-00001" and recorded == ["train-00000"]:
            recorded.append("killed")
            raise KeyboardInterrupt
        recorded.append(scene)
        return recording(scene, episodes)

    with pytest.raises(KeyboardInterrupt):
        list(build(path, EPISODES, record, configuration=CONFIGURATION))
    assert not path.exists()
    list(build(path, EPISODES, record, configuration=CONFIGURATION))
    assert recorded == ["train-00000", "killed", "train-00001"]
    assert Demonstrations.open(path).episodes == EPISODES


def test_a_full_disk_leaves_no_file_that_looks_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Group, "create_dataset", full)
    with pytest.raises(OSError, match="no space left"):
        list(build(path, EPISODES, recording, configuration=CONFIGURATION))
    assert not path.exists() and not list(path.parent.rglob("*.h5")) and not list(path.parent.rglob("*.tmp"))


@pytest.mark.parametrize("damage", ["cut", "version", "text", "missing"])
def test_a_damaged_or_older_file_is_refused_and_the_remedy_is_named(
    demos: Demonstrations, path: Path, damage: str
) -> None:
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:2000])
    elif damage == "version":
        with h5py.File(path, "r+") as file:
            file.attrs["version"] = 0
    elif damage == "text":
        path.write_text("not a data file")
    else:
        path.unlink()
    with pytest.raises(ValueError, match=r"train\.h5.*make_demos"):
        Demonstrations.open(path)


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("actions", lambda a: a[:-1], "actions: expected"),
        ("actions", lambda a: a + 3, "actions: expected 0 to 5"),
        ("actions", lambda a: a - 1, "actions: expected 0 to 5"),
        ("actions", lambda a: a + 0.5, "actions: expected whole numbers"),
        ("poses", lambda a: a[:, :2], "poses: expected"),
        ("poses", lambda a: np.where(a == 101, np.nan, a), "poses: expected finite"),
        ("distance_m", lambda a: np.where(a == 101, np.inf, a), "distance_m: expected finite"),
        ("distance_m", lambda a: a[1:], "distance_m: expected"),
        ("features", lambda a: a[:-1], "expected .* for the features"),
        ("features", lambda a: np.where(a == 101, np.nan, a).astype(np.float16), "features: expected finite"),
        ("features", lambda a: np.where(a == 101, -np.inf, a).astype(np.float16), "features: expected finite"),
        ("features", lambda a: a.astype(np.float32), "features: expected contiguous rows of float16"),
        ("offsets", lambda a: a[1:], "offsets: expected"),
        ("offsets", lambda a: a + 1, "offsets: expected"),
        ("offsets", lambda a: np.concatenate([a[:1], a[:1], a[2:]]), "offsets: expected a frame or more"),
        ("offsets", lambda a: np.concatenate([a[:-1], a[-1:] - 1]), "offsets: expected"),
        ("targets", lambda a: a[:-2], "targets: expected"),
        ("targets", lambda a: a + 3, "targets: expected 0 to 5"),
    ],
)
def test_arrays_that_do_not_agree_or_hold_what_no_walk_has_are_refused(
    demos: Demonstrations,
    path: Path,
    name: str,
    change: Callable,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as where users run it
    with h5py.File(path, "r+") as file:
        values = change(file["actions" if name == "targets" else name][:])
        if name in file:
            del file[name]
        file[name] = values
    with pytest.raises(ValueError, match=rf"train\.h5.*{named}"):
        Demonstrations.open(path)


def test_another_configuration_is_refused_and_named(demos: Demonstrations, path: Path) -> None:
    with pytest.raises(ValueError, match="encoder: expected 'new', got 'abc'"):
        Demonstrations.open(path, configuration={**CONFIGURATION, "encoder": "new"})


def test_a_split_without_questions_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="no question to demonstrate"):
        list(build(path, [], recording, configuration=CONFIGURATION))


def test_batches_of_walks_are_padded_behind_their_ends(demos: Demonstrations) -> None:
    walks = Walks([demos], Vocabulary.of(EPISODES))
    batch = walks.__getitems__([0, 3])
    assert batch["features"].shape == (2, 6, FEATURES) and batch["actions"].shape == (2, 6)
    assert batch["actions"].tolist() == [[0, 0, 3, -1, -1, -1], [0, 0, 0, 0, 0, 3]]
    assert (batch["features"][0, 3:] == 0).all()
    assert batch["features"][1, :, 0].tolist() == [300, 301, 302, 303, 304, 305]


def test_the_answerer_gets_the_last_frames_and_a_short_walk_repeats_its_first_never_its_future(
    demos: Demonstrations,
) -> None:
    frames = LastFrames(demos, Vocabulary.of(EPISODES), 5).features[..., 0]
    assert frames[0].tolist() == [0, 0, 0, 1, 2]
    assert frames[3].tolist() == [301, 302, 303, 304, 305]
    assert last_frames(np.arange(4)[:2], 5).tolist() == [0, 0, 0, 0, 1]


def test_the_answerer_can_get_frames_from_farther_back_before_the_last_ones(demos: Demonstrations) -> None:
    frames = LastFrames(demos, Vocabulary.of(EPISODES), 2, earlier_frames=(5, 3)).features[..., 0]
    assert frames[3].tolist() == [300, 302, 304, 305]
    assert frames[0].tolist() == [0, 0, 1, 2]
    assert last_frames(np.arange(60), 2, earlier_frames=(1, 40)).tolist() == [19, 58, 59]


def test_an_answerer_of_whole_walks_gets_all_frames_and_knows_which_are_padding(demos: Demonstrations) -> None:
    batch = LastFrames(demos, Vocabulary.of(EPISODES), None).__getitems__([0, 3])
    assert batch["mask"].tolist() == [[True] * 3 + [False] * 3, [True] * 6]
    assert batch["features"][..., 0].tolist() == [[0, 1, 2, 0, 0, 0], [300, 301, 302, 303, 304, 305]]


def test_the_curriculum_counts_ten_actions_more_each_epoch() -> None:
    lengths = np.array([5, 15, 35])
    assert first_counted_action(lengths, 0, start=10, step=10).tolist() == [0, 5, 25]
    assert first_counted_action(lengths, 2, start=10, step=10).tolist() == [0, 0, 5]
    assert first_counted_action(lengths, 9, start=10, step=10).tolist() == [0, 0, 0]
    assert first_counted_action(lengths, 0, start=10, step=None).tolist() == [0, 0, 0]


def test_inflection_weights_agree_with_a_count_by_hand() -> None:
    actions = np.array([0, 0, 1, 1, 1, 3] + [0, 0, 0, 3], np.int8)
    differs = inflections(actions, np.array([0, 6, 10]))
    assert np.flatnonzero(differs).tolist() == [0, 2, 5, 6, 9]  # 5 of 10: they count twice
    weights = inflection_weights(differs, of=differs)
    assert weights.tolist() == pytest.approx([4 / 3, 2 / 3, 4 / 3, 2 / 3, 2 / 3, 4 / 3, 4 / 3, 2 / 3, 2 / 3, 4 / 3])
    rarer = np.arange(12) % 4 == 0  # 3 of 12: they count four times, 1 on average: 4 / 7 and 16 / 7
    assert inflection_weights(differs[:3], of=rarer).tolist() == pytest.approx([16 / 7, 4 / 7, 16 / 7])


class Source(GeneratedEQA):
    """What `NavigatorData` needs of a data source: the same walks to learn from and to validate on."""

    seed, style = 0, "paper"

    encode = SimpleNamespace(map_shape=(FEATURES, 1, 1), place_names=None)

    def __init__(self, *walks: Demonstrations) -> None:
        self.of_walk, self.walks = walks, len(walks)

    def demonstrations(self, split: str, walk: int = 0) -> Demonstrations:
        return self.of_walk[walk]

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.of_walk[0].episodes)


def test_each_epoch_learns_from_the_next_walk_of_each_question_and_val_stays(demos: Demonstrations) -> None:
    there, back = demos, replace(demos, features=demos.features + np.float16(1000))
    curriculum = {"curriculum_start": 1, "curriculum_step": 1, "inflection": False}
    data = NavigatorData(Source(there, back), batch_size=3, seed=0, **curriculum)
    data.setup("fit")
    data.trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    for epoch in range(4):
        data.trainer.fit_loop.epoch_progress.current.completed = epoch
        batches = list(data.train_dataloader())
        assert sum(len(batch["questions"]) for batch in batches) == len(demos)
        assert all((batch["features"].amax() >= 1000) == (epoch % 2 == 1) for batch in batches), epoch
        # one action more counts each epoch, whichever walk it is
        counted = data.train.lengths - data.train.loss_from.numpy()
        assert counted.tolist() == np.minimum(data.train.lengths, 1 + epoch).tolist()
    assert all(batch["features"].amax() < 1000 for batch in data.val_dataloader())


@pytest.mark.parametrize("num_frames", [2, None])
def test_an_epoch_of_the_answerer_mixes_the_walks_and_takes_one_of_each_question(
    demos: Demonstrations, num_frames
) -> None:
    there, back = demos, replace(demos, features=demos.features + np.float16(1000))
    data = AnswererData(Source(there, back), batch_size=4, seed=0, num_frames=num_frames)
    data.setup("fit")
    data.trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    first_frames, seen = [], []
    for epoch in range(2):
        data.trainer.fit_loop.epoch_progress.current.completed = epoch
        batches = list(data.train_dataloader())
        assert all(len(batch[name]) == 4 for batch in batches for name in ("features", "mask", "answers", "prior"))
        shown = torch.cat([batch["features"][:, 0, 0] for batch in batches])
        assert 0 < (shown >= 1000).sum() < len(demos), "both walks are in an epoch"
        first_frames += shown.tolist()
        for batch in batches:
            rows = zip(batch["features"][:, 0, 0] % 1000 // 100, batch["answers"], batch["mask"].sum(1), strict=True)
            seen += [(int(walk), int(answer), int(frames)) for walk, answer, frames in rows]
    both = [one.__getitems__(range(len(demos)))["features"][:, 0, 0] for one in data.trains]
    assert sorted(first_frames) == sorted(torch.cat(both).tolist()), "each walk of each question, once"
    frames = [num_frames or int(length) for length in demos.lengths]
    answers = [data.source.vocabulary.answer_id(episode.answer) for episode in demos.episodes]
    walks = [int(value) % 1000 // 100 for value in both[0]]
    assert sorted(seen) == sorted(2 * list(zip(walks, answers, frames, strict=True)))
    assert all(batch["features"].amax() < 1000 for batch in data.val_dataloader())


def test_actions_count_alike_unless_inflections_are_weighted(demos: Demonstrations) -> None:
    options = {"batch_size": 2, "seed": 0, "curriculum_start": 10, "curriculum_step": 10}
    plain, weighted = (NavigatorData(Source(demos), inflection=on, **options) for on in (False, True))
    plain.setup("fit")
    weighted.setup("fit")
    assert plain.train.__getitems__([0, 2])["weights"].tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    # 36 actions, of which 16 differ, the first and STOP of 8 walks: these count 36 / 16 times, all together 20 + 36.
    once, more = 36 / 56, 36 / 16 * 36 / 56
    expected = [[more, once, more, 0, 0], [more, once, once, once, more]]
    for walks in (weighted.train, weighted.val):
        assert np.allclose(walks.__getitems__([0, 2])["weights"], expected)


def test_each_epoch_has_every_walk_once_in_another_order_with_little_padding() -> None:
    lengths = np.random.default_rng(0).integers(10, 100, 500)
    epochs = [length_batches(lengths, 20, rng=np.random.default_rng([0, epoch])) for epoch in (0, 0, 1)]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert all(np.array_equal(a, b) for a, b in zip(epochs[0], epochs[1], strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(epochs[0], epochs[2], strict=False))
    padded = sum(len(b) * lengths[b].max() for b in epochs[0])
    assert padded < 1.2 * lengths.sum()
