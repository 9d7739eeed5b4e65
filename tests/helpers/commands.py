"""Commands as they are typed, many at once: a process imports what all of them need, and forks for each."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FORKS = """
import json, os, runpy, sys
import eqa.eval, eqa.train
statuses = []
for words, said in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        with open(said, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
        sys.exit()
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(statuses))
"""


class Outcome(NamedTuple):
    status: int
    output: str  # stdout and stderr


def outcomes(commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Outcome]:
    """Results of the commands, one after the other, in the root of the repository."""
    said = [folder / f"said_{n}" for n in range(len(commands))]
    given = [(list(words), str(path)) for words, path in zip(commands.values(), said, strict=True)]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=ROOT, env=environment, input=json.dumps(given), stdout=subprocess.PIPE,
        check=True, text=True, timeout=600,
    )  # fmt: skip
    statuses = json.loads(done.stdout)
    return {
        name: Outcome(status, path.read_text()) for name, status, path in zip(commands, statuses, said, strict=True)
    }
