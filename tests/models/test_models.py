"""The networks: question encoder, PACMAN, answerers and the agent's checkpoint."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from eqa.data.vocabulary import SPECIALS, Vocabulary
from eqa.models.agents.neural import NeuralAgent
from eqa.models.agents.relations import Relations
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.question_encoder import QuestionEncoder
from eqa.models.encoders.cnn import Encoder
from eqa.models.navigators.action_selection import START
from eqa.models.navigators.pacman import Pacman
from eqa.models.navigators.pacman_targets import hierarchical_targets
from tests.helpers.processor import needs_bfloat16_lstm
from tests.helpers.some_frames import frames, lived_in
from tests.helpers.walk_batches import padded, random_walks, walk_batch

FORWARD, LEFT, RIGHT, STOP = range(4)
VOCABULARY = Vocabulary((*SPECIALS, "color", "is", "sofa", "the", "what"), ("blue", "kitchen", "red"))


def small_pacman(**changes) -> Pacman:
    return Pacman(9, 6, **{"planner_hidden": 12, "controller_hidden": 10, "question_hidden": 7, **changes})


def reference_targets(walk: list[int], limit: int) -> dict[str, list[int]]:
    """The released code's rule, step by step (reference 2.2)."""
    out = {name: [] for name in ("planner_in", "planner_out", "planner_frames")}
    out |= {name: [] for name in ("frames", "running", "targets", "planner_index", "must_return")}
    previous, fresh, repeats, planner = START, START, 0, -1
    for t, action in enumerate(walk):
        returned = action != previous
        if t > 0:
            out["frames"].append(t)
            out["running"].append(fresh)
            out["targets"].append(int(not returned))
            out["planner_index"].append(planner)
            out["must_return"].append(int(previous is None))
        if returned:
            out["planner_in"].append(fresh)
            out["planner_out"].append(action)
            out["planner_frames"].append(t)
            planner, repeats = planner + 1, 0
        repeats += 1
        fresh = action
        previous = None if repeats == limit else action
    return out


def vectorised_targets(walk: list[int], limit: int) -> dict[str, list[int]]:
    actions = padded([walk], extra=3)
    before = actions.clone()
    targets = hierarchical_targets(actions, limit)
    assert torch.equal(actions, before)
    queries, controls = targets.queries[0], targets.controls[0]
    return {
        "planner_in": targets.previous_action[0][queries].tolist(),
        "planner_out": actions[0][queries].tolist(),
        "planner_frames": queries.nonzero().flatten().tolist(),
        "frames": controls.nonzero().flatten().tolist(),
        "running": targets.previous_action[0][controls].tolist(),
        "targets": targets.repeats[0][controls].long().tolist(),
        "planner_index": targets.planner_step[0][controls].tolist(),
        "must_return": targets.must_return[0][controls].long().tolist(),
    }


def test_hierarchical_targets_match_the_first_reference_example():
    targets = vectorised_targets([FORWARD, FORWARD, LEFT, LEFT, FORWARD, FORWARD, FORWARD, RIGHT, STOP], 5)
    assert targets["planner_in"] == [START, FORWARD, LEFT, FORWARD, RIGHT]
    assert targets["planner_out"] == [FORWARD, LEFT, FORWARD, RIGHT, STOP]
    assert targets["planner_frames"] == [0, 2, 4, 7, 8]
    assert targets["frames"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert targets["running"] == [FORWARD, FORWARD, LEFT, LEFT, FORWARD, FORWARD, FORWARD, RIGHT]
    assert targets["targets"] == [1, 0, 1, 0, 1, 1, 0, 0]
    assert targets["planner_index"] == [0, 0, 1, 1, 2, 2, 2, 3]
    assert not any(targets["must_return"])


def test_hierarchical_targets_match_the_second_reference_example():
    targets = vectorised_targets([FORWARD] * 7 + [STOP], 5)
    assert targets["planner_out"] == [FORWARD, FORWARD, STOP]
    assert targets["planner_frames"] == [0, 5, 7]
    assert targets["targets"] == [1, 1, 1, 1, 0, 1, 0]
    assert targets["must_return"] == [0, 0, 0, 0, 1, 0, 0]


def test_hierarchical_targets_match_the_third_reference_example():
    targets = vectorised_targets([FORWARD] * 5 + [STOP], 5)
    assert targets["targets"] == [1, 1, 1, 1, 0]
    assert targets["must_return"] == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_hierarchical_targets_agree_with_a_loop_on_random_walks(limit):
    for walk in random_walks(np.random.default_rng(limit), num=40):
        assert vectorised_targets(walk, limit) == reference_targets(walk, limit)


@pytest.mark.parametrize("planner", ["lstm", "gru"])
def test_forced_single_steps_equal_teacher_forcing(planner):
    rng = np.random.default_rng(3)
    walks = random_walks(rng)
    batch = walk_batch(rng, walks)
    batch["loss_from"] = torch.from_numpy(rng.integers(0, 4, len(walks)))
    navigator = small_pacman(planner=planner).eval()
    batch = navigator.prepare(batch)
    with torch.no_grad():
        planner_logits, controller_logits = navigator(batch)
        state = navigator.initial_state(batch["questions"])
        targets = hierarchical_targets(batch["actions"])
        stepped = {}
        for t in range(batch["actions"].shape[1]):
            decision = navigator.decide(state, batch["features"][:, t])
            active = batch["actions"][:, t] >= 0
            state, actions = navigator.act(
                state, batch["features"][:, t], forced_action=batch["actions"][:, t], active=active
            )
            assert torch.equal(actions, torch.where(active, batch["actions"][:, t], STOP))
            for b in active.nonzero().flatten().tolist():
                if t < batch["loss_from"][b]:
                    continue
                if targets.queries[b, t]:
                    stepped["planner", b, t] = decision.planner_logits[b]
                if targets.controls[b, t] and not targets.must_return[b, t]:
                    assert decision.may_repeat[b]
                    stepped["controller", b, t] = decision.controller_logits[b]
                elif t > 0:
                    assert not decision.may_repeat[b]
    num_steps = batch["actions"].shape[1]
    frame_rows = batch["decisions"].frames
    for kind, logits, index in (
        (
            "planner",
            planner_logits,
            F.pad(batch["decisions"].planner_frame, (1, 0)).flatten()[batch["decisions"].planner_scored],
        ),
        ("controller", controller_logits, batch["decisions"].controller_frame),
    ):
        rows = frame_rows[index]
        assert len(rows) == sum(key[0] == kind for key in stepped)
        expected = torch.stack([stepped[kind, int(r) // num_steps, int(r) % num_steps] for r in rows])
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_the_loss_equals_a_plain_sum_over_the_steps_of_each_walk():
    rng = np.random.default_rng(4)
    walks = random_walks(rng, num=5)
    batch = walk_batch(rng, walks)
    navigator = small_pacman().eval()
    planner_terms, controller_terms = [], []
    with torch.no_grad():
        for b, walk in enumerate(walks):
            targets = reference_targets(walk, 5)
            state = navigator.initial_state(batch["questions"][b : b + 1])
            for t, action in enumerate(walk):
                features = batch["features"][b : b + 1, t]
                decision = navigator.decide(state, features)
                if t in targets["planner_frames"]:
                    planner_terms.append(decision.planner_logits.log_softmax(1)[0, action])
                if t > 0 and not targets["must_return"][t - 1]:
                    controller_terms.append(decision.controller_logits.log_softmax(1)[0, targets["targets"][t - 1]])
                state, _ = navigator.act(state, features, forced_action=torch.tensor([action]))
        losses = navigator.loss(batch)
    means = {
        name: -torch.stack(terms).mean()
        for name, terms in (("planner", planner_terms), ("controller", controller_terms))
    }
    torch.testing.assert_close(losses["loss"], means["planner"] + means["controller"])
    for name, terms in (("planner", planner_terms), ("controller", controller_terms)):
        torch.testing.assert_close(losses["parts"][name].loss, means[name])
        assert losses["parts"][name].count == len(terms)


def test_an_agent_stops_once_the_odds_make_stop_the_likeliest_and_draws_without_them():
    rng = np.random.default_rng(4)
    plain, ready = (small_pacman(stop_odds=odds).eval() for odds in (1.0, 20.0))
    ready.load_state_dict(plain.state_dict())
    plain.planner_head.weight.data.zero_()
    ready.planner_head.weight.data.zero_()
    questions = torch.from_numpy(rng.integers(1, 9, (500, 5)))
    features = torch.from_numpy(rng.standard_normal((500, 6)).astype(np.float32))
    for stop, stops in (
        (0.04, False),
        (0.06, True),
    ):  # against 0.9 for the likeliest, 20 times as much is enough or not
        chances = torch.tensor([0.9, 0.1 - stop - 0.01, 0.01, stop])
        for navigator in (plain, ready):
            navigator.planner_head.bias.data[:] = chances.log()
        state = ready.initial_state(questions)
        assert (ready.act(state, features)[1] == (STOP if stops else FORWARD)).all()
        assert (plain.act(state, features)[1] == FORWARD).all()
        torch.manual_seed(0)
        drawn = (ready.act(state, features, noise=torch.rand(500, 2))[1] == STOP).float().mean()
        assert abs(drawn - stop) < 0.04
    with pytest.raises(ValueError, match="stop_odds"):
        small_pacman(stop_odds=0.0)


def test_padding_changes_no_loss():
    walks = random_walks(np.random.default_rng(5))
    navigator = small_pacman().eval()
    tight, wide = (walk_batch(np.random.default_rng(6), walks, extra) for extra in (0, 4))
    torch.testing.assert_close(navigator.loss(wide)["loss"], navigator.loss(tight)["loss"])


def test_a_batch_gives_the_same_loss_the_second_time():
    rng = np.random.default_rng(7)
    navigator, batch = small_pacman().eval(), walk_batch(rng, random_walks(rng))
    before = {name: value.clone() for name, value in batch.items()}
    first, second = navigator.loss(batch), navigator.loss(batch)
    assert torch.equal(first["loss"], second["loss"])
    assert set(batch) == set(before)
    assert all(torch.equal(batch[name], value) for name, value in before.items())


def test_history_before_loss_from_is_read_but_not_scored():
    rng = np.random.default_rng(8)
    walks = [[FORWARD, FORWARD, LEFT, RIGHT, STOP], [LEFT, STOP]]
    navigator, batch = small_pacman().eval(), walk_batch(rng, walks)
    late = navigator.loss({**batch, "loss_from": torch.tensor([3, 1])})
    assert (late["parts"]["planner"].count, late["parts"]["controller"].count) == (3, 3)
    changed = batch["features"].clone()
    changed[0, 0] += 1
    assert navigator.loss({**batch, "features": changed, "loss_from": torch.tensor([3, 1])})["loss"] != late["loss"]


def test_planner_asked_at_every_step_leaves_the_controller_without_loss():
    rng = np.random.default_rng(9)
    losses = small_pacman(max_repeats=1).loss(walk_batch(rng, random_walks(rng)))
    assert losses["parts"]["controller"].count == 0
    assert losses["parts"]["controller"].loss == 0
    losses["loss"].backward()


def test_start_and_actions_have_embeddings_of_their_own():
    navigator = small_pacman()
    assert navigator.action_embedding.num_embeddings == 5
    batch = walk_batch(np.random.default_rng(0), [[FORWARD, FORWARD, STOP]])
    decisions = navigator.prepare(batch)["decisions"]
    assert START not in range(4)
    assert decisions.planner_input.tolist() == [[START, FORWARD]]
    assert decisions.controller_input.tolist() == [FORWARD, FORWARD]


def test_inactive_agents_keep_their_state_and_stop():
    rng = np.random.default_rng(10)
    navigator = small_pacman().eval()
    questions = torch.from_numpy(rng.integers(1, 9, (4, 5)))
    state = navigator.initial_state(questions)
    features = torch.from_numpy(rng.standard_normal((4, 6)).astype(np.float32))
    state, _ = navigator.act(state, features, forced_action=torch.tensor([0, 1, 2, 0]))
    active = torch.tensor([True, False, True, False])
    after, actions = navigator.act(state, features, active=active)
    assert actions[~active].tolist() == [STOP, STOP]
    for old, new in (
        (state.previous_action, after.previous_action),
        (state.repeats, after.repeats),
        *zip(state.hidden, after.hidden),
    ):
        assert torch.equal(old[~active], new[~active])


def test_an_agent_acts_alone_as_it_does_in_a_batch_and_never_repeats_beyond_the_limit():
    rng = np.random.default_rng(11)
    navigator = small_pacman(max_repeats=3).eval()
    navigator.controller[-1].bias.data[:] = torch.tensor([-100.0, 100.0])
    questions = torch.from_numpy(rng.integers(1, 9, (3, 5)))
    features = torch.from_numpy(rng.standard_normal((12, 3, 6)).astype(np.float32))
    together, alone, repeats = navigator.initial_state(questions), navigator.initial_state(questions[1:2]), []
    for frame in features:
        together, actions = navigator.act(together, frame)
        alone, action = navigator.act(alone, frame[1:2])
        assert action[0] == actions[1]
        repeats.append(int(alone.repeats))
    assert repeats == [1, 2, 3] * 4


def test_sampling_follows_the_softmax():
    torch.manual_seed(0)
    navigator = small_pacman().eval()
    navigator.planner_head.weight.data.zero_()
    navigator.planner_head.bias.data[:] = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    state = navigator.initial_state(torch.ones(20000, 2, dtype=torch.int64))
    _, actions = navigator.act(state, torch.zeros(20000, 6), noise=torch.rand(20000, 2))
    torch.testing.assert_close(actions.bincount() / 20000, torch.tensor([0.5, 0.3, 0.15, 0.05]), atol=0.015, rtol=0)


@needs_bfloat16_lstm
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_networks_run_under_autocast_and_on_half_precision_features(dtype):
    rng = np.random.default_rng(12)
    navigator, batch = small_pacman().eval(), walk_batch(rng, random_walks(rng))
    batch["features"] = batch["features"].to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        assert navigator.loss(batch)["loss"].isfinite()
        state = navigator.initial_state(batch["questions"])
        state, _ = navigator.act(state, batch["features"][:, 0])
        navigator.act(state, batch["features"][:, 0])
        assert Answerer(9, 3, 6)(batch["features"][:, :1], batch["questions"]).isfinite().all()


def test_question_encoding_ignores_padding_and_reads_the_last_word():
    encoder = QuestionEncoder(9, hidden_size=7).eval()
    question = torch.tensor([[4, 5, 6]])
    torch.testing.assert_close(encoder(torch.tensor([[4, 5, 6, 0, 0]])), encoder(question))
    assert not torch.allclose(encoder(torch.tensor([[4, 5, 7]])), encoder(question))


@pytest.mark.parametrize("attention", ["dot", "additive"])
@pytest.mark.parametrize("fusion", ["concat", "product"])
def test_answerer_gives_no_weight_to_masked_frames(attention, fusion):
    answerer = Answerer(9, 3, 6, attention=attention, fusion=fusion).eval()
    questions = torch.tensor([[4, 5], [6, 0]])
    features = torch.randn(2, 5, 6)
    mask = torch.tensor([[False, False, True, True, True], [True] * 5])
    changed = features.clone()
    changed[0, :2] = 50.0
    torch.testing.assert_close(answerer(changed, questions, mask), answerer(features, questions, mask))
    assert answerer(features, questions).shape == (2, 3)


def test_dot_product_attention_looks_at_the_frame_that_resembles_the_question():
    answerer = Answerer(9, 3, 6, hidden_size=4).eval()
    image = torch.eye(4).unsqueeze(0) * 3
    weights = answerer.weights(image, torch.tensor([[0.0, 2.0, 0.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[0.0, 6.0, 0.0, 0.0]]).softmax(1))


def small_agent() -> NeuralAgent:
    words, answers, size = len(VOCABULARY.words), len(VOCABULARY.answers), Encoder(96, 96).feature_size
    return NeuralAgent(
        lived_in(Encoder(96, 96)),
        Pacman(words, size, planner_hidden=12),
        Answerer(words, answers, size),
        VOCABULARY,
        config={"seed": 3, "scale": {"name": "tiny"}},
    ).eval()


def test_an_agent_that_stops_otherwise_is_a_variant_of_itself_and_stays_one_in_its_file(tmp_path):
    agent = small_agent()
    assert agent.relations == Relations()  # its configuration says nothing, as that of older checkpoints
    agent.config |= {"name": "PACMAN+Q, own ends", "variant_of": "PACMAN+Q", "finetuned_from": "LSTM, own ends"}
    assert agent.relations == Relations(variant_of="PACMAN+Q", finetuned_from="LSTM, on-policy answerer")
    agent.set_stop_odds(agent.navigator.stop_odds)
    assert agent.relations.stop_odds is None
    agent.set_stop_odds(7.0)
    agent.save(tmp_path / "agent.ckpt")
    assert NeuralAgent.load(tmp_path / "agent.ckpt").relations == Relations(
        variant_of="PACMAN+Q, on-policy answerer", finetuned_from="LSTM, on-policy answerer", stop_odds=7.0
    )


def test_agent_survives_saving_and_loading(tmp_path):
    agent = small_agent()
    agent.save(tmp_path / "agent.ckpt")
    again = NeuralAgent.load(tmp_path / "agent.ckpt")
    assert (again.vocabulary, again.config) == (agent.vocabulary, agent.config)
    rgb = frames(2)[:, :96, :96]
    features = agent.frozen_encoder("float32")(rgb)
    assert torch.equal(again.frozen_encoder("float32")(rgb), features)
    questions = torch.from_numpy(VOCABULARY.encode_batch(["what color is the sofa?"] * 2))
    assert torch.equal(again.answerer(features[:, None], questions), agent.answerer(features[:, None], questions))
    old, new = (a.navigator.decide(a.navigator.initial_state(questions), features) for a in (agent, again))
    assert torch.equal(old.planner_logits, new.planner_logits)


def test_parts_that_do_not_fit_each_other_make_no_agent():
    with pytest.raises(ValueError, match="num_answers=3"):
        NeuralAgent(Encoder(96, 96), Pacman(9, 128), Answerer(9, 4, 128), VOCABULARY)


def test_foreign_older_and_damaged_checkpoints_are_refused(tmp_path):
    path = tmp_path / "agent.ckpt"
    with pytest.raises(ValueError, match="agent.ckpt"):
        NeuralAgent.load(path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="agent.ckpt: cannot be read"):
        NeuralAgent.load(path)
    torch.save({"state": {}, "args": {}, "epoch": 3}, path)
    with pytest.raises(ValueError, match="expected eqa-agent version 1, got another kind of file"):
        NeuralAgent.load(path)
    torch.save(small_agent(), path)
    with pytest.raises(ValueError, match="cannot be read"):
        NeuralAgent.load(path)
    small_agent().save(path)
    whole = torch.load(path, weights_only=True)
    for change, message in (
        ({"version": 0}, "version 1, got eqa-agent version 0"),
        ({"modules": {}}, "damaged"),
        ({"modules": {**whole["modules"], "navigator": {"class": "Popen", "arguments": {}}}}, "expected one of"),
        ({"modules": {**whole["modules"], "answerer": {**whole["modules"]["answerer"], "state": {}}}}, "do not fit"),
    ):
        torch.save({**whole, **change}, path)
        with pytest.raises(ValueError, match=message):
            NeuralAgent.load(path)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ValueError, match="cannot be read"):
        NeuralAgent.load(path)
