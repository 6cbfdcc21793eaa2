"""Tests GPT-2 small at its published size."""

import numpy as np
import torch
from ledger import TRANSFORMERS, largest_difference, record
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.initialization import no_init_weights

from glassformer.huggingface import load
from glassformer.published import published


@torch.no_grad()
def test_gpt2_small(tmp_path):
    with no_init_weights():
        theirs = GPT2LMHeadModel(GPT2Config()).eval()
    theirs.tie_weights()
    # A million random numbers, again and again: to draw all takes longer than to compute with them.
    numbers, begins = 0.02 * torch.randn(1_000_003, generator=torch.Generator().manual_seed(0)), 0
    for name, weight in theirs.named_parameters():
        many = numbers.roll(-begins).repeat(weight.numel() // len(numbers) + 1)
        weight.copy_(many[: weight.numel()].view(weight.shape))
        begins += weight.numel()
        if "ln_" in name and name.endswith("weight"):
            weight += 1
    theirs.transformer.wte.weight *= 2  # logits of order one
    theirs.save_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(0, 50_257, (2, 24))
    expected = theirs(torch.from_numpy(ids)).logits.numpy()
    assert 0.5 < expected.std() < 5
    del theirs  # half a gigabyte
    for room in ("scratch", "nn"):
        ours = load(tmp_path, room=room)
        weights = dict(ours.named_parameters()).values()
        assert sum(int(np.prod(weight.shape)) for weight in weights) == 124_439_808
        assert ours.config.replace(dropout=0.0) == published("gpt2").config
        logits = np.asarray(ours(ids if room == "scratch" else torch.from_numpy(ids)))
        difference = largest_difference(logits, expected)
        component = "GPT-2 small, 124,439,808 parameters: logits"
        dtype = str(logits.dtype)
        record(component, TRANSFORMERS, dtype, room, difference, 1e-5, section="Whole models")
        del ours, weights
