"""`RecordedAgent`: walks and answers that another program recorded, played again and measured as ours are.

Its file has a JSON object a line, one for each question of the split:

    {"episode_id": "...", "actions": ["forward", "left", ..., "stop"], "answer": "red"}

Actions are names of the world's actions, from where the question's walk begins. Without STOP a walk ends with its last
action. Answers are words; a file may leave all of them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eqa.data.demonstrations.spawn_settings import START
from eqa.envs.actions import ActionSet
from eqa.envs.reading import declared, named, parsed, read_lines
from eqa.models.agents.agent import Answer, EpisodeBatch, PlanFollower


@dataclass(frozen=True, slots=True)
class RecordedWalk:
    """A line of the file."""

    episode_id: str
    actions: tuple[str, ...]
    answer: str | None = None


class RecordedAgent(PlanFollower):
    """Repeats recorded walks; ValueError for a question without one, and for other actions than the world's."""

    played_from = (START,)

    def __init__(self, walks: str | Path, name: str = "recorded") -> None:
        self.path, self.name = Path(walks), name
        self.walks = read_walks(self.path)
        answers = [walk.answer is not None for walk in self.walks.values()]
        if any(answers) and not all(answers):
            raise ValueError(
                f"{self.path}: expected an answer in each line or in none, got {sum(answers)} of {len(answers)}"
            )
        self.answers = all(answers)

    def reset(self, batch: EpisodeBatch) -> None:
        missing = [one.episode_id for one in batch.episodes if one.episode_id not in self.walks]
        if missing:
            raise ValueError(
                f"{self.path}: expected a walk for each question of the split, got none for {missing[0]!r} "
                f"({len(self.walks)} are there)"
            )
        self.played = [self.walks[one.episode_id] for one in batch.episodes]
        self.plans, self.step = [self._plan(walk, batch.action_set) for walk in self.played], 0

    def _plan(self, walk: RecordedWalk, actions: ActionSet) -> list[int]:
        unknown = set(walk.actions) - set(actions.names)
        if unknown or "stop" in walk.actions[:-1]:
            raise ValueError(
                f"{self.path}: {walk.episode_id}: actions: expected some of {', '.join(actions.names)}, STOP at the end "
                f"alone, got {sorted(unknown) or 'stop before the end'}"
            )
        if len(walk.actions) > actions.max_steps:
            raise ValueError(
                f"{self.path}: {walk.episode_id}: expected at most {actions.max_steps} actions, got {len(walk.actions)}; "
                "env.actions.max_steps is the limit in worlds that have the setting"
            )
        return [actions.names.index(name) for name in walk.actions]

    def answer(self) -> list[Answer] | None:
        """The recorded answers; None if there are none."""
        return [Answer(walk.answer) for walk in self.played] if self.answers else None


def read_walks(path: Path) -> Mapping[str, RecordedWalk]:
    """Walks by episode id; ValueError names the line that is none, and an episode that has two."""
    found: dict[str, RecordedWalk] = {}
    with named(path, "recorded walks"):
        for number, line in enumerate(read_lines(path), start=1):
            try:
                walk = declared(RecordedWalk, parsed(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            if walk.episode_id in found:
                raise ValueError(f"line {number}: expected one walk an episode, got another of {walk.episode_id!r}")
            found[walk.episode_id] = walk
        if not found:
            raise ValueError("expected a walk a line, got no line")
    return found
