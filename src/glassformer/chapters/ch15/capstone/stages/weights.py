"""The stages *weights* and *shipped*: weights that others trained, and the reader's own, run in the reader's code."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from glassformer import scratch
from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers

from ..adapter import GPT, Missing, NotLookedAt, Told
from ..diagnosis.engine import Suspect, logits_with, tell
from ..diagnosis.parts import wrong_part
from ..diagnosis.suspects import suspects
from ..measures.comparing import CLOSE, close, largest
from ..measures.lines import lines_of
from ..measures.ownership import WATCHED, told_if_borrowed
from ..measures.texts import learn, log_softmax, windows_of
from ..weights import KINDS, STAR, fields, made, the_books
from ..words import remark
from .stage import Stage

weights = Stage("weights")
shipped = Stage("shipped")

LINE = "A horse! a horse! my kingdom for a horse!"
MORE = f"{LINE}\n\nKING RICHARD III:\nSlave, I have set my life upon a cast, "
IDS = np.array([3, 17, 0, 22, 5, 5, 9, 1, 12, 20])
SHARED = 1 / 3  # of the lines that a loaded model runs, those that the reader's own model runs, too, at least
TRAINED = 5  # steps
Run = Callable[[np.ndarray], np.ndarray]


def _loads(gpt: GPT, its: Mapping[str, Any], config: dict[str, Any]) -> Run | None:
    """Returns the reader's function from ids to logits; None if `load` does not read this kind."""
    arrays = {name: np.array(as_numbers(w, f"the weight `{name}`"), np.float64) for name, w in its.items()}
    if gpt.tensors:
        import torch

        arrays = {name: torch.from_numpy(w.astype(np.float32)) for name, w in arrays.items()}
    try:
        loaded = gpt.call("load", arrays, config)
    except NotAttempted:  # or it raised NotImplementedError: it does not read this kind
        return None
    except Wrong as wrong:
        if isinstance(wrong.__cause__, NotImplementedError):
            return None
        if wrong.__cause__ is None:
            raise
        with_or_without, arrays = ("With", "torch tensors") if gpt.tensors else ("Without", "NumPy arrays")
        said = f"{wrong}. {with_or_without} `tensors = True`, the weights are {arrays}."
        raise Wrong(said) from wrong.__cause__
    run = loaded if callable(loaded) else getattr(loaded, "logits", None)
    if not callable(run):
        raise Wrong("`load` should return a function from ids to logits, or an object with `logits`.")
    flags = {"tensors": gpt.tensors, "batched": gpt.batched, "vocab_size": config["vocab_size"]}
    model = GPT({"load": run, **flags}, gpt.running)
    return lambda ids: model.logits(ids, "load", "what `load` returned,")


def _loaded(gpt: GPT, kind: str, model: scratch.Transformer | None = None) -> Run | None:
    model = model or made(kind)
    return _loads(gpt, model.named_parameters(), fields(model, kind))


def _run_of(gpt: GPT, kind: str, model: scratch.Transformer | None = None) -> Run:
    """Returns the reader's function from ids to logits, loaded anew with a model of a kind that it takes."""
    run = _loaded(gpt, kind, model)
    if run is None:
        raise Wrong(f'`load` takes "{kind}" only at times.')
    return run


def runs_what_it_loads(gpt: GPT) -> None:
    """Runs `load` once on each kind that it reads."""
    if not gpt.has("load"):
        raise Missing("load")
    for kind in KINDS:
        run = _loaded(gpt, kind)
        if run is not None:
            run(np.arange(8))


def _agree(gpt: GPT, kind: str, model: scratch.Transformer, ids: np.ndarray, which: str) -> None:
    """Raises `Told` if a loaded model is wrong: with the mistake that explains its logits, or the part it is in."""
    run, want = _run_of(gpt, kind, model), model(ids)
    found = run(ids)
    if not close(run(ids), found):
        raise Told(f"{which}: the same ids gave two different results.", "dropout-in-evaluation")
    if close(found, want, CLOSE * min(1.0, float(np.abs(want).max()))):
        return
    message = f"{which}: {largest(found, want, 'T V')}"
    # A single id shows too little of some mistakes to tell them apart.
    asked = ids if len(ids) > 1 else IDS
    changes = suspects(model.config, len(asked), model.named_parameters())
    table = (Suspect(one.mistake, partial(logits_with, one, model, asked), one.detail) for one in changes)
    tell(run(asked), message, table)
    factor = float((found * want).sum() / (want * want).sum())
    if factor and close(found / factor, want):
        raise Told(f"{message} All of them are {factor:.4g} times what they should be.", "logits-scaled")
    mistake, where = wrong_part(lambda its: _loads(gpt, its, fields(model, kind)), model, asked)
    if mistake:
        raise Told(f"{message} {where}".rstrip(), mistake)
    raise Wrong(
        f"{message} No single mistake that the checker knows explains this. The usual causes that remain are weights "
        "that were not copied into the model, heads that are split or merged without swapping axes, a norm along the "
        "wrong axis, and two mistakes at once."
    )


@weights.check("`load` takes a small model of one kind at least")
def _(gpt: GPT) -> None:
    """Finds out which kinds the next checks can look at. To break at a kind is the same as not to take it."""
    gpt.notes["kinds"], broke = [], {}
    for kind in KINDS:
        try:
            run = _loaded(gpt, kind)
            if run is not None:
                run(IDS)
                gpt.notes["kinds"].append(kind)
        except Wrong as wrong:
            if "in place" in str(wrong):  # it takes this kind, and does it harm
                raise
            broke[kind] = wrong
    if gpt.notes["kinds"]:
        for kind, wrong in broke.items():
            gpt.remark(remark("other-kind-breaks", kind=kind, said=str(wrong).rstrip(".")))
        return
    if broke:
        raise next(iter(broke.values()))
    raise NotAttempted('`load` reads neither "gpt2" nor "llama" yet. One of the two is enough.')


def _is_right(gpt: GPT, kind: str) -> None:
    if kind not in gpt.notes["kinds"]:
        raise NotLookedAt(f'`load` does not take "{kind}"; one of the two kinds is enough')
    _agree(gpt, kind, made(kind), IDS[:1], f'"{kind}", a single id')
    _agree(gpt, kind, made(kind), IDS, f'"{kind}"')
    _agree(gpt, kind, made(kind), np.arange(24) * 7 % 23, f'"{kind}", as many ids as its context has')


for _kind in KINDS:
    weights.check(f'if `load` takes "{_kind}", the logits are right')(partial(_is_right, kind=_kind))


@weights.check("two models can be loaded at once")
def _(gpt: GPT) -> None:
    """A second one with different numbers must not change the first."""
    ids = IDS[:4]
    for kind in gpt.notes["kinds"]:
        run, config = _run_of(gpt, kind), fields(made(kind), kind)
        second = _loads(gpt, {name: 0.5 * one for name, one in made(kind).named_parameters().items()}, config)
        if second is not None and close(second(ids), run(ids)):
            raise Wrong("a second model, with different weights, gives the logits of the first.")
        if not close(run(ids), made(kind)(ids)):
            raise Wrong(
                "a model gives different logits after a second one has been loaded, so the two share something, such "
                "as a global variable. Let `load` make everything anew, and change nothing outside it."
            )


@weights.check("your own trained model gives the same logits through `load`")
def _(gpt: GPT) -> None:
    if not gpt.has("logits"):
        raise NotLookedAt("your adapter has no `logits`")
    ids = np.arange(12) * 5 % gpt.vocab_size
    if not gpt.has("export"):
        raise NotLookedAt(_of_the_same_lines(gpt, ids))
    if gpt.has("learn"):
        for windows in windows_of(gpt, TRAINED, min(gpt.context_length, 16), 2):
            learn(gpt, windows)
    want, handed = gpt.logits(ids), gpt.call("export")
    if not isinstance(handed, tuple | list) or len(handed) != 2 or not isinstance(handed[0], Mapping):
        raise Wrong("`export` should return two things: your weights, name → array, and their config.")
    its, config = handed
    run = _loads(gpt, its, dict(config))
    if run is None:
        raise Wrong(f"`load` cannot read what `export` returned, kind {dict(config).get('kind')!r}.")
    found = run(ids)
    # A number that is added to a whole row changes no probability, so one of the two may be in logarithms of them.
    if not close(found, want) and not close(log_softmax(found), log_softmax(want)):
        message = f"your own model, after some training: by its `logits`, {largest(found, want, 'T V')}"
        raise Told(message, "own-weights-differ")


def _of_the_same_lines(gpt: GPT, ids: np.ndarray) -> str:
    """Returns how many lines of the reader's own model `load` runs, and remarks on a `load` that runs hardly any."""
    with gpt.running.slowed(WATCHED):
        model = lines_of(lambda: gpt.logits(ids))
        runs = {kind: _run_of(gpt, kind) for kind in gpt.notes["kinds"]}
        loaded = {kind: lines_of(lambda run=run: run(np.arange(12))) for kind, run in runs.items()}
    said = "your adapter has no `export`, which would hand over your trained weights"
    kind, lines = max(loaded.items(), key=lambda one: len(one[1] & model) / max(1, len(one[1])))
    if not lines:
        return said
    shared = len(lines & model)
    if shared < SHARED * len(lines):
        gpt.remark(remark("other-code", kind=kind, lines=len(lines), shared=shared))
    said += f'. Of the {len(lines)} lines of yours that `load` runs for "{kind}", '
    return f"{said}{shared} run in your own model, too"


def _is_own_code(gpt: GPT, kind: str, model: scratch.Transformer) -> None:
    its, config = model.named_parameters(), fields(model, kind)  # before anything is watched

    def run(gpt: GPT) -> None:
        loaded = _loads(gpt, its, config)
        if loaded is not None:
            loaded(np.arange(8))

    told_if_borrowed(gpt, "load", run)


@weights.check("it is your own code")
def _(gpt: GPT) -> None:
    for kind in gpt.notes["kinds"]:
        _is_own_code(gpt, kind, made(kind))


@shipped.check("a line of Shakespeare gives the logits of the book's model")
def _(gpt: GPT) -> None:
    model, tokenizer = the_books()
    if _loaded(gpt, STAR, model) is None:
        raise NotAttempted('`load` does not read "shakespeare" yet. It is for the star.')
    _agree(gpt, STAR, model, tokenizer.encode(LINE), "the book's model")


@shipped.check("a whole context gives the logits of the book's model, too")
def _(gpt: GPT) -> None:
    model, tokenizer = the_books()
    _agree(gpt, STAR, model, tokenizer.encode(2 * MORE)[:128], "the book's model, 128 characters")


@shipped.check("it is your own code")
def _(gpt: GPT) -> None:
    _is_own_code(gpt, STAR, the_books()[0])
