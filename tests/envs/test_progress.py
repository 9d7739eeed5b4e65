import re

import pytest

from eqa.envs import progress as module
from eqa.envs.progress import absolute, progress


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


def test_lines_say_how_long_what_is_left_takes_at_the_rate_after_the_first_work(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("houses", 96) as advance:
        report = absolute(advance)
        report(0, 96)
        clock.now = 87.0  # compiling
        report(1, 96)
        for done in range(2, 97):
            clock.now += 5
            report(done, 96)
    first, *later, last = capsys.readouterr().out.splitlines()
    assert first == "houses: 1/96, 1:27 spent" and last == "houses: 96/96, 9:22 spent"
    for line in later:
        done, minutes, seconds = map(int, re.fullmatch(r"houses: (\d+)/96, .* spent, (\d+):(\d+) left", line).groups())
        assert 60 * minutes + seconds == 5 * (96 - done)
    assert len(later) == 94 // 4


def test_work_that_is_found_is_no_part_of_the_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("houses", 100) as advance:
        advance(50)
        clock.now = 20.0
        advance(10)
    assert capsys.readouterr().out == "houses: 60/100, 0:20 spent, 1:20 left\n"
