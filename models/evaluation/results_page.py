"""The short page of results: lines, the differences between them, and the run behind each line, in at most 200 lines.

The page and the full report (`models.evaluation.tables`) are made of the same estimates. Each row of the page shows
several spawns side by side. The page leaves out other metrics, question types and most intervals.
"""

import textwrap
from collections.abc import Mapping, Sequence
from math import isfinite

from eqa.data.demonstrations.spawn_settings import WITH_HISTORY
from eqa.models.evaluation.comparison import (
    CLAIM_SEEDS,
    Lines,
    by_line,
    nearest_pairs,
    paper_estimates,
)
from eqa.models.evaluation.question_tables import markdown
from eqa.models.evaluation.runs import Run
from eqa.models.evaluation.tables import OF, Cell, interval_words, mean_cell, number, runs_grid

WIDTH = 120
NO_HISTORY = ("T-10 random heading", "T-30 random heading", "random")
CLAIMED = (*WITH_HISTORY, "random")
OF_LINE = ("d_T", "ratio", "d_min", "r_T", "r_e", "stop", "correct")
OF_LINE_ALONE = ("d_T", "d_min", "r_e", "stop", "correct")
OF_PAIR = ("d_T", "d_min", "r_T", "r_e", "stop", "correct")
OF_ONE_SEED = ("d_T", "d_min", "correct")
NOTES = {
    "head": (
        "This page is made from the rows in docs/runs; its command stands below. The second command writes every metric, "
        "interval, difference and question type as Markdown, CSV, LaTeX and plots."
    ),
    "lines": (
        "Each cell has one number for each spawn. Distances are metres. ± is the standard deviation between seeds; a line "
        "without a note has seed 0 only. d_Δ/d_0 is the mean way nearer over the mean distance at the spawn."
    ),
    "claimed": (
        "Each cell is the first agent's mean minus the second's, over the same questions and seeds. Brackets hold the 95 % "
        f"interval over houses and seeds. Bold marks an interval without zero. At least {CLAIM_SEEDS} seeds stand behind "
        "each row; a walk that nothing learned stands beside every seed."
    ),
    "one_seed": (
        "These rows show nothing about another training. Each cell has one difference for each spawn, with its 95 % interval "
        "over houses alone. Another training of both would move it by the deviation that lines of several seeds let expect"
    ),
    "paper": (
        "Das et al. (2018), Table 1: other houses and other distances, so that of the distances only d_Δ/d_0 can be "
        "compared. Their d_0 is d_T + d_Δ."
    ),
    "runs": (
        "Commands are in today's words. Where one was typed otherwise at its commit, `typed` in the run's run.json has it.\n"
        "Defaults of data, encoder and `il` have changed since (`il_paper` has the former); `configuration` there has all."
    ),
}


def results_page(
    runs: Sequence[Run], lines: Lines, entries: Sequence[Mapping], pair_entries: Sequence[Mapping], *, command: str
) -> str:
    """Markdown. `entries` are those of `comparison.estimates`, `pair_entries` of `comparison.differences`."""
    estimated, different = by_line(entries), by_line(pair_entries)
    full = command.split(" --page")[0]
    parts = [
        f"# Results\n\n{_wrapped('head')}\n\n```bash\n{command}\n{full} --out previews\n```\n",
        _lines_part("With the walk before the spawn", lines, estimated, WITH_HISTORY, OF_LINE, _wrapped("lines")),
        _lines_part("Without the walk before the spawn", lines, estimated, NO_HISTORY, OF_LINE_ALONE, ""),
        *_pairs_parts(lines, different),
        _paper_part(lines, estimated),
    ]
    table = runs_grid(runs)
    cells = [[cell.markdown() for cell in line] for line in table.lines]
    parts.append(_part("Runs", table.headings, cells, _wrapped("runs")))
    return "\n".join(part for part in parts if part)


def _part(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    return "\n\n".join(filter(None, [f"## {title}", note, markdown(headings, rows)])) + "\n" if rows else ""


def _wrapped(name: str) -> str:
    return textwrap.fill(NOTES[name], WIDTH, break_on_hyphens=False)


def _lines_part(
    title: str, lines: Lines, estimated: Mapping, spawns: Sequence[str], metrics: Sequence[str], note: str
) -> str:
    """A row for each line; those without walks have their answers only, in the part with the known walk."""
    spawns = [spawn for spawn in spawns if spawn in lines.questions]
    if not spawns:
        return ""
    about = [str(len(lines.about(spawn))) for spawn in spawns]
    houses = len({row.scene_id for row in lines.about(spawns[0])})
    d_0 = [
        number(next(e["d_0"]["mean"] for (_, s), e in estimated.items() if s == spawn), OF["d_0"]) for spawn in spawns
    ]
    where = (
        f"{' / '.join(spawns)}: {' / '.join(about)} questions in {houses} houses, {' / '.join(d_0)} m from the target."
    )
    rows = []
    for agent in lines.agents:
        found = [estimated.get((agent, spawn)) for spawn in spawns]
        if not any(found) and (spawns[0] not in WITH_HISTORY or (agent, None) not in estimated):
            continue
        found = [of or estimated.get((agent, None), {}) for of in found]
        cells = [" / ".join(mean_cell(of.get(name), OF[name]).number for of in found) for name in metrics]
        rows.append([Cell(_with_seeds(agent, found)).markdown(), *cells])
    text = f"{textwrap.fill(where, WIDTH, break_on_hyphens=False)}\n{note}".rstrip()
    return _part(title, ["agent", *(OF[name].heading for name in metrics)], rows, text)


def _with_seeds(agent: str, found: Sequence[Mapping]) -> str:
    seeds = max((entry["seeds"] for of in found for entry in of.values()), default=1)
    return f"{agent} ({seeds} seeds)" if seeds > 1 else agent


def _pairs_parts(lines: Lines, different: Mapping) -> list[str]:
    """Differences with enough seeds, a row for each spawn; then the others, a row for each pair."""
    claimed, others = [], []
    for a, b in nearest_pairs(lines.agents, lines.relations):
        found = {spawn: of_pair for spawn in CLAIMED if (of_pair := different.get((a, b, spawn)))}
        names = [Cell(name).markdown() for name in (a, b)]
        if any(entry["seeds"] >= CLAIM_SEEDS for of_pair in found.values() for entry in of_pair.values()):
            claimed += [
                [*names, spawn, *(_difference(of_pair, name) for name in OF_PAIR)] for spawn, of_pair in found.items()
            ]
        elif known := [found[spawn] for spawn in WITH_HISTORY if spawn in found]:
            others.append(
                [*names, *(" / ".join(_difference(of_pair, name) for of_pair in known) for name in OF_ONE_SEED)]
            )
    pair = ["agent", "minus"]
    first, second = ([OF[name].heading for name in names] for names in (OF_PAIR, OF_ONE_SEED))
    note = textwrap.fill(NOTES["one_seed"] + _deviations(different), WIDTH, break_on_hyphens=False)
    return [
        _part(f"Differences over {CLAIM_SEEDS} seeds", [*pair, "spawn", *first], claimed, _wrapped("claimed")),
        _part(f"Differences over fewer seeds, {' / '.join(WITH_HISTORY)}", [*pair, *second], others, note),
    ]


def _deviations(different: Mapping) -> str:
    """Expected deviation of a difference between trainings of one seed each, at each spawn.

    It is the same for all pairs of trained lines.
    """
    texts = []
    for metric in (OF[name] for name in OF_ONE_SEED):
        found = [
            [
                of_pair[metric.name]["seed_sd"]
                for (*_, s), of_pair in different.items()
                if s == spawn and _single(of_pair, metric.name)
            ]
            for spawn in WITH_HISTORY
        ]
        expected = [max(filter(isfinite, of_spawn), default=None) for of_spawn in found]
        if None not in expected:
            texts.append(f"{metric.heading} {' / '.join(number(value, metric) for value in expected)}")
    return f": {', '.join(texts)}." if texts else "."


def _single(of_pair: Mapping, name: str) -> bool:
    return name in of_pair and of_pair[name]["seeds"] == 1


def _difference(of_pair: Mapping, name: str) -> str:
    entry, metric = of_pair.get(name), OF[name]
    if entry is None:
        return "-"
    text = number(entry["difference"], metric, signed=True)
    text = f"**{text}**" if entry["shown"] else text
    return f"{text} ({interval_words(entry, metric)})" if entry["low"] < entry["high"] else text


def _paper_part(lines: Lines, estimated: Mapping) -> str:
    paper = by_line(paper_estimates())
    rows = []
    for agent in lines.agents:
        found = [[of.get((agent, spawn), {}) for spawn in WITH_HISTORY] for of in (estimated, paper)]
        if all(any(of_agent) for of_agent in found):
            cells = [
                " / ".join(mean_cell(of_spawn.get(name), OF[name]).number for of_spawn in of_agent)
                for name in ("ratio", "r_T", "stop")
                for of_agent in found
            ]
            rows.append([Cell(agent).markdown(), *cells])
    names = [f"{OF[name].heading}, {whose}" for name in ("ratio", "r_T", "stop") for whose in ("ours", "paper")]
    return _part("Beside the paper", ["agent", *names], rows, _wrapped("paper"))
