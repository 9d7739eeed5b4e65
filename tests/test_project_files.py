"""The files of the project beside its code: they parse, agree with each other, and name what is there."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
YAML = ("CITATION.cff", ".github/workflows/ci.yml", ".pre-commit-config.yaml", "mkdocs.yml")


@pytest.mark.parametrize("name", YAML)
def test_yaml_parses(name: str) -> None:
    assert isinstance(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")), dict)


def test_the_site_has_every_page_and_no_other() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    groups = [next(iter(entry.values())) for entry in site["nav"]]
    listed = [
        page
        for group in groups
        for page in ([group] if isinstance(group, str) else [p for e in group for p in e.values()])
    ]
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_versions_agree() -> None:
    version = PROJECT["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()
    (ruff,) = (line for line in PROJECT["project"]["optional-dependencies"]["test"] if line.startswith("ruff=="))
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert hooks["rev"] == "v" + ruff.removeprefix("ruff==")


def test_there_is_one_list_of_requirements() -> None:
    for name, wanted in (("requirements.txt", "-e ."), ("requirements-test.txt", "-e .[test]")):
        lines = (ROOT / name).read_text().splitlines()
        assert [line for line in lines if not line.startswith("#")] == [wanted]


def test_the_container_runs_the_readme_s_first_command_and_says_the_second() -> None:
    first, second = re.findall(r"^pip install -r requirements.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    container = (ROOT / "Dockerfile").read_text()
    install, train = first.split(" && ")
    assert install.removeprefix("pip install ") in container and second in container
    (command,) = re.findall(r"^CMD (.*)$", container, re.MULTILINE)
    assert json.loads(command) == shlex.split(train)


def test_the_checks_of_the_workflow_are_the_project_s_own() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert steps == [".ci/run"] and (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_what_contributing_points_to_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:envs|data|models|configs|tests|docs)/[\w./]*)`", text) + re.findall(
        r"\]\(([\w./]+)\)", text
    )
    assert len(named) > 15 and not [name for name in named if not (ROOT / name).exists()]
