"""The stage *embedding*: an id becomes a vector."""

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from ..measures.comparing import close, differs
from .stage import Stage

embedding = Stage("embedding")


@embedding.check("a row of D numbers for each id")
def _(gpt: GPT) -> None:
    ids = np.array([3, 1, 4, 1, 5, 0, 2]) % gpt.vocab_size
    rows = gpt.array("embed", ids, axes="T D", what="`embed` of 7 ids")
    if len(rows) != len(ids):
        message = f"`embed` of 7 ids should have shape (7, D); yours has shape {rows.shape}."
        raise Told(message, "axes-swapped") if rows.shape[1] == len(ids) else Wrong(message)
    if not np.isfinite(rows).all():
        raise Wrong("`embed` of 7 ids contains NaN or infinity.")


@embedding.check("every id has a row, including the last one")
def _(gpt: GPT) -> None:
    last = gpt.vocab_size - 1
    gpt.array("embed", np.array([0]), axes="T D")
    try:
        gpt.array("embed", np.array([last]), axes="T D")
    except Wrong as wrong:
        message = str(wrong).rstrip(".")
        raise Told(f"id {last}: {message}.", "few-rows") from wrong


@embedding.check("different ids have different vectors")
def _(gpt: GPT) -> None:
    some = np.linspace(0, gpt.vocab_size - 1, min(gpt.vocab_size, 65)).astype(int)
    rows = np.stack([gpt.array("embed", np.array([i]), axes="T D")[0] for i in some])
    apart = np.abs(rows[:, None] - rows).max(axis=-1) + np.eye(len(rows))
    if apart.min() < 1e-9 * max(1.0, np.abs(rows).max()):
        one, other = (int(some[i]) for i in np.unravel_index(int(apart.argmin()), apart.shape))
        raise Told(f"ids {one} and {other} have the same vector.", "same-point")


@embedding.check("the vector of an id does not depend on the ids around it")
def _(gpt: GPT) -> None:
    ids = np.array([3, 1, 4, 1, 5, 0, 2]) % gpt.vocab_size
    rows = gpt.array("embed", ids, axes="T D")
    if not close(gpt.array("embed", ids, axes="T D"), rows):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")
    other = ids.copy()
    other[3] = (ids[3] + 1) % gpt.vocab_size
    changed = differs(gpt.array("embed", other, axes="T D"), rows)
    if changed.tolist() != [3]:
        listed = ", ".join(map(str, changed)) or "none"
        raise Told(f"only the id at position 3 was replaced, but these rows changed: {listed}.", "neighbours")
    if not close(gpt.array("embed", ids[:4], axes="T D"), rows[:4]):
        raise Told("the first four rows change if three more ids follow.", "neighbours")


embedding.your_own_code("embed", lambda gpt: gpt.call("embed", np.arange(3)))
