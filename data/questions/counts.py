"""`count_questions`: counts of a set of questions of any length, in one pass over it.

Memory holds only different questions with their answers, houses, and the distances of spawns as plain numbers. Tables
and plots about a set (`models.evaluation.question_tables`, `models.evaluation.question_plots`) and question-only models
(`models.evaluation.blind`) start from these counts.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eqa.data.questions.storage import read_header, stream_questions
from eqa.data.vocabulary import tokenize
from eqa.envs.episode import Episode
from eqa.envs.progress import progress

# One split's questions: (question type, question) -> counts of right answers.
Asked = dict[tuple[str, str], Counter[str]]
MEASURES = ("distance_m", "num_actions", "num_rooms")  # of a `Spawn`

_OBJECT = re.compile(r'objects\("([^"]*)"\)')


@dataclass
class SplitCounts:
    asked: Asked = field(default_factory=dict)
    scenes: Counter[str] = field(default_factory=Counter)  # house -> questions about it
    objects: set[str] = field(default_factory=set)  # names that programs look for
    scenes_of: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # question -> houses, numbered
    walks: dict[tuple[str, str], array] = field(
        default_factory=dict
    )  # (spawn, measure) -> values, unknown ones left out
    num: int = 0

    @property
    def types(self) -> Counter[str]:
        """Number of questions of each type."""
        types: Counter[str] = Counter()
        for (kind, _), answers in self.asked.items():
            types[kind] += answers.total()
        return types

    def answers(self, kind: str) -> Counter[str]:
        """Counts of right answers to the questions of a type."""
        return sum((answers for (of, _), answers in self.asked.items() if of == kind), Counter())

    @property
    def num_strings(self) -> int:
        return len({question for _, question in self.asked})


def tally(episodes: Iterable[Episode]) -> Asked:
    """The different questions of one split with their counts."""
    return count_split(episodes).asked


def count_split(episodes: Iterable[Episode]) -> SplitCounts:
    """Counts a split in one pass; its episodes need not be in memory together."""
    counts, numbers = SplitCounts(), {}
    for episode in episodes:
        counts.num += 1
        counts.asked.setdefault((episode.question_type, episode.question), Counter())[episode.answer] += 1
        counts.scenes[episode.scene_id] += 1
        counts.scenes_of[episode.question].add(numbers.setdefault(episode.scene_id, len(numbers)))
        counts.objects.update(_OBJECT.findall(episode.program or ""))
        for name, spawn in (episode.spawns or {}).items():
            for measure in MEASURES:
                if (value := getattr(spawn, measure)) is not None:
                    counts.walks.setdefault((name, measure), array("d")).append(value)
    return counts


def count_questions(episodes: Mapping[str, Iterable[Episode]]) -> dict[str, SplitCounts]:
    """Counts each split; ValueError if train, which limits the others' answers, has no question."""
    counts = {split: count_split(found) for split, found in episodes.items()}
    if not counts.get("train", SplitCounts()).num:
        told = {split: found.num for split, found in counts.items()}
        raise ValueError(f"questions: expected some in the split train, got {told}; name a set that one can learn from")
    return counts


def count_file(path: Path) -> dict[str, SplitCounts]:
    """Counts a question file as it is streamed, with a bar; splits without questions are left out."""
    sizes = {split: sum(types.values()) for split, types in read_header(path)["counts"].items()}
    with progress("questions read", sum(sizes.values())) as advance:

        def told(split: str) -> Iterator[Episode]:
            for number, episode in enumerate(stream_questions(path, split), start=1):
                if number % 1000 == 0 or number == sizes[split]:
                    advance(1000 if number % 1000 == 0 else number % 1000)
                yield episode

        return count_questions({split: told(split) for split, size in sizes.items() if size})


def pooled(splits: Iterable[SplitCounts]) -> Asked:
    """The questions of several splits together."""
    asked: Asked = {}
    for counts in splits:
        for key, answers in counts.asked.items():
            asked.setdefault(key, Counter()).update(answers)
    return asked


def scenes_per_question(splits: Sequence[SplitCounts]) -> Counter[str]:
    """Number of houses that each question is asked in. A house is in one split."""
    scenes: Counter[str] = Counter()
    for counts in splits:
        scenes.update({question: len(found) for question, found in counts.scenes_of.items()})
    return scenes


def word_counts(asked: Asked) -> tuple[Counter[str], Counter[int]]:
    """Counts of words, and of questions by their number of words."""
    words: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for (_, question), answers in asked.items():
        tokens = tokenize(question)
        lengths[len(tokens)] += answers.total()
        for word in tokens:
            words[word] += answers.total()
    return words, lengths
