"""Tests vectors of each layer, and learned factors: gradients of both, and Gemma 4 of transformers in float64."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close
from ledger import TRANSFORMERS, record

from glassformer import scratch
from glassformer.layers import LayerEmbeddings, Streams, StreamScale

from .grid import GPT2
from .rooms import SCRATCH, both_rooms
from .test_gradients import check_layer, normal
from .twins import build, run

V, D, Z, N = 7, 6, 3, 2
IDS = np.array([[0, 6, 1], [1, 1, 4]])


def test_gradients():
    embeddings = scratch.LayerEmbeddings(V, D, N, Z, **SCRATCH.parameters())
    x = normal(2, 3, D)
    check_layer(embeddings, lambda saved: embeddings(x, IDS, saved), {"x": x})
    norm = scratch.LayerNorm(D, dtype=np.float64)
    sublayer = scratch.LayerEmbedding(D, Z, norm=norm, **SCRATCH.parameters())
    inputs = {"x": x, "vectors": normal(2, 3, Z, seed=2)}
    check_layer(
        sublayer,
        lambda saved: sublayer(*inputs.values(), saved),
        inputs,
        back=lambda gave: dict(zip(inputs, gave, strict=True)),
    )


@pytest.fixture(scope="module")
def theirs():
    """Returns a model of the library in float64 of which only the vectors of layers and their sublayers matter."""
    from transformers import Gemma4TextConfig, Gemma4TextModel  # here, because it takes seconds

    patch = pytest.MonkeyPatch()
    patch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    try:
        config = Gemma4TextConfig(
            vocab_size=V,
            vocab_size_per_layer_input=V,
            hidden_size=D,
            hidden_size_per_layer_input=Z,
            num_hidden_layers=N,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=4,
            global_head_dim=4,
            intermediate_size=5,
            rms_norm_eps=0.1,
        )
        model = Gemma4TextModel(config).eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(generator=generator)
            for i, layer in enumerate(model.layers):
                layer.layer_scalar.fill_(0.5 + i)
                layer.self_attn.o_proj.weight.zero_()  # so that the other sublayers add nothing
                layer.mlp.down_proj.weight.zero_()
        yield model
    finally:
        torch.set_default_dtype(torch.float32)
        patch.undo()


CONFIG = GPT2.replace(
    vocab_size=V,
    d_model=D,
    norm="rmsnorm",
    norm_eps=0.1,
    positions="none",
    feedforward="none",
    feedforward_bias=False,
    embedding_scale=D**0.5,
    head="none",
    layer_embeddings=LayerEmbeddings(d_layer=Z),
    kinds={"all": {"stream_scale": StreamScale()}},
)


@both_rooms
def test_they_are_those_of_gemma_4(room, theirs):
    ours = build(room, CONFIG)
    state = {name: weight.detach().numpy() for name, weight in theirs.state_dict().items()}
    found = {
        "token_embedding.weight": state["embed_tokens.weight"],
        "decoder.norm.weight": state["norm.weight"],
        "decoder.layer_embeddings.table.weight": state["embed_tokens_per_layer.weight"],
        "decoder.layer_embeddings.W.weight": state["per_layer_model_projection.weight"].T,
        "decoder.layer_embeddings.norm.weight": state["per_layer_projection_norm.weight"],
    }
    for i in range(N):
        their, our = f"layers.{i}", f"decoder.blocks.{i}"
        found |= {
            f"{our}.layer_embedding.W_gate.weight": state[f"{their}.per_layer_input_gate.weight"].T,
            f"{our}.layer_embedding.W_down.weight": state[f"{their}.per_layer_projection.weight"].T,
            f"{our}.layer_embedding.norm_output.weight": state[f"{their}.post_per_layer_input_norm.weight"],
            f"{our}.scale": state[f"{their}.layer_scalar"],
        }
    weights = {name: room.array(np.zeros(tuple(w.shape))) for name, w in dict(ours.state_dict()).items()}
    ours.load_state_dict(weights | {name: room.array(values) for name, values in found.items()})
    with torch.no_grad():
        expected = theirs(torch.from_numpy(IDS)).last_hidden_state.numpy()
    difference = np.abs(run(room, ours, {"ids": IDS}) - expected).max()
    name = "nn" if room.is_torch else "scratch"
    record(
        "Gemma 4's vectors of each layer", TRANSFORMERS, "float64", name, difference, DOUBLE, section="Layers"
    )


@both_rooms
def test_a_layer_reads_its_own_vectors(room):
    model = build(room, CONFIG)
    before = run(room, model, {"ids": IDS})
    table = model.decoder.layer_embeddings.table.weight
    (table.data if room.is_torch else table)[1, Z:] += 1  # the second layer's, of one token
    changed = np.abs(run(room, model, {"ids": IDS}) - before).max(axis=-1) > 1e-6
    np.testing.assert_array_equal(changed, IDS == 1)


@both_rooms
def test_without_vectors_and_with_factors_of_1_it_is_the_usual_model(room):
    plain, scaled = (
        build(room, GPT2.replace(kinds=kinds)) for kinds in (None, {"all": {"stream_scale": StreamScale()}})
    )
    ones = {f"decoder.blocks.{i}.scale": room.array(np.ones(1)) for i in range(2)}
    scaled.load_state_dict({**dict(plain.state_dict()), **ones})
    assert_close(run(room, scaled, {"ids": IDS}), run(room, plain, {"ids": IDS}), DOUBLE)


@pytest.mark.usefixtures("as_readers_run_it")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"streams": Streams(n_streams=2)}, "streams beside layer_embeddings are not built"),
        (
            {"layer_embeddings": Streams(n_streams=2)},
            r"layer_embeddings=Streams\(.*\) must be a LayerEmbeddings",
        ),
        ({"family": "encoder-decoder"}, "a model of two stacks cannot have layer_embeddings"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CONFIG.replace(kinds=None, **changes)
