"""The stages in the middle: a block, and the whole model."""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import LeaveOut, Missing, NotLookedAt, Own, Told
from .louder import loud_weights, other_weights, trained_arrays
from .origin import your_own_code
from .stage import Stage, changed_by, close, cut_short, differs, ends_alike, leaks, masked_sometimes
from .words import remark

block = Stage("block")
model = Stage("model")

CUT = 0.2, 0.9  # how many logits are 0 if a ReLU has cut them off
READ = 5  # the row of a table of positions that is changed, and the id that should have nothing to do with it
EVEN = 1e-3  # relative: by how much logits may differ from what a head gives
COMBINATIONS, LINEAR, TINY = (
    12,
    3e-5,
    1e-6,
)  # of two vectors; relative: what single precision leaves of 0; absolute
HEARD = (
    0.03  # relative: so much earlier rows must matter before their order is judged, which matters far less
)
# Vectors that have not been normed: how much their lengths differ, and how much of it no gains and biases explain.
UNEVEN, UNEXPLAINED = 0.03, 0.004


def _deaf(own: Own, message: str, looked: bool) -> Told | LeaveOut:
    """Returns the failure of a model that ignores earlier positions, if this was looked at with other weights, too."""
    if looked or own.has("learn"):
        return Told(message, "blind")
    return LeaveOut(
        f"{message} Either attention does not look back, or what it adds starts at 0. To find out, the checker has to "
        "change your weights: write `weights` or `learn` first."
    )


def _stream(own: Own) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(9, own.width))


def _through(own: Own, x: np.ndarray) -> np.ndarray:
    found = own.array("block", x, axes="T D", what=f"`block` of (T, D) = {x.shape}")
    if found.shape != x.shape:
        raise Wrong(f"`block` of (T, D) = {x.shape} should have the same shape; yours has {found.shape}.")
    lost = np.flatnonzero(~np.isfinite(found).all(axis=-1))
    if len(lost):
        message = f"for a stream of shape (T, D) = {x.shape}, `block` returns {found[~np.isfinite(found)][0]}"
        if lost.tolist() == [0] and len(x) > 1:
            raise Told(f"{message} in row 0, and numbers in all other rows.", "mask-of-self")
        raise Wrong(f"{message} in row {lost[0]}.")
    return found


@block.check("the stream keeps its shape")
def _(own: Own) -> None:
    _through(own, _stream(own))


@block.check("the same input gives the same output")
def _(own: Own) -> None:
    x = _stream(own)
    if not close(_through(own, x), _through(own, x)):
        raise Told("the same stream gave two different results.", "dropout-in-evaluation")


@block.check("no position depends on a later one")
def _(own: Own) -> None:
    x = _stream(own)
    other = x.copy()
    other[5] = np.random.default_rng(8).normal(size=x.shape[1])
    leaks(differs(_through(own, other), _through(own, x)), 5, "position")
    for T in (2, 5):
        other = np.concatenate([x[: T - 1], -x[T - 1 : T]])
        with masked_sometimes(T, len(x)):
            leaks(differs(_through(own, other), _through(own, x[:T])), T - 1, "position")


@block.check("later positions depend on earlier ones")
def _(own: Own) -> None:
    heard, looked = _heard(own), False
    if not heard:
        with loud_weights(own, lambda: _through(own, _stream(own))) as changed:
            heard, looked = _heard(own) if changed else [], changed
    if not heard:
        message = "each earlier position was replaced in turn, and the last row of the result never changed."
        raise _deaf(own, message, looked)
    if 0 not in heard:
        own.remark(remark("window", what="position", n=8, first=heard[0]))


def _heard(own: Own) -> list[int]:
    """Returns the positions on which a block's last row depends."""
    return [at for at in range(8) if any(_hears(own, at, seed) for seed in range(4))]


def _hears(own: Own, at: int, seed: int) -> bool:
    """Returns whether the last row changes when position `at` does. It need not look at every other."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, own.width))
    other = x.copy()
    other[at] = 3 * rng.normal(size=x.shape[1])
    return 8 in differs(_through(own, other), _through(own, x))


@block.check("the block adds to its input")
def _(own: Own) -> None:
    # A large stream, too: it shows that a block adds even if its first weights are far too large.
    x = np.random.default_rng(3).normal(size=(12, own.width))
    alike = max(_alike(size * x, _through(own, size * x)) for size in (1.0, 1000.0))
    if alike < 0.2:
        message = f"the output hardly resembles the input (average cosine {alike:.2f})."
        raise Told(message, "residual-dropped")
    if _with_any_weights(own, lambda: _keeps_size(own, x)):
        own.remark(remark("normed-stream"))


def _with_any_weights(own: Own, holds: Callable[[], bool]) -> bool:
    """Returns whether something is true of a block with its own weights and, if they can be changed, with loud ones."""
    if not holds():
        return False
    with loud_weights(own, lambda: _through(own, _stream(own)), biases=False) as changed:
        return not changed or holds()


def _keeps_size(own: Own, x: np.ndarray) -> bool:
    """Returns whether a block's result does not depend on the stream's size, although it does not end in a norm.

    It may be right: `x = norm(x)`, `x = x + sublayer(x)` is post-norm, if a block begins with the norm that ends the
    sublayer before. So the two cannot be told apart, and this is no failure.
    After a norm, Σ ((y − b) / g)² is the same in every row, whatever its gains g and biases b: a linear fit finds out.
    """
    rows = np.concatenate([x, np.random.default_rng(4).normal(size=(4 * own.width, own.width))])
    parts = [rows[i : i + 12] for i in range(0, len(rows), 12)]
    one, thousand = (np.concatenate([_through(own, size * part) for part in parts]) for size in (1.0, 1000.0))
    return close(one, thousand, 1e-3) and not _ends_in_a_norm(one)


def _ends_in_a_norm(rows: np.ndarray) -> bool:
    """Returns whether rows may come from a norm: a linear fit then finds Σ ((y − b) / g)², the same in all."""
    known = np.concatenate([rows**2, rows], axis=1)
    fit, *_ = np.linalg.lstsq(known, np.ones(len(known)), rcond=None)
    return bool(np.std(known @ fit) <= UNEXPLAINED)


def _alike(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the average cosine between their rows, each less its mean."""
    rows = zip(x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True), strict=True)
    return float(np.mean([a @ b / np.sqrt((a @ a) * (b @ b) + 1e-30) for a, b in rows]))


@block.check("it makes no difference how many positions follow")
def _(own: Own) -> None:
    x = _stream(own)
    whole = _through(own, x)
    for n in (4, 1):
        if not close(_through(own, x[:n]), whole[:n]):
            raise cut_short(n)
    if _with_any_weights(own, lambda: _linear(own)):
        own.remark(remark("linear-block"))
    _by_position(own)


def _by_position(own: Own) -> None:
    """Remarks on a block that gives equal rows different results."""
    x = np.random.default_rng(9).normal(size=own.width)
    rows = _through(own, np.tile(x, (9, 1)))
    changed = differs(rows, np.broadcast_to(rows[-1], rows.shape))
    if len(changed):
        own.remark(remark("values-by-position"))


def _linear(own: Own) -> bool:
    """Returns whether a block is linear in the normed stream, as it is without a feed-forward network.

    A single position's attention is its own value, and a norm gives −x the opposite of what it gives x. So without a
    nonlinearity the even part of what is added is constant. The odd parts for many combinations of two vectors then
    lie in the space of eight: both vectors as they are, and after each matrix, and after both. What a block adds to
    them may be tiny, and a nonlinearity still tinier, so both are compared with what is added.
    """
    rng = np.random.default_rng(12)
    if own.width < COMBINATIONS:
        return False
    two = rng.normal(size=(2, own.width))
    x = rng.normal(size=(COMBINATIONS, 2)) @ (two - two.mean(axis=1, keepdims=True))
    plus, minus = (np.concatenate([_through(own, row[None]) for row in sign * x]) for sign in (1, -1))
    # Pre-norm adds to x. Post-norm norms the sum, so both vectors come first, and then what is added.
    for rows, opposite, first in ((plus - x, minus + x, 0), (plus, minus, 2)):
        even, odd = (rows + opposite) / 2, (rows - opposite) / 2
        lengths = np.linalg.svd(odd, compute_uv=False)
        added = np.abs(rows).max() * lengths[first] / max(lengths[0], TINY)
        if added < TINY:
            return False
        if np.abs(even - even[0]).max() < LINEAR * added and lengths[8] < LINEAR * lengths[first]:
            return True
    return False


your_own_code(block, "block", lambda own: _through(own, _stream(own)))


def _some_ids(own: Own, n: int, seed: int = 5) -> np.ndarray:
    """Returns n ids; no two neighbours are the same."""
    rng, V = np.random.default_rng(seed), own.vocab_size
    steps = rng.integers(1, V, size=n) if V > 1 else np.zeros(n, int)
    return np.cumsum(steps) % V


@model.check("V numbers at each position")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    found = own.logits(ids)
    if close(found.sum(axis=-1), np.ones(12)) and (found >= 0).all():
        raise Told("each row of `logits` sums to 1.", "probabilities")
    zeros = float((found == 0).mean())
    if (found >= 0).all() and CUT[0] < zeros < CUT[1]:
        raise Told(f"no logit is below 0, and {zeros:.0%} of them are exactly 0.", "logits-cut")


@model.check("the same ids give the same logits")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    if not close(own.logits(ids), own.logits(ids)):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")


@model.check("no row depends on a later id")
def _(own: Own) -> None:
    _reads_itself(own, _some_ids(own, 12))
    for T in (2, 5, own.context_length):
        with masked_sometimes(T, 12):
            changed_by(own, _some_ids(own, T), T - 1)


def _reads_itself(own: Own, ids: np.ndarray) -> None:
    """Raises `Wrong` if a row of logits does not depend on its own id, with any weights."""
    if 7 in changed_by(own, ids, 7):
        return
    with loud_weights(own, lambda: own.logits(ids)) as looked:
        if looked and 7 in changed_by(own, ids, 7):
            return
    message = "id 7 was replaced, and row 7 of `logits` did not change"
    if not looked and not own.has("learn"):
        raise LeaveOut(f"{message}, as if the head started at 0. Write `weights` or `learn` first.")
    raise Wrong(f"{message}: does it read its own id?")


@model.check("the last row depends on earlier ids")
def _(own: Own) -> None:
    heard, looked = _read(own), False
    if not heard:
        with loud_weights(own, lambda: own.logits(_some_ids(own, 12))) as changed:
            heard, looked = _read(own) if changed else [], changed
    if heard:
        if 0 not in heard:
            own.remark(remark("window", what="id", n=11, first=heard[0]))
        return
    message = "each earlier id was replaced in turn, and the last row of `logits` never changed."
    if own.batched:
        one, other, third = (_some_ids(own, 9, seed) for seed in (1, 2, 3))
        both, first, second = (
            _together(own, np.stack(pair)) for pair in ((one, other), (third, other), (one, third))
        )
        if not close(both[1], first[1]) or not close(both[0], second[0]):
            raise Told(f"{message} Instead, the texts of a batch see each other.", "axes-swapped")
    raise _deaf(own, message, looked)


def _read(own: Own) -> list[int]:
    """Returns the ids on which the last row of logits depends."""
    return [at for at in range(11) if any(_reads(own, at, seed) for seed in range(4))]


def _reads(own: Own, at: int, seed: int) -> bool:
    """Returns whether the last of twelve rows changes when id `at` does."""
    ids = _some_ids(own, 12, seed)
    other = ids.copy()
    other[at] = (ids[at] + 1) % own.vocab_size
    return 11 in differs(own.logits(other), own.logits(ids))


@model.check("any length, from one id to the whole context")
def _(own: Own) -> None:
    ends_alike(own, _some_ids(own, own.context_length))
    spread = _spread_at_the_head(own)
    if spread:
        with loud_weights(own, lambda: own.logits(_some_ids(own, 12))) as changed:
            # Where weights are tiny, a norm's ε makes a difference.
            if changed and not _spread_at_the_head(own):
                return
        own.remark(remark("no-last-norm", spread=spread))


def _spread_at_the_head(own: Own) -> float:
    """Returns how much the vectors differ in length that reach the head, if it can be found and no norm explains it."""
    try:
        V, D = own.vocab_size, own.width
        weights = [as_numbers(one, "a weight") for one in own.arrays("weights").values()]
    except (Missing, NotAttempted, Wrong):
        return 0.0
    heads = [one.T if one.shape == (V, D) else one for one in weights if one.shape in ((V, D), (D, V))]
    if not heads or V < D + 2:
        return 0.0
    texts = -(-6 * D // own.context_length)
    logits = np.concatenate([own.logits(_some_ids(own, own.context_length, 100 + i)) for i in range(texts)])
    for head in heads:
        found = logits @ np.linalg.pinv(head)
        if np.abs(found @ head - logits).max() > EVEN * np.abs(logits).max():
            continue  # this is not the head, or something more happens after it
        lengths = np.linalg.norm(found, axis=1)
        spread = float(np.std(lengths) / np.mean(lengths))
        return spread if spread > UNEVEN and not _ends_in_a_norm(found) else 0.0
    return 0.0


@model.check("order matters")
def _(own: Own) -> None:
    found = _without_order(own)
    if found is None:
        return
    # Positions may start at zero, as in minGPT's table or a bias for distance, or count for less than what rounds. So
    # the weights are changed in all ways that there are, and only a model that ignores order with all of them, while
    # it clearly reads its earlier ids, has no positions.
    ids, looked, audible = _some_ids(own, 12), False, False
    was = own.logits(ids)
    for change in (lambda: other_weights(own, ids), lambda: loud_weights(own, lambda: own.logits(ids))):
        with change() as changed:
            if changed and len(differs(own.logits(ids), was)):
                found, looked = _without_order(own), True
                if found is None:
                    return
                audible = audible or _audible(own)
    message, mistake = found
    table = _read_at_ids(own) if audible else ""
    if table:
        raise Told(
            f"{message} Row {READ} of `{table}` is used wherever the id is {READ}.", "positions-by-ids"
        )
    if audible:
        raise Told(message, mistake)
    if looked:
        raise NotLookedAt(
            "with your weights, and with others that were tried, a block adds so little that its order cannot be seen"
        )
    raise LeaveOut(
        f"{message} Either the positions are never used, or they start at zero. To find out, the checker has to "
        "change your weights: write `weights` or `learn` first."
    )


def _read_at_ids(own: Own) -> str:
    """Returns the name of a table with a row for each position that is read at the ids; "" if there is none.

    In a text of a few ids, no position is as late as `READ`. So what changes with this row reads it for another reason.
    """
    places, V = own.context_length, own.vocab_size
    texts = [np.full(READ - 1, id) for id in (READ, READ + 1)]
    for name, table in trained_arrays(own).items():
        if table.ndim != 2 or len(table) != places or places == V or V <= READ + 1:
            continue
        was, kept = [own.logits(text) for text in texts], table[READ].copy()
        try:
            table[READ, ::2] += 1  # and not all alike, which LayerNorm would take away
            changed = [len(differs(own.logits(text), its)) for text, its in zip(texts, was, strict=True)]
        finally:
            table[READ] = kept
        if changed == [len(texts[0]), 0]:
            return name
    return ""


def _audible(own: Own) -> bool:
    """Returns whether other earlier ids, and other rows of a block, change the last row by far more than order."""
    ids, V = _some_ids(own, 12), own.vocab_size
    others = np.concatenate([(ids[:-1] + 1) % V, ids[-1:]])
    ends = [(own.logits(one)[-1]) for one in (ids, others)]
    if np.abs(ends[0] - ends[1]).max() < HEARD * np.abs(ends[0]).max():
        return False
    if not own.has("block"):
        return True
    x = _stream(own)
    rows = [_through(own, one)[-1] for one in (x, np.concatenate([-x[:-1], x[-1:]]))]
    return bool(np.abs(rows[0] - rows[1]).max() > HEARD * np.abs(rows[0]).max())


def _without_order(own: Own) -> tuple[str, str] | None:
    """Returns how it shows that the model ignores the order of its ids, and why; None if it does not ignore it."""
    ids = _some_ids(own, 12)
    swapped = ids.copy()
    swapped[[1, 4]] = ids[[4, 1]]
    if 11 not in differs(own.logits(swapped), own.logits(ids)):
        return "two earlier ids were exchanged, and the last row of `logits` did not change.", "no-positions"
    # With more than one block, the causal mask alone lets some order through. Then a text of one repeated id shows
    # whether positions come in at the beginning, and a block shows whether they come in through attention.
    alike = own.logits(np.full(12, ids[0]))
    if len(differs(alike, np.broadcast_to(alike[:1], alike.shape))):
        return None
    try:
        x = _stream(own)
        shuffled = np.concatenate([x[[2, 0, 3, 1]], x[4:]])
        if 8 in differs(_through(own, shuffled), _through(own, x)):
            return None
    except Missing:
        return None
    order = "the order of the earlier rows makes no difference to a block's last row"
    # Twice the same rows have the same average, so only a query that knows its own position can tell them apart.
    x = x[:5]
    twice = np.concatenate([x, x])
    if 4 in differs(_through(own, twice)[5:], _through(own, x)):
        return f"{order}, but how many there are does.", "positions-in-queries"
    return f"{order}.", "no-positions"


@model.check("texts in a batch do not influence each other")
def _(own: Own) -> None:
    if not own.batched:
        raise NotLookedAt(
            "your adapter takes one text at a time. If yours can take several, write `batched = True`"
        )
    _alone_and_together(own)
    with loud_weights(own, lambda: own.logits(_some_ids(own, 9))) as changed:
        if changed:
            _alone_and_together(own)


def _alone_and_together(own: Own) -> None:
    """Raises `Told` if a text has other logits in a batch than alone."""
    one, other = _some_ids(own, 9, 1), _some_ids(own, 9, 2)
    both = _together(own, np.stack([one, other]))
    for i, ids in enumerate((one, other)):
        if not close(both[i], own.logits(ids)):
            raise Told(f"text {i} of two has different logits from those it has alone.", "across-texts")


def _together(own: Own, ids: np.ndarray) -> np.ndarray:
    """Returns the logits of several texts at once, (B, T, V)."""
    alone, own.batched = own.batched, False  # the axis of texts is there already
    try:
        found = own.array("logits", ids, axes="B T V", what=f"`logits` of {len(ids)} texts")
    finally:
        own.batched = alone
    want = (*ids.shape, own.vocab_size)
    if found.shape != want:
        message = f"`logits` of ids (B, T) = {ids.shape} should have shape (B, T, V) = {want}; yours has {found.shape}."
        if found.shape[:2] == (1, ids.size):
            raise Told(f"{message} So the texts have become one.", "across-texts")
        raise Told(message, "axes-swapped") if sorted(found.shape) == sorted(want) else Wrong(message)
    return found


your_own_code(model, "logits", lambda own: own.logits(_some_ids(own, 12)))
