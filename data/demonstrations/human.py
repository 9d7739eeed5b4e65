"""Walks of people as demonstrations: one file for each walk, and all of them joined in one to learn from.

Both are demonstration files (`data.demonstrations.storage` opens them) with further datasets; T actions of a walk, S of
all, E walks:

    time_s         (S,) float64  seconds from the walk's first view to action t
    began          (E,) string   when the first view was shown: ISO 8601, UTC
    answers_given  (E,) string   the person's answer
    rows           (E,) string   the walk's row of metrics.jsonl, as JSON

A person may walk into things, so the pose stays the same after a refused FORWARD. A person may also use up an episode's
actions, so the last action need not be STOP. The `Episode` is the question's own: its `walk` is the shortest one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float64

from eqa.data.demonstrations.spawn_settings import current_name
from eqa.data.demonstrations.storage import Demonstrations, Recording, attribute, read_part, texts, write
from eqa.envs.reading import named, parsed

JOINED = "demonstrations.h5"


@dataclass(frozen=True, slots=True)
class HumanWalk:
    """One walk: its recording has one episode; its row names the spawn and holds the answer as `predicted`."""

    recording: Recording
    time_s: Float64[np.ndarray, " T"]
    began: str
    row: dict


def save_walk(folder: Path, walk: HumanWalk, configuration: Mapping) -> Path:
    """Writes a walk under `folder`; it replaces one of the same question from the same spawn."""
    path = folder / "walks" / f"{walk.row['episode_id']}_{walk.row['spawn'].replace(' ', '-')}.h5"
    _write(path, [walk], configuration)
    return path


def load_walks(folder: Path, *, configuration: Mapping | None = None) -> list[HumanWalk]:
    """All walks under `folder`, possibly none, in the order in which they were walked.

    ValueError names a file that is damaged or has another configuration than the given one, or else the first file's.
    """
    walks = []
    for path in _files(folder):
        try:
            with named(path, "not a walk that can be read"):
                configuration = configuration or _made_with(path)
                recording = read_part(path, configuration)
                with h5py.File(path, "r") as file:
                    began, row = (file[name].asstr()[0] for name in ("began", "rows"))
                    row = parsed(row)
                    row["spawn"] = current_name(row["spawn"])
                    walks.append(HumanWalk(recording, file["time_s"][:], began, row))
        except ValueError as error:
            raise ValueError(f"{error}; a person's walk cannot be made again: move {path} to another folder") from None
    return sorted(walks, key=lambda walk: walk.began)


def join_walks(folder: Path) -> Path | None:
    """Joins all walks under `folder` in one file, which `Demonstrations.open` reads; None if there are none."""
    if not (walks := load_walks(folder)):
        return None
    path = folder / JOINED
    _write(path, walks, _made_with(_files(folder)[0]))
    Demonstrations.open(path)
    return path


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "walks").glob("*.h5"))


def _made_with(path: Path) -> dict:
    with h5py.File(path, "r") as file:
        return parsed(attribute(file, "configuration"))


def _write(path: Path, walks: Sequence[HumanWalk], configuration: Mapping) -> None:
    recordings = [walk.recording for walk in walks]
    write(
        path,
        recordings,
        num_frames=sum(len(recording.actions) for recording in recordings),
        num_features=recordings[0].features.shape[1],
        config=configuration,
        extras={
            "time_s": np.concatenate([walk.time_s for walk in walks]),
            "began": texts([walk.began for walk in walks]),
            "answers_given": texts([walk.row["predicted"] for walk in walks]),
            "rows": texts([json.dumps(walk.row) for walk in walks]),
        },
    )
