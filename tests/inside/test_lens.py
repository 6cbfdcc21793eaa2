"""Compares the logit lens with the other room, read by torch's hooks."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer import scratch
from glassformer.inside import logit_lens

from .models import DECODERS, GPT2, MODERN, build, in_torch, some_ids


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "several streams"])
def test_the_last_view_is_what_the_model_says(name):
    model, ids = build(DECODERS[name], np.float32), some_ids(DECODERS[name])
    views = logit_lens(model, ids)
    assert views.shape == (model.config.n_layers + 1, *ids.shape, model.config.vocab_size)
    np.testing.assert_array_equal(views[-1], model(ids))


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "several streams"])
def test_each_view_is_the_final_norm_and_head_on_what_leaves_a_block(name):
    model, ids = build(DECODERS[name]), some_ids(DECODERS[name])
    twin = in_torch(model)
    streams = []
    twin.decoder.blocks[0].register_forward_pre_hook(lambda _, inputs: streams.append(inputs[0]))
    for block in twin.decoder.blocks:
        block.register_forward_hook(lambda *given: streams.append(given[-1]))
    with torch.no_grad():
        twin(torch.from_numpy(ids))
        norm = twin.decoder.norm or torch.nn.Identity()
        expected = [twin.head(norm(stream)) for stream in streams]
    assert_close(logit_lens(model, ids), torch.stack(expected), DOUBLE)


def test_a_single_text_needs_no_batch():
    model, ids = build(GPT2), some_ids(GPT2)
    assert_close(logit_lens(model, ids[0]), logit_lens(model, ids)[:, 0], DOUBLE)


def test_what_no_lens_can_read_is_refused():
    ids = some_ids(GPT2)
    with pytest.raises(ValueError, match="family='encoder' is not one of 'decoder'"):
        logit_lens(build(GPT2.replace(family="encoder")), ids)
    with pytest.raises(ValueError, match="no head"):
        logit_lens(build(GPT2.replace(head="none")), ids)
    with pytest.raises(ValueError, match=r"in training with dropout=0\.1: call model\.eval\(\)"):
        logit_lens(build(GPT2.replace(dropout=0.1)).train(), ids)
    with pytest.raises(TypeError, match="must be a Transformer"):
        logit_lens("gpt2", ids)
    with pytest.raises(TypeError, match="ids must be an array of integers"):
        logit_lens(build(GPT2), ids * 1.0)


def test_a_model_in_training_without_dropout_is_read_and_stays_in_training():
    model = scratch.Transformer(MODERN, generator=np.random.default_rng(0))
    logit_lens(model, some_ids(MODERN))
    assert model.training
