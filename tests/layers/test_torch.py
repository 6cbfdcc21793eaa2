"""Tests dropout in PyTorch: where a model drops, how much, and nothing else."""

import numpy as np
import pytest
import torch

import glassformer.nn as gnn
from glassformer.config import ModelConfig
from glassformer.trace import trace

from .rooms import NN

RATE = 0.4


def what_was_dropped(found, whole):
    """Returns where numbers were replaced by zeros. All others must be the numbers of `whole`, divided by 1 − RATE."""
    zero = found == 0
    torch.testing.assert_close(found[~zero], whole[~zero] / (1 - RATE), rtol=1e-9, atol=1e-12)
    five_standard_errors = 5 * (RATE * (1 - RATE) / zero.numel()) ** 0.5
    assert abs(zero.double().mean() - RATE) < five_standard_errors
    for axis in (-1, 1):  # number by number, and not a whole position or feature at once
        assert 0 < zero.sum(axis).min() <= zero.sum(axis).max() < zero.shape[axis]
    return zero


def places_of(stack, streams, memory):
    """Returns, for each place with dropout, in order, what was added to the stream and what it is without dropout."""
    parts = []
    for block in stack.blocks:
        parts += [(block.norm_attention, block.attention)]
        if block.cross_attention is not None:
            parts += [(block.norm_cross_attention, lambda x, b=block: b.cross_attention(x, memory=memory))]
        parts += [(block.norm_feedforward, block.feedforward)]
    for (norm, part), before, after in zip(parts, streams[:-1], streams[1:], strict=True):
        yield after - before, part(norm(before))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("family", ["decoder", "encoder", "encoder-decoder"])
def test_in_training_it_drops_embeddings_and_what_each_sublayer_adds_and_nothing_else(family, placement):
    """Compares each place with a twin without dropout; everything between and after must be the same."""
    config = ModelConfig(
        vocab_size=50, context_length=24, d_model=32, n_layers=2, n_heads=4, family=family, positions="learned",
        norm_placement=placement, dropout=RATE,
    )  # fmt: skip
    twin = gnn.Transformer(config.replace(dropout=0.0), **NN.parameters())
    model = gnn.Transformer(config, **NN.parameters())
    model.load_state_dict(twin.state_dict())
    if placement == "post":  # what is added can be told again where no norm follows
        for block in (part for it in (model, twin) for part in it.modules() if isinstance(part, gnn.Block)):
            for norm in ("norm_attention", "norm_cross_attention", "norm_feedforward"):
                setattr(block, norm, torch.nn.Identity())
    ids = torch.randint(50, (4, 24), generator=NN.generator())
    inputs = {"source": ids.flip(-1)} if family == "encoder-decoder" else {}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        with trace() as seen:
            logits = model(ids, **inputs)
        with trace() as whole:
            twin(ids, **inputs)
    zeros, memory = [], None
    for name in ("encoder", "decoder"):
        if (stack := getattr(twin, name)) is None:
            continue
        streams, undropped = (
            [it.array for it in given if it.name == "stream" and it.part.startswith(name)]
            for given in (seen, whole)
        )
        zeros.append(what_was_dropped(streams[0], undropped[0]))
        with torch.no_grad():
            zeros += [what_was_dropped(*place) for place in places_of(stack, streams, memory)]
            memory = streams[-1] if stack.norm is None else stack.norm(streams[-1])
    torch.testing.assert_close(logits, twin.head(memory), rtol=1e-9, atol=1e-12)
    assert len(zeros) == {"decoder": 5, "encoder": 5, "encoder-decoder": 12}[family]
    for i, one in enumerate(zeros):  # each place draws for itself
        for other in zeros[:i]:
            assert abs((one & other).double().mean() - RATE**2) < 0.05


@pytest.mark.parametrize("ids", [[[1, 2]], np.array([[1, 2]])], ids=["list", "array"])
def test_ids_that_are_no_tensor_are_refused_with_the_way_out(ids, as_readers_run_it):
    config = ModelConfig(vocab_size=5, context_length=4, d_model=8, n_layers=1, n_heads=2)
    model = gnn.Transformer(config, generator=None)
    with pytest.raises(
        TypeError, match=r"ids must be a tensor of integers, not .*: torch\.as_tensor\(ids\) makes one"
    ):
        model(ids)
    assert model(torch.as_tensor(ids)).shape == (1, 2, 5)
