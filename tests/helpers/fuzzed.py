"""Randomly damaged files for every reader: `python -m tests.helpers.fuzzed CASES SEED FOLDER READER...` reads them.

Each reader has a process of its own and leaves what it said in FOLDER/READER.txt. A reader may read a damaged file or
refuse it with a ValueError that names it. Anything else is said: another error,
more than `SECONDS` for a file, or more than `MOST_MB` of additional memory.
"""

import gc
import gzip
import io
import json
import lzma
import os
import random
import resource
import signal
import sys
import traceback
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

SECONDS, MOST_MB = 20, 500
VALUES = (
    None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 10**400, 1e300, -1e300, 1e-320, 0.5, float("nan"), float("inf"), "",
    "x", "NaN", "\u0000", "\ud800", [], {}, [[]], {"": None}, [1] * 50, "9" * 5000,
)  # fmt: skip
BYTES = (b"", b"\x00", b"\xff" * 8, b"[" * 3000, b'{"a":' * 3000, b"NaN", b"1e999", b"9" * 4400, b"<a>" * 300, b"\n")


def changed(value: object, dice: random.Random) -> object:
    """A JSON value with one place in it changed."""
    spots: list[tuple] = []

    def visit(node: object) -> None:
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            spots.append((node, key))
            visit(node[key])

    value = json.loads(json.dumps(value))
    visit(value)
    if not spots or dice.random() < 0.02:
        return dice.choice(VALUES)
    node, key = dice.choice(spots)
    how = dice.randrange(5)
    if how == 0:
        del node[key]
    elif how == 1 and isinstance(node, dict):
        node[dice.choice(("other", "", key + "s"))] = node[key]
    elif how == 2 and type(node[key]) in (int, float):
        node[key] = node[key] * dice.choice((-1, 1e6, 1e-6, 1e300)) if abs(node[key]) < 1e8 else 0
    elif how == 3:
        other, place = dice.choice(spots)
        node[key] = json.loads(json.dumps(other[place]))
    else:
        node[key] = dice.choice(VALUES)
    return value


def torn(content: bytes, dice: random.Random) -> bytes:
    """Bytes after a cut, a flip, a doubling or a replacement."""
    if not content:
        return content
    at, end = sorted(dice.randrange(len(content) + 1) for _ in range(2))
    how = dice.randrange(6)
    if how == 0:
        return content[:at]
    if how == 1:
        return content[:at] + content[end:]
    if how == 2:
        return content[:at] + dice.choice(BYTES) + content[at:]
    if how == 3:
        return content[:end] + content[at:end] * dice.choice((1, 1, 50)) + content[end:]
    flipped = bytearray(content)
    for _ in range(1 if how == 4 else 20):
        flipped[dice.randrange(len(flipped))] = dice.randrange(256)
    return bytes(flipped)


def damaged_lines(text: str, dice: random.Random) -> bytes:
    """JSON lines with one line changed, dropped or doubled, or torn bytes."""
    if dice.random() < 0.4:
        return torn(text.encode(), dice)
    lines = text.splitlines()
    at = dice.randrange(len(lines))
    how = dice.randrange(6)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(at, lines[at])
    else:
        lines[at] = json.dumps(changed(json.loads(lines[at]), dice))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def damaged_json(text: str, dice: random.Random) -> bytes:
    if dice.random() < 0.4:
        return torn(text.encode(), dice)
    document = json.loads(text)
    for _ in range(dice.choice((1, 1, 3))):
        document = changed(document, dice)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def packed(pack: Callable[[bytes], bytes], damage: Callable[[str, random.Random], bytes]) -> Callable:
    """Damages the content before it is packed, or the packed file itself."""

    bomb = cache(lambda: pack(b" " * (1 << 27)))  # a small file that unpacks to much

    def both(text: str, dice: random.Random) -> bytes:
        if dice.random() < 0.03:
            return bomb()
        return torn(pack(text.encode()), dice) if dice.random() < 0.4 else pack(damage(text, dice))

    return both


def damaged_xml(text: str, dice: random.Random) -> bytes:
    how = dice.randrange(4)
    if how == 0:
        return torn(text.encode(), dice)
    parts = text.split(chr(34))
    numbers = [n for n in range(1, len(parts), 2)]
    for _ in range(dice.choice((1, 1, 5))):
        value = dice.choice(
            (*map(str, VALUES[:12]), "nan", "inf", "-5", "1e9", "x" * 3000, parts[dice.choice(numbers)])
        )
        parts[dice.choice(numbers)] = value.replace("<", "").replace(chr(34), "")
    return chr(34).join(parts).encode("utf-8", "surrogatepass")


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Home.xml", content)
    return file.getvalue()


def damaged_home(text: str, dice: random.Random) -> bytes:
    if dice.random() < 0.3:
        return torn(zipped(text.encode()), dice)
    return zipped(damaged_xml(text, dice))


def readers(folder: Path) -> dict[str, tuple[str, Callable, Callable, Callable]]:
    """For each reader: a file's name under `folder`, its undamaged content, how to damage that, and the reader."""
    from tests.helpers import fuzzed_files as files  # its imports come before memory is limited

    gz = packed(gzip.compress, damaged_json)
    xz = packed(partial(lzma.compress, preset=0), damaged_lines)
    raw = torn
    return {
        "house": ("house.json", files.house, damaged_json, files.read_house),
        "home": ("home.sh3d", files.home, damaged_home, files.read_home),
        "home_xml": ("Home.xml", files.home, damaged_xml, files.read_home),
        "questions": ("questions.jsonl", files.questions, damaged_lines, files.read_questions),
        "eqa_v1": ("eqa_v1.json", files.eqa_v1, damaged_json, files.read_eqa_v1),
        "mp3d": ("test.json.gz", files.mp3d, gz, files.read_mp3d),
        "run": ("run/metrics.jsonl", files.rows, damaged_lines, files.read_rows),
        "kept": ("run/metrics.jsonl.xz", files.kept_rows, xz, files.read_rows),
        "record": ("run/run.json", files.record, damaged_json, files.read_rows),
        "replay": ("run/metrics.jsonl", files.rows, damaged_lines, files.read_replays),
        "demonstrations": ("test.h5", files.demonstrations, raw, files.read_demonstrations),
        "agent": ("agent.ckpt", files.agent, raw, files.read_agent),
    }


READERS = (
    "house", "home", "home_xml", "questions", "eqa_v1", "mp3d", "run", "kept", "record", "replay", "demonstrations", "agent",
)  # fmt: skip


class TooLong(BaseException):
    """Not an Exception, so that no reader takes it for a malformed file."""


def stop(*_: object) -> None:
    raise TooLong


def main() -> None:
    cases, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    readers(folder)  # what all have to import is imported once
    gc.freeze()
    for reader in sys.argv[4:]:
        with (folder / f"{reader}.txt").open("w") as said:
            if os.fork() == 0:
                os.dup2(said.fileno(), sys.stdout.fileno())
                read_damaged(reader, cases, seed, folder / reader)
                return
            _, status = os.wait()
            said.write("" if status == 0 else f"{reader}: ended with {os.waitstatus_to_exitcode(status)}\n")


def read_damaged(reader: str, cases: int, seed: int, folder: Path) -> None:
    name, whole, damage, read = readers(folder)[reader]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = whole(folder)
    path.write_bytes(content if isinstance(content, bytes) else pack_like(path, content))
    read(path)  # the undamaged file is read first, so all late imports are loaded
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (MOST_MB << 20),) * 2)
    signal.signal(signal.SIGALRM, stop)
    refused = 0
    for case in range(cases):
        dice = random.Random(f"{reader} {seed} {case}")
        path.write_bytes(damage(content, dice))
        signal.alarm(SECONDS)
        try:
            read(path)
        except ValueError as error:
            refused += 1
            if name.split("/")[0] not in str(error) and path.name not in str(error):
                print(f"{reader} {case}: does not name the file: {str(error)[:300]}")
        except TooLong:
            print(f"{reader} {case}: more than {SECONDS} s")
        except Exception as error:  # noqa: BLE001
            told = "".join(traceback.format_exception(error)[-3:])
            print(f"{reader} {case}: {type(error).__name__}: {str(error)[:200]} {told}")
        finally:
            signal.alarm(0)
    print(f"{refused} of {cases} refused")


def pack_like(path: Path, text: str) -> bytes:
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".sh3d": zipped}.get(path.suffix, bytes)
    return pack(text.encode())


if __name__ == "__main__":
    main()
