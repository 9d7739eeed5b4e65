"""Plots over several runs: learning curves, distance to the target step by step, and how much nearer each line gets.

An agent has the same colour in all of them.
"""

import io
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from eqa.envs.files import atomic_write
from eqa.models.agents.relations import Relations
from eqa.models.evaluation.comparison import (
    REFERENCE,
    WITH_QUESTION,
    Lines,
    bootstrap_of,
    by_line,
    distances_by_step,
    in_order,
    longest_walk,
    paper_estimates,
)
from eqa.models.evaluation.run_tables import logged
from eqa.models.evaluation.runs import Run
from eqa.models.evaluation.statistics import Columns

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

COLORS = {
    "random walk": "#b0b0b0",
    "forward only": "#6e6e6e",
    "Reactive+Q": "#e8a33d",
    "LSTM+Q": "#4c72b0",
    "PACMAN+Q": "#c0392b",
    "PACMAN-RL+Q": "#8e44ad",
    "shortest path": "#2e8b57",
}
OTHER_COLORS = (
    *("#17a2b8", "#8c564b", "#e377c2", "#bcbd22", "#393b79", "#637939"),
    *("#d98880", "#1a5276", "#af7ac5", "#117864", "#7b241c", "#f0b27a"),
    *("#7d3cff", "#f7c600", "#0057e7", "#00e0a4", "#ff4f81", "#4a2c00"),
    *("#9acd32", "#008b8b", "#ff7f50", "#708090", "#c71585", "#5f9ea0"),
    *("#b8860b", "#2f4f4f", "#87cefa", "#dda0dd", "#006400", "#ff0000"),
)
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
}
INK = "#222222"
PAPER_MARK = {"linestyle": "", "marker": "D", "color": "white", "markeredgecolor": "black", "markersize": 5}
PARTS = ("train", "val")
DPI = 100
SHADES = 128  # of a picture, lines' soft edges included
ACROSS = 3  # panels side by side
MOST_LINES = 5  # in a panel; more cannot be told apart


def line_styles(agents: Sequence[str], relations: Mapping[str, Relations]) -> dict[str, dict]:
    """Colour and dashes of each agent; the one of a pair that does not get the question is paler and dashed.

    A line that another agent walks is drawn as its walker.
    """
    others, walkers = iter(OTHER_COLORS * len(agents)), {agent: _walker(agent, relations) for agent in agents}
    family_of = {agent: WITH_QUESTION.get(walker, walker) for agent, walker in walkers.items()}
    families = {family: COLORS.get(family) or next(others) for family in dict.fromkeys(family_of.values())}
    looks = {}
    for agent in agents:
        color = np.array(to_rgb(families[family_of[agent]]))
        deaf = WITH_QUESTION.get(agent) in agents
        looks[agent] = {"color": tuple(1 - 0.55 * (1 - color) if deaf else color), "linestyle": "--" if deaf else "-"}
    return looks


def _walker(agent: str, relations: Mapping[str, Relations]) -> str:
    return relations.get(agent, Relations()).walked_by or agent


def once_each(signatures: Mapping[str, object], relations: Mapping[str, Relations]) -> list[str]:
    """Agents in the given order; of those that walk alike with different answers, only the shortest name.

    A line that another agent walks counts as its walker.
    """
    shortest = {}
    for agent in sorted(signatures, key=len, reverse=True):
        shortest[signatures.get(_walker(agent, relations), signatures[agent])] = agent
    return [agent for agent in signatures if agent in shortest.values()]


def draw_ratio(lines: Lines, entries: Sequence[Mapping], path: Path) -> bool:
    """Bars of d_Δ/d_0: a panel for each spawn, a bar for each agent with its interval, the paper's value as a diamond.

    Values beyond the left end stand there as a number, without interval. False, and no picture, if no line has walks.
    """
    ours, paper = (
        {key: of_line["ratio"] for key, of_line in by_line(found).items() if "ratio" in of_line}
        for found in (entries, paper_estimates())
    )
    spawns = [spawn for spawn in lines.questions if any(spawn == of for _, of in ours)]
    if not spawns:
        return False
    walks = {
        agent: tuple((spawn, e["mean"], e["low"], e["high"]) for (of, spawn), e in ours.items() if of == agent)
        for agent in lines.agents
    }
    agents = once_each({agent: walk for agent, walk in walks.items() if walk}, lines.relations)
    paper = {key: entry for key, entry in paper.items() if key in ours}
    leftmost = min([0.0, *(entry["low"] for entry in ours.values()), *(entry["mean"] for entry in paper.values())])
    panel = partial(
        _ratio_panel,
        agents=agents,
        ours=ours,
        paper=paper,
        looks=line_styles(lines.agents, lines.relations),
        left=max(leftmost, -1.0) - 0.05,
    )
    handles = [Line2D([], [], color=INK, linewidth=1.2, label="95 % over houses and seeds")]
    if paper:
        handles.append(Line2D([], [], **PAPER_MARK, label="paper (other houses)"))
    _page(spawns, panel, path, handles=handles, height=0.7 + 0.22 * len(agents), share_y=True)
    return True


def _ratio_panel(
    axis: Axes, spawn: str, *, agents: Sequence[str], ours: Mapping, paper: Mapping, looks: Mapping, left: float
) -> None:
    for height, agent in enumerate(agents):
        if entry := ours.get((agent, spawn)):
            alpha = 1 if agent == REFERENCE else 0.75
            axis.barh(height, entry["mean"], color=looks[agent]["color"], alpha=alpha)
            cut = entry["mean"] < left
            if not cut:
                axis.plot([entry["low"], entry["high"]], [height] * 2, color=INK, linewidth=1.2)
            else:
                axis.text(left + 0.03, height, f"{entry['mean']:.1f}", va="center", fontsize=7)
            if theirs := paper.get((agent, spawn)):
                _paper_mark(axis, theirs["mean"], height, left, after=0.4 if cut else 0.06)
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.set(title=spawn, yticks=range(len(agents)), yticklabels=agents, xlabel="d_Δ / d_0")
    axis.set(xlim=(left, 1.05), xticks=(-1, 0, 1), ylim=(len(agents) - 0.4, -0.6))
    axis.grid(axis="y", visible=False)


def _paper_mark(axis: Axes, value: float, height: float, left: float, after: float) -> None:
    """The paper's value; beyond the left end, an arrow followed by the number, at `after`."""
    if value >= left:
        axis.plot(value, height, **PAPER_MARK)
    else:
        axis.plot(left + after, height, **PAPER_MARK | {"marker": "<"})
        axis.text(left + after + 0.08, height, f"{value:.1f}", va="center", fontsize=7)


def draw_distances(lines: Lines, folder: Path, *, resamples: int = 2000) -> list[Path]:
    """Metres to the target after each action, mean over questions with its 95 % band; a panel for each spawn.

    A picture has MOST_LINES agents; where there are more, PACMAN+Q is in each. There is none if no line has `distances`
    in all its rows.
    """
    found, num_steps = {}, longest_walk(lines)
    for spawn in lines.questions:
        for agent in lines.of_spawn(spawn) if spawn is not None else ():
            metres = distances_by_step(lines, agent, spawn, num_steps)
            if metres is not None:
                columns = Columns(metres, np.ones_like(metres))
                found[spawn, agent] = bootstrap_of(lines, spawn, resamples).estimates(columns)
    walks = {
        agent: tuple((spawn, band.value.tobytes()) for (spawn, of), band in found.items() if of == agent)
        for agent in lines.agents
    }
    agents = once_each({agent: walk for agent, walk in walks.items() if walk}, lines.relations)
    looks = line_styles(lines.agents, lines.relations)
    paths = []
    for number, shown in enumerate(in_pictures(agents), start=1):
        spawns = [spawn for spawn in lines.questions if any((spawn, agent) in found for agent in shown)]
        panel = partial(_distance_panel, agents=shown, found=found, looks=looks, num_steps=num_steps)
        paths.append(folder / f"results-distance{_ending(number)}.png")
        _page(spawns, panel, paths[-1], handles=_handles({agent: looks[agent] for agent in shown}), height=2.6)
    return paths


def _distance_panel(
    axis: Axes, spawn: str, *, agents: Sequence[str], found: Mapping, looks: Mapping, num_steps: int
) -> None:
    steps = np.arange(num_steps + 1)
    for agent in agents:
        if (spawn, agent) in found:
            band, first = found[spawn, agent], agent == REFERENCE
            axis.fill_between(steps, band.low, band.high, color=looks[agent]["color"], alpha=0.15, linewidth=0)
            axis.plot(steps, band.value, **looks[agent], linewidth=2.4 if first else 1.3, zorder=3 if first else 2)
    axis.set(title=spawn, xlabel="actions", ylabel="metres to the target")
    axis.set(xlim=(0, num_steps), ylim=(0, None))


def in_pictures(agents: Sequence[str]) -> list[list[str]]:
    """Agents by picture, at most MOST_LINES each, in order; the reference is in each if there are several."""
    if len(agents) <= MOST_LINES:
        return [list(agents)] * bool(agents)
    others = [agent for agent in agents if agent != REFERENCE]
    beside = [REFERENCE] * (REFERENCE in agents)
    room = MOST_LINES - len(beside)
    groups = (others[first : first + room] for first in range(0, len(others), room))
    return [[agent for agent in agents if agent in (*beside, *group)] for group in groups]


def _ending(number: int) -> str:
    return "" if number == 1 else f"-{number}"


Curves = Mapping[str, Mapping[str, list[tuple[float, float]]]]  # metric -> part -> (epoch, value)


def draw_training(runs: Sequence[Run], lines: Lines, folder: Path) -> dict[Path, str]:
    """Pictures of each logged stage, and the stage's name: for each metric a panel of training and one of validation.

    A line is the mean over a row's runs; a picture has MOST_LINES rows, as in `draw_distances`. Reinforcement learning
    has pictures of its own, because its metrics are others.
    """
    stages: dict[str, dict[str, list[Curves]]] = {}
    for run in runs:
        for logs in sorted(run.folder.glob("*/log")):
            known = {name: parts for name, parts in logged(logs).items() if parts.keys() & set(PARTS)}
            if known:
                stage = "walking" if "reward" in known else logs.parent.name
                stages.setdefault(stage, {}).setdefault(run.name, []).append(known)
    relations = lines.relations
    looks = line_styles(in_order([*lines.agents, *(run.name for run in runs)], relations), relations)
    paths = {}
    for stage, of_rows in sorted(stages.items()):
        means = {row: mean_curves(of_rows[row]) for row in in_order(of_rows, relations)}
        for number, shown in enumerate(in_pictures(list(means)), start=1):
            curves = {row: means[row] for row in shown}
            keys = sorted({key for of_row in curves.values() for key in of_row})
            handles = _handles({f"{row}{_runs(len(of_rows[row]))}": looks[row] for row in shown})
            path = folder / f"results-training-{stage}{_ending(number)}.png"
            _page(
                keys, partial(_training_panel, curves=curves, looks=looks), path, handles=handles, height=2.5, across=4
            )
            paths[path] = stage
    return paths


def _runs(count: int) -> str:
    return "" if count == 1 else f", mean of {count} runs"


def mean_curves(of_runs: Sequence[Curves]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Means of each (metric, part), at each epoch over the runs that have it; of several starts the last counts."""
    values: dict[tuple[str, str], dict[float, list[float]]] = {}
    for curves in of_runs:
        for name, parts in curves.items():
            for part in parts.keys() & set(PARTS):
                for epoch, value in dict(parts[part]).items():
                    values.setdefault((name, part), {}).setdefault(epoch, []).append(value)
    return {key: [(epoch, float(np.mean(at))) for epoch, at in sorted(of.items())] for key, of in values.items()}


def _training_panel(axis: Axes, key: tuple[str, str], *, curves: Mapping, looks: Mapping) -> None:
    """A metric's curves, on the scale of training and validation together."""
    name, part = key
    for row, of_row in curves.items():
        if key in of_row:
            axis.plot(*zip(*of_row[key], strict=True), **looks[row], linewidth=1.6)
    both = [value for of_row in curves.values() for of in PARTS for _, value in of_row.get((name, of), ())]
    room = 0.05 * (max(both) - min(both)) or 0.05
    axis.set(title=f"{name.replace('_', ' ')}, {part}", xlabel="epoch", ylim=(min(both) - room, max(both) + room))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _handles(looks: Mapping[str, dict]) -> list[Line2D]:
    return [Line2D([], [], linewidth=2, label=agent, **style) for agent, style in looks.items()]


def _page(
    names: Sequence[Hashable],
    panel: Callable[[Axes, Hashable], None],
    path: Path,
    *,
    handles: Sequence[Line2D],
    height: float,
    share_y: bool = False,
    across: int = ACROSS,
) -> None:
    """Panels in rows of at most `across`, `height` inches each, over one legend; written as PNG."""
    down = -(-len(names) // across)
    across = -(-len(names) // down)
    width = max(3.1 * across, 4.5)
    widest = 0.7 + 0.075 * max(len(handle.get_label()) for handle in handles)  # inches
    legend_columns = max(1, min(len(handles), int(width / widest)))
    legend_height = 0.25 * -(-len(handles) // legend_columns)
    with plt.rc_context(STYLE):
        size = (width, height * down + legend_height)
        figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, sharey=share_y, layout="constrained")
        for axis, name in zip(axes.flat, names):
            panel(axis, name)
        for axis in axes.flat[len(names) :]:
            axis.set_visible(False)
        figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns, frameon=False)
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=DPI, format="png")
        with atomic_write(path) as aside:  # few colours make small files, and reports are kept
            Image.open(drawn).convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE).save(
                aside, format="png", optimize=True
            )
        plt.close(figure)
