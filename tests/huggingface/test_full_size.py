"""GPT-2 small at the size it was published in."""

import numpy as np
import torch
from ledger import TRANSFORMERS, largest_difference, record
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.huggingface import load
from glassformer.published import published


@torch.no_grad()
def test_gpt2_small(tmp_path):
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(GPT2Config()).eval()
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
