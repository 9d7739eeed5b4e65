"""How the tests share the machine's cores."""

import os
from collections.abc import Iterator

# Threads of one worker that wait for a core of another's cost more than they give.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))

import pytest
import torch


@pytest.fixture(scope="module")
def single_thread() -> Iterator[None]:
    """In networks as small as the tests', threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
