"""The stages in the middle: attention, a block, and the whole model."""

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.exercises.expect import Wrong

from .adapter import Missing, Own, Told
from .stage import Stage, close, differs, largest, name_it

attention = Stage("attention")
block = Stage("block")
model = Stage("model")


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _mixed(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    hidden: np.ndarray | None = None,
    *,
    scale: float | None = None,
    axis: int = -1,
) -> np.ndarray:
    """Attention as it should be; or with another scale, along another axis, or with other places hidden."""
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    return _softmax(scores, axis) @ v


_RNG = np.random.default_rng(15)
H, T, K = 3, 7, 5
Q, KEYS, V = (_RNG.normal(size=(H, T, K)) * size for size in (2.0, 2.0, 1.0))
AHEAD = np.triu(np.ones((T, T), bool), 1)


def _attend(own: Own, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    what = f"`attention` of (H, T, K) = {q.shape}"
    found = own.array("attention", q, k, v, causal, axes="H T K", what=what)
    if found.shape != v.shape:
        turned = " It looks transposed." if found.shape == tuple(np.array(v.shape)[[1, 0, 2]]) else ""
        raise Wrong(f"{what} should have the same shape; yours has shape {found.shape}.{turned}")
    return found


def _plain(values: Callable = _mixed, widths: Sequence[int] = ()) -> list:
    """Returns mistakes that can happen without a mask, each with a function that computes its result."""
    plain = Q @ KEYS.swapaxes(-1, -2)
    return [
        ("no-scale", lambda: values(Q, KEYS, V, scale=1.0)),
        ("scale-k", lambda: values(Q, KEYS, V, scale=1 / K)),
        ("scale-times", lambda: values(Q, KEYS, V, scale=np.sqrt(K))),
        ("scale-model", lambda: values(Q, KEYS, V, scale=1 / np.sqrt(H * K))),
        *(("scale-model", lambda D=D: values(Q, KEYS, V, scale=1 / np.sqrt(D))) for D in widths),
        ("softmax-axis", lambda: values(Q, KEYS, V, axis=-2)),
        ("softmax-axis", lambda: values(Q, KEYS, V, axis=-3)),
        ("keys-ask", lambda: values(KEYS, Q, V)),
        ("no-softmax", lambda: plain / np.sqrt(K) @ V),
        ("always-causal", lambda: values(Q, KEYS, V, AHEAD)),
    ]


@attention.check("queries that ask nothing get the mean of all values")
def _(own: Own) -> None:
    found = _attend(own, 0 * Q, KEYS, V, False)
    want = np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape)
    if not close(found, want):
        message = f"with q = 0 all weights are alike, so {largest(found, want, 'H T K')}"
        name_it(
            found,
            message,
            [
                ("no-softmax", 0 * V),
                ("always-causal", _mixed(0 * Q, KEYS, V, AHEAD)),
                ("softmax-axis", _mixed(0 * Q, KEYS, V, axis=-3)),
            ],
        )
        raise Wrong(message)


@attention.check("it weighs by how well query and key match")
def _(own: Own) -> None:
    found, want = _attend(own, Q, KEYS, V, False), _mixed(Q, KEYS, V)
    if not close(found, want):
        message = f"softmax(q kᵀ / √K) v: {largest(found, want, 'H T K')}"
        widths = [own.width] if own.has("embed") else []
        name_it(found, message, _plain(widths=widths))
        raise Wrong(message)


@attention.check("causal: itself and what was before, and nothing after")
def _(own: Own) -> None:
    found, want = _attend(own, Q, KEYS, V, True), _mixed(Q, KEYS, V, AHEAD)
    if close(found, want):
        return
    scores = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K)
    selves = np.triu(np.ones((T, T), bool))
    after = np.where(AHEAD, 0, _softmax(scores))
    with np.errstate(all="ignore"):
        strictly = _mixed(Q, KEYS, V, selves)
        message = f"under the mask {largest(found, want, 'H T K')}"
        candidates = [
            ("no-mask", _mixed(Q, KEYS, V)),
            ("mask-transposed", _mixed(Q, KEYS, V, AHEAD.T)),
            ("mask-transposed", _mixed(Q, KEYS, V, ~AHEAD)),
            ("mask-one-ahead", _mixed(Q, KEYS, V, np.triu(np.ones((T, T), bool), 2))),
            ("mask-after-softmax", after @ V),
            ("mask-of-self", strictly),
            ("mask-of-self", np.nan_to_num(strictly)),
            ("mask-of-self", np.where(np.isnan(strictly), V.mean(axis=1, keepdims=True), strictly)),
            ("mask-of-zeros", _softmax(np.where(AHEAD, 0, scores)) @ V),
            ("softmax-axis", np.nan_to_num(_mixed(Q, KEYS, V, AHEAD, axis=-2))),
        ]
    name_it(found, message, candidates)
    raise Wrong(message)


@attention.check("large scores are no trouble")
def _(own: Own) -> None:
    found, want = _attend(own, 400 * Q, KEYS, V, True), _mixed(400 * Q, KEYS, V, AHEAD)
    if not np.isfinite(found).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise Told(
            f"with scores in the thousands there is {found[at]} at [h={at[0]}, t={at[1]}, k={at[2]}].",
            "softmax-overflow",
        )
    if not close(found, want):
        raise Wrong(f"with scores in the thousands {largest(found, want, 'H T K')}")


def leaks(changed: np.ndarray, at: int, what: str) -> None:
    """Raises what is known of rows before `at` that changed when that row did, and no other."""
    early = [int(row) for row in changed if row < at]
    if not early:
        return
    listed = ", ".join(map(str, early))
    message = (
        f"{what} {at} changed, and {'row' if len(early) == 1 else 'rows'} {listed} of the result with it."
    )
    if early == [at - 1]:
        raise Told(message, "mask-one-ahead")
    if len(early) == at:
        later = [int(row) for row in changed if row > at]
        raise Told(message, "leak-all" if later else "mask-transposed")
    raise Told(message, "leak")


def _deaf(own: Own, message: str) -> Told:
    """Returns the message for a model that ignores earlier positions, which it must while weights start at 0."""
    if not own.has("learn"):
        message += " (Do your weights begin at 0? Then write `learn` first: the checker takes a few steps.)"
    return Told(message, "blind")


def _stream(own: Own) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(9, own.width))


def _through(own: Own, x: np.ndarray) -> np.ndarray:
    found = own.array("block", x, axes="T D", what=f"`block` of (T, D) = {x.shape}")
    if found.shape != x.shape:
        raise Wrong(f"`block` of (T, D) = {x.shape} should have the same shape; yours has {found.shape}.")
    if not np.isfinite(found).all():
        raise Wrong(f"`block` of (T, D) = {x.shape} holds what is no number.")
    return found


@block.check("a stream goes in, and one of the same shape comes out")
def _(own: Own) -> None:
    _through(own, _stream(own))


@block.check("twice the same gives twice the same")
def _(own: Own) -> None:
    x = _stream(own)
    if not close(_through(own, x), _through(own, x)):
        raise Told("the same stream gave two results.", "dropout-in-evaluation")


@block.check("earlier positions never hear of later ones")
def _(own: Own) -> None:
    x = _stream(own)
    other = x.copy()
    other[5] = np.random.default_rng(8).normal(size=x.shape[1])
    leaks(differs(_through(own, other), _through(own, x)), 5, "position")


@block.check("later positions hear of earlier ones")
def _(own: Own) -> None:
    for at in (0, 4):
        if not any(_hears(own, at, seed) for seed in range(12)):
            raise _deaf(own, f"position {at} changed, and the last row of the result did not.")


def _hears(own: Own, at: int, seed: int) -> bool:
    """Returns whether the last row changes when position `at` does. It need not look at every other."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, own.width))
    other = x.copy()
    other[at] = 3 * rng.normal(size=x.shape[1])
    return 8 in differs(_through(own, other), _through(own, x))


@block.check("what came in goes on")
def _(own: Own) -> None:
    # A long stream, too: there a block that adds is seen to add, even where its first weights are far too large.
    x = np.random.default_rng(3).normal(size=(12, own.width))
    alike = max(_alike(size * x, _through(own, size * x)) for size in (1.0, 1000.0))
    if alike < 0.2:
        message = f"the stream that came in is hardly to be found in what comes out (cosine {alike:.2f})."
        raise Told(message, "residual-dropped")


def _alike(x: np.ndarray, y: np.ndarray) -> float:
    """The mean cosine of their rows, each less its mean."""
    rows = zip(x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True), strict=True)
    return float(np.mean([a @ b / np.sqrt((a @ a) * (b @ b) + 1e-30) for a, b in rows]))


@block.check("a shorter text is the beginning of a longer one")
def _(own: Own) -> None:
    x = _stream(own)
    whole = _through(own, x)
    for n in (4, 1):
        if not close(_through(own, x[:n]), whole[:n]):
            raise Told(f"the first {n} rows are others when nothing follows.", "over-positions")


def _some_ids(own: Own, n: int, seed: int = 5) -> np.ndarray:
    """So many ids, no two neighbours alike."""
    rng, V = np.random.default_rng(seed), own.vocab_size
    steps = rng.integers(1, V, size=n) if V > 1 else np.zeros(n, int)
    return np.cumsum(steps) % V


@model.check("V numbers at each position")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    found = own.logits(ids)
    if close(found.sum(axis=-1), np.ones(12)) and (found >= 0).all():
        raise Told("each row of `logits` sums to 1.", "probabilities")


@model.check("twice the same gives twice the same")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    if not close(own.logits(ids), own.logits(ids)):
        raise Told("the same ids gave two results.", "dropout-in-evaluation")


@model.check("what comes after changes nothing before")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    other = ids.copy()
    other[7] = (ids[7] + 1) % own.vocab_size
    changed = differs(own.logits(other), own.logits(ids))
    leaks(changed, 7, "id")
    if 7 not in changed:
        raise Wrong("id 7 changed, and row 7 of `logits` did not: does it read its own id?")


@model.check("what was before matters")
def _(own: Own) -> None:
    for seed in range(12):
        ids = _some_ids(own, 12, seed)
        other = ids.copy()
        other[0] = (ids[0] + 1) % own.vocab_size
        if 11 in differs(own.logits(other), own.logits(ids)):
            return
    raise _deaf(own, "id 0 changed, and the last row of `logits` did not.")


@model.check("any length, from one id to the whole context")
def _(own: Own) -> None:
    ids = _some_ids(own, own.context_length)
    whole = own.logits(ids)
    for n in (1, 5):
        if not close(own.logits(ids[:n]), whole[:n]):
            raise Told(f"the first {n} rows are others when nothing follows.", "over-positions")


@model.check("order matters")
def _(own: Own) -> None:
    ids = _some_ids(own, 12)
    swapped = ids.copy()
    swapped[[1, 4]] = ids[[4, 1]]
    told = "two ids before it change places, and the last row of `logits` stays the same."
    if 11 not in differs(own.logits(swapped), own.logits(ids)):
        raise Told(told, "no-positions")
    # Deeper than one block, a causal mask alone lets some order through. Then a row of one and the same id shows
    # whether it is told its positions at the beginning, and a block whether it is told them by its attention.
    alike = own.logits(np.full(12, ids[0]))
    if len(differs(alike, np.broadcast_to(alike[:1], alike.shape))):
        return
    try:
        x = _stream(own)
        shuffled = np.concatenate([x[[2, 0, 3, 1]], x[4:]])
        if 8 in differs(_through(own, shuffled), _through(own, x)):
            return
    except Missing:
        return
    raise Told("a block's last row does not care in which order the others stand.", "no-positions")


@model.check("texts in a batch know nothing of each other")
def _(own: Own) -> None:
    if not own.batched:
        return
    one, other = _some_ids(own, 9, 1), _some_ids(own, 9, 2)
    both = _together(own, np.stack([one, other]))
    for i, ids in enumerate((one, other)):
        if not close(both[i], own.logits(ids)):
            raise Told(f"text {i} of two has other logits than alone.", "across-texts")


def _together(own: Own, ids: np.ndarray) -> np.ndarray:
    """The logits of several texts at once, (B, T, V)."""
    alone, own.batched = own.batched, False  # the axis of texts is there already
    try:
        return own.array("logits", ids, axes="B T V", what=f"`logits` of {len(ids)} texts")
    finally:
        own.batched = alone
