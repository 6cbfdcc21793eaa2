"""Tests what torch's kernel is asked for: its own causal mask only where it means ours, and heads that are shared."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from glassformer import nn
from glassformer.config import ModelConfig

CONFIG = ModelConfig(vocab_size=11, context_length=12, d_model=8, n_layers=1, n_heads=4, n_kv_heads=2)


@pytest.fixture
def asked(monkeypatch):
    """What the kernel was asked for, call by call."""
    calls, kernel = [], functional.scaled_dot_product_attention

    def noting(q, k, v, **options):
        calls.append({"heads": (q.shape[-3], k.shape[-3]), **options})
        return kernel(q, k, v, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", noting)
    return calls


def read(config, *pieces, **inputs):
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0)).eval()
    cache = model.new_cache(2, 12) if len(pieces) > 1 else None
    with torch.no_grad():
        return [model(torch.zeros(2, n, dtype=torch.long), cache=cache, **inputs) for n in pieces]


def test_a_text_from_its_beginning_needs_no_mask_of_ours(asked):
    read(CONFIG, 5)
    assert asked == [
        {
            "heads": (4, 2),
            "attn_mask": None,
            "is_causal": True,
            "enable_gqa": True,
            "scale": CONFIG.attention_scale,
        }
    ]


def test_a_text_that_goes_on_does(asked):
    """The kernel's mask would let the first of three new ids see only the first of all."""
    read(CONFIG, 4, 3, 1)
    first, several, one = asked
    assert (first["is_causal"], first["attn_mask"]) == (True, None)
    assert not several["is_causal"]
    np.testing.assert_array_equal(several["attn_mask"], np.tri(3, 7, 4, dtype=bool))
    assert one["attn_mask"] is None  # the last position sees everything


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        ({}, {"mask": torch.tensor([[True] * 5, [False] + [True] * 4])}),
        ({"positions": "rope", "sliding_window": 3}, {}),
        ({"positions": "alibi"}, {}),
    ],
    ids=["padding", "window", "bias"],
)
def test_what_else_is_hidden_or_added_goes_into_one_mask(asked, changes, inputs):
    read(CONFIG.replace(**changes), 5, **inputs)
    assert not asked[0]["is_causal"]
    hidden = asked[0]["attn_mask"]
    hidden = ~hidden if hidden.dtype == torch.bool else hidden == -torch.inf
    assert hidden[..., np.triu_indices(5, 1)[0], np.triu_indices(5, 1)[1]].all()


def test_an_encoder_sees_everything(asked):
    read(CONFIG.replace(family="encoder", n_kv_heads=4), 5)
    assert (asked[0]["is_causal"], asked[0]["attn_mask"], asked[0]["enable_gqa"]) == (False, None, False)
