"""Surfaces of some frames get other colours; everything else stays, and shade with it."""

import numpy as np
import pytest

from eqa.data.batches.repaint import Repaint

NAMES = ("sky", "wall", "box")


def painted(share: float, seed: int, classes: tuple[str, ...] = ("wall",)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames before and after, and their classes: a sky over a wall with a shadow, and a box before it."""
    class_id = np.zeros((200, 8, 8), np.uint8)
    class_id[:, 4:], class_id[:, 6:, 6:] = 1, 2
    rgb = np.full((200, 8, 8, 3), (90, 120, 200), np.uint8)
    rgb[:, 4:], rgb[:, 4:, :4], rgb[:, 6:, 6:] = (200, 180, 160), (100, 90, 80), (200, 30, 30)
    after = rgb.copy()
    Repaint(share, classes)(after, class_id, class_names=NAMES, rng=np.random.default_rng(seed))
    return rgb, after, class_id


def test_a_surface_has_another_colour_and_its_shadow_stays_darker() -> None:
    rgb, after, class_id = painted(1.0, 0)
    assert (rgb[class_id != 1] == after[class_id != 1]).all()
    changed = (rgb != after).any(axis=(1, 2, 3))
    assert 0.4 < changed.mean() < 0.6  # each class of a chosen frame has even odds
    lit, dark = after[changed, 4, 7].astype(int).sum(1), after[changed, 4, 0].astype(int).sum(1)
    assert (dark < lit).all() and (dark < 0.85 * lit).mean() > 0.5
    assert np.std(after[changed, 4, 7], axis=0).min() > 40


def test_a_share_of_the_frames_is_repainted_and_a_seed_gives_the_same_colours() -> None:
    rgb, after, _ = painted(0.3, 0)
    assert 0.08 < (rgb != after).any(axis=(1, 2, 3)).mean() < 0.24
    assert (after == painted(0.3, 0)[1]).all() and (after != painted(0.3, 1)[1]).any()
    assert (rgb == painted(0.0, 0)[1]).all()


def test_a_wrong_share_and_a_class_that_the_world_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"repaint.share: expected a share from 0 to 1, got 2"):
        Repaint(2, ("wall",))
    with pytest.raises(ValueError, match=r"repaint.classes: expected .* got \['curb'\]"):
        painted(1.0, 0, ("curb",))
