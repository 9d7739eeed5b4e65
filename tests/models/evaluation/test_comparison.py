"""The report over several runs: what its cells say, what it refuses, and that its files can be read."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

from eqa.models.agents.relations import Relations
from eqa.models.evaluation.comparison import (
    default_pairs,
    differences,
    distances_by_step,
    estimates,
    gather,
    in_order,
    nearest_pairs,
    paper_estimates,
)
from eqa.models.evaluation.human import LINE
from eqa.models.evaluation.plots import MOST_LINES, REFERENCE, draw_training, in_pictures, mean_curves, once_each
from eqa.models.evaluation.run_tables import intervals
from eqa.models.evaluation.runs import keep, read_run, read_runs
from eqa.models.evaluation.tables import tex
from eqa.scripts.report import own_folder, refuse_tracked, report

SPAWNS = ("T-10", "T-50 random heading")
WALKED = ("d_0", "d_T", "d_delta", "d_min", "r_T", "r_e", "stop", "seen", "ep_len", "success", "spl", "collisions")


def row(agent: str, spawn: str | None, number: int, *, d_T: float = 1.0, **other: object) -> dict:
    """Question `number`, two of them in each house; who has no spawn does not walk."""
    d_0 = 2.0 + number
    about = {"agent": agent, "spawn": spawn, "episode_id": f"q{number}", "scene_id": f"house-{number // 2}"}
    about |= {"question_type": ("color", "location")[number % 2], "question": f"which {number}?", "answer": "red"}
    walked = dict.fromkeys([*WALKED, "actions", "poses", "distances"])
    if spawn is not None:
        walked = dict.fromkeys(WALKED, 0.5) | {"d_0": d_0, "d_T": d_T, "d_delta": d_0 - d_T}
        walked |= {"actions": [0, 3], "poses": [[0, 0, 0, 0]] * 3, "distances": [d_0, (d_0 + d_T) / 2, d_T]}
        walked["ep_len"] = 2.0
    return about | walked | {"predicted": "red", "correct": 1.0, "rank": 1.0} | other


def rows_of(
    agent: str, d_T: Iterable[float] = (1.0, 2.0, 1.0, 0.5), spawns: Iterable[str | None] = SPAWNS
) -> list[dict]:
    return [row(agent, spawn, number, d_T=value) for spawn in spawns for number, value in enumerate(d_T)]


def run(folder: Path, rows: list[dict], *, row_name: str = "PACMAN+Q", seed: int = 0, **record: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    configuration = {"seed": seed, "run_folder": str(folder), "stages": {"navigator": {"lr": 1e-3}}}
    configuration["agent"] = {"path": f"{folder}/agent.ckpt"}
    configuration["stages"]["answerer"] = {"data": {"folder": f"{folder}/answerer/rollouts"}}
    described = {"name": row_name, "seed": seed, "commit": "0123456789", "command": "python train.py"}
    described |= {"configuration": configuration, "data": {"questions": "abc", "demonstrations": {"test": "def"}}}
    (folder / "run.json").write_text(json.dumps(described | record))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two seeds of PACMAN+Q beside who does not learn and who only hears, and one run of another row."""
    heard = rows_of("question only", spawns=[None])
    others = rows_of("random walk", d_T=(3.0, 3.0, 4.0, 5.0)) + heard
    folders = [
        run(tmp_path / "il", rows_of("PACMAN+Q") + others),
        run(tmp_path / "il_seed-1", rows_of("PACMAN+Q", d_T=(2.0, 3.0, 2.0, 1.5)) + others, seed=1),
        run(tmp_path / "odd", rows_of("100% odd|_name_"), row_name="100% odd|_name_"),
    ]
    for folder in folders:
        logs = folder / "navigator" / "log" / "version_0"
        logs.mkdir(parents=True)
        (logs / "metrics.csv").write_text("epoch,step,train/loss,val/loss\n0,1,,2.0\n0,1,2.5,\n1,2,,1.5\n1,2,1.6,\n")
    return folders


def test_a_report_of_other_lines_is_not_written_over_unless_that_is_said(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    report(runs, out, resamples=50)
    before = (out / "results.md").read_text()
    with pytest.raises(ValueError, match=r"--out .*out: expected no report.*'100% odd\|_name_'.*--force"):
        report(runs[:2], out, resamples=50)
    assert (out / "results.md").read_text() == before
    report(runs, out, resamples=50)
    report(runs[:2], out, resamples=50, force=True)
    assert (out / "results.md").read_text() != before


def test_rows_of_older_versions_are_read_as_lines_of_today_s_names(tmp_path: Path) -> None:
    old = run(tmp_path / "old", rows_of("PACMAN+Q, own ends", spawns=("T-10", "T-30 turned", "random")))
    read = read_run(old)
    assert [spawn for _, spawn in read.lines] == ["T-10", "T-30 random heading", "random"]
    assert {agent for agent, _ in read.lines} == {"PACMAN+Q, on-policy answerer"} and read.name == "PACMAN+Q"
    assert read_run(keep(old, tmp_path / "kept")).lines.keys() == read.lines.keys()


def found(entries: list[dict], **where: object) -> dict:
    (entry,) = (e for e in entries if all(e[name] == value for name, value in where.items()))
    return entry


def test_a_line_is_the_mean_over_questions_and_seeds_and_the_ratio_one_of_means(runs: list[Path]) -> None:
    entries = estimates(gather(read_runs(runs)))
    d_T = found(entries, agent="PACMAN+Q", spawn="T-10", metric="d_T")
    assert d_T["mean"] == pytest.approx(1.625) and d_T["seed_sd"] == pytest.approx(np.sqrt(0.5))
    assert d_T["low"] < 1.625 < d_T["high"]
    assert (d_T["questions"], d_T["houses"], d_T["seeds"]) == (4, 2, 2)
    ratio = found(entries, agent="PACMAN+Q", spawn="T-10", metric="ratio")["mean"]
    assert ratio == pytest.approx((3.5 - 1.625) / 3.5)
    assert np.isnan(found(entries, agent="100% odd|_name_", spawn="T-10", metric="d_T")["seed_sd"])
    color = found(entries, agent="question only", spawn=None, metric="correct", question_type="color")
    assert (color["mean"], color["questions"]) == (1.0, 2)


def test_differences_are_between_the_same_questions_and_say_whether_zero_is_excluded(runs: list[Path]) -> None:
    lines = gather(read_runs(runs))
    entries = differences(lines, [("PACMAN+Q", "random walk"), ("question only", "PACMAN+Q")])
    nearer = found(entries, agent="PACMAN+Q", spawn="T-10", metric="d_T")
    assert nearer["difference"] == pytest.approx(1.625 - 3.75) and nearer["excludes_zero"]
    assert not found(entries, agent="PACMAN+Q", spawn="T-10", metric="success")["excludes_zero"]
    assert {e["metric"] for e in entries if e["agent"] == "question only"} == {"rank", "correct"}


def of_seeds(folder: Path, d_T: dict[str, dict[int, tuple]], *, spawns: Iterable[str | None] = ("T-10",)) -> list[Path]:
    """A run for each line and seed, with the metres that its four walks end from their targets."""
    return [
        run(folder / f"{agent}-{seed}", rows_of(agent, metres, spawns), row_name=agent, seed=seed)
        for agent, by_seed in d_T.items()
        for seed, metres in by_seed.items()
    ]


def test_lines_are_compared_over_the_seeds_that_both_have(tmp_path: Path) -> None:
    pacman = {0: (1.0, 1.0, 1.0, 1.0), 1: (4.0, 4.0, 4.0, 4.0), 2: (4.0, 4.0, 4.0, 4.0)}
    lstm = {0: (1.0, 1.0, 1.0, 1.0)}
    lines = gather(read_runs(of_seeds(tmp_path, {"PACMAN+Q": pacman, "LSTM+Q": lstm})))
    entry = found(differences(lines, [("PACMAN+Q", "LSTM+Q")]), metric="d_T")
    assert (entry["difference"], entry["seeds"]) == (0.0, 1)  # 2.0 where the one seed is held against the mean of three
    apart = of_seeds(tmp_path / "apart", {"PACMAN+Q": {1: pacman[1]}, "LSTM+Q": lstm})
    assert differences(gather(read_runs(apart)), [("PACMAN+Q", "LSTM+Q")]) == []


def test_a_difference_of_one_seed_is_not_shown_and_stands_beside_what_trainings_differ_by(tmp_path: Path) -> None:
    far = (3.0, 3.0, 4.0, 4.0)
    walks = {
        "PACMAN+Q": {0: (1.0, 1.0, 1.0, 1.0), 1: (2.0, 2.0, 2.0, 2.0)},
        "LSTM+Q": {0: far},
        "forward only": {0: far},
    }
    lines = gather(read_runs(of_seeds(tmp_path, walks)))
    entries = differences(lines, [("LSTM+Q", "PACMAN+Q"), ("PACMAN+Q", "forward only")])
    alone = found(entries, agent="LSTM+Q", metric="d_T")
    assert alone["excludes_zero"] and not alone["shown"] and alone["seeds"] == 1
    assert alone["seed_sd"] == pytest.approx(np.sqrt(2) * np.sqrt(0.5))  # of two trainings, as PACMAN+Q's two differ
    by_rule = found(entries, agent="PACMAN+Q", metric="d_T")  # forward only walks alike for every seed
    assert (by_rule["seeds"], by_rule["difference"], by_rule["shown"]) == (2, -2.0, False)
    assert by_rule["seed_sd"] == pytest.approx(np.sqrt(0.5))
    answers = found(entries, agent="PACMAN+Q", metric="correct")
    assert answers["seeds"] == 1  # its answers are those of seed 0's answerer


def test_three_seeds_or_no_training_at_all_show_a_difference(tmp_path: Path) -> None:
    far = (3.0, 3.0, 4.0, 4.0)
    near = {seed: (1.0 + 0.1 * seed,) * 4 for seed in range(3)}
    walks = {"PACMAN+Q": near, "forward only": {0: far}, "random walk": {0: tuple(1 + metres for metres in far)}}
    lines = gather(read_runs(of_seeds(tmp_path, walks)))
    entries = differences(lines, [("PACMAN+Q", "forward only"), ("random walk", "forward only")])
    learned = found(entries, agent="PACMAN+Q", metric="d_T")
    assert (learned["seeds"], learned["shown"]) == (3, True) and learned["difference"] == pytest.approx(1.1 - 3.5)
    by_rule = found(entries, agent="random walk", metric="d_T")
    assert (by_rule["seeds"], by_rule["difference"], by_rule["shown"]) == (0, 1.0, True) and np.isnan(
        by_rule["seed_sd"]
    )


def test_three_seeds_that_disagree_show_nothing_where_one_alone_would(tmp_path: Path) -> None:
    ends = {0: (1.0, 1.0, 1.0, 1.0), 1: (3.0, 3.0, 3.0, 3.0), 2: (1.6, 1.6, 1.6, 1.6)}
    walks = {"PACMAN+Q": ends, "LSTM+Q": dict.fromkeys(range(3), (2.0, 2.0, 2.0, 2.0))}
    entry = found(differences(gather(read_runs(of_seeds(tmp_path, walks))), [("PACMAN+Q", "LSTM+Q")]), metric="d_T")
    assert entry["difference"] == pytest.approx(-0.4 / 3) and not entry["excludes_zero"]
    assert entry["low"] < -0.5 and entry["high"] > 0.5


def test_a_number_has_one_interval_in_a_run_s_own_table_and_in_the_report(tmp_path: Path) -> None:
    d_T = (1.0, 1.2, 3.0, 3.1, 0.5, 0.4, 2.0, 2.2)  # alike within a house
    rows = rows_of("PACMAN+Q", d_T, spawns=["T-10"])
    entry = found(estimates(gather(read_runs([run(tmp_path / "il", rows)]))), metric="d_T")
    own = found(intervals(rows), metric="d_T", question_type="all")
    assert (own["low"], own["high"]) == pytest.approx((entry["low"], entry["high"]))


def test_who_only_hears_is_held_against_walkers_over_the_questions_of_their_spawn(tmp_path: Path) -> None:
    heard = [row("question only", None, n, correct=float(n > 0), rank=2.0) for n in range(4)]
    walked = [row("PACMAN+Q", "T-50", n, correct=0.0) for n in (3, 1)]
    lines = gather(read_runs([run(tmp_path / "il", walked + heard)]))
    entry = found(differences(lines, [("question only", "PACMAN+Q")]), metric="correct", spawn="T-50")
    assert (entry["difference"], entry["questions"]) == (1.0, 2)


def test_rows_are_paired_by_question_whatever_their_order(tmp_path: Path) -> None:
    first, second = rows_of("PACMAN+Q", spawns=["T-10"]), rows_of("LSTM+Q", spawns=["T-10"])
    folders = [run(tmp_path / "a", first), run(tmp_path / "b", second[::-1], row_name="LSTM+Q")]
    entry = found(differences(gather(read_runs(folders)), [("PACMAN+Q", "LSTM+Q")]), metric="d_T")
    assert (entry["low"], entry["difference"], entry["high"]) == pytest.approx((0.0, 0.0, 0.0))


def test_default_differences_are_the_ablations_and_everyone_against_pacman_once() -> None:
    agents = ["random walk", "forward only", "LSTM", "LSTM+Q", "PACMAN+Q", "Reactive", "shortest path"]
    pairs = default_pairs(agents, {})
    assert {("LSTM", "Reactive"), ("LSTM+Q", "LSTM"), ("PACMAN+Q", "LSTM+Q"), ("shortest path", "PACMAN+Q")} <= set(
        pairs
    )
    assert ("PACMAN+Q", "random walk") in pairs and ("random walk", "PACMAN+Q") not in pairs
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)


def test_differences_follow_the_relations_of_lines_whatever_their_names_are() -> None:
    relations = {
        "odd": Relations(variant_of="PACMAN+Q"),
        "late": Relations(variant_of="odd", stop_odds=10.0),
        "tuned": Relations(variant_of="other", finetuned_from="odd"),
        "both": Relations(walked_by="late", answered_by="tuned"),
        "answers": Relations(walked_by="shortest path", answered_by="odd"),
    }
    names = ["PACMAN+Q", "PACMAN+Q, plain: name", "shortest path", *relations]
    expected = [("tuned", "odd"), ("tuned", "late"), ("both", "late"), ("tuned", "both")]
    expected += [("odd", "PACMAN+Q"), ("late", "odd"), ("answers", "shortest path")]
    assert nearest_pairs(names, relations) == expected
    assert nearest_pairs(names, {}) == []


def test_variants_stand_below_what_they_vary_and_a_name_alone_says_nothing() -> None:
    relations = {
        "b": Relations(variant_of="PACMAN+Q"),
        "c": Relations(variant_of="b"),
        "tuned": Relations(variant_of="PACMAN-RL+Q", finetuned_from="b"),
        "d": Relations(walked_by="shortest path", answered_by="b"),
        "circle": Relations(variant_of="circle"),
    }
    order = [
        "forward only",
        "PACMAN+Q",
        "b",
        "c",
        "tuned",
        "PACMAN+Q, a",
        "circle",
        LINE,
        "shortest path",
        "d",
        "majority",
    ]
    assert in_order(["PACMAN+Q, a", *sorted(order, key=len)], relations) == order


def related(rows: list[dict], **relations: object) -> list[dict]:
    return [one | relations for one in rows]


def test_relations_are_read_from_rows_in_today_s_words_and_kept(tmp_path: Path) -> None:
    rows = related(rows_of("odd"), variant_of="PACMAN+Q, own ends", finetuned_from="PACMAN+Q", stop_odds=10.0)
    folder = run(tmp_path / "il", rows + rows_of("LSTM"))
    wanted = Relations(variant_of="PACMAN+Q, on-policy answerer", finetuned_from="PACMAN+Q", stop_odds=10.0)
    for one in (folder, keep(folder, tmp_path / "kept")):
        assert read_run(one).relations == {"odd": wanted, "LSTM": Relations()}
        assert gather([read_run(one)]).relations == {"odd": wanted}


def test_a_walk_by_rule_is_untrained_under_any_name_and_another_s_answers(tmp_path: Path) -> None:
    def counted(folder: Path, **relations: object) -> int:
        runs = of_seeds(folder, {"PACMAN+Q": {0: (1.0,) * 4, 1: (2.0,) * 4}})
        lines = gather(read_runs([*runs, run(folder / "x", related(rows_of("x"), **relations), row_name="x")]))
        return found(differences(lines, [("PACMAN+Q", "x")]), metric="d_T", spawn="T-10")["seeds"]

    assert counted(tmp_path / "plain") == 1
    assert counted(tmp_path / "by_rule", walked_by="shortest path", answered_by="PACMAN+Q") == 2


def test_runs_that_say_different_things_of_a_line_are_refused_and_old_ones_say_nothing(tmp_path: Path) -> None:
    first = run(tmp_path / "a", related(rows_of("odd"), variant_of="PACMAN+Q"))
    other = run(tmp_path / "b", related(rows_of("odd"), variant_of="LSTM+Q"), seed=1)
    with pytest.raises(ValueError, match=r"b: odd: variant_of: expected 'PACMAN\+Q' as in .*a, got 'LSTM\+Q'"):
        read_runs([first, other])
    old = run(tmp_path / "old", rows_of("odd"), seed=2)
    for folders in ([first, old], [old, first]):
        assert gather(read_runs(folders)).relations == {"odd": Relations(variant_of="PACMAN+Q")}


def test_a_run_given_twice_counts_once(runs: list[Path], tmp_path: Path) -> None:
    again = run(tmp_path / "again", rows_of("PACMAN+Q"))
    entries = estimates(gather(read_runs([*runs, again])))
    assert found(entries, agent="PACMAN+Q", spawn="T-10", metric="d_T")["seeds"] == 2


def test_runs_without_a_record_are_seeds_of_their_own(runs: list[Path]) -> None:
    for folder in runs:
        (folder / "run.json").unlink()
    entries = estimates(gather(read_runs(runs)))
    assert found(entries, agent="PACMAN+Q", spawn="T-10", metric="d_T")["seeds"] == 2


def test_walks_that_differ_in_their_answers_alone_are_drawn_once() -> None:
    walks = {"random walk": 1, "PACMAN+Q": 2, "mixed, odd name": 4, "PACMAN+Q, odd": 2, "shortest path": 3}
    relations = {"mixed, odd name": Relations(walked_by="shortest path", answered_by="PACMAN+Q, odd")}
    assert once_each(walks, relations) == ["random walk", "PACMAN+Q", "shortest path"]


@pytest.mark.parametrize("number", [0, 1, 5, 6, 14])
def test_a_picture_has_five_lines_at_most_and_every_agent_is_in_one(number: int) -> None:
    agents = [f"agent {n}" for n in range(number)]
    agents.insert(number // 2, REFERENCE)
    pictures = in_pictures(agents)
    assert max(map(len, pictures)) <= MOST_LINES and set(agents) == {agent for shown in pictures for agent in shown}
    assert all(REFERENCE in shown and shown == sorted(shown, key=agents.index) for shown in pictures)
    without = in_pictures([agent for agent in agents if agent != REFERENCE])
    assert sum(map(len, without)) == number and max(map(len, without), default=0) <= MOST_LINES


def test_a_training_curve_is_the_mean_over_the_runs_that_have_an_epoch() -> None:
    first = {"loss": {"val": [(0.0, 1.0), (1.0, 3.0)], "time": [(0.0, 9.0)]}}
    second = {"loss": {"val": [(0.0, 8.0), (0.0, 2.0)]}}  # its epoch 0 was logged again after a cut
    assert mean_curves([first, second]) == {("loss", "val"): [(0.0, 1.5), (1.0, 3.0)]}


def test_what_was_learned_by_walking_has_a_picture_of_its_own(runs: list[Path], tmp_path: Path) -> None:
    log = runs[2] / "navigator" / "log" / "version_0" / "metrics.csv"
    log.write_text("epoch,step,train/reward,time/learn\n0,1,2.0,3.0\n1,2,2.5,3.0\n")
    paths = draw_training(read := read_runs(runs), gather(read), tmp_path)
    assert [path.name for path in paths] == ["results-training-navigator.png", "results-training-walking.png"]


OTHER_DATA = {"questions": "abc", "demonstrations": {"test": "other"}}
OTHER_SETTINGS = {
    "seed": 2,
    "run_folder": "elsewhere",
    "agent": {},
    "stages": {"navigator": {"lr": 5e-4}, "answerer": {}},
}


@pytest.mark.parametrize(
    ("rows", "record", "complaint"),
    [
        (rows_of("LSTM")[:-1], {}, r"LSTM at T-50 random heading: expected the 4 questions of .*il, PACMAN\+Q.* 1 \(q3\) missing, 0 not"),
        ([row("LSTM", "T-10", n, question="what?") for n in range(4)], {}, "LSTM at T-10: expected the 4 questions"),
        (rows_of("PACMAN+Q", d_T=(1.0, 2.0, 1.0, 0.6)), {}, r"seed 0: expected the numbers of .*il.*d_T \(0.5 there, 0.6 here\)"),
        (rows_of("LSTM"), {"row_name": "LSTM", "data": {"questions": "xyz"}}, "data.questions: expected the fingerprint of .*, abc, got xyz"),
        (rows_of("PACMAN+Q"), {"seed": 2, "data": OTHER_DATA}, "data.demonstrations.test: expected the fingerprint of .*il, def, got other"),
        (rows_of("PACMAN+Q"), {"seed": 2, "configuration": OTHER_SETTINGS}, r"stages.navigator.lr: 0.001 there, 0.0005 here"),
        ([row("LSTM", 10, 0)], {}, r'metrics.jsonl:1: spawn: expected a name such as "T-10", or null, got 10'),
        ([row("LSTM", "T-10", 0), row("LSTM", "T-10", 0)], {}, "expected each question once for LSTM at T-10, got q0 again"),
        ([row("LSTM", "T-10", 0, distances=[1.0])], {}, "distances: expected one for each of 3 poses, got 1"),
        ([row("LSTM", "T-10", 0, d_min="near")], {}, "d_min: expected a number or null, got 'near'"),
        ([row("LSTM", "T-10", 0, variant_of=3)], {}, "variant_of: expected a line's name or null, got 3"),
        ([row("LSTM", "T-10", 0), row("LSTM", "T-10", 1, variant_of="x")], {}, "expected the relations of LSTM's first row"),
        ([{"agent": "LSTM"}], {}, "got a row without spawn, episode_id"),
        ([], {}, "expected rows, got an empty file"),
    ],
)  # fmt: skip
def test_what_cannot_stand_in_one_table_is_refused(runs, tmp_path, rows, record, complaint) -> None:
    other = run(tmp_path / "other", rows, **record)
    with pytest.raises(ValueError, match=complaint):
        read_runs([runs[0], other])


def test_rows_may_differ_in_their_encoders_and_checkpoints(runs: list[Path], tmp_path: Path) -> None:
    other = run(tmp_path / "other", rows_of("LSTM"), row_name="LSTM", data=OTHER_DATA | {"checkpoint": "of it"})
    assert len(read_runs([runs[0], other])) == 2


def test_seeds_of_a_line_may_play_other_lines_beside_it(tmp_path: Path) -> None:
    folders = [
        run(tmp_path / f"{seed}", rows_of("PACMAN+Q"), seed=seed, configuration={"on_finish": {"also_at": odds}})
        for seed, odds in ((1, [10]), (2, []))
    ]
    assert len(read_runs(folders)) == 2


def test_kept_rows_give_the_same_report_and_are_smaller(runs: list[Path], tmp_path: Path) -> None:
    kept = [keep(folder, tmp_path / "kept") for folder in runs]
    assert [folder.name for folder in kept] == [folder.name for folder in runs]
    for folders, out in ((runs, "of_runs"), (kept, "of_kept")):
        report(folders, tmp_path / out)
    for name in ("results.csv", "results-differences.csv", "results-ratio.png", "results-training-navigator.png"):
        assert (tmp_path / "of_runs" / name).read_bytes() == (tmp_path / "of_kept" / name).read_bytes()
    for place, played in read_run(runs[0]).lines.items():
        for episode, one in played.items():
            other = read_run(kept[0]).lines[place][episode].distances
            assert one.distances is other is None or np.allclose(one.distances, other, rtol=0, atol=0.0501)
    assert str(tmp_path) not in (kept[0] / "run.json").read_text()
    size = sum(path.stat().st_size for path in kept[0].rglob("metrics.jsonl*"))
    assert size < (runs[0] / "metrics.jsonl").stat().st_size / 4
    assert (
        keep(runs[0], tmp_path / "again").joinpath("metrics.jsonl.xz").read_bytes()
        == (kept[0] / "metrics.jsonl.xz").read_bytes()
    )


def test_kept_walks_pass_through_every_fifth_distance_and_end_where_they_ended(tmp_path: Path) -> None:
    walks = [np.arange(6.0) ** 2, np.arange(13.0) ** 2, np.ones(1)]
    rows = [
        row("PACMAN+Q", "T-10", n, d_T=walk[-1], ep_len=len(walk) - 1.0, distances=walk.tolist(), poses=None)
        for n, walk in enumerate(walks)
    ]
    played = read_run(keep(run(tmp_path / "il", rows), tmp_path / "kept")).lines["PACMAN+Q", "T-10"]
    for number, walk in enumerate(walks):
        found = played[f"q{number}"].distances
        assert len(found) == len(walk) and np.allclose(found[::5], walk[::5]) and found[-1] == walk[-1]


def test_a_kept_run_differs_in_nothing_from_the_run(tmp_path: Path) -> None:
    folder = run(tmp_path / "il", [row("PACMAN+Q", "T-10", n, d_T=n / 7, spl=1 / 3) for n in range(8)])
    read_runs([folder, keep(folder, tmp_path / "kept")])  # refuses other numbers of one seed


def test_what_a_run_took_stands_beside_its_command(tmp_path: Path) -> None:
    stages = {name: {"time_s": seconds, "memory_gb": 2.0} for name, seconds in (("data", 4.2), ("navigator", 706.3))}
    one = run(tmp_path / "il", rows_of("PACMAN+Q"), stages=stages, memory_gb=4.04, machine="a laptop")
    report([one], tmp_path / "out")
    assert "| navigator 12 | 4.0 | a laptop | python train.py |" in (tmp_path / "out" / "results.md").read_text()


def test_a_file_that_was_cut_off_is_refused(runs: list[Path]) -> None:
    with (runs[0] / "metrics.jsonl").open("a") as file:
        file.write('{"agent": "PACM')
    with pytest.raises(ValueError, match=r"metrics.jsonl:21: expected a JSON object"):
        read_runs(runs)


def test_who_has_stopped_stays_where_it_is_and_old_rows_have_no_curve(runs: list[Path], tmp_path: Path) -> None:
    lines = gather(read_runs(runs))
    metres = distances_by_step(lines, "random walk", "T-10", 5)
    assert metres[0, 0].tolist() == [2.0, 2.5, 3.0, 3.0, 3.0, 3.0]
    old = run(tmp_path / "old", [r | {"distances": None} for r in rows_of("PACMAN+Q")])
    assert distances_by_step(gather(read_runs([old])), "PACMAN+Q", "T-10", 5) is None
    report([old], tmp_path / "out")
    assert not (tmp_path / "out" / "results-distance.png").exists()


def test_the_paper_s_table_is_whole_and_its_ratio_follows() -> None:
    assert LINE in {entry["agent"] for entry in paper_estimates()}  # people stand beside ours
    entries = paper_estimates()
    assert found(entries, agent="PACMAN+Q", spawn="T-10", metric="ratio")["mean"] == pytest.approx(0.16 / 0.62)
    assert found(entries, agent="LSTM+Q", spawn="T-50", metric="d_0")["mean"] == pytest.approx(2.83)
    assert len({(e["agent"], e["spawn"]) for e in entries}) == 8 * 3
    assert not [e for e in entries if e["agent"].startswith("Reactive") and e["metric"] == "stop"]


def test_the_markdown_parses_into_tables_of_even_lines(runs: list[Path], tmp_path: Path) -> None:
    third = run(tmp_path / "il_seed-2", rows_of("PACMAN+Q"), seed=2)  # for what three seeds show is bold
    report([*runs, third], tmp_path / "out")
    text = (tmp_path / "out" / "results.md").read_text()
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    tables = re.findall(r"<table>.*?</table>", html, re.DOTALL)
    assert len(tables) == len(re.findall(r"^\| --- ", text, re.MULTILINE)) == 8
    for table in tables:
        widths = [len(re.findall(r"<t[hd]\b", line)) for line in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)]
        assert len(set(widths)) == 1 and len(widths) > 1
    assert "<td>100% odd|_name_</td>" in tables[0] and "<strong>" in html
    for picture in re.findall(r'<img src="([^"]+)"', html):
        assert (tmp_path / "out" / picture).stat().st_size > 3000
    assert html.count("<img") == 3


def test_latex_is_escaped_and_its_lines_are_even(runs: list[Path], tmp_path: Path) -> None:
    assert tex(r"100% odd_{a}&b\c~$d^#") == (
        r"100\% odd\_\{a\}\&b\textbackslash{}c\textasciitilde{}\$d\textasciicircum{}\#"
    )
    report(runs, tmp_path / "out")
    text = (tmp_path / "out" / "results.tex").read_text()
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", text, re.DOTALL):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1 and len(lines) > 1
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}") and text.count(r"\begin{") == text.count(r"\end{")
    assert not re.search(r"(?<!\\)[#^~]|[^\x00-\x7f]", text) and r"100\% odd|\_name\_" in text


def test_csv_holds_every_number_longer_than_the_tables(runs: list[Path], tmp_path: Path) -> None:
    report(runs, tmp_path / "out")
    with (tmp_path / "out" / "results.csv").open() as file:
        entry = found(list(csv.DictReader(file)), agent="PACMAN+Q", spawn="T-10", metric="ratio")
    assert float(entry["mean"]) == pytest.approx(1.875 / 3.5, abs=5e-6)
    with (tmp_path / "out" / "results-differences.csv").open() as file:
        entry = found(list(csv.DictReader(file)), agent="PACMAN+Q", minus="random walk", spawn="T-10", metric="d_T")
    assert entry["excludes_zero"] == "True"


def test_one_can_ask_for_other_differences_among_agents_that_are_there(runs: list[Path], tmp_path: Path) -> None:
    report(runs, tmp_path / "out", pairs=[("random walk", "100% odd|_name_")])
    with (tmp_path / "out" / "results-differences.csv").open() as file:
        assert {entry["agent"] for entry in csv.DictReader(file)} == {"random walk"}
    with pytest.raises(ValueError, match="got nobody"):
        report(runs, tmp_path / "out", pairs=[("random walk", "nobody")])


def test_reports_on_other_runs_go_to_other_folders_unless_one_is_named() -> None:
    one, more, others = ([Path("runs", name) for name in names.split()] for names in ("il", "il lstm gru", "lstm il"))
    assert len({own_folder(folders) for folders in (one, more, others)}) == 3
    assert own_folder([Path("runs/il/")]) == own_folder(one) == Path("previews/report_il")


def test_the_script_ends_with_the_complaint(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "scripts" / "report.py"
    done = subprocess.run([sys.executable, script, tmp_path / "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("report: ") and "expected a run's folder" in done.stderr


def test_files_that_git_keeps_are_not_written_over_unasked(tmp_path: Path) -> None:
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    for name in ("page.md", "docs/results.csv", "kept/il/run.json", "own.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["git", "-C", str(tmp_path), "add", "page.md", "docs", "kept"], check=True)
    free = {"page": tmp_path / "own.md", "kept": tmp_path / "new", "runs": [Path("runs/il")]}
    refuse_tracked(tmp_path / "previews" / "report_il", **free)
    for out, places, named in (
        ("out", {"page": tmp_path / "page.md"}, "page.md"),
        ("docs", {}, "results.csv"),
        ("out", {"kept": tmp_path / "kept"}, "kept/il"),
    ):
        with pytest.raises(ValueError, match=f"{named}: expected a place for a new file.*--force"):
            refuse_tracked(tmp_path / out, **{**free, **places})
