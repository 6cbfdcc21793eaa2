"""How the exercises of chapter 01, "The whole machine", are judged; their prose is in assets/exercises/01.toml.

What is right comes from a hand-worked number, from a run of a real model, or from a function whose property is known.
The axes: T tokens, D d_model, H heads, K d_head, F d_ff, V vocabulary, L blocks.
"""
# ruff: noqa: ANN001, ANN003, ANN202 - a check is read by its title, a mistake by its sentence

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from glassformer.config import ModelConfig
from glassformer.scratch import Transformer
from glassformer.trace import Trace, trace

from .catalogue import exercise


def _run(T: int, D: int, H: int, F: int, V: int, n_layers: int = 1) -> Trace:
    """What a real model of these sizes computes."""
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


of_arrays.case(
    "the book's model reads the line",
    41, 128, 4, 344, 65, want=[(4, 41, 32), (4, 41, 41), (41, 344), (41, 65)],
)  # fmt: skip
of_arrays.case(
    "GPT-2 small reads all it can",
    1024, 768, 12, 3072, 50_257, want=[(12, 1024, 64), (12, 1024, 1024), (1024, 3072), (1024, 50_257)],
)  # fmt: skip
of_arrays.case(
    "with one head, the head has all of the width", 5, 8, 1, 32, 11, want=_shapes_of_a_run(5, 8, 1, 32, 11)
)
of_arrays.case("a text of one token", 1, 12, 3, 7, 9, want=_shapes_of_a_run(1, 12, 3, 7, 9))


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
_wrong_shapes("neurons in heads", neurons=lambda T, D, H, F, V: (H, T, F))
_wrong_shapes("not widened", neurons=lambda T, D, H, F, V: (T, D))
_wrong_shapes("last row alone", logits=lambda T, D, H, F, V: (V,))
_wrong_shapes("not unembedded", logits=lambda T, D, H, F, V: (T, D))


# 2 · All numbers of a run


def count(T: int, D: int, H: int, F: int, V: int, n_layers: int) -> int:
    """How many numbers all arrays of a run hold together."""
    attention = 3 * T * D + 2 * H * T * T + 2 * T * D  # q, k, v; scores, weights; write, stream
    feedforward = T * F + 2 * T * D  # neurons; write, stream
    return T * D + n_layers * (attention + feedforward) + T * D + T * V


numbers = exercise("machine.numbers", count)

numbers.case("sizes of 1 throughout: it counts the arrays", 1, 1, 1, 1, 1, 1, want=13)
numbers.case("one block, small enough to add up by hand", 2, 4, 2, 8, 3, 1, want=110)
numbers.case("three blocks", 2, 4, 2, 8, 3, 3, want=286, being="22 outside the blocks and 3 · 88 inside")
numbers.case(
    "the book's model reads the line",
    41, 128, 4, 344, 65, 4, want=sum(seen.array.size for seen in _run(41, 128, 4, 344, 65, 4)),
)  # fmt: skip
numbers.also(64, 24, 6, 32, 65, 2, want=sum(seen.array.size for seen in _run(64, 24, 6, 32, 65, 2)))


def _ends(T, D, V):
    return 2 * T * D + T * V


numbers.mistake("one block", lambda T, D, H, F, V, L: count(T, D, H, F, V, 1))
numbers.mistake("ends repeated", lambda T, D, H, F, V, L: L * count(T, D, H, F, V, 1))
numbers.mistake("no ends", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - _ends(T, D, V))
numbers.mistake("no weights", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - L * H * T * T)
numbers.mistake("no streams", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - 2 * L * T * D)
numbers.mistake(
    "one head's pairs", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - 2 * L * (H - 1) * T * T
)
numbers.mistake(
    "each head as wide", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) + 3 * L * (H - 1) * T * D
)
numbers.mistake("no norm at the end", lambda T, D, H, F, V, L: count(T, D, H, F, V, L) - T * D)


# 3 · All work of a run


def operations(T: int, D: int, F: int, V: int, n_layers: int) -> int:
    """The multiplications and additions in all matrix products of a run, without a gate in the feed-forward network."""
    projections = 4 * (2 * T * D * D)
    pairs = 2 * (2 * T * T * D)
    feedforward = 2 * (2 * T * D * F)
    return n_layers * (projections + pairs + feedforward) + 2 * T * D * V


work = exercise("machine.operations", operations)

work.case("sizes of 1 throughout: it counts matrix products, twice", 1, 1, 1, 1, 1, want=18)
work.case(
    "one block by hand", 2, 3, 5, 7, 1, want=396, being="144 + 48 + 120 in the block, 84 for the logits"
)
work.case("two blocks", 2, 3, 5, 7, 2, want=708)
work.case(
    "GPT-2 small reads 1,024 tokens",
    1024, 768, 3072, 50_257, 12, want=291_648_307_200, being="what PyTorch counts",
)  # fmt: skip

work.mistake("multiplications alone", lambda *sizes: operations(*sizes) // 2)
work.mistake("no mixing", lambda T, D, F, V, L: operations(T, D, F, V, L) - 2 * L * T * T * D)
work.mistake("no pairs", lambda T, D, F, V, L: operations(T, D, F, V, L) - 4 * L * T * T * D)
work.mistake("no W_o", lambda T, D, F, V, L: operations(T, D, F, V, L) - 2 * L * T * D * D)
work.mistake("not back", lambda T, D, F, V, L: operations(T, D, F, V, L) - 2 * L * T * D * F)
work.mistake("with a gate", lambda T, D, F, V, L: operations(T, D, F, V, L) + 2 * L * T * D * F)
work.mistake("logits in every block", lambda T, D, F, V, L: L * operations(T, D, F, V, 1))
work.mistake("no logits", lambda T, D, F, V, L: operations(T, D, F, 0, L))


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
stack.case("without sublayers the stream comes out as it went in", _x, [], want=_x, what="run(x, [])")
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

stack.mistake("replaced", lambda x, sublayers: _folded(x, sublayers, lambda x, f: f(x)))
stack.mistake("side by side", lambda x, sublayers: x + sum((f(x) for f in sublayers), np.zeros_like(x)))
stack.mistake("backwards", lambda x, sublayers: run(x, list(sublayers)[::-1]))
stack.mistake("writes alone", lambda x, sublayers: run(x, sublayers) - x)
stack.mistake("last left out", lambda x, sublayers: run(x, sublayers[:-1]))
stack.mistake("from the start", lambda x, sublayers: _folded(x, sublayers, lambda now, f: x + f(now)))
stack.mistake("first left out", lambda x, sublayers: run(x, sublayers[1:]))


def _folded(x, sublayers, step):
    for f in sublayers:
        x = step(x, f)
    return x


# 5 · When has it made up its mind?


def agreement(views: Float[np.ndarray, "L T V"]) -> Float[np.ndarray, " L"]:
    """For each stage, the share of places where its likeliest token is that of the last stage."""
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
    "the last stage agrees with itself, everywhere",
    _views([0, 1, 2, 3]),
    want=[1.0],
    what="of one stage alone",
)
agree.case(
    "by hand: at four places, two stages agree with the last at one and at three",
    _views([0, 4, 4, 4], [0, 1, 2, 4], [0, 1, 2, 3]), want=[0.25, 0.75, 1.0], what="of three stages",
)  # fmt: skip
agree.case(
    "what counts is the last stage, not the one before",
    _views([2, 2, 0, 1, 3], [2, 2, 0, 1, 3], [1, 2, 0, 4, 4]), want=[0.4, 0.4, 1.0], what="where the last changes much",
)  # fmt: skip
agree.case(
    "it is the likeliest token that is compared, whatever its logit",
    _views([1, 1], [1, 1]) * np.array([1.0, 30.0])[:, None, None], want=[1.0, 1.0], what="where one stage is surer",
)  # fmt: skip


def _by(change):
    return lambda views: change(np.argmax(views, axis=-1))


agree.mistake("stage before", _by(lambda best: (best == np.vstack([best[:1], best[:-1]])).mean(axis=-1)))
agree.mistake("first stage", _by(lambda best: (best == best[0]).mean(axis=-1)))
agree.mistake("counted", _by(lambda best: (best == best[-1]).sum(axis=-1).astype(float)))
agree.mistake("by place", _by(lambda best: (best == best[-1]).mean(axis=0)))
agree.mistake("all or nothing", _by(lambda best: (best == best[-1]).all(axis=-1).astype(float)))
agree.mistake("one number", _by(lambda best: (best == best[-1]).mean()))
agree.mistake("disagreement", _by(lambda best: (best != best[-1]).mean(axis=-1)))
agree.mistake("wrong axis", lambda views: agreement(np.swapaxes(views, 1, 2)))
agree.mistake("logits compared", lambda views: np.isclose(views, views[-1]).mean(axis=(1, 2)))


# 6 · Does it peek?


def peeks(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "T D"]) -> bool:
    """Whether some row of f(x) changes when only rows after it are changed."""
    before = f(x)
    for t in range(len(x) - 1):
        changed = np.array(x, dtype=float)
        changed[t + 1 :] += 1 + np.arange(len(x) - t - 1)[:, None]
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


def _late(T: int) -> np.ndarray:
    """As it should be, but the last row but one sees the last."""
    weights = _tri(T)
    weights[-2:] = 1 / T
    return weights


def _early(T: int) -> np.ndarray:
    """As it should be, but the first row sees the second."""
    weights = _tri(T)
    weights[0, :2] = 1 / 2
    return weights


_rows = np.random.default_rng(3).normal(size=(6, 4))
future.case("a causal mean does not", _mixed(_tri), _rows, want=False, what="of a mean over all rows so far")
future.also(lambda x: 3 * x + 1, _rows, want=False, what="of a layer that treats every row alone")
future.case(
    "a mean over all rows does",
    _mixed(lambda T: np.full((T, T), 1 / T)),
    _rows,
    want=True,
    what="of a mean over all rows",
)
future.case(
    "a mask that is one place too generous does", _mixed(lambda T: _tri(T, 1)), _rows, want=True,
    what="of a mean over all rows so far and one more",
)  # fmt: skip
future.case(
    "a single row that peeks is enough, be it near the end", _mixed(_late), _rows, want=True,
    what="of a causal mean whose last row but one sees the last",
)  # fmt: skip
future.also(_mixed(_early), _rows, want=True, what="of a causal mean whose first row sees the second")
future.case(
    "a transposed mask does",
    _mixed(lambda T: _tri(T).T),
    _rows,
    want=True,
    what="of a mean over all rows from here on",
)
future.case(
    "one row has no future", _mixed(_tri), _rows[:1], want=False, what="of a causal mean over one row"
)


def _changed(x, at):
    changed = np.array(x, dtype=float)
    changed[at] += 7.0
    return changed


def _differs(a, b):
    return bool(not np.allclose(a, b))


future.mistake("by shape", lambda f, x: f(x).shape != x.shape)
future.mistake("the whole output", lambda f, x: _differs(f(_changed(x, -1)), f(x)))
future.mistake("the past changed", lambda f, x: _differs(f(_changed(x, 0))[1:], f(x)[1:]))
future.mistake("first row alone", lambda f, x: _differs(f(_changed(x, slice(1, None)))[0], f(x)[0]))
future.mistake("last row alone", lambda f, x: _differs(f(_changed(x, -1))[:-1], f(x)[:-1]))
future.mistake("the other way", lambda f, x: not peeks(f, x))
