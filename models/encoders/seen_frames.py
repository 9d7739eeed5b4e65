"""`SeenFrames`: the encoder for many walks in the same scenes. It encodes the frame of a pose once.

Walks from one spawn begin alike, and often follow the demonstration. In the first updates of `rl_finetune` two frames
of three were seen before.

Axes: V views, F features.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float16, Float64, Int64, UInt8
from torch import Tensor

from eqa.data.demonstrations.storage import Demonstrations, Encode


class SeenFrames:
    """Features by scene and pose. The world has to draw the same frame at a pose each time."""

    def __init__(self, extractor: Encode, demos: Demonstrations) -> None:
        self.extractor, self.demos = extractor, demos
        self.device = getattr(extractor, "device", torch.device("cpu"))
        self.forget()

    def forget(self) -> None:
        self._places: dict[tuple[str, bytes], int] = {}
        self._features = torch.empty(0, self.demos.features.shape[1], dtype=torch.float16, device=self.device)

    @torch.inference_mode()
    def take_up(self, rows: Iterable[int]) -> None:
        """Takes the features of these demonstrations from their file."""
        for row in dict.fromkeys(rows):
            poses, features = (values[self.demos.rows(row)] for values in (self.demos.poses, self.demos.features))
            scenes = [self.demos.episodes[row].scene_id] * len(poses)
            self._look_up(scenes, poses, lambda new, of=features: torch.from_numpy(of[new]).to(self.device))

    @torch.inference_mode()
    def __call__(
        self, rgb: UInt8[Tensor, "V H W 3"], scenes: Sequence[str], poses: Float64[np.ndarray, "V 4"]
    ) -> Float16[Tensor, "V F"]:
        """Features of the frames at poses in scenes, named by their ids."""
        places = self._look_up(scenes, poses, lambda new: self.extractor(rgb[torch.from_numpy(new)]))
        return self._features[torch.from_numpy(places)]

    def _look_up(
        self,
        scenes: Sequence[str],
        poses: Float64[np.ndarray, "V 4"],
        made: Callable[[Int64[np.ndarray, " U"]], Float16[Tensor, "U F"]],
    ) -> Int64[np.ndarray, " V"]:
        """Places of the views' features. Those of new ones are `made` from the first views with their poses."""
        known, at = len(self._places), np.ascontiguousarray(poses).view(f"V{poses.shape[1] * poses.itemsize}")
        keys = zip(scenes, at[:, 0].tolist(), strict=True)
        places = np.array([self._places.setdefault(key, len(self._places)) for key in keys], np.int64)
        numbers, first = np.unique(places, return_index=True)
        if len(new := first[numbers >= known]):
            features = made(new)
            if len(self._places) > len(self._features):
                larger = features.new_empty(2 * len(self._places), features.shape[1])
                larger[:known] = self._features[:known]
                self._features = larger
            self._features[known : len(self._places)] = features
        return places
