"""The encoder: its sizes, its frozen form, its heads while it is pretrained, and its weights' file."""

import pytest
import safetensors.torch
import torch

from eqa.models.encoders.cnn import (
    Encoder,
    Grid,
    MultitaskCNN,
    inference_dtype,
    interpolation,
    load_encoder,
    save_encoder,
    to_output_grid,
    upsample,
)
from tests.helpers.some_frames import frames, lived_in


def test_encoder_has_the_papers_sizes():
    encoder = Encoder()
    assert encoder.feature_size == 3200
    assert sum(p.numel() for p in encoder.parameters()) == 42464
    assert encoder(frames(2)).shape == (2, 3200)
    assert Encoder(112, 96).feature_size == 32 * 3 * 2


@pytest.mark.parametrize("size", [(224, 224), (112, 97)])
def test_folding_batch_norm_and_pooling_changes_nothing(size):
    encoder = lived_in(Encoder(*size))
    rgb = frames(2)[:, : size[0], : size[1]]
    with torch.no_grad():
        expected = encoder(rgb)
    found = encoder.for_inference("float32")(rgb)
    assert (found - expected).norm() / expected.norm() < 1e-5
    rough = encoder.for_inference("bfloat16")(rgb)
    assert rough.dtype == torch.float32
    assert (rough - expected).norm() / expected.norm() < 0.02


def test_encoder_refuses_frames_of_another_kind():
    with pytest.raises(ValueError, match=r"expected uint8 \(B, 224, 224, 3\), got torch.uint8 \(1, 100, 100, 3\)"):
        Encoder()(frames(1, 100))
    with pytest.raises(ValueError, match="at least 76"):
        Encoder(60, 60)
    with pytest.raises(ValueError, match="precision"):
        Encoder(112, 112).for_inference("int8")


def test_heads_predict_at_the_second_pool_and_in_range():
    model = MultitaskCNN(Encoder(), 11, trunk_channels=8)
    outputs = model(frames(2))
    assert outputs["class_logits"].shape == (2, 11, 53, 53)
    assert outputs["depth"].shape == (2, 53, 53)
    assert outputs["rgb"].shape == (2, 3, 53, 53)
    assert 0 <= outputs["depth"].min() and outputs["rgb"].max() <= 1


def test_output_pixels_are_centred_where_their_target_is_sampled():
    encoder = lived_in(Encoder())
    rgb = torch.zeros(1, 224, 224, 3, dtype=torch.uint8, requires_grad=False)
    blank = encoder.maps(rgb)[1]
    marker = to_output_grid(torch.arange(224 * 224).view(1, 224, 224), (53, 53))[0, 20, 31]
    rgb.view(-1, 3)[marker] = 255
    reached = (encoder.maps(rgb)[1] - blank).abs().sum(1)[0].nonzero().float()
    middle = (reached.min(0).values + reached.max(0).values) / 2
    assert (middle - torch.tensor([20.0, 31.0])).abs().max() <= 0.5


def test_a_part_of_the_outputs_is_what_the_whole_has_there():
    model = MultitaskCNN(Encoder(), 11, trunk_channels=8).eval()
    rgb, grid = frames(2), Grid(stride=2, row=1, column=0)
    with torch.no_grad():
        whole, part = model(rgb), model(rgb, grid)
    for name, value in part.items():
        torch.testing.assert_close(value, whole[name][..., 1::2, ::2], rtol=1e-4, atol=1e-5)
    numbers = torch.arange(224 * 224).view(1, 224, 224)
    assert torch.equal(to_output_grid(numbers, (53, 53), grid), to_output_grid(numbers, (53, 53))[:, 1::2, ::2])


def test_upsampling_is_bilinear_and_keeps_a_deeper_map_centred():
    small = torch.randn(1, 2, 24, 24)
    weights = interpolation(24, 53, margin=2)
    large = upsample(small, weights, weights)
    plain = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
    torch.testing.assert_close(large[:, :, 2:50, 2:50], plain)
    torch.testing.assert_close(large[:, :, 0], large[:, :, 2])
    torch.testing.assert_close(large[:, :, :, 52], large[:, :, :, 49])


def test_encoder_survives_saving_and_loading(tmp_path):
    encoder = lived_in(Encoder(112, 96))
    save_encoder(encoder, tmp_path / "e.safetensors")
    again = load_encoder(tmp_path / "e.safetensors")
    rgb = frames(1)[:, :112, :96]
    assert not again.training
    assert torch.equal(again(rgb), encoder(rgb))
    assert [p.name for p in tmp_path.iterdir()] == ["e.safetensors"]


def test_foreign_damaged_and_missing_encoder_files_are_refused(tmp_path):
    path = tmp_path / "e.safetensors"
    with pytest.raises(ValueError, match="cnn_pretrain"):
        load_encoder(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        load_encoder(path)
    safetensors.torch.save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="expected eqa-encoder version 1, got None"):
        load_encoder(path)
    encoder = Encoder()
    encoder.arguments["channels"] = [8, 16, 32, 33]
    save_encoder(encoder, path)
    with pytest.raises(ValueError, match="do not fit"):
        load_encoder(path)


@pytest.mark.parametrize(("amx", "avx512", "dtype"), [(1, 0, "bfloat16"), (0, 1, "bfloat16"), (0, 0, "float32")])
def test_a_processor_that_multiplies_bfloat16_is_given_it(monkeypatch, amx, avx512, dtype):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: bool(amx))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bool(avx512))
    assert inference_dtype("auto", torch.device("cpu")) == getattr(torch, dtype)
    assert inference_dtype("float32", torch.device("cpu")) == torch.float32
