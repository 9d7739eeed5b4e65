"""Work on many houses in worker processes, so that a set uses all cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import numba

Result = TypeVar("Result")
LEAST_A_WORKER = 8  # items; with fewer, starting a worker takes longer than it saves


def in_workers(task: Callable[..., Result], *columns: Sequence, workers: int | None = None) -> Iterator[Result]:
    """As `map(task, *columns)`, in order, on one worker a core where there are enough items.

    The task and all items must be such that they can be sent to another process. A worker's compiled loops use one thread.
    The first item is done here, so that what is compiled is compiled once.
    """
    count = min(map(len, columns))
    workers = min(workers or os.cpu_count() or 1, (count - 1) // LEAST_A_WORKER)
    if workers <= 1:
        yield from map(task, *columns)
        return
    yield task(*(column[0] for column in columns))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=numba.set_num_threads, initargs=(1,)) as pool:
        try:
            yield from pool.map(task, *(column[1:] for column in columns), chunksize=4)
        except GeneratorExit:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
