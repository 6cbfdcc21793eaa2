"""The stages in the middle: a block, and the whole model."""

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import LeaveOut, Missing, NotLookedAt, Own, Told
from .caching import other_weights
from .origin import your_own_code
from .stage import Stage, changed_by, close, cut_short, differs, ends_alike, leaks, masked_sometimes
from .training import learn, windows_of
from .words import remark

block = Stage("block")
model = Stage("model")

EVEN = 1e-3  # relative: by how much logits may differ from what a head gives
COMBINATIONS, LINEAR, TINY = (
    12,
    3e-5,
    1e-6,
)  # of two vectors; relative: what single precision leaves of 0; absolute
STEPS = 20  # of training, after which positions that started at zero show
# Vectors that have not been normed: how much their lengths differ, and how much of it no gains and biases explain.
UNEVEN, UNEXPLAINED = 0.03, 0.004


def _deaf(own: Own, message: str) -> Told:
    """Returns the failure of a model that ignores earlier positions, as it must while its weights are 0."""
    if not own.has("learn"):
        message += " (If your weights start at 0, write `learn` first: the checker then takes a few steps.)"
    return Told(message, "blind")


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
    heard = [at for at in range(8) if any(_hears(own, at, seed) for seed in range(4))]
    if not heard:
        raise _deaf(
            own, "each earlier position was replaced in turn, and the last row of the result never changed."
        )
    if 0 not in heard:
        own.remark(remark("window", what="position", n=8, first=heard[0]))


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
    _keeps_size(own, x)


def _keeps_size(own: Own, x: np.ndarray) -> None:
    """Remarks on a block whose result depends neither on the stream's size nor ends in a norm.

    It may be right: `x = norm(x)`, `x = x + sublayer(x)` is post-norm, if a block begins with the norm that ends the
    sublayer before. So the two cannot be told apart, and this is no failure.
    After a norm, Σ ((y − b) / g)² is the same in every row, whatever its gains g and biases b: a linear fit finds out.
    """
    rows = np.concatenate([x, np.random.default_rng(4).normal(size=(4 * own.width, own.width))])
    parts = [rows[i : i + 12] for i in range(0, len(rows), 12)]
    one, thousand = (np.concatenate([_through(own, size * part) for part in parts]) for size in (1.0, 1000.0))
    if not close(one, thousand, 1e-3):
        return
    known = np.concatenate([one**2, one], axis=1)
    fit, *_ = np.linalg.lstsq(known, np.ones(len(known)), rcond=None)
    if np.std(known @ fit) > UNEXPLAINED:
        own.remark(remark("normed-stream"))


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
    _linear(own)
    _by_position(own)


def _by_position(own: Own) -> None:
    """Remarks on a block that gives equal rows different results."""
    x = np.random.default_rng(9).normal(size=own.width)
    rows = _through(own, np.tile(x, (9, 1)))
    changed = differs(rows, np.broadcast_to(rows[-1], rows.shape))
    if len(changed):
        own.remark(remark("values-by-position"))


def _linear(own: Own) -> None:
    """Remarks on a block that is linear in the normed stream, as it is without a feed-forward network.

    A single position's attention is its own value, and a norm gives −x the opposite of what it gives x. So without a
    nonlinearity the even part of what is added is constant. The odd parts for many combinations of two vectors then
    lie in the space of eight: both vectors as they are, and after each matrix, and after both. What a block adds to
    them may be tiny, and a nonlinearity still tinier, so both are compared with what is added.
    """
    rng = np.random.default_rng(12)
    if own.width < COMBINATIONS:
        return
    two = rng.normal(size=(2, own.width))
    x = rng.normal(size=(COMBINATIONS, 2)) @ (two - two.mean(axis=1, keepdims=True))
    plus, minus = (np.concatenate([_through(own, row[None]) for row in sign * x]) for sign in (1, -1))
    # Pre-norm adds to x. Post-norm norms the sum, so both vectors come first, and then what is added.
    for rows, opposite, first in ((plus - x, minus + x, 0), (plus, minus, 2)):
        even, odd = (rows + opposite) / 2, (rows - opposite) / 2
        lengths = np.linalg.svd(odd, compute_uv=False)
        added = np.abs(rows).max() * lengths[first] / max(lengths[0], TINY)
        if added < TINY:
            return
        if np.abs(even - even[0]).max() < LINEAR * added and lengths[8] < LINEAR * lengths[first]:
            own.remark(remark("linear-block"))
            return


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


@model.check("the same ids give the same logits")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    if not close(own.logits(ids), own.logits(ids)):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")


@model.check("no row depends on a later id")
def _(own: Own) -> None:
    if 7 not in changed_by(own, _some_ids(own, 12), 7):
        raise Wrong("id 7 was replaced, and row 7 of `logits` did not change: does it read its own id?")
    for T in (2, 5, own.context_length):
        with masked_sometimes(T, 12):
            changed_by(own, _some_ids(own, T), T - 1)


@model.check("the last row depends on earlier ids")
def _(own: Own) -> None:
    heard = [at for at in range(11) if any(_reads(own, at, seed) for seed in range(4))]
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
    raise _deaf(own, message)


def _reads(own: Own, at: int, seed: int) -> bool:
    """Returns whether the last of twelve rows changes when id `at` does."""
    ids = _some_ids(own, 12, seed)
    other = ids.copy()
    other[at] = (ids[at] + 1) % own.vocab_size
    return 11 in differs(own.logits(other), own.logits(ids))


@model.check("any length, from one id to the whole context")
def _(own: Own) -> None:
    ends_alike(own, _some_ids(own, own.context_length))
    _last_norm(own)


def _last_norm(own: Own) -> None:
    """Remarks on a model without a last norm, if the head can be found among the weights."""
    try:
        V, D = own.vocab_size, own.width
        weights = [as_numbers(one, "a weight") for one in own.arrays("weights").values()]
    except (Missing, NotAttempted, Wrong):
        return
    heads = [one.T if one.shape == (V, D) else one for one in weights if one.shape in ((V, D), (D, V))]
    if not heads or V < D + 2:
        return
    texts = -(-6 * D // own.context_length)
    logits = np.concatenate([own.logits(_some_ids(own, own.context_length, 100 + i)) for i in range(texts)])
    for head in heads:
        found = logits @ np.linalg.pinv(head)
        if np.abs(found @ head - logits).max() > EVEN * np.abs(logits).max():
            continue  # this is not the head, or something more happens after it
        # After a norm with gains g and biases b, Σ ((y − b) / g)² is the same everywhere: a linear fit finds out.
        known = np.concatenate([found**2, found], axis=1)
        fit, *_ = np.linalg.lstsq(known, np.ones(len(known)), rcond=None)
        lengths = np.linalg.norm(found, axis=1)
        spread = float(np.std(lengths) / np.mean(lengths))
        if spread > UNEVEN and np.std(known @ fit) > UNEXPLAINED:
            own.remark(remark("no-last-norm", spread=spread))
        return


@model.check("order matters")
def _(own: Own) -> None:
    found = _without_order(own)
    if found is None:
        return
    # Positions may start at zero, as in minGPT's table or a bias for distance. So the weights are changed, in both
    # ways that there are, and only a model that ignores order with all of them has no positions.
    ids, looked = _some_ids(own, 12), False
    was = own.logits(ids)
    with other_weights(own, ids) as changed:
        if changed and len(differs(own.logits(ids), was)):
            found, looked = _without_order(own), True
            if found is None:
                return
    for windows in _windows_to_learn(own):
        learn(own, windows)
    if len(differs(own.logits(ids), was)):
        found, looked = _without_order(own), True
        if found is None:
            return
    message, mistake = found
    if looked:
        raise Told(message, mistake)
    raise LeaveOut(
        f"{message} Either the positions are never used, or they start at zero. To find out, the checker has to "
        "change your weights: write `weights` or `learn` first."
    )


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


def _windows_to_learn(own: Own) -> np.ndarray:
    """Returns windows for some training steps; none if the reader's `learn` cannot take them."""
    none = np.empty((0, 2, 13), int)
    try:
        if not own.has("learn"):
            return none
        windows = windows_of(own, STEPS, 12, 2)
        learn(own, windows[0])
    except (Wrong, Missing, NotAttempted):
        return none  # the stages of the tokenizer and of training tell
    return windows[1:]


@model.check("texts in a batch do not influence each other")
def _(own: Own) -> None:
    if not own.batched:
        raise NotLookedAt(
            "your adapter takes one text at a time. If yours can take several, write `batched = True`"
        )
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
