"""No damaged file ends in a traceback, hangs, or takes more than 500 MB, whoever reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.fuzzed import READERS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")


def complaints(cases: int, seed: int, folder: Path, *readers: str) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.helpers.fuzzed", str(cases), str(seed), str(folder), *readers]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for reader in readers:
        *lines, last = (folder / f"{reader}.txt").read_text().splitlines() or [""]
        found[reader] = "\n".join(lines)
        refused, of, *_ = [int(word) for word in last.split() if word.isdigit()] or [0, 0]
        if not (of == cases and cases / 5 < refused <= cases):  # damage is damage, and not all is lost
            found[reader] += f"\n{last} {done.stderr[-3000:]}"
    return found


@pytest.fixture(scope="module")
def of_two_hundred(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return complaints(200, 0, tmp_path_factory.mktemp("damaged"), *READERS)


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_refused_by_name(reader: str, of_two_hundred: dict[str, str]) -> None:
    assert of_two_hundred[reader] == ""


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("reader", READERS)
def test_so_are_five_thousand(reader: str, tmp_path: Path) -> None:
    assert complaints(5000, 1, tmp_path, reader) == {reader: ""}
