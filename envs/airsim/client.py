"""`Client`: calls of one AirSim server over TCP, each with a time limit; a late answer ends the connection."""

import socket
import time

from eqa.envs.airsim.protocol import (
    CLIENT_VERSION,
    SERVER_VERSIONS,
    Image,
    Malformed,
    Messages,
    Refused,
    answer_of,
    check_msgpack,
    image_request,
    request,
)

CHUNK = 2**20  # bytes read at once
LARGEST_NUMBER = 2**30  # of a request; then they begin again
ARITY = "number of arguments"  # what AirSim's answer says where its version has other arguments


class Client:
    """A connection that opens with the first call, and again with the first one after it was lost.

    Calls raise `protocol.Refused` for an error that the server answers with, and OSError for a connection that is lost
    or an answer that does not come; `protocol.Malformed` for an answer that is none. After these two the connection is
    closed, so that no late answer is taken for another's.
    """

    def __init__(self, host: str, port: int, *, timeout_s: float) -> None:
        check_msgpack()
        self.host, self.port, self.timeout_s = host, port, timeout_s
        self._socket: socket.socket | None = None
        self._number, self._messages, self._external = 0, Messages(), False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def close(self) -> None:
        """Ends the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._messages = None, Messages()

    def call(self, method: str, *arguments: object) -> object:
        """The result of a method of the server."""
        self._number = self._number % LARGEST_NUMBER + 1
        try:
            if self._socket is None:
                self._socket = socket.create_connection((self.host, self.port), self.timeout_s)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(request(self._number, method, *arguments))
            return answer_of(self._received(method), number=self._number)
        except (OSError, Malformed):
            self.close()
            raise

    def _received(self, method: str) -> bytes:
        """The next whole message."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer to {method} in {self.timeout_s:g} s")
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(CHUNK)
            except TimeoutError:
                continue
            if not chunk:
                raise ConnectionError(f"the server closed the connection while asked for {method}")
            for message in self._messages.feed(chunk):
                return message

    def confirm(self) -> None:
        """As AirSim's confirmConnection; ValueError for a server of another version of the protocol."""
        if self.call("ping") is not True:
            raise Malformed("ping: expected true")
        version, needed = self.call("getServerVersion"), self.call("getMinRequiredClientVersion")
        least, most = SERVER_VERSIONS
        if not (type(version) is int and least <= version <= most):
            raise ValueError(f"{self}: expected an AirSim server of version {least} to {most}, got {version!r}")
        if not (type(needed) is int and needed <= CLIENT_VERSION):
            raise ValueError(f"{self}: expected a server for clients of version {CLIENT_VERSION}, it needs {needed!r}")

    def images(self, camera: str, kinds: tuple[int, ...], vehicle: str = "") -> list[Image]:
        """Images of a camera, from one request, so that they belong together; one for each kind, in order."""
        words = [[image_request(camera, kind) for kind in kinds], vehicle]
        try:
            found = self.call("simGetImages", *words, *([False] if self._external else []))
        except Refused as error:
            if self._external or ARITY not in str(error):
                raise
            self._external = True  # AirSim 1.5 and later ask for one more: whether the camera is external
            found = self.call("simGetImages", *words, False)
        if not isinstance(found, list) or [getattr(image, "kind", None) for image in found] != list(kinds):
            self.close()
            raise Malformed(f"simGetImages: expected images of types {list(kinds)}, got {str(found)[:200]}")
        return found
