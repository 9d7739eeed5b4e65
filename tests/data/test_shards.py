"""Shards make what one process makes, to the byte; what is missing is named; nothing that is no shard is taken."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.journal import Journal, journaled
from eqa.envs.house.generator import generate_house
from eqa.envs.house.sharded import make_part
from eqa.envs.shards import OthersMissing, Shard
from eqa.scripts.make_demos import _build

NUMBERS = {"train": 4, "val": 2, "test": 2}
ROOT = Path(__file__).parents[2]
ROUNDS = 4  # houses, views, spawns, demonstrations


class MeanColors:
    """An encoder that sees the mean colour of a frame."""

    identity, map_shape, place_names = "mean colours", (3, 1, 1), None

    def __call__(self, rgb: object) -> object:
        import torch

        return torch.as_tensor(np.asarray(rgb)).float().mean((1, 2)).half()


def source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> GeneratedEQA:
    monkeypatch.setenv("EQA_DATA", str(folder))
    return GeneratedEQA(seed=0, houses=NUMBERS, questions=dict.fromkeys(NUMBERS, 8), encode=MeanColors(), walks=2)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


READ = """
import sys
from pathlib import Path
import pytest
from tests.data.test_shards import source
made = source(Path(sys.argv[1]), pytest.MonkeyPatch())
made.build()
print(len(made.demonstrations("train")), len(made.houses["train"]))
(Path(sys.argv[1]) / "new").touch()
"""


@pytest.mark.slow
def test_shards_in_rounds_make_the_bytes_of_one_process_and_name_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path / "one", monkeypatch).build()
    shards, left = [Shard(3, number) for number in (1, 2, 3)], []
    for _ in range(ROUNDS):
        left.append([source(tmp_path / "three", monkeypatch).build_shard(shard) for shard in shards])
    assert left[0][0] == {shards[1], shards[2]} and left[0][1] == {shards[2]}
    assert left[-1] == [set()] * 3
    assert contents(tmp_path / "three") == contents(tmp_path / "one")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "three").rglob("*")}
    source(tmp_path / "three", monkeypatch).build()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "three").rglob("*")} == before
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return  # root may write anywhere, and cannot give that right up here
    for path in [tmp_path / "three", *(tmp_path / "three").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    unprivileged = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] * (os.getuid() == 0)
    command = [*unprivileged, sys.executable, "-c", READ, str(tmp_path / "three")]
    read = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert re.search(r"^[1-9]\d* 4$", read.stdout, re.MULTILINE), read.stderr
    assert "PermissionError" in read.stderr.splitlines()[-1]


def test_one_process_joins_what_some_shards_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    houses = make_part(tmp_path, split="train", count=3, shard=Shard(2, 2))
    assert [path.exists() for path in houses] == [False, True, False]
    house = generate_house(seed=0, split="train", index=0)
    calls: list[str] = []

    def looked(house: object, asked: object) -> list:
        calls.append(asked)
        return [[[0.0, 1.0, 2.0, 3.0]]]

    def found(shard: Shard | None) -> list:
        journal = Journal(tmp_path / "q.partly", configuration={"a": 1}, shard=shard)
        return list(journaled(map, journal)(looked, [house] * 4, [["a"], ["b"], ["c"], ["d"]]))

    with pytest.raises(OthersMissing) as error:
        found(Shard(2, 1))
    assert error.value.shards == {Shard(2, 2)} and calls == [["a"], ["c"]]
    assert len(found(None)) == 4 and calls == [["a"], ["c"], ["b"], ["d"]]
    assert found(Shard(2, 1)) == found(None) and len(calls) == 4
    Journal(tmp_path / "q.partly", configuration={"a": 1}).remove()
    assert not list(tmp_path.glob("q.partly*"))


def test_shards_of_other_settings_are_not_joined(tmp_path: Path) -> None:
    other = Journal(tmp_path / "q.partly", configuration={"a": 2}, shard=Shard(2, 2))
    other.add({"b": [1]})
    assert not Journal(tmp_path / "q.partly", configuration={"a": 1}).known
    assert Journal(tmp_path / "q.partly", configuration={"a": 2}).known == {"b": [1]}


@pytest.mark.parametrize("word", ["9/8", "0/8", "x", "3", "3/0", "-1/8", "3/8/1", "3.0/8", 3, None, "٣/8"])
def test_what_is_no_shard_is_refused_by_name(word: object) -> None:
    with pytest.raises(
        ValueError, match=rf"shard: expected NUMBER/PARTS as in 3/8.*got {re.escape(repr(word))}; .*1/8"
    ):
        Shard.parse(word)


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 40])
def test_every_item_is_made_by_one_shard_and_its_maker_is_known(parts: int) -> None:
    items, shards = list(range(30)), [Shard.parse(f"{number}/{parts}") for number in range(1, parts + 1)]
    assert sorted(item for shard in shards for item in shard.of(items)) == items
    for shard in shards:
        assert shards[0].makers(shard.of(items)) <= {shard}


def test_a_script_names_the_commands_of_the_missing_shards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    class Left:
        def build_shard(self, shard: Shard) -> set[Shard]:
            return {Shard(8, 5), Shard(8, 3)}

    monkeypatch.setattr("sys.argv", ["make_demos.py", "scale=paper", "shard=1/8"])
    _build(Left(), Shard(8, 1))
    said = capsys.readouterr().out
    assert re.findall(r"python scripts/make_demos.py scale=paper shard=\d/8", said) == [
        f"python scripts/make_demos.py scale=paper shard={number}/8" for number in (3, 5)
    ]
