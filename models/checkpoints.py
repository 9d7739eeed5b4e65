"""Finds the agent that an experiment builds on: what it does not fit, or what it goes on from."""

from pathlib import Path

from data.generated import GeneratedEQA
from envs.progress import console
from models.agent import Agent
from models.eyes import Eyes


def fitting_agent(checkpoint: str, source: GeneratedEQA, *, row: str | None = None, runs: Path = Path("runs")) -> Agent:
    """The agent in the file `checkpoint`, or for "last" the newest under `runs` that plays for `row` of the table, if one is
    given. ValueError where there is none with this data's vocabulary and encoder."""
    last = checkpoint == "last"
    paths = sorted(runs.rglob("agent.ckpt"), key=lambda p: -p.stat().st_mtime) if last else [Path(checkpoint)]
    remedy = "python train.py +experiment=il with the same words for scale and data makes one"
    for path in paths:
        agent = Agent.load(path)
        differs = [
            name
            for name, same in (
                ("vocabulary", agent.vocabulary == source.vocabulary),
                ("encoder", Eyes(agent.encoder).identity == source.encode.identity),
            )
            if not same
        ]
        if last and row is not None and agent.name != row:
            differs.append("row")
        if not differs:
            console.print(f"what is not fitted comes from {path}")
            return agent
        if not last:
            raise ValueError(f"checkpoint: expected an agent of this data, {path} has another {differs[0]}; {remedy}")
    wanted = "an agent of this data" if row is None else f"an agent of this data that plays for {row}"
    raise ValueError(f"checkpoint: expected {wanted} under {runs.resolve()}, found none; {remedy}")
