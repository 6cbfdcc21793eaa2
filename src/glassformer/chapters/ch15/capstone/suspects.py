"""Computes what a model returns if it was loaded with one mistake, to compare it with what the reader's returned."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from glassformer import bugs, scratch
from glassformer.config import ModelConfig
from glassformer.scratch import positions

Suspect = tuple[str, str, np.ndarray]  # the mistake, a detail to tell, the logits
Change = Callable[[scratch.Transformer], Any]

# Of the gallery: what changes the logits of a model that is loaded.
GALLERY = (
    "no-scale", "mask-one-ahead", "mask-transposed", "mask-after-softmax", "softmax-axis", "heads-not-swapped",
    "positions-late", "rope-layout", "rope-on-values", "residual-dropped", "post-norm", "eps-outside",
    "sigma-unbiased", "tied-reshaped",
)  # fmt: skip
EPSILONS = (
    1e-6,
    1e-8,
    1e-12,
    1e-7,
    1e-9,
    1e-4,
    1e-3,
    1e-2,
    1e-1,
    1.0,
    2.220446049250313e-16,
    1.1920929e-07,
    1e-30,
)
BASES = (10_000.0, 500_000.0, 1_000_000.0, 100_000.0, 1_000.0, 100.0, 1e7, 10.0)


def suspects(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields what the book's own model returns with a single mistake in it, the likeliest mistakes first."""
    yield from _of_settings(model, ids)
    for name in GALLERY:
        try:
            with bugs.put_in(name, rooms=("scratch",)):
                found = model(ids)
        except Exception:
            continue
        yield name, "", found  # the mistake is out again: whoever asks may stop here
    yield from _of_code(model, ids)
    yield from _of_weights(model, ids)


def _of_settings(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes that are another configuration's right way."""
    c = model.config
    K = c.d_head
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("other-eps", f"Your norms seem to add ε = {eps:.3g}.", {"norm_eps": eps}) for eps in EPSILONS
    ]
    if c.positions == "rope":
        changes += [
            ("other-base", f"Your base seems to be {base:,.0f}.", {"rope_base": base})
            for base in BASES
            if base != c.rope_base
        ]
        halved = "Your angles seem to be position · base^(−i/K)."
        changes.append(("other-base", halved, {"rope_base": c.rope_base**0.5}))
        changes.append(("no-rotation", "", {"positions": "none"}))
    if c.positions == "learned":
        changes.append(("positions-left-out", "", {"positions": "none"}))
    if not np.isclose(c.attention_scale, 1 / np.sqrt(K)):
        changes.append(("usual-scale", "", {"attention_scale": 1 / np.sqrt(K)}))
    for scale, said in (
        (1 / K, "1/K"), (1 / np.sqrt(c.d_model), "1/√D"), (np.sqrt(K), "√K"), (1 / np.sqrt(K), "1/√K"),
        (1 / np.sqrt(K) ** 3, "1/√K³"), (1 / c.d_model, "1/D"), (1 / np.sqrt(len(ids)), "1/√T"),
        (1 / np.sqrt(2 * K), "1/√(2K)"), (2 / K, "2/K"), (2 / np.sqrt(K), "2/√K"), (1 / (2 * np.sqrt(K)), "1/(2√K)"),
    ):  # fmt: skip
        changes.append(
            ("loaded-scale", f"Your scores seem to be multiplied by {said}.", {"attention_scale": scale})
        )
    if c.feedforward == "gelu":
        changes.append(("other-gelu", "", {"feedforward": "gelu_tanh"}))
        changes.append(("other-activation", "Your activation seems to be ReLU.", {"feedforward": "relu"}))
    if c.feedforward == "swiglu":
        changes.append(("other-activation", "Your activation seems to be GELU.", {"feedforward": "geglu"}))
        changes.append(
            (
                "other-activation",
                "Your activation seems to be GELU's approximation by tanh.",
                {"feedforward": "geglu_tanh"},
            )
        )
    changes.append(("one-head", "", {"n_heads": 1, "n_kv_heads": 1, "qk_norm": False}))
    for n in (n for n in range(2, c.d_model) if c.d_model % n == 0 and n != c.n_heads and not c.qk_norm):
        said = f"Your model seems to have {n} heads instead of {c.n_heads}."
        for more in ({}, {"attention_scale": c.attention_scale}):
            changes.append(("other-heads", said, {"n_heads": n, "n_kv_heads": n, **more}))
    if c.qk_norm:
        changes.append(("no-qk-norm", "", {"qk_norm": False}))
    if c.embedding_norm:
        changes.append(("no-embedding-norm", "", {"embedding_norm": False}))
    if c.head == "untied":
        changes.append(("head-of-embedding", "", {"head": "tied"}))
    if c.norm == "rmsnorm":
        changes.append(("layernorm-for-rmsnorm", "", {"norm": "layernorm", "qk_norm": c.qk_norm}))
    else:
        changes.append(("rmsnorm-for-layernorm", "", {"norm": "rmsnorm"}))
    for mistake, detail, change in changes:
        try:
            found = _with_weights(model.named_parameters(), c.replace(**change, dropout=0.0))(ids)
        except Exception:
            continue
        yield mistake, detail, found


def _of_code(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes that change what a right model does."""
    own, c = model.named_parameters(), model.config
    for mistake, detail, change in _changes(c):
        other = _with_weights(own, c.replace(dropout=0.0))
        try:
            change(other)
            yield mistake, detail, other(ids)
        except Exception:
            continue
    if c.positions == "rope":
        yield from _of_rotations(model, ids)


def _changes(c: ModelConfig) -> Iterator[tuple[str, str, Change]]:
    gated = c.feedforward == "swiglu"
    if gated:
        yield "gate-up", "", _exchanged
        yield "other-activation", "Your activation seems to be ReLU.", lambda model: _activation(model, _relu)
        yield (
            "other-activation",
            "Your activation seems to be a sigmoid.",
            lambda model: _activation(model, _sigmoid),
        )
    else:
        yield (
            "other-activation",
            "Your activation seems to be SiLU.",
            lambda model: _activation(model, lambda x: x * _sigmoid(x)),
        )
        yield (
            "other-activation",
            "Your activation seems to be tanh.",
            lambda model: _activation(model, np.tanh),
        )
        yield "rmsnorm-for-layernorm", "Its bias is added.", _uncentred
    if c.norm == "rmsnorm":
        yield "eps-outside", "", lambda model: _sized(model, _eps_outside)  # the gallery has it for LayerNorm
        yield "norm-of-sum", "", lambda model: _sized(model, _of_sum)
    if c.qk_norm:
        yield "qk-norm-late", "", _normed_after_rotating
    yield "parallel-block", "", _parallel
    yield "residual-from-x", "", _attention_lost
    for which, said in (
        ((1,), "In yours, this holds for the feed-forward network."),
        ((0,), "In yours, this holds for attention."),
        ((0, 1), "In yours, this holds for both sublayers."),
    ):
        yield "residual-of-norm", said, lambda model, which=which: _added_to_norm(model, which)
    yield "no-activation", "", lambda model: _activation(model, lambda x: x)
    yield "no-last-norm", "", lambda model: setattr(_decoder(model), "norm", None)
    yield "no-feedforward", "", _without_feedforward
    yield "interleaved-heads", "", _interleaved
    yield "interleaved-heads", "", lambda model: _interleaved(model, merged=False)
    yield "unmasked", "", _unmasked
    for n in range(1, c.n_layers):
        ran = "Only the first one seems to run." if n == 1 else f"Only the first {n} seem to run."
        yield "one-block", ran, lambda model, n=n: _first_blocks(model, n)
    yield "block-repeated", "", lambda model: _repeated(model, 0)
    yield "block-repeated", "", lambda model: _repeated(model, -1)


def _of_rotations(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes in the rotation of queries and keys."""
    right, seen = positions.rotate, []

    def backwards(x: Any, angles: Any, **more: Any) -> Any:
        return right(x, -angles, **more)

    def of_one(which: int, other: Callable = lambda x, angles, **more: x) -> Callable:
        def rotate(x: Any, angles: Any, **more: Any) -> Any:
            seen.append(x)
            return (right if len(seen) % 2 == which else other)(x, angles, **more)

        return rotate

    for mistake, detail, other in (
        ("rotation-backwards", "", backwards),
        ("rotation-backwards", "In yours, this holds for the keys alone.", of_one(1, backwards)),
        ("rotation-backwards", "In yours, this holds for the queries alone.", of_one(0, backwards)),
        ("rotation-of-one", "In yours, only the queries seem to be rotated.", of_one(1)),
        ("rotation-of-one", "In yours, only the keys seem to be rotated.", of_one(0)),
    ):
        seen.clear()
        positions.rotate = other
        try:
            found = model(ids)
        finally:
            positions.rotate = right
        yield mistake, detail, found
    yield "values-for-keys-rotated", "", _of_values_for_keys(model, ids)


def _of_values_for_keys(model: scratch.Transformer, ids: np.ndarray) -> np.ndarray:
    """Computes the logits of a model that rotates queries and values, and not keys."""
    right, calls = positions.rotate, itertools.cycle((True, False, True))  # of queries, keys and values

    def rotate(x: Any, angles: Any, **more: Any) -> Any:
        return right(x, angles, **more) if next(calls) else x

    positions.rotate = rotate
    try:
        with bugs.put_in("rope-on-values", rooms=("scratch",)):
            return model(ids)
    finally:
        positions.rotate = right


def _of_weights(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes that give a right model other weights."""
    own, c = model.named_parameters(), model.config
    for mistake, detail, change in _other_weights(own):
        other = _with_weights(own, c.replace(dropout=0.0))
        for name, weight in other.named_parameters().items():
            weight[...] = change(name, weight.copy())
        yield mistake, detail, other(ids)


def _other_weights(
    own: dict[str, np.ndarray],
) -> Iterator[tuple[str, str, Callable[[str, np.ndarray], np.ndarray]]]:
    ends = [f"W_{one}.weight" for one in ("q", "k", "v", "o", "up", "gate", "down")]
    for which in (ends[:4], ends[:3], *([end] for end in ends)):
        only = f" Here it is `{which[0]}` alone." if len(which) == 1 else ""
        yield (
            "not-transposed",
            only.strip(),
            lambda name, w, which=tuple(which): (
                w.T
                if name.endswith(which) and w.shape == w.T.shape
                else w.reshape(w.shape[::-1]).T
                if name.endswith(which) and "feedforward" in name
                else w
            ),
        )
    for mistake, one, other in (("qk-exchanged", "W_q", "W_k"), ("kv-exchanged", "W_k", "W_v"),
                                ("qv-exchanged", "W_q", "W_v"), ("vo-exchanged", "W_v", "W_o")):  # fmt: skip
        yield mistake, "", lambda name, w, one=one, other=other: own[_exchanged_in(name, one, other)]
    one, other = "norm_attention", "norm_feedforward"
    yield "norms-exchanged", "", lambda name, w: own[_exchanged_in(name, one, other)]
    yield "norms-exchanged", "", lambda name, w: own[name.replace(one, other)]
    yield "norms-exchanged", "", lambda name, w: own[name.replace(other, one)]
    for part in ("feedforward", "norm", ""):
        yield (
            "bias-left-out",
            "",
            lambda name, w, part=part: 0 * w if part in name and name.endswith("bias") else w,
        )
    yield (
        "norm-gain",
        "",
        lambda name, w: np.ones_like(w) if "norm" in name and name.endswith("weight") else w,
    )
    yield from _not_loaded(own)


def _not_loaded(
    own: dict[str, np.ndarray],
) -> Iterator[tuple[str, str, Callable[[str, np.ndarray], np.ndarray]]]:
    """Yields weights that keep what they usually begin with: in all blocks, in a single one, or outside the blocks."""
    of_blocks = list(dict.fromkeys(re.sub(r"blocks\.\d+", "blocks.{i}", name) for name in own))
    for kind in [*of_blocks, *(name for name in own if name not in of_blocks)]:
        names = {name for name in own if name == kind or re.sub(r"blocks\.\d+", "blocks.{i}", name) == kind}
        mistake = (
            "bias-left-out" if kind.endswith("bias") else "norm-gain" if "norm" in kind else "not-loaded"
        )
        first = np.ones_like if mistake == "norm-gain" else np.zeros_like
        yield (
            mistake,
            f"Your model runs as if `{kind}` were {'1' if mistake == 'norm-gain' else '0'} everywhere.",
            lambda name, w, names=names, first=first: first(w) if name in names else w,
        )


def _exchanged_in(name: str, one: str, other: str) -> str:
    """Returns the name with `one` in the place of `other`, and the other way round."""
    return name.replace(one, "?").replace(other, one).replace("?", other)


# What is changed in a model


def _decoder(model: scratch.Transformer) -> Any:
    assert model.decoder is not None  # each kind here is a decoder
    return model.decoder


def _with_weights(own: dict[str, np.ndarray], config: ModelConfig) -> scratch.Transformer:
    """Returns another configuration's model, with those of the weights that it has; biases that are new are 0."""
    model = scratch.Transformer(config, generator=None, dtype=own["token_embedding.weight"].dtype)
    for name, weight in model.named_parameters().items():
        weight[...] = own[name] if name in own or not name.endswith("bias") else 0.0
    return model


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _activation(model: scratch.Transformer, function: Callable) -> None:
    for block in _decoder(model).blocks:
        block.feedforward.activate = function


def _uncentred(model: scratch.Transformer) -> None:
    """Lets each LayerNorm keep the mean, as RMSNorm does, with its gain and its bias."""

    def forward(norm: Any) -> Callable:
        return lambda x, saved=None: (
            x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + norm.eps) * norm.weight + norm.bias
        )

    decoder = _decoder(model)
    norms = [norm for block in decoder.blocks for norm in (block.norm_attention, block.norm_feedforward)]
    for norm in [*norms, decoder.norm]:
        norm.forward = forward(norm)


def _without_feedforward(model: scratch.Transformer) -> None:
    for name, weight in model.named_parameters().items():
        if "feedforward.W_down" in name:
            weight[...] = 0


def _unmasked(model: scratch.Transformer) -> None:
    for block in _decoder(model).blocks:
        block.attention.causal = False


def _first_blocks(model: scratch.Transformer, n: int) -> None:
    del _decoder(model).blocks[n:]


def _repeated(model: scratch.Transformer, which: int) -> None:
    blocks = _decoder(model).blocks
    blocks[:] = [blocks[which]] * len(blocks)


def _exchanged(model: scratch.Transformer) -> None:
    w = model.named_parameters()
    for name in [name for name in w if "W_gate" in name]:
        gate, up = w[name], w[name.replace("W_gate", "W_up")]
        gate[...], up[...] = up.copy(), gate.copy()


def _eps_outside(x: np.ndarray, eps: float) -> np.ndarray:
    return np.sqrt((x * x).mean(axis=-1, keepdims=True)) + eps


def _of_sum(x: np.ndarray, eps: float) -> np.ndarray:
    return np.sqrt((x * x).sum(axis=-1, keepdims=True) + eps)


def _sized(model: scratch.Transformer, size: Callable[[np.ndarray, float], np.ndarray]) -> None:
    """Lets each RMSNorm divide by what this function makes of a vector and ε."""

    def forward(norm: Any) -> Callable:
        return lambda x, saved=None: x / size(x, norm.eps) * norm.weight

    decoder = _decoder(model)
    norms = [decoder.norm, decoder.embedding_norm]
    for block in decoder.blocks:
        of_heads = [block.attention.norm_q, block.attention.norm_k]
        norms += [block.norm_attention, block.norm_feedforward, *of_heads]
    for norm in norms:
        if norm is not None:
            norm.forward = forward(norm)


def _normed_after_rotating(model: scratch.Transformer) -> None:
    """Lets queries and keys be rotated before they are normed."""

    def late(norms: list[Any], right: Callable) -> Callable:
        calls = itertools.count()  # the queries come first, then the keys
        return lambda x, *more: norms[next(calls) % 2](right(x, *more))

    for block in _decoder(model).blocks:
        attention = block.attention
        rotation = attention.position_encoding
        rotation.rotate = late([attention.norm_q, attention.norm_k], rotation.rotate)
        attention.norm_q = attention.norm_k = None


def _parallel(model: scratch.Transformer) -> None:
    """Lets both sublayers of a block read the same stream."""

    def forward(block: Any) -> Callable:
        return lambda x, **more: (
            x
            + block.attention(block.norm_attention(x), position_ids=more.get("position_ids"))
            + block.feedforward(block.norm_feedforward(x))
        )

    for block in _decoder(model).blocks:
        block.forward = forward(block)


def _attention_lost(model: scratch.Transformer) -> None:
    """Lets the feed-forward network be added to the block's input, without what attention has added."""

    def forward(block: Any) -> Callable:
        def run(x: Any, **more: Any) -> Any:
            y = x + block.attention(block.norm_attention(x), position_ids=more.get("position_ids"))
            return x + block.feedforward(block.norm_feedforward(y))

        return run

    for block in _decoder(model).blocks:
        block.forward = forward(block)


def _added_to_norm(model: scratch.Transformer, which: tuple[int, ...]) -> None:
    """Adds the sublayers of these numbers to what their norm returns, and not to the stream."""

    def forward(block: Any) -> Callable:
        def run(x: Any, **more: Any) -> Any:
            sublayers = (
                (block.norm_attention, lambda x: block.attention(x, position_ids=more.get("position_ids"))),
                (block.norm_feedforward, block.feedforward),
            )
            for number, (norm, sublayer) in enumerate(sublayers):
                normed = norm(x)
                x = (normed if number in which else x) + sublayer(normed)
            return x

        return run

    for block in _decoder(model).blocks:
        block.forward = forward(block)


def _interleaved(model: scratch.Transformer, *, merged: bool = True) -> None:
    """Gives head h the numbers h, h + H, h + 2H, …, and, if `merged`, puts its own back there."""
    c = model.config
    order = np.arange(c.d_model).reshape(c.d_head, c.n_heads).T.ravel()
    for name, weight in model.named_parameters().items():
        if name.endswith(("W_q.weight", "W_k.weight", "W_v.weight")):
            weight[...] = weight[:, order]
        elif merged and name.endswith("W_o.weight"):
            weight[...] = weight[order]
