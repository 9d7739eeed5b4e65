"""Worker processes give what a loop gives, and end with the process that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eqa.envs.workers import in_workers

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys, time
from pathlib import Path
from eqa.envs.workers import in_workers
from eqa.models.learning.preemption import stop_on_signals

def task(folder, number):
    if number > 0:
        (Path(folder) / str(os.getpid())).touch()
        time.sleep(60)

if __name__ == "__main__":
    stop_on_signals()
    list(in_workers(task, [sys.argv[1]] * 40, range(40), workers=2))
"""


def test_they_do_what_a_loop_does() -> None:
    assert list(in_workers(divmod, range(40), [7] * 40, workers=2)) == [divmod(n, 7) for n in range(40)]


def test_an_error_of_a_task_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_workers(divmod, range(40), [7] * 30 + [0] * 10, workers=2))


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_they_end_within_three_seconds_of_the_one_that_started_them(tmp_path: Path, number: int) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "workers"
    script.write_text(SCRIPT)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, script, folder], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(path.name) for path in folder.iterdir()]
    assert len(workers) == 2 and all(map(is_alive, workers))
    parent.send_signal(number)
    deadline = time.monotonic() + 3
    while (parent.poll() is None or any(map(is_alive, workers))) and time.monotonic() < deadline:
        time.sleep(0.05)
    alive = [process for process in workers if is_alive(process)]
    status = parent.poll()
    for process in alive:
        os.kill(process, signal.SIGKILL)
    parent.kill()
    assert not alive and status == (143 if number == signal.SIGTERM else -signal.SIGKILL)
