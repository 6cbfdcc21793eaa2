"""The last stages: weights that others trained, and the reader's own, run in the reader's code."""

import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import onepage, scratch
from glassformer.config import ModelConfig
from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.published import published
from glassformer.text import CharTokenizer

from .adapter import NotLookedAt, Own, Told
from .lessons import learn, windows_of
from .located import wrong_part
from .origin import WATCHED, told_if_borrowed
from .stage import CLOSE, Stage, close, largest
from .suspects import suspects
from .texts import log_softmax
from .tracing import lines_of
from .words import remark

weights = Stage("weights")
shipped_model = Stage("shipped")

LINE = "A horse! a horse! my kingdom for a horse!"
KINDS = ("gpt2", "llama")
TINY = 0.005
BASE = 700.0  # of rotary positions: a number that nobody has by chance
IDS = np.array([3, 17, 0, 22, 5, 5, 9, 1, 12, 20])
SHARED = 1 / 3  # of the lines that a loaded model runs, those that the reader's own model runs, too, at least
TRAINED = 5  # steps
OWN_NAMES = ("token_embedding.weight", "decoder.blocks.0.attention.W_q.weight", "decoder.norm.weight")


@cache
def made(kind: str) -> scratch.Transformer:
    """Returns a small model of a kind, with weights from a seed: no bias is 0 and no gain is 1.

    The vectors of every other id and of all positions are tiny, so that ε makes a difference.
    """
    small = {"vocab_size": 23, "context_length": 24, "d_model": 24, "n_layers": 3, "n_heads": 3}
    config = published("gpt2").config.replace(**small, attention_bias="none", feedforward="gelu", dropout=0.0)
    if kind == "llama":
        config = ModelConfig(
            **small,
            d_ff=40,
            positions="rope",
            rope_base=BASE,
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


def the_books() -> tuple[scratch.Transformer, CharTokenizer]:
    """Returns the book's trained model and its tokenizer.

    `onepage` reads the file, because a practice page has no library that could.
    """
    folder = Path(onepage.__file__).parent / "assets" / "models" / "shakespeare"
    config = ModelConfig.from_json((folder / "config.json").read_text(encoding="utf-8"))
    model = scratch.Transformer(config, generator=None, dtype=np.float32).eval()
    read = onepage.GPT(folder)
    named = {f"{part}.{name}.weight": one for part, own in read.w.items() for name, one in own.items()}
    model.load_state_dict({name.removeprefix("."): one for name, one in named.items()})
    return model, CharTokenizer("".join(read.alphabet))


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
    """Returns the reader's function from ids to logits; None if `load` does not read this kind."""
    return _loads(own, model.named_parameters(), fields(model, kind))


def _run_of(
    own: Own, kind: str, model: scratch.Transformer | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the reader's function from ids to logits, loaded anew with a model of a kind that it takes.

    Without `model`, it is the small one.
    """
    run = _loaded(own, model or made(kind), kind)
    if run is None:
        raise Wrong(f'`load` takes "{kind}" only at times.')
    return run


def _loads(own: Own, weights: Mapping[str, Any], config: dict[str, Any]) -> Callable | None:
    handed = {
        name: np.array(as_numbers(one, f"the weight `{name}`"), dtype=np.float64)
        for name, one in weights.items()
    }
    if own.tensors:
        handed = {name: _tensor(array) for name, array in handed.items()}
    try:
        loaded = own.call("load", handed, config)
    except NotAttempted:  # or it raised NotImplementedError: it does not read this kind
        return None
    except Wrong as wrong:
        if isinstance(wrong.__cause__, NotImplementedError):
            return None
        if wrong.__cause__ is None:
            raise
        raise Wrong(f"{wrong}{_other_containers(own, weights, config)}") from wrong.__cause__
    run = loaded if callable(loaded) else getattr(loaded, "logits", None)
    if not callable(run):
        raise Wrong("`load` should return a function from ids to logits, or an object with `logits`.")
    V = config["vocab_size"]
    one = Own({"load": run, "tensors": own.tensors, "batched": own.batched}, own.running)

    def logits(ids: np.ndarray) -> np.ndarray:
        found = one.array("load", ids, axes="T V", what=f"what `load` returned, of {len(ids)} ids,")
        if found.shape != (len(ids), V):
            raise Wrong(
                f"what `load` returned should turn {len(ids)} id{'s' * (len(ids) > 1)} into logits of shape "
                f"(T, V) = ({len(ids)}, {V}); yours have shape {found.shape}."
            )
        return found

    return logits


def _other_containers(own: Own, weights: Mapping[str, Any], config: dict[str, Any]) -> str:
    """Returns what to tell if `load`, which raised an error, takes arrays instead of tensors, or tensors of arrays."""
    if not own.tensors and "torch" not in sys.modules:
        return ""
    arrays = {name: np.array(as_numbers(one, name), dtype=np.float64) for name, one in weights.items()}
    other = arrays if own.tensors else {name: _tensor(array) for name, array in arrays.items()}
    try:
        Own({"load": own.piece("load")}, own.running).call("load", other, config)
    except NotAttempted:
        pass  # these it takes, though not this kind
    except Wrong as wrong:
        if wrong.__cause__ is not None and not isinstance(wrong.__cause__, NotImplementedError):
            return ""  # it raised an error with these, too
    if own.tensors:
        return ". With `tensors = True`, the weights are torch tensors and not arrays."
    return ". Without `tensors = True`, the weights are NumPy arrays and not tensors."


def tried(own: Own) -> None:
    """Runs `load` once on each kind that it reads."""
    for kind in KINDS:
        run = _loaded(own, made(kind), kind)
        if run is not None:
            run(np.arange(8))


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.astype(np.float32))


def _agree(own: Own, kind: str, model: scratch.Transformer, ids: np.ndarray, which: str) -> None:
    run, want = _run_of(own, kind, model), model(ids)
    found = run(ids)
    if not close(run(ids), found):
        raise Told(f"{which}: the same ids gave two different results.", "dropout-in-evaluation")
    if close(found, want, CLOSE * min(1.0, float(np.abs(want).max()))):
        return
    message = f"{which}: {largest(found, want, 'T V')}"
    with np.errstate(all="ignore"):
        for mistake, detail, value in suspects(model, ids):
            if close(found, value, CLOSE * min(1.0, float(np.abs(value).max()))):
                raise Told(f"{message} {detail}".rstrip(), mistake)
    factor = float((found * want).sum() / (want * want).sum())
    if factor and close(found / factor, want):
        raise Told(f"{message} All of them are {factor:.4g} times what they should be.", "logits-scaled")
    mistake, where = wrong_part(lambda its: _loads(own, its, fields(model, kind)), model, ids)
    if mistake:
        raise Told(f"{message} {where}".rstrip(), mistake)
    raise Wrong(
        f"{message} No single mistake that the checker knows explains this. The usual causes that remain are weights "
        "that were not copied into the model, heads that are split or merged without swapping axes, a norm along the "
        "wrong axis, and two mistakes at once."
    )


@weights.check("`load` takes a small model of one kind at least")
def _(own: Own) -> None:
    """Finds out which kinds the next checks can look at. To break at a kind is the same as not to take it."""
    own.found["kinds"], broke = [], {}
    for kind in KINDS:
        try:
            run = _loaded(own, made(kind), kind)
            if run is not None:
                run(IDS)
                own.found["kinds"].append(kind)
        except Wrong as wrong:
            if "in place" in str(wrong):  # it takes this kind, and does it harm
                raise
            broke[kind] = wrong
    if own.found["kinds"]:
        for kind, wrong in broke.items():
            own.remark(remark("other-kind-breaks", kind=kind, said=str(wrong).rstrip(".")))
        return
    if broke:
        raise next(iter(broke.values()))
    raise NotAttempted('`load` reads neither "gpt2" nor "llama" yet. One of the two is enough.')


def _is_right(own: Own, kind: str) -> None:
    if kind not in own.found["kinds"]:
        raise NotLookedAt(f'`load` does not take "{kind}"; one of the two kinds is enough')
    _agree(own, kind, made(kind), IDS[:1], f'"{kind}", a single id')
    _agree(own, kind, made(kind), IDS, f'"{kind}"')
    _agree(own, kind, made(kind), np.arange(24) * 7 % 23, f'"{kind}", as many ids as its context has')


for _kind in KINDS:
    weights.check(f'if `load` takes "{_kind}", the logits are right')(partial(_is_right, kind=_kind))


@weights.check("two models can be loaded at once")
def _(own: Own) -> None:
    """A second one with different numbers must not change the first."""
    ids = IDS[:4]
    for kind in own.found["kinds"]:
        run, other = _run_of(own, kind), made(kind).named_parameters()
        kept = {name: weight.copy() for name, weight in other.items()}
        try:
            for weight in other.values():
                weight *= 0.5
            second = _run_of(own, kind)
            changed = made(kind)(ids)
        finally:
            for name, weight in other.items():
                weight[...] = kept[name]
        if not close(second(ids), changed):
            raise Wrong("a second model, with different weights, gives the logits of the first.")
        if not close(run(ids), made(kind)(ids)):
            raise Wrong(
                "a model gives different logits after a second one has been loaded, so the two share something, such "
                "as a global variable. Let `load` make everything anew, and change nothing outside it."
            )


@weights.check("your own trained model gives the same logits through `load`")
def _(own: Own) -> None:
    if not own.has("logits"):
        raise NotLookedAt("your adapter has no `logits`")
    if own.has("learn"):
        for windows in windows_of(own, TRAINED, min(own.context_length, 16), 2):
            learn(own, windows)
    ids = np.arange(12) * 5 % own.vocab_size
    want = own.logits(ids)
    if own.has("export"):
        handed = own.call("export")
        if not isinstance(handed, tuple | list) or len(handed) != 2 or not isinstance(handed[0], Mapping):
            raise Wrong("`export` should return two things: your weights, name → array, and their config.")
        its, config = handed
        run = _loads(own, its, dict(config))
        if run is None:
            raise Wrong(f"`load` cannot read what `export` returned, kind {dict(config).get('kind')!r}.")
        return _same(run(ids), want)
    named = own.has("weights") and set(OWN_NAMES) <= set(own.arrays("weights"))
    if not (named and _by_the_books_names(own, ids, want)):
        raise NotLookedAt(_of_the_same_lines(own, ids))
    return None


def _same(found: np.ndarray, want: np.ndarray) -> None:
    # A number that is added to a whole row changes no probability, so one of the two may be in logarithms of them.
    if not close(found, want) and not close(log_softmax(found), log_softmax(want)):
        message = f"your own model, after some training: by its `logits`, {largest(found, want, 'T V')}"
        raise Told(message, "own-weights-differ")


def _by_the_books_names(own: Own, ids: np.ndarray, want: np.ndarray) -> bool:
    """Returns whether the reader's own weights, which have the book's names, give the same logits through `load`.

    How many heads there are cannot be seen in the weights, so every number is tried.
    """
    its = own.arrays("weights")
    shapes = {name: np.shape(one) for name, one in its.items()}
    V, D = shapes[OWN_NAMES[0]]
    layers = sum(name.endswith("attention.W_q.weight") for name in its)
    gated = any("W_gate" in name for name in its)
    d_ff = next((shape[-1] for name, shape in shapes.items() if name.endswith("W_up.weight")), 4 * D)
    sizes = {
        "vocab_size": V,
        "context_length": own.context_length,
        "d_model": D,
        "n_layers": layers,
        "d_ff": d_ff,
    }
    for heads in (n for n in range(1, D + 1) if D % n == 0):
        more = {"n_heads": heads, "eps": 1e-5, "rope_base": 10_000.0, "attention_scale": (D // heads) ** -0.5}
        try:
            run = _loads(own, its, {"kind": "llama" if gated else "gpt2"} | sizes | more)
            if run is not None and close(run(ids), want):
                return True
        except Wrong:
            continue
    return False


def _of_the_same_lines(own: Own, ids: np.ndarray) -> str:
    """Returns how many lines of the reader's own model `load` runs, and remarks on a `load` that runs hardly any."""
    with own.running.slowed(WATCHED):
        model = lines_of(lambda: own.logits(ids))
    most = (0.0, "", 0, 0)
    for kind in own.found["kinds"]:
        run = _run_of(own, kind)
        with own.running.slowed(WATCHED):
            loaded = lines_of(lambda run=run: run(np.arange(12)))
        if loaded:
            shared = len(loaded & model)
            most = max(most, (shared / len(loaded), kind, len(loaded), shared))
    share, kind, lines, shared = most
    said = "your adapter has no `export`, which would hand over your trained weights"
    if not kind:
        return said
    if share < SHARED:
        own.remark(remark("other-code", kind=kind, lines=lines, shared=shared))
    return f'{said}. Of the {lines} lines of yours that `load` runs for "{kind}", {shared} run in your own model, too'


@weights.check("it is your own code")
def _(own: Own) -> None:
    for kind in own.found["kinds"]:
        _told_if_borrowed(own, made(kind), kind, np.arange(8))


def _told_if_borrowed(own: Own, model: scratch.Transformer, kind: str, ids: np.ndarray) -> None:
    its, config = dict(model.named_parameters()), fields(model, kind)

    def run(own: Own) -> None:
        loaded = _loads(own, its, config)
        if loaded is not None:
            loaded(ids)

    told_if_borrowed(own, "load", run)


@shipped_model.check("a line of Shakespeare gives the logits of the book's model")
def _(own: Own) -> None:
    model, tokenizer = the_books()
    ids = tokenizer.encode(LINE)
    if _loaded(own, model, "shakespeare") is None:
        raise NotAttempted('`load` does not read "shakespeare" yet. It is for the star.')
    _agree(own, "shakespeare", model, ids, "the book's model")


@shipped_model.check("a whole context gives the logits of the book's model, too")
def _(own: Own) -> None:
    model, tokenizer = the_books()
    ids = tokenizer.encode((LINE + "\n\nKING RICHARD III:\nSlave, I have set my life upon a cast, ") * 2)[
        :128
    ]
    _agree(own, "shakespeare", model, ids, "the book's model, 128 characters")


@shipped_model.check("it is your own code")
def _(own: Own) -> None:
    model, tokenizer = the_books()
    _told_if_borrowed(own, model, "shakespeare", tokenizer.encode(LINE))
