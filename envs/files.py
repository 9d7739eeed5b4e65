"""The folder of generated data, fingerprints, and writing that never leaves half a file, whatever kills the run."""

import ast
import errno
import hashlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from eqa.envs.progress import console

PACKAGE = Path(__file__).parents[1]


def data_root() -> Path:
    """The folder of everything that is generated: `$EQA_DATA`, else `~/.cache/eqa`.

    An existing folder may be read-only, as shared data on a cluster is, as long as nothing is missing in it.
    """
    named = os.environ.get("EQA_DATA")
    root = Path(named).expanduser() if named else Path.home() / ".cache" / "eqa"
    if not root.is_dir():
        _make_writable(root)
    return root


def here_or_packaged(path: str) -> Path:
    """A relative path in the current folder if it is there, else in this package: `models/weights/...`."""
    return here if (here := Path(path).expanduser()).exists() else PACKAGE / path


def _make_writable(folder: Path) -> None:
    """Makes a folder where it is missing; ValueError if nothing can be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"data folder {folder}: expected a folder that can be written, got {error.strerror}; "
            "set EQA_DATA to another folder"
        ) from None


@contextmanager
def build_once(path: Path) -> Iterator[bool]:
    """Yields True if this process alone is to make `path`. Others that want to make it wait here until it is there.

    Several runs, or the processes of one run, can start at once. A process that dies leaves the work to the next.
    ValueError where the folder cannot be written.
    """
    if path.exists():
        yield False
        return
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # it would wait for its parent for ever
        raise RuntimeError(
            f"{path}: a worker process imports the script that started it, which makes data once more; "
            'put what the script does behind if __name__ == "__main__":'
        )
    with locked(path):
        yield not path.exists()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps out other processes that make `path`, those of other machines as well where the file system's locks hold.

    Without such locks in the file system, a file beside it says that it is made. ValueError where the folder cannot be
    written.
    """
    _make_writable(path.parent)
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=1)
    except Timeout:
        console.print(f"waiting for another process that makes {path}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def fingerprint(content: object) -> str:
    """12 hexadecimal digits that change when `content` (anything JSON can hold) changes."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def file_fingerprint(path: Path) -> str:
    """12 hexadecimal digits that change when the file's contents change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def code_fingerprint(path: Path) -> str:
    """12 hexadecimal digits of a Python file's code: docstrings, comments, imports and layout do not change them.

    Every supported version of Python gives the same ones, unlike `ast.dump` and `ast.unparse`.
    """
    return fingerprint(_code(ast.parse(path.read_text(encoding="utf-8"))))


def _code(node: object) -> object:
    """A syntax tree as plain lists. Empty fields are left out, since newer versions of Python add some."""
    if isinstance(node, list):
        return [_code(child) for child in node if not _says_nothing(child)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: _code(value) for name, value in ast.iter_fields(node) if value is not None and value != []}
    return [type(node).__name__, fields]


def _says_nothing(node: object) -> bool:
    """True for imports, and for strings and other constants that stand alone as a statement."""
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant or isinstance(node, ast.Import | ast.ImportFrom)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to; renames it to `path` on success and removes it on any error.

    OSError says what to do where the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o644)
        os.replace(aside, path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(
            error.errno,
            f"{path}: no space left to write it; what was finished before is kept: free some space, or move the folder "
            "and name it in EQA_DATA, and start again",
        ) from None
    finally:
        aside.unlink(missing_ok=True)
