"""`NavigatorAgent`: a trained navigator behind a frozen encoder.

Axes: N episodes, W of them that walk, S own steps, F features.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Int64
from torch import nn

from eqa.envs.simulator import Observation
from eqa.models.agents.agent import EpisodeBatch, Walker
from eqa.models.encoders.seen_frames import SeenFrames


class NavigatorAgent(Walker):
    """Takes the likeliest action of a navigator, which first follows the history.

    `features` are those of the frames seen so far, for answerers that use the last frames.
    """

    sensors = ("rgb",)

    def __init__(self, navigator: nn.Module, extractor: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.navigator, self.extractor = navigator.eval(), extractor

    @torch.inference_mode()
    def reset(self, batch: EpisodeBatch) -> None:
        if batch.world is not None:
            self.navigator.check_actions(batch.world.actions)
        self.device = next(self.navigator.parameters()).device
        known = (values.to(self.device) for values in (batch.question_ids, batch.features, batch.actions))
        self.state, self.num = self.navigator.warm_up(*known), len(batch.questions)
        self._seen: list[torch.Tensor] = []  # (N, F) at each step; 0 for agents that have stopped
        self._planned: list[torch.Tensor | None] = []  # (N,) at each step

    @torch.inference_mode()
    def act(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Int64[np.ndarray, " W"]:
        features = self._encode(observation, agents).to(self.device)
        who = torch.from_numpy(agents).to(features.device)
        seen = features.new_zeros(self.num, features.shape[1])
        seen[who] = features
        self._seen.append(seen)
        active = torch.zeros(self.num, dtype=torch.bool, device=seen.device)
        active[who] = True
        self.state, actions = self.navigator.act(self.state, seen.float(), active=active)
        self._planned.append(self.navigator.planner_queried(self.state))
        return actions[who].cpu().numpy()

    def _encode(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Float[torch.Tensor, "W F"]:
        return self.extractor(observation["rgb"])

    @property
    def features(self) -> Float16[torch.Tensor, "N S F"]:
        """Features that each agent saw at each of its own steps; 0 after its end."""
        return torch.stack(self._seen, 1)

    @property
    def planned(self) -> Bool[np.ndarray, "N S"] | None:
        """True for steps at which a planner chose the action, and no controller; None without a planner."""
        return None if self._planned[0] is None else torch.stack(self._planned, 1).cpu().numpy()


class SeeingAgain(NavigatorAgent):
    """The same beside others in the same scenes: what one of them has seen is not encoded again."""

    sensors = ("rgb", "pose")

    def __init__(self, navigator: nn.Module, frames: SeenFrames) -> None:
        super().__init__(navigator, frames.extractor)
        self.frames = frames

    def reset(self, batch: EpisodeBatch) -> None:
        super().reset(batch)
        self.scenes = [episode.scene_id for episode in batch.episodes]

    def _encode(self, observation: Observation, agents: Int64[np.ndarray, " W"]) -> Float[torch.Tensor, "W F"]:
        return self.frames(observation["rgb"], [self.scenes[n] for n in agents], observation["pose"].cpu().numpy())
