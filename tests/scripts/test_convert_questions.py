"""The conversion script: there and back between the three formats, what it prints, what it refuses."""

import sys
from pathlib import Path

import pytest

from eqa.data.benchmarks.eqa_v1 import read_eqa_v1
from eqa.data.benchmarks.mp3d_eqa import read_mp3d_eqa
from eqa.data.questions.storage import load_questions
from eqa.scripts import convert_questions
from tests.helpers.hand_episodes import bare, episode

SPLITS = {
    "train": [episode(0), episode(1), episode(0, "train-00001")],
    "val": [episode(4, "val-00000")],
    "human": [episode(2, "human-00001")],
}


@pytest.fixture
def ours(tmp_path) -> Path:
    convert_questions._write_ours(tmp_path / "questions.jsonl", SPLITS)
    return tmp_path / "questions.jsonl"


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments: object) -> str:
        """What the command prints, on one line."""
        monkeypatch.setattr(sys, "argv", ["convert_questions.py", *map(str, arguments)])
        monkeypatch.setattr(convert_questions.console, "width", 250)
        convert_questions.main()
        return " ".join(capsys.readouterr().out.split())

    return run


def loaded(path: Path) -> dict:
    return {split: load_questions(path, split) for split in SPLITS}


def test_mp3d_and_back_gives_the_same_questions_and_the_table_says_so(ours, run, tmp_path):
    printed = run(ours, tmp_path / "mp3d")
    assert "does not come back" not in printed and "train.json.gz" in printed
    files = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "mp3d").rglob("*") if p.is_file())
    assert files == ["mp3d/human/human.json.gz", "mp3d/train/train.json.gz", "mp3d/val/val.json.gz"]
    assert read_mp3d_eqa(tmp_path / files[1]) == SPLITS["train"]
    run(tmp_path / "mp3d", tmp_path / "back.jsonl")
    by_scene = {split: sorted(found, key=lambda e: e.scene_id) for split, found in SPLITS.items()}
    assert loaded(tmp_path / "back.jsonl") == by_scene


def test_eqa_v1_and_back_keeps_what_it_can_and_the_table_names_the_rest(ours, run, tmp_path):
    printed = run(ours, tmp_path / "eqa_v1.json")
    assert "does not come back the same (of 5 questions)" in printed
    for field in ("view_points", "spawns", "walk", "program", "source"):
        assert f"{field} │ 5" in printed
    assert not any(f"{field} │" in printed for field in ("question", "answer", "touched", "target_object", "frame"))
    read = read_eqa_v1(tmp_path / "eqa_v1.json")
    assert list(read) == ["train", "val", "test", "human"] and len(read["train"]) == 3
    run(tmp_path / "eqa_v1.json", tmp_path / "back.jsonl")
    assert loaded(tmp_path / "back.jsonl") == {split: read[split] for split in SPLITS}


def test_one_split_s_file_is_read_and_written(ours, run, tmp_path):
    run(ours, tmp_path / "mp3d")
    run(tmp_path / "mp3d" / "val" / "val.json.gz", tmp_path / "val.jsonl")
    assert load_questions(tmp_path / "val.jsonl", "val") == SPLITS["val"]
    run(tmp_path / "val.jsonl", tmp_path / "again.json.gz")
    assert read_mp3d_eqa(tmp_path / "again.json.gz") == SPLITS["val"]


def test_the_table_counts_what_questions_have(run, tmp_path):
    convert_questions._write_ours(tmp_path / "q.jsonl", {"train": [episode(0), episode(1, walk=None), bare(2)]})
    printed = run(tmp_path / "q.jsonl", tmp_path / "copy", "--to", "jsonl")
    assert "copy │ 3 │ 2 │ 2 │ 1 │ 2 │ 2 │" in printed, "questions, scenes; with start, walk, view points, boxes"


def test_what_it_cannot_do_is_said_by_name(ours, run, tmp_path):
    (tmp_path / "empty").mkdir()
    convert_questions._write_ours(tmp_path / "bare.jsonl", {"train": [bare(0)]})
    for arguments, complaint in [
        ((tmp_path / "gone.jsonl", tmp_path / "a.json"), "gone.jsonl: expected a question set, found nothing"),
        ((ours, tmp_path / "a.csv"), "a.csv: expected a name in .* got '.csv'; see --to"),
        ((tmp_path / "empty", tmp_path / "a.json"), "empty: expected files such as val/val.json.gz, found none"),
        ((ours, tmp_path / "all.json.gz"), r"all.json.gz: expected a folder for the splits .*'train', 'val'"),
        ((tmp_path / "bare.jsonl", tmp_path / "out"), "'train-00004-000'.*needs a place to start from"),
        ((ours, tmp_path / "out", "--scenes", "here"), "scenes: expected a folder in data/scene_datasets/"),
    ]:
        with pytest.raises(SystemExit, match=f"convert_questions: .*{complaint}"):
            run(*arguments)
    ours.rename(tmp_path / "eqa_v1.json")
    with pytest.raises(SystemExit, match="eqa_v1.json: not a usable eqa_v1.json"):
        run(tmp_path / "eqa_v1.json", tmp_path / "b.jsonl")
    (tmp_path / "empty" / "val").mkdir()
    for name in ("val.json.gz", "val/val.json.gz"):
        (tmp_path / "empty" / name).write_bytes(b"")
    with pytest.raises(SystemExit, match="expected one file for split 'val'"):
        run(tmp_path / "empty", tmp_path / "b.jsonl")
    assert not list((tmp_path / "out").rglob("*.json.gz*"))
