"""The adapter of habitat-sim and its processes, against a stand-in of habitat_sim that dies and hangs on demand."""

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from eqa.envs.actions import Action
from eqa.envs.habitat import processes
from eqa.envs.habitat.settings import HabitatSettings
from eqa.envs.habitat.simulator import HabitatWorld
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal, SceneFailed, Simulator, World
from eqa.envs.task import Task

FAKE = Path(__file__).parents[2] / "helpers" / "fake_habitat"
CAMERA = Camera(height_px=16, width_px=24)
SCENES = ("mp3d/a/a.glb", "mp3d/b/b.glb")
START = (1.0, 0.0, 5.5, 0.0)
GOAL = Goal(((1.0, 0.0, 3.0, 0.0),), 0.3)
OTHER_SIDE = Goal(((6.0, 0.0, 1.0, math.pi / 2), (7.5, 0.0, 0.5, 0.0)), 0.25, 0.2)
FORWARD, LEFT, RIGHT, STOP = Action


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in SCENES:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.fixture
def world(folder: Path) -> Iterator[HabitatWorld]:
    made = HabitatWorld.at(folder, camera=CAMERA, processes=2)
    yield made
    made.close()


def scene(folder: Path, name: str, **written: object) -> str:
    (folder / name).write_text(json.dumps(written))
    return name


def placed(world: HabitatWorld, *scene_ids: str, goal: Goal = GOAL, at: tuple = START) -> Simulator:
    names = list(dict.fromkeys(scene_ids))
    simulator = world.open(names, num_agents=len(scene_ids))
    which = np.array([names.index(name) for name in scene_ids])
    simulator.reset(np.arange(len(scene_ids)), which, np.array([at] * len(scene_ids)), [goal] * len(scene_ids))
    return simulator


def test_it_offers_what_worlds_offer(world: HabitatWorld) -> None:
    assert isinstance(world, World) and isinstance(placed(world, *SCENES), Simulator)


def test_places_are_a_raster_of_the_large_islands_alone(world: HabitatWorld) -> None:
    found = world.places(SCENES[0], 1.5)
    expected = [(x, 0.05, z) for x in np.arange(0, 8.1, 1.5) for z in np.arange(0, 6.1, 1.5)]
    np.testing.assert_allclose(sorted(found.tolist()), expected, atol=1e-6)


def test_patterns_name_scenes_below_the_folder(world: HabitatWorld, folder: Path) -> None:
    for name in ("train-00001", "train-00000", "val-00000"):
        (folder / f"{name}.stage_config.json").write_text("{}")
    assert world.settings.matching("train-*") == ["train-00000", "train-00001"]
    assert world.settings.matching("mp3d/*/*.glb") == list(SCENES)
    with pytest.raises(ValueError, match="expected some that fit 'test-\\*' below"):
        world.settings.matching("test-*")


def test_agents_of_two_scenes_move_and_see_from_their_own_poses(world: HabitatWorld) -> None:
    simulator = placed(world, *SCENES, SCENES[0])
    refused = simulator.step(torch.tensor([FORWARD, LEFT, STOP]))
    assert refused.tolist() == [False, False, False]
    turn = math.radians(10)
    np.testing.assert_allclose(simulator.poses, [(1, 0, 5.25, 0), (1, 0, 5.5, turn), START], atol=1e-9)
    np.testing.assert_allclose(simulator.distance_m, [1.95, 2.2, 2.2], atol=1e-6)
    seen = simulator.observe(sensors=("rgb", "depth", "instance_id", "pose"))
    assert seen["rgb"][:, 3, 4].tolist() == [[10, 52, 0], [10, 55, 10], [10, 55, 0]]
    assert seen["depth"].shape == (3, 16, 24) and seen["depth"][1, 2].tolist() == list(range(24))
    assert seen["instance_id"][0, 0].tolist() == [n // 8 for n in range(24)]
    assert torch.equal(seen["pose"], simulator.poses)
    assert simulator.observe(np.array([2]))["rgb"][0, 0, 0].tolist() == [10, 55, 0]
    assert len(world.scenes.processes) == 2


def test_another_camera_sees_the_same_places_in_a_process_of_its_own(world: HabitatWorld) -> None:
    large = world.open(SCENES[:1], num_agents=1, camera=Camera(height_px=32, width_px=40, samples=2))
    assert large.look(np.array([0]), np.array([START]))["rgb"].shape == (1, 32, 40, 3)
    assert placed(world, SCENES[0]).observe()["rgb"].shape == (1, 16, 24, 3)


def test_more_views_than_a_process_holds_come_in_their_order(world: HabitatWorld) -> None:
    simulator = world.open(SCENES, num_agents=1)
    poses = np.array([(0.1 * n, 0.0, 1.0, 0.0) for n in range(75)])
    seen = simulator.look(np.arange(75) % 2, poses)["rgb"]
    assert seen[:, 0, 0, 0].tolist() == list(range(75))


def test_many_views_of_one_scene_are_drawn_by_a_process_that_nobody_has_used(
    world: HabitatWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = world.open(SCENES, num_agents=1)
    poses = np.array([(0.1 * n, 0.0, 1.0, 0.0) for n in range(30)])

    def open_scenes(scene: int) -> list[str]:
        seen = simulator.look(np.full(30, scene), poses)["rgb"]
        assert seen[:, 0, 0, 0].tolist() == list(range(30))
        return sorted(process.scene_id for process in world.scenes.processes)

    assert open_scenes(0) == [SCENES[0]] * 2
    assert open_scenes(1) == [*SCENES]  # the other was used a moment ago, and stays where it is
    monkeypatch.setattr(processes, "UNUSED_S", 0.0)
    assert open_scenes(1) == [SCENES[1]] * 2


def test_more_scenes_than_processes_take_turns(folder: Path) -> None:
    names = [scene(folder, f"{n}.glb") for n in range(5)]
    world = HabitatWorld.at(folder, camera=CAMERA, processes=2)
    simulator = placed(world, *names)
    simulator.step(np.array([FORWARD, LEFT, RIGHT, STOP, FORWARD]))
    assert simulator.observe()["rgb"][:, 0, 0, 2].tolist() == [0, 10, 350 % 256, 0, 0]
    assert len(world.scenes.processes) == 2
    world.close()
    assert not world.scenes.processes


def test_threads_that_ask_at_the_same_time_get_their_own_answers(folder: Path) -> None:
    names = [*SCENES, scene(folder, "c.glb")]
    world = HabitatWorld.at(folder, camera=CAMERA, processes=2)
    turns = [(names[n % 3], (1.0, 0.0, 5.5, 0.1 * n)) for n in range(60)]

    def turned(asked: tuple) -> float:
        name, start = asked
        (walk,) = world.replay(name, [start], [np.array([LEFT, STOP], np.int8)])
        return walk.poses[1, 3] - start[3]

    with ThreadPoolExecutor(8) as pool:
        sides = list(pool.map(turned, turns))
    np.testing.assert_allclose(sides, world.actions.turn_rad)
    world.close()


def test_a_thread_whose_question_is_refused_leaves_the_others_theirs(folder: Path) -> None:
    broken = scene(folder, "broken.glb", navmesh=False)
    world = HabitatWorld.at(folder, camera=CAMERA, processes=2)

    def places(name: str) -> int:
        return len(world.places(name, 1.5))

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(places, name) for name in [*SCENES, broken, *SCENES] * 3]
        failed = [future.exception() for future in asked]
    assert all(isinstance(failed[n], ValueError) for n in range(2, len(failed), 5))
    assert all(isinstance(error, ValueError | None) for error in failed)
    assert places(SCENES[0]) == 30
    world.close()


@pytest.mark.parametrize(
    ("collisions", "end"),
    [("refuse", (7.9, 5.0)), ("stop", (8.0, 5.0 - 0.1 / math.tan(math.radians(60)))), ("slide", (8.0, 4.875))],
)
def test_a_step_into_a_wall_is_refused_stops_or_slides(folder: Path, collisions: str, end: tuple) -> None:
    world = HabitatWorld.at(folder, camera=CAMERA, collisions=collisions)
    simulator = placed(world, SCENES[0], at=(7.9, 0.0, 5.0, -math.radians(60)))  # mostly to +X, where the room ends
    assert simulator.step(np.array([FORWARD])).tolist() == [True]
    x, y, z, _ = simulator.poses[0].tolist()
    assert (x, z) == pytest.approx(end, abs=5e-3) and y == pytest.approx(0.0, abs=1e-6)
    world.close()


def test_headings_turn_back_to_where_they_began(world: HabitatWorld) -> None:
    simulator = placed(world, SCENES[0], at=(1.0, 0.0, 5.5, 0.3))
    for action in (LEFT,) * 36 + (RIGHT,) * 40:
        simulator.step(np.array([action]))
    assert simulator.poses[0, 3] == pytest.approx(2 * math.pi + 0.3 - 4 * math.radians(10))


def test_a_walk_leads_round_the_wall_to_the_nearest_view_point_and_looks_there(world: HabitatWorld) -> None:
    start = (1.0, 0.0, 1.0, 0.0)
    (walk,) = world.shortest_walks(SCENES[0], [OTHER_SIDE], [start])
    assert walk.actions[-1] == STOP and len(walk.poses) == len(walk.actions)
    simulator = placed(world, SCENES[0], goal=OTHER_SIDE, at=start)
    task = Task(simulator, max_steps=200)
    task.begin(np.array([0]), np.array([0]), np.array([start]), [OTHER_SIDE])
    for action in walk.actions:
        task.step(np.array([0]), np.array([action]))
    assert task.distance_m[0] == 0 and not task.trajectories().refused.any()
    away = (simulator.poses[0, 3] - math.pi / 2 + math.pi) % (2 * math.pi) - math.pi
    assert abs(away) <= 0.2 + 1e-9
    np.testing.assert_array_equal(task.trajectories().poses[0, :-1], walk.poses)
    (again,) = world.replay(SCENES[0], [start], [walk.actions])
    np.testing.assert_array_equal(again.poses, walk.poses)
    (planned,) = world.planners(SCENES[0], [OTHER_SIDE])
    np.testing.assert_array_equal(planned(start).actions, walk.actions)


def test_distances_are_those_of_the_nearest_view_point(world: HabitatWorld) -> None:
    (found,) = world.distances(SCENES[0], [OTHER_SIDE], [np.array([(7.5, 0, 2.5, 0), (6.1, 0, 1.1, 0)])])
    assert found.tolist() == pytest.approx([1.75, 0.0])


def test_annotations_have_boxes_and_regions(world: HabitatWorld) -> None:
    found = world.annotations(SCENES[0])
    assert [(thing.id, thing.name, thing.region) for thing in found.things] == [(1, "wall cabinet", 0), (2, "sofa", 1)]
    assert set(found.things[1].outline) == {(4.0, 0.0), (8.0, 0.0), (8.0, 6.0), (4.0, 6.0)}
    assert (found.things[1].low_m, found.things[1].high_m) == (0.0, 2.0)
    assert [region.name for region in found.regions] == ["room", "room"]
    simulator = placed(world, SCENES[0], goal=GOAL, at=(6.0, 0.0, 1.5, 0.0))
    assert simulator.region.tolist() == [1]


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_what_a_process_was_asked_is_asked_again_when_it_fails_once(
    folder: Path, how: str, capsys: pytest.CaptureFixture
) -> None:
    name = scene(folder, f"{how}-once.glb")
    world = HabitatWorld.at(folder, camera=CAMERA, patience_s=4.0)
    simulator = placed(world, name)
    simulator.step(np.array([LEFT]))
    assert simulator.observe()["rgb"][0, 0, 0].tolist() == [10, 55, 10]
    said = "".join(capsys.readouterr())
    assert name in said and ("SIGKILL" if how == "dies" else "no answer in 4 s") in said
    world.close()


def test_a_second_death_ends_the_run_with_its_last_words(folder: Path) -> None:
    world = HabitatWorld.at(folder, camera=CAMERA)
    simulator = placed(world, scene(folder, "dies.glb"), SCENES[0])
    died = r"(?s)SIGKILL in scene 'dies.glb'.*2 times.*last words of a process"
    with pytest.raises(SceneFailed, match=died) as failed:
        simulator.observe()
    assert failed.value.scene_id == "dies.glb"
    assert simulator.observe(np.array([1]))["rgb"][0, 0, 0].tolist() == [10, 55, 0]  # the other scene goes on
    world.close()


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        (
            "away.glb",
            {"navmesh_radius": 0.3},
            "for a body of radius 0.1 and height 1.5 m, that of .* is for 0.3 and 1.5",
        ),
        ("bare.glb", {"navmesh": False}, "expected a .navmesh file beside .*env.navmesh=made"),
        ("../out.glb", None, "expected a path inside of"),
        ("none.glb", None, "expected a file at .*none.glb, found none; set env.scenes"),
    ],
)
def test_scenes_that_cannot_be_used_are_refused(folder: Path, name: str, written: dict | None, said: str) -> None:
    if written is not None:
        scene(folder, name, **written)
    world = HabitatWorld.at(folder, camera=CAMERA)
    with pytest.raises(ValueError, match=said):
        placed(world, name)
    world.close()


def test_a_scene_without_a_navmesh_gets_one_if_asked(folder: Path) -> None:
    world = HabitatWorld.at(folder, camera=CAMERA, navmesh="made")
    assert placed(world, scene(folder, "bare.glb", navmesh=False)).distance_m[0] == pytest.approx(2.2)
    world.close()


@pytest.mark.parametrize(
    ("at", "goal", "said"),
    [
        ((9.0, 0.0, 1.0, 0.0), GOAL, "off the navmesh"),
        ((1.0, 2.0, 1.0, 0.0), GOAL, "off the navmesh"),
        ((10.5, 0.0, 0.5, 0.0), GOAL, "on a small island"),
        (START, Goal(((10.5, 0.0, 0.5, 0.0),), 0.3), "no way leads from .* on another island"),
    ],
)
def test_starts_and_goals_off_the_main_island_are_refused(
    world: HabitatWorld, at: tuple, goal: Goal, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        placed(world, SCENES[0], at=at, goal=goal)
    if said.startswith("no way"):
        with pytest.raises(ValueError, match="no walk leads from"):
            world.shortest_walks(SCENES[0], [goal], [at])
        assert world.shortest_walks(SCENES[0], [goal], [at], or_none=True) == [None]


@pytest.mark.parametrize("goal", [GOAL, OTHER_SIDE])
def test_a_walk_is_searched_for_where_the_follower_is_caught(world: HabitatWorld, folder: Path, goal: Goal) -> None:
    name = scene(folder, "caught.glb")
    (usual,), (found,) = (world.shortest_walks(where, [goal], [START]) for where in (SCENES[0], name))
    (again,) = world.replay(name, [START], [found.actions])
    assert (again.poses == found.poses).all() and found.actions[-1] == STOP
    assert world.distances(name, [goal], [found.poses[-1:]])[0][0] == 0
    assert len(found.actions) <= 1.5 * len(usual.actions) + 2


def test_an_interpreter_without_a_known_habitat_sim_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_HABITAT_VERSION", "0.2.1")
    with pytest.raises(ValueError, match=r"expected version .* got 0.2.1; set env.python .*conda create"):
        placed(HabitatWorld.at(folder), SCENES[0])
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(ValueError, match="No module named 'habitat_sim'"):
        placed(HabitatWorld.at(folder), SCENES[0])
    with pytest.raises(ValueError, match="expected an interpreter at /nowhere/python"):
        placed(HabitatWorld.at(folder, python="/nowhere/python"), SCENES[0])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"collisions": "bounce"}, "expected one of stop, slide, refuse, got 'bounce'"),
        ({"navmesh": "none"}, "expected one of file, made"),
        ({"radius_m": 0.0}, "radius_m: expected more than 0"),
        ({"processes": 0}, "processes: expected at least 1"),
        ({"camera": Camera(samples=2)}, "expected samples of 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, setting: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HabitatSettings(scenes=tmp_path, **setting)


@pytest.mark.parametrize("above", ["", "hm3d/val", "scans/hm3d/val"])
@pytest.mark.parametrize(
    "named",
    [
        "00800-TEEsavR23oF",
        "hm3d/val/00800-TEEsavR23oF",
        "hm3d-v0/000-hm3d-TEEsavR23oF",
        "data/scene_datasets/hm3d/val/00800-TEEsavR23oF",
    ],
)
def test_scenes_of_hm3d_are_found_by_the_names_that_benchmarks_give_them(
    tmp_path: Path, above: str, named: str
) -> None:
    file = tmp_path / above / "00800-TEEsavR23oF" / "TEEsavR23oF.basis.glb"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    settings = HabitatSettings(scenes=tmp_path)
    assert settings.scene_path(named) == str(file.resolve())
    other = named.replace("00800", "00801").replace("TEEsavR23oF", "BFRyYbPCCPE")
    assert settings.has(named) and not settings.has(other)
    with pytest.raises(ValueError, match="BFRyYbPCCPE.basis.glb, found none; set env.scenes"):
        settings.scene_path(other)


def test_the_identity_follows_what_is_seen_and_not_where_it_lies(tmp_path: Path) -> None:
    one = HabitatSettings(scenes=tmp_path)
    assert one.identity == HabitatSettings(scenes=tmp_path / "other", gpu=0, processes=1, climb_m=0.3).identity
    others = [{"collisions": "slide"}, {"camera": CAMERA}, {"navmesh": "made"}, {"radius_m": 0.2}]
    assert len({one.identity, *(HabitatSettings(scenes=tmp_path, **other).identity for other in others)}) == 5
