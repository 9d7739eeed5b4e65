"""The tables over several runs, as Markdown, LaTeX and CSV, and short ones for a terminal.

Each spawn has a table of its own, because lines are compared within a spawn. A cell holds mean ± standard deviation
between seeds, if there are several, and below it the 95 % interval over houses and seeds.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from eqa.envs.files import atomic_write
from eqa.models.evaluation.comparison import (
    ALL,
    CLAIM_SEEDS,
    METRICS,
    Lines,
    Metric,
    by_line,
    in_order,
    paper_estimates,
)
from eqa.models.evaluation.question_tables import Sheet
from eqa.models.evaluation.runs import Run

OF = {metric.name: metric for metric in METRICS}
SHORT = ("d_T", "ratio", "r_T", "stop", "success", "spl", "correct")
BESIDE_PAPER = ("d_0", "d_T", "d_delta", "ratio", "d_min", "r_T", "r_e", "stop", "rank")
MEANS = (
    "Means over the same questions in every line (distances in metres); ± the standard deviation between seeds, where there "
    "are several and they differ; and below, the 95 % interval: a bootstrap of whole houses, and of seeds where there are "
    "several. The interval of a single seed is about other houses, not about another training. d_Δ/d_0 is the mean way nearer "
    "over the mean distance at the spawn."
)
DIFFERENCES = (
    "The first agent's mean minus the second's over the same questions and the seeds that both have; ± the standard deviation of "
    "this difference between trainings, and below its 95 % interval over houses and seeds. For a single seed, the deviation is "
    "what lines of several seeds let expect, and the interval is about other houses alone: it shows nothing about another "
    "training. A walk that nothing learned stands beside every seed; lines that share no seed are not compared. Bold: there are "
    f"at least {CLAIM_SEEDS} seeds, or nothing was trained, and the interval excludes zero, as one in twenty does where there is "
    "no difference."
)
PAPER_NOTE = (
    "Das et al. (2018), Table 1: other houses and other distances, so that of the distances only d_Δ/d_0 can be compared. "
    "The paper's d_0 is d_T + d_Δ; its own lines do not agree on it."
)
ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "±": r"$\pm$",
    "[": "{[}",
    "<": r"$<$",
    ">": r"$>$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A number, its interval if it has one, and a mark for emphasis."""

    number: str
    interval: str = ""
    marked: bool = False

    def markdown(self) -> str:
        text = "<br>".join(part for part in (_escaped(self.number), self.interval) if part)
        return f"**{text}**" if self.marked else text

    def latex(self) -> str:
        text = _math(self.number)
        if self.marked:
            text = rf"\textbf{{{text}}}"
        return rf"\shortstack{{{text}\\{{\tiny {_math(self.interval)}}}}}" if self.interval else text


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of cells under `headings`; its first columns are words. `label` names it in LaTeX."""

    title: str
    label: str
    headings: Sequence[str]
    lines: Sequence[Sequence[Cell]]
    notes: str = ""

    def markdown(self) -> str:
        lines = [[cell.markdown() for cell in line] for line in self.lines]
        return Sheet(self.title, [_escaped(h) for h in self.headings], lines, self.notes).for_markdown()

    def latex(self) -> str:
        """A table* that needs the packages booktabs and graphicx."""
        body = "\n".join(" & ".join(cell.latex() for cell in line) + r" \\" for line in self.lines)
        num_words = sum(heading in WORDS for heading in self.headings)
        return "\n".join(
            [
                r"\begin{table*}",
                r"\centering",
                rf"\caption{{{tex(f'{self.title}. {self.notes}'.rstrip())}}}",
                rf"\label{{tab:{self.label}}}",
                r"\resizebox{\textwidth}{!}{%",
                rf"\begin{{tabular}}{{{'l' * num_words}{'r' * (len(self.headings) - num_words)}}}",
                r"\toprule",
                " & ".join(map(tex, self.headings)) + r" \\",
                r"\midrule",
                body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table*}",
            ]
        )


RUN_HEADINGS = ("run", "row", "seed", "commit", "minutes", "GB", "machine", "command")
WORDS = ("agent", "minus", "spawn", "whose", *RUN_HEADINGS)


def tex(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(ESCAPES.get(sign, sign) for sign in text)


def _math(text: str) -> str:
    """Escaped text; a hyphen in a number or an interval becomes a minus."""
    escaped = tex(text)
    return escaped.replace("-", "$-$") if re.fullmatch(r"[-+.,±\[\] \d]*\d\]?", text) else escaped


def _escaped(text: str) -> str:
    """Plain text for a cell in Markdown; an underscore within a word needs no escape."""
    return re.sub(r"[\\|*<>`\[]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


def number(value: float, metric: Metric, *, signed: bool = False) -> str:
    text = f"{metric.factor * value:.{metric.decimals}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return f"+{text}" if signed and float(text) > 0 else text


def interval_words(entry: Mapping, metric: Metric) -> str:
    return f"{number(entry['low'], metric)} to {number(entry['high'], metric)}"


def _interval(entry: Mapping, metric: Metric) -> str:
    return f"[{number(entry['low'], metric)}, {number(entry['high'], metric)}]"


def mean_cell(entry: Mapping | None, metric: Metric) -> Cell:
    """Cell of a mean; the interval is left out if it is no wider than the shown digits."""
    if entry is None:
        return Cell("-")
    mean, between = (number(entry.get(name, float("nan")), metric) for name in ("mean", "seed_sd"))
    interval = _interval(entry, metric) if "low" in entry else ""
    return Cell(
        mean if between == "nan" or float(between) == 0 else f"{mean} ± {between}",
        "" if interval == f"[{mean}, {mean}]" else interval,
    )


def _present(of_lines: Sequence[Mapping[str, Mapping]], names: Sequence[str]) -> list[Metric]:
    """Metrics that at least one line has."""
    return [OF[name] for name in names if any(name in of_line for of_line in of_lines)]


def _spawn_name(spawn: str | None) -> str:
    return "without walking" if spawn is None else spawn


def _label(*words: str | None) -> str:
    return "-".join("-".join(str(word or "heard").lower().split()) for word in words)


def means_grid(lines: Lines, estimated: Mapping, spawn: str | None) -> Grid:
    """Means at a spawn; d_0, which all lines share, stands in the title."""
    agents = lines.of_spawn(spawn)
    here = [estimated[agent, spawn] for agent in agents]
    metrics = _present(here, [metric.name for metric in METRICS if metric.name != "d_0"])
    about = lines.about(spawn)
    title = f"{_spawn_name(spawn)}: {len(about)} questions in {len({row.scene_id for row in about})} houses"
    if "d_0" in here[0]:
        title += f", {number(here[0]['d_0']['mean'], OF['d_0'])} m from the target"
    rows = [
        [Cell(agent), *(mean_cell(line.get(m.name), m) for m in metrics)]
        for agent, line in zip(agents, here, strict=True)
    ]
    return Grid(title, _label("results", spawn), ["agent", *(metric.heading for metric in metrics)], rows)


def differences_grid(different: Mapping, spawn: str | None) -> Grid | None:
    here = {(a, b): of_pair for (a, b, of_spawn), of_pair in different.items() if of_spawn == spawn}
    if not here:
        return None
    metrics = _present(list(here.values()), [metric.name for metric in METRICS])
    return Grid(
        f"{_spawn_name(spawn)}: differences",
        _label("differences", spawn),
        ["agent", "minus", "seeds", *(metric.heading for metric in metrics)],
        [
            [Cell(a), Cell(b), Cell(_seeds(of_pair)), *(_difference(of_pair.get(m.name), m) for m in metrics)]
            for (a, b), of_pair in here.items()
        ],
        DIFFERENCES,
    )


def _seeds(of_pair: Mapping[str, Mapping]) -> str:
    """Number of seeds of a comparison; untrained walks do not count."""
    return str(max(entry["seeds"] for entry in of_pair.values()) or "-")


def _difference(entry: Mapping | None, metric: Metric) -> Cell:
    if entry is None:
        return Cell("-")
    text, between = number(entry["difference"], metric, signed=True), number(entry["seed_sd"], metric)
    if between != "nan" and float(between) > 0:
        text += f" ± {between}"
    return Cell(text, _interval(entry, metric), marked=entry["shown"])


def paper_grid(lines: Lines, estimated: Mapping) -> Grid:
    """Our line above the paper's, for each line of the paper at spawns that we played."""
    paper = by_line(paper_estimates())
    spawns = [spawn for spawn in lines.questions if any(of_spawn == spawn for _, of_spawn in paper)]
    rows = []
    for agent in in_order([*lines.agents, *(agent for agent, _ in paper)], lines.relations):
        for spawn in spawns:
            if (agent, spawn) in paper:
                for whose, found in (("ours", estimated), ("paper", paper)):
                    if of_line := found.get((agent, spawn)):
                        cells = [Cell(mean_cell(of_line.get(name), OF[name]).number) for name in BESIDE_PAPER]
                        rows.append([Cell(agent), Cell(spawn), Cell(whose), *cells])
    headings = ["agent", "spawn", "whose", *(OF[name].heading for name in BESIDE_PAPER)]
    return Grid("Beside the paper", "paper", headings, rows, PAPER_NOTE)


def types_grid(lines: Lines, entries: Sequence[Mapping]) -> Grid:
    accuracy = {(e["agent"], e["spawn"], e["question_type"]): e for e in entries if e["metric"] == "correct"}
    kinds = [ALL, *sorted({kind for *_, kind in accuracy} - {ALL})]
    rows = []
    for spawn in lines.questions:
        for agent in lines.of_spawn(spawn):
            found = [accuracy.get((agent, spawn, kind)) for kind in kinds]
            cells = [mean_cell(entry, OF["correct"]) for entry in found]
            rows.append([Cell(agent), Cell(spawn or "-"), *cells])
    sizes = {kind: max(e["questions"] for (*_, of), e in accuracy.items() if of == kind) for kind in kinds}
    headings = ["agent", "spawn", *(f"{kind} (n = {sizes[kind]})" for kind in kinds)]
    return Grid("Right answers by question type, %", "types", headings, rows, "As above; n: questions at most.")


def runs_grid(runs: Sequence[Run]) -> Grid:
    rows = [
        [
            Cell(str(run.folder)),
            Cell(run.name if run.record else "-"),
            Cell(str(run.record.get("seed", "-"))),
            Cell(str(run.record.get("commit", "-"))[:7]),
            Cell(_minutes(run.record.get("stages", {}))),
            Cell(f"{run.record['memory_gb']:.1f}" if "memory_gb" in run.record else "-"),
            Cell(str(run.record.get("machine", "-"))),
            Cell(str(run.record.get("command", "-"))),
        ]
        for run in runs
    ]
    return Grid("Runs", "runs", list(RUN_HEADINGS), rows)


def _minutes(stages: Mapping[str, Mapping]) -> str:
    """Minutes of each stage of a run; stages below half a minute are left out."""
    spent = {name: round(stage["time_s"] / 60) for name, stage in stages.items()}
    return ", ".join(f"{name} {minutes}" for name, minutes in spent.items() if minutes) or "-"


def grids(runs: Sequence[Run], lines: Lines, entries: Sequence[Mapping], pair_entries: Sequence[Mapping]) -> list[Grid]:
    """All tables of a report, in its order; notes for several tables stand below the first."""
    estimated, different = by_line(entries), by_line(pair_entries)
    means = [means_grid(lines, estimated, spawn) for spawn in lines.questions]
    between = [grid for spawn in lines.questions if (grid := differences_grid(different, spawn))]
    means[0] = replace(means[0], notes=MEANS)
    between[:1] = [replace(grid, notes=DIFFERENCES) for grid in between[:1]]
    others = [paper_grid(lines, estimated), types_grid(lines, entries), runs_grid(runs)]
    return [grid for grid in (*means, *between, *others) if grid.lines]


def terminal_tables(
    lines: Lines, entries: Sequence[Mapping], pair_entries: Sequence[Mapping], compare_with: str | None
) -> list[Table]:
    """The most telling metrics: means, starred where they differ from `compare_with`; then other differences."""
    estimated, different = by_line(entries), by_line(pair_entries)
    metrics = _present(list(estimated.values()), SHORT)
    headings = [f"{metric.heading} " for metric in metrics]
    rows, pairs = [], []
    for spawn in lines.questions:
        for agent in lines.of_spawn(spawn):
            pair = different.get((agent, compare_with, spawn)) or different.get((compare_with, agent, spawn)) or {}
            cells = [_starred(estimated[agent, spawn].get(m.name), pair.get(m.name), m) for m in metrics]
            rows.append([spawn or "-", agent, *cells])
        for (a, b, of_spawn), of_pair in different.items():
            if of_spawn == spawn and compare_with not in (a, b):
                cells = [_starred(None, of_pair.get(m.name), m) for m in metrics if m.name != "stop"]
                pairs.append([spawn or "-", f"{a} - {b}", *cells])
    star = (
        f"*: the 95 % interval of the paired difference excludes zero; °: so does it, but over fewer than {CLAIM_SEEDS} seeds it "
        "says nothing about another training"
    )
    tables = [
        Sheet(
            "Results",
            ["spawn", "agent", *headings],
            rows,
            f"{star} (differences from {compare_with})" if compare_with else "",
            words=("agent",),
        )
    ]
    if pairs:  # room for two names: %stop is left out
        of_pairs = [heading for heading, metric in zip(headings, metrics, strict=True) if metric.name != "stop"]
        tables.append(Sheet("Differences", ["spawn", "agents", *of_pairs], pairs, star, words=("agents",)))
    return [table.for_terminal() for table in tables]


def _starred(mean: Mapping | None, pair: Mapping | None, metric: Metric) -> str:
    """The mean, or without it the difference, with a mark for a shown difference."""
    star = " "
    if pair and pair["excludes_zero"]:
        star = "*" if pair["shown"] else "°"
    if mean:
        return number(mean["mean"], metric) + star
    return number(pair["difference"], metric, signed=True) + star if pair else "- "


def write_csv(path: Path, entries: Sequence[Mapping]) -> None:
    """Writes numbers to the fifth decimal, far beyond the precision of their intervals."""
    with atomic_write(path) as aside, aside.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(entries[0]))
        writer.writeheader()
        for entry in entries:
            writer.writerow({name: round(v, 5) if isinstance(v, float) else v for name, v in entry.items()})
