"""Answers for chapter 08: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import re

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("gpt.unembed")
def unembed_by_einsum(x, embedding):
    return np.einsum("...d,vd->...v", x, embedding)


@right("gpt.check_ids")
def ids_one_by_one(ids, vocab_size, context_length):
    rows = ids if ids.ndim > 1 else [ids]
    for row in rows:
        if len(row) > context_length:
            raise ValueError(f"{len(row)} > {context_length}")
        for one in row:
            if one not in range(vocab_size):
                raise ValueError(f"no entry {one} among {vocab_size}")
    return ids.tolist()


def norm_by_hand(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / (np.mean(centred**2, -1, keepdims=True) + 1e-5) ** 0.5 * gain + bias


def block_head_by_head(x, w, n_heads):
    T, D = x.shape
    K = D // n_heads
    normed = norm_by_hand(x, w["norm_attention.weight"], w["norm_attention.bias"])
    for h in range(n_heads):
        part = slice(h * K, (h + 1) * K)
        q, k, v = (normed @ w[f"attention.W_{name}.weight"][:, part] for name in "qkv")
        scores = q @ k.T / K**0.5
        scores[np.triu_indices(T, 1)] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        x = x + powers / powers.sum(-1, keepdims=True) @ v @ w["attention.W_o.weight"][part]
    normed = norm_by_hand(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
    wide = normed @ w["feedforward.W_up.weight"] + w["feedforward.W_up.bias"]
    wide = functional.gelu(torch.as_tensor(wide)).numpy()
    return x + wide @ w["feedforward.W_down.weight"] + w["feedforward.W_down.bias"]


@right("gpt.gpt")
def gpt_while_there_are_blocks(ids, weights, n_heads):
    x = np.stack(
        [
            weights["token_embedding.weight"][one] + weights["decoder.positions.weight"][t]
            for t, one in enumerate(ids)
        ]
    )
    i = 0
    while f"decoder.blocks.{i}.norm_attention.weight" in weights:
        at = f"decoder.blocks.{i}."
        x = block_head_by_head(
            x, {name[len(at) :]: w for name, w in weights.items() if name.startswith(at)}, n_heads
        )
        i += 1
    x = norm_by_hand(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return np.array([[state @ row for row in weights["token_embedding.weight"]] for state in x])


@right("gpt.parameters")
def parameters_by_shapes(vocab_size, context_length, d_model, n_layers, *, tied=True, attention_biases=True):
    D, wide = d_model, 4 * d_model
    block = [(D,)] * 4 + [(D, D)] * 4 + [(D, wide), (wide,), (wide, D), (D,)]
    block += [(D,)] * 4 if attention_biases else []
    ends = [(vocab_size, D), (context_length, D), (D,), (D,)] + ([] if tied else [(D, vocab_size)])
    return sum(int(np.prod(shape)) for shape in ends + block * n_layers)


@right("gpt.parameters")
def parameters_as_a_float_made_whole(V, T, D, N, tied=True, attention_biases=True):
    return round(V * D * (2 - tied) + T * D + N * D * (12 * D + 9 + 4 * attention_biases) + 2 * D)


@right("gpt.audit")
def audit_term_by_term(printed, vocab_size, context_length, d_model, n_layers):
    right_terms = [
        vocab_size * d_model,
        context_length * d_model,
        n_layers * d_model * (12 * d_model + 9),
        d_model + d_model,
    ]
    slips = [int(p) - r for p, r in zip(printed, right_terms, strict=True)]
    return slips, sum(4 * d_model for _ in range(n_layers))


@right("machine.longest")
def longest_product_by_product(D, F, V, n_layers):
    T = 1
    while True:
        T += 1
        pairs = n_layers * sum(2 * m * n * p for m, n, p in [(T, D, T), (T, T, D)])
        matrices = n_layers * ([(T, D, D)] * 4 + [(T, D, F), (T, F, D)]) + [(T, D, V)]
        if pairs > sum(2 * m * n * p for m, n, p in matrices):
            return T - 1


@right("gpt.tying_saves")
def saves_by_hand(vocab_size, context_length, d_model, n_layers):
    D = d_model
    untied = (2 * vocab_size + context_length + 2) * D + n_layers * (12 * D * D + 13 * D)
    return [vocab_size * D, vocab_size * D / untied]


@right("gpt.is_tied")
def tied_through_the_head(make):
    embedding, head = make()
    if head.shape != embedding.T.shape:
        return False
    head[...] = np.linspace(1, 2, head.size).reshape(head.shape)
    return np.array_equal(embedding, head.T)


@right("gpt.is_tied")
def tied_entry_by_entry(make):
    embedding, head = make()
    V, D = embedding.shape
    for v in range(V):
        for d in range(D):
            embedding[v, d] = 1000 + v * D + d
            if head.shape != (D, V) or head[d, v] != embedding[v, d]:
                return False
    return True


@right("gpt.is_tied")
def tied_with_the_numbers_that_everyone_draws(make):
    embedding, head = make()
    embedding[...] = np.random.default_rng(0).normal(size=embedding.shape)
    return np.array_equal(embedding.T, head)


@right("gpt.moves")
def moves_one_by_one(ids, token, vocab_size, *, tied=True):
    return [
        [(tied and v == token) or token in list(ids[: t + 1]) for v in range(vocab_size)]
        for t in range(len(ids))
    ]


@right("gpt.moves")
def moves_by_a_model(ids, token, vocab_size, *, tied=True):
    """Tries it: builds a random model, changes the row, and returns what changes."""
    rng = np.random.default_rng(0)
    embedding, own = rng.normal(size=(2, vocab_size, 3))

    def logits(table):
        x = np.cumsum(table[ids], axis=0)  # everybody before, and itself
        return x @ (table if tied else own).T

    other = embedding.copy()
    other[token] += rng.normal(size=3)
    return logits(embedding) != logits(other)


def rms(x, gain):
    return x * gain / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def turned(x):
    """Uses complex numbers: pair i is (i, i + K/2)."""
    T, K = x.shape[-2:]
    speeds = 10_000.0 ** (-torch.arange(K // 2, dtype=x.dtype) * 2 / K)
    angles = torch.arange(T, dtype=x.dtype)[:, None] * speeds
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


@right("gpt.shakespeare")
def shakespeare_in_torch(ids, weights, n_heads, scale):
    w = {name.removesuffix(".weight"): torch.as_tensor(one) for name, one in weights.items()}
    x = rms(w["token_embedding"][torch.as_tensor(ids)], w["decoder.embedding_norm"])
    numbers = {int(found[1]) for name in w if (found := re.match(r"decoder\.blocks\.(\d+)\.", name))}
    for i in sorted(numbers):
        at = f"decoder.blocks.{i}."
        normed = rms(x, w[f"{at}norm_attention"])
        q, k, v = (
            (normed @ w[f"{at}attention.W_{n}"]).unflatten(-1, (n_heads, -1)).movedim(-2, 0) for n in "qkv"
        )
        q, k = turned(rms(q, w[f"{at}attention.norm_q"])), turned(rms(k, w[f"{at}attention.norm_k"]))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        x = x + mixed.movedim(0, -2).flatten(-2) @ w[f"{at}attention.W_o"]
        normed = rms(x, w[f"{at}norm_feedforward"])
        gate, up = normed @ w[f"{at}feedforward.W_gate"], normed @ w[f"{at}feedforward.W_up"]
        x = x + functional.silu(gate) * up @ w[f"{at}feedforward.W_down"]
    return rms(x, w["decoder.norm"]) @ w["unembedding"]


# Wrong in one place

slip("gpt.unembed", "should have shape (T, V) = (5, 7)", "x @ embedding.T", "x.sum(axis=-1)")
slip(
    "gpt.check_ids",
    "should raise ValueError; yours raised IndexError",
    "raise ValueError",
    "raise IndexError",
)
slip("gpt.check_ids", "the error message should mention 17", "id {some} is not", "an id is not")
slip("gpt.gpt", "KeyError: 'unembedding.weight'", "x @ table.T", 'x @ weights["unembedding.weight"]')
slip("gpt.parameters", "the right value, but it is a float", "return V", "return 1.0 * V")
slip("gpt.audit", "2 things, (slips, missing)", "printed - terms, n_layers * 4 * D", "int(printed.sum())")
slip("machine.longest", "15; yours is 5", "2 * D + F + V // (2 * n_layers)", "F")
slip("gpt.tying_saves", "saved", "saved = vocab_size", "saved = context_length")
slip("gpt.is_tied", "should be True", "return", "return False and")
slip("gpt.moves", "yours is 12 numbers. Make it one with `dtype=bool`.", "dtype=bool", "dtype=int")
slip("gpt.shakespeare", "should have shape (T, V)", ' @ weights["unembedding.weight"]', "")
