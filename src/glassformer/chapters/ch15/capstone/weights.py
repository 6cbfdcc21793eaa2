"""The last stages: weights that others have trained run in the reader's code."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from glassformer import bugs, scratch, shipped
from glassformer.config import ModelConfig
from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong
from glassformer.published import published

from .adapter import Own
from .stage import CLOSE, Stage, close, largest, name_it

weights = Stage("weights")
shipped_model = Stage("shipped")

LINE = "A horse! a horse! my kingdom for a horse!"
KINDS = ("gpt2", "llama")
TINY = 0.005
# Of the gallery: what changes the logits of a model that is loaded.
SUSPECTS = (
    "no-scale", "mask-one-ahead", "mask-transposed", "mask-after-softmax", "softmax-axis", "heads-not-swapped",
    "no-positions", "positions-late", "rope-layout", "rope-on-values", "residual-dropped", "post-norm",
    "eps-outside", "sigma-unbiased", "tied-reshaped",
)  # fmt: skip


@cache
def made(kind: str) -> scratch.Transformer:
    """A small model of a kind, whose weights come from a seed: no bias is 0 and no gain 1.

    Every other id's vector is tiny, and so is every position's: beside such a vector ε is large.
    """
    small = {"vocab_size": 23, "context_length": 24, "d_model": 24, "n_layers": 2, "n_heads": 3}
    config = published("gpt2").config.replace(**small, attention_bias="none", feedforward="gelu", dropout=0.0)
    if kind == "llama":
        config = ModelConfig(
            **small,
            d_ff=40,
            positions="rope",
            norm="rmsnorm",
            feedforward="swiglu",
            attention_bias="none",
            feedforward_bias=False,
            head="untied",
        )
    rng = np.random.default_rng(150)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.25
    own = model.named_parameters()
    own["token_embedding.weight"][::2] *= TINY
    if kind == "gpt2":
        own["decoder.positions.weight"][...] *= TINY
    return model


def fields(model: scratch.Transformer, kind: str) -> dict[str, Any]:
    """Returns the fields that `load` receives about a model, besides its weights."""
    c = model.config
    return {
        "kind": kind,
        "vocab_size": c.vocab_size,
        "context_length": c.context_length,
        "d_model": c.d_model,
        "n_layers": c.n_layers,
        "n_heads": c.n_heads,
        "d_ff": c.d_ff,
        "eps": 1e-5,
        "rope_base": c.rope_base,
        "attention_scale": c.attention_scale,
    }


def _loaded(own: Own, model: scratch.Transformer, kind: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """The reader's function from ids to logits; None where `load` says that it does not read this kind."""
    handed = {name: np.array(weight, dtype=np.float64) for name, weight in model.named_parameters().items()}
    if own.tensors:
        handed = {name: _tensor(array) for name, array in handed.items()}
    try:
        loaded = own.call("load", handed, fields(model, kind))
    except NotAttempted:  # or it raised NotImplementedError: it does not read this kind
        return None
    except Wrong as wrong:
        if isinstance(wrong.__cause__, NotImplementedError):
            return None
        raise
    run = loaded if callable(loaded) else getattr(loaded, "logits", None)
    if not callable(run):
        raise Wrong("`load` should return a function from ids to logits (or what has `logits`).")
    one = Own({"logits": run, "tensors": own.tensors, "batched": own.batched})
    V = model.config.vocab_size

    def logits(ids: np.ndarray) -> np.ndarray:
        found = one.array("logits", ids, axes="T V", what=f"what `load` returned, of {len(ids)} ids,")
        if found.shape != (len(ids), V):
            raise Wrong(
                f"what `load` returned should give (T, V) = ({len(ids)}, {V}); yours gave {found.shape}."
            )
        return found

    return logits


def tried(own: Own) -> None:
    """Run it once on each kind that it reads."""
    for kind in KINDS:
        run = _loaded(own, made(kind), kind)
        if run is not None:
            run(np.arange(8))


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.astype(np.float32))


def _suspects(model: scratch.Transformer, ids: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what the book's own model returns with a single mistake in it, from the gallery or another."""
    for name in SUSPECTS:
        try:
            with bugs.put_in(name, rooms=("scratch",)):
                found = model(ids)
        except Exception:
            continue
        yield name, found  # the mistake is out again: whoever asks may stop here
    yield from _others(model, ids)


def _others(model: scratch.Transformer, ids: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Mistakes that are another configuration's right way."""
    c = model.config
    changes = {
        "one-head": {"n_heads": 1, "n_kv_heads": 1, "qk_norm": False},
        "usual-scale": {"attention_scale": 1 / np.sqrt(c.d_head)},
        "no-qk-norm": {"qk_norm": False},
        "no-embedding-norm": {"embedding_norm": False},
    }
    if c.feedforward == "gelu":
        changes["other-gelu"] = {"feedforward": "gelu_tanh"}
    own = model.named_parameters()
    for mistake, change in changes.items():
        try:
            found = _with_weights(own, c.replace(**change, dropout=0.0))(ids)
        except Exception:
            continue
        yield mistake, found
    for mistake, change in (
        ("gate-up", _exchanged), ("no-last-norm", _without_norm), ("interleaved-heads", _interleaved),
    ):  # fmt: skip
        other = _with_weights(own, c.replace(dropout=0.0))
        change(other)
        yield mistake, other(ids)
    for mistake, change in _of_weights(own):
        other = _with_weights(own, c.replace(dropout=0.0))
        for name, weight in other.named_parameters().items():
            weight[...] = change(name, weight.copy())
        yield mistake, other(ids)
    for mistake, change in (("unmasked", _unmasked), ("other-eps", _other_eps), ("one-block", _first_block)):
        other = _with_weights(own, c.replace(dropout=0.0))
        change(other)
        yield mistake, other(ids)


def _of_weights(own: dict[str, np.ndarray]) -> Iterator[tuple[str, Callable[[str, np.ndarray], np.ndarray]]]:
    """Mistakes that hand a right model other weights."""
    for which in (("W_q", "W_k", "W_v", "W_o"), ("W_o",), ("W_q", "W_k", "W_v")):
        ends = tuple(f"{one}.weight" for one in which)
        yield (
            "not-transposed",
            lambda name, w, ends=ends: w.T if name.endswith(ends) and w.shape == w.T.shape else w,
        )
    yield (
        "qk-exchanged",
        lambda name, w: own[name.replace("W_q", "W_?").replace("W_k", "W_q").replace("W_?", "W_k")],
    )
    for part in ("W_down.bias", "feedforward", "norm", ""):
        yield (
            "bias-left-out",
            lambda name, w, part=part: 0 * w if part in name and name.endswith("bias") else w,
        )


def _unmasked(model: scratch.Transformer) -> None:
    for block in _decoder(model).blocks:
        block.attention.causal = False


def _other_eps(model: scratch.Transformer) -> None:
    decoder = _decoder(model)
    norms = [norm for block in decoder.blocks for norm in (block.norm_attention, block.norm_feedforward)]
    for norm in [*norms, decoder.norm]:
        norm.eps = 1e-6


def _first_block(model: scratch.Transformer) -> None:
    del _decoder(model).blocks[1:]


def _decoder(model: scratch.Transformer) -> Any:
    assert model.decoder is not None  # each kind here is a decoder
    return model.decoder


def _with_weights(own: dict[str, np.ndarray], config: ModelConfig) -> scratch.Transformer:
    """Another configuration's model, with those of the weights that it has."""
    model = scratch.Transformer(config, generator=None, dtype=own["token_embedding.weight"].dtype)
    for name, weight in model.named_parameters().items():
        weight[...] = own[name]
    return model


def _exchanged(model: scratch.Transformer) -> None:
    w = model.named_parameters()
    for name in [name for name in w if "W_gate" in name]:
        gate, up = w[name], w[name.replace("W_gate", "W_up")]
        gate[...], up[...] = up.copy(), gate.copy()


def _without_norm(model: scratch.Transformer) -> None:
    _decoder(model).norm = None


def _interleaved(model: scratch.Transformer) -> None:
    """Head h gets the numbers h, h + H, h + 2H, …, and gives its own back there."""
    c = model.config
    order = np.arange(c.d_model).reshape(c.d_head, c.n_heads).T.ravel()
    for name, weight in model.named_parameters().items():
        if name.endswith(("W_q.weight", "W_k.weight", "W_v.weight")):
            weight[...] = weight[:, order]
        elif name.endswith("W_o.weight"):
            weight[...] = weight[order]


def _agree(found: np.ndarray, model: scratch.Transformer, ids: np.ndarray, which: str) -> None:
    want = model(ids)
    if close(found, want, CLOSE * min(1.0, float(np.abs(want).max()))):
        return
    message = f"{which}: {largest(found, want, 'T V')}"
    name_it(found, message, _suspects(model, ids))
    raise Wrong(message)


@weights.check("a small model of GPT-2's kind, or of LLaMA's, from a seed")
def _(own: Own) -> None:
    ids = np.array([3, 17, 0, 22, 5, 5, 9, 1, 12, 20])
    reads, failed = [], []
    for kind in KINDS:
        try:
            run = _loaded(own, made(kind), kind)
            if run is None:
                continue
            _agree(run(ids[:1]), made(kind), ids[:1], f'"{kind}", a single id')
            _agree(run(ids), made(kind), ids, f'"{kind}"')
            reads.append(kind)
        except Wrong as wrong:
            failed.append(wrong)
    if reads:
        return
    if failed:
        raise failed[0]
    raise NotAttempted('`load` reads neither "gpt2" nor "llama" yet. One of the two is enough.')


@weights.check("as long as its context")
def _(own: Own) -> None:
    ids = np.arange(24) * 7 % 23
    for kind in KINDS:
        if (run := _readable(own, kind)) is not None:
            _agree(run(ids), made(kind), ids, f'"{kind}", {len(ids)} ids')


def _readable(own: Own, kind: str) -> Callable | None:
    """Returns the loaded model if this kind is read correctly so far; the check before reports the other kind."""
    ids = np.array([3, 17, 0, 22])
    try:
        run = _loaded(own, made(kind), kind)
        return run if run is not None and close(run(ids), made(kind)(ids)) else None
    except Wrong:
        return None


@weights.check("two models at once")
def _(own: Own) -> None:
    """A second one with other numbers must not change the first."""
    ids = np.array([3, 17, 0, 22])
    for kind in KINDS:
        if (run := _readable(own, kind)) is None:
            continue
        other = made(kind).named_parameters()
        kept = {name: weight.copy() for name, weight in other.items()}
        try:
            for weight in other.values():
                weight *= 0.5
            second = _loaded(own, made(kind), kind)
            changed = made(kind)(ids)
        finally:
            for name, weight in other.items():
                weight[...] = kept[name]
        if second is not None and not close(second(ids), changed):
            raise Wrong("a second model, with other weights, gives the logits of the first.")
        if not close(run(ids), made(kind)(ids)):
            raise Wrong("a model gives other logits since a second one was loaded: do they share something?")


@shipped_model.check("Shakespeare's line, as the book's model reads it")
def _(own: Own) -> None:
    model, tokenizer = shipped.load()
    ids = tokenizer.encode(LINE)
    run = _loaded(own, model, "shakespeare")
    if run is None:
        raise NotAttempted('`load` does not read "shakespeare" yet. That is for the star.')
    _agree(run(ids), model, ids, "the book's model")


@shipped_model.check("and a whole context of it")
def _(own: Own) -> None:
    model, tokenizer = shipped.load()
    ids = tokenizer.encode((LINE + "\n\nKING RICHARD III:\nSlave, I have set my life upon a cast, ") * 2)[
        :128
    ]
    run = _loaded(own, model, "shakespeare")
    if run is not None:
        _agree(run(ids), model, ids, "the book's model, 128 characters")
