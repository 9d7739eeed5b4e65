"""The commands of the README, typed at scale=tiny: they make what they promise, use it again, and go on when killed."""

import csv
import json
import signal
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch

from eqa.data.demonstrations.spawn_settings import SPAWN_SETTINGS
from tests.helpers.bench import Bench

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def trained(bench: Bench) -> Path:
    output = bench.run(*bench.train("first"))
    assert "PACMAN+Q" in output and str(bench.runs / "first").replace("\n", "") in output.replace("\n", "")
    return bench.runs / "first"


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_folder_holds_what_the_readme_promises(trained: Path) -> None:
    for name in (
        "agent.ckpt",
        "run.json",
        "metrics.jsonl",
        "table.md",
        "table.csv",
        "curves_navigator.png",
        "curves_answerer.png",
    ):
        assert (trained / name).stat().st_size > 0, name
    assert list((trained / "plans").glob("*.png")) and list((trained / "films").glob("*.gif"))
    walked = [r for r in rows(trained) if r["spawn"] is not None]
    oracles = {"shortest path", "best view"}
    scripted, trained_lines = {"random walk", "forward only", "nearest frontier"}, {"PACMAN+Q", "PACMAN+Q, looks round"}
    assert {r["agent"] for r in walked} == scripted | trained_lines | oracles
    assert {r["spawn"] for r in walked} == set(SPAWN_SETTINGS)
    assert all(r["d_T"] == 0 and r["stop"] for r in walked if r["agent"] in oracles and r["ep_len"] < 100)
    with (trained / "table.csv").open() as file:
        assert {"d_T", "d_delta", "d_min", "r_T", "r_e", "stop", "rank", "correct"} <= {
            e["metric"] for e in csv.DictReader(file)
        }


def test_a_second_run_uses_the_data_again_and_gives_the_same_numbers(bench: Bench, trained: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in bench.data.rglob("*") if p.is_file()}
    bench.run(*bench.train("second"))
    assert {p: p.stat().st_mtime_ns for p in bench.data.rglob("*") if p.is_file()} == before
    assert rows(bench.runs / "second") == rows(trained)


def test_eval_writes_the_table_that_training_ended_with(bench: Bench, trained: Path) -> None:
    folder = bench.runs / "eval"
    words = [f"checkpoint={trained / 'agent.ckpt'}", "scale=tiny", f"hydra.run.dir={folder}"]
    bench.run("eval.py", *words, "lines=all", "spawns=all")
    assert rows(folder) == rows(trained)
    assert (folder / "table.md").read_text() == (trained / "table.md").read_text()
    record, of_training = (json.loads((path / "run.json").read_text()) for path in (folder, trained))
    assert record["name"] == of_training["name"] and of_training["data"].items() <= record["data"].items()
    assert "expected one of" in bench.run("eval.py", *words, "split=tset", fails=True)


def test_eval_holds_an_agent_against_itself_stopping_otherwise(bench: Bench, trained: Path) -> None:
    checkpoint, folder = trained / "agent.ckpt", bench.runs / "eval_odds"
    words = [f"checkpoint={checkpoint}", f"compare_with={checkpoint}", "scale=tiny", "lines=own"]
    bench.run("eval.py", *words, "stop_odds=0.01", f"hydra.run.dir={folder}")
    stops = {
        name: [r["stop"] for r in rows(folder) if r["agent"] == name] for name in {r["agent"] for r in rows(folder)}
    }
    assert stops.keys() == {"PACMAN+Q", "PACMAN+Q, stop_odds 0.01"}
    assert sum(stops["PACMAN+Q"]) > sum(stops["PACMAN+Q, stop_odds 0.01"])
    assert {(r["variant_of"], r["stop_odds"]) for r in rows(folder) if r["agent"] != "PACMAN+Q"} == {("PACMAN+Q", 0.01)}
    assert "stop_odds 0.01" in (folder / "differences.md").read_text()
    assert "stop_odds: expected a number above 0" in bench.run("eval.py", *words, "stop_odds=0", fails=True)


def test_fine_tuning_ends_with_what_it_changed_against_its_start_as_ready_to_stop(bench: Bench, trained: Path) -> None:
    folder = bench.runs / "fine_tuned"
    words = ["+experiment=ppo", "scale=tiny", f"checkpoint={trained / 'agent.ckpt'}", f"hydra.run.dir={folder}"]
    answering = ["stages.navigator.model.answerer_lr=0.1", "on_finish.also_at=[10,1]"]
    bench.run("train.py", *words, *answering, "+stages.navigator.model.options.stop_odds=10")
    tuned, starts = "PACMAN-RL+Q, PPO", ("PACMAN+Q, stop_odds 10", "PACMAN+Q, stop_odds 1")
    lines = {
        agent: [row for row in rows(folder) if row["agent"] == agent] for agent in (r["agent"] for r in rows(folder))
    }
    assert lines.keys() == {tuned, *starts, *(f"{start}: {tuned}" for start in starts)}
    written = (folder / "differences.md").read_text()
    assert {row["finetuned_from"] for row in lines[tuned]} == {"PACMAN+Q"}
    for start in starts:  # with its own answers, and with those of the answerer that learned as well
        own, mixed = lines[start], lines[f"{start}: {tuned}"]
        assert [row["poses"] for row in own] == [row["poses"] for row in mixed]
        assert [row["rank"] for row in own] != [row["rank"] for row in mixed]
        assert {(row["walked_by"], row["answered_by"]) for row in mixed} == {(start, tuned)}
        assert {row["variant_of"] for row in own} == {"PACMAN+Q"}
        assert all(f"| {tuned} | {other} |" in written for other in (start, f"{start}: {tuned}"))
    assert list((folder / "navigator" / "plans").glob("*/*.png"))


def test_an_agent_learns_when_to_stop_and_its_walks_are_those_of_its_start_until_then(
    bench: Bench, trained: Path
) -> None:
    folder = bench.runs / "learned_stop"
    words = ["+experiment=rl_finetune", "scale=tiny", f"checkpoint={trained / 'agent.ckpt'}", f"hydra.run.dir={folder}"]
    bench.run("train.py", *words, "on_finish.also_at=[]")
    tuned, start = (
        {(row["spawn"], row["episode_id"]): row for row in rows(folder) if row["agent"] == name}
        for name in ("PACMAN-RL+Q, learned stop", "PACMAN+Q")
    )
    assert tuned.keys() == start.keys() and {row["finetuned_from"] for row in tuned.values()} == {"PACMAN+Q"}
    for key, row in tuned.items():
        alike = min(len(row["actions"]), len(start[key]["actions"])) - 1
        assert row["actions"][:alike] == start[key]["actions"][:alike] and len(row["actions"]) <= 40
        assert row["stop"] == 1
    assert "PACMAN-RL+Q, learned stop" in (folder / "differences.md").read_text()
    again = bench.runs / "eval_learned_stop"
    bench.run("eval.py", f"checkpoint={folder / 'agent.ckpt'}", "scale=tiny", "lines=own", f"hydra.run.dir={again}")
    assert [row["actions"] for row in rows(again)] == [row["actions"] for row in tuned.values()]


def test_an_agent_of_cities_learns_when_to_stop_there(bench: Bench) -> None:
    imitated, tuned = bench.runs / "city", bench.runs / "city_stop"
    words = ["env=city", "scale=tiny"]
    bench.run("train.py", "+experiment=il", *words, f"hydra.run.dir={imitated}")
    bench.run(
        "train.py", "+experiment=rl_finetune", *words, f"checkpoint={imitated / 'agent.ckpt'}", f"hydra.run.dir={tuned}"
    )
    assert "PACMAN+Q" in {row["agent"] for row in rows(imitated)}
    assert {"PACMAN-RL+Q, learned stop", "PACMAN+Q"} <= {row["agent"] for row in rows(tuned)}


def test_an_answerer_that_learned_where_the_agent_ends_is_held_against_its_own_on_the_same_walks(
    bench: Bench, trained: Path
) -> None:
    folder = bench.runs / "answerer_rollouts"
    words = [
        "+experiment=answerer_rollouts",
        "scale=tiny",
        f"checkpoint={trained / 'agent.ckpt'}",
        f"hydra.run.dir={folder}",
        "on_finish.spawns=all",
    ]
    bench.run("train.py", *words)
    new, old = (
        [row for row in rows(folder) if row["agent"] == name] for name in ("PACMAN+Q, on-policy answerer", "PACMAN+Q")
    )
    assert {row["variant_of"] for row in new} == {"PACMAN+Q"} and {row["variant_of"] for row in old} == {None}
    assert len(new) + len(old) == len(rows(folder)) and [row["poses"] for row in new] == [row["poses"] for row in old]
    before = [(row["episode_id"], row["rank"]) for row in rows(trained) if row["agent"] == "PACMAN+Q"]
    assert before == [(row["episode_id"], row["rank"]) for row in old]
    assert before != [(row["episode_id"], row["rank"]) for row in new]


def test_play_serves_the_questions_and_the_runs_walks_to_who_has_the_address_and_ends_when_told(
    bench: Bench, trained: Path
) -> None:
    words = ["scripts/play.py", "scale=tiny", "--run", str(trained), "--out", str(bench.runs / "human")]
    process = bench.start(*words, "--spawn", "random")
    try:
        url = next(line for line in process.stdout if line.startswith("http")).strip()
        state, listed = (json.load(urlopen(url.replace("/?", f"/{name}?"))) for name in ("state", "rows"))
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    played = [row for row in rows(trained) if (row["agent"], row["spawn"]) == ("PACMAN+Q", "random")]
    assert state["phase"] == "ready" and state["left"] == len(played) > 0
    assert listed["fit"] == sum(row["poses"] is not None for row in rows(trained))
    assert "no walks in" in output and process.returncode == 0


def test_a_killed_run_goes_on_from_its_last_epoch(bench: Bench, trained: Path) -> None:
    process = bench.start(*bench.train("killed"))
    last = bench.runs / "killed" / "answerer" / "last.ckpt"
    deadline = time.monotonic() + 600
    while not last.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert last.exists() and not (bench.runs / "killed" / "finished").exists()
    navigator = (bench.runs / "killed" / "navigator" / "last.ckpt").read_bytes()
    bench.run(*bench.train("killed"))
    assert (bench.runs / "killed" / "finished").exists()
    assert (bench.runs / "killed" / "navigator" / "last.ckpt").read_bytes() == navigator
    assert {r["agent"] for r in rows(bench.runs / "killed")} == {r["agent"] for r in rows(trained)}


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None])
def test_what_is_no_agent_is_refused_before_any_work(bench: Bench, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "agent.ckpt"
    if content is None:
        torch.save({"state_dict": {}}, path)
    else:
        path.write_bytes(content)
    output = bench.run("eval.py", f"checkpoint={path}", f"hydra.run.dir={tmp_path / 'run'}", fails=True)
    assert "Traceback" not in output and "agent.ckpt" in output and not (tmp_path / "run").exists()
