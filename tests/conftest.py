"""Test workers share the cores: threads of one that wait for a core of another's cost more than they give."""

import os

if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))
