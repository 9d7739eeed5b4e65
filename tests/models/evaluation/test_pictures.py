"""Names on the plans of walks can be read."""

import pytest
from matplotlib.figure import Figure
from PIL import ImageFont

from eqa.envs.annotations import Annotations, Region, Thing
from eqa.envs.house.build import annotations
from eqa.models.evaluation.pictures import draw_plan, name_regions, wrapped
from tests.helpers.generated_house import house_and_scene


def test_names_of_rooms_on_a_small_plan_do_not_overlap_and_stay_on_it() -> None:
    scene = annotations(house_and_scene(0, 0)[0])
    axis = Figure(figsize=(3, 3)).add_axes((0, 0, 1, 1))
    draw_plan(axis, scene)
    name_regions(axis, scene)
    assert sorted(text.get_text() for text in axis.texts) == sorted(region.name for region in scene.regions)
    frames = [text.get_window_extent() for text in axis.texts]
    assert all(text.get_visible() for text in axis.texts)
    for i, frame in enumerate(frames):
        assert axis.bbox.x0 - 1 <= frame.x0 and frame.x1 <= axis.bbox.x1 + 1
        assert not any(frame.overlaps(other) for other in frames[:i])


@pytest.mark.parametrize(("wide", "whole"), [(300.0, False), (60.0, True)])
def test_a_plan_of_a_large_scene_shows_the_part_round_walk_and_target(wide: float, whole: bool) -> None:
    half = wide / 2
    ground = ((-half, -half), (-half, half), (half, half), (half, -half))
    box = Thing(7, "car", ((20.0, 0.0), (24.0, 0.0), (24.0, 2.0), (20.0, 2.0)), "red")
    scene = Annotations("wide", (Region("street", ground),), (box,))
    axis = Figure().add_subplot()
    draw_plan(axis, scene, target=7, around=[[(0.0, 2.0, 0.0, 0.0), (10.0, 2.0, 5.0, 0.0)]])
    x0, x1 = axis.get_xlim()
    assert (x1 - x0 > 59) if whole else (x0 < 0 and x1 > 24 and x1 - x0 == 60)
    assert axis.get_ylim()[0] > axis.get_ylim()[1]  # north is up


def test_a_film_s_long_lines_are_wrapped_to_its_width() -> None:
    font, text = ImageFont.load_default(size=15), "there is a building to the south of you. " * 4 + "x" * 90
    lines = wrapped(text, font, 300)
    assert " ".join(lines) == text and len(lines) > 3 and wrapped("yes   no", font, 300) == ["yes   no"]
    assert all(font.getlength(line) <= 300 for line in lines[:-1])
