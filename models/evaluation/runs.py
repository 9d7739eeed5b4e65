"""Reads the rows of several runs, and refuses runs that must not stand in one table.

A run's folder has `metrics.jsonl`, the rows described in `models.evaluation.evaluate`. Newer versions add `run.json`:
row of the table, seed and data of the training. Rows of the same agent and spawn in several runs are seeds of one line.
A run without `run.json` counts as a seed of its own, named by its folder.

Rows carry the relations of their line to others (`models.agents.relations`); nothing is read from names. Rows of older
versions lack these fields: such a line has no relations.

`keep` stores the part of a run that tables need, in a small folder that is read like the run's own:
- `metrics.jsonl.xz`, packed rows: an object for each agent and spawn, with a list for each column. Numbers keep two
  decimals. Of the walks it has only every fifth distance to the target, in metres with one decimal.
- `run.json`, and the curves of its training.

Measurements are rounded to two decimals from either source, so that a run and its kept copy give the same.
"""

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from eqa.data.demonstrations.spawn_settings import current_name as spawn_setting
from eqa.envs.files import atomic_write
from eqa.envs.reading import named, parsed, read_lines, read_text, shown
from eqa.models.agents.relations import RELATIONS, Relations
from eqa.models.evaluation.run_tables import CITY, COLUMNS
from eqa.models.registry import current_name

MEASURED = tuple(dict.fromkeys(["d_0", *(c[0] for c in COLUMNS + CITY), "success", "spl", "collisions"]))
ROWS, KEPT_ROWS = "metrics.jsonl", "metrics.jsonl.xz"
WALK = ("actions", "poses")  # columns that no table needs
MOST_ACTIONS = 100_000  # of a walk
EVERY = 5  # actions between the distances that are kept; they are only drawn
IDENTITY = ("agent", "spawn", "episode_id", "scene_id", "question_type", "question", "answer")
# Settings, or last words of them, in which seeds of one line may differ: classes had other names in older versions, and
# `also_at` plays further lines.
OF_THIS_RUN = {"seed", "run_folder", "folder", "checkpoint", "agent.path", "_target_", "also_at"}

NAMES = ("agent", *(name for name in RELATIONS if name != "stop_odds"))
TODAY = {"spawn": spawn_setting, **dict.fromkeys(NAMES, current_name)}  # names in today's words, by field

Place = tuple[str, str | None]  # agent and spawn


@dataclass(frozen=True, slots=True)
class Played:
    """One question played by one agent: a row without the walk, but with the metres to the target along it."""

    scene_id: str
    question_type: str
    question: str
    answer: str
    predicted: str | None
    values: dict[str, float | None]
    distances: Float32[np.ndarray, " T"] | None


@dataclass(frozen=True, slots=True)
class Run:
    """Rows and record of a run.

    `lines` are the rows of each agent and spawn, by episode; `record` is run.json, empty if there is none. `relations`
    are those of each agent.
    """

    folder: Path
    record: dict
    lines: dict[Place, dict[str, Played]]
    relations: dict[str, Relations] = field(default_factory=dict)

    @property
    def seed(self) -> int | str:
        return self.record.get("seed", self.folder.name)

    @property
    def name(self) -> str:
        return current_name(self.record.get("name", self.record.get("row", self.folder.name)))


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Reads all runs. ValueError for one without rows, or if data, questions, settings or numbers do not fit."""
    runs = [read_run(folder) for folder in folders]
    for first, other in combinations(runs, 2):
        _check_data(first, other)
        _check_settings(first, other)
        _check_numbers(first, other)
        _check_relations(first, other)
    _check_questions(runs)
    return runs


def read_run(folder: Path) -> Run:
    """Reads one run; ValueError names the line that is not in today's form."""
    path = next((p for p in (folder / ROWS, folder / KEPT_ROWS) if p.is_file()), None)
    if path is None:
        raise ValueError(f"{folder}: expected a run's folder with metrics.jsonl, got none; python eval.py writes one")
    lines: dict[Place, dict[str, Played]] = {}
    relations: dict[str, Relations] = {}
    with named(path, "not the rows of a run", "evaluate again with python eval.py"):
        for where, row in _rows(path):
            place, episode, played = _played(row, where)
            if episode in lines.setdefault(place, {}):
                raise ValueError(f"{where}: expected each question once for {_name(place)}, got {episode} again")
            lines[place][episode] = played
            of_row = _related(row, where)
            if relations.setdefault(place[0], of_row) != of_row:
                raise ValueError(f"{where}: expected the relations of {place[0]}'s first row, got others: {of_row}")
    if not lines:
        raise ValueError(f"{path}: expected rows, got an empty file; evaluate again with python eval.py")
    record_path = folder / "run.json"
    return Run(folder, _record(record_path) if record_path.is_file() else {}, lines, relations)


def _record(path: Path) -> dict:
    ((where, record),) = _objects(path)
    for name, kinds in (("name", str), ("row", str), ("seed", int | str), ("data", dict), ("configuration", dict)):
        if name in record and not isinstance(record[name], kinds):
            raise ValueError(f"{where}: {name}: expected {kinds}, got {shown(record[name])}; run it again")
    return record


def keep(run: Path, out: Path) -> Path:
    """Stores the part of a run that tables need under `out`, by the run's name; returns the folder.

    ValueError as `read_run`.
    """
    read_run(run)
    kept = out / run.name
    groups: dict[Place, list[dict]] = {}
    for _, row in _rows(run / ROWS):
        groups.setdefault((row["agent"], row["spawn"]), []).append(row)
    packed = "".join(json.dumps(_packed(rows)) + "\n" for rows in groups.values())
    with atomic_write(kept / KEPT_ROWS) as aside:
        aside.write_bytes(lzma.compress(packed.encode(), preset=9))
    for path in (run / "run.json", *sorted(run.glob("*/log/version_*/metrics.csv"))):
        if path.is_file():
            with atomic_write(kept / path.relative_to(run)) as aside:
                aside.write_text(path.read_text().replace(str(run.resolve()), run.name))  # this folder exists here only
    return kept


def _packed(rows: Sequence[dict]) -> dict:
    """Rows of one agent and spawn by columns, rounded; what all of them share stands there once."""
    columns = {name: [_rounded(row.get(name)) for row in rows] for name in rows[0] if name not in WALK}
    if columns.get("distances"):
        ends = (int(row["ep_len"] or 0) for row in rows)
        columns["distances"] = [
            row["distances"] and [round(distance, 1) for distance in row["distances"][:end:EVERY]]
            for row, end in zip(rows, ends, strict=True)
        ]
    shared = {name: rows[0].get(name) for name in ("agent", "spawn", *RELATIONS)}
    return columns | shared | {"distances_every": EVERY}


def _rounded(value: object) -> object:
    """Numbers with two decimals, whole ones without; other values unchanged."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else round(value, 2)


def _rows(path: Path) -> Iterator[tuple[str, dict]]:
    """The rows of a run's file or of a kept one, each with its location; lines have today's names."""
    for where, content in _objects(path):
        for name, today in TODAY.items():
            if isinstance(content.get(name), str):
                content[name] = today(content[name])
        if not isinstance(content.get("episode_id"), list):
            yield where, content
            continue
        lengths = {len(column) for column in content.values() if isinstance(column, list)}
        if len(lengths) > 1:
            raise ValueError(f"{where}: expected columns of one length, got {sorted(lengths)}")
        for number in range(len(content["episode_id"])):
            row = {name: column[number] if isinstance(column, list) else column for name, column in content.items()}
            if row.get("distances") is not None:
                if not 0 <= row["ep_len"] <= MOST_ACTIONS or type(row["distances_every"]) is not int:
                    raise ValueError(f"{where}: ep_len: expected 0 to {MOST_ACTIONS}, got {row['ep_len']}")
                steps = np.arange(int(row["ep_len"]) + 1)
                kept = np.append(steps[: -1 : row["distances_every"]], steps[-1])
                row["distances"] = np.interp(steps, kept, [*row["distances"], row["d_T"]])
            yield where, row


def _objects(path: Path) -> Iterator[tuple[str, dict]]:
    """The objects of a file, one on each line or a single one, each with its location."""
    with named(path, "not a file that a run writes", "evaluate again with python eval.py"):
        for number, text in enumerate([read_text(path, "record")] if path.suffix == ".json" else read_lines(path), 1):
            where = f"{path}:{number}"
            try:
                content = {**parsed(text)}
            except (TypeError, ValueError):
                raise ValueError(
                    f"{where}: expected a JSON object, got {text[:40]!r}; if the run was cut off, start it again"
                ) from None
            yield where, content


def _related(row: dict, where: str) -> Relations:
    found = {name: row.get(name) for name in RELATIONS}
    for name, value in found.items():
        kinds = (int, float) if name == "stop_odds" else str
        if value is not None and not isinstance(value, kinds):
            what = "a number" if name == "stop_odds" else "a line's name"
            raise ValueError(f"{where}: {name}: expected {what} or null, got {shown(value)}")
    return Relations(**found)


def _played(row: dict, where: str) -> tuple[Place, str, Played]:
    missing = [name for name in IDENTITY if name not in row]
    if missing:
        raise ValueError(f"{where}: expected {', '.join(IDENTITY)}, got a row without {', '.join(missing)}")
    for name in (*IDENTITY, "predicted"):
        value = row.get(name)
        if name != "spawn" and not (isinstance(value, str) or name == "predicted" and value is None):
            raise ValueError(f"{where}: {name}: expected a text, got {shown(value)}")
    if not (row["spawn"] is None or isinstance(row["spawn"], str)):
        raise ValueError(
            f'{where}: spawn: expected a name such as "T-10", or null, got {row["spawn"]!r}; '
            "an older version wrote this: evaluate again with python eval.py"
        )
    values = {name: row.get(name) for name in MEASURED}
    for name, value in values.items():
        if not (value is None or isinstance(value, int | float) and abs(value) < 1e9):
            raise ValueError(f"{where}: {name}: expected a number or null, got {value!r}")
    values = {name: _rounded(value) for name, value in values.items()}
    distances = row.get("distances")
    if distances is not None:
        if not len(distances) or len(row.get("poses") or distances) != len(distances):
            raise ValueError(
                f"{where}: distances: expected one for each of {len(row.get('poses') or [])} poses, got {len(distances)}"
            )
        distances = np.clip(np.array(distances, np.float64), -1e9, 1e9).astype(np.float32)
    about = (row[name] for name in ("scene_id", "question_type", "question", "answer"))
    return (row["agent"], row["spawn"]), row["episode_id"], Played(*about, row.get("predicted"), values, distances)


def _check_data(first: Run, other: Run) -> None:
    """Raises if runs do not have the same questions, or seeds of a row the same features.

    Rows may differ in their encoders.
    """
    of_first, of_other = (dict(_leaves(run.record.get("data", {}))) for run in (first, other))
    shared = of_first.keys() & of_other.keys() - {"checkpoint"}
    for name in sorted(shared, reverse=True) if first.name == other.name else shared & {"questions"}:
        if of_first[name] != of_other[name]:
            raise ValueError(
                f"{other.folder}: data.{name}: expected the fingerprint of {first.folder}, {of_first[name]}, got "
                f"{of_other[name]}; lines are compared over the same data: run both on the same houses and questions"
            )


def _check_settings(first: Run, other: Run) -> None:
    """Raises if seeds of a row differ in a setting of both configurations, but for the seed and the paths."""
    if first.seed == other.seed or not first.record or not other.record or first.name != other.name:
        return
    settings = (dict(_leaves(run.record.get("configuration", {}))) for run in (first, other))
    of_first, of_other = (
        {k: v for k, v in s.items() if OF_THIS_RUN.isdisjoint((k, k.split(".")[-1]))} for s in settings
    )
    differing = sorted(name for name in of_first.keys() & of_other.keys() if of_first[name] != of_other[name])
    if differing:
        name = differing[0]
        raise ValueError(
            f"{other.folder}: expected another seed of {first.name} with the settings of {first.folder}, got others: "
            f"{', '.join(differing)} ({name}: {of_first[name]!r} there, {of_other[name]!r} here); name its row otherwise"
        )


def _leaves(content: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(content, Mapping):
        for name, inner in content.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, content


def _check_numbers(first: Run, other: Run) -> None:
    """Raises if two runs of the same seed give a line different numbers."""
    if first.seed != other.seed:
        return
    for place in first.lines.keys() & other.lines.keys():
        for episode in first.lines[place].keys() & other.lines[place].keys():
            there, here = first.lines[place][episode], other.lines[place][episode]
            differing = [name for name in MEASURED if _differ(there.values[name], here.values[name])]
            if differing or there.predicted != here.predicted:
                what = "the predicted answer"
                if differing:
                    name = differing[0]
                    what = f"{name} ({there.values[name]} there, {here.values[name]} here)"
                raise ValueError(
                    f"{other.folder}: {_name(place)}, seed {first.seed}: expected the numbers of {first.folder}, got "
                    f"others, for instance {what} of question {episode}; leave one of the two out"
                )


def _check_relations(first: Run, other: Run) -> None:
    """Raises if two runs say different things of a line; a run of an older version says nothing."""
    for agent in first.relations.keys() & other.relations.keys():
        there, here = first.relations[agent], other.relations[agent]
        for name in RELATIONS:
            one, two = getattr(there, name), getattr(here, name)
            if Relations() not in (there, here) and one != two:
                raise ValueError(
                    f"{other.folder}: {agent}: {name}: expected {one!r} as in {first.folder}, got {two!r}; "
                    "lines of one name are seeds of one agent: name one of them otherwise"
                )


def _differ(one: float | None, other: float | None) -> bool:
    """True if both are known and differ; older versions did not measure everything."""
    return None not in (one, other) and one != other


def _check_questions(runs: Sequence[Run]) -> None:
    """Raises if lines of a spawn have not played the same questions."""
    expected: dict[str | None, tuple[str, set]] = {}
    for run in runs:
        for place, rows in run.lines.items():
            whose = f"{run.folder}, {_name(place)}"
            questions = {(episode, row.scene_id, row.question, row.answer) for episode, row in rows.items()}
            of_whom, wanted = expected.setdefault(place[1], (whose, questions))
            if questions != wanted:
                raise ValueError(
                    f"{whose}: expected the {len(wanted)} questions of {of_whom}, got {len(questions)}: "
                    f"{_some(wanted - questions)} missing, {_some(questions - wanted)} not among them; "
                    "every line of a spawn is a mean over the same questions: evaluate both on the same split and data"
                )


def _some(questions: set) -> str:
    names = sorted({episode for episode, *_ in questions})
    return f"{len(names)}" + (f" ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})" if names else "")


def _name(place: Place) -> str:
    return place[0] if place[1] is None else f"{place[0]} at {place[1]}"
