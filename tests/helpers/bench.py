"""`Bench` runs the project's commands with data and runs of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Bench:
    """Runs commands in the project with data and runs of their own."""

    def __init__(self, folder: Path) -> None:
        self.data, self.runs = folder / "data", folder / "runs"

    def start(self, *words: str) -> subprocess.Popen:
        environment = {**os.environ, "EQA_DATA": str(self.data), "COLUMNS": "120"}
        command = [sys.executable, *words]
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, *words: str, fails: bool = False) -> str:
        process = self.start(*words)
        output, _ = process.communicate(timeout=1200)
        assert (process.returncode != 0) == fails, output
        return output

    def train(self, run: str) -> list[str]:
        whole = ["on_finish.lines=all", "on_finish.spawns=all"]
        return ["train.py", "+experiment=il", "scale=tiny", *whole, f"hydra.run.dir={self.runs / run}"]
