"""The file of a question set: never half written, streamed when read, refused if damaged.

The file is JSON lines. Line 1 is the header: format, version, configuration (all that the contents depend on), counts
(split -> question type -> number), steps (step -> split -> number of questions left after it). Steps: generated,
possible to balance, visible, balanced, known to train's vocabulary, chosen, reached by walking. Each further line is
`{"split": ...}` with the fields of `envs.episode.Episode`. Splits come one after the other.
"""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eqa.envs.episode import Episode
from eqa.envs.files import atomic_write
from eqa.envs.reading import named, parsed, read_lines

FORMAT = "eqa-questions"
FORMAT_VERSION = 3
REBUILD = "python scripts/make_questions.py rebuilds it"


@dataclass(frozen=True)
class QuestionSet:
    """Episodes of each split and the file's header about them."""

    episodes: Mapping[str, Iterable[Episode]]
    header: dict


def write_questions(path: Path, questions: QuestionSet) -> None:
    """Writes a set, never half of it. Episodes may come from iterators: they are never in memory together.

    The header's number of episodes is counted on the way.
    """
    counts: dict[str, Counter[str]] = {}
    with (
        atomic_write(path) as aside,
        tempfile.NamedTemporaryFile("w+", dir=path.parent, prefix=f".{path.name}.") as lines,
        aside.open("w") as file,
    ):
        for split, episodes in questions.episodes.items():
            counts[split] = Counter()
            for episode in episodes:
                lines.write(json.dumps({"split": split, **episode.to_dict()}) + "\n")
                counts[split][episode.question_type] += 1
        lines.seek(0)
        file.write(json.dumps({**questions.header, "counts": counts}) + "\n")
        shutil.copyfileobj(lines, file)


def read_header(path: Path) -> dict:
    """The header of a question file; ValueError if it is missing, damaged or of another version."""
    with named(path, "not a usable question file", REBUILD):
        header = parsed(next(read_lines(path), ""))
        found = (header["format"], header["version"])
        if found != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"expected {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}")
        numbers = [number for of_split in header["counts"].values() for number in of_split.values()]
        if any(type(number) is not int for number in numbers) or not isinstance(header["configuration"], dict):
            raise ValueError("expected whole numbers in counts, and an object as configuration")
        return header


def stream_questions(path: Path, split: str) -> Iterator[Episode]:
    """A split's episodes, one at a time. ValueError names the line at which the file is damaged or ends too early."""
    expected = sum(read_header(path)["counts"].get(split, {}).values())
    if not expected:
        raise ValueError(f"{path}: no question in split {split!r}; {REBUILD}")
    found = 0
    with named(path, "not a usable question file", REBUILD):
        lines = read_lines(path)
        next(lines)
        for number, line in enumerate(lines, start=2):
            with named(path, f"line {number}: damaged", REBUILD):
                fields = parsed(line)
                if fields.pop("split") == split:
                    episode = Episode.from_dict(fields)
                    found += 1
                elif found:
                    break
                else:
                    continue
            yield episode
    if found != expected:
        raise ValueError(f"{path}: expected {expected} questions in split {split!r}, got {found}; {REBUILD}")


def load_questions(path: Path, split: str, *, configuration: Mapping | None = None) -> list[Episode]:
    """A split's episodes. ValueError as in `stream_questions`, and if the file has another configuration than given."""
    if configuration is not None and (made_with := read_header(path)["configuration"]) != dict(configuration):
        differ = sorted(k for k in {*made_with, *configuration} if made_with.get(k) != configuration.get(k))
        told = ", ".join(f"{k}: expected {configuration.get(k)!r}, got {made_with.get(k)!r}" for k in differ)
        raise ValueError(f"{path}: made with another configuration ({told}); {REBUILD}")
    return list(stream_questions(path, split))
