"""Computes what a model returns if it was loaded with one mistake, to compare it with what the reader's returned."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from glassformer import bugs, scratch
from glassformer.config import ModelConfig
from glassformer.scratch import attention
from glassformer.scratch import rotary as positions

from . import changes

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
BLOCKS = 3  # so many at most are tried in all orders, also with one of them twice
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
    yield from _of_softmaxes(model, ids)
    yield from _of_weights(model, ids)


def _of_settings(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes that are another configuration's right way."""
    c = model.config
    K = c.d_head
    settings: list[tuple[str, str, dict[str, Any]]] = [
        ("other-eps", f"Your norms seem to add ε = {eps:.3g}.", {"norm_eps": eps}) for eps in EPSILONS
    ]
    if c.positions == "rope":
        settings += [
            ("other-base", f"Your base seems to be {base:,.0f}.", {"rope_base": base})
            for base in BASES
            if base != c.rope_base
        ]
        halved = "Your angles seem to be position · base^(−i/K)."
        settings.append(("other-base", halved, {"rope_base": c.rope_base**0.5}))
        of_width = "Your angles seem to be position · base^(−2i/D), with the width D of all heads together."
        settings.append(("other-base", of_width, {"rope_base": c.rope_base ** (K / c.d_model)}))
        settings.append(("no-rotation", "", {"positions": "none"}))
    if c.positions == "learned":
        settings.append(("positions-left-out", "", {"positions": "none"}))
    if not np.isclose(c.attention_scale, 1 / np.sqrt(K)):
        settings.append(("usual-scale", "", {"attention_scale": 1 / np.sqrt(K)}))
    for scale, said in (
        (1 / K, "1/K"), (1 / np.sqrt(c.d_model), "1/√D"), (np.sqrt(K), "√K"), (1 / np.sqrt(K), "1/√K"),
        (1 / np.sqrt(K) ** 3, "1/√K³"), (1 / c.d_model, "1/D"), (1 / np.sqrt(len(ids)), "1/√T"),
        (1 / np.sqrt(2 * K), "1/√(2K)"), (2 / K, "2/K"), (2 / np.sqrt(K), "2/√K"), (1 / (2 * np.sqrt(K)), "1/(2√K)"),
    ):  # fmt: skip
        settings.append(
            ("loaded-scale", f"Your scores seem to be multiplied by {said}.", {"attention_scale": scale})
        )
    if c.feedforward == "gelu":
        settings.append(("other-gelu", "", {"feedforward": "gelu_tanh"}))
        settings.append(("other-activation", "Your activation seems to be ReLU.", {"feedforward": "relu"}))
    if c.feedforward == "swiglu":
        settings.append(("other-activation", "Your activation seems to be GELU.", {"feedforward": "geglu"}))
        settings.append(
            (
                "other-activation",
                "Your activation seems to be GELU's approximation by tanh.",
                {"feedforward": "geglu_tanh"},
            )
        )
    settings.append(("one-head", "", {"n_heads": 1, "n_kv_heads": 1, "qk_norm": False}))
    for n in (n for n in range(2, c.d_model) if c.d_model % n == 0 and n != c.n_heads and not c.qk_norm):
        said = f"Your model seems to have {n} heads instead of {c.n_heads}."
        for more in ({}, {"attention_scale": c.attention_scale}):
            settings.append(("other-heads", said, {"n_heads": n, "n_kv_heads": n, **more}))
    if c.qk_norm:
        settings.append(("no-qk-norm", "", {"qk_norm": False}))
    if c.embedding_norm:
        settings.append(("no-embedding-norm", "", {"embedding_norm": False}))
    if c.head == "untied":
        settings.append(("head-of-embedding", "", {"head": "tied"}))
    if c.norm == "rmsnorm":
        settings.append(("layernorm-for-rmsnorm", "", {"norm": "layernorm", "qk_norm": c.qk_norm}))
    else:
        settings.append(("rmsnorm-for-layernorm", "", {"norm": "rmsnorm"}))
    for mistake, detail, change in settings:
        try:
            found = changes.with_weights(model.named_parameters(), c.replace(**change, dropout=0.0))(ids)
        except Exception:
            continue
        yield mistake, detail, found


def _of_code(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields mistakes that change what a right model does."""
    own, c = model.named_parameters(), model.config
    for mistake, detail, change in _changes(c):
        other = changes.with_weights(own, c.replace(dropout=0.0))
        try:
            change(other)
            yield mistake, detail, other(ids)
        except Exception:
            continue
    if c.positions == "rope":
        yield from _of_rotations(model, ids)


def _changes(c: ModelConfig) -> Iterator[tuple[str, str, Change]]:
    gated = c.feedforward == "swiglu"
    for name, function in changes.ACTIVATIONS.items():
        yield (
            "other-activation",
            f"Your activation seems to be {name}.",
            lambda model, function=function: changes.activation(model, function),
        )
    if gated:
        yield "gate-up", "", changes.exchanged
        yield "gate-added", "", changes.gate_added
    else:
        yield "rmsnorm-for-layernorm", "Its bias is added.", changes.uncentred
    if c.norm == "rmsnorm":
        yield (
            "eps-outside",
            "",
            lambda model: changes.sized(model, changes.eps_outside),
        )  # the gallery has LayerNorm
        yield "norm-of-sum", "", lambda model: changes.sized(model, changes.of_sum)
    if c.qk_norm:
        yield "qk-norm-late", "", changes.normed_after_rotating
    yield "parallel-block", "", changes.parallel
    yield "residual-from-x", "", changes.attention_lost
    for which in ("attention", "feedforward"):
        said = {"attention": "attention", "feedforward": "the feed-forward network"}[which]
        yield (
            "residual-dropped",
            f"In your model, only {said} replaces the stream.",
            lambda model, which=which: changes.alone(model, which),
        )
        yield (
            "norm-skipped",
            f"In your model, {said} reads the stream without its norm.",
            lambda model, which=which: changes.without_norm(model, f"norm_{which}"),
        )
    yield "norm-twice", "", changes.normed_twice
    for mistake, said, order in _orders(c.n_layers):
        yield mistake, said, lambda model, order=order: changes.reordered(model, order)
    for axes in ((-2, -1), (-2,)):
        yield "norm-of-all", "", lambda model, axes=axes: changes.along(model, axes)
    for which, said in (
        ((1,), "In your model, this happens to the feed-forward network."),
        ((0,), "In your model, this happens to attention."),
        ((0, 1), "In your model, this happens to both sublayers."),
    ):
        yield "residual-of-norm", said, lambda model, which=which: changes.added_to_norm(model, which)
    yield "no-activation", "", lambda model: changes.activation(model, lambda x: x)
    yield "no-last-norm", "", lambda model: setattr(changes.decoder(model), "norm", None)
    yield "no-feedforward", "", changes.without_feedforward
    yield "interleaved-heads", "", changes.interleaved
    yield "interleaved-heads", "", lambda model: changes.interleaved(model, merged=False)
    yield "unmasked", "", changes.unmasked


def _orders(n: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yields orders in which n blocks run by mistake: some of them, one again and again, or exchanged."""
    last = n - 1
    for count in range(1, n):
        ran = "Only the first one seems to run." if count == 1 else f"Only the first {count} seem to run."
        yield "one-block", ran, tuple(range(count))
    yield "block-repeated", "", (0,) * n
    yield "block-repeated", "", (last,) * n
    yield "not-chained", "", (last,)
    for length in range(2, n + 2) if n <= BLOCKS else ():
        for order in itertools.product(range(n), repeat=length):
            if order != tuple(range(n)):
                listed = ", ".join(map(str, order))
                yield "blocks-order", f"Yours seem to run in the order {listed}.", order


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

    def fastest_last(x: Any, angles: Any, **more: Any) -> Any:
        return right(x, angles[..., ::-1], **more)

    for mistake, detail, other in (
        ("rotation-backwards", "", backwards),
        ("rotation-order", "", fastest_last),
        ("rotation-backwards", "In your model, only the keys are rotated backwards.", of_one(1, backwards)),
        (
            "rotation-backwards",
            "In your model, only the queries are rotated backwards.",
            of_one(0, backwards),
        ),
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


def _of_softmaxes(model: scratch.Transformer, ids: np.ndarray) -> Iterator[Suspect]:
    """Yields attention whose softmax adds 1 to its sum, with the largest score subtracted and without."""
    right = attention.softmax
    for largest in (False, True):

        def softmax(x: Any, axis: int = -1, largest: bool = largest) -> Any:
            top = x.max(axis=axis, keepdims=True) if largest else 0.0
            e = np.exp(x - top)
            return e / (e.sum(axis=axis, keepdims=True) + 1)

        attention.softmax = softmax
        try:
            found = model(ids)
        finally:
            attention.softmax = right
        yield "softmax-plus-one", "", found


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
    for mistake, detail, change in _other_weights(own, ids):
        other = changes.with_weights(own, c.replace(dropout=0.0))
        for name, weight in other.named_parameters().items():
            weight[...] = change(name, weight.copy())
        yield mistake, detail, other(ids)


def _at(ids: np.ndarray, rows: int) -> np.ndarray:
    """Returns the ids, and zeros after them, as so many numbers of rows."""
    return np.pad(ids, (0, rows - len(ids))) % rows


def _other_weights(
    own: dict[str, np.ndarray], ids: np.ndarray
) -> Iterator[tuple[str, str, Callable[[str, np.ndarray], np.ndarray]]]:
    ends = [f"W_{one}.weight" for one in ("q", "k", "v", "o", "up", "gate", "down")]
    every = [*ends, "unembedding.weight"]
    for which in (ends[:4], ends[:3], every, ends, *([end] for end in ends)):
        only = f" In your model, only `{which[0]}` is used like this." if len(which) == 1 else ""
        yield (
            "not-transposed",
            only.strip(),
            lambda name, w, which=tuple(which): (
                w.T
                if name.endswith(which) and w.shape == w.T.shape
                else w.reshape(w.shape[::-1]).T
                if name.endswith(which)
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
    yield from _of_another(own)
    yield "gain-plus-one", "", lambda name, w: w + 1 if "norm" in name and name.endswith("weight") else w
    for of, shift in itertools.product(("token_embedding.weight", "decoder.positions.weight"), (1, -1)):
        which = f"In your model, the rows of `{of}` are shifted by {abs(shift)}."
        yield (
            "row-shifted",
            which,
            lambda name, w, of=of, by=shift: np.roll(w, by, axis=0) if name == of else w,
        )
    table = "decoder.positions.weight"
    yield "positions-by-ids", "", lambda name, w: w[_at(ids, len(w))] if name == table else w
    D = own["token_embedding.weight"].shape[1]
    for times, said in ((np.sqrt(D), "√D"), (1 / np.sqrt(D), "1/√D")):
        yield (
            "embedding-scaled",
            f"In your model, the token vectors seem to be multiplied by {said}.",
            lambda name, w, times=times: times * w if name == "token_embedding.weight" else w,
        )
    yield "low-precision", "", lambda name, w: w.astype(np.float16).astype(w.dtype)
    yield "low-precision", "", lambda name, w: changes.bfloat16(w)


def _of_another(
    own: dict[str, np.ndarray],
) -> Iterator[tuple[str, str, Callable[[str, np.ndarray], np.ndarray]]]:
    """Yields weights of the blocks that are used twice: for themselves, and for another one of the same shape."""
    first = "decoder.blocks.0."
    kinds = [name.removeprefix(first) for name in own if name.startswith(first)]
    for one, other in itertools.permutations(kinds, 2):
        if own[first + one].shape == own[first + other].shape:
            yield (
                "other-weight",
                f"`{other}` seems to be used a second time, in the place of `{one}`.",
                lambda name, w, one=one, other=other: (
                    own[name.removesuffix(one) + other] if name.endswith("." + one) else w
                ),
            )
    last = "decoder.norm.weight"
    for other in (name for name in own if "norm" in name and own[name].shape == own[last].shape):
        yield (
            "other-weight",
            f"`{other}` seems to be used a second time, in the place of `{last}`.",
            lambda name, w, other=other: own[other] if name == last else w,
        )


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
