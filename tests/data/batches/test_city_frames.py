"""Frames of cities for an encoder: things are looked at from the street, and signs say what kind of shop there is."""

import numpy as np
import pytest

from eqa.data.batches.frames import Frames, Places, find_places
from eqa.data.batches.pixel_labels import UNNAMED, Surroundings, sampled
from eqa.envs.annotations import Annotations
from eqa.envs.city.simulator import CityWorld
from eqa.envs.episode import PLAN
from eqa.envs.rendering.camera import Camera
from eqa.envs.rendering.renderer import Renderer
from eqa.envs.rendering.scene import Scene

pytestmark = pytest.mark.usefixtures("single_thread")
WORLD = CityWorld.generated(seed=0)


@pytest.fixture(scope="module")
def city() -> tuple[Scene, Annotations, Places]:
    scene, annotations, floor = WORLD.drawable("city-train-00000")
    return scene, annotations, find_places(annotations, floor, seen_from_m=WORLD.seen_from_m)


def looked_at(places: Places, poses: np.ndarray) -> np.ndarray:
    """(N, O): True for objects as far away as they are looked at from, and about straight ahead."""
    away = places.objects[None] - poses[:, None, PLAN]
    distance = np.linalg.norm(away, axis=2)
    ahead = -(away * np.stack([np.sin(poses[:, 3]), np.cos(poses[:, 3])], 1)[:, None]).sum(2)
    near, far = WORLD.seen_from_m
    return (near <= distance) & (distance <= far) & (ahead > distance * np.cos(np.radians(45)))


def test_things_are_looked_at_from_free_places_round_them(city: tuple) -> None:
    _, _, places = city
    poses = places.object_poses(np.random.default_rng(0), 400)
    assert looked_at(places, poses).any(1).mean() > 0.9  # the others stand in yards without room round them
    cell = np.floor((poses[:, PLAN] - places.floor.origin) / places.floor.cell_m).astype(int)
    assert places.floor.free[cell[:, 1], cell[:, 0]].all()
    turns = poses[:, 3] / places.floor.actions.turn_rad
    np.testing.assert_allclose(turns, np.rint(turns), atol=1e-9)


def test_signs_are_looked_at_from_before_their_front_and_name_the_kind_of_shop(city: tuple) -> None:
    scene, annotations, places = city
    kinds = sorted({thing.name for thing in annotations.things})
    signs = places.kind_first[kinds.index("sign")] + np.arange(100)
    at = places._round(np.random.default_rng(0), signs)
    away, front = at - places.objects[signs], places.front_rad[signs]
    before = -(away * np.stack([np.sin(front), np.cos(front)], 1)).sum(1)
    near = np.linalg.norm(away, axis=1) < WORLD.seen_from_m[1]
    assert near.mean() > 0.8 and (before[near] > 0).all()

    poses = places._poses(at[near], (front[near] + np.pi) % (2 * np.pi))
    renderer = Renderer(Camera(64, 64), ("depth", "instance_id"))
    renderer.load([scene])
    frames = renderer.render(np.zeros(len(poses), np.int64), poses)
    surroundings = Surroundings.of(annotations, WORLD.region_names)
    _, place = surroundings.seen(poses, frames["instance_id"], frames["depth"], Camera(64, 64), every=4)
    seen = sampled(frames["instance_id"], 4)
    label = {thing.id: thing.label for thing in annotations.things if thing.name == "sign"}
    named = {(label[i], WORLD.region_names[k]) for i, k in zip(seen.ravel(), place.ravel(), strict=True) if i in label}
    assert len(named) > 20 and all(written.split()[-1].lower() == said for written, said in named)
    assert UNNAMED not in place[seen > 0]


def test_cities_that_are_all_loaded_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = Renderer.load
    monkeypatch.setattr(Renderer, "load", lambda self, scenes: loads.append(len(scenes)) or load(self, scenes))
    ids = [f"city-train-{n:05d}" for n in range(2)]
    batches = list(Frames(WORLD, ids, num_batches=20, batch_size=2, seed=[0], camera=Camera(32, 32)))
    assert len(batches) == 20 and loads == [2]
