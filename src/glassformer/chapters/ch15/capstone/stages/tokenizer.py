"""The first stages: a text becomes ids, and ids become vectors."""

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers, in_numpy
from glassformer.text import corpus

from .adapter import Own, Told
from .origin import remark_on_tokenizer, your_own_code
from .stage import Stage, close, differs

LINE = "A horse! a horse! my kingdom for a horse!"
UNKNOWN = "naïve ☃"  # has two characters that do not occur in Shakespeare
STANDS_FOR_UNKNOWN = "?"  # what a text may be given on purpose, as `str.encode` with "replace" does

tokenizer = Stage("tokenizer")
embedding = Stage("embedding")


def ids_of(own: Own, text: str) -> np.ndarray:
    """Returns the ids that `encode` makes of a text, (T,)."""
    what = f"`encode` of {text[:20]!r}"
    found = as_numbers(in_numpy(own.call("encode", text)), what)
    while found.ndim > 1 and found.shape[0] == 1:
        found = found[0]
    if found.ndim != 1:
        raise Wrong(f"{what} should have one axis (T); yours has shape {found.shape}.")
    if found.dtype.kind not in "iu" and found.size:
        raise Wrong(f"{what} should be whole numbers; yours are {found.dtype}.")
    return found.astype(np.int64)


def _returns(own: Own, text: str) -> None:
    ids = ids_of(own, text)
    if text and not len(ids):
        raise Wrong(f"`encode` of {text[:20]!r} is empty.")
    back = own.decode(ids)
    if isinstance(back, tuple | list) and len(back) == 1:  # a batch of one text
        back = back[0]
    if isinstance(back, np.ndarray) and back.dtype.kind == "U":
        back = str(back.reshape(-1)[0]) if back.size == 1 else back
    if not isinstance(back, str):
        raise Wrong(f"`decode` should return a text (str); yours returned {type(back).__name__}.")
    if back == text:
        return
    message = f"{text[:41]!r} comes back as {back[:41]!r}."
    if len(back) > len(text) and back.replace(" ", "") == text.replace(" ", ""):
        raise Told(message, "joined")
    if back == text.strip():
        raise Told(message, "stripped")
    if sorted(back) == sorted(text):
        raise Told(message, "order-lost")
    if _is_within(back, text):
        lost = sorted(set(text) - set(back)) or [text[_first_difference(text, back)]]
        raise Told(f"{message} What is lost: {', '.join(map(repr, lost[:6]))}.", "characters-lost")
    if _is_within(text, back):
        raise Told(message, "characters-added")
    if len(back) == len(text):
        others = sorted({one for one, its in zip(text, back, strict=True) if one != its})
        raise Told(
            f"{message} Other characters come back for {', '.join(map(repr, others[:6]))}.", "shared-id"
        )
    raise Wrong(
        f"{message} The usual causes are two tables that do not belong together, ids that are cut off or shifted, and "
        "pieces that are joined in another way than they were split."
    )


def _is_within(one: str, other: str) -> bool:
    """Returns whether all characters of a text come in another one, in the same order."""
    rest = iter(other)
    return all(character in rest for character in one)


def _first_difference(one: str, other: str) -> int:
    """Returns where a text first differs from another one that is shorter."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))


@tokenizer.check("a line comes back unchanged")
def _(own: Own) -> None:
    _returns(own, LINE)


@tokenizer.check("every character of Shakespeare comes back, too, including line breaks")
def _(own: Own) -> None:
    text = corpus()
    for piece in ("".join(sorted(set(text))), text[:300], text[-301:], "  two\n\n\nblanks ", "a"):
        _returns(own, piece)


@tokenizer.check("ids are whole numbers from 0 to vocab_size − 1")
def _(own: Own) -> None:
    text, V = corpus(), own.vocab_size
    ids = ids_of(own, "".join(sorted(set(text))) + text[:2000])
    low, high = int(ids.min()), int(ids.max())
    if low < 0:
        raise Wrong(f"an id is {low}. Ids run from 0 to V − 1.")
    if high >= V:
        message = f"an id is {high}, and `vocab_size` is {V}."
        raise Told(message, "few-rows") if high == V else Wrong(message)


@tokenizer.check("the same text always gives the same ids, and another text gives others")
def _(own: Own) -> None:
    one, again, other = ids_of(own, LINE), ids_of(own, LINE), ids_of(own, LINE[::-1])
    if not np.array_equal(one, again):
        raise Wrong("the same text gave two different lists of ids.")
    if np.array_equal(one, other):
        raise Wrong("a text and its reverse have the same ids.")


@tokenizer.check("an unknown character is noticed")
def _(own: Own) -> None:
    try:
        found = own.call("encode", UNKNOWN)
    except Wrong:
        return  # it refuses
    ids = as_numbers(in_numpy(found), "`encode`").ravel()
    if (ids == -1).any():
        raise Told(f"`encode` of {UNKNOWN!r} contains −1.", "find")
    if ids.size and (ids.min() < 0 or ids.max() >= own.vocab_size):
        raise Wrong(f"`encode` of {UNKNOWN!r} contains {int(ids.max())}, which is not an id.")
    back = own.decode(ids.astype(np.int64))
    if isinstance(back, str) and back == "".join(one for one in UNKNOWN if one in set(corpus())):
        raise Told(f"{UNKNOWN!r} comes back as {back!r}.", "dropped")
    for one in UNKNOWN:
        if one not in corpus():
            _has_no_others_id(own, one)


def _has_no_others_id(own: Own, unknown: str) -> None:
    """Raises `Told` if an unknown character comes back as a known one."""
    try:
        back = own.decode(ids_of(own, unknown))
    except Wrong:
        return
    if isinstance(back, str) and back in set(corpus()) - {STANDS_FOR_UNKNOWN}:
        raise Told(f"{unknown!r} comes back as {back!r}.", "unknown-taken")


@tokenizer.check("it is your own code")
def _(own: Own) -> None:
    own.found["ids"] = ids_of(own, LINE)
    remark_on_tokenizer(own, LINE)


@embedding.check("a row of D numbers for each id")
def _(own: Own) -> None:
    ids = np.array([3, 1, 4, 1, 5, 0, 2]) % own.vocab_size
    found = own.array("embed", ids, axes="T D", what="`embed` of 7 ids")
    if found.shape[0] != len(ids):
        message = f"`embed` of 7 ids should have shape (7, D); yours has shape {found.shape}"
        if found.shape[1] == len(ids):
            raise Told(f"{message}, which looks transposed.", "axes-swapped")
        raise Wrong(f"{message}.")
    if not np.isfinite(found).all():
        raise Wrong("`embed` of 7 ids contains NaN or infinity.")


@embedding.check("every id has a row, including the last one")
def _(own: Own) -> None:
    last = own.vocab_size - 1
    own.array("embed", np.array([0]), axes="T D")
    try:
        own.array("embed", np.array([last]), axes="T D")
    except Wrong as wrong:
        message = str(wrong).rstrip(".")
        raise Told(f"id {last}: {message}.", "few-rows") from wrong


@embedding.check("different ids have different vectors")
def _(own: Own) -> None:
    some = np.linspace(0, own.vocab_size - 1, min(own.vocab_size, 65)).astype(int)
    rows = np.stack([own.array("embed", np.array([i]), axes="T D")[0] for i in some])
    apart = np.abs(rows[:, None] - rows).max(axis=-1) + np.eye(len(rows))
    if apart.min() < 1e-9 * max(1.0, np.abs(rows).max()):
        one, other = (int(some[i]) for i in np.unravel_index(int(apart.argmin()), apart.shape))
        raise Told(f"ids {one} and {other} have the same vector.", "same-point")


@embedding.check("the vector of an id does not depend on the ids around it")
def _(own: Own) -> None:
    ids = np.array([3, 1, 4, 1, 5, 0, 2]) % own.vocab_size
    rows = own.array("embed", ids, axes="T D")
    if not close(own.array("embed", ids, axes="T D"), rows):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")
    other = ids.copy()
    other[3] = (ids[3] + 1) % own.vocab_size
    changed = differs(own.array("embed", other, axes="T D"), rows)
    if changed.tolist() != [3]:
        listed = ", ".join(map(str, changed)) or "none"
        raise Told(f"only the id at position 3 was replaced, but these rows changed: {listed}.", "neighbours")
    if not close(own.array("embed", ids[:4], axes="T D"), rows[:4]):
        raise Told("the first four rows change if three more ids follow.", "neighbours")


your_own_code(embedding, "embed", lambda own: own.call("embed", np.arange(3)))
