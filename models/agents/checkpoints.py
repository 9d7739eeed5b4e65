"""The trained agent that an experiment builds on: its frozen parts, or its starting point."""

from pathlib import Path

from eqa.data.source import Source
from eqa.envs.progress import console
from eqa.models.agents.neural import NeuralAgent
from eqa.models.encoders.features import FeatureExtractor

_named: set[Path] = set()  # files that were printed already: several parts of a run look for the same agent


def fitting_agent(
    checkpoint: str, source: Source, *, name: str | None = None, runs: Path = Path("runs"), covering: bool = False
) -> NeuralAgent:
    """The agent in the file `checkpoint`, or for "last" the newest under `runs`, of the given `name` if there is one.

    For "last", a file that cannot be read is reported and skipped. ValueError if no agent has this data's vocabulary
    and encoder. A `covering` one may know further words and answers: it goes on with its own.
    """
    last = checkpoint == "last"
    paths = sorted(runs.rglob("agent.ckpt"), key=lambda p: -p.stat().st_mtime) if last else [Path(checkpoint)]
    remedy = "python train.py +experiment=il with the same words for scale and data makes one"
    for path in paths:
        try:
            agent = NeuralAgent.load(path)
        except ValueError as error:
            if not last:
                raise
            console.print(f"[yellow]passed over: {error}", soft_wrap=True)
            continue
        differs = [
            part
            for part, same in (
                (
                    "vocabulary",
                    agent.vocabulary.covers(source.vocabulary) if covering else agent.vocabulary == source.vocabulary,
                ),
                ("encoder", FeatureExtractor(agent.encoder).identity == source.encode.identity),
            )
            if not same
        ]
        if last and name is not None and agent.name != name:
            differs.append("name")
        if not differs:
            agent.navigator.check_actions(source.world.actions)
            if path not in _named:
                console.print(f"what is not fitted comes from {path}", soft_wrap=True)
                _named.add(path)
            return agent
        if not last:
            raise ValueError(f"checkpoint: expected an agent of this data, {path} has another {differs[0]}; {remedy}")
    wanted = "an agent of this data" if name is None else f"an agent of this data that is called {name}"
    raise ValueError(f"checkpoint: expected {wanted} under {runs.resolve()}, found none; {remedy}")
