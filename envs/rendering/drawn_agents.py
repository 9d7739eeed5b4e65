"""`DrawnAgents`: what simulators share whose agents a renderer draws: their scenes by name, and their observations.

Axes: N agents, M of them, V views.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int, Int64
from torch import Tensor

from eqa.envs.rendering.renderer import Renderer


class DrawnAgents(ABC):
    """A part of `envs.simulator.Simulator`. A subclass sets the attributes, and gives its agents' poses."""

    device = torch.device("cpu")
    kind: str  # of its scenes, for messages: "house"
    num_agents: int
    renderer: Renderer
    _index: dict[str, int]  # of the loaded scenes, by id
    _scene: Int64[np.ndarray, " N"]
    _ready: Bool[np.ndarray, " N"]  # True for agents that were placed

    @abstractmethod
    def _poses(self) -> Float64[np.ndarray, "N 4"]:
        """The agents' poses."""

    @property
    def image_size(self) -> tuple[int, int]:
        return self.renderer.camera.height_px, self.renderer.camera.width_px

    @property
    def scene_ids(self) -> list[str]:
        return list(self._index)

    def scene_index(self, scene_id: str) -> int:
        """Index of a loaded scene; ValueError names one that is not loaded."""
        if scene_id not in self._index:
            raise ValueError(
                f"{self.kind} {scene_id!r}: not among the {len(self._index)} loaded ones; pass it to the simulator"
            )
        return self._index[scene_id]

    def observe(
        self, agents: Int64[np.ndarray, " M"] | None = None, sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of some agents, all by default: sensors of the renderer, and "pose"."""
        self._check_ready(agents)
        chosen = slice(None) if agents is None else agents
        return self.look(self._scene[chosen], self._poses()[chosen], sensors)

    def look(
        self, scenes: Int[np.ndarray, " V"], poses: Float64[np.ndarray, "V 4"], sensors: Sequence[str] = ("rgb",)
    ) -> dict[str, Tensor]:
        """Observations of an agent at any poses."""
        drawn = [name for name in sensors if name != "pose"]
        images = self.renderer.render(scenes.astype(np.int32), poses, sensors=drawn) if drawn else {}
        if len(drawn) < len(sensors):
            images["pose"] = poses.copy()
        return {name: torch.from_numpy(image) for name, image in images.items()}

    @property
    def poses(self) -> Float64[Tensor, "N 4"]:
        return torch.from_numpy(self._poses())

    def _check_ready(self, agents: Int64[np.ndarray, " M"] | None = None) -> None:
        ready = self._ready if agents is None else self._ready[agents]
        if not ready.all():
            raise ValueError(f"{np.count_nonzero(~ready)} agents are nowhere yet; reset them first")
