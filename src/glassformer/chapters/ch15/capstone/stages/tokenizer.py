"""The stage *tokenizer*: a text becomes ids, and comes back."""

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers, in_numpy
from glassformer.text import corpus

from ..adapter import GPT, Told
from ..measures.ownership import TOKENIZERS, parts_of_others
from ..measures.texts import ids_of
from ..words import remark
from .stage import Stage

LINE = "A horse! a horse! my kingdom for a horse!"
UNKNOWN = "naïve ☃"  # has two characters that do not occur in Shakespeare
STANDS_FOR_UNKNOWN = "?"  # what a text may be given on purpose, as `str.encode` with "replace" does

tokenizer = Stage("tokenizer")


def _returns(gpt: GPT, text: str) -> None:
    ids = ids_of(gpt, text)
    if text and not len(ids):
        raise Wrong(f"`encode` of {text[:20]!r} is empty.")
    back = gpt.decode(ids)
    if isinstance(back, np.ndarray) and back.dtype.kind == "U" and back.size == 1:
        back = str(back.reshape(-1)[0])
    if not isinstance(back, str):
        raise Wrong(f"`decode` should return a text (str); yours returned {type(back).__name__}.")
    if back == text:
        return
    message = f"{text[:41]!r} comes back as {back[:41]!r}."
    if sorted(back) == sorted(text):
        raise Told(message, "order-lost")
    if len(back) != len(text):
        raise Told(message, "characters-lost" if len(back) < len(text) else "characters-added")
    others = sorted({one for one, its in zip(text, back, strict=True) if one != its})
    raise Told(f"{message} Other characters come back for {', '.join(map(repr, others[:6]))}.", "shared-id")


@tokenizer.check("a line comes back unchanged")
def _(gpt: GPT) -> None:
    _returns(gpt, LINE)


@tokenizer.check("every character of Shakespeare comes back, too, including line breaks")
def _(gpt: GPT) -> None:
    text = corpus()
    for piece in ("".join(sorted(set(text))), text[:300], text[-301:], "  two\n\n\nblanks ", "a"):
        _returns(gpt, piece)


@tokenizer.check("ids are whole numbers from 0 to vocab_size − 1")
def _(gpt: GPT) -> None:
    text, V = corpus(), gpt.vocab_size
    ids = ids_of(gpt, "".join(sorted(set(text))) + text[:2000])
    low, high = int(ids.min()), int(ids.max())
    if low < 0:
        raise Wrong(f"an id is {low}. Ids run from 0 to V − 1.")
    if high >= V:
        message = f"an id is {high}, and `vocab_size` is {V}."
        raise Told(message, "few-rows") if high == V else Wrong(message)


@tokenizer.check("the same text always gives the same ids, and another text gives others")
def _(gpt: GPT) -> None:
    one, again, other = ids_of(gpt, LINE), ids_of(gpt, LINE), ids_of(gpt, LINE[::-1])
    if not np.array_equal(one, again):
        raise Wrong("the same text gave two different lists of ids.")
    if np.array_equal(one, other):
        raise Wrong("a text and its reverse have the same ids.")


@tokenizer.check("an unknown character is noticed")
def _(gpt: GPT) -> None:
    try:
        ids = as_numbers(in_numpy(gpt.call("encode", UNKNOWN)), "`encode`").ravel()
    except Wrong:
        return  # it refuses
    if (ids == -1).any():
        raise Told(f"`encode` of {UNKNOWN!r} contains −1.", "find")
    if ids.size and (ids.min() < 0 or ids.max() >= gpt.vocab_size):
        raise Wrong(f"`encode` of {UNKNOWN!r} contains {int(ids.max())}, which is not an id.")
    known, back = set(corpus()), gpt.decode(ids.astype(np.int64))
    if isinstance(back, str) and back == "".join(one for one in UNKNOWN if one in known):
        raise Told(f"{UNKNOWN!r} comes back as {back!r}.", "dropped")
    for one in (one for one in UNKNOWN if one not in known):
        try:
            back = gpt.decode(ids_of(gpt, one))
        except Wrong:
            continue
        if isinstance(back, str) and back in known - {STANDS_FOR_UNKNOWN}:
            raise Told(f"{one!r} comes back as {back!r}.", "unknown-taken")


@tokenizer.check("it is your own code")
def _(gpt: GPT) -> None:
    """A tokenizer of the book's passes, too, with a remark."""
    ids = ids_of(gpt, LINE)
    for piece, run in (("encode", lambda: gpt.call("encode", LINE)), ("decode", lambda: gpt.decode(ids))):
        if TOKENIZERS in parts_of_others(run):
            return gpt.remark(remark("books-tokenizer", name=piece))
    return None
