"""Commands as people meet them: the list of experiments; a mistake takes one line, and leaves no run folder behind."""

import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.metadata import distributions
from pathlib import Path

from hydra.errors import InstantiationException
from omegaconf import DictConfig
from rich.table import Table

from eqa.models.run_record import NAME

PACKAGE = Path(__file__).resolve().parents[2]
FULL = "HYDRA_FULL_ERROR"
LAUNCHERS = {  # extra -> its package, and the names of launchers: ours in configs/hydra/launcher/, and the package's
    "cluster": ("hydra-submitit-launcher", ("slurm", "local", "submitit_slurm", "submitit_local")),
    "ray": ("hydra-ray-launcher", ("ray_cluster", "ray")),
}


def experiments(folder: Path) -> Table:
    """Each experiment in a folder of configurations, with the first sentence of its file."""
    table = Table.grid(padding=(0, 2))
    for path in sorted((folder / "experiment").glob("*.yaml")):
        table.add_row(path.stem, first_sentence(path.read_text(encoding="utf-8")))
    return table


def first_sentence(yaml: str) -> str:
    """The first sentence of the comment that a configuration begins with, without Hydra's `@package`."""
    comments = []
    for line in yaml.splitlines():
        if not line.startswith("#"):
            break
        comments += [line.lstrip("# ")] * (not line.startswith("# @package"))
    return re.split(r"(?<=\.)(?<!al\.) ", " ".join(comments), maxsplit=1)[0]  # "et al." ends none


def in_one_line(task: Callable[[DictConfig], None]) -> Callable[[DictConfig], None]:
    """Ends a command with the message of a user's mistake, not with a traceback; HYDRA_FULL_ERROR=1 shows both.

    A run folder in which nothing was made yet goes away again.
    """

    @wraps(task)
    def told(cfg: DictConfig) -> None:
        try:
            task(cfg)
        except SystemExit as error:
            if isinstance(error.code, str):
                forget(Path(cfg.run_folder))
            raise
        except Exception as error:
            if (stopped := stop_behind(error)) is not None:
                raise stopped from None
            cause = cause_of(error)
            if os.environ.get(FULL) == "1" or not is_mistake(cause):
                raise
            forget(Path(cfg.run_folder))
            sys.exit(f"{cause}\n({FULL}=1 before the same command shows where)")

    return told


def refuse_missing_launcher(words: Sequence[str]) -> None:
    """Ends a command whose launcher of sweeps comes from a package that is not installed."""
    installed = {package.name.lower().replace("_", "-") for package in distributions()}
    for extra, (package, names) in LAUNCHERS.items():
        for name in names:
            if f"hydra/launcher={name}" in words and package not in installed:
                sys.exit(
                    f"hydra/launcher={name}: expected the package {package}, which is not installed; "
                    f'pip install -e ".[{extra}]"'
                )


def stop_behind(error: BaseException) -> SystemExit | None:
    """The stop that an error came from, if any: PyTorch turns a signal amid its writing of a file into an error."""
    while error is not None and not isinstance(error, SystemExit):
        error = error.__context__
    return error


def cause_of(error: BaseException) -> BaseException:
    """The error that Hydra met in making something; other errors are their own cause."""
    while isinstance(error, InstantiationException) and error.__cause__ is not None:
        error = error.__cause__
    return error


def is_mistake(error: BaseException) -> bool:
    """True for a file or disk that is not as it should be, and for a ValueError or ImportError that our code raises.

    The same errors from inside of another library are a bug of somebody's, and need their traceback.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    path = Path(last.filename).resolve()
    ours = path.is_relative_to(PACKAGE) and "site-packages" not in path.relative_to(PACKAGE).parts
    raised = (last.line or "").startswith("raise ")  # not inside of NumPy's C code, which has no line
    return ours and raised and isinstance(error, ValueError | ImportError)


def forget(folder: Path) -> None:
    """Removes a run folder that holds no more than Hydra's notes and a record of the start."""
    if not folder.is_dir():
        return
    made = [path for path in folder.iterdir() if path.name not in ("hydra", NAME) and path.suffix != ".log"]
    if not made:
        shutil.rmtree(folder, ignore_errors=True)
