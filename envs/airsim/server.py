"""A stand-in for an AirSim server: a scene of ours behind AirSim's RPC, for any client of AirSim's.

    python -m envs.airsim.server                                  # a city, on port 41451 of this machine
    python -m envs.airsim.server --scene city-test-00003 --camera width_px=640 height_px=480 vertical_fov_deg=73.7398

It is not AirSim: motions are kinematic, there are one drone and one camera, and methods that it has not (`calls.CALLS`
are those it has) answer with an error. It needs no GPU and no game engine. It goes on serving after anything that it
receives; nothing of that is executed or unpickled. It listens to this machine alone unless --host says otherwise: the
protocol has no passwords.
"""

import argparse
import asyncio
import errno
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_type_hints

from eqa.envs.airsim.calls import called
from eqa.envs.airsim.flight import Flight, Free, Motion
from eqa.envs.airsim.protocol import NOTIFY, REQUEST, Malformed, Messages, check_msgpack, failure, plain, response
from eqa.envs.city.simulator import CITY_CAMERA, CityWorld
from eqa.envs.house.generator import MIXED
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import World

PORT = 41451  # AirSim's own
MAX_REQUEST = 2**20  # bytes; a client's largest is a few hundred
MAX_ITEMS = 1024  # of a list in a request
CHUNK = 2**16
MAX_CONNECTIONS, MAX_MOTIONS, MAX_WRONG = 64, 16, 8  # motions of a connection that wait; messages that are none
POLL_S = 0.01


class Server:
    """Answers calls about a `Flight` on a TCP port, from any number of connections up to MAX_CONNECTIONS."""

    def __init__(self, flight: Flight) -> None:
        self.flight = flight
        self._writers: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def listen(self, at: socket.socket) -> None:
        """Begins to serve those who connect to a bound socket."""
        self._listener = await asyncio.start_server(self._serve, sock=at)

    async def serve_forever(self) -> None:
        await self._listener.serve_forever()

    def close(self) -> None:
        """Ends the port and all connections at once."""
        self._listener.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its begin to its end."""
        self._writers.add(writer)
        motions: set[asyncio.Task] = set()
        try:
            if len(self._writers) > MAX_CONNECTIONS:
                writer.write(failure(None, f"connections: this server has {MAX_CONNECTIONS}, close others first"))
            else:
                await self._converse(reader, writer, motions)
        except (ConnectionError, TimeoutError):
            pass  # the client is gone
        finally:
            self._writers.discard(writer)
            for task in motions:
                task.cancel()
            writer.close()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, motions: set[asyncio.Task]
    ) -> None:
        """Answers messages until the client ends, or has sent MAX_WRONG that are none."""
        messages, wrong = Messages(MAX_REQUEST), 0
        try:
            while chunk := await reader.read(CHUNK):
                for message in messages.feed(chunk):
                    wrong = wrong + 1 if not await self._answer(message, writer, motions) else 0
                    if wrong == MAX_WRONG:
                        return
                    await asyncio.sleep(0)  # to others
        except Malformed as error:
            writer.write(failure(None, str(error)))
            await writer.drain()

    async def _answer(self, message: bytes, writer: asyncio.StreamWriter, motions: set[asyncio.Task]) -> bool:
        """Writes the answer to a message, or begins a motion that is answered at its end; False if it is no call."""
        try:
            number, method, arguments = _call(plain(message, max_items=MAX_ITEMS))
        except Malformed as error:
            writer.write(failure(None, str(error)))
            await writer.drain()
            return False
        try:
            result = called(self.flight, method, arguments)
            if isinstance(result, Motion) and len(motions) < MAX_MOTIONS:
                task = asyncio.create_task(self._end_of(result, number, writer))
                motions.add(task)
                task.add_done_callback(motions.discard)
                return True
            waits = isinstance(result, Motion)
            answer = (
                failure(number, f"motions: {MAX_MOTIONS} of this connection wait already")
                if waits
                else response(number, result)
            )
        except ValueError as error:
            answer = failure(number, str(error))
        except Exception as error:  # noqa: BLE001 (a server that ends takes all others' drones along)
            traceback.print_exc()
            answer = failure(number, f"{method}: failed inside of the server with {type(error).__name__}")
        if number is not None:
            writer.write(answer)
            await writer.drain()
        return True

    async def _end_of(self, motion: Motion, number: int | None, writer: asyncio.StreamWriter) -> None:
        """Answers with True at the end of a motion, or with False if something ended it before."""
        while (reached := self.flight.over(motion)) is None:
            await asyncio.sleep(POLL_S)
        if number is not None:
            writer.write(response(number, reached))
            await writer.drain()


def _call(value: object) -> tuple[int | None, object, list]:
    """Number, method and arguments of a request, no number of a notification; Malformed for another message."""
    if isinstance(value, list) and value:
        kind, *rest = value
        if type(kind) is int and kind == REQUEST and len(rest) == 3 and type(rest[0]) is int:
            number, method, arguments = rest
            if isinstance(arguments, list):
                return number, method, arguments
        if type(kind) is int and kind == NOTIFY and len(rest) == 2 and isinstance(rest[1], list):
            return None, rest[0], rest[1]
    raise Malformed("message: expected [0, id, method, arguments] or [2, method, arguments]")


def city(seed: int, camera: Camera) -> tuple[World, Free | None]:
    """Cities of a seed; a drone may be at any height in them, not only at those that agents have."""
    world = CityWorld.generated(seed=seed, camera=camera)
    return world, lambda scene_id, poses: world.airspace(scene_id).is_free(poses)


def house(seed: int, camera: Camera) -> tuple[World, Free | None]:
    return HouseWorld.generated(seed=seed, style=MIXED, camera=camera), None


@dataclass(frozen=True, slots=True)
class Choice:
    """A world that can be served: what makes it, its camera, and the scene that a server begins in."""

    make: Callable[[int, Camera], tuple[World, Free | None]]
    camera: Camera
    scene_id: str

    def flight(self, seed: int, words: Sequence[str], scene_id: str | None = None, **settings: object) -> Flight:
        """A drone in a scene; `words` change its camera."""
        world, is_free = self.make(seed, camera_of(words, self.camera))
        return Flight(world, scene_id or self.scene_id, is_free=is_free, **settings)


WORLDS = {"city": Choice(city, CITY_CAMERA, "city-test-00000"), "house": Choice(house, Camera(), "test-00000")}


def camera_of(words: Sequence[str], usual: Camera) -> Camera:
    """A camera from words such as width_px=640, else as `usual`; ValueError for a name or number that it has not."""
    kinds, given = get_type_hints(Camera), {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in kinds:
            raise ValueError(f"--camera: expected some of {', '.join(kinds)}, got {name!r}")
        try:
            given[name] = kinds[name](value)
        except ValueError:
            raise ValueError(f"--camera: {name}: expected a number, got {value!r}") from None
    return replace(usual, **given)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; ValueError for a port that is in use, or a host that is not here."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = "--port names another, --port 0 takes a free one"
            raise ValueError(f"port {port} of {host} is in use; {free}") from None
        raise ValueError(f"cannot listen to {host}:{port}: {error.strerror or error}") from None


async def serve(flight: Flight, at: socket.socket) -> None:
    """Serves until it is cancelled."""
    server = Server(flight)
    await server.listen(at)
    host, port = at.getsockname()[:2]
    print(f"serving {flight.scene_id} on {host}:{port}, a stand-in for AirSim; Ctrl-C ends it", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=WORLDS, default=next(iter(WORLDS)))
    parser.add_argument("--scene", help="where it begins; clients may go to others by simLoadLevel")
    parser.add_argument("--seed", type=int, default=0, help="of the world")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen to; 0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=int, default=PORT, help="0 takes a free one")
    parser.add_argument("--camera", nargs="+", default=[], metavar="NAME=VALUE", help="as env.camera.NAME")
    parser.add_argument("--start", nargs=4, type=float, metavar=("X", "Y", "Z", "HEADING_RAD"), help="of the drone")
    parser.add_argument("--clock_speed", type=float, default=1.0, help="seconds of motions a second of the wall")
    arguments = parser.parse_args()
    try:
        check_msgpack()
        if not arguments.clock_speed > 0:
            raise ValueError(f"--clock_speed: expected more than 0, got {arguments.clock_speed}")
        at = bound(arguments.host, arguments.port)
        how = {"start": arguments.start and tuple(arguments.start), "clock_speed": arguments.clock_speed}
        flight = WORLDS[arguments.world].flight(arguments.seed, arguments.camera, arguments.scene, **how)
        asyncio.run(serve(flight, at))
    except KeyboardInterrupt:
        pass
    except (ImportError, OverflowError, ValueError) as error:
        sys.exit(f"server: {error}")


if __name__ == "__main__":
    main()
