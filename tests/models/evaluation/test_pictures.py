"""Names on the plans of walks can be read."""

from matplotlib.figure import Figure

from eqa.envs.house.build import annotations
from eqa.models.evaluation.pictures import draw_plan, name_regions
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
