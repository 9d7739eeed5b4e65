"""The tree is what the README says it is: imports point one way, and nothing is imported from the top by a common name."""

import ast
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each imports from itself and from what stands before it. What stands together does not import from one another.
ORDER = {
    "": [["envs"], ["data"], ["models"], ["scripts", "train", "eval"]],
    "envs": [
        ["actions", "annotations", "progress", "reading", "shards", "workers"],
        ["episode", "files"],
        ["simulator"],
        ["rendering", "metrics", "task"],
        ["navigation", "eqa"],
        ["house"],
        ["city", "habitat"],
        ["airsim"],
    ],
    "data": [
        ["vocabulary"],
        ["demonstrations"],
        ["source"],
        ["questions"],
        ["benchmarks"],
        ["generated", "generated_city"],
        ["house_env", "batches"],
    ],
    "models": [
        ["registry", "distributed", "run_record"],
        ["mapping"],
        ["encoders"],
        ["answerers"],
        ["navigators"],
        ["agents"],
        ["evaluation"],
        ["learning"],
    ],
}


def imported(path: Path) -> set[str]:
    """Modules that a file imports, by their whole names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room(name: str, folder: str) -> str | None:
    """The entry of ORDER[folder] that a module is in, None for one that is elsewhere."""
    parts = name.split(".")
    prefix = ["eqa", *filter(None, [folder])]
    return parts[len(prefix)] if parts[: len(prefix)] == prefix and len(parts) > len(prefix) else None


@pytest.mark.parametrize("folder", ORDER)
def test_imports_point_one_way_between_the_rooms_of_a_folder(folder: str) -> None:
    place = {name: level for level, names in enumerate(ORDER[folder]) for name in names}
    paths = [
        p
        for top in ORDER[""]
        for name in top
        for p in [ROOT / f"{name}.py", *(ROOT / name).rglob("*.py")]
        if p.exists()
    ]
    seen = set()
    for path in paths:
        own = room(".".join(["eqa", *path.relative_to(ROOT).with_suffix("").parts]), folder)
        if own is None or own == "__init__":
            continue
        seen.add(own)
        assert own in place, f"{path}: add {own} to ORDER"
        for name in imported(path):
            other = room(name, folder)
            allowed = other is None or other == own or place[other] < place[own]
            assert allowed, f"{path.relative_to(ROOT)} imports {name}"
    assert seen == set(place)


def test_only_what_makes_questions_for_houses_knows_houses() -> None:
    for path in [*(ROOT / "models").rglob("*.py"), *(ROOT / "data").rglob("*.py")]:
        makes_houses = path.is_relative_to(ROOT / "data" / "questions") or path.name == "generated.py"
        names = sorted(name for name in imported(path) if name.startswith("eqa.envs.house"))
        assert makes_houses or not names, f"{path}: {names}"


def test_nothing_of_ours_is_imported_by_a_name_that_others_have() -> None:
    for path in ROOT.rglob("*.py"):
        tops = {name.split(".")[0] for name in imported(path)}
        assert not tops & {"envs", "data", "models", "scripts", "configs"}, path
        assert "sys.path" not in path.read_text(encoding="utf-8").replace('"sys.path"', ""), path


def test_the_wheel_holds_every_package_of_the_tree() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    tops = ("envs", "data", "models", "scripts")
    folders = {p.parent.relative_to(ROOT) for top in tops for p in (ROOT / top).rglob("__init__.py")}
    names = [".".join(["eqa", *folder.parts]) for folder in folders]
    assert sorted(settings["packages"]) == sorted(["eqa", "eqa.configs", *names])
    assert settings["package-dir"] == {"eqa": "eqa", **{f"eqa.{top}": top for top in (*tops, "configs")}}


def test_what_docstrings_point_to_is_there() -> None:
    pointers = re.compile(r"`((?:envs|data|models|scripts)(?:\.\w+)+)`")
    for path in [
        p for folder in ("envs", "data", "models", "scripts", "tests", "docs") for p in (ROOT / folder).rglob("*")
    ]:
        if path.suffix not in (".py", ".md", ".yaml"):
            continue
        for name in pointers.findall(path.read_text(encoding="utf-8")):
            try:
                pkgutil.resolve_name(f"eqa.{name}")
            except (ImportError, AttributeError):
                raise AssertionError(f"{path.relative_to(ROOT)} points to {name}, which is not there") from None
