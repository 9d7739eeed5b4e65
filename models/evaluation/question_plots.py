"""`draw`: a set of questions on one page of plots, as wide as A4 or 1600 pixels.

The panels show shares of the types beside the paper's, blind accuracies, answers of each type, and the balance, length,
frequency and distance of the questions. The figures are those of `models.evaluation.question_tables`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np

from eqa.data.questions.counts import pooled, scenes_per_question, word_counts
from eqa.envs.files import atomic_write
from eqa.models.evaluation.blind import ALL, CHANCE, MAJORITY, MODELS, Accuracy
from eqa.models.evaluation.question_tables import Counts, all_types, entropies, judged, paper_shares, walks

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

WIDTH_IN, ROW_IN, DPI = 11.7, 2.7, 137
COLUMNS = 3
LONGEST = 18  # bars of answers and words; rarer ones are summed up
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
GREY, MAIN = "#b0b0b0", "#4c72b0"
OF_MODELS = (GREY, "#dd8452", "#55a868", MAIN)

Panel = Callable[[Axes], None]


def draw(counts: Counts, blind: Sequence[Accuracy], path: Path, *, title: str) -> None:
    """Writes the page as a PNG. It grows with the number of question types."""
    colors = {kind: plt.get_cmap("tab20")(2 * i % 20 + i // 10 % 2) for i, kind in enumerate(all_types(counts))}
    panels = _panels(counts, colors)
    rows = 1 + -(-len(panels) // COLUMNS)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(WIDTH_IN, ROW_IN * rows), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, hspace=0.03, wspace=0.02)
        grid = figure.add_gridspec(rows, COLUMNS)
        _draw_types(figure.add_subplot(grid[0, 0]), counts, colors)
        _draw_blind(figure.add_subplot(grid[0, 1:]), blind)
        for place, panel in enumerate(panels, start=COLUMNS):
            panel(figure.add_subplot(grid[place // COLUMNS, place % COLUMNS]))
        figure.suptitle(title, fontsize=12)
        with atomic_write(path) as aside:
            figure.savefig(aside, dpi=DPI, format="png")
        plt.close(figure)


def _panels(counts: Counts, colors: Mapping) -> list[Panel]:
    """All panels below the first row, in their order."""
    asked = pooled(judged(counts))
    words, lengths = word_counts(asked)
    strings: dict[str, list[int]] = {}
    for (kind, _), answers in asked.items():
        strings.setdefault(kind, []).append(len(answers))
    answers = {kind: sum((a for (of, _), a in asked.items() if of == kind), Counter()) for kind in colors}
    scenes = list(scenes_per_question(judged(counts)).values())
    per_house = [number for found in judged(counts) for number in found.scenes.values()]
    whole = partial(_whole_numbers, colors={ALL: MAIN, **colors})
    return [
        *(
            partial(_bars, counted=answers[kind], title=f"answers: {kind}", color=color)
            for kind, color in colors.items()
            if answers[kind]
        ),
        partial(_draw_entropies, of_types=entropies(asked), colors=colors),
        partial(whole, of_types=strings, of="strings", title="answers per question string"),
        partial(whole, of_types={ALL: scenes}, of="strings", title="houses per question string", log=True),
        partial(whole, of_types={ALL: per_house}, of="houses", title="questions per house (paper: 1 to 22)"),
        partial(_bars, counted=words, title="words"),
        partial(whole, of_types={ALL: list(lengths.elements())}, of="questions", title="words per question"),
        *_walk_panels(counts),
    ]


def _draw_types(axis: Axes, counts: Counts, colors: Mapping) -> None:
    """Shares of the types over all splits that are balanced, the paper's in grey."""
    numbers = sum((found.types for found in judged(counts)), Counter())
    paper, kinds = paper_shares(), list(colors)
    place = np.arange(len(kinds))
    shares = [100 * numbers[kind] / numbers.total() for kind in kinds]
    axis.barh(place - 0.2, shares, 0.4, color=list(colors.values()))
    axis.barh(place + 0.2, [100 * paper.get(kind, 0) for kind in kinds], 0.4, color=GREY, label="paper")
    for at, kind, share in zip(place, kinds, shares, strict=True):
        axis.text(share, at - 0.2, f" {numbers[kind]}", va="center", fontsize=7)
    axis.set(yticks=place, yticklabels=kinds, title="question types", xlabel="% of the questions")
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.legend(frameon=False)


def _draw_blind(axis: Axes, blind: Sequence[Accuracy]) -> None:
    """Blind accuracies on the split for judgement: test, else val, else train."""
    splits = {entry.split for entry in blind}
    split = next(name for name in ("test", "val", "train") if name in splits)
    found = {(entry.question_type, entry.model): entry for entry in blind if entry.split == split}
    types = dict.fromkeys(entry.question_type for entry in blind)
    kinds = [ALL, *(kind for kind in types if kind != ALL and (kind, MAJORITY) in found)]
    models = [(name, color) for name, color in zip(MODELS, OF_MODELS, strict=True) if (ALL, name) in found]
    place, width = np.arange(len(kinds)), 0.8 / len(models)
    for nth, (model, color) in enumerate(models):
        entries = [found[kind, model] for kind in kinds]
        mean = np.array([entry.mean for entry in entries])
        spread = None
        if model != CHANCE:  # chance is known, not measured
            low, high = np.array([entry.interval for entry in entries]).T
            spread = 100 * np.maximum([mean - low, high - mean], 0)
        style = {"ecolor": "#333333", "elinewidth": 0.8, "capsize": 2}
        axis.bar(
            place + (nth - (len(models) - 1) / 2) * width,
            100 * mean,
            width,
            yerr=spread,
            color=color,
            label=model,
            error_kw=style,
        )
    axis.set(xticks=place, title=f"answering without looking, {split}: % right, with 95 % intervals", ylim=(0, 115))
    labels = [f"{kind} ({found[kind, MAJORITY].num})" for kind in kinds]
    slanted = {"rotation": 18, "ha": "right", "rotation_mode": "anchor", "fontsize": 8} if len(kinds) > 6 else {}
    axis.set_xticklabels(labels, **slanted)
    axis.set_yticks(range(0, 101, 20))
    axis.legend(frameon=False, ncols=len(models), loc="upper right")


def _bars(axis: Axes, *, counted: Counter[str], title: str, color: object = MAIN) -> None:
    """The most frequent ones as shares of all, and the rest as one bar."""
    bars = counted.most_common(LONGEST if len(counted) <= LONGEST else LONGEST - 1)
    colors = [color] * len(bars)
    if rest := len(counted) - len(bars):
        bars.append((f"{rest} others", counted.total() - sum(number for _, number in bars)))
        colors.append(GREY)
    names, numbers = zip(*bars, strict=True)
    axis.barh(np.arange(len(bars)), 100 * np.array(numbers) / counted.total(), color=colors)
    axis.set(yticks=np.arange(len(bars)), title=f"{title} ({len(counted)})", xlabel="%")
    axis.set_yticklabels(names, fontsize=8 if len(bars) < 13 else 6.5)
    axis.set_ylim(max(len(bars), 6) - 0.4, -0.6)


def _draw_entropies(axis: Axes, *, of_types: Mapping[str, Sequence[float]], colors: Mapping) -> None:
    kinds = list(of_types)
    axis.hist(
        [of_types[kind] for kind in kinds],
        np.linspace(0, 1, 21),
        stacked=True,
        color=[colors[kind] for kind in kinds],
        label=kinds,
    )
    axis.set(title="entropy of a question string's answers", xlabel="normalised", ylabel="strings", xlim=(0, 1))
    axis.legend(frameon=False, loc="upper center", fontsize=7)


def _whole_numbers(
    axis: Axes, *, of_types: Mapping[str, Sequence[int]], colors: Mapping, of: str, title: str, log: bool = False
) -> None:
    """A histogram of whole numbers, stacked by type; `of` names the unit of the other axis."""
    axis.hist(
        list(of_types.values()),
        _whole_edges([value for values in of_types.values() for value in values]),
        stacked=True,
        color=[colors[kind] for kind in of_types],
        rwidth=0.9,
        log=log,
    )
    axis.set(title=title, ylabel=of)
    axis.xaxis.get_major_locator().set_params(integer=True)


def _whole_edges(values: Sequence[int]) -> np.ndarray:
    """Edges of at most 40 bins, each of which holds equally many whole numbers."""
    low, high = min(values), max(*values, min(values) + 4)
    width = -(-(high - low + 1) // 40)
    return np.arange(low, high + width + 1, width) - 0.5


def _walk_panels(counts: Counts) -> list[Panel]:
    """One panel for each measure, with a line for each spawn; a panel with a remark if no question has any."""
    values, num = walks(counts), sum(found.num for found in counts.values())
    if not values:
        return [partial(_nothing, title="shortest walks", text=f"None of {num} questions\nsays where a walk begins.")]
    panels = []
    for measure in dict.fromkeys(measure for _, measure in values):
        of_spawns = {spawn: found for (spawn, of), found in values.items() if of == measure}
        panels.append(partial(_draw_walks, of_spawns=of_spawns, measure=measure, num=num))
    return panels


def _draw_walks(axis: Axes, *, of_spawns: Mapping[str, np.ndarray], measure: str, num: int) -> None:
    highest = max(found.max() for found in of_spawns.values())
    whole = measure.startswith("num_")
    edges = _whole_edges([0, int(highest)]) if whole else np.linspace(0, highest or 1, 41)
    for spawn, found in of_spawns.items():
        missing = f", {num - len(found)} without" if len(found) < num else ""
        axis.hist(found, edges, histtype="step", linewidth=1.4, label=f"{spawn}{missing}")
    axis.set(title=f"shortest walk: {measure}", ylabel="questions")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False)


def _nothing(axis: Axes, *, title: str, text: str) -> None:
    axis.text(0.5, 0.5, text, ha="center", va="center")
    axis.set(title=title)
    axis.axis("off")
