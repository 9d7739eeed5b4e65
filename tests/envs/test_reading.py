"""No damaged file ends in a traceback, hangs, or takes more than 500 MB, whoever reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.fuzzed import READERS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")


def complaints(reader: str, cases: int, seed: int, folder: Path) -> str:
    command = [sys.executable, "-m", "tests.helpers.fuzzed", reader, str(cases), str(seed), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    *lines, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    refused, of, *_ = map(int, (word for word in last.split() if word.isdigit()))
    assert of == cases and cases / 5 < refused <= cases  # damage is damage, and not all is lost
    return "\n".join(lines)


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_refused_by_name(reader: str, tmp_path: Path) -> None:
    assert complaints(reader, 200, 0, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("reader", READERS)
def test_so_are_five_thousand(reader: str, tmp_path: Path) -> None:
    assert complaints(reader, 5000, 1, tmp_path) == ""
