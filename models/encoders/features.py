"""`FeatureExtractor`: the frozen encoder as a function from many frames to features.

Axes: B frames, H W frame, F features.
"""

import hashlib
import os
from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from jaxtyping import Float16, UInt8
from torch import Tensor

from eqa.envs.files import here_or_packaged
from eqa.models.encoders.cnn import Encoder, Precision, load_encoder
from eqa.models.encoders.imagenet import Backbone, load_pretrained
from eqa.models.encoders.place_names import PlaceNames
from eqa.models.encoders.resnet import ResidualEncoder

BATCH, BATCH_GPU = 32, 512  # frames at a time: larger batches fall out of the CPU's cache and gain nothing


def checked_map_shape(map_shape: Sequence[int] | None, feature_size: int) -> tuple[int, int, int]:
    """Channels, rows and columns of a map; ValueError if they are not those of so many features."""
    if map_shape is None or len(map_shape) != 3 or prod(map_shape) != feature_size:
        raise ValueError(f"map_shape: expected channels, rows and columns of {feature_size} features, got {map_shape}")
    return tuple(map_shape)


class FeatureExtractor:
    """Encodes any number of frames. `identity` changes with the weights and the precision, so caches can tell.

    It includes `encoder.recipe`: all that features depend on besides the weights. `place_names` are what the encoder
    says of places, if its file has them; features do not depend on them. The encoder moves to `device`; "auto" is a GPU
    if there is one, and of several the one of this process.
    """

    def __init__(
        self, encoder: Encoder | ResidualEncoder | Backbone, *, precision: Precision = "auto", device: str = "auto"
    ) -> None:
        self.device = own_gpu() if device == "auto" else torch.device(device)
        self.encoder = encoder.to(self.device)
        self.place_names: PlaceNames | None = getattr(encoder, "place_names", None)
        self.frozen = encoder.eval().for_inference(precision)
        self.batch = BATCH if self.device.type == "cpu" else BATCH_GPU
        digest = hashlib.sha256(str(self.frozen.dtype).encode())
        for name, value in sorted(encoder.state_dict().items()):
            digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
        digest.update(encoder.recipe.encode())
        self.identity = digest.hexdigest()[:12]

    @property
    def map_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the map; a frame's features are its flat form."""
        return self.encoder.map_shape

    @classmethod
    def from_weights(cls, weights: str, *, precision: Precision = "auto", device: str = "auto") -> "FeatureExtractor":
        """The encoder in a safetensors file; also one of the package, such as models/weights/encoder.safetensors."""
        return cls(load_encoder(here_or_packaged(weights)), precision=precision, device=device)

    @classmethod
    def pretrained(
        cls, name: str, *, weights: str | None, grid: int = 3, precision: Precision = "auto", device: str = "auto"
    ) -> "FeatureExtractor":
        """A network of torchvision's with its own weights, see `models.encoders.imagenet.load_pretrained`."""
        return cls(load_pretrained(name, weights=weights, grid=grid), precision=precision, device=device)

    def __call__(self, rgb: UInt8[Tensor, "B H W 3"] | UInt8[np.ndarray, "B H W 3"]) -> Float16[Tensor, "B F"]:
        """Features on the encoder's device; frames that are there already are not copied."""
        frames = torch.as_tensor(rgb)
        features = torch.empty(len(frames), self.encoder.feature_size, dtype=torch.float16, device=self.device)
        for first in range(0, len(frames), self.batch):
            part = slice(first, first + self.batch)
            features[part] = self.frozen(frames[part].to(self.device)).half()
        return features


def own_gpu() -> torch.device:
    """The GPU of this process, by its rank on this machine (torchrun's LOCAL_RANK); the CPU without one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
