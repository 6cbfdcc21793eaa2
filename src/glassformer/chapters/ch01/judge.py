"""Judges the exercises of chapter 01, "The whole machine"; their prose is in exercises.toml.

What is right comes from a hand-worked number, from a run of a real model, or from a function whose property is known.
The axes: T tokens, D d_model, H heads, K d_head, F d_ff, V vocabulary, L blocks.
"""
# ruff: noqa: ANN001, ANN003, ANN202 - a check is read by its title, a mistake by its sentence

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.config import ModelConfig
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_parts
from glassformer.scratch import Transformer
from glassformer.shapes import Float
from glassformer.trace import Trace, trace


def _run(T: int, D: int, H: int, F: int, V: int, n_layers: int = 1) -> Trace:
    """Returns what a real model of these sizes computes."""
    sizes = {"vocab_size": V, "d_model": D, "n_heads": H, "d_ff": F}
    config = ModelConfig(**sizes, context_length=T, n_layers=n_layers, positions="none")
    with trace() as seen:
        Transformer(config, generator=None)(np.zeros(T, dtype=int))
    return seen


# 1 · Shapes, before you look


def shapes(T: int, D: int, H: int, F: int, V: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of q, scores, neurons and logits."""
    K = D // H
    return (H, T, K), (H, T, T), (T, F), (T, V)


_PARTS = ("q", "scores", "neurons", "logits")
of_arrays = exercise("machine.shapes", shapes, parts=_PARTS)


def _shapes_of_a_run(*sizes: int) -> list[tuple[int, ...]]:
    seen = _run(*sizes)
    return [seen.arrays(name)[0].shape for name in _PARTS]


def _of_sizes(title: str, *sizes: int, want: list[tuple[int, ...]]) -> None:
    """The next check: the four shapes at these sizes. Of a shape that is too long it says so, not its shape's shape."""

    @of_arrays.check(title)
    def step(learner):
        got = expect_parts(learner(*sizes), _PARTS)
        call = f"shapes({', '.join(map(str, sizes))})"
        for part, one, right in zip(_PARTS, got, want, strict=True):
            what = f"{part} of {call}"
            axes = as_numbers(one, what)
            if axes.ndim == 1 and len(axes) != len(right):
                said = f"{what} should have {len(right)} axes; yours has {len(axes)}: {tuple(axes.tolist())}."
                raise Wrong(said, what=what, got=axes)
            expect(one, np.array(right), what)


_of_sizes(
    "the book's model reads the line",
    41, 128, 4, 344, 65, want=[(4, 41, 32), (4, 41, 41), (41, 344), (41, 65)],
)  # fmt: skip
_of_sizes(
    "GPT-2 small reads all it can",
    1024, 768, 12, 3072, 50_257, want=[(12, 1024, 64), (12, 1024, 1024), (1024, 3072), (1024, 50_257)],
)  # fmt: skip
_of_sizes(
    "with one head, the head has all of the width", 5, 8, 1, 32, 11, want=_shapes_of_a_run(5, 8, 1, 32, 11)
)
_of_sizes("a text of one token", 1, 12, 3, 7, 9, want=_shapes_of_a_run(1, 12, 3, 7, 9))


def _wrong_shapes(name, **changed):
    """One of the shapes is another; each is a function of T, D, H, F, V."""

    def answer(T, D, H, F, V):
        right = dict(zip(_PARTS, shapes(T, D, H, F, V), strict=True))
        return tuple((right | {part: shape(T, D, H, F, V) for part, shape in changed.items()}).values())

    of_arrays.mistake(name, answer)


_wrong_shapes("whole width", q=lambda T, D, H, F, V: (H, T, D))
_wrong_shapes("heads inside", q=lambda T, D, H, F, V: (T, H, D // H))
_wrong_shapes("heads swallowed", q=lambda T, D, H, F, V: (T, D))
_wrong_shapes("one for all heads", scores=lambda T, D, H, F, V: (T, T))
_wrong_shapes("token by feature", scores=lambda T, D, H, F, V: (H, T, D // H))
_wrong_shapes(
    "scores and neurons exchanged",
    scores=lambda T, D, H, F, V: (T, F),
    neurons=lambda T, D, H, F, V: (H, T, T),
)
_wrong_shapes("columns for tokens", neurons=lambda T, D, H, F, V: (F, T))
_wrong_shapes("true division", q=lambda T, D, H, F, V: (H, T, D / H))
_wrong_shapes("neurons in heads", neurons=lambda T, D, H, F, V: (H, T, F))
_wrong_shapes("not widened", neurons=lambda T, D, H, F, V: (T, D))
_wrong_shapes("last row alone", logits=lambda T, D, H, F, V: (V,))
_wrong_shapes("not unembedded", logits=lambda T, D, H, F, V: (T, D))


# 2 · All numbers of a run


def count(T: int, D: int, H: int, F: int, V: int, n_layers: int) -> int:
    """Returns how many numbers all arrays of a run hold together."""
    attention = 3 * T * D + 2 * H * T * T + 2 * T * D  # q, k, v; scores, weights; write, stream
    feedforward = T * F + 2 * T * D  # neurons; write, stream
    return T * D + n_layers * (attention + feedforward) + T * D + T * V


numbers = exercise("machine.numbers", count)

numbers.case(
    "one block, small enough to add up by hand",
    3, 10, 2, 13, 8, 1, want=369, being="84 outside the block and 285 inside",
)  # fmt: skip
numbers.case("three blocks", 3, 10, 2, 13, 8, 3, want=939, being="84 outside the blocks and 3 · 285 inside")
numbers.case(
    "the book's model reads the line",
    41, 128, 4, 344, 65, 4, want=sum(seen.array.size for seen in _run(41, 128, 4, 344, 65, 4)),
)  # fmt: skip
numbers.also(64, 24, 6, 32, 65, 2, want=sum(seen.array.size for seen in _run(64, 24, 6, 32, 65, 2)))
numbers.case("sizes of 1 throughout: it counts the arrays", 1, 1, 1, 1, 1, 1, want=13)


def _ends(T, D, V):
    return 2 * T * D + T * V


numbers.mistake("one block", lambda T, D, H, F, V, L: count(T, D, H, F, V, 1))
numbers.mistake("ends repeated", lambda T, D, H, F, V, L: L * count(T, D, H, F, V, 1))
numbers.mistake("no ends", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - _ends(T, D, V))
numbers.mistake("no weights", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - L * H * T * T)
numbers.mistake("no neurons", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - L * T * F)
numbers.mistake("no logits", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - T * V)
numbers.mistake("nothing after", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - T * D - T * V)
numbers.mistake("one of seven", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - L * T * D)
numbers.mistake("no streams", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - 2 * L * T * D)
numbers.mistake(
    "one head's pairs", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - 2 * L * (H - 1) * T * T
)
numbers.mistake(
    "each head as wide", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) + 3 * L * (H - 1) * T * D
)
numbers.mistake("no norm at the end", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - T * D)


# 3 · Where the pairs take over


def longest(D: int, F: int, V: int, n_layers: int) -> int:
    """The longest text for which the pairs take at most half of a run's operations, without a gate."""
    return 2 * D + F + V // (2 * n_layers)


pairs = exercise("machine.longest", longest)

pairs.case(
    "one block by hand", 3, 5, 8, 1, want=15,
    being="the T at which 12·T² is 72·T + 60·T + 48·T",
)  # fmt: skip
pairs.case(
    "two blocks share one head", 3, 5, 8, 2, want=13, being="the T at which 24·T² is 144·T + 120·T + 48·T"
)
pairs.case("where no T gives exactly half, it is the one below", 3, 5, 7, 1, want=14)
pairs.also(4, 6, 11, 3, want=15)
pairs.case("GPT-2 small", 768, 3072, 50_257, 12, want=6702)

pairs.mistake("one pair", lambda D, F, V, L: int(2 * (2 * D + F + V / (2 * L))))
pairs.mistake("no head", lambda D, F, V, L: 2 * D + F)
pairs.mistake("a head in every block", lambda D, F, V, L: 2 * D + F + V // 2)
pairs.mistake("with a gate", lambda D, F, V, L: int(2 * D + 3 * F / 2 + V / (2 * L)))
pairs.mistake("no W_o", lambda D, F, V, L: int(3 * D / 2 + F + V / (2 * L)))
pairs.mistake("not back", lambda D, F, V, L: int(2 * D + F / 2 + V / (2 * L)))
pairs.mistake("not whole", lambda D, F, V, L: 2 * D + F + V / (2 * L))
pairs.mistake("one too long", lambda D, F, V, L: 2 * D + F + V // (2 * L) + 1)
pairs.mistake("one too short", lambda D, F, V, L: 2 * D + F + -(-V // (2 * L)) - 1)


# 4 · A stack


def run(
    x: Float[np.ndarray, "T D"], sublayers: Sequence[Callable[[np.ndarray], np.ndarray]]
) -> Float[np.ndarray, "T D"]:
    """The stream after all sublayers: each reads it and adds to it."""
    for sublayer in sublayers:
        x = x + sublayer(x)
    return x


stack = exercise("machine.stack", run, axes="T D")


def _double(x):
    return 2 * x


def _square(x):
    return x * x


def _one(x):
    return 0 * x + 1


_x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
stack.case(
    "one sublayer adds what it makes of the stream", _x, [_square], want=_x + _x**2, what="one that squares"
)
stack.case(
    "the second reads what the first has added",
    np.array([[1.0, 2.0]]), [_double, _square], want=[[12.0, 42.0]], what="one that doubles, then one that squares",
)  # fmt: skip
stack.case(
    "the order is that of the list, and none is left out",
    np.array([[1.0, 2.0]]), [_square, _one, _double], want=[[9.0, 21.0]],
    what="one that squares, one that gives 1, one that doubles",
)  # fmt: skip
stack.case("without sublayers the stream comes out as it went in", _x, [], want=_x, what="run(x, [])")

stack.mistake("replaced", lambda x, sublayers: _folded(x, sublayers, lambda x, f: f(x)))
stack.mistake("side by side", lambda x, sublayers: x + sum((f(x) for f in sublayers), np.zeros_like(x)))
stack.mistake("backwards", lambda x, sublayers: run(x, list(sublayers)[::-1]))
stack.mistake("writes alone", lambda x, sublayers: run(x, sublayers) - x)
stack.mistake("last left out", lambda x, sublayers: run(x, sublayers[:-1]))
stack.mistake("from the start", lambda x, sublayers: _folded(x, sublayers, lambda now, f: x + f(now)))
stack.mistake("first left out", lambda x, sublayers: run(x, sublayers[1:]))


@stack.mistake("return inside")
def _return_inside(x, sublayers):
    for f in sublayers:
        return x + f(x)


def _folded(x, sublayers, step):
    for f in sublayers:
        x = step(x, f)
    return x


# 5 · When has it made up its mind?


def agreement(views: Float[np.ndarray, "L T V"]) -> Float[np.ndarray, " L"]:
    """Returns, for each stage, the fraction of positions where its likeliest token is that of the last stage."""
    likeliest = np.argmax(views, axis=-1)
    return (likeliest == likeliest[-1]).mean(axis=-1)


agree = exercise("machine.agreement", agreement, axes="L")


def _views(*likeliest: Sequence[int], V: int = 5) -> np.ndarray:
    """Logits whose largest is where it is asked for, and whose smallest is the next one."""
    at = np.array(likeliest)
    views = np.random.default_rng(at.size).normal(size=(*at.shape, V))
    np.put_along_axis(views, at[..., None], 6.0, axis=-1)
    np.put_along_axis(views, (at[..., None] + 1 + np.arange(len(at))[:, None, None]) % V, -6.0, axis=-1)
    return views


agree.case(
    "by hand: at four places, two stages agree with the last at one and at three",
    _views([4, 4, 4, 3], [0, 1, 4, 3], [0, 1, 2, 3]), want=[0.25, 0.75, 1.0], what="agreement of three stages",
)  # fmt: skip
agree.case(
    "what counts is the last stage, not the one before",
    _views([2, 2, 0, 1, 3], [2, 2, 0, 1, 3], [1, 2, 0, 4, 4]), want=[0.4, 0.4, 1.0],
    what="agreement where the last changes much",
)  # fmt: skip
agree.case(
    "it is the likeliest token that is compared, whatever its logit",
    _views([1, 1], [1, 1]) * np.array([1.0, 30.0])[:, None, None], want=[1.0, 1.0],
    what="agreement where one stage is surer",
)  # fmt: skip
agree.case(
    "a stage may agree, and a later one not",
    _views([0, 1, 2, 3], [0, 4, 4, 3], [0, 1, 4, 3], [0, 1, 2, 3]), want=[1.0, 0.5, 0.75, 1.0],
    what="agreement where places leave and return",
)  # fmt: skip
agree.case(
    "the last stage agrees with itself, everywhere", _views([0, 1, 2, 3]), want=[1.0],
    what="agreement of one stage alone",
)  # fmt: skip


def _by(change):
    return lambda views: change(np.argmax(views, axis=-1))


def _from_here_on(best):
    same = best == best[-1]
    return np.array([same[stage:].all(axis=0).mean() for stage in range(len(same))])


agree.mistake("stage before", _by(lambda best: (best == np.vstack([best[:1], best[:-1]])).mean(axis=-1)))
agree.mistake("first stage", _by(lambda best: (best == best[0]).mean(axis=-1)))
agree.mistake("counted", _by(lambda best: (best == best[-1]).sum(axis=-1).astype(float)))
agree.mistake("by place", _by(lambda best: (best == best[-1]).mean(axis=0)))
agree.mistake("all or nothing", _by(lambda best: (best == best[-1]).all(axis=-1).astype(float)))
agree.mistake("last place alone", _by(lambda best: (best[:, -1] == best[-1, -1]).astype(float)))
agree.mistake("for good", _by(_from_here_on))
agree.mistake("no mean", _by(lambda best: best == best[-1]))
agree.mistake("percent", _by(lambda best: 100 * (best == best[-1]).mean(axis=-1)))
agree.mistake("last one dropped", _by(lambda best: (best == best[-1]).mean(axis=-1)[:-1]))
agree.mistake("max", lambda views: (np.max(views, -1) == np.max(views, -1)[-1]).mean(axis=-1))
agree.mistake("one number", _by(lambda best: (best == best[-1]).mean()))
agree.mistake("disagreement", _by(lambda best: (best != best[-1]).mean(axis=-1)))
agree.mistake("wrong axis", lambda views: agreement(np.swapaxes(views, 1, 2)))
agree.mistake("logits compared", lambda views: np.isclose(views, views[-1]).mean(axis=(1, 2)))
agree.mistake("rows compared", lambda views: np.isclose(views, views[-1]).all(axis=-1).mean(axis=-1))


# 6 · Does it peek?


def peeks(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether some row of f(x) changes when only rows after it are changed."""
    before, rng = f(x), np.random.default_rng(0)
    for t in range(len(x) - 1):
        changed = np.array(x, dtype=float)
        changed[t + 1 :] += rng.normal(size=changed[t + 1 :].shape)
        if not np.allclose(f(changed)[: t + 1], before[: t + 1]):
            return True
    return False


future = exercise("machine.peeks", peeks)


def _mixed(weights: Callable[[int], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A layer that mixes rows with these weights (T, T), as attention does."""
    return lambda x: weights(len(x)) @ x


def _tri(T: int, k: int = 0) -> np.ndarray:
    """Each row the mean of those up to itself, or k further."""
    mask = np.tri(T, T, k)
    return mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)


def _one_row(row: int, *seen: int) -> Callable[[int], np.ndarray]:
    """Returns the right weights, except that one row sees only itself and these."""

    def weights(T):
        weights = _tri(T)
        weights[row] = 0
        weights[row, [row, *seen]] = 1 / (1 + len(seen))
        return weights

    return weights


def _normed(x: np.ndarray) -> np.ndarray:
    """Every row with mean 0 and variance 1: what is added to all of a row, and its length, are gone."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


_rows = np.random.default_rng(3).normal(size=(6, 4))
_table = np.random.default_rng(4).normal(size=_rows.shape)


def _with_table(x):
    if len(x) != len(_table):
        raise ValueError(f"this layer reads {len(_table)} rows at a time, got {len(x)}")
    return _tri(len(x)) @ (x + _table)


future.case(
    "a mean over all rows does", _mixed(lambda T: np.full((T, T), 1 / T)), _rows, want=True,
    what="peeks, of a mean over all rows,",
)  # fmt: skip
future.case(
    "a causal mean does not", _mixed(_tri), _rows, want=False, what="peeks, of a mean over all rows so far,"
)
future.also(lambda x: 3 * x + 1, _rows, want=False, what="peeks, of a layer that treats every row alone,")
future.also(lambda x: 0 * x + 1, _rows, want=False, what="peeks, of a layer that says 1 whatever it reads,")
future.also(_with_table, _rows, want=False, what="peeks, of a causal layer that reads all six rows or none,")
future.case(
    "a mask that is one place too generous does", _mixed(lambda T: _tri(T, 1)), _rows, want=True,
    what="peeks, of a mean over all rows so far and one more,",
)  # fmt: skip
future.case(
    "a single row that peeks is enough, be it near the end", _mixed(_one_row(4, 5)), _rows, want=True,
    what="peeks, of a causal mean whose last row but one sees the last,",
)  # fmt: skip
future.also(
    _mixed(_one_row(0, 1)), _rows, want=True, what="peeks, of a causal mean whose first row sees the second,"
)
future.also(_mixed(_one_row(2, 3)), _rows, want=True, what="peeks, of a causal mean whose row 2 sees row 3,")
future.also(
    _mixed(_one_row(0, 2)),
    _rows,
    want=True,
    what="peeks, of a causal mean whose row 0 sees row 2, not row 1,",
)
future.also(
    _mixed(_one_row(1, 5)), _rows, want=True, what="peeks, of a causal mean whose row 1 sees the last alone,"
)
future.case(
    "a transposed mask does", _mixed(lambda T: _tri(T).T), _rows, want=True,
    what="peeks, of a mean over all rows from here on,",
)  # fmt: skip
future.also(
    _mixed(lambda T: _tri(T).T), np.random.default_rng(0).normal(size=(6, 4)), want=True,
    what="peeks, of the same, with x = np.random.default_rng(0).normal(size=(6, 4)),",
)  # fmt: skip
future.also(
    lambda x: x + (x - x.mean(axis=-1, keepdims=True)).mean(axis=0), _rows, want=True,
    what="peeks, of a layer that takes each row's mean away and then sees all rows,",
)  # fmt: skip
future.also(
    lambda x: _tri(len(x)).T @ _normed(x), _rows, want=True,
    what="peeks, of a layer that norms its rows and has a transposed mask,",
)  # fmt: skip
future.case(
    "one row has no future", _mixed(_tri), _rows[:1], want=False, what="peeks, of a causal mean over one row,"
)


def _changed(x, at):
    changed = np.array(x, dtype=float)
    changed[at] += np.random.default_rng(5).normal(size=changed[at].shape)
    return changed


def _differs(a, b):
    return bool(not np.allclose(a, b))


future.mistake("by shape", lambda f, x: f(x).shape != x.shape)
future.mistake("the whole output", lambda f, x: _differs(f(_changed(x, -1)), f(x)))
future.mistake("the past changed", lambda f, x: _differs(f(_changed(x, 0))[1:], f(x)[1:]))
future.mistake("first row alone", lambda f, x: _differs(f(_changed(x, slice(1, None)))[0], f(x)[0]))
future.mistake("last row alone", lambda f, x: _differs(f(_changed(x, -1))[:-1], f(x)[:-1]))
future.mistake("always", lambda f, x: True)


@future.mistake("one cut")
def _one_cut(f, x):
    t = len(x) // 2
    return _differs(f(_changed(x, slice(t, None)))[:t], f(x)[:t])


@future.mistake("the same again")
def _the_same_again(f, x):
    others = np.random.default_rng(0).normal(size=x.shape)
    halves = ((t, np.concatenate([x[:t], others[t:]])) for t in range(1, len(x)))
    return any(_differs(f(changed)[:t], f(x)[:t]) for t, changed in halves)


@future.mistake("neighbour")
def _neighbour(f, x):
    return any(_differs(f(_changed(x, t))[t - 1], f(x)[t - 1]) for t in range(1, len(x)))


@future.mistake("a constant")
def _a_constant(f, x):
    rows = np.arange(len(x))[:, None]
    return any(_differs(f(x + 7.0 * (rows >= t))[:t], f(x)[:t]) for t in range(1, len(x)))


future.mistake("the other way", lambda f, x: not peeks(f, x))
