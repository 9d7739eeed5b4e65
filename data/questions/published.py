"""A question set as it is published: a folder that other programs read, and the one that comes with this package.

The folder has a file of JSON lines for each split (`train.jsonl.gz`), which `datasets` and `pandas` read as they are,
`header.json`, the header of `data.questions.storage`, and a card. The packaged set is the default run's. Its houses are
made from their seeds, so nothing is downloaded.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from eqa.data.questions.storage import QuestionSet, read_header, stream_questions
from eqa.envs.episode import Episode
from eqa.envs.files import atomic_write
from eqa.envs.reading import named, parsed, read_lines, read_text

PACKAGED = Path(__file__).with_name("published")
HEADER = "header.json"
REMEDY = "python scripts/publish.py questions FILE writes one anew"


def publish_questions(path: Path, folder: Path) -> None:
    """Writes a question file as a published folder, without its card."""
    header = read_header(path)
    for split in header["counts"]:
        with (
            atomic_write(folder / _name(split)) as aside,
            aside.open("wb") as packed,
            gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as file,  # no name and no time: the same bytes again
        ):
            for episode in stream_questions(path, split):
                file.write(json.dumps(episode.to_dict()).encode() + b"\n")
    with atomic_write(folder / HEADER) as aside:
        aside.write_text(json.dumps(header, indent=1) + "\n")


def published_questions(configuration: Mapping, folder: Path = PACKAGED) -> QuestionSet | None:
    """The set in a published folder; None if it was made with another configuration. ValueError names a damaged file.

    Each split can be read once.
    """
    with named(folder / HEADER, "not a published set's header", REMEDY):
        header = parsed(read_text(folder / HEADER, "record"))
        if header["configuration"] != configuration:
            return None
        splits = {split: sum(of_type.values()) for split, of_type in header["counts"].items()}
    return QuestionSet({split: _episodes(folder / _name(split), number) for split, number in splits.items()}, header)


def _name(split: str) -> str:
    return f"{split}.jsonl.gz"


def _episodes(path: Path, expected: int) -> Iterator[Episode]:
    found = 0
    with named(path, "not a usable part of a published set", REMEDY):
        for line in read_lines(path):
            found += 1
            yield Episode.from_dict(parsed(line))
        if found != expected:
            raise ValueError(f"expected {expected} questions, got {found}")
