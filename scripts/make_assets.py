"""Builds the furniture pack in `envs/house/assets/` from the two Sweet Home 3D packages of Debian.

    apt-get download sweethome3d-furniture sweethome3d
    pip install meshoptimizer==0.2.30a0
    python scripts/make_assets.py sweethome3d-furniture_*.deb sweethome3d_*.deb

`--curation envs/city/assets/curation.json --out envs/city/assets` builds the street pack in the same way.
`envs/house/assets/curation.json` lists the models, their categories, sizes and painted materials. The results are
`pack.npz` (geometry and textures), `catalog.json` (the same models as a document) and `ATTRIBUTION.md`.

A curation entry has `model` (a catalogue id), `shape` (a name in `scripts/assets/shapes.py`) or `parts` (a list of
{model or shape, size_m, at, heading_deg, paint} put together, with a `key`), `category` and `quality`. Optional keys:

- `main` (materials that paint goes on), `rgb` (material: flat colour), `unlit` (materials that shine)
- `split` (name: {of: material, box_m: [least, most corner]}): faces inside a box get a material of their own
- `name`, `elevation_m`, `top_m`, `size_m`, `color` and `recolorable`, to overrule the computed values
- `drop_materials`, `keep_groups` or `drop_groups` (OBJ groups)
- `triangles` (at most) or `error_m` (most movement of the surface), if decimation by rule does too much or too little

Paint goes on one part of a thing: the upholstery of a chair, the case of a piano. `never_painted` lists words; a
material with one of them in its name can't be a main one. A model whose main materials are less than 40 % of what one
sees keeps its own colours. Surfaces are textures of the libraries, larger `sheet`s laid from their tiles, or drawn by a
`pattern` of `scripts/assets/textures.py`.
"""

import argparse
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eqa.envs.annotations import PALETTE
from eqa.envs.house.catalog import ASSETS, CLASSES
from eqa.envs.rendering.assets import FORMAT, FORMAT_VERSION
from eqa.scripts.assets.colors import color_shares
from eqa.scripts.assets.meshes import PackedMesh, decimate, pack
from eqa.scripts.assets.shapes import SHAPES
from eqa.scripts.assets.sources import GroupFilter, Libraries, Shape, Slot, open_libraries, read_shape
from eqa.scripts.assets.textures import draw, rearranged

CURATION = ASSETS / "curation.json"
OWN_WORK = ("authors of this project", "CC0 1.0")
MODEL_TEXTURE_PX, SURFACE_TEXTURE_PX = 128, 256
NAMED_SHARE = 0.6  # least share of a model's surface in one colour that makes people name the colour
PAINTED_SHARE = 0.4  # least share of a model's surface on its main materials that makes paint decide its colour
DARKEST = 14  # flat colours are lifted to this, so that shading shows the form of black things


class Images:
    """Encoded textures, each once."""

    def __init__(self) -> None:
        self.encoded: list[bytes] = []
        self._row: dict[tuple[bytes, int], int] = {}

    def add(self, image: bytes, side_px: int) -> int:
        """Row of the texture: scaled to a square of at most side_px, a power of two, as WebP."""
        from PIL import Image

        if (image, side_px) not in self._row:
            with Image.open(io.BytesIO(image)) as opened:
                picture = _without_alpha(opened)
            side = min(side_px, 1 << max(4, (max(picture.size) - 1).bit_length()))
            buffer = io.BytesIO()
            picture.resize((side, side), Image.Resampling.LANCZOS).save(buffer, "WEBP", quality=80, method=6)
            self._row[image, side_px] = len(self.encoded)
            self.encoded.append(buffer.getvalue())
        return self._row[image, side_px]


def _without_alpha(picture):
    """RGB over the mean colour of the opaque texels, so that cut-out borders do not bleed."""
    from PIL import Image

    rgba = picture.convert("RGBA")
    pixels = np.asarray(rgba, dtype=np.float64)
    weight = pixels[..., 3:] / 255
    mean = (pixels[..., :3] * weight).sum(axis=(0, 1)) / max(weight.sum(), 1.0)
    return Image.fromarray((pixels[..., :3] * weight + mean * (1 - weight)).round().astype(np.uint8))


@dataclass
class Built:
    entry: dict  # the model's entry in catalog.json
    mesh: PackedMesh


def build_model(curated: dict, libraries: Libraries, images: Images, curation: dict) -> Built:
    """One model from its line in the curation table."""
    shape, sources = _gather(curated, libraries, curation["flat_colors"])
    _split(shape, curated.get("split", {}))
    shape = _drop_materials(shape, curated.get("drop_materials", ()))
    for slot in shape.slots:
        slot.main = slot.main or slot.name in curated.get("main", ())
        slot.unlit = slot.unlit or slot.name in curated.get("unlit", ())
        slot.rgb = tuple(curated.get("rgb", {}).get(slot.name, slot.rgb))
        slot.rgb = tuple(max(DARKEST, c) for c in slot.rgb) if slot.image is None else (255, 255, 255)
    shape = _drop_empty_slots(decimate(shape, **_limits(curated)))
    if "size_m" in curated:
        shape.points *= np.array(curated["size_m"]) / np.maximum(np.ptp(shape.points, axis=0), 1e-6)
    colors, main_share = color_shares(shape)
    mesh = pack(shape)
    named = max(colors, key=colors.get, default=None)
    properties = sources[0][0]
    entry = {
        "key": curated.get("key") or curated.get("model") or "eqa#" + curated["shape"].replace(" ", "-"),
        "category": curated["category"],
        "name": curated.get("name") or properties.get("name") or curated["category"],
        "creator": " & ".join(dict.fromkeys(source[1] for source in sources)),
        "license": " & ".join(dict.fromkeys(source[2] for source in sources)),
        "quality": curated["quality"],
        "size_m": mesh.size_m,
        "elevation_m": curated.get("elevation_m", float(properties.get("elevation", 0)) / 100),
        "top_m": curated["top_m"] if "top_m" in curated else _top(properties, mesh.size_m[1]),
        "color": curated.get("color", named if colors.get(named, 0) >= NAMED_SHARE else None),
        "recolorable": curated.get("recolorable", main_share >= PAINTED_SHARE),
        "uv_range": mesh.uv_range,
        "slots": [_slot_entry(slot, images) for slot in shape.slots],
    }
    _check(entry, curation["never_painted"], curation.get("categories", CLASSES))
    return Built(entry, mesh)


def _gather(curated: dict, libraries: Libraries, flat_colors: dict) -> tuple[Shape, list[tuple[dict, str, str]]]:
    """The undecimated shape and, for each source, (catalogue properties, creator, licence)."""
    if "parts" not in curated:
        return _read(curated, libraries, flat_colors)
    shapes, sources = [], []
    for part in curated["parts"]:
        shape, source = _read(part, libraries, flat_colors)
        shape = decimate(shape, **_limits(part))
        if "size_m" in part:
            shape.points *= np.array(part["size_m"]) / np.ptp(shape.points, axis=0)
        angle = np.radians(part.get("heading_deg", 0.0))
        c, s = np.cos(angle), np.sin(angle)
        shape.points = shape.points @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) + np.array(part["at"])
        for slot in shape.slots:
            slot.main = slot.main and part.get("paint", True)
        shapes.append(shape)
        sources += [({}, creator, licence) for _, creator, licence in source]
    return _join(shapes), sources


def _read(curated: dict, libraries: Libraries, flat_colors: dict) -> tuple[Shape, list[tuple[dict, str, str]]]:
    if "shape" in curated:
        if curated["shape"] not in SHAPES:
            raise ValueError(f"shape: expected one of {', '.join(SHAPES)}, got {curated['shape']!r}")
        return SHAPES[curated["shape"]](), [({}, *OWN_WORK)]
    entry = libraries.entry(curated["model"])
    groups = None
    if "keep_groups" in curated or "drop_groups" in curated:
        names = curated.get("keep_groups") or curated["drop_groups"]
        groups = GroupFilter(tuple(names), drop="drop_groups" in curated)
    shape = read_shape(entry, flat_colors=flat_colors, groups=groups)
    return shape, [(entry.properties, entry.properties["creator"], entry.license)]


def _join(shapes: list[Shape]) -> Shape:
    slots: list[Slot] = []
    points, uv, slot_of_vertex, faces, num_points = [], [], [], [], 0
    for shape in shapes:
        points.append(shape.points)
        uv.append(shape.uv)
        slot_of_vertex.append(shape.slot_of_vertex + len(slots))
        faces.append(shape.faces + num_points)
        num_points += len(shape.points)
        slots += shape.slots
    return Shape(*(np.concatenate(arrays) for arrays in (points, uv, slot_of_vertex, faces)), slots)


def _limits(curated: dict) -> dict:
    return {"max_faces": curated.get("triangles"), "error_m": curated.get("error_m")}


def _split(shape: Shape, parts: dict[str, dict]) -> None:
    """Gives the faces of a material that lie wholly inside a box a material of their own, which looks the same."""
    for name, part in parts.items():
        low, high = np.array(part["box_m"])
        inside = ((shape.points >= low) & (shape.points <= high)).all(axis=1)
        of = [number for number, slot in enumerate(shape.slots) if slot.name == part["of"]]
        chosen = inside[shape.faces].all(axis=1) & np.isin(shape.face_slot(), of)
        if not chosen.any():
            raise ValueError(f"split: expected faces of {part['of']!r} inside the box of {name!r}, got none")
        corners = np.unique(shape.faces[chosen])
        row = np.full(len(shape.points), -1)
        row[corners] = len(shape.points) + np.arange(len(corners))
        shape.faces[chosen] = row[shape.faces[chosen]]
        shape.points = np.concatenate([shape.points, shape.points[corners]])
        shape.uv = np.concatenate([shape.uv, shape.uv[corners]])
        shape.slot_of_vertex = np.concatenate([shape.slot_of_vertex, np.full(len(corners), len(shape.slots))])
        shape.slots.append(replace(shape.slots[of[0]], name=name))


def _drop_materials(shape: Shape, names: list[str]) -> Shape:
    dropped = np.array([slot.name in names for slot in shape.slots], bool)
    return Shape(shape.points, shape.uv, shape.slot_of_vertex, shape.faces[~dropped[shape.face_slot()]], shape.slots)


def _drop_empty_slots(shape: Shape) -> Shape:
    """Keeps the slots that faces use, and joins those that look and are painted the same."""
    used = np.unique(shape.face_slot())
    slots: list[Slot] = []
    row = np.zeros(len(shape.slots), np.int64)
    for number in used:
        slot = shape.slots[number]
        same = [
            i
            for i, s in enumerate(slots)
            if (s.rgb, s.image, s.unlit, s.main) == (slot.rgb, slot.image, slot.unlit, slot.main)
        ]
        row[number] = same[0] if same else len(slots)
        if not same:
            slots.append(slot)
    return Shape(shape.points, shape.uv, row[shape.slot_of_vertex], shape.faces, slots)


def _top(properties: dict[str, str], height_m: float) -> float | None:
    """Height for things on top: -1 in the catalogue forbids them, no entry means the model's own top."""
    given = properties.get("dropOnTopElevation")
    if given is None:
        return height_m
    height = float(given) / 100
    return None if height < 0 else round(min(height, height_m), 4)


def _slot_entry(slot: Slot, images: Images) -> dict:
    texture = -1 if slot.image is None else images.add(slot.image, MODEL_TEXTURE_PX)
    return {"material": slot.name, "rgb": slot.rgb, "texture": texture, "unlit": int(slot.unlit), "main": slot.main}


def _check(entry: dict, never_painted: list[str], categories: Sequence[str]) -> None:
    if entry["category"] not in categories:
        raise ValueError(
            f"{entry['key']}: category: expected one of {', '.join(categories)}, got {entry['category']!r}"
        )
    if entry["color"] is not None and entry["color"] not in PALETTE:
        raise ValueError(f"{entry['key']}: color: expected one of catalog.PALETTE, got {entry['color']!r}")
    if entry["recolorable"] and not any(slot["main"] for slot in entry["slots"]):
        raise ValueError(f"{entry['key']}: main: expected a material of the model, got none that exists")
    for slot in entry["slots"]:
        if slot["main"] and any(word in slot["material"].lower() for word in never_painted):
            raise ValueError(
                f"{entry['key']}: main: expected materials without the words of never_painted, got {slot['material']!r}"
            )


def build_surface(curated: dict, libraries: Libraries, images: Images) -> dict:
    """A surface from its line in the curation table: drawn by code, or a texture of the libraries."""
    side_px = curated.get("side_px", SURFACE_TEXTURE_PX)
    if "pattern" in curated:
        image, size_m = draw(curated)
        creator, licence = OWN_WORK
    else:
        source = libraries.textures[curated["texture"]]
        image = source.archive.read(source.properties["image"].lstrip("/"))
        size_m = [float(source.properties[side]) / 100 for side in ("width", "height")]
        if "sheet" in curated:
            sheet = curated["sheet"]
            image = rearranged(image, **sheet, side_px=side_px)
            size_m = [s / n * m for s, n, m in zip(size_m, sheet["cells"], sheet["count"], strict=True)]
        creator, licence = source.properties["creator"], source.license
    return {
        "name": curated["name"],
        "kind": curated["kind"],
        "size_m": [round(size, 4) for size in size_m],
        "texture": images.add(image, side_px),
        "creator": creator,
        "license": licence,
    }


def write_pack(folder: Path, built: list[Built], surfaces: list[dict], images: Images) -> None:
    """Writes pack.npz, catalog.json and ATTRIBUTION.md."""
    num_vertices = np.cumsum([0] + [len(b.mesh.vertices) for b in built])
    num_faces = np.cumsum([0] + [len(b.mesh.faces) for b in built])
    arrays = {
        name: np.concatenate([getattr(b.mesh, name) for b in built])
        for name in ("vertices", "normals", "uv", "faces", "face_slot")
    }
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        folder / "pack.npz",
        **arrays,
        vertex_range=np.stack([num_vertices[:-1], num_vertices[1:]], axis=1).astype(np.int32),
        face_range=np.stack([num_faces[:-1], num_faces[1:]], axis=1).astype(np.int32),
        images=np.frombuffer(b"".join(images.encoded), np.uint8),
        image_offset=np.cumsum([0] + [len(image) for image in images.encoded]).astype(np.int64),
    )
    models = ",\n".join("  " + json.dumps(b.entry) for b in built)
    floors = ",\n".join("  " + json.dumps(surface) for surface in surfaces)
    (folder / "catalog.json").write_text(
        f'{{"format": "{FORMAT}", "version": {FORMAT_VERSION},\n "models": [\n{models}\n ],\n'
        f' "surfaces": [\n{floors}\n ]}}\n'
    )
    (folder / "ATTRIBUTION.md").write_text(attribution([b.entry for b in built], surfaces))


LICENSE_LINKS = {
    "CC0 1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "CC BY 3.0": "https://creativecommons.org/licenses/by/3.0/",
    "CC BY 3.0 US": "https://creativecommons.org/licenses/by/3.0/us/",
}


def attribution(models: list[dict], surfaces: list[dict]) -> str:
    """The licence notice: each model and texture with its author and licence."""
    lines = [
        "# Authors and licences of the furniture and textures",
        "",
        "The models and textures in this folder come from the furniture libraries of Sweet Home 3D",
        "(https://www.sweethome3d.com), but for those by the authors of this project. They were changed: meshes were scaled,",
        "decimated, given new normals and quantised, some were cut or combined, textures were scaled down and recompressed,",
        "some laid out into larger ones.",
        "They can be shown in other colours than their authors gave them. The authors endorse neither this project nor its use.",
        "",
        "Licences: " + ",\n".join(f"[{name}]({link})" for name, link in LICENSE_LINKS.items()) + ".",
        "The eTeks files are offered under CC BY 3.0 or the GPL at choice; here CC BY 3.0 is chosen. Files marked Scopia are",
        "(C) Scopia Visual Interfaces Systems, s.l. (http://www.scopia.es) and Emmanuel Puybaret / eTeks <info@eteks.com>;",
        "files marked eTeks are (C) Emmanuel Puybaret / eTeks; files marked Kator Legaz are (C) Andrew Kator & Jennifer Legaz.",
        "",
        "| model | shown as | creator | licence |",
        "|---|---|---|---|",
    ]
    for entry in models:
        lines.append(f"| {entry['key']} | {entry['category']} | {entry['creator']} | {entry['license']} |")
    lines += ["", "| texture | creator | licence |", "|---|---|---|"]
    lines += [f"| {entry['name']} | {entry['creator']} | {entry['license']} |" for entry in surfaces]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help=".deb files, or folders that they were unpacked into")
    parser.add_argument("--curation", type=Path, default=CURATION)
    parser.add_argument("--out", type=Path, default=ASSETS)
    args = parser.parse_args()
    curation = json.loads(args.curation.read_text())
    libraries = open_libraries(args.paths)
    images = Images()
    built = [build_model(line, libraries, images, curation) for line in curation["models"]]
    surfaces = [build_surface(line, libraries, images) for line in curation["surfaces"]]
    write_pack(args.out, built, surfaces, images)
    faces = sum(len(b.mesh.faces) for b in built)
    size_mb = (args.out / "pack.npz").stat().st_size / 1e6
    print(f"{len(built)} models, {faces} triangles, {len(images.encoded)} textures, pack.npz {size_mb:.1f} MB")


if __name__ == "__main__":
    main()
