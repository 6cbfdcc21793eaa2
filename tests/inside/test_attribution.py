"""Tests attribution: the parts add up to the whole, and each agrees with torch's gradient."""

import numpy as np
import pytest
import torch
from close import DOUBLE, SINGLE, assert_close

from glassformer.inside import ablated, cost, logit_attribution, logit_lens, writes
from glassformer.inside.attribution import frozen
from glassformer.scratch.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.trace import trace

from .models import (
    BENT,
    COMPRESSED,
    GATED,
    GPT2,
    MODERN,
    POST,
    SCALED,
    STREAMS,
    SUMS,
    VECTORS,
    build,
    some_ids,
)

EXACT = {np.float64: DOUBLE, np.float32: SINGLE}
precisions = pytest.mark.parametrize("dtype", EXACT)


def logits_of(model, ids, tokens):
    return np.take_along_axis(model(ids), tokens[..., None], axis=-1)[..., 0]


@precisions
@pytest.mark.parametrize("name", SUMS)
def test_the_shares_sum_to_the_logit(name, dtype):
    model, ids = build(SUMS[name], dtype), some_ids(SUMS[name])
    tokens = some_ids(SUMS[name], seed=2)
    expected = logits_of(model, ids, tokens)
    assert_close(sum(logit_attribution(model, ids, tokens).values()), expected, EXACT[dtype])


@pytest.mark.parametrize("name", SUMS)
def test_the_shares_sum_to_the_difference_of_two_logits(name):
    model, ids = build(SUMS[name]), some_ids(SUMS[name])
    tokens, others = some_ids(SUMS[name], seed=2), some_ids(SUMS[name], seed=3)
    expected = logits_of(model, ids, tokens) - logits_of(model, ids, others)
    found = logit_attribution(model, ids, tokens, against=others)
    assert_close(sum(found.values()), expected, DOUBLE)


@precisions
@pytest.mark.parametrize("name", SUMS)
def test_the_writes_sum_to_the_stream(name, dtype):
    model, ids = build(SUMS[name], dtype), some_ids(SUMS[name])
    with trace() as seen:
        model(ids)
    stream = seen.arrays("stream")[-1]
    assert_close(sum(writes(model, ids).values()), stream, EXACT[dtype])


def test_every_part_has_its_name_in_order():
    assert list(writes(build(MODERN.replace(n_layers=1)), some_ids(MODERN))) == [
        "embedding",
        *(f"block 0: head {h}" for h in range(4)),
        "block 0: feed-forward",
    ]
    assert list(logit_attribution(build(GPT2), some_ids(GPT2), 0))[3:] == [
        "block 0: attention bias",
        "block 0: feed-forward",
        "block 1: head 0",
        "block 1: head 1",
        "block 1: attention bias",
        "block 1: feed-forward",
        "biases",
    ]


@pytest.mark.parametrize("name", SUMS)
def test_a_head_writes_what_its_attention_writes_without_the_others(name):
    model, ids = build(SUMS[name]), some_ids(SUMS[name])
    written = writes(model, ids)
    for h in range(model.config.n_heads):
        others = [other for other in range(model.config.n_heads) if other != h]
        with ablated(model, 0, "attention", others), trace() as seen:
            model(ids)
        bias = written.get("block 0: attention bias", 0)
        expected = seen.arrays("write", "attention")[0] - bias
        assert_close(written[f"block 0: head {h}"], expected, DOUBLE)


@pytest.mark.parametrize("name", [name for name, config in SUMS.items() if config.head == "untied"])
def test_a_share_is_the_write_times_the_gradient_with_the_scale_held(name):
    model, ids = build(SUMS[name]), some_ids(SUMS[name])
    config, norm = model.config, model.decoder.norm
    stream = torch.tensor(sum(writes(model, ids).values()), requires_grad=True)
    x = stream if config.norm == "rmsnorm" else stream - stream.mean(-1, keepdim=True)
    square = x.square().mean(-1, keepdim=True)
    size = square.sqrt() + norm.eps if config.norm == "layernorm_sigma" else (square + norm.eps).sqrt()
    normed = x / size.detach() * torch.tensor(norm.weight)
    logit = (config.head_scale * normed) @ torch.tensor(model.unembedding.weight)[:, 3]
    logit.sum().backward()
    shares = logit_attribution(model, ids, 3)
    for part, write in writes(model, ids).items():
        assert_close(shares[part], (write * stream.grad.numpy()).sum(-1), DOUBLE)


@pytest.mark.parametrize("kind", [LayerNorm, SigmaNorm, RMSNorm])
def test_a_frozen_norm_is_linear_and_agrees_with_the_norm(kind):
    rng = np.random.default_rng(0)
    norm = kind(6)
    norm.weight = rng.normal(size=6)
    if kind is not RMSNorm:
        norm.bias = rng.normal(size=6)
    x, part = rng.normal(2, 3, (2, 5, 6))
    held = frozen(norm, x)
    assert_close(held(x), norm(x) - getattr(norm, "bias", 0), DOUBLE)
    assert_close(held(part) + held(x - part), held(x), DOUBLE)


def test_a_norm_frozen_where_all_features_are_equal_gives_zeros():
    assert not frozen(LayerNorm(4), np.full((1, 4), 2.0))(np.arange(4.0)[None]).any()


def test_what_is_no_sum_is_refused():
    ids = some_ids(GPT2)
    with pytest.raises(ValueError, match="norm_placement='post' is not one of 'pre'"):
        logit_attribution(build(POST), ids, 0)
    with pytest.raises(ValueError, match="head_transform=True"):
        writes(build(BENT), ids)
    for config in (GATED, COMPRESSED):
        with pytest.raises(ValueError, match="cannot be taken apart"):
            writes(build(config), ids)
    for config, why in (
        (STREAMS, "3 residual streams"),
        (VECTORS, "layer_emb"),
        (SCALED, "stream_scale mul"),
    ):
        with pytest.raises(ValueError, match=why):
            writes(build(config), ids)
    for instrument in (logit_lens, lambda model, ids: cost(model, ids[0])):
        with pytest.raises(ValueError, match="3 residual streams"):
            instrument(build(STREAMS), ids)
    with pytest.raises(ValueError, match="is not one of"):
        writes(build(MODERN.replace(family="encoder")), ids)


def test_tokens_outside_the_vocabulary_or_of_another_shape_are_refused():
    model, ids = build(GPT2), some_ids(GPT2)
    with pytest.raises(ValueError, match=r"tokens\[\]=11 is outside 0\.\.10"):
        logit_attribution(model, ids, 11)
    with pytest.raises(ValueError, match="against"):
        logit_attribution(model, ids, 0, against=-1)
    with pytest.raises(ValueError, match=r"tokens\.shape=\(7,\) does not match ids\.shape=\(2, 7\)"):
        logit_attribution(model, ids, ids[0])
    with pytest.raises(TypeError, match="tokens must be an array of integers"):
        logit_attribution(model, ids, 1.5)
