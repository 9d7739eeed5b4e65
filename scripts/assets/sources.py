"""Reader of the Sweet Home 3D libraries: Debian packages, `.sh3f` and `.jar` archives, catalogues, OBJ and MTL files.

`open_libraries` takes the packages as `apt-get download sweethome3d-furniture sweethome3d` leaves them, or their
contents. `Libraries.entry` gives a catalogue entry, `read_shape` its model scaled to metres with the front along +Z.
"""

import io
import itertools
import lzma
import posixpath
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# Catalogue file inside each archive, by the library's file name, and the licence that its LICENSE.TXT states. The eTeks
# files are "CC BY 3.0 or GPL at your choice"; CC BY 3.0 is chosen here.
FURNITURE_CATALOG = "PluginFurnitureCatalog.properties"
LIBRARIES = {
    "BlendSwap-CC-0.sh3f": (FURNITURE_CATALOG, "CC0 1.0"),
    "BlendSwap-CC-BY.sh3f": (FURNITURE_CATALOG, "CC BY 3.0"),
    "KatorLegaz.sh3f": (FURNITURE_CATALOG, "CC BY 3.0 US"),
    "Scopia.sh3f": (FURNITURE_CATALOG, "CC BY 3.0"),
    "sweethome3d.jar": ("com/eteks/sweethome3d/io/DefaultFurnitureCatalog.properties", "CC BY 3.0"),
}
TEXTURE_CATALOG = "com/eteks/sweethome3d/io/DefaultTexturesCatalog.properties"


@dataclass
class Slot:
    """One material of a model. `image` is the encoded texture file; a textured slot shows the texture alone."""

    name: str
    rgb: tuple[int, int, int] = (255, 255, 255)
    image: bytes | None = None
    unlit: bool = False
    main: bool = False


@dataclass
class Shape:
    """Triangles with texture coordinates. Vertices belong to one slot each.

    points (V, 3) metres, uv (V, 2) texture repeats, slot_of_vertex (V,), faces (F, 3).
    """

    points: np.ndarray
    uv: np.ndarray
    slot_of_vertex: np.ndarray
    faces: np.ndarray
    slots: list[Slot] = field(default_factory=list)

    def face_slot(self) -> np.ndarray:
        return self.slot_of_vertex[self.faces[:, 0]]


@dataclass(frozen=True)
class Entry:
    """A model of a catalogue. `properties` are its lines there, without the number."""

    key: str
    archive: zipfile.ZipFile
    license: str
    properties: dict[str, str]


class Libraries:
    def __init__(self, archives: dict[str, zipfile.ZipFile]) -> None:
        self.entries: dict[str, Entry] = {}
        self.textures: dict[str, Entry] = {}
        for name, archive in archives.items():
            catalog, licence = LIBRARIES[name]
            self._add(self.entries, archive, catalog, licence)
            if name.endswith(".jar"):
                self._add(self.textures, archive, TEXTURE_CATALOG, licence)

    @staticmethod
    def _add(entries: dict[str, Entry], archive: zipfile.ZipFile, catalog: str, licence: str) -> None:
        for properties in read_catalog(archive.read(catalog)):
            key = properties["id"]
            entries[key] = Entry(key, archive, licence, properties)

    def entry(self, key: str) -> Entry:
        if key not in self.entries:
            raise ValueError(
                f"model: expected an id of the Sweet Home 3D catalogues, got {key!r}; is a package missing?"
            )
        return self.entries[key]


def open_libraries(paths: list[Path]) -> Libraries:
    """Opens every library found in the given .deb, .sh3f or .jar files, or folders that hold such files."""
    archives = {}
    for path in paths:
        for name, data in _archives_in(path):
            archives[name] = zipfile.ZipFile(data)
    missing = sorted(set(LIBRARIES) - set(archives))
    if missing:
        raise ValueError(
            f"paths: expected packages that hold {', '.join(LIBRARIES)}, got none with {', '.join(missing)}; "
            "apt-get download sweethome3d-furniture sweethome3d"
        )
    return Libraries(archives)


def _archives_in(path: Path) -> Iterator[tuple[str, io.BytesIO | Path]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.name in LIBRARIES or file.suffix == ".deb":
                yield from _archives_in(file)
    elif path.suffix == ".deb":
        with tarfile.open(fileobj=io.BytesIO(_deb_data(path)), mode="r:") as tar:
            for member in tar:
                name = posixpath.basename(member.name)
                if name in LIBRARIES and member.isfile():
                    yield name, io.BytesIO(tar.extractfile(member).read())
    elif path.name in LIBRARIES:
        yield path.name, path
    else:
        raise ValueError(f"paths: expected .deb files or folders, or one of {', '.join(LIBRARIES)}, got {path}")


def _deb_data(path: Path) -> bytes:
    """The uncompressed data.tar of a Debian package, which is an `ar` archive of three members."""
    raw = path.read_bytes()
    if not raw.startswith(b"!<arch>\n"):
        raise ValueError(f"{path}: expected a Debian package, got something else")
    position = 8
    while position + 60 <= len(raw):
        name, size = raw[position : position + 16].decode().strip().rstrip("/"), int(raw[position + 48 : position + 58])
        body = raw[position + 60 : position + 60 + size]
        if name == "data.tar.xz":
            return lzma.decompress(body)
        if name.startswith("data.tar"):
            raise ValueError(
                f"{path}: expected data.tar.xz inside, got {name}; unpack it (dpkg-deb -x) and give the folder"
            )
        position += 60 + size + size % 2
    raise ValueError(f"{path}: expected a data.tar.xz inside, got none")


def read_catalog(data: bytes) -> list[dict[str, str]]:
    """Entries of a Java properties file whose keys end in #number, in the order of the numbers."""
    text = re.sub(r"\\\r?\n\s*", "", data.decode("latin-1"))
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    entries: dict[int, dict[str, str]] = {}
    for match in re.finditer(r"^(\w+)#(\d+)\s*=\s*(.*?)\s*$", text, re.MULTILINE):
        entries.setdefault(int(match[2]), {})[match[1]] = match[3]
    return [entries[number] for number in sorted(entries)]


def read_shape(entry: Entry, *, flat_colors: dict[str, list[int]], groups: "GroupFilter | None" = None) -> Shape:
    """The model of an entry: turned, scaled to its catalogue size, standing on y = 0, centred on x = z = 0.

    `flat_colors` are the colours of the materials that the eTeks models name without an MTL file. `groups` keeps only
    the faces of the OBJ groups that it accepts; the size is then that of the kept part.
    """
    path = entry.properties["model"].lstrip("/")
    obj = _parse_obj(entry.archive.read(path).decode("latin-1"))
    materials = _read_materials(entry.archive, posixpath.dirname(path), obj.libraries)
    points = obj.points @ _rotation(entry).T
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.array([float(entry.properties[name]) / 100 for name in ("width", "height", "depth")])
    points = (points - low) * (size / np.maximum(high - low, 1e-9))
    keep = np.ones(len(obj.faces), bool) if groups is None else groups.accepts(obj.group_names)[obj.face_group]
    if not keep.any():
        raise ValueError(f"{entry.key}: expected faces in the groups {groups}, got groups {obj.group_names}")
    shape = _index_corners(points, obj, keep)
    used = np.unique(shape.points[shape.faces.ravel()], axis=0)
    middle = (used.min(axis=0) + used.max(axis=0)) / 2
    shape.points -= np.array([middle[0], used[:, 1].min(), middle[2]])
    shape.slots = [_slot(name, materials, flat_colors, entry.key) for name in obj.material_names]
    for number, slot in enumerate(shape.slots):
        if slot.image is not None and not obj.has_uv[obj.faces[obj.face_material == number]].any():
            slot.image = None  # no texture coordinates: its flat colour shows
    return shape


@dataclass(frozen=True)
class GroupFilter:
    """Filter of OBJ groups: keeps those with one of `names` in their name, or with `drop` all others."""

    names: tuple[str, ...]
    drop: bool = False

    def accepts(self, group_names: list[str]) -> np.ndarray:
        named = np.array([any(name in group for name in self.names) for group in group_names], bool)
        return ~named if self.drop else named


def _rotation(entry: Entry) -> np.ndarray:
    text = entry.properties.get("modelRotation")
    return np.eye(3) if text is None else np.array(text.split(), float).reshape(3, 3)


@dataclass
class _Obj:
    points: np.ndarray
    uv: np.ndarray
    corners: list[str]  # distinct "v/vt/vn" words
    has_uv: np.ndarray  # True for corners that name a texture coordinate
    faces: np.ndarray  # (F, 3) rows of `corners`
    face_material: np.ndarray
    face_group: np.ndarray
    material_names: list[str]
    group_names: list[str]
    libraries: list[str]


def _parse_obj(text: str) -> _Obj:
    points, uv, faces, face_material, face_group, libraries = [], [], [], [], [], []
    corner_row: dict[str, int] = {}
    materials: dict[str, int] = {}
    groups: dict[str, int] = {}
    material, group = materials.setdefault("default", 0), groups.setdefault("", 0)
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        words = line.split()
        if not words:
            continue
        kind = words[0]
        if kind == "v":
            points.append(words[1:4])
        elif kind == "vt":
            uv.append(words[1:3])
        elif kind == "f":
            rows = [corner_row.setdefault(_absolute(word, len(points), len(uv)), len(corner_row)) for word in words[1:]]
            for second, third in itertools.pairwise(rows[1:]):
                faces.append((rows[0], second, third))
                face_material.append(material)
                face_group.append(group)
        elif kind == "usemtl":
            material = materials.setdefault(" ".join(words[1:]), len(materials))
        elif kind in ("g", "o"):
            group = groups.setdefault(" ".join(words[1:]), len(groups))
        elif kind == "mtllib":
            libraries.append(" ".join(words[1:]))
    return _Obj(
        np.array(points, float),
        np.array(uv, float) if uv else np.zeros((1, 2)),
        list(corner_row),
        np.array(["/" in word and word.split("/")[1] != "" for word in corner_row], bool),
        np.array(faces, np.int64),
        np.array(face_material, np.int64),
        np.array(face_group, np.int64),
        list(materials),
        list(groups),
        libraries,
    )


def _absolute(word: str, num_points: int, num_uv: int) -> str:
    """Replaces an OBJ corner's indices that count from the end."""
    if "-" not in word:
        return word
    counts = (num_points, num_uv, 0)
    parts = word.split("/")
    return "/".join(str(counts[i] + 1 + int(p)) if p.startswith("-") and i < 2 else p for i, p in enumerate(parts))


def _index_corners(points: np.ndarray, obj: _Obj, keep: np.ndarray) -> Shape:
    """Vertices that are distinct in position, texture coordinate and material."""
    words = [corner.split("/") for corner in obj.corners]
    point_row = np.array([int(word[0]) - 1 for word in words], np.int64)
    uv_row = np.array([int(word[1]) - 1 if len(word) > 1 and word[1] else 0 for word in words], np.int64)
    faces = obj.faces[keep]
    material = np.repeat(obj.face_material[keep], 3)
    corner_points = points[point_row[faces.ravel()]]
    corner_uv = obj.uv[np.minimum(uv_row[faces.ravel()], len(obj.uv) - 1)]
    _, point_id = np.unique(np.round(corner_points, 6), axis=0, return_inverse=True)
    _, uv_id = np.unique(np.round(corner_uv, 5), axis=0, return_inverse=True)
    _, first, vertex = np.unique(
        np.stack([point_id.ravel(), uv_id.ravel(), material], axis=1), axis=0, return_index=True, return_inverse=True
    )
    triangles = vertex.reshape(-1, 3)
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (a != c)]
    return Shape(corner_points[first], corner_uv[first], material[first], triangles)


def _read_materials(archive: zipfile.ZipFile, folder: str, libraries: list[str]) -> dict[str, dict]:
    """Material name -> {"Kd": (3,), "Ka": (3,), "image": bytes}, each key if the MTL files have it."""
    materials: dict[str, dict] = {}
    names = set(archive.namelist())
    paths = [posixpath.normpath(posixpath.join(folder, library)) for library in libraries]
    if libraries and not names.intersection(paths):  # renamed after export: the folder holds one model's files only
        paths = [name for name in names if posixpath.dirname(name) == folder and name.lower().endswith(".mtl")]
    for path in paths:
        if path not in names:
            continue
        current: dict = {}
        for line in archive.read(path).decode("latin-1").splitlines():
            words = line.split()
            if not words:
                continue
            if words[0] == "newmtl":
                current = materials.setdefault(" ".join(words[1:]), {})
            elif words[0] in ("Ka", "Kd") and len(words) >= 4:
                current[words[0]] = np.array(words[1:4], float)
            elif words[0] == "map_Kd":
                image = posixpath.normpath(posixpath.join(folder, words[-1].replace("\\", "/")))
                if image in names:
                    current["image"] = archive.read(image)
    return materials


def _slot(name: str, materials: dict[str, dict], flat_colors: dict[str, list[int]], key: str) -> Slot:
    """The slot of a material. Colours fit the catalogue's icons: the texture alone if there is one, else Kd + 0.3 Ka.

    A name that the MTL lacks is an MTL name with the texture's appended (an exporter's habit), or has a flat colour.
    """
    if name not in materials and name not in flat_colors:
        name = max((known for known in materials if name.startswith(known)), key=len, default=name)
    if name in materials:
        material = materials[name]
        color = material.get("Kd", np.full(3, 0.8)) + 0.3 * material.get("Ka", np.zeros(3))
        rgb = tuple(int(c) for c in np.clip(np.round(color * 255), 0, 255))
        return Slot(name, rgb, image=material.get("image"))
    if name in flat_colors:
        return Slot(name, rgb=tuple(flat_colors[name]))
    if name == "default":
        return Slot(name, rgb=(204, 204, 204))
    raise ValueError(f"{key}: expected a colour for its material {name!r} in an MTL file or in flat_colors, got none")
