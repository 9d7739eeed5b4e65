"""`write_page`: a house and its questions as one HTML page, opened from disk, without a network or a server.

The page holds the house's GLB, the floor that an agent walks on, a plan from above, and walks to the answers. Its
scripts stand in `page/`. They draw with WebGL 2 alone, as our renderer shades: no library has to travel along.

Axes: R C rows and columns of a panorama.
"""

import base64
import gzip
import html
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from shapely import Polygon
from shapely.ops import polylabel

from eqa.envs.actions import HOUSE_ACTIONS
from eqa.envs.episode import Episode
from eqa.envs.files import atomic_write
from eqa.envs.house.build import CLEARANCE_M, build_floor, build_scene
from eqa.envs.house.export import check_id, credits_of, house_glb
from eqa.envs.house.house import House
from eqa.envs.metrics import inside_polygon
from eqa.envs.navigation.floor import Floor
from eqa.envs.rendering.assets import Catalog
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.outside import outside_colours
from eqa.envs.rendering.scene import Scene
from eqa.envs.rendering.top_down import render_top_down

PARTS = Path(__file__).parent / "page"
SCRIPTS = ("glb.js", "view.js", "floor.js", "plan.js", "walker.js", "questions.js", "main.js")  # in order of use
PLAN_PX = 720
PLAN_MARGIN_M = 0.4  # round the rooms
PLAN_QUALITY = 85  # of a JPEG
OUTSIDE_ROWS = 512  # of the panorama outside


def write_page(house: House, folder: Path, catalog: Catalog, episodes: Sequence[Episode] = ()) -> Path:
    """Writes the page `<id>.html` of a house into `folder`; returns its path.

    `episodes` are questions about the house, each with a walk from its start. ValueError for one without such a walk,
    and for a house whose id is no file name.
    """
    check_id(house)
    content = house_page(house, build_scene(house, catalog), catalog, episodes)
    path = folder / f"{house.id}.html"
    with atomic_write(path) as aside:
        aside.write_text(content, encoding="utf-8")
    return path


def house_page(house: House, scene: Scene, catalog: Catalog, episodes: Sequence[Episode]) -> str:
    """The text of the page."""
    floor = build_floor(house, scene, catalog.meshes)
    plan, plan_place = _plan(house, scene)
    outside = _outside()
    document = {
        "id": house.id,
        "rooms": [_room(room.type, room.polygon) for room in house.rooms],
        "floor": {"side": len(floor.free), "origin": floor.origin, "cell_m": floor.cell_m},
        "plan": plan_place,
        "outside_columns": outside.shape[1],
        "step_m": HOUSE_ACTIONS.step_m,
        "turn_rad": HOUSE_ACTIONS.turn_rad,
        "camera": {"eye_m": Camera().height_m, "fov_deg": Camera().vertical_fov_deg, "near_m": Camera().near_m},
        "start": _start(house, build_floor(house, scene, catalog.meshes, radius_m=CLEARANCE_M)),
        "questions": [_question(episode) for episode in episodes],
    }
    filled = {
        "title": html.escape(house.id),
        "style": (PARTS / "style.css").read_text(encoding="utf-8"),
        "credits": html.escape("\n\n".join(credits_of(house).values())),
        "house": json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"),
        "glb": _packed(house_glb(house, scene, catalog)),
        "free": _packed(np.packbits(floor.free, bitorder="little").tobytes()),
        "outside": _packed(outside.tobytes()),
        "plan": base64.b64encode(plan).decode(),
        "script": "\n".join((PARTS / name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    before, *fields = (PARTS / "page.html").read_text(encoding="utf-8").split("{{")
    parts = [before]
    for field in fields:
        name, after = field.split("}}", 1)
        parts += [filled[name], after]
    return "".join(parts)


def _room(kind: str, corners: Sequence[tuple[float, float]]) -> dict:
    """A room's name, its outline, and the place of its name: the middle of the largest circle inside."""
    middle = polylabel(Polygon(corners), tolerance=0.1)
    return {"name": kind, "outline": corners, "at": [round(middle.x, 3), round(middle.y, 3)]}


def _start(house: House, clear: Floor) -> list[float]:
    """A pose (x, z, heading) in a corner of the largest room, looking at its middle; `clear` is clear of things."""
    outline = max((Polygon(room.polygon) for room in house.rooms), key=lambda outline: outline.area)
    middle = polylabel(outline, tolerance=0.1)
    here = clear.centres[inside_polygon(clear.centres, list(outline.exterior.coords)[:-1])]
    ways = np.array([middle.x, middle.y]) - (here if len(here) else clear.centres)
    dx, dz = ways[np.argmax((ways**2).sum(axis=1))].tolist()
    return [middle.x - dx, middle.y - dz, float(np.arctan2(-dx, -dz))]


def _question(episode: Episode) -> dict:
    if episode.walk is None or episode.start is None:
        raise ValueError(f"episode {episode.episode_id!r}: expected a walk from a start, got none")
    x, _, z, heading_rad = episode.start
    return {
        "question": episode.question,
        "answer": episode.answer,
        "start": [x, z, round(heading_rad / HOUSE_ACTIONS.turn_rad)],
        "walk": episode.walk,
    }


def _plan(house: House, scene: Scene) -> tuple[bytes, dict]:
    """The house from above as a JPEG, cut to its rooms; the plan coordinates of its corner and its size."""
    images, (x, z, pixel_m) = render_top_down(scene, PLAN_PX)
    corners = np.concatenate([np.asarray(room.polygon) for room in house.rooms])
    low = np.floor((corners.min(axis=0) - PLAN_MARGIN_M - [x, z]) / pixel_m).astype(int).clip(0)
    high = np.ceil((corners.max(axis=0) + PLAN_MARGIN_M - [x, z]) / pixel_m).astype(int).clip(max=PLAN_PX)
    picture = Image.fromarray(images["rgb"][low[1] : high[1], low[0] : high[0]])
    place = {"origin": ([x, z] + low * pixel_m).tolist(), "size_m": ((high - low) * pixel_m).tolist()}
    with io.BytesIO() as file:
        picture.save(file, "JPEG", quality=PLAN_QUALITY)
        return file.getvalue(), place


def _outside() -> UInt8[np.ndarray, "R C 3"]:
    """The panorama outside, from the nadir's row to the zenith's, finer near the horizon. All directions are alike."""
    share = (np.arange(OUTSIDE_ROWS) + 0.5) / (OUTSIDE_ROWS / 2) - 1
    return outside_colours(np.sin(np.sign(share) * share**2 * np.pi / 2))[:, None]


def _packed(content: bytes) -> str:
    """Bytes as text: compressed, the same way every time, in base 64."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
