"""Judges "A GPT that PyTorch can train" (chapter 10).

The same GPT in PyTorch, which computes the gradients by itself.

Axes: T positions, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.chapters.ch08.judges.gpt import gpt_by_hand
from glassformer.chapters.ch09.judges.gpt_gradients import gpt_gradients
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect

from .small_gpt import LENGTH, VOCABULARY, Weights, start_weights


def gpt_torch(ids: Any, weights: Mapping[str, Any], n_heads: int) -> Any:
    """Ids (T,) to logits (T, V), all of it in PyTorch: whoever calls `backward` gets every gradient."""
    from torch.nn import functional

    table = weights["token_embedding.weight"]
    x = table[ids] + weights["decoder.positions.weight"][: len(ids)]
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        w = {name.removeprefix(at): one for name, one in weights.items() if name.startswith(at)}
        normed = functional.layer_norm(x, x.shape[-1:], w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (
            (normed @ w[f"attention.W_{name}.weight"]).unflatten(-1, (n_heads, -1)).transpose(0, 1)
            for name in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(0, 1).flatten(1) @ w["attention.W_o.weight"]
        ends = w["norm_feedforward.weight"], w["norm_feedforward.bias"]
        normed = functional.layer_norm(x, x.shape[-1:], *ends)
        wide = functional.gelu(normed @ w["feedforward.W_up.weight"] + w["feedforward.W_up.bias"])
        x = x + wide @ w["feedforward.W_down.weight"] + w["feedforward.W_down.bias"]
    x = functional.layer_norm(x, x.shape[-1:], weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return x @ table.T


in_torch = exercise("training.gpt_torch", gpt_torch, axes="T V", needs=("torch",))


def _as_tensors(weights: Weights) -> dict[str, Any]:
    import torch

    return {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}


def _in_torch_case(title: str, T: int, n_layers: int, n_heads: int) -> None:
    what = f"gpt_torch of {T} ids, {n_layers} block{'s' * (n_layers != 1)} and {n_heads} heads,"

    @in_torch.check(title)
    def _(gpt_torch):
        import torch

        ids = np.random.default_rng(T).integers(VOCABULARY, size=T)
        found = gpt_torch(torch.tensor(ids), _as_tensors(start_weights(n_layers)), n_heads)
        expect(found, gpt_by_hand(ids, start_weights(n_layers), n_heads), what, axes="T V")


_in_torch_case("no block: lookup, norm, head", 3, 0, 2)
_in_torch_case("one token and one block", 1, 1, 2)
_in_torch_case("one block, two heads", 5, 1, 2)
_in_torch_case("two blocks, four heads", 6, 2, 4)


@in_torch.check("a tensor with its history: every weight gets the gradient of chapter 09")
def _(gpt_torch):
    import torch
    from torch.nn import functional

    ids = np.random.default_rng(9).integers(VOCABULARY, size=LENGTH + 1)
    weights = _as_tensors(start_weights(1))
    # What the checks hand back is an array: to go backwards, the tensor itself is needed.
    logits = getattr(gpt_torch, "function", gpt_torch)(torch.tensor(ids[:-1]), weights, 2)
    _, want = gpt_gradients(ids[:-1], ids[1:], start_weights(1), 2)
    if not isinstance(logits, torch.Tensor):
        said = "gpt_torch(…) should be a tensor: compute in PyTorch from beginning to end."
        raise Wrong(said, what="kind", got=0)
    if not logits.requires_grad:
        said = "gpt_torch(…) has lost its history: use no .detach(), .numpy(), .item() or no_grad."
        raise Wrong(said, what="whether the tensor has its history", got=0)
    functional.cross_entropy(logits, torch.tensor(ids[1:])).backward()
    for name in sorted(want):
        grad = weights[name].grad
        if grad is None:
            raise Wrong(f"{name} gets no gradient from gpt_torch(…).", what=f"the gradient of {name}", got=0)
        expect(grad, want[name], f"the gradient of {name}")
