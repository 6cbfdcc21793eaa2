"""Judges the exercises of chapter 14, "When it almost works"; their prose is in exercises.toml.

Most answers are tests: they are handed a ward of right and of sick models, and have to tell them apart. A check is a
part of the ward, and a mistake is recognised by its verdicts on all of it. The models are written out by hand here, of
a table and a mean; what each has is known, and nothing of it comes from the reference. The axes: T positions, V
vocabulary, K d_head, N tests, M mistakes.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect
from glassformer.scratch.attention import softmax
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Bool, Float, Integer

NEAR = 1e-4  # logits that differ by less are the same
Model = Callable[..., np.ndarray]


# A ward: what is put to the learner's test, and what it should say


class Bed(NamedTuple):
    """One patient: its description in words, what the test is handed, and what it should return."""

    who: str
    args: tuple[Any, ...]
    want: Any


def _ward(one: Exercise, beds: dict[str, list[Bed]]) -> None:
    """A check for each part of the ward; what an answer says of all of it is how a mistake is recognised."""

    def check(title: str) -> None:
        @one.check(title)
        def _(learner):
            for bed in beds[title]:
                said = _verdict(learner, bed)
                if said != bed.want:
                    raise Wrong(
                        f"{bed.who}: yours should say {bed.want!r}; it says {said!r}.",
                        what=one.name,
                        got=" ".join(_said(learner, each) for part in beds.values() for each in part),
                    )

    for title in beds:
        check(title)


def _said(learner: Callable[..., Any], bed: Bed) -> str:
    """The same in a word: what goes wrong in another part of the ward is that part's."""
    try:
        return str(_verdict(learner, bed))
    except Exception:
        return "–"


def _verdict(learner: Callable[..., Any], bed: Bed) -> Any:
    """Returns the learner's verdict as a Python value: True or False, a whole number, or a word."""
    got = learner(*bed.args)
    what = f"{bed.who}: what yours says"
    if isinstance(bed.want, str):
        if isinstance(got, np.ndarray) and got.dtype.kind == "U" and got.ndim == 0:
            got = got.item()
        if not isinstance(got, str):
            expect(got, bed.want, what)
        return str(got)
    number = as_numbers(got, what, like=np.asarray(bed.want))
    if number.ndim or number.dtype.kind not in ("b" if isinstance(bed.want, bool) else "biu"):
        expect(got, np.asarray(bed.want), what)
    return number.item()


# Models: tables of V numbers, a mean over what is seen

V = 5
_rng = np.random.default_rng(14)
_OWN = _rng.normal(size=(V, V))
_BEFORE = _rng.normal(size=(V, V))
_PLACES = _rng.normal(size=(40, V))
_TEXT = np.array([0, 3, 1, 4, 2, 2, 0, 1])


def _says(
    places: float = 1.0,
    ahead: int = 0,
    noise: float = 0.0,
    own: float = 1.0,
    rows: Sequence[int] | None = None,
    seers: Sequence[int] | None = None,
) -> Model:
    """Logits of a causal model: its own character, the mean of those it sees, and where they stand.

    `noise` lifts another character at every call, in these rows. `ahead` is how far the seers see, or all.
    """
    calls = itertools.count()

    def model(ids):
        ids = np.asarray(ids)
        seen = _BEFORE[ids] * (1 + places * _PLACES[: len(ids), :1])
        sees = np.isin(np.arange(len(ids)), np.arange(len(ids)) if seers is None else seers)
        ends = np.minimum(np.arange(len(ids)) + 1 + ahead * sees, len(ids))
        logits = own * 6 * _OWN[ids] + np.stack([seen[:end].mean(axis=0) for end in ends])
        if noise:
            where = np.isin(np.arange(len(ids)), np.arange(len(ids)) if rows is None else rows)
            logits = logits + noise * where[:, None] * np.eye(V)[next(calls) % V]
        return logits

    return model


def _differ(a, b, by: float = NEAR) -> bool:
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() > by)


# 1 · The loss at the start


def knows_nothing(logits: Float[np.ndarray, "B T V"], targets: Integer[np.ndarray, "B T"]) -> bool:
    """Returns whether the loss is within a tenth of ln V, padding left out."""
    return bool(abs(cross_entropy(logits, targets) - math.log(logits.shape[-1])) < 0.1)


start = exercise("clinic.knows_nothing", knows_nothing, built_on=(cross_entropy,))


def _first(V, lift=0.0, other=0.0, padding=False, high=0.0, near=0.0, at_padding=0.0):
    rng = np.random.default_rng(V)
    targets = rng.integers(0, V, (2, 6))
    logits = (
        near * rng.normal(size=(2, 6, V))
        + lift * np.eye(V)[targets]
        + other * np.eye(V)[(targets + 1) % V]
        + high
    )
    if padding:
        targets[:, 3:] = -100
        logits[:, 3:, 0] += at_padding
    return logits, targets


_ward(start, {
    "untrained models pass: 65 characters, 8, or 2": [
        Bed("65 characters, all logits 0", _first(65), True),
        Bed("8 characters, all logits 0", _first(8), True),
        Bed("2 characters, small random logits", _first(2, near=0.05), True),
        Bed("all logits 3, which is as good as 0", _first(8, high=3.0), True),
    ],
    "one that knows the answers fails, and one that knows them a little": [
        Bed("each answer's logit is 4 higher", _first(65, lift=4.0), False),
        Bed("each answer's logit is 0.3 higher", _first(65, lift=0.3), False),
        Bed("each answer's logit is 2.524 higher", _first(65, lift=2.524), False),
        Bed("8 characters, each answer's logit is 3.611 higher", _first(8, lift=3.611), False),
    ],
    "one that is sure and wrong fails, too": [
        Bed("another logit is 8 higher", _first(65, other=8.0), False),
        Bed("another logit is 3 higher", _first(65, other=3.0), False),
        Bed("8 characters, another logit is 2.572 higher", _first(8, other=2.572), False),
    ],
    "padding does not count": [
        Bed("untrained, half of the targets are padding", _first(65, padding=True), True),
        Bed("knows the answers, half of the targets are padding", _first(65, lift=4.0, padding=True), False),
        Bed("untrained, but sure of character 0 at padding", _first(65, padding=True, at_padding=20.0), True),
    ],
})  # fmt: skip


def _at_start(log=math.log, low=True, high=True, padded=lambda total, counted, n: total / counted, of=None):
    def wrong(logits, targets):
        rows, wanted = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
        counted = wanted != -100
        p = softmax(rows)[np.arange(len(rows)), np.where(counted, wanted, 0)]
        loss = padded(-np.log(p[counted]).sum(), counted.sum(), len(wanted))
        off = loss - (log(logits.shape[-1]) if of is None else of)
        return bool((not low or off > -0.1) and (not high or off < 0.1))

    return wrong


start.mistake("always", lambda logits, targets: True)
start.mistake("never", lambda logits, targets: False)
start.mistake("another logarithm", _at_start(log=math.log2))
start.mistake("another logarithm", _at_start(log=math.log10))
start.mistake("always 65", _at_start(of=math.log(65)))
start.mistake("too high alone", _at_start(low=False))
start.mistake("too low alone", _at_start(high=False))
start.mistake("padding counted", _at_start(padded=lambda total, counted, n: total / n))


@start.mistake("padding as a character")
def _padding_as_0(logits, targets):
    rows, wanted = logits.reshape(-1, logits.shape[-1]), np.where(targets == -100, 0, targets).reshape(-1)
    loss = -np.log(softmax(rows)[np.arange(len(rows)), wanted]).mean()
    return bool(abs(loss - math.log(logits.shape[-1])) < 0.1)


start.mistake("a sum", _at_start(padded=lambda total, counted, n: total))


# 2 · The same again


def says_the_same(model: Model, ids: Integer[np.ndarray, " T"]) -> bool:
    """Returns whether the same text gives the same logits twice."""
    return not _differ(model(ids), model(ids))


again = exercise("clinic.says_the_same", says_the_same)

_ward(again, {
    "right models pass": [
        Bed("a right model", (_says(), _TEXT), True),
        Bed("one that knows no positions, which is another matter", (_says(places=0.0), _TEXT), True),
        Bed("one that sees ahead, which is another matter", (_says(ahead=1), _TEXT), True),
    ],
    "dropout that is on fails": [
        Bed("noise of size 50", (_says(noise=50.0), _TEXT), False),
        Bed("noise of size 0.2", (_says(noise=0.2), _TEXT), False),
    ],
    "even where it is small": [
        Bed("noise of size 0.001, which changes no likeliest character", (_says(noise=1e-3), _TEXT), False),
    ],
    "in whichever row": [
        Bed("noise in row 0 alone", (_says(noise=0.2, rows=[0]), _TEXT), False),
        Bed("noise in the last row alone", (_says(noise=0.2, rows=[7]), _TEXT), False),
    ],
})  # fmt: skip


again.mistake("one call", lambda model, ids: (lambda once: bool((once == once).all()))(model(ids)))
again.mistake("argmax", lambda model, ids: bool((model(ids).argmax(-1) == model(ids).argmax(-1)).all()))
again.mistake("last row", lambda model, ids: not _differ(model(ids)[-1], model(ids)[-1]))
again.mistake("first row", lambda model, ids: not _differ(model(ids)[0], model(ids)[0]))
again.mistake("too loose", lambda model, ids: not _differ(model(ids), model(ids), by=0.1))
again.mistake("too loose", lambda model, ids: not _differ(model(ids), model(ids), by=0.02))
again.mistake("turned round", lambda model, ids: _differ(model(ids), model(ids)))
again.mistake("another text", lambda model, ids: not _differ(model(ids), model(ids[::-1])))


# 3 · Does order matter?


def order_matters(model: Model, ids: Integer[np.ndarray, " T"]) -> bool:
    """Returns whether the last row changes when the tokens before the last are put in another order."""
    other = ids.copy()
    other[:-1] = np.roll(ids[:-1], 1)
    return _differ(model(ids)[-1], model(other)[-1])


order = exercise("clinic.order_matters", order_matters)

_PALINDROME = np.array([1, 2, 3, 2, 1, 4])
_TWINS = np.array([3, 3, 1, 0, 2])  # the first two are equal
_IN_ORDER = np.array([0, 1, 2, 3, 4])
_PAIRS = np.array([1, 2, 1, 2, 4])


def _mean_alone(ids):
    """An encoder that knows nothing but which characters occur."""
    return np.broadcast_to(_BEFORE[np.asarray(ids)].mean(axis=0), (len(ids), V))


_ward(order, {
    "models that know the order pass": [
        Bed("a right model", (_says(), _TEXT), True),
        Bed("a right model, to which places matter little", (_says(places=0.01), _TEXT), True),
        Bed("a right model, to which places matter most", (_says(places=9.0, own=0.0), _TEXT), True),
    ],
    "whatever the text": [
        Bed("a right model and a past that reads the same backwards", (_says(), _PALINDROME), True),
        Bed("a right model and a text that begins with twins", (_says(), _TWINS), True),
        Bed("a right model and a past in order: 0 1 2 3", (_says(), _IN_ORDER), True),
        Bed("a right model and a past that comes back after two: 1 2 1 2", (_says(), _PAIRS), True),
        Bed("a right model that says another character then", (_says(places=9.0, own=0.0), _PALINDROME), True),
        # Asked so often, a shuffle by chance leaves the two as they are once
        *[Bed("a right model and a text of three", (_says(), np.array([1, 2, 4])), True)] * 8,
    ],
    "a decoder to which the past is a bag fails": [
        Bed("the past is a bag", (_says(places=0.0), _TEXT), False),
        Bed("the past is a bag, and its own character does not count", (_says(places=0.0, own=0.0), _TEXT), False),
    ],
    "so does an encoder": [
        Bed("the whole text is a bag", (_mean_alone, _TEXT), False),
        Bed("an encoder: its own character, and a bag", (_says(places=0.0, ahead=50), _TEXT), False),
    ],
})  # fmt: skip


def _before_the_last(change, look=lambda logits: logits[-1], by=NEAR):
    def wrong(model, ids):
        other = np.concatenate([change(ids[:-1]), ids[-1:]])
        return _differ(look(model(ids)), look(model(other)), by)

    return wrong


def _another(ids):
    ids = ids.copy()
    ids[0] = (ids[0] + 1) % V
    return ids


order.mistake("rows as they lie", _before_the_last(lambda ids: np.roll(ids, 1), look=lambda logits: logits))
order.mistake("the last too", lambda model, ids: _differ(model(ids)[-1], model(ids[::-1])[-1]))
order.mistake("another character", _before_the_last(_another))
order.mistake("reversed", _before_the_last(lambda ids: ids[::-1]))
order.mistake("the first two", _before_the_last(lambda ids: ids[[1, 0, *range(2, len(ids))]]))
order.mistake("sorted", _before_the_last(np.sort))
order.mistake("by two", _before_the_last(lambda ids: np.roll(ids, 2)))
order.mistake(
    "argmax", _before_the_last(lambda ids: np.roll(ids, 1), look=lambda logits: logits[-1].argmax(), by=0)
)
order.mistake("turned round", lambda model, ids: not order_matters(model, ids))
order.mistake("not shuffled", _before_the_last(lambda ids: ids))
order.mistake("too loose", _before_the_last(lambda ids: np.roll(ids, 1), by=0.02))


# 4 · Padding


def padding_is_unseen(model: Model, ids: Integer[np.ndarray, " T"], pad: int) -> bool:
    """Returns whether a text gives the same logits alone and with padding after it."""
    T, padded = len(ids), np.concatenate([ids, [pad] * 3])
    beside = model(padded, np.arange(T + 3) < T)
    return not _differ(model(ids, np.ones(T, bool)), beside[:T])


padding = exercise("clinic.padding_is_unseen", padding_is_unseen)


def _reads(keys=lambda mask: mask, queries=None, causal=False, weight=1.0, places=0.1, seers=(), blank=False):
    """An encoder: its own character, and the mean of the keys that its mask lets in.

    The seers see all keys. With `blank`, padding has a vector of zeros.
    """

    def model(ids, mask):
        ids, mask = np.asarray(ids), np.asarray(mask)
        if mask.dtype != bool or mask.shape != ids.shape:
            raise ValueError(f"mask should be (T,) = {ids.shape} of True and False, True at real positions")
        T = len(ids)
        may = np.broadcast_to(keys(mask), (T, T)) & (np.tri(T, dtype=bool) if causal else True)
        if queries is not None:
            may = may & queries(mask)[:, None]
        may = may | np.isin(np.arange(T), seers)[:, None]
        share = may / np.maximum(may.sum(axis=1, keepdims=True), 1)
        values = _BEFORE[ids] * (mask[:, None] if blank else 1)
        return 6 * _OWN[ids] + weight * share @ values + places * _PLACES[:T]

    return model


_all = np.ones_like
_ward(padding, {
    "right models pass": [
        Bed("a right encoder, and padding whose id is nowhere in the text", (_reads(), _TEXT % 4, 4), True),
        Bed("a right encoder, and padding whose id is in the text, too", (_reads(), _TEXT, 4), True),
        Bed("the same, and the text begins with it", (_reads(), _TEXT, 0), True),
        Bed("a right encoder without positions", (_reads(places=0), _TEXT, 4), True),
    ],
    "one that sees padding fails": [
        Bed("the mask was never passed on", (_reads(keys=_all), _TEXT, 4), False),
        Bed("the mask was never passed on, and it matters little", (_reads(keys=_all, weight=0.01), _TEXT, 4), False),
        Bed("the same, and it matters somewhat", (_reads(keys=_all, weight=0.3), _TEXT, 4), False),
        Bed("rows 0 and 1 see padding, the others do not", (_reads(seers=(0, 1)), _TEXT, 4), False),
        Bed("padding is a vector of zeros, and takes its share", (_reads(keys=_all, blank=True), _TEXT, 4), False),
    ],
    "and one whose mask hides queries, not keys": [
        Bed("the mask hides queries", (_reads(keys=_all, queries=lambda mask: mask), _TEXT, 4), False),
    ],
    "causal models may forget the mask: padding after a text is the future": [
        Bed("causal, the mask never passed on", (_reads(keys=_all, causal=True), _TEXT, 4), True),
        Bed("causal, with a mask", (_reads(causal=True), _TEXT, 4), True),
    ],
})  # fmt: skip


def _padded(n=3, mask=lambda real: real, look=lambda logits, T: logits[:T], by=NEAR, front=False, both=False):
    def wrong(model, ids, pad):
        T, more = len(ids), [pad] * n
        text = np.concatenate([more, ids] if front else [ids, more]).astype(int)
        real = np.arange(T + n) >= n if front else np.arange(T + n) < T
        beside = model(text, mask(real))
        alone = model(ids, mask(np.ones(T, bool)) if both else np.ones(T, bool))
        return not _differ(look(alone, T), look(beside[n:] if front else beside, T), by)

    return wrong


padding.mistake("no padding", _padded(n=0))
padding.mistake("no mask", _padded(mask=_all))


@padding.mistake("mask from the ids")
def _not_pad(model, ids, pad):
    T, padded = len(ids), np.concatenate([ids, [pad]])
    return not _differ(model(ids, np.ones(T, bool)), model(padded, padded != pad)[:T])


@padding.mistake("two paddings")
def _other_padding(model, ids, pad):
    T = len(ids)
    one, other = (
        model(np.concatenate([ids, [p] * 3]), np.arange(T + 3) < T)[:T] for p in (pad, (pad + 1) % V)
    )
    return not _differ(one, other)


padding.mistake("mask turned round", _padded(mask=np.logical_not))
padding.mistake("mask turned round", _padded(mask=np.logical_not, both=True))
padding.mistake("last row", _padded(look=lambda logits, T: logits[-1]))
padding.mistake("last real row", _padded(look=lambda logits, T: logits[T - 1]))
padding.mistake("in front", _padded(front=True))
padding.mistake("argmax", _padded(look=lambda logits, T: logits[:T].argmax(-1), by=0))
padding.mistake("too loose", _padded(by=0.05))
padding.mistake("turned round", lambda model, ids, pad: not padding_is_unseen(model, ids, pad))


# 5 · A map


def read_map(weights: Float[np.ndarray, "T T"]) -> str:
    """Returns what a causal head's attention weights reveal."""
    rows, columns = (np.allclose(weights.sum(axis=axis), 1) for axis in (-1, -2))
    if not rows:
        return "axis" if columns else "late"
    return "future" if np.triu(weights, 1).any() else "fine"


maps = exercise("clinic.read_map", read_map)

_scores = np.random.default_rng(5).normal(size=(5, 5))
_under = np.tri(5, dtype=bool)
_hidden = np.where(_under, _scores, -np.inf)
_fine, _late = softmax(_hidden), softmax(_scores) * _under
_axis = softmax(_hidden.T).T

_ward(maps, {
    "nothing is wrong": [
        Bed("rows that sum to 1, and no future", (_fine,), "fine"),
        Bed("everybody looks at the first", (np.eye(4)[[0, 0, 0, 0]],), "fine"),
        Bed("everybody looks at himself: columns sum to 1, too", (np.eye(4),), "fine"),
    ],
    "the future is seen": [
        Bed("no mask at all", (softmax(_scores),), "future"),
        Bed("one ahead", (softmax(np.where(np.tri(5, k=1, dtype=bool), _scores, -np.inf)),), "future"),
        Bed("no mask, and all weights equal", (np.full((3, 3), 1 / 3),), "future"),
        Bed("row 1 alone sees ahead", (np.array([[1, 0, 0], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]),), "future"),
        Bed("a thousandth of the future", (np.array([[0.999, 0.001], [0.5, 0.5]]),), "future"),
    ],
    "columns sum to 1, not rows": [
        Bed("softmax over the queries", (_axis,), "axis"),
        Bed("softmax over the queries, without a mask", (softmax(_scores.T).T,), "axis"),
    ],
    "rows sum to less than 1": [
        Bed("the mask came after the softmax", (_late,), "late"),
        Bed("the same, with one row that lacks little", (np.array([[0.98, 0.0], [0.5, 0.5]]),), "late"),
        Bed("row 1 alone lacks some", (np.array([[1, 0, 0], [0.2, 0.3, 0], [0.3, 0.3, 0.4]]),), "late"),
    ],
})  # fmt: skip


def _rows(w):
    return np.allclose(w.sum(-1), 1)


def _columns(w):
    return np.allclose(w.sum(-2), 1)


def _looked(rows=_rows, columns=_columns, ahead=1, least=0.0, order="rcf"):
    def wrong(w):
        future = (np.triu(w, ahead) > least).any()
        if order == "f" and future:
            return "future"
        if order == "c" and columns(w):
            return "axis"
        if not rows(w):
            return "axis" if columns(w) else "late"
        return "future" if future else "fine"

    return wrong


maps.mistake("diagonal", _looked(ahead=0))
maps.mistake("future first", _looked(order="f"))
maps.mistake("columns alone", _looked(order="c"))
maps.mistake("no columns", _looked(columns=lambda w: False))
maps.mistake("total", _looked(rows=lambda w: np.isclose(w.sum(), len(w))))
maps.mistake("last row", _looked(rows=lambda w: np.isclose(w[-1].sum(), 1)))
maps.mistake("first row", _looked(rows=lambda w: np.isclose(w[0].sum(), 1)))
maps.mistake("first row", lambda w: "fine" if read_map(w) == "future" and not w[0, 1:].any() else read_map(w))
maps.mistake("to the last digit", _looked(rows=lambda w: (w.sum(-1) == 1).all()))
maps.mistake("equal sums", lambda w: "fine" if _rows(w) and _columns(w) else read_map(w))
maps.mistake("axes swapped", _looked(rows=_columns, columns=_rows))
maps.mistake(
    "below the diagonal",
    lambda w: ("future" if np.tril(w, -1).any() else "fine") if _rows(w) else read_map(w),
)
maps.mistake("too loose", _looked(least=0.01))
maps.mistake("too loose", _looked(rows=lambda w: abs(w.sum(-1) - 1).max() < 0.05))


# 6 · Where does it begin?


def first_difference(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> int:
    """The first of several arrays that is off by more than 0.0001 anywhere, or holds no number; -1 if none."""
    for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not (np.abs(one - other) <= NEAR).all():
            return i
    return -1


first = exercise("clinic.first_difference", first_difference)

_right = [np.random.default_rng(i).normal(size=(3, 4)) for i in range(5)]


def _off(by=None):
    """The same arrays but for rounding, and some of these numbers changed at a place."""
    changed = [one + 1e-7 for one in _right]
    for i, (place, much) in (by or {}).items():
        changed[i][place] += much
    return changed, _right


_nan = _off()[0]
_nan[2][1, 1] = np.nan
_ward(first, {
    "the same, but for rounding": [Bed("rounding alone", _off(), -1)],
    "one that is off, and what comes after": [
        Bed("arrays 2, 3 and 4 are off", _off({2: ((0, 0), 1.0), 3: ((1, 1), 5.0), 4: ((0, 1), 2.0)}), 2),
        Bed("all are off", _off({i: ((0, 1), 1.0) for i in range(5)}), 0),
    ],
    "by less than 0, or by little": [
        Bed("array 1 is off by -0.5, array 3 by 0.5", _off({1: ((2, 3), -0.5), 3: ((0, 0), 0.5)}), 1),
        Bed("array 1 is off by 0.001 everywhere", _off({1: (..., 1e-3), 4: ((0, 0), 1.0)}), 1),
        Bed("array 1 is off by 0.001 in one place of twelve", _off({1: ((2, 3), 1e-3), 4: ((0, 0), 1.0)}), 1),
        Bed("array 1 is off by 0.0003 in one place of twelve", _off({1: ((2, 3), 3e-4), 4: ((0, 0), 1.0)}), 1),
    ],
    "large numbers, too": [
        Bed("100.001 and 100", ([np.array([100.001])], [np.array([100.0])]), 0),
    ],
    "NaN is off": [Bed("array 2 holds a NaN", (_nan, _right), 2)],
})  # fmt: skip


def _compared(is_off):
    def wrong(mine, theirs):
        return next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if is_off(a - b)), -1)

    return wrong


def _each(mine, theirs):
    """Returns how far each is off."""
    return [abs(a - b).max() for a, b in zip(mine, theirs, strict=True)]


first.mistake(
    "the last",
    lambda mine, theirs: max((i for i, by in enumerate(_each(mine, theirs)) if not by <= NEAR), default=-1),
)
first.mistake("the largest", lambda mine, theirs: int(np.argmax(_each(mine, theirs))))
first.mistake("from one", lambda mine, theirs: first_difference(mine, theirs) + 1)
first.mistake("to the last digit", _compared(lambda d: (d != 0).any()))
first.mistake("NaN passes", _compared(lambda d: (np.abs(d) > NEAR).any()))
first.mistake(
    "relative",
    lambda mine, theirs: next(
        (i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if not np.allclose(a, b, atol=NEAR)), -1
    ),
)
first.mistake("gives up", lambda mine, theirs: 0 if first_difference(mine[:1], theirs[:1]) == 0 else -1)
first.mistake("how many", lambda mine, theirs: max(0, first_difference(mine, theirs)))
first.mistake("signed", _compared(lambda d: not (d <= NEAR).all()))
first.mistake("mean", _compared(lambda d: not np.abs(d).mean() <= NEAR))
first.mistake("too loose", _compared(lambda d: not (np.abs(d) <= 0.01).all()))
first.mistake(
    "how many", lambda mine, theirs: (lambda i: len(mine) if i < 0 else i)(first_difference(mine, theirs))
)


# 7 · Repair


def attend(
    q: Float[np.ndarray, "*B T K"], k: Float[np.ndarray, "*B T K"], v: Float[np.ndarray, "*B T K"]
) -> Float[np.ndarray, "*B T K"]:
    """Causal attention, with all of its lines right."""
    T, K = q.shape[-2:]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(K)
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


repair = exercise("clinic.attend", attend, axes="T K", built_on=(softmax,))

_zeros, _v = np.zeros((3, 4)), np.array([[6.0, 0, 3, 1], [0, 6, 3, 1], [0, 0, 3, 4]])
repair.case("one position sees itself", _zeros[:1] + 1, _zeros[:1] + 2, _v[:1], want=_v[:1])
_q = np.array([[1.0, 0, 0, 0], [2.0, 0, 0, 0]])
_k = np.array([[0.0, 0, 0, 0], [math.log(3), 0, 0, 0]])
repair.case(
    "a score of 2 ln 3 in heads of 4 numbers makes a ratio of 1 to 3", _q, _k, _v[:2],
    want=np.array([[6, 0, 3, 1], [1.5, 4.5, 3, 1]]),
)  # fmt: skip
repair.case(
    "equal scores: each row is the mean of the values so far", _zeros, _zeros, _v,
    want=np.array([[6.0, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]),
)  # fmt: skip
_three = np.array([[3.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
repair.case(
    "large scores overflow nothing, and the first row sees the first value", 1e3 * _three, 1e3 * _three, _v,
    want=np.array([[6.0, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]),
)  # fmt: skip
repair.also(
    _zeros[:2] + 1, np.array([[0.0] * 4, [1000] * 4]), _v[:2], want=_v[:2],
    what="attend where the hidden score of row 0 is larger by 2,000",
)  # fmt: skip
repair.case(
    "any axes in front", np.stack([_zeros, _zeros])[:, None], np.stack([_zeros, _zeros])[:, None],
    np.stack([_v, 2 * _v])[:, None],
    want=np.array([[[[6, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]], [[[12, 0, 6, 2], [6, 6, 6, 2], [4, 4, 6, 4]]]], float),
    axes="B H T K", what="attend of two texts with a head each",
)  # fmt: skip


def _broken(scale=np.sqrt, mask="before", axis=-1, fill=-np.inf, exp=softmax, triangle=np.tri):
    def wrong(q, k, v):
        T, K = q.shape[-2:]
        may = triangle(T).astype(bool)
        scores = q @ k.swapaxes(-1, -2) / scale(K)
        if mask == "before":
            scores = np.where(may, scores, fill)
        with np.errstate(all="ignore"):
            weights = exp(scores if axis == -1 else scores.swapaxes(-1, -2))
        weights = weights if axis == -1 else weights.swapaxes(-1, -2)
        return (weights * may if mask == "after" else weights) @ v

    return wrong


def _plain_exp(scores):
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


repair.mistake("mask late", _broken(mask="after"))
repair.mistake("axis", _broken(axis=-2))
repair.mistake("no scale", _broken(scale=lambda K: 1.0))
repair.mistake("no root", _broken(scale=lambda K: K))
repair.mistake("zero for hidden", _broken(fill=0.0))
repair.mistake("no mask", _broken(mask=""))
repair.mistake("other triangle", _broken(triangle=lambda T: np.tri(T).T))
repair.mistake("itself hidden", _broken(triangle=lambda T: np.tri(T, k=-1)))
repair.mistake("itself hidden", _broken(triangle=lambda T: np.tri(T, k=-1), fill=-1e9))
repair.mistake("overflow", _broken(exp=_plain_exp))
repair.mistake("root of T", lambda q, k, v: attend(q * np.sqrt(q.shape[-1] / q.shape[-2]), k, v))


def _of_scores(weights_of):
    def wrong(q, k, v):
        T, K = q.shape[-2:]
        with np.errstate(all="ignore"):
            weights = weights_of(q @ k.swapaxes(-1, -2) / np.sqrt(K), np.tri(T))
            return weights / weights.sum(-1, keepdims=True) @ v

    return wrong


def _largest_of_column(scores, may):
    scores = np.where(may > 0, scores, -np.inf)
    return np.exp(scores - scores.max(axis=-2, keepdims=True))


def _zero_times_infinity(scores, may):
    scores = scores + (1 - may) * -np.inf
    return np.exp(scores - scores.max(axis=-1, keepdims=True))


repair.mistake("largest of the column", _of_scores(_largest_of_column))
repair.mistake("no number", _of_scores(_zero_times_infinity))
repair.mistake(
    "largest of the hidden", _of_scores(lambda s, may: np.exp(s - s.max(axis=-1, keepdims=True)) * may)
)


# 8 · Few tests for many mistakes


def cover(caught: Bool[np.ndarray, "N M"]) -> list[int]:
    """The tests, each time the one that catches most of what is left; of equal ones the first."""
    chosen, left = [], caught.any(axis=0)
    while left.any():
        chosen.append(int((caught & left).sum(axis=1).argmax()))
        left = left & ~caught[chosen[-1]]
    return chosen


few = exercise("clinic.cover", cover)


def _table(*rows: str) -> np.ndarray:
    return np.array([[one == "#" for one in row] for row in rows])


few.case("one test catches all", _table("#..", "###", ".##"), want=[1], what="cover(#.. ### .##)")
few.case(
    "the second is chosen by what is left, not by all that it catches",
    _table("####..", "###.#.", "....##"), want=[0, 2], what="cover(####.. ###.#. ....##)",
)  # fmt: skip
few.case("of equal ones the first", _table(".##", "##.", "#.#"), want=[0, 1], what="cover(.## ##. #.#)")
few.case("what no test catches is left out", _table("#...", ".#.."), want=[0, 1], what="cover(#... .#..)")
few.case("a table in which nothing is caught", _table("...", "..."), want=[], what="cover(... ...)")
few.case("greedy is not always the fewest, and this asks for greedy", _table(
    "####....", "#.#.#.#.", ".#.#.#.#", "....##..",
), want=[0, 1, 2], what="cover(####.... #.#.#.#. .#.#.#.# ....##..)")  # fmt: skip


def _by_count(caught):
    order = np.argsort(-caught.sum(axis=1), kind="stable")
    chosen, left = [], caught.any(axis=0)
    for i in order:
        if not left.any():
            break
        chosen.append(int(i))
        left = left & ~caught[i]
    return chosen


def _fewest(caught):
    for n in range(1, len(caught) + 1):
        for some in itertools.combinations(range(len(caught)), n):
            if (caught[list(some)].any(axis=0) == caught.any(axis=0)).all():
                return list(some)
    return []


def _last_of_equal(caught):
    chosen, left = [], caught.any(axis=0)
    while left.any():
        counts = (caught & left).sum(axis=1)
        chosen.append(len(counts) - 1 - int(counts[::-1].argmax()))
        left = left & ~caught[chosen[-1]]
    return chosen


few.mistake("by all they catch", _by_count)
few.mistake("fewest", _fewest)
few.mistake("the last of equal", _last_of_equal)
few.mistake("all tests", lambda caught: list(range(len(caught))))
few.mistake("all tests", lambda caught: np.argsort(-caught.sum(axis=1), kind="stable"))
few.mistake("looks too late", lambda caught: cover(caught) or [0])
few.mistake("one alone", lambda caught: cover(caught)[:1])
few.mistake("from one", lambda caught: [1 + i for i in cover(caught)])
few.mistake("in order", lambda caught: sorted(_by_first(caught)))


def _by_first(caught):
    """Returns each test that adds something, in the order of the table."""
    chosen, left = [], caught.any(axis=0)
    for i, row in enumerate(caught):
        if (row & left).any():
            chosen.append(i)
            left = left & ~row
    return chosen


# 9 · The last patient


def diagnose(model: Model, ids: Integer[np.ndarray, " T"]) -> str:
    """Returns which of three mistakes a model has, or that it has none."""
    logits = model(ids)
    if _differ(logits, model(ids)):
        return "dropout"
    other = ids.copy()
    other[-1] = (ids[-1] + 1) % logits.shape[-1]
    if _differ(logits[:-1], model(other)[:-1]):
        return "future"
    return "fine" if order_matters(model, ids) else "order"


last = exercise("clinic.diagnose", diagnose)

_ward(last, {
    "nothing is wrong": [
        Bed("a right model", (_says(), _TEXT), "fine"),
        Bed("a right model, to which places matter little", (_says(places=0.01), _TEXT), "fine"),
        Bed("a right model and a past that reads the same backwards", (_says(), _PALINDROME), "fine"),
        Bed("a right model and a text that begins with twins", (_says(), _TWINS), "fine"),
    ],
    "dropout in evaluation": [
        Bed("noise", (_says(noise=0.3), _TEXT), "dropout"),
        Bed("noise in row 0 alone", (_says(noise=0.3, rows=[0]), _TEXT), "dropout"),
        Bed("noise in the last row alone", (_says(noise=0.3, rows=[7]), _TEXT), "dropout"),
    ],
    "a mask that sees ahead": [
        Bed("one ahead", (_says(ahead=1), _TEXT), "future"),
        Bed("all ahead", (_says(ahead=50), _TEXT), "future"),
        Bed("one ahead, a text that ends in 4", (_says(ahead=1), _PALINDROME), "future"),
        Bed("one ahead, a text that ends in 0", (_says(ahead=1), _IN_ORDER[::-1].copy()), "future"),
        Bed("row 3 alone sees all", (_says(ahead=50, seers=[3]), _TEXT), "future"),
        Bed("row 6 alone sees the last", (_says(ahead=1, seers=[6]), _TEXT), "future"),
    ],
    "positions that were never used": [
        Bed("the past is a bag", (_says(places=0.0), _TEXT), "order"),
        Bed("the past is a bag, and its own character does not count", (_says(places=0.0, own=0.0), _TEXT), "order"),
    ],
})  # fmt: skip


def _next(token):
    return (token + 1) % V


def _rolled(ids):
    return np.roll(ids, 1)


def _found(sequence, last_rows=slice(None, -1), other=_next, shuffled=_rolled, noisy=slice(None), by=NEAR):
    def wrong(model, ids):
        logits = model(ids)
        changed, moved = ids.copy(), ids.copy()
        changed[-1], moved[:-1] = other(ids[-1]), shuffled(ids[:-1])
        signs = {
            "dropout": _differ(logits[noisy], model(ids)[noisy]),
            "future": _differ(logits[last_rows], model(changed)[last_rows]),
            "order": not _differ(logits[-1], model(moved)[-1], by),
        }
        return next((name for name in sequence if signs[name]), "fine")

    return wrong


_ALL = ("dropout", "future", "order")
last.mistake("future first", _found(("future", "dropout", "order")))
last.mistake("no dropout", _found(("future", "order")))
last.mistake("no future", _found(("dropout", "order")))
last.mistake("no order", _found(("dropout", "future")))
last.mistake("last row too", _found(_ALL, last_rows=slice(None)))
last.mistake("the same character", _found(_ALL, other=lambda token: 4))
last.mistake("the same character", _found(_ALL, other=lambda token: 0))
last.mistake("the first two", _found(_ALL, shuffled=lambda ids: ids[[1, 0, *range(2, len(ids))]]))
last.mistake("too loose", _found(_ALL, by=0.02))
last.mistake("too loose", _found(_ALL, by=0.01))
last.mistake("noise in one row", _found(_ALL, noisy=-1))
last.mistake("noise in one row", _found(_ALL, noisy=0))
last.mistake("some rows", _found(_ALL, last_rows=[0, -2]))
last.mistake("some rows", _found(_ALL, last_rows=[-2]))
last.mistake("reversed", _found(_ALL, shuffled=lambda ids: ids[::-1]))
last.mistake("fine", lambda model, ids: "fine")
