"""`run.json`: all that is needed to repeat a run, with its time and memory.

- command, name, seed
- commit: it ends with "+changes" if files differed from it; a run resumed with other code names each commit, in order
- python; packages: versions of this one and of those that it needs
- machine: processor, cores, memory, GPUs, system
- configuration: the composed one
- data: the data's identity, from `source.fingerprints`
- time_s: wall-clock time of all starts added up
- memory_gb: the most memory that the (first) process held, without files mapped into it (`peak_memory`); records of
  older versions count mapped files, some of them several times
- stages: time and memory of each stage
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from pytorch_lightning.utilities import rank_zero_only

from eqa.envs.files import atomic_write
from eqa.envs.reading import named, parsed, read_text

ROOT = Path(__file__).parents[1]
NAME = "run.json"
TASK_GROUPS = ("env", "data", "scale", "encoder", "seed")
STATUS = Path("/proc/self/status")
LOOK_EVERY_S = 0.1


class RunRecord:
    """Writes `run.json` into a folder: at once, after each stage, and whenever `write` is called.

    Times and stages of an earlier start in the same folder are kept and added to. Only the first of several processes
    writes.
    """

    def __init__(self, folder: Path, *, name: str, seed: int, configuration: Mapping, data: Mapping) -> None:
        self.path = Path(folder) / NAME
        before = _before(self.path)
        commits = [*filter(None, before.get("commit", "").split(", then ")), commit()]
        self.facts = {
            "command": command(),
            "name": name,
            "seed": seed,
            "commit": ", then ".join(dict.fromkeys(commits)),
            "python": platform.python_version(),
            "packages": packages(),
            "machine": machine(),
            "configuration": dict(configuration),
            "data": dict(data),
        }
        self.time_before, self.began = before.get("time_s", 0.0), time.monotonic()
        self.memory_gb, self.stages = before.get("memory_gb", 0.0), before.get("stages", {})
        self._update: Callable[[], None] = lambda: None
        self.write()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds time and memory of its block to the stage's, also if the block is cut off."""
        entry = self.stages.setdefault(name, {"time_s": 0.0, "memory_gb": 0.0})
        before, began = dict(entry), time.monotonic()
        with peak_memory() as peak_gb:

            def update() -> None:
                entry["time_s"] = round(before["time_s"] + time.monotonic() - began, 1)
                entry["memory_gb"] = round(max(before["memory_gb"], peak_gb()), 2)

            self._update = update
            try:
                yield
            finally:
                self.write()
                self._update = lambda: None

    @rank_zero_only
    def write(self) -> None:
        """Writes the current state."""
        self._update()
        self.memory_gb = max([self.memory_gb, *(entry["memory_gb"] for entry in self.stages.values())])
        took = {"time_s": round(self.time_before + time.monotonic() - self.began, 1), "memory_gb": self.memory_gb}
        with atomic_write(self.path) as aside:
            aside.write_text(json.dumps({**self.facts, **took, "stages": self.stages}, indent=1) + "\n")


def _before(path: Path) -> dict:
    """Record of an earlier start, if there was one; ValueError if it cannot be read."""
    if not path.exists():
        return {}
    with named(path, "not a run's record", "delete it; the run's time so far is lost with it"):
        before = parsed(read_text(path, "record"))
        if not isinstance(before, dict):
            raise TypeError("expected an object {...}")
        return before


class UpdateRunRecord(pl.Callback):
    """Brings the record up to date after each epoch, so that a killed run's time is known, too."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.record.write()


def task_words() -> list[str]:
    """This run's own words that say where it is played: of its world, data, scale, encoder and seed."""
    words = list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []
    return [word for word in words if word.lstrip("+").partition("=")[0].split(".")[0] in TASK_GROUPS]


def command() -> str:
    """Command line that runs this again, of a script or of `eqa-train`; a sweep's run has its own words.

    In the process of a launcher, argv names the launcher's script.
    """
    words, script = sys.argv[1:], Path(sys.argv[0]).name
    if HydraConfig.initialized():
        of_hydra = HydraConfig.get()
        words = list(of_hydra.overrides.task)
        if of_hydra.mode == RunMode.MULTIRUN and not script.startswith(("eqa-", of_hydra.job.name)):
            script = f"{of_hydra.job.name}.py"
    return shlex.join([*["python"] * script.endswith(".py"), script, *words])


def commit() -> str:
    """The commit that is checked out, with `+changes` if files differ from it; `unknown` outside a repository."""
    git = ["git", "-C", str(ROOT)]
    try:
        top, found, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (
                ["rev-parse", "--show-toplevel"],
                ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain"],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    if Path(top).resolve() != ROOT.resolve():  # installed somewhere inside of another project's repository
        return "unknown"
    return found + "+changes" * bool(changed)


def packages() -> dict[str, str]:
    """Installed versions of this package, if it is installed, and of those that it needs."""
    if (project := ROOT / "pyproject.toml").is_file():
        wanted = tomllib.loads(project.read_text())["project"]["dependencies"]
    else:
        wanted = [line for line in metadata.requires("eqa") if "extra ==" not in line]
    installed = {package.name.lower(): package.version for package in metadata.distributions()}
    names = ["eqa", *(re.match(r"[\w-]+", line).group() for line in wanted)]
    return {name: installed[name] for name in names if name in installed}


def machine() -> str:
    """Processor, cores, memory, GPUs and operating system in one line."""
    try:
        processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()).group(1)
    except (OSError, AttributeError):
        processor = platform.processor() or platform.machine()
    parts = [processor, f"{os.cpu_count()} cores"]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        parts.append(f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB")
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join([*parts, f"{platform.system()} {platform.release()}"])


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Gives a function: the most gigabytes that this process has held since, or held in the block when it is over.

    It looks every tenth of a second. Files that are mapped into memory are left out on Linux: the system takes their
    pages back when it needs them. Elsewhere it is the most that the process has held since it began.
    """
    most, over = held_memory_gb(), threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(LOOK_EVERY_S):
            most = max(most, held_memory_gb())

    watcher = threading.Thread(target=look, name="peak memory", daemon=True)
    watcher.start()
    try:
        yield lambda: most
    finally:
        over.set()
        watcher.join()


def held_memory_gb() -> float:
    """Memory that this process holds now, or its peak where the system says no more; 0 if it says nothing."""
    try:
        parts = re.findall(r"Rss(?:Anon|Shmem):\s*(\d+) kB", STATUS.read_text())
    except OSError:
        parts = []
    if parts:
        return sum(map(int, parts)) * 1024 / 1e9
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
