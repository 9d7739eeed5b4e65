"""Part of `scripts/bench.py`: growth of the renderer's cost, as a Markdown table and a plot.

One thing grows at a time, the others stay: views in a call, triangles of a house, resolution; each on one thread and on
all. Two limits measured on the same machine stand beside each figure. `write` only fills the four images, as fast as
memory takes them. `one wall` draws a single textured wall that fills the view, the least cost of any view.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numba
import numpy as np

from eqa.envs.house.catalog import load_catalog
from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Instances, Meshes, Scene
from eqa.scripts.arguments import whole
from eqa.scripts.speed.render import count_triangles, furnished_houses, measure

VIEWS = (1, 4, 16, 64, 256, 1024)
TRIANGLES = (10_000, 20_000, 40_000, 160_000, 360_000, 1_000_000)
SIZES = (64, 128, 224, 384, 512)


@dataclass(frozen=True, slots=True)
class Figure:
    grows: str
    value: int
    threads: int
    frames: float  # a second, as the next two
    write: float
    one_wall: float


@numba.njit(parallel=True)
def write_images(rgb, depth, class_id, instance_id):
    for n in numba.prange(len(rgb)):
        rgb[n], depth[n], class_id[n], instance_id[n] = 7, 7, 7, 7


def with_triangles(scene: Scene, catalog: Catalog, wanted: int) -> Scene:
    """A scene of about `wanted` triangles: things in their order while they fit, or each triangle cut into k * k."""
    num_shared = len(catalog.meshes.vertex_range)
    counts = np.concatenate([np.diff(m.face_range, axis=1)[:, 0] for m in (catalog.meshes, scene.meshes)])
    sizes, building = counts[scene.instances.mesh], scene.instances.mesh >= num_shared
    kept = building | (np.cumsum(np.where(building, 0, sizes)) + sizes[building].sum() <= wanted)
    k = max(1, round((wanted / sizes.sum()) ** 0.5))
    items = Instances(*(getattr(scene.instances, name)[kept] for name in Instances.__slots__))
    used = np.unique(items.mesh[items.mesh < num_shared])
    row = np.searchsorted(used, np.arange(len(counts)))
    row[num_shared:] = len(used) + np.arange(len(counts) - num_shared)
    own = _cut(scene.meshes, np.arange(len(counts) - num_shared), k)
    return replace(
        scene,
        meshes=own,
        instances=replace(items, mesh=row[items.mesh].astype(np.int32)),
        assets=SimpleNamespace(meshes=_cut(catalog.meshes, used, k), textures=catalog.textures),
    )


def _cut(meshes: Meshes, used: np.ndarray, k: int) -> Meshes:
    """The meshes of rows `used`, each triangle cut into k * k equal ones with corners of their own."""
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(k), np.arange(k)))
    up = np.stack([(i, j), (i + 1, j), (i, j + 1)], axis=0)[:, :, i + j < k]
    down = np.stack([(i + 1, j + 1), (i, j + 1), (i + 1, j)], axis=0)[:, :, i + j < k - 1]
    steps = np.concatenate([up, down], axis=2).transpose(2, 0, 1) / k  # pieces, corners, shares of two edges
    shares = np.concatenate([1 - steps.sum(axis=2, keepdims=True), steps], axis=2)
    faces = np.concatenate([np.arange(*meshes.face_range[row]) for row in used])
    counts = np.diff(meshes.face_range, axis=1)[:, 0][used] * k * k

    def at_corners(values: np.ndarray) -> np.ndarray:
        corners = values[meshes.faces[faces]]
        return np.einsum("pcs,fsx->fpcx", shares, corners).reshape(-1, values.shape[1]).astype(np.float32)

    normals = at_corners(meshes.normals)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    ends = np.cumsum(counts)
    face_range = np.stack([ends - counts, ends], axis=1).astype(np.int32)
    return Meshes(
        vertices=at_corners(meshes.vertices),
        normals=normals,
        uv=at_corners(meshes.uv),
        faces=np.arange(3 * ends[-1], dtype=np.int32).reshape(-1, 3),
        face_slot=np.repeat(meshes.face_slot[faces], k * k),
        vertex_range=3 * face_range,
        face_range=face_range,
    )


def one_wall(scene: Scene) -> Scene:
    """A scene of a single textured wall, 100 m wide and high, 2 m before a camera at the origin."""
    corners = np.array([(-50, -50, -2), (50, -50, -2), (50, 50, -2), (-50, 50, -2)], np.float32)
    textured = int(np.flatnonzero(scene.materials.texture >= 0)[0])
    number = len(load_catalog().meshes.vertex_range)
    return replace(
        scene,
        rooms=None,
        meshes=Meshes(
            vertices=corners, normals=np.tile(np.array([0, 0, 1], np.float32), (4, 1)), uv=corners[:, :2],
            faces=np.array([(0, 1, 2), (0, 2, 3)], np.int32), face_slot=np.zeros(2, np.int32),
            vertex_range=np.array([[0, 4]], np.int32), face_range=np.array([[0, 2]], np.int32),
        ),
        instances=Instances(
            mesh=np.array([number], np.int32), rotation_scale=np.eye(3, dtype=np.float32)[None],
            translation=np.zeros((1, 3), np.float32), material=np.array([textured], np.int32),
            class_id=np.ones(1, np.int32), instance_id=np.ones(1, np.int32), room=np.zeros(1, np.int32),
            sphere=np.array([[0, 0, -2, 71]], np.float32),
        ),
    )  # fmt: skip


def measure_figures(
    args: argparse.Namespace, grows: str, value: int, renderer: Renderer, scenes: list[Scene], where: tuple
) -> list[Figure]:
    """Figures of `renderer` drawing the views `where` = (scene_index, poses) of `scenes`."""
    scene_index, poses = where
    size, figures = renderer.camera.height_px, []
    wall = Renderer(Camera(size, size))
    wall.load([one_wall(furnished_houses(1, 1)[0][0])])
    renderer.load(scenes)
    out = renderer.render(scene_index, poses)
    nowhere = np.zeros_like(scene_index), np.zeros_like(poses)
    runs = (
        lambda: renderer.render(scene_index, poses, out),
        lambda: write_images(*out.values()),
        lambda: wall.render(*nowhere, out),
    )
    repeats = max(3, args.repeats * 64 // len(poses))
    for threads in args.threads:
        numba.set_num_threads(threads)
        frames, write, least = (len(poses) / measure(run, repeats)[0] for run in runs)
        figures.append(Figure(grows, value, threads, frames, write, least))
        print(f"growth {grows} {value}, {threads} threads: {frames:.0f} frames/s; limits {write:.0f}, {least:.0f}")
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    return figures


def bench_growth(args: argparse.Namespace) -> None:
    scenes, scene_index, poses = furnished_houses(4, max(VIEWS), walking=args.poses == "walk")
    figures: list[Figure] = []
    for views in VIEWS:
        where = scene_index[:views], poses[:views]
        figures += measure_figures(args, "views", views, Renderer(), scenes, where)
    first = np.flatnonzero(scene_index == 0)[:64]
    for wanted in TRIANGLES:
        scene = with_triangles(scenes[0], load_catalog(), wanted)
        where = scene_index[first], poses[first]
        figures += measure_figures(
            args, "triangles", count_triangles(scene, scene.assets.meshes), Renderer(), [scene], where
        )
    for size in SIZES:
        where = scene_index[:64], poses[:64]
        figures += measure_figures(args, "pixels a side", size, Renderer(Camera(size, size)), scenes, where)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "growth.md").write_text(table(figures, args.poses))
    plot(figures, args.out / "growth.png")
    print(f"wrote {args.out / 'growth.md'} and growth.png")


def table(figures: list[Figure], poses: str) -> str:
    about = (
        f"Four images a frame, {poses} poses, 64 views of 4 houses (triangles: of one) of 224 x 224 pixels where nothing "
        "else is said; best of several runs, frames a second. `write`: only filling the images. `one wall`: one textured "
        "wall over the view."
    )
    lines = [
        about,
        "",
        "| what grows | value | threads | frames/s | ms a frame | write | one wall | share of one wall |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for f in figures:
        lines.append(
            f"| {f.grows} | {f.value:,} | {f.threads} | {f.frames:,.0f} | {1e3 / f.frames:.3f} | {f.write:,.0f} | "
            f"{f.one_wall:,.0f} | {f.frames / f.one_wall:.0%} |"
        )
    return "\n".join(lines) + "\n"


def plot(figures: list[Figure], path: Path) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(f.grows for f in figures))
    drawing, panels = plt.subplots(1, len(kinds), figsize=(4.5 * len(kinds), 3.8), constrained_layout=True)
    for panel, kind in zip(panels, kinds, strict=True):
        for threads in dict.fromkeys(f.threads for f in figures):
            rows = [f for f in figures if (f.grows, f.threads) == (kind, threads)]
            for name, style in (("frames", "-o"), ("one_wall", "--"), ("write", ":")):
                label = f"{name.replace('_', ' ')}, {threads} thread{'s' * (threads > 1)}"
                panel.plot(
                    [f.value for f in rows],
                    [getattr(f, name) for f in rows],
                    style,
                    color=f"C{threads - 1}",
                    label=label,
                )
        panel.set(xscale="log", yscale="log", xlabel=kind)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("frames a second")
    panels[0].legend(fontsize=7)
    drawing.savefig(path, dpi=130)
    plt.close(drawing)


def add_growth(parts: argparse._SubParsersAction) -> None:
    parser = parts.add_parser("growth", help="renderer: cost by views, triangles, resolution, threads, beside limits")
    parser.add_argument("--out", type=Path, required=True, help="folder for growth.md and growth.png")
    parser.add_argument("--poses", choices=("floor", "walk"), default="floor")
    parser.add_argument("--threads", type=whole(1), nargs="+", default=sorted({1, numba.config.NUMBA_NUM_THREADS}))
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.set_defaults(run=bench_growth)
