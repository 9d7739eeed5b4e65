"""Progress with an estimate of the time left: a bar on a terminal, a line now and then in a log file."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 20.0

console = Console()


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yields `advance(num=1, note="", total=None)`, to be called as work gets done.

    `note` is shown behind the time left. `total` replaces the amount of work.
    """
    show = _nothing if console.quiet else _bar if console.is_terminal else _lines
    with show(description, total) as advance:
        yield advance


@contextmanager
def _nothing(description: str, total: int) -> Iterator[Callable[..., None]]:
    yield lambda num=1, note="", total=None: None


@contextmanager
def _bar(description: str, total: int) -> Iterator[Callable[..., None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(num: int = 1, note: str = "", total: int | None = None) -> None:
            bar.update(task, advance=num, note=note, total=total)

        yield advance


@contextmanager
def _lines(description: str, expected: int) -> Iterator[Callable[..., None]]:
    started = printed = time.monotonic()
    done, first = 0, None  # after the first work: it was compiled for or found, and says nothing of the rate

    def advance(num: int = 1, note: str = "", total: int | None = None) -> None:
        nonlocal done, printed, first, expected
        done, expected = done + num, total or expected
        now = time.monotonic()
        if num and (done >= expected or now - printed >= SECONDS_BETWEEN_LINES):
            printed = now
            rate = (done - first[0]) / (now - first[1]) if first and now > first[1] else 0
            left = f", {_clock((expected - done) / rate)} left" if rate and done < expected else ""
            print(f"{description}: {done}/{expected}, {_clock(now - started)} spent{left} {note}".rstrip(), flush=True)
        if num and not first:
            first = done, now

    yield advance


def absolute(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    """Turns a bar's `advance(added)` into a callback (done, total)."""
    before = 0

    def report(done: int, total: int) -> None:
        nonlocal before
        advance(done - before)
        before = done

    return report


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
