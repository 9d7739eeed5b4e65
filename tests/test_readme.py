"""The README is short, begins with a command, and its map of files is the tree; its table is what the kept runs say."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from eqa.models.evaluation.comparison import by_line, estimates, gather, paper_estimates
from eqa.models.evaluation.runs import read_runs
from eqa.models.evaluation.tables import OF, number

ROOT = Path(__file__).parents[1]
PARTS = ("envs", "data", "models", "scripts")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPAWNS = ("T-10", "T-30", "T-50")


def tables(text: str) -> list[list[list[str]]]:
    """Cells of each table in the text, headings first."""
    found: list[list[list[str]]] = []
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level >= 4 and found:
            found[-1][-1].append(token.content)
    return found


def table_of(*headings: str) -> list[list[str]]:
    """Rows of the README's one table that begins with these headings."""
    (rows,) = [table[1:] for table in tables(README) if tuple(table[0][: len(headings)]) == headings]
    return rows


def in_map() -> set[str]:
    """Folders and files of PARTS that the map names: a folder's row, and in backticks what lies directly in it."""
    named = set()
    for where, what in table_of("where", "what"):
        folders = [folder for folder in re.findall(r"`([^`]+/)`", where) if folder.split("/")[0] in PARTS]
        named |= {folder.rstrip("/") for folder in folders}
        if len(folders) == 1:
            named |= {f"{folders[0]}{name}".rstrip("/") for name in re.findall(r"`([\w/]+(?:\.py|/))`", what)}
    return named


def in_tree() -> set[str]:
    """Modules directly in PARTS, and folders at any depth that hold modules."""
    found = {path for part in PARTS for path in (ROOT / part).glob("*.py") if path.name != "__init__.py"}
    found |= {path.parent for part in PARTS for path in (ROOT / part).rglob("*.py")}
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_map_names_every_folder_and_every_module_outside_of_one() -> None:
    missing = in_tree() - in_map()
    assert not missing, f"add to the README's map: {sorted(missing)}"


def test_the_map_names_nothing_that_is_not_there() -> None:
    gone = {name for name in in_map() if not (ROOT / name).exists()}
    assert not gone, f"take out of the README's map: {sorted(gone)}"


def test_the_readme_is_short_and_begins_with_a_command() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120
    assert lines.index("```bash") < 14
    assert len(table_of("agent", "seeds")) <= 8


@pytest.mark.parametrize("row", table_of("agent", "seeds"), ids=lambda row: row[0])
def test_a_row_of_the_results_is_what_its_runs_say(row: list[str], kept: tuple[dict, dict]) -> None:
    agent, seeds, *cells = row
    ours, paper = kept
    known, name = (paper, agent.removesuffix(" of the paper")) if agent.endswith(" of the paper") else (ours, agent)
    metrics = ("d_T", "ratio", "r_T", "correct")
    assert cells == [
        " / ".join(number(known[name, spawn][metric]["mean"], OF[metric]) for spawn in SPAWNS)
        if metric in known[name, SPAWNS[0]]
        else "-"
        for metric in metrics
    ]
    assert known is paper or int(seeds) == known[name, SPAWNS[0]]["d_T"]["seeds"]


@pytest.fixture(scope="module")
def kept() -> tuple[dict, dict]:
    """Means of the lines of all kept runs, and of the paper's."""
    lines = gather(read_runs(sorted((ROOT / "docs" / "runs").iterdir())))
    return by_line(estimates(lines, resamples=2)), by_line(paper_estimates())
