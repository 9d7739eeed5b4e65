"""The command that asks about annotated scenes, with houses that are given out as scans."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from hydra import compose, initialize_config_dir
from omegaconf import open_dict

from eqa.data.benchmarks.mp3d_eqa import read_mp3d_eqa
from eqa.data.questions.storage import load_questions
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.rendering.camera import Camera
from eqa.scripts.make_scan_questions import made
from tests.helpers.small_house import small_house

ROOT = Path(__file__).parents[2]
SCENES = {"a/small": small_house("a/small"), "b/small": small_house("b/small")}


class Scanned(HouseWorld):
    coordinate_frames = ("habitat",)
    settings = SimpleNamespace(matching=lambda pattern: [name for name in SCENES if re.match(pattern, name)])

    def close(self) -> None:
        pass


def scanned() -> Scanned:
    return Scanned(SCENES.__getitem__, camera=Camera(96, 96))


def test_questions_are_written_in_both_formats_with_the_scenes_that_patterns_name(tmp_path: Path) -> None:
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        cfg = compose(
            "scans",
            ["scenes.train=a", "scenes.val=[b]", f"out={tmp_path}", "balance=none", "questions.train=null"],
        )
    with open_dict(cfg):
        cfg.env = {"_target_": "tests.scripts.test_make_scan_questions.scanned"}
    made(cfg)
    for split, scene_id in (("train", "a/small"), ("val", "b/small")):
        ours = load_questions(tmp_path / "questions.jsonl", split)
        theirs = read_mp3d_eqa(tmp_path / split / f"{split}.json.gz")
        assert ours and {one.scene_id for one in (*ours, *theirs)} == {scene_id}
        assert [(one.question, one.answer) for one in ours] == [(one.question, one.answer) for one in theirs]
        assert {one.frame for one in ours} == {"habitat"} and all(one.walk for one in ours if one.view_points)
    assert not list(tmp_path.glob("*.partly*"))


def test_a_pattern_that_no_scene_fits_is_said_in_a_line(tmp_path: Path) -> None:
    given = [f"out={tmp_path}", f"env.scenes={tmp_path}", "scenes.train='mp3d/*.glb'"]
    command = [sys.executable, str(ROOT / "scripts" / "make_scan_questions.py"), *given]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("make_scan_questions: scenes: expected some that fit 'mp3d/*.glb' below")
    assert len(ended.stderr.splitlines()) == 1
