"""Tests weights in FP8 and MXFP4: decoded as transformers and torch decode them, loaded in both rooms, or refused."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from close import SINGLE, assert_close
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, _dequantize_fp8_weight
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from glassformer.huggingface import attention_from_hf, config_from_hf, load, save, state_from_hf, unknown_keys
from glassformer.huggingface.files import Weights
from glassformer.huggingface.quantized import BITS_PER_WEIGHT, E4M3, E8M0, Decoded, from_fp8, from_mxfp4

from .models import VOCABULARY, both_rooms, make, numpy

FP8, EXPONENT = torch.float8_e4m3fn, torch.float8_e8m0fnu


def some(*shape, kind=torch.float32, seed=0):
    """Returns random numbers; bytes are of every kind but NaN, scales around 1."""
    generator = torch.Generator().manual_seed(seed)
    if kind == EXPONENT:
        return torch.randint(120, 134, shape, generator=generator, dtype=torch.uint8).view(EXPONENT)
    if kind == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.randn(shape, generator=generator).to(kind)


# What bytes mean


def test_every_byte_means_what_it_means_in_torch():
    bytes_ = torch.arange(256, dtype=torch.uint8)
    for found, kind in ((E4M3, FP8), (E8M0, EXPONENT)):
        expected = bytes_.view(kind).float().numpy()
        np.testing.assert_array_equal(found, expected)  # NaN at the same bytes
        assert found.dtype == np.float32
        signs = np.isfinite(expected)
        np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(expected[signs]))  # also of zeros


def test_mxfp4_nibble_by_nibble():
    """A number is (-1)^s · 2^(e - 1) · (1 + m/2), or m/2 if e is 0, as section 5.3.3 of the specification has it."""
    stored = some(3, 2, 16, kind=torch.uint8).numpy()
    scales = np.array([[0, 127], [128, 250], [1, 100]], np.uint8)
    found = from_mxfp4(stored, scales)
    for r in range(3):
        for c in range(64):
            byte = int(stored[r, c // 32, c % 32 // 2])
            bits = byte // 16 if c % 2 else byte % 16
            sign, e, m = bits // 8, bits // 2 % 4, bits % 2
            size = 2.0 ** (e - 1) * (1 + m / 2) if e else m / 2
            assert found[r, c] == np.float32((-1) ** sign * size * 2.0 ** (int(scales[r, c // 32]) - 127))


def test_experts_in_mxfp4_are_those_of_transformers(tmp_path):
    """Both with few rows, and with more than are decoded at once."""
    state = {"e.gate_up_proj_bias": some(3, 8)}
    for name, R in (("gate_up_proj", 6), ("down_proj", 1500)):
        state[f"e.{name}_blocks"] = some(3, R, 2, 16, kind=torch.uint8)
        state[f"e.{name}_scales"] = some(3, R, 2, kind=EXPONENT).view(torch.uint8)
    save_file(state, tmp_path / "model.safetensors")
    for read in (Decoded(Weights(tmp_path)), Decoded(state)):
        assert dict(read.shapes) == {
            "e.gate_up_proj": (3, 64, 6),
            "e.down_proj": (3, 64, 1500),
            "e.gate_up_proj_bias": (3, 8),
        }
        assert set(read) == set(read.shapes)
        assert "e.down_proj_scales" not in read
        for name in ("gate_up_proj", "down_proj"):
            stored = state[f"e.{name}_blocks"], state[f"e.{name}_scales"]
            expected = convert_moe_packed_tensors(*stored, dtype=torch.float32)
            np.testing.assert_array_equal(numpy(read[f"e.{name}"]), expected)


SIZES = {
    "whole blocks": ((256, 384), (2, 3), torch.float32),
    "blocks that are cut off": ((200, 390), (2, 4), torch.float32),
    "fewer than a block": ((5, 7), (1, 1), torch.bfloat16),
    "powers of two": ((130, 129), (2, 2), EXPONENT),
    "many rows": ((2100, 130), (17, 2), torch.float32),
    "experts": ((3, 130, 256), (3, 2, 2), torch.float32),
}


@pytest.mark.parametrize("case", SIZES)
def test_blocks_are_those_of_transformers(case):
    shape, grid, kind = SIZES[case]
    stored, scales = some(*shape, kind=FP8), some(*grid, kind=kind, seed=1)
    expected = _dequantize_fp8_weight(stored, scales.float(), [128, 128], torch.float32)
    found = Decoded({"x.weight": stored, "x.weight_scale_inv": scales})["x.weight"]
    np.testing.assert_array_equal(found, expected)
    if len(shape) == 2:  # number by number
        factors = scales.float().numpy()
        for r, c in np.random.default_rng(0).integers(0, shape, (50, 2)):
            assert found[r, c] == np.float32(stored[r, c].float()) * factors[r // 128, c // 128]


OTHER_SCALES = {
    "one": ((9, 6), (), "weight_scale_inv", FP8),
    "one in a list": ((9, 6), (1,), "weight_scale", FP8),
    "one for each row": ((1500, 6), (1500, 1), "weight_scale", FP8),
    "one for each half": ((8, 6), (2, 1), "weight_scale", FP8),
    "for 32 in a row": ((9, 64), (9, 2), "scale", torch.int8),
}


@pytest.mark.parametrize("case", OTHER_SCALES)
def test_other_scales_are_those_of_transformers(case):
    shape, grid, name, kind = OTHER_SCALES[case]
    if kind == torch.int8:
        stored, scales = some(9, 32, kind=torch.uint8).view(torch.int8), some(*grid, kind=EXPONENT)
    else:
        stored, scales = some(*shape, kind=kind), some(*grid, seed=1)
    expected = Fp8Dequantize(None)._dequantize_one(stored, scales, torch.float32)
    read = Decoded({"x.weight": stored, f"x.{name}": scales, "x.input_scale": some()}, None)
    assert read.shapes == {"x.weight": shape}
    np.testing.assert_array_equal(read["x.weight"], expected.reshape(shape))


def test_a_weight_takes_as_many_bits_as_is_said():
    n = 512 * 512
    assert BITS_PER_WEIGHT["fp8"] * n == 8 * (n + 4 * 4 * 4)
    assert BITS_PER_WEIGHT["mxfp4"] * n == 8 * (n // 2 + n // 32)
    assert from_mxfp4(np.zeros((512, 16, 16), np.uint8), np.zeros((512, 16), np.uint8)).size == n
    assert from_fp8(np.zeros((512, 512), np.uint8), np.ones((4, 4), np.float32), (128, 128)).size == n


# Models

SIZES_OF_A_MODEL = {"hidden_size": 136, "intermediate_size": 272, "head_dim": 8}
OF_FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head"],
}
OF_COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "float", "num_bits": 8}}},
    "ignore": ["lm_head"],
}


def quantized(weight, name, method):
    """Returns a matrix in FP8 and its scales; the largest number of each block, or row, becomes 448."""
    R, C = weight.shape
    rows, columns = (128, 128) if method == "fp8" else (1, C)
    grid = torch.zeros(math.ceil(R / rows), math.ceil(C / columns))
    stored = torch.empty(R, C, dtype=FP8)
    for i in range(len(grid)):
        for j in range(grid.shape[1]):
            here = slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns)
            grid[i, j] = weight[here].abs().max() / 448
            stored[here] = (weight[here] / grid[i, j]).to(FP8)
    ending = "_scale_inv" if method == "fp8" else "_scale"
    return {name: stored, name + ending: grid}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns folders of a small model, quantized, by method, and of transformers with the decoded weights."""
    made = {}
    for method, case, settings in (("fp8", "qwen3", OF_FP8), ("compressed-tensors", "llama", OF_COMPRESSED)):
        folder = tmp_path_factory.mktemp(method)
        theirs = make(case, **SIZES_OF_A_MODEL)
        theirs.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
        state, given = {}, load_file(folder / "model.safetensors")
        for name, weight in given.items():
            state |= quantized(weight, name, method) if "proj" in name else {name: weight}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        for name in given:
            if "proj" in name:
                scales = state[name + ("_scale_inv" if method == "fp8" else "_scale")]
                block = [128, 128] if method == "fp8" else [1, given[name].shape[1]]
                given[name] = _dequantize_fp8_weight(state[name], scales, block, torch.float32)
        theirs.load_state_dict(given, strict=False)
        made[method] = folder, theirs, given
    return made


@both_rooms
@pytest.mark.parametrize("method", ["fp8", "compressed-tensors"])
def test_a_quantized_model_computes_what_one_with_decoded_weights_does(tmp_path, folders, method, room):
    folder, theirs, given = folders[method]
    model = load(folder, room=room)
    expected = state_from_hf(model.config, given)
    weights = dict(model.named_parameters())
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        np.testing.assert_array_equal(numpy(weight), expected[name])
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (2, 9))
    logits = theirs(torch.from_numpy(ids)).logits.detach().numpy()
    given_ids = ids if room == "scratch" else torch.from_numpy(ids)
    assert_close(numpy(model(given_ids)), logits, within=SINGLE)

    save(model, tmp_path)  # not quantized any more
    config = json.loads((tmp_path / "config.json").read_text())
    assert "quantization_config" not in config
    saved = Weights(tmp_path)
    assert set(saved.types.values()) == {"F32"}
    assert saved.keys() == given.keys()
    for name in given:
        np.testing.assert_array_equal(saved[name], given[name])


@both_rooms
def test_attention_and_states_are_decoded_too(folders, room):
    folder, _, given = folders["fp8"]
    config = json.loads((folder / "config.json").read_text())
    model = load(folder, room=room)
    for state in (Weights(folder), load_file(folder / "model.safetensors")):
        layer = attention_from_hf(config, state, 1, room=room)
        for name, weight in dict(layer.named_parameters()).items():
            whole = dict(model.named_parameters())[f"decoder.blocks.1.attention.{name}"]
            np.testing.assert_array_equal(numpy(weight), numpy(whole))
    found = state_from_hf(model.config, load_file(folder / "model.safetensors"))
    for name, weight in state_from_hf(model.config, given).items():
        assert torch.is_tensor(found[name])
        np.testing.assert_array_equal(found[name], weight)


# What is refused

Q = "model.layers.0.self_attn.q_proj.weight"


def without_scale(state):
    del state[f"{Q}_scale_inv"]


def without_weight(state):
    del state[Q]


def of_a_float(state):
    state[Q] = state[Q].bfloat16()


def too_few(state):
    state[f"{Q}_scale_inv"] = state[f"{Q}_scale_inv"][:, :1]


def too_deep(state):
    state[f"{Q}_scale_inv"] = state[f"{Q}_scale_inv"][None]


def of_integers(state):
    state[f"{Q}_scale_inv"] = state[f"{Q}_scale_inv"].int()


def not_a_number(state):
    state[Q].view(torch.uint8)[3, 4] = 0x7F


def too_large(state):
    state[Q].view(torch.uint8)[:] = 0
    state[Q].view(torch.uint8)[3, 4] = 0x7E
    state[f"{Q}_scale_inv"] = torch.full((1, 2), 1e17)


def blocks_alone(state):
    state["experts.up_blocks"] = some(2, 3, 1, 16, kind=torch.uint8)


def scales_alone(state):
    state["experts.up_scales"] = some(2, 3, 1, kind=torch.uint8)


def blocks_too_short(state):
    blocks_alone(state)
    state["experts.up_scales"] = some(2, 3, 2, kind=torch.uint8)


def twice(state):
    blocks_alone(state)
    scales_alone(state)
    state["experts.up"] = some(2, 3)


DAMAGES = {
    without_scale: f"{Q}_scale_inv is missing, the scale of {Q}",
    without_weight: f"{Q}_scale_inv is a scale, but there is no quantized weight",
    of_a_float: f"{Q}_scale_inv is a scale, but there is no quantized weight",
    too_few: rf"{Q} \(F8_E4M3, \(32, 136\)\) and {Q}_scale_inv \(F32, \(1, 1\)\) do not fit",
    too_deep: rf"{Q}_scale_inv \(F32, \(1, 1, 2\)\) do not fit",
    of_integers: rf"{Q}_scale_inv \(I32, \(1, 2\)\) do not fit",
    not_a_number: f"{Q} contains nan at 3, 4",
    too_large: f"{Q} contains 4.48e\\+19 at 3, 4",
    blocks_alone: "experts.up_scales is missing, the scale of experts.up_blocks",
    scales_alone: "experts.up_scales is a scale, but there is no quantized weight",
    blocks_too_short: r"experts.up_blocks \(U8, \(2, 3, 1, 16\)\) and experts.up_scales \(U8, \(2, 3, 2\)\) do not fit",
    twice: "experts.up_blocks .* do not fit",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files(tmp_path, folders, damage):
    shutil.copytree(folders["fp8"][0], tmp_path, dirs_exist_ok=True)
    state = load_file(tmp_path / "model.safetensors")
    damage(state)
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"^{tmp_path}.*{DAMAGES[damage]}"):
        load(tmp_path)


METHODS = [
    (
        {"quant_method": "gptq", "bits": 4},
        r"quant_method='gptq' is not .*GPTQ, integers.*only a file that is not",
    ),
    ({"quant_method": "awq"}, "this is AWQ"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "this is bitsandbytes"),
    ({"quant_method": "new"}, "not known here. Known are fp8, mxfp4, compressed-tensors"),
    ({"bits": 4}, "quantization_config={'bits': 4} is not .*quant_method is missing"),
    ([], "quant_method is missing"),
    (OF_FP8 | {"fmt": "e5m2"}, "quantization_config.fmt='e5m2'"),
    (OF_FP8 | {"weight_block_size": [128]}, r"\[128\] must be the rows and columns of a block"),
    (OF_FP8 | {"weight_block_size": [1, True]}, "must be the rows and columns"),
    (OF_COMPRESSED | {"format": "pack-quantized"}, "quantization_config.format='pack-quantized'"),
    (
        OF_COMPRESSED | {"config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 8}}}},
        "config_groups=",
    ),
    (OF_COMPRESSED | {"config_groups": None}, "config_groups=None"),
]


@pytest.mark.parametrize(("settings", "why"), METHODS)
def test_other_methods_are_refused_by_name(folders, settings, why):
    given = json.loads((folders["fp8"][0] / "config.json").read_text())
    with pytest.raises(ValueError, match=why):
        config_from_hf(given | {"quantization_config": settings})
    assert config_from_hf(given | {"quantization_config": settings}, ignore=["quantization_config"])


def test_every_key_of_a_method_is_accounted_for(folders):
    given = json.loads((folders["fp8"][0] / "config.json").read_text())
    assert unknown_keys(given) == []
    settings = OF_FP8 | {"new": 1}
    with pytest.raises(ValueError, match=r"^quantization_config\.new=1 is not known here.*ignore=\["):
        config_from_hf(given | {"quantization_config": settings})
    config_from_hf(given | {"quantization_config": settings}, ignore=["quantization_config.new"])
    config_from_hf(
        given | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    )
