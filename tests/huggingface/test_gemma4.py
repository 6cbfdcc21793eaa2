"""Compares whole models of Gemma 4 with transformers in float64: with vectors of each layer, and without."""

import numpy as np
import pytest
import torch
import transformers
from ledger import largest_difference, record

from glassformer.huggingface import config_from_hf, load

from .models import IDS, LLAMA, all_in_double, both_rooms
from .test_attention import GEMMA_ROPE
from .test_parity import CASTS_UNDONE, DOUBLE

WINDOWED, FULL = "sliding_attention", "full_attention"
USUAL = (
    LLAMA
    | IDS
    | {
        "num_hidden_layers": 6,
        "layer_types": [WINDOWED, WINDOWED, FULL] * 2,
        "head_dim": 8,
        "global_head_dim": 16,
        "sliding_window": 5,
        "rope_parameters": GEMMA_ROPE,
        "vocab_size_per_layer_input": 41,
        "rms_norm_eps": 0.1,
    }
)
SETTINGS = {
    "vectors of each layer": {
        "hidden_size_per_layer_input": 4,
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
    },
    "keys as values": {
        "hidden_size_per_layer_input": 0,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "final_logit_softcapping": 2.0,
    },
    "experts": {
        "hidden_size_per_layer_input": 4,
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
        "enable_moe_block": True,
        "num_experts": 7,
        "top_k_experts": 3,
        "moe_intermediate_size": 14,
    },
}


def made(kind):
    """Returns a model of the library with random weights, in float64."""
    config = transformers.Gemma4TextConfig(**USUAL | SETTINGS[kind])
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.Gemma4ForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            is_gain = weight.ndim == 1  # there are no biases
            weight.normal_(1.0 if is_gain else 0.0, 0.2, generator=generator)
        for layer in model.model.layers:
            layer.layer_scalar.uniform_(0.5, 1.5, generator=generator)
    return model


@both_rooms
@pytest.mark.parametrize("kind", SETTINGS)
def test_whole_models(kind, room, tmp_path):
    ids = np.random.default_rng(1).integers(0, 41, (2, 19))
    _ = transformers.Gemma4ForCausalLM  # is imported now, so that its casts are undone, too
    with all_in_double():
        theirs = made(kind)
        theirs.save_pretrained(tmp_path)
        with torch.no_grad():
            expected = theirs(torch.from_numpy(ids)).logits.numpy()
    ours = load(tmp_path, room=room, dtype="float64")
    weights = dict(ours.named_parameters()).values()
    assert ours.config.parameter_count().total == sum(np.prod(weight.shape) for weight in weights)
    with torch.no_grad():
        logits = np.asarray(ours(torch.from_numpy(ids) if room == "nn" else ids))
        cache = ours.new_cache(2, 19)
        steps = [
            np.asarray(ours(torch.from_numpy(part) if room == "nn" else part, cache=cache))
            for part in np.split(ids, [7, 8], axis=1)
        ]
    assert 0.3 < expected.std() < 20
    np.testing.assert_allclose(np.concatenate(steps, axis=1), logits, rtol=0, atol=DOUBLE)
    difference = largest_difference(logits, expected)
    record(
        f"Gemma 4, {kind}: logits", CASTS_UNDONE, "float64", room, difference, DOUBLE, section="Whole models"
    )


def test_what_is_not_built_is_refused():
    given = transformers.Gemma4TextConfig(**USUAL | SETTINGS["vectors of each layer"]).to_dict()
    with pytest.raises(ValueError, match=r"vocab_size_per_layer_input=42 .*vocab_size=41"):
        config_from_hf(given | {"vocab_size_per_layer_input": 42})
    for key in ("num_experts", "top_k_experts", "moe_intermediate_size"):
        with pytest.raises(ValueError, match=f"{key} is missing"):
            config_from_hf(given | {"enable_moe_block": True})
        given[key] = 3
