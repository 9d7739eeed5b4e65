"""`Scenes`: questions to scenes of habitat-sim, each open in a process of its own.

habitat-sim draws one view after the other, and loads a scene in seconds. So a scene stays open in its process, as many
processes work at once as there are scenes to ask, and the least recently used one makes way for another scene. A
process that nobody has used for a while opens a scene as well of which many views are wanted. Frames come through
memory that both sides share. A process that dies or hangs is ended and reported; what it was asked is
asked again in a new one, once. Threads may ask at the same time.

Axes: V views, H W image.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from mmap import mmap
from multiprocessing import connection
from pathlib import Path
from socket import socketpair

import numpy as np

from eqa.envs.habitat.settings import HabitatSettings
from eqa.envs.progress import console
from eqa.envs.simulator import SceneFailed

SERVER = Path(__file__).with_name("server.py")
CAPACITY = 32  # views that a process draws at once, at most
SHARED = 12  # views that it draws at once where others may draw the rest
UNUSED_S = 10.0  # a process that was not asked for so long may open a scene that another one has
TRIES = 2
BYTES_A_PIXEL = 3 + 4 + 4
QUIET = {"HABITAT_SIM_LOG": "quiet", "MAGNUM_LOG": "quiet"}
LAST_WORDS = 400  # characters of what a process wrote before it died
INSTALL = "conda create -n habitat python=3.12 habitat-sim headless -c conda-forge -c aihabitat"


@dataclass(slots=True, eq=False)
class Question:
    """A question about a scene: a method of `envs.habitat.server.Server` and its arguments. Equal only to itself."""

    scene_id: str
    asks: str
    words: tuple
    views: int = 0  # that it draws, at most CAPACITY
    sensors: Sequence[str] = ()
    tries: int = 0
    answer: object = None
    answered: bool = False  # an answer may be None
    images: Mapping[str, np.ndarray] = field(default_factory=dict)  # copies of what it drew


class SceneProcess:
    """A process of `envs.habitat.server`, and the memory that it draws into."""

    def __init__(self, settings: HabitatSettings) -> None:
        """ValueError if the interpreter has no habitat_sim of a known version."""
        self.settings, self.scene_id, self.contents = settings, None, None
        self.question: Question | None = None
        self.deadline, self.used = 0.0, 0.0
        size = CAPACITY * settings.camera.height_px * settings.camera.width_px * BYTES_A_PIXEL
        ours, theirs = socketpair()
        shared = os.memfd_create("frames")
        os.ftruncate(shared, size)
        self.memory = mmap(shared, size)
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (closed where the process ends)
        try:
            self.process = subprocess.Popen(
                [settings.python, str(SERVER), str(theirs.fileno()), str(shared)],
                pass_fds=(theirs.fileno(), shared),
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=subprocess.STDOUT,
                env={**QUIET, **os.environ},
                start_new_session=True,  # Ctrl-C ends the run first, and the run ends it
            )
        except OSError as error:
            raise ValueError(f"python: expected an interpreter at {settings.python}, got {error.strerror}") from None
        finally:
            theirs.close()
            os.close(shared)
        self.pipe = connection.Connection(ours.detach())
        self._begin(size)

    def _begin(self, size: int) -> None:
        try:
            self.pipe.send((dict(self.settings.for_server), CAPACITY, size))
            if not self.pipe.poll(self.settings.patience_s):
                raise EOFError
            state, message = self.pipe.recv()
        except (EOFError, OSError):
            said = self.last_words()
            self.end()
            raise ValueError(f"habitat-sim: expected a process that begins, got {said or 'no answer'}") from None
        if state != "ready":
            self.end()
            raise ValueError(
                f"habitat-sim: expected under {self.settings.python}, got {message}; "
                f"set env.python to an interpreter that has it: {INSTALL}"
            )

    def last_words(self) -> str:
        """The end of what it wrote."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()[-LAST_WORDS:]

    def ask(self, question: Question) -> None:
        """Sends a question about the scene that is open, or opens that scene first."""
        self.question, self.used = question, time.monotonic()
        self.deadline = self.used + self.settings.patience_s
        opened = self.scene_id == question.scene_id
        words = (question.asks, question.words) if opened else ("open", (self._path(question),))
        self.pipe.send(words)

    def _path(self, question: Question) -> str:
        self.scene_id = self.contents = None
        return self.settings.scene_path(question.scene_id)

    def receive(self) -> bool:
        """Takes an answer; True once it is the one to the question. EOFError, OSError if the process is gone."""
        state, content = self.pipe.recv()
        if state == "ValueError":
            raise ValueError(f"scene {self.question.scene_id!r}: {content}")
        if state != "done":
            raise RuntimeError(f"scene {self.question.scene_id!r}: habitat-sim failed\n{content}")
        if self.scene_id is None:
            self.scene_id, self.contents = self.question.scene_id, content
            self.ask(self.question)
            return False
        self.question.answer, self.question.answered = content, True
        self.question.images = self._images(self.question)
        self.question = None
        return True

    def _images(self, question: Question) -> dict[str, np.ndarray]:
        """Copies of the frames that a question drew."""
        camera, begin, images = self.settings.camera, 0, {}
        for name, kind, channels in (("rgb", np.uint8, 3), ("depth", np.float32, 1), ("instance_id", np.int32, 1)):
            shape = (CAPACITY, camera.height_px, camera.width_px, channels)
            count = int(np.prod(shape))
            if name in question.sensors:
                drawn = np.frombuffer(self.memory, kind, count, begin).reshape(shape)[: question.views]
                images[name] = (drawn if channels > 1 else drawn[..., 0]).copy()
            begin += count * np.dtype(kind).itemsize
        return images

    def end(self) -> None:
        """Kills the process, and waits for it."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()
        self.log.close()
        self.memory.close()


class Scenes:
    """Asks scenes, in `settings.processes` processes at most. They end with `close`, or with this process."""

    def __init__(self, settings: HabitatSettings) -> None:
        self.settings, self.processes = settings, []
        self._asked: dict[Question, None] = {}  # by all threads, in their order
        self._working = threading.Lock()  # held by the thread that asks for all
        self._contents: dict[str, tuple] = {}

    def contents(self, scene_id: str) -> tuple[list, list]:
        """Things and regions of a scene, as `Server.open` gives them."""
        if scene_id not in self._contents:
            self.ask([Question(scene_id, "fits", (b"", ()))])
        return self._contents[scene_id]

    def ask(self, questions: Sequence[Question]) -> None:
        """Asks until all questions have their answers, scenes side by side.

        Questions of other threads that come meanwhile are asked together, next. ValueError for what a scene refuses.
        SceneFailed for a question at which two processes have died or hung.
        """
        mine = dict.fromkeys(questions)
        self._asked.update(mine)
        try:
            with self._working:
                if not all(question.answered for question in mine):
                    self._ask([question for question in list(self._asked) if not question.answered])
        finally:
            for question in mine:
                del self._asked[question]

    def _ask(self, waiting: list[Question]) -> None:
        try:
            while waiting or self._busy():
                waiting = self._hand_out(waiting)
                waiting += self._take_in()
        except BaseException:
            for process in self._busy():  # an answer to come would be taken for that to another question
                self._drop(process)
            raise

    def _busy(self) -> list[SceneProcess]:
        return [process for process in self.processes if process.question is not None]

    def _hand_out(self, waiting: list[Question]) -> list[Question]:
        """Gives idle processes a question each; returns those that have to wait."""
        later = []
        for question in waiting:
            process = self._process_for(question, {q.scene_id for q in waiting})
            if process is None:
                later.append(question)
                continue
            question.tries += 1
            try:
                process.ask(question)
            except OSError:
                later += self._failed(process, "died")
        return later

    def _process_for(self, question: Question, wanted: set[str]) -> SceneProcess | None:
        """The idle process that has the scene, a new one, or the least recently used one that nobody needs now.

        A scene that is open and busy gets a further process for views alone, and none that was used lately.
        """
        scene_id = question.scene_id
        holders = [p for p in self.processes if scene_id in (p.scene_id, p.question and p.question.scene_id)]
        if free := [p for p in holders if p.question is None]:
            return free[0]
        if holders and not question.views:
            return None
        if len(self.processes) < self.settings.processes:
            self.processes.append(SceneProcess(self.settings))
            return self.processes[-1]
        idle = [p for p in self.processes if p.question is None]
        if holders:
            idle = [p for p in idle if p.used < time.monotonic() - UNUSED_S]
        unneeded = [p for p in idle if p.scene_id not in wanted] or idle
        return min(unneeded, key=lambda p: p.used, default=None)

    def _take_in(self) -> list[Question]:
        """Waits for an answer; returns the questions of processes that have died or hang."""
        busy = {process.pipe: process for process in self._busy()}
        if not busy:
            return []
        left = min(process.deadline for process in busy.values()) - time.monotonic()
        again = []
        for pipe in connection.wait(list(busy), timeout=max(left, 0)):
            process = busy[pipe]
            try:
                if process.receive():
                    self._contents[process.scene_id] = process.contents
            except (EOFError, OSError):
                again += self._failed(process, "died")
        for process in self._busy():
            if process.deadline < time.monotonic():
                again += self._failed(process, f"gave no answer in {self.settings.patience_s:g} s")
        return again

    def _failed(self, process: SceneProcess, how: str) -> list[Question]:
        """Ends a process, and gives back its question; SceneFailed if that was its last try."""
        question = process.question
        with suppress(subprocess.TimeoutExpired):  # the pipe closes a little before the process has ended
            code = process.process.wait(timeout=1 if how == "died" else 0)
            how += f" of {signal.Signals(-code).name}" if code < 0 else f" with exit code {code}"
        said = process.last_words()
        self._drop(process)
        report = f"habitat-sim {how} in scene {question.scene_id!r}, asked for {question.asks!r}"
        if question.tries >= TRIES:
            message = f"{report}, {question.tries} times; it wrote: {said or 'nothing'}"
            raise SceneFailed(question.scene_id, message)
        console.print(f"[yellow]{report}; asked again in another process", soft_wrap=True)
        return [question]

    def _drop(self, process: SceneProcess) -> None:
        self.processes.remove(process)
        process.end()

    def close(self) -> None:
        """Ends all processes."""
        for process in list(self.processes):
            self._drop(process)
