"""AirSim's protocol, in bytes: msgpack-rpc's messages with bounds, and AirSim's poses, image requests and images.

A request is [0, id, method, arguments], a response [1, id, error, result], a notification [2, method, arguments]. The
package `msgpack` reads and writes them; nothing that is received is ever executed or unpickled.

Depth is in metres along the view. Pixels that see nothing have depth 0 here and FAR_M there. An image that has numbers
has one zero byte in place of colours, and the other way round, as AirSim sends it.

Axes: N poses, H W image.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, UInt8

try:
    import msgpack
except ImportError:
    msgpack = None  # `check_msgpack` says so where it is needed

REQUEST, RESPONSE, NOTIFY = range(3)
SCENE, DEPTH, SEGMENTATION = 0, 1, 5  # AirSim's ids of image types: Scene, DepthPlanar, Segmentation
FAR_M = 65504.0  # the largest half float: what AirSim sends for the sky
FLOAT = 0xCA  # msgpack's mark of a 32-bit float
PACKED_FLOAT = np.dtype([("mark", np.uint8), ("value", ">f4")])
MAX_MESSAGE = 2**28  # bytes of an answer: 8192 x 4096 pixels of colour and depth
CLIENT_VERSION, SERVER_VERSIONS = 4, (1, 4)  # AirSim's servers say 1, Cosys-AirSim's up to 4
VECTOR, QUATERNION = ("x_val", "y_val", "z_val"), ("w_val", "x_val", "y_val", "z_val")


def check_msgpack() -> None:
    """ImportError with the command to install msgpack, if it is missing."""
    if msgpack is None:
        raise ImportError('airsim: expected the package msgpack, which is not installed; pip install -e ".[airsim]"')


class Malformed(ValueError):
    """Bytes or values that are none of the protocol's."""


class Refused(ValueError):
    """An error that the other side answered with, in its own words."""


@dataclass(frozen=True, slots=True)
class Image:
    """One image of an answer to simGetImages: colours as AirSim's channels (blue, green, red), or metres."""

    kind: int
    pixels: UInt8[np.ndarray, "H W 3"] | Float32[np.ndarray, "H W"] | bytes  # bytes: a PNG file
    width: int
    height: int
    camera: str = ""
    position: Mapping[str, float] | None = None  # of the camera, north, east and down
    orientation: Mapping[str, float] | None = None
    time_ns: int = 0
    message: str = ""


def request(number: int, method: str, *arguments: object) -> bytes:
    """A call of a method, in plain values."""
    return msgpack.packb([REQUEST, number, method, list(arguments)])


def response(number: int | None, result: object = None) -> bytes:
    """The answer to a request: plain values, or a list of `Image`."""
    if isinstance(result, list) and result and isinstance(result[0], Image):
        packer = msgpack.Packer()
        head = [packer.pack_array_header(4), packer.pack(RESPONSE), packer.pack(number), packer.pack(None)]
        return b"".join([*head, packer.pack_array_header(len(result)), *map(_packed_image, result)])
    return msgpack.packb([RESPONSE, number, None, result])


def failure(number: int | None, message: str) -> bytes:
    """The answer that a request failed."""
    return msgpack.packb([RESPONSE, number, message, None])


class Messages:
    """Cuts a stream of bytes into whole messages of at most `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_MESSAGE) -> None:
        self.max_bytes, self._buffer, self._begin = max_bytes, bytearray(), 0  # place of the buffer in the stream
        self._reader = msgpack.Unpacker(max_buffer_size=max_bytes)

    def feed(self, chunk: bytes | memoryview) -> Iterator[bytes]:
        """Messages that end within a chunk. Malformed for what is not msgpack, or longer than the bound."""
        self._buffer += chunk
        used = 0
        if len(self._buffer) > self.max_bytes + len(chunk):  # msgpack itself bounds what it has not looked at alone
            raise Malformed(f"message: expected one of up to {self.max_bytes} bytes, got more")
        try:
            self._reader.feed(chunk)
            while True:
                self._reader.skip()
                end = self._reader.tell() - self._begin
                with memoryview(self._buffer) as whole:
                    message, used = bytes(whole[used:end]), end
                yield message
        except msgpack.OutOfData:
            return
        except (msgpack.exceptions.BufferFull, ValueError) as error:
            raise Malformed(f"message: expected msgpack of up to {self.max_bytes} bytes, got {error!r}") from None
        finally:
            del self._buffer[:used]
            self._begin += used


def plain(message: bytes, *, max_items: int = 2**16) -> object:
    """A message as lists, dictionaries, text, bytes and numbers. Malformed for other values, and for too many."""
    try:
        return msgpack.unpackb(
            message,
            max_array_len=max_items,
            max_map_len=max_items,
            max_ext_len=0,
        )
    except (msgpack.UnpackException, ValueError, RecursionError) as error:
        raise Malformed(f"message: expected plain values, got {error!r}") from None


def answer_of(message: bytes, *, number: int) -> object:
    """The result in a response to request `number`; images become a list of `Image`.

    Refused if the other side answered with an error; Malformed for another kind of message, or another number.
    """
    try:
        reader = msgpack.Unpacker(max_buffer_size=MAX_MESSAGE)
        reader.feed(message)
        fits = reader.read_array_header() == 4 and reader.unpack() == RESPONSE and reader.unpack() == number
        error = reader.unpack() if fits else None
        result = _result(message, reader) if fits and error is None else None
    except Malformed:
        raise
    except (msgpack.UnpackException, ValueError, IndexError) as wrong:
        raise Malformed(f"answer: expected msgpack, got {wrong!r}") from None
    if not fits:
        raise Malformed(f"answer: expected a response to request {number}, got {message[:32]!r}")
    if error is not None:
        raise Refused(str(error))
    return result


def _result(message: bytes, reader: "msgpack.Unpacker") -> object:
    """The rest of a response: images part by part, as a list of a million floats takes long, else plain values."""
    mark = message[reader.tell()]
    if not (0x91 <= mark <= 0x9F or mark in (0xDC, 0xDD)):
        return reader.unpack()
    count, parts = reader.read_array_header(), []
    for _ in range(count):
        at = reader.tell()
        named = message[at] & 0xF0 == 0x80 or message[at] in (0xDE, 0xDF)
        parts.append(_fields(message, reader) if named else reader.unpack())
    return [_image(part) if isinstance(part, dict) and "image_type" in part else part for part in parts]


def _fields(message: bytes, reader: "msgpack.Unpacker") -> dict:
    """A map with its numbers as an array, if it has `image_data_float`."""
    fields = {}
    for _ in range(reader.read_map_header()):
        name = str(reader.unpack())
        fields[name] = _floats(message, reader) if name == "image_data_float" else reader.unpack()
    return fields


def _floats(message: bytes, reader: "msgpack.Unpacker") -> Float32[np.ndarray, " _"]:
    """An array of floats, without a Python object for each of them if all have 32 bits."""
    count = reader.read_array_header()
    at = reader.tell()
    length = count * PACKED_FLOAT.itemsize
    if at + length <= len(message):
        packed = np.frombuffer(message, PACKED_FLOAT, count, at)
        if (packed["mark"] == FLOAT).all():
            reader.read_bytes(length)
            return packed["value"].astype(np.float32)
    values = [reader.unpack() for _ in range(count)]
    if not all(isinstance(value, int | float) for value in values):
        raise Malformed(f"image_data_float: expected numbers, got {values[:4]}...")
    return np.array(values, np.float32)


def _image(fields: Mapping) -> Image:
    """An image of an answer; Malformed for pixels that do not fit its size."""
    try:
        kind, width, height = (int(fields[name]) for name in ("image_type", "width", "height"))
        colours, numbers = fields["image_data_uint8"], fields["image_data_float"]
        as_float, packed = bool(fields.get("pixels_as_float")), bool(fields.get("compress"))
        time_ns = int(fields.get("time_stamp", 0))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"image: expected AirSim's fields, got {error!r}") from None
    if as_float:
        pixels = _shaped(numbers, (height, width))
        pixels = np.where(pixels < FAR_M, pixels, np.float32(0.0))
    else:
        if not isinstance(colours, bytes):
            raise Malformed(f"image_data_uint8: expected bytes, got {type(colours).__name__}")
        pixels = colours if packed else _shaped(np.frombuffer(colours, np.uint8), (height, width, 3))
    place, turn = (_numbers(fields, name) for name in ("camera_position", "camera_orientation"))
    about = str(fields.get("camera_name", "")), place, turn, time_ns
    return Image(kind, pixels, width, height, *about, str(fields.get("message", "")))


def _shaped(pixels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if min(shape) < 1 or pixels.size != np.prod(shape):
        raise Malformed(
            f"image: expected {' x '.join(map(str, shape))} values (height, width, channels), got {pixels.size}"
        )
    return pixels.reshape(shape)


def _numbers(fields: Mapping, name: str) -> Mapping[str, float] | None:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else None


def _packed_image(image: Image) -> bytes:
    """An image as AirSim's map, with Cosys-AirSim's `annotation_name`."""
    packer, as_float = msgpack.Packer(), image.kind == DEPTH
    pixels = b"\0" if as_float else image.pixels if isinstance(image.pixels, bytes) else image.pixels.tobytes()
    numbers = _packed_floats(image.pixels) if as_float else packer.pack([0.0])
    fields = {
        "camera_position": image.position,
        "camera_name": image.camera,
        "camera_orientation": image.orientation,
        "time_stamp": image.time_ns,
        "message": image.message,
        "pixels_as_float": as_float,
        "compress": isinstance(image.pixels, bytes),
        "width": image.width,
        "height": image.height,
        "image_type": image.kind,
        "annotation_name": "",
    }
    large = [packer.pack("image_data_uint8"), packer.pack(pixels), packer.pack("image_data_float"), numbers]
    small = [packer.pack(word) for pair in fields.items() for word in pair]
    return b"".join([packer.pack_map_header(2 + len(fields)), *large, *small])


def _packed_floats(depth: Float32[np.ndarray, "H W"]) -> bytes:
    """Depth as an array of floats of 32 bits, as AirSim packs it."""
    packed = np.empty(depth.size, PACKED_FLOAT)
    packed["mark"] = FLOAT
    packed["value"] = np.where(depth > 0, depth, np.float32(FAR_M)).ravel()
    return msgpack.Packer().pack_array_header(len(packed)) + packed.tobytes()


def vector(values: Sequence[float] | Float64[np.ndarray, " 3"]) -> dict[str, float]:
    """A point of AirSim's."""
    return dict(zip(VECTOR, map(float, values), strict=True))


def quaternion(values: Sequence[float] | Float64[np.ndarray, " 4"]) -> dict[str, float]:
    """A quaternion of AirSim's, from (w, x, y, z)."""
    return dict(zip(QUATERNION, map(float, values), strict=True))


def pose(position: Sequence[float] | np.ndarray, turn: Sequence[float] | np.ndarray) -> dict[str, dict[str, float]]:
    """A pose of AirSim's, from its point and quaternion."""
    return {"position": vector(position), "orientation": quaternion(turn)}


def read_pose(value: object) -> tuple[Float64[np.ndarray, " 3"], Float64[np.ndarray, " 4"]]:
    """Position and quaternion (w, x, y, z) of a pose that was received; Malformed for another value."""
    if not isinstance(value, Mapping):
        raise Malformed(f"pose: expected position and orientation, got {value!r}")
    return read_numbers(value.get("position"), VECTOR), read_numbers(value.get("orientation"), QUATERNION)


def read_numbers(value: object, names: Sequence[str]) -> Float64[np.ndarray, " _"]:
    """Numbers of a map by their names; Malformed for another value."""
    found = [value.get(name) for name in names] if isinstance(value, Mapping) else []
    if len(found) != len(names) or not all(type(number) in (int, float) for number in found):
        raise Malformed(f"expected numbers {', '.join(names)}, got {value!r}")
    try:
        return np.array(found, np.float64)
    except OverflowError:
        raise Malformed(f"expected numbers {', '.join(names)}, got one of too many digits") from None


def image_request(camera: str, kind: int) -> dict[str, object]:
    """A request for one uncompressed image; depth comes as numbers."""
    return {
        "camera_name": camera,
        "image_type": kind,
        "pixels_as_float": kind == DEPTH,
        "compress": False,
        "annotation_name": "",
    }
