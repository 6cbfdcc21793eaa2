"""Tests files of models that also read images: the part that reads text is read alone, under its names in all forms."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

from glassformer.huggingface import load, stop_ids
from glassformer.huggingface.families import OF_SEVERAL_PARTS

from .models import CASES, IDS, all_in_double, ask_ours, ask_theirs, batch, both_rooms, numpy
from .test_gemma4 import SETTINGS, USUAL

QWEN_EYES = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2, "out_hidden_size": 24}
EYES = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "head_dim": 4,
    "image_size": 8,
    "patch_size": 4,
}
SEEING = {
    "qwen3_5": ("Qwen3_5", CASES["qwen3_5-delta"].settings, QWEN_EYES),
    "qwen3_5_moe": ("Qwen3_5Moe", CASES["qwen3_5_moe"].settings, QWEN_EYES),
    "gemma3": ("Gemma3", CASES["gemma3"].settings | {"model_type": "gemma3_text"}, EYES),
    "gemma4": (
        "Gemma4",
        USUAL | SETTINGS["vectors of each layer"] | {"model_type": "gemma4_text", "pad_token_id": 0},
        EYES | {"global_head_dim": 4, "num_key_value_heads": 2, "model_type": "gemma4_vision"},
    ),
    "mistral3": (
        "Mistral3",
        CASES["ministral3"].settings | {"model_type": "ministral3"},
        EYES | {"model_type": "pixtral"},
    ),
}
"""By model_type: the class, the settings of its text_config, and small ones of the part for images."""


def seeing(wrapper):
    """Returns a model of the library that also reads images, with random weights."""
    name, text, vision = SEEING[wrapper]
    kind = getattr(transformers, f"{name}ForConditionalGeneration")
    text = IDS | text | {"eos_token_id": 7, "tie_word_embeddings": False}
    config = kind.config_class(text_config=text, vision_config=vision, tie_word_embeddings=False)
    for one in (config, config.text_config):
        one._experts_implementation = one._attn_implementation = "eager"
    theirs = kind(config).double().eval()
    for weight in theirs.parameters():
        weight.data.normal_(0, 0.2, generator=torch.Generator().manual_seed(weight.numel()))
    return theirs


def test_every_wrapper_is_tried():
    assert SEEING.keys() == OF_SEVERAL_PARTS.keys()


@both_rooms
@pytest.mark.parametrize("wrapper", SEEING)
@torch.no_grad()
def test_a_model_that_also_reads_images_is_read_without_them(tmp_path, wrapper, room):
    seeing(wrapper)  # imports its module, so that the casts there are undone, too
    with all_in_double():
        theirs = seeing(wrapper)
        theirs.save_pretrained(tmp_path)
        given = batch("llama", False)
        expected = numpy(ask_theirs("llama", theirs, given)[0])
    path = tmp_path / "model.safetensors"
    saved = load_file(path)
    text = (
        "model.language_model.",
        "language_model.",
        "lm_head.",
        "model.layers.",
        "model.embed",
        "model.norm",
    )
    assert any(not name.startswith(text) for name in saved)  # there are others

    def assert_read():
        logits = numpy(ask_ours(room, load(tmp_path, room=room, dtype="float64"), given)[0])
        assert np.abs(logits - expected).max() < 1e-13

    assert expected.std() > 0.1
    assert_read()
    assert stop_ids(tmp_path) == [7]
    # as it is in memory, and as older files have it
    state = {name: numpy(weight).copy() for name, weight in theirs.state_dict().items()}
    assert any(name.startswith("model.language_model.layers.0.") for name in state)
    save_file(state, path)
    assert_read()
    for new, old in (
        ("model.language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
    ):
        state = {name.replace(new, old, 1) if name.startswith(new) else name: w for name, w in state.items()}
    save_file({name: w for name, w in state.items() if "tied" not in name}, path)
    assert_read()


@pytest.mark.parametrize("wrapper", SEEING)
def test_what_a_wrapper_says_is_accounted_for(tmp_path, wrapper):
    seeing(wrapper).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    whole = json.loads(path.read_text())
    text = whole["text_config"] | {"tie_word_embeddings": True}
    whole |= {"tie_word_embeddings": True, "text_config": text}
    for change, why in (
        ({"new": 3}, "new=3 is not known"),
        ({"model_type": "qwen9"}, "'qwen9' is not one of"),
        ({"tie_word_embeddings": False}, "contradicts text_config.tie_word_embeddings"),
        ({"text_config": text | {"new": 3}}, "new=3 is not known"),
    ):
        path.write_text(json.dumps(whole | change))
        with pytest.raises(ValueError, match=why):
            load(tmp_path)
