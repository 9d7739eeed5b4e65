"""An agent learns in everyday homes, by the command of the README."""

import json
from pathlib import Path

import pytest

from tests.helpers.bench import Bench


@pytest.mark.slow
def test_an_agent_learns_and_is_played_in_everyday_homes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(*bench.train("everyday"), "data.houses.style=everyday", "on_finish.lines=own")
    record = json.loads((bench.runs / "everyday" / "run.json").read_text())
    assert record["configuration"]["env"]["style"] == "everyday"
    assert (bench.runs / "everyday" / "metrics.jsonl").stat().st_size > 0
