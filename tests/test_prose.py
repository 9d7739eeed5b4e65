"""Checks of docstrings and comments: line lengths, openings of sentences, and first sentences of modules."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HELD = [
    "envs",
    "data",
    "models",
    "scripts",
    "eqa/__init__.py",
    "tests/helpers",
    "tests/test_prose.py",
    "train.py",
    "eval.py",
]
LONGEST_LINE, LONGEST_FIRST_SENTENCE = 120, 30  # columns, words
# Openings that keep the reader waiting for the subject of the sentence.
OPENINGS = {
    "how", "what", "whatever", "when", "whenever", "where", "wherever", "whether", "which", "whichever", "who", "whoever",
    "whom", "whose", "why",
}  # fmt: skip
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n\s*\n|\n\s*[-*] ")


def files() -> list[Path]:
    paths = [path for name in HELD for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))]
    return sorted(path for path in paths if path.stat().st_size)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            yield node.body[0].value


def sentences(docstring: ast.Constant) -> Iterator[tuple[int, str]]:
    """Line and text of each sentence."""
    text, start = docstring.value, 0
    for end in [*END.finditer(text), None]:
        sentence = text[start : end.start() if end else None]
        if words := sentence.split():
            before = text[:start] + sentence[: len(sentence) - len(sentence.lstrip())]
            yield docstring.lineno + before.count("\n"), " ".join(words)
        start = end.end() if end else start


def faults(path: Path) -> Iterator[str]:
    """One line for each fault: file, line, fault and sentence."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    tree, lines = ast.parse(text), text.splitlines()
    found = list(docstrings(tree))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    prose = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    prose |= {number for docstring in found for number in range(docstring.lineno, docstring.end_lineno + 1)}
    for number in sorted(prose):
        if len(lines[number - 1]) > LONGEST_LINE:
            yield f"{name}:{number}: {len(lines[number - 1])} columns: {lines[number - 1].strip()}"
    for number, sentence in (pair for docstring in found for pair in sentences(docstring)):
        opening = re.match(r"\W*(\w*)", sentence)[1]
        if opening.lower() in OPENINGS:
            yield f"{name}:{number}: opens with {opening}: {sentence}"
    if ast.get_docstring(tree) is None:
        yield f"{name}:1: no docstring"
    else:
        number, first = next(sentences(tree.body[0].value))
        if len(first.split()) > LONGEST_FIRST_SENTENCE:
            yield f"{name}:{number}: {len(first.split())} words: {first}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    found = list(faults(path))
    assert not found, "\n" + "\n".join(found)
