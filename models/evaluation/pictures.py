"""Pictures of walks: floor plans with the walked and the shortest path, and moving pictures of what the agent saw.

Axes: T poses of a walk, B boxes.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import matplotlib
import numpy as np
from jaxtyping import Float64, UInt8
from PIL import Image, ImageDraw, ImageFont

from eqa.envs.annotations import PALETTE, Annotations
from eqa.envs.files import atomic_write
from eqa.envs.rendering.plan_labels import middle_of, place_labels, smallest_first
from eqa.envs.simulator import World

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

GIF_FRAME_MS = 160
COLORS = 192  # of a film
SHARP = 2  # times as many pixels in a picture's rows and columns as the agent has, and as many samples in each
WAY = "#c0392b"  # of an agent
NUM_VIEWS = 6  # beside a plan
TITLE_COLUMNS = 130  # of a plan; questions about cities have several sentences
WHOLE_M, BESIDE_M, LEAST_PART_M = 80.0, 15.0, 60.0  # of plans: drawn whole up to here; around walks; no smaller part
EDGES = {  # colour, width and order of drawing
    "wall": ("#333333", 2.2, 3),
    "opening": ("#f6f4ef", 2.4, 4),
    "window": ("#8cc7ee", 2.4, 4),
    "entrance": ("#8a5a2b", 2.4, 4),
}


def draw_plan(
    axis: Axes, scene: Annotations, *, target: int | None = None, around: Sequence[Sequence[Sequence[float]]] = ()
) -> None:
    """A plan from above, north (-Z) up: regions, walls, openings, objects in their colours.

    A scene larger than WHOLE_M, a city, is drawn only as far as the walks `around` and the target reach.
    """
    for region in scene.regions:
        axis.add_patch(Polygon(region.outline, closed=True, facecolor="#f6f4ef", edgecolor="none"))
    for thing in scene.things:
        color = np.array(PALETTE.get(thing.color, (200, 200, 200))) / 255
        is_target = thing.id == target
        axis.add_patch(
            Polygon(
                thing.outline,
                closed=True,
                facecolor=color,
                edgecolor="red" if is_target else "#55555588",
                linewidth=2.5 if is_target else 0.4,
                alpha=0.9 if thing.asked else 0.5,
                zorder=6 if is_target else 2,
            )
        )
    for edge in scene.edges:
        color, width, order = EDGES[edge.kind]
        ends = zip(edge.start, edge.end, strict=True)
        axis.plot(*ends, color=color, linewidth=width, zorder=order, solid_capstyle="butt")
    axis.autoscale_view()
    axis.set_aspect("equal")
    if part := _part(scene, target, around):
        axis.set(xlim=part[:2], ylim=part[2:])
    axis.invert_yaxis()
    axis.axis("off")


def _part(
    scene: Annotations, target: int | None, around: Sequence[Sequence[Sequence[float]]]
) -> tuple[float, float, float, float] | None:
    """The ends along X and Z of a square round walks and target; None for a scene that is drawn whole."""
    corners = np.array([corner for region in scene.regions for corner in region.outline]).reshape(-1, 2)
    if not len(corners) or not around or np.ptp(corners, axis=0).max() <= WHOLE_M:
        return None
    shown = [np.array(poses, float)[:, [0, 2]] for poses in around if len(poses)]
    shown += [np.array(thing.outline) for thing in scene.things if thing.id == target]
    low, high = (end(np.concatenate(shown), axis=0) for end in (np.min, np.max))
    x, z = (low + high) / 2
    half = max(float((high - low).max()) / 2 + BESIDE_M, LEAST_PART_M / 2)
    return x - half, x + half, z - half, z + half


def name_regions(axis: Axes, scene: Annotations, *, beside: Sequence[Sequence[Sequence[float]]] = ()) -> None:
    """Writes names of regions on a plan, none over another, and beside things and the given walks where there is room.

    Names are as large as they are on paper, so the plan must have its final size.
    """
    halo = [withStroke(linewidth=2, foreground="#f6f4ef")]
    texts = [
        axis.text(
            *middle_of(region.outline), region.name, ha="center", va="center", fontsize=8, color="#8a1f1f", zorder=9,
            path_effects=halo, in_layout=False,
        )
        for region in (scene.regions[i] for i in smallest_first([region.outline for region in scene.regions]))
        if _within(axis, middle_of(region.outline))
    ]  # fmt: skip
    if not texts:
        return
    frames = [text.get_window_extent() for text in texts]
    corner, size = np.array(axis.bbox.p0), np.array(axis.bbox.size)
    anchors = axis.transData.transform([text.get_position() for text in texts]) - corner
    shown = [thing.outline for thing in scene.things if _within(axis, middle_of(thing.outline))]
    outlines = [axis.transData.transform(outline) - corner for outline in shown]
    walked = [axis.transData.transform(np.array(poses, float)[:, [0, 2]]) - corner for poses in beside if len(poses)]
    middles = place_labels(
        anchors,
        np.array([(frame.width, frame.height) for frame in frames]),
        np.full(len(texts), np.inf),
        picture=tuple(size.tolist()),
        avoid=_boxes(outlines + [point[None] for points in walked for point in points]),
    )
    for text, middle in zip(texts, middles, strict=True):
        text.set_visible(not np.isnan(middle[0]))
        text.set_position(axis.transData.inverted().transform(middle + corner))


def _within(axis: Axes, point: Sequence[float]) -> bool:
    """True for a point of the drawn part of a plan."""
    (x0, x1), (z0, z1) = sorted(axis.get_xlim()), sorted(axis.get_ylim())
    return bool(x0 <= point[0] <= x1 and z0 <= point[1] <= z1)


def _boxes(outlines: Sequence[np.ndarray]) -> Float64[np.ndarray, "B 4"]:
    """Boxes round points in pixels, at least four wide: a walk's lines have a width."""
    return np.array([[*(points.min(0) - 2), *(points.max(0) + 2)] for points in outlines]).reshape(-1, 4)


def draw_walk(axis: Axes, poses: Sequence[Sequence[float]], *, color: str, label: str, style: str = "-") -> None:
    """A walk on a floor plan: a dot at its start, and at its end a wedge in the agent's direction of view."""
    x, _, z, heading = np.array(poses, dtype=float).T
    axis.plot(x, z, style, color=color, linewidth=1.8, label=label, zorder=7)
    axis.plot(x[0], z[0], "o", color=color, markersize=5, zorder=7)
    axis.plot(x[-1], z[-1], marker=(3, 0, np.degrees(heading[-1])), color=color, markersize=9, zorder=8)


def frames_along(
    world: World, scene_id: str, poses: Sequence[Sequence[float]], *, sharp: bool = False
) -> UInt8[np.ndarray, "T H W 3"]:
    """Views from each pose of a walk: what the agent saw, or `sharp` for people, larger and with smooth edges."""
    camera = world.camera
    if sharp:
        camera = replace(camera, height_px=SHARP * camera.height_px, width_px=SHARP * camera.width_px, samples=SHARP)
    simulator = world.open([scene_id], num_agents=1, camera=camera)
    return simulator.look(np.zeros(len(poses), np.int64), np.array(poses))["rgb"].cpu().numpy()


def some_views(frames: UInt8[np.ndarray, "T H W 3"]) -> list[tuple[str, np.ndarray]]:
    """A few frames from the first to the last, with their steps."""
    steps = np.linspace(0, len(frames) - 1, NUM_VIEWS).astype(int)
    return [(f"step {step}", frames[step]) for step in steps]


def plan_of_walk(
    path: Path,
    scene: Annotations,
    *,
    target: int | None,
    title: str,
    walks: Sequence[tuple],
    views: Sequence[tuple[str, np.ndarray]],
) -> None:
    """Writes a floor plan beside the views. A walk is (poses, color, label, line style), a view (label, frame)."""
    figure = plt.figure(figsize=(12.5, 7), dpi=100, layout="constrained")
    plan, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    axis = plan.subplots()
    draw_plan(axis, scene, target=target, around=[poses for poses, *_ in walks])
    for poses, color, label, style in walks:
        draw_walk(axis, poses, color=color, label=label, style=style)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=len(walks), frameon=False, fontsize=9)
    columns = 2
    cells = right.subplots(-(-len(views) // columns), columns, squeeze=False).ravel()
    for cell, (label, frame) in zip(cells, views, strict=False):
        cell.imshow(frame)
        cell.set_title(label, fontsize=9)
    for cell in cells:
        cell.axis("off")
    figure.suptitle("\n".join(fill(line, TITLE_COLUMNS) for line in title.split("\n")), fontsize=11)
    figure.draw_without_rendering()  # lays the plan out, which gives it its size
    figure.set_layout_engine("none")  # laid out once is enough
    name_regions(axis, scene, beside=[poses for poses, *_ in walks])
    with atomic_write(path) as aside:
        figure.savefig(aside, format="png")
    plt.close(figure)


def film(
    path: Path,
    scene: Annotations,
    *,
    target: int | None,
    frames: UInt8[np.ndarray, "T H W 3"],
    poses: Sequence[Sequence[float]],
    captions: Sequence[Sequence[str]],
    hold: int = 12,
) -> None:
    """Writes a GIF of a walk: each view beside the plan with the way so far, and lines of text under both.

    Long lines are wrapped. The last picture lasts `hold` times as long.
    """
    font = ImageFont.load_default(size=15)
    height, width = frames.shape[1:3]
    plan, places = _plan_to_draw_on(scene, poses, target=target, height=height)
    rows = [[row for text in caption for row in wrapped(text, font, width + plan.width - 12)] for caption in captions]
    lines = max(map(len, rows))
    images = []
    for step, (frame, caption) in enumerate(zip(frames, rows, strict=True)):
        image = Image.new("RGB", (width + plan.width, height + 20 * lines + 8), "white")
        image.paste(Image.fromarray(frame))
        image.paste(plan, (width, 0))
        draw = ImageDraw.Draw(image)
        way = [(width + x, y) for x, y in places[: step + 1].tolist()]
        if len(way) > 1:
            draw.line(way, fill=WAY, width=3, joint="curve")
        draw.regular_polygon((*way[-1], 9), 3, rotation=np.degrees(poses[step][3]), fill=WAY, outline="white")
        for row, text in enumerate(caption):
            draw.text((6, height + 4 + 20 * row), text, fill="black", font=font)
        images.append(image)
    colors = _side_by_side(images[:: max(1, len(images) // 4)]).quantize(COLORS)  # the same for all: nothing flickers
    packed = [image.quantize(palette=colors, dither=Image.Dither.NONE) for image in images]
    durations = [GIF_FRAME_MS] * (len(packed) - 1) + [GIF_FRAME_MS * hold]
    with atomic_write(path) as aside:
        packed[0].save(aside, format="GIF", save_all=True, append_images=packed[1:], duration=durations, loop=0)


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: float) -> list[str]:
    """The text in lines of at most so many pixels, where its words allow it; one that fits stays as it is."""
    if font.getlength(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _plan_to_draw_on(
    scene: Annotations, poses: Sequence[Sequence[float]], *, target: int | None, height: int
) -> tuple[Image.Image, Float64[np.ndarray, "T 2"]]:
    """A plan of that height in pixels, no wider than high, and the pixels (x, y) of a walk's poses."""
    figure = Figure(dpi=100)
    axis = figure.add_axes((0, 0, 1, 1))
    draw_plan(axis, scene, target=target, around=[poses])
    across, down = np.abs(np.diff([axis.get_xlim(), axis.get_ylim()])).ravel()
    figure.set_size_inches(np.array([height * min(1.0, across / down), height]) / figure.dpi)
    canvas = FigureCanvasAgg(figure)
    name_regions(axis, scene, beside=[poses])
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[..., :3]
    places = axis.transData.transform(np.array(poses, float)[:, [0, 2]])
    places[:, 1] = len(picture) - places[:, 1]
    return Image.fromarray(picture.copy()), places


def _side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    width, height = images[0].size
    whole = Image.new("RGB", (width * len(images), height))
    for place, image in enumerate(images):
        whole.paste(image, (place * width, 0))
    return whole
