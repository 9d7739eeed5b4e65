"""`Serving`: the stand-in for AirSim in a thread, so that tests can start, stop and watch servers without waiting."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from eqa.envs.airsim.flight import Flight
from eqa.envs.airsim.server import Server, bound
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from tests.helpers.small_house import small_house

HOST = "127.0.0.1"
HOUSES = {name: small_house(name) for name in ("small-0", "small-1")}


def served_houses(camera: Camera) -> HouseWorld:
    """A world of two houses that has no others."""
    made = HouseWorld(HOUSES.__getitem__, camera=camera)
    made.missing = lambda scene_ids: set(scene_ids) - set(HOUSES)
    return made


class Serving:
    """Servers in one thread, whose loop they share: drawing of two of them never meets."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.servers: dict[int, Server] = {}

    def _run(self, task: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(timeout=60)

    def start(self, flight: Flight, port: int = 0) -> int:
        """Serves a flight; returns the port."""
        server, at = Server(flight), bound(HOST, port)
        self._run(server.listen(at))
        port = at.getsockname()[1]
        self.servers[port] = server
        return port

    def stop(self, port: int) -> None:
        """Ends a server and all its connections, as a process that dies."""

        async def end() -> None:
            self.servers.pop(port).close()

        self._run(end())

    def close(self) -> None:
        """Ends all servers, and the thread."""
        for port in list(self.servers):
            self.stop(port)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
