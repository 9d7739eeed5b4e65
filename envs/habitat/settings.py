"""`HabitatSettings`: how scenes of habitat-sim are seen and walked in, and where their files lie."""

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eqa.envs.actions import ActionSet
from eqa.envs.files import fingerprint
from eqa.envs.rendering.camera import Camera

COLLISIONS = ("stop", "slide", "refuse")
VERSION = "habitat-1"  # raise with every change of walks or frames
NAVMESHES = ("file", "made")
PREFIX = "data/scene_datasets/"  # of scene ids: habitat-lab replaces it by its scenes_dir
STAGE = ".stage_config.json"  # suffix of an exported house's name: habitat-sim takes such a file for a scene
# HM3D's scenes as other benchmarks name them: 00800-TEEsavR23oF (HM-EQA, 3D-Mem's A-EQA), hm3d/val/00800-TEEsavR23oF
# (EXPRESS-Bench), hm3d-v0/000-hm3d-TEEsavR23oF (OpenEQA, with a number of its own).
HM3D = re.compile(r"(?:.*/)?(?:(\d{5})|\d{3}-hm3d)-([A-Za-z0-9]{11})")
# Moves of habitat-sim's agents (version 0.3), and the number of actions of Das et al. (2018).
HABITAT_ACTIONS = ActionSet(turn_rad=2 * math.pi / 36)


@dataclass(frozen=True, kw_only=True)
class HabitatSettings:
    """Settings of all scenes of a world.

    - scenes: the folder that scene ids start from, such as data/scene_datasets; of exported houses their own.
    - dataset: a scene dataset configuration, such as that of HM3D's semantics; None for scenes that need none.
    - radius_m, height_m: the body for which a navmesh is made, a cylinder.
    - cell_size_m, cell_height_m, climb_m: the raster of a navmesh that is made, and the step that a body climbs.
    - navmesh: "file" takes the one beside the scene, and refuses one for another body; "made" makes one.
    - collisions: "stop" at an obstacle, as habitat-sim without sliding; "slide" along it, as by its default; "refuse"
      the whole move, as generated houses do.
    - gpu: the number of the device that draws; -1 for a machine without one.
    - python: the interpreter that has habitat_sim, which may be that of another environment.
    - processes: scenes that are open at once, each in a process of its own.
    - patience_s: seconds after which a process without an answer counts as hanging; opening a scene takes up to 30.

    ValueError names a setting that cannot be.
    """

    scenes: Path
    dataset: Path | None = None
    camera: Camera = field(default_factory=Camera)
    actions: ActionSet = HABITAT_ACTIONS
    radius_m: float = 0.1
    height_m: float = 1.5
    cell_size_m: float = 0.05
    cell_height_m: float = 0.05
    climb_m: float = 0.2
    navmesh: str = "file"
    collisions: str = "stop"
    gpu: int = -1
    python: str = sys.executable
    processes: int = 4
    patience_s: float = 180.0

    def __post_init__(self) -> None:
        for name, known in (("collisions", COLLISIONS), ("navmesh", NAVMESHES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name in ("radius_m", "height_m", "cell_size_m", "cell_height_m", "patience_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
        for name, least in (("climb_m", 0), ("gpu", -1), ("processes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        if len(self.actions) != 4:
            raise ValueError(f"actions: expected forward, left, right and stop, got {', '.join(self.actions.names)}")
        if self.camera.samples != 1:
            raise ValueError(f"camera: expected samples of 1, as habitat-sim draws, got {self.camera.samples}")

    @property
    def identity(self) -> str:
        """Changes with all that walks and frames depend on, but not with the place of the files."""
        seen = ("camera", "actions", "radius_m", "height_m", "navmesh", "collisions")
        raster = ("cell_size_m", "cell_height_m", "climb_m") if self.navmesh == "made" else ()
        parts = {name: value for name, value in asdict(self).items() if name in (*seen, *raster)}
        return f"{VERSION}-{fingerprint(parts)}"

    @property
    def for_server(self) -> Mapping:
        """Plain values for `envs.habitat.server`. ValueError for a data set that is not there."""
        if self.dataset is not None and not self.dataset.expanduser().is_file():
            raise ValueError(f"dataset: expected a scene dataset configuration, found none at {self.dataset}")
        names = ["radius_m", "height_m", "cell_size_m", "cell_height_m", "climb_m", "navmesh", "collisions", "gpu"]
        return {
            **{name: getattr(self, name) for name in names},
            "camera": asdict(self.camera),
            "step_m": self.actions.step_m,
            "turn_rad": self.actions.turn_rad,
            "dataset": None if self.dataset is None else str(self.dataset.expanduser().resolve()),
        }

    def matching(self, pattern: str) -> list[str]:
        """Ids of the scenes below `scenes` whose files fit a pattern, in order; ValueError if there are none.

        A pattern without a suffix is for the names of exported houses: train-* for those of train.
        """
        root, end = self.scenes.expanduser().resolve(), "" if Path(pattern).suffix else STAGE
        found = sorted(path.relative_to(root).as_posix().removesuffix(end) for path in root.glob(pattern + end))
        if not found:
            raise ValueError(f"scenes: expected some that fit {pattern!r} below {root}, found none")
        return found

    def has(self, scene_id: str) -> bool:
        """True if the scene's file is there; ValueError for a path that leads out of the folder."""
        return self._file(scene_id).is_file()

    def scene_path(self, scene_id: str) -> str:
        """The file that habitat-sim opens; ValueError for a path out of the folder, or for a file that is missing."""
        path = self._file(scene_id)
        if not path.is_file():
            raise ValueError(f"scene {scene_id!r}: expected a file at {path}, found none; set env.scenes to its folder")
        return str(path)

    def _file(self, scene_id: str) -> Path:
        """A file below `scenes`, for the name of an exported house its stage's configuration."""
        root = self.scenes.expanduser().resolve()
        named = scene_id.removeprefix(PREFIX)
        if hm3d := HM3D.fullmatch(named):
            return hm3d_file(root, *hm3d.groups())
        path = (root / (named if Path(named).suffix else f"{named}{STAGE}")).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"scene {scene_id!r}: expected a path inside of {root}, got {path}")
        return path


def hm3d_file(root: Path, number: str | None, name: str) -> Path:
    """The file of an HM3D scene in a folder of HM3D, up to three levels below `root`; where it should be if none is."""
    folder = f"{number or '*'}-{name}"
    for above in ("", "*/", "*/*/", "*/*/*/"):
        if found := sorted(root.glob(f"{above}{folder}/{name}.basis.glb")):
            return found[0]
    return root / folder / f"{name}.basis.glb"
