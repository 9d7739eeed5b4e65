"""Questions about annotated scenes: the same as about the houses that the annotations came from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqa.data.questions.journal import Journal
from eqa.data.questions.rules import UNNAMED, load_rules
from eqa.data.questions.scan_colors import seen_color
from eqa.data.questions.scan_names import FILE, load_scan_names
from eqa.data.questions.scans import STARTS_M, AnnotatedWorld, Scans, house_of, make_scan_questions
from eqa.data.questions.templates import Generator
from eqa.envs.annotations import Annotations, Region, Thing
from eqa.envs.episode import Episode
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from eqa.envs.navigation.walk import walks_of
from eqa.envs.rendering.camera import Camera
from eqa.envs.simulator import Goal
from tests.helpers.generated_house import house_and_scene
from tests.helpers.small_house import small_house, thing

CAMERA = Camera(112, 112)
NUMBERED = 40  # what is added to the ids of things in `Renumbered`


def square(x: float, z: float, side: float = 1.0) -> tuple:
    return ((x, z), (x + side, z), (x + side, z + side), (x, z + side))


class Renumbered(HouseWorld):
    """Houses whose things have other ids than their places, and no colours, as scans have."""

    def annotations(self, scene_id: str) -> Annotations:
        found = super().annotations(scene_id)
        things = [replace(one, id=one.id + NUMBERED, color=None) for one in reversed(found.things)]
        return replace(found, things=tuple(things))

    def open(self, *args, **kwargs):
        simulator = super().open(*args, **kwargs)
        look = simulator.look

        def renumbered(*given):
            seen = dict(look(*given))
            if "instance_id" in seen:
                ids = seen["instance_id"].int()
                seen["instance_id"] = ids + NUMBERED * (ids > 0)
            return seen

        simulator.look = renumbered
        return simulator


@pytest.fixture(scope="module")
def houses() -> dict[str, House]:
    """Two houses: one by hand with a turned table, one generated."""
    by_hand = small_house()
    turned = thing(3, "table", 1.2, 3.0, room=0, heading_rad=0.6)
    by_hand = replace(by_hand, objects=[*by_hand.objects[:2], turned, *by_hand.objects[3:]])
    return {house.id: house for house in (by_hand, house_and_scene(0, 1)[0])}


@pytest.fixture(scope="module")
def world(houses: dict[str, House]) -> Renumbered:
    return Renumbered(houses.__getitem__, camera=CAMERA)


@pytest.fixture
def scans(world: Renumbered, tmp_path: Path) -> Scans:
    return Scans(world, load_scan_names(), Journal(tmp_path / "journal", configuration={}))


def asked(house: House, *types: str) -> dict[str, str]:
    return {question.text: question.answer for question in Generator(load_rules(), list(types)).generate(house)}


def test_houses_are_annotated_worlds(world: Renumbered) -> None:
    assert isinstance(world, AnnotatedWorld)


def test_what_is_asked_of_annotations_is_what_is_asked_of_the_house(scans: Scans, houses: dict[str, House]) -> None:
    types = [name for name in load_rules().types if not name.startswith("color")]
    for scene_id, house in houses.items():
        found = asked(scans.house(scene_id), *types)
        assert found == asked(house, *types) and len(found) > 5


def test_colors_are_told_from_views_and_never_wrong(scans: Scans, houses: dict[str, House]) -> None:
    told, true = {}, {}
    for scene_id, house in houses.items():
        told |= {(scene_id, text): answer for text, answer in asked(scans.house(scene_id), "color").items()}
        true |= {(scene_id, text): answer for text, answer in asked(house, "color").items()}
    assert len(told) >= 0.3 * len(true) > 2 and told.items() <= true.items()


def test_boxes_are_turned_as_the_things_are(scans: Scans, houses: dict[str, House]) -> None:
    for scene_id, house in houses.items():
        found = scans.house(scene_id)
        for own, one in zip(reversed(house.objects), found.objects, strict=True):
            corners = np.array(own.footprint())
            for corner in one.footprint():
                assert np.hypot(*(corners - corner).T).min() < 1e-6, own.category
            assert one.position[1] == own.position[1] and one.size_m[1] == pytest.approx(own.size_m[1])


def test_episodes_have_the_worlds_ids_and_walks_that_end_where_the_answer_is_seen(
    world: Renumbered, houses: dict[str, House], tmp_path: Path
) -> None:
    made = questions(world, houses, tmp_path)
    episodes: list[Episode] = made.episodes["train"]
    assert len(episodes) > 10 and {episode.scene_id for episode in episodes} == set(houses)
    for scene_id, house in houses.items():
        here = [episode for episode in episodes if episode.scene_id == scene_id and episode.walk]
        for episode, walk in zip(here, walks_of(world, scene_id, here), strict=True):
            (left,) = world.distances(scene_id, [Goal.of(episode)], [walk.poses[-1:]])
            assert left[0] == 0 and len(walk.actions) == episode.spawns["start"].num_actions
            own = next(o for o in house.objects if o.id + NUMBERED == episode.target_object)
            target = episode.touched[0]
            assert target.is_target and target.name == own.category and target.id == episode.target_object
            seen = world.open([scene_id], num_agents=1).look(np.zeros(1, np.int64), walk.poses[-1:], ("instance_id",))[
                "instance_id"
            ]
            assert (seen == episode.target_object).any(), episode.question


def questions(world: Renumbered, houses: dict[str, House], folder: Path, **given):
    return make_scan_questions(
        world,
        {"train": list(houses)},
        counts={"train": None},
        seed=0,
        balance="none",
        journal=lambda made_from: Journal(folder / "journal", configuration=made_from),
        **given,
    )


def test_a_killed_run_goes_on_without_looking_again(
    world: Renumbered, houses: dict[str, House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = questions(world, houses, tmp_path)
    monkeypatch.setattr(Scans, "view_points", None)
    monkeypatch.setattr(Scans, "_colors", None)
    with pytest.raises((TypeError, AttributeError)):
        questions(world, houses, tmp_path / "elsewhere")
    monkeypatch.undo()
    looked = []
    monkeypatch.setattr(Scans, "_look", lambda *_: looked.append(1))
    again = questions(world, houses, tmp_path)
    assert not looked and again.episodes == first.episodes


def test_a_tilted_camera_is_refused(houses: dict[str, House], tmp_path: Path) -> None:
    tilted = Renumbered(houses.__getitem__, camera=replace(CAMERA, pitch_rad=-0.3))
    with pytest.raises(ValueError, match="straight ahead, got pitch_rad -0.3"):
        questions(tilted, houses, tmp_path)


def test_names_of_scans_mean_ours_and_parts_of_the_building_are_no_things() -> None:
    names = load_scan_names()
    assert [names.thing(name) for name in ("chest_of_drawers", "TV", "wall-cabinet", "Sofa", "window_frame")] == [
        "dresser", "television", UNNAMED, "sofa", None,
    ]  # fmt: skip
    assert names.room("familyroom/lounge", ()) == "living room"
    assert names.room("room", ["sink", "toilet"]) == "bathroom" and names.room("", ["sink"]) == "room"
    assert names.room("spa/sauna", ["toilet"]) == "spa/sauna"


def test_a_name_with_two_meanings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text(FILE.read_text().replace("sofa: [couch", "sofa: [fridge, couch"))
    with pytest.raises(ValueError, match="'fridge' is both"):
        load_scan_names(path)


def test_a_thing_that_could_be_any_leaves_absence_and_names_in_doubt() -> None:
    things = (
        Thing(7, "table", square(1, 1), high_m=0.7),
        Thing(9, "gadget", square(1.2, 1.2, 0.3), low_m=0.7, high_m=0.9),
    )
    scene = Annotations("scan", (), things)
    house, numbers = house_of(scene, load_scan_names(), origin="test")
    assert numbers == (7, 9) and [one.category for one in house.objects] == ["table", UNNAMED]
    named = replace(scene, things=(things[0], replace(things[1], name="vase")))
    certain, _ = house_of(named, load_scan_names(), origin="test")
    assert "what is on the table?" in asked(certain, "preposition")
    assert "what is on the table?" not in asked(house, "preposition")


def test_things_without_a_region_are_in_the_smallest_around_them_on_their_storey() -> None:
    regions = (
        Region("bedroom", square(0, 0, 4), 0.0, 2.5),
        Region("office", square(1, 1, 2), 0.0, 2.5),
        Region("kitchen", square(1, 1, 1.5), 3.0, 5.5),
    )
    places = [(1.5, 0.0), (1.5, 3.2), (0.2, 0.0), (8.0, 0.0)]
    things = tuple(Thing(n, "sofa", square(x, x, 0.4), low_m=y, high_m=y + 1) for n, (x, y) in enumerate(places, 1))
    house, _ = house_of(Annotations("scan", regions, things), load_scan_names(), origin="test")
    assert [house.rooms[one.room].type for one in house.objects] == ["office", "kitchen", "bedroom", "room"]


@pytest.mark.parametrize(
    ("painted", "expected"),
    [
        ([((240, 240, 236), 1.0)], "white"),
        ([((150, 150, 150), 1.0)], None),  # gray in the light, or white in shade
        ([((30, 60, 130), 0.95), ((220, 210, 40), 0.05)], "blue"),
        ([((30, 60, 130), 0.6), ((220, 210, 40), 0.4)], None),
        ([((170, 20, 30), 1.0)], "red"),
    ],
)
def test_a_color_is_told_only_where_nearly_all_pixels_have_it(painted: list, expected: str | None) -> None:
    pixels = np.concatenate([np.full((round(1000 * share), 3), rgb) for rgb, share in painted]).astype(np.uint8)
    assert seen_color(pixels) == expected
    assert seen_color(pixels[:50]) is None


def test_starts_are_places_where_agents_can_stand(world: Renumbered, houses: dict[str, House]) -> None:
    for scene_id in houses:
        places = world.places(scene_id, STARTS_M)
        poses = np.column_stack([places, np.zeros(len(places))])
        simulator = world.open([scene_id], num_agents=len(poses))
        goal = Goal((tuple(poses[0].tolist()),), 0.2)
        simulator.reset(np.arange(len(poses)), np.zeros(len(poses), np.int64), poses, [goal] * len(poses))
        assert np.isfinite(simulator.distance_m.numpy()).all()
