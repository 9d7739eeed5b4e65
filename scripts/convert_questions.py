"""Converts question sets between our file, EQA v1's and MP3D-EQA's, and prints the fields that the format loses.

    python scripts/convert_questions.py questions.jsonl eqa_v1.json
    python scripts/convert_questions.py questions.jsonl mp3d       # mp3d/train/train.json.gz, mp3d/val/val.json.gz, ...
    python scripts/convert_questions.py mp3d questions.jsonl       # such a folder; or one split's .json.gz
    python scripts/convert_questions.py eqa_v1.json questions.jsonl

Names tell the format: .jsonl is ours (`make_questions.py` makes it), .json EQA v1's, .json.gz or a folder MP3D-EQA's.
--to gives the format of OUT if its name does not. The fields are in docs/question-formats.md.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from rich.table import Table

from eqa.data.benchmarks import eqa_v1, lost, mp3d_eqa
from eqa.data.benchmarks.mp3d_eqa import PACKED
from eqa.data.questions.generate import ALL_SPLITS
from eqa.data.questions.storage import (
    FORMAT,
    FORMAT_VERSION,
    QuestionSet,
    read_header,
    stream_questions,
    write_questions,
)
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.progress import console

OURS, EQA_V1, MP3D = "jsonl", "eqa_v1", "mp3d"
SUFFIXES = {".jsonl": OURS, ".json": EQA_V1, ".json.gz": MP3D, "": MP3D}
Splits = dict[str, Callable[[], Iterable[Episode]]]  # each call gives the split's episodes from the start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="IN")
    parser.add_argument("target", type=Path, metavar="OUT")
    parser.add_argument("--to", choices=(OURS, EQA_V1, MP3D), help="format of OUT (default: by its name)")
    parser.add_argument("--scenes", default=f"{mp3d_eqa.PREFIX}eqa", help="MP3D-EQA: folder of the exported houses")
    arguments = parser.parse_args()
    try:
        splits = read(arguments.source)
        report = convert(
            splits, arguments.target, to=arguments.to or kind_of(arguments.target), scenes=arguments.scenes
        )
    except ValueError as error:
        sys.exit(f"convert_questions: {error}")
    console.print(f"\n{arguments.target}", markup=False)
    for table in report.tables():
        console.print(table)


class Report:
    """Counts of the written episodes, and of the fields that would be read back changed."""

    def __init__(self) -> None:
        self.written: dict[str, Counter] = {}
        self.houses: dict[str, set[str]] = {}
        self.files: dict[str, Path] = {}
        self.lost: Counter = Counter()

    def watch(
        self, split: str, episodes: Iterable[Episode], file: Path, *, back: Callable[[Episode], Episode]
    ) -> Iterator[Episode]:
        """Passes episodes on; `back` gives an episode as it is after writing and reading."""
        counts = self.written[split] = Counter()
        houses = self.houses[split] = set()
        self.files[split] = file
        for episode in episodes:
            self.lost.update(lost(episode, back(episode)))
            houses.add(episode.scene_id)
            present = ("start", "walk", "view_points", "touched")
            counts.update(["questions", *(name for name in present if getattr(episode, name) is not None)])
            yield episode

    def tables(self) -> list[Table]:
        written = Table(
            "split", "file", "questions", "scenes", "with start", "walk", "view points", "boxes", title="written"
        )
        for split, counts in self.written.items():
            columns = (counts[name] for name in ("start", "walk", "view_points", "touched"))
            row = [counts["questions"], len(self.houses[split]), *columns]
            written.add_row(split, self.files[split].name, *map(str, row))
        if not self.lost:
            return [written]
        total = sum(counts["questions"] for counts in self.written.values())
        table = Table("field", "questions", title=f"does not come back the same (of {total} questions)")
        for name, number in self.lost.most_common():
            table.add_row(name, str(number))
        return [written, table]


def kind_of(path: Path) -> str:
    """The format that a name stands for; ValueError for another name."""
    suffix = PACKED if path.name.endswith(PACKED) else path.suffix
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: expected a name in {[s for s in SUFFIXES if s]} or a folder, got {suffix!r}; see --to"
        )
    return SUFFIXES[suffix]


def read(path: Path) -> Splits:
    """The splits of a question set; ValueError if there is none."""
    if not path.exists():
        raise ValueError(f"{path}: expected a question set, found nothing; python scripts/make_questions.py makes one")
    kind = MP3D if path.is_dir() else kind_of(path)
    if kind == OURS:
        counts = read_header(path)["counts"]
        return {split: partial(stream_questions, path, split) for split, types in counts.items() if types}
    if kind == EQA_V1:
        found = eqa_v1.read_eqa_v1(path)
    else:
        found = {split: _by_scene(mp3d_eqa.read_mp3d_eqa(file)) for split, file in mp3d_eqa.split_files(path).items()}
    return {split: partial(iter, episodes) for split, episodes in found.items() if episodes}


def convert(splits: Splits, target: Path, *, to: str, scenes: str) -> Report:
    """Writes all splits in the format `to`."""
    if not splits:
        raise ValueError("expected a question set with questions, got none")
    report = Report()
    if to == OURS:
        _write_ours(target, {s: report.watch(s, episodes(), target, back=_same) for s, episodes in splits.items()})
    elif to == EQA_V1:
        eqa_v1.write_eqa_v1(target, {s: report.watch(s, e(), target, back=_via_eqa_v1) for s, e in splits.items()})
    else:
        _write_packed(target, splits, report, scenes)
    return report


def _by_scene(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes in the other formats' order: by scene, and in their own order within one."""
    return sorted(episodes, key=lambda episode: episode.scene_id)


def _same(episode: Episode) -> Episode:
    return Episode.from_dict(episode.to_dict())


def _via_eqa_v1(episode: Episode) -> Episode:
    return eqa_v1.from_entry(eqa_v1.to_entry(episode), frame=episode.frame)


def _write_ours(target: Path, episodes: Mapping[str, Iterable[Episode]]) -> None:
    """Writes our file; each episode names its own source."""
    order = (*ALL_SPLITS, *sorted(set(episodes) - set(ALL_SPLITS)))
    ordered = {split: episodes[split] for split in order if split in episodes}
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "configuration": {"generator": "convert_questions"},
        "steps": {},
    }
    write_questions(target, QuestionSet(ordered, header))


def _write_packed(target: Path, splits: Splits, report: Report, scenes: str) -> None:
    """Writes a file for each split. They share the vocabulary of all splits, as EQA v1's do."""
    if target.name.endswith(PACKED) and len(splits) > 1:
        raise ValueError(f"{target}: expected a folder for the splits {list(splits)}, got one file's name")
    vocabulary = Vocabulary.of(chain.from_iterable(episodes() for episodes in splits.values()))

    def back(episode: Episode) -> Episode:
        entry = mp3d_eqa.to_entry(episode, number=0, vocabulary=vocabulary, scenes=scenes)
        return mp3d_eqa.from_entry(entry)

    for split, episodes in splits.items():
        file = target if target.name.endswith(PACKED) else target / split / f"{split}{PACKED}"
        watched = report.watch(split, episodes(), file, back=back)
        mp3d_eqa.write_mp3d_eqa(file, watched, vocabulary=vocabulary, scenes=scenes)


if __name__ == "__main__":
    main()
