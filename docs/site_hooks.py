"""Shows the package to mkdocstrings as a wheel has it: `envs`, `data` and `models` lie inside of `eqa`."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "build" / "package" / "eqa"  # its parent is in mkdocs.yml


def on_startup(**_: object) -> None:
    """Copies the code of the package into one folder, before mkdocstrings looks for it."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    for name in ("envs", "data", "models"):
        shutil.copytree(ROOT / name, PACKAGE / name, ignore=shutil.ignore_patterns("assets", "weights", "__pycache__"))
    shutil.copy(ROOT / "eqa" / "__init__.py", PACKAGE)
