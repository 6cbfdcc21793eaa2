"""Writes the models that readers had before layers could differ, and what they meant, with the package of that time.

    git archive 041c0623 src | tar -x -C OLD
    PYTHONPATH=OLD/src python tests/before/write_models.py

`test_models.py` opens them with the package of today. As with `write.py`, nothing is written anew by a new version.
"""

import base64
import json
import shutil
import sys
from dataclasses import MISSING, asdict, fields
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import save, save_file

BEFORE = Path(__file__).parent
STORED, HUB, PAGE = BEFORE / "models", BEFORE / "hub", BEFORE / "page.safetensors"
MEANT, FIELDS = BEFORE / "meant.safetensors", BEFORE / "fields.json"

SIZES = {"vocab_size": 8, "context_length": 12, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 6}
LLAMA = {
    "positions": "rope", "norm": "rmsnorm", "attention_bias": "none",
    "feedforward": "swiglu", "feedforward_bias": False,
}  # fmt: skip
GROUPED = {"n_heads": 4, "n_kv_heads": 2, "d_head": 4}
LONGER = {"rope_interpolation": 4.0, "rope_original_context": 40, "d_head": 8}
# What readers wrote into ModelConfig besides the SIZES
MODELS = {
    "gpt2": {"n_layers": 2, "d_ff": None, "dropout": 0.1},
    "llama": LLAMA | GROUPED | {"n_layers": 2, "head": "untied"},
    "llama3": LLAMA | LONGER | {"rope_scaling": "llama3", "rope_base": 100.0, "rope_slow": 0.3},
    "mistral": LLAMA | GROUPED | {"n_layers": 2, "sliding_window": 4, "norm_eps": 0.3, "head": "untied"},
    "qwen2": LLAMA | {"attention_bias": "qkv", "sliding_window": 3, "rope_interpolation": 2.5},
    "qwen3": LLAMA | GROUPED | {"qk_norm": True, "rope_base": 50.0},
    "yarn": LLAMA | LONGER | {
        "rope_scaling": "yarn", "rope_base": 30.0, "rope_slow": 0.4, "rope_fast": 2.0, "rope_layout": "interleaved",
        "attention_bias": "all", "feedforward": "geglu",
    },
    "yarn-with-a-factor": LLAMA | LONGER | {
        "rope_scaling": "yarn", "rope_base": 30.0, "rope_attention_factor": 1.4, "feedforward": "geglu_tanh",
    },
    "gpt-j": {
        "positions": "rope", "rope_layout": "interleaved", "rope_scaling": "llama3", "rope_interpolation": 3.0,
        "rope_fast": 1.5, "rope_base": 20.0, "d_head": 6, "norm_placement": "post",
    },
    "bloom": {
        "positions": "alibi", "n_heads": 4, "n_kv_heads": 1, "sliding_window": 5, "norm_eps": 0.2,
        "feedforward": "gelu", "embedding_norm": True, "head_bias": True, "head_scale": 0.4,
    },
    "t5-decoder": {
        "positions": "t5", "t5_n_buckets": 6, "t5_max_distance": 5, "sliding_window": 6, "norm": "layernorm_sigma",
        "norm_eps": 0.4, "attention_bias": "qkv", "feedforward": "geglu_tanh",
    },
    "no-positions": {
        "positions": "none", "qk_norm": True, "norm": "rmsnorm", "norm_placement": "post", "norm_eps": 0.1,
        "attention_bias": "qkv", "feedforward": "geglu", "embedding_norm": True, "head": "none",
    },
    "sinusoids": {
        "positions": "sinusoidal", "embedding_scale": 2.5, "norm": "layernorm_sigma", "norm_placement": "post",
        "attention_bias": "none", "feedforward": "relu", "head": "untied", "head_transform": True,
    },
    "bert": {
        "family": "encoder", "n_segments": 2, "embedding_norm": True, "norm_placement": "post", "norm_eps": 0.05,
        "feedforward": "gelu", "head_bias": True, "head_transform": True, "pooler": True, "dropout": 0.2,
    },
    "alibi-both-ways": {
        "family": "encoder", "positions": "alibi", "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
        "norm": "layernorm_sigma", "feedforward_bias": False, "head": "untied",
    },
    "rope-both-ways": {
        "family": "encoder", "positions": "rope", "norm": "rmsnorm", "qk_norm": True, "head": "none",
    },
    "t5": {
        "family": "encoder-decoder", "n_decoder_layers": 2, "positions": "t5", "t5_n_buckets": 8, "t5_max_distance": 6,
        "d_head": 3, "attention_bias": "none", "attention_scale": 1.0, "norm": "rmsnorm", "norm_eps": 0.1,
        "feedforward": "relu", "feedforward_bias": False, "head_scale": 8**-0.5,
    },
    "vaswani": {
        "family": "encoder-decoder", "positions": "sinusoidal", "n_kv_heads": 1, "norm_placement": "post",
        "feedforward": "relu", "embedding_scale": 8**0.5, "head_bias": True,
    },
    "rope-in-two-stacks": GROUPED | {
        "family": "encoder-decoder", "positions": "rope", "qk_norm": True, "feedforward": "swiglu",
        "embedding_norm": True, "head": "untied",
    },
    "page": LLAMA | {
        "n_layers": 2, "d_head": 6, "rope_base": 200.0, "attention_scale": 0.9, "qk_norm": True, "norm_eps": 0.2,
        "embedding_norm": True, "head": "untied",
    },
}  # fmt: skip
SAVED_FOR_THE_HUB = ("gpt2", "llama", "llama3", "mistral", "qwen2", "qwen3", "bert", "t5")
CHARACTERS = "\n !Abcé€"

IDS = np.array([[1, 4, 2, 0, 2, 7, 3, 3, 5, 6], [0, 0, 6, 1, 5, 3, 2, 7, 7, 4]])
MASK = np.arange(10) >= np.array([[0], [2]])
SEGMENTS = (np.arange(10) > 5) + np.zeros((2, 1), int)
SOURCE = {"source": IDS[[1, 0], :7], "source_mask": MASK[[1, 0], :7]}
PROMPT = 4  # ids that are read at once before the others follow one by one


def config_of(name):
    """Returns what the reader wrote, as the package of today understands it."""
    from glassformer.config import ModelConfig

    return ModelConfig(**SIZES | MODELS[name])


def outputs(model):
    """Returns what a model of either room makes of two texts, one of them padded: "whole" and, if it pools, "pooled".

    A decoder also reads them with a cache, a prompt first and then id after id: "cached". Logits of padding are left
    out, and a model without a head has states instead.
    """
    given = {"ids": IDS, "mask": MASK}
    if model.config.n_segments:
        given["segments"] = SEGMENTS
    if model.config.family == "encoder-decoder":
        given |= SOURCE
    if isinstance(model.token_embedding.weight, np.ndarray):
        return _outputs(model, **given)
    import torch

    with torch.no_grad():
        return _outputs(model, **{name: torch.tensor(array) for name, array in given.items()})


def _outputs(model, ids, mask, **more):
    found = {"whole": np.asarray(model(ids, mask=mask, **more))[MASK]}
    if model.config.pooler:
        found["pooled"] = np.asarray(model.pool(model.hidden(ids, mask=mask, **more)))
    if model.config.family != "encoder":
        if "source" in more:
            more["memory"] = model.encode(more.pop("source"), mask=more["source_mask"])
        cache, steps = model.new_cache(*IDS.shape), []
        for start, end in pairwise((0, *range(PROMPT, IDS.shape[1] + 1))):
            new = model(ids[:, start:end], mask=mask[:, :end], cache=cache, **more)
            steps.append(np.asarray(new))
        found["cached"] = np.concatenate(steps, axis=1)[MASK]
    return found


def weights_of(config, seed):
    """Returns weights that all matter, biases and gains included, and that float32 holds exactly."""
    from glassformer.scratch import Transformer

    generator = np.random.default_rng(seed)
    shapes = {
        name: array.shape for name, array in Transformer(config, generator=None).named_parameters().items()
    }
    return {
        name: generator.normal(size=shape).astype(np.float32).astype(float) * 0.5
        for name, shape in shapes.items()
    }


SAVE = """async (text) => {
  const bytes = bytesOf(text);
  const file = { name: "page.safetensors", size: bytes.length, arrayBuffer: async () => bytes.buffer };
  file.slice = (start, end) => new Blob([bytes.slice(start, end)]);
  const { config, characters, tensors, facts } = await js.opened([file]);
  return textOf(js.written({ config, tokenizer: { characters }, tensors, facts }));
}"""


def saved_in_the_page(weights):
    """Returns the file that a page gives a reader who opens a model there and saves a copy."""
    sys.path += [str(BEFORE.parent / "widgets"), str(BEFORE.parents[1] / "tools")]
    from linking import base64_of, opened
    from playwright.sync_api import sync_playwright
    from shared import browser

    from glassformer.text import CharTokenizer

    facts = {"format": "glassformer model 1", "config": json.dumps(SIZES | MODELS["page"])} | {
        "tokenizer": CharTokenizer(CHARACTERS).to_json(),
        "steps": "5",
    }
    file = save({name: values.astype(np.float32) for name, values in weights.items()}, facts)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
        return base64.b64decode(opened(chromium, "model_file", "untrusted").evaluate(SAVE, base64_of(file)))


def main():
    from glassformer import checkpoints, huggingface
    from glassformer.config import CHOICES, ModelConfig
    from glassformer.train import TrainingConfig

    training = asdict(TrainingConfig(steps=1, batch_size=1))
    meant = {}
    for seed, name in enumerate(MODELS):
        shutil.rmtree(STORED / name, ignore_errors=True)
        config = config_of(name)
        weights = weights_of(config, seed)
        found = checkpoints.Checkpoint(1, config, training, 0, weights, {})
        checkpoints.save(STORED / name, found)
        model = checkpoints.load_model(STORED / name)
        meant |= {f"{name}/{what}": array for what, array in outputs(model).items() if what != "cached"}
        if name in SAVED_FOR_THE_HUB:
            shutil.rmtree(HUB / name, ignore_errors=True)
            huggingface.save(model, HUB / name)
        if name == "page":
            PAGE.write_bytes(saved_in_the_page(weights))
    save_file(meant, MEANT)
    defaults = {
        field.name: None if field.default is MISSING else field.default for field in fields(ModelConfig)
    }
    FIELDS.write_text(json.dumps({"defaults": defaults, "choices": CHOICES}, indent=1) + "\n")


if __name__ == "__main__":
    main()
