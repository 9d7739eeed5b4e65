"""`in_workers`: work on many items in worker processes, so that it uses all cores."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from typing import TypeVar

import numba

Result = TypeVar("Result")
LEAST_A_WORKER = 8  # items; with fewer, starting a worker takes longer than it saves


def in_workers(task: Callable[..., Result], *columns: Sequence, workers: int | None = None) -> Iterator[Result]:
    """The results of `map(task, *columns)`, in order, on one worker a core if there are enough items.

    The task and all items must be picklable. A worker's compiled loops use one thread. The first item is done here, so
    that code is compiled once. Workers end at once when the work is left early, by an error or a signal, and when this
    process dies.
    """
    count = min(map(len, columns))
    workers = min(workers or os.cpu_count() or 1, (count - 1) // LEAST_A_WORKER)
    if workers <= 1:
        yield from map(task, *columns)
        return
    yield task(*(column[0] for column in columns))
    context, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, context, initializer=_begin) as pool:
        try:
            yield from pool.map(task, *(column[1:] for column in columns), chunksize=4)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.kill()
            raise


def _begin() -> None:
    """Prepares a worker."""
    numba.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)
