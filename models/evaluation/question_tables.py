"""Tables about a set of questions, for a terminal and as Markdown, beside the paper's numbers if it has some.

The paper: Das et al. 2018, Fig. 3 (sizes, and shares of the types, which `data/questions/questions.yaml` holds as set
`eqa_v1`).
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.table import Table

from eqa.data.questions.balance import normalized_entropy
from eqa.data.questions.counts import Asked, SplitCounts, pooled, scenes_per_question, word_counts
from eqa.data.questions.generate import HUMAN
from eqa.data.questions.rules import load_rules
from eqa.data.vocabulary import Vocabulary
from eqa.models.evaluation.blind import ALL, CHANCE, MAJORITY, MODELS, Accuracy, blind_accuracies
from eqa.models.evaluation.run_tables import markdown

PAPER_SET = "eqa_v1"
PAPER_SIZES = {"train": (643, 147, 4246), "val": (67, 104, 506), "test": (57, 105, 529)}  # houses, unique, questions
NAMED = 12  # answers and words with a name of their own; the rest is summed up

Counts = Mapping[str, SplitCounts]  # of each split


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table that is independent of the medium. `notes` stand below it.

    `words` are headings of further columns without numbers, besides the first.
    """

    title: str
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: str = ""
    words: Sequence[str] = ()

    def for_terminal(self) -> Table:
        """Table that shows repeated names of the first column once."""
        style = {"box": box.SIMPLE, "padding": 0, "pad_edge": False}  # fits 80 columns
        table = Table(
            title=f"\n{self.title}", caption=self.notes, caption_justify="left", title_justify="left", **style
        )
        for heading in self.headings:
            of_words = heading in (self.headings[0], *self.words)
            table.add_column(heading, justify="left" if of_words else "right", no_wrap=not of_words)
        parts = len({line[0] for line in self.lines}) < len(self.lines)
        before = None
        for name, *figures in self.lines:
            if parts and before not in (None, name):
                table.add_section()
            table.add_row("" if name == before else name, *figures)
            before = name
        return table

    def for_markdown(self) -> str:
        notes = f"\n\n{textwrap.fill(self.notes, 120, break_on_hyphens=False)}" if self.notes else ""
        return f"## {self.title}\n\n{markdown(self.headings, self.lines)}{notes}\n"


def all_types(counts: Counts) -> list[str]:
    """Question types, those of train first."""
    order = ["train", *counts]
    return list(dict.fromkeys(kind for split in order for kind in counts[split].types))


def judged(counts: Counts) -> list[SplitCounts]:
    """The splits by which a set is balanced: all but the homes that people designed."""
    return [found for split, found in counts.items() if split != HUMAN]


def paper_shares() -> Mapping[str, float]:
    return load_rules().sets[PAPER_SET]


def blind_of(counts: Counts, *, seed: int = 0) -> list[Accuracy]:
    """The blind baselines, with the vocabulary that train gives."""
    asked = {split: found.asked for split, found in counts.items()}
    pairs = ((question, answer) for (_, question), answers in asked["train"].items() for answer in answers)
    return blind_accuracies(asked, Vocabulary.of_pairs(pairs), seed=seed)


def overview(counts: Counts, blind: Iterable[Accuracy], steps: Mapping[str, Mapping[str, int]]) -> list[Sheet]:
    """Main tables of each new set. `steps`: the number of questions that each step of making it left."""
    return [
        sizes_sheet(counts),
        types_sheet(counts),
        answers_sheet(counts),
        blind_sheet(blind),
        steps_sheet(steps, counts),
    ]


def details(counts: Counts) -> list[Sheet]:
    return [strings_sheet(counts), words_sheet(counts), walks_sheet(counts)]


def sizes_sheet(counts: Counts) -> Sheet:
    lines = []
    for split, found in counts.items():
        houses = found.scenes.values()
        per_house = f"{found.num / len(houses):.1f} ({min(houses)} to {max(houses)})" if houses else "-"
        numbers = len(houses), found.num_strings, found.num
        paper = map(str, PAPER_SIZES.get(split, "---"))
        cells = (f"{own} / {theirs}" for own, theirs in zip(numbers, paper, strict=True))
        lines.append([split, *cells, per_house, f"{len(found.objects)}"])
    headings = ["split", "houses / paper", "unique / paper", "questions / paper", "per house", "objects"]
    return Sheet("sizes", headings, lines, "The paper has about 6 questions a house, 1 to 22.")


def types_sheet(counts: Counts) -> Sheet:
    paper, types = paper_shares(), {split: found.types for split, found in counts.items()}
    lines = []
    for kind in all_types(counts):
        line = [kind]
        for split, found in counts.items():
            line += [f"{types[split][kind]}", f"{types[split][kind] / found.num:.1%}" if found.num else "-"]
        lines.append([*line, f"{paper[kind]:.1%}" if kind in paper else "-"])
    columns = [name for split in counts for name in (split, "share")]
    return Sheet("question types", ["type", *columns, "paper"], lines)


def answers_sheet(counts: Counts) -> Sheet:
    lines = []
    for kind in all_types(counts):
        answers = counts["train"].answers(kind)
        lines.append([kind, f"{len(answers)}", _most_common(answers.most_common())])
    return Sheet("answers in train", ["type", "answers", "how often"], lines, words=["how often"])


def _most_common(counted: Sequence[tuple[str, int]]) -> str:
    told = ", ".join(f"{name} {number}" for name, number in counted[:NAMED])
    rest = counted[NAMED:]
    return f"{told}, {len(rest)} others {sum(number for _, number in rest)}" if rest else told or "-"


def blind_sheet(accuracies: Iterable[Accuracy]) -> Sheet:
    """One line for each split and type; all types last."""
    cells: dict[tuple[str, str], dict[str, Accuracy]] = {}
    for entry in accuracies:
        cells.setdefault((entry.split, entry.question_type), {})[entry.model] = entry
    types = [kind for kind in dict.fromkeys(kind for _, kind in cells) if kind != ALL]
    models = [name for name in MODELS if any(name in by_model for by_model in cells.values())]
    lines = []
    for split in dict.fromkeys(split for split, _ in cells):
        kinds = [kind for kind in types if (split, kind) in cells]
        for kind in (*kinds, ALL):
            by_model = cells[split, kind]
            figures = (_cell(by_model.get(model)) for model in models)
            lines.append([split, kind, f"{by_model[MAJORITY].num}", *figures])
    return Sheet(
        "answering without looking: % right",
        ["split", "type", "n", *models],
        lines,
        "chance: 1 of the k answers that the same question has in the split, the most that these models can reach; only where "
        "all k are equally frequent (balance paired). In brackets 95 % intervals.",
        words=["type"],
    )


def _cell(entry: Accuracy | None) -> str:
    """Accuracy with its interval; chance has none, because it is known and not measured."""
    if entry is None or entry.model == CHANCE:
        return "-" if entry is None else f"{100 * entry.mean:.1f}"
    low, high = entry.interval
    return f"{100 * entry.mean:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def steps_sheet(steps: Mapping[str, Mapping[str, int]], splits: Iterable[str]) -> Sheet:
    splits = list(splits)
    lines = [[step, *(f"{numbers.get(split, 0)}" for split in splits)] for step, numbers in steps.items()]
    return Sheet("questions left after each step of making them", ["step", *splits], lines)


def entropies(asked: Asked) -> dict[str, list[float]]:
    """Question type -> normalised entropy of the answers of each of its strings; 0 where there is one answer."""
    found: dict[str, list[float]] = {}
    for (kind, _), answers in asked.items():
        found.setdefault(kind, []).append(normalized_entropy(answers.values()))
    return found


def strings_sheet(counts: Counts) -> Sheet:
    """Balance of the different strings of a type."""
    asked, scenes = pooled(judged(counts)), scenes_per_question(judged(counts))
    least, lines = load_rules().balance.min_entropy, []
    for kind, entropy in entropies(asked).items():
        strings = [(question, answers) for (of, question), answers in asked.items() if of == kind]
        lines.append(
            [
                kind,
                f"{len(strings)}",
                _spread([scenes[question] for question, _ in strings]),
                _spread([len(answers) for _, answers in strings]),
                _spread(entropy, 2),
                f"{np.mean(np.array(entropy) < least):.1%}",
            ]
        )
    headings = ["type", "strings", "houses", "different answers", "normalised entropy", f"below {least:g}"]
    return Sheet("each question string", headings, lines, "Means, and in brackets the 5 % and 95 % quantiles.")


def words_sheet(counts: Counts) -> Sheet:
    words, lengths = word_counts(pooled(judged(counts)))
    length = _spread(list(lengths.elements()))
    line = [f"{len(words)}", length, _most_common(words.most_common())]
    return Sheet("words", ["different", "words a question", "how often"], [line], words=["how often"])


def walks(counts: Counts) -> dict[tuple[str, str], np.ndarray]:
    """(spawn, measure) -> the values that are known, of all splits."""
    names = dict.fromkeys(name for found in counts.values() for name in found.walks)
    return {n: np.concatenate([found.walks.get(n, np.empty(0)) for found in counts.values()]) for n in names}


def walks_sheet(counts: Counts) -> Sheet:
    """Distance from spawns to the goal. Questions without it are left out, and counted."""
    num, lines = sum(found.num for found in counts.values()), []
    for (spawn, measure), values in walks(counts).items():
        figures = (f"{value:.1f}" for value in (values.mean(), *np.quantile(values, (0.05, 0.5, 0.95))))
        lines.append([spawn, measure, f"{len(values)}", f"{num - len(values)}", *figures])
    headings = ["spawn", "shortest walk", "questions", "without it", "mean", "5 %", "median", "95 %"]
    notes = "" if lines else f"None of {num} questions says where a walk begins."
    return Sheet("walks", headings, lines, notes, words=["shortest walk"])


def _spread(values: Sequence[float], decimals: int = 0) -> str:
    """Mean, and the range that holds nine of ten."""
    low, high = np.quantile(values, (0.05, 0.95))
    return f"{np.mean(values):.{max(decimals, 1)}f} ({low:.{decimals}f} to {high:.{decimals}f})"
