"""Batches of episodes as agents get them, where a test needs only some of what they hold."""

from collections.abc import Sequence

import numpy as np
import torch

from eqa.envs.episode import Episode
from eqa.envs.simulator import World
from eqa.models.agents.agent import EpisodeBatch


def batch_of(
    poses: np.ndarray,
    *,
    questions: torch.Tensor | None = None,
    features: torch.Tensor | None = None,
    actions: torch.Tensor | None = None,
    episodes: Sequence[Episode] = (),
    world: World | None = None,
) -> EpisodeBatch:
    """Spawns without history, on no demonstration, unless something else is said."""
    num = len(poses)
    return EpisodeBatch(
        questions=["what is it?"] * num,
        question_ids=torch.ones((num, 2), dtype=torch.int64) if questions is None else questions,
        features=torch.empty(num, 0, 1) if features is None else features,
        actions=torch.empty((num, 0), dtype=torch.int64) if actions is None else actions,
        poses=poses,
        episodes=list(episodes),
        world=world,
        remaining=[None] * num,
    )
