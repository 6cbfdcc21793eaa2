"""Tests the small models that readers build, and two of the kinds that other texts build, on all their layers."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

import glassformer.nn
import glassformer.scratch
from glassformer.config import ModelConfig
from glassformer.published import published

ROOMS = pytest.mark.parametrize("room", [glassformer.scratch, glassformer.nn], ids=["scratch", "nn"])


SIZES = {"vocab_size": 1000, "context_length": 1024, "n_heads": 8, "n_layers": 6, "positions": "sinusoidal"}


def build(room, config, dtype="float64"):
    in_torch = room is glassformer.nn
    return room.Transformer(
        config,
        generator=torch.Generator().manual_seed(0) if in_torch else np.random.default_rng(0),
        dtype=getattr(torch if in_torch else np, dtype),
    ).eval()


def run(model, ids):
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return model(torch.tensor(ids)).numpy()
    return model(np.array(ids))


@ROOMS
def test_a_gpt_with_sinusoids_gives_five_rows_of_a_thousand_logits(room):
    model = build(room, ModelConfig(**SIZES, d_model=256, attention_bias="none"), "float32")
    assert run(model, [5, 42, 17, 3, 99]).shape == (5, 1000)
    assert "unembedding.weight" not in dict(model.named_parameters())  # tied
    assert not any("positions" in name for name in dict(model.named_parameters()))  # sinusoids


@ROOMS
def test_the_post_norm_transformer_is_what_its_formulas_say(room):
    """Written out again, plainly: sinusoids, ReLU, (x − μ)/(σ + ε), the norm after each sum, no norm at the end."""
    config = ModelConfig(
        **SIZES,
        d_model=512,
        norm="layernorm_sigma",
        norm_eps=1e-6,
        norm_placement="post",
        attention_bias="none",
        feedforward="relu",
        head="untied",
    )
    model = build(room, config)
    w = {
        name: np.asarray(value.detach() if room is glassformer.nn else value)
        for name, value in dict(model.named_parameters()).items()
    }
    ids = np.array([5, 42, 17, 3, 99])
    T, D, H = len(ids), config.d_model, config.n_heads
    K = D // H

    def norm(x, name):
        return (
            w[f"{name}.weight"] * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6)
            + w[f"{name}.bias"]
        )

    x = w["token_embedding.weight"][ids]
    for t in range(T):
        for i in range(D):
            angle = t / 10_000 ** (2 * (i // 2) / D)
            x[t, i] += np.cos(angle) if i % 2 else np.sin(angle)
    for n in range(config.n_layers):
        at = f"decoder.blocks.{n}"
        q, k, v = (x @ w[f"{at}.attention.W_{name}.weight"] for name in "qkv")
        heads = []
        for h in range(H):
            part = slice(h * K, (h + 1) * K)
            scores = q[:, part] @ k[:, part].T / np.sqrt(K)
            scores[np.triu_indices(T, 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        x = norm(x + np.concatenate(heads, -1) @ w[f"{at}.attention.W_o.weight"], f"{at}.norm_attention")
        feed = f"{at}.feedforward"
        hidden = np.maximum(0, x @ w[f"{feed}.W_up.weight"] + w[f"{feed}.W_up.bias"])
        hidden = hidden @ w[f"{feed}.W_down.weight"] + w[f"{feed}.W_down.bias"]
        x = norm(x + hidden, f"{at}.norm_feedforward")
    assert_close(run(model, ids), x @ w["unembedding.weight"], DOUBLE)


@ROOMS
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("teaching-736", (16, 256, 456, 8)),
        ("teaching-2240", (32, 512, 1680, 16)),
        ("teaching-1192", (16, 256, 912, 8)),
        ("teaching-512", (16, 32, 456, 8)),
    ],
)
def test_the_teaching_gpts_have_the_numbers_in_their_names(room, name, parts):
    model = build(room, published(name).config)
    size = {path: np.prod(tuple(weight.shape)) for path, weight in dict(model.named_parameters()).items()}
    by_part = [
        sum(n for path, n in size.items() if path.startswith(start))
        for start in ("token_embedding", "decoder.positions", "decoder.blocks", "decoder.norm")
    ]
    assert tuple(by_part) == parts
    assert sum(size.values()) == sum(parts) == int(name.removeprefix("teaching-"))
    assert run(model, [[0, 1, 2, 3]]).shape == (1, 4, 4)


def test_one_token_at_two_places_has_two_vectors():
    """Our own layers reproduce the numbers that one document prints for torch's seed 0."""
    torch.manual_seed(0)
    tokens, places = torch.nn.Embedding(4, 4).weight, torch.nn.Embedding(8, 4).weight
    embedding = glassformer.nn.TokenEmbedding(4, 4, generator=None)
    positions = glassformer.nn.LearnedPositions(8, 4, generator=None)
    embedding.load_state_dict({"weight": tokens})
    positions.load_state_dict({"weight": places})
    forwards, backwards = torch.tensor([0, 1, 2, 3]), torch.tensor([3, 2, 1, 0])
    with torch.no_grad():
        assert embedding(forwards)[3].tolist() == embedding(backwards)[0].tolist()
        printed = {"atol": 5e-5, "rtol": 0}
        np.testing.assert_allclose(embedding(forwards)[3], [0.1198, 1.2377, 1.1168, -0.2473], **printed)
        at_3, at_0 = positions.embed(embedding(forwards))[3], positions.embed(embedding(backwards))[0]
        np.testing.assert_allclose(at_3, [1.5092, 2.8240, 2.0631, -1.0910], **printed)
        np.testing.assert_allclose(at_0, [-1.2328, -0.4583, 1.6834, 0.5462], **printed)
