"""Shares of the machine's cores for tests that run side by side."""

import os
from collections.abc import Iterator

# Threads of one worker that wait for a core of another's cost more than they give. Numba's first parallel loop also sets
# how many threads PyTorch uses, whatever was set before.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // int(workers))))

# Networks are small, and results are compared bit for bit: tests run on the CPU. `test_gpu.py` gives its own processes
# the GPU again.
GPU_SEEN = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pytest
import torch


@pytest.fixture(scope="module")
def single_thread() -> Iterator[None]:
    """In networks as small as the tests', threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
