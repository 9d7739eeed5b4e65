"""Batches of episodes for agents, for tests that need only some of the fields."""

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
    """Spawns without history and off any demonstration, unless arguments say otherwise."""
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
