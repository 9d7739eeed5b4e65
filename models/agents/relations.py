"""`Relations`: the lines that a line of the results table goes back to, so that nobody has to read them from names.

Rows of `metrics.jsonl` have these fields beside `agent`. Each is a line's name, and None where there is no such line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Relations:
    walked_by: str | None = None  # the agent whose walks they are, where it is not the line's own
    answered_by: str | None = None  # the agent whose answers they are, where another one walks
    variant_of: str | None = None  # the agent that it differs from in some settings
    finetuned_from: str | None = None  # the agent that its navigator began with
    stop_odds: float | None = None  # of a variant that differs in nothing else, see `NeuralAgent.set_stop_odds`


RELATIONS = tuple(field.name for field in fields(Relations))


def origin(agent: str, relations: Mapping[str, Relations]) -> str:
    """The agent that a line goes back to: its walker, and what that one is a variant of, until there is no other."""
    seen = {agent}
    while known := relations.get(agent):
        before = known.walked_by or known.variant_of
        if before is None or before in seen:
            break
        agent = before
        seen.add(agent)
    return agent
