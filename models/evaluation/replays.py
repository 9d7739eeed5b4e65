"""`Replays`: the walks of a run's metrics.jsonl, with the view at each step and a floor plan to follow them on.

They are listed by pages, and views come some at a time, so that nobody waits for a whole run or a whole walk.

Axes: V views.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from eqa.envs.actions import LETTERS
from eqa.envs.annotations import PALETTE
from eqa.envs.episode import Episode
from eqa.envs.navigation.walk import walks_of
from eqa.envs.reading import named, parsed, read_lines
from eqa.envs.rendering.plan_labels import middle_of, smallest_first
from eqa.envs.simulator import Simulator, World
from eqa.models.evaluation.human import AT_ONCE, pictures

LISTED = ("agent", "question", "question_type", "answer", "predicted", "correct", "d_0", "d_T", "ep_len", "stop")
CHOICES = ("agent", "spawn", "question_type")  # fields of a row that a list can be filtered by
TEXTS = (*CHOICES, "episode_id", "scene_id", "question")
ON_A_PAGE = 30
SENSORS = ("rgb", "depth")


class Replays:
    """Walks of a run's `folder`, which may have no rows yet. `episodes(split)` give a question's target.

    The rows are read once, and anew when the file changes, as a run goes on. ValueError if the run was played in houses
    of another seed than `house_seed`, or another style than `house_style`.
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
        self._asked: dict[str, dict[str, Episode]] = {}
        self._drawn: tuple[str, Simulator] | None = None
        self._read: tuple[object, list[dict]] = None, []

    def rows(self, *, page: int = 0, words: str = "", wrong: bool = False, **chosen: str | None) -> dict:
        """A page of the rows with walks, in short, each with its place in the file; the whole number that fits.

        `chosen` are values of CHOICES, `wrong` leaves wrong answers, `words` those whose question has them. The result
        has all values of CHOICES.
        """
        walked = [(number, row) for number, row in enumerate(self._all()) if len(row["poses"])]
        fit = [
            (number, row)
            for number, row in walked
            if all(row.get(name) == value for name, value in chosen.items() if value)
            and not (wrong and row.get("correct"))
            and words.strip().lower() in (row["question"] or "")
        ]
        shown = fit[max(page, 0) * ON_A_PAGE :][:ON_A_PAGE]
        return {
            "rows": [{"row": number, "num_steps": len(row["actions"])} | _listed(row) for number, row in shown],
            "fit": len(fit),
            "on_a_page": ON_A_PAGE,
            "choices": {name: list(dict.fromkeys(row.get(name) for _, row in walked)) for name in CHOICES},
        }

    def replay(self, number: int) -> dict:
        """One walk: poses, actions, the plan, the shortest walk where the question's starts at this spawn.

        With what the row knows of the agent's choices: `planned` and `attention`. ValueError if there is no such walk.
        """
        row = self._row(number)
        episode = self._episode(row)
        return {
            "row": number,
            "num_steps": len(row["actions"]),
            "poses": row["poses"].tolist(),
            "actions": [self.world.actions.names[action] for action in row["actions"]],
            "planned": row.get("planned"),
            "attention": row.get("attention"),
            "shortest": self._shortest(episode, row["spawn"]),
            "plan": self._plan(row["scene_id"], None if episode is None else episode.target_object),
        } | _listed(row)

    def frames(self, number: int, first: int, sensor: str = "rgb") -> list[str]:
        """Up to AT_ONCE views of a walk from the pose `first` on; see SENSORS. ValueError as in `replay`."""
        if sensor not in SENSORS:
            raise ValueError(f"sensor: expected one of {SENSORS}, got {sensor!r}")
        row = self._row(number)
        if not 0 <= first < len(row["poses"]):
            raise ValueError(f"first: expected a pose of the walk, 0 to {len(row['poses']) - 1}, got {first}")
        return pictures(self._simulator(row["scene_id"]), row["poses"][first : first + AT_ONCE], sensor)

    def _row(self, number: int) -> dict:
        rows = self._all()
        if not 0 <= number < len(rows) or not len(rows[number]["poses"]):
            raise ValueError(f"row: expected one of the {len(rows)} rows that walked, got {number}")
        return rows[number]

    def _all(self) -> list[dict]:
        if not self.path.is_file():
            return []
        now = self.path.stat()
        if (state := (now.st_ino, now.st_mtime_ns, now.st_size)) != self._read[0]:
            with named(self.path, "not the rows of a run", "evaluate again with python eval.py"):
                self._read = state, [_walked(parsed(line)) for line in read_lines(self.path)]
        return self._read[1]

    def _episode(self, row: dict) -> Episode | None:
        """The question, None if the question set does not have it."""
        split = row["scene_id"].split("-")[0]
        if split not in self._asked:
            self._asked[split] = {episode.episode_id: episode for episode in self.episodes(split)}
        return self._asked[split].get(row["episode_id"])

    def _shortest(self, episode: Episode | None, spawn: str | None) -> list[list[float]] | None:
        """Poses of the question's shortest walk from a spawn on it."""
        if episode is None or not episode.walk or spawn not in (episode.spawns or ()):
            return None
        left = episode.spawns[spawn].num_actions
        if left is None:
            return None
        (walk,) = walks_of(self.world, episode.scene_id, [episode])
        return walk.poses[-left:].round(3).tolist()

    def _plan(self, scene_id: str, target: int | None) -> dict:
        """The scene from above, to draw: outlines and lines in metres, and the box around them."""
        scene = self.world.annotations(scene_id)
        outlines = [region.outline for region in scene.regions] or [thing.outline for thing in scene.things]
        corners = np.array([corner for outline in outlines for corner in outline])
        (left, top), (right, bottom) = corners.min(0), corners.max(0)
        return {
            "box": [round(float(value), 3) for value in (left, top, right - left, bottom - top)],
            "regions": [
                {"name": r.name, "outline": _rounded(r.outline), "middle": _rounded([middle_of(r.outline)])[0]}
                for r in (scene.regions[i] for i in smallest_first([region.outline for region in scene.regions]))
            ],
            "things": [
                {
                    "name": thing.name,
                    "outline": _rounded(thing.outline),
                    "color": "#" + bytes(PALETTE.get(thing.color, (200, 200, 200))).hex(),
                    "asked": thing.asked,
                    "target": thing.id == target,
                }
                for thing in scene.things
            ],
            "edges": [{"kind": edge.kind, "ends": _rounded((edge.start, edge.end))} for edge in scene.edges],
        }

    def _simulator(self, scene_id: str) -> Simulator:
        """The scene's simulator; the last one is kept."""
        if self._drawn is None or self._drawn[0] != scene_id:
            self._drawn = scene_id, self.world.open([scene_id], num_agents=1)
        return self._drawn[1]


def _rounded(points: Iterable[Iterable[float]]) -> list[list[float]]:
    """Points to the centimetre."""
    return [[round(float(value), 2) for value in point] for point in points]


def _listed(row: dict) -> dict:
    return {"spawn": row["spawn"]} | {name: row.get(name) for name in LISTED}


def _walked(row: dict) -> dict:
    """The row; ValueError if it has a walk that is not valid."""
    poses, actions = row.get("poses") or [], row.get("actions") or []
    if poses and len(poses[0]) == 3:  # of an older version, without y: houses had floors at 0
        poses = [[x, 0.0, z, heading] for x, z, heading in poses]
    walk = np.array(poses, np.float64).reshape(-1, 4)
    if len(walk) != len(poses) or not set(actions) <= set(range(len(LETTERS))):
        raise ValueError(f"expected poses of four numbers, and actions 0 to {len(LETTERS) - 1}")
    texts = {name: row.get(name) for name in TEXTS} | {"spawn": _spawn(row)}
    if not all(isinstance(text, str | None) for text in texts.values()) or (poses and texts["scene_id"] is None):
        raise ValueError(f"expected texts or null for {', '.join(texts)}, and a scene_id where there is a walk")
    return {**row, **texts, "poses": walk, "actions": actions}


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
