"""`Catalog`: models as meshes with material slots, and floor, wall and sky surfaces, read from a pack of files.

A model stands on y = 0, centred on x = z = 0, its front looks along +Z, metres. It has `num_slots` material slots.
`Catalog.materials(model, color)` paints the main ones (upholstery of a sofa, wood of a table).

Axes: V vertices, F faces, G meshes, M material slots, T textures, P texels.
"""

import io
import itertools
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from eqa.envs.annotations import PALETTE
from eqa.envs.rendering.scene import Materials, Meshes, Textures

FORMAT, FORMAT_VERSION = "eqa-catalog", 1


@dataclass(frozen=True, slots=True)
class Model:
    key: str
    category: str  # its class
    name: str
    size_m: tuple[float, float, float]  # width (x), height (y), depth (z)
    elevation_m: float  # usual height of its underside above the floor; 0 for a standing model
    top_m: float | None  # height above its underside of the top that things may stand on; None: nothing may
    color: str | None  # the palette colour that a person would name for it as shipped; None: none stands out
    recolorable: bool  # True: painting the main slots changes a person's answer
    mesh: int  # row in `Catalog.meshes`
    num_slots: int
    quality: str  # "good", or "weak": hard to recognise, for places that need variety more


@dataclass(frozen=True, slots=True)
class Surface:
    name: str
    kind: str  # "floor", "wall" or "sky"
    size_m: tuple[float, float]  # width and height of one repeat of the texture
    texture: int  # row in `Catalog.textures`


@dataclass(frozen=True, slots=True)
class _Slots:
    """Materials of all models end to end; those of model m are rows first[m.mesh] up to first[m.mesh] + m.num_slots."""

    shipped: Materials
    is_main: np.ndarray
    grey_texture: np.ndarray  # row of the luminance-only copy of the slot's texture, -1 for flat slots
    first: np.ndarray


class Catalog:
    """All models and surfaces. Arrays are read-only and shared by everybody.

    `meshes` has one mesh per model; `models` and `surfaces` map keys to entries; `textures` serves both.
    """

    def __init__(
        self,
        meshes: Meshes,
        models: dict[str, Model],
        surfaces: dict[str, Surface],
        textures: Textures,
        slots: _Slots,
        categories: Sequence[str],
    ) -> None:
        self.meshes = meshes
        self.models = models
        self.surfaces = surfaces
        self.textures = textures
        self._slots = slots
        self._of_category: dict[str, list[Model]] = {name: [] for name in categories}
        for model in models.values():
            self._of_category[model.category].append(model)

    def models_of(self, category: str) -> list[Model]:
        """Models of a class, good ones first, possibly none. ValueError for a class not in the catalogue."""
        if category not in self._of_category:
            raise ValueError(f"category: expected a class of the catalogue, got {category!r}")
        return list(self._of_category[category])

    def materials(self, model_key: str, color: str | None = None) -> Materials:
        """The model's slots as shipped, or with its main slots painted in a palette colour.

        A flat main slot takes the colour; a textured one keeps its pattern as a luminance-only copy, tinted.
        """
        model = self.models.get(model_key)
        if model is None:
            raise ValueError(f"model_key: expected a key of Catalog.models, got {model_key!r}")
        first = self._slots.first[model.mesh]
        rows = slice(first, first + model.num_slots)
        shipped = self._slots.shipped
        rgb, texture, unlit = shipped.rgb[rows].copy(), shipped.texture[rows].copy(), shipped.unlit[rows].copy()
        if color is not None:
            if color not in PALETTE:
                raise ValueError(f"color: expected None or one of {', '.join(PALETTE)}, got {color!r}")
            main = self._slots.is_main[rows]
            rgb[main] = PALETTE[color]
            texture[main] = self._slots.grey_texture[rows][main]
        return Materials(rgb, texture, unlit)

    def surface(self, words: str) -> Surface | None:
        """The surface in `words` as `surface_material` reads them; None for paint and for unknown names."""
        return self.surfaces.get(words.partition("#")[0])

    def surface_material(self, words: str) -> Materials:
        """One material: a surface of the catalogue by name, paint as "#f4f2ee", or both as "loop_carpet#8794a6".

        The colour behind a name tints its texture.
        """
        name, mark, digits = words.partition("#")
        surface = self.surfaces.get(name)
        if surface is None and (name or not mark):
            raise _unknown_surface(words)
        rgb = _parse_hex(words, digits) if mark else (255, 255, 255)
        texture = -1 if surface is None else surface.texture
        unlit = surface is not None and surface.kind == "sky"
        return Materials(np.array([rgb], np.uint8), np.array([texture], np.int32), np.array([unlit], np.uint8))


def read_catalog(folder: Path, categories: Sequence[str], *, remedy: str) -> Catalog:
    """Reads a pack whose models are of `categories`. ValueError if it is missing, damaged or of another version."""
    try:
        document = json.loads((folder / "catalog.json").read_text())
        found = (document.get("format"), document.get("version"))
        if found != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"expected format {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}")
        with np.load(folder / "pack.npz", allow_pickle=False) as pack:
            arrays = {name: pack[name] for name in pack.files}
        return _assemble(document, arrays, categories)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, zipfile.BadZipFile) as error:
        raise ValueError(f"{folder}: not a whole furniture pack ({error}); {remedy}") from None


def _assemble(document: dict, arrays: dict[str, np.ndarray], categories: Sequence[str]) -> Catalog:
    entries = document["models"]
    sizes = np.array([entry["size_m"] for entry in entries], np.float32)
    uv_range = np.array([entry["uv_range"] for entry in entries], np.float32)
    meshes = _unpack_meshes(arrays, sizes, uv_range)
    images, greys = _decode_images(arrays["images"], arrays["image_offset"])
    slots = _unpack_slots(entries, num_images=len(images))
    # Luminance-only copies are made only for the images that some main slot can be painted on.
    painted = np.unique(slots.grey_texture[slots.grey_texture >= 0])
    grey_row = np.full(len(images), -1, np.int32)
    grey_row[painted] = len(images) + np.arange(len(painted), dtype=np.int32)
    grey_texture = np.where(slots.grey_texture >= 0, grey_row[slots.grey_texture], -1).astype(np.int32)
    textures = build_pyramids(images + [greys(int(image)) for image in painted])
    models = {entry["key"]: _model(entry, row) for row, entry in enumerate(entries)}
    surfaces = {
        entry["name"]: Surface(entry["name"], entry["kind"], tuple(entry["size_m"]), entry["texture"])
        for entry in document["surfaces"]
    }
    slots = _Slots(slots.shipped, slots.is_main, grey_texture, slots.first)
    _check(meshes, models, surfaces, slots, num_images=len(images), categories=categories)
    for array in _arrays_of(meshes, textures, slots.shipped):
        array.setflags(write=False)
    models = dict(sorted(models.items(), key=lambda item: (item[1].quality != "good", item[1].mesh)))
    return Catalog(meshes, models, surfaces, textures, slots, categories)


def _model(entry: dict, row: int) -> Model:
    fields = ("key", "category", "name", "elevation_m", "top_m", "color", "recolorable", "quality")
    values = {name: entry[name] for name in fields}
    return Model(**values, size_m=tuple(entry["size_m"]), mesh=row, num_slots=len(entry["slots"]))


def _unpack_meshes(arrays: dict[str, np.ndarray], sizes: np.ndarray, uv_range: np.ndarray) -> Meshes:
    """Dequantised meshes: positions are fractions of the model's box, uv of its range, normals multiples of 1/127."""
    vertex_range, face_range = arrays["vertex_range"].astype(np.int32), arrays["face_range"].astype(np.int32)
    if len(vertex_range) != len(sizes) or len(face_range) != len(sizes):
        raise ValueError(f"expected meshes for {len(sizes)} models, got {len(vertex_range)}")
    model_of_vertex = np.repeat(np.arange(len(sizes)), vertex_range[:, 1] - vertex_range[:, 0])
    size = sizes[model_of_vertex]
    vertices = arrays["vertices"].astype(np.float32) * (size / np.float32(65535))
    vertices[:, 0] -= size[:, 0] / 2
    vertices[:, 2] -= size[:, 2] / 2
    normals = arrays["normals"].astype(np.float32)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(length > 0, normals / np.maximum(length, 1), np.array([0, 1, 0], np.float32))
    first_vertex = np.repeat(vertex_range[:, 0], face_range[:, 1] - face_range[:, 0])
    return Meshes(
        vertices=vertices,
        normals=normals.astype(np.float32),
        uv=arrays["uv"].astype(np.float32) * (uv_range[model_of_vertex, None] / np.float32(65535)),
        faces=arrays["faces"].astype(np.int32) + first_vertex[:, None],
        face_slot=arrays["face_slot"].astype(np.int32),
        vertex_range=vertex_range,
        face_range=face_range,
    )


def _unpack_slots(entries: list[dict], *, num_images: int) -> _Slots:
    """Slots whose `grey_texture` is the image to copy luminance-only; the caller turns it into a texture row."""
    rows = [slot for entry in entries for slot in entry["slots"]]
    texture = np.array([slot["texture"] for slot in rows], np.int32)
    is_main = np.array([slot["main"] for slot in rows], bool)
    counts = np.array([len(entry["slots"]) for entry in entries], np.int32)
    shipped = Materials(
        rgb=np.array([slot["rgb"] for slot in rows], np.uint8),
        texture=texture,
        unlit=np.array([slot["unlit"] for slot in rows], np.uint8),
    )
    return _Slots(shipped, is_main, np.where(is_main, texture, -1), np.cumsum(counts) - counts)


def _decode_images(data: UInt8[np.ndarray, " bytes"], offset: np.ndarray):
    """RGB images, and a function that gives the luminance-only copy of one.

    The copy's brightness varies around 0.86 of full and its contrast is softened. Paint then keeps its name on dark,
    light and strongly patterned textures alike.
    """
    from PIL import Image

    images = []
    for start, stop in itertools.pairwise(offset):
        with Image.open(io.BytesIO(data[start:stop].tobytes())) as image:
            images.append(np.asarray(image.convert("RGB")))

    def grey(row: int) -> np.ndarray:
        luminance = images[row].astype(np.float64) @ np.array([0.299, 0.587, 0.114]) + 1.0
        relative = np.sqrt(luminance / luminance.mean())
        level = np.clip(255 * 0.86 * relative / relative.mean(), 90, 255).astype(np.uint8)
        return np.repeat(level[:, :, None], 3, axis=2)

    return images, grey


def build_pyramids(images: list[np.ndarray]) -> Textures:
    """RGB images (side, side, 3) uint8 with all their smaller levels. ValueError for a side that is no power of two."""
    texels, offsets, sizes, position = [], [], [], 0
    for image in images:
        side = image.shape[0]
        if image.shape != (side, side, 3) or side & (side - 1):
            raise ValueError(f"expected square textures with a power of two as side, got {image.shape}")
        offsets.append(position)
        sizes.append(side.bit_length() - 1)
        level = image.astype(np.uint16)
        while True:
            opaque = np.full((*level.shape[:2], 4), 255, np.uint8)
            opaque[..., :3] = level
            texels.append(opaque.view("<u4").ravel())
            position += texels[-1].size
            if level.shape[0] == 1:
                break
            pairs = level[::2] + level[1::2]
            level = (pairs[:, ::2] + pairs[:, 1::2] + 2) >> 2
    return Textures(np.concatenate(texels), np.array(offsets, np.int64), np.array(sizes, np.int32))


def _check(
    meshes: Meshes,
    models: dict[str, Model],
    surfaces: dict,
    slots: _Slots,
    *,
    num_images: int,
    categories: Sequence[str],
) -> None:
    """ValueError unless every index of the pack points into the array that it indexes."""
    vertex_count = np.repeat(meshes.vertex_range[:, 1], meshes.face_range[:, 1] - meshes.face_range[:, 0])
    num_slots = np.array([model.num_slots for model in models.values()])
    slot_count = np.repeat(num_slots, meshes.face_range[:, 1] - meshes.face_range[:, 0])
    texture = slots.shipped.texture
    sound = {
        "ranges": meshes.vertex_range[-1, 1] == len(meshes.vertices) and meshes.face_range[-1, 1] == len(meshes.faces),
        "faces": bool((meshes.faces < vertex_count[:, None]).all()),
        "face_slot": bool((meshes.face_slot < slot_count).all()),
        "texture": bool(((texture >= -1) & (texture < num_images)).all()),
        "surface texture": all(0 <= surface.texture < num_images for surface in surfaces.values()),
        "category": all(model.category in categories for model in models.values()),
        "color": all(model.color is None or model.color in PALETTE for model in models.values()),
    }
    wrong = [name for name, is_sound in sound.items() if not is_sound]
    if wrong:
        raise ValueError(f"index out of range in {', '.join(wrong)}")


def _arrays_of(*records: Meshes | Textures | Materials):
    arrays = [getattr(record, name) for record in records for name in record.__dataclass_fields__]
    return [array for array in arrays if array is not None]


def _parse_hex(words: str, digits: str) -> tuple[int, int, int]:
    try:
        if len(digits) != 6:
            raise ValueError
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    except ValueError:
        raise _unknown_surface(words) from None


def _unknown_surface(words: str) -> ValueError:
    return ValueError(f"surface: expected a name in Catalog.surfaces, '#rrggbb' or 'name#rrggbb', got {words!r}")
