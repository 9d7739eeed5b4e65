"""`Replays`: the walks of a run's metrics.jsonl, with the view at each step and a floor plan to follow them on."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from eqa.envs.actions import LETTERS
from eqa.envs.episode import Episode
from eqa.envs.reading import named, parsed, read_lines
from eqa.envs.simulator import Simulator, World
from eqa.models.evaluation.human import picture
from eqa.models.evaluation.pictures import plan_image

LISTED = ("agent", "question", "question_type", "answer", "predicted", "correct", "d_0", "d_T", "ep_len", "stop")


class Replays:
    """Walks of a run's `folder`, which may have no rows yet. `episodes(split)` give a question's target.

    ValueError if the run was played in houses of another seed than `house_seed`, or another style than `house_style`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        world: World,
        episodes: Callable[[str], list[Episode]],
        house_seed: int | None = None,
        house_style: str | None = None,
    ) -> None:
        self.path, self.world, self.episodes = folder / "metrics.jsonl", world, episodes
        given = {"data.seed": house_seed, "data.houses.style": house_style}
        for name, played in _houses(folder / "run.json").items():
            if given[name] is not None and played != given[name]:
                raise ValueError(f"{folder}: was played in the houses of {name}={played}; add {name}={played}")
        self._targets: dict[str, dict[str, int | None]] = {}
        self._drawn: tuple[str, Simulator] | None = None

    def rows(self) -> list[dict]:
        """Rows with walks, in short, each with its place in the file; read anew each time, as a run goes on."""
        return [
            {"row": number, "spawn": _spawn(row), "num_steps": len(row["actions"])} | {k: row.get(k) for k in LISTED}
            for number, row in enumerate(self._all())
            if row["poses"]
        ]

    def replay(self, number: int) -> dict:
        """One walk: poses, actions, frames, and the plan with the area it covers, in metres.

        ValueError if there is no such walk.
        """
        rows = self._all()
        if not 0 <= number < len(rows) or not rows[number]["poses"]:
            raise ValueError(f"row: expected one of the {len(rows)} rows that walked, got {number}")
        row = rows[number]
        scene_id = row["scene_id"]
        plan, (left, top, width, height) = plan_image(self.world.annotations(scene_id), target=self._target(row))
        poses = np.array(row["poses"], np.float64)
        frames = self._simulator(scene_id).look(np.zeros(len(poses), np.int64), poses)["rgb"].cpu().numpy()
        return {
            "row": number,
            "spawn": _spawn(row),
            "poses": row["poses"],
            "actions": [self.world.actions.names[action] for action in row["actions"]],
            "frames": [picture(frame, "JPEG") for frame in frames],
            "plan": {"image": picture(plan), "left": left, "top": top, "width": width, "height": height},
        } | {name: row.get(name) for name in LISTED}

    def _all(self) -> list[dict]:
        if not self.path.is_file():
            return []
        with named(self.path, "not the rows of a run", "evaluate again with python eval.py"):
            return [_walked(parsed(line)) for line in read_lines(self.path)]

    def _target(self, row: dict) -> int | None:
        """Instance that the question asks about, None if the question set does not have the question."""
        split = row["scene_id"].split("-")[0]
        if split not in self._targets:
            self._targets[split] = {e.episode_id: e.target_object for e in self.episodes(split)}
        return self._targets[split].get(row["episode_id"])

    def _simulator(self, scene_id: str) -> Simulator:
        """The scene's simulator; the last one is kept."""
        if self._drawn is None or self._drawn[0] != scene_id:
            self._drawn = scene_id, self.world.open([scene_id], num_agents=1)
        return self._drawn[1]


def _walked(row: dict) -> dict:
    """The row; ValueError if it has a walk that is not valid."""
    poses, actions = row.get("poses") or [], row.get("actions") or []
    if poses and len(poses[0]) == 3:  # of an older version, without y: houses had floors at 0
        poses = [[x, 0.0, z, heading] for x, z, heading in poses]
    if np.array(poses, np.float64).reshape(-1, 4).shape != (len(poses), 4) or not set(actions) <= set(
        range(len(LETTERS))
    ):
        raise ValueError(f"expected poses of four numbers, and actions 0 to {len(LETTERS) - 1}")
    return {**row, "poses": poses, "actions": actions}


def _spawn(row: dict) -> str | None:
    """The spawn as text; older runs have a number of actions, as spawns had no names."""
    spawn = row.get("spawn")
    return f"T-{spawn}" if isinstance(spawn, int) else spawn


def _houses(path: Path) -> dict[str, int | str]:
    """The settings of a run's generated houses, empty if they are missing; older runs had one style alone."""
    try:
        data = json.loads(path.read_text())["configuration"]["data"]
        return {"data.seed": data["seed"], "data.houses.style": data.get("houses", {}).get("style", "paper")}
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return {}
