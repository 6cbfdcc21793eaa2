"""The stage *embedding*: an id becomes a vector."""

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import Own, Told
from ..measures.comparing import close, differs
from .stage import Stage

embedding = Stage("embedding")


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


embedding.your_own_code("embed", lambda own: own.call("embed", np.arange(3)))
