"""Worker processes give what a loop gives, and end with the process that started them."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from eqa.envs.workers import in_workers

ROOT = Path(__file__).parents[2]
LARGE = 1_000_000  # characters; no pipe takes as many without a reader
SCRIPT = f"""
import os, sys, time
from pathlib import Path
from eqa.envs.workers import in_workers

def task(folder, busy, number, text):
    if number > 0:
        (Path(folder) / str(os.getpid())).touch()
        if busy == "workers":
            time.sleep(60)

if __name__ == "__main__":
    from eqa.models.learning.preemption import stop_on_signals

    stop_on_signals()
    folder, busy = sys.argv[1:]
    found = in_workers(task, [folder] * 40, [busy] * 40, range(40), ["x" * {LARGE}] * 40, workers=2)
    for number, _ in enumerate(found):
        if busy == "this process" and number > 20:
            time.sleep(60)
"""


def a_worker_ends(number: int) -> int:
    if number == 20:
        os._exit(3)
    return number


def test_they_do_what_a_loop_does() -> None:
    assert list(in_workers(divmod, range(40), [7] * 40, workers=2)) == [divmod(n, 7) for n in range(40)]


def test_an_error_of_a_task_comes_through_after_what_was_done_before_it() -> None:
    done, found = [], in_workers(partial(divmod, 7), [*range(1, 31), *[0] * 10], workers=2)
    with pytest.raises(ZeroDivisionError) as error:
        done.extend(found)
    assert done == [divmod(7, n) for n in range(1, 30)]  # the first one, and whole chunks of four
    assert "in a worker process" in error.value.__notes__[0]


def test_a_worker_that_goes_is_waited_for_by_nobody() -> None:
    with pytest.raises(RuntimeError, match="a worker process has gone"):
        list(in_workers(a_worker_ends, range(40), workers=2))


def test_they_import_the_script_that_was_started_only_for_a_task_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        r"""
import os
from eqa.envs.workers import in_workers
os.write(1, b"imported\n")  # at once: two workers import at the same time
def task(one, other):
    return one + other
if __name__ == "__main__":
    for what in (divmod, task):
        print(list(in_workers(what, range(40), [7] * 40, workers=2))[-1], flush=True)
"""
    )
    command, environment = [sys.executable, script], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["imported", "(5, 4)", "imported", "imported", "46", ""]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
@pytest.mark.parametrize(
    "number, busy", [(signal.SIGTERM, "workers"), (signal.SIGTERM, "this process"), (signal.SIGKILL, "workers")]
)
def test_they_end_within_three_seconds_of_the_one_that_started_them(tmp_path: Path, number: int, busy: str) -> None:
    """With much that no worker has taken yet, and without a traceback. Where others want the cores too, it takes longer."""
    script, folder, errors = tmp_path / "script.py", tmp_path / "workers", tmp_path / "stderr"
    script.write_text(SCRIPT)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with errors.open("w") as file:
        parent = subprocess.Popen([sys.executable, script, folder, busy], env=environment, stderr=file)
    workers: list[int] = []
    try:
        deadline = time.monotonic() + 120
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
            workers = [int(path.name) for path in folder.iterdir()]
        assert len(workers) == 2 and all(map(is_alive, workers))
        parent.send_signal(number)
        deadline = time.monotonic() + 3 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        while (parent.poll() is None or any(map(is_alive, workers))) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(is_alive, workers))
        assert parent.poll() == (143 if number == signal.SIGTERM else -signal.SIGKILL)
        assert "Traceback" not in errors.read_text()
    finally:
        parent.kill()
        for process in filter(is_alive, workers):
            os.kill(process, signal.SIGKILL)
