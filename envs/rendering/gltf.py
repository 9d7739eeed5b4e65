"""`Glb`: a binary glTF file built from NumPy arrays (glTF 2.0 specification, sections 3.6 and 4.4).

The container is a JSON chunk and a binary chunk, and needs less code than the use of a library. pygltflib leaves
buffers, bounds and alignment to its caller; trimesh allows one material a mesh, so that objects would fall apart.
"""

import json
import struct

import numpy as np

_KIND = {np.dtype(np.uint8): 5121, np.dtype(np.uint16): 5123, np.dtype(np.uint32): 5125, np.dtype(np.float32): 5126}
_SHAPE = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
_VERTICES, _INDICES = 34962, 34963  # buffer view targets
_REPEAT, _LINEAR, _MIPMAPPED = 10497, 9729, 9987
_HEADER_BYTES, _ALIGNMENT = 12, 4


class Glb:
    """Collector of buffers, images, materials, meshes and nodes; each `add_…` returns the index for references."""

    def __init__(self, generator: str, copyright_text: str) -> None:
        self._asset = {"version": "2.0", "generator": generator, "copyright": copyright_text}
        self._lists: dict[str, list[dict]] = {}
        self._extensions: set[str] = set()
        self._binary = bytearray()

    def add_vertices(self, values: np.ndarray, *, bounds: bool = False) -> int:
        """Rows of 2 to 4 numbers, in float32; bytes, 4 a row, stand for 0 to 1. Positions need their `bounds`."""
        is_bytes = values.dtype == np.uint8
        values = np.ascontiguousarray(values, np.uint8 if is_bytes else np.float32)
        extra = {"min": values.min(0).tolist(), "max": values.max(0).tolist()} if bounds else {}
        return self._add_accessor(values, _VERTICES, {**extra, **({"normalized": True} if is_bytes else {})})

    def add_indices(self, faces: np.ndarray) -> int:
        """Corners of triangles (F, 3), in 16 bits if they fit. The greatest value of a width restarts primitives."""
        kind = np.uint16 if faces.max() < np.iinfo(np.uint16).max else np.uint32
        return self._add_accessor(np.ascontiguousarray(faces, kind).ravel(), _INDICES, {})

    def add_texture(self, png: bytes, name: str) -> int:
        """A PNG image that repeats in both directions."""
        if "samplers" not in self._lists:
            self._add("samplers", {"magFilter": _LINEAR, "minFilter": _MIPMAPPED, "wrapS": _REPEAT, "wrapT": _REPEAT})
        view = self._add_view(png, {})
        image = self._add("images", {"bufferView": view, "mimeType": "image/png", "name": name})
        return self._add("textures", {"sampler": 0, "source": image})

    def add_material(self, name: str, texture: int, *, unlit: bool) -> int:
        """A dull surface that shows the texture on both sides; `unlit` ones glow (KHR_materials_unlit)."""
        surface = {"baseColorTexture": {"index": texture}, "metallicFactor": 0.0, "roughnessFactor": 0.9}
        material = {"name": name, "pbrMetallicRoughness": surface, "doubleSided": True}
        if unlit:
            material["extensions"] = {"KHR_materials_unlit": {}}
            self._extensions.add("KHR_materials_unlit")
        return self._add("materials", material)

    def add_mesh(self, name: str, primitives: list[dict]) -> int:
        return self._add("meshes", {"name": name, "primitives": primitives})

    def add_node(self, **fields: object) -> int:
        return self._add("nodes", fields)

    def to_bytes(self, roots: list[int]) -> bytes:
        """The whole file; `roots` are the nodes without a parent."""
        document = {"asset": self._asset, "scene": 0, "scenes": [{"nodes": roots}], **self._lists}
        document["buffers"] = [{"byteLength": len(self._binary)}]
        if self._extensions:
            document["extensionsUsed"] = sorted(self._extensions)
        text = _padded(json.dumps(document, separators=(",", ":")).encode(), b" ")
        binary = _padded(bytes(self._binary), b"\0")
        chunks = [struct.pack("<I4s", len(data), kind) + data for kind, data in ((b"JSON", text), (b"BIN\0", binary))]
        return struct.pack("<4sII", b"glTF", 2, _HEADER_BYTES + sum(map(len, chunks))) + b"".join(chunks)

    def _add(self, kind: str, entry: dict) -> int:
        entries = self._lists.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1

    def _add_view(self, data: bytes, extra: dict) -> int:
        start = len(self._binary)
        self._binary += _padded(data, b"\0")
        return self._add("bufferViews", {"buffer": 0, "byteOffset": start, "byteLength": len(data), **extra})

    def _add_accessor(self, values: np.ndarray, target: int, extra: dict) -> int:
        little_endian = values.astype(values.dtype.newbyteorder("<"), copy=False)
        view = self._add_view(little_endian.tobytes(), {"target": target})
        width = 1 if values.ndim == 1 else values.shape[1]
        layout = {"componentType": _KIND[values.dtype], "count": len(values), "type": _SHAPE[width]}
        return self._add("accessors", {"bufferView": view, **layout, **extra})


def _padded(data: bytes, filler: bytes) -> bytes:
    return data + filler * (-len(data) % _ALIGNMENT)
