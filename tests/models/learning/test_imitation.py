"""Learning from demonstrations: each learner masters a toy in seconds, and its module survives Lightning's checkpoint."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from eqa.data.batches.imitation import NO_ANSWER
from eqa.models.learning.imitation import AnswererImitation, NavigatorImitation

pytestmark = pytest.mark.usefixtures("single_thread")

FORWARD, LEFT, RIGHT, STOP = range(4)


LEFT_WORD, RIGHT_WORD, FEATURES = 4, 5, 12


def trainer(folder, **options) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(default_root_dir=folder, enable_checkpointing=False, num_sanity_val_steps=0, **quiet, **options)


def turning_batches(num_batches: int, *, seed: int) -> DataLoader:
    """Walks that go forward until a mark is seen, then turn as the question says until the goal is seen, then stop."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(num_batches):
        walks, words = [], rng.choice([LEFT_WORD, RIGHT_WORD], 16)
        for word in words:
            ahead, turns = rng.integers(1, 9), rng.integers(1, 6)
            walks.append([FORWARD] * ahead + [LEFT if word == LEFT_WORD else RIGHT] * turns + [STOP])
        actions = np.full((16, max(map(len, walks))), -1)
        features = rng.standard_normal((*actions.shape, FEATURES)).astype(np.float32) * 0.1
        for row, walk in enumerate(walks):
            actions[row, : len(walk)] = walk
            features[row, : len(walk), 0] = [a in (LEFT, RIGHT) for a in walk]
            features[row, : len(walk), 1] = [a == STOP for a in walk]
        batches.append(
            {
                "features": torch.from_numpy(features),
                "actions": torch.from_numpy(actions),
                "questions": torch.from_numpy(np.stack([np.full(16, 6), words, np.full(16, 3)], 1)),
                "loss_from": torch.zeros(16, dtype=torch.int64),
            }
        )
    return DataLoader(batches, batch_size=None)


def remembering_batches(num_batches: int, *, seed: int) -> DataLoader:
    """The first frame shows which way to turn, a mark when: more than five steps later."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(num_batches):
        sides, ahead = rng.choice([LEFT, RIGHT], 16), rng.integers(6, 10, 16)
        actions = np.full((16, 13), -1)
        features = rng.standard_normal((*actions.shape, FEATURES)).astype(np.float32) * 0.1
        for row, (side, steps) in enumerate(zip(sides, ahead, strict=True)):
            actions[row, : steps + 3] = [FORWARD] * steps + [side] * 2 + [STOP]
            features[row, 0, 2] = 1 if side == LEFT else -1
            features[row, steps : steps + 2, 0] = 1
            features[row, steps + 2, 1] = 1
        questions = torch.full((16, 3), 6)
        batches.append(
            {"features": torch.from_numpy(features), "actions": torch.from_numpy(actions), "questions": questions}
        )
    return DataLoader(batches, batch_size=None)


def pointing_batches(num_batches: int, seed: int) -> DataLoader:
    """Of five frames the one whose feature matches the question's word holds the answer; the others hold wrong ones."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(num_batches):
        names = rng.permuted(np.tile(np.arange(5), (64, 1)), axis=1)
        values = rng.integers(0, 3, (64, 5))
        asked = rng.integers(0, 5, 64)
        features = np.concatenate([np.eye(5)[names], np.eye(3)[values]], 2).astype(np.float32) * 3
        answers = values[np.arange(64), (names == asked[:, None]).argmax(1)]
        batches.append(
            {
                "features": torch.from_numpy(features),
                "questions": torch.from_numpy(np.stack([asked + 4, np.full(64, 3)], 1)),
                "answers": torch.from_numpy(answers),
                "prior": torch.zeros(64, 3),
            }
        )
    return DataLoader(batches, batch_size=None)


def test_navigator_learns_to_turn_where_the_question_says(tmp_path):
    pl.seed_everything(0, verbose=False)
    options = {"planner_hidden": 64, "controller_hidden": 64, "question_hidden": 32, "dropout": 0.0}
    module = NavigatorImitation(10, FEATURES, lr=5e-3, schedule="cosine", options=options)
    fit = trainer(tmp_path, max_epochs=6)
    fit.fit(module, turning_batches(25, seed=1), turning_batches(4, seed=2))
    assert fit.optimizers[0].param_groups[0]["lr"] < 1e-6  # fell to the end of the last epoch
    assert fit.callback_metrics["val/planner_accuracy"] > 0.97
    assert fit.callback_metrics["val/controller_accuracy"] > 0.97
    assert fit.callback_metrics["val/loss"] < 0.2

    navigator = module.navigator.eval()
    state = navigator.initial_state(torch.tensor([[6, LEFT_WORD, 3], [6, RIGHT_WORD, 3]]))
    taken = []
    for mark in [(0, 0)] * 3 + [(1, 0)] * 2 + [(0, 1)]:
        features = torch.zeros(2, FEATURES)
        features[:, :2] = torch.tensor(mark)
        state, actions = navigator.act(state, features)
        taken.append(actions.tolist())
    assert taken == [[FORWARD, FORWARD]] * 3 + [[LEFT, RIGHT]] * 2 + [[STOP, STOP]]


FLAT = {
    "Reactive": {"stop": True},
    "Lstm": {"hidden_size": 64},
    "Transformer": {"size": 32, "num_layers": 2, "num_heads": 4},
}


def first_turns(folder, name: str, batches, *, with_question: bool) -> float:
    """Learns, and gives the accuracy of the first turn of walks of another seed: the later ones repeat it."""
    pl.seed_everything(0, verbose=False)
    options = {"dropout": 0.0, "question_hidden": 32, "with_question": with_question, **FLAT[name]}
    module = NavigatorImitation(10, FEATURES, lr=5e-3, schedule="cosine", navigator=name, options=options)
    fit = trainer(folder, max_epochs=6)
    fit.fit(module, batches(25, seed=1), batches(4, seed=2))
    found = {metric: float(value) for metric, value in fit.callback_metrics.items()}
    assert found["val/action_loss"] == pytest.approx(found["val/loss"], rel=1e-5)
    assert 0.5 < found["val/action_accuracy"] <= 1
    navigator, right = module.navigator.eval(), []
    for batch in batches(4, seed=2):
        actions = batch["actions"]
        turn = (actions == LEFT) | (actions == RIGHT)
        first = turn & (turn.cumsum(1) == 1)
        with torch.no_grad():
            chosen = navigator(navigator.prepare(batch)).argmax(1)
        right.append((chosen == actions[actions >= 0])[first[actions >= 0]])
    return float(torch.cat(right).float().mean())


@pytest.mark.parametrize("name", FLAT)
def test_only_a_navigator_that_hears_the_question_learns_to_turn_where_it_says(tmp_path, name):
    assert first_turns(tmp_path, name, turning_batches, with_question=True) > 0.9
    assert first_turns(tmp_path, name, turning_batches, with_question=False) < 0.7


@pytest.mark.parametrize("name", FLAT)
def test_only_a_navigator_with_memory_learns_to_turn_where_it_was_once_shown(tmp_path, name):
    accuracy = first_turns(tmp_path, name, remembering_batches, with_question=False)
    assert accuracy < 0.7 if name == "Reactive" else accuracy > 0.9


def test_answerer_learns_to_look_at_the_frame_that_the_question_means(tmp_path):
    pl.seed_everything(0, verbose=False)
    options = {"hidden_size": 32, "dropout": 0.0}
    module = AnswererImitation(10, 3, 8, lr=5e-3, options=options)
    fit = trainer(tmp_path, max_epochs=12)
    fit.fit(module, pointing_batches(25, seed=1), pointing_batches(4, seed=2))
    assert fit.callback_metrics["val/accuracy"] > 0.95


def test_reported_means_count_every_decision_once(tmp_path):
    batches = list(turning_batches(3, seed=5))
    batches[0] = {name: value[:2] for name, value in batches[0].items()}
    module = NavigatorImitation(10, FEATURES, options={"planner_hidden": 8, "question_hidden": 8})
    found = trainer(tmp_path).validate(module, DataLoader(batches, batch_size=None), verbose=False)[0]
    losses = [module.eval().navigator.loss(batch) for batch in batches]
    for part in ("planner", "controller"):
        scores = [x["parts"][part] for x in losses]
        expected = sum(float(s.loss) * s.count for s in scores) / sum(s.count for s in scores)
        assert found[f"val/{part}_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("answers", [[0, 2, NO_ANSWER, 1, 1], [NO_ANSWER, NO_ANSWER, 2, NO_ANSWER, NO_ANSWER]])
def test_the_answerer_s_loss_and_accuracy_are_means_over_the_questions_that_have_an_answer(tmp_path, answers):
    torch.manual_seed(0)
    module = AnswererImitation(10, 3, 8, options={"dropout": 0.0})
    batch = {
        "features": torch.randn(5, 4, 8),
        "questions": torch.randint(1, 10, (5, 3)),
        "answers": torch.tensor(answers),
        "prior": torch.randn(5, 3),
    }
    found = trainer(tmp_path).validate(module, DataLoader([batch], batch_size=None), verbose=False)[0]
    with torch.no_grad():
        logits = module.eval().answerer(batch["features"], batch["questions"]) + batch["prior"]
    asked = [n for n, answer in enumerate(answers) if answer != NO_ANSWER]
    losses = [-logits[n].log_softmax(0)[answers[n]].item() for n in asked]
    assert found["val/loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert found["val/accuracy"] == pytest.approx(np.mean([int(logits[n].argmax()) == answers[n] for n in asked]))


def test_scores_that_tell_nothing_are_weighed_little_and_right_ones_much(tmp_path):
    """Answers follow the prior; scores are random, or right."""
    torch.manual_seed(0)
    prior = torch.tensor([[0.8, 0.15, 0.05]]).log().repeat(400, 1)
    answers = torch.distributions.Categorical(logits=prior).sample()
    batch = {"questions": torch.randint(4, 10, (400, 3)), "answers": answers, "prior": prior}
    right = torch.eye(3)[answers]
    for seen, low, high in ((torch.eye(3)[torch.randint(3, (400,))], 0.0, 0.2), (right, 1.9, 4.1)):
        module = AnswererImitation(10, 3, 3, options={"dropout": 0.0, "hidden_size": 3, "classifier_hidden": 3})
        with torch.no_grad():  # what the frames show becomes the scores
            for layer in (
                module.answerer.image_projection[0],
                module.answerer.classifier[1],
                module.answerer.classifier[4],
            ):
                layer.bias.zero_(), layer.weight.copy_(torch.eye(*layer.weight.shape))
            module.answerer.classifier[4].weight.mul_(4)
        given = {**batch, "features": seen[:, None].repeat(1, 5, 1)}
        found = trainer(tmp_path).validate(module, DataLoader([given], batch_size=None), verbose=False)[0]
        assert low <= found["val/weight"] <= high
        with torch.no_grad():
            raw, fitted = (
                a(given["features"], given["questions"]) for a in (module.answerer, module.parts["answerer"])
            )
        torch.testing.assert_close(fitted, raw * found["val/weight"])


def test_names_that_nobody_knows_are_refused_and_the_known_ones_named():
    for wrong in ({"optimizer": "lion"}, {"schedule": "step"}, {"navigator": "Pacmann"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected one of"):
            NavigatorImitation(10, FEATURES, **wrong)
    for wrong in ({"optimizer": "lion"}, {"schedule": "step"}, {"answerer": "Answer"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected one of"):
            AnswererImitation(10, 3, 8, **wrong)


def test_modules_come_back_from_lightnings_checkpoint(tmp_path):
    sizes = {"planner_hidden": 8, "controller_hidden": 8, "question_hidden": 8}
    for module, cls in (
        *((NavigatorImitation(10, FEATURES, navigator=name, options=FLAT[name]), NavigatorImitation) for name in FLAT),
        (NavigatorImitation(10, FEATURES, lr=2e-3, options=sizes), NavigatorImitation),
        (AnswererImitation(10, 3, 8, lr=2e-3), AnswererImitation),
    ):
        fit = trainer(tmp_path, max_epochs=0)
        fit.strategy.connect(module)
        fit.save_checkpoint(tmp_path / "x.ckpt")
        again = cls.load_from_checkpoint(tmp_path / "x.ckpt", weights_only=True)
        assert again.hparams == module.hparams
        assert all(torch.equal(a, b) for a, b in zip(again.parameters(), module.parameters(), strict=True))


def test_unknown_optimizer_and_navigator_are_refused():
    with pytest.raises(ValueError, match="optimizer: expected one of .*adamax.*, got 'lion'"):
        NavigatorImitation(10, FEATURES, optimizer="lion")
    with pytest.raises(ValueError, match="navigator: expected one of .*Pacman.*, got 'Nobody'"):
        NavigatorImitation(10, FEATURES, navigator="Nobody")
