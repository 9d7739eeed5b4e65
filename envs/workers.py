"""`in_workers`: work on many items in worker processes, so that it uses all cores.

Each worker has a pipe of its own, and gets its next items when it gives back the last. This process has no thread and
no queue of them: nothing could be waited for after a signal has ended it in the middle.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import TypeVar

import numba

Result = TypeVar("Result")
CHUNK = 4  # items that are handed over at once
LEAST_A_WORKER = 8  # items; with fewer, starting a worker takes longer than it saves
_running: list[list[BaseProcess]] = []  # workers of each work


def in_workers(task: Callable[..., Result], *columns: Sequence, workers: int | None = None) -> Iterator[Result]:
    """The results of `map(task, *columns)`, in order, on one worker a core if there are enough items.

    The task and all items must be picklable. Workers import the task's module, and the script that was started only if
    the task is its own. A worker's compiled loops use one thread. The first item is done here, so that code is compiled
    once. Workers end at once when the work is left early, by an error or a signal, and when this process dies.
    RuntimeError if a worker is killed.
    """
    count = min(map(len, columns))
    workers = min(workers or os.cpu_count() or 1, (count - 1) // LEAST_A_WORKER)
    if workers <= 1:
        yield from map(task, *columns)
        return
    yield task(*(column[0] for column in columns))
    items = list(zip(*(column[1:count] for column in columns), strict=True))
    chunks = [items[first : first + CHUNK] for first in range(0, len(items), CHUNK)]
    with _started(task, workers) as idle:
        at_work: dict[Connection, int] = {}
        found: dict[int, tuple[list[Result], Exception | None]] = {}
        handed = 0
        for number in range(len(chunks)):
            while number not in found:
                while idle and handed < len(chunks):
                    pipe = idle.pop()
                    _hand(pipe, chunks[handed])
                    at_work[pipe], handed = handed, handed + 1
                for pipe in connection.wait(list(at_work)):
                    found[at_work.pop(pipe)] = _taken(pipe)
                    idle.append(pipe)
            results, error = found.pop(number)
            if error is not None:
                raise error
            yield from results


@contextmanager
def _started(task: Callable, number: int) -> Iterator[list[Connection]]:
    """Pipes to workers, which are gone afterwards."""
    context, workers, pipes = multiprocessing.get_context("spawn"), [], []

    def start() -> None:
        with _own_main(task):
            for _ in range(number):
                ours, theirs = context.Pipe()
                worker = context.Process(target=_work, args=(task, theirs), daemon=True)
                worker.start()
                theirs.close()
                workers.append(worker)
                pipes.append(ours)

    _running.append(workers)
    try:
        with ThreadPoolExecutor(1) as beside:  # handlers of signals run in the main thread: none cuts a start in two
            beside.submit(start).result()
        yield pipes
    finally:
        if workers:  # none are left where the interpreter ends: `_end_all` was there before
            _end(workers)


def _end(workers: list[BaseProcess]) -> None:
    """Kills the workers of a work, and waits for them."""
    _running.remove(workers)
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join(timeout=1)
    workers.clear()


@atexit.register
def _end_all() -> None:
    """An interpreter that ends takes its modules apart, that of signals among them, before it leaves a work's loop."""
    for workers in _running:
        _end(workers)


@contextmanager
def _own_main(task: Callable) -> Iterator[None]:
    """A process that is started imports what is `__main__` here: seconds of work for a script like train.py."""
    script = sys.modules["__main__"]
    if getattr(task, "func", task).__module__ != "__main__":
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _hand(pipe: Connection, items: list) -> None:
    try:
        pipe.send(items)
    except OSError:
        raise _gone() from None


def _taken(pipe: Connection) -> tuple[list, Exception | None]:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        raise _gone() from None


def _gone() -> RuntimeError:
    return RuntimeError(
        "a worker process has gone: it was killed, as happens where memory runs out, or could not start"
    )


def _work(task: Callable, pipe: Connection) -> None:
    """Works in a worker process until it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    numba.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # that process has died
        while True:
            pipe.send(_done(task, pipe.recv()))


def _done(task: Callable[..., Result], items: list[tuple]) -> tuple[list[Result], Exception | None]:
    try:
        return [task(*item) for item in items], None
    except Exception as error:  # noqa: BLE001 (raised again by the process that asked)
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return [], error


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)
