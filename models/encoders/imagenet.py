"""`Backbone`: a convolutional network of torchvision's, pretrained on ImageNet, as an encoder.

It takes the place of `models.encoders.cnn.Encoder`.

Nothing else needs torchvision. `load_pretrained` lets it download weights, once, into the folder of torch.hub. A
checkpoint holds them, so playing an agent needs torchvision for the layers but downloads nothing.

Axes: B batch, H W frame, F features.
"""

import copy
from collections import OrderedDict
from types import ModuleType

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.fx import symbolic_trace
from torch.nn.utils.fusion import fuse_conv_bn_eval

from eqa.models.encoders.cnn import Precision, frames_to_input, inference_dtype
from eqa.models.registry import register

FAMILIES = ("resnet", "resnext", "wide_resnet", "regnet", "convnext", "efficientnet")  # end in a map and `avgpool`
# Mean and deviation of colours in 0..1, as in torchvision.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SEED_OF_RANDOM_WEIGHTS = 0


@register
class Backbone(nn.Module):
    """Frames (B, H, W, 3) uint8 -> features (B, F) float; F = 4608 for ResNet-18, see `feature_size`.

    The network is a classifier up to its last convolutional map. Colours are put in 0..1 and normalised as the weights
    expect; frames are neither scaled nor cropped. The map (7x7 for 224x224) is averaged to `grid` x `grid` places. They
    overlap where the map's side is no multiple of `grid`. Weights are random until those of a checkpoint or of
    `load_pretrained` are loaded. ValueError for an unknown `name` and a `grid` finer than the map.
    """

    def __init__(self, name: str = "resnet18", height_px: int = 224, width_px: int = 224, grid: int = 3):
        super().__init__()
        self.height_px, self.width_px, self.grid = height_px, width_px, grid
        self.layers = convolutions(known_models(name).get_model(name, weights=None))
        for buffer, values in (("mean", IMAGENET_MEAN), ("std", IMAGENET_STD)):
            self.register_buffer(buffer, torch.tensor(values).view(1, 3, 1, 1))
        with torch.no_grad():
            last = self.layers.eval()(torch.zeros(1, 3, height_px, width_px))
        self.layers.train()
        _, channels, *sides = last.shape
        if not 1 <= grid <= min(sides):
            raise ValueError(
                f"grid: expected 1 to {min(sides)}, as {name}'s last map of a {height_px}x{width_px} frame is "
                f"{sides[0]}x{sides[1]}, got {grid}"
            )
        self.map_shape = (channels, grid, grid)
        self.feature_size = channels * grid * grid
        self.to(memory_format=torch.channels_last)

    @property
    def recipe(self) -> str:
        """All that features depend on besides the weights, for `FeatureExtractor.identity`."""
        return repr(sorted(self.arguments.items()))

    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        return F.adaptive_avg_pool2d(self.layers(normalised(rgb, self)), self.grid).flatten(1)

    def for_inference(self, precision: Precision = "auto") -> "FrozenBackbone":
        """The same function, frozen and made for speed; `auto` is bfloat16 where the machine computes it in hardware.

        bfloat16 changes features by a relative error of about 0.01.
        """
        return FrozenBackbone(self, precision)


class FrozenBackbone(nn.Module):
    """A `Backbone` in evaluation mode for inference only, batch norm folded into the convolutions before it."""

    def __init__(self, backbone: Backbone, precision: Precision = "auto"):
        super().__init__()
        self.height_px, self.width_px, self.grid = backbone.height_px, backbone.width_px, backbone.grid
        self.feature_size = backbone.feature_size
        self.dtype = inference_dtype(precision, backbone.mean.device)
        layers = fold_batch_norms(backbone.layers).requires_grad_(False)
        self.layers = layers.to(self.dtype, memory_format=torch.channels_last)
        self.register_buffer("mean", backbone.mean.detach().clone())
        self.register_buffer("std", backbone.std.detach().clone())

    @torch.no_grad()
    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        """Features in float32, whatever the precision inside."""
        x = normalised(rgb, self).to(self.dtype)
        with torch.autocast(x.device.type, enabled=False):
            return F.adaptive_avg_pool2d(self.layers(x).float(), self.grid).flatten(1)


def normalised(rgb: UInt8[Tensor, "B H W 3"], network: Backbone | FrozenBackbone) -> Float[Tensor, "B 3 H W"]:
    """Colours in float32, normalised as in the network's training."""
    x = frames_to_input(rgb, network, torch.float32)
    return x.sub_(network.mean * 255).div_(network.std * 255)


def convolutions(network: nn.Module) -> nn.Sequential:
    """All layers before the global average, under their own names."""
    parts = list(network.named_children())
    end = [name for name, _ in parts].index("avgpool")
    return nn.Sequential(OrderedDict(parts[:end]))


def fold_batch_norms(layers: nn.Module) -> nn.Module:
    """A copy for evaluation, with each batch norm folded into the convolution before it."""
    traced = symbolic_trace(copy.deepcopy(layers).eval())
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if not isinstance(modules.get(str(node.target)), nn.BatchNorm2d):
            continue
        before = node.args[0]
        conv = modules.get(str(before.target))
        if isinstance(conv, nn.Conv2d) and len(before.users) == 1:
            traced.set_submodule(before.target, fuse_conv_bn_eval(conv, modules[node.target]))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def load_pretrained(name: str = "resnet18", *, weights: str | None = "DEFAULT", grid: int = 3) -> Backbone:
    """A backbone for 224x224 frames in evaluation mode with torchvision's weights, downloaded if they are missing.

    `weights` is one of torchvision's names for the network's weights; DEFAULT are the best. None gives random ones, the
    same each time, for trials without a download. ValueError for an unknown name of either. OSError with advice if the
    weights cannot be downloaded.
    """
    models = known_models(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED_OF_RANDOM_WEIGHTS)
        backbone = Backbone(name, grid=grid)
    if weights is None:
        return backbone.eval()
    known = models.get_model_weights(name).__members__
    if weights not in known:
        raise ValueError(f"weights of {name}: expected one of {sorted(known)} or null, got {weights!r}")
    try:
        network = models.get_model(name, weights=known[weights], progress=False)
    except OSError as error:
        raise OSError(
            f"weights of {name}: cannot be fetched from {known[weights].url} ({error}); put that file into "
            f"{torch.hub.get_dir()}/checkpoints, or set data.encode.weights=null for random ones"
        ) from error
    backbone.layers.load_state_dict(convolutions(network).state_dict())
    preset = known[weights].transforms()
    for buffer, values in ((backbone.mean, preset.mean), (backbone.std, preset.std)):
        buffer.copy_(torch.tensor(values).view(1, 3, 1, 1))
    return backbone.eval()


def known_models(name: str) -> ModuleType:
    """torchvision.models; ValueError if it has no network of that name or of a kind that fits `Backbone`."""
    models = torchvision_models()
    known = [one for one in models.list_models(module=models) if one.startswith(FAMILIES)]
    if name not in known:
        raise ValueError(f"backbone: expected one of {known}, got {name!r}")
    return models


def torchvision_models() -> ModuleType:
    """torchvision.models; ImportError with the command to install it if it is missing or does not fit PyTorch."""
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # RuntimeError: its operators were built for another PyTorch
        raise ImportError(
            f"pretrained backbone: expected torchvision that fits PyTorch {torch.__version__}, got {error!r}; "
            f"{install_command(torch.__version__)}"
        ) from error
    return models


def install_command(torch_version: str) -> str:
    """The command to install the torchvision that fits, from the same place: 2.13.0+cpu is PyTorch's build for CPUs."""
    version, _, build = torch_version.partition("+")
    index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
    return f"pip install --upgrade torchvision torch=={version}{index}"
