"""Makes small models of one's own for the tests, with weights from a seed, and their files."""

import numpy as np
import torch
from safetensors.numpy import save

from glassformer import nn, tasks, train
from glassformer.config import ModelConfig
from glassformer.scratch import Transformer
from glassformer.text import CharTokenizer

CHARACTERS = "\n !,.:AIabdefghiklmnoprstuvwxy"
TOKENIZER = CharTokenizer(CHARACTERS)
SIZES = {
    "vocab_size": len(CHARACTERS),
    "context_length": 40,
    "d_model": 16,
    "n_layers": 2,
    "n_heads": 2,
    "d_ff": 24,
    "positions": "rope",
    "norm": "rmsnorm",
    "attention_bias": "none",
    "feedforward": "swiglu",
    "feedforward_bias": False,
    "head": "untied",
    "qk_norm": True,
    "embedding_norm": True,
}


def small(seed=0, *, dtype=np.float32, **changes):
    """Returns a small decoder, in float32 unless told otherwise."""
    config = ModelConfig(**SIZES | changes)
    return Transformer(config, generator=np.random.default_rng(seed), dtype=dtype)


def in_one_file(model, characters=CHARACTERS, *, dtype=np.float32, **metadata):
    """Returns the bytes of a model file; None leaves a text out of its metadata."""
    weights = {name: values.astype(dtype) for name, values in model.named_parameters().items()}
    texts = {
        "format": "glassformer model 1",
        "config": model.config.to_json(),
        "tokenizer": CharTokenizer(characters).to_json(),
        "steps": "5",
    } | metadata
    return save(weights, metadata={name: text for name, text in texts.items() if text is not None})


def in_a_file(folder, model, name="my-gpt.safetensors", **options):
    """Writes a model file into a folder, and returns its path as a text."""
    path = folder / name
    path.write_bytes(in_one_file(model, **options))
    return str(path)


def trained(folder, *, tokenizer=TOKENIZER, dtype=torch.float32, **changes):
    """Trains for four steps with a checkpoint every two, in a folder, which it returns."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Transformer(ModelConfig(**SIZES | changes), generator=generator, dtype=dtype)
    ids = np.arange(300) * 7 % len(CHARACTERS)
    settings = train.TrainingConfig(
        steps=4, batch_size=2, evaluate_every=0, save_every=2, device="cpu", ema=0.5
    )
    task = tasks.NextToken(ids, 8, 2, 0)
    train.Trainer(model, task, settings, folder, tokenizer=tokenizer, progress=False).run()
    return folder
