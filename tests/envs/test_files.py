"""Files are whole or not there, the data folder can be written, and the tests check types."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError

from eqa.data.generated import GeneratedEQA
from eqa.envs.files import atomic_write, build_once, code_fingerprint, data_root, fingerprint
from eqa.envs.house.geometry import contains
from eqa.envs.rendering.camera import Camera
from tests.data.demonstrations.test_record import CountingEncode

ROOT = Path(__file__).parents[2]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.txt"
    with atomic_write(path) as aside:
        aside.write_text("first")
        assert not path.exists()
    assert path.read_text() == "first"
    with pytest.raises(OSError, match="file.txt: no space left to write it.*EQA_DATA"), atomic_write(path) as aside:
        aside.write_text("sec")
        raise OSError(28, "No space left on device")
    assert path.read_text() == "first" and [p.name for p in path.parent.iterdir()] == ["file.txt"]


CODE = """import math


def area(radius_m: float) -> float:
    return f"{math.pi * radius_m**2:.{3}f}", [None, ...], ""
"""
SAME_CODE = """'''A module.'''
import os
from math import pi  # for nothing

def area(radius_m: float) -> float:
    'The area of a circle.'
    # it is round
    return (f'{math.pi * radius_m ** 2:.{3}f}',
            [None, ...], '')
"""


def test_a_fingerprint_of_code_changes_with_the_code_alone(tmp_path: Path) -> None:
    path = tmp_path / "code.py"

    def of(text: str) -> str:
        path.write_text(text)
        return code_fingerprint(path)

    # The digits are those of Python 3.11, 3.12 and 3.13.
    assert of(CODE) == of(SAME_CODE) == "00742c43765d"
    changes = (("**2", "**3"), ("{3}", "{2}"), ("...", "1"), ('""', '"a"'), ("radius_m: float", "radius_m: int"))
    assert len({of(CODE.replace(*change)) for change in changes} | {of(CODE)}) == len(changes) + 1


def test_the_data_folder_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path / "data"))
    assert data_root() == tmp_path / "data" and data_root().is_dir()
    monkeypatch.delenv("EQA_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache" / "eqa"


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EQA_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(ValueError, match="expected a folder that can be written.*EQA_DATA"):
        data_root()


WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_read_only: list[str] = []


def _refuse(event: str, arguments: tuple) -> None:
    """What a read-only file system refuses: root may write where the rights say that nobody may."""
    if not _read_only or event not in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
        return
    named = arguments[0]
    writes = event != "open" or bool(arguments[2] & WRITING)
    if writes and isinstance(named, str | os.PathLike) and os.fspath(named).startswith(_read_only[0]):
        raise OSError(30, "Read-only file system", str(named))


sys.addaudithook(_refuse)


def test_shared_data_that_is_read_only_is_used_and_what_is_missing_in_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQA_DATA", str(tmp_path / "data"))
    numbers = dict.fromkeys(("train", "val", "test"), 2)

    def source(seed: int) -> GeneratedEQA:
        return GeneratedEQA(seed=seed, houses=numbers, questions=dict.fromkeys(numbers, 8), encode=CountingEncode())

    source(0).build()
    try:
        _read_only.append(str(tmp_path / "data"))
        again = source(0)
        again.build()
        assert len(again.demonstrations("test")) and again.houses["train"] and again.vocabulary.answers
        with pytest.raises(ValueError, match="expected a folder that can be written, got Read-only.*EQA_DATA"):
            source(1).build()
        with pytest.raises(ValueError, match="Read-only"), build_once(tmp_path / "data" / "new" / "file"):
            pass
    finally:
        _read_only.clear()


def test_a_fingerprint_follows_content_not_order() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1}) != fingerprint({"a": 1, "b": [3]})


def test_wrong_types_and_shapes_are_found_in_functions_with_and_without_arrays() -> None:
    square = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0)]
    assert contains(square, (0.5, 0.5)) and Camera().views(np.zeros((2, 4))).shape == (2, 12)
    with pytest.raises(BeartypeCallHintViolation, match="point"):
        contains(square, "middle")
    with pytest.raises(TypeCheckError, match="poses"):
        Camera().views(np.zeros((2, 3)))


def test_a_script_without_a_main_guard_fails_at_once_and_does_not_wait_for_its_own_parent(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from pathlib import Path\n"
        "from eqa.envs.files import build_once\n"
        f"with build_once(Path({str(tmp_path / 'data')!r})) as to_be_made:\n"
        "    with ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        pool.submit(abs, -1).result()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, script], check=False, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode != 0 and 'if __name__ == "__main__":' in ran.stderr
