"""`ResidualEncoder`: a larger trainable encoder in the place of `models.encoders.cnn.Encoder`, and its heads.

It has residual blocks (He et al. 2016) of plain 3x3 convolutions and batch norm; depthwise ones gain nothing on a CPU.
Its features are a map of places, each describing what is there. `NamingHeads` reads class, colour, room and depth off a
place's features with one linear layer. So a model that attends to the right place has little left to learn.

Axes: B batch, H W frame, h w places of the map, C channels, F features, K classes and other names.
"""

import copy
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from eqa.models.encoders.cnn import Precision, frames_to_input, inference_dtype
from eqa.models.registry import register

STRIDE = 16  # pixels per place
STEM, STEM_STRIDE = 8, 4
LEAST_CHANNELS = 16  # with fewer, oneDNN's gradient of the strided short cuts writes past its memory (its issue 6035)
PIXEL_MEAN, PIXEL_SCALE = 120.0, 60.0  # about those of rendered frames


class Residual(nn.Module):
    """Two 3x3 convolutions with a shortcut, which is a 1x1 convolution where size or channels change."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.first, self.first_norm = _conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = _conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.short_cut = nn.Identity() if same else _normed(inputs, outputs, 1, stride)

    def forward(self, x: Float[Tensor, "B _ _ _"]) -> Float[Tensor, "B _ _ _"]:
        inner = self.first_norm(self.first(x)).relu_()  # in place: new memory for each map costs a quarter of the time
        return self.second_norm(self.second(inner)).add_(self.short_cut(x)).relu_()


class Overview(nn.Module):
    """Each place plus the mean over all of them, since only the whole frame shows the kind of room."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.here, self.everywhere = nn.Conv2d(inputs, outputs, 1), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Float[Tensor, "B _ h w"]) -> Float[Tensor, "B _ h w"]:
        return self.here(x) + self.everywhere(x.mean((2, 3), keepdim=True))


@register
class ResidualEncoder(nn.Module):
    """Frames (B, H, W, 3) uint8 -> features (B, F) float; F = 12544 for 224x224, see `map_shape`.

    `channels` and `blocks` are those of the maps whose places are 4, 8 and 16 pixels wide; the first may have no block.
    `outputs` is the number of a place's features. ValueError for a frame whose sides are no multiples of 16 pixels, and
    for maps of few channels.
    """

    recipe = ""  # features depend on nothing but the weights, see `models.encoders.features.FeatureExtractor`

    def __init__(
        self,
        height_px: int = 224,
        width_px: int = 224,
        channels: Sequence[int] = (32, 64, 128),
        blocks: Sequence[int] = (1, 2, 3),
        outputs: int = 64,
    ):
        super().__init__()
        if height_px % STRIDE or width_px % STRIDE:
            raise ValueError(f"frame size: expected multiples of {STRIDE} pixels, got {height_px}x{width_px}")
        if not len(channels) == len(blocks) == 3 or min(blocks[1:]) < 1:
            raise ValueError(
                f"channels and blocks: expected three each, with a block where the map shrinks, got {list(channels)} and "
                f"{list(blocks)}"
            )
        if min(channels) < LEAST_CHANNELS:
            raise ValueError(f"channels: expected at least {LEAST_CHANNELS} in each map, got {list(channels)}")
        self.height_px, self.width_px = height_px, width_px
        self.map_shape = (outputs, height_px // STRIDE, width_px // STRIDE)
        self.feature_size = outputs * self.map_shape[1] * self.map_shape[2]
        layers: list[nn.Module] = [
            _conv(3, channels[0], STEM, STEM_STRIDE),
            nn.BatchNorm2d(channels[0]),
            nn.ReLU(inplace=True),
        ]
        before = channels[0]
        for stage, (width, number) in enumerate(zip(channels, blocks, strict=True)):
            for block in range(number):
                layers.append(Residual(before, width, 2 if stage and block == 0 else 1))
                before = width
        self.layers = nn.Sequential(*layers, Overview(before, outputs), nn.BatchNorm2d(outputs))
        for conv in self.modules():
            if isinstance(conv, nn.Conv2d):
                nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        self.to(memory_format=torch.channels_last)

    def map(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B C h w"]:
        """The features by place."""
        return self.layers(_centred(rgb, self))

    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        return self.map(rgb).flatten(1)

    def for_inference(self, precision: Precision = "auto") -> "FrozenResidualEncoder":
        """The same function, frozen and fast; `auto` is bfloat16 where the machine computes it in hardware."""
        return FrozenResidualEncoder(self, precision)


class FrozenResidualEncoder(nn.Module):
    """A `ResidualEncoder` in evaluation mode for inference only, batch norm folded into the convolutions before it."""

    def __init__(self, encoder: ResidualEncoder, precision: Precision = "auto"):
        super().__init__()
        self.height_px, self.width_px, self.feature_size = encoder.height_px, encoder.width_px, encoder.feature_size
        self.dtype = inference_dtype(precision, next(encoder.parameters()).device)
        layers = folded(encoder.layers).requires_grad_(False)
        self.layers = layers.to(self.dtype, memory_format=torch.channels_last)

    @torch.no_grad()
    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        """Features in float32, whatever the precision inside."""
        with torch.autocast(rgb.device.type, enabled=False):
            return self.layers(_centred(rgb, self).to(self.dtype)).flatten(1).float()


def folded(layers: nn.Module) -> nn.Module:
    """A copy for evaluation, with each batch norm folded into the convolution right before it."""
    layers = copy.deepcopy(layers).eval()
    for module in layers.modules():
        if isinstance(module, Residual):
            pairs = [("first", "first_norm"), ("second", "second_norm")]
        else:
            pairs = list(pairwise(module._modules)) if isinstance(module, nn.Sequential) else []
        for conv, norm in pairs:
            parts = getattr(module, conv), getattr(module, norm)
            if isinstance(parts[0], nn.Conv2d) and isinstance(parts[1], nn.BatchNorm2d):
                setattr(module, conv, fuse_conv_bn_eval(*parts))
                setattr(module, norm, nn.Identity())
    return layers


class NamingHeads(nn.Module):
    """Logits of names for each place, and its depth in metres, from one linear layer on its features."""

    def __init__(self, channels: int, names: dict[str, int]):
        super().__init__()
        self.sizes = [*names.values(), 1]
        self.names = tuple(names)
        self.layer = nn.Conv2d(channels, sum(self.sizes), 1)

    def forward(self, features: Float[Tensor, "B C h w"]) -> dict[str, Float[Tensor, "B _ h w"]]:
        """Logits by kind of name, (B, K, h, w), and "depth" in metres, (B, 1, h, w)."""
        return dict(zip((*self.names, "depth"), self.layer(features).float().split(self.sizes, dim=1), strict=True))


def _centred(rgb: UInt8[Tensor, "B H W 3"], network: nn.Module) -> Float[Tensor, "B 3 H W"]:
    return frames_to_input(rgb, network, torch.float32).sub_(PIXEL_MEAN).div_(PIXEL_SCALE)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, (kernel - stride + 1) // 2 if kernel == STEM else kernel // 2)


def _normed(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(_conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs))
