"""Walks of questions from elsewhere: kept where they reach their goals, else walked anew, or left out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eqa.data.benchmarks.mp3d_eqa import MP3DEQA, write_mp3d_eqa
from eqa.data.demonstrations.rewalk import walked_in
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Episode, Spawn
from eqa.envs.habitat.simulator import HabitatWorld
from eqa.envs.navigation.walk import actions_of
from eqa.envs.simulator import Goal
from tests.envs.habitat.test_simulator import CAMERA, FAKE

START, VIEW, SCENE = (1.0, 0.0, 5.5, 0.0), (1.0, 0.0, 3.0, 0.0), "mp3d/a/a.glb"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HabitatWorld]:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    (tmp_path / SCENE).parent.mkdir(parents=True)
    (tmp_path / SCENE).write_text("{}")
    made = HabitatWorld.at(tmp_path, camera=CAMERA)
    yield made
    made.close()


def episode(number: int, **changes: object) -> Episode:
    fields = {
        "view_points": (VIEW,),
        "goal_radius_m": 0.3,
        "spawns": {"start": Spawn(START)},
        "frame": "habitat",
        "walk": "F" * 9 + "S",
        **changes,
    }
    return Episode(str(number), SCENE, "what color is the sofa?", "red", "color", "by hand", **fields)


def test_walks_are_kept_made_anew_or_left_out(world: HabitatWorld, capsys: pytest.CaptureFixture) -> None:
    asked = [
        episode(2),
        episode(1, walk="FFS"),  # falls short
        episode(5, walk=None, goal_radius_m=None),
        episode(3, walk="S", view_points=((10.5, 0.0, 0.5, 0.0),)),  # no way leads there
        episode(4, spawns={"start": Spawn((10.5, 0.0, 0.5, 0.0))}),  # on a small island
    ]
    found = walked_in(world, asked, title="test")
    assert [one.episode_id for one in found] == ["2", "1", "5"]
    assert found[0] == asked[0] and found[1].walk == "F" * 9 + "S"
    assert found[2].goal_radius_m == 0.25
    for one in found:
        (walk,) = world.replay(SCENE, [one.start], [actions_of(one, world.actions)])
        assert world.distances(SCENE, [Goal.of(one)], [walk.poses])[0][-1] == 0
    assert "1 of 4 stored walks reach their goals" in " ".join("".join(capsys.readouterr()).split())


def test_questions_about_scenes_without_files_are_left_out(
    world: HabitatWorld, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    here, away = episode(0), replace(episode(1), scene_id="mp3d/b/b.glb")
    path = tmp_path / "train.json.gz"
    write_mp3d_eqa(path, [here, away], vocabulary=Vocabulary.of([here, away]))
    source = MP3DEQA(path=path, world=world)
    (found,) = source._walkable("train")
    assert found.scene_id == SCENE
    said = " ".join("".join(capsys.readouterr()).split())
    assert "1 of 2 questions remain, about 1 of 2 scenes; mp3d/b/b.glb is among those without a file" in said
    write_mp3d_eqa(path, [away], vocabulary=Vocabulary.of([away]))
    with pytest.raises(
        ValueError, match="expected the files of some of its 1 scenes, such as mp3d/b/b.glb, found none"
    ):
        MP3DEQA(path=path, world=world)._walkable("train")
