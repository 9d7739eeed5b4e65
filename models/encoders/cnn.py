"""The multi-task CNN: an encoder that turns frames into features, and the decoders that it is pretrained with.

The architecture follows Das et al. 2018, Sec. 4 and supplement. Four blocks of [5x5 convolution, batch norm, ReLU, 2x2
max pool] are shared by three FCN-8s-like heads for colour, depth and segmentation. After pretraining the decoders are
dropped and the encoder is frozen. `Encoder.for_inference` gives the frozen encoder in a fast form.

Deviation: the heads predict at the resolution of the second pool (53x53 for a 224x224 frame), not at the frame's. The
paper's heads are bilinear beyond that point, so they carry no finer information, and a step costs a fraction.

Axes: B batch, H W frame, C channels, h w second pool, F features.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from eqa.envs.files import atomic_write
from eqa.models.encoders.place_names import PlaceNames
from eqa.models.registry import rebuild, register

FORMAT = "eqa-encoder"
FORMAT_VERSION = "1"
WEIGHTS = Path(__file__).parents[1] / "weights" / "encoder.safetensors"
MAX_DEPTH_M = 10.0
NAMES = "place_names"  # prefix of their layer's weights in a file
KERNEL = 5
NARROW = {torch.float32: 8, torch.bfloat16: 16}  # the pool is folded into blocks of at most so many channels


Precision = str  # auto, float32 or bfloat16


@dataclass(frozen=True, slots=True)
class Grid:
    """Every `stride`-th row and column of the heads' outputs, from `row` and `column`."""

    stride: int = 1
    row: int = 0
    column: int = 0


WHOLE = Grid()


def pooled_sizes(size_px: int, blocks: int = 4) -> list[int]:
    """Side length after each block; ValueError when the frame is too small for all of them."""
    sizes = []
    for _ in range(blocks):
        size_px = (size_px - KERNEL + 1) // 2
        sizes.append(size_px)
    if size_px < 1:
        raise ValueError(
            f"frame size: expected at least 76 pixels a side for {blocks} blocks, got one that ends at {sizes}"
        )
    return sizes


@register
class Encoder(nn.Module):
    """Frames (B, H, W, 3) uint8 -> features (B, F) float; F = 3200 for 224x224, see `feature_size`."""

    recipe = ""  # features depend on nothing but the weights, see `models.encoders.features.FeatureExtractor`

    def __init__(self, height_px: int = 224, width_px: int = 224, channels: Sequence[int] = (8, 16, 32, 32)):
        super().__init__()
        self.height_px, self.width_px, self.channels = height_px, width_px, tuple(channels)
        rows, columns = pooled_sizes(height_px, len(channels)), pooled_sizes(width_px, len(channels))
        self.map_sizes = list(zip(rows, columns, strict=True))
        self.map_shape = (channels[-1], rows[-1], columns[-1])  # features are its flat form
        self.feature_size = rows[-1] * columns[-1] * channels[-1]
        self.convs = nn.ModuleList(nn.Conv2d(i, o, KERNEL) for i, o in zip((3, *channels[:-1]), channels, strict=True))
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in channels)
        init_convolutions(self)
        self.to(memory_format=torch.channels_last)

    def maps(self, rgb: UInt8[Tensor, "B H W 3"]) -> list[Float[Tensor, "B _ _ _"]]:
        """The output of each block, in order."""
        device = rgb.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        x = frames_to_input(rgb, self, dtype)
        outputs = []
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            # Dividing the small weight by 255, not the frames, saves a pass over them and keeps them exact in bfloat16.
            weight = conv.weight / 255 if index == 0 else conv.weight
            x = F.max_pool2d(F.relu(norm(F.conv2d(x, weight, conv.bias)), inplace=True), 2)
            outputs.append(x)
        return outputs

    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        return self.maps(rgb)[-1].flatten(1)

    def for_inference(self, precision: Precision = "auto") -> "FrozenEncoder":
        """The same function, frozen and made for speed. `auto` is bfloat16 where the machine computes it in hardware.

        bfloat16 changes features by a relative error of about 0.005; `python scripts/bench.py encode` measures both.
        """
        return FrozenEncoder(self, precision)


class FrozenEncoder(nn.Module):
    """An `Encoder` in evaluation mode for inference only: batch norm folded in, and narrow blocks reshaped.

    A 2x2 max pool over a 5x5 convolution looks at 6x6 pixels. So one 6x6 convolution of stride 2 with four times the
    channels computes the four values that each pool compares. The pool becomes a maximum over channels. This costs 1.4
    times the multiplications, but fills vector registers and matrix tiles that few channels leave empty. Blocks are
    reshaped only where this was measured to be faster, see `NARROW`.
    """

    def __init__(self, encoder: Encoder, precision: Precision = "auto"):
        super().__init__()
        self.height_px, self.width_px, self.feature_size = encoder.height_px, encoder.width_px, encoder.feature_size
        self.dtype = inference_dtype(precision, encoder.convs[0].weight.device)
        self.narrow = [channels <= NARROW[self.dtype] for channels in encoder.channels]
        for index, (conv, norm) in enumerate(zip(encoder.convs, encoder.norms, strict=True)):
            weight, bias = fold_batch_norm(conv, norm)
            weight = weight / 255 if index == 0 else weight
            if self.narrow[index]:
                weight, bias = fold_pooling(weight, bias)
            self.register_buffer(f"weight{index}", weight.to(self.dtype, memory_format=torch.channels_last))
            self.register_buffer(f"bias{index}", bias.to(self.dtype))

    @torch.no_grad()
    def forward(self, rgb: UInt8[Tensor, "B H W 3"]) -> Float[Tensor, "B F"]:
        """Features in float32, whatever the precision inside."""
        x = frames_to_input(rgb, self, self.dtype)
        with torch.autocast(x.device.type, enabled=False):
            for index, narrow in enumerate(self.narrow):
                weight, bias = getattr(self, f"weight{index}"), getattr(self, f"bias{index}")
                if narrow:
                    x = _max_of_four(F.conv2d(x, weight, bias, stride=2)).relu_()
                else:
                    x = F.max_pool2d(F.conv2d(x, weight, bias), 2).relu_()
        return x.flatten(1).float()


def frames_to_input(rgb: Tensor, encoder: nn.Module, dtype: torch.dtype) -> Tensor:
    """Converts (B, H, W, 3) uint8 to (B, 3, H, W) in 0..255, in one pass: a frame's own layout is channels_last.

    ValueError for frames of another size than `encoder.height_px` and `encoder.width_px`.
    """
    expected = (encoder.height_px, encoder.width_px, 3)
    if rgb.dtype != torch.uint8 or rgb.ndim != 4 or tuple(rgb.shape[1:]) != expected:
        raise ValueError(
            f"rgb: expected uint8 (B, {', '.join(map(str, expected))}), got {rgb.dtype} {tuple(rgb.shape)}"
        )
    return rgb.permute(0, 3, 1, 2).to(dtype)


def fold_batch_norm(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Weight and bias of the single convolution that equals `conv` followed by `norm` in evaluation mode."""
    scale = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    bias = (conv.bias.detach() - norm.running_mean) * scale + norm.bias.detach()
    return conv.weight.detach() * scale[:, None, None, None], bias


def fold_pooling(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(O, I, k, k) -> (4 O, I, k+1, k+1): the convolution of stride 2 that gives the four values of each 2x2 pool."""
    corners = [F.pad(weight, (right, 1 - right, down, 1 - down)) for down in (0, 1) for right in (0, 1)]
    return torch.cat(corners), bias.repeat(4)


def _max_of_four(x: Float[Tensor, "B C4 h w"]) -> Float[Tensor, "B C h w"]:
    """The maximum over four groups of channels, in two steps that each compare contiguous stretches."""
    batch, channels, height, width = x.shape
    pairs = x.permute(0, 2, 3, 1).reshape(batch, height, width, 2, channels // 2)
    left_right = torch.maximum(pairs[:, :, :, 0], pairs[:, :, :, 1])
    return torch.maximum(*left_right.split(channels // 4, dim=3)).permute(0, 3, 1, 2)


def inference_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 where the device computes it in hardware; ValueError for an unknown precision."""
    if precision == "auto":
        fast = device.type == "cuda" or (device.type == "cpu" and multiplies_bfloat16())
        return torch.bfloat16 if fast else torch.float32
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision: expected auto, float32 or bfloat16, got {precision!r}")
    return getattr(torch, precision)


def multiplies_bfloat16() -> bool:
    """True if this processor has instructions for bfloat16 products: AMX, or AVX-512's."""
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def init_convolutions(module: nn.Module) -> None:
    """Normal weights with deviation sqrt(2 / (k k (in + out))), as in the released code."""
    for conv in module.modules():
        if isinstance(conv, nn.Conv2d):
            area = conv.kernel_size[0] * conv.kernel_size[1]
            nn.init.normal_(conv.weight, std=math.sqrt(2 / (area * (conv.in_channels + conv.out_channels))))
            nn.init.zeros_(conv.bias)


class MultitaskCNN(nn.Module):
    """The encoder with its three heads. Forward gives a dict, each at the resolution of the second pool:

    class_logits (B, num_classes, h, w); depth (B, h, w) in 0..1, times MAX_DEPTH_M is metres; rgb (B, 3, h, w) in 0..1.
    Pixel (i, j) of an output is centred on the frame's point (4 i + 8, 4 j + 8), see `to_output_grid`. `grid` asks for
    a part of the outputs, every `grid.stride`-th row and column, which makes learning cheaper.
    """

    def __init__(self, encoder: Encoder, num_classes: int, *, trunk_channels: int = 512, dropout: float = 0.5):
        super().__init__()
        self.encoder, self.num_classes = encoder, num_classes
        if min(encoder.map_sizes[-1]) < KERNEL:
            got = f"{encoder.height_px}x{encoder.width_px}"
            raise ValueError(f"frame size: expected at least 140 pixels a side for the heads, got {got}")
        _, pool2, pool3, pool4 = encoder.channels
        outputs = num_classes + 1 + 3  # one convolution computes the scores of the three heads side by side
        self.trunk = nn.Sequential(
            nn.Conv2d(pool4, trunk_channels, KERNEL),
            nn.BatchNorm2d(trunk_channels),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
            nn.Conv2d(trunk_channels, trunk_channels, 1),
            nn.BatchNorm2d(trunk_channels),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
            nn.Conv2d(trunk_channels, outputs, 1),
        )
        self.score_pool3 = nn.Conv2d(pool3, outputs, 1)
        self.score_pool2 = nn.Conv2d(pool2, outputs, 1)
        for part in (self.trunk, self.score_pool3, self.score_pool2):
            init_convolutions(part)
        for axis, sizes in zip("yx", zip(*encoder.map_sizes, strict=True), strict=True):
            _, size2, size3, size4 = sizes
            to_pool3 = interpolation(size4 - KERNEL + 1, size3, margin=3 * (KERNEL // 2))
            self.register_buffer(f"to_pool3_{axis}", to_pool3, persistent=False)
            to_pool2 = interpolation(size3, size2, margin=KERNEL // 2)
            self.register_buffer(f"to_pool2_{axis}", to_pool2, persistent=False)
        self.to(memory_format=torch.channels_last)

    def forward(self, rgb: UInt8[Tensor, "B H W 3"], grid: Grid = WHOLE) -> dict[str, Tensor]:
        _, pool2, pool3, pool4 = self.encoder.maps(rgb)
        scores = upsample(self.trunk(pool4), self.to_pool3_y, self.to_pool3_x) + self.score_pool3(pool3)
        rows, columns = slice(grid.row, None, grid.stride), slice(grid.column, None, grid.stride)
        scores = upsample(scores, self.to_pool2_y[rows], self.to_pool2_x[columns])
        scores = (scores + self.score_pool2(pool2[:, :, rows, columns])).float()
        class_logits, depth, color = scores.split([self.num_classes, 1, 3], dim=1)
        return {"class_logits": class_logits, "depth": depth.sigmoid().squeeze(1), "rgb": color.sigmoid()}


def interpolation(num_in: int, num_out: int, *, margin: int) -> Float[Tensor, "out in"]:
    """Weights that double a row of pixels linearly and place it `margin` pixels from the start, its ends repeated.

    The convolutions are unpadded, so a deeper map covers the middle of a shallower one. The released code stretches it
    over the whole, which moves its border by several pixels.
    """
    source = ((torch.arange(num_out) - margin + 0.5) / 2 - 0.5).clamp(0, num_in - 1)
    return (1 - (source[:, None] - torch.arange(num_in)).abs()).clamp(min=0)


def upsample(
    x: Float[Tensor, "B C h w"], rows: Float[Tensor, "H h"], columns: Float[Tensor, "W w"]
) -> Float[Tensor, "B C H W"]:
    """Applies `interpolation` along both axes."""
    return torch.einsum("bchw,yh,xw->bcyx", x, rows.to(x.dtype), columns.to(x.dtype))


def to_output_grid(frame: Tensor, size: tuple[int, int], grid: Grid = WHOLE) -> Tensor:
    """Samples a frame (B, H, W, ...) at the centres of the heads' outputs (B, h, w, ...): every fourth pixel from 8.

    `size` is (h, w) of the whole output; `grid` takes a part of it.
    """
    stride, first = 4, 8
    whole = frame[:, first : first + stride * size[0] : stride, first : first + stride * size[1] : stride]
    return whole[:, grid.row :: grid.stride, grid.column :: grid.stride]


def save_encoder(encoder: nn.Module, path: Path, *, half: bool = False, names: PlaceNames | None = None) -> None:
    """Writes weights, sizes and class as safetensors, in float16 if `half`, through a renamed temporary file.

    `names` are what the encoder says of places; `load_encoder` gives them back as its `place_names`.
    """
    metadata = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "class": type(encoder).__name__,
        "arguments": json.dumps(encoder.arguments),
    }
    tensors = {name: value.detach().cpu().contiguous() for name, value in encoder.state_dict().items()}
    if names is not None:
        metadata["names"] = json.dumps([names.classes, names.colors, names.rooms])
        tensors |= {f"{NAMES}.weight": names.weight.detach().cpu(), f"{NAMES}.bias": names.bias.detach().cpu()}
    if half:
        tensors = {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()}
    with atomic_write(Path(path)) as aside:
        safetensors.torch.save_file(tensors, aside, metadata)


def load_encoder(path: Path = WEIGHTS) -> nn.Module:
    """Reads a file of `save_encoder`, in evaluation mode: an `Encoder` unless the file names another `@register` class.

    ValueError names the file and what is wrong with it.
    """
    remedy = "python train.py +experiment=residual_pretrain, or cnn_pretrain, trains one"
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is no dict)
    except (OSError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path}: cannot be read as safetensors ({error}); {remedy}") from None
    found = (metadata.get("format"), metadata.get("version"))
    if found != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"{path}: expected {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}; {remedy}"
        )
    try:
        name, arguments = metadata.get("class", Encoder.__name__), json.loads(metadata["arguments"])
        layer = [tensors.pop(f"{NAMES}.{part}", None) for part in ("weight", "bias")]
        encoder = rebuild({"class": name, "arguments": arguments, "state": tensors})
        if "names" in metadata:
            lists = (tuple(names) for names in json.loads(metadata["names"]))
            encoder.place_names = PlaceNames(*lists, *(values.float() for values in layer))
        return encoder
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: weights do not fit the encoder ({error}); {remedy}") from None
