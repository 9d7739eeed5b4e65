"""The docs are small and true of the tree: commands compose or parse, links resolve, kept runs have their parents."""

import argparse
import ast
import itertools
import json
import lzma
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from eqa import train
from eqa.models.evaluation.runs import read_runs
from eqa.scripts.report import report

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
FINDINGS = ("imitation", "walking", "rendering")
RUNS = sorted((DOCS / "runs").iterdir())
CONFIG_OF = {"train.py": "train", "eval.py": "eval"}
CONFIG_OF |= {"scripts/make_demos.py": "demos", "scripts/make_scan_questions.py": "scans"}
HABITAT_LAB = "data/scene_datasets/"  # a folder of theirs
QUESTION_WORDS = re.compile(r"(?:(?<=[.!?:] )|(?<=\n\n)|^)\**(?:What|Who|How|Whoever|Whatever|Whose)\b[^.]*\.")


def prose(page: Path) -> list[str]:
    """Lines outside of code and tables."""
    parts = re.split(r"^ *```.*?^ *```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [line for part in parts for line in part.splitlines() if not line.startswith("|")]


def commands() -> list[str]:
    """Commands of all pages that start with python, each once; what begins after `#` is said of them."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```bash\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = re.sub(r"\\\n", " ", block).splitlines()
            found += [command for line in lines for command in line.split(" && ") if command.startswith("python ")]
    return list(dict.fromkeys(" ".join(shlex.quote(w) for w in words(line)) for line in found))


def words(line: str) -> list[str]:
    """As a shell splits a line, with braces and the star of docs/runs filled in."""
    out = []
    for word in shlex.split(line, comments=True):
        before, brace, inside = word.partition("{")
        inside, _, after = inside.partition("}")
        filled = [f"{before}{one}{after}" for one in inside.split(",")] if brace else [word]
        for one in filled:
            out += [str(run.relative_to(ROOT)) for run in RUNS] if one == "docs/runs/*" else [one]
    return out


def composed(script: str, overrides: list[str]) -> None:
    """Composes every combination of a sweep; OmegaConf resolves all but what only a run has.

    Launchers come with other packages: their files have to be there, and `tests/test_configs.py` composes them.
    """
    sweep = "-m" in overrides
    of_launchers = [word for word in overrides if word.startswith(("hydra/launcher=", "hydra.launcher."))]
    overrides = [word for word in overrides if word not in of_launchers]
    for name in (word.split("=")[1] for word in of_launchers if "/" in word):
        assert (ROOT / "configs" / "hydra" / "launcher" / f"{name}.yaml").is_file()
    choices = [
        [f"{key}={value}" for value in (values.split(",") if sweep else [values])]
        for key, values in (word.split("=", 1) for word in overrides if word != "-m")
    ]
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        for combination in itertools.product(*choices):
            extra = [] if script.startswith("scripts") else ["run_folder=runs/test"]
            cfg = compose(CONFIG_OF[script], overrides=[*combination, *extra])
            OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


class Parsed(Exception):
    """What a script would go on with."""


def parsed(monkeypatch: pytest.MonkeyPatch, script: str, arguments: list[str]) -> None:
    """Runs a script until it has parsed its arguments; SystemExit for those that it does not know."""
    for name in ("parse_args", "parse_intermixed_args"):
        parse = getattr(argparse.ArgumentParser, name)

        def stop(self: argparse.ArgumentParser, *args: object, parse=parse, **kwargs: object) -> None:
            raise Parsed(parse(self, *args, **kwargs))

        monkeypatch.setattr(argparse.ArgumentParser, name, stop)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with pytest.raises(Parsed):
        runpy.run_path(str(ROOT / script), run_name="__main__")


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_docs_composes_or_parses(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, script, *arguments = shlex.split(command)
    if script == "-m" and arguments[0] != "pytest":  # a module of ours
        script, *arguments = f"{arguments[0].replace('.', '/')}.py", *arguments[1:]
    assert (ROOT / script).is_file()
    if command == "python train.py":  # lists the experiments
        return
    if script in CONFIG_OF:
        composed(script, arguments)
    else:
        parsed(monkeypatch, script, arguments)


def test_every_experiment_and_every_script_has_its_command() -> None:
    known = "\n".join(commands())
    experiments = {path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")}
    scripts = {path.name for path in (ROOT / "scripts").glob("*.py") if "__main__" in path.read_text()}
    assert experiments <= {name for names in re.findall(r"\+experiment=([\w,]+)", known) for name in names.split(",")}
    assert scripts <= set(re.findall(r"scripts/(\w+\.py)", known))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_kept_run_s_command_composes_and_gives_its_folder_its_row_and_its_seed(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    _, script, *overrides = shlex.split(record["command"])
    composed(script, overrides)
    of = dict(word.lstrip("+").split("=", 1) for word in overrides)
    named = of.pop("hydra.run.dir", f"runs/{train.plain_name(','.join(sorted(overrides)))}")
    assert named == f"runs/{run.name}"
    assert int(of.get("seed", 0)) == record["seed"]
    if script == "train.py":
        with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
            made = compose("train", overrides=[*overrides, "run_folder=runs/test"])
        assert made.name == record.get("name", record.get("row"))
    for parent in (of.get("checkpoint"), of.get("compare_with")):
        if parent is not None:
            name = re.fullmatch(r"runs/([\w.-]+)/agent\.ckpt", parent).group(1)
            assert (DOCS / "runs" / name / "run.json").is_file(), f"{run.name} goes on from {name}, which is not kept"
    assert {"commit", "machine", "time_s"} <= record.keys()


@pytest.mark.slow
def test_kept_runs_answered_the_same_questions_from_the_same_distances() -> None:
    asked: dict[tuple[str, str], tuple] = {}
    for run in read_runs(RUNS):
        for (_, spawn), played in run.lines.items():
            for episode, row in played.items() if spawn is not None else ():
                about = ((row.scene_id, row.question, row.answer), row.values["d_0"])
                first = asked.setdefault((spawn, episode), about)
                same = first[0] == about[0] and abs(first[1] - about[1]) < 0.05  # of older rows some differ by 0.01 m
                assert same, f"{run.folder.name}: {spawn} {episode}: {about}, not {first}"
    assert len(asked) > 3000


def test_every_kept_run_has_a_row_in_the_results_or_is_a_parent_of_one() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    packed = "".join(lzma.decompress((run / "metrics.jsonl.xz").read_bytes()).decode() for run in RUNS)
    lines = {json.loads(line)["agent"] for line in packed.splitlines()}
    assert all(f"| docs/runs/{run.name} |" in page for run in RUNS)
    assert all(f"\n| {agent} |" in page or f"\n| {agent} (" in page for agent in lines)


@pytest.mark.slow
def test_the_page_of_results_is_what_its_command_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    folders = [run.relative_to(ROOT) for run in RUNS]
    report(folders, tmp_path, page=tmp_path / "page.md")
    made = (tmp_path / "page.md").read_text().replace(str(tmp_path / "page.md"), "docs/results.md")
    assert made == (DOCS / "results.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_is_narrow_and_no_sentence_keeps_its_subject_back(page: Path) -> None:
    lines = prose(page)
    wide = [line for line in lines if len(line) > 120]
    assert not wide
    text = "\n".join(line.lstrip("#-* ") if line.strip() else "" for line in lines)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    assert not QUESTION_WORDS.findall(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", "\n".join(page.read_text(encoding="utf-8").splitlines())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in anchors, f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_docs_parses_and_what_it_imports_is_there(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                if name.startswith("eqa."):
                    pkgutil.resolve_name(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_of_the_docs_are_there(page: Path) -> None:
    paths = re.findall(r"`((?:envs|data|models|configs|scripts)/[\w./]*)`", page.read_text(encoding="utf-8"))
    assert not {path for path in paths if not (ROOT / path).exists()} - {HABITAT_LAB}


def test_pages_are_short_and_the_docs_are_small() -> None:
    lengths = {page.stem: len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES}
    assert lengths["results"] <= 200
    assert all(lengths[name] <= 150 for name in FINDINGS)
    for name in FINDINGS:
        blocks = re.findall(r"(?:^\|.*\n)+", (DOCS / f"{name}.md").read_text(encoding="utf-8"), re.MULTILINE)
        assert max(block.count("\n") - 2 for block in blocks) <= 8
    assert sum(path.stat().st_size for path in DOCS.rglob("*") if path.is_file()) < 4e6


def test_the_checkout_is_small() -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < 20e6
