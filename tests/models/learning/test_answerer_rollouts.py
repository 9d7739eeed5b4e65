"""An answerer learns from the same frames of a navigator's own walks as evaluation answers from."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eqa.data.batches.rl_episodes import SpawnCurriculum
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.agents.neural import NeuralAgent
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.evaluation.evaluate import Evaluation
from eqa.models.learning.answerer_rollouts import AnswererRollouts
from eqa.models.navigators.pacman import Pacman
from tests.models.evaluation.test_evaluate import QUESTIONS, Source, small_source

pytestmark = pytest.mark.usefixtures("single_thread")

FARTHEST, WALKS, SEED = 8, 2, 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return small_source(tmp_path_factory.mktemp("demos") / "train.h5", precision="auto")


@pytest.fixture
def agent(source: Source) -> NeuralAgent:
    """Knows how to walk as little as how to answer; so it ends anywhere, and answers depend on every frame."""
    torch.manual_seed(5)
    sizes = len(source.vocabulary.words), len(source.vocabulary.answers), source.encode.encoder.feature_size
    navigator = Pacman(sizes[0], sizes[2], planner_hidden=32)
    with torch.no_grad():
        navigator.planner_head.bias[-1] -= 1.0
    answerer = Answerer(*sizes, num_frames=3, earlier_frames=[6])
    return NeuralAgent(source.encode.encoder, navigator, answerer, source.vocabulary)


def data_of(source: Source, path: Path, **other: object) -> AnswererRollouts:
    source.walks, source.learned = 1, lambda: [source.demonstrations("train")]
    given = {"checkpoint": str(path / "agent.ckpt"), "base_name": None, "folder": str(path / "ends")} | other
    return AnswererRollouts(source, **{"walks": WALKS, "farthest": FARTHEST, "batch_size": 2, "seed": SEED, **given})


def test_ends_are_what_evaluation_answers_from(source: Source, agent: NeuralAgent, tmp_path: Path) -> None:
    agent.save(tmp_path / "agent.ckpt")
    data = data_of(source, tmp_path)
    data.setup("fit")
    assert len(data.trains) == 1 + WALKS
    evaluation = Evaluation(agent, source, "train", extractor=source.encode)
    spawning = SpawnCurriculum(start=FARTHEST, step=0, random_heading=0.0)
    for ends, drawn_with in zip([*data.trains[1:], data.val], ([SEED, 0, 0], [SEED, 1, 0], [SEED, 0, 1]), strict=True):
        rng = np.random.default_rng(drawn_with)
        prior = torch.from_numpy(source.vocabulary.log_prior([question for question, *_ in QUESTIONS]))
        scores = (agent.answerer(ends.features.float(), ends.questions, None) + prior).softmax(1).detach()
        for row in range(len(QUESTIONS)):
            spawn = spawning.draw_spawn(
                source.demonstrations("train"), row, epoch=0, rng=rng, actions=source.world.actions
            )
            played = evaluation.play({"agent": NavigatorAgent(agent.navigator, source.encode)}, [spawn.setting])
            (found,) = (r for r in played if r["episode_id"] == f"small-{row}")
            best = scores[row].max()
            assert found["predicted"] == source.vocabulary.answers[int(scores[row].argmax())]
            assert 1 + int((scores[row] > scores[row, ends.answers[row]]).sum()) == found["rank"] and best > 0


def test_walks_are_kept_and_the_answerer_is_of_the_agents_kind(
    source: Source,
    agent: NeuralAgent,
    tmp_path: Path,
) -> None:
    agent.save(tmp_path / "agent.ckpt")
    first, again = data_of(source, tmp_path), data_of(source, tmp_path)
    first.setup("fit")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "ends").glob("*.h5")}
    again.setup("fit")
    assert len(made) == WALKS + 1 and made == {p: p.stat().st_mtime_ns for p in (tmp_path / "ends").glob("*.h5")}
    assert torch.equal(first.val.features, again.val.features)
    assert not torch.equal(first.trains[1].features, first.trains[2].features)
    sizes = again.sizes
    assert sizes["answerer"] == "Answerer" and sizes["options"]["earlier_frames"] == [6]
    assert not {"vocabulary_size", "feature_size"} & sizes["options"].keys()
    with pytest.raises(ValueError, match="walks: expected at least 1"):
        data_of(source, tmp_path, walks=0)


def test_the_navigator_of_an_earlier_stage_walks_as_that_of_an_agent(
    source: Source, agent: NeuralAgent, tmp_path: Path
) -> None:
    agent.save(tmp_path / "agent.ckpt")
    loaded = data_of(source, tmp_path)
    frames = {"num_frames": 3, "earlier_frames": [6]}
    beside = data_of(source, tmp_path, checkpoint=None, folder=str(tmp_path / "others"), walks=1, **frames)
    beside.fitted = {"navigator": SimpleNamespace(navigator=agent.navigator)}
    loaded.setup("fit"), beside.setup("fit")
    assert torch.equal(loaded.trains[1].features, beside.trains[1].features)
    assert torch.equal(loaded.val.features, beside.val.features)
    assert "answerer" not in beside.sizes


def test_who_answers_from_whole_walks_is_refused(source: Source, agent: NeuralAgent, tmp_path: Path) -> None:
    sizes = len(source.vocabulary.words), len(source.vocabulary.answers), source.encode.encoder.feature_size
    agent.answerer = Answerer(*sizes, num_frames=None)
    agent.save(tmp_path / "agent.ckpt")
    with pytest.raises(ValueError, match="answerer: expected one that looks at the last frames"):
        data_of(source, tmp_path).setup("fit")


def test_questions_are_those_of_the_demonstrations(source: Source, agent: NeuralAgent, tmp_path: Path) -> None:
    agent.save(tmp_path / "agent.ckpt")
    data = data_of(source, tmp_path)
    data.setup("fit")
    batch, shortest = data.trains[1].__getitems__([1, 0]), data.trains[0].__getitems__([1, 0])
    assert batch["features"].shape == shortest["features"].shape and batch["mask"].all()
    assert torch.equal(batch["questions"], shortest["questions"]) and torch.equal(batch["answers"], shortest["answers"])
