"""Windows of episodes that are played side by side in a world that holds few scenes."""

import pytest

from eqa.envs.simulator import in_windows


@pytest.mark.parametrize(
    ("scenes", "size", "most", "expected"),
    [
        ("aabbccdd", 3, None, ["aab", "bcc", "dd"]),
        ("aabbccdd", 8, 2, ["aabb", "ccdd"]),
        ("aabbccdd", 3, 2, ["aab", "bcc", "dd"]),
        ("abab", 9, 1, ["a", "b", "a", "b"]),
        ("aaaa", 4, 4, ["aaaa"]),
        ("", 4, 4, []),
    ],
)
def test_windows_hold_all_episodes_in_order_and_no_more_scenes_than_the_world_loads(
    scenes: str, size: int, most: int | None, expected: list[str]
) -> None:
    found = list(in_windows(list(scenes), size, most))
    assert ["".join(scenes[n] for n in some) for some in found] == expected
