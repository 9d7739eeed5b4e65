"""`run.json` says all that is needed to repeat a run and what it took, also of a run that was cut off."""

import json
import subprocess
import time

import numpy as np
import pytest

from eqa.models import run_record
from eqa.models.run_record import LOOK_EVERY_S, RunRecord, commit


def record(folder, **changes) -> RunRecord:
    facts = {"name": "PACMAN+Q", "seed": 3, "configuration": {"seed": 3}, "data": {"questions": "abc"}}
    return RunRecord(folder, **{**facts, **changes})


def read(folder) -> dict:
    return json.loads((folder / "run.json").read_text())


def test_the_record_is_whole_from_the_start_and_completed_by_stages(tmp_path):
    one = record(tmp_path)
    start = read(tmp_path)
    with one.stage("navigator"):
        one.write()
        assert set(read(tmp_path)["stages"]) == {"navigator"}
    end = read(tmp_path)
    assert start.keys() == end.keys()
    assert {
        "name": "PACMAN+Q",
        "seed": 3,
        "configuration": {"seed": 3},
        "data": {"questions": "abc"},
    }.items() <= end.items()
    assert end["packages"]["torch"] and end["python"].startswith("3.") and "cores" in end["machine"]
    assert end["stages"]["navigator"].keys() == {"time_s", "memory_gb"}
    assert end["memory_gb"] == end["stages"]["navigator"]["memory_gb"] > 0.05


@pytest.mark.parametrize(
    ("words", "command"),
    [(["/here/train.py", "seed=1"], "python train.py seed=1"), (["/bin/eqa-train", "seed=1"], "eqa-train seed=1")],
)
def test_the_command_is_as_one_would_type_it_again(words, command, tmp_path, monkeypatch):
    monkeypatch.setattr(run_record.sys, "argv", words)
    record(tmp_path)
    assert read(tmp_path)["command"] == command


def test_a_repository_around_an_installed_package_is_not_its_own(tmp_path, monkeypatch):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "site-packages" / "eqa").mkdir(parents=True)
    monkeypatch.setattr(run_record, "ROOT", tmp_path / "site-packages" / "eqa")
    assert commit() == "unknown"


def test_a_resumed_run_adds_up_its_times_and_names_each_commit(tmp_path, monkeypatch):
    clock = iter(np.arange(100, 200, 10.0))
    monkeypatch.setattr(run_record.time, "monotonic", lambda: next(clock))
    for name in ("aaa", "bbb+changes", "bbb+changes"):
        monkeypatch.setattr(run_record, "commit", lambda name=name: name)
        one = record(tmp_path)
        with pytest.raises(KeyboardInterrupt), one.stage("navigator"):
            raise KeyboardInterrupt
        clock = iter(np.arange(100, 200, 10.0))
    found = read(tmp_path)
    # each start reads the clock: made 100, written 110, stage from 120, written at its end 130, total 140
    assert found["stages"]["navigator"]["time_s"] == 3 * 10 and found["time_s"] == 3 * 40
    assert found["commit"] == "aaa, then bbb+changes"


def test_changed_files_are_said_to_be_changed_and_no_repository_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(run_record, "ROOT", tmp_path)
    assert commit() == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    clean = commit()
    assert len(clean) == 12
    (tmp_path / "new.py").write_text("")
    assert commit() == f"{clean}+changes"


def test_each_stage_has_a_peak_of_its_own_without_mapped_files(tmp_path):
    np.save(tmp_path / "file.npy", np.ones(60_000_000))
    one = record(tmp_path)
    with one.stage("large"):
        held = np.ones(60_000_000)
        time.sleep(3 * LOOK_EVERY_S)
        del held
    with one.stage("small"):
        mapped = np.load(tmp_path / "file.npy", mmap_mode="r")
        assert mapped.sum() == 60_000_000  # all of its pages are in memory now
        time.sleep(3 * LOOK_EVERY_S)
    if not run_record.STATUS.exists():
        pytest.skip("only Linux measures a peak anew")
    stages = read(tmp_path)["stages"]
    assert stages["large"]["memory_gb"] - stages["small"]["memory_gb"] == pytest.approx(0.48, abs=0.05)
    assert read(tmp_path)["memory_gb"] == stages["large"]["memory_gb"]
