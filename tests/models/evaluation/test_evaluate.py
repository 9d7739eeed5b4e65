"""The evaluation plays the real world: oracle walks end at the target, no one sees what lies ahead of the spawn."""

import copy
import io
import json
import re
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from eqa.data.batches.imitation import last_frames
from eqa.data.demonstrations.record import Recorder
from eqa.data.demonstrations.storage import Demonstrations, build
from eqa.data.generated import GeneratedEQA
from eqa.data.questions.spawns import add_spawns
from eqa.data.vocabulary import Vocabulary
from eqa.envs.actions import HOUSE_ACTIONS, Action
from eqa.envs.episode import Episode, Spawn
from eqa.envs.house.build import build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.simulator import SceneFailed, Simulator
from eqa.envs.task import Trajectories
from eqa.models.agents.agent import EpisodeBatch, Walker
from eqa.models.agents.navigating import NavigatorAgent
from eqa.models.agents.neural import NeuralAgent
from eqa.models.agents.oracles import ForwardAgent, RandomAgent, ShortestPathAgent
from eqa.models.answerers.frame_attention import Answerer
from eqa.models.answerers.naming import NamingAnswerer
from eqa.models.encoders.cnn import Encoder
from eqa.models.encoders.features import FeatureExtractor
from eqa.models.evaluation.evaluate import Evaluation, attention_of, batches
from eqa.models.evaluation.run_tables import intervals, results_table, write_tables
from eqa.models.navigators.pacman import Pacman
from tests.helpers.small_house import small_house

pytestmark = pytest.mark.usefixtures("single_thread")

QUESTIONS = [
    ("what color is the refrigerator?", "white", "color", 4, 1, (6.3, 0.0, 2.2, 0.0)),
    ("what room is the sofa located in?", "living room", "location", 1, 0, (1.5, 0.0, 2.6, 0.0)),
]
PLAYED = ("T-10", "T-20", "T-500", "T-20 random heading", "random")
STARTS = [(1.0, 0.0, 2.0, 0.0), (6.0, 0.0, 3.0, 0.0)]


def episode(number: int) -> Episode:
    question, answer, kind, target, room, view = QUESTIONS[number]
    return Episode(
        f"small-{number}",
        "small-0",
        question,
        answer,
        kind,
        "by hand",
        target_object=target,
        target_room=room,
        view_points=(view,),
        goal_radius_m=0.25,
        spawns={"start": Spawn(STARTS[number])},
    )


class Source(GeneratedEQA):
    """What `Evaluation` needs of a data source, with one house written by hand."""

    seed, style = 0, "paper"

    def __init__(self, demos: Demonstrations, house: House) -> None:
        self.demos, self._house, self.walks, self.seed = demos, house, 1, 0

    def demonstrations(self, split: str) -> Demonstrations:
        return self.demos

    def house(self, house_id: str) -> House:
        return self._house

    def episodes(self, split: str) -> list[Episode]:
        return self.demos.episodes


def small_source(path: Path, precision: str = "float32") -> Source:
    """Demonstrations of the small house at `path`, seen by an encoder that has learned nothing."""
    torch.manual_seed(0)
    house, episodes = small_house(), [episode(0), episode(1)]
    extractor = FeatureExtractor(Encoder(channels=(4, 8, 8, 8)), precision=precision)
    list(build(path, add_spawns(house, episodes), Recorder(HouseWorld(lambda _: house), extractor), configuration={}))
    source = Source(Demonstrations.open(path), house)
    source.encode, source.build = extractor, lambda: None
    source.vocabulary = Vocabulary.of(source.demos.episodes)
    return source


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    source = small_source(tmp_path_factory.mktemp("demos") / "test.h5")
    extractor, vocabulary = source.encode, source.vocabulary
    sizes = len(vocabulary.words), len(vocabulary.answers), extractor.encoder.feature_size
    agent = NeuralAgent(
        extractor.encoder, Pacman(sizes[0], sizes[2], planner_hidden=32), Answerer(*sizes), vocabulary
    )  # fmt: skip
    return Evaluation(agent, source, "test", extractor=extractor)


@pytest.fixture(scope="module")
def rows(evaluation: Evaluation) -> list[dict]:
    walkers = {
        "random": RandomAgent(0),
        "forward": ForwardAgent(),
        "agent": NavigatorAgent(evaluation.agent.navigator, evaluation.extractor),
        "oracle": ShortestPathAgent(),
    }
    return evaluation.play(walkers, PLAYED) + evaluation.blind()


def test_an_agent_that_reads_names_also_looks_round_and_its_line_says_what_it_varies(evaluation: Evaluation) -> None:
    sizes = len(evaluation.vocabulary.words), len(evaluation.vocabulary.answers), evaluation.demos.features.shape[1]
    shape = evaluation.extractor.map_shape
    reading = NamingAnswerer(*sizes, map_shape=shape, name_counts=(3, 2, 2), num_frames=5)
    agent = copy.copy(evaluation.agent)
    agent._modules = {**agent._modules, "answerer": reading}
    also = Evaluation(agent, evaluation.source, "test", extractor=evaluation.extractor)
    line = f"{agent.name}, looks round"
    assert line not in evaluation.walkers(0)
    names = list(also.walkers(0))
    assert names[names.index(agent.name) + 1] == line
    played = also.play({name: also.walkers(0)[name] for name in (agent.name, line)}, ["T-10"])
    assert {row["variant_of"] for row in of(played, line)} == {agent.name}
    for own, seeking in zip(of(played, agent.name), of(played, line), strict=True):
        walked = own["actions"][:-1] if own["stop"] else own["actions"]
        assert seeking["actions"][: len(walked)] == walked and seeking["planned"] is None
        assert not own["stop"] or seeking["d_T"] == own["d_T"]


def of(rows: list[dict], agent: str) -> list[dict]:
    return [row for row in rows if row["agent"] == agent]


def test_every_line_of_the_table_has_the_same_questions(rows: list[dict]) -> None:
    asked = {
        name: [(r["spawn"], r["episode_id"]) for r in of(rows, name)]
        for name in ("random", "forward", "agent", "oracle")
    }
    assert all(a == asked["random"] for a in asked.values())
    assert {s for s, _ in asked["random"]} == set(PLAYED) - {"T-500"}
    assert len(of(rows, "majority")) == len(of(rows, "question only")) == 2


def test_a_question_with_a_shorter_walk_is_left_out_for_everyone(evaluation: Evaluation) -> None:
    longest = int(evaluation.demos.lengths.max())
    assert list(batches(evaluation.demos, [f"T-{longest + 1}"], 8, evaluation.world)) == []
    found = [[one.row for one in batch] for batch in batches(evaluation.demos, [f"T-{longest}"], 8, evaluation.world)]
    assert found == [[int(evaluation.demos.lengths.argmax())]]


def test_the_shortest_path_ends_at_the_target_after_as_many_actions_as_the_spawn_says(rows: list[dict]) -> None:
    for row in of(rows, "oracle"):
        assert row["d_T"] == 0 and row["success"] == 1 and row["collisions"] == 0
        assert row["spl"] > 0.9  # moves are a quarter of a metre, and turning costs no metres
        assert row["r_T"] == row["seen"] == 1 and row["d_delta"] == row["d_0"] >= 0
        if row["spawn"] in ("T-10", "T-20"):
            assert row["ep_len"] == int(row["spawn"][2:])


def test_turned_spawns_are_at_the_same_place_and_know_no_history(evaluation: Evaluation, rows: list[dict]) -> None:
    at = {(row["spawn"], row["episode_id"]): row["poses"][0] for row in of(rows, "forward")}
    for episode_id in {e.episode_id for e in evaluation.demos.episodes}:
        straight, turned = at["T-20", episode_id], at["T-20 random heading", episode_id]
        assert straight[:3] == turned[:3]
    (batch,) = batches(evaluation.demos, ("T-20 random heading", "random"), 48, evaluation.world)
    start = evaluation._start(batch)
    assert start.actions.shape == (4, 0) and start.remaining == [None] * 4
    again = [
        one.pose for one in next(batches(evaluation.demos, ("T-20 random heading", "random"), 48, evaluation.world))
    ]
    assert start.poses.tolist() == [list(pose) for pose in again]
    assert len({one.pose[3] for one in batch}) > 1
    for one in (one for one in batch if one.setting != "random"):  # the headings that older versions drew
        episode_id = evaluation.demos.episodes[one.row].episode_id
        drawn = np.random.default_rng(crc32(f"{episode_id} T-20 turned".encode())).integers(40)
        assert one.pose[3] == HOUSE_ACTIONS.headings_rad[drawn]


def test_who_ends_with_the_target_out_of_view_does_not_see_it(evaluation: Evaluation, rows: list[dict]) -> None:
    renderer = Renderer(Camera(), ("instance_id",))
    renderer.load([build_scene(evaluation.source.house(""), load_catalog())])
    targets = {e.episode_id: e.target_object for e in evaluation.demos.episodes}
    walked = [row for row in rows if row["poses"]]
    for row in walked:
        view = renderer.render(np.zeros(1, np.int32), np.array(row["poses"][-1:]))["instance_id"]
        assert row["seen"] == float((view == targets[row["episode_id"]]).mean() >= 0.01)
    assert 0.2 < np.mean([row["seen"] for row in walked]) < 0.8


def test_distances_are_those_that_were_stored_with_the_demonstration(evaluation: Evaluation, rows: list[dict]) -> None:
    for row in of(rows, "oracle"):
        place = [e.episode_id for e in evaluation.demos.episodes].index(row["episode_id"])
        assert row["distances"][0] == pytest.approx(row["d_0"], abs=1e-3)
        if row["spawn"] not in ("T-10", "T-20"):
            continue
        stored = evaluation.demos.distance_m[evaluation.demos.rows(place)][-int(row["spawn"][2:])]
        assert row["d_0"] == pytest.approx(float(stored), abs=1e-5)


def test_a_row_says_which_actions_the_planner_chose(evaluation: Evaluation, rows: list[dict]) -> None:
    assert all(row["planned"] is None for row in rows if row["agent"] != "agent")
    bias = evaluation.agent.navigator.controller[-1].bias.data
    bias[1] += 100  # the controller repeats as often as it may: four times after the planner
    try:
        agent = NavigatorAgent(evaluation.agent.navigator, evaluation.extractor)
        played = evaluation.play({"agent": agent}, ("T-10", "T-20"))
    finally:
        bias[1] -= 100
    for row in played:
        planned, actions = row["planned"], row["actions"]
        assert len(planned) == len(actions) and 0 in planned
        assert re.fullmatch("0{0,4}(10000)*(10{0,4})?", "".join(map(str, planned)))
        assert all(actions[t] == actions[t - 1] for t in range(1, len(actions)) if not planned[t])


def test_a_row_says_where_the_answerer_looked(rows: list[dict]) -> None:
    for row in of(rows, "oracle"):
        if row["spawn"] == "T-10":
            places = row["attention"]["places"]
            assert row["attention"]["grid"] == [1, 1] and sorted(p[0] for p in places) == [5, 6, 7, 8, 9]
            assert sum(p[3] for p in places) == pytest.approx(1, abs=0.01)
    assert all(row["attention"] is None for row in of(rows, "majority"))
    shares = np.zeros((3, 2, 2), np.float32)
    shares[0, 1, 0], shares[1, 0, 1], shares[2] = 0.25, 0.7499, 1.0  # the last frame is padding
    looked = attention_of(shares, np.array([-4, 2]))
    assert looked == {"grid": [2, 2], "places": [[2, 0, 1, 0.75], [-4, 1, 0, 0.25]]}


def test_walks_without_stop_last_a_hundred_actions_and_count_their_last_pose(rows: list[dict]) -> None:
    for row in of(rows, "random") + of(rows, "forward"):
        assert (
            row["ep_len"] == HOUSE_ACTIONS.max_steps
            and row["stop"] == 0
            and len(row["poses"]) == HOUSE_ACTIONS.max_steps + 1
        )
        assert row["d_min"] <= row["d_T"]
    assert all(row["collisions"] > 0 for row in of(rows, "forward"))


def test_the_oracles_last_frames_are_the_demonstrations(evaluation: Evaluation) -> None:
    seen = []
    answers = evaluation._answers
    evaluation._answers = lambda who, of, prior, *frames: seen.append(frames[0]) or answers(who, of, prior, *frames)
    evaluation.play({"oracle": ShortestPathAgent()}, ("T-10",))
    del evaluation._answers
    for features, batch in zip(seen, batches(evaluation.demos, ("T-10",), 48, evaluation.world), strict=True):
        for n, i in enumerate(one.row for one in batch):
            stored = evaluation.demos.features[evaluation.demos.rows(i)][-5:]
            assert np.abs(features[n].numpy() - stored).max() < 0.01 * np.abs(stored).max()


def test_an_answerer_that_looks_farther_back_gets_frames_from_before_the_spawn_too(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, back = [], (13, 8)
    answers = evaluation._answers
    monkeypatch.setattr(
        evaluation,
        "_answers",
        lambda who, of, prior, *frames: seen.append(frames[0]) or answers(who, of, prior, *frames),
    )
    monkeypatch.setattr(evaluation.agent.answerer, "earlier_frames", back)
    evaluation.play({"oracle": ShortestPathAgent()}, ("T-10",))
    for features, batch in zip(seen, batches(evaluation.demos, ("T-10",), 48, evaluation.world), strict=True):
        for n, i in enumerate(one.row for one in batch):
            stored = last_frames(evaluation.demos.features[evaluation.demos.rows(i)], 5, back)
            assert features[n].shape == stored.shape
            assert np.abs(features[n].numpy() - stored).max() < 0.01 * np.abs(stored).max()


def test_who_stops_at_once_answers_from_history_and_spawn_alone(evaluation: Evaluation) -> None:
    class Stopper(ForwardAgent):
        def act(self, observation: dict, agents: np.ndarray) -> np.ndarray:
            return np.full(len(agents), Action.STOP, dtype=np.int64)

    seen = []
    answers = evaluation._answers
    evaluation._answers = lambda who, of, prior, *frames: seen.append(frames[0]) or answers(who, of, prior, *frames)
    rows = evaluation.play({"stopper": Stopper()}, ("T-10",))
    del evaluation._answers
    assert all(row["d_T"] == row["d_0"] and row["ep_len"] == 1 and row["stop"] == 1 for row in rows)
    for features, batch in zip(seen, batches(evaluation.demos, ("T-10",), 48, evaluation.world), strict=True):
        for n, (i, first) in enumerate((one.row, one.known) for one in batch):
            stored = evaluation.demos.features[evaluation.demos.rows(i)][max(first - 4, 0) : first + 1]
            assert np.abs(features[n, -len(stored) :].numpy() - stored).max() < 0.01 * np.abs(stored).max()


def test_playing_side_by_side_gives_what_playing_alone_gives(evaluation: Evaluation, rows: list[dict]) -> None:
    together = {(r["episode_id"], r["spawn"]): r for r in of(rows, "agent")}
    alone = Evaluation(evaluation.agent, evaluation.source, "test", extractor=evaluation.extractor, lockstep=1)
    single = alone.play({"agent": NavigatorAgent(evaluation.agent.navigator, evaluation.extractor)}, PLAYED)
    assert len(single) == len(together) == 8
    for row in single:
        assert row["actions"] == together[row["episode_id"], row["spawn"]]["actions"]


@pytest.mark.parametrize(("cursed", "void"), [((2,), [2]), ((1, 4), [1, 4, 5, 6, 7])])
def test_an_episode_that_fails_is_void_and_after_two_so_is_the_rest_of_its_scene(
    evaluation: Evaluation, rows: list[dict], cursed: tuple[int, ...], void: list[int], capsys: pytest.CaptureFixture
) -> None:
    (batch,) = batches(evaluation.demos, PLAYED, 48, evaluation.world)
    assert len(batch) == 8
    failing = Evaluation(evaluation.agent, evaluation.source, "test", extractor=evaluation.extractor)

    def walk(agent: Walker, simulator: Simulator, scenes: np.ndarray, start: EpisodeBatch) -> Trajectories:
        if any((pose == batch[n].pose).all() for pose in start.poses for n in cursed):
            raise SceneFailed(start.episodes[0].scene_id, "it died 2 times")
        return Evaluation._walk(failing, agent, simulator, scenes, start)

    failing._walk = walk
    played = failing.play({"forward": ForwardAgent(), "oracle": ShortestPathAgent()}, PLAYED)
    names = [(evaluation.demos.episodes[s.row].episode_id, s.setting) for s in batch]
    assert [(one["episode_id"], one["spawn"]) for one in failing.void] == [names[n] for n in void]
    assert {one["why"] for one in failing.void} == {"it died 2 times"}
    said = "".join(capsys.readouterr())
    for line in ("forward", "oracle"):
        found = {(row["episode_id"], row["spawn"]): row["actions"] for row in of(played, line)}
        wanted = {(row["episode_id"], row["spawn"]): row["actions"] for row in of(rows, line)}
        assert found == {name: wanted[name] for n, name in enumerate(names) if n not in void}
    assert all(f"question {names[n][0]} from {names[n][1]}" in said for n in void)
    failing._walk = lambda *_: (_ for _ in ()).throw(SceneFailed("small-0", "it died 2 times"))
    with pytest.raises(ValueError, match="expected some episode that can be played, got [0-9]+ void ones"):
        failing.play({"forward": ForwardAgent()}, PLAYED)


def test_a_question_with_an_unknown_word_is_refused_before_anyone_walks(evaluation: Evaluation) -> None:
    agent = evaluation.agent
    fewer = Vocabulary(
        tuple(w for w in agent.vocabulary.words if w != "refrigerator") + ("fridge",), agent.vocabulary.answers
    )
    other = NeuralAgent(agent.encoder, agent.navigator, agent.answerer, fewer)
    with pytest.raises(ValueError, match="refrigerator"):
        Evaluation(other, evaluation.source, "test", extractor=evaluation.extractor)


def test_tables_hold_plain_means_and_intervals_around_them(rows: list[dict], tmp_path: Path) -> None:
    long = {(r["agent"], r["spawn"], r["question_type"], r["metric"]): r for r in intervals(rows)}
    for spawn in ("T-10", "random"):
        for metric in ("d_T", "d_min", "correct", "rank"):
            values = [r[metric] for r in of(rows, "forward") if r["spawn"] == spawn]
            entry = long["forward", spawn, "all", metric]
            assert entry["mean"] == pytest.approx(np.mean(values)) and entry["questions"] == len(values)
            assert entry["low"] <= entry["mean"] <= entry["high"]
    assert ("majority", None, "all", "d_T") not in long
    write_tables(tmp_path, rows, "a title")
    text = (tmp_path / "table.md").read_text()
    assert "| majority | - | - |" in text and "a title" in text and "color" in text
    assert (tmp_path / "table.csv").read_text().count("\n") == len(long) + 1
    assert results_table(rows, "a title").row_count == 4 * 4 + 2
    json.dumps(rows)


@pytest.mark.parametrize("of_city", [{}, {"qaa": 4.9, "ne_m": 99.9, "ne_l1_m": 99.9, "num_steps": 9}])
def test_a_long_name_leaves_every_number_of_a_table_to_be_read(rows: list[dict], of_city: dict) -> None:
    long = [row | {"agent": "somebody who walks on and on, then looks about"} | of_city for row in of(rows, "forward")]
    narrow = Console(width=80, record=True, file=io.StringIO())
    narrow.print(results_table(long, "a title"))
    text = narrow.export_text()
    assert "…" not in text and "somebo" in text
    assert f"{np.mean([r['d_T'] for r in long if r['spawn'] == 'T-10']):.2f}" in text


def test_an_answer_of_another_kind_is_never_given(evaluation: Evaluation) -> None:
    answers, asked = evaluation.agent.vocabulary.answers, [e.question for e in evaluation.demos.episodes]
    prior = evaluation.agent.vocabulary.log_prior(asked)

    class Always(nn.Module):
        def __init__(self, answer: str) -> None:
            super().__init__()
            self.scores = torch.eye(len(answers))[answers.index(answer)]

        def forward(self, features: object, questions: torch.Tensor, mask: object) -> torch.Tensor:
            return self.scores.repeat(len(questions), 1)

    for answer in answers:
        said = [one["predicted"] for one in evaluation._answers(Always(answer), evaluation.demos.episodes, prior)]
        assert said == ["white" if question.startswith("what color") else "living room" for question in asked]
